"""Printed schedules of how accurately subproblems are solved, and bounds of their errors."""

import math
from dataclasses import dataclass

from dual2.errors import CapabilityError
from dual2.theory.constants import Constants, Facts


@dataclass(frozen=True)
class LinearSchedule:
    """e_{λ,k+1} = θ e_{λ,k}, θ = 1 - 1/(c√κ_F), of Theorem 3 (complexity)."""

    theta: float  # θ_λ = θ_x
    first: float  # e_{λ,1}
    ratio: float  # e_x/e_λ = σ̄²(𝐀)/μ_f²

    def dual_error(self, k: int) -> float:
        """√e_{λ,k+1}, the admissible |λ^{k+1} - λ*_{k+1}| of outer iteration k ≥ 0."""
        return math.sqrt(self.first) * self.theta ** (k / 2)

    def primal_error(self, k: int) -> float:
        """√e_{x,k+1}, the admissible |x^{k+1} - x*_{k+1}|."""
        return math.sqrt(self.ratio) * self.dual_error(k)


def linear_schedule(
    constants: Constants, facts: Facts, lambda_max: float, value_gap: float, c: float = 2.0
) -> LinearSchedule:
    """The printed schedule, with e_{λ,1} from a bound on F_ρ(y⁰) - F_ρ(y*).

    e_{λ,1} = (μ_F/λ̄)(√θ - √(1-1/√κ_F))² · ``value_gap``;  e_{x,1} = σ̄²(𝐀)/μ_f² · e_{λ,1}.

    Parameters
    ----------
    constants, facts
        Of the problem; κ_F must be finite.
    lambda_max : float
        λ̄ of the gossip matrix in use.
    value_gap : float
        Bound of Remark 13 (computable e₁), see :func:`initial_value_gap`.
    c : float
        c > 1; larger means a slower decay of the errors.
    """
    if not c > 1:
        raise CapabilityError(f"c = {c} found; the schedule needs c > 1.")
    kappa = constants.kappa_F
    if not math.isfinite(kappa):
        raise CapabilityError("The linear schedule needs μ_F > 0; here F_ρ is only convex.")
    root = math.sqrt(kappa)
    theta = 1.0 - 1.0 / (c * root)
    gain = math.sqrt(theta) - math.sqrt(max(0.0, 1.0 - 1.0 / root))
    first = constants.mu_F / lambda_max * gain**2 * value_gap
    return LinearSchedule(theta, first, facts.sigma2_max / facts.mu_f**2)


def initial_value_gap(
    constants: Constants,
    facts: Facts,
    lambda_max: float,
    consensus: float,
    dual_residual: float,
    primal_residual: float,
) -> float:
    """Bound of F_ρ(y⁰) - F_ρ(y*) from an approximate solution (x̃, λ̃) of the first subproblem.

    (|√𝐂λ̃| + (√λ̄/μ_H)(|∇_λT| + σ̄(𝐀)/μ_f · dist(0, ∂_xT)))²/(2μ_F), Remark 13 (computable e₁)
    with the square of the sum.

    Parameters
    ----------
    consensus, dual_residual, primal_residual : float
        |√𝐂λ̃|, |∇_λT(z⁰,x̃,λ̃)| and dist(0, ∂_xT(z⁰,x̃,λ̃)).
    """
    sigma = math.sqrt(facts.sigma2_max)
    slope = dual_residual + sigma / facts.mu_f * primal_residual
    total = consensus + math.sqrt(lambda_max) / constants.mu_H * slope
    return total**2 / (2.0 * constants.mu_F)


def convex_error(first: float, k: int, delta: float = 1.0) -> float:
    """ε_{k+1} = ε₁/(k+1)^{2+δ}: the schedule of Theorem 1 for outer iteration k ≥ 0.

    Examples
    --------
    >>> convex_error(8.0, 1, delta=1.0)
    1.0
    """
    if not delta > 0:
        raise CapabilityError(f"delta = {delta} found; Theorem 1 needs delta > 0.")
    return first / (k + 1.0) ** (2.0 + delta)


def saddle_errors(
    sigma: float, mu_x: float, mu_phi: float, residual_x: float, residual_y: float
) -> tuple[float, float]:
    """Lemma 12 (a-posteriori error of a saddle point): bounds of |x-x*| and |y-y*|.

    |y-y*| ≤ D_y/μ_φ + σ̄(B) D_x/(μ_x μ_φ),
    |x-x*| ≤ σ̄(B) D_y/(μ_x μ_φ) + (1/μ_x + σ̄²(B)/(μ_x² μ_φ)) D_x.

    Parameters
    ----------
    sigma : float
        σ̄(B), the largest singular value of the coupling.
    mu_x, mu_phi : float
        Strong convexity of f_1 and of φ = g_1 + (f_1+f_2)*(-Bᵀ·); μ_φ = 0 gives infinite bounds.
    residual_x, residual_y : float
        D_x = dist(0, ∂_x L(x,y)), D_y = dist(0, ∂_y L(x,y)).

    Examples
    --------
    >>> saddle_errors(1.0, 1.0, 0.5, residual_x=0.0, residual_y=1.0)
    (2.0, 2.0)
    """
    if mu_phi <= 0:
        return math.inf, math.inf
    gain = sigma / (mu_x * mu_phi)
    error_y = residual_y / mu_phi + gain * residual_x
    error_x = gain * residual_y + (1.0 / mu_x + sigma * gain / mu_x) * residual_x
    return error_x, error_y


def subproblem_errors(
    constants: Constants, facts: Facts, residual_x: float, residual_dual: float
) -> tuple[float, float]:
    """Lemma 13 (inner stopping rule): |x^{k+1}-x*_{k+1}| and |λ^{k+1}-λ*_{k+1}| are at most."""
    sigma = math.sqrt(facts.sigma2_max)
    return saddle_errors(sigma, facts.mu_f, constants.mu_H, residual_x, residual_dual)
