"""A screen in front of the KKT residual: what loops compute at every test, agent by agent.

Norms of an agent stand for its coordinates here and Σ|A_i||x_i| for the size of a row, so that the
loops need one number per agent and three per row. Where the screen passes,
:func:`dual2.problem.residual.kkt` decides; the screen alone never ends a run as solved.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dual2.functions import Function
from dual2.problem.ingredients import (
    EPS,
    ROUNDING,
    coupling_response,
    finite,
    group_norm,
    quotients,
    ratios_of,
    separates,
)

Vector = NDArray[np.float64]


class Local(NamedTuple):
    """What agents know by themselves, a number or one for each agent."""

    residual: Any
    """L_i|x_i − prox_{g_i/L_i}(…)|."""
    gradient: Any
    """|∇f_i(x_i)|."""
    ATy: Any
    """|A_iᵀλ|."""
    size: Any
    """|x_i|."""
    L: Any
    """L_i or its substitute."""


class RowSums(NamedTuple):
    """Sums over the agents, p numbers each, from which everybody judges the rows."""

    s: Vector
    """Σ A_i x_i."""
    load: Vector
    """Σ |A_i||x_i|."""
    forces: Vector
    """Σ |A_i,j| φ_i."""
    weight: Vector
    """Σ |A_i,j|²."""


def judge_agents(
    local: Local, mu: Any, abs_ATy: Any, atol: float | Vector, rounding: float = ROUNDING
) -> tuple[Any, Any]:
    """Ratios and φ_i of :class:`KKT`; ``abs_ATy`` is Σ_j |A_i,j||λ_j|, of which A_iᵀλ is made."""
    force = np.maximum(np.maximum(local.gradient, local.ATy), mu * local.size)
    own = local.L * local.size + local.gradient + abs_ATy
    left = np.where(local.residual > rounding * EPS * own, local.residual - atol, 0.0)
    return ratios_of(left, force), force


def judge_rows(
    h: Function, lam: Vector, sums: RowSums, atol: float | Vector, rounding: float = ROUNDING
) -> tuple[float, int, Vector]:
    """Ratio of the worst row, that row, and y; see :class:`KKT`."""
    s, load = sums.s, sums.load
    if not finite(*sums):
        return np.inf, 0, s
    groups = None if separates(h, len(s)) else h.groups(len(s))
    load = group_norm(load, groups)
    price = np.divide(sums.forces, sums.weight, out=np.zeros_like(lam), where=sums.weight > 0)
    price = np.maximum(group_norm(lam, groups), group_norm(price, groups))
    t = quotients(load, price)
    y = coupling_response(h, s, lam, t)
    residual, size = group_norm(s - y, groups), group_norm(y, groups)
    own = load + size + t * group_norm(lam, groups)
    left = np.where(residual > rounding * EPS * own, residual - atol, 0.0)
    ratios = ratios_of(left, np.maximum(load, size))
    row = int(np.argmax(ratios))
    return float(ratios[row]), row, y
