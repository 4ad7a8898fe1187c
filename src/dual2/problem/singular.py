"""Extreme singular values of the agents' matrices, in batches of equal shape."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, aslinearoperator, eigsh

DENSE_SIDE = 1000
"""Matrices whose shorter side is longer than this are not factorised."""

DENSE_ENTRIES = 4_000_000
"""Sparse matrices with more entries than this (zeros included) are not made dense."""

LANCZOS_MARGIN = 1.0 + 1e-8
"""Lanczos approaches σ_max² from below; this factor makes it an upper bound again."""


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
            stack = np.stack([as_dense(matrices[i]) for i in chunk])
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
