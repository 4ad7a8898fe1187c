"""Cholesky's factors of small symmetric matrices, by LAPACK without checks around it."""

from typing import Any

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtrs

Array = np.ndarray


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
