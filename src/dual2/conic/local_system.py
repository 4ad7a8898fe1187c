"""The local linear system K = [H + Θ + ρI, Bᵀ; B, −Θ_B⁻¹ − δI] of an agent.

Variables that nothing couples need no factorisation. Of the others, dense curvature without rows
has a Cholesky factor; everything else is quasi-definite and sparse: L D Lᵀ of K with a little more
on its diagonal (Vanderbei 1995; the same in CLARABEL), and refinement on K itself. Where rows
determine variables almost without curvature, refinement does not converge: then L U of K with
row exchanges (SuperLU), which takes twice as long.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.linalg.lapack as lapack
import scipy.sparse as sp
import scipy.sparse.linalg as sla

from dual2.conic.couplings import Coupling
from dual2.conic.schur_pattern import SchurPattern
from dual2.conic.sparse_ldl import Elimination
from dual2.conic.standard_form import ConicRows

Array = np.ndarray
MOST_REFINEMENTS = 5
ENOUGH = 1e-15
"""Refinement ends at this part of the right-hand side."""
STATIC = 1e-8
"""Added to the diagonal with the sign of the pivot before factorising: factors without row
exchanges keep half of the digits, and refinement brings the rest back."""
BACKWARD_ERROR = 1e-11
"""Largest componentwise backward error of a solution; beyond it, K is factorised with row
exchanges. Without them errors of 1e-7 stopped runs at residuals of 1e-2."""
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


class NoFactors(Exception):
    """The matrix is not definite as it should be."""


@dataclass
class EliminationCache:
    """The last order of elimination, kept while the pattern of K stays the same."""

    known: tuple[Array, Array, Elimination] | None = field(default=None)

    def find(self, K: sp.csr_array, signs: Array) -> Elimination:
        """The order for the pattern of K."""
        if self.known is not None:
            ends, columns, found = self.known
            same = np.array_equal(ends, K.indptr) and np.array_equal(columns, K.indices)
            if same and np.array_equal(signs[found.order], found.signs):
                return found
        found = Elimination.of(K, signs)
        self.known = (K.indptr, K.indices, found)
        return found


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
        """Entries of A K⁻¹ Aᵀ of the agents ``at``."""
        return A.gram(self.inverse, at)


class MatrixSystem:
    """K⁻¹ of one agent: a diagonal for variables alone, a solver for ``coupled`` ones and rows."""

    def __init__(
        self, inverse: Array, coupled: Array, rows: int, solve: Callable[[Array], Array], rho: float
    ) -> None:
        self._inverse, self._coupled, self._rows = inverse[None], coupled, rows
        self._solve, self.rho = solve, rho
        self._schur: Array | None = None

    def solve(self, rhs: Array) -> Array:
        """K⁻¹ rhs, (1, n + rows)."""
        n = self._inverse.shape[1]
        out = np.empty_like(rhs)
        out[:, :n] = self._inverse * rhs[:, :n]
        inner = np.concatenate([rhs[0, self._coupled], rhs[0, n:]])
        found = self._solve(inner)
        out[0, self._coupled] = found[: len(self._coupled)]
        out[0, n:] = found[len(self._coupled) :]
        return out

    def schur(self, A: Coupling, at: Array) -> Array:
        """Entries of A K⁻¹ Aᵀ, (1, entries)."""
        if self._schur is None:
            assert A.pattern is not None, "the pattern is agreed on with the units"
            total = A.gram(self._inverse, np.zeros(1, np.int64))
            if len(self._coupled):
                total = total + self._coupled_part(A, A.pattern)[None]
            self._schur = total
        return self._schur

    def _coupled_part(self, A: Coupling, pattern: SchurPattern) -> Array:
        """Contribution of the coupled variables, over the rows in which they stand."""
        At: Any = A.transposed()[self._coupled]
        if sp.issparse(At):
            touched = np.unique(At.indices)
            columns = At[:, touched].toarray()
        else:
            touched = np.flatnonzero(np.any(At != 0, axis=0))
            columns = At[:, touched]
        padded = np.concatenate([columns, np.zeros((self._rows, columns.shape[1]))])
        image = self._solve(padded)[: len(self._coupled)]
        small = (At[:, touched].T @ image) if sp.issparse(At) else columns.T @ image
        full = np.zeros((pattern.p, pattern.p))
        full[np.ix_(touched, touched)] = 0.5 * (small + small.T)
        return full[pattern.rows, pattern.columns]


LocalSystem = DiagonalSystem | MatrixSystem


class LocalMatrix(NamedTuple):
    """What K is made of: H and Θ + ρ, private rows, and which variables are coupled.

    H is a diagonal (m, n), or of one agent (1, n, n) or sparse (n, n).
    """

    H: Any
    rows: RowsOfSystem | None
    coupled: Array


def factorise(
    matrix: LocalMatrix,
    theta: Array,
    rho: float,
    cache: EliminationCache,
    free: Array | None = None,
) -> LocalSystem:
    """Factorise K; ρ grows until the factors exist.

    Parameters
    ----------
    matrix : LocalMatrix
        Curvature and private rows.
    theta : ndarray, shape (m, n)
        What bounds add to the diagonal.
    rho : float
        Proximal term.
    cache : EliminationCache
        Orders of elimination.
    free : ndarray of bool, shape (m, n), or None
        Variables that are not free keep their values.
    """
    H, rows = matrix.H, matrix.rows
    flat = not sp.issparse(H) and H.ndim == 2
    if rows is None and flat:
        return DiagonalSystem(H + theta, rho, free)
    diagonal = H[0] if flat else H.diagonal() if sp.issparse(H) else np.diagonal(H[0])
    coupled, movable = matrix.coupled, np.ones(len(diagonal)) if free is None else free[0]
    if free is not None:
        coupled = coupled[free[0][coupled]]
    while True:
        inverse = movable / (diagonal + theta[0] + rho)
        inverse[matrix.coupled] = 0.0
        try:
            solve = _coupled_solver(matrix, coupled, theta[0] + rho, rho, cache)
            count = 0 if rows is None else len(rows.rows.rhs)
            return MatrixSystem(inverse, coupled, count, solve, rho)
        except NoFactors:
            rho = max(GROWTH * rho, 1e-14)
            if rho > LARGEST_RHO:
                raise


def _coupled_solver(
    matrix: LocalMatrix, at: Array, diagonal: Array, rho: float, cache: EliminationCache
) -> Callable[[Array], Array]:
    """The solver for the coupled variables ``at``, and the rows."""
    H, rows = matrix.H, matrix.rows
    if rows is None and not len(at):
        return np.copy
    if rows is None and not sp.issparse(H):
        return _dense_solver(H[0][np.ix_(at, at)], diagonal[at])
    if sp.issparse(H):
        K = sp.csr_array(sp.csr_array(H)[at][:, at] + _diagonal(diagonal[at]))
    elif H.ndim == 3:
        K = sp.csr_array(H[0][np.ix_(at, at)] + np.diag(diagonal[at]))
    else:
        K = _diagonal(H[0][at] + diagonal[at])
    signs = np.ones(K.shape[0])
    if rows is not None:
        B = rows.rows.B[:, at]
        corner = rows.inverse_matrix() + _diagonal(np.full(B.shape[0], rho))
        K = sp.csr_array(sp.block_array([[K, B.T], [B, -corner]], format="csr"))
        signs = np.concatenate([signs, -np.ones(B.shape[0])])
    K.sort_indices()
    return _sparse_solver(K, signs, cache.find(K, signs))


def _diagonal(values: Array) -> sp.csr_array:
    """The diagonal matrix, of any size."""
    places = np.arange(len(values) + 1)
    return sp.csr_array((values, places[:-1], places), shape=(len(values), len(values)))


def _dense_solver(H: Array, diagonal: Array) -> Callable[[Array], Array]:
    """H + diagonal by Cholesky."""
    K = np.array(H, order="F")
    K[np.diag_indices(len(diagonal))] += diagonal
    factor, failed = lapack.dpotrf(K, lower=1, clean=0, overwrite_a=1)
    if failed:
        raise NoFactors
    return lambda b: lapack.dpotrs(factor, b.reshape(len(b), -1), lower=1)[0].reshape(b.shape)


def _sparse_solver(
    K: sp.csr_array, signs: Array, elimination: Elimination
) -> Callable[[Array], Array]:
    """Solver of K X = B for one or many right-hand sides."""
    rows = np.repeat(np.arange(len(signs)), np.diff(K.indptr))
    data = K.data.copy()
    diagonal = np.flatnonzero(rows == K.indices)
    data[diagonal] += STATIC * signs
    factors = elimination.factorise(data)
    if not np.isfinite(factors.D).all():
        raise NoFactors
    return SparseSolver(K, factors.solve)


class SparseSolver:
    """Solutions with K, refined while that helps.

    Examples
    --------
    >>> K = sp.csr_array(np.array([[2.0, 1.0], [1.0, -1.0]]))
    >>> SparseSolver(K, lambda b: b / 3.0)(np.array([3.0, 0.0])).round(12).tolist()
    [1.0, 1.0]
    """

    def __init__(self, K: sp.csr_array, precondition: Callable[[Array], Array]) -> None:
        self._K, self._precondition, self._pivoted = K, precondition, False

    def __call__(self, b: Array) -> Array:
        """K⁻¹ b."""
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
        """The least relative change of the entries of K and b for which x is exact."""
        sizes = abs(self._K) @ np.abs(x) + np.abs(b)
        with np.errstate(invalid="ignore"):
            ratios = np.divide(np.abs(residual), sizes, out=np.zeros_like(sizes), where=sizes > 0)
        worst = ratios.max(initial=0.0)
        return float(worst) if np.isfinite(worst) else np.inf


def coupled_variables(H: Any, rows: ConicRows | None, smooth: bool) -> Array:
    """Variables of one agent that curvature or private rows tie to others.

    Examples
    --------
    >>> H = sp.csr_array(np.array([[1.0, 0, 2], [0, 1, 0], [2, 0, 9]]))
    >>> coupled_variables(H, None, smooth=False).tolist()
    [0, 2]
    """
    if smooth:
        return np.arange(H.shape[-1])
    tied = np.zeros(H.shape[-1], bool)
    if sp.issparse(H):
        both = sp.coo_array(H)
        off = both.coords[0] != both.coords[1]
        tied[both.coords[0][off]] = True
        tied[both.coords[1][off]] = True
    elif H.ndim == 3:
        tied |= np.count_nonzero(H[0] - np.diag(np.diagonal(H[0])), axis=0) > 0
    if rows is not None:
        tied[rows.B.indices] = True
    return np.flatnonzero(tied)
