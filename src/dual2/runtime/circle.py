"""Who agrees: maxima and sums over all agents, along a spanning tree of the public graph."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from dual2.engine.tree import climb
from dual2.network import ChebyshevNetwork, Network

Array = np.ndarray
_MANY = 10_000
"""Entries from which a compiled sum is faster than NumPy's."""


class Circle:
    """All agents of a network, in this process.

    A maximum or a sum goes up the tree and its value down again: 2·height rounds and 2(n-1)
    messages, in an order that depends on the tree alone.

    Parameters
    ----------
    network : Network or ChebyshevNetwork
        Its graph has the tree.

    Attributes
    ----------
    owned : ndarray of int64
        Numbers of the agents in this process, ascending.
    rank, size : int
        Number of this process, and of all.
    agree_rounds, agree_floats : int
        What the agreements cost so far.

    Examples
    --------
    >>> circle = Circle(Network([(0, 1), (1, 2)]))
    >>> circle.agree_sum(np.array([[1.0], [2.0], [4.0]])).tolist(), circle.agree_rounds
    ([7.0], 2)
    """

    rank, size = 0, 1

    def __init__(self, network: Network | ChebyshevNetwork) -> None:
        self.tree, self.n = network.tree, network.n
        self.owned: Array = np.arange(network.n)
        self.agree_rounds = self.agree_floats = 0
        self._counting = True

    def agree_max(self, values: Array) -> Array:
        """Largest value over the agents, column by column; (rows, m) to (m,)."""
        self._count(values.shape[1])
        return self._combine(np.maximum, np.array(values, dtype=np.float64, order="C"))

    def agree_sum(self, values: Array) -> Array:
        """Sum over the agents, column by column, in the order of the tree; (rows, m) to (m,)."""
        self._count(values.shape[1])
        return self._combine(np.add, np.array(values, dtype=np.float64, order="C"))

    def begin(self) -> None:
        """Everything is compiled: from now on the others are expected to answer soon."""

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        """For what serves the observer alone, a trace for instance."""
        before, self._counting = self._counting, False
        try:
            yield
        finally:
            self._counting = before

    def _count(self, scalars: int) -> None:
        if self._counting:
            self.agree_rounds += 2 * self.tree.height
            self.agree_floats += 2 * (self.n - 1) * scalars

    def _combine(self, operation: np.ufunc, total: Array) -> Array:
        """Up the tree; ``total`` has the rows of the owned agents and is used up."""
        if operation is np.maximum:
            return total.max(axis=0)
        tree = self.tree
        if total.size >= _MANY and tree.levels:
            children = np.concatenate(tree.levels)
            climb(total, children, tree.parent[children])
        else:
            for children in tree.levels:
                operation.at(total, tree.parent[children], total[children])
        return total[tree.root].copy()
