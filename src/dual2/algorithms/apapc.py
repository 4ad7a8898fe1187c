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
of A. The loop is :mod:`dual2.algorithms.apapc_kernel`. A start from (x, λ) begins with y = 0.
"""

import math
import time
from typing import Any

import numpy as np

from dual2.algorithms.apapc_kernel import ROWS, SLOTS, UF, ZETA, U, Z, apapc_steps
from dual2.algorithms.method import Method, Needs, Plan, Settings
from dual2.algorithms.needs import point_h, zero_g
from dual2.algorithms.parameters import given_parameters, positive
from dual2.network import ChebyshevNetwork, Network
from dual2.problem import Problem
from dual2.runtime import Stacked, place
from dual2.theory import gather_facts
from dual2.theory.conditions import strong

Array = np.ndarray
_RANK = 1e-12
"""Eigenvalues of Σ A_iA_iᵀ at or below this fraction of the largest count as zero."""
_LOW, _HIGH = 11 / 15, 19 / 15
"""Where the Chebyshev polynomial of degree ⌈√κ⌉ maps a spectrum of condition κ."""


class APAPC:
    """The iteration on one block of agents; see the module's text.

    Parameters
    ----------
    runtime : Stacked
        The rows and their exchange; its network's matrix is W.
    constants : ndarray
        In the order of the kernel: τ, η, a, r, γ, θ and the two of the semi-iteration.
    degree : int
        Steps of the semi-iteration, 0 without.
    """

    def __init__(self, runtime: Stacked, constants: Array, degree: int) -> None:
        self.runtime, self.constants, self.degree = runtime, constants, degree
        p = runtime.p
        self._share = runtime.problem.h.conjugate.grad(np.zeros(p)) / runtime.problem.n
        self._seconds = 1e-5

    # -- start, save, restore ------------------------------------------------------------------
    def start(self, x: Array, lam: Array) -> None:
        """Begin from x (flat) and λ (n, p): u = (x, 0), ζ = λ, z = Bᵀζ."""
        rt = self.runtime
        self.iterations, self._first = 0, 0
        self._allocate()
        self.X[U], self.X[UF], self.D[ZETA] = x, x, lam
        if rt.anywhere(lam):
            self.X[Z] = rt.adjoints(np.ascontiguousarray(lam))
            self.Y[Z] = self.constants[4] * rt.mix(lam)
            self._first = rt.network.rounds
        self._run(0)

    def _allocate(self) -> None:
        rt = self.runtime
        self.X, self.Y = np.zeros((SLOTS, rt.packed.size)), np.zeros((SLOTS, rt.n, rt.p))
        self.D = np.zeros((ROWS, rt.n, rt.p))

    def state(self) -> dict[str, Any]:
        """Everything needed to continue bit for bit."""
        slots = (U, UF, Z)
        kept = {"u": slots[0], "uf": slots[1], "z": slots[2]}
        return {
            **{f"x_{name}": self.X[slot] for name, slot in kept.items()},
            **{f"y_{name}": self.Y[slot] for name, slot in kept.items()},
            "zeta": self.D[ZETA], "iterations": self.iterations, "first": self._first,
        }  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a saved :meth:`state`."""
        self._allocate()
        for name, slot in (("u", U), ("uf", UF), ("z", Z)):
            self.X[slot], self.Y[slot] = state[f"x_{name}"], state[f"y_{name}"]
        self.D[ZETA] = state["zeta"]
        self.iterations, self._first = int(state["iterations"]), int(state["first"])

    # -- what others read ------------------------------------------------------------------------
    @property
    def x(self) -> Array:
        """Flat primal iterate."""
        return self.X[U]

    @property
    def duals(self) -> Array:
        """ζ, one row per agent."""
        return self.D[ZETA]

    @property
    def products(self) -> int:
        """Evaluations of Bᵀ(Bu - b) in one iteration."""
        return 1 + max(self.degree, 1)

    @property
    def stride(self) -> int:
        """Rounds of one iteration: two products with W for each Bᵀ(Bu - b)."""
        return 2 * self.products * self.runtime.network.rounds

    @property
    def rounds(self) -> int:
        """Exchanges with the neighbours so far."""
        return self._first + self.iterations * self.stride

    @property
    def vectors(self) -> int:
        """p-vectors sent to each neighbour so far: one per round."""
        return self.rounds

    def oracle_calls(self) -> dict[str, int]:
        """Calls so far."""
        k = self.iterations
        both = k * self.products
        return {"grad_f": k, "prox_g": 0, "A": both, "AT": both, "prox_h": 0, "iterations": k}

    # -- the loop --------------------------------------------------------------------------------
    def advance(self, rounds: int, seconds: float) -> None:
        """Continue until ``rounds`` exchanges or for about ``seconds``, whatever comes first."""
        end = time.perf_counter() + seconds
        while self.rounds < rounds and (begun := time.perf_counter()) < end:
            wanted = -(-(rounds - self.rounds) // self.stride)
            steps = min(wanted, max(1, int((end - begun) / self._seconds)))
            self._run(steps)
            self.iterations += steps
            self._seconds = max((time.perf_counter() - begun) / steps, 1e-8)

    def _run(self, steps: int) -> None:
        rt = self.runtime
        rt.run(
            apapc_steps, rt.block, rt.links, self.X, self.Y, self.D, self._share, self.constants,
            self.degree, steps,
        )  # fmt: skip


# -- planning ----------------------------------------------------------------------------------


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


def plan_apapc(problem: Problem, network: Network | ChebyshevNetwork, settings: Settings) -> Plan:
    """All parameters by the theorems; η, τ and θ may be given."""
    given = given_parameters(settings, ("eta", "tau", "theta"))
    fast = settings.method == "APAPC-Chebyshev"
    if fast and isinstance(network, Network) and network.n > 1:
        network = network.chebyshev(math.ceil(math.sqrt(network.kappa)))
    facts = gather_facts(problem)
    L_A, mu_A = facts.sigma2_max or 1.0, smallest_coupling(problem)
    alone = network.n == 1
    mu_W, L_W = (1.0, 1.0) if alone else (network.lambda_min**2, network.lambda_max**2)
    gamma = math.sqrt((mu_A + L_A) / mu_W)
    mu_G = facts.mu_f * min(0.5, (mu_A + L_A) / (4 * L_A))
    L_G = max(facts.L_f + facts.mu_f, facts.mu_f * (mu_A + L_A) / L_A * L_W / mu_W)
    mu_B, L_B = mu_A / 2, L_A + (L_A + mu_A) * L_W / mu_W
    degree = math.ceil(math.sqrt(L_B / mu_B)) if fast else 0
    L_K, kappa_K = (_HIGH, _HIGH / _LOW) if fast else (L_B, L_B / mu_B)
    tau = positive("tau", given.get("tau", min(1.0, 0.5 * math.sqrt(kappa_K * mu_G / L_G))))
    eta = positive("eta", given.get("eta", 1 / (4 * tau * L_G)))
    theta = positive("theta", given.get("theta", 1 / (eta * L_K)))
    r, middle, spread = facts.mu_f / (2 * L_A), (L_B + mu_B) / 2, (L_B - mu_B) ** 2 / 16
    constants = np.array([tau, eta, mu_G, r, gamma, theta, middle, spread])
    runtime = place(problem, network)
    algorithm = APAPC(runtime, constants, degree)
    source = lambda name, why: "given" if name in given else why  # noqa: E731
    parameters: dict[str, tuple[Any, str]] = {
        "method": (settings.method, "given"),
        "tau": (tau, source("tau", "theorem: min(1, ½√(κ_K/κ_G))")),
        "eta": (eta, source("eta", "theorem: 1/(4τL_G)")),
        "theta": (theta, source("theta", "theorem: 1/(ηL_K)")),
        "gamma": (gamma, "theorem: γ² = (μ_A + L_A)/μ_W"),
        "r": (r, "theorem: μ_f/(2L_A)"),
        "mu_A": (mu_A, "smallest nonzero eigenvalue of (1/n)Σ A_iA_iᵀ"),
        "rounds_per_mix": (int(network.rounds), "⌈√κ_C⌉ with Chebyshev, else 1"),
        "semi_iteration": (degree, "⌈√(L_B/μ_B)⌉ with Chebyshev, else 0"),
        "rounds_per_iteration": (algorithm.stride, "two products with W per Bᵀ(Bu - b)"),
        "vectors_per_iteration": (algorithm.stride, "one per round"),
    }
    text = (
        f"{settings.method}: κ_G = {L_G / mu_G:.4g}, κ_B = {L_B / mu_B:.4g}; {algorithm.stride} "
        "rounds in each iteration. The whole A needs no rank condition."
    )
    return Plan(algorithm, runtime, parameters, text)


_NEEDS = Needs(
    "strongly convex, smooth", "zero", "a point", test_f=strong, test_g=zero_g, test_h=point_h
)
_REVEALS = "rows y_i, residuals A_i x_i + γ(Wy)_i - b/n"
_SOURCES = {"tau, eta, theta": "theorem"}
APAPC_METHODS = [
    Method(
        "APAPC", plan_apapc, "accelerated proximal alternating predictor-corrector", _NEEDS,
        rounds="4", vectors="4", sources=_SOURCES, reveals=_REVEALS,
    ),
    Method(
        "APAPC-Chebyshev", plan_apapc,
        "APAPC with K = ⌈√κ_C⌉ rounds per mixing and N = ⌈√(L_B/μ_B)⌉ steps for the coupling",
        _NEEDS, rounds="2K(1+N)", vectors="2K(1+N)", sources=_SOURCES, reveals=_REVEALS,
    ),
]  # fmt: skip
"""Plain and with Chebyshev acceleration."""
