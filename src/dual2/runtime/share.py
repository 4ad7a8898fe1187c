"""A process's share of a problem: its own agents, and agreement with the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dual2.errors import CapabilityError, ProblemError
from dual2.functions import Function, as_function
from dual2.network import ChebyshevNetwork, Network
from dual2.problem import Agent, Problem
from dual2.problem.singular import Sigma, squared_singular_values
from dual2.runtime.circle import Circle

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

    circle: Circle | None = None
    """Who agrees; None until a runtime has placed the share."""
    _whole: Problem | None = None

    def __init__(self, agents: Mapping[int, Agent], h: Function | Any, n: int) -> None:
        numbers = sorted(agents)
        if numbers and not 0 <= numbers[0] <= numbers[-1] < n:
            raise ProblemError(f"Agents {numbers} found; expected numbers below n = {n}.")
        members = tuple(agents[i] for i in numbers)
        self._take(members, np.array(numbers, dtype=np.int64), n, as_function(h))

    def __repr__(self) -> str:
        return f"Share({len(self.agents)} of {self.n} agents, p={self.p}, h={self.h!r})"

    def with_agents(self, agents: Iterable[Agent], h: Function | Any) -> Share:
        """Another problem with agents of the same numbers, agreed by the same circle."""
        share = Share(dict(zip(self.owned.tolist(), agents, strict=True)), h, self.n)
        share.circle = self.circle
        return share

    @cached_property
    def sigma(self) -> Sigma:
        """Squared extreme singular values of the A_i in this process."""
        if self._whole is not None:
            return self._whole.sigma
        return squared_singular_values([agent.A for agent in self.agents])

    @property
    def whole(self) -> Problem:
        """The problem with all agents where these are here, else the share itself."""
        return self if self._whole is None else self._whole

    # -- over all agents ----------------------------------------------------------------------
    @property
    def agreement(self) -> Circle:
        """The circle, or an error if the share has none."""
        if self.circle is None:
            raise ProblemError(
                f"{self!r} is not placed: the other agents are unknown. Solve it with "
                "runtime='mpi' in every process."
            )
        return self.circle

    def total(self, rows: ArrayLike) -> Vector:
        """Sum over all agents, agreed."""
        if self.circle is None and self.complete:
            return super().total(rows)
        return self.agreement.agree_sum(np.asarray(rows, dtype=np.float64))

    def largest(self, rows: ArrayLike) -> Vector:
        """Maximum over all agents, agreed."""
        if self.circle is None and self.complete:
            return super().largest(rows)
        return self.agreement.agree_max(np.asarray(rows, dtype=np.float64))

    def _values(self, x: list[Vector]) -> Vector:
        """f_i(x_i) + g_i(x_i), NaN where a user's function came without its value."""
        try:
            return super()._values(x)
        except CapabilityError:
            return np.full((len(self.agents), 1), np.nan)


def share_of(problem: Problem, network: Network | ChebyshevNetwork) -> Share:
    """The problem as it is if it is placed already, else with all agents in this process."""
    if isinstance(problem, Share) and problem.circle is not None:
        return problem
    if not problem.complete:
        raise ProblemError(
            f"{problem!r} has some of the agents only. Use runtime='mpi' in every process, or "
            "give the whole Problem."
        )
    return take_share(problem, Circle(network))


def take_share(problem: Problem, circle: Circle) -> Share:
    """What of a problem, or of a share, belongs to the circle's process."""
    own = dict(zip(problem.owned.tolist(), problem.agents, strict=True))
    missing = [int(i) for i in circle.owned if int(i) not in own]
    if missing:
        raise ProblemError(
            f"Process {circle.rank} owns agents {circle.owned.tolist()}, but {problem!r} lacks "
            f"agent {missing[0]}."
        )
    share = Share.__new__(Share)
    share.agents, share.owned = tuple(own[int(i)] for i in circle.owned), circle.owned
    share.n, share.p, share.h = problem.n, problem.p, problem.h
    share.dims = tuple(agent.dim for agent in share.agents)
    share.circle = circle
    share._whole = problem if share.complete else None
    return share
