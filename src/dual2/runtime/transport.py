"""The processes that hold the agents: who owns which, what travels, and how all agree."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dual2.engine.gossip_kernel import climb
from dual2.errors import CapabilityError
from dual2.network import AnyNetwork
from dual2.network.gossip import Tree
from dual2.runtime.comm_mode import SETUP, CommMode, ExactRanges, NanPolicy
from dual2.runtime.exact import Decode, Encode, ExactSums, add_on_route
from dual2.runtime.tree import (
    LEAST,
    ROOM,
    Fill,
    Route,
    combine,
    find_route,
    run_alone,
    sum_in_parts,
    sum_on_a_walk,
)

Array = np.ndarray
Messages = Mapping[int, Array]
"""Arrays by the rank of the other end."""


class Transport:
    """The processes of a run, and what travels between them: this class, one process alone.

    Everything else is the same wherever agents live, so another way to connect processes is one
    subclass: it says who owns which agents and replaces ``exchange``, ``allgather``, ``gather``,
    ``abort``, and either ``sendrecv``, the messages of which sums and maxima along the tree
    consist, or ``add_words``, ``max_levels`` and ``max`` (or ``sum``) themselves. All processes
    call these in the same order.

    Attributes
    ----------
    rank, size : int
        Number of this process, and of all.
    iterating : bool
        Whether set-up, when kernels are compiled, is over: from then on others answer soon. Set by
        :meth:`begin_setup` and :meth:`begin_iterations`.
    exact : bool
        Whether sums are formed in fixed point (:mod:`dual2.runtime.exact`) unless a call says
        otherwise; else they are rounded in the order of the tree.
    by_edge : bool
        Whether the agents of one process exchange their rows over ``exchange`` too, edge by edge.
    alike : bool
        Whether all processes are called with the same public arguments, and know it: what one is
        not given, nobody is.
    """

    rank, size = 0, 1
    iterating = exact = by_edge = alike = False

    def __init__(self) -> None:
        self._routes: WeakKeyDictionary[AnyNetwork, Route] = WeakKeyDictionary()
        self._exact_sums: ExactSums | None = None

    def owners(self, network: AnyNetwork) -> Array:
        """Rank of each agent of a network."""
        return np.zeros(network.n, np.int64)

    # -- during the run ------------------------------------------------------------------------
    def exchange(self, stage: Array, outgoing: Messages, incoming: Messages) -> Callable[[], None]:
        """A function that sends rows of ``stage``, by rank and number, and fills others."""
        return lambda: None

    @property
    def any_order(self) -> bool:
        """Whether sums are rounded in any order, so that a process may add up its own first."""
        return False

    def travel(self, network: AnyNetwork, counted: bool = True) -> Tree:
        """The spanning tree along which the next sum or maximum of one process goes."""
        return network.tree

    def sum(self, rows: Array, network: AnyNetwork, mode: CommMode = SETUP) -> Array:
        """Sum over all agents of a network, the same everywhere; ``rows`` are those of here."""
        if self.exact if mode.exact is None else mode.exact:
            self._exact_sums = self._exact_sums or ExactSums(self)
            return self._exact_sums.sum(rows, network, mode)
        if self.size == 1 and np.size(rows) > ROOM:
            return _sum_given(rows, self.travel(network, mode.counted))
        total = np.array(rows, dtype=np.float64, order="C")
        if self.size == 1:
            return sum_here(total, self.travel(network, mode.counted))
        return combine(self.route(network), np.add, total, self.sendrecv, _raises(mode))

    def add_encoded(
        self, shape: tuple[int, int], encode: Encode, decode: Decode, network: AnyNetwork
    ) -> tuple[Array, bool]:
        """Sum of the whole numbers that ``encode`` adds, as ``decode`` rounds it; if all fitted."""
        words = np.zeros(shape, np.uint64)
        words, fits = self.add_words(words, encode(words), network)
        total = np.empty(shape[0])
        decode(words, total, 0)
        return total, fits

    def add_words(self, words: Array, fits: bool, network: AnyNetwork) -> tuple[Array, bool]:
        """Sum of whole numbers (width, limbs), and whether the numbers of all fitted."""
        if self.size == 1:
            self.travel(network)
            return words, fits
        own = int(np.count_nonzero(self.owners(network) == self.rank))
        return add_on_route(self.route(network), self.sendrecv, own, words, fits)

    def max_levels(self, levels: Array, network: AnyNetwork) -> Array:
        """Largest levels of :mod:`dual2.runtime.exact` over the processes."""
        own = int(np.count_nonzero(self.owners(network) == self.rank))
        rows = np.broadcast_to(levels.astype(np.float64), (own, len(levels)))
        return self.max(rows, network).astype(np.int64)

    def max(self, rows: Array, network: AnyNetwork, mode: CommMode = SETUP) -> Array:
        """Maximum over all agents of a network."""
        if self.size == 1:
            self.travel(network, mode.counted)
            return np.max(rows, axis=0)
        total = np.array(rows, dtype=np.float64, order="C")
        return combine(self.route(network), np.maximum, total, self.sendrecv, _raises(mode))

    def sendrecv(self, outgoing: Messages, incoming: Messages, kind: str) -> None:
        """Send arrays to ranks, and fill those that come from ranks."""

    def route(self, network: AnyNetwork) -> Route:
        """The way of sums through this process, found once for each network."""
        if network not in self._routes:
            self._routes[network] = find_route(network.tree, self.owners(network), self.rank)
        return self._routes[network]

    def begin_setup(self) -> None:
        """Kernels are compiled now: others may answer late."""
        self.iterating = False

    def begin_iterations(self) -> None:
        """Set-up is over: others answer soon."""
        self.iterating = True

    # -- before and after the run --------------------------------------------------------------
    def allgather(self, own: Array, kind: str, seconds: float | None = None) -> Array:
        """Tell every process an array of one length, and hear theirs: (size, length).

        ``seconds`` is given when something has failed: how long to wait for the others, whatever
        they are waiting for themselves, before :class:`~dual2.runtime.waiting.NeighbourTimeout`.
        """
        return own[None]

    def gather(self, own: Array, kind: str) -> Array | None:
        """The arrays of all processes, one after the other, at rank 0; None elsewhere."""
        return own

    def abort(self, code: int) -> None:
        """End all processes at once."""
        raise SystemExit(code)


class Communicator:
    """All agents of a network, wherever they live.

    A maximum or a sum goes up the spanning tree and its value down again: 2·height rounds and
    2(n-1) messages, counted so whatever the processes do instead. A few numbers are agreed on
    (``agree_rounds``); arrays of p or p² numbers are summed (``sums``, whose rounds are those of
    any exchange of p-vectors).

    Parameters
    ----------
    network : Network or ChebyshevNetwork
        Its graph has the tree.
    transport : Transport
        The processes; by default this one alone.
    cold : bool
        Whether this process has no starting point.
    exact : bool, optional
        Whether sums are formed in fixed point; by default as the transport has it.

    Attributes
    ----------
    owned : ndarray of int64
        Numbers of the agents in this process, ascending.
    tree : Tree
        Along which sums and maxima travel.
    agree_rounds, agree_floats : int
        What the agreements cost so far; the numbers sent by ``allreduce_filled`` are among the
        latter.
    sums : int
        How often ``allreduce_filled`` was called.
    run : callable
        ``run(kernel, *args)`` on the threads of this process; by default there is one.
    cold : bool
        Whether nobody has a starting point, and all know it.

    Examples
    --------
    >>> from dual2.network import Network
    >>> comm = Communicator(Network([(0, 1), (1, 2)]))
    >>> comm.allreduce_sum([[1.0], [2.0], [4.0]]).tolist(), comm.agree_rounds
    ([7.0], 2)
    """

    def __init__(
        self,
        network: AnyNetwork,
        transport: Transport | None = None,
        cold: bool = False,
        exact: bool | None = None,
    ) -> None:
        self.network, self.transport = network, transport or Transport()
        self.rank, self.size = self.transport.rank, self.transport.size
        self.owners = self.transport.owners(network)
        self.owned: NDArray[np.int64] = np.flatnonzero(self.owners == self.rank)
        self.tree = network.tree
        self.agree_rounds = self.agree_floats = self.sums = 0
        self._room, self.run, self.cold = np.empty(0), run_alone, cold
        self.exact = self.transport.exact if exact is None else exact
        self.mode = CommMode(exact=self.exact)

    def allreduce_filled(
        self, width: int, fill: Fill, sent: int | None = None, least: int = LEAST
    ) -> Array:
        """Exact sum over the agents of one array each: the verb of methods over sums.

        ``fill(rows, out)`` writes the arrays of the agents in places ``rows`` of this process into
        the rows of ``out``, for some agents at a time where there are many, ``least`` at least.
        What they write must depend on the agent alone. Everybody gets the same bits, in one process
        or in several. What is counted are the ``sent`` numbers, if arrays are shorter because zeros
        are left out.

        Examples
        --------
        >>> from dual2.network import Network
        >>> comm = Communicator(Network([(0, 1), (1, 2)]))
        >>> def fill(rows, out):
        ...     out[:] = rows[:, None] + [1.0, 10.0]
        >>> comm.allreduce_filled(2, fill).tolist(), comm.sums
        ([6.0, 33.0], 1)
        """
        counted = self.mode.counted
        self.sums += counted
        numbers = width if sent is None else sent
        self.agree_floats += 2 * (self.network.n - 1) * numbers * counted
        count, transport = len(self.owned), self.transport
        here = self.size == 1 and not self.exact
        tree = transport.travel(self.network, counted) if here else self.tree
        if here and count * width > ROOM:
            return sum_on_a_walk(width, fill, tree, ROOM, self.run, least)
        if transport.any_order and not self.exact and count * width > ROOM:
            own = sum_in_parts(width, fill, count, ROOM)
            return transport.sum(own[None], self.network, self.mode)
        if self._room.size < count * width:
            self._room = np.empty(count * width)
        rows = self._room[: count * width].reshape(count, width)
        fill(np.arange(count), rows)
        return sum_here(rows, tree) if here else transport.sum(rows, self.network, self.mode)

    def allreduce_sum(self, rows: ArrayLike) -> Array:
        """Sum over the agents, column by column; (rows, m) to (m,)."""
        return self.transport.sum(self._counted(rows), self.network, self.mode)

    def allreduce_max(self, rows: ArrayLike) -> Array:
        """Largest value over the agents, column by column; (rows, m) to (m,)."""
        return self.transport.max(self._counted(rows), self.network, self.mode)

    @contextmanager
    def _using(self, mode: CommMode) -> Iterator[None]:
        """Reductions of this mode for a while; the transport stays as it is."""
        before, self.mode = self.mode, mode
        try:
            yield
        finally:
            self.mode = before

    def uncounted(self) -> AbstractContextManager[None]:
        """Reductions that serve an observer, a trace for instance.

        Examples
        --------
        >>> from dual2.network import Network
        >>> comm = Communicator(Network([(0, 1)]))
        >>> with comm.uncounted():
        ...     total = comm.allreduce_sum([[1.0], [2.0]])
        >>> total.tolist(), comm.agree_rounds
        ([3.0], 0)
        """
        return self._using(replace(self.mode, counted=False))

    @contextmanager
    def counted_if_finished(self) -> Iterator[None]:
        """Sums within which an error ends the work count as if they had never begun."""
        before = self.sums, self.agree_floats
        try:
            yield
        except BaseException:
            self.sums, self.agree_floats = before
            raise

    def iterating(self) -> AbstractContextManager[None]:
        """Reductions of the iterations: NaN is an error, exact sums reuse their ranges."""
        self.transport.begin_iterations()
        reuse = {"nan_policy": NanPolicy.RAISE, "exact_ranges": ExactRanges.REUSE}
        return self._using(replace(self.mode, **reuse))

    def from_zero(self) -> AbstractContextManager[None]:
        """Reductions while a method begins, where nobody has a starting point if all know it."""
        return self._using(replace(self.mode, from_zero=self.cold))

    def _counted(self, rows: ArrayLike) -> Array:
        values = np.asarray(rows, dtype=np.float64)
        if self.mode.counted:
            self.agree_rounds += 2 * self.tree.height
            self.agree_floats += 2 * (self.network.n - 1) * values.shape[1]
        return values


def _raises(mode: CommMode) -> bool:
    """Whether NaN is an error."""
    return mode.nan_policy is NanPolicy.RAISE


def sum_here(total: Array, tree: Tree) -> Array:
    """The sum in the order of the tree where all agents are here; ``total`` is used up."""
    climb(total, *tree.upwards)
    return total[tree.root].copy()


def _sum_given(rows: Array, tree: Tree) -> Array:
    """The same without a copy of all rows."""

    def fill(part: Array, out: Array) -> None:
        out[:] = rows[part]

    return sum_on_a_walk(rows.shape[1], fill, tree, ROOM, run_alone)


@cache
def _whole_job() -> Transport:
    """The processes of the MPI job that this one belongs to, set up once."""
    from dual2.runtime.mpi import Mpi

    return Mpi()


def find_transport(runtime: Any, sums: str | None = None) -> Transport:
    """``"stacked"``, ``"mpi"`` or a :class:`Transport` such as :class:`dual2.runtime.mpi.Mpi`.

    ``sums`` is ``"tree"``, ``"exact"``, or None: as the transport is made, else ``"tree"``. What
    the caller has made stays as it is; :func:`find_communicator` knows how to form its sums.

    Examples
    --------
    >>> find_transport("stacked").size, find_transport("stacked", "exact").exact
    (1, True)
    """
    if sums not in (None, "tree", "exact"):
        raise CapabilityError(f"sums={sums!r} is unknown; use 'tree' or 'exact'.")
    if runtime == "stacked":
        found = Transport()
        found.exact = sums == "exact"
        return found
    if runtime == "mpi":
        return _whole_job()
    if isinstance(runtime, Transport):
        return runtime
    raise CapabilityError(f"runtime={runtime!r} is unknown; use 'stacked' or 'mpi'.")


def find_communicator(
    network: AnyNetwork, runtime: Any, sums: str | None = None, cold: bool = False
) -> Communicator:
    """All agents of a network over a :func:`find_transport`, with sums as they are wanted.

    Examples
    --------
    >>> from dual2.network import Network
    >>> given = Transport()
    >>> find_communicator(Network([(0, 1)]), given, "exact").exact, given.exact
    (True, False)
    """
    transport = find_transport(runtime, sums)
    return Communicator(network, transport, cold, None if sums is None else sums == "exact")
