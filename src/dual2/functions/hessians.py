"""Second derivatives of smooth functions, and what is known of curvature.

A vector of length d stands for a diagonal matrix, an array (m, k, k) for m blocks on the diagonal;
None says that nothing is known, as of a user's Python function.
"""

from collections.abc import Callable, Sequence
from functools import singledispatch
from typing import NamedTuple

import numpy as np
from scipy.linalg import block_diag
from scipy.special import expit

from dual2.functions.arguments import Array
from dual2.functions.base import Function
from dual2.functions.calculus import Affined
from dual2.functions.glm import LogisticLoss, PoissonLoss
from dual2.functions.piecewise import PiecewiseQuadratic
from dual2.functions.quadratic import LeastSquares, Quadratic, SpectralFunction
from dual2.functions.regression import LogisticRegression
from dual2.functions.smooth_losses import HuberLoss, SquaredHingeLoss
from dual2.functions.softmax import SoftmaxLoss
from dual2.functions.stacked import Stacked

Matrix = Array | None
"""(d, d), (d,) for a diagonal matrix, (m, k, k) for equal blocks, None where it is not known."""


def dense(matrix: Array) -> Array:
    """A diagonal, or blocks on it, written out.

    Examples
    --------
    >>> dense(np.array([1.0, 2.0])).tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    """
    if matrix.ndim == 3:
        return block_diag(*matrix)
    return np.diag(matrix) if matrix.ndim == 1 else matrix


def stack(parts: Sequence[Matrix]) -> Matrix:
    """The block diagonal matrix of some, a vector if all of them are."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    if all(part.ndim == 1 for part in known):
        return np.concatenate(known)
    return block_diag(*map(dense, known))


def hessian(f: Function, x: Array) -> Matrix:
    """The second derivative of a smooth f at x; a generalised one where the gradient has kinks.

    Examples
    --------
    >>> from dual2.functions import SquaredNorm
    >>> hessian(SquaredNorm(3.0), np.zeros(2)).tolist()
    [3.0, 3.0]
    """
    if f.form is not None:
        return np.broadcast_to(f.form.curvature, x.shape) if f.form.smooth else None
    return _hessian(f, x)


class View(NamedTuple):
    """The value of a smooth function, its gradient, and what tells its second derivatives."""

    value: float
    gradient: Array
    bend: Callable[[], Array]


@singledispatch
def view(f: Function, x: Array) -> View:
    """What a Newton step wants to know of f at x; terms that they share are computed once.

    Examples
    --------
    >>> value, gradient, bend = view(LogisticLoss(np.array([1.0])), np.zeros(1))
    >>> round(value, 6), gradient.tolist(), bend().tolist()
    (0.693147, [-0.5], [0.25])
    """

    def bend() -> Array:
        found = hessian(f, x)
        assert found is not None, "asked for where it exists"
        return np.asarray(found, dtype=float)

    return View(float(f.value(x)), f.grad(x), bend)


@view.register
def _(f: PiecewiseQuadratic, x: Array) -> View:
    assert f.smooth, "without kinks and bounds"
    way = x - f.center
    bent = f.curvature * way
    value = 0.5 * float(bent @ way) + float(np.sum(f.slope * x + f.offset))
    return View(value, bent + f.slope, lambda: np.broadcast_to(f.curvature, x.shape))


@view.register
def _(f: SoftmaxLoss, x: Array) -> View:
    value, gradient, p = f.view(x)
    return View(value, gradient, lambda: f.hessian_blocks(p))


@view.register
def _(f: LogisticLoss, x: Array) -> View:
    margin = f.labels * x
    e = np.exp(-np.abs(margin))  # with m = |margin|: log(1 + exp(-m)), 1/(1 + exp(m))
    u = 1.0 + e
    rest = np.log(u) + (e - (u - 1.0)) / u  # the second term is what rounding took from u
    value = float((f.scale * (rest - np.minimum(margin, 0.0))).sum())
    slope = np.where(margin > 0, e, 1.0) / u
    return View(value, -f.scale * f.labels * slope, lambda: f.scale * (e / (u * u)))


@singledispatch
def _hessian(f: Function, x: Array) -> Matrix:
    return None


@_hessian.register
def _(f: Quadratic, x: Array) -> Matrix:
    return f.P


@_hessian.register
def _(f: LeastSquares, x: Array) -> Matrix:
    return f.M.T @ f.M + f.ridge * np.eye(len(x))


@_hessian.register
def _(f: LogisticRegression, x: Array) -> Matrix:
    probability = expit(f.labels * (f.M @ x))
    weight = probability * (1.0 - probability)
    return (f.M.T * weight) @ f.M + f.ridge * np.eye(len(x))


@_hessian.register(LogisticLoss)
@_hessian.register(SoftmaxLoss)
def _(f: Function, x: Array) -> Matrix:
    return view(f, x).bend()


@_hessian.register
def _(f: PoissonLoss, x: Array) -> Matrix:
    return f.scale * np.exp(x)


@_hessian.register
def _(f: HuberLoss, x: Array) -> Matrix:
    return np.where(np.abs(x - f.y) <= f.delta, f.scale, 0.0)


@_hessian.register
def _(f: SquaredHingeLoss, x: Array) -> Matrix:
    return np.where(f.labels * x < 1.0, 2.0 * np.asarray(f.scale), 0.0)


@_hessian.register
def _(f: Affined, x: Array) -> Matrix:
    inner = hessian(f.function, x - f.center)
    if inner is None or inner.ndim == 1:
        return None if inner is None else f.scale * inner + f.curvature
    return f.scale * inner + f.curvature * np.eye(inner.shape[-1])


@_hessian.register
def _(f: Stacked, x: Array) -> Matrix:
    return stack([hessian(part, at) for part, at in f.split(x)])


@singledispatch
def _quadratic(f: Function) -> bool:
    return False


@_quadratic.register(Quadratic)
@_quadratic.register(LeastSquares)
def _(f: SpectralFunction) -> bool:
    return True


@_quadratic.register
def _(f: Affined) -> bool:
    return is_quadratic(f.function)


@_quadratic.register
def _(f: Stacked) -> bool:
    return all(map(is_quadratic, f.functions))


def is_quadratic(f: Function) -> bool:
    """Whether f is known to be a quadratic polynomial.

    Examples
    --------
    >>> from dual2.functions import L1Norm, SquaredNorm
    >>> is_quadratic(SquaredNorm(2.0, 1.0)), is_quadratic(L1Norm(1.0))
    (True, False)
    """
    return f.form.smooth if f.form is not None else _quadratic(f)


def least_curvature(f: Function, dim: int) -> Array:
    """A matrix (or diagonal) below every second derivative of f on R^dim, kinks left out.

    The Hessian itself where f is quadratic, else μ·I; infinite where a coordinate is fixed.

    Examples
    --------
    >>> from dual2.functions import ElasticNet
    >>> least_curvature(ElasticNet(1.0, 0.5), 2).tolist()
    [0.5, 0.5]
    """
    if f.form is not None:
        fixed = np.equal(f.form.lower, f.form.upper)
        return np.broadcast_to(np.where(fixed, np.inf, f.form.curvature), (dim,)).astype(float)
    return _least(f, dim)


@singledispatch
def _least(f: Function, dim: int) -> Array:
    return np.full(dim, f.mu)


@_least.register(Quadratic)
@_least.register(LeastSquares)
def _(f: SpectralFunction, dim: int) -> Array:
    found = hessian(f, np.zeros(dim))
    return np.zeros(dim) if found is None else found


@_least.register
def _(f: Affined, dim: int) -> Array:
    inner = least_curvature(f.function, dim)
    return f.scale * inner + (f.curvature if inner.ndim == 1 else f.curvature * np.eye(dim))


@_least.register
def _(f: Stacked, dim: int) -> Array:
    found = stack([least_curvature(part, size) for part, size in f.parts])
    return np.zeros(dim) if found is None else found
