"""Predicted cost of iD2A with any subsolver: outer iterations times the saddle table.

The complexity table lists chosen combinations; this is how its rows are made (Theorem
iD2A_complexity_convex): √κ_F outer iterations, each a saddle point problem whose cost is a row of
the saddle table under the mapping of Tables 0154 and 1823.
"""

import math
from dataclasses import dataclass

from dual2.theory.constants import Constants
from dual2.theory.facts import Facts
from dual2.theory.saddle_table import SADDLE_BOUNDS, SaddleNumbers


@dataclass(frozen=True)
class Prediction:
    """Predicted cost of one subsolver; infinite where the tables give no linear rate.

    Attributes
    ----------
    subsolver : str
        Its name.
    rounds, oracle_a, oracle_b : float
        Rounds and calls to 𝒜 and ℬ, constants and hidden logarithms taken as 1.
    case : str
        Group of the saddle table used, or ``""``.
    """

    subsolver: str
    rounds: float
    oracle_a: float
    oracle_b: float
    case: str


def saddle_numbers(constants: Constants, facts: Facts, mapping: str | None = None) -> SaddleNumbers:
    """The subproblem (SP) as an instance of (SPP): the mapping of Tables 0154 and 1823.

    f_1 = f, f_2 = g, B = 𝐀 and ζ(λ) = (ρ/2)λᵀ𝐂λ + λᵀz. With ``mapping="prox"``
    g_1 = (μ_{h*}/2n)|·|² + ζ and g_2 is the rest of h*/n; with ``"smooth"`` g_1 = h*/n + ζ and
    g_2 = 0. A linear h* belongs to g_1 under either.

    Parameters
    ----------
    constants, facts
        Of the problem, the network and ρ.
    mapping : {"prox", "smooth"}, optional
        How h* enters; as in ``constants`` if not given.
    """
    smooth = (mapping or constants.mapping) == "smooth" or facts.h_linear
    mu_h, L_h = facts.mu_h / facts.n, facts.L_h / facts.n
    known = math.isfinite(constants.mu_phi)
    smallest2 = facts.rank2_min if facts.row_rank > 0 else 0.0
    return SaddleNumbers(
        L_x=facts.L_f, mu_x=facts.mu_f,
        L_y=_augmentation(constants, facts) + (L_h if smooth else mu_h), mu_y=mu_h,
        S=math.sqrt(facts.sigma2_max), s=math.sqrt(smallest2),
        mu_phi=constants.mu_phi if known else 0.0,
        f2_zero=facts.g_is_zero, g2_zero=smooth, g3_zero=facts.h_linear or not smooth,
        linear=facts.h_linear and constants.rho == 0,
    )  # fmt: skip


def predict(
    constants: Constants, facts: Facts, subsolver: str, eps: float = 1e-8, exchanges: int = 1,
    closed_form: bool = False,
) -> Prediction:  # fmt: skip
    """Predicted cost of iD2A with one subsolver until |x - x*|² ≤ ε.

    With Δ_𝒜 and Δ_ℬ the complexities of the saddle table without their logarithm,

        𝒜 = √κ_F Δ_𝒜 log(1/ε),   ℬ = √κ_F Δ_ℬ log(1/ε),
        rounds = K (√κ_F log(1/ε) if ρ = 0, else √κ_F (1 + Δ_ℬ) log(1/ε)).

    Parameters
    ----------
    constants, facts
        Of the problem, the network (or its Chebyshev polynomial) and ρ.
    subsolver : str
        Name in the saddle table.
    eps : float
        Accuracy.
    exchanges : int
        K, rounds per product with the gossip matrix.
    closed_form : bool
        Whether f_i + g_i + <c, ·> is minimised in closed form (separable functions): iDAPG then
        calls 𝒜 once per call to ℬ.

    Examples
    --------
    >>> import numpy as np, dual2 as d2
    >>> from dual2.theory import analyse, gather_facts
    >>> agents = [d2.Agent(np.eye(2), d2.Quadratic([1.0, 100.0])) for _ in range(2)]
    >>> problem = d2.Problem(agents, d2.SquaredLoss(np.ones(2)))
    >>> constants = analyse(problem, d2.Network([(0, 1)]))
    >>> for name in ("iDAPG", "LPD"):
    ...     found = predict(constants, gather_facts(problem), name)
    ...     print(name, round(found.rounds), round(found.oracle_a), round(found.oracle_b))
    iDAPG 67 446 45
    LPD 248 225 225
    """
    best = Prediction(subsolver, math.inf, math.inf, math.inf, "")
    scale = math.sqrt(constants.kappa_F) * math.log(1.0 / eps)
    if not math.isfinite(scale):
        return best
    mapping = "smooth" if subsolver in ("APDG", "Salim") else None
    instance = saddle_numbers(constants, facts, mapping)
    for bound in SADDLE_BOUNDS:
        usable = bound.algorithm == subsolver and bound.case != "concave"
        if not usable or bound.objection(instance):
            continue
        a, b = (scale * calls for calls in bound.evaluate(instance, 1.0 / math.e))
        a = b if closed_form and subsolver == "iDAPG" else a
        rounds = exchanges * (scale + (b if constants.rho > 0 else 0.0))
        if (a, b) < (best.oracle_a, best.oracle_b):
            best = Prediction(subsolver, rounds, a, b, bound.case)
    return best


def _augmentation(constants: Constants, facts: Facts) -> float:
    """ρλ̄, from ρ* = L'/λ̄."""
    if constants.rho == 0 or constants.rho_star == 0:
        return 0.0
    coupling = facts.coupling if constants.kind == "tight" else facts.coupling_paper
    total = coupling + (facts.L_h / facts.n if math.isfinite(facts.L_h) else 0.0)
    return constants.rho / constants.rho_star * (total if total > 0 else 1.0)
