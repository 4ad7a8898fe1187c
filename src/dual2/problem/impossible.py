"""Proofs that a problem has no solution, coordinate by coordinate, by the plain definitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from dual2.functions.domains import rate_along, to_barrier, to_recession

if TYPE_CHECKING:
    from dual2.problem.problem import Problem

Vector = NDArray[np.float64]

CONE = 1e-12
"""How far a coordinate of a direction may be from a cone, relative to the terms it is made of.
It decides what is called infeasible: rows that a point of 10¹² times their size could meet."""

OPERATOR = 1e3
"""How much more a row may be off where an operator makes it, whose rounding nobody knows."""

CERTAIN = 1e-10
"""Part of its terms' magnitudes below which a sum proves nothing."""


def proves_infeasible(problem: Problem, u: Vector) -> bool:
    r"""Whether no x can meet the coupling, by a direction u (Farkas).

    u separates what h accepts from what the agents can produce: σ_h(u) + Σ_i σ_i(−A_iᵀu) < 0, σ the
    support functions of the domains, by more than rounding. Where the domain of g_i is not bounded
    in the direction −A_iᵀu, each coordinate may miss the directions in which it is by 1e-12 of
    |A_i|ᵀ|u|, which is rounding.

    Examples
    --------
    Rows x₁ − x₂ = 1 and −x₁ + (1 + e)x₂ = 0 with x ≥ 0 are met at x₂ = 1/e, however small e is:

    >>> import dual2 as d2
    >>> own, h = d2.IndicatorNonnegative(), d2.IndicatorPoint([1.0, 0.0])
    >>> for e in (1e-9, -1e-9):
    ...     columns = [[1.0], [-1.0]], [[-1.0], [1.0 + e]]
    ...     problem = d2.Problem([d2.Agent(A, d2.Zero(), own) for A in columns], h)
    ...     print(proves_infeasible(problem, np.array([-1.0, -1.0])))
    False
    True
    """
    size = float(np.abs(u).max(initial=0.0))
    if not (np.isfinite(u).all() and size > 0):
        return False
    u = to_barrier(problem.h, u / size)
    rows = np.zeros((len(problem.agents), 3))
    for row, agent in zip(rows, problem.agents, strict=True):
        minus_ATu = -agent.adjoint(u)
        bounded = to_barrier(agent.g, minus_ATu)
        row[0] = np.any(np.abs(minus_ATu - bounded) > CONE * agent.adjoint_sizes(u, minus_ATu))
        support = float(agent.g.domain_support(bounded))
        row[1:] = (support, abs(support)) if np.isfinite(support) else (0.0, 0.0)
        row[0] += not np.isfinite(support)
    outside, total, sizes = problem.total(rows).tolist()
    own = float(problem.h.domain_support(u))
    return outside == 0 and np.isfinite(own) and own + total < -CERTAIN * (abs(own) + sizes)


def proves_unbounded(problem: Problem, ray: list[Vector]) -> bool:
    r"""Whether the objective falls for ever along d = (d_1, …, d_n).

    f_i + g_i grow at most linearly along d_i, and h along s = Σ A_i d_i; the rates have a negative
    sum. d_i counts as far as it is such a direction; each row of s must be within 1e-12 of
    Σ|A_i||d_i| of one. That there is a feasible point is not shown by this.

    Examples
    --------
    >>> import dual2 as d2
    >>> costs = [d2.Quadratic([0.0], [-1.0]), d2.Zero()]
    >>> agents = [d2.Agent([[sign]], f) for sign, f in zip((1.0, -1.0), costs)]
    >>> problem = d2.Problem(agents, d2.IndicatorPoint([0.0]))
    >>> proves_unbounded(problem, [np.array([1.0])] * 2)
    True
    """
    if not all(np.isfinite(own).all() for own in ray):
        return False
    rows = np.zeros((len(problem.agents), 2 * problem.p + 2))
    for row, agent, own in zip(rows, problem.agents, ray, strict=True):
        straight = to_recession(agent.g, to_recession(agent.f, own))
        product = agent.apply(straight)
        sizes = agent.sizes(straight, product)
        if isinstance(agent.A, LinearOperator):  # unknown entries: what cancels shows in its norm
            sizes = OPERATOR * agent.row_norms * np.linalg.norm(straight)
        row[2:] = np.concatenate([product, sizes])
        if np.any(straight):
            rates = rate_along(agent.f, straight), rate_along(agent.g, straight)
            row[:2] = sum(rates), sum(map(abs, rates))
    rate, size, *products = problem.total(rows).tolist()
    s, load = np.split(np.array(products), 2)
    straight = to_recession(problem.h, s)
    if not np.isfinite(rate) or np.any(np.abs(s - straight) > CONE * load):
        return False
    own = rate_along(problem.h, straight) if np.any(straight) else 0.0
    return bool(np.isfinite(own) and rate + own < -CERTAIN * (size + abs(own)))
