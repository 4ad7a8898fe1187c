"""Value and subgradient of h at a point that may be outside its domain."""

import numpy as np

from dual2.functions import Function
from dual2.functions.domains import inside_value
from dual2.methods.subspace.subspace_problem import is_smooth
from dual2.problem.ingredients import coupling_step

Array = np.ndarray


def subgradient_at(h: Function, s: Array, lam: Array) -> Array:
    """∇h(s), or where h has kinks a subgradient near λ at a point near s.

    Examples
    --------
    >>> from dual2.functions import AbsoluteLoss
    >>> h, s = AbsoluteLoss([0.0, 0.0]), np.array([2.0, 0.0])
    >>> subgradient_at(h, s, np.array([0.5, 0.3])).tolist()
    [1.0, 0.3]
    """
    if is_smooth(h, len(s)):
        return h.grad(s)
    t = np.full(len(s), coupling_step(s, lam))
    v = s + t * lam
    return (v - h.prox(v, t)) / t


def penalised_value(h: Function, s: Array, lam: Array) -> float:
    """h(s); outside its domain h at the nearest point, and twice the multiplier of the way.

    Examples
    --------
    >>> from dual2.functions import IndicatorAtMost
    >>> penalised_value(IndicatorAtMost([1.0]), np.array([3.0]), np.array([0.5]))
    2.0
    """
    if h.form is None:
        return float(h.value(s))
    y = np.clip(s, h.form.lower, h.form.upper)
    return inside_value(h, y) + 2.0 * float(np.abs(lam) @ np.abs(s - y))
