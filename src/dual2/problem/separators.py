"""Directions near a method's separator that may prove what rounding keeps it from proving."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse.linalg import LinearOperator

from dual2.functions.domains import to_barrier

if TYPE_CHECKING:
    from dual2.problem.agent import Agent
    from dual2.problem.problem import Problem

Vector = NDArray[np.float64]

DUST = (1e-7, 1e-9, 1e-12, 0.0)
"""Entries of a separator, relative to its largest one, that are tried as 0."""

CHANGE = 1e-3
"""How much of itself an entry may change by; what needs more is another direction."""

SMALL = 1e-6
"""Entries, relative to the largest one, that may become 0."""

ROUNDING = 1e-13
"""How much of its terms an entry of −A_iᵀu may miss: less than a proof forgives, more than the
difference of conditions that determine each other."""

CORRECTIONS = 3
MOST_ENTRIES = 300_000
"""Entries of all matrices above which no correction is tried: it solves a linear program."""


def near_separators(problem: Problem, u: Vector) -> Iterator[Vector]:
    r"""u itself, then u without dust and with −A_iᵀu of unbounded coordinates put right.

    Where g_i leaves a coordinate free, a separator has (A_iᵀu)_j = 0 exactly, which the multiplier
    of a method has up to its tolerance; likewise with signs where one side has no end. The least
    relative change of u that puts all coordinates right is a linear program, solved three times,
    each for what the last one left. None of the directions is a proof before
    ``proves_infeasible`` has accepted it.

    Examples
    --------
    >>> import dual2 as d2
    >>> from dual2.problem.impossible import proves_infeasible
    >>> agents = [d2.Agent([[sign], [sign]], d2.Zero()) for sign in (1.0, -1.0)]
    >>> problem = d2.Problem(agents, d2.IndicatorPoint([1.0, 2.0]))
    >>> u = np.array([1, -1 - 1e-9])
    >>> [proves_infeasible(problem, v) for v in near_separators(problem, u)][:3]
    [False, False, True]
    """
    yield u
    sizes = np.abs(u)
    top = float(sizes.max(initial=0.0))
    if not (np.isfinite(u).all() and top > 0):
        return
    cuts = {int((sizes > dust * top).sum()): dust * top for dust in DUST}
    correctable = len(problem.agents) == problem.n and all(map(_has_entries, problem.agents))
    if correctable and sum(_entries(agent) for agent in problem.agents) > MOST_ENTRIES:
        correctable = False
    for _, cut in sorted(cuts.items(), reverse=True):
        start = np.where(sizes > cut, u, 0.0) / top
        yield start
        if correctable:
            yield from _corrected(problem, start)


def _has_entries(agent: Agent) -> bool:
    return not isinstance(agent.A, LinearOperator)


def _entries(agent: Agent) -> int:
    return int(agent.A.nnz if sp.issparse(agent.A) else agent.A.size)


def _corrected(problem: Problem, u: Vector) -> Iterator[Vector]:
    """u after each correction."""
    rows = np.flatnonzero(u)
    for _ in range(CORRECTIONS):
        found = _change(problem, u, rows)
        if found is None:
            return
        u = u.copy()
        u[rows] *= 1.0 + found
        yield u


def _change(problem: Problem, u: Vector, rows: NDArray[np.intp]) -> Vector | None:
    """The least relative change of u on its rows that corrects every −A_iᵀu; None if none does."""
    stated = [_conditions(agent, u, rows) for agent in problem.agents]
    matrix: Any = sp.vstack([own[0] for own in stated], format="csr")
    low, high = (np.concatenate([own[k] for own in stated]) for k in (1, 2))
    worst = max(low.max(initial=0.0), -high.min(initial=0.0))
    if not worst > ROUNDING:
        return None
    most = np.where(np.abs(u[rows]) > SMALL * np.abs(u).max(), CHANGE, 1.0) / worst
    above, below = low > -np.inf, high < np.inf
    both = sp.hstack([matrix, -matrix], format="csr")  # the change is the difference of two parts
    found = linprog(
        np.ones(2 * len(rows)),
        A_ub=sp.vstack([both[below], -both[above]]),
        b_ub=(np.concatenate([high[below], -low[above]]) + ROUNDING) / worst,
        bounds=np.column_stack([np.zeros(2 * len(rows)), np.tile(most, 2)]),
        options={"primal_feasibility_tolerance": 1e-10},
    )
    if found.x is None:
        return None
    more, less = np.split(found.x, 2)
    return worst * (more - less)


def _conditions(
    agent: Agent, u: Vector, rows: NDArray[np.intp]
) -> tuple[sp.csr_array, Vector, Vector]:
    """M, low, high: after a relative change z with low ≤ M z ≤ high every −A_iᵀu is right."""
    minus_ATu = -agent.adjoint(u)
    sizes, target = agent.adjoint_sizes(u, minus_ATu), to_barrier(agent.g, minus_ATu)
    low, high = minus_ATu - target, minus_ATu - target
    if agent.g.form is not None:
        shape = minus_ATu.shape
        lower = np.broadcast_to(agent.g.form.lower, shape)
        upper = np.broadcast_to(agent.g.form.upper, shape)
        low = np.where(np.isinf(upper), minus_ATu, -np.inf)
        high = np.where(np.isinf(lower), minus_ATu, np.inf)
    kept = (sizes > 0) & ((low > -np.inf) | (high < np.inf))
    size = sizes[kept]
    columns = sp.csr_array(sp.csr_array(agent.A)[rows].T)[np.flatnonzero(kept)]
    matrix = sp.diags_array(1.0 / size) @ columns @ sp.diags_array(u[rows])
    return sp.csr_array(matrix), low[kept] / size, high[kept] / size
