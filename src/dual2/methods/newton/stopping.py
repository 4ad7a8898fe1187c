"""When a run is over: the optimality conditions, and proofs that there is no solution.

Everything here is computed alike by everybody, from what one sum brought. The conditions are at
least as strict as those of the certificate, which judges the answer once more at the end.
"""

import math
from typing import NamedTuple

import numpy as np

from dual2.functions import Function
from dual2.functions.domains import rate_along, to_barrier, to_recession
from dual2.methods.newton.coupling import EPS, Point, Scaling
from dual2.methods.newton.message import (
    FAILS,
    MISSED,
    MOVED,
    OUTSIDE,
    RATIO,
    SUPPORT,
    SUPPORT_SIZE,
)
from dual2.problem.residual import group_norm

Array = np.ndarray
PRODUCT = 10.0
"""How much more than tol of the objective the products of prices and violations may be."""
ROUNDING = 64.0 * EPS
CONE, AHEAD, FAR = 1e-9, 1e-10, 1e4
"""Of a separating direction: distance to the barrier cone that counts as none, least gap relative
to its terms, and how many times larger than seen a feasible point would have to be."""
FALL, CLOSE = 1e-6, 1e-3
"""Least rate, relative to its terms, at which an unbounded objective falls, and how far from the
recession cone of h, relative to their own terms, rows may be that are worth a closer look."""


FINAL = 1e-13
"""Residual, relative to what rows are made of, that is nothing but rounding."""


class Judgement(NamedTuple):
    """The largest ratio of a residual to its scale, and whether all tests are met.

    ``nearly`` says the same if rows are only compared with what they are made of, Σ|A_i||x_i|: the
    best that can be had where rows cancel.
    """

    kkt: float
    met: bool
    nearly: bool


def judge(
    h: Function, scaling: Scaling, at: Point, largest: float, tol: float, atol: float
) -> Judgement:
    """Rows, products of prices and violations, and agents; ``largest`` objective seen so far.

    |S_j - y_j| is compared with max(Σ|A_i||x_i|, |y|)_j for y = prox_{th}(S + tλ) with three step
    lengths t: the method's own, the ratio of the sizes of S and λ, and one row by row, of the load
    and the size that the scaled price has in this row (its own may be nothing but rounding).
    """
    groups = h.groups(len(at.lam))
    load = group_norm(at.load, groups)
    price = scaling.D * _length(at.lam / scaling.D)
    by_row = np.divide(load, price, out=np.ones_like(load), where=(price > 0) & (load > 0))
    size, length = _length(at.S), _length(at.lam)
    overall = size / length if size > 0 and length > 0 else 1.0
    steps = np.array([scaling.steps, np.full_like(by_row, overall), by_row])
    pulled = steps * at.lam
    y = np.array([h.prox(v, t) for v, t in zip(at.S + pulled, steps, strict=True)])
    off, idle = at.S - y, np.where(at.load == 0, ROUNDING * np.abs(pulled), 0.0)
    far, reach = (np.array([group_norm(v, groups) for v in rows]) for rows in (off, y))
    rows = _row_ratio(far, np.maximum(load, reach), idle, atol)
    slack = atol + 16.0 * EPS * _length(at.load)
    whole = max(
        _ratio(_length(off[k]) - slack - _length(idle[k]), max(size, _length(y[k])))
        for k in range(len(y))
    )
    product = abs(float(at.lam @ (at.S - at.y))) - atol
    products = _ratio(product, PRODUCT * max(at.objective, 1e-4 * largest))
    agents = float(at.numbers[RATIO])
    nearly = bool(rows <= tol and products <= tol and at.numbers[FAILS] == 0)
    return Judgement(max(rows, whole, products, agents), nearly and whole <= tol, nearly)


def _length(v: Array) -> float:
    return math.sqrt(float(v @ v))


def _ratio(left: float, scale: float) -> float:
    """What is left over its scale; 0 if nothing is."""
    return 0.0 if left <= 0 else left / scale if scale > 0 else np.inf


def _row_ratio(off: Array, scale: Array, idle: Array, atol: float) -> float:
    """The largest ratio of a row; one without load may be off by the rounding of tλ, ``idle``."""
    left = np.where(off <= idle, 0.0, np.maximum(off - atol, 0.0))
    ratios = np.divide(left, scale, out=np.where(left > 0, np.inf, 0.0), where=scale > 0)
    return float(ratios.max(initial=0.0))


def is_final(scaling: Scaling, at: Point, rows: Array | None = None) -> bool:
    """Whether what is left of the residual is rounding beside ``rows``, or what makes them up."""
    rows = np.maximum(at.load, np.abs(at.y)) if rows is None else rows
    return bool(at.residual / scaling.gamma <= FINAL * _length(scaling.D * rows))


def is_at_rest(scaling: Scaling, at: Point, widest: Array) -> bool:
    """Whether the agents have not left their anchors either: Σ r_i|x_i - x̄_i|² is nothing.

    Rows are compared with the ``widest`` that they have been: one that is empty in the end is made
    of nothing but rounding.
    """
    return bool(at.numbers[MOVED] <= FINAL**2 * at.objective) and is_final(scaling, at, widest)


# -- no solution -----------------------------------------------------------------------------


def separators(h: Function, scaling: Scaling, candidates: list[Array], reached: Array) -> Array:
    """Those of the directions that may separate, each of length one.

    The domain of h must be bounded in direction u, and beyond it, <u, S> > σ_h(u), must be every S
    that the agents have ``reached`` (one row each): they can.
    """
    sizes = np.array([_length(u) for u in candidates])
    usable = (0 < sizes) & (sizes < np.inf)
    units = np.array(candidates)[usable] / sizes[usable, None]
    inside = np.array([to_barrier(h, u) for u in units]).reshape(units.shape)
    off, scaled = np.abs(units - inside) / scaling.D, np.abs(units) / scaling.D
    inside = inside[off.max(axis=1) <= CONE * scaled.max(axis=1)]
    inside /= np.sqrt((inside * inside).sum(axis=1))[:, None]
    return inside[h.domain_support(inside) < (reached @ inside.T).min(axis=0)]


def proves_infeasible(h: Function, u: Array, numbers: Array, y: Array) -> bool:
    """Whether u separates what the agents can produce from what h accepts (Farkas).

    The gap -σ_h(u) - Σ σ_i(v_i) must exceed rounding, and what the distances of -A_iᵀu to the
    barrier cones could make up for within x_i of ten thousand times the size seen.
    """
    own = float(h.domain_support(u))
    gap = -own - float(numbers[SUPPORT])
    size = abs(own) + float(np.abs(u) @ np.abs(y)) + float(numbers[SUPPORT_SIZE])
    return bool(numbers[OUTSIDE] == 0 and gap > AHEAD * size and gap > FAR * numbers[MISSED])


class Fall(NamedTuple):
    """Whether it is proven that the objective falls for ever, and whether it looks like that.

    Then ``rate`` is how fast it does, and rows may be off by ``spare`` in all.
    """

    proven: bool = False
    nearly: bool = False
    rate: float = 0.0
    spare: float = 0.0


def falls_along(
    h: Function, scaling: Scaling, ray: Array, longest: float, objective: float
) -> Fall:
    """Whether the objective falls for ever along the agents' directions d_i; see :mod:`.message`.

    s = Σ A_i d_i must lie in the recession cone of h, up to rounding and up to what no price of ten
    thousand times the length seen could pay for. It looks like that where one of the two holds.
    """
    p = len(scaling.D)
    s, load, rate, size = ray[:p], ray[p : 2 * p], float(ray[2 * p]), float(ray[2 * p + 1])
    length = float(np.linalg.norm(s))
    t = length * to_recession(h, s / length) if length > 0 else s
    along = float(np.linalg.norm(t))
    rate += along * rate_along(h, t / along) if along > 0 else 0.0
    off = np.abs(s - t)
    if not np.isfinite(rate) or not rate < -FALL * size:
        return Fall()
    spare = -rate / (FAR * max(longest, np.sqrt(objective), 1e-300))
    if np.any(off > CLOSE * load) and np.linalg.norm(scaling.D * off) > spare:
        return Fall()
    proven = np.all(off <= CONE * load) and np.linalg.norm(scaling.D * off) < spare
    return Fall(bool(proven), True, -rate, float(spare))
