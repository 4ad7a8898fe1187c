"""What an agent computes alone where no closed form exists, in NumPy.

    x(λ) = argmin_x  f(x) + g(x) + <c, x> + (r/2)|x - x̄|²,    c = Aᵀλ,

by a semismooth Newton method on R(x) = x - prox_{g/L}(x - ∇F(x)/L), F the smooth part. The
forward-backward envelope F(x) + <∇F, z - x> + (L/2)|z - x|² + g(z), z the prox, decides about step
lengths (Themelis, Stella & Patrinos, 2018); a prox step is always possible. The derivative of x(λ)
with respect to -c is J = (I - D + DH/L)⁻¹D/L, D the derivative of the prox and H that of ∇F.
"""

from typing import NamedTuple

import numpy as np

from dual2.functions.base import Indicator
from dual2.functions.derivatives import prox_jacobian
from dual2.functions.domains import inside_value
from dual2.functions.hessians import dense, hessian, least_curvature
from dual2.problem import Agent
from dual2.problem.matrices import as_dense

Array = np.ndarray
EPS = float(np.finfo(float).eps)
_MAX_STEPS, _SETTLED_RTOL, _MAX_IDLE_STEPS = 100, 1e-11, 6
"""Most Newton steps; below this relative residual, so many without progress are the end."""
_LENGTHS = 2.0 ** -np.arange(20)


class LinearTerm(NamedTuple):
    """What acts on an agent from outside: c, and a proximal term of strength r to x̄."""

    c: Array
    weight: float
    center: Array


class LocalPoint(NamedTuple):
    """The point, where its prox is taken, the prox, |R| and the envelope with its magnitude."""

    x: Array
    v: Array
    z: Array
    step_norm: float
    envelope: float
    magnitude: float


class SemismoothArgmin:
    """One agent.

    Parameters
    ----------
    agent : Agent
        Its f needs a Hessian, the prox of its g a Jacobian.
    """

    def __init__(self, agent: Agent) -> None:
        self.f, self.g, self.d = agent.f, agent.g, agent.dim
        self.A = as_dense(agent.A)
        self.sizes = np.abs(self.A)
        self.rows = np.linalg.norm(self.A, axis=1)
        self.L, self.mu = float(agent.f.L), float(agent.f.mu)
        self.min_curvature = self._min_curvature()

    def _min_curvature(self) -> Array:
        """A matrix below the curvature of f + g everywhere; infinite where x is fixed."""
        f_curvature, g_curvature = least_curvature(self.f, self.d), least_curvature(self.g, self.d)
        if f_curvature.ndim == 1 and g_curvature.ndim == 1:
            return f_curvature + g_curvature
        return dense(f_curvature) + (np.diag(g_curvature) if g_curvature.ndim == 1 else g_curvature)

    @property
    def curvature_range(self) -> tuple[float, float]:
        """Modulus of strong convexity of f + g, and the largest known curvature."""
        g_curvature = float(self.g.mu)
        top = max(self.L, g_curvature if np.isfinite(g_curvature) else 0.0)
        if self.min_curvature.ndim == 1:
            return float(self.min_curvature.min()), top
        return self.mu + g_curvature, top

    def solve(self, linear_term: LinearTerm, x: Array) -> tuple[LocalPoint, int]:
        """The answer from a start, to rounding, and the number of gradients."""
        L = self._step(linear_term.weight)
        point, gradients, best, idle = self._evaluate(linear_term, L, x), 1, np.inf, 0
        force_scale = float(np.linalg.norm(linear_term.c)) / L
        for _ in range(_MAX_STEPS):
            size = float(np.linalg.norm(point.z))
            if point.step_norm <= 8.0 * EPS * (size + 0.1 * force_scale):
                break
            idle = 0 if point.step_norm < 0.9 * best else idle + 1
            best = min(best, point.step_norm)
            if idle >= _MAX_IDLE_STEPS and point.step_norm <= _SETTLED_RTOL * (size + force_scale):
                break
            point, g_curvature = self._advance(linear_term, L, point)
            gradients += g_curvature
        if isinstance(self.g, Indicator):  # far points are projected up to their own rounding
            point = point._replace(z=self.g.prox(point.z, 1.0))
        return point, gradients

    def _step(self, weight: float) -> float:
        """L of the smooth part; where it is linear, the curvature of g takes its place."""
        L, g_curvature = self.L + weight, float(self.g.mu)
        return L if L > 0 else g_curvature if 0 < g_curvature < np.inf else 1.0

    def _evaluate(self, linear_term: LinearTerm, L: float, x: Array) -> LocalPoint:
        """Evaluate everything at x."""
        offset = x - linear_term.center
        gradient = self.f.grad(x) + linear_term.c + linear_term.weight * offset
        v = x - gradient / L
        z = self.g.prox(v, 1.0 / L)
        step = z - x
        terms = (
            float(self.f.value(x)),
            float(linear_term.c @ x),
            0.5 * linear_term.weight * float(offset @ offset),
            float(gradient @ step),
            0.5 * L * float(step @ step),
            inside_value(self.g, z),
        )
        return LocalPoint(x, v, z, float(np.linalg.norm(step)), sum(terms), sum(map(abs, terms)))

    def _advance(
        self, linear_term: LinearTerm, L: float, previous: LocalPoint
    ) -> tuple[LocalPoint, int]:
        """One Newton step of acceptable length, else a prox step."""
        matrix, gradients = self._system(linear_term.weight, L, previous.x, previous.v)[0], 0
        try:
            step = np.linalg.solve(matrix, previous.z - previous.x)
        except np.linalg.LinAlgError:
            step = np.linalg.lstsq(matrix, previous.z - previous.x, rcond=None)[0]
        required = 1e-4 * L * previous.step_norm**2
        for length in _LENGTHS if np.isfinite(step).all() else ():
            new, gradients = (
                self._evaluate(linear_term, L, previous.x + length * step),
                gradients + 1,
            )
            slack = 1e-12 * previous.magnitude
            halved = (
                new.step_norm <= 0.5 * previous.step_norm
                and new.envelope <= previous.envelope + slack
            )
            if halved or new.envelope <= previous.envelope - length * required:
                return new, gradients
        return self._evaluate(linear_term, L, previous.z), gradients + 1

    def _system(self, weight: float, L: float, x: Array, v: Array) -> tuple[Array, Array]:
        """I - D + DH/L, and D/L."""
        D, H = prox_jacobian(self.g, v, 1.0 / L), hessian(self.f, x)
        assert D is not None and H is not None, "the plan has asked for both"
        unit = np.eye(self.d)
        D, H = dense(D), dense(H) + weight * unit
        return unit - D + D @ H / L, D / L

    def jacobian(self, linear_term: LinearTerm, point: LocalPoint) -> Array:
        """A J Aᵀ."""
        matrix, right = self._system(
            linear_term.weight, self._step(linear_term.weight), point.z, point.v
        )
        try:
            J = np.linalg.solve(matrix, right @ self.A.T)
        except np.linalg.LinAlgError:
            J = np.linalg.lstsq(matrix, right @ self.A.T, rcond=None)[0]
        square = self.A @ J
        return 0.5 * (square + square.T)

    def bound(self, weight: float) -> Array:
        """A (H + rI)⁻¹ Aᵀ with the least curvature H."""
        if self.min_curvature.ndim == 1:
            curve = self.min_curvature + weight
            weights = np.divide(1.0, curve, out=np.zeros(self.d), where=curve > 0)
            return (self.A * weights) @ self.A.T
        fixed = np.isinf(np.diag(self.min_curvature))
        free, A = ~fixed, self.A[:, ~fixed]
        matrix = self.min_curvature[np.ix_(free, free)] + weight * np.eye(int(free.sum()))
        square = A @ np.linalg.solve(matrix, A.T)
        return 0.5 * (square + square.T)
