"""Cholesky's factors of small symmetric matrices, by LAPACK without checks around it."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtrs

Array = np.ndarray
DEPENDENT_RTOL, RANDOM_RTOL = 1e-13, 1e-6
"""Squared length of what is new in a direction, relative to its own, below which it is rounding;
and in a random one, as all but the first are, below which it is not worth the digits that it
would lose."""
NULL_RTOL, MIN_PIVOT = 1e-13, 1e-5
"""Eigenvalues, relative to the largest, below which a combination of directions is none; pivots of
a matrix with ones on its diagonal above which there is no such combination."""


def factorise(matrix: Array) -> Array | None:
    """L with LLᵀ = matrix in its lower half, or None where that is not positive definite.

    Examples
    --------
    >>> np.tril(factorise(np.array([[4.0, 2.0], [2.0, 2.0]]))).tolist()
    [[2.0, 0.0], [1.0, 1.0]]
    >>> factorise(np.array([[1.0, 2.0], [2.0, 1.0]])) is None
    True
    """
    factor, failed = dpotrf(matrix.T, lower=1) if len(matrix) else (matrix, 0)
    return None if failed else factor


def solve_with(factor: Array, right: Any) -> Array:
    """(LLᵀ)⁻¹ times a vector or columns."""
    return dpotrs(factor, right, lower=1)[0] if len(factor) else right


def solve_half(factor: Array, right: Array) -> Array:
    """L⁻ᵀ times columns."""
    return dtrtrs(factor, right, lower=1, trans=1)[0] if len(factor) else right


def independent(lengths: Array, along: Array) -> tuple[Array, Array]:
    """Which of some directions are new, and the factor L of LLᵀ = what is new in their products.

    ``lengths`` are the products with each other, ``along`` those with known orthonormal ones.

    Examples
    --------
    >>> kept, factor = independent(np.array([[4.0, 4.0], [4.0, 4.0]]), np.zeros((2, 0)))
    >>> kept.tolist(), factor.tolist()
    ([0], [[2.0]])
    """
    left, own = lengths - along @ along.T, np.diag(lengths)
    kept, columns = [], []
    for k in range(len(own)):
        if left[k, k] > (DEPENDENT_RTOL if k == 0 else RANDOM_RTOL) * own[k]:
            kept.append(k)
            columns.append(left[:, k] / np.sqrt(left[k, k]))
            left = left - np.outer(columns[-1], columns[-1])
    factor = np.array(columns).reshape(len(kept), len(own))[:, kept]
    return np.array(kept, dtype=int), np.tril(factor.T)


def inverse(matrix: Array) -> Callable[[Array], Array]:
    """V ↦ matrix⁺V, columns scaled alike first, combinations that are rounding left out.

    By Cholesky's factors where no pivot is small, else by eigenvectors.

    Examples
    --------
    >>> inverse(np.diag([4.0, 1e-12, 0.0]))(np.array([[4.0], [1.0], [1.0]])).tolist()
    [[1.0], [1000000000000.0], [0.0]]
    >>> inverse(np.array([[4.0, 2.0], [2.0, 2.0]]))(np.array([[6.0], [4.0]])).round(9).tolist()
    [[1.0], [1.0]]
    """
    diagonal = np.diag(matrix)
    scale = 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))[:, None]
    square = scale * matrix * scale.T
    factor = factorise(square)
    if factor is not None and factor.diagonal().min(initial=1.0) > MIN_PIVOT:
        return lambda v: scale * solve_with(factor, scale * v)
    values, vectors = np.linalg.eigh(square)
    kept = values > NULL_RTOL * max(float(values[-1]) if len(values) else 0.0, 1e-300)
    columns = scale * vectors[:, kept]
    return lambda v: columns @ ((columns.T @ v) / values[kept, None])
