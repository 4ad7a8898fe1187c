"""Named members of the separable family: each says its formula, ``PiecewiseQuadratic`` computes."""

from dataclasses import dataclass

import numpy as np

from dual2.errors import ProblemError
from dual2.functions.arguments import (
    Bounds,
    Finite,
    Nonnegative,
    NonnegativeNumber,
    refuse,
)
from dual2.functions.base import Function
from dual2.functions.piecewise import PiecewiseQuadratic


def separable_form(f: Function, dim: int) -> PiecewiseQuadratic | None:
    """The canonical parameters of a separable f, each of length ``dim``; None if f is not one.

    Examples
    --------
    >>> separable_form(L1Norm(2.0), 3).slope_right
    array([2., 2., 2.])
    """
    return None if f.form is None else f.form.broadcast(dim)


@dataclass(frozen=True, eq=False, repr=False)
class Zero(Function):
    """f(x) = 0, prox(v) = v, f*(w) = indicator of {0}.

    Examples
    --------
    >>> Zero().prox([1.0, -2.0], 3.0)
    array([ 1., -2.])
    """

    def _form(self) -> PiecewiseQuadratic:
        return PiecewiseQuadratic()


@dataclass(frozen=True, eq=False, repr=False)
class SquaredNorm(Function):
    """f(x) = (weight/2)·|x - center|².

    prox_{tf}(v) = (v + t·weight·center)/(1 + t·weight); f*(w) = |w|²/(2·weight) + <w, center>.

    Parameters
    ----------
    weight : float
        At least 0 (0: the zero function).
    center : float or vector, default 0
        Where the minimum lies.

    Examples
    --------
    >>> SquaredNorm(2.0).value([1.0, 3.0])
    10.0
    """

    weight: NonnegativeNumber
    center: Finite = 0.0

    def _form(self) -> PiecewiseQuadratic:
        return PiecewiseQuadratic(curvature=self.weight, center=self.center)


@dataclass(frozen=True, eq=False, repr=False)
class L1Norm(Function):
    """f(x) = Σ_j weight_j·|x_j|.

    prox_{tf}(v)_j = sign(v_j)·max(|v_j| - t·weight_j, 0); f* = indicator of |w_j| <= weight_j.

    Parameters
    ----------
    weight : float or vector
        At least 0.

    Examples
    --------
    >>> L1Norm(1.0).prox([3.0, -0.5], 2.0)
    array([1., 0.])
    """

    weight: Nonnegative

    def _form(self) -> PiecewiseQuadratic:
        return PiecewiseQuadratic(slope_left=-self.weight, slope_right=self.weight)


@dataclass(frozen=True, eq=False, repr=False)
class ElasticNet(Function):
    """f(x) = Σ_j l1_j·|x_j| + (l2_j/2)·x_j².

    prox_{tf}(v) is the soft threshold of v at t·l1, divided by 1 + t·l2;
    f*(w) = Σ_j max(|w_j| - l1_j, 0)²/(2·l2_j).

    Parameters
    ----------
    l1, l2 : float or vector
        Weights, at least 0.

    Examples
    --------
    >>> ElasticNet(1.0, 1.0).prox([3.0, -0.5], 1.0)
    array([1., 0.])
    """

    l1: Nonnegative
    l2: Nonnegative

    def _form(self) -> PiecewiseQuadratic:
        return PiecewiseQuadratic(curvature=self.l2, slope_left=-self.l1, slope_right=self.l1)


@dataclass(frozen=True, eq=False, repr=False)
class IndicatorBox(Function):
    """f(x) = 0 if lower <= x <= upper, else inf.

    prox_{tf}(v) = min(max(v, lower), upper); f*(w) = Σ_j max(lower_j·w_j, upper_j·w_j).
    A point up to 1e-9·max(1, |bound|) outside counts as inside.

    Parameters
    ----------
    lower, upper : float or vector
        Bounds, possibly infinite; equal bounds fix the coordinate.

    Examples
    --------
    >>> IndicatorBox(0.0, 1.0).prox([-1.0, 0.5, 2.0], 1.0)
    array([0. , 0.5, 1. ])
    """

    lower: Bounds
    upper: Bounds

    def __post_init__(self) -> None:
        super().__post_init__()
        lower, upper = self.lower, self.upper
        refuse(self, "lower", lower, lambda v: v == np.inf, "below inf (the box is empty)")
        refuse(self, "upper", upper, lambda v: v == -np.inf, "above -inf (the box is empty)")
        where = np.flatnonzero(np.atleast_1d(np.greater(lower, upper)))
        if where.size:
            j = int(where[0])
            low, up = (b[j] for b in np.broadcast_arrays(*np.atleast_1d(lower, upper)))
            raise ProblemError(
                f"IndicatorBox: the box is empty at index {j}: lower {low:g} > upper {up:g}. "
                "Swap or repair these bounds."
            )

    def _form(self) -> PiecewiseQuadratic:
        return PiecewiseQuadratic(lower=self.lower, upper=self.upper)


@dataclass(frozen=True, eq=False, repr=False)
class IndicatorNonnegative(Function):
    """f(x) = 0 if x >= 0, else inf.

    prox_{tf}(v) = max(v, 0); f* = indicator of w <= 0. Entries down to -1e-9 count as 0.

    Examples
    --------
    >>> IndicatorNonnegative().prox([-1.0, 2.0], 1.0)
    array([0., 2.])
    """

    def _form(self) -> PiecewiseQuadratic:
        return PiecewiseQuadratic(lower=0.0)


@dataclass(frozen=True, eq=False, repr=False)
class IndicatorPoint(Function):
    """h(z) = 0 if z = b, else inf: the coupling ΣA_i x_i = b.

    prox_{th}(v) = b; h*(w) = <b, w>. Points within 1e-9·max(1, |b_j|) count as equal.

    Parameters
    ----------
    b : float or vector
        The point.

    Examples
    --------
    >>> IndicatorPoint([1.0, 2.0]).conjugate.value([3.0, 4.0])
    11.0
    """

    b: Finite

    def _form(self) -> PiecewiseQuadratic:
        return PiecewiseQuadratic(lower=self.b, upper=self.b)


@dataclass(frozen=True, eq=False, repr=False)
class IndicatorAtMost(Function):
    """h(z) = 0 if z <= b, else inf: the coupling ΣA_i x_i <= b.

    prox_{th}(v) = min(v, b); h*(w) = <b, w> for w >= 0, else inf. Points up to
    1e-9·max(1, |b_j|) above count as inside.

    Parameters
    ----------
    b : float or vector
        Upper bounds.

    Examples
    --------
    >>> IndicatorAtMost(1.0).prox([0.0, 3.0], 1.0)
    array([0., 1.])
    """

    b: Finite

    def _form(self) -> PiecewiseQuadratic:
        return PiecewiseQuadratic(upper=self.b)
