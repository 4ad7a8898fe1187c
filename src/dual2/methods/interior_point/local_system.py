"""The local linear system K = [H + Θ + ρI, Bᵀ; B, −Θ_B⁻¹ − δI] of an agent.

Diagonal curvature without rows needs no factorisation. Dense curvature without rows has a Cholesky
factor; everything else is quasi-definite and sparse, factorised by :func:`scipy.sparse.linalg.splu`
without row exchanges, followed by refinement on K itself.
"""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
import scipy.sparse.linalg as sla

from dual2.methods.interior_point.couplings import Coupling
from dual2.methods.interior_point.standard_form import ConicRows

Array = np.ndarray
MOST_REFINEMENTS = 3
GROWTH = 100.0
"""By how much ρ grows where K has no factors."""
LARGEST_RHO = 1e6


class RowsOfSystem(Protocol):
    """Private rows, and Θ_B⁻¹."""

    @property
    def rows(self) -> ConicRows:
        """The rows."""
        ...

    def inverse_matrix(self) -> sp.csc_array:
        """Θ_B⁻¹."""
        ...


class DiagonalSystem:
    """(H + Θ + ρ)⁻¹ of m agents, entry by entry; variables that are not ``free`` stay."""

    def __init__(self, diagonal: Array, rho: float, free: Array | None = None) -> None:
        self.rho = rho
        self.inverse = 1.0 / (diagonal + rho)
        if free is not None:
            self.inverse = self.inverse * free

    def solve(self, rhs: Array) -> Array:
        """K⁻¹ rhs, (m, n)."""
        return self.inverse * rhs

    def schur(self, A: Coupling, at: Array) -> Array:
        """A K⁻¹ Aᵀ of the agents ``at``."""
        return A.gram(self.inverse, at)


class MatrixSystem:
    """K⁻¹ of one agent, from a solver of columns."""

    def __init__(self, solve: Callable[[Array], Array], n: int, size: int, rho: float) -> None:
        self._solve, self._n, self._size, self.rho = solve, n, size, rho
        self._schur: Array | None = None

    def solve(self, rhs: Array) -> Array:
        """K⁻¹ rhs, (1, n + rows)."""
        return self._solve(rhs[0])[None]

    def schur(self, A: Coupling, at: Array) -> Array:
        """A K⁻¹ Aᵀ, over the rows that A touches: (1, p, p)."""
        if self._schur is None:
            At: Any = A.transposed()
            p = At.shape[1]
            if sp.issparse(At):
                touched = np.unique(At.indices)
                columns = At[:, touched].toarray()
            else:
                touched, columns = np.arange(p), At
            padded = np.zeros((self._size, columns.shape[1]))
            padded[: self._n] = columns
            small = columns.T @ self._solve(padded)[: self._n]
            self._schur = np.zeros((p, p))
            self._schur[np.ix_(touched, touched)] = 0.5 * (small + small.T)
        return self._schur[None]


LocalSystem = DiagonalSystem | MatrixSystem


def factorise(
    H: Any, theta: Array, rows: RowsOfSystem | None, rho: float, free: Array | None = None
) -> LocalSystem:
    """Factorise K; ρ grows until the factors exist.

    Parameters
    ----------
    H : ndarray (m, n), or of one agent (1, n, n) or sparse (n, n)
        Curvature: diagonals of m agents, or a matrix.
    theta : ndarray, shape (m, n)
        What bounds add to the diagonal.
    rows : RowsOfSystem or None
        Private rows, of one agent.
    rho : float
        Proximal term.
    free : ndarray of bool, shape (m, n), or None
        Variables that are not free keep their values.
    """
    diagonal = not sp.issparse(H) and H.ndim == 2
    if rows is None and diagonal:
        return DiagonalSystem(H + theta, rho, free)
    only = None if free is None else free[0]
    while True:
        try:
            if rows is None and not sp.issparse(H):
                return _dense(H[0], theta[0] + rho, rho, only)
            top = sp.diags_array(H[0] + theta[0] + rho) if diagonal else _matrix(H, theta[0] + rho)
            return _sparse(top, rows, rho, only)
        except (sl.LinAlgError, RuntimeError):
            rho = max(GROWTH * rho, 1e-14)
            if rho > LARGEST_RHO:
                raise


def _matrix(H: Any, diagonal: Array) -> sp.csc_array:
    matrix = H if sp.issparse(H) else H[0]
    return sp.csc_array(sp.csc_array(matrix) + sp.diags_array(diagonal))


def _dense(H: Array, diagonal: Array, rho: float, free: Array | None) -> MatrixSystem:
    """H + diagonal by Cholesky."""
    n = len(diagonal)
    K = H.copy()
    K[np.diag_indices(n)] += diagonal
    if free is not None:
        K = np.where(np.outer(free, free), K, np.eye(n))
    factors = sl.cho_factor(K, lower=True, check_finite=False)
    return MatrixSystem(
        _masked(lambda b: sl.cho_solve(factors, b, check_finite=False), free), n, n, rho
    )


def _sparse(top: Any, rows: RowsOfSystem | None, rho: float, free: Array | None) -> MatrixSystem:
    """The quasi-definite matrix with the private rows."""
    n = top.shape[0]
    K = sp.csc_array(top)
    if rows is not None:
        B = rows.rows.B
        corner = rows.inverse_matrix() + sp.diags_array(np.full(B.shape[0], rho))
        K = sp.csc_array(sp.block_array([[top, B.T], [B, -corner]]))
    if free is not None:
        K = _fixed(K, free, n)
    return MatrixSystem(_masked(_sparse_solver(K), free), n, K.shape[0], rho)


def _fixed(K: sp.csc_array, free: Array, n: int) -> sp.csc_array:
    """K with the identity for variables that are not free."""
    keep = np.ones(K.shape[0])
    keep[:n] = free
    mask = sp.diags_array(keep)
    return sp.csc_array(mask @ K @ mask + sp.diags_array(1.0 - keep))


def _masked(solve: Callable[[Array], Array], free: Array | None) -> Callable[[Array], Array]:
    """The solver with 0 for variables that are not free."""
    if free is None:
        return solve

    def masked(b: Array) -> Array:
        b = b.copy()
        b[: len(free)][~free] = 0.0
        return solve(b)

    return masked


def _sparse_solver(K: sp.csc_array) -> Callable[[Array], Array]:
    """Solver of K x = b: sparse factors without row exchanges, refined while that helps."""
    factors = sla.splu(
        K, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.01, options={"SymmetricMode": True}
    )

    def solve(b: Array) -> Array:
        x = factors.solve(b)
        residual = b - K @ x
        size = np.abs(residual).max(initial=0.0)
        for _ in range(MOST_REFINEMENTS):
            new = x + factors.solve(residual)
            left = b - K @ new
            after = np.abs(left).max(initial=0.0)
            if not after < size:
                break
            x, residual, size = new, left, after
        return x

    return solve
