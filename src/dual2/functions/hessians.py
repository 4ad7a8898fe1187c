"""Second derivatives of smooth functions, and what is known of curvature.

A vector of length d stands for a diagonal matrix, an array (m, k, k) for m blocks on the diagonal;
None says that nothing is known, as of a user's Python function.
"""

from functools import singledispatch

import numpy as np

from dual2.conic.curvature import Matrix, View, dense, stack
from dual2.functions.arguments import Array
from dual2.functions.base import Function
from dual2.functions.calculus import Affined
from dual2.functions.quadratic import LeastSquares, Quadratic, SpectralFunction
from dual2.functions.stacked import Stacked

__all__ = ["Matrix", "View", "dense", "hessian", "is_quadratic", "least_curvature", "stack", "view"]


def hessian(f: Function, x: Array) -> Matrix:
    """The second derivative of a smooth f at x; a generalised one where the gradient has kinks.

    Examples
    --------
    >>> from dual2.functions import SquaredNorm
    >>> hessian(SquaredNorm(3.0), np.zeros(2)).tolist()
    [3.0, 3.0]
    """
    return f._hessian(x)


def view(f: Function, x: Array) -> View:
    """What a Newton step wants to know of f at x; terms that they share are computed once.

    Examples
    --------
    >>> from dual2.functions import LogisticLoss
    >>> value, gradient, bend = view(LogisticLoss(np.array([1.0])), np.zeros(1))
    >>> round(value, 6), gradient.tolist(), bend().tolist()
    (0.693147, [-0.5], [0.25])
    """
    return f._view(x)


@singledispatch
def _quadratic(f: Function) -> bool:
    return False


@_quadratic.register(Quadratic)
@_quadratic.register(LeastSquares)
def _quadratic_of_quadratic_or_least_squares(f: SpectralFunction) -> bool:
    return True


@_quadratic.register
def _quadratic_of_affined(f: Affined) -> bool:
    return is_quadratic(f.function)


@_quadratic.register
def _quadratic_of_stacked(f: Stacked) -> bool:
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
def _least_of_quadratic_or_least_squares(f: SpectralFunction, dim: int) -> Array:
    found = hessian(f, np.zeros(dim))
    return np.zeros(dim) if found is None else found


@_least.register
def _least_of_affined(f: Affined, dim: int) -> Array:
    inner = least_curvature(f.function, dim)
    return f.scale * inner + (f.curvature if inner.ndim == 1 else f.curvature * np.eye(dim))


@_least.register
def _least_of_stacked(f: Stacked, dim: int) -> Array:
    found = stack([least_curvature(part, size) for part, size in f.parts])
    return np.zeros(dim) if found is None else found
