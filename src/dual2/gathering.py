"""Solve over processes whose data are in all of them anyway, and whose answer all should have."""

from dataclasses import replace
from typing import Any

import numpy as np

from dual2.network import ChebyshevNetwork, Network
from dual2.problem import Problem
from dual2.result import Result
from dual2.runtime import Place, find_place
from dual2.runtime.mpi import Mpi
from dual2.solve import solve

Array = np.ndarray


def solve_for_all(
    problem: Problem, network: Network | ChebyshevNetwork, *, runtime: str | Place = "stacked",
    **options: Any,
) -> Result:  # fmt: skip
    """:func:`dual2.solve`, with the answers of all agents in every process.

    A run over MPI leaves each process with the x_i and λ_i of its own agents. Here the processes
    exchange them at the end, so that the result is the same in each and as complete as that of
    one process. What is private otherwise, every x_i, becomes known to all.

    Parameters
    ----------
    problem : Problem
        The whole problem, the same in every process.
    network : Network
        Who talks to whom.
    runtime : str or Mpi
        As for :func:`dual2.solve`.
    **options
        Further options of :func:`dual2.solve`.

    Examples
    --------
    >>> import dual2 as d2
    >>> agents = [d2.Agent([[1.0]], d2.SquaredNorm(1.0)), d2.Agent([[1.0]], d2.SquaredNorm(2.0))]
    >>> problem, network = d2.Problem(agents, d2.IndicatorPoint([3.0])), d2.Network([(0, 1)])
    >>> [round(float(x[0]), 6) for x in solve_for_all(problem, network).x]
    [2.0, 1.0]
    """
    place = find_place(runtime)
    result = solve(problem, network, runtime=place, **options)
    if not isinstance(place, Mpi) or len(result.x) == problem.n:
        return result
    x, duals = _exchanged(place, problem, place.assignment(network), result)
    return replace(result, x=x, duals=duals, owned=list(range(problem.n)))


def _exchanged(
    place: Mpi, problem: Problem, assignment: Array, result: Result
) -> tuple[list[Array], Array]:
    """x_i and λ_i of all agents, from messages in which every process lines up its own."""
    dims = np.array([agent.dim for agent in problem.agents])
    lengths = dims + result.duals.shape[1]
    own = np.hstack([*map(np.append, result.x, result.duals)])
    message = np.zeros(int(np.bincount(assignment, weights=lengths).max()))
    message[: own.size] = own
    records: dict[int, Array] = {}
    for rank, row in enumerate(place.everyone(message, "gather")):
        agents = np.flatnonzero(assignment == rank)
        parts = np.split(row, np.cumsum(lengths[agents]))[:-1]
        records |= dict(zip(agents.tolist(), parts, strict=True))
    every = [records[i] for i in range(problem.n)]
    x = [record[:d] for record, d in zip(every, dims, strict=True)]
    return x, np.array([record[d:] for record, d in zip(every, dims, strict=True)])
