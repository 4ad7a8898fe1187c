"""Theorems 1 to 3 as numbers: bounds for the outer loop of iD2A with all their constants.

The paper states rates; the constants are in its proofs. With F = F_ρ, κ = κ_F, r = 1 - 1/√κ and an
error of at most ε_k in the k-th gradient (|√𝐂(λ^k - λ*_k)| ≤ ε_k, ε_k² = λ̄ e_{λ,k}):

- general convex, β_k = k/(k+3): F(y^k) - F* ≤ 2L_F/(k+1)² · (|y⁰ - y*| + 2Σ_{i≤k} iε_i/L_F)²;
- strongly convex: F(y^k) - F* ≤ r^k · (√(2(F(y⁰) - F*)) + √(2/μ_F) Σ_{i≤k} r^{-i/2} ε_i)².

The constants must be the printed ones, ``analyse(..., constants="paper")``; others that are valid
for F_ρ may replace L_F, μ_F and μ_H. For MiD2A they are those of P_K(C).
"""

import math
from collections.abc import Sequence

import numpy as np

from dual2.errors import CapabilityError
from dual2.theory.constants import Constants, Facts
from dual2.theory.schedule import LinearSchedule


def convex_bound(L_F: float, distance: float, errors: Sequence[float] | np.ndarray) -> np.ndarray:
    """Theorem 1: bounds of F(y^k) - F* for k = 1, …, K.

    Parameters
    ----------
    L_F : float
        Smoothness of F_ρ.
    distance : float
        |y⁰ - y*|.
    errors : sequence of float
        ε_1, …, ε_K.

    Examples
    --------
    >>> print(convex_bound(1.0, 3.0, [0.0, 0.0]))
    [4.5 2. ]
    """
    if not L_F > 0:
        raise CapabilityError(f"L_F = {L_F} found; Theorem 1 needs a positive number.")
    k = np.arange(1, len(errors) + 1)
    total = np.cumsum(k * np.asarray(errors, dtype=float)) / L_F
    return 2.0 * L_F / (k + 1.0) ** 2 * (distance + 2.0 * total) ** 2


def linear_bound(
    constants: Constants, value_gap: float, errors: Sequence[float] | np.ndarray
) -> np.ndarray:
    """The lemma behind Theorem 2: bounds of F(y^k) - F* for k = 1, …, K.

    Parameters
    ----------
    constants : Constants
        With μ_F > 0.
    value_gap : float
        F(y⁰) - F*, or a bound of it.
    errors : sequence of float
        ε_1, …, ε_K.
    """
    root = math.sqrt(_rate(constants))
    spent, total = math.sqrt(2.0 * value_gap), 0.0
    found = []
    for error in errors:
        spent, total = root * spent, root * total + error
        found.append((spent + math.sqrt(2.0 / constants.mu_F) * total) ** 2)
    return np.array(found)


def primal_bound(
    constants: Constants,
    facts: Facts,
    lambda_max: float,
    dual_bounds: Sequence[float] | np.ndarray,
    primal_errors: Sequence[float] | np.ndarray,
) -> np.ndarray:
    """Theorem 2: bounds of |x^{k+1} - x*|² for k = 1, …, K-1.

    4σ̄²(𝐀)λ̄/(μ_f²μ_H²μ_F) · (2√κ/(√κ+1) · √Γ^k + (√κ-1)/(√κ+1) · √Γ^{k-1})² + 2e_{x,k+1}.

    Parameters
    ----------
    constants, facts
        Of the problem.
    lambda_max : float
        λ̄ of the gossip matrix in use.
    dual_bounds : sequence of float
        Bounds Γ^0, …, Γ^{K-1} of F(y^k) - F*.
    primal_errors : sequence of float
        e_{x,2}, …, e_{x,K}: bounds of |x^{k+1} - x*_{k+1}|².
    """
    _rate(constants)
    root, gaps = math.sqrt(constants.kappa_F), np.sqrt(np.asarray(dual_bounds, dtype=float))
    mixed = 2.0 * root / (root + 1.0) * gaps[1:] + (root - 1.0) / (root + 1.0) * gaps[:-1]
    steep = 4.0 * facts.sigma2_max * lambda_max
    scale = steep / (facts.mu_f**2 * constants.mu_H**2 * constants.mu_F)
    return scale * mixed**2 + 2.0 * np.asarray(primal_errors, dtype=float)


def complexity_factor(constants: Constants, lambda_max: float, schedule: LinearSchedule) -> float:
    """C₃ of Theorem 3: |x^{k+1} - x*|² < C₃ e_{x,1} θ^k with the printed schedule.

    C₁ = 2λ̄/(μ_H²μ_F) · (√κ(2 + √r)/(√κ+1))², C₂ = 8C₁λ̄/(μ_F(√θ - √r)²), C₃ = 2C₂ + 2.
    """
    rate, root = _rate(constants), math.sqrt(constants.kappa_F)
    mixed = root * (2.0 + math.sqrt(rate)) / (root + 1.0)
    first = 2.0 * lambda_max / (constants.mu_H**2 * constants.mu_F) * mixed**2
    gain = math.sqrt(schedule.theta) - math.sqrt(rate)
    return 2.0 * (8.0 * first * lambda_max / (constants.mu_F * gain**2)) + 2.0


def outer_iterations(
    constants: Constants, lambda_max: float, schedule: LinearSchedule, target: float
) -> int:
    """Theorem 3: outer iterations that suffice for |x^{k+1} - x*|² ≤ ``target``."""
    if not target > 0:
        raise CapabilityError(f"target = {target} found; expected a positive number.")
    first = complexity_factor(constants, lambda_max, schedule) * schedule.ratio * schedule.first
    if first <= target:
        return 1
    return math.ceil(math.log(first / target) / -math.log(schedule.theta)) + 1


def chebyshev_bound(kappa_C: float) -> float:
    """κ of P_K(C) for K = ⌊√κ_C⌋ is at most ((1 + c)/(1 - c))², c = ((√κ_C-1)/(√κ_C+1))^K.

    Examples
    --------
    >>> chebyshev_bound(1.0), chebyshev_bound(100.0) < 4
    (1.0, True)
    """
    if not kappa_C >= 1:
        raise CapabilityError(f"kappa_C = {kappa_C} found; a condition number is at least 1.")
    root = math.sqrt(kappa_C)
    c = ((root - 1.0) / (root + 1.0)) ** math.floor(root)
    return ((1.0 + c) / (1.0 - c)) ** 2


def _rate(constants: Constants) -> float:
    """r = 1 - 1/√κ_F."""
    if not math.isfinite(constants.kappa_F):
        raise CapabilityError("The linear bounds need μ_F > 0; here F_ρ is only convex.")
    return 1.0 - 1.0 / math.sqrt(constants.kappa_F)
