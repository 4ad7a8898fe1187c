"""The problem in the known directions where h is linear but for one kink in each row.

So are hinge, absolute and quantile losses: h_j(s) = max(a_j r, b_j r), r = s - k_j, and a multiple
of s. With prices μ between a and b and r split into its positive and negative part,

    Hc + b + Sμ = 0,  s̄ + Sᵀc - k = w⁺ - w⁻,  w⁺(b - μ) = 0,  w⁻(μ - a) = 0,  w⁺, w⁻ >= 0,

is followed to the solution by an interior point method with predictor and corrector (Mehrotra,
1992; for quantiles Portnoy & Koenker, 1997). At its end the rows at their kinks are known; with
these held the equations are linear, and solved once more.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from dual2.functions import Function
from dual2.methods.newton.reduced import Answer, Gram, Reduced, inverse, row_ratio

Array = np.ndarray
STEPS, CLOSE, SHORT = 60, 1e-11, 0.995
"""Most steps; the gap, relative to the terms that it is made of, that ends them; the part of the
way to the nearest bound that a step may go."""
MANY = 4
"""Rows at their kinks, for each coefficient, with which the equations are not tried."""
INSIDE = 1e-9
"""Part of b - a by which a price with its row held at the kink may be outside."""


class Kinks(NamedTuple):
    """Slopes on both sides, kinks, and what is linear everywhere."""

    low: Array
    high: Array
    at: Array
    linear: Array


class Inner(NamedTuple):
    """A point of the interior: coefficients, prices, both parts of the rows."""

    c: Array
    mu: Array
    over: Array
    under: Array


def kinks_of(h: Function, p: int) -> Kinks | None:
    """The kinks of h, or None if it is anything else than linear on both sides of one in each row.

    Examples
    --------
    >>> from dual2.functions import HingeLoss, HuberLoss
    >>> kinks_of(HingeLoss([1.0]), 1).low.tolist(), kinks_of(HuberLoss([1.0], 1.0), 1)
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


def solve_kinks(problem: Reduced, kinks: Kinks, start: Array, gram: Gram) -> Answer | None:
    """Minimise φ from coefficients; None where the equations at the end do not hold."""
    plain = problem._replace(b=problem.b + problem.S @ kinks.linear, base=problem.base - kinks.at)
    at = _begin(plain, kinks, start)
    for _ in range(STEPS):
        gram.looks += 1
        with np.errstate(all="ignore"):  # at the last digits; whatever comes of it is not taken
            new = _advance(plain, kinks, at)
        if new is None or not all(np.isfinite(own).all() for own in new):
            break
        at = new
        if _gap(plain, kinks, at) <= CLOSE:
            break
    return _finish(problem, plain, kinks, at)


def _begin(plain: Reduced, kinks: Kinks, c: Array) -> Inner:
    """Prices in the middle, both parts of a row away from zero."""
    r = plain.base + c @ plain.S
    spare = 0.5 * float(np.abs(r).mean()) or 1.0
    parts = np.maximum(r, 0.0) + spare, np.maximum(-r, 0.0) + spare
    return Inner(c, 0.5 * (kinks.low + kinks.high), *parts)


def _gap(plain: Reduced, kinks: Kinks, at: Inner) -> float:
    """Σ of products that should vanish, beside Σ of the values of h, and what is left of c's."""
    products = at.over @ (kinks.high - at.mu) + at.under @ (at.mu - kinks.low)
    r, own = at.over - at.under, plain.H @ at.c + plain.b
    value = np.maximum(kinks.low * r, kinks.high * r)
    scale = float(np.abs(value).sum()) + float(np.abs(own) @ np.abs(at.c))
    felt = plain.S @ at.mu
    terms = max(float(np.linalg.norm(own)), float(np.abs(plain.S @ kinks.high).max()), 1e-300)
    return max(float(products) / max(scale, 1e-300), float(np.linalg.norm(own + felt)) / terms)


def _advance(plain: Reduced, kinks: Kinks, at: Inner) -> Inner | None:
    """One step: where the products would vanish, then to what keeps them alike."""
    up, down = kinks.high - at.mu, at.mu - kinks.low
    weight = 1.0 / (at.over / up + at.under / down)
    second = plain.H + (plain.S * weight) @ plain.S.T
    if not np.isfinite(second).all():
        return None
    solve = _inverse(second)
    left = plain.H @ at.c + plain.b + plain.S @ at.mu
    off = plain.base + at.c @ plain.S - (at.over - at.under)

    def step(over: Array, under: Array) -> Inner:
        """The step after which w⁺(b - μ) and w⁻(μ - a) have changed by these."""
        q = over / up - under / down - off
        dc = solve(plain.S @ (weight * q) - left)
        dmu = weight * (dc @ plain.S - q)
        return Inner(dc, dmu, (over + at.over * dmu) / up, (under - at.under * dmu) / down)

    first = step(-at.over * up, -at.under * down)
    size = float(at.over @ up + at.under @ down) / (2 * len(up))
    t = _reach(kinks, at, first)
    mu, over, under = at.mu + t * first.mu, at.over + t * first.over, at.under + t * first.under
    after = float(over @ (kinks.high - mu) + under @ (mu - kinks.low)) / (2 * len(up))
    wanted = size * (after / size) ** 3
    d = step(
        wanted - at.over * up + first.mu * first.over,
        wanted - at.under * down - first.mu * first.under,
    )
    t = min(1.0, SHORT * _reach(kinks, at, d))
    if not t > 1e-12:
        return None
    return Inner(*(own + t * way for own, way in zip(at, d, strict=True)))


def _inverse(matrix: Array) -> Callable[[Array], Array]:
    """v ↦ matrix⁻¹v by Cholesky's factors, whose errors along stiff directions do no harm here."""
    scale = 1.0 / np.sqrt(np.maximum(np.diag(matrix), 1e-300))
    factor, bad = dpotrf((scale[:, None] * matrix * scale).T, lower=1)
    if bad:
        solve = inverse(matrix)
        return lambda v: solve(v[:, None])[:, 0]
    return lambda v: scale * dpotrs(factor, scale * v, lower=1)[0]


def _reach(kinks: Kinks, at: Inner, d: Inner) -> float:
    """How much of a step stays within all bounds; not more than a little above one."""
    room = [
        (at.over, -d.over), (at.under, -d.under), (kinks.high - at.mu, d.mu),
        (at.mu - kinks.low, -d.mu),
    ]  # fmt: skip
    ends = [np.min(own[way > 0] / way[way > 0], initial=2.0) for own, way in room]
    return min(1.0 / SHORT, *map(float, ends))


def _finish(problem: Reduced, plain: Reduced, kinks: Kinks, at: Inner) -> Answer | None:
    """The equations with the rows at their kinks held; None if their solution is none."""
    spread = kinks.high - kinks.low
    size = float(np.abs(plain.base).max(initial=0.0)) + float(np.abs(at.over - at.under).max())
    inside = np.minimum(at.mu - kinks.low, kinks.high - at.mu) / spread
    held = inside > np.maximum(at.over, at.under) / size
    mu = np.where(at.over > at.under, kinks.high, kinks.low)
    rows = plain.S[:, held]
    count, many = len(at.c), int(held.sum())
    if many > MANY * (count + 1):
        return None
    matrix = np.block([[plain.H, rows], [rows.T, np.zeros((many, many))]])
    mu[held] = at.mu[held]
    c = at.c
    for _ in range(2):
        right = np.concatenate(
            [-(plain.H @ c + plain.b + plain.S @ mu), -(plain.base[held] + c @ rows)]
        )
        found = np.linalg.lstsq(matrix, right, rcond=None)[0]
        c, mu[held] = c + found[:count], mu[held] + found[count:]
    if not np.all((mu >= kinks.low - INSIDE * spread) & (mu <= kinks.high + INSIDE * spread)):
        return None
    mu, r = np.clip(mu, kinks.low, kinks.high), plain.base + c @ plain.S
    y = np.where(held, kinks.at, problem.base + c @ problem.S)
    wrong = ~held & (np.where(mu == kinks.high, -r, r) > 1e-12 * size)
    if wrong.any():
        return None
    s = problem.base + c @ problem.S
    return Answer(c, mu + kinks.linear, s, y, 0.0, row_ratio(problem, c, s, y))
