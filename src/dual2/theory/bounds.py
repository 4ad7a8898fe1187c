"""A-posteriori bounds: how far a point is from the solution of a saddle problem."""

import math

from dual2.theory.constants import Constants
from dual2.theory.facts import Facts


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
