"""The condition numbers in which the paper's complexities are written."""

import math
from dataclasses import dataclass, field

import numpy as np

from dual2.network import AnyNetwork, ChebyshevNetwork
from dual2.problem import Problem
from dual2.theory.augmented import MEANINGLESS, NOISE, augmented_eigenvalue
from dual2.theory.constants import Facts, gather_facts, optimal_rho, read_rho


@dataclass(frozen=True)
class ConditionNumbers:
    """Condition numbers of one problem on one network (notes of the paper's full table).

    A number that rests on a smallest eigenvalue below 1e-12 of the largest is rounding noise: it
    is reported as infinite with a note. NaN means that it could not be computed; the note says
    why.

    Attributes
    ----------
    kappa_f, kappa_C : float
        κ_f = L_f/μ_f and κ_C = λ̄(C)/λ̲(C).
    kappa_pd, kappa_h : float
        κ_pd = σ̄²(𝐀)n/(μ_f μ_{h*}) and κ_{h*} = L_{h*}/μ_{h*}; infinite unless h* is strongly
        convex.
    kappa_A, kappa_pd_prime : float
        κ_𝐀 = σ̄²(𝐀)/σ²_min(𝐀) and κ_pd' = (L_f L_{h*}/n)/σ²_min(𝐀); infinite unless every A_i has
        full row rank.
    kappa_A_rho, kappa_pd2 : float
        σ̄²(𝐀) and L_f L_{h*}/n over λ_min(𝐀𝐀ᵀ + ρL_f𝐂).
    kappa_A_rho_prime, kappa_pd3 : float
        The same with P_K(C) in the place of C.
    c_1, c_2 : float
        c_1 = max_i(σ̄²(A_i)/μ_i)/(σ̄²(𝐀)/μ_f) ≤ 1 and
        c_2 = min_i(σ²_min(A_i)/L_i)/(σ²_min(𝐀)/L_f) ≥ 1.
    rho, rho_prime : float
        The ρ in κ_{𝐀ρ} (iD2A) and in κ_{𝐀'ρ} (MiD2A).
    notes : dict
        Field → why its number is infinite or missing.
    """

    kappa_f: float
    kappa_C: float
    kappa_pd: float
    kappa_h: float
    kappa_A: float
    kappa_pd_prime: float
    kappa_A_rho: float
    kappa_pd2: float
    kappa_A_rho_prime: float
    kappa_pd3: float
    c_1: float
    c_2: float
    rho: float
    rho_prime: float
    notes: dict[str, str] = field(default_factory=dict)

    @property
    def symbols(self) -> dict[str, float]:
        """The numbers by the names that the formulas use."""
        return {symbol: getattr(self, name) for symbol, name in SYMBOLS.items()}


SYMBOLS = {
    "κ_f": "kappa_f", "κ_C": "kappa_C", "κ_pd": "kappa_pd", "κ_h*": "kappa_h",
    "κ_A": "kappa_A", "κ_pd'": "kappa_pd_prime", "κ_Aρ": "kappa_A_rho", "κ_pd2": "kappa_pd2",
    "κ_A'ρ": "kappa_A_rho_prime", "κ_pd3": "kappa_pd3", "c_1": "c_1", "c_2": "c_2",
}  # fmt: skip
"""Symbol of the formulas → field. κ_pd2 and κ_pd3 are the paper's κ_{pd²} and κ_{pd³}."""


def condition_numbers(
    problem: Problem, network: AnyNetwork, rho: float | str = "auto", facts: Facts | None = None
) -> ConditionNumbers:
    """All condition numbers of a problem on a network.

    Parameters
    ----------
    problem, network
        For a Chebyshev network C is the gossip matrix of its base.
    rho : float or "auto"
        The ρ of κ_{𝐀ρ}; ``"auto"`` is ρ*(C) for iD2A and ρ*(P_K(C)) for MiD2A (Remark 10).
    facts : Facts, optional
        The problem's scalars, if known already.

    Examples
    --------
    >>> import numpy as np, dual2 as d2
    >>> agents = [d2.Agent(np.eye(2), d2.Quadratic([1.0, 4.0])) for _ in range(2)]
    >>> problem = d2.Problem(agents, d2.SquaredLoss(np.ones(2), scale=0.5))
    >>> numbers = condition_numbers(problem, d2.Network([(0, 1)]))
    >>> numbers.kappa_f, numbers.kappa_C, numbers.kappa_pd, numbers.kappa_A, numbers.c_1
    (4.0, 1.0, 1.0, 1.0, 1.0)
    """
    facts = facts or gather_facts(problem)
    base = network.base if isinstance(network, ChebyshevNetwork) else network
    fast = base.chebyshev()
    notes: dict[str, str] = {}
    sigma2, smallest2 = float(facts.sigma2.max()), float(facts.rank2.min())
    load = facts.L_f * facts.L_h / facts.n
    coupling = np.where(facts.sigma2 == 0, 0.0, _ratios(facts.sigma2, facts.mu)).max()
    rank = _rank(sigma2, smallest2, load, notes)
    rhos = [_rho(rho, facts, where.lambda_max) for where in (base, fast)]
    augmented = [
        _augmented(problem, facts, value, where, names, notes)
        for value, where, names in zip(rhos, (base, fast), _AUGMENTED, strict=True)
    ]
    return ConditionNumbers(
        kappa_f=_ratio(facts.L_f, facts.mu_f),
        kappa_C=float(base.kappa),
        kappa_pd=_ratio(sigma2 * facts.n, facts.mu_f * facts.mu_h),
        kappa_h=_ratio(facts.L_h, facts.mu_h),
        kappa_A=rank[0],
        kappa_pd_prime=rank[1],
        kappa_A_rho=_ratio(sigma2, augmented[0]),
        kappa_pd2=_ratio(load, augmented[0]),
        kappa_A_rho_prime=_ratio(sigma2, augmented[1]),
        kappa_pd3=_ratio(load, augmented[1]),
        c_1=_ratio(float(coupling), _ratio(sigma2, facts.mu_f)) if sigma2 > 0 else 1.0,
        c_2=_ratio(float(_ratios(facts.rank2, facts.L).min()), _ratio(smallest2, facts.L_f)),
        rho=rhos[0],
        rho_prime=rhos[1],
        notes=notes,
    )


_AUGMENTED = ("kappa_A_rho", "kappa_pd2"), ("kappa_A_rho_prime", "kappa_pd3")


def _rank(sigma2: float, smallest2: float, load: float, notes: dict) -> tuple[float, float]:
    """κ_𝐀 and κ_pd'."""
    note = ""
    if math.isnan(smallest2):
        note = "the rank of some A_i is unknown"
    elif smallest2 == 0:
        note = "some A_i lacks full row rank"
    elif smallest2 * MEANINGLESS < sigma2:
        note = f"{NOISE} (σ²_min/σ̄² = {smallest2 / sigma2:.1e})"
        smallest2 = 0.0
    if note:
        notes |= dict.fromkeys(("kappa_A", "kappa_pd_prime"), note)
    return _ratio(sigma2, smallest2), _ratio(load, smallest2)


def _augmented(
    problem: Problem,
    facts: Facts,
    rho: float,
    network: AnyNetwork,
    names: tuple[str, ...],
    notes: dict[str, str],
) -> float:
    """λ_min(𝐀𝐀ᵀ + ρL_f𝐂): zero (with a note) if it is rounding noise, NaN if not computed."""
    value, note = augmented_eigenvalue(problem, rho * facts.L_f, network)
    if note:
        notes |= dict.fromkeys(names, note)
    return value


def _rho(rho: float | str, facts: Facts, lambda_max: float) -> float:
    if rho == "auto":
        return optimal_rho(facts, lambda_max) if facts.mu_f > 0 else math.inf
    return read_rho(rho)


def _ratio(a: float, b: float) -> float:
    """a/b; infinite for b = 0, NaN for 0/0 and ∞/∞."""
    if b == 0:
        return math.inf if a > 0 else math.nan
    return a / b if math.isfinite(b) or math.isfinite(a) else math.nan


def _ratios(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return a / b
