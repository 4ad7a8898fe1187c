"""The answers of an agent whose functions have no second derivatives: a user's Python functions."""

import numpy as np

from dual2.functions.derivatives import prox_jacobian
from dual2.functions.hessians import hessian
from dual2.methods.newton.local import EPS, Force, Local, Look
from dual2.problem import Agent

Array = np.ndarray
_STEPS, _PATIENCE = 100_000, 50
"""Most gradients of an answer; so many without a smaller step are the end."""


class ByGradients(Local):
    """As :class:`.local.Local`, by an accelerated proximal gradient method.

    Momentum is dropped when it points uphill (O'Donoghue & Candès, 2015), so that it needs no
    modulus of strong convexity.
    """

    def _least(self) -> Array:
        return np.full(self.d, self.mu + min(float(self.g.mu), 1e300))

    def solve(self, force: Force, x: Array) -> tuple[Look, int]:
        """The answer from a start, to rounding, and the number of gradients."""
        L = self._step(force.r)
        pressed = float(np.linalg.norm(force.c)) / L
        z, u, t, best, idle, tried = x, x, 1.0, np.inf, 0, 1
        for _ in range(_STEPS):
            old, z = z, self._prox_step(force, L, u)
            tried += 1
            moved = float(np.linalg.norm(z - u))
            idle = 0 if moved < best else idle + 1
            best = min(best, moved)
            near = moved <= 8.0 * EPS * (float(np.linalg.norm(z)) + 0.1 * pressed)
            if near or idle >= _PATIENCE:
                break
            new = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * t * t))
            uphill = float((u - z) @ (z - old)) > 0
            u, t = (z, 1.0) if uphill else (z + (t - 1.0) / new * (z - old), new)
        return self._look(force, L, z), tried

    def _prox_step(self, force: Force, L: float, u: Array) -> Array:
        gradient = self.f.grad(u) + force.c + force.r * (u - force.anchor)
        return self.g.prox(u - gradient / L, 1.0 / L)


def make_local(agent: Agent) -> Local:
    """An agent that is answered by Newton steps where its functions allow it.

    Examples
    --------
    >>> import dual2 as d2
    >>> type(make_local(d2.Agent([[1.0]], d2.Smooth(lambda x: x, 1.0, 1.0)))).__name__
    'ByGradients'
    """
    zero = np.zeros(agent.dim)
    known = hessian(agent.f, zero) is not None and prox_jacobian(agent.g, zero, 1.0) is not None
    return Local(agent) if known else ByGradients(agent)
