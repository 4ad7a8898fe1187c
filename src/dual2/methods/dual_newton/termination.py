"""When a run is over: the optimality conditions, and proofs that there is no solution.

Everything here is computed alike by every process, from what one sum brought. The conditions are at
least as strict as those of the certificate, which judges the answer once more at the end.
"""

import math
from typing import NamedTuple

import numpy as np

from dual2.functions import Function
from dual2.functions.domains import to_barrier
from dual2.methods.dual_newton.envelope import EPS, FBEPoint, Scaling
from dual2.methods.message import (
    BARRIER_DISTANCE,
    OUTSIDE_BARRIER,
    STATIONARITY,
    SUPPORT,
    SUPPORT_MAGNITUDE,
    VIOLATIONS,
)
from dual2.problem.ingredients import group_norm

Array = np.ndarray
MAX_PRODUCT_FACTOR = 10.0
"""How much more than tol of the objective the products of multipliers and violations may be."""
ROUNDING = 64.0 * EPS
CONE_RTOL, MIN_GAP_RTOL, MAX_GROWTH = 1e-9, 1e-10, 1e4
"""Of a separating direction: distance to the barrier cone that counts as none, least gap relative
to its terms, and how many times larger than seen a feasible point would have to be."""
ROUNDING_RTOL = 1e-13
"""Residual, relative to what rows are made of, that is nothing but rounding."""


class OptimalityTest(NamedTuple):
    """The largest ratio of a residual to its scale, and whether all tests are met.

    ``met_but_for_cancellation`` says the same if rows are only compared with what they are made of,
    Σ|A_i||x_i|: the best that can be had where rows cancel.
    """

    kkt: float
    met: bool
    met_but_for_cancellation: bool


def check_optimality(
    h: Function, scaling: Scaling, point: FBEPoint, max_objective: float, tol: float, atol: float
) -> OptimalityTest:
    """Test rows, products of multipliers and violations, and agents.

    |S_j - y_j| is compared with max(Σ|A_i||x_i|, |y|)_j for y = prox_{th}(S + tλ) with three step
    lengths t: the method's own, the ratio of the sizes of S and λ, and one row by row, of the load
    and the size that the scaled multiplier has in this row (its own may be nothing but rounding).
    """
    groups = h.groups(len(point.lam))
    abs_products = group_norm(point.abs_products, groups)
    price = scaling.D * _length(point.lam / scaling.D)
    by_row = np.divide(
        abs_products, price, out=np.ones_like(abs_products), where=(price > 0) & (abs_products > 0)
    )
    size, length = _length(point.S), _length(point.lam)
    overall = size / length if size > 0 and length > 0 else 1.0
    steps = np.array([scaling.steps, np.full_like(by_row, overall), by_row])
    prox_shifts = steps * point.lam
    y = np.array([h.prox(v, t) for v, t in zip(point.S + prox_shifts, steps, strict=True)])
    off, rounding = (
        point.S - y,
        np.where(point.abs_products == 0, ROUNDING * np.abs(prox_shifts), 0.0),
    )
    off_norms, y_norms = (np.array([group_norm(v, groups) for v in rows]) for rows in (off, y))
    rows = _row_ratio(off_norms, np.maximum(abs_products, y_norms), rounding, atol)
    slack = atol + 16.0 * EPS * _length(point.abs_products)
    whole = max(
        _ratio(_length(off[k]) - slack - _length(rounding[k]), max(size, _length(y[k])))
        for k in range(len(y))
    )
    product = abs(float(point.lam @ (point.S - point.y))) - atol
    products = _ratio(product, MAX_PRODUCT_FACTOR * max(point.objective, 1e-4 * max_objective))
    agents = float(point.scalars[STATIONARITY])
    met_but_for_cancellation = bool(
        rows <= tol and products <= tol and point.scalars[VIOLATIONS] == 0
    )
    return OptimalityTest(
        max(rows, whole, products, agents),
        met_but_for_cancellation and whole <= tol,
        met_but_for_cancellation,
    )


def _length(v: Array) -> float:
    return math.sqrt(float(v @ v))


def _ratio(left: float, scale: float) -> float:
    """What is left over its scale; 0 if nothing is."""
    return 0.0 if left <= 0 else left / scale if scale > 0 else np.inf


def _row_ratio(off: Array, scale: Array, rounding: Array, atol: float) -> float:
    """The largest ratio of a row; an empty row may be off by the ``rounding`` of tλ."""
    left = np.where(off <= rounding, 0.0, np.maximum(off - atol, 0.0))
    ratios = np.divide(left, scale, out=np.where(left > 0, np.inf, 0.0), where=scale > 0)
    return float(ratios.max(initial=0.0))


def residual_is_rounding(scaling: Scaling, point: FBEPoint) -> bool:
    """Whether what is left of the residual is rounding beside what makes up the rows."""
    rows = np.maximum(point.abs_products, np.abs(point.y))
    return bool(point.residual / scaling.gamma <= ROUNDING_RTOL * _length(scaling.D * rows))


# -- no solution -----------------------------------------------------------------------------


def separating_directions(
    h: Function, scaling: Scaling, candidates: list[Array], trial_products: Array
) -> Array:
    """Those of the directions that may separate, each of length one.

    The domain of h must be bounded in direction u, and beyond it, <u, S> > σ_h(u), must be every S
    that the agents have ``trial_products`` (one row each): they can.
    """
    sizes = np.array([_length(u) for u in candidates])
    usable = (0 < sizes) & (sizes < np.inf)
    units = np.array(candidates)[usable] / sizes[usable, None]
    inside = np.array([to_barrier(h, u) for u in units]).reshape(units.shape)
    off, scaled = np.abs(units - inside) / scaling.D, np.abs(units) / scaling.D
    inside = inside[off.max(axis=1) <= CONE_RTOL * scaled.max(axis=1)]
    inside /= np.sqrt((inside * inside).sum(axis=1))[:, None]
    return inside[h.domain_support(inside) < (trial_products @ inside.T).min(axis=0)]


def proves_infeasible(h: Function, u: Array, scalars: Array, y: Array) -> bool:
    """Whether u separates what the agents can produce from what h accepts (Farkas).

    The gap -σ_h(u) - Σ σ_i(v_i) must exceed rounding, and what the distances of -A_iᵀu to the
    barrier cones could make up for within x_i of ten thousand times the size seen.
    """
    h_support = float(h.domain_support(u))
    gap = -h_support - float(scalars[SUPPORT])
    size = abs(h_support) + float(np.abs(u) @ np.abs(y)) + float(scalars[SUPPORT_MAGNITUDE])
    return bool(
        scalars[OUTSIDE_BARRIER] == 0
        and gap > MIN_GAP_RTOL * size
        and gap > MAX_GROWTH * scalars[BARRIER_DISTANCE]
    )
