"""The problem in the known directions where h is linear but for one kink in each row.

So are hinge, absolute and quantile losses: h_j(s) = max(a_j r, b_j r), r = s - k_j, and a multiple
of s. With multipliers μ between a and b and r split into its positive and negative part,

    Hc + b + Sμ = 0,  s̄ + Sᵀc - k = w⁺ - w⁻,  w⁺(b - μ) = 0,  w⁻(μ - a) = 0,  w⁺, w⁻ >= 0,

is followed to the solution by an interior point method with predictor and corrector (Mehrotra,
1992; for quantiles Portnoy & Koenker, 1997). At its end the rows at their kinks are known; with
these held the equations are linear, and solved once more.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dual2.functions import Function
from dual2.methods.subspace.cholesky import factorise, inverse, solve_with
from dual2.methods.subspace.subspace_problem import (
    Gram,
    SubspaceProblem,
    SubspaceSolution,
    row_ratio,
)

Array = np.ndarray
MAX_STEPS, EARLY_GAP, FINAL_GAP, STEP_FRACTION = 60, 1e-6, 1e-11, 0.995
"""Most steps; the gap, relative to the terms that it is made of, with which the equations are tried
for the first time, and that ends the steps; the part of the way to the nearest bound that a step
may go."""
MAX_ACTIVE_RATIO = 4
"""Rows at their kinks, for each coefficient, with which the equations are not tried."""
BOUND_RTOL, ROUNDING_RTOL = 1e-9, 1e-13
"""Part of b - a by which a multiplier with its row held at the kink may be outside; what may be
left of equations, beside their terms, that hold but for rounding."""


class Kinks(NamedTuple):
    """Slopes on both sides, kinks, and what is linear everywhere."""

    low: Array
    high: Array
    point: Array
    linear: Array


class SubspaceIterate(NamedTuple):
    """A point of the interior: coefficients, multipliers, both parts of the rows, and c·S.

    ``parts`` are w⁺ and w⁻, ``slack`` what the multipliers have left to the bounds, b - μ and μ -
    a.
    """

    c: Array
    mu: Array
    parts: Array
    slack: Array
    along: Array


def find_kinks(h: Function, p: int) -> Kinks | None:
    """The kinks of h, or None if it is anything else than linear on both sides of one in each row.

    Examples
    --------
    >>> from dual2.functions import HingeLoss, HuberLoss
    >>> find_kinks(HingeLoss([1.0]), 1).low.tolist(), find_kinks(HuberLoss([1.0], 1.0), 1)
    ([-1.0], None)
    """
    if h.form is None:
        return None
    form = h.form.broadcast(p)
    ends = np.concatenate([form.slope_left, form.slope_right])
    bounds = np.isfinite(form.lower) | np.isfinite(form.upper)
    if np.any(form.curvature) or bounds.any() or not np.isfinite(ends).all():
        return None
    if not np.all(form.slope_left < form.slope_right):
        return None
    sides = form.slope_left, form.slope_right, form.kink, form.slope
    return Kinks(*(np.asarray(side) for side in sides))


def solve_piecewise_linear(
    problem: SubspaceProblem, kinks: Kinks, start: Array, gram: Gram
) -> SubspaceSolution | None:
    """Minimise φ from coefficients; None where the equations at the end do not hold.

    They are tried as soon as the gap is small: a solution of them that is one of the problem, too,
    is exact however the rows at their kinks were found.
    """
    plain = problem._replace(
        b=problem.b + problem.S @ kinks.linear, base=problem.base - kinks.point
    )
    steepest = float(np.abs(plain.S @ kinks.high).max())
    point, attempted = _begin(plain, kinks, start), False
    for _ in range(MAX_STEPS):
        gram.count_evaluations()
        with np.errstate(all="ignore"):  # at the last digits; whatever comes of it is not taken
            new = _advance(plain, point)
            gap = np.inf if new is None else _gap(plain, kinks, new, steepest)
        if new is None or not math.isfinite(gap):
            break
        point = new
        if (
            gap <= EARLY_GAP
            and not attempted
            and (found := _solve_active_set(problem, plain, kinks, point, True))
        ):
            return found
        attempted = gap <= EARLY_GAP
        if gap <= FINAL_GAP:
            break
    return _solve_active_set(problem, plain, kinks, point)


def _begin(plain: SubspaceProblem, kinks: Kinks, c: Array) -> SubspaceIterate:
    """Multipliers in the middle, both parts of a row away from zero."""
    along = c @ plain.S
    r = plain.base + along
    margin = 0.5 * float(np.abs(r).mean()) or 1.0
    mu = 0.5 * (kinks.low + kinks.high)
    parts, slack = np.maximum([r, -r], 0.0) + margin, np.array([kinks.high - mu, mu - kinks.low])
    return SubspaceIterate(c, mu, parts, slack, along)


def _gap(plain: SubspaceProblem, kinks: Kinks, point: SubspaceIterate, steepest: float) -> float:
    """Σ of products that should vanish, beside Σ of the values of h, and what is left of c's."""
    products = float(np.vdot(point.parts, point.slack))
    r, quadratic = point.parts[0] - point.parts[1], plain.H @ point.c + plain.b
    value = np.maximum(kinks.low * r, kinks.high * r)
    scale = float(np.abs(value).sum()) + float(np.abs(quadratic) @ np.abs(point.c))
    remainder, terms = quadratic + plain.S @ point.mu, max(_length(quadratic), steepest, 1e-300)
    gaps = products / max(scale, 1e-300), _length(remainder) / terms
    return max(gaps) if math.isfinite(sum(gaps)) else np.inf


def _length(v: Array) -> float:
    return math.sqrt(float(v @ v))


def _advance(plain: SubspaceProblem, point: SubspaceIterate) -> SubspaceIterate | None:
    """One step: where the products would vanish, then to what keeps them alike."""
    ratio, products = point.parts / point.slack, point.parts * point.slack
    weight = 1.0 / (ratio[0] + ratio[1])
    second = plain.H + (plain.S * weight) @ plain.S.T
    if not np.isfinite(second).all():
        return None
    solve = _inverse(second)
    remainder = plain.H @ point.c + plain.b + plain.S @ point.mu
    off = plain.base + point.along - point.parts[0] + point.parts[1]

    def step(change: Array) -> SubspaceIterate:
        """The step after which w⁺(b - μ) and w⁻(μ - a) have changed by this."""
        change = change / point.slack
        q = change[0] - change[1] - off
        dc = solve(plain.S @ (weight * q) - remainder)
        along = dc @ plain.S
        mu = weight * (along - q)
        slack = np.array([-mu, mu])
        return SubspaceIterate(dc, mu, change - ratio * slack, slack, along)

    affine = step(-products)
    t, size = _max_step(point, affine), float(products.sum())
    after = float(np.vdot(point.parts + t * affine.parts, point.slack + t * affine.slack))
    centring = size * (after / size) ** 3 / products.size
    d = step(centring - products - affine.parts * affine.slack)
    t = min(1.0, STEP_FRACTION * _max_step(point, d))
    if not t > 1e-12:
        return None
    return SubspaceIterate(
        *(quadratic + t * delta for quadratic, delta in zip(point, d, strict=True))
    )


def _inverse(matrix: Array) -> Callable[[Array], Array]:
    """v ↦ matrix⁻¹v by Cholesky's factors, whose errors along stiff directions do no harm here."""
    scale = 1.0 / np.sqrt(np.maximum(np.diag(matrix), 1e-300))
    factor = factorise(scale[:, None] * matrix * scale)
    if factor is None:
        solve = inverse(matrix)
        return lambda v: solve(v[:, None])[:, 0]
    return lambda v: scale * solve_with(factor, scale * v)


def _max_step(point: SubspaceIterate, d: SubspaceIterate) -> float:
    """How much of a step stays within all bounds; not more than a little above one."""
    ends = float((d.parts / point.parts).min()), float((d.slack / point.slack).min())
    return 1.0 / max(STEP_FRACTION, -min(ends))


def _solve_active_set(
    problem: SubspaceProblem,
    plain: SubspaceProblem,
    kinks: Kinks,
    point: SubspaceIterate,
    demand_exact: bool = False,
) -> SubspaceSolution | None:
    """The equations with the rows at their kinks held; None if their solution is none.

    ``demand_exact``: also if there is only a nearest one.
    """
    spread = kinks.high - kinks.low
    over, under = point.parts
    size = float(np.abs(plain.base).max(initial=0.0)) + float(np.abs(over - under).max())
    inside = point.slack.min(axis=0) / spread
    active = inside * size > point.parts.max(axis=0)
    mu = np.where(over > under, kinks.high, kinks.low)
    rows = plain.S[:, active]
    count, n_active = len(point.c), int(active.sum())
    if n_active > MAX_ACTIVE_RATIO * (count + 1):
        return None
    matrix = np.block([[plain.H, rows], [rows.T, np.zeros((n_active, n_active))]])
    mu[active] = point.mu[active]
    c = point.c
    for _ in range(2):
        remainder = plain.H @ c + plain.b + plain.S @ mu, plain.base[active] + c @ rows
        found = np.linalg.lstsq(matrix, -np.concatenate(remainder), rcond=None)[0]
        c, mu[active] = c + found[:count], mu[active] + found[count:]
    if demand_exact and not _is_exact(plain, c, mu, active, size):
        return None
    if not np.all(
        (mu >= kinks.low - BOUND_RTOL * spread) & (mu <= kinks.high + BOUND_RTOL * spread)
    ):
        return None
    mu, r = np.clip(mu, kinks.low, kinks.high), plain.base + c @ plain.S
    y = np.where(active, kinks.point, problem.base + c @ problem.S)
    wrong = ~active & (np.where(mu == kinks.high, -r, r) > 1e-12 * size)
    if wrong.any():
        return None
    s = problem.base + c @ problem.S
    return SubspaceSolution(c, mu + kinks.linear, s, y, 0.0, row_ratio(problem, c, s, y))


def _is_exact(plain: SubspaceProblem, c: Array, mu: Array, active: Array, size: float) -> bool:
    """Whether both equations hold but for rounding."""
    quadratic, dual_products = plain.H @ c + plain.b, plain.S @ mu
    terms = np.abs(quadratic) + np.abs(plain.S) @ np.abs(mu)
    off = np.abs(plain.base[active] + c @ plain.S[:, active])
    return bool(
        np.all(np.abs(quadratic + dual_products) <= ROUNDING_RTOL * terms)
        and np.all(off <= ROUNDING_RTOL * size)
    )
