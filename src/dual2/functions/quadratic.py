"""Quadratic functions of local data, computed in their eigenvectors."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp

from dual2.conic.blocks import BlockForm, Cone, ConeConstraint
from dual2.conic.curvature import Factored
from dual2.errors import ProblemError
from dual2.functions.arguments import (
    Array,
    Entries,
    Finite,
    Matrix,
    NonnegativeNumber,
    check_rows,
    common_dim,
    entries,
    matrix,
)
from dual2.functions.base import TOLERANCE, Function, one_unit
from dual2.functions.piecewise import PiecewiseQuadratic

DENSE_UP_TO = 50
"""Size up to which the matrix of a block form is never sparse."""
SPARSE_BELOW = 0.1
"""Share of entries that are not 0 below which the matrix of a larger block form is sparse."""
_EPS = float(np.finfo(float).eps)


class SpectralFunction(Function, ABC):
    """½xᵀPx + qᵀx + constant, computed in the eigenvectors of P; subclasses give the spectrum.

    prox_{tf}(v) = (I + tP)⁻¹(v - t·q); f*(w) = ½(w - q)ᵀP⁺(w - q) - constant if w - q lies in
    the range of P, else inf.
    """

    @cached_property
    def spectrum(self) -> tuple[Array, Array | None]:
        """Eigenvalues and eigenvectors (columns; None for the identity) of P."""
        return self._spectrum()

    @cached_property
    def tilts(self) -> Array:
        """The vector q in the eigenvectors."""
        return self._tilts()

    @abstractmethod
    def _spectrum(self) -> tuple[Array, Array | None]: ...

    @abstractmethod
    def _tilts(self) -> Array: ...

    @property
    @abstractmethod
    def constant(self) -> float:
        """The value at 0."""

    @property
    def mu(self) -> float:
        """Smallest eigenvalue."""
        return float(self.spectrum[0].min())

    @property
    def L(self) -> float:
        """Largest eigenvalue."""
        return float(self.spectrum[0].max())

    def _rotate(self, x: Array) -> Array:
        V = self.spectrum[1]
        return x if V is None else x @ V

    def _back(self, x: Array) -> Array:
        V = self.spectrum[1]
        return x if V is None else x @ V.T

    def _prox(self, v: Array, step: Entries) -> Array:
        return self._back((self._rotate(v) - step * self.tilts) / (1.0 + step * self.spectrum[0]))

    def _conjugate_prox(self, v: Array, step: Entries) -> Array:
        values = self.spectrum[0]
        return self._back((values * self._rotate(v) + step * self.tilts) / (values + step))

    def _conjugate_value(self, w: Array) -> Array:
        values, t = self.spectrum[0], self._rotate(w) - self.tilts
        flat = values == 0
        scale = np.maximum(1.0, np.linalg.norm(w, axis=-1))
        outside = np.linalg.norm(np.where(flat, t, 0.0), axis=-1) > TOLERANCE * scale
        bent = np.where(flat, 0.0, t**2 / np.where(flat, 1.0, values))
        return np.where(outside, np.inf, 0.5 * bent.sum(axis=-1) - self.constant)

    def _conjugate_grad(self, w: Array) -> Array:
        if not self.conjugate_smooth:
            self._lack("no gradient of its conjugate: P is singular", "add a quadratic or a ridge")
        return self._back((self._rotate(w) - self.tilts) / self.spectrum[0])

    def _conjugate_blocks(self, dim: int) -> BlockForm:
        """½(w - q)ᵀP⁺(w - q) - constant, w - q orthogonal to the null space of P."""
        values, vectors = self.spectrum
        V = np.eye(dim) if vectors is None else vectors
        flat = values == 0
        inverse = (V[:, ~flat] / values[~flat]) @ V[:, ~flat].T
        kernel = ConeConstraint.of(Cone.ZERO, V[:, flat].T, 0.0)
        centred = BlockForm(dim, H=inverse, rows=(kernel,) if flat.any() else ())
        return centred.shifted(self._back(self.tilts)).plus(constant=-self.constant)

    def _recession(self, u: Array) -> Array:
        along = self._rotate(u)
        bent = np.where(self.spectrum[0] == 0, 0.0, along)
        slope = (along * self.tilts).sum(axis=-1)
        return np.where(np.linalg.norm(bent, axis=-1) > TOLERANCE, np.inf, slope)


def _without_noise(eigenvalues: Array) -> Array:
    """Eigenvalues at rounding level set to zero."""
    noise = len(eigenvalues) * _EPS * np.abs(eigenvalues).max(initial=0.0)
    return np.where(np.abs(eigenvalues) <= noise, 0.0, eigenvalues)


def diagonal_or_matrix(owner: Any, name: str, value: Any) -> Array:
    """A vector of numbers ≥ 0, or a matrix."""
    if np.ndim(value) != 1:
        return matrix(owner, name, value)
    return np.asarray(entries(owner, name, value, least=0.0))


@dataclass(frozen=True, eq=False, repr=False)
class Quadratic(SpectralFunction):
    """f(x) = ½xᵀPx + qᵀx.

    prox_{tf}(v) = (I + tP)⁻¹(v - t·q); f*(w) = ½(w - q)ᵀP⁻¹(w - q).

    Parameters
    ----------
    P : matrix (d, d) or vector (d,)
        Symmetric positive semidefinite; a vector is a diagonal.
    q : float or vector, default 0
        Linear term.

    Examples
    --------
    >>> f = Quadratic([[2.0, 0.0], [0.0, 4.0]], [1.0, 1.0])
    >>> f.grad([1.0, 1.0])
    array([3., 5.])
    >>> f.mu, f.L
    (2.0, 4.0)
    """

    P: Annotated[Array, diagonal_or_matrix]
    q: Finite = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.P.ndim == 2:
            self._check_symmetric()
        common_dim(self, P=self.P[0] if self.P.ndim == 2 else self.P, q=self.q)
        self.spectrum  # noqa: B018  (an indefinite P is refused here)

    def _check_symmetric(self) -> None:
        P = self.P
        if P.shape[0] != P.shape[1] or P.size == 0:
            raise ProblemError(f"Quadratic: P has shape {P.shape}; expected a square matrix.")
        off = np.abs(P - P.T)
        if off.max() > 1e-10 * max(float(np.abs(P).max()), 1e-300):
            i, j = np.unravel_index(int(off.argmax()), P.shape)
            raise ProblemError(
                f"Quadratic: P is not symmetric: P[{i}, {j}] = {P[i, j]:g} and "
                f"P[{j}, {i}] = {P[j, i]:g}. Pass (P + P.T)/2."
            )

    def _spectrum(self) -> tuple[Array, Array | None]:
        if self.P.ndim == 1:
            return self.P, None
        values, vectors = np.linalg.eigh(0.5 * (self.P + self.P.T))
        values = _without_noise(values)
        if values[0] < 0:
            raise ProblemError(
                f"Quadratic: P is not positive semidefinite: its smallest eigenvalue is "
                f"{values[0]:.6g}. Only convex functions are accepted."
            )
        return values, vectors

    def _tilts(self) -> Array:
        return self._rotate(np.broadcast_to(self.q, (len(self.P),)))

    @property
    def constant(self) -> float:
        """0."""
        return 0.0

    @property
    def dim(self) -> int | None:
        """Size of P."""
        return len(self.P)

    def _form(self) -> PiecewiseQuadratic | None:
        return PiecewiseQuadratic(curvature=self.P, slope=self.q) if self.P.ndim == 1 else None

    def rescaled(self, units: Array) -> Function:
        """P and q over the units."""
        P = self.P / units**2 if self.P.ndim == 1 else self.P / np.outer(units, units)
        return Quadratic(P, self.q / units)

    def _value(self, x: Array) -> Array:
        return (x * (0.5 * self._apply(x) + self.q)).sum(axis=-1)

    def _grad(self, x: Array) -> Array:
        return self._apply(x) + self.q

    def _hessian(self, x: Array) -> Array:
        return self.P

    def _blocks(self, dim: int) -> BlockForm | None:
        if self.P.ndim == 1:
            return super()._blocks(dim)
        q = np.broadcast_to(self.q, (dim,)) if np.any(self.q) else None
        H = 0.5 * (self.P + self.P.T)
        few = dim > DENSE_UP_TO and np.count_nonzero(H) < SPARSE_BELOW * H.size
        return BlockForm(dim, H=sp.csr_array(H) if few else H, q=q)

    def _apply(self, x: Array) -> Array:
        return self.P * x if self.P.ndim == 1 else x @ self.P.T


@dataclass(frozen=True, eq=False, repr=False)
class LeastSquares(SpectralFunction):
    """f(x) = ½|Mx - b|² + (ridge/2)|x|².

    A quadratic with P = MᵀM + ridge·I, q = -Mᵀb and constant ½|b|².

    Parameters
    ----------
    M : matrix (m, d)
        Local data.
    b : float or vector (m,)
        Local targets.
    ridge : float, default 0
        At least 0.

    Examples
    --------
    >>> f = LeastSquares([[1.0, 0.0], [0.0, 2.0]], [1.0, 2.0], ridge=1.0)
    >>> f.value([1.0, 1.0]), f.mu, f.L
    (1.0, 2.0, 5.0)
    """

    M: Matrix
    b: Finite
    ridge: NonnegativeNumber = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_rows(self, "b", self.b, self.M)

    def _spectrum(self) -> tuple[Array, Array | None]:
        _, sizes, Vt = np.linalg.svd(self.M, full_matrices=True)
        values = np.zeros(self.M.shape[1])
        noise = max(self.M.shape) * _EPS * sizes.max(initial=0.0)
        values[: len(sizes)] = np.where(sizes <= noise, 0.0, sizes**2)
        return values + self.ridge, Vt.T

    def _tilts(self) -> Array:
        # exactly 0 where M has nothing to say
        b = np.broadcast_to(self.b, (len(self.M),))
        return np.where(self.spectrum[0] > self.ridge, self._rotate(-self.M.T @ b), 0.0)

    @property
    def constant(self) -> float:
        """½|b|²."""
        return 0.5 * float(np.square(np.broadcast_to(self.b, (len(self.M),))).sum())

    @property
    def dim(self) -> int | None:
        """Number of columns of M."""
        return self.M.shape[1]

    def rescaled(self, units: Array) -> Function | None:
        """Columns over the units; with a ridge for one unit only."""
        unit = one_unit(units)
        if self.ridge and unit is None:
            return None
        return LeastSquares(self.M / units, self.b, self.ridge / unit**2 if unit else 0.0)

    def _value(self, x: Array) -> Array:
        residual = np.square(x @ self.M.T - self.b).sum(axis=-1)
        return 0.5 * (residual + self.ridge * np.square(x).sum(axis=-1))

    def _grad(self, x: Array) -> Array:
        return (x @ self.M.T - self.b) @ self.M + self.ridge * x

    def _hessian(self, x: Array) -> Array:
        return self.M.T @ self.M + self.ridge * np.eye(len(x))

    def _blocks(self, dim: int) -> BlockForm:
        b = np.broadcast_to(self.b, (len(self.M),))
        if len(self.M) < dim:
            H = Factored(self.M, np.full(dim, self.ridge))
        else:
            H = self.M.T @ self.M + self.ridge * np.eye(dim)
        return BlockForm(dim, H=H, q=-self.M.T @ b, constant=self.constant)
