"""The replicated system S λ = r: everybody has the same S and solves it alike.

S is factorised densely, or by its pattern where that takes less work. Both are preconditioners:
conjugate gradients on S itself follow.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg.lapack as lapack

from dual2.conic.schur_pattern import SchurPattern
from dual2.conic.sparse_ldl import Elimination

Array = np.ndarray
FIRST_SHIFT, LAST_SHIFT = 1e-14, 1e-2
"""What is added to the unit diagonal of S: the first try, and where S is given up."""
MOST_STEPS = 10
"""Conjugate-gradient steps on S itself."""
ENOUGH = 1e-15
"""These end where the residual is this part of the right-hand side and of the solution: S has a
unit diagonal, so rounding of S x leaves no less."""
LEAST_ROWS = 100
"""Rows from which sparse factors are looked for; a smaller S is factorised in no time."""
DENSE_SPEED = 12.0
"""Multiplications of a dense factorisation that take as long as one of a sparse one."""


class SchurFactors:
    """Solves systems with matrices S of one pattern.

    Examples
    --------
    >>> factors = SchurFactors(SchurPattern.full(2))
    >>> solve = factors.solver(np.array([2.0, 1.0, 2.0]))
    >>> solve(np.array([3.0, 3.0])).round(12).tolist()
    [1.0, 1.0]
    """

    def __init__(self, pattern: SchurPattern) -> None:
        self.pattern, self._elimination = pattern, None
        p = pattern.p
        if p >= LEAST_ROWS and pattern.size < triangle_share(p):
            found = Elimination.of(pattern.sparse(np.ones(pattern.size)), np.ones(p))
            if DENSE_SPEED * found.work < p**3 / 3:
                self._elimination = found

    def solver(self, values: Array, delta: float = 0.0) -> Callable[[Array], Array] | None:
        """r ↦ (S + δI)⁻¹ r for the entries of S; None without factors."""
        pattern = self.pattern
        if not np.isfinite(values).all():
            return None
        values = values.copy()
        values[pattern.diagonal] += delta
        d = np.sqrt(np.maximum(values[pattern.diagonal], 1e-300))
        scaled = values / d[pattern.rows] / d[pattern.columns]
        sparse = self._elimination is not None
        S: Any = pattern.sparse(scaled) if sparse else pattern.dense(scaled)
        shift = FIRST_SHIFT
        precondition = self._factorise(S, shift)
        while precondition is None:
            shift *= 100.0
            if shift > LAST_SHIFT:
                return None
            precondition = self._factorise(S, shift)
        known = precondition
        return lambda r: _refined(S, known, r / d) / d

    def _factorise(self, S: Any, shift: float) -> Callable[[Array], Array] | None:
        """Factors of S + shift; None if it is not positive definite."""
        if self._elimination is not None:
            data = S.data.copy()
            data[self.pattern.sparse_diagonal] += shift
            factors = self._elimination.factorise(data)
            return None if factors.replaced else factors.solve
        if not len(S):
            return np.copy
        shifted = np.array(S, order="F")
        shifted[np.diag_indices(len(S))] += shift
        factor, failed = lapack.dpotrf(shifted, lower=1, clean=0, overwrite_a=1)
        if failed:
            return None
        return lambda r: lapack.dpotrs(factor, r[:, None], lower=1)[0][:, 0]


def triangle_share(p: int) -> float:
    """Entries of S below which a sparse factorisation may pay: half of the triangle."""
    return p * (p + 1) / 4


def _refined(S: Any, precondition: Callable[[Array], Array], r: Array) -> Array:
    """The best of a few steps of preconditioned conjugate gradients."""
    norm = np.linalg.norm
    x = precondition(r)
    residual = r - S @ x
    z = precondition(residual)
    direction, product = z, residual @ z
    best, least = x, float(norm(residual))
    enough = ENOUGH * float(norm(r) + norm(x))
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
