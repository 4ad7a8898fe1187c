"""Whether the objective goes on falling far beyond a point, so that no minimum may exist."""

from __future__ import annotations

import numpy as np

from dual2.errors import CapabilityError
from dual2.problem import Problem

Array = np.ndarray
FAR = (10.0, 1000.0)
"""Multiples of the point at which the objective is looked at."""
NOT_ATTAINED = (
    "The objective is lower still at 10 and 1000 times this x: it may have no minimum, only an "
    "infimum that is approached far away. Bound the variables or add a small penalty."
)


def falls_far_beyond(problem: Problem, x: list[Array], value: float) -> bool:
    """Whether 10·x and 1000·x have a lower objective than x, whose ``value`` is known.

    Examples
    --------
    >>> import dual2 as d2
    >>> for f in (d2.Zero(), d2.SquaredNorm(1e-3)):
    ...     problem = d2.Problem([d2.Agent([[1.0]], f)], d2.LogisticLoss([1.0]))
    ...     x = [np.array([20.0])]
    ...     print(falls_far_beyond(problem, x, problem.objective(x)))
    True
    False
    """
    squares = np.array([[float(part @ part)] for part in x])
    if not (np.isfinite(value) and problem.total(squares)[0] > 0):
        return False
    try:
        near, far = (problem.objective([t * part for part in x]) for t in FAR)
    except CapabilityError:
        return False
    return bool(far <= near < value)
