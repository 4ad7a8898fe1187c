"""Directions along which the objective may fall without bound, as agents see them."""

import numpy as np
from scipy.sparse.linalg import LinearOperator

from dual2.functions import Function
from dual2.functions.domains import rate_along, to_recession
from dual2.methods.dual_newton.termination import CONE_RTOL, MAX_GROWTH
from dual2.problem import Agent

Array = np.ndarray
MIN_LINEAR_PART = 1e-6
"""Length of what may fall without bound in a direction of length one, below which it is
rounding."""
MIN_DESCENT_RTOL = 1e-6
"""Least rate, relative to its terms, at which an unbounded objective falls: below, terms cancel."""


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


def proves_unbounded(h: Function, total: Array, dual_norm: float) -> bool:
    """Whether the objective falls without bound along the agents' directions d_i.

    ``total`` sums the messages of the agents. s = Σ A_i d_i must lie in the recession cone of h, up
    to rounding and up to what no multiplier of ten thousand times the length seen could pay for.
    """
    p = (len(total) - 2) // 2
    s, abs_products, rate, size = total[:p], total[p : 2 * p], float(total[-2]), float(total[-1])
    length = float(np.linalg.norm(s))
    t = length * to_recession(h, s / length) if length > 0 else s
    along = float(np.linalg.norm(t))
    rate += along * rate_along(h, t / along) if along > 0 else 0.0
    off = np.abs(s - t)
    if not np.isfinite(rate) or not rate < -MIN_DESCENT_RTOL * size:
        return False
    slack = -rate / (MAX_GROWTH * max(dual_norm, 1e-300))
    return bool(np.all(off <= CONE_RTOL * abs_products) and np.linalg.norm(off) < slack)
