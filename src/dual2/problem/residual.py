"""The KKT residual: what ``tol`` bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from dual2.functions import Function
    from dual2.problem.agent import Agent
    from dual2.problem.problem import Problem

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class KKT:
    r"""Relative residual of the optimality conditions at (x, λ), s = Σ_i A_i x_i.

    - stationarity: max_i L_i|x_i − prox_{g_i/L_i}(x_i − (∇f_i(x_i) + A_iᵀλ)/L_i)| relative to
      max_i max(|∇f_i(x_i)|, |A_iᵀλ|);
    - coupling: |s − prox_{t·h}(s + tλ)| relative to max(|s|, |prox_{t·h}(s + tλ)|),
      t = |s|/|λ| (1 where either is 0).

    L_i is the smoothness constant of f_i; where it is 0 or infinite,
    max(|∇f_i(x_i)|, |A_iᵀλ|)/|x_i| takes its place (1 where either is 0), which has the same
    units. For an h without prox the coupling compares s with ∇h*(λ) instead.

    Attributes
    ----------
    kkt : float
        The larger of the two ratios.
    stationarity, coupling : float
        The ratios (0 where the residual is 0, infinite where only the scale is).
    stationarity_residual, stationarity_scale, coupling_residual, coupling_scale : float
        Their numerators and denominators.
    s : ndarray, shape (p,)
        Σ_i A_i x_i.
    """

    stationarity_residual: float
    stationarity_scale: float
    coupling_residual: float
    coupling_scale: float
    s: Vector

    @property
    def stationarity(self) -> float:
        """Stationarity residual over its scale."""
        return ratio(self.stationarity_residual, self.stationarity_scale)

    @property
    def coupling(self) -> float:
        """Coupling residual over its scale."""
        return ratio(self.coupling_residual, self.coupling_scale)

    @property
    def kkt(self) -> float:
        """The larger of the two ratios."""
        return max(self.stationarity, self.coupling)

    def met(self, tol: float, atol: float = 0.0) -> bool:
        """Whether each residual is at most tol·(its scale) + atol."""
        return (
            self.stationarity_residual <= tol * self.stationarity_scale + atol
            and self.coupling_residual <= tol * self.coupling_scale + atol
        )

    def smallest_tol(self, atol: float = 0.0) -> float:
        """The smallest tol for which ``met(tol, atol)`` holds; equals ``kkt`` for atol = 0."""
        return max(
            ratio(max(self.stationarity_residual - atol, 0.0), self.stationarity_scale),
            ratio(max(self.coupling_residual - atol, 0.0), self.coupling_scale),
        )


def kkt(problem: Problem, x: list[Vector], lam: Vector) -> KKT:
    """Evaluate the :class:`KKT` residual; infinite where a number is not finite."""
    if problem.anywhere(not finite(lam, *x)):
        return KKT(np.inf, 1.0, np.inf, 1.0, np.full(problem.p, np.nan))
    rows, products = [], []
    for agent, part in zip(problem.agents, x, strict=True):
        gradient, pull = agent.f.grad(part), agent.adjoint(lam)
        L = step_constant(agent, part, gradient, pull)
        moved = part - agent.g.prox(part - (gradient + pull) / L, 1.0 / L)
        own = L * norm(moved) if finite(moved) else np.inf
        rows.append((own, max(norm(gradient), norm(pull))))
        products.append(agent.apply(part))
    residual, scale = (float(value) for value in problem.largest(rows))
    s = problem.total(products)
    if not finite(s):
        return KKT(residual, scale, np.inf, 1.0, s)
    y = coupling_response(problem.h, s, lam, coupling_step(s, lam))
    return KKT(residual, scale, norm(s - y), max(norm(s), norm(y)), s)


def coupling_response(h: Function, s: Vector, lam: Vector, t: float) -> Vector:
    """prox_{t·h}(s + tλ), which equals s iff λ ∈ ∂h(s); ∇h*(λ) if h has no prox."""
    return h.prox(s + t * lam, t) if h.proximable else h.conjugate_grad(lam)


def step_constant(agent: Agent, x: Vector, gradient: Vector, pull: Vector) -> float:
    """L_i, or its substitute where it is 0 or infinite (see :class:`KKT`)."""
    L = float(agent.f.L)
    return L if 0 < L < np.inf else quotient(max(norm(gradient), norm(pull)), norm(x))


def coupling_step(s: Vector, lam: Vector) -> float:
    """t = |s|/|λ|, 1 where either is 0."""
    return quotient(norm(s), norm(lam))


def quotient(top: float, bottom: float) -> float:
    """top/bottom, 1 where that is not a positive number (either is 0, or it overflows)."""
    value = top / bottom if bottom > 0 else 0.0
    return value if 0 < value < np.inf else 1.0


def ratio(residual: float, scale: float) -> float:
    """residual/scale; 0 if the residual is 0, infinite if only the scale is."""
    if residual == 0:
        return 0.0
    return residual / scale if scale > 0 else np.inf


def norm(v: Vector) -> float:
    """Euclidean length."""
    return float(np.linalg.norm(v))


def finite(*arrays: Vector) -> bool:
    """Whether every entry is finite."""
    return all(bool(np.isfinite(array).all()) for array in arrays)
