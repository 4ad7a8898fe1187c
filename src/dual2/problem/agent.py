"""What one agent owns, and how large its matrix is: extreme singular values, in batches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.linalg import LinearOperator, aslinearoperator, eigsh

from dual2.errors import ProblemError
from dual2.functions import Function, Zero, as_function

DENSE_SIDE = 1000
"""Matrices whose shorter side is longer than this are not factorised."""

DENSE_ENTRIES = 4_000_000
"""Sparse matrices with more entries than this (zeros included) are not made dense."""

TALL = 100_000
"""Entries of a matrix with fewer columns than rows from which σ_max² is found from AᵀA. Nothing is
asked of σ_min, which would lose half its digits there."""

LANCZOS_MARGIN = 1.0 + 1e-8
"""Lanczos approaches σ_max² from below; this factor makes it an upper bound again."""


@dataclass(frozen=True, eq=False)
class Agent:
    """An agent's private share of the problem: f(x) + g(x), entering the coupling through A x.

    Parameters
    ----------
    A : array_like, scipy.sparse matrix or LinearOperator, shape (p, d)
        Maps the agent's d variables to its part of the coupling. Kept as a C-contiguous float64
        array, as sparse CSC, or as the operator itself (its rank then counts as unknown).
    f : Function
        Smooth convex function of x.
    g : Function, optional
        Convex function of x with a proximal mapping; an object of pyproximal or odl will do.

    Examples
    --------
    >>> import dual2 as d2
    >>> agent = d2.Agent([[1.0, 2.0]], d2.SquaredNorm(1.0), d2.L1Norm(0.1))
    >>> agent.p, agent.dim, agent.apply([1.0, 1.0]).tolist(), agent.sigma_max2
    (1, 2, [3.0], 5.0)
    """

    A: Any
    f: Function
    g: Function = field(default_factory=Zero)

    def __post_init__(self) -> None:
        object.__setattr__(self, "A", canonical_matrix(self.A))
        object.__setattr__(self, "f", as_function(self.f))
        object.__setattr__(self, "g", as_function(self.g))

    def __repr__(self) -> str:
        return f"Agent(A {self.p}×{self.dim}, f={self.f!r}, g={self.g!r})"

    @property
    def p(self) -> int:
        """Length of the coupling."""
        return int(self.A.shape[0])

    @property
    def dim(self) -> int:
        """Number d of the agent's variables."""
        return int(self.A.shape[1])

    def apply(self, x: ArrayLike) -> NDArray[np.float64]:
        """A x."""
        x = np.asarray(x, dtype=np.float64)
        return self.A.matvec(x) if isinstance(self.A, LinearOperator) else self.A @ x

    def adjoint(self, v: ArrayLike) -> NDArray[np.float64]:
        """Aᵀ v."""
        v = np.asarray(v, dtype=np.float64)
        return self.A.rmatvec(v) if isinstance(self.A, LinearOperator) else self.A.T @ v

    def sizes(self, x: ArrayLike, product: NDArray[np.float64]) -> NDArray[np.float64]:
        """|A||x|, entry by entry: what the product A x is made of; |A x| where A is an operator."""
        if isinstance(self.A, LinearOperator):
            return np.abs(product)
        return self._sizes @ np.abs(np.asarray(x, dtype=np.float64))

    @cached_property
    def row_norms(self) -> NDArray[np.float64]:
        """Euclidean length of each row of A; its spectral norm for all where A is an operator."""
        if isinstance(self.A, LinearOperator):
            return np.full(self.p, np.sqrt(self.sigma_max2))
        squares = self.A.multiply(self.A) if sp.issparse(self.A) else self.A**2
        return np.sqrt(np.asarray(squares.sum(axis=1)).ravel())

    @cached_property
    def _sizes(self) -> Any:
        return abs(self.A)

    @cached_property
    def _sigma(self) -> tuple[float, float]:
        values = squared_singular_values([self.A])
        return float(values.max2[0]), float(values.min2[0])

    @property
    def sigma_max2(self) -> float:
        """Largest squared singular value of A."""
        return self._sigma[0]

    @property
    def sigma_min2(self) -> float | None:
        """λ_min(A Aᵀ), zero unless A has full row rank; None if the rank is unknown."""
        return None if np.isnan(self._sigma[1]) else self._sigma[1]


def canonical_matrix(A: Any) -> Any:
    """A as C-contiguous float64 array, sparse CSC or linear operator; checks that it is 2-D."""
    if isinstance(A, LinearOperator):
        matrix: Any = A
    elif isinstance(A, sp.csc_array) and A.dtype == np.float64 and 0 not in A.shape:
        return A  # as it is, so that agents may share it
    elif sp.issparse(A):
        matrix = sp.csc_array(A)
    else:
        matrix = numeric_array(A)
    if np.issubdtype(np.dtype(matrix.dtype or float), np.complexfloating):
        raise ProblemError(
            "A is complex: dual2 works with real matrices. Split the real and "
            "imaginary parts into separate rows and columns."
        )
    if len(matrix.shape) != 2:
        raise ProblemError(
            f"A has shape {matrix.shape}: expected a matrix (coupling length × variables). "
            "Use A.reshape(-1, 1) for one variable or A.reshape(1, -1) for one coupling row."
        )
    if 0 in matrix.shape:
        raise ProblemError(f"A has shape {matrix.shape}: expected at least one row and column.")
    if isinstance(matrix, LinearOperator):
        return matrix
    return sp.csc_array(matrix, dtype=np.float64) if sp.issparse(matrix) else matrix


def numeric_array(A: Any) -> NDArray[Any]:
    """A read-only copy of A as a C-contiguous array of numbers; A itself if it is one already."""
    try:
        array = np.asarray(A)
        if array.dtype == np.float64 and array.flags.c_contiguous and array.flags.owndata:
            if not array.flags.writeable:
                return array  # as it is, so that agents may share it
        if not np.issubdtype(array.dtype, np.complexfloating):
            array = np.array(array, dtype=np.float64, order="C")
            array.setflags(write=False)
    except (TypeError, ValueError) as error:
        raise ProblemError(
            f"A is not a matrix of numbers ({error}). Expected an array, a scipy.sparse matrix "
            "or a scipy LinearOperator."
        ) from error
    return array


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
        if is_small(A):
            batches[A.shape].append(i)
        else:
            result.max2[i], result.min2[i] = lanczos_bound(A)
    for (p, d), members in batches.items():
        step = max(1, DENSE_ENTRIES // (p * d))
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
