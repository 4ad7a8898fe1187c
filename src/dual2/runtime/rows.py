"""The rows of the agents of this process: packed arrays, exchange, agreement."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from dual2.engine import pack as packing
from dual2.engine.callbacks import SHIP, Callbacks
from dual2.engine.gossip_kernel import STAGE, Links, mix_rows
from dual2.engine.packed_args import PackedArgs
from dual2.engine.residual_kernel import (
    Bounds,
    adjoints,
    agent_ratios,
    products,
    sizes,
    stationarity_rows,
)
from dual2.engine.threads import BARRIER, EXCHANGE, TeamMember
from dual2.functions import Function
from dual2.network import AnyNetwork, Network
from dual2.problem import Problem
from dual2.problem.screening import Local
from dual2.runtime.edges import Guard, every_edge, own_edges
from dual2.runtime.share import local_problem

Array = np.ndarray
WORTH = 1.0e5
"""Multiply-adds per iteration (about 100 µs) from which a second thread pays."""


class Runtime:
    """One row per agent of this process, what they exchange, and what that costs.

    A method's text is row-wise but for three verbs: ``mix`` is 𝐂V on the rows of this process,
    ``allreduce_sum`` (of a few numbers; of arrays ``allreduce_filled``) and ``allreduce_max``
    reduce over all agents, see :class:`~dual2.runtime.Communicator`.

    Parameters
    ----------
    problem : Problem
        What the agents know: a share of this process, else all of them are here.
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
        self, problem: Problem, network: AnyNetwork, smooth: Function | None = None
    ) -> None:
        self.problem, self.network = local_problem(problem, network), network
        self.comm = self.problem.comm
        self.allreduce_sum, self.allreduce_max = self.comm.allreduce_sum, self.comm.allreduce_max
        self.allreduce_filled = self.comm.allreduce_filled
        self.packed = packed = packing.pack(self.problem, smooth)
        self.block, self.n, self.p = packed.block, packed.n, packed.p
        self.callbacks = packed.callbacks
        self._connect(packed.work, alone=packed.callbacks is not None)
        self.comm.run = self.team.run

    def _connect(self, work: float, alone: bool) -> None:
        """Set what the exchange needs: links, edges and team, of one thread if ``alone``."""
        recurrence, comm = _recurrence(self.network), self.comm
        if comm.size > 1 or comm.transport.by_edge:
            self._connect_by_messages(recurrence, alone)
            return
        buffers = np.zeros((3, self.n, self.p) if len(recurrence) > 1 else (3, 1, 1))
        self.links = Links(*self.network.neighbours, recurrence, buffers)
        self.edges: Array | slice = slice(None)
        work += 3.0 * self.links.nidx.size * self.p * self.network.rounds
        self.team = Team(1 if alone else choose_threads(work))

    def _connect_by_messages(self, recurrence: Array, alone: bool) -> None:
        """Neighbours elsewhere are ghost rows of the stage.

        Before the compiled loops take differences they call back, and the transport exchanges the
        rows that neighbours need.
        """
        owners, rank = self.comm.owners, self.comm.rank
        alike = self.comm.transport.by_edge
        found = every_edge(self.network) if alike else own_edges(self.network, owners, rank)
        self.edges = found.edges
        buffers = np.zeros((3, self.n + len(found.ghosts), self.p))
        self.links = Links(*found.neighbours, recurrence, buffers)
        threads = choose_threads(0.0) if "DUAL2_THREADS" in os.environ and not alone else 1
        self.callbacks = callbacks = self.callbacks or Callbacks()
        exchange = self.comm.transport.exchange
        ship = exchange(buffers[STAGE], found.outgoing, found.incoming)
        guard = Guard(buffers[STAGE], found.ghosts, owners)
        callbacks.add(SHIP, 0, lambda: (ship(), guard.check()))
        self.team = Team(threads, callbacks.address)

    def run(self, kernel: Callable[..., Any], *args: Any) -> Any:
        """Run ``kernel(*args, member)`` on the team.

        Errors of user functions and of the exchange surface here.
        """
        answer = self.team.run(kernel, *args)
        if self.callbacks is not None:
            self.callbacks.check()
        return answer

    # -- exchange -------------------------------------------------------------------------
    def mix(self, rows: Array) -> Array:
        """𝐂 rows, or P_K(𝐂) rows: ``network.rounds`` exchanges with the neighbours."""
        rows = np.ascontiguousarray(rows)
        out = np.empty_like(rows)
        self.run(mix_rows, self.links, rows, out)
        return out

    # -- agreement ------------------------------------------------------------------------
    def anywhere(self, values: Array) -> bool:
        """Whether some entry is not zero, here or in another process; not counted."""
        return self.which(values)[0]

    def which(self, *values: Array) -> list[bool]:
        """Of each array whether some entry is not zero, here or in another process; not counted.

        Nobody is asked where all know that they begin from nothing.
        """
        here = np.array([np.any(one) for one in values], dtype=float)
        cold = self.comm.mode.from_zero
        return [bool(mark) for mark in (here if cold else self.most(here))]

    def most(self, values: Array) -> Array:
        """Largest values over the processes; for what serves the observer, not counted."""
        if self.comm.size == 1:
            return values
        with self.comm.uncounted():
            return self.allreduce_max(np.broadcast_to(values, (self.n, len(values))))

    # -- local evaluations ----------------------------------------------------------------
    def call(self, kernel: Callable[..., Any], *args: Any) -> None:
        """Run ``kernel(block, *args)``; errors of user functions surface here."""
        kernel(*self.team.pack(kernel, (self.block, *args)))
        if self.callbacks is not None:
            self.callbacks.check()

    def stationarity(self, x: Array, dual: Array) -> Local:
        """What each agent knows of its own optimality at (x_i, λ_i)."""
        return Local(*self._stationarity(x, np.ascontiguousarray(np.atleast_2d(dual))).T)

    def judge(self, x: Array, dual: Array, bounds: Bounds) -> Array:
        """(n, 2): ratio and force φ_i of each agent, :func:`dual2.problem.screening.judge_agents`.

        What is no number has an infinite ratio.
        """
        dual, out = np.ascontiguousarray(np.atleast_2d(dual)), np.empty((self.n, 2))
        self.call(agent_ratios, bounds, self._stationarity(x, dual), dual, out)
        return out

    def _stationarity(self, x: Array, dual: Array) -> Array:
        out = np.empty((self.n, len(Local._fields)))
        self.call(stationarity_rows, x, dual, out)
        return out

    def products(self, x: Array) -> Array:
        """(n, p): A_i x_i."""
        out = np.empty((self.n, self.p))
        self.call(products, x, out)
        return out

    def loads(self, x: Array) -> tuple[Array, Array]:
        """(n, p) twice: A_i x_i, and |A_i||x_i| of which that is made."""
        products, out = self.products(x), np.empty((self.n, self.p))
        self.call(sizes, x, products, out)
        return products, out

    def adjoints(self, rows: Array) -> Array:
        """Flat vector of the A_iᵀ rows_i."""
        out = np.empty(self.packed.size)
        self.call(adjoints, rows, out)
        return out


def choose_threads(work: float) -> int:
    """Threads for an iteration of ``work`` multiply-adds: one below ``WORTH``.

    ``DUAL2_THREADS`` overrides it; the default never takes more threads than cores.

    Examples
    --------
    >>> choose_threads(100.0)
    1
    """
    asked = os.environ.get("DUAL2_THREADS")
    if asked:
        return max(1, int(asked))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    return int(max(1, min(cores, 8, work // WORTH + 1 if work >= WORTH else 1)))


class Team:
    """Runs ``kernel(..., member)`` on a number of threads.

    Tuples are packed, see :mod:`dual2.engine.packed_args`. The last tuples of each kernel are kept,
    since most kernels get the same ones again and again.

    Parameters
    ----------
    threads : int
        How many.
    exchange : int
        Address of the callbacks by which the first of them exchanges rows with other processes.

    Examples
    --------
    >>> Team(1).run(lambda x, member: x + member.threads, 4)
    5
    """

    def __init__(self, threads: int, exchange: int = 0) -> None:
        self.threads = threads
        barrier = np.zeros(BARRIER, dtype=np.int64)
        barrier[EXCHANGE] = exchange
        self._members = [
            PackedArgs(TeamMember(thread, threads, barrier)) for thread in range(threads)
        ]
        self._pool = ThreadPoolExecutor(threads - 1) if threads > 1 else None
        self._packed: dict[Any, dict[int, PackedArgs]] = {}

    @property
    def member(self) -> PackedArgs:
        """The first thread, as kernels are told of it."""
        return self._members[0]

    def run(self, kernel: Callable[..., Any], *args: Any) -> Any:
        """Run the kernel on all threads and return the first thread's answer."""
        (first, *rest), args = self._members, self.pack(kernel, args)
        if self._pool is None:
            return kernel(*args, first)
        others = [self._pool.submit(kernel, *args, member) for member in rest]
        answer = kernel(*args, first)
        for other in others:
            other.result()
        return answer

    def pack(self, kernel: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments of a call, with every tuple packed."""
        earlier, packed = self._packed.setdefault(kernel, {}), list(args)
        for k, one in enumerate(args):
            if isinstance(one, tuple):
                if k not in earlier or earlier[k].given is not one:
                    earlier[k] = self.packed(one)
                packed[k] = earlier[k]
        return tuple(packed)

    def packed(self, given: tuple[Any, ...]) -> PackedArgs:
        """A packed tuple, which another kernel may have had already."""
        for earlier in self._packed.values():
            for args in earlier.values():
                if args.given is given:
                    return args
        return PackedArgs(given)


def _recurrence(network: AnyNetwork) -> Array:
    """Rows (a_k, b_k, c_k) for the compiled exchange: (1, 0, 1) for C itself."""
    if isinstance(network, Network):
        return np.array([[1.0, 0.0, 1.0]])
    rows = np.vstack([[1.0, 0.0], network.recurrence])
    return np.column_stack([rows, np.full(len(rows), network.scaling)])
