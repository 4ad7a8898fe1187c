"""Directions along which the objective may fall without bound, as agents see them."""

import numpy as np
from scipy.sparse.linalg import LinearOperator

from dual2.functions.domains import rate_along, to_recession
from dual2.problem import Agent

Array = np.ndarray
MIN_LINEAR_PART = 1e-6
"""Length of what may fall without bound in a direction of length one, below which it is
rounding."""
MIN_MOVE_RTOL = 1e-3
"""Least move of the prox center, beside the size of x, of an agent that runs away."""
ENTRY_RTOL = 1e-12
"""Entries of such a move, beside its largest one, that are rounding."""


def find_recession(
    agent: Agent, x: Array, center: Array, D: Array, row_slack: float, descent_rate: float
) -> Array:
    """x - x̄ of an agent, as far as f + g may fall along it without bound.

    It is 0 for one who comes to rest, moving by little beside where it is, or who matters neither
    to the rows, of scales D and up to ``row_slack``, nor to the ``descent_rate`` of the objective.
    Entries of a move that are nothing but rounding, by which rows would seem to change, are left
    out.
    """
    d = x - center
    d[np.abs(d) <= ENTRY_RTOL * np.abs(d).max(initial=0.0)] = 0.0
    if not float(np.linalg.norm(d)) > MIN_MOVE_RTOL * float(np.linalg.norm(x)):
        return np.zeros_like(d)
    part, rate = linear_part(agent, d)
    slow = bool(np.linalg.norm(D * agent.apply(part)) <= row_slack)
    return np.zeros_like(d) if rate > -descent_rate and slow else part


def linear_part(agent: Agent, d: Array) -> tuple[Array, float]:
    """What of a direction f + g grows along at most linearly without bound, and the rate of that.

    Examples
    --------
    >>> import dual2 as d2
    >>> agent = d2.Agent([[1.0, 1.0]], d2.Quadratic([1.0, 0.0], [0.0, -2.0]))
    >>> part, rate = linear_part(agent, np.array([4.0, 3.0]))
    >>> part.round(9).tolist(), round(rate, 9)
    ([0.0, 3.0], -6.0)
    """
    size = float(np.linalg.norm(d))
    unit = to_recession(agent.g, to_recession(agent.f, d / size)) if size > 0 else 0.0 * d
    length = float(np.linalg.norm(unit))
    if not length > MIN_LINEAR_PART:
        return np.zeros_like(d), 0.0
    rate = rate_along(agent.f, unit / length) + rate_along(agent.g, unit / length)
    return (size * unit, size * length * rate) if np.isfinite(rate) else (np.zeros_like(d), 0.0)


def recession_message(agent: Agent, d: Array) -> Array:
    """A d, |A||d|, the rate at which f + g falls along d, and its magnitude.

    Of an operator, whose entries are unknown, the lengths of the rows stand for |A|: entries of A d
    that cancel are none beside |A d|, which is all rounding then.
    """
    size = float(np.linalg.norm(d))
    if not size > 0:
        return np.zeros(2 * agent.p + 2)
    rate = size * (rate_along(agent.f, d / size) + rate_along(agent.g, d / size))
    magnitude = size * float(np.linalg.norm(agent.f.grad(np.zeros(agent.dim))))
    operator, product = isinstance(agent.A, LinearOperator), agent.apply(d)
    sizes = agent.row_norms * size if operator else agent.sizes(d, product)
    return np.concatenate([product, sizes, [rate, magnitude]])
