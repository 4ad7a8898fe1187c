"""The matrices of agents that are alike: products of all of them at once, one row each.

Each kind has the same verbs; the bits of a row do not depend on who is beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

if TYPE_CHECKING:
    from dual2.problem.agent import Agent

Array = NDArray[np.float64]


class Shared:
    """One matrix or operator of all agents of a group."""

    def __init__(self, agent: Agent) -> None:
        self.agent, self.known = agent, not isinstance(agent.A, LinearOperator)

    def apply(self, X: Array) -> Array:
        """A x for each row."""
        if sp.issparse(self.agent.A):
            return np.asarray((self.agent.A @ X.T).T)
        return np.array([self.agent.apply(x) for x in X])

    def sizes(self, X: Array, products: Array) -> Array:
        """|A||x| for each row; of an operator |A x|."""
        if not self.known:
            return np.abs(products)
        sizes, X = abs(self.agent.A), np.abs(X)
        if sp.issparse(sizes):
            return np.asarray((sizes @ X.T).T)
        return np.array([sizes @ x for x in X])

    def adjoint(self, v: Array) -> Array:
        """Aᵀ v, the same for all rows."""
        return self.agent.adjoint(v)[None]

    @cached_property
    def norms(self) -> Array:
        """Lengths of the rows of A, the same for all agents."""
        return self.agent.row_norms[None]

    def gram(self, weights: Array) -> Array:
        """Σ weights_i A_i A_iᵀ."""
        square = self.agent.A @ self.agent.A.T
        return float(weights.sum()) * (square.toarray() if sp.issparse(square) else square)


class Dense:
    """Arrays of one shape, multiplied one by one: the bits of a product are the agent's own."""

    known = True

    def __init__(self, matrices: Sequence[Array]) -> None:
        self.matrices = matrices

    def apply(self, X: Array) -> Array:
        """A_i x_i."""
        return np.array([A @ x for A, x in zip(self.matrices, X, strict=True)])

    def sizes(self, X: Array, products: Array) -> Array:
        """|A_i||x_i|."""
        return np.array([abs(A) @ np.abs(x) for A, x in zip(self.matrices, X, strict=True)])

    def adjoint(self, v: Array) -> Array:
        """A_iᵀ v."""
        return np.array([A.T @ v for A in self.matrices])

    @cached_property
    def norms(self) -> Array:
        """Lengths of the rows of each A_i."""
        return np.array([np.sqrt((A**2).sum(axis=1)) for A in self.matrices])

    def gram(self, weights: Array) -> Array:
        """Σ weights_i A_i A_iᵀ."""
        wide = np.hstack([np.sqrt(w) * A for w, A in zip(weights, self.matrices, strict=True)])
        return wide @ wide.T


class Sparse:
    """Sparse matrices of one shape, entry by entry."""

    known = True

    def __init__(self, matrices: Sequence[Any]) -> None:
        self.shape = (len(matrices), *matrices[0].shape)
        wide = sp.csc_array(sp.hstack(list(matrices), format="csc"))
        self.wide, self.place = wide, self._places(wide)

    def _places(self, wide: sp.csc_array) -> NDArray[np.int64]:
        """Where each entry goes in the flat (k, p) products."""
        _, p, d = self.shape
        owner = np.repeat(np.arange(wide.shape[1]) // d, np.diff(wide.indptr))
        return owner * p + wide.indices

    def _scattered(self, entries: Array, X: Array) -> Array:
        k, p, _ = self.shape
        spread = np.repeat(X.ravel(), np.diff(self.wide.indptr))
        total = np.bincount(self.place, entries * spread, k * p).astype(np.float64)
        return total.reshape(k, p)

    def apply(self, X: Array) -> Array:
        """A_i x_i."""
        return self._scattered(self.wide.data, X)

    def sizes(self, X: Array, products: Array) -> Array:
        """|A_i||x_i|."""
        return self._scattered(np.abs(self.wide.data), np.abs(X))

    def adjoint(self, v: Array) -> Array:
        """A_iᵀ v."""
        return np.asarray(self.wide.T @ v).reshape(self.shape[0], -1)

    @cached_property
    def norms(self) -> Array:
        """Lengths of the rows of each A_i."""
        k, _, d = self.shape
        return np.sqrt(self._scattered(self.wide.data**2, np.ones((k, d))))

    def gram(self, weights: Array) -> Array:
        """Σ weights_i A_i A_iᵀ."""
        return (self.wide * np.repeat(weights, self.shape[2])) @ self.wide.T.toarray()
