"""Prices that answer each row by itself, from all trials of a sum.

A trial is taken or not as a whole, though it may be right for some rows and wrong for others. Where
rows hardly influence each other (one balance in each period, say), the dual function is next to a
sum of functions of one price each, and the residual of a row grows with its own price. So the
trials bracket the price of each row, and a Newton step from either end, or from where the residual
is smallest, is a further trial: judged like all others, it can do no harm.
"""

import numpy as np

from dual2.functions import Function
from dual2.functions.derivatives import prox_jacobian
from dual2.methods.newton.coupling import FIRST, Point, Scaling

Array = np.ndarray


def find_ways(
    h: Function, scaling: Scaling, points: Point, G: Array, curves: Array | None
) -> Array | None:
    """The next prices row by row, or None where rows do influence each other, or h couples them.

    ``G`` is that of the trial which was taken, ``curves`` are the diagonals of all, if known.
    """
    if curves is None or h.form is None or not apart(scaling, G):
        return None
    return row_steps(h, scaling, points, curves)


def apart(scaling: Scaling, G: Array) -> bool:
    """Whether rows hardly influence each other: no row of DGD is made of more than its diagonal.

    Examples
    --------
    >>> plain = Scaling(np.ones(2), 1.0, np.ones(2))
    >>> apart(plain, np.array([[2.0, 1.0], [1.0, 1.0]])), apart(plain, np.full((2, 2), 1.0))
    (True, True)
    >>> apart(plain, np.array([[2.0, 3.0], [3.0, 5.0]]))
    False
    """
    scaled = np.abs(scaling.D[:, None] * G * scaling.D)
    return bool((scaled.sum(axis=1) <= 2.0 * scaled.diagonal()).all())


def row_steps(h: Function, scaling: Scaling, points: Point, curves: Array) -> Array:
    """(WAYS, p): Newton steps row by row between the trials; ``curves`` are diagonals of their G.

    With the slope J + γ(1 - J)D²G_jj of a row's residual r_j, J the derivative of the prox of h,
    which splits by coordinate: λ_j - D_j r_j/slope, or the middle of the bracket if that is not in
    it.

    Examples
    --------
    Two rows with S(λ) = -λ, of which 3 and 5 are demanded; prices -2 and -6 have been tried:

    >>> from dual2.functions import IndicatorPoint
    >>> from dual2.methods.newton.coupling import look_all
    >>> h, plain = IndicatorPoint([3.0, 5.0]), Scaling(np.ones(2), 0.9, np.ones(2) / 0.9)
    >>> lam = np.array([[-2.0, -2.0], [-6.0, -6.0]])
    >>> points = look_all(h, plain, lam, -lam, np.abs(lam), np.zeros((2, 7)))
    >>> row_steps(h, plain, points, np.ones((2, 2))).round(9).tolist()
    [[-3.0, -5.0], [-3.0, -5.0], [-3.0, -5.0]]
    """
    lam, r, row = points.lam, points.r, np.arange(points.lam.shape[1])
    known = np.isfinite(points.v).all(axis=1, keepdims=True)
    above, below = np.where(known & (r >= 0), lam, np.inf), np.where(known & (r <= 0), lam, -np.inf)
    upper, lower = above.min(axis=0), below.max(axis=0)
    nearest = np.where(known, np.abs(r), np.inf).argmin(axis=0)
    between = np.isfinite(upper) & np.isfinite(lower) & (lower <= upper)
    ends = below.argmax(axis=0), above.argmin(axis=0)
    at = np.array([*(np.where(between, end, nearest) for end in ends), nearest]), row
    jac = prox_jacobian(h, points.v[at], scaling.steps)
    assert jac is not None, "h splits by coordinate"
    slope = jac + scaling.gamma * (1.0 - jac) * (scaling.D**2 * curves[at] + FIRST)
    steps = lam[at] - scaling.D * r[at] / slope
    lost = between & ~((lower <= steps) & (steps <= upper))
    lower, upper = np.where(between, lower, 0.0), np.where(between, upper, 0.0)
    return np.where(lost, lower + 0.5 * (upper - lower), steps)
