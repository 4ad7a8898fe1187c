"""Losses h(z) against a target: squared, absolute, quantile, hinge. The target is first.

``scale`` multiplies the loss: one positive number, or one per coordinate (sample weights). In the
formulas a vector multiplies entry by entry inside the sum.
"""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from dual2.functions.arguments import Finite, Labels, Positive, number, refuse
from dual2.functions.base import Function
from dual2.functions.piecewise import PiecewiseQuadratic


@dataclass(frozen=True, eq=False, repr=False)
class SquaredLoss(Function):
    """h(z) = (scale/2)·|z - y|².

    prox_{th}(v) = (v + t·scale·y)/(1 + t·scale); h*(w) = |w|²/(2·scale) + <w, y>.

    Parameters
    ----------
    y : float or vector
        Target.
    scale : float or vector, default 1
        Positive factor.

    Examples
    --------
    >>> SquaredLoss([1.0, 2.0]).conjugate.grad([0.5, 0.5])
    array([1.5, 2.5])
    """

    y: Finite
    scale: Positive = 1.0

    def _form(self) -> PiecewiseQuadratic:
        return PiecewiseQuadratic(curvature=self.scale, center=self.y)


@dataclass(frozen=True, eq=False, repr=False)
class NonnegativeSquaredLoss(Function):
    """h(z) = (scale/2)·|z - y|² if z >= 0, else inf.

    prox_{th}(v) = max((v + t·scale·y)/(1 + t·scale), 0); with x = max(w/scale + y, 0) the
    conjugate is h*(w) = <w, x> - h(x) and x is its gradient.

    Parameters
    ----------
    y : float or vector
        Target.
    scale : float or vector, default 1
        Positive factor.

    Examples
    --------
    >>> NonnegativeSquaredLoss([1.0, 2.0]).conjugate.grad([-2.0, 0.5])
    array([0. , 2.5])
    """

    y: Finite
    scale: Positive = 1.0

    def _form(self) -> PiecewiseQuadratic:
        return PiecewiseQuadratic(curvature=self.scale, center=self.y, lower=0.0)


@dataclass(frozen=True, eq=False, repr=False)
class AbsoluteLoss(Function):
    """h(z) = scale·Σ_j |z_j - y_j|.

    prox_{th}(v) moves v towards y by at most t·scale; h*(w) = <w, y> for |w_j| <= scale.

    Parameters
    ----------
    y : float or vector
        Target.
    scale : float or vector, default 1
        Positive factor.

    Examples
    --------
    >>> AbsoluteLoss([1.0, 2.0]).prox([4.0, 2.5], 1.0)
    array([3., 2.])
    """

    y: Finite
    scale: Positive = 1.0

    def _form(self) -> PiecewiseQuadratic:
        return PiecewiseQuadratic(slope_left=-self.scale, slope_right=self.scale, kink=self.y)


def level(owner: Any, name: str, value: Any) -> float:
    """The level of a quantile, strictly between 0 and 1."""
    found = number(owner, name, value)
    refuse(owner, name, found, lambda v: (v <= 0) | (v >= 1), "between 0 and 1")
    return found


@dataclass(frozen=True, eq=False, repr=False)
class QuantileLoss(Function):
    """h(z) = scale·Σ_j max(q·t_j, (q - 1)·t_j) with t = y - z: z estimates the q-quantile of y.

    h*(w) = <w, y> for -q·scale <= w_j <= (1 - q)·scale, else inf; the prox moves v towards y by
    at most t·scale·q from below and t·scale·(1 - q) from above.

    Parameters
    ----------
    y : float or vector
        Target.
    quantile : float
        The level q, strictly between 0 and 1.
    scale : float or vector, default 1
        Positive factor.

    Examples
    --------
    >>> QuantileLoss([0.0], 0.9).value([-1.0]), QuantileLoss([0.0], 0.9).value([1.0])
    (0.9, 0.1)
    """

    y: Finite
    quantile: Annotated[float, level]
    scale: Positive = 1.0

    def _form(self) -> PiecewiseQuadratic:
        return PiecewiseQuadratic(
            slope_left=-self.scale * self.quantile,
            slope_right=self.scale * (1.0 - self.quantile),
            kink=self.y,
        )


@dataclass(frozen=True, eq=False, repr=False)
class HingeLoss(Function):
    """h(z) = scale·Σ_j max(0, 1 - y_j·z_j) for labels y_j = ±1.

    h*(w) = Σ_j y_j·w_j for -scale <= y_j·w_j <= 0, else inf; the prox moves the margins y_j·v_j
    that lie below 1 up by at most t·scale.

    Parameters
    ----------
    labels : float or vector
        Entries -1 or 1.
    scale : float or vector, default 1
        Positive factor.

    Examples
    --------
    >>> HingeLoss([1.0, -1.0]).value([0.0, -3.0])
    1.0
    """

    labels: Labels
    scale: Positive = 1.0

    def _form(self) -> PiecewiseQuadratic:
        return PiecewiseQuadratic(
            slope_left=np.where(np.greater(self.labels, 0), -self.scale, 0.0),
            slope_right=np.where(np.greater(self.labels, 0), 0.0, self.scale),
            kink=self.labels,
        )
