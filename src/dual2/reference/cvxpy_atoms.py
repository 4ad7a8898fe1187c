"""Functions as cvxpy expressions."""

from collections.abc import Callable
from typing import Any

import numpy as np

from dual2 import functions as fn
from dual2.errors import CapabilityError
from dual2.functions.calculus import Affined
from dual2.functions.separable import separable_form

Atom = tuple[Any, list[Any]]
"""A cvxpy expression and the constraints that belong to it."""


def atom(function: fn.Function, x: Any, dim: int) -> Atom:
    """f(x) for a cvxpy expression x of length ``dim``."""
    import cvxpy as cp

    kind = type(function)
    if function.form is not None:
        return piecewise(cp, separable_form(function, dim), x)
    if kind in COSTS:
        return COSTS[kind](cp, function, x), []
    if kind in SETS:
        return 0.0, SETS[kind](cp, function, x)
    if kind in BOTH:
        return BOTH[kind](cp, function, x)
    raise CapabilityError(
        f"{function!r} has no expression in cvxpy, so that no reference can be computed."
    )


def wide(value: Any, x: Any) -> Any:
    """A number or a vector as a vector of the length of x."""
    return np.broadcast_to(value, x.shape)


def weighted(f: Any, values: Any) -> Any:
    """Σ scale_j·values_j."""
    return wide(f.scale, values) @ values


def bounds(lower: Any, upper: Any, x: Any) -> list[Any]:
    """Constraints lower ≤ x ≤ upper, equalities where the two agree."""
    fixed = lower == upper
    below, above = np.isfinite(lower) & ~fixed, np.isfinite(upper) & ~fixed
    constraints = []
    if fixed.any():
        constraints.append(x[np.flatnonzero(fixed)] == lower[fixed])
    if below.any():
        constraints.append(x[np.flatnonzero(below)] >= lower[below])
    if above.any():
        constraints.append(x[np.flatnonzero(above)] <= upper[above])
    return constraints


def piecewise(cp: Any, form: Any, x: Any) -> Atom:
    """Any member of the separable family: parabola, line, kink and bounds per coordinate."""
    cost = form.slope @ x + form.offset.sum()
    if np.any(form.curvature):
        root = np.sqrt(form.curvature)
        cost = cost + 0.5 * cp.sum_squares(cp.multiply(root, x) - root * form.center)
    kinked = np.flatnonzero(form.slope_left != form.slope_right)
    if kinked.size:
        left, right, t = form.slope_left[kinked], form.slope_right[kinked], x[kinked]
        t = t - form.kink[kinked]
        cost = cost + left @ t + cp.sum(cp.multiply(right - left, cp.pos(t)))
    return cost, bounds(form.lower, form.upper, x)


def affined(cp: Any, f: Any, x: Any) -> Atom:
    """c·f(x − a) + ⟨b, x⟩ + (q/2)|x|² + constant."""
    inner, constraints = atom(f.function, x - wide(f.center, x), x.size)
    cost = f.scale * inner + wide(f.slope, x) @ x + wide(f.constant, x).sum()
    return (cost + 0.5 * f.curvature * cp.sum_squares(x) if f.curvature else cost), constraints


def stacked(cp: Any, f: Any, x: Any) -> Atom:
    """Blocks with a function each."""
    cost: Any = 0.0
    constraints: list[Any] = []
    start = 0
    for part, size in zip(f.functions, f.sizes, strict=True):
        value, limits = atom(part, x[start : start + int(size)], int(size))
        cost, constraints = cost + value, constraints + limits
        start += int(size)
    return cost, constraints


def piecewise_linear(cp: Any, f: Any, x: Any) -> Atom:
    """The first piece plus a kink at every change of slope, within the bounds."""
    finite = np.isfinite(f.slopes)
    slope, changes = f.slopes[finite][0], np.diff(f.slopes)
    inner = np.isfinite(changes)
    cost = x.size * f.offset + slope * cp.sum(x - f.kinks[0])
    for kink, change in zip(f.kinks[inner], changes[inner], strict=True):
        cost = cost + change * cp.sum(cp.pos(x - kink))
    lower, upper = (
        np.full(x.size, end if bounded else far)
        for end, bounded, far in zip(
            f.kinks[[0, -1]], ~finite[[0, -1]], (-np.inf, np.inf), strict=True
        )
    )
    return cost, bounds(lower, upper, x)


def affine_set(cp: Any, f: Any, x: Any) -> list[Any]:
    """{Mx = b}, through an orthonormal basis of the rows, so that no equation is listed twice."""
    u, s, vt = np.linalg.svd(f.M, full_matrices=False)
    rank = int(np.sum(s > max(f.M.shape) * np.finfo(float).eps * s[0])) if s[0] > 0 else 0
    return [vt[:rank] @ x == (u.T @ f.b)[:rank] / s[:rank]] if rank else []


def polyhedron(cp: Any, f: Any, x: Any) -> list[Any]:
    """{lower ≤ Mx ≤ upper}."""
    rows = f.M @ x
    return bounds(wide(f.lower, rows), wide(f.upper, rows), rows)


def quadratic(cp: Any, f: Any, x: Any) -> Any:
    """½xᵀPx + qᵀx through a square root of P."""
    values, vectors = np.linalg.eigh(f.P)
    root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    return 0.5 * cp.sum_squares(root @ x) + wide(f.q, x) @ x


def with_ridge(cp: Any, f: Any, x: Any, cost: Any) -> Any:
    """A cost + (ridge/2)|x|²."""
    return cost + 0.5 * f.ridge * cp.sum_squares(x) if f.ridge else cost


COSTS: dict[type, Callable[[Any, Any, Any], Any]] = {
    # cvxpy's Huber loss is twice ours
    fn.HuberLoss: lambda cp, f, x: 0.5 * weighted(f, cp.huber(x - wide(f.y, x), f.delta)),
    fn.HuberNormLoss: lambda cp, f, x: (
        0.5 * f.scale * cp.huber(cp.norm(x - wide(f.y, x), 2), f.delta)
    ),
    fn.SquaredHingeLoss: lambda cp, f, x: weighted(
        f, cp.square(cp.pos(1 - cp.multiply(wide(f.labels, x), x)))
    ),
    fn.LogisticLoss: lambda cp, f, x: weighted(f, cp.logistic(cp.multiply(-wide(f.labels, x), x))),
    fn.PoissonLoss: lambda cp, f, x: weighted(f, cp.exp(x) - cp.multiply(wide(f.counts, x), x)),
    fn.L2Norm: lambda cp, f, x: f.weight * cp.norm(x, 2),
    fn.LInfNorm: lambda cp, f, x: f.weight * cp.norm_inf(x),
    fn.Max: lambda cp, f, x: f.weight * cp.sum_largest(x, 1),
    fn.SumLargest: lambda cp, f, x: f.weight * cp.sum_largest(x, f.count),
    fn.NegativeLog: lambda cp, f, x: -weighted(f, cp.log(x)),
    fn.Entropy: lambda cp, f, x: weighted(f, cp.rel_entr(x, wide(f.reference, x))),
    fn.Quadratic: quadratic,
    fn.LeastSquares: lambda cp, f, x: with_ridge(cp, f, x, 0.5 * cp.sum_squares(f.M @ x - f.b)),
    fn.LogisticRegression: lambda cp, f, x: with_ridge(
        cp, f, x, cp.sum(cp.logistic(-(f.labels[:, None] * f.M) @ x))
    ),
}
"""Functions that are finite, or whose domain cvxpy knows: from cvxpy, f and x to f(x)."""

SETS: dict[type, Callable[[Any, Any, Any], list[Any]]] = {
    fn.IndicatorSimplex: lambda cp, f, x: [x >= 0, cp.sum(x) == f.total],
    fn.IndicatorCappedSimplex: lambda cp, f, x: [x >= 0, x <= f.cap, cp.sum(x) == f.total],
    fn.IndicatorBall: lambda cp, f, x: [cp.norm(x - wide(f.center, x), 2) <= f.radius],
    fn.IndicatorL1Ball: lambda cp, f, x: [cp.norm1(x) <= f.radius],
    fn.IndicatorSecondOrderCone: lambda cp, f, x: [cp.norm(x[1:], 2) <= x[0]],
    fn.IndicatorHalfspace: lambda cp, f, x: [wide(f.a, x) @ x <= f.b],
    fn.IndicatorAffine: affine_set,
    fn.IndicatorPolyhedron: polyhedron,
}
"""Indicators, likewise to the constraints that define their set."""

BOTH: dict[type, Callable[[Any, Any, Any], Atom]] = {
    Affined: affined,
    fn.Stacked: stacked,
    fn.PiecewiseLinear: piecewise_linear,
}
"""The rest of what is outside the separable family, which :func:`piecewise` serves."""
