"""Facts of a problem (maxima and minima over the agents), its case, and the constants that follow.

Notation: C the gossip matrix (or P_K(C)) with largest and smallest nonzero eigenvalues λ̄, λ̲;
φ_i(λ) = -inf_x f_i + g_i + <A_iᵀλ, x>; H(λ) = Σφ_i(λ_i) + (1/n)Σh*(λ_i) + (ρ/2)λᵀ𝐂λ;
F_ρ(y) = H*(-√𝐂 y) is what the outer loop minimises, H what the inner loop minimises.
"""

import math
from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import issparse
from scipy.sparse.linalg import LinearOperator

from dual2.errors import CapabilityError
from dual2.functions import Zero
from dual2.network import AnyNetwork
from dual2.problem import Problem
from dual2.theory.augmented import MEANINGLESS, augmented_eigenvalue

_RANK_LIMIT = 2000


@dataclass(frozen=True)
class Facts:
    """What is known of (P1) before any iteration; arrays are of the agents in this process."""

    n: int  # number of agents
    mu: np.ndarray  # μ_i and L_i of each f_i
    L: np.ndarray
    sigma2: np.ndarray  # σ̄²(A_i), the largest squared singular value
    rank2: np.ndarray  # λ_min(A_iA_iᵀ), zero unless A_i has full row rank, NaN if unknown
    mu_f: float  # min μ_i, max L_i, max σ̄²(A_i), min λ_min(A_iA_iᵀ) (0 if one is unknown)
    L_f: float
    sigma2_max: float
    rank2_min: float
    coupling: float  # max_i σ̄²(A_i)/μ_i, the smoothness of φ, infinite if some μ_i = 0
    row_rank: float  # min_i σ²_min(A_i)/L_i if all g_i = 0, else 0: strong convexity of φ
    mu_h: float  # strong convexity and smoothness of h*
    L_h: float
    g_is_zero: bool  # whether all g_i = 0
    h_prox: bool  # whether prox_{h*} and ∇h* can be computed
    h_smooth: bool
    h_linear: bool  # whether h* is linear (h is the indicator of a point)

    @property
    def kappa_pd(self) -> float:
        """κ_pd = σ̄²(𝐀) n/(μ_f μ_{h*}), infinite if h* is not strongly convex."""
        return self.sigma2_max * self.n / (self.mu_f * self.mu_h) if self.mu_h > 0 else math.inf

    @property
    def kappa_f(self) -> float:
        """κ_f = L_f/μ_f."""
        return self.L_f / self.mu_f


def gather_facts(problem: Problem) -> Facts:
    """Collect the scalars of a problem: one agreement of seven numbers.

    Examples
    --------
    >>> import numpy as np, dual2 as d2
    >>> agents = [d2.Agent(np.eye(2), d2.SquaredNorm(2.0)) for _ in range(3)]
    >>> facts = gather_facts(d2.Problem(agents, d2.IndicatorPoint(np.ones(2))))
    >>> facts.coupling, facts.row_rank, facts.h_linear
    (0.5, 0.5, True)
    """
    dual, mu, L = problem.dual_term, problem.sizes.mu, problem.sizes.L
    curved = [not isinstance(a.g, Zero) for a in problem.agents]
    sigma2, rank2 = np.asarray(problem.sigma, dtype=float)
    known = np.nan_to_num(rank2)
    with np.errstate(divide="ignore", invalid="ignore"):
        steep, flat = np.where(sigma2 == 0, 0.0, sigma2 / mu), known / L
    most = problem.largest(np.column_stack([L, sigma2, steep, -mu, -known, -flat, curved]))
    L_f, sigma2_max, coupling, *least, some_g = (float(value) for value in most)
    mu_f, rank2_min, row_rank = (-value for value in least)
    bounds = (mu_f, L_f, sigma2_max, rank2_min, coupling, 0.0 if some_g else row_rank)
    return Facts(
        problem.n,
        *(mu, L, sigma2, rank2),
        *bounds,
        mu_h=dual.mu,
        L_h=dual.L,
        g_is_zero=not some_g,
        h_prox=dual.proximable,
        h_smooth=dual.smooth,
        h_linear=dual.smooth and dual.L == 0,
    )


def full_row_rank(problem: Problem) -> bool | None:
    """Whether [A_1 … A_n] has full row rank; None if too large, not known entrywise or not here.

    This looks at all A_i at once, so it serves explanations only: no parameter depends on it.
    """
    p = problem.p
    if (
        not problem.complete
        or p > _RANK_LIMIT
        or any(isinstance(a.A, LinearOperator) for a in problem.agents)
    ):
        return None
    if sum(problem.dims) < p:
        return False
    gram = np.zeros((p, p))
    for agent in problem.agents:
        product = agent.A @ agent.A.T
        gram += product.toarray() if issparse(product) else product
    values = np.linalg.eigvalsh(gram)
    return bool(values[0] > p * np.finfo(float).eps * values[-1])


@dataclass(frozen=True)
class PaperCase:
    """Which of the paper's cases holds, and the sentence that says why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Constants:
    """Constants of one (problem, network, ρ), with the lemma that each comes from in ``sources``.

    κ_F = L_F/μ_F (infinite in the general convex case) gives β = (√κ_F-1)/(√κ_F+1), the outer
    momentum, and L_φ/μ_φ the inner one of iDAPG; None stands for k/(k+3), with restarts.
    """

    case: PaperCase
    rho: float
    rho_star: float  # ρ* = L'/λ̄ of Remark 10 (choice of ρ)
    kind: str  # "tight" or "paper"
    mapping: str  # "prox" (h* through its prox) or "smooth" (through its gradient)
    L_F: float  # smoothness and strong convexity of F_ρ on Range(√𝐂)
    mu_F: float
    L_phi: float  # smoothness of the part of H that enters by its gradient
    mu_phi: float  # strong convexity of H
    L_H: float  # smoothness of H, infinite if h* is not smooth
    mu_H: float
    sources: dict[str, str]
    alone: bool = False  # whether each of several agents solves its own subproblem: ρ = 0
    kappa_F: float = field(init=False)
    outer_momentum: float | None = field(init=False)
    inner_momentum: float | None = field(init=False)

    def __post_init__(self) -> None:
        inner = momentum(condition(self.L_phi, self.mu_phi, self.mapping))
        kappa = self.L_F / self.mu_F if self.mu_F > 0 else math.inf
        known = {"kappa_F": kappa, "outer_momentum": momentum(kappa), "inner_momentum": inner}
        for name, value in known.items():
            object.__setattr__(self, name, value)  # frozen, and derived from the other fields


def condition(L: float, mu: float, mapping: str) -> float:
    """Condition number of H seen by iDAPG.

    With the prox mapping the strongly convex part of h* is not in L: moving μ|·|²/2 to the smooth
    side leaves the step as it is and gives κ = (L + μ)/μ.
    """
    if mu <= 0:
        return math.inf
    if math.isinf(mu):
        return 1.0
    return (L + mu) / mu if mapping == "prox" else max(L / mu, 1.0)


def momentum(kappa: float) -> float | None:
    """(√κ-1)/(√κ+1), or None (k/(k+3) takes its place) if κ is infinite or meaningless.

    Examples
    --------
    >>> momentum(4.0), momentum(math.inf)
    (0.3333333333333333, None)
    """
    if not kappa < MEANINGLESS:
        return None
    root = math.sqrt(kappa)
    return (root - 1.0) / (root + 1.0)


def find_case(facts: Facts, rho: float, full_row_rank: bool | None = None) -> PaperCase:
    """Which case of Lemma 10 (constants of F_ρ) or only of Theorem 1 holds, and why.

    Parameters
    ----------
    facts : Facts
        The problem's scalars.
    rho : float
        The augmentation.
    full_row_rank : bool, optional
        Whether [A_1, …, A_n] has full row rank; None if not known, as in a network, where nobody
        may see all of A. No parameter depends on it.
    """
    smooth = math.isfinite(facts.L_h)
    if facts.mu_h > 0 and smooth:
        return PaperCase("1", f"h* is {facts.mu_h:g}-strongly convex and {facts.L_h:g}-smooth")
    if facts.row_rank > 0 and smooth:
        linear = facts.h_linear and rho == 0
        why = "all g_i = 0, every A_i has full row rank, h* is "
        return PaperCase("2.1" if linear else "2", why + ("linear" if facts.h_linear else "smooth"))
    if full_row_rank and facts.g_is_zero and smooth and rho > 0:
        return PaperCase("3", "all g_i = 0, [A_1 … A_n] has full row rank, h* is smooth, ρ > 0")
    missing = [] if smooth else ["h* is not smooth"]
    if facts.mu_h <= 0:
        missing.append("h* is not strongly convex")
    if not facts.g_is_zero:
        missing.append("some g_i ≠ 0")
    elif facts.row_rank <= 0:
        missing.append("some A_i lacks full row rank or its rank is unknown")
    return PaperCase("general", "; ".join(missing))


def optimal_rho(facts: Facts, lambda_max: float) -> float:
    """ρ* = (max_i σ̄²(A_i)/μ_i + L_{h*}/n)/λ̄, Remark 10 (choice of ρ); L_{h*} = ∞ counts as 0.

    With a nonsmooth h* only its prox enters the inner problem, so its L does not matter.
    """
    if lambda_max == 0:
        return 0.0
    smooth = facts.L_h / facts.n if math.isfinite(facts.L_h) else 0.0
    total = facts.coupling + smooth
    return (total if total > 0 else 1.0) / lambda_max


def read_rho(rho: float | str) -> float:
    """A given ρ as a number ≥ 0."""
    try:
        value = float(rho)
    except (TypeError, ValueError):
        value = math.nan
    if not 0 <= value < math.inf:
        raise CapabilityError(f"rho = {rho!r} found; expected 'auto' or a number ≥ 0.")
    return value


def choose_mapping(facts: Facts, mapping: str = "auto") -> str:
    """``"prox"`` where prox_{h*} exists, else ``"smooth"``; an impossible wish is an error."""
    if mapping == "auto":
        mapping = "prox" if facts.h_prox else "smooth"
    if {"prox": facts.h_prox, "smooth": facts.h_smooth}.get(mapping, False):
        return mapping
    raise CapabilityError(
        f"The mapping {mapping!r} of h* is not available: h has "
        f"{'a prox' if facts.h_prox else 'no prox'} and "
        f"{'a smooth conjugate' if facts.h_smooth else 'no smooth conjugate'}. "
        "Use mapping='auto', or give h a prox or the gradient of its conjugate."
    )


_SOURCES = {
    "rho": "Remark 10 (choice of ρ)",
    "L_phi": "L_y + max σ̄²(A_i)/μ_i",
    "mu_phi": "μ_{h*}/n + min σ²_min(A_i)/L_i",
}


def constants_for(
    facts: Facts,
    lambda_max: float,
    lambda_min: float,
    rho: float,
    kind: str = "tight",
    mapping: str = "auto",
    full_row_rank: bool | None = None,
    augmented: float = 0.0,
) -> Constants:
    """All constants for one choice of ρ.

    With H₀ = φ + h* μ'-strongly convex and L'-smooth, the tight constants hold for every convex
    case, because F_ρ* = F* + (ρ/2)|·|²:

        L_F = λ̄/(μ' + ρλ̄),  μ_F = λ̲/(L' + ρλ̲).

    ``kind="paper"`` gives the printed ones (Lemmas 9 and 10):
    L_F = 1/max(ρ, μ_H/λ̄), μ_F = λ̲/L_H with L_H = L' + ρλ̄, L' = max_i σ̄²(A_i)/μ_i + L_{h*}/n, and
    μ_H = μ_{h*}/n in Case 1, max(min_i σ²_min(A_i)/L_i, λ_min(𝐀𝐀ᵀ + ρL_f𝐂)/L_f) in Case 2 and the
    second of these in Case 3. ``augmented`` is that second number; 0 means that it is unknown.

    Raises
    ------
    CapabilityError
        For ρ = 0 where F_0 need not be smooth (μ' = 0).
    """
    if kind not in ("tight", "paper"):
        raise CapabilityError(f"constants={kind!r} is unknown; use 'tight' or 'paper'.")
    if not 0 <= rho < math.inf:
        raise CapabilityError(f"rho = {rho!r} found; expected a finite number ≥ 0.")
    mapping = choose_mapping(facts, mapping)
    tight = kind == "tight"
    smooth = facts.L_h / facts.n
    upper = facts.coupling + smooth
    if tight:
        lower = facts.mu_h / facts.n + facts.row_rank
    else:
        lower = facts.mu_h / facts.n or max(facts.row_rank, augmented)
    alone = rho == 0 and facts.n > 1
    if alone and lower <= 0:
        case = find_case(facts, 0.0)
        raise CapabilityError(
            f"rho = 0 needs h* strongly convex, or all g_i = 0 with every A_i of full row rank; "
            f"here: {case.reason}. Use rho='auto' or a positive number."
        )
    if tight:
        L_F = _divide(lambda_max, lower + rho * lambda_max)
        mu_F = _divide(lambda_min, upper + rho * lambda_min)
    else:
        L_F = _divide(1.0, max(rho, _divide(lower, lambda_max)))
        mu_F = _divide(lambda_min, upper + rho * lambda_max)
    L_phi = facts.coupling + rho * lambda_max + (smooth if mapping == "smooth" else 0.0)
    label = "tight: F_ρ* = F* + (ρ/2)|·|²" if tight else "Lemmas 9 and 10 (constants of F_ρ)"
    case, best = find_case(facts, rho, full_row_rank), optimal_rho(facts, lambda_max)
    inner = (L_phi if L_phi > 0 else 1.0, lower, upper + rho * lambda_max, lower)
    told = {"L_F": label, "mu_F": label} | _SOURCES
    if not tight and lower > 0:
        told["mu_phi"] = f"μ_H of Lemma 10 (constants of F_ρ), Case {case.name}"
    return Constants(case, rho, best, kind, mapping, L_F, mu_F, *inner, told, alone)


def _divide(a: float, b: float) -> float:
    """a/b, with the limits for b = 0 and b = ∞."""
    if b == 0:
        return math.inf if a > 0 else 0.0
    return a / b


def analyse(
    problem: Problem,
    network: AnyNetwork,
    rho: float | str = "auto",
    constants: str = "tight",
    mapping: str = "auto",
    facts: Facts | None = None,
) -> Constants:
    """Case, constants and step sizes of iD2A for one problem, network and ρ.

    Parameters
    ----------
    problem : Problem
        The agents and h.
    network : Network or ChebyshevNetwork
        With a Chebyshev network the constants are those of MiD2A.
    rho : float or "auto"
        Augmentation; ``"auto"`` is ρ*.
    constants : {"tight", "paper"}
        Which constants of F_ρ.
    mapping : {"auto", "prox", "smooth"}
        How h* enters the subproblem.
    facts : Facts, optional
        The problem's scalars, if known already.

    Examples
    --------
    >>> import numpy as np, dual2 as d2
    >>> agents = [d2.Agent(np.ones((2, 1)), d2.SquaredNorm(1.0)) for _ in range(2)]
    >>> problem = d2.Problem(agents, d2.SquaredLoss(np.ones(2)))
    >>> found = analyse(problem, d2.Network([(0, 1)]))
    >>> print(found.case.name, found.case.reason)
    1 h* is 1-strongly convex and 1-smooth
    """
    facts = facts or gather_facts(problem)
    spectral, rank = network.spectral, full_row_rank(problem)
    top, bottom = float(spectral.lambda_max), float(spectral.lambda_min)
    value, augmented = _choose_rho(rho, facts, top), 0.0
    if constants == "paper" and value > 0 and facts.g_is_zero and not facts.mu_h > 0:
        eigenvalue = augmented_eigenvalue(problem, value * facts.L_f, network)[0]
        augmented = eigenvalue / facts.L_f if eigenvalue > 0 else 0.0
    return constants_for(facts, top, bottom, value, constants, mapping, rank, augmented)


def _choose_rho(rho: float | str, facts: Facts, lambda_max: float) -> float:
    if rho == "auto":
        return optimal_rho(facts, lambda_max)
    value = read_rho(rho)
    return value if facts.n > 1 else 0.0
