"""The matrices of agents: products of those that are alike, one row each; singular values.

Each kind has the same verbs; the bits of a row do not depend on who is beside it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, aslinearoperator, eigsh

if TYPE_CHECKING:
    from dual2.problem.agent import Agent

Array = NDArray[np.float64]
DENSE_SIDE = 1000
"""Matrices whose shorter side is longer than this are not factorised."""

DENSE_ENTRIES = 4_000_000
"""Sparse matrices with more entries than this (zeros included) are not made dense."""

TALL = 100_000
"""Entries of a matrix with fewer columns than rows from which σ_max² is found from AᵀA. Nothing is
asked of σ_min, which would lose half its digits there."""

WIDE, SMALL_SQUARE = 4, 1e-6
"""Columns for each row from which a sparse A_i is measured by A_i A_iᵀ; part of σ_max² below which
σ_min² is not taken from there."""

LANCZOS_MARGIN = 1.0 + 1e-8
"""Lanczos approaches σ_max² from below; this factor makes it an upper bound again."""


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

    def adjoint_sizes(self, v: Array, ATy: Array) -> Array:
        """|A|ᵀ|v|; of an operator |Aᵀv|, which is ``ATy``."""
        return self.agent.adjoint_sizes(v, ATy)[None] if self.known else np.abs(ATy)

    def peaks(self, weights: Array) -> Array:
        """max_j |A_jk| weights_j of each column; of an operator the length of A stands for it."""
        if not self.known:
            return np.full((1, self.agent.dim), (self.norms * weights).max(initial=0.0))
        if sp.issparse(self.agent.A):
            entries = np.abs(self.agent.A.data) * weights[self.agent.A.indices]
            return peaks_of_columns(self.agent.A.indptr, entries)[None]
        return (np.abs(self.agent.A) * weights[:, None]).max(axis=0, initial=0.0)[None]

    def least_quotients(self, V: Array) -> Array:
        """min_k v_k/|A_jk| of each row for each v, infinite where a row is empty."""
        if not self.known:
            least = V.min(axis=1, initial=np.inf)[:, None]
            return np.divide(least, self.norms, out=np.full((len(V), self.norms.shape[1]), np.inf),
                             where=self.norms > 0)  # fmt: skip
        return np.array([least_quotients(self.agent.A, v) for v in V])

    @cached_property
    def norms(self) -> Array:
        """Lengths of the rows of A, the same for all agents."""
        return self.agent.row_norms[None]

    def gram(self, weights: Array) -> Array:
        """Σ weights_i A_i A_iᵀ."""
        square = self.agent.A @ self.agent.A.T
        return float(weights.sum()) * (square.toarray() if sp.issparse(square) else square)


@dataclass
class Dense:
    """Arrays of one shape, multiplied one by one: the bits of a product are the agent's own."""

    matrices: Sequence[Array]
    known = True

    def apply(self, X: Array) -> Array:
        """A_i x_i."""
        return np.array([A @ x for A, x in zip(self.matrices, X, strict=True)])

    def sizes(self, X: Array, products: Array) -> Array:
        """|A_i||x_i|."""
        return np.array([abs(A) @ np.abs(x) for A, x in zip(self.matrices, X, strict=True)])

    def adjoint(self, v: Array) -> Array:
        """A_iᵀ v."""
        return np.array([A.T @ v for A in self.matrices])

    def adjoint_sizes(self, v: Array, ATy: Array) -> Array:
        """|A_i|ᵀ|v|."""
        return np.array([abs(A).T @ np.abs(v) for A in self.matrices])

    def peaks(self, weights: Array) -> Array:
        """max_j |A_jk| weights_j of each column."""
        own = weights[:, None]
        return np.array([(np.abs(A) * own).max(axis=0, initial=0.0) for A in self.matrices])

    def least_quotients(self, V: Array) -> Array:
        """min_k v_k/|A_jk| of each row, infinite where it is empty."""
        return np.array([least_quotients(A, v) for A, v in zip(self.matrices, V, strict=True)])

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
        return np.asarray(self.wide.T @ v).reshape(self.shape[0], self.shape[2])

    def adjoint_sizes(self, v: Array, ATy: Array) -> Array:
        """|A_i|ᵀ|v|."""
        return np.asarray(abs(self.wide).T @ np.abs(v)).reshape(self.shape[0], self.shape[2])

    def peaks(self, weights: Array) -> Array:
        """max_j |A_jk| weights_j of each column."""
        entries = np.abs(self.wide.data) * weights[self.wide.indices]
        return peaks_of_columns(self.wide.indptr, entries).reshape(self.shape[0], self.shape[2])

    def least_quotients(self, V: Array) -> Array:
        """min_k v_k/|A_jk| of each row, infinite where it is empty."""
        k, p, _ = self.shape
        found, spread = np.full(k * p, np.inf), np.repeat(V.ravel(), np.diff(self.wide.indptr))
        seen = self.wide.data != 0
        np.minimum.at(found, self.place[seen], spread[seen] / np.abs(self.wide.data[seen]))
        return found.reshape(k, p)

    @cached_property
    def norms(self) -> Array:
        """Lengths of the rows of each A_i."""
        k, _, d = self.shape
        return np.sqrt(self._scattered(self.wide.data**2, np.ones((k, d))))

    def gram(self, weights: Array) -> Array:
        """Σ weights_i A_i A_iᵀ."""
        return (self.wide * np.repeat(weights, self.shape[2])) @ self.wide.T.toarray()


def peaks_of_columns(indptr: Any, entries: Array) -> Array:
    """The largest entry of each column of a CSC matrix whose entries are not negative.

    Examples
    --------
    >>> peaks_of_columns(np.array([0, 2, 2, 3]), np.array([1.0, 3.0, 2.0])).tolist()
    [3.0, 0.0, 2.0]
    """
    peaks = np.zeros(len(indptr) - 1)
    filled = np.diff(indptr) > 0
    if filled.any():
        peaks[filled] = np.maximum.reduceat(entries, indptr[:-1][filled])
    return peaks


def least_quotients(A: Any, v: Array) -> Array:
    """min_k v_k/|A_jk| over the entries of each row, infinite where there are none.

    Examples
    --------
    >>> least_quotients(np.array([[2.0, 1.0], [0.0, 0.0]]), np.array([4.0, 3.0])).tolist()
    [2.0, inf]
    """
    if sp.issparse(A):
        found, spread = np.full(A.shape[0], np.inf), np.repeat(v, np.diff(A.indptr))
        seen = A.data != 0
        np.minimum.at(found, A.indices[seen], spread[seen] / np.abs(A.data[seen]))
        return found
    quotients = np.divide(v, np.abs(A), out=np.full(A.shape, np.inf), where=A != 0)
    return quotients.min(axis=1, initial=np.inf)


# -- singular values -------------------------------------------------------------------------


class Sigma(NamedTuple):
    """Squared extreme singular values of every agent.

    Attributes
    ----------
    max2 : ndarray, shape (n,)
        σ_max²(A_i).
    min2 : ndarray, shape (n,)
        λ_min(A_i A_iᵀ): zero unless A_i has full row rank, nan where the rank is unknown
        (linear operators, very large matrices).
    """

    max2: NDArray[np.float64]
    min2: NDArray[np.float64]


def squared_singular_values(matrices: Sequence[Any]) -> Sigma:
    """Squared extreme singular values; dense matrices of one shape are factorised together.

    One that several agents share is factorised once. A matrix counts as rank deficient if its
    smallest singular value is at most max(p, d)·ε·σ_max, ε the machine precision.

    Examples
    --------
    >>> import numpy as np
    >>> squared_singular_values([np.diag([3.0, 2.0]), np.ones((2, 1))])
    Sigma(max2=array([9., 2.]), min2=array([4., 0.]))
    """
    places: dict[int, int] = {}
    own = [places.setdefault(id(A), len(places)) for A in matrices]
    if len(places) < len(matrices):
        distinct = dict(zip(own, matrices, strict=True))
        found = squared_singular_values([distinct[k] for k in range(len(places))])
        return Sigma(found.max2[own], found.min2[own])
    result = Sigma(np.empty(len(matrices)), np.empty(len(matrices)))
    batches: dict[tuple[int, int], list[int]] = defaultdict(list)
    for i, A in enumerate(matrices):
        if A.shape[1] == 0:
            result.max2[i] = result.min2[i] = 0.0
        elif is_small(A):
            batches[A.shape].append(i)
        else:
            result.max2[i], result.min2[i] = lanczos_bound(A)
    for (p, d), members in batches.items():
        members = [i for i in members if not _measure_wide(matrices[i], i, result)]
        step = max(1, DENSE_ENTRIES // max(p * d, 1))
        for start in range(0, len(members), step):
            chunk = members[start : start + step]
            dense = [as_dense(matrices[i]) for i in chunk]
            if d < p and p * d >= TALL:
                square = np.linalg.eigvalsh(np.stack([A.T @ A for A in dense]))
                result.max2[chunk], result.min2[chunk] = square[:, -1], 0.0
                continue
            stack = np.stack(dense)
            values = np.linalg.svd(stack, compute_uv=False)
            largest, smallest = values[:, 0], values[:, -1]
            full = (d >= p) & (smallest > max(p, d) * np.finfo(float).eps * largest)
            result.max2[chunk] = largest**2
            result.min2[chunk] = np.where(full, smallest**2, 0.0)
    return result


def _measure_wide(A: Any, place: int, result: Sigma) -> bool:
    """Take the extremes of a sparse A_i with many columns from A_i A_iᵀ, unless they cancel there.

    The eigenvalues are off by ε·σ_max², so that small ones need the singular values themselves.
    """
    p, d = A.shape
    if not sp.issparse(A) or d < WIDE * p:
        return False
    values = np.linalg.eigvalsh((A @ A.T).toarray())
    if values[0] <= SMALL_SQUARE * values[-1]:
        return False
    result.min2[place], result.max2[place] = values[0], values[-1]
    return True


def is_small(A: Any) -> bool:
    """Whether a matrix (not an operator) is cheap to factorise."""
    if isinstance(A, np.ndarray):
        return min(A.shape) <= DENSE_SIDE
    return sp.issparse(A) and min(A.shape) <= DENSE_SIDE and np.prod(A.shape) <= DENSE_ENTRIES


def as_dense(A: Any) -> NDArray[np.float64]:
    """A matrix as an array; an operator by applying it to the unit vectors."""
    if isinstance(A, LinearOperator):
        return np.asarray(A @ np.eye(A.shape[1]), dtype=np.float64)
    return A.toarray() if sp.issparse(A) else A


def lanczos_bound(A: Any) -> tuple[float, float]:
    """(σ_max², nan) of an operator or a very large matrix."""
    p, d = A.shape
    if min(p, d) <= 2 or d <= 64:
        return float(np.linalg.norm(as_dense(A), 2) ** 2), np.nan
    operator = aslinearoperator(A)
    gram = operator @ operator.T if p < d else operator.T @ operator
    start = np.random.default_rng(0).standard_normal(min(p, d))
    if not np.any(gram @ start):
        return 0.0, np.nan
    value = eigsh(gram, k=1, which="LA", v0=start, tol=1e-9, return_eigenvectors=False)
    return float(value[0]) * LANCZOS_MARGIN, np.nan
