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
_STEPS, _SETTLED, _PATIENCE = 100, 1e-11, 6
"""Most Newton steps; below this relative residual, so many without progress are the end."""
_LENGTHS = 2.0 ** -np.arange(20)


class Force(NamedTuple):
    """What acts on an agent from outside: c, and a spring of strength r to x̄."""

    c: Array
    r: float
    anchor: Array


class Look(NamedTuple):
    """The point, where its prox is taken, the prox, |R| and the envelope with its magnitude."""

    x: Array
    v: Array
    z: Array
    moved: float
    envelope: float
    magnitude: float


class Local:
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
        self.least = self._least()

    def _least(self) -> Array:
        """A matrix below the curvature of f + g everywhere; infinite where x is fixed."""
        own, more = least_curvature(self.f, self.d), least_curvature(self.g, self.d)
        if own.ndim == 1 and more.ndim == 1:
            return own + more
        return dense(own) + (np.diag(more) if more.ndim == 1 else more)

    @property
    def strength(self) -> tuple[float, float]:
        """Modulus of strong convexity of f + g, and the largest known curvature."""
        more = float(self.g.mu)
        top = max(self.L, more if np.isfinite(more) else 0.0)
        if self.least.ndim == 1:
            return float(self.least.min()), top
        return self.mu + more, top

    def solve(self, force: Force, x: Array) -> tuple[Look, int]:
        """The answer from a start, to rounding, and the number of gradients."""
        L = self._step(force.r)
        look, tried, best, idle = self._look(force, L, x), 1, np.inf, 0
        pressed = float(np.linalg.norm(force.c)) / L
        for _ in range(_STEPS):
            size = float(np.linalg.norm(look.z))
            if look.moved <= 8.0 * EPS * (size + 0.1 * pressed):
                break
            idle = 0 if look.moved < 0.9 * best else idle + 1
            best = min(best, look.moved)
            if idle >= _PATIENCE and look.moved <= _SETTLED * (size + pressed):
                break
            look, more = self._advance(force, L, look)
            tried += more
        if isinstance(self.g, Indicator):  # far points are projected up to their own rounding
            look = look._replace(z=self.g.prox(look.z, 1.0))
        return look, tried

    def _step(self, r: float) -> float:
        """L of the smooth part; where it is linear, the curvature of g takes its place."""
        L, more = self.L + r, float(self.g.mu)
        return L if L > 0 else more if 0 < more < np.inf else 1.0

    def _look(self, force: Force, L: float, x: Array) -> Look:
        """Evaluate everything at x."""
        away = x - force.anchor
        gradient = self.f.grad(x) + force.c + force.r * away
        v = x - gradient / L
        z = self.g.prox(v, 1.0 / L)
        step = z - x
        terms = (
            float(self.f.value(x)),
            float(force.c @ x),
            0.5 * force.r * float(away @ away),
            float(gradient @ step),
            0.5 * L * float(step @ step),
            inside_value(self.g, z),
        )
        return Look(x, v, z, float(np.linalg.norm(step)), sum(terms), sum(map(abs, terms)))

    def _advance(self, force: Force, L: float, old: Look) -> tuple[Look, int]:
        """One Newton step of acceptable length, else a prox step."""
        matrix, tried = self._system(force.r, L, old.x, old.v)[0], 0
        try:
            step = np.linalg.solve(matrix, old.z - old.x)
        except np.linalg.LinAlgError:
            step = np.linalg.lstsq(matrix, old.z - old.x, rcond=None)[0]
        enough = 1e-4 * L * old.moved**2
        for length in _LENGTHS if np.isfinite(step).all() else ():
            new, tried = self._look(force, L, old.x + length * step), tried + 1
            slack = 1e-12 * old.magnitude
            halved = new.moved <= 0.5 * old.moved and new.envelope <= old.envelope + slack
            if halved or new.envelope <= old.envelope - length * enough:
                return new, tried
        return self._look(force, L, old.z), tried + 1

    def _system(self, r: float, L: float, x: Array, v: Array) -> tuple[Array, Array]:
        """I - D + DH/L, and D/L."""
        D, H = prox_jacobian(self.g, v, 1.0 / L), hessian(self.f, x)
        assert D is not None and H is not None, "the plan has asked for both"
        unit = np.eye(self.d)
        D, H = dense(D), dense(H) + r * unit
        return unit - D + D @ H / L, D / L

    def jacobian(self, force: Force, look: Look) -> Array:
        """A J Aᵀ."""
        matrix, right = self._system(force.r, self._step(force.r), look.z, look.v)
        try:
            J = np.linalg.solve(matrix, right @ self.A.T)
        except np.linalg.LinAlgError:
            J = np.linalg.lstsq(matrix, right @ self.A.T, rcond=None)[0]
        square = self.A @ J
        return 0.5 * (square + square.T)

    def bound(self, r: float) -> Array:
        """A (H + rI)⁻¹ Aᵀ with the least curvature H."""
        if self.least.ndim == 1:
            curve = self.least + r
            weights = np.divide(1.0, curve, out=np.zeros(self.d), where=curve > 0)
            return (self.A * weights) @ self.A.T
        fixed = np.isinf(np.diag(self.least))
        free, A = ~fixed, self.A[:, ~fixed]
        matrix = self.least[np.ix_(free, free)] + r * np.eye(int(free.sum()))
        square = A @ np.linalg.solve(matrix, A.T)
        return 0.5 * (square + square.T)
