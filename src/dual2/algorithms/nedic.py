"""The accelerated weighted gradient method of Nedić, Olshevsky and Shi for Σ x_i = b.

Problem: min Σ f_i(x_i) subject to Σ x_i = b (A_i = I, no g_i). From a feasible x = y,

    x⁺ = y - C ∇f(y)/(L_f λ_max(C)),      y⁺ = x⁺ + q (x⁺ - x),
    q = (√κ - 1)/(√κ + 1),  κ = κ_f κ_C:

computed as δ⁺ = qδ - step·C∇f(x + qδ), x⁺ = x + δ⁺, so that rounding leaves Σx alone once δ is
small. This is Nesterov's method on z ↦ f(x⁰ + √C z): the error falls like (1 - 1/√κ)^k, and every
iterate is feasible. What travels is the **gradient** ∇f_i(y_i). Reconstructed from eq. (80) of
"Improved convergence rates for distributed resource allocation", 2018. The price of agent i is
-∇f_i(y_i).
"""

import time
from typing import Any

import numpy as np

from dual2.algorithms.method import Method, Needs, Plan, Settings
from dual2.algorithms.needs import identity_A, point_h, zero_g
from dual2.algorithms.parameters import given_parameters, positive
from dual2.compiled import compiled
from dual2.engine.gossip import mix
from dual2.engine.local import FAILED, SIMPLE_F, grad_f
from dual2.engine.threads import own_rows
from dual2.engine.unowned import unowned
from dual2.errors import CapabilityError
from dual2.network import ChebyshevNetwork, Network
from dual2.problem import Problem
from dual2.runtime import Stacked, place
from dual2.theory import gather_facts, momentum
from dual2.theory.conditions import strong

Array = np.ndarray
_X, _MOVE, _Y = range(3)
"""Rows of the stack: x, δ and y = x + qδ."""


@compiled
def gradients(block, P, G, member):
    """G[0]_i = ∇f_i(y_i) on the rows of this thread; 0 on success."""
    block, P, G = unowned(block), unowned(P), unowned(G)
    first, last = own_rows(member, G.shape[1])
    for i in range(first, last):
        if block.fkind[i] == SIMPLE_F:
            for k in range(G.shape[2]):
                j = block.xptr[i] + k
                G[0, i, k] = block.fcoef[0, j] * P[_Y, i, k] + block.fcoef[1, j]
        elif grad_f(block, i, P[_Y, i], G[0, i]):
            return FAILED
    return 0


@compiled
def nedic_steps(block, links, P, G, step, q, steps, member):
    """Advance by ``steps`` iterations; P = (x, δ, y), G = (∇f(y), C∇f(y)). Returns 0, or FAILED."""
    block, links, member, P, G = (
        unowned(block), unowned(links), unowned(member), unowned(P), unowned(G)
    )  # fmt: skip
    first, last = own_rows(member, G.shape[1])
    for _ in range(steps):
        mix(links, G, 0, G, 1, member)
        for i in range(first, last):
            for k in range(G.shape[2]):
                move = q * P[_MOVE, i, k] - step * G[1, i, k]
                P[_X, i, k] += move
                P[_MOVE, i, k] = move
                P[_Y, i, k] = P[_X, i, k] + q * move
        if gradients(block, P, G, member):
            return FAILED
    return 0


class Nedic:
    """The iteration on one block of agents; see the module's text.

    Parameters
    ----------
    runtime : Stacked
        The rows, their exchange and agreement.
    step, q : float
        Step size and momentum.
    """

    def __init__(self, runtime: Stacked, step: float, q: float) -> None:
        self.runtime, self.step, self.q = runtime, step, q
        self._seconds = 1e-6

    # -- start, save, restore ------------------------------------------------------------------
    def start(self, x: Array, lam: Array) -> None:
        """Begin from the feasible point nearest to x; λ is not used."""
        rt = self.runtime
        rows = np.array(x, dtype=float).reshape(rt.n, rt.p)
        n = rt.problem.n
        share = rt.problem.h.conjugate.grad(np.zeros(rt.p)) / n
        rows = rows + share - (rt.agree_sum(rows) / n if rt.anywhere(x) else 0.0)
        self.P = np.stack([rows, np.zeros_like(rows), rows])
        self.G = np.zeros((2, rt.n, rt.p))
        self.iterations = 0
        rt.run(gradients, rt.block, self.P, self.G)
        self._run(0)

    def state(self) -> dict[str, Any]:
        """Everything needed to continue bit for bit."""
        return {"P": self.P, "G": self.G, "iterations": self.iterations}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a saved :meth:`state`."""
        self.P, self.G = np.array(state["P"]), np.array(state["G"])
        self.iterations = int(state["iterations"])

    # -- what others read ------------------------------------------------------------------------
    @property
    def x(self) -> Array:
        """Flat primal iterate, feasible."""
        return self.P[_X].ravel()

    @property
    def duals(self) -> Array:
        """-∇f_i(y_i), one row per agent."""
        return -self.G[0]

    @property
    def stride(self) -> int:
        """Rounds of one iteration: one product with C."""
        return self.runtime.network.rounds

    @property
    def rounds(self) -> int:
        """Exchanges with the neighbours so far."""
        return self.iterations * self.stride

    @property
    def vectors(self) -> int:
        """Gradients sent to each neighbour so far."""
        return self.rounds

    def oracle_calls(self) -> dict[str, int]:
        """Calls so far: gradients only, one of them at the start."""
        none = dict.fromkeys(("prox_g", "A", "AT", "prox_h"), 0)
        return none | {"grad_f": self.iterations + 1, "iterations": self.iterations}

    # -- the loop --------------------------------------------------------------------------------
    def advance(self, rounds: int, seconds: float) -> None:
        """Continue until ``rounds`` exchanges or for about ``seconds``, whatever comes first."""
        end = time.perf_counter() + seconds
        while self.rounds < rounds and (begun := time.perf_counter()) < end:
            wanted = -(-(rounds - self.rounds) // self.stride)
            steps = min(wanted, max(1, int((end - begun) / self._seconds)))
            self._run(steps)
            self.iterations += steps
            if steps >= 10:
                self._seconds = max((time.perf_counter() - begun) / steps, 1e-8)

    def _run(self, steps: int) -> None:
        rt = self.runtime
        rt.run(nedic_steps, rt.block, rt.links, self.P, self.G, self.step, self.q, steps)


def plan_nedic(problem: Problem, network: Network | ChebyshevNetwork, settings: Settings) -> Plan:
    """Step 1/(L_f λ_max) and momentum of √(κ_f κ_C), unless given."""
    given = given_parameters(settings, ("step", "momentum"))
    facts = gather_facts(problem)
    rule = 1.0 / (facts.L_f * network.lambda_max) if network.n > 1 else 1.0
    step = positive("step", given.get("step", rule))
    q = given.get("momentum", momentum(facts.kappa_f * network.kappa))
    if not 0 <= q < 1:
        raise CapabilityError(f"momentum = {q!r} found; expected 0 ≤ momentum < 1.")
    runtime = place(problem, network)
    source = lambda name, why: "given" if name in given else why  # noqa: E731
    parameters: dict[str, tuple[Any, str]] = {
        "method": (settings.method, "given"),
        "step": (step, source("step", "theorem: 1/(L_f λ_max)")),
        "momentum": (float(q), source("momentum", "theorem: (√κ-1)/(√κ+1), κ = κ_f κ_C")),
        "rounds_per_iteration": (int(network.rounds), "one product with C"),
        "vectors_per_iteration": (int(network.rounds), "one per round"),
    }
    kappa = facts.kappa_f * network.kappa
    text = (
        f"Nedic: Nesterov's method with κ_f κ_C = {kappa:.4g}. Agents send their "
        "gradients; every iterate is feasible."
    )
    return Plan(Nedic(runtime, step, float(q)), runtime, parameters, text)


NEDIC_METHODS = [
    Method(
        "Nedic", plan_nedic, "accelerated weighted gradient descent, eq. (80)",
        Needs("strongly convex, smooth", "zero", "a point", "identity", test_f=strong,
              test_g=zero_g, test_h=point_h, test_A=identity_A),
        sources={
            "step": "1/(L_f λ_max) (theorem)",
            "momentum": "(√κ-1)/(√κ+1), κ = κ_f κ_C (theorem)",
        },
        reconstructed=True, reveals="gradients ∇f_i",
    ),
]  # fmt: skip
"""The method and its conditions."""
