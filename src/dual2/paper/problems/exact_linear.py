"""Linear systems solved to the last bit, whatever the processor.

A reference must not depend on the order in which a BLAS adds. Here the residual of a double
precision solution is formed in rational arithmetic, where nothing is rounded, and corrected until
thirty digits stand: each correction multiplies the error by about ε·cond. What is returned is
that solution rounded once.
"""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

CORRECTIONS = 30
"""Most corrections; a system that needs more has cond near 1/ε, and no double solution."""

NOTHING = 2.0**-100
"""What counts as 0 beside the largest entry (both in the units of the balanced system)."""


def solve_exactly(matrix: Vector, right: Vector) -> Vector:
    """The solution of Mx = b, correctly rounded, for small systems with cond(M) below about 1e14.

    The entries of M and b are taken as the exact numbers that they are. If the corrections do not
    settle, M is singular to working precision: an ArithmeticError.

    Examples
    --------
    >>> solve_exactly(np.array([[3.0, 0.0], [1.0, 1e-9]]), np.array([1.0, 1.0])).tolist()
    [0.3333333333333333, 666666666.6666666]
    """
    scale = 1.0 / np.sqrt(np.maximum(np.abs(matrix).max(axis=1), np.finfo(float).tiny))
    scaled = matrix * np.outer(scale, scale)
    rows = [[(k, Fraction(v)) for k, v in enumerate(row) if v] for row in matrix.tolist()]
    wanted = [Fraction(value) for value in right.tolist()]
    exact = [Fraction(0)] * len(wanted)
    for _ in range(CORRECTIONS):
        residual = [
            float(b - sum((v * exact[k] for k, v in row), Fraction(0)))
            for b, row in zip(wanted, rows, strict=True)
        ]
        change = np.linalg.solve(scaled, scale * np.array(residual))
        exact = [x + Fraction(d) for x, d in zip(exact, (scale * change).tolist(), strict=True)]
        solution = np.array([float(x) for x in exact])
        least = NOTHING * float(np.abs(solution / scale).max(initial=0.0))
        if np.abs(change).max(initial=0.0) <= least:
            return np.where(np.abs(solution / scale) > least, solution, 0.0)
    raise ArithmeticError(f"the system is singular: {CORRECTIONS} corrections did not settle it")
