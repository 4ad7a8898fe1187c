"""The answers of an agent whose functions have no second derivatives: a user's Python functions."""

import numpy as np

from dual2.functions.derivatives import prox_jacobian
from dual2.functions.hessians import hessian
from dual2.methods.local.semismooth_numpy import EPS, LinearTerm, LocalPoint, SemismoothArgmin
from dual2.problem import Agent

Array = np.ndarray
_MAX_STEPS, _MAX_IDLE_STEPS = 100_000, 50
"""Most gradients of an answer; so many without a smaller step are the end."""


class GradientArgmin(SemismoothArgmin):
    """As :class:`.semismooth_numpy.SemismoothArgmin`, by an accelerated proximal gradient method.

    Momentum is dropped when it points uphill (O'Donoghue & Candès, 2015), so that it needs no
    modulus of strong convexity.
    """

    def _min_curvature(self) -> Array:
        return np.full(self.d, self.mu + min(float(self.g.mu), 1e300))

    def solve(self, linear_term: LinearTerm, x: Array) -> tuple[LocalPoint, int]:
        """The answer from a start, to rounding, and the number of gradients."""
        L = self._step(linear_term.weight)
        force_scale = float(np.linalg.norm(linear_term.c)) / L
        z, u, t, best, idle, gradients = x, x, 1.0, np.inf, 0, 1
        for _ in range(_MAX_STEPS):
            previous, z = z, self._prox_step(linear_term, L, u)
            gradients += 1
            step_norm = float(np.linalg.norm(z - u))
            idle = 0 if step_norm < best else idle + 1
            best = min(best, step_norm)
            close = step_norm <= 8.0 * EPS * (float(np.linalg.norm(z)) + 0.1 * force_scale)
            if close or idle >= _MAX_IDLE_STEPS:
                break
            new = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * t * t))
            uphill = float((u - z) @ (z - previous)) > 0
            u, t = (z, 1.0) if uphill else (z + (t - 1.0) / new * (z - previous), new)
        return self._evaluate(linear_term, L, z), gradients

    def _prox_step(self, linear_term: LinearTerm, L: float, u: Array) -> Array:
        gradient = self.f.grad(u) + linear_term.c + linear_term.weight * (u - linear_term.center)
        return self.g.prox(u - gradient / L, 1.0 / L)


def make_local(agent: Agent) -> SemismoothArgmin:
    """An agent that is answered by Newton steps where its functions allow it.

    Examples
    --------
    >>> import dual2 as d2
    >>> type(make_local(d2.Agent([[1.0]], d2.Smooth(lambda x: x, 1.0, 1.0)))).__name__
    'GradientArgmin'
    """
    zero = np.zeros(agent.dim)
    known = hessian(agent.f, zero) is not None and prox_jacobian(agent.g, zero, 1.0) is not None
    return SemismoothArgmin(agent) if known else GradientArgmin(agent)
