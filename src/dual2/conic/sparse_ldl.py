"""Sparse L D Lᵀ of a quasi-definite matrix whose pattern stays the same.

The order of elimination is minimum degree, found once with the pattern of L. Factors are computed
row by row along the elimination tree (Davis, *ACM Trans. Math. Softw.* 2005, algorithm 849).
Quasi-definite matrices have factors in any order (Vanderbei, *SIAM J. Optim.* 1995); pivots whose
sign is lost by rounding are replaced, and the caller refines. Many right-hand sides are solved at
once, rows of L outside and right-hand sides inside, so that the inner loop is over memory.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as sla

from dual2.compiled import compiled

Array = np.ndarray
ROUNDED, REPLACED = 1e-15, 1e-8
"""A pivot below the first part of the terms it was computed from is rounding; it is replaced by the
second part of them, about the square root of the rounding unit."""


@compiled
def elimination_tree(indptr, indices, parent, counts):
    """Parent of each column in the elimination tree, and the entries of each column of L."""
    n = parent.shape[0]
    mark = np.empty(n, np.int64)
    for k in range(n):
        parent[k] = -1
        counts[k] = 0
        mark[k] = k
        for q in range(indptr[k], indptr[k + 1]):
            i = indices[q]
            while i < k and mark[i] != k:
                if parent[i] == -1:
                    parent[i] = k
                counts[i] += 1
                mark[i] = k
                i = parent[i]


@compiled
def factorise_rows(indptr, indices, data, parent, starts, signs, rows, L, D):
    """L and D row by row; returns how many pivots had to be replaced.

    The matrix comes as its upper triangle by columns. ``starts`` are the places of the columns of
    L in ``rows`` and ``L``, ``signs`` those of the pivots.
    """
    n = parent.shape[0]
    work = np.zeros(n)
    mark = np.full(n, -1, np.int64)
    path = np.empty(n, np.int64)
    reach = np.empty(n, np.int64)
    filled = starts[:n].copy()
    replaced = 0
    for k in range(n):
        top = n
        mark[k] = k
        pivot = 0.0
        terms = 0.0
        for q in range(indptr[k], indptr[k + 1]):
            i = indices[q]
            if i == k:
                pivot += data[q]
                terms += abs(data[q])
                continue
            work[i] += data[q]
            length = 0
            while mark[i] != k:
                path[length] = i
                length += 1
                mark[i] = k
                i = parent[i]
            while length > 0:
                length -= 1
                top -= 1
                reach[top] = path[length]
        for place in range(top, n):
            i = reach[place]
            value = work[i]
            work[i] = 0.0
            for q in range(starts[i], filled[i]):
                work[rows[q]] -= L[q] * value
            entry = value / D[i]
            pivot -= entry * value
            terms += abs(entry * value)
            rows[filled[i]] = k
            L[filled[i]] = entry
            filled[i] += 1
        if not pivot * signs[k] > ROUNDED * terms:
            pivot = signs[k] * max(REPLACED * terms, 1e-300)
            replaced += 1
        D[k] = pivot
    return replaced


@compiled
def solve_vector(starts, rows, L, D, x):
    """Overwrite x by the solution of L D Lᵀ x = x."""
    n = x.shape[0]
    for j in range(n):
        value = x[j]
        if value != 0.0:
            for q in range(starts[j], starts[j + 1]):
                x[rows[q]] -= L[q] * value
    for j in range(n - 1, -1, -1):
        value = x[j] / D[j]
        for q in range(starts[j], starts[j + 1]):
            value -= L[q] * x[rows[q]]
        x[j] = value


@compiled
def solve_columns(starts, rows, L, D, X):
    """Overwrite X (n, m) by the solution of L D Lᵀ X = X; rows of zeros are passed over."""
    n, m = X.shape
    used = np.zeros(n, np.bool_)
    for j in range(n):
        if not used[j]:
            for c in range(m):
                if X[j, c] != 0.0:
                    used[j] = True
                    break
        if not used[j]:
            continue
        for q in range(starts[j], starts[j + 1]):
            i, entry = rows[q], L[q]
            used[i] = True
            for c in range(m):
                X[i, c] -= entry * X[j, c]
    for j in range(n):
        if used[j]:
            for c in range(m):
                X[j, c] /= D[j]
    for j in range(n - 1, -1, -1):
        for q in range(starts[j], starts[j + 1]):
            i, entry = rows[q], L[q]
            for c in range(m):
                X[j, c] -= entry * X[i, c]


@dataclass(frozen=True)
class Elimination:
    """The order of elimination and the pattern of L, for all matrices of one pattern.

    Attributes
    ----------
    order : ndarray of int64
        Row and column of the matrix that is eliminated at each place.
    upper : tuple of ndarray
        Of the upper triangle in that order, by columns: ends, rows, and which entry of the matrix
        each is.
    parent, starts : ndarray of int64
        The elimination tree; where the columns of L begin.
    signs : ndarray
        Of the pivots, in that order.
    """

    order: Array
    upper: tuple[Array, Array, Array]
    parent: Array
    starts: Array
    signs: Array

    @staticmethod
    def of(matrix: sp.csr_array, signs: Array) -> "Elimination":
        """That of a symmetric matrix with all of its diagonal, whose pivots have these signs."""
        n = matrix.shape[0]
        order = minimum_degree(matrix)
        place = np.empty(n, np.int64)
        place[order] = np.arange(n)
        row = place[np.repeat(np.arange(n), np.diff(matrix.indptr))]
        column = place[matrix.indices]
        which = np.flatnonzero(row <= column)
        which = which[np.lexsort((row[which], column[which]))]
        ends = np.concatenate([[0], np.cumsum(np.bincount(column[which], minlength=n))])
        parent, counts = np.empty(n, np.int64), np.empty(n, np.int64)
        rows = row[which]
        elimination_tree(ends, rows, parent, counts)
        starts = np.concatenate([[0], np.cumsum(counts)])
        return Elimination(order, (ends, rows, which), parent, starts, signs[order].astype(float))

    @property
    def work(self) -> float:
        """Multiplications of a factorisation."""
        return float((np.diff(self.starts).astype(float) ** 2).sum())

    def factorise(self, data: Array) -> "Factors":
        """L D Lᵀ of the matrix of this pattern with the entries ``data``."""
        ends, rows, which = self.upper
        L, D = np.empty(self.starts[-1]), np.empty(len(self.order))
        at = np.empty(self.starts[-1], np.int64)
        replaced = factorise_rows(
            ends, rows, data[which], self.parent, self.starts, self.signs, at, L, D
        )
        return Factors(self.order, self.starts, at, L, D, int(replaced))


@dataclass(frozen=True)
class Factors:
    """L and D; ``replaced`` pivots are not those of the matrix.

    Examples
    --------
    >>> K = sp.csr_array(np.array([[2.0, 0.0, 1.0], [0.0, 3.0, 1.0], [1.0, 1.0, -1.0]]))
    >>> factors = Elimination.of(K, np.array([1.0, 1.0, -1.0])).factorise(K.data)
    >>> x = factors.solve(np.array([3.0, 4.0, 1.0]))
    >>> bool(np.allclose(K @ x, [3.0, 4.0, 1.0])), factors.replaced
    (True, 0)
    """

    order: Array
    starts: Array
    rows: Array
    L: Array
    D: Array
    replaced: int

    def solve(self, rhs: Array) -> Array:
        """The solution for one right-hand side, or for the columns of a matrix."""
        X = np.ascontiguousarray(rhs[self.order])
        kernel = solve_vector if X.ndim == 1 else solve_columns
        kernel(self.starts, self.rows, self.L, self.D, X)
        out = np.empty_like(X)
        out[self.order] = X
        return out


def minimum_degree(matrix: sp.csr_array) -> Array:
    """A fill-reducing order of elimination, from the pattern alone.

    SuperLU orders and factorises in one call; a dominant diagonal keeps that call harmless.
    """
    n = matrix.shape[0]
    dominant = sp.csc_array(
        (np.full(len(matrix.indices), -1.0), matrix.indices, matrix.indptr), shape=matrix.shape
    )
    dominant = sp.csc_array(dominant + sp.diags_array(np.full(n, 2.0 * n + 2.0)))
    options: Any = {"SymmetricMode": True}
    factors = sla.splu(dominant, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)
    return np.argsort(factors.perm_c).astype(np.int64)
