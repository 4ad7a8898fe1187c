"""What one agent owns."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.linalg import LinearOperator

from dual2.errors import ProblemError
from dual2.functions import Function, Zero, as_function
from dual2.problem.matrices import squared_singular_values


@dataclass(frozen=True, eq=False)
class Agent:
    """An agent's private share of the problem: f(x) + g(x), entering the coupling through A x.

    Parameters
    ----------
    A : array_like, scipy.sparse matrix or LinearOperator, shape (p, d)
        Maps the agent's d ≥ 0 variables to its part of the coupling. Kept as a C-contiguous float64
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
        return abs(self.A) @ np.abs(np.asarray(x, dtype=np.float64))

    def adjoint_sizes(self, v: ArrayLike, ATy: NDArray[np.float64]) -> NDArray[np.float64]:
        """|A|ᵀ|v|: what the product Aᵀv is made of; |Aᵀv| where A is an operator."""
        if isinstance(self.A, LinearOperator):
            return np.abs(ATy)
        return abs(self.A).T @ np.abs(np.asarray(v, dtype=np.float64))

    @cached_property
    def row_norms(self) -> NDArray[np.float64]:
        """Euclidean length of each row of A; its spectral norm for all where A is an operator."""
        if isinstance(self.A, LinearOperator):
            return np.full(self.p, np.sqrt(self.sigma_max2))
        squares = self.A.multiply(self.A) if sp.issparse(self.A) else self.A**2
        return np.sqrt(np.asarray(squares.sum(axis=1)).ravel())

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
    elif isinstance(A, sp.csc_array) and A.dtype == np.float64 and A.shape[0] > 0:
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
    if matrix.shape[0] == 0:
        raise ProblemError(f"A has shape {matrix.shape}: expected at least one row.")
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
