"""What the data of a problem justify: units of rows, sizes of variables and of prices.

Terms of a sum that cancel may be larger than the sum, but not without bound: these are the bounds.
See :class:`dual2.problem.KKT`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dual2.functions import Stacked
from dual2.problem.ingredients import quotients

if TYPE_CHECKING:
    from dual2.functions import Function
    from dual2.problem.groups import Group, PointEvaluation
    from dual2.problem.problem import Problem

Vector = NDArray[np.float64]

FLOOR = 1e-12
"""Part of the largest row, or force, below which nothing is judged: rounding of ordinary data."""

CANCELLATION = 1e3
"""How much larger than anything that the data justify the terms of a sum may be that cancels.
Sums of ordinary data lose up to three digits; a sum that loses more hides what is wrong with it."""

TINY = 1e-100
"""Size of a coordinate that has none: so short a step sees the directions of g alone."""

UNTOUCHED = 1e300
"""Stands for an infinite price, of a row that no agent touches."""


class CouplingRows(NamedTuple):
    """The coupling, known to everybody: sums, units, and what is justified."""

    s: Vector
    load: Vector
    units: Vector
    """d_j; 1 where no agent touches the row."""
    price: float = 0.0
    """Λ."""
    length: float = 0.0
    """The largest e_k|x_k| that data justify."""
    threshold: Vector | float = 0.0
    """min_k φ_k/|A_jk|: the price of each row that matters to nobody relative to tol."""


class Scales(NamedTuple):
    """What the coordinates of a group are measured by; blocks have their norm everywhere."""

    force: Vector
    """φ_k."""
    size: Vector
    """|x_k|, or what stands for it."""
    reach: Vector
    """z_k."""
    floor: Vector
    """Forces below are not judged."""


def justified(
    problem: Problem, asked: list[tuple[Group, PointEvaluation]], lam: Vector, rows: CouplingRows
) -> CouplingRows:
    """The rows with the largest price and the largest size of a variable that data justify."""
    found = np.zeros((len(problem.agents), 2))
    for group, at_point in asked:
        columns = group.A.peaks(1.0 / rows.units)
        prices = np.divide(
            at_point.force, columns, out=np.zeros_like(at_point.X), where=columns > 0
        )
        found[group.at, 0] = prices.max(axis=1, initial=0.0)
        found[group.at, 1] = (columns * justified_sizes(group, at_point)).max(axis=1, initial=0.0)
    price, length = problem.largest(found).tolist()
    own = float(np.max(rows.units * justified_prices(problem.h, lam), initial=0.0))
    return rows._replace(price=max(price, own), length=length)


def justified_sizes(group: Group, at_point: PointEvaluation) -> Vector:
    """|x_k| where the domain of g does not allow to double it, or as far as f explains it."""
    size = np.abs(at_point.X)
    short = np.where(size > 0, FLOOR * FLOOR * quotients(size, at_point.force), TINY)
    with np.errstate(all="ignore"):
        doubled = np.abs(group.g.prox(2.0 * at_point.X, group.blocks.least(short)))
        start = np.abs(group.f.gradients(np.zeros_like(at_point.X)))
    start = np.where(np.isfinite(start), start, 0.0)
    forces = np.maximum(np.maximum(np.abs(at_point.gradient), np.abs(at_point.ATy)), start)
    curvature = group.curvature
    known = np.divide(forces, curvature, out=np.zeros_like(size), where=curvature > 0)
    return np.where(doubled <= 1.5 * size, size, np.minimum(size, CANCELLATION * known))


def justified_prices(h: Function, lam: Vector) -> Vector:
    """|λ_j| as far as h explains it: by its own slopes, or since its conjugate ends there."""
    size = np.abs(lam)
    if isinstance(h, Stacked):
        return np.concatenate([justified_prices(*part) for part in h.split(lam)])
    if h.form is not None:
        left, right = np.abs(h.form.slope_left), np.abs(h.form.slope_right)
        return np.minimum(size, np.abs(h.form.linear) + np.maximum(left, right))
    if h.smooth:
        return np.minimum(size, np.abs(h._grad(np.zeros_like(lam))))
    if not h.proximable:
        return size
    doubled = h.conjugate.prox(2.0 * lam, TINY)
    return np.where(np.linalg.norm(doubled) <= 1.5 * np.linalg.norm(lam), size, 0.0)


def forces_of(group: Group, at_point: PointEvaluation, rows: CouplingRows) -> Vector:
    """φ_k of the coordinates of a group."""
    allowed = CANCELLATION * group.A.peaks(1.0 / rows.units) * rows.price
    return group.blocks.norms(np.maximum(at_point.force, np.minimum(at_point.abs_ATy, allowed)))


def with_threshold_prices(
    problem: Problem, asked: list[tuple[Group, PointEvaluation, Vector]], rows: CouplingRows
) -> CouplingRows:
    """The rows with the least price that some coordinate feels; with each group its φ_k."""
    least = np.full((len(problem.agents), problem.p), -UNTOUCHED)
    for group, _, forces in asked:
        least[group.at] = -np.minimum(group.A.least_quotients(forces), UNTOUCHED)
    threshold = -problem.largest(least)
    return rows._replace(threshold=np.where(threshold < UNTOUCHED, threshold, 0.0))


def scales_of(
    group: Group, at_point: PointEvaluation, force: Vector, rows: CouplingRows, sizes: Vector
) -> Scales:
    """The scales of :class:`KKT` for the coordinates of a group; ``sizes`` are those of rows."""
    norms, columns = group.blocks.norms, group.A.peaks(1.0 / rows.units)
    least = FLOOR * rows.units * max(float(np.max(sizes / rows.units, initial=0.0)), rows.length)
    blocked = group.A.peaks(quotients(np.ones_like(sizes), np.maximum(sizes, least)))
    size = np.abs(at_point.X)
    reach = np.divide(1.0, blocked, out=size.copy(), where=blocked > 0)
    reach = norms(np.maximum(size, np.broadcast_to(reach, size.shape)))
    size = norms(size)
    least = np.where(reach > 0, FLOOR * reach, TINY)
    if not group.blocks.separate:
        # A projection onto several sets ends near its faces, not on them: an x that ought to be 0
        # comes out as 1e-11, and relative to itself every move of it is large. What counts is
        # whether the move changes a row. Iterative projections bear no shorter step either.
        size = np.where(reach > 0, reach, 1.0)
    return Scales(
        force,
        np.maximum(size, least) if group.blocks.separate else size,
        reach,
        norms(FLOOR * np.minimum(at_point.abs_ATy, columns * rows.price)),
    )
