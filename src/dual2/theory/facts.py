"""The scalars that the theory needs about a problem: maxima and minima over the agents."""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import issparse
from scipy.sparse.linalg import LinearOperator

from dual2.errors import CapabilityError
from dual2.functions import Zero
from dual2.problem import Problem

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
    def coupling_paper(self) -> float:
        """σ̄²(𝐀)/μ_f, the printed bound of the same constant."""
        return self.sigma2_max / self.mu_f

    @property
    def kappa_pd(self) -> float:
        """κ_pd = σ̄²(𝐀) n/(μ_f μ_{h*}), infinite if h* is not strongly convex."""
        return self.coupling_paper * self.n / self.mu_h if self.mu_h > 0 else float("inf")

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
    conjugate, agents = problem.h.conjugate, problem.agents
    mu, L = (np.array([getattr(a.f, k) for a in agents], dtype=float) for k in ("mu", "L"))
    sigma2, rank2 = (np.asarray(values, dtype=float) for values in problem.sigma)
    known = np.nan_to_num(rank2)
    with np.errstate(divide="ignore", invalid="ignore"):
        steep, flat = np.where(sigma2 == 0, 0.0, sigma2 / mu), known / L
    curved = [not isinstance(a.g, Zero) for a in agents]
    most = problem.largest(np.column_stack([L, sigma2, steep, -mu, -known, -flat, curved]))
    L_f, sigma2_max, coupling, *least, some_g = (float(value) for value in most)
    mu_f, rank2_min, row_rank = (-value for value in least)
    return Facts(
        n=problem.n, mu=mu, L=L, sigma2=sigma2, rank2=rank2, mu_f=mu_f, L_f=L_f,
        sigma2_max=sigma2_max, rank2_min=rank2_min, coupling=coupling,
        row_rank=0.0 if some_g else row_rank,
        mu_h=float(conjugate.mu),
        L_h=float(conjugate.L),
        g_is_zero=not some_g,
        h_prox=problem.h.proximable or conjugate.proximable,
        h_smooth=conjugate.smooth,
        h_linear=conjugate.smooth and conjugate.L == 0,
    )  # fmt: skip


def require_strong_convexity(problem: Problem, method: str) -> None:
    """Refuse problems with an f_i that is not strongly convex and smooth, naming the agents."""
    weak = [i for i, a in zip(problem.owned, problem.agents, strict=True) if not a.f.mu > 0]
    if weak:
        first = next(a for a in problem.agents if not a.f.mu > 0)
        names = ", ".join(map(str, weak[:8])) + (", …" if len(weak) > 8 else "")
        raise CapabilityError(
            f"{method} needs every f_i strongly convex (mu > 0); found mu = {first.f.mu:g} for "
            f"agent {names}: f = {first.f!r}. Add a small quadratic, for instance "
            "f.plus_quadratic(1e-3), or move curvature from g into f."
        )
    for number, agent in zip(problem.owned, problem.agents, strict=True):
        if not np.isfinite(agent.f.L):
            raise CapabilityError(
                f"{method} needs every f_i smooth (finite L); agent {number} has "
                f"f = {agent.f!r}. Put the nonsmooth part into g."
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
