"""Functions as cvxpy expressions."""

from __future__ import annotations

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
    if function.form is not None:
        return piecewise(function, x, dim)
    build = ATOMS.get(type(function))
    if build is None:
        raise CapabilityError(
            f"{function!r} has no expression in cvxpy, so that no reference can be computed."
        )
    return build(function, x, dim)


def piecewise(f: fn.Function, x: Any, dim: int) -> Atom:
    """Any member of the separable family: parabola, line, kink and bounds per coordinate."""
    import cvxpy as cp

    form: Any = separable_form(f, dim)
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


def affined(f: Any, x: Any, dim: int) -> Atom:
    """c·f(x − a) + ⟨b, x⟩ + (q/2)|x|² + constant."""
    import cvxpy as cp

    center, slope, constant = (np.broadcast_to(v, (dim,)) for v in (f.center, f.slope, f.constant))
    inner, constraints = atom(f.function, x - center, dim)
    cost = f.scale * inner + slope @ x + constant.sum()
    return (cost + 0.5 * f.curvature * cp.sum_squares(x) if f.curvature else cost), constraints


def stacked(f: Any, x: Any, dim: int) -> Atom:
    """Blocks with a function each."""
    cost: Any = 0.0
    constraints: list[Any] = []
    start = 0
    for part, size in zip(f.functions, f.sizes, strict=True):
        value, limits = atom(part, x[start : start + int(size)], int(size))
        cost, constraints = cost + value, constraints + limits
        start += int(size)
    return cost, constraints


def huber(f: Any, x: Any, dim: int) -> Atom:
    """Elementwise Huber loss (cvxpy's is twice ours)."""
    import cvxpy as cp

    y = np.broadcast_to(f.y, (dim,))
    return 0.5 * weighted(f, cp.huber(x - y, f.delta), dim), []


def squared_hinge(f: Any, x: Any, dim: int) -> Atom:
    """Squared hinge loss."""
    import cvxpy as cp

    labels = np.broadcast_to(f.labels, (dim,))
    return weighted(f, cp.square(cp.pos(1 - cp.multiply(labels, x))), dim), []


def weighted(f: Any, values: Any, dim: int) -> Any:
    """Σ scale_j·values_j."""
    return np.broadcast_to(f.scale, (dim,)) @ values


def logistic(f: Any, x: Any, dim: int) -> Atom:
    """Logistic loss."""
    import cvxpy as cp

    labels = np.broadcast_to(f.labels, (dim,))
    return weighted(f, cp.logistic(cp.multiply(-labels, x)), dim), []


def poisson(f: Any, x: Any, dim: int) -> Atom:
    """Poisson loss."""
    import cvxpy as cp

    counts = np.broadcast_to(f.counts, (dim,))
    return weighted(f, cp.exp(x) - cp.multiply(counts, x), dim), []


def l2_norm(f: Any, x: Any, dim: int) -> Atom:
    """Euclidean norm."""
    import cvxpy as cp

    return f.weight * cp.norm(x, 2), []


def simplex(f: Any, x: Any, dim: int) -> Atom:
    """{x ≥ 0, Σx = total}."""
    import cvxpy as cp

    return 0.0, [x >= 0, cp.sum(x) == f.total]


def ball(f: Any, x: Any, dim: int) -> Atom:
    """{|x − center| ≤ radius}."""
    import cvxpy as cp

    return 0.0, [cp.norm(x - np.broadcast_to(f.center, (dim,)), 2) <= f.radius]


def largest(f: Any, x: Any, dim: int) -> Atom:
    """The largest entry, or the sum of some."""
    import cvxpy as cp

    return f.weight * cp.sum_largest(x, getattr(f, "count", 1)), []


def linf_norm(f: Any, x: Any, dim: int) -> Atom:
    """The largest absolute value."""
    import cvxpy as cp

    return f.weight * cp.norm_inf(x), []


def l1_ball(f: Any, x: Any, dim: int) -> Atom:
    """{Σ|x_j| ≤ radius}."""
    import cvxpy as cp

    return 0.0, [cp.norm1(x) <= f.radius]


def capped_simplex(f: Any, x: Any, dim: int) -> Atom:
    """{0 ≤ x ≤ cap, Σx = total}."""
    import cvxpy as cp

    return 0.0, [x >= 0, x <= f.cap, cp.sum(x) == f.total]


def second_order_cone(f: Any, x: Any, dim: int) -> Atom:
    """{|(x_1, …)| ≤ x_0}."""
    import cvxpy as cp

    return 0.0, [cp.norm(x[1:], 2) <= x[0]]


def negative_log(f: Any, x: Any, dim: int) -> Atom:
    """−Σ scale·log(x)."""
    import cvxpy as cp

    return -weighted(f, cp.log(x), dim), []


def entropy(f: Any, x: Any, dim: int) -> Atom:
    """Σ scale·x·log(x/reference)."""
    import cvxpy as cp

    return weighted(f, cp.rel_entr(x, np.broadcast_to(f.reference, (dim,))), dim), []


def piecewise_linear(f: Any, x: Any, dim: int) -> Atom:
    """The first piece plus a kink at every change of slope, within the bounds."""
    import cvxpy as cp

    finite = np.isfinite(f.slopes)
    slope, changes = f.slopes[finite][0], np.diff(f.slopes)
    inner = np.isfinite(changes)
    cost = dim * f.offset + slope * cp.sum(x - f.kinks[0])
    for kink, change in zip(f.kinks[inner], changes[inner], strict=True):
        cost = cost + change * cp.sum(cp.pos(x - kink))
    lower, upper = (
        np.full(dim, end if bounded else far)
        for end, bounded, far in zip(
            f.kinks[[0, -1]], ~finite[[0, -1]], (-np.inf, np.inf), strict=True
        )
    )
    return cost, bounds(lower, upper, x)


def halfspace(f: Any, x: Any, dim: int) -> Atom:
    """{⟨a, x⟩ ≤ b}."""
    return 0.0, [np.broadcast_to(f.a, (dim,)) @ x <= f.b]


def affine_set(f: Any, x: Any, dim: int) -> Atom:
    """{Mx = b}, through an orthonormal basis of the rows, so that no equation is listed twice."""
    u, s, vt = np.linalg.svd(f.M, full_matrices=False)
    rank = int(np.sum(s > max(f.M.shape) * np.finfo(float).eps * s[0])) if s[0] > 0 else 0
    return 0.0, [vt[:rank] @ x == (u.T @ f.b)[:rank] / s[:rank]] if rank else []


def polyhedron(f: Any, x: Any, dim: int) -> Atom:
    """{lower ≤ Mx ≤ upper}."""
    m = len(f.M)
    return 0.0, bounds(np.broadcast_to(f.lower, m), np.broadcast_to(f.upper, m), f.M @ x)


def quadratic(f: Any, x: Any, dim: int) -> Atom:
    """½xᵀPx + qᵀx through a square root of P."""
    import cvxpy as cp

    values, vectors = np.linalg.eigh(f.P)
    root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    return 0.5 * cp.sum_squares(root @ x) + np.broadcast_to(f.q, (dim,)) @ x, []


def least_squares(f: Any, x: Any, dim: int) -> Atom:
    """½|Mx − b|² + (ridge/2)|x|²."""
    import cvxpy as cp

    cost = 0.5 * cp.sum_squares(f.M @ x - f.b)
    return (cost + 0.5 * f.ridge * cp.sum_squares(x) if f.ridge else cost), []


def logistic_regression(f: Any, x: Any, dim: int) -> Atom:
    """Σ log(1 + exp(−labels·Mx)) + (ridge/2)|x|²."""
    import cvxpy as cp

    cost = cp.sum(cp.logistic(-(f.labels[:, None] * f.M) @ x))
    return (cost + 0.5 * f.ridge * cp.sum_squares(x) if f.ridge else cost), []


ATOMS: dict[type, Callable[[Any, Any, int], Atom]] = {
    Affined: affined,
    fn.Stacked: stacked,
    fn.HuberLoss: huber,
    fn.SquaredHingeLoss: squared_hinge,
    fn.LogisticLoss: logistic,
    fn.PoissonLoss: poisson,
    fn.L2Norm: l2_norm,
    fn.IndicatorSimplex: simplex,
    fn.IndicatorBall: ball,
    fn.IndicatorHalfspace: halfspace,
    fn.IndicatorCappedSimplex: capped_simplex,
    fn.IndicatorL1Ball: l1_ball,
    fn.IndicatorSecondOrderCone: second_order_cone,
    fn.Max: largest,
    fn.SumLargest: largest,
    fn.LInfNorm: linf_norm,
    fn.NegativeLog: negative_log,
    fn.Entropy: entropy,
    fn.PiecewiseLinear: piecewise_linear,
    fn.IndicatorAffine: affine_set,
    fn.IndicatorPolyhedron: polyhedron,
    fn.Quadratic: quadratic,
    fn.LeastSquares: least_squares,
    fn.LogisticRegression: logistic_regression,
}
"""Everything outside the separable family, which :func:`piecewise` serves."""
