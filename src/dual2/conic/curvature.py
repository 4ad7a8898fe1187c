"""Curvature matrices H of block forms: diagonal, dense, sparse or kept in factors."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import block_diag

Array = NDArray[np.float64]


class View(NamedTuple):
    """What a Newton step wants to know at a point: value, gradient, and a call for the Hessian."""

    value: float
    gradient: Array
    bend: Callable[[], Array]


class Factored(NamedTuple):
    """H = MᵀM + diag(diagonal), kept in factors where M has fewer rows than columns.

    M is an array or a sparse array, the diagonal a vector of length d.
    """

    M: Any
    diagonal: Array


Curvature = Any
"""H: a vector (the diagonal), a matrix, a sparse array or :class:`Factored`; None is 0."""


def multiply(H: Curvature, x: Array) -> Array:
    """H·x for a vector x.

    Examples
    --------
    >>> multiply(Factored(np.array([[1.0, 2.0]]), np.array([1.0, 0.0])), np.ones(2)).tolist()
    [4.0, 6.0]
    """
    if H is None:
        return np.zeros_like(x)
    if isinstance(H, Factored):
        return H.M.T @ (H.M @ x) + H.diagonal * x
    return H * x if H.ndim == 1 else H @ x


def dense_curvature(H: Curvature, dim: int) -> Array:
    """H written out.

    Examples
    --------
    >>> dense_curvature(np.array([1.0, 2.0]), 2).tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    """
    if H is None:
        return np.zeros((dim, dim))
    if isinstance(H, Factored):
        return dense_curvature(H.M.T @ H.M, dim) + np.diag(H.diagonal)
    return H.toarray() if sp.issparse(H) else np.diag(H) if H.ndim == 1 else H


def add_diagonal(H: Curvature, diagonal: Array) -> Curvature:
    """H + diag(diagonal), of the same kind as H.

    Examples
    --------
    >>> add_diagonal(np.zeros((2, 2)), np.array([1.0, 2.0])).tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    """
    if H is None:
        return diagonal
    if isinstance(H, Factored):
        return Factored(H.M, H.diagonal + diagonal)
    if sp.issparse(H):
        return sp.csr_array(H + sp.diags_array(diagonal))
    return H + (diagonal if H.ndim == 1 else np.diag(diagonal))


def scale_curvature(H: Curvature, scale: float) -> Curvature:
    """scale·H for a positive factor.

    Examples
    --------
    >>> scale_curvature(np.ones(2), 3.0).tolist()
    [3.0, 3.0]
    """
    if isinstance(H, Factored):
        return Factored(math.sqrt(scale) * H.M, scale * H.diagonal)
    return None if H is None else scale * H


def stack_curvatures(parts: Sequence[Curvature], sizes: Sequence[int]) -> Curvature:
    """The block diagonal matrix: a vector or factors if all parts allow it, else sparse.

    Examples
    --------
    >>> stack_curvatures([None, np.ones(1)], [2, 1]).tolist()
    [0.0, 0.0, 1.0]
    """
    if all(part is None for part in parts):
        return None
    full = [np.zeros(d) if H is None else H for H, d in zip(parts, sizes, strict=True)]
    if all(not isinstance(H, Factored) and H.ndim == 1 for H in full):
        return np.concatenate(full)
    if all(isinstance(H, Factored) or H.ndim == 1 for H in full):
        factors = [H if isinstance(H, Factored) else _no_factor(H) for H in full]
        M = sp.csr_array(sp.block_diag([factor.M for factor in factors], format="csr"))
        return Factored(M, np.concatenate([factor.diagonal for factor in factors]))
    written = [_sparse(H) for H in full]
    return sp.csr_array(sp.block_diag(written, format="csr"))


def _no_factor(diagonal: Array) -> Factored:
    return Factored(sp.csr_array((0, len(diagonal))), diagonal)


def _sparse(H: Curvature) -> Any:
    if isinstance(H, Factored):
        M = sp.csr_array(H.M)
        return M.T @ M + sp.diags_array(H.diagonal)
    return sp.diags_array(H) if H.ndim == 1 else sp.csr_array(H)


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
