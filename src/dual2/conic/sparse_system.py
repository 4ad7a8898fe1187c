"""K = [H + D, Bᵀ; B, −Θ⁻¹ − ρI] of one agent as a sparse matrix, and solutions with it.

Its pattern, the order of elimination and the entries of H and B are kept; in every iteration only
diagonals and Θ⁻¹ are written. K is quasi-definite: L D Lᵀ of K with a little more on its diagonal
(Vanderbei 1995; the same in CLARABEL), and refinement on K itself. Where rows determine variables
almost without curvature, refinement does not converge: then L U of K with row exchanges (SuperLU),
which takes about twice as long.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as sla

from dual2.conic.sparse_ldl import Elimination
from dual2.conic.standard_form import ConicRows

Array = np.ndarray
MOST_REFINEMENTS = 5
ENOUGH = 1e-15
"""Refinement ends at this part of the right-hand side."""
STATIC = 1e-8
"""Added to the diagonal with the sign of the pivot before factorising: factors without row
exchanges keep half of the digits, and refinement brings the rest back."""
BACKWARD_ERROR = 1e-10
"""Largest backward error of a row; beyond it, K is factorised with row exchanges. Without them
errors of 1e-7 stopped runs at residuals of 1e-2; usual ones are below 1e-15."""


class NoFactors(Exception):
    """The matrix is not definite as it should be."""


class ScaledRows(Protocol):
    """Private rows, and Θ⁻¹."""

    @property
    def rows(self) -> ConicRows:
        """The rows."""
        ...

    def inverse_entries(self) -> Array:
        """Θ⁻¹ at ``rows.scaling_places``."""
        ...


@dataclass(frozen=True)
class SparseSystem:
    """What stays the same in K.

    Attributes
    ----------
    matrix : csr_array
        H and B, and zeros wherever something is added.
    variables, rows, scaling : ndarray of int64
        Where in its data the diagonal of the variables, that of the rows, and Θ⁻¹ stand.
    elimination : Elimination
        Order of elimination.
    signs : ndarray
        Of the pivots.
    """

    matrix: sp.csr_array
    variables: Array
    rows: Array
    scaling: Array
    elimination: Elimination
    signs: Array

    @staticmethod
    def of(H: Any, rows: ConicRows | None, at: Array) -> "SparseSystem":
        """That of the variables ``at``; H is a diagonal, or a sparse or dense matrix."""
        n, variables = len(at), np.arange(len(at))
        triplets = [_curvature(H, at), (np.zeros(n), variables, variables)]
        size, corner = n, (np.zeros(0, np.int64),) * 2
        if rows is not None:
            B = sp.coo_array(rows.B[:, at])
            (r, c), size, corner = B.coords, n + B.shape[0], rows.scaling_places
            multipliers, zeros = np.arange(n, size), np.zeros(size - n)
            triplets += [(B.data, n + r, c), (B.data, c, n + r), (zeros, multipliers, multipliers)]
            triplets.append((np.zeros(len(corner[0])), n + corner[0], n + corner[1]))
        data, r, c = (np.concatenate(part) for part in zip(*triplets, strict=True))
        K = sp.csr_array((data, (r, c)), shape=(size, size))
        K.sum_duplicates()
        places = sp.csr_array((np.arange(len(K.data)), K.indices, K.indptr), shape=K.shape)
        ends = np.arange(size)
        diagonal = _places(places, ends, ends)
        signs = np.where(ends < n, 1.0, -1.0)
        scaling = _places(places, n + corner[0], n + corner[1])
        found = Elimination.of(K, signs)
        return SparseSystem(K, diagonal[:n], diagonal[n:], scaling, found, signs)

    def solver(
        self, diagonal: Array, rho: float, scaled: ScaledRows | None
    ) -> Callable[[Array], Array]:
        """K⁻¹ with ``diagonal`` = Θ + ρ of the variables, and ρ and Θ⁻¹ of the rows."""
        data = self.matrix.data.copy()
        data[self.variables] += diagonal
        if scaled is not None:
            data[self.scaling] -= scaled.inverse_entries()
            data[self.rows] -= rho
        K = sp.csr_array((data, self.matrix.indices, self.matrix.indptr), shape=self.matrix.shape)
        more = data.copy()
        more[self.variables] += STATIC
        more[self.rows] -= STATIC
        factors = self.elimination.factorise(more)
        if not np.isfinite(factors.D).all():
            raise NoFactors
        return RefinedSolver(K, factors.solve)


def _curvature(H: Any, at: Array) -> tuple[Array, Array, Array]:
    """Entries, rows and columns of H of the variables ``at``."""
    if not sp.issparse(H) and H.ndim == 2:
        return H[0][at], np.arange(len(at)), np.arange(len(at))
    matrix = sp.coo_array(sp.csr_array(H)[at][:, at] if sp.issparse(H) else H[0][np.ix_(at, at)])
    return matrix.data, *matrix.coords


def _places(places: sp.csr_array, rows: Array, columns: Array) -> Array:
    """Where entries stand in the data."""
    return np.asarray(places[rows, columns]).ravel() if len(rows) else np.zeros(0, np.int64)


class RefinedSolver:
    """Solutions with K, refined while that helps.

    Examples
    --------
    >>> K = sp.csr_array(np.array([[2.0, 1.0], [1.0, -1.0]]))
    >>> RefinedSolver(K, lambda b: b / 3.0)(np.array([3.0, 0.0])).round(12).tolist()
    [1.0, 1.0]
    """

    def __init__(self, K: sp.csr_array, precondition: Callable[[Array], Array]) -> None:
        self._K, self._precondition, self._pivoted = K, precondition, False
        self._lengths: Array | None = None

    def __call__(self, b: Array) -> Array:
        """K⁻¹ b, for a vector or the columns of a matrix."""
        x, residual = self._refined(b)
        if self._pivoted or self._backward_error(b, x, residual) <= BACKWARD_ERROR:
            return x
        self._pivoted = True
        try:
            self._precondition = sla.splu(sp.csc_array(self._K)).solve
        except RuntimeError:  # exactly singular: there is nothing better than x
            return x
        return self._refined(b)[0]

    def _refined(self, b: Array) -> tuple[Array, Array]:
        """The best of a few steps of iterative refinement, and its residual."""
        x = self._precondition(b)
        residual = b - self._K @ x
        size = np.abs(residual).max(initial=0.0)
        enough = ENOUGH * np.abs(b).max(initial=0.0)
        for _ in range(MOST_REFINEMENTS):
            if not size > enough:
                break
            new = x + self._precondition(residual)
            left = b - self._K @ new
            after = np.abs(left).max(initial=0.0)
            if not after < size:
                break
            x, residual, size = new, left, after
        return x, residual

    def _backward_error(self, b: Array, x: Array, residual: Array) -> float:
        """The largest residual of a row relative to its length times that of x, and to b."""
        if not residual.any():
            return 0.0
        if self._lengths is None:
            self._lengths = np.asarray(abs(self._K).sum(axis=1))
        most = np.abs(x).max(axis=0), np.abs(b).max(axis=0)
        sizes = np.multiply.outer(self._lengths, most[0]) + most[1]
        with np.errstate(invalid="ignore"):
            ratios = np.divide(np.abs(residual), sizes, out=np.zeros_like(sizes), where=sizes > 0)
        worst = ratios.max(initial=0.0)
        return float(worst) if np.isfinite(worst) else np.inf
