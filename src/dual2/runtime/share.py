"""The part of a problem that belongs to one process, and how all processes agree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dual2.errors import CapabilityError, NetworkError, ProblemError
from dual2.functions import Function, as_function
from dual2.network import AnyNetwork
from dual2.problem import Agent, Problem
from dual2.runtime.transport import Transport, sum_here
from dual2.runtime.tree import LEAST, ROOM, Fill, run_alone, sum_in_parts, sum_on_a_walk

Vector = NDArray[np.float64]


class Agreement:
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

    Attributes
    ----------
    owned : ndarray of int64
        Numbers of the agents in this process, ascending.
    agree_rounds, agree_floats : int
        What the agreements cost so far; the numbers sent by ``total_of`` are among the latter.
    sums : int
        How often ``total_of`` was called.
    run : callable
        ``run(kernel, *args)`` on the threads of this process; by default there is one.
    cold : bool
        Whether nobody has a starting point, and all know it.

    Examples
    --------
    >>> from dual2.network import Network
    >>> agreement = Agreement(Network([(0, 1), (1, 2)]))
    >>> agreement.total([[1.0], [2.0], [4.0]]).tolist(), agreement.agree_rounds
    ([7.0], 2)
    """

    def __init__(self, network: AnyNetwork, transport: Transport | None = None) -> None:
        self.network, self.transport = network, transport or Transport()
        self.rank, self.size = self.transport.rank, self.transport.size
        self.owners = self.transport.owners(network)
        self.owned: NDArray[np.int64] = np.flatnonzero(self.owners == self.rank)
        self.agree_rounds = self.agree_floats = self.sums = 0
        self._counting, self._room, self.run = True, np.empty(0), run_alone
        self.cold = False

    def total_of(
        self, width: int, fill: Fill, sent: int | None = None, least: int = LEAST
    ) -> Vector:
        """Exact sum over the agents of one array each: the verb of methods over sums.

        ``fill(rows, out)`` writes the arrays of the agents in places ``rows`` of this process into
        the rows of ``out``, for some agents at a time where there are many, ``least`` at least.
        What they write must depend on the agent alone. Everybody gets the same bits, in one process
        or in several. What is counted are the ``sent`` numbers, if arrays are shorter because zeros
        are left out.

        Examples
        --------
        >>> from dual2.network import Network
        >>> agreement = Agreement(Network([(0, 1), (1, 2)]))
        >>> def fill(rows, out):
        ...     out[:] = rows[:, None] + [1.0, 10.0]
        >>> agreement.total_of(2, fill).tolist(), agreement.sums
        ([6.0, 33.0], 1)
        """
        self.sums += self._counting
        numbers = width if sent is None else sent
        self.agree_floats += 2 * (self.network.n - 1) * numbers * self._counting
        count, transport = len(self.owned), self.transport
        here = self.size == 1 and not transport.exact
        tree = transport.travel(self.network) if here else self.network.tree
        if here and count * width > ROOM:
            return sum_on_a_walk(width, fill, tree, ROOM, self.run, least)
        if transport.any_order and count * width > ROOM:
            own = sum_in_parts(width, fill, count, ROOM)
            return transport.sum(own[None], self.network)
        if self._room.size < count * width:
            self._room = np.empty(count * width)
        rows = self._room[: count * width].reshape(count, width)
        fill(np.arange(count), rows)
        return sum_here(rows, tree) if here else transport.sum(rows, self.network)

    def total(self, rows: ArrayLike) -> Vector:
        """Sum over the agents, column by column; (rows, m) to (m,)."""
        return self.transport.sum(self._counted(rows), self.network)

    def largest(self, rows: ArrayLike) -> Vector:
        """Largest value over the agents, column by column; (rows, m) to (m,)."""
        return self.transport.max(self._counted(rows), self.network)

    @contextmanager
    def running(self) -> Iterator[None]:
        """The iterations: all is compiled, others are expected to answer soon and with numbers."""
        self.transport.settled = self.transport.strict = True
        try:
            yield
        finally:
            self.transport.strict = False

    @contextmanager
    def beginning(self) -> Iterator[None]:
        """The start of a method: nobody is asked for a starting point where there is none."""
        self.transport.cold = self.cold
        try:
            yield
        finally:
            self.transport.cold = False

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        """For what serves the observer alone, a trace for instance."""
        before, self._counting = self._counting, False
        self.transport.counted = False
        try:
            yield
        finally:
            self._counting = self.transport.counted = before

    def _counted(self, rows: ArrayLike) -> Vector:
        values = np.asarray(rows, dtype=np.float64)
        if self._counting:
            self.agree_rounds += 2 * self.network.tree.height
            self.agree_floats += 2 * (self.network.n - 1) * values.shape[1]
        return values


class Share(Problem):
    """Some agents of a problem, with the number of all and the public h.

    Reads like a :class:`Problem` whose ``agents`` are those of this process. What concerns all
    agents (``total``, ``largest``, ``objective``, ``kkt``, …) is agreed with the other processes,
    so all of them must ask for it, in the same order.

    Parameters
    ----------
    agents : mapping of int to Agent
        The agents of this process by number.
    h : Function
        The public function.
    n : int
        Number of all agents.

    Examples
    --------
    >>> import dual2 as d2
    >>> share = Share({1: d2.Agent([[1.0]], d2.SquaredNorm(1.0))}, d2.Zero(), n=3)
    >>> share.n, share.owned.tolist(), share.complete
    (3, [1], False)
    """

    _agreement: Agreement | None = None
    whole: Problem
    """The problem with all agents where these are here and sums are plain, else the share."""

    def __init__(self, agents: Mapping[int, Agent], h: Function | Any, n: int) -> None:
        numbers = sorted(agents)
        if numbers and not 0 <= numbers[0] <= numbers[-1] < n:
            raise ProblemError(f"Agents {numbers} found; expected numbers below n = {n}.")
        members = tuple(agents[i] for i in numbers)
        self._take(members, np.array(numbers, dtype=np.int64), n, as_function(h))
        self.whole = self

    def __repr__(self) -> str:
        return f"Share({len(self.agents)} of {self.n} agents, p={self.p}, h={self.h!r})"

    def with_agents(self, agents: Iterable[Agent], h: Function | Any) -> Share:
        """Another problem with agents of the same numbers, agreed in the same way."""
        share = Share(dict(zip(self.owned.tolist(), agents, strict=True)), h, self.n)
        share._agreement = self._agreement
        return share

    # -- over all agents ----------------------------------------------------------------------
    @property
    def agreement(self) -> Agreement:
        """Who agrees, or an error if the share has not been given a place."""
        if self._agreement is None:
            raise ProblemError(
                f"{self!r} is not placed: the other agents are unknown. Solve it with "
                "runtime='mpi' in every process."
            )
        return self._agreement

    def total(self, rows: ArrayLike) -> Vector:
        """Sum over all agents, agreed."""
        alone = self._agreement is None and self.complete
        return super().total(rows) if alone else self.agreement.total(rows)

    def largest(self, rows: ArrayLike) -> Vector:
        """Maximum over all agents, agreed."""
        alone = self._agreement is None and self.complete
        return super().largest(rows) if alone else self.agreement.largest(rows)

    def values(self, x: list[Vector]) -> Vector:
        """f_i(x_i) + g_i(x_i), NaN where a user's function came without its value."""
        try:
            return super().values(x)
        except CapabilityError:
            return np.full((len(self.agents), 1), np.nan)


def share_of(
    problem: Problem, network: AnyNetwork, transport: Transport | None = None, cold: bool = False
) -> Share:
    """The part of a problem that belongs to this process, agreed over ``transport``.

    Without one, a share that has been given its place already is returned as it is, and any other
    problem must have all agents here. ``cold`` says that this process has no starting point.
    """
    if transport is None:
        if isinstance(problem, Share) and problem._agreement is not None:
            return problem
        transport = Transport()
    if type(transport) is Transport and len(problem.agents) < problem.n:
        raise ProblemError(
            f"{problem!r} has some of the agents only. Use runtime='mpi' in every process, or "
            "give the whole Problem."
        )
    transport.settled = False
    agreement = Agreement(network, transport)
    agreement.cold = cold
    share = _take(problem, agreement)
    if transport.size > 1:
        _compare_couplings(share)
    return share


def _take(problem: Problem, agreement: Agreement) -> Share:
    own, owned = dict(zip(problem.owned.tolist(), problem.agents, strict=True)), agreement.owned
    missing = [int(i) for i in owned if int(i) not in own]
    if missing:
        raise ProblemError(
            f"Process {agreement.rank} owns agents {owned.tolist()}, but {problem!r} lacks agent "
            f"{missing[0]}."
        )
    share = Share.__new__(Share)
    share.agents, share.owned = tuple(own[int(i)] for i in owned), owned
    share.n, share.p, share.h = problem.n, problem.p, problem.h
    share._agreement = agreement
    share.whole = problem if share.complete and not agreement.transport.exact else share
    if len(share.agents) == len(problem.agents):
        share._take_over(problem)
    else:
        share.dims = tuple(agent.dim for agent in share.agents)
    return share


def _compare_couplings(share: Share) -> None:
    """An error unless all processes have the same p, which Σ p and Σ p² show in one message.

    Where they may be called differently it also tells whether somebody has a starting point.
    """
    agreement = share.agreement
    told = [share.p, share.p**2, not agreement.cold][: 2 if agreement.transport.alike else 3]
    own = np.full((len(share.agents), len(told)), told, dtype=np.float64)
    with agreement.uncounted():
        first, second, *warm = map(int, share.total(own))
        agreement.cold = agreement.cold and not any(warm)
        if first**2 == share.n * second:  # equal only where all numbers are
            return
        most, least = share.largest(own[:, :1] * [1, -1])
    if most + least > 0:
        raise NetworkError(
            f"The coupling has {share.p} rows here and {most:g} or {-least:g} in other processes. "
            "Give all of them the same public data."
        )
