"""The replicated algebra of one iteration: λ and τ, the same everywhere.

With S = Σ A K⁻¹ Aᵀ, the column of τ has the solution S w = Σ A K⁻¹ r + side, where ``side`` is b·τ,
or −r_p once that column is written around the iterate.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dual2.methods.interior_point.residuals import Residuals

Array = np.ndarray


@dataclass(frozen=True)
class DualStep:
    """λ₁ = ``dual`` and ``ratio`` = Δτ/τ, and the directions of λ, τ and κ."""

    dual: Array
    ratio: float
    d_dual: Array
    d_tau: float
    d_kappa: float


@dataclass(frozen=True)
class Embedding:
    """Everything replicated that a direction needs.

    Attributes
    ----------
    solve : callable
        r ↦ S⁻¹ r.
    residuals : Residuals
        Of the coupling and of the last equation.
    dual, tau, kappa : ndarray, float, float
        The iterate.
    around, side, AMt : ndarray
        w, and what it is made of.
    rough : float
        The divisor of Δτ by its short form, which cancels near the end.
    near : bool
        Whether the column of τ is written around the iterate.
    embedded : bool
        Whether there is one.
    """

    solve: Callable[[Array], Array]
    residuals: Residuals
    dual: Array
    tau: float
    kappa: float
    around: Array
    side: Array
    AMt: Array
    rough: float
    near: bool
    embedded: bool = True

    def step(self, AM: Array, scalar: float, eta: float, target: float, divisor: float) -> DualStep:
        """The step for sums A K⁻¹ρ and tᵀK⁻¹ρ of a right-hand side, and a target of τκ."""
        dual = self.solve(AM + eta * self.residuals.r_p)
        if not self.embedded:
            return DualStep(dual, 0.0, dual, 0.0, 0.0)
        top = target + eta * self.tau * (self.kappa if self.near else self.residuals.r_tau)
        top = top + scalar - self.AMt @ dual + self.side @ dual
        ratio = float(top / divisor)
        d_tau = ratio * self.tau
        d_dual = dual + ratio * (self.near * self.dual - self.around)
        return DualStep(dual, ratio, d_dual, d_tau, (target - self.kappa * d_tau) / self.tau)
