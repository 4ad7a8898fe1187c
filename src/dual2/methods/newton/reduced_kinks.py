"""The problem in the known directions where h is linear but for one kink in each row.

So are hinge, absolute and quantile losses: h_j(s) = max(a_j r, b_j r), r = s - k_j, and a multiple
of s. With prices μ between a and b and r split into its positive and negative part,

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
from dual2.methods.newton.factors import factorise, solve_with
from dual2.methods.newton.reduced import Answer, Gram, Reduced, inverse, row_ratio

Array = np.ndarray
STEPS, EARLY, CLOSE, SHORT = 60, 1e-6, 1e-11, 0.995
"""Most steps; the gap, relative to the terms that it is made of, with which the equations are tried
for the first time, and that ends the steps; the part of the way to the nearest bound that a step
may go."""
MANY = 4
"""Rows at their kinks, for each coefficient, with which the equations are not tried."""
INSIDE, EXACT = 1e-9, 1e-13
"""Part of b - a by which a price with its row held at the kink may be outside; what may be left of
equations, beside their terms, that hold but for rounding."""


class Kinks(NamedTuple):
    """Slopes on both sides, kinks, and what is linear everywhere."""

    low: Array
    high: Array
    at: Array
    linear: Array


class Inner(NamedTuple):
    """A point of the interior: coefficients, prices, both parts of the rows, and c·S.

    ``parts`` are w⁺ and w⁻, ``room`` what the prices have left to the bounds, b - μ and μ - a.
    """

    c: Array
    mu: Array
    parts: Array
    room: Array
    along: Array


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
    """Minimise φ from coefficients; None where the equations at the end do not hold.

    They are tried as soon as the gap is small: a solution of them that is one of the problem, too,
    is exact however the rows at their kinks were found.
    """
    plain = problem._replace(b=problem.b + problem.S @ kinks.linear, base=problem.base - kinks.at)
    steepest = float(np.abs(plain.S @ kinks.high).max())
    at, tried = _begin(plain, kinks, start), False
    for _ in range(STEPS):
        gram.looks += 1
        with np.errstate(all="ignore"):  # at the last digits; whatever comes of it is not taken
            new = _advance(plain, at)
            gap = np.inf if new is None else _gap(plain, kinks, new, steepest)
        if new is None or not math.isfinite(gap):
            break
        at = new
        if gap <= EARLY and not tried and (found := _finish(problem, plain, kinks, at, True)):
            return found
        tried = gap <= EARLY
        if gap <= CLOSE:
            break
    return _finish(problem, plain, kinks, at)


def _begin(plain: Reduced, kinks: Kinks, c: Array) -> Inner:
    """Prices in the middle, both parts of a row away from zero."""
    along = c @ plain.S
    r = plain.base + along
    spare = 0.5 * float(np.abs(r).mean()) or 1.0
    mu = 0.5 * (kinks.low + kinks.high)
    parts, room = np.maximum([r, -r], 0.0) + spare, np.array([kinks.high - mu, mu - kinks.low])
    return Inner(c, mu, parts, room, along)


def _gap(plain: Reduced, kinks: Kinks, at: Inner, steepest: float) -> float:
    """Σ of products that should vanish, beside Σ of the values of h, and what is left of c's."""
    products = float(np.vdot(at.parts, at.room))
    r, own = at.parts[0] - at.parts[1], plain.H @ at.c + plain.b
    value = np.maximum(kinks.low * r, kinks.high * r)
    scale = float(np.abs(value).sum()) + float(np.abs(own) @ np.abs(at.c))
    left, terms = own + plain.S @ at.mu, max(_length(own), steepest, 1e-300)
    gaps = products / max(scale, 1e-300), _length(left) / terms
    return max(gaps) if math.isfinite(sum(gaps)) else np.inf


def _length(v: Array) -> float:
    return math.sqrt(float(v @ v))


def _advance(plain: Reduced, at: Inner) -> Inner | None:
    """One step: where the products would vanish, then to what keeps them alike."""
    ratio, products = at.parts / at.room, at.parts * at.room
    weight = 1.0 / (ratio[0] + ratio[1])
    second = plain.H + (plain.S * weight) @ plain.S.T
    if not np.isfinite(second).all():
        return None
    solve = _inverse(second)
    left = plain.H @ at.c + plain.b + plain.S @ at.mu
    off = plain.base + at.along - at.parts[0] + at.parts[1]

    def step(change: Array) -> Inner:
        """The step after which w⁺(b - μ) and w⁻(μ - a) have changed by this."""
        change = change / at.room
        q = change[0] - change[1] - off
        dc = solve(plain.S @ (weight * q) - left)
        along = dc @ plain.S
        mu = weight * (along - q)
        room = np.array([-mu, mu])
        return Inner(dc, mu, change - ratio * room, room, along)

    first = step(-products)
    t, size = _reach(at, first), float(products.sum())
    after = float(np.vdot(at.parts + t * first.parts, at.room + t * first.room))
    wanted = size * (after / size) ** 3 / products.size
    d = step(wanted - products - first.parts * first.room)
    t = min(1.0, SHORT * _reach(at, d))
    if not t > 1e-12:
        return None
    return Inner(*(own + t * way for own, way in zip(at, d, strict=True)))


def _inverse(matrix: Array) -> Callable[[Array], Array]:
    """v ↦ matrix⁻¹v by Cholesky's factors, whose errors along stiff directions do no harm here."""
    scale = 1.0 / np.sqrt(np.maximum(np.diag(matrix), 1e-300))
    factor = factorise(scale[:, None] * matrix * scale)
    if factor is None:
        solve = inverse(matrix)
        return lambda v: solve(v[:, None])[:, 0]
    return lambda v: scale * solve_with(factor, scale * v)


def _reach(at: Inner, d: Inner) -> float:
    """How much of a step stays within all bounds; not more than a little above one."""
    ends = float((d.parts / at.parts).min()), float((d.room / at.room).min())
    return 1.0 / max(SHORT, -min(ends))


def _finish(
    problem: Reduced, plain: Reduced, kinks: Kinks, at: Inner, exactly: bool = False
) -> Answer | None:
    """The equations with the rows at their kinks held; None if their solution is none.

    ``exactly``: also if there is only a nearest one.
    """
    spread = kinks.high - kinks.low
    over, under = at.parts
    size = float(np.abs(plain.base).max(initial=0.0)) + float(np.abs(over - under).max())
    inside = at.room.min(axis=0) / spread
    held = inside * size > at.parts.max(axis=0)
    mu = np.where(over > under, kinks.high, kinks.low)
    rows = plain.S[:, held]
    count, many = len(at.c), int(held.sum())
    if many > MANY * (count + 1):
        return None
    matrix = np.block([[plain.H, rows], [rows.T, np.zeros((many, many))]])
    mu[held] = at.mu[held]
    c = at.c
    for _ in range(2):
        left = plain.H @ c + plain.b + plain.S @ mu, plain.base[held] + c @ rows
        found = np.linalg.lstsq(matrix, -np.concatenate(left), rcond=None)[0]
        c, mu[held] = c + found[:count], mu[held] + found[count:]
    if exactly and not _is_exact(plain, c, mu, held, size):
        return None
    if not np.all((mu >= kinks.low - INSIDE * spread) & (mu <= kinks.high + INSIDE * spread)):
        return None
    mu, r = np.clip(mu, kinks.low, kinks.high), plain.base + c @ plain.S
    y = np.where(held, kinks.at, problem.base + c @ problem.S)
    wrong = ~held & (np.where(mu == kinks.high, -r, r) > 1e-12 * size)
    if wrong.any():
        return None
    s = problem.base + c @ problem.S
    return Answer(c, mu + kinks.linear, s, y, 0.0, row_ratio(problem, c, s, y))


def _is_exact(plain: Reduced, c: Array, mu: Array, held: Array, size: float) -> bool:
    """Whether both equations hold but for rounding."""
    own, felt = plain.H @ c + plain.b, plain.S @ mu
    terms = np.abs(own) + np.abs(plain.S) @ np.abs(mu)
    off = np.abs(plain.base[held] + c @ plain.S[:, held])
    return bool(np.all(np.abs(own + felt) <= EXACT * terms) and np.all(off <= EXACT * size))
