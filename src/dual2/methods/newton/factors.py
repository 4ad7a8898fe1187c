"""Cholesky's factors of small symmetric matrices, by LAPACK without checks around it."""

from typing import Any

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtrs

Array = np.ndarray
DEPENDENT, FURTHER = 1e-13, 1e-6
"""Squared length of what is new in a direction, relative to its own, below which it is rounding;
and in a random one, as all but the first are, below which it is not worth the digits that it
would lose."""


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
        if left[k, k] > (DEPENDENT if k == 0 else FURTHER) * own[k]:
            kept.append(k)
            columns.append(left[:, k] / np.sqrt(left[k, k]))
            left = left - np.outer(columns[-1], columns[-1])
    factor = np.array(columns).reshape(len(kept), len(own))[:, kept]
    return np.array(kept, dtype=int), np.tril(factor.T)
