"""When a run is over: the optimality conditions, and proofs that there is no solution.

Everything here is computed alike by everybody, from what one sum brought. The conditions are at
least as strict as those of the certificate, which judges the answer once more at the end.
"""

from typing import NamedTuple

import numpy as np

from dual2.functions import Function
from dual2.functions.domains import rate_along, to_barrier, to_recession
from dual2.methods.newton.coupling import EPS, Point, Scaling
from dual2.methods.newton.message import (
    FAILS,
    MISSED,
    OUTSIDE,
    RATIO,
    SUPPORT,
    SUPPORT_SIZE,
)

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


class Judgement(NamedTuple):
    """The largest ratio of a residual to its scale, and whether all tests are met.

    ``nearly`` says the same if rows are only compared with what they are made of, Σ|A_i||x_i|: the
    best that can be had where rows cancel.
    """

    kkt: float
    met: bool
    nearly: bool


def group_norm(v: Array, groups: Array) -> Array:
    """For each row the Euclidean length of its group.

    Examples
    --------
    >>> group_norm(np.array([3.0, 4.0, 1.0]), np.array([0, 0, 1])).tolist()
    [5.0, 5.0, 1.0]
    """
    if len(v) == groups.max(initial=-1) + 1:
        return np.abs(v)
    return np.sqrt(np.bincount(groups, v * v))[groups]


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
    price = scaling.D * float(np.linalg.norm(at.lam / scaling.D))
    by_row = np.divide(load, price, out=np.ones_like(load), where=(price > 0) & (load > 0))
    size, length = (float(np.linalg.norm(part)) for part in (at.S, at.lam))
    overall = size / length if size > 0 and length > 0 else 1.0
    rows = whole = 0.0
    for t in (scaling.steps, np.full_like(by_row, overall), by_row):
        y = h.prox(at.S + t * at.lam, t)
        rows = max(rows, _row_ratio(at, t, y, groups, atol))
        whole = max(whole, _ratio_of_all(at, t, y, atol))
    product = max(abs(float(at.lam @ (at.S - at.y))) - atol, 0.0)
    scale = PRODUCT * max(at.objective, 1e-4 * largest)
    products = 0.0 if product == 0 else product / scale if scale > 0 else np.inf
    agents = float(at.numbers[RATIO])
    nearly = bool(rows <= tol and products <= tol and at.numbers[FAILS] == 0)
    return Judgement(max(rows, whole, products, agents), nearly and whole <= tol, nearly)


def _row_ratio(at: Point, t: Array, y: Array, groups: Array, atol: float) -> float:
    """The largest ratio of a row; one without load may be off by the rounding of tλ."""
    off = group_norm(at.S - y, groups)
    scale = np.maximum(group_norm(at.load, groups), group_norm(y, groups))
    idle = (at.load == 0) & (off <= ROUNDING * t * np.abs(at.lam))
    left = np.where(idle, 0.0, np.maximum(off - atol, 0.0))
    ratios = np.divide(left, scale, out=np.where(left > 0, np.inf, 0.0), where=scale > 0)
    return float(ratios.max(initial=0.0))


def _ratio_of_all(at: Point, t: Array, y: Array, atol: float) -> float:
    """All rows together, relative to |S| and |y| beyond the rounding of what they are made of."""
    whole = float(np.linalg.norm(at.S - y))
    size = max(float(np.linalg.norm(at.S)), float(np.linalg.norm(y)))
    slack = (
        atol
        + 16.0 * EPS * float(np.linalg.norm(at.load))
        + ROUNDING * float(np.linalg.norm(np.where(at.load == 0, t * at.lam, 0.0)))
    )
    return 0.0 if whole <= slack else (whole - slack) / size if size > 0 else np.inf


# -- no solution -----------------------------------------------------------------------------


def separators(h: Function, scaling: Scaling, candidates: list[Array], reached: Array) -> Array:
    """Those of the directions that may separate, each of length one.

    The domain of h must be bounded in direction u, and beyond it, <u, S> > σ_h(u), must be every S
    that the agents have ``reached`` (one row each): they can.
    """
    found = []
    for u in candidates:
        size = float(np.linalg.norm(u))
        if not 0 < size < np.inf:
            continue
        inside = to_barrier(h, u / size)
        scaled = np.abs(u / size) / scaling.D
        off = np.abs(u / size - inside) / scaling.D
        if not off.max() <= CONE * scaled.max():
            continue
        inside = inside / float(np.linalg.norm(inside))
        if h.domain_support(inside) < (reached @ inside).min():
            found.append(inside)
    return np.array(found).reshape(-1, len(scaling.D))


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
