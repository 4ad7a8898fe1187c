"""Generalised Jacobians of proxes.

A prox is Lipschitz, hence differentiable almost everywhere; where it has a kink, one of its
generalised derivatives (Clarke, 1983) is taken. All are symmetric with eigenvalues in [0, 1], and
written as in ``hessians``. What the compiled loops use is in ``jacobians``.
"""

from functools import singledispatch

import numpy as np
import scipy.sparse as sp

from dual2.functions.arguments import Array, Entries
from dual2.functions.barriers import Entropy, NegativeLog
from dual2.functions.base import Function, Support
from dual2.functions.calculus import Affined, Conjugate
from dual2.functions.cone import IndicatorSecondOrderCone
from dual2.functions.hessians import Matrix, hessian, stack
from dual2.functions.largest import IndicatorCappedSimplex, IndicatorL1Ball
from dual2.functions.norms_and_sets import (
    IndicatorAffine,
    IndicatorBall,
    IndicatorHalfspace,
    IndicatorSimplex,
    L2Norm,
)
from dual2.functions.piecewise import PiecewiseQuadratic
from dual2.functions.piecewise_linear import PiecewiseLinear
from dual2.functions.polyhedron import IndicatorPolyhedron
from dual2.functions.quadratic import SpectralFunction
from dual2.functions.smooth_losses import HuberNormLoss, SmoothLoss
from dual2.functions.stacked import Stacked

_ACTIVE = 1e-9
"""Distance, relative to the bound, at which a row of a polyhedron counts as active."""


def prox_jacobian(f: Function, v: Array, step: Entries) -> Matrix:
    """A generalised derivative at v of prox_{step·f}; steps may differ between ``f.groups``.

    Examples
    --------
    >>> from dual2.functions import IndicatorBox
    >>> prox_jacobian(IndicatorBox(0.0, 1.0), np.array([0.5, 2.0]), 1.0).tolist()
    [1.0, 0.0]
    """
    return _separable(f.form, v, step) if f.form is not None else _jacobian(f, v, step)


def _separable(f: PiecewiseQuadratic, v: Array, step: Entries) -> Array:
    """1/(1 + step·curvature) where the prox is inside a piece, 0 at a kink or bound."""
    weight = 1.0 / (1.0 + step * np.asarray(f.curvature))
    u = (v - step * f.linear) * weight
    low, high = u - weight * step * f.slope_right, u - weight * step * f.slope_left
    x = np.where(low > f.kink, low, high)
    inside = (low > f.kink) | (high < f.kink) | (low == high)
    return np.where(inside & (f.lower < x) & (x < f.upper), weight, 0.0)


def jacobian_axes(f: Function, dim: int) -> int:
    """Axes of what :func:`prox_jacobian` finds: 1 for a diagonal, 3 for blocks; 0 for nothing.

    That of a polyhedron is not formed, since with thousands of rows it takes seconds: it is dense.

    Examples
    --------
    >>> from dual2.functions import LogisticLoss, SoftmaxLoss
    >>> jacobian_axes(LogisticLoss(1.0), 1), jacobian_axes(SoftmaxLoss([0, 1], 2), 4)
    (1, 3)
    """
    if f.form is not None:
        return 1
    if isinstance(f, IndicatorPolyhedron):
        return 2
    zero = np.zeros(dim)
    if _jacobian.dispatch(type(f)) is _jacobian.dispatch(Function):
        found = hessian(f, zero) if f.smooth else None
    else:
        found = _jacobian(f, zero, 1.0)
    return 0 if found is None else found.ndim


@singledispatch
def _jacobian(f: Function, v: Array, step: Entries) -> Matrix:
    """Of a function with a Hessian: (I + step·H)⁻¹ at the prox."""
    curve = hessian(f, f.prox(v, step)) if f.smooth else None
    if curve is None:
        return None
    if curve.ndim == 1:
        return 1.0 / (1.0 + step * curve)
    count = len(curve) if curve.ndim == 3 else 1
    steps = np.broadcast_to(step, v.shape).reshape(count, -1)[:, :1, None]
    found = np.asarray(np.linalg.inv(np.eye(curve.shape[-1]) + steps * curve), dtype=float)
    return found if curve.ndim == 3 else found[0]


@_jacobian.register
def _jacobian_of_spectral_function(f: SpectralFunction, v: Array, step: Entries) -> Matrix:
    values, vectors = f.spectrum
    weights = 1.0 / (1.0 + step * values)
    return weights if vectors is None else (vectors * weights) @ vectors.T


@_jacobian.register
def _jacobian_of_smooth_loss(f: SmoothLoss, v: Array, step: Entries) -> Matrix:
    return 1.0 - _separable(f.conjugate, v / step, 1.0 / np.asarray(step))


@_jacobian.register(Conjugate)
@_jacobian.register(HuberNormLoss)
@_jacobian.register(Support)
def _jacobian_by_moreau(f: Function, v: Array, step: Entries) -> Matrix:
    inner = prox_jacobian(f.conjugate, v / step, 1.0 / np.asarray(step))
    if inner is None:
        return None
    return 1.0 - inner if inner.ndim == 1 else np.eye(inner.shape[-1]) - inner


@_jacobian.register
def _jacobian_of_affined(f: Affined, v: Array, step: Entries) -> Matrix:
    kappa = 1.0 + step * f.curvature
    at = (v - step * f.slope) / kappa - f.center
    inner = prox_jacobian(f.function, at, step * f.scale / kappa)
    if inner is not None and inner.ndim == 3:
        kappa = np.broadcast_to(kappa, v.shape).reshape(len(inner), -1, 1)
    return None if inner is None else inner / kappa


@_jacobian.register
def _jacobian_of_stacked(f: Stacked, v: Array, step: Entries) -> Matrix:
    parts = zip(f.split(v), f.steps(step), strict=True)
    return stack([prox_jacobian(part, at, t) for (part, at), t in parts])


@_jacobian.register
def _jacobian_of_l2_norm(f: L2Norm, v: Array, step: Entries) -> Matrix:
    length, radius = float(np.linalg.norm(v)), float(np.max(step)) * f.weight
    if length <= radius:
        return np.full(len(v), 1.0 if radius == 0 else 0.0)
    ratio, unit = radius / length, v / length
    return (1.0 - ratio) * np.eye(len(v)) + ratio * np.outer(unit, unit)


@_jacobian.register
def _jacobian_of_ball(f: IndicatorBall, v: Array, step: Entries) -> Matrix:
    away = v - f.center
    length = float(np.linalg.norm(away))
    if length <= f.radius:
        return np.full(len(v), 1.0 if f.radius > 0 else 0.0)
    unit = away / length
    return f.radius / length * (np.eye(len(v)) - np.outer(unit, unit))


@_jacobian.register(IndicatorSimplex)
@_jacobian.register(IndicatorCappedSimplex)
def _jacobian_of_simplex_or_capped_simplex(f: Function, v: Array, step: Entries) -> Matrix:
    z = f.prox(v, 1.0)
    free = ((z > 0) & (z < getattr(f, "cap", np.inf))).astype(float)
    return np.diag(free) - np.outer(free, free) / max(free.sum(), 1.0)


@_jacobian.register
def _jacobian_of_l1_ball(f: IndicatorL1Ball, v: Array, step: Entries) -> Matrix:
    threshold = float(f.threshold(v, f.radius)[0])
    if threshold == 0.0:
        return np.full(len(v), 1.0 if f.radius > 0 else 0.0)
    signs = np.sign(v) * (np.abs(v) > threshold)
    return np.diag(np.abs(signs)) - np.outer(signs, signs) / max(np.abs(signs).sum(), 1.0)


@_jacobian.register
def _jacobian_of_second_order_cone(f: IndicatorSecondOrderCone, v: Array, step: Entries) -> Matrix:
    """½(1, ū)(1, ū)ᵀ + ½(1 + t/|u|)(I - ūūᵀ) between the cone and its polar."""
    length = float(np.linalg.norm(v[1:]))
    if length <= abs(v[0]):
        return np.full(len(v), 1.0 if v[0] > 0 or length == v[0] else 0.0)
    edge, unit = np.append(1.0, v[1:] / length), np.append(0.0, v[1:] / length)
    across = np.diag(np.append(0.0, np.ones(len(v) - 1))) - np.outer(unit, unit)
    return 0.5 * np.outer(edge, edge) + 0.5 * (1.0 + v[0] / length) * across


@_jacobian.register
def _jacobian_of_piecewise_linear(f: PiecewiseLinear, v: Array, step: Entries) -> Matrix:
    return (f.place(v, step) % 2 == 0).astype(float)


@_jacobian.register
def _jacobian_of_negative_log(f: NegativeLog, v: Array, step: Entries) -> Matrix:
    z = f.prox(v, step)
    return 1.0 / (1.0 + step * f.scale / z / z)


@_jacobian.register
def _jacobian_of_entropy(f: Entropy, v: Array, step: Entries) -> Matrix:
    z = f.prox(v, step)
    return z / (z + step * f.scale)


@_jacobian.register
def _jacobian_of_halfspace(f: IndicatorHalfspace, v: Array, step: Entries) -> Matrix:
    a = np.broadcast_to(f.a, v.shape)
    if a @ v <= f.b or not a.any():
        return np.ones(len(v))
    return np.eye(len(v)) - np.outer(a, a) / (a @ a)


@_jacobian.register
def _jacobian_of_affine(f: IndicatorAffine, v: Array, step: Entries) -> Matrix:
    Q = f.basis[0]
    return np.eye(len(v)) - Q.T @ Q


@_jacobian.register
def _jacobian_of_polyhedron(f: IndicatorPolyhedron, v: Array, step: Entries) -> Matrix:
    """The projection on the linear space of the face on which v is projected."""
    z, m = f.prox(v, 1.0), f.M.shape[0]
    lower, upper = np.broadcast_to(f.lower, (m,)), np.broadcast_to(f.upper, (m,))
    level, lengths = f.M @ z, f._sorted[0]
    near = _ACTIVE * (np.abs(level) + lengths * float(np.linalg.norm(z)))
    active = f.M[((level - lower <= near) | (upper - level <= near)) & (lengths > 0)]
    active = active.toarray() if sp.issparse(active) else active
    if not len(active) or np.array_equal(z, v):
        return np.ones(len(v))
    _, sizes, rows = np.linalg.svd(active, full_matrices=False)
    Q = rows[sizes > _ACTIVE * sizes.max()]
    return np.eye(len(v)) - Q.T @ Q
