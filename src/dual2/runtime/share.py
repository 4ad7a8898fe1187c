"""The part of a problem that belongs to one process, and its place among the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dual2.errors import CapabilityError, NetworkError, ProblemError
from dual2.functions import Function, as_function
from dual2.network import AnyNetwork
from dual2.problem import Agent, Problem
from dual2.runtime.transport import Communicator, Transport

Vector = NDArray[np.float64]


class LocalProblem(Problem):
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
    >>> share = LocalProblem({1: d2.Agent([[1.0]], d2.SquaredNorm(1.0))}, d2.Zero(), n=3)
    >>> share.n, share.owned.tolist(), share.complete
    (3, [1], False)
    """

    placed = False
    """Whether it is known how all agents agree."""
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
        return f"LocalProblem({len(self.agents)} of {self.n} agents, p={self.p}, h={self.h!r})"

    def with_agents(self, agents: Iterable[Agent], h: Function | Any) -> LocalProblem:
        """Another problem with agents of the same numbers, agreed in the same way."""
        share = LocalProblem(dict(zip(self.owned.tolist(), agents, strict=True)), h, self.n)
        if self.placed:
            share.place(self.comm)
        return share

    # -- over all agents ----------------------------------------------------------------------
    def place(self, comm: Communicator) -> None:
        """From now on all that concerns all agents is agreed with the others."""
        self.placed = True
        self.comm, self.total, self.largest = comm, comm.allreduce_sum, comm.allreduce_max

    @cached_property
    def comm(self) -> Communicator:
        """Who agrees, since the share has been given its place; an error before."""
        raise ProblemError(
            f"{self!r} is not placed: the other agents are unknown. Solve it with "
            "runtime='mpi' in every process."
        )

    def total(self, rows: ArrayLike) -> Vector:
        """Sum over all agents, agreed once the share is placed."""
        return super().total(rows) if self.complete else self.comm.allreduce_sum(rows)

    def largest(self, rows: ArrayLike) -> Vector:
        """Maximum over all agents, agreed once the share is placed."""
        return super().largest(rows) if self.complete else self.comm.allreduce_max(rows)

    def values(self, x: list[Vector]) -> Vector:
        """f_i(x_i) + g_i(x_i), NaN where a user's function came without its value."""
        try:
            return super().values(x)
        except CapabilityError:
            return np.full((len(self.agents), 1), np.nan)


def local_problem(problem: Problem, where: AnyNetwork | Communicator) -> LocalProblem:
    """The part of a problem that belongs to this process, with its place among the others.

    ``where`` says how all agents agree; or it is their network: then a share that has been given
    its place already is returned as it is, and any other problem must have all agents here.

    Examples
    --------
    >>> import dual2 as d2
    >>> whole = d2.Problem([d2.Agent([[1.0]], d2.SquaredNorm(1.0))] * 2, d2.Zero())
    >>> local_problem(whole, d2.Network([(0, 1)])).total([[1.0], [2.0]]).tolist()
    [3.0]
    """
    if not isinstance(where, Communicator):
        if isinstance(problem, LocalProblem) and problem.placed:
            return problem
        where = Communicator(where)
    if type(where.transport) is Transport and len(problem.agents) < problem.n:
        raise ProblemError(
            f"{problem!r} has some of the agents only. Use runtime='mpi' in every process, or "
            "give the whole Problem."
        )
    where.transport.begin_setup()
    own, owned = dict(zip(problem.owned.tolist(), problem.agents, strict=True)), where.owned
    missing = [int(i) for i in owned if int(i) not in own]
    if missing:
        raise ProblemError(
            f"Process {where.rank} owns agents {owned.tolist()}, but {problem!r} lacks agent "
            f"{missing[0]}."
        )
    share = _take(problem, [own[int(i)] for i in owned], where)
    if where.size > 1:
        _compare_couplings(share)
    return share


def _take(problem: Problem, agents: list[Agent], comm: Communicator) -> LocalProblem:
    """The agents of a problem that are in this process; they have been checked with it."""
    share = LocalProblem.__new__(LocalProblem)
    share.place(comm)
    share.agents, share.owned = tuple(agents), comm.owned
    share.n, share.p, share.h = problem.n, problem.p, problem.h
    share.dual_term = problem.dual_term
    share.whole = problem if share.complete and not comm.exact else share
    if len(agents) == len(problem.agents):
        share._take_over(problem)
    else:
        share.dims = tuple(agent.dim for agent in agents)
    return share


def _compare_couplings(share: LocalProblem) -> None:
    """An error unless all processes have the same p, which Σ p and Σ p² show in one message.

    Where they may be called differently it also tells whether somebody has a starting point.
    """
    comm = share.comm
    sizes = [share.p, share.p**2, not comm.cold][: 2 if comm.transport.alike else 3]
    own = np.full((len(share.agents), len(sizes)), sizes, dtype=np.float64)
    with comm.uncounted():
        first, second, *warm = map(int, share.total(own))
        comm.cold = comm.cold and not any(warm)
        if first**2 == share.n * second:  # equal only where all numbers are
            return
        most, least = share.largest(own[:, :1] * [1, -1])
    if most + least > 0:
        raise NetworkError(
            f"The coupling has {share.p} rows here and {most:g} or {-least:g} in other processes. "
            "Give all of them the same public data."
        )
