"""All agents in one process: the block is the whole problem, the exchange a compiled product."""

from collections.abc import Callable
from typing import Any

import numpy as np

from dual2.engine import pack as packing
from dual2.engine.gossip import mix
from dual2.engine.residual import adjoints, products, stationarity_rows
from dual2.engine.threads import Team, choose_threads
from dual2.functions import Function
from dual2.network import ChebyshevNetwork, Network
from dual2.problem import Problem

Array = np.ndarray


class Stacked:
    """The rows of all agents, what they exchange, and what that costs.

    ``mix`` is 𝐂V on the owned rows; ``agree_max`` and ``agree_sum`` reduce over all agents along
    a spanning tree (up and down again: 2·height rounds, 2(n-1) messages), in an order that depends
    on the tree alone.

    Parameters
    ----------
    problem : Problem
        What the agents know.
    network : Network or ChebyshevNetwork
        Who talks to whom.
    smooth : Function, optional
        A dual term that enters by its gradient beside h*, for saddle problems.
    """

    def __init__(
        self, problem: Problem, network: Network | ChebyshevNetwork, smooth: Function | None = None
    ) -> None:
        self.problem, self.network = problem, network
        self.packed = packing.pack(problem, smooth)
        self.n, self.p = self.packed.n, self.packed.p
        self.neighbours = network.neighbours
        self.recurrence = _recurrence(network)
        deep = self.recurrence.shape[0] > 1
        self.buffers = np.zeros((3, self.n, self.p) if deep else (3, 1, 1))
        links = self.neighbours[1].size
        work = self.packed.work + 3.0 * links * self.p * network.rounds
        self.team = Team(1 if self.packed.has_callbacks else choose_threads(work))
        self.agree_rounds = 0
        self.agree_floats = 0

    # -- exchange -------------------------------------------------------------------------
    def mix(self, rows: Array) -> Array:
        """𝐂 rows, or P_K(𝐂) rows: ``network.rounds`` exchanges with the neighbours."""
        rows = np.ascontiguousarray(rows)
        out = np.empty_like(rows)
        self.team.run(self._mix, rows, out)
        return out

    def _mix(self, rows: Array, out: Array, thread: int, threads: int, barrier: Array) -> None:
        first, last = self.n * thread // threads, self.n * (thread + 1) // threads
        arrays = (*self.neighbours, self.recurrence, rows[None], 0, out[None], 0, self.buffers)
        mix(first, last, *arrays, thread, threads, barrier)

    # -- agreement ------------------------------------------------------------------------
    def agree_max(self, values: Array) -> Array:
        """Largest value over the agents, column by column; (n, m) to (m,)."""
        self._count(values.shape[1])
        return values.max(axis=0)

    def agree_sum(self, values: Array) -> Array:
        """Sum over the agents, column by column, in the order of the tree; (n, m) to (m,)."""
        self._count(values.shape[1])
        total = np.array(values, dtype=np.float64)
        tree = self.network.tree
        for children in tree.levels:
            np.add.at(total, tree.parent[children], total[children])
        return total[tree.root].copy()

    def _count(self, scalars: int) -> None:
        self.agree_rounds += 2 * self.network.tree.height
        self.agree_floats += 2 * (self.n - 1) * scalars

    # -- local evaluations ----------------------------------------------------------------
    def call(self, kernel: Callable[..., Any], *args: Any) -> None:
        """Run a kernel on the packed arrays; errors of user functions surface here."""
        kernel(*self.packed.local, *self.packed.doorway, *args)
        self.packed.door.check()

    def stationarity(self, x: Array, dual: Array) -> Array:
        """(n, 3): residual, |∇f_i| and |A_iᵀλ| per agent; see ``stationarity_rows``."""
        out = np.empty((self.n, 3))
        self.call(stationarity_rows, x, np.ascontiguousarray(np.atleast_2d(dual)), out)
        return out

    def products(self, x: Array) -> Array:
        """(n, p): A_i x_i."""
        out = np.empty((self.n, self.p))
        self.call(products, x, out)
        return out

    def adjoints(self, rows: Array) -> Array:
        """Flat vector of the A_iᵀ rows_i."""
        out = np.empty(self.packed.size)
        self.call(adjoints, rows, out)
        return out


def _recurrence(network: Network | ChebyshevNetwork) -> Array:
    """Rows (a_k, b_k, c_k) for the compiled exchange: (1, 0, 1) for C itself."""
    if isinstance(network, Network):
        return np.array([[1.0, 0.0, 1.0]])
    rows = np.vstack([[1.0, 0.0], network.recurrence])
    return np.column_stack([rows, np.full(len(rows), network.scaling)])
