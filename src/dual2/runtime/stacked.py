"""A block of agents in one process: packed arrays, exchange, agreement."""

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
from dual2.runtime.share import share_of

Array = np.ndarray


class Stacked:
    """The rows of all agents, what they exchange, and what that costs.

    ``mix`` is 𝐂V on the owned rows; ``agree_max`` and ``agree_sum`` reduce over all agents, see
    :class:`~dual2.runtime.circle.Circle`.

    Parameters
    ----------
    problem : Problem
        What the agents know.
    network : Network or ChebyshevNetwork
        Who talks to whom.
    smooth : Function, optional
        A dual term that enters by its gradient beside h*, for saddle problems.

    Attributes
    ----------
    n, p : int
        Rows of the block (``problem.n`` is the number of all agents) and their length.
    neighbours : tuple of arrays
        CSR arrays of the edge weights between the rows of the block and their neighbours.
    links : ndarray or slice
        Which of the network's own ``neighbours`` these are.
    """

    def __init__(
        self, problem: Problem, network: Network | ChebyshevNetwork, smooth: Function | None = None
    ) -> None:
        self.problem, self.network = share_of(problem, network), network
        self.circle = self.problem.agreement
        self.packed = packing.pack(self.problem, smooth)
        self.n, self.p = self.packed.n, self.packed.p
        self.recurrence = _recurrence(network)
        self._connect()

    def _connect(self) -> None:
        """Set what the exchange needs: neighbours, links, buffers and team."""
        self.neighbours, self.links = self.network.neighbours, slice(None)
        deep = self.recurrence.shape[0] > 1
        self.buffers = np.zeros((3, self.n, self.p) if deep else (3, 1, 1))
        work = self.packed.work + 3.0 * self.neighbours[1].size * self.p * self.network.rounds
        self.team = Team(1 if self.packed.has_callbacks else choose_threads(work))

    def run(self, kernel: Callable[..., Any], *args: Any) -> Any:
        """Run a kernel on the team; errors of user functions and of the exchange surface here."""
        answer = self.team.run(kernel, *args)
        self.packed.door.check()
        return answer

    def part(self, thread: int, threads: int) -> tuple[int, int]:
        """First and last row of a thread."""
        return self.n * thread // threads, self.n * (thread + 1) // threads

    # -- exchange -------------------------------------------------------------------------
    def mix(self, rows: Array) -> Array:
        """𝐂 rows, or P_K(𝐂) rows: ``network.rounds`` exchanges with the neighbours."""
        rows = np.ascontiguousarray(rows)
        out = np.empty_like(rows)
        self.run(self._mix, rows, out)
        return out

    def _mix(self, rows: Array, out: Array, thread: int, threads: int, barrier: Array) -> None:
        arrays = (*self.neighbours, self.recurrence, rows[None], 0, out[None], 0, self.buffers)
        mix(*self.part(thread, threads), *arrays, thread, threads, barrier)

    # -- agreement ------------------------------------------------------------------------
    def agree_max(self, values: Array) -> Array:
        """Largest value over the agents, column by column; (n, m) to (m,)."""
        return self.circle.agree_max(values)

    def agree_sum(self, values: Array) -> Array:
        """Sum over the agents, column by column, in the order of the tree; (n, m) to (m,)."""
        return self.circle.agree_sum(values)

    @property
    def agree_rounds(self) -> int:
        """Exchanges of the agreements so far."""
        return self.circle.agree_rounds

    @property
    def agree_floats(self) -> int:
        """Numbers sent for the agreements so far, by all agents."""
        return self.circle.agree_floats

    def anywhere(self, values: Array) -> bool:
        """Whether some entry is not zero, here or in another process; not counted."""
        return bool(self.most(np.array([np.any(values)]))[0])

    def most(self, values: Array) -> Array:
        """Largest values over the processes; for what serves the observer, not counted."""
        if self.circle.size == 1:
            return values
        rows = np.broadcast_to(np.asarray(values, dtype=np.float64), (self.n, len(values)))
        with self.circle.uncounted():
            return self.circle.agree_max(rows)

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
