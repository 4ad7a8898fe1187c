"""Domains of functions: values on them, the directions that bound them and those that leave none.

``inside_value`` never tests membership: at the result of a prox, which lies in the domain up to
rounding, a test with a tolerance would give inf. The barrier cone of a set holds the directions in
which it is bounded, the recession cone those in which it goes on for ever (Rockafellar, 1970).
"""

from functools import singledispatch

import numpy as np

from dual2.errors import CapabilityError
from dual2.functions.arguments import Array
from dual2.functions.barriers import Barrier, NegativeLog
from dual2.functions.base import Function, Indicator
from dual2.functions.calculus import Affined
from dual2.functions.cone import IndicatorSecondOrderCone
from dual2.functions.norms_and_sets import IndicatorAffine, IndicatorHalfspace
from dual2.functions.piecewise import PiecewiseQuadratic
from dual2.functions.piecewise_linear import PiecewiseLinear
from dual2.functions.polyhedron import IndicatorPolyhedron
from dual2.functions.quadratic import SpectralFunction
from dual2.functions.stacked import Stacked

# -- values ----------------------------------------------------------------------------------


def inside_value(f: Function, x: Array) -> float:
    """f(x) for an x in the domain up to rounding: indicators count as 0.

    Examples
    --------
    >>> from dual2.functions import IndicatorBox
    >>> inside_value(IndicatorBox(0.0, 1.0).tilt(2.0), np.array([1.0 + 1e-6]))
    2.000002
    """
    if f.form is not None:
        return float(np.sum(f.form._formula(x)))
    return _inside(f, x)


def inside_values(f: Function, rows: Array) -> Array:
    """``inside_value`` of each row.

    Examples
    --------
    >>> from dual2.functions import IndicatorBox
    >>> inside_values(IndicatorBox(0.0, 1.0).tilt(2.0), np.array([[1.0], [0.5]])).tolist()
    [2.0, 1.0]
    """
    if f.form is not None:
        return f.form._formula(rows).sum(axis=-1)
    return np.array([_inside(f, row) for row in rows])


@singledispatch
def _inside(f: Function, x: Array) -> float:
    """The value; 0 where it is infinite or a user gave none."""
    try:
        value = float(f.value(x))
    except CapabilityError:
        return 0.0
    return value if np.isfinite(value) else 0.0


@_inside.register
def _inside_of_indicator(f: Indicator, x: Array) -> float:
    return 0.0


@_inside.register
def _inside_of_affined(f: Affined, x: Array) -> float:
    own = np.sum((f.slope + 0.5 * f.curvature * x) * x + np.broadcast_to(f.constant, x.shape))
    return f.scale * inside_value(f.function, x - f.center) + float(own)


@_inside.register
def _inside_of_stacked(f: Stacked, x: Array) -> float:
    return sum(inside_value(part, at) for part, at in f.split(x))


# -- cones -----------------------------------------------------------------------------------


def to_barrier(f: Function, w: Array) -> Array:
    """The nearest direction to w in which the domain of f is bounded.

    Examples
    --------
    >>> from dual2.functions import IndicatorNonnegative
    >>> to_barrier(IndicatorNonnegative(), np.array([1.0, -2.0])).tolist()
    [0.0, -2.0]
    """
    if f.form is not None:
        far = np.where(w > 0, f.form.upper, f.form.lower)
        return np.where(np.isfinite(far), w, 0.0)
    return _barrier(f, w)


@singledispatch
def _barrier(f: Function, w: Array) -> Array:
    """w where the domain is bounded in its direction, else none."""
    return w if np.isfinite(f.domain_support(w)) else np.zeros_like(w)


@_barrier.register
def _barrier_of_halfspace(f: IndicatorHalfspace, w: Array) -> Array:
    a, square = f._normal(len(w))
    return max(float(a @ w), 0.0) / square * a


@_barrier.register
def _barrier_of_affine(f: IndicatorAffine, w: Array) -> Array:
    Q = f.basis[0]
    return (Q @ w) @ Q


@_barrier.register
def _barrier_of_barrier(f: Barrier, w: Array) -> Array:
    return np.minimum(w, 0.0)


@_barrier.register
def _barrier_of_second_order_cone(f: IndicatorSecondOrderCone, w: Array) -> Array:
    return f.conjugate.prox(w, 1.0)


@_barrier.register
def _barrier_of_polyhedron(f: IndicatorPolyhedron, w: Array) -> Array:
    return w - _recession(f, w)


@_barrier.register
def _barrier_of_piecewise_linear(f: PiecewiseLinear, w: Array) -> Array:
    first, last = np.isinf(f.slopes[[0, -1]])
    return np.where(w > 0, w * last, w * first)


@_barrier.register
def _barrier_of_affined(f: Affined, w: Array) -> Array:
    return to_barrier(f.function, w)


@_barrier.register
def _barrier_of_stacked(f: Stacked, w: Array) -> Array:
    return np.concatenate([to_barrier(part, at) for part, at in f.split(w)])


def to_recession(f: Function, u: Array) -> Array:
    """The nearest direction to u along which f grows at most linearly for ever.

    Examples
    --------
    >>> from dual2.functions import IndicatorBox
    >>> to_recession(IndicatorBox(0.0, np.inf), np.array([1.0, -2.0])).tolist()
    [1.0, 0.0]
    """
    return _straight(f.form, u) if f.form is not None else _recession(f, u)


def _straight(f: PiecewiseQuadratic, u: Array) -> Array:
    far = np.where(u > 0, f.upper, f.lower)
    return np.where(np.isinf(far) & np.equal(f.curvature, 0.0), u, 0.0)


@singledispatch
def _recession(f: Function, u: Array) -> Array:
    return u if np.isfinite(f.recession(u)) else np.zeros_like(u)


@_recession.register
def _recession_of_spectral_function(f: SpectralFunction, u: Array) -> Array:
    values, vectors = f.spectrum
    if vectors is None:
        return np.where(values == 0, u, 0.0)
    flat = vectors[:, values == 0]
    return flat @ (flat.T @ u)


@_recession.register
def _recession_of_halfspace(f: IndicatorHalfspace, u: Array) -> Array:
    a, square = f._normal(len(u))
    return u - max(float(a @ u), 0.0) / square * a


@_recession.register
def _recession_of_affine(f: IndicatorAffine, u: Array) -> Array:
    Q = f.basis[0]
    return u - (Q @ u) @ Q


@_recession.register
def _recession_of_negative_log(f: NegativeLog, u: Array) -> Array:
    return np.maximum(u, 0.0)


@_recession.register
def _recession_of_second_order_cone(f: IndicatorSecondOrderCone, u: Array) -> Array:
    return f.prox(u, 1.0)


@_recession.register
def _recession_of_polyhedron(f: IndicatorPolyhedron, u: Array) -> Array:
    lower, upper = (np.broadcast_to(side, f.M.shape[0]) for side in (f.lower, f.upper))
    held = np.isfinite(lower) | np.isfinite(upper)
    ends = (np.where(np.isfinite(side[held]), 0.0, side[held]) for side in (lower, upper))
    return IndicatorPolyhedron(f.M[held], *ends).prox(u, 1.0) if held.any() else u


@_recession.register
def _recession_of_piecewise_linear(f: PiecewiseLinear, u: Array) -> Array:
    return to_barrier(f.conjugate, u)


@_recession.register
def _recession_of_affined(f: Affined, u: Array) -> Array:
    return to_recession(f.function, u) if f.curvature == 0 else np.zeros_like(u)


@_recession.register
def _recession_of_stacked(f: Stacked, u: Array) -> Array:
    return np.concatenate([to_recession(part, at) for part, at in f.split(u)])


def rate_along(f: Function, u: Array) -> float:
    """lim_t f(x + t·u)/t for a direction u that ``to_recession`` left.

    Examples
    --------
    >>> from dual2.functions import IndicatorHalfspace
    >>> rate_along(IndicatorHalfspace([1.0, 0.0], 1.0).tilt([0.0, 2.0]), np.array([0.0, 3.0]))
    6.0
    """
    return float(f.form.recession(u)) if f.form is not None else _rate(f, u)


@singledispatch
def _rate(f: Function, u: Array) -> float:
    return float(f.recession(u))


@_rate.register
def _rate_of_indicator(f: Indicator, u: Array) -> float:
    return 0.0


@_rate.register
def _rate_of_affined(f: Affined, u: Array) -> float:
    return f.scale * rate_along(f.function, u) + float(np.sum(f.slope * u))


@_rate.register
def _rate_of_stacked(f: Stacked, u: Array) -> float:
    return sum(rate_along(part, at) for part, at in f.split(u))
