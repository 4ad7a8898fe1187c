"""APAPC and APAPC-Chebyshev: accelerated primal methods for Σ A_i x_i = b.

Problem: min Σ f_i(x_i) subject to Σ A_i x_i = b, with f_i strongly convex and smooth, no g_i. With
y one row per agent and W a gossip matrix the coupling splits into one equation per agent,
A_i x_i + γ(Wy)_i = b/n, that is Bu = b for u = (x, y); APAPC runs on it (Yarmoshik, Rogozin,
Kovalev & Gasnikov, ICLR 2025). The constants stand with their formulas in the list of parameters;
L_A = max σ̄²(A_i), μ_A = λ_min⁺((1/n)Σ A_iA_iᵀ), and μ_W, L_W are the squared extreme eigenvalues of
W.

Plain: W = C and K(u) = Bᵀ(Bu - b). Chebyshev: W = P_K(C) with K = ⌈√κ_C⌉ rounds per product, and
K(u) by ⌈√(L_B/μ_B)⌉ steps of a semi-iteration. Then O(√κ_f) gradients suffice, whatever the rank
of A. A start from (x, λ) begins with y = 0. The iteration, with z = Bᵀζ:

    u_g = τu + (1-τ)u_f
    ū   = (u - η(∇G(u_g) - a u_g + z))/(1 + ηa),     G(u) = f(x) + (r/2)|Bu - b|²,  a = μ_G
    z⁺  = z + θ K(ū)
    u⁺  = (u - η(∇G(u_g) - a u_g + z⁺))/(1 + ηa)
    u_f⁺ = u_g + (2τ/(2-τ))(u⁺ - u)

ζ, which tends to the price in every row, moves along with z.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from dual2.algorithms.needs import POINT_H, STRONG_F, ZERO_G, Needs
from dual2.algorithms.parameters import Parameter, Sourced, Values
from dual2.algorithms.single_loop import SingleLoop, single_loop_method
from dual2.compiled import compiled, inlined
from dual2.engine.gossip import mix
from dual2.engine.local import FAILED, adjoint, apply, grad_f
from dual2.engine.threads import own_rows
from dual2.engine.unowned import unowned
from dual2.network import ChebyshevNetwork, Network
from dual2.problem import Problem
from dual2.runtime import Stacked

Array = np.ndarray
_RANK = 1e-12
"""Eigenvalues of Σ A_iA_iᵀ at or below this fraction of the largest count as zero."""
_LOW, _HIGH = 11 / 15, 19 / 15
"""Where the Chebyshev polynomial of degree ⌈√κ⌉ maps a spectrum of condition κ."""

U, UF, UG, UH, Z, NORMAL, GRAD, POINT, MOVE, SUM, SLOTS = range(11)
"""Rows of the stacks of x and y: the variables, Bᵀ(Bu - b), ∇G - a u_g, and the semi-iteration."""

ZETA, REST, DUAL_MOVE, DUAL_SUM, ROWS = range(5)
"""Rows of the stack of duals: ζ, Bu - b, and the semi-iteration's own."""


class State(NamedTuple):
    """x and y of u, u_f and z; ζ."""

    x: Array
    x_f: Array
    x_z: Array
    y: Array
    y_f: Array
    y_z: Array
    lam: Array


class Rule(NamedTuple):
    """The constants of the iteration; ``nu`` and ``q`` are those of the semi-iteration."""

    tau: float
    eta: float
    a: float
    r: float
    gamma: float
    theta: float
    nu: float
    q: float
    degree: int
    """N, or 0 for K(u) = Bᵀ(Bu - b)."""
    share: Array
    """b/n."""


# -- the compiled iteration: helpers act on a part of a stack, x, y or the duals -----------------


@inlined
def combine(part, t, a, s, b, r):
    """Row t = a · row s + b · row r."""
    S, first, last = part
    for j in range(first, last):
        S[t, j] = a * S[s, j] + b * S[r, j]


@inlined
def predict(part, rule, shrink):
    """GRAD = ∇G(u_g) - a u_g, where ∇f is already there, and ū."""
    S, first, last = part
    for j in range(first, last):
        S[GRAD, j] += rule.r * S[NORMAL, j] - rule.a * S[UG, j]
        S[UH, j] = (S[U, j] - rule.eta * (S[GRAD, j] + S[Z, j])) * shrink


@inlined
def correct(part, rule, shrink):
    """u⁺ and u_f⁺."""
    S, first, last = part
    pull = 2.0 * rule.tau / (2.0 - rule.tau)
    for j in range(first, last):
        new = (S[U, j] - rule.eta * (S[GRAD, j] + S[Z, j])) * shrink
        S[UF, j] = S[UG, j] + pull * (new - S[U, j])
        S[U, j] = new


@inlined
def semi_step(part, source, move, total, k, momentum, omega):
    """Step k of the semi-iteration: what it moves by, and by how much in all."""
    S, first, last = part
    for j in range(first, last):
        S[move, j] = (S[source, j] + (momentum * S[move, j] if k else 0.0)) / omega
        S[total, j] = S[move, j] + (S[total, j] if k else 0.0)


@compiled
def normal_equations(block, links, slot, X, Y, D, rule, member):
    """D[REST] = Bu - b and (X, Y)[NORMAL] = Bᵀ(Bu - b) at u = (X, Y)[slot]; 0 on success."""
    block, X, Y, D = unowned((block, X, Y, D))
    p, gamma = D.shape[2], rule.gamma
    first, last = own_rows(member, D.shape[1])
    ax = np.empty(p)
    mix(links, Y[slot], D[REST], member)
    for i in range(first, last):
        x0, x1 = block.xptr[i], block.xptr[i + 1]
        if apply(block, i, X[slot, x0:x1], ax):
            return FAILED
        for k in range(p):
            D[REST, i, k] = gamma * D[REST, i, k] + ax[k] - rule.share[k]
        if adjoint(block, i, D[REST, i], X[NORMAL, x0:x1]):
            return FAILED
    mix(links, D[REST], Y[NORMAL], member)
    for i in range(first, last):
        for k in range(p):
            Y[NORMAL, i, k] *= gamma
    return 0


@compiled
def apapc_steps(block, links, X, Y, D, rule, steps, member):
    """Advance the rows of this thread by ``steps`` iterations; returns 0, or FAILED."""
    block, links, member, X, Y, D, rule = unowned((block, links, member, X, Y, D, rule))
    n, p, xptr, tau = D.shape[1], D.shape[2], block.xptr, rule.tau
    first, last = own_rows(member, n)
    xs = (X, xptr[first], xptr[last])
    ys = (Y.reshape((SLOTS, n * p)), first * p, last * p)
    duals = (D.reshape((ROWS, n * p)), first * p, last * p)
    shrink = 1.0 / (1.0 + rule.eta * rule.a)
    for _ in range(steps):
        combine(xs, UG, tau, U, 1.0 - tau, UF)
        combine(ys, UG, tau, U, 1.0 - tau, UF)
        if normal_equations(block, links, UG, X, Y, D, rule, member):
            return FAILED
        for i in range(first, last):
            if grad_f(block, i, X[UG, xptr[i] : xptr[i + 1]], X[GRAD, xptr[i] : xptr[i + 1]]):
                return FAILED
        for j in range(ys[1], ys[2]):
            ys[0][GRAD, j] = 0.0
        predict(xs, rule, shrink)
        predict(ys, rule, shrink)
        slot, omega = UH, -0.5 * rule.nu
        for k in range(max(rule.degree, 1)):
            if normal_equations(block, links, slot, X, Y, D, rule, member):
                return FAILED
            if rule.degree == 0:
                break
            momentum = 0.0 if k == 0 else rule.q / omega
            omega = -rule.nu if k == 0 else -(rule.nu + momentum)
            semi_step(xs, NORMAL, MOVE, SUM, k, momentum, omega)
            semi_step(ys, NORMAL, MOVE, SUM, k, momentum, omega)
            semi_step(duals, REST, DUAL_MOVE, DUAL_SUM, k, momentum, omega)
            combine(xs, POINT, 1.0, UH, 1.0, SUM)
            combine(ys, POINT, 1.0, UH, 1.0, SUM)
            omega, slot = -0.5 * rule.nu if k == 0 else omega, POINT
        plain = rule.degree == 0
        move, rows, sign = (NORMAL, REST, rule.theta) if plain else (SUM, DUAL_SUM, -rule.theta)
        combine(xs, Z, 1.0, Z, sign, move)
        combine(ys, Z, 1.0, Z, sign, move)
        combine(duals, ZETA, 1.0, ZETA, sign, rows)
        correct(xs, rule, shrink)
        correct(ys, rule, shrink)
    return 0


# -- the algorithm -----------------------------------------------------------------------------


class APAPC(SingleLoop):
    """The iteration on one block of agents, whose network's matrix is W; see the module's text."""

    conserved = "y"

    def __init__(self, runtime: Stacked, values: Values) -> None:
        super().__init__(runtime, values)
        rt, v, degree = runtime, values, values.semi_iteration
        nu, q = (v.L_B + v.mu_B) / 2, (v.L_B - v.mu_B) ** 2 / 16
        share = rt.problem.h.conjugate.grad(np.zeros(rt.p)) / rt.problem.n
        self.rule = Rule(v.tau, v.eta, v.mu_G, v.r, v.gamma, v.theta, nu, q, degree, share)
        products = 1 + max(degree, 1)
        self.stride = self.sent = 2 * products * rt.network.rounds
        self.calls = {"grad_f": 1, "A": products, "AT": products}
        self.X, self.Y = np.zeros((SLOTS, rt.packed.size)), np.zeros((SLOTS, rt.n, rt.p))
        self.D = np.zeros((ROWS, rt.n, rt.p))
        parts = [stack[slot] for stack in (self.X, self.Y) for slot in (U, UF, Z)]
        self.now = State._make([*parts, self.D[ZETA]])

    def begin(self, x: Array, lam: Array) -> None:
        """u = (x, 0), ζ = λ, z = Bᵀζ."""
        rt, now = self.runtime, self.now
        now.x[:], now.x_f[:], now.lam[:] = x, x, lam
        if rt.anywhere(lam):
            now.x_z[:] = rt.adjoints(np.ascontiguousarray(lam))
            now.y_z[:] = self.values.gamma * rt.mix(lam)
            self.rounds = self.vectors = rt.network.rounds

    def step(self, steps: int) -> None:
        """Run the compiled loop."""
        rt = self.runtime
        rt.run(apapc_steps, rt.block, rt.links, self.X, self.Y, self.D, self.rule, steps)

    def explain(self) -> str:
        """The condition numbers that decide."""
        v = self.values
        return (
            f"κ_G = {v.L_G / v.mu_G:.4g}, κ_B = {v.L_B / v.mu_B:.4g}. The whole A needs no rank "
            "condition."
        )


# -- parameters --------------------------------------------------------------------------------


def smallest_coupling(problem: Problem) -> float:
    """μ_A: the smallest nonzero eigenvalue of (1/n) Σ A_iA_iᵀ (1 if all A_i are zero).

    Examples
    --------
    >>> import dual2 as d2
    >>> agents = [d2.Agent([[2.0], [0.0]], d2.SquaredNorm(1.0))] * 2
    >>> smallest_coupling(d2.Problem(agents, d2.IndicatorPoint([1.0, 0.0])))
    4.0
    """
    basis, p = np.eye(problem.p), problem.p
    square = lambda agent: np.column_stack([agent.apply(agent.adjoint(e)) for e in basis])  # noqa: E731
    total = problem.total([square(agent).ravel() for agent in problem.agents]).reshape(p, p)
    values = np.linalg.eigvalsh((total + total.T) / 2) / problem.n
    kept = values[values > _RANK * max(values[-1], 0.0)]
    return float(kept[0]) if kept.size and kept[0] > 0 else 1.0


def _fast(v: Values) -> bool:
    return v.method == "APAPC-Chebyshev"


def _spectrum(v: Values) -> tuple[float, float]:
    """μ_W and L_W."""
    alone = v.network.n == 1
    return (1.0, 1.0) if alone else (v.network.lambda_min**2, v.network.lambda_max**2)


def _tau(v: Values) -> Sourced:
    kappa_K = _HIGH / _LOW if _fast(v) else v.L_B / v.mu_B
    tau = min(1.0, 0.5 * math.sqrt(kappa_K * v.mu_G / v.L_G))
    return Sourced(tau, "theorem: min(1, ½√(κ_K/κ_G))")


def _L_G(v: Values) -> float:
    (mu_W, L_W), facts = _spectrum(v), v.facts
    return max(facts.L_f + facts.mu_f, facts.mu_f * (v.mu_A + v.L_A) / v.L_A * L_W / mu_W)


def _L_B(v: Values) -> float:
    mu_W, L_W = _spectrum(v)
    return v.L_A + (v.L_A + v.mu_A) * L_W / mu_W


def _theta(v: Values) -> Sourced:
    return Sourced(1 / (v.eta * (_HIGH if _fast(v) else v.L_B)), "theorem: 1/(ηL_K)")


def _told(name: str, source: str, rule: Any) -> Parameter:
    return Parameter(name, source, rule, free=False)


_DECLARED = (
    Parameter("tau", "theorem", _tau),
    Parameter("eta", "theorem", lambda v: Sourced(1 / (4 * v.tau * v.L_G), "theorem: 1/(4τL_G)")),
    Parameter("theta", "theorem", _theta),
    _told("L_A", "max σ̄²(A_i)", lambda v: v.facts.sigma2_max or 1.0),
    _told("mu_A", "λ_min⁺((1/n)Σ A_iA_iᵀ)", lambda v: smallest_coupling(v.problem)),
    _told(
        "gamma", "theorem: γ² = (μ_A + L_A)/μ_W",
        lambda v: math.sqrt((v.mu_A + v.L_A) / _spectrum(v)[0]),
    ),
    _told("r", "theorem: μ_f/(2L_A)", lambda v: v.facts.mu_f / (2 * v.L_A)),
    _told(
        "mu_G", "theorem: μ_f min(½, (μ_A + L_A)/(4L_A))",
        lambda v: v.facts.mu_f * min(0.5, (v.mu_A + v.L_A) / (4 * v.L_A)),
    ),
    _told("L_G", "theorem: max(L_f + μ_f, μ_f (μ_A + L_A)L_W/(L_A μ_W))", _L_G),
    _told("mu_B", "theorem: μ_A/2", lambda v: v.mu_A / 2),
    _told("L_B", "theorem: L_A + (L_A + μ_A)L_W/μ_W", _L_B),
    _told(
        "rounds_per_mix", "⌈√κ_C⌉ with Chebyshev, else 1", lambda v: int(v.network.rounds)
    ),
    _told(
        "semi_iteration", "⌈√(L_B/μ_B)⌉ with Chebyshev, else 0",
        lambda v: math.ceil(math.sqrt(v.L_B / v.mu_B)) if _fast(v) else 0,
    ),
)  # fmt: skip


# -- the table ---------------------------------------------------------------------------------


def polynomial(network: Network | ChebyshevNetwork) -> Network | ChebyshevNetwork:
    """The network's Chebyshev polynomial of degree ⌈√κ_C⌉."""
    if not isinstance(network, Network) or network.n == 1:
        return network
    return network.chebyshev(math.ceil(math.sqrt(network.kappa)))


APAPC_METHODS = [
    single_loop_method(
        name, APAPC, summary, Needs(STRONG_F, ZERO_G, POINT_H), _DECLARED, prepare,
        rounds=rounds, vectors=rounds, reveals="rows y_i, residuals A_i x_i + γ(Wy)_i - b/n",
    )
    for name, summary, prepare, rounds in (
        ("APAPC", "accelerated proximal alternating predictor-corrector", None, "4"),
        (
            "APAPC-Chebyshev",
            "APAPC with K = ⌈√κ_C⌉ rounds per mixing and N = ⌈√(L_B/μ_B)⌉ steps for the coupling",
            polynomial, "2K(1+N)",
        ),
    )
]  # fmt: skip
"""Plain and with Chebyshev acceleration."""
