"""Norms, steps and quotients of which the KKT residual and the bounds are made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dual2.errors import CapabilityError
from dual2.functions.base import Indicator

if TYPE_CHECKING:
    from dual2.functions import Function
    from dual2.problem.agent import Agent
    from dual2.problem.groups import Group

Vector = NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)

ROUNDING = 16.0
"""A sum of at most this times ε times the magnitudes of its terms is rounding."""


def size_of(function: Function, x: Vector) -> float:
    """|f(x)|; 0 outside the domain and where a user's function came without its value."""
    if isinstance(function, Indicator):
        return 0.0
    try:
        value = abs(float((function.form or function)._value(x)))
    except CapabilityError:
        return 0.0
    return value if np.isfinite(value) else 0.0


def separates(h: Function, p: int) -> bool:
    """Whether every row is judged by itself."""
    return h.form is not None or p == 0 or int(h.groups(p)[-1]) == p - 1


def group_norm(v: Vector, groups: NDArray[np.int64] | None) -> Vector:
    """For each coordinate the Euclidean length of its group; with None each is one.

    Examples
    --------
    >>> group_norm(np.array([-2.0, 3.0, 4.0]), np.array([0, 1, 1])).tolist()
    [2.0, 5.0, 5.0]
    """
    if groups is None or (len(v) and groups[-1] == len(v) - 1):  # all separate
        return np.abs(v)
    largest = np.zeros(int(groups.max(initial=0)) + 1)
    np.maximum.at(largest, groups, np.abs(v))
    unit = np.where(largest > 0, largest, 1.0)
    return (unit * np.sqrt(np.bincount(groups, (v / unit[groups]) ** 2)))[groups]


def group_least(v: Vector, groups: NDArray[np.int64] | None) -> Vector:
    """For each coordinate the smallest entry of its group; with None each is one.

    Examples
    --------
    >>> group_least(np.array([2.0, 3.0, 4.0]), np.array([0, 1, 1])).tolist()
    [2.0, 3.0, 3.0]
    """
    if groups is None or not len(v):
        return v
    least = np.full(int(groups.max()) + 1, np.inf)
    np.minimum.at(least, groups, v)
    return least[groups]


def coupling_response(h: Function, s: Vector, lam: Vector, t: float | Vector) -> Vector:
    """prox_{t·h}(s + tλ), which equals s iff λ ∈ ∂h(s); ∇h*(λ) if h has no prox."""
    if h.form is not None:
        return h.form._prox(s + t * lam, t)
    return h.prox(s + t * lam, t) if h.proximable else h.conjugate_grad(lam)


def step_constants(group: Group, X: Vector, gradient: Vector, ATy: Vector) -> Vector:
    """L_i, or their substitutes where they are 0 or infinite (see :class:`KKT`)."""
    L = group.f.L
    known = (L > 0) & (L < np.inf)
    if known.all():
        return L
    return np.where(known, L, quotients(np.maximum(norms_of(gradient), norms_of(ATy)), norms_of(X)))


def step_constant(agent: Agent, x: Vector, gradient: Vector, ATy: Vector) -> float:
    """As :func:`step_constants`, of one agent."""
    L = float(agent.f.L)
    return L if 0 < L < np.inf else quotient(max(norm(gradient), norm(ATy)), norm(x))


def coupling_step(s: Vector, lam: Vector) -> float:
    """t = |s|/|λ|, 1 where either is 0."""
    return quotient(norm(s), norm(lam))


def quotients(top: Vector, bottom: Vector) -> Vector:
    """top/bottom entry by entry, 1 where that is not a positive number."""
    top, bottom = np.broadcast_arrays(top, bottom)
    value = np.divide(top, bottom, out=np.ones(top.shape), where=bottom > 0)
    return np.where((value > 0) & (value < np.inf), value, 1.0)


def quotient(top: float, bottom: float) -> float:
    """top/bottom, 1 where that is not a positive number (either is 0, or it overflows)."""
    value = top / bottom if bottom > 0 else 0.0
    return value if 0 < value < np.inf else 1.0


def ratios_of(residual: Any, scale: Any) -> Any:
    """residual/scale; 0 where the residual is not positive, infinite where only the scale is 0."""
    unknown = np.where(np.greater(residual, 0.0), np.inf, 0.0)
    return np.divide(np.maximum(residual, 0.0), scale, out=unknown, where=np.greater(scale, 0.0))


def norm(v: Vector) -> float:
    """Euclidean length."""
    return float(np.linalg.norm(v))


def norms_of(rows: Vector) -> Vector:
    """Euclidean length of each row."""
    return np.linalg.norm(rows, axis=1)


def finite(*arrays: Vector) -> bool:
    """Whether every entry is finite."""
    return all(bool(np.isfinite(array).all()) for array in arrays)
