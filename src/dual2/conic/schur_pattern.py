"""Which entries of S = Σ A_i K_i⁻¹ A_iᵀ can be other than 0.

Variables that K_i does not couple contribute a clique of the rows in which one of them stands. All
agents agree on the union once; from then on only these entries travel and are factorised.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

Array = np.ndarray
LEAST_ROWS = 24
"""Rows from which the pattern is worth agreeing on; with fewer, S is small whatever it holds."""


@dataclass(frozen=True)
class SchurPattern:
    """Entries of the lower triangle of a symmetric p × p matrix, row by row.

    Attributes
    ----------
    p : int
        Rows of the matrix.
    entries : ndarray of int64
        Ascending places in the full lower triangle: that of (r, c) is r(r + 1)/2 + c.

    Examples
    --------
    >>> pattern = SchurPattern(3, np.array([0, 2, 3, 5]))
    >>> pattern.rows.tolist(), pattern.columns.tolist()
    ([0, 1, 2, 2], [0, 1, 0, 2])
    >>> pattern.dense(np.array([1.0, 2.0, 3.0, 4.0])).tolist()
    [[1.0, 0.0, 3.0], [0.0, 2.0, 0.0], [3.0, 0.0, 4.0]]
    """

    p: int
    entries: Array

    @staticmethod
    def full(p: int) -> "SchurPattern":
        """All entries."""
        return SchurPattern(p, np.arange(p * (p + 1) // 2))

    @staticmethod
    def of_counts(p: int, counts: Array) -> "SchurPattern":
        """Entries that somebody has, and the diagonal."""
        held = counts > 0
        held[np.cumsum(np.arange(1, p + 1)) - 1] = True
        return SchurPattern(p, np.flatnonzero(held))

    @property
    def size(self) -> int:
        """Numbers of one matrix."""
        return len(self.entries)

    @cached_property
    def rows(self) -> Array:
        """Row of each entry."""
        ends = np.cumsum(np.arange(1, self.p + 1))
        return np.searchsorted(ends, self.entries, side="right")

    @cached_property
    def columns(self) -> Array:
        """Column of each entry."""
        return self.entries - self.rows * (self.rows + 1) // 2

    @cached_property
    def is_full(self) -> bool:
        """Whether no entry is left out."""
        return self.size == self.p * (self.p + 1) // 2

    @cached_property
    def diagonal(self) -> Array:
        """Places of the diagonal among the entries."""
        return np.flatnonzero(self.rows == self.columns)

    @cached_property
    def _both(self) -> tuple[Array, Array, Array]:
        """Both triangles as CSR: row ends, columns, and which entry each is."""
        off = np.flatnonzero(self.rows != self.columns)
        which = np.concatenate([np.arange(self.size), off])
        rows = np.concatenate([self.rows, self.columns[off]])
        columns = np.concatenate([self.columns, self.rows[off]])
        order = np.lexsort((columns, rows))
        ends = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=self.p))])
        return ends, columns[order], which[order]

    @cached_property
    def sparse_diagonal(self) -> Array:
        """Places of the diagonal among the entries of :meth:`sparse`."""
        ends, columns, _ = self._both
        return np.flatnonzero(columns == np.repeat(np.arange(self.p), np.diff(ends)))

    def dense(self, values: Array) -> Array:
        """The matrix with these entries."""
        matrix = np.zeros((self.p, self.p))
        matrix[self.rows, self.columns] = values
        matrix[self.columns, self.rows] = values
        return matrix

    def sparse(self, values: Array) -> sp.csr_array:
        """The same, sparse."""
        ends, columns, which = self._both
        return sp.csr_array((values[which], columns, ends), shape=(self.p, self.p))

    def places(self, rows: Array, columns: Array) -> Array:
        """Where entries (r, c) stand among those kept; all of them must be."""
        high, low = np.maximum(rows, columns), np.minimum(rows, columns)
        return np.searchsorted(self.entries, high * (high + 1) // 2 + low)


def triangle_counts(touched: sp.csr_array) -> Array:
    """How many cliques hold each entry of the triangle; one row of ``touched`` is one clique.

    Examples
    --------
    >>> triangle_counts(sp.csr_array(np.array([[1, 0, 1], [0, 1, 1]]))).astype(int).tolist()
    [1, 0, 1, 1, 1, 2]
    """
    p = touched.shape[1]
    ones = sp.csr_array(
        (np.ones(len(touched.indices)), touched.indices, touched.indptr), shape=touched.shape
    )
    both = sp.coo_array(ones.T @ ones)
    rows, columns = both.coords
    low = rows >= columns
    counts = np.zeros(p * (p + 1) // 2)
    r, c = rows[low].astype(np.int64), columns[low]
    counts[r * (r + 1) // 2 + c] = both.data[low]
    return counts
