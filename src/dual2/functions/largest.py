"""Largest entries, the l∞ norm, and the sets whose support functions they are."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from dual2.conic.blocks import BlockForm, Cone, ConeConstraint, Pieces
from dual2.errors import ProblemError
from dual2.functions.arguments import Array, Entries, NonnegativeNumber, PositiveNumber
from dual2.functions.base import TOLERANCE, Function, Indicator, Support
from dual2.functions.norms_and_sets import IndicatorSimplex, simplex_level


@dataclass(frozen=True, eq=False, repr=False)
class IndicatorCappedSimplex(Indicator):
    """f(x) = 0 if 0 <= x <= cap and Σ_j x_j = total, else inf.

    prox_{tf}(v) = min(max(v - τ, 0), cap) with τ such that the sum is ``total``; f*(w) is cap times
    the sum of the total/cap largest entries of w. Deviations up to 1e-9·max(1, total) count as
    zero.

    Parameters
    ----------
    total : float
        At least 0 and at most cap times the length of x.
    cap : float
        Positive.

    Examples
    --------
    >>> IndicatorCappedSimplex(2.0, 1.0).prox([3.0, 0.75, 0.25], 1.0)
    array([1.  , 0.75, 0.25])
    """

    total: NonnegativeNumber
    cap: PositiveNumber
    powers: ClassVar = {"total": 1, "cap": 1}

    @property
    def conjugate(self) -> Function:
        """A sum of largest entries."""
        if self.total == 0:
            return super().conjugate
        return SumLargest(self.total / self.cap, self.cap)

    def _value(self, x: Array) -> Array:
        slack = TOLERANCE * max(1.0, self.total)
        outside = (x.min(axis=-1) < -slack) | (x.max(axis=-1) > self.cap + slack)
        return np.where(outside | (np.abs(x.sum(axis=-1) - self.total) > slack), np.inf, 0.0)

    def _prox(self, v: Array, step: Entries) -> Array:
        return np.clip(v - self.level(v, self.total, self.cap), 0.0, self.cap)

    def _conjugate_prox(self, v: Array, step: Entries) -> Array:
        length = float(np.max(step))
        total, cap = length * self.total, length * self.cap
        return v - np.clip(v - self.level(v, total, cap), 0.0, cap)

    def _domain_support(self, u: Array) -> Array:
        count = self._fits(u.shape[-1])
        ordered = -np.sort(-u, axis=-1)
        shares = np.clip(count - np.arange(u.shape[-1]), 0.0, 1.0)
        return self.cap * (ordered @ shares)

    def _conjugate_blocks(self, dim: int) -> BlockForm | None:
        return BlockForm(dim) if self.total == 0.0 else self.conjugate._blocks(dim)

    def _blocks(self, dim: int) -> BlockForm:
        count = self._fits(dim)
        if count in (0.0, float(dim)):  # a single point
            return BlockForm(dim, Pieces.from_table(np.full(dim, self.cap if count else 0.0), []))
        pieces = Pieces.from_table(np.zeros(dim), [(0.0, self.cap, 0.0, 0.0)])
        return BlockForm(
            dim, pieces, rows=(ConeConstraint.of(Cone.ZERO, np.ones((1, dim)), self.total),)
        )

    def _fits(self, dim: int) -> float:
        """total/cap, which the length must allow."""
        count = self.total / self.cap
        if count > dim * (1.0 + 1e-12):
            raise ProblemError(
                f"{self!r}: vectors of length {dim} with entries of at most {self.cap:g} have no "
                f"sum of {self.total:g}. Lower the total (or the count), or raise the cap."
            )
        return min(count, float(dim))

    def level(self, v: Array, total: float, cap: float) -> Array:
        """The τ at which Σ_j min(max(v_j - τ, 0), cap) = total.

        Falling, τ passes entries v_j, whose share begins to grow, and v_j - cap, whose share is
        full: between two of them the sum is linear with the number of growing shares as slope.
        """
        self._fits(v.shape[-1])
        ends = np.concatenate([v, v - cap], axis=-1)
        order = np.argsort(-ends, axis=-1, kind="stable")
        ends = np.take_along_axis(ends, order, axis=-1)
        growing = np.cumsum(np.where(order < v.shape[-1], 1.0, -1.0), axis=-1)
        sums = np.cumsum(growing[..., :-1] * (ends[..., :-1] - ends[..., 1:]), axis=-1)
        last = (sums < total).sum(axis=-1, keepdims=True)
        high = np.take_along_axis(ends, last, axis=-1)
        low = np.take_along_axis(ends, np.minimum(last + 1, ends.shape[-1] - 1), axis=-1)
        middle = 0.5 * (high + low)
        free, full = (v > middle) & (v - cap < middle), v - cap >= middle
        count = free.sum(axis=-1, keepdims=True)
        rest = np.where(free, v, 0.0).sum(axis=-1, keepdims=True) - total
        exact = (rest + cap * full.sum(axis=-1, keepdims=True)) / np.maximum(count, 1)
        return np.where(count > 0, np.clip(exact, low, high), high)


@dataclass(frozen=True, eq=False, repr=False)
class IndicatorL1Ball(Indicator):
    """f(x) = 0 if Σ_j |x_j| <= radius, else inf.

    prox_{tf}(v) = sign(v)·max(|v| - τ, 0) with τ such that the sum is ``radius`` (0 inside);
    f*(w) = radius·max_j |w_j|. Points up to 1e-9·max(1, radius) outside count as inside.

    Parameters
    ----------
    radius : float
        At least 0.

    Examples
    --------
    >>> IndicatorL1Ball(1.0).prox([1.5, -1.0, 0.0], 1.0)
    array([ 0.75, -0.25,  0.  ])
    """

    radius: NonnegativeNumber
    powers: ClassVar = {"radius": 1}

    @property
    def conjugate(self) -> "LInfNorm":
        """The l∞ norm times the radius."""
        return LInfNorm(self.radius)

    def _value(self, x: Array) -> Array:
        slack = TOLERANCE * max(1.0, self.radius)
        return np.where(np.abs(x).sum(axis=-1) > self.radius + slack, np.inf, 0.0)

    def _prox(self, v: Array, step: Entries) -> Array:
        threshold = self.threshold(v, self.radius)
        return np.sign(v) * np.maximum(np.abs(v) - threshold, 0.0)

    def _conjugate_prox(self, v: Array, step: Entries) -> Array:
        threshold = self.threshold(v, float(np.max(step)) * self.radius)
        return np.clip(v, -threshold, threshold)

    def _domain_support(self, u: Array) -> Array:
        return self.radius * np.abs(u).max(axis=-1)

    def _blocks(self, dim: int) -> BlockForm:
        """-u <= x <= u and Σu <= radius."""
        if self.radius == 0.0:
            return BlockForm(dim, Pieces.from_table(np.zeros(dim), []))
        eye = sp.eye_array(dim)
        x = sp.vstack([eye, -eye, sp.csr_array((1, dim))])
        u = sp.vstack([-eye, -eye, np.ones((1, dim))])
        rhs = np.append(np.zeros(2 * dim), self.radius)
        return BlockForm(
            dim, cost=np.zeros(dim), rows=(ConeConstraint.of(Cone.NONNEGATIVE, x, rhs, u),)
        )

    @staticmethod
    def threshold(v: Array, radius: float) -> Array:
        """The τ >= 0 at which Σ_j max(|v_j| - τ, 0) = radius, or 0 where the sum is less."""
        return np.maximum(simplex_level(np.abs(v), radius), 0.0)


@dataclass(frozen=True, eq=False, repr=False)
class Max(Support):
    """f(x) = weight·max_j x_j.

    prox_{tf}(v) = min(v, τ) with τ such that Σ_j max(v_j - τ, 0) = t·weight; f* = indicator of the
    simplex {w >= 0, Σw = weight}.

    Parameters
    ----------
    weight : float, default 1
        At least 0.

    Examples
    --------
    >>> Max().prox([3.0, 2.5, 0.0], 1.5)
    array([2., 2., 0.])
    """

    weight: NonnegativeNumber = 1.0

    @property
    def conjugate(self) -> IndicatorSimplex:
        """The simplex with the total ``weight``."""
        return IndicatorSimplex(self.weight)

    def _blocks(self, dim: int) -> BlockForm:
        """x <= t at the cost weight·t."""
        rows = ConeConstraint.of(Cone.NONNEGATIVE, sp.eye_array(dim), 0.0, -np.ones((dim, 1)))
        return (
            BlockForm(dim, cost=np.array([self.weight]), rows=(rows,))
            if self.weight
            else BlockForm(dim)
        )


@dataclass(frozen=True, eq=False, repr=False)
class SumLargest(Support):
    """f(x) = weight times the sum of the ``count`` largest entries of x.

    With a count that is not whole the next entry enters by the remaining share. The prox follows
    from f* = indicator of {0 <= w <= weight, Σw = weight·count}.

    Parameters
    ----------
    count : float
        Positive, at most the length of x.
    weight : float, default 1
        Positive.

    Examples
    --------
    >>> SumLargest(2).value([1.0, 3.0, 2.0])
    5.0
    """

    count: PositiveNumber
    weight: PositiveNumber = 1.0

    @property
    def conjugate(self) -> IndicatorCappedSimplex:
        """The simplex with capped entries."""
        return IndicatorCappedSimplex(self.weight * self.count, self.weight)

    def _blocks(self, dim: int) -> BlockForm:
        """x - r <= u and 0 <= u at the cost weight·(count·r + Σu); all of x if count = dim."""
        if self.conjugate._fits(dim) == dim:
            return BlockForm(dim, q=np.full(dim, self.weight))
        eye = sp.eye_array(dim)
        x = sp.vstack([eye, sp.csr_array((dim, dim))])
        u = sp.hstack([np.repeat([[-1.0], [0.0]], dim, axis=0), sp.vstack([-eye, -eye])])
        cost = self.weight * np.append(self.count, np.ones(dim))
        return BlockForm(dim, cost=cost, rows=(ConeConstraint.of(Cone.NONNEGATIVE, x, 0.0, u),))


@dataclass(frozen=True, eq=False, repr=False)
class LInfNorm(Support):
    """f(x) = weight·max_j |x_j|.

    prox_{tf}(v) = min(max(v, -τ), τ) with τ such that Σ_j max(|v_j| - τ, 0) = t·weight, or 0;
    f* = indicator of Σ_j |w_j| <= weight.

    Parameters
    ----------
    weight : float, default 1
        At least 0.

    Examples
    --------
    >>> LInfNorm().prox([3.0, -2.5, 0.0], 1.5)
    array([ 2., -2.,  0.])
    """

    weight: NonnegativeNumber = 1.0

    @property
    def conjugate(self) -> IndicatorL1Ball:
        """The l1 ball of radius ``weight``."""
        return IndicatorL1Ball(self.weight)

    def _blocks(self, dim: int) -> BlockForm:
        """-t <= x <= t at the cost weight·t."""
        if self.weight == 0.0:
            return BlockForm(dim)
        x = sp.vstack([sp.eye_array(dim), -sp.eye_array(dim)])
        rows = ConeConstraint.of(Cone.NONNEGATIVE, x, 0.0, -np.ones((2 * dim, 1)))
        return BlockForm(dim, cost=np.array([self.weight]), rows=(rows,))
