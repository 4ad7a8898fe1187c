"""Smooth losses that are conjugates of a strongly convex function: both Hubers, squared hinge."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from dual2.conic.blocks import BlockForm, Cone, ConeConstraint, Pieces
from dual2.functions.arguments import Array, Entries, Finite, Labels, Positive, PositiveNumber
from dual2.functions.base import Function
from dual2.functions.norms_and_sets import IndicatorBall
from dual2.functions.piecewise import PiecewiseQuadratic


class SmoothLoss(Function, ABC):
    """h = S* for a separable, strongly convex S on an interval, which subclasses give."""

    splits: ClassVar = True

    @abstractmethod
    def _dual_form(self) -> PiecewiseQuadratic: ...

    @cached_property
    def _dual(self) -> PiecewiseQuadratic:
        return self._dual_form()

    @property
    def dim(self) -> int | None:
        """Length of the target."""
        return self._dual.dim

    @property
    def L(self) -> float:
        """The largest second derivative."""
        return 1.0 / self._dual.mu

    @property
    def conjugate(self) -> PiecewiseQuadratic:
        """A parabola on an interval."""
        return self._dual

    def _conjugate_value(self, w: Array) -> Array:
        return self._dual._value(w)

    def _conjugate_prox(self, v: Array, step: Entries) -> Array:
        return self._dual._prox(v, step)

    def _recession(self, u: Array) -> Array:
        return self._dual._domain_support(u)


@dataclass(frozen=True, eq=False, repr=False)
class HuberLoss(SmoothLoss):
    """h(z) = scale·Σ_j huber(z_j - y_j), huber(t) = ½t² for |t| <= δ and δ|t| - ½δ² beyond.

    With κ = t·scale: prox_{th}(v) = clip((v + κ·y)/(1 + κ), v - κ·δ, v + κ·δ);
    h*(w) = |w|²/(2·scale) + <w, y> for |w_j| <= scale·δ, else inf.

    Parameters
    ----------
    y : float or vector
        Target.
    delta : float
        Where the parabola ends, positive.
    scale : float or vector, default 1
        Positive factor.

    Examples
    --------
    >>> HuberLoss(0.0, delta=2.0).prox([3.0], 1.0)
    array([1.5])
    """

    y: Finite
    delta: PositiveNumber
    scale: Positive = 1.0
    powers: ClassVar = {"y": 1, "delta": 1, "scale": -2}

    def _dual_form(self) -> PiecewiseQuadratic:
        bound = self.scale * self.delta
        return PiecewiseQuadratic(1.0 / self.scale, slope=self.y, lower=-bound, upper=bound)

    def _value(self, x: Array) -> Array:
        t = np.abs(x - self.y)
        inner = np.minimum(t, self.delta)
        return (self.scale * inner * (t - 0.5 * inner)).sum(axis=-1)

    def _grad(self, x: Array) -> Array:
        return self.scale * np.clip(x - self.y, -self.delta, self.delta)

    def _hessian(self, x: Array) -> Array:
        return np.where(np.abs(x - self.y) <= self.delta, self.scale, 0.0)

    def _prox(self, v: Array, step: Entries) -> Array:
        kappa = step * self.scale
        reach = kappa * self.delta
        return np.clip((v + kappa * self.y) / (1.0 + kappa), v - reach, v + reach)

    def _blocks(self, dim: int) -> BlockForm:
        start = np.broadcast_to(self.y - self.delta, (dim,))
        scale = np.broadcast_to(self.scale, (dim,))
        end = scale * self.delta
        left, right = (-np.inf, 0.0, 0.0, -end), (0.0, np.inf, 0.0, end)
        pieces = Pieces.from_table(start, [left, (0.0, 2.0 * self.delta, scale, -end), right])
        return BlockForm(dim, pieces=pieces, constant=0.5 * self.delta**2 * float(scale.sum()))


@dataclass(frozen=True, eq=False, repr=False)
class HuberNormLoss(Function):
    """h(z) = scale·H(|z - y|₂), H(t) = ½t² for t <= δ and δt - ½δ² beyond.

    One outlying entry makes the whole loss linear; :class:`HuberLoss` treats each entry alone.
    With r = v - y and κ = t·scale: prox_{th}(v) = y + max(1/(1 + κ), 1 - κ·δ/|r|)·r;
    h*(w) = |w|²/(2·scale) + <w, y> for |w|₂ <= scale·δ, else inf.

    Parameters
    ----------
    y : float or vector
        Target.
    delta : float
        Norm at which the parabola ends, positive.
    scale : float, default 1
        Positive factor.

    Examples
    --------
    >>> h = HuberNormLoss(0.0, delta=1.0)
    >>> h.value([3.0, 4.0]), h.prox([3.0, 4.0], 1.0)
    (4.5, array([2.4, 3.2]))
    """

    y: Finite
    delta: PositiveNumber
    scale: PositiveNumber = 1.0
    powers: ClassVar = {"y": 1, "delta": 1, "scale": -2}

    @property
    def L(self) -> float:
        """The scale."""
        return self.scale

    @cached_property
    def _dual(self) -> Function:
        ball = IndicatorBall(self.scale * self.delta)
        return ball.affine(slope=self.y, curvature=1.0 / self.scale)

    @property
    def conjugate(self) -> Function:
        """A parabola on a ball."""
        return self._dual

    def _distance(self, x: Array) -> tuple[Array, Array]:
        """x - y and its length, with an axis of length one."""
        away = x - self.y
        return away, np.linalg.norm(away, axis=-1, keepdims=True)

    def _value(self, x: Array) -> Array:
        t = self._distance(x)[1][..., 0]
        inner = np.minimum(t, self.delta)
        return self.scale * inner * (t - 0.5 * inner)

    def _grad(self, x: Array) -> Array:
        away, length = self._distance(x)
        return self.scale * away * (self.delta / np.maximum(length, self.delta))

    def _hessian(self, x: Array) -> Array:
        away, length = self._distance(x)
        eye, t = np.eye(x.shape[-1]), float(length[0])
        if t <= self.delta:
            return self.scale * eye
        unit = away / t
        return self.scale * self.delta / t * (eye - np.outer(unit, unit))

    def _prox(self, v: Array, step: Entries) -> Array:
        away, length = self._distance(v)
        kappa = step * self.scale
        outside = 1.0 - kappa * self.delta / np.maximum(length, self.delta)
        return self.y + np.maximum(1.0 / (1.0 + kappa), outside) * away

    def _conjugate_value(self, w: Array) -> Array:
        return self._dual._value(w)

    def _conjugate_prox(self, v: Array, step: Entries) -> Array:
        return self._dual._prox(v, step)

    def _recession(self, u: Array) -> Array:
        return self._dual._domain_support(u)

    def _blocks(self, dim: int) -> BlockForm:
        """scale·δ·(τ + t) for |x - y| <= v + t, t >= 0 and v² <= 2δτ, a rotated cone.

        The extra variables are v, t and τ, all in the unit of x.
        """
        zero, flat = np.zeros((dim, 3)), np.zeros((3, dim))
        center = np.broadcast_to(self.y, (dim,))
        reach = np.vstack([[[-1.0, -1.0, 0.0]], zero])
        norm = ConeConstraint.of(
            Cone.SECOND_ORDER, -np.eye(dim + 1, dim, -1), np.append(0.0, -center), reach
        )
        sign = ConeConstraint.of(Cone.NONNEGATIVE, flat[:1], 0.0, [[0.0, -1.0, 0.0]])
        parabola = ConeConstraint.of(
            Cone.SECOND_ORDER,
            flat,
            [self.delta, 0.0, -self.delta],
            [[0.0, 0.0, -1.0], [-np.sqrt(2.0), 0.0, 0.0], [0.0, 0.0, -1.0]],
        )
        weight = self.scale * self.delta
        return BlockForm(dim, cost=weight * np.array([0.0, 1.0, 1.0]), rows=(norm, sign, parabola))

    def _conjugate_blocks(self, dim: int) -> BlockForm | None:
        return self._dual._blocks(dim)


@dataclass(frozen=True, eq=False, repr=False)
class SquaredHingeLoss(SmoothLoss):
    """h(z) = scale·Σ_j max(0, 1 - y_j·z_j)² for labels y_j = ±1.

    h*(w) = Σ_j w_j²/(4·scale) + y_j·w_j for y_j·w_j <= 0, else inf; the prox moves a margin
    m = y_j·v_j below 1 to (m + 2t·scale)/(1 + 2t·scale).

    Parameters
    ----------
    labels : float or vector
        Entries -1 or 1.
    scale : float or vector, default 1
        Positive factor.

    Examples
    --------
    >>> SquaredHingeLoss([1.0, -1.0]).value([0.0, 1.0])
    5.0
    >>> SquaredHingeLoss(1.0, scale=0.5).prox([0.0, 3.0], 1.0)
    array([0.5, 3. ])
    """

    labels: Labels
    scale: Positive = 1.0

    def _dual_form(self) -> PiecewiseQuadratic:
        positive_label = np.greater(self.labels, 0)
        return PiecewiseQuadratic(
            0.5 / self.scale,
            slope=self.labels,
            lower=np.where(positive_label, -np.inf, 0.0),
            upper=np.where(positive_label, 0.0, np.inf),
        )

    def _value(self, x: Array) -> Array:
        return (self.scale * np.maximum(0.0, 1.0 - self.labels * x) ** 2).sum(axis=-1)

    def _grad(self, x: Array) -> Array:
        return -2.0 * self.scale * self.labels * np.maximum(0.0, 1.0 - self.labels * x)

    def _hessian(self, x: Array) -> Array:
        return np.where(self.labels * x < 1.0, 2.0 * np.asarray(self.scale), 0.0)

    def _prox(self, v: Array, step: Entries) -> Array:
        kappa = 2.0 * step * self.scale
        margin = self.labels * v
        return self.labels * np.maximum(margin, (margin + kappa) / (1.0 + kappa))

    def _blocks(self, dim: int) -> BlockForm:
        start, bend = np.broadcast_to(self.labels, (dim,)), 2.0 * np.asarray(self.scale)
        left = -np.inf, 0.0, np.where(start > 0, bend, 0.0), 0.0
        right = 0.0, np.inf, np.where(start > 0, 0.0, bend), 0.0
        return BlockForm(dim, pieces=Pieces.from_table(start, [left, right]))
