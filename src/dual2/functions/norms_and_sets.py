"""Functions that couple the coordinates: the Euclidean norm, and sets with a known projection."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from dual2.conic.blocks import BlockForm, Cone, ConeConstraint, Pieces
from dual2.errors import ProblemError
from dual2.functions.arguments import (
    Array,
    Entries,
    Finite,
    Matrix,
    NonnegativeNumber,
    Number,
    check_rows,
)
from dual2.functions.base import TOLERANCE, Function, Indicator, Support
from dual2.functions.conjugate_blocks import support_of_rows


@dataclass(frozen=True, eq=False, repr=False)
class L2Norm(Support):
    """f(x) = weight·|x|₂.

    prox_{tf}(v) = max(1 - t·weight/|v|, 0)·v; f* = indicator of the ball of radius ``weight``.

    Parameters
    ----------
    weight : float
        At least 0.

    Examples
    --------
    >>> L2Norm(1.0).prox([3.0, 4.0], 2.5)
    array([1.5, 2. ])
    """

    weight: NonnegativeNumber

    @property
    def conjugate(self) -> "IndicatorBall":
        """The ball of radius ``weight``."""
        return IndicatorBall(self.weight)

    def _value(self, x: Array) -> Array:
        return self.weight * np.linalg.norm(x, axis=-1)

    def _prox(self, v: Array, step: Entries) -> Array:
        norm = np.linalg.norm(v, axis=-1, keepdims=True)
        threshold = step * self.weight
        return v * np.where(norm > threshold, 1.0 - threshold / np.where(norm > 0, norm, 1.0), 0.0)

    def _blocks(self, dim: int) -> BlockForm:
        """(t, x) in the second-order cone, at the cost weight·t."""
        if self.weight == 0.0:
            return BlockForm(dim)
        x, t = -np.eye(dim + 1, dim, -1), -np.eye(dim + 1, 1)
        cone = ConeConstraint.of(Cone.SECOND_ORDER, x, 0.0, t)
        return BlockForm(dim, cost=np.array([self.weight]), rows=(cone,))


@dataclass(frozen=True, eq=False, repr=False)
class IndicatorBall(Indicator):
    """f(x) = 0 if |x - center|₂ <= radius, else inf.

    The prox projects radially; f*(w) = radius·|w|₂ + <w, center>. Points up to
    1e-9·max(1, radius, |center|) outside count as inside.

    Parameters
    ----------
    radius : float
        At least 0.
    center : float or vector, default 0
        The centre.

    Examples
    --------
    >>> IndicatorBall(1.0).prox([3.0, 4.0], 1.0)
    array([0.6, 0.8])
    """

    radius: NonnegativeNumber
    center: Finite = 0.0
    powers: ClassVar = {"radius": 1, "center": 1}

    @property
    def conjugate(self) -> Function:
        """A tilted Euclidean norm."""
        return L2Norm(self.radius).tilt(self.center)

    def _value(self, x: Array) -> Array:
        distance = np.linalg.norm(x - self.center, axis=-1)
        center = np.linalg.norm(np.broadcast_to(self.center, x.shape[-1:]))
        slack = TOLERANCE * max(1.0, self.radius, float(center))
        return np.where(distance > self.radius + slack, np.inf, 0.0)

    def _prox(self, v: Array, step: Entries) -> Array:
        away = v - self.center
        norm = np.linalg.norm(away, axis=-1, keepdims=True)
        factor = np.where(norm > self.radius, self.radius / np.where(norm > 0, norm, 1.0), 1.0)
        return self.center + away * factor

    def _conjugate_prox(self, v: Array, step: Entries) -> Array:
        return self.conjugate._prox(v, step)

    def _domain_support(self, u: Array) -> Array:
        return self.radius * np.linalg.norm(u, axis=-1) + (u * self.center).sum(axis=-1)

    def _blocks(self, dim: int) -> BlockForm:
        """(radius, x - center) in the second-order cone."""
        center = np.broadcast_to(self.center, (dim,))
        if self.radius == 0.0:
            return BlockForm(dim, pieces=Pieces.from_table(center, []))
        rhs = np.append(self.radius, -center)
        return BlockForm(
            dim, rows=(ConeConstraint.of(Cone.SECOND_ORDER, -np.eye(dim + 1, dim, -1), rhs),)
        )


@dataclass(frozen=True, eq=False, repr=False)
class IndicatorSimplex(Indicator):
    """f(x) = 0 if x >= 0 and Σ_j x_j = total, else inf.

    prox_{tf}(v) = max(v - τ, 0) with τ such that the sum is ``total``;
    f*(w) = total·max_j w_j, prox_{sf*}(v) = min(v, τ') with τ' for the sum s·total. Deviations
    up to 1e-9·max(1, total) count as zero.

    Parameters
    ----------
    total : float, default 1
        At least 0.

    Examples
    --------
    >>> IndicatorSimplex().prox([0.5, 1.5, -1.0], 1.0)
    array([0., 1., 0.])
    """

    total: NonnegativeNumber = 1.0
    powers: ClassVar = {"total": 1}

    def _value(self, x: Array) -> Array:
        slack = TOLERANCE * max(1.0, self.total)
        outside = (x.min(axis=-1) < -slack) | (np.abs(x.sum(axis=-1) - self.total) > slack)
        return np.where(outside, np.inf, 0.0)

    def _prox(self, v: Array, step: Entries) -> Array:
        return np.maximum(v - simplex_level(v, self.total), 0.0)

    def _conjugate_prox(self, v: Array, step: Entries) -> Array:
        return np.minimum(v, simplex_level(v, float(step) * self.total))

    def _domain_support(self, u: Array) -> Array:
        return self.total * u.max(axis=-1)

    def _conjugate_blocks(self, dim: int) -> BlockForm:
        from dual2.functions.largest import Max

        return Max(self.total)._blocks(dim)

    def _blocks(self, dim: int) -> BlockForm:
        if self.total == 0.0:
            return BlockForm(dim, pieces=Pieces.from_table(np.zeros(dim), []))
        pieces = Pieces.from_table(np.zeros(dim), [(0.0, np.inf, 0.0, 0.0)])
        return BlockForm(
            dim, pieces, rows=(ConeConstraint.of(Cone.ZERO, np.ones((1, dim)), self.total),)
        )


def simplex_level(v: Array, total: float) -> Array:
    """The τ at which Σ_j max(v_j - τ, 0) = total, by sorting.

    τ_k makes the k largest entries exceed it by total; the right k is the last one whose smallest
    entry still lies above τ_k.
    """
    u = -np.sort(-v, axis=-1)
    levels = (np.cumsum(u, axis=-1) - total) / np.arange(1, v.shape[-1] + 1)
    last = np.maximum((u > levels).sum(axis=-1, keepdims=True) - 1, 0)
    return np.take_along_axis(levels, last, axis=-1)


@dataclass(frozen=True, eq=False, repr=False)
class IndicatorHalfspace(Indicator):
    """f(x) = 0 if <a, x> <= b, else inf.

    prox_{tf}(v) = v - max(<a, v> - b, 0)/|a|²·a; f*(w) = λ·b if w = λ·a with λ >= 0, else inf.
    Points up to 1e-9·max(1, |b|/|a|) away from the set count as inside.

    Parameters
    ----------
    a : float or vector
        Normal; a = 0 with b >= 0 is the whole space.
    b : float
        Bound.

    Examples
    --------
    >>> IndicatorHalfspace([1.0, 1.0], 1.0).prox([2.0, 1.0], 1.0)
    array([1., 0.])
    """

    a: Finite
    b: Number

    def __post_init__(self) -> None:
        super().__post_init__()
        if not np.any(self.a) and self.b < 0:
            raise ProblemError(
                f"IndicatorHalfspace: the set is empty: a = 0 and b = {self.b:g} < 0. "
                "Give a nonzero a, or b >= 0."
            )

    def _normal(self, dim: int) -> tuple[Array, float]:
        a = np.broadcast_to(self.a, (dim,))
        return a, float(a @ a) or 1.0

    def rescaled(self, units: Array) -> Function:
        """{u: (a/units)ᵀu ≤ b}."""
        return IndicatorHalfspace(self.a / units, self.b)

    def _value(self, x: Array) -> Array:
        a, square = self._normal(x.shape[-1])
        length = np.sqrt(square)
        slack = TOLERANCE * max(1.0, abs(self.b) / length)
        return np.where((x @ a - self.b) / length > slack, np.inf, 0.0)

    def _prox(self, v: Array, step: Entries) -> Array:
        a, square = self._normal(v.shape[-1])
        return v - (np.maximum(v @ a - self.b, 0.0) / square)[..., None] * a

    def _conjugate_prox(self, v: Array, step: Entries) -> Array:
        a, square = self._normal(v.shape[-1])
        return (np.maximum(v @ a - step * self.b, 0.0) / square)[..., None] * a

    def _domain_support(self, u: Array) -> Array:
        a, square = self._normal(u.shape[-1])
        multiple = np.maximum(u @ a / square, 0.0)
        rest = np.linalg.norm(u - multiple[..., None] * a, axis=-1)
        slack = TOLERANCE * np.maximum(1.0, np.linalg.norm(u, axis=-1))
        return np.where(rest > slack, np.inf, multiple * self.b)

    def _conjugate_blocks(self, dim: int) -> BlockForm:
        return support_of_rows(self._blocks(dim).rows, dim)

    def _blocks(self, dim: int) -> BlockForm:
        a = np.broadcast_to(self.a, (1, dim))
        return BlockForm(
            dim, rows=(ConeConstraint.of(Cone.NONNEGATIVE, a, self.b),) if np.any(a) else ()
        )


@dataclass(frozen=True, eq=False, repr=False)
class IndicatorAffine(Indicator):
    """f(x) = 0 if Mx = b, else inf.

    With the rows of Q an orthonormal basis of the row space of M and c the coordinates of the
    solutions in it, the set is {Qx = c}: prox_{tf}(v) = v - Qᵀ(Qv - c);
    f*(w) = <Qw, c> if w lies in the row space, else inf. |Qx - c| up to 1e-9·max(1, |c|) counts
    as zero. M may have dependent rows as long as b is consistent with them.

    Parameters
    ----------
    M : matrix (m, d)
        Left-hand sides.
    b : float or vector (m,)
        Right-hand sides.

    Examples
    --------
    >>> IndicatorAffine([[1.0, 1.0]], [1.0]).prox([2.0, 1.0], 1.0)
    array([1., 0.])
    """

    M: Matrix
    b: Finite

    def __post_init__(self) -> None:
        super().__post_init__()
        check_rows(self, "b", self.b, self.M, "right-hand side")
        self.basis  # noqa: B018  (an inconsistent system is refused here)

    @cached_property
    def basis(self) -> tuple[Array, Array]:
        """The pair (Q, c) with Mx = b exactly if Qx = c, the rows of Q orthonormal."""
        b = np.broadcast_to(self.b, (len(self.M),))
        U, sizes, Vt = np.linalg.svd(self.M, full_matrices=False)
        largest = sizes.max(initial=0.0)
        rank = int((sizes > largest * max(self.M.shape) * np.finfo(float).eps).sum())
        U, sizes, Q = U[:, :rank], sizes[:rank], np.ascontiguousarray(Vt[:rank])
        residual = float(np.linalg.norm(b - U @ (U.T @ b)))
        if residual > TOLERANCE * max(1.0, float(np.linalg.norm(b))):
            raise ProblemError(
                f"IndicatorAffine: Mx = b has no solution: the least residual is {residual:.3g} "
                f"(M has rank {rank} and {len(self.M)} rows). Remove the contradicting rows."
            )
        return Q, (U.T @ b) / sizes

    @property
    def dim(self) -> int | None:
        """Number of columns of M."""
        return self.M.shape[1]

    def rescaled(self, units: Array) -> Function:
        """{u: (M/units)u = b}."""
        return IndicatorAffine(self.M / units, self.b)

    def _value(self, x: Array) -> Array:
        Q, c = self.basis
        slack = TOLERANCE * max(1.0, float(np.linalg.norm(c)))
        return np.where(np.linalg.norm(x @ Q.T - c, axis=-1) > slack, np.inf, 0.0)

    def _prox(self, v: Array, step: Entries) -> Array:
        Q, c = self.basis
        return v - (v @ Q.T - c) @ Q

    def _conjugate_prox(self, v: Array, step: Entries) -> Array:
        Q, c = self.basis
        return (v @ Q.T - step * c) @ Q

    def _domain_support(self, u: Array) -> Array:
        Q, c = self.basis
        inside = u @ Q.T
        slack = TOLERANCE * np.maximum(1.0, np.linalg.norm(u, axis=-1))
        return np.where(np.linalg.norm(u - inside @ Q, axis=-1) > slack, np.inf, inside @ c)

    def _conjugate_blocks(self, dim: int) -> BlockForm:
        return support_of_rows(self._blocks(dim).rows, dim)

    def _blocks(self, dim: int) -> BlockForm:
        """Mx = b as given if the rows are independent, else Qx = c."""
        Q, c = self.basis
        M, b = (self.M, self.b) if len(Q) == len(self.M) else (Q, c)
        return BlockForm(dim, rows=(ConeConstraint.of(Cone.ZERO, M, b),) if len(M) else ())
