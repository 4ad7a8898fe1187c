"""Newton's method for a smooth convex objective of a few hundred parameters.

The holder of the labels minimises a penalised negative log-likelihood alone, on its own columns
and the mixed columns of the others. Losses that couple rows (Cox) or have parameters of their own
(thresholds of an ordinal model) need the second derivative in the parameters, not row by row.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from dual2.solving.result import Status

Array = np.ndarray
MAX_STEPS, MAX_HALVINGS = 200, 40
_ENOUGH_DESCENT = 1e-4
"""Share of the predicted decrease that a step must bring (Armijo)."""
_RIDGE = 1e-12
"""Added to a singular second derivative, relative to its diagonal: dependent columns."""
_FLAT = 1e-6
"""Curvature along the solution, a number without unit, below which scores are on their way to
infinity; at a minimum it is about the number of rows times their squared scores."""
_ROUNDING = 64.0 * np.finfo(float).eps


class Evaluation(NamedTuple):
    """Value, gradient and second derivative at a point, and the size of the gradient's terms.

    ``sizes`` has for each parameter the sum of the magnitudes of the terms that cancel at a
    solution: what a gradient is small relative to.
    """

    value: float
    gradient: Array
    hessian: Array
    sizes: Array


Objective = Callable[[Array], Evaluation]


@dataclass(frozen=True)
class NewtonEnd:
    """Where the method ended; ``kkt`` is the largest gradient relative to its terms."""

    parameters: Array
    status: Status
    kkt: float
    steps: int
    hessian: Array


def minimise_smooth(objective: Objective, start: Array, tol: float) -> NewtonEnd:
    """Damped Newton steps until every partial derivative is ``tol`` of its terms.

    Where classes or events can be separated, gradients and curvature vanish on the way to infinity:
    then the status is DIVERGED.

    Examples
    --------
    >>> def quartic(w):
    ...     return Evaluation(float(w[0]**4 - w[0]), 4 * w**3 - 1, np.diag(12 * w**2), 4 * w**3 + 1)
    >>> end = minimise_smooth(quartic, np.array([1.0]), 1e-12)
    >>> str(end.status), round(float(end.parameters[0]), 6)
    ('CONVERGED', 0.629961)
    """
    w, now, steps = start, objective(start), 0
    while steps < MAX_STEPS and _kkt(now) > 0.0:
        step = -_solved(now)
        new = _line_search(objective, w, now, step)
        if new is None:
            break
        steps += 1
        falling = _kkt(new[1]) < 0.5 * _kkt(now)
        w, now = new
        if _kkt(now) <= tol and not falling:  # no further digits to be had
            break
    kkt = _kkt(now)
    status = Status.CONVERGED if kkt <= tol else Status.STALLED
    if kkt <= tol and _is_endless(w, now):
        status = Status.DIVERGED
    return NewtonEnd(w, status, kkt, steps, now.hessian)


def _kkt(now: Evaluation) -> float:
    sizes = np.where(now.sizes > 0, now.sizes, 1.0)
    return float(np.max(np.abs(now.gradient) / sizes, initial=0.0))


def _is_endless(w: Array, now: Evaluation) -> bool:
    """Whether the objective is flat along w although scores are large: there is no minimum."""
    return bool(w @ now.hessian @ w < _FLAT and now.sizes @ np.abs(w) > 1.0)


def _solved(now: Evaluation) -> Array:
    """The inverse of the second derivative times the gradient."""
    try:
        return cho_solve(cho_factor(now.hessian), now.gradient)
    except LinAlgError:
        ridge = _RIDGE * max(float(np.trace(now.hessian)) / len(now.gradient), 1e-300)
        values, vectors = np.linalg.eigh(now.hessian)
        return vectors @ ((vectors.T @ now.gradient) / np.maximum(values, ridge))


def _line_search(
    objective: Objective, w: Array, now: Evaluation, step: Array
) -> tuple[Array, Evaluation] | None:
    """The first point of a backtracking search with enough descent."""
    slope, t = float(now.gradient @ step), 1.0
    slack = _ROUNDING * abs(now.value)
    for _ in range(MAX_HALVINGS):
        point = w + t * step
        new = objective(point)
        if new.value <= now.value + _ENOUGH_DESCENT * t * slope + slack:
            return point, new
        t *= 0.5
    return None


def with_ridge(part: Evaluation, w: Array, ridge: Array) -> Evaluation:
    """The evaluation with ½Σ ridge_j·w_j² added."""
    return Evaluation(
        part.value + 0.5 * float(ridge @ w**2),
        part.gradient + ridge * w,
        part.hessian + np.diag(ridge),
        part.sizes + np.abs(ridge * w),
    )
