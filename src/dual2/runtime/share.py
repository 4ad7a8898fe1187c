"""The part of a problem that belongs to one process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dual2.errors import CapabilityError, NetworkError, ProblemError
from dual2.functions import Function, as_function
from dual2.network import AnyNetwork
from dual2.problem import Agent, Problem
from dual2.runtime.transport import Agreement, Transport

Vector = NDArray[np.float64]


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


def share_of(problem: Problem, network: AnyNetwork, transport: Transport | None = None) -> Share:
    """The part of a problem that belongs to this process, agreed over ``transport``.

    Without one, a share that has been given its place already is returned as it is, and any other
    problem must have all agents here.
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
    share = _take(problem, Agreement(network, transport))
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
    """An error unless all processes have the same p, which Σ p and Σ p² show in one message."""
    own = np.full((len(share.agents), 2), [share.p, share.p**2])
    with share.agreement.uncounted():
        first, second = map(int, share.total(own))
        if first**2 == share.n * second:  # equal only where all numbers are
            return
        most, least = share.largest(own[:, :1] * [1, -1])
    if most + least > 0:
        raise NetworkError(
            f"The coupling has {share.p} rows here and {most:g} or {-least:g} in other processes. "
            "Give all of them the same public data."
        )
