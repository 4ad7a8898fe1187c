"""The scalars that the theory needs about a problem: maxima and minima over the agents."""

from dataclasses import dataclass

import numpy as np

from dual2.errors import CapabilityError
from dual2.functions import Zero
from dual2.problem import Problem


@dataclass(frozen=True)
class Facts:
    """What is known of (P1) before any iteration.

    Attributes
    ----------
    n : int
        Number of agents.
    mu_f, L_f : float
        μ_f = min μ_i and L_f = max L_i.
    mu, L : ndarray
        μ_i and L_i of each f_i.
    sigma2 : ndarray
        σ̄²(A_i), the largest squared singular value, of each agent.
    rank2 : ndarray
        λ_min(A_iA_iᵀ), zero unless A_i has full row rank, NaN if unknown.
    mu_h, L_h : float
        Strong convexity and smoothness of the conjugate h*.
    g_is_zero : bool
        Whether all g_i = 0.
    h_prox, h_smooth : bool
        Whether prox_{h*} and ∇h* can be computed.
    h_linear : bool
        Whether h* is linear (h is the indicator of a point).
    """

    n: int
    mu: np.ndarray
    L: np.ndarray
    sigma2: np.ndarray
    rank2: np.ndarray
    mu_h: float
    L_h: float
    g_is_zero: bool
    h_prox: bool
    h_smooth: bool
    h_linear: bool

    @property
    def mu_f(self) -> float:
        """min_i μ_i."""
        return float(self.mu.min())

    @property
    def L_f(self) -> float:
        """max_i L_i."""
        return float(self.L.max())

    @property
    def coupling(self) -> float:
        """max_i σ̄²(A_i)/μ_i, the smoothness of φ (infinite if some f_i is not strongly convex)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(self.sigma2 == 0, 0.0, self.sigma2 / self.mu)
        return float(ratio.max())

    @property
    def coupling_paper(self) -> float:
        """σ̄²(𝐀)/μ_f, the printed bound of the same constant."""
        return float(self.sigma2.max()) / self.mu_f

    @property
    def row_rank(self) -> float:
        """min_i σ²_min(A_i)/L_i if all g_i = 0, else 0: the strong convexity that φ has."""
        if not self.g_is_zero or np.any(np.isnan(self.rank2)):
            return 0.0
        return float((self.rank2 / self.L).min())

    @property
    def kappa_pd(self) -> float:
        """κ_pd = σ̄²(𝐀) n/(μ_f μ_{h*}), infinite if h* is not strongly convex."""
        return self.coupling_paper * self.n / self.mu_h if self.mu_h > 0 else float("inf")

    @property
    def kappa_f(self) -> float:
        """κ_f = L_f/μ_f."""
        return self.L_f / self.mu_f


def gather_facts(problem: Problem) -> Facts:
    """Collect the scalars of a problem.

    Examples
    --------
    >>> import numpy as np, dual2 as d2
    >>> agents = [d2.Agent(np.eye(2), d2.SquaredNorm(2.0)) for _ in range(3)]
    >>> facts = gather_facts(d2.Problem(agents, d2.IndicatorPoint(np.ones(2))))
    >>> facts.coupling, facts.row_rank, facts.h_linear
    (0.5, 0.5, True)
    """
    conjugate = problem.h.conjugate
    return Facts(
        n=problem.n,
        mu=np.array([a.f.mu for a in problem.agents], dtype=float),
        L=np.array([a.f.L for a in problem.agents], dtype=float),
        sigma2=np.asarray(problem.sigma.max2, dtype=float),
        rank2=np.asarray(problem.sigma.min2, dtype=float),
        mu_h=float(conjugate.mu),
        L_h=float(conjugate.L),
        g_is_zero=all(isinstance(a.g, Zero) for a in problem.agents),
        h_prox=problem.h.proximable or conjugate.proximable,
        h_smooth=conjugate.smooth,
        h_linear=conjugate.smooth and conjugate.L == 0,
    )


def require_strong_convexity(problem: Problem, method: str) -> None:
    """Refuse problems with an f_i that is not strongly convex and smooth, naming the agents."""
    weak = [i for i, a in enumerate(problem.agents) if not a.f.mu > 0]
    if weak:
        first = problem.agents[weak[0]]
        names = ", ".join(map(str, weak[:8])) + (", …" if len(weak) > 8 else "")
        raise CapabilityError(
            f"{method} needs every f_i strongly convex (mu > 0); found mu = {first.f.mu:g} for "
            f"agent(s) {names}: f = {first.f!r}. Add a small quadratic, for instance "
            "f.plus_quadratic(1e-3), or move curvature from g into f."
        )
    rough = [i for i, a in enumerate(problem.agents) if not np.isfinite(a.f.L)]
    if rough:
        raise CapabilityError(
            f"{method} needs every f_i smooth (finite L); agent {rough[0]} has "
            f"f = {problem.agents[rough[0]].f!r}. Put the nonsmooth part into g."
        )
