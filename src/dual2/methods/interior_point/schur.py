"""The replicated system S λ = r: everybody has the same S and solves it alike."""

from collections.abc import Callable

import numpy as np
import scipy.linalg as sl

Array = np.ndarray
FIRST_SHIFT, LAST_SHIFT = 1e-14, 1e-2
"""What is added to the unit diagonal of S: the first try, and where S is given up."""
MOST_STEPS = 10
"""Conjugate-gradient steps on S itself."""
ENOUGH = 1e-15
"""Relative residual at which these end."""


def solver(S: Array) -> Callable[[Array], Array] | None:
    """r ↦ S⁻¹ r by Cholesky at unit diagonal and conjugate gradients; None without factors.

    Examples
    --------
    >>> solve = solver(np.array([[2.0, 1.0], [1.0, 2.0]]))
    >>> solve(np.array([3.0, 3.0])).round(12).tolist()
    [1.0, 1.0]
    """
    d = np.sqrt(np.maximum(np.diag(S), 1e-300))
    scaled = S / d / d[:, None]
    if not np.isfinite(scaled).all():
        return None
    shift = FIRST_SHIFT
    while True:
        shifted = scaled.copy()
        shifted[np.diag_indices(len(d))] += shift
        try:
            factors = sl.cho_factor(shifted, lower=True, overwrite_a=True, check_finite=False)
            break
        except sl.LinAlgError:
            shift *= 100.0
            if shift > LAST_SHIFT:
                return None

    def precondition(r: Array) -> Array:
        return sl.cho_solve(factors, r, check_finite=False)

    return lambda r: _refined(scaled, precondition, r / d) / d


def _refined(S: Array, precondition: Callable[[Array], Array], r: Array) -> Array:
    """The best of a few steps of preconditioned conjugate gradients."""
    norm = np.linalg.norm
    x = precondition(r)
    residual = r - S @ x
    z = precondition(residual)
    direction, product = z, residual @ z
    best, least, enough = x, float(norm(residual)), ENOUGH * float(norm(r))
    for _ in range(MOST_STEPS):
        image = S @ direction
        curvature = direction @ image
        if not (least > enough and product > 0 and curvature > 0):
            break
        x = x + product / curvature * direction
        residual = residual - product / curvature * image
        true = float(norm(r - S @ x))
        if true < least:
            best, least = x, true
        if true > 10.0 * least:
            break
        z = precondition(residual)
        new = residual @ z
        direction, product = z + new / product * direction, new
    return best
