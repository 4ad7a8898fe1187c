"""The numbers of a trial for an agent that NumPy solves."""

import numpy as np

from dual2.functions.domains import inside_value
from dual2.methods.local.closed_form import ROUNDING
from dual2.methods.local.semismooth_numpy import LinearTerm, LocalPoint, SemismoothArgmin
from dual2.methods.message import (
    DUAL_ACTIVE,
    INFINITE_RATIO,
    MAGNITUDE,
    OBJECTIVE,
    PROX_DISTANCE,
    STATIONARITY,
    TRIAL_SCALARS,
    VALUE,
    VIOLATIONS,
)

Array = np.ndarray


def trial_scalars(
    part: SemismoothArgmin, linear_term: LinearTerm, point: LocalPoint, tol: float
) -> Array:
    """The numbers of a trial for an agent, as ``closed_form.set_trial_scalars`` has them."""
    x, offset, out = point.z, point.z - linear_term.center, np.empty(TRIAL_SCALARS)
    gradient = part.f.grad(x)
    smooth, nonsmooth = float(part.f.value(x)), inside_value(part.g, x)
    linear, distance2 = float(linear_term.c @ x), float(offset @ offset)
    out[VALUE] = smooth + nonsmooth + linear + 0.5 * linear_term.weight * distance2
    out[MAGNITUDE] = (
        abs(smooth) + abs(nonsmooth) + abs(linear) + 0.5 * linear_term.weight * distance2
    )
    out[OBJECTIVE] = abs(smooth) + abs(nonsmooth) + abs(float(gradient @ x))
    out[PROX_DISTANCE] = linear_term.weight * distance2
    size = float(np.linalg.norm(x))
    force_norm = max(float(np.linalg.norm(gradient)), float(np.linalg.norm(linear_term.c)))
    remainder = (
        linear_term.weight * np.sqrt(distance2) + (part.L + linear_term.weight) * point.step_norm
    )
    if remainder <= ROUNDING * ((part.L + linear_term.weight) * size + force_norm):
        remainder = 0.0
    scale = max(force_norm, part.mu * size)
    out[STATIONARITY] = (
        0.0 if remainder == 0.0 else remainder / scale if scale > 0 else INFINITE_RATIO
    )
    out[VIOLATIONS] = float(remainder > tol * scale)
    out[DUAL_ACTIVE] = float(np.linalg.norm(linear_term.c) > tol * np.linalg.norm(gradient))
    return out
