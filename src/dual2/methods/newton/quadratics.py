"""What an agent with a quadratic f computes alone in the primal mode."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_factor, cho_solve

from dual2.functions.derivatives import dense, hessian
from dual2.problem import Agent
from dual2.problem.singular import as_dense

Array = np.ndarray
WIDE = 1000
"""Variables of an agent above which its preconditioner is diagonal."""
RIDGE = 1e-12
"""Least curvature of a preconditioner relative to its largest."""
_SPARSE = 0.5


class Quadratics:
    """½xᵀPx + qᵀx of one agent, the smooth part of its g included, its A, its known directions.

    Whatever enters a sum is computed agent by agent, so that it has the same bits wherever others
    live.

    Parameters
    ----------
    agent : Agent
        f is quadratic, g piecewise quadratic coordinate by coordinate.
    """

    def __init__(self, agent: Agent) -> None:
        d = agent.dim
        bend, self.q = hessian(agent.f, np.zeros(d)), agent.f.grad(np.zeros(d))
        form = agent.g.form
        assert bend is not None and form is not None, "the plan has asked for it"
        form = form.broadcast(d)
        self.q = self.q + form.linear
        P = np.asarray(bend, dtype=float)
        self.P: Array = P + (form.curvature if P.ndim == 1 else np.diag(form.curvature))
        self.A: Any = agent.A if sp.issparse(agent.A) else as_dense(agent.A)
        self.directions: Array = np.zeros((0, d))
        self.diagonal = self._matrix = np.ones(d)
        self._factor: Any = None
        self._metric: Array | None = None

    def bend(self, x: Array) -> Array:
        """P x."""
        return self.P * x if self.P.ndim == 1 else self.P @ x

    def along(self, c: Array) -> Array:
        """Σ_k c_k q_k, the directions with these coefficients."""
        return c @ self.directions

    def keep(self, z: Array, t: Array, size: float) -> None:
        """One more direction: z less its part along the others, over its length."""
        self.directions = np.vstack([self.directions, (z - t @ self.directions) / size])

    def gradient(self, x: Array, lam: Array) -> Array:
        """P x + q + Aᵀλ."""
        return self.bend(x) + self.q + self.A.T @ lam

    # -- the preconditioner -----------------------------------------------------------------------
    def precondition(self, W: Array, metric: bool) -> None:
        """Take B = P + AᵀWA for directions, and as their ``metric`` if that is asked."""
        B = self._curvature(W)
        diagonal = B if B.ndim == 1 else np.diag(B)
        top = float(diagonal.max(initial=0.0)) or 1.0
        B = B + (RIDGE * top if B.ndim == 1 else RIDGE * top * np.eye(len(B)))
        self._matrix, self.diagonal = B, B if B.ndim == 1 else np.diag(B)
        self._factor = B if B.ndim == 1 else cho_factor(B, lower=True)
        if metric:
            self._metric = B

    def _curvature(self, W: Array) -> Array:
        """P + AᵀWA, its diagonal alone where there are many variables."""
        if W.ndim == 3:
            if len(self.q) <= WIDE:
                return dense(self.P) + self._between_blocks(W)
            W = np.einsum("mkk->mk", W).ravel()
        if len(self.q) > WIDE:
            own = self.P if self.P.ndim == 1 else np.diag(self.P)
            squares = self.A.multiply(self.A) if sp.issparse(self.A) else self.A**2
            return own + squares.T @ W
        if sp.issparse(self.A):
            scaled = sp.diags_array(np.sqrt(W)) @ self.A
            return dense(self.P) + np.asarray((scaled.T @ scaled).todense())
        used = np.flatnonzero(W)
        few = len(used) < _SPARSE * len(W)
        part = (self.A[used] if few else self.A) * np.sqrt(W[used] if few else W)[:, None]
        return dense(self.P) + part.T @ part

    def _between_blocks(self, W: Array) -> Array:
        """AᵀWA for blocks W on the diagonal."""
        count, size = W.shape[:2]
        if sp.issparse(self.A):
            blocks = sp.bsr_array((W, np.arange(count), np.arange(count + 1)))
            found = np.asarray((self.A.T @ (blocks @ self.A)).todense())
        else:
            found = self.A.T @ (W @ self.A.reshape(count, size, -1)).reshape(self.A.shape)
        return 0.5 * (found + found.T)

    def solve(self, v: Array) -> Array:
        """B⁻¹v."""
        diagonal = isinstance(self._factor, np.ndarray)
        return v / self._factor if diagonal else cho_solve(self._factor, v)

    def solve_on(self, free: Array, v: Array) -> Array:
        """B⁻¹v with B restricted to the ``free`` coordinates; 0 on the others."""
        out = np.zeros_like(v)
        if self._matrix.ndim == 1:
            out[free] = v[free] / self._matrix[free]
        elif free.any():
            out[free] = cho_solve(cho_factor(self._matrix[np.ix_(free, free)], lower=True), v[free])
        return out

    def measure(self, x: Array) -> Array:
        """The metric times x."""
        assert self._metric is not None, "precondition comes first"
        return self._metric * x if self._metric.ndim == 1 else self._metric @ x
