"""The columns of the coupling that belong to some agents: dense ones, or a sparse one."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

Array = np.ndarray
System = Any


@dataclass(frozen=True)
class DenseCoupling:
    """Matrices A of m agents, of one shape; ``values`` is (m, p, n)."""

    values: Array

    def apply(self, v: Array) -> Array:
        """A v for rows v (m, n): (m, p)."""
        return np.matmul(self.values, v[:, :, None])[:, :, 0]

    def adjoint(self, dual: Array) -> Array:
        """Aᵀλ: (m, n)."""
        return np.matmul(dual, self.values)

    def load(self, v: Array) -> Array:
        """|A||v|."""
        return np.matmul(self.size.values, np.abs(v)[:, :, None])[:, :, 0]

    @cached_property
    def size(self) -> "DenseCoupling":
        """|A|."""
        return DenseCoupling(np.abs(self.values))

    def scaled(self, rows: Array, columns: Array) -> "DenseCoupling":
        """diag(rows) A diag(columns)."""
        return DenseCoupling(self.values * rows[:, None] * columns[:, None, :])

    def largest_in_rows(self) -> Array:
        """(m, p)."""
        return self.size.values.max(axis=2, initial=0.0)

    def largest_in_columns(self) -> Array:
        """(m, n)."""
        return self.size.values.max(axis=1, initial=0.0)

    def gram(self, weights: Array, at: Array) -> Array:
        """A diag(weights) Aᵀ of the agents ``at``: (len(at), p, p)."""
        own = self.values[at]
        return np.matmul(own * weights[at][:, None, :], own.transpose(0, 2, 1))

    def transposed(self) -> Array:
        """Aᵀ of a single agent, dense."""
        return self.values[0].T


@dataclass(frozen=True)
class SparseCoupling:
    """The sparse matrix of one agent; arrays have one row as if it were a group."""

    matrix: sp.csr_array

    def apply(self, v: Array) -> Array:
        """A v: (1, p)."""
        return (self.matrix @ v[0])[None]

    def adjoint(self, dual: Array) -> Array:
        """Aᵀλ: (1, n)."""
        return (self._transposed @ dual)[None]

    def load(self, v: Array) -> Array:
        """|A||v|."""
        return (self.size.matrix @ np.abs(v[0]))[None]

    @cached_property
    def size(self) -> "SparseCoupling":
        """|A|."""
        return SparseCoupling(abs(self.matrix))

    @cached_property
    def _transposed(self) -> sp.csr_array:
        return sp.csr_array(self.matrix.T)

    def scaled(self, rows: Array, columns: Array) -> "SparseCoupling":
        """diag(rows) A diag(columns)."""
        return SparseCoupling(
            sp.csr_array(sp.diags_array(rows) @ self.matrix @ sp.diags_array(columns[0]))
        )

    def largest_in_rows(self) -> Array:
        """(1, p)."""
        return _largest(self.size.matrix, 1)[None]

    def largest_in_columns(self) -> Array:
        """(1, n)."""
        return _largest(self.size.matrix, 0)[None]

    def gram(self, weights: Array, at: Array) -> Array:
        """A diag(weights) Aᵀ: (1, p, p)."""
        weighted = self.matrix @ sp.diags_array(weights[0])
        return (weighted @ self._transposed).toarray()[None]

    def transposed(self) -> sp.csr_array:
        """Aᵀ."""
        return self._transposed


Coupling = DenseCoupling | SparseCoupling


def _largest(matrix: sp.csr_array, axis: int) -> Array:
    """Largest entry of each row or column; 0 where there is none."""
    count = matrix.shape[1 - axis]
    if not matrix.nnz:
        return np.zeros(count)
    return np.asarray(matrix.max(axis=axis).todense()).ravel()
