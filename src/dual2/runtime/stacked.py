"""A block of agents in one process: packed arrays, exchange, agreement."""

from collections.abc import Callable
from typing import Any

import numpy as np

from dual2.engine import pack as packing
from dual2.engine.gossip import Links, mix
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
    block : Block
        What the agents know, for kernels.
    links : Links
        The edges between the rows of the block and their neighbours, for kernels.
    edges : ndarray or slice
        Which of the network's own ``neighbours`` these are.
    """

    def __init__(
        self, problem: Problem, network: Network | ChebyshevNetwork, smooth: Function | None = None
    ) -> None:
        self.problem, self.network = share_of(problem, network), network
        self.circle = self.problem.agreement
        self.packed = packing.pack(self.problem, smooth)
        self.block = self.packed.block
        self.n, self.p = self.packed.n, self.packed.p
        self._connect()

    def _connect(self) -> None:
        """Set what the exchange needs: links, edges and team."""
        recurrence = recurrence_rows(self.network)
        buffers = np.zeros((3, self.n, self.p) if len(recurrence) > 1 else (3, 1, 1))
        self.links = Links(*self.network.neighbours, recurrence, buffers)
        self.edges: Array | slice = slice(None)
        work = self.packed.work + 3.0 * self.links.nidx.size * self.p * self.network.rounds
        self.team = Team(1 if self.packed.has_callbacks else choose_threads(work))

    def run(self, kernel: Callable[..., Any], *args: Any) -> Any:
        """Run ``kernel(*args, member)`` on the team.

        Errors of user functions and of the exchange surface here.
        """
        answer = self.team.run(kernel, *args)
        self.packed.callbacks.check()
        return answer

    # -- exchange -------------------------------------------------------------------------
    def mix(self, rows: Array) -> Array:
        """𝐂 rows, or P_K(𝐂) rows: ``network.rounds`` exchanges with the neighbours."""
        rows = np.ascontiguousarray(rows)
        out = np.empty_like(rows)
        self.run(mix, self.links, rows, out)
        return out

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
        """Run ``kernel(block, *args)``; errors of user functions surface here."""
        kernel(self.block, *args)
        self.packed.callbacks.check()

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


def recurrence_rows(network: Network | ChebyshevNetwork) -> Array:
    """Rows (a_k, b_k, c_k) for the compiled exchange: (1, 0, 1) for C itself."""
    if isinstance(network, Network):
        return np.array([[1.0, 0.0, 1.0]])
    rows = np.vstack([[1.0, 0.0], network.recurrence])
    return np.column_stack([rows, np.full(len(rows), network.scaling)])
