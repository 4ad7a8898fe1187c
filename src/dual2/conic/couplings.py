"""The columns of the coupling that belong to some agents: dense ones, or sparse ones."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from dual2.conic.schur_pattern import SchurPattern

Array = np.ndarray
MOST_PAIRS = 20_000_000
"""Pairs of entries in one column that a group may list for its Gram matrices (16 bytes each)."""
GATHERED = 8.0
"""How many products of a dense Gram matrix take as long as one listed pair."""


@dataclass(frozen=True)
class DenseCoupling:
    """Matrices A of m agents, of one shape; ``values`` is (m, p, n).

    ``pattern`` has the entries of A W Aᵀ that are asked for; all while there is none.
    """

    values: Array
    pattern: SchurPattern | None = None

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

    def on(self, pattern: SchurPattern) -> "DenseCoupling":
        """The same, asked for these entries of A W Aᵀ."""
        return DenseCoupling(self.values, pattern)

    def gram(self, weights: Array, at: Array) -> Array:
        """Entries of A diag(weights) Aᵀ of the agents ``at``: (len(at), entries)."""
        assert self.pattern is not None, "the pattern is agreed on with the units"
        own = self.values[at]
        full = np.matmul(own * weights[at][:, None, :], own.transpose(0, 2, 1))
        return full[:, self.pattern.rows, self.pattern.columns]

    def transposed(self) -> Array:
        """Aᵀ of a single agent, dense."""
        return self.values[0].T

    def by_variable(self) -> sp.csr_array:
        """Rows of the coupling in which each variable stands, (m·n, p)."""
        return sp.csr_array(self.values.transpose(0, 2, 1).reshape(-1, self.values.shape[1]))


@dataclass(frozen=True)
class SparseCoupling:
    """Sparse matrices A of m agents, of one shape.

    Attributes
    ----------
    columns : csr_array, shape (m·n, p)
        The columns of all agents, one after the other.
    count : int
        m.
    pattern : SchurPattern or None
        Entries of A W Aᵀ that are asked for.
    """

    columns: sp.csr_array
    count: int = 1
    pattern: SchurPattern | None = None

    @property
    def p(self) -> int:
        """Rows of each matrix."""
        return self.columns.shape[1]

    def apply(self, v: Array) -> Array:
        """A v for rows v (m, n): (m, p)."""
        return (self._rows @ v.ravel()).reshape(self.count, self.p)

    def adjoint(self, dual: Array) -> Array:
        """Aᵀλ: (m, n)."""
        return (self.columns @ dual).reshape(self.count, -1)

    def load(self, v: Array) -> Array:
        """|A||v|."""
        return self.size.apply(np.abs(v))

    @cached_property
    def size(self) -> "SparseCoupling":
        """|A|."""
        return SparseCoupling(abs(self.columns), self.count)

    @cached_property
    def _owners(self) -> Array:
        """The agent of each entry."""
        n = self.columns.shape[0] // self.count
        return np.repeat(np.repeat(np.arange(self.count), n), np.diff(self.columns.indptr))

    @cached_property
    def _rows(self) -> sp.csr_array:
        """The matrices as blocks of one, (m·p, m·n)."""
        A = self.columns
        variables = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
        rows = self._owners * self.p + A.indices
        return sp.csr_array((A.data, (rows, variables)), shape=(self.count * self.p, A.shape[0]))

    def scaled(self, rows: Array, columns: Array) -> "SparseCoupling":
        """diag(rows) A diag(columns)."""
        A = self.columns
        data = A.data * rows[A.indices] * np.repeat(columns.ravel(), np.diff(A.indptr))
        return SparseCoupling(sp.csr_array((data, A.indices, A.indptr), shape=A.shape), self.count)

    def largest_in_rows(self) -> Array:
        """(m, p)."""
        largest = np.zeros(self.count * self.p)
        places = self._owners * self.p + self.columns.indices
        np.maximum.at(largest, places, np.abs(self.columns.data))
        return largest.reshape(self.count, self.p)

    def largest_in_columns(self) -> Array:
        """(m, n)."""
        A = self.columns
        largest, held = np.zeros(A.shape[0]), np.flatnonzero(np.diff(A.indptr))
        if held.size:
            largest[held] = np.maximum.reduceat(np.abs(A.data), A.indptr[held])
        return largest.reshape(self.count, -1)

    def on(self, pattern: SchurPattern) -> "SparseCoupling":
        """The same, asked for these entries of A W Aᵀ."""
        return SparseCoupling(self.columns, self.count, pattern)

    def gram(self, weights: Array, at: Array) -> Array:
        """Entries of A diag(weights) Aᵀ of the agents ``at``: (len(at), entries)."""
        assert self.pattern is not None, "the pattern is agreed on with the units"
        if not self._lists_pairs:
            return np.array([self._gram_of(weights[k], k, self.pattern) for k in at.tolist()])
        products, agents, places = self._pairs
        out, values = np.zeros((len(at), self.pattern.size)), products @ weights.ravel()
        if len(at) < self.count:
            where = np.full(self.count, -1)
            where[at] = np.arange(len(at))
            kept = np.flatnonzero(where[agents] >= 0)
            values, agents, places = values[kept], where[agents[kept]], places[kept]
        out[agents, places] = values
        return out

    def _gram_of(self, weights: Array, agent: int, pattern: SchurPattern) -> Array:
        """The same for one agent whose columns are too full to list pairs."""
        n = self.columns.shape[0] // self.count
        own = self.columns[agent * n : (agent + 1) * n].toarray()
        return (own.T @ (own * weights[:, None]))[pattern.rows, pattern.columns]

    @cached_property
    def _lists_pairs(self) -> bool:
        """Whether listing the pairs of entries in each column is cheaper than dense products."""
        held = np.diff(self.columns.indptr).astype(float)
        pairs, dense = (held * (held + 1)).sum() / 2, self.p**2 / 2 * self.columns.shape[0]
        return bool(pairs <= MOST_PAIRS and GATHERED * pairs <= max(dense, 1.0) + GATHERED * 1e5)

    @cached_property
    def _pairs(self) -> tuple[sp.csr_array, Array, Array]:
        """A matrix that takes weights to the entries of all Gram matrices that are not 0.

        With it come the agent and the place in the pattern of each of its rows.
        """
        pattern = self.pattern
        assert pattern is not None, "the pattern is agreed on with the units"
        A, n = self.columns, self.columns.shape[0] // self.count
        held = np.diff(A.indptr)
        found: list[tuple[Array, Array, Array]] = []
        for k in np.unique(held[held > 0]).tolist():
            variables = np.flatnonzero(held == k)
            entries = A.indptr[variables][:, None] + np.arange(k)
            first, second = np.tril_indices(k)
            one, other = entries[:, first], entries[:, second]
            place = pattern.places(A.indices[one].astype(np.int64), A.indices[other])
            place = place + (variables // n * pattern.size)[:, None]
            products = A.data[one] * A.data[other]
            found.append((place.ravel(), np.repeat(variables, len(first)), products.ravel()))
        if not found:
            return sp.csr_array((0, A.shape[0])), np.zeros(0, np.int64), np.zeros(0, np.int64)
        places, variables, products = (np.concatenate(part) for part in zip(*found, strict=True))
        order = np.lexsort((variables, places))
        places, variables, products = places[order], variables[order], products[order]
        new = np.concatenate([[True], places[1:] != places[:-1]])
        starts = np.flatnonzero(new)
        ends = np.append(starts, len(places))
        matrix = sp.csr_array((products, variables, ends), shape=(len(starts), A.shape[0]))
        return matrix, places[starts] // pattern.size, places[starts] % pattern.size

    def transposed(self) -> sp.csr_array:
        """Aᵀ of a single agent."""
        return self.columns

    def by_variable(self) -> sp.csr_array:
        """Rows of the coupling in which each variable stands, (m·n, p)."""
        return self.columns


Coupling = DenseCoupling | SparseCoupling


def coupling_of(columns: Any) -> Coupling:
    """That of one agent, from its columns (p, n)."""
    if sp.issparse(columns):
        return SparseCoupling(sp.csr_array(columns.T))
    return DenseCoupling(np.ascontiguousarray(columns)[None])
