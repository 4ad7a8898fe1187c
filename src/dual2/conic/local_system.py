"""The local linear system K = [H + Θ + ρI, Bᵀ; B, −Θ_B⁻¹ − δI] of an agent.

Variables that nothing couples need no factorisation. Of the others, dense curvature without rows
has a Cholesky factor; everything else is sparse (:mod:`.sparse_system`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg.lapack as lapack
import scipy.sparse as sp

from dual2.conic.couplings import Coupling
from dual2.conic.schur_pattern import SchurPattern
from dual2.conic.sparse_system import NoFactors, ScaledRows, SparseSystem
from dual2.conic.standard_form import ConicRows

Array = np.ndarray
GROWTH = 100.0
"""By how much ρ grows where K has no factors."""
LARGEST_RHO = 1e6


@dataclass
class SystemCache:
    """The last pattern of K, kept while curvature, rows and variables stay the same."""

    H: Any = None
    B: Any = None
    at: Array | None = None
    system: SparseSystem | None = None

    def find(self, H: Any, rows: ConicRows | None, at: Array) -> SparseSystem:
        """The pattern of K for the variables ``at``."""
        B = None if rows is None else rows.B
        same = H is self.H and B is self.B and self.at is not None and np.array_equal(at, self.at)
        if self.system is None or not same:
            self.H, self.B, self.at = H, B, at
            self.system = SparseSystem.of(H, rows, at)
        return self.system


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
    rows: ScaledRows | None
    coupled: Array


def factorise(
    matrix: LocalMatrix,
    theta: Array,
    rho: float,
    cache: SystemCache,
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
    cache : SystemCache
        What stays the same in K.
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
    matrix: LocalMatrix, at: Array, diagonal: Array, rho: float, cache: SystemCache
) -> Callable[[Array], Array]:
    """The solver for the coupled variables ``at``, and the rows."""
    H, rows = matrix.H, matrix.rows
    if rows is None and not len(at):
        return np.copy
    if rows is None and not sp.issparse(H):
        return _dense_solver(H[0][np.ix_(at, at)], diagonal[at])
    own = None if rows is None else rows.rows
    return cache.find(H, own, at).solver(diagonal[at], rho, rows)


def _dense_solver(H: Array, diagonal: Array) -> Callable[[Array], Array]:
    """H + diagonal by Cholesky."""
    K = np.array(H, order="F")
    K[np.diag_indices(len(diagonal))] += diagonal
    factor, failed = lapack.dpotrf(K, lower=1, clean=0, overwrite_a=1)
    if failed:
        raise NoFactors
    return lambda b: lapack.dpotrs(factor, b.reshape(len(b), -1), lower=1)[0].reshape(b.shape)


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
