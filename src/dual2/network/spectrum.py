r"""Extreme eigenvalues of a gossip matrix C = B diag(w) Bᵀ, B the incidence matrix.

For networks too large for a dense solver they come from Lanczos iterations. On graphs with a large
spectral gap (expanders) plain Lanczos converges quickly. On path- and grid-like graphs it does not,
but these have small separators, so that a sparse factorisation is cheap and shift-and-invert is
used. The eigenvector v found either way gives the eigenvalue as a Rayleigh quotient of differences

    λ = Σ_e w_e (v_i − v_j)² / |v|²,

which has no cancellation: its relative error is the square of the error of v.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh, splu

PLAIN_RESTARTS = 60
"""Restarts after which plain Lanczos is given up in favour of shift-and-invert."""

TOLERANCE = 1e-10
"""Relative tolerance asked of the eigensolver."""

Vector = NDArray[np.float64]


class Spectral(NamedTuple):
    """What methods ask of the spectrum of a gossip matrix."""

    lambda_min: float
    """Smallest nonzero eigenvalue, or a lower bound; 0 for a single agent."""
    lambda_max: float
    """Largest eigenvalue, or an upper bound."""
    kappa: float
    """Their ratio, 1 for a single agent."""
    majorant: Vector
    """m with C ≤ diag(m)."""


def extreme_eigenvalues(
    C: sp.csr_array, edges: NDArray[np.int64], weights: Vector
) -> tuple[float, float]:
    """(λ_min⁺, λ_max) of a large sparse gossip matrix."""
    bound = float(np.abs(C).sum(axis=1).max())
    start = np.random.default_rng(0).standard_normal(C.shape[0])
    start -= start.mean()
    smallest = plain_lanczos(C, -1.0, bound, start)
    if smallest is None:
        smallest = inverse_lanczos(grounded_inverse(C), start)
    largest = plain_lanczos(C, 1.0, bound, start)
    if largest is None:
        largest = inverse_lanczos(shifted_inverse(C, bound), start)
    return rayleigh(smallest, edges, weights), rayleigh(largest, edges, weights)


def plain_lanczos(C: sp.csr_array, sign: float, bound: float, start: Vector) -> Vector | None:
    """Eigenvector at the upper (sign = 1) or lower (sign = -1) end, or None if too slow.

    The operator sign·C is deflated: the consensus direction gets the eigenvalue -bound, the end
    of the spectrum that is not sought.
    """

    def deflated(v: Vector) -> Vector:
        return sign * (C @ v) - bound * v.mean()

    return top_eigenvector(deflated, start, PLAIN_RESTARTS)


def inverse_lanczos(solve: Callable[[Vector], Vector], start: Vector) -> Vector:
    """Eigenvector of the largest eigenvalue of an inverse, restricted to mean zero."""

    def restricted(v: Vector) -> Vector:
        u = solve(v - v.mean())
        return u - u.mean()

    vector = top_eigenvector(restricted, start, 100 * PLAIN_RESTARTS)
    if vector is None:
        raise ArithmeticError(
            "The eigensolver did not converge on this gossip matrix. Its extreme edge weights "
            "differ too much; use weights='metropolis'."
        )
    return vector


def top_eigenvector(
    apply: Callable[[Vector], Vector], start: Vector, restarts: int
) -> Vector | None:
    """Unit vector of mean zero for the largest eigenvalue, None if it did not converge."""
    n = len(start)
    operator = LinearOperator((n, n), matvec=apply, dtype=np.float64)  # pyright: ignore
    try:
        _, vectors = eigsh(
            operator, k=1, which="LA", v0=start, ncv=40, tol=TOLERANCE, maxiter=restarts
        )
    except ArpackError:
        return None
    vector = vectors[:, 0] - vectors[:, 0].mean()
    return vector / np.linalg.norm(vector)


def grounded_inverse(C: sp.csr_array) -> Callable[[Vector], Vector]:
    """Solve C u = v for v of mean zero, with u fixed at zero in one (the busiest) node."""
    n = C.shape[0]
    ground = int(np.argmax(C.diagonal()))
    kept = np.delete(np.arange(n), ground)
    factor = splu(C[kept][:, kept].tocsc(), permc_spec="MMD_AT_PLUS_A")

    def solve(v: Vector) -> Vector:
        u = np.zeros(n)
        u[kept] = factor.solve(v[kept])
        return u

    return solve


def shifted_inverse(C: sp.csr_array, bound: float) -> Callable[[Vector], Vector]:
    """Solve (σI − C) u = v with σ slightly above the bound on λ_max."""
    shifted = sp.eye_array(C.shape[0]) * (bound * (1.0 + 1e-4)) - C
    return splu(shifted.tocsc(), permc_spec="MMD_AT_PLUS_A").solve


def rayleigh(v: Vector, edges: NDArray[np.int64], weights: Vector) -> float:
    """Rayleigh quotient of a unit vector, from differences along edges."""
    return float(weights @ (v[edges[:, 0]] - v[edges[:, 1]]) ** 2)
