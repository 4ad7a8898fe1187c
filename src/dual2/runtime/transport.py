"""What carries rows between the processes that hold the agents; sums and maxima over all agents."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike

from dual2.engine.tree import climb
from dual2.errors import CapabilityError
from dual2.network import ChebyshevNetwork, Network
from dual2.network.tree import Tree
from dual2.runtime.tree import Route, combine, find_route

Array = np.ndarray
AnyNetwork = Network | ChebyshevNetwork
Messages = Mapping[int, Array]
"""Arrays by the rank of the other end."""
_MANY = 10_000
"""Entries from which a compiled sum is faster than NumPy's."""


class Transport:
    """The processes of a run, and what travels between them: this class, one process alone.

    Everything else is the same wherever agents live, so another way to connect processes is one
    subclass: it says who owns which agents and replaces ``exchange``, ``everyone``, ``collect``,
    ``abort``, and either ``swap``, the messages of which sums and maxima along the tree consist, or
    ``sum`` and ``max`` themselves. All processes call these in the same order.

    Attributes
    ----------
    rank, size : int
        Number of this process, and of all.
    settled : bool
        Whether set-up, when kernels are compiled, is over: from then on others answer soon.
    """

    rank, size = 0, 1
    settled = False

    def __init__(self) -> None:
        self._routes: WeakKeyDictionary[AnyNetwork, Route] = WeakKeyDictionary()

    def owners(self, network: AnyNetwork) -> Array:
        """Rank of each agent of a network."""
        return np.zeros(network.n, np.int64)

    # -- during the run ------------------------------------------------------------------------
    def exchange(self, stage: Array, outgoing: Messages, incoming: Messages) -> Callable[[], None]:
        """A function that sends rows of ``stage``, by rank and number, and fills others."""
        return lambda: None

    def sum(self, rows: Array, network: AnyNetwork) -> Array:
        """Sum over all agents of a network, the same everywhere; ``rows`` are those of here."""
        total = np.array(rows, dtype=np.float64, order="C")
        if self.size == 1:
            return _sum_here(total, network.tree)
        return combine(self.route(network), np.add, total, self.swap)

    def max(self, rows: Array, network: AnyNetwork) -> Array:
        """Maximum over all agents of a network."""
        if self.size == 1:
            return np.max(rows, axis=0)
        total = np.array(rows, dtype=np.float64, order="C")
        return combine(self.route(network), np.maximum, total, self.swap)

    def swap(self, outgoing: Messages, incoming: Messages, kind: str) -> None:
        """Send arrays to ranks, and fill those that come from ranks."""

    def route(self, network: AnyNetwork) -> Route:
        """The way of sums through this process, found once for each network."""
        if network not in self._routes:
            self._routes[network] = find_route(network.tree, self.owners(network), self.rank)
        return self._routes[network]

    # -- before and after the run --------------------------------------------------------------
    def everyone(self, own: Array, kind: str, seconds: float | None = None) -> Array:
        """Tell every process an array of one length, and hear theirs: (size, length).

        ``seconds`` is given when something has failed: how long to wait for the others, whatever
        they are waiting for themselves, before :class:`~dual2.runtime.waiting.NeighbourTimeout`.
        """
        return own[None]

    def collect(self, own: Array, kind: str) -> Array | None:
        """The arrays of all processes, one after the other, at rank 0; None elsewhere."""
        return own

    def abort(self, code: int) -> None:
        """End all processes at once."""
        raise SystemExit(code)


def _sum_here(total: Array, tree: Tree) -> Array:
    """The sum in the order of the tree where all agents are here; ``total`` is used up."""
    if total.size >= _MANY and tree.levels:
        children = np.concatenate(tree.levels)
        climb(total, children, tree.parent[children])
    else:
        for children in tree.levels:
            np.add.at(total, tree.parent[children], total[children])
    return total[tree.root].copy()


class Agreement:
    """All agents of a network, wherever they live.

    A maximum or a sum goes up the spanning tree and its value down again: 2·height rounds and
    2(n-1) messages, counted so whatever the processes do instead.

    Parameters
    ----------
    network : Network or ChebyshevNetwork
        Its graph has the tree.
    transport : Transport
        The processes; by default this one alone.

    Attributes
    ----------
    owned : ndarray of int64
        Numbers of the agents in this process, ascending.
    agree_rounds, agree_floats : int
        What the agreements cost so far.

    Examples
    --------
    >>> agreement = Agreement(Network([(0, 1), (1, 2)]))
    >>> agreement.total([[1.0], [2.0], [4.0]]).tolist(), agreement.agree_rounds
    ([7.0], 2)
    """

    def __init__(self, network: AnyNetwork, transport: Transport | None = None) -> None:
        self.network, self.transport = network, transport or Transport()
        self.rank, self.size = self.transport.rank, self.transport.size
        self.owners = self.transport.owners(network)
        self.owned: Array = np.flatnonzero(self.owners == self.rank)
        self.agree_rounds = self.agree_floats = 0
        self._counting = True

    def total(self, rows: ArrayLike) -> Array:
        """Sum over the agents, column by column; (rows, m) to (m,)."""
        return self.transport.sum(self._counted(rows), self.network)

    def largest(self, rows: ArrayLike) -> Array:
        """Largest value over the agents, column by column; (rows, m) to (m,)."""
        return self.transport.max(self._counted(rows), self.network)

    def begin(self) -> None:
        """Everything is compiled: from now on the others are expected to answer soon."""
        self.transport.settled = True

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        """For what serves the observer alone, a trace for instance."""
        before, self._counting = self._counting, False
        try:
            yield
        finally:
            self._counting = before

    def _counted(self, rows: ArrayLike) -> Array:
        values = np.asarray(rows, dtype=np.float64)
        if self._counting:
            self.agree_rounds += 2 * self.network.tree.height
            self.agree_floats += 2 * (self.network.n - 1) * values.shape[1]
        return values


@cache
def _whole_job() -> Transport:
    """The processes of the MPI job that this one belongs to, set up once."""
    from dual2.runtime.mpi import Mpi

    return Mpi()


def find_transport(runtime: Any) -> Transport:
    """``"stacked"``, ``"mpi"`` or a :class:`Transport` such as :class:`dual2.runtime.mpi.Mpi`.

    Examples
    --------
    >>> find_transport("stacked").size
    1
    """
    if runtime == "stacked":
        return Transport()
    if runtime == "mpi":
        return _whole_job()
    if isinstance(runtime, Transport):
        return runtime
    raise CapabilityError(f"runtime={runtime!r} is unknown; use 'stacked' or 'mpi'.")
