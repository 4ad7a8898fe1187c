"""APAPC and APAPC-Chebyshev: accelerated primal methods for Σ A_i x_i = b.

Problem: min Σ f_i(x_i) subject to Σ A_i x_i = b, with f_i strongly convex and smooth, no g_i. With
y one row per agent and W a gossip matrix the coupling splits into one equation per agent,
A_i x_i + γ(Wy)_i = b/n, that is Bu = b for u = (x, y); APAPC runs on it (Yarmoshik, Rogozin,
Kovalev & Gasnikov, ICLR 2025). With L_A = max σ̄²(A_i), μ_A = λ_min⁺((1/n)Σ A_iA_iᵀ), and
μ_W, L_W the squared extreme eigenvalues of W,

    r = μ_f/(2L_A),  γ² = (μ_A + L_A)/μ_W,  μ_B = μ_A/2,  L_B = L_A + (L_A + μ_A)L_W/μ_W,
    μ_G = μ_f min(½, (μ_A + L_A)/(4L_A)),  L_G = max(L_f + μ_f, μ_f (μ_A + L_A)L_W/(L_A μ_W)).

Plain: W = C and K(u) = Bᵀ(Bu - b). Chebyshev: W = P_K(C) with K = ⌈√κ_C⌉ rounds per product, and
K(u) by ⌈√(L_B/μ_B)⌉ steps of a semi-iteration. Then O(√κ_f) gradients suffice, whatever the rank
of A. A start from (x, λ) begins with y = 0. The loop is :mod:`dual2.methods.gossip.apapc_kernel`.
"""

import math

import numpy as np

from dual2.methods.gossip.apapc_kernel import (
    ROWS,
    SLOTS,
    UF,
    ZETA,
    APAPCConstants,
    APAPCState,
    U,
    Z,
    apapc_steps,
)
from dual2.methods.gossip.single_loop import SingleLoop, single_loop_method
from dual2.methods.parameters import Parameter, Sourced, Values
from dual2.network import AnyNetwork, Network
from dual2.problem import Problem
from dual2.runtime import Runtime
from dual2.theory.conditions import POINT_H, STRONG_F, ZERO_G, Needs

Array = np.ndarray
_RANK = 1e-12
"""Eigenvalues of Σ A_iA_iᵀ at or below this fraction of the largest count as zero."""
_LOW, _HIGH = 11 / 15, 19 / 15
"""Where the Chebyshev polynomial of degree ⌈√κ⌉ maps a spectrum of condition κ."""


class APAPC(SingleLoop):
    """The iteration on one block of agents, whose network's matrix is W; see the module's text."""

    conserved = "y"

    def __init__(self, runtime: Runtime, values: Values) -> None:
        super().__init__(runtime, values)
        rt, v, degree, c = runtime, values, values.semi_iteration, values.once(constants)
        nu, q = (c["L_B"] + c["mu_B"]) / 2, (c["L_B"] - c["mu_B"]) ** 2 / 16
        share = rt.problem.h.conjugate.grad(np.zeros(rt.p)) / rt.problem.n
        self.rule = APAPCConstants(
            v.tau, v.eta, c["mu_G"], v.r, v.gamma, v.theta, nu, q, degree, share
        )
        products = 1 + max(degree, 1)
        self.stride = self.sent = 2 * products * rt.network.rounds
        self.calls = {"grad_f": 1, "A": products, "AT": products}
        self.X, self.Y = np.zeros((SLOTS, rt.packed.size)), np.zeros((SLOTS, rt.n, rt.p))
        self.D = np.zeros((ROWS, rt.n, rt.p))
        parts = [stack[slot] for stack in (self.X, self.Y) for slot in (U, UF, Z)]
        self.current = APAPCState._make([*parts, self.D[ZETA]])

    def begin(self, x: Array, lam: Array) -> None:
        """u = (x, 0), ζ = λ, z = Bᵀζ."""
        rt, current = self.runtime, self.current
        current.x[:], current.x_f[:], current.lam[:] = x, x, lam
        if rt.anywhere(lam):
            current.x_z[:] = rt.adjoints(np.ascontiguousarray(lam))
            current.y_z[:] = self.values.gamma * rt.mix(lam)
            self.rounds = self.vectors = rt.network.rounds

    def step(self, steps: int) -> None:
        """Run the compiled loop."""
        rt = self.runtime
        rt.run(apapc_steps, rt.block, rt.links, self.X, self.Y, self.D, self.rule, steps)

    def explain(self) -> str:
        """The condition numbers that decide."""
        c = self.values.once(constants)
        kappa_G, kappa_B = c["L_G"] / c["mu_G"], c["L_B"] / c["mu_B"]
        return f"κ_G = {kappa_G:.4g}, κ_B = {kappa_B:.4g}. The whole A needs no rank condition."


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


def constants(v: Values) -> dict[str, float]:
    """What the theorems give beside the step sizes."""
    facts, network, fast = v.facts, v.network, v.method == "APAPC-Chebyshev"
    L_A, mu_A = facts.sigma2_max or 1.0, smallest_coupling(v.problem)
    alone = network.n == 1
    mu_W, L_W = (1.0, 1.0) if alone else (network.lambda_min**2, network.lambda_max**2)
    mu_B, L_B = mu_A / 2, L_A + (L_A + mu_A) * L_W / mu_W
    return {
        "gamma": math.sqrt((mu_A + L_A) / mu_W),
        "r": facts.mu_f / (2 * L_A),
        "mu_A": mu_A,
        "mu_G": facts.mu_f * min(0.5, (mu_A + L_A) / (4 * L_A)),
        "L_G": max(facts.L_f + facts.mu_f, facts.mu_f * (mu_A + L_A) / L_A * L_W / mu_W),
        "mu_B": mu_B,
        "L_B": L_B,
        "L_K": _HIGH if fast else L_B,
        "kappa_K": _HIGH / _LOW if fast else L_B / mu_B,
        "rounds_per_mix": int(network.rounds),
        "semi_iteration": math.ceil(math.sqrt(L_B / mu_B)) if fast else 0,
    }


def _tau(v: Values) -> float:
    c = v.once(constants)
    tau = min(1.0, 0.5 * math.sqrt(c["kappa_K"] * c["mu_G"] / c["L_G"]))
    return Sourced(tau, "theorem: min(1, ½√(κ_K/κ_G))")


def _eta(v: Values) -> float:
    return Sourced(1 / (4 * v.tau * v.once(constants)["L_G"]), "theorem: 1/(4τL_G)")


def _theta(v: Values) -> float:
    return Sourced(1 / (v.eta * v.once(constants)["L_K"]), "theorem: 1/(ηL_K)")


def _told(name: str, source: str) -> Parameter:
    return Parameter(name, source, lambda v: v.once(constants)[name], free=False)


_DECLARED = (
    Parameter("tau", "theorem", _tau),
    Parameter("eta", "theorem", _eta),
    Parameter("theta", "theorem", _theta),
    _told("gamma", "theorem: γ² = (μ_A + L_A)/μ_W"),
    _told("r", "theorem: μ_f/(2L_A)"),
    _told("mu_A", "smallest nonzero eigenvalue of (1/n)Σ A_iA_iᵀ"),
    _told("rounds_per_mix", "⌈√κ_C⌉ with Chebyshev, else 1"),
    _told("semi_iteration", "⌈√(L_B/μ_B)⌉ with Chebyshev, else 0"),
)


# -- the table ---------------------------------------------------------------------------------


def polynomial(network: AnyNetwork) -> AnyNetwork:
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
