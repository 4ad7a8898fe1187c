"""IDEA and Proj-IDEA: a saddle flow in continuous time, integrated numerically.

The problem is min Σ f_i(x_i) + g_i(x_i) subject to Σ A_i x_i = b, with g_i = 0 or, for Proj-IDEA,
the indicator of a closed convex set. With b_i = b/n and the implicit tracker d = 𝐀x - b - y of the
coupling's violation (Σ_i y_i = 0, so Σ_i d_i = Σ_i A_i x_i - b),

    ẋ = -(∇f(x) + 𝐀ᵀ(λ + γd))                        IDEA
    ẋ = (P_X[x - τ(∇f(x) + 𝐀ᵀ(λ + γd))] - x)/τ       Proj-IDEA
    ẏ = ω𝐂(λ + γd)
    λ̇ = κγd

is the saddle flow of the augmented Lagrangian f(x) + <λ, d> + (γ/2)|d|² with a rate for each of
its variables. Each agent sends λ_i + γd_i. Reconstructed after Li and Su (TCNS 2022), whose flow
has γ = κ = 1 and the Laplacian in place of ω𝐂; the rates make it independent of units. No strong
convexity is needed. The two are one implementation: a projection that is the identity gives IDEA.

One evaluation of the right-hand side is one round; the step size control that scipy's integrators
add is not counted. The integrator restarts at the ends of time segments that grow geometrically,
so that a run can be cut and continued without a trace.
"""

import math
import time
from typing import Any

import numpy as np

from dual2.algorithms.coupling import UNIT, coupling_cone, lipschitz_f, scales
from dual2.algorithms.method import Method, Needs, Plan, Settings
from dual2.algorithms.needs import point_h, zero_g
from dual2.algorithms.parameters import given_parameters, positive
from dual2.compiled import compiled
from dual2.engine.gossip import mix
from dual2.engine.local import FAILED, adjoint, apply, grad_f, prox_g
from dual2.engine.threads import own_rows
from dual2.engine.unowned import unowned
from dual2.errors import CapabilityError, unknown_name
from dual2.network import ChebyshevNetwork, Network
from dual2.problem import Problem
from dual2.runtime import Stacked, place
from dual2.theory.conditions import closed_set

Array = np.ndarray
GAMMA, KAPPA, OMEGA, TAU, RATES = range(5)
GROWTH = 1.25
"""Each time segment is this much longer than the last."""
_FIRST = 10.0
"""Length of the first segment in units of the fastest time scale."""
INTEGRATORS = ("RK45", "RK23", "DOP853", "Radau", "BDF", "LSODA")
"""What scipy offers."""


@compiled
def flow(block, links, rates, share, x, rows, dx, drows, member):
    """The right-hand side: ``rows`` stacks y and λ, ``drows`` their derivatives and two more.

    Returns 0, or FAILED if a user's function raised.
    """
    block, links, member, drows = unowned(block), unowned(links), unowned(member), unowned(drows)
    n, p = share.shape
    first, last = own_rows(member, n)
    wide = max(1, block.inbox.shape[0])
    grad, pull, new, work = np.empty(wide), np.empty(wide), np.empty(wide), np.empty(3 * wide + 8)
    gamma, tau = rates[GAMMA], rates[TAU]
    for i in range(first, last):
        a, d = block.xptr[i], block.xptr[i + 1] - block.xptr[i]
        own, ax, message = x[a : a + d], drows[1, i], drows[2, i]
        if apply(block, i, own, ax):
            return FAILED
        for k in range(p):
            ax[k] -= share[i, k] + rows[0, i, k]
            message[k] = rows[1, i, k] + gamma * ax[k]
            ax[k] *= rates[KAPPA] * gamma
        if grad_f(block, i, own, grad[:d]) or adjoint(block, i, message, pull):
            return FAILED
        for j in range(d):
            grad[j] = own[j] - tau * (grad[j] + pull[j])
        if prox_g(block, i, tau, grad[:d], new[:d], work):
            return FAILED
        for j in range(d):
            dx[a + j] = (new[j] - own[j]) / tau
    mix(links, drows, 2, drows, 0, member)
    for i in range(first, last):
        for k in range(p):
            drows[0, i, k] *= rates[OMEGA]
    return 0


class IDEA:
    """The flow on one block of agents; see the module's text.

    Parameters
    ----------
    runtime : Stacked
        The rows and their exchange.
    rates : ndarray
        γ, κ, ω and τ.
    share : ndarray, shape (n, p)
        b_i.
    integrator : str
        A method of ``scipy.integrate.solve_ivp``.
    rtol : float
        Its relative tolerance; the absolute one is as much of the largest entry so far.
    """

    def __init__(
        self, runtime: Stacked, rates: Array, share: Array, integrator: str, rtol: float
    ) -> None:
        self.runtime, self.rates, self.share, self.k = runtime, rates, share, 0
        self.integrator, self.rtol = integrator, rtol
        self.stride = runtime.network.rounds
        self._slots = np.zeros((3, runtime.n, runtime.p))
        self.first = _FIRST * float(rates[TAU])

    # -- start, save, restore ----------------------------------------------------------------
    def start(self, x: Array, lam: Array) -> None:
        """Begin from x (flat) and λ (n, p); y makes every d_i the mean violation, or is 0."""
        rt = self.runtime
        y = np.zeros((rt.n, rt.p))
        if rt.anywhere(x):
            excess = rt.products(x) - self.share
            y = excess - rt.agree_sum(excess) / rt.problem.n
        self.point = np.concatenate([x, y.ravel(), lam.ravel()])
        self.segment, self.time = 0, 0.0
        self._slope(0.0, self.point)
        self.k = 0

    def state(self) -> dict[str, Any]:
        """Everything needed to continue bit for bit."""
        rows = self.point[self.runtime.packed.size :].reshape(2, self.runtime.n, self.runtime.p)
        counters = np.array([self.k, self.segment])
        return {"idea_point": self.point.copy(), "idea_counters": counters,
                "idea_time": self.time, "idea_y": rows[0].copy()}  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a saved :meth:`state`."""
        self.point = np.array(state["idea_point"])
        self.k, self.segment = (int(v) for v in state["idea_counters"])
        self.time = float(state["idea_time"])

    # -- what others read ---------------------------------------------------------------------
    @property
    def x(self) -> Array:
        """Flat primal iterate, in its set up to the accuracy of the integrator."""
        return self.point[: self.runtime.packed.size]

    @property
    def duals(self) -> Array:
        """λ, one row per agent."""
        rt = self.runtime
        return self.point[rt.packed.size + rt.n * rt.p :].reshape(rt.n, rt.p)

    @property
    def rounds(self) -> int:
        """Evaluations of the right-hand side so far, times the exchanges of each."""
        return self.k * self.stride

    @property
    def vectors(self) -> int:
        """p-vectors sent to each neighbour so far: one per evaluation and exchange."""
        return self.rounds

    def oracle_calls(self) -> dict[str, int]:
        """One call of each local oracle per evaluation."""
        calls = dict.fromkeys(("grad_f", "prox_g", "A", "AT", "iterations", "outer"), self.k)
        return calls | {"prox_h": 0}

    # -- the loop -----------------------------------------------------------------------------
    def advance(self, rounds: int, seconds: float) -> None:
        """Continue by whole segments until ``rounds`` or for about ``seconds``."""
        end = time.perf_counter() + seconds
        while self.rounds < rounds and time.perf_counter() < end:
            self._integrate()

    def _integrate(self) -> None:
        """One segment of time."""
        from scipy.integrate import solve_ivp  # a quarter of a second that other methods save

        span = self.first * GROWTH**self.segment
        size = float(np.abs(self.point).max())
        answer = solve_ivp(
            self._slope, (0.0, span), self.point, method=self.integrator, rtol=self.rtol,
            atol=self.rtol * (size if size > 0 else 1.0), t_eval=(span,),
        )  # fmt: skip
        self.segment += 1
        self.time += span
        self.point = answer.y[:, -1].copy() if answer.success else np.full_like(self.point, np.nan)

    def _slope(self, _: float, point: Array) -> Array:
        rt, slots = self.runtime, self._slots
        size = rt.packed.size
        out = np.empty_like(point)
        rows = np.ascontiguousarray(point[size:]).reshape(2, rt.n, rt.p)
        x = np.ascontiguousarray(point[:size])
        rt.run(flow, rt.block, rt.links, self.rates, self.share, x, rows, out[:size], slots)
        out[size:] = slots[:2].ravel()
        self.k += 1
        return out


def plan_idea(problem: Problem, network: Network | ChebyshevNetwork, settings: Settings) -> Plan:
    """Choose the rates of IDEA or Proj-IDEA."""
    if not problem.complete:
        raise CapabilityError(
            f"{settings.method} works in continuous time: its integrator looks at all agents, so "
            "they must be in one process. Use runtime='stacked', or a method in discrete time."
        )
    given = given_parameters(settings, SOURCES)
    chosen = "integrator" in given
    integrator = given.pop("integrator", "DOP853")
    if integrator not in INTEGRATORS:
        raise CapabilityError(unknown_name("integrator", str(integrator), INTEGRATORS))
    given = {name: positive(name, value) for name, value in given.items()}
    found, lam = scales(problem), float(network.lambda_max) or 1.0
    gamma = given.get("gamma", found.unit)
    rule = {
        "gamma": gamma, "kappa": math.sqrt(found.mu * found.L), "omega": found.L / (gamma * lam),
        "tau": 1.0 / (found.L + gamma * found.sigma2), "rtol": 1e-12,
    }  # fmt: skip
    values = rule | given
    rates = np.array([values[name] for name in ("gamma", "kappa", "omega", "tau")])
    share = np.tile(coupling_cone(problem.h, problem.p)[0] / problem.n, (problem.n, 1))
    runtime = place(problem, network)
    algorithm = IDEA(runtime, rates, share, integrator, values["rtol"])
    parameters: dict[str, tuple[Any, str]] = {"method": (settings.method, "given or default")}
    parameters |= {k: (v, "given" if k in given else SOURCES[k]) for k, v in values.items()}
    parameters |= {
        "integrator": (integrator, "given" if chosen else "scipy.integrate.solve_ivp"),
        "rounds_per_iteration": (int(network.rounds), "one evaluation of the right-hand side"),
        "vectors_per_iteration": (int(network.rounds), "p-vectors sent per neighbour"),
    }
    text = (
        f"{settings.method}: saddle flow in continuous time by scipy's {integrator}; a round is an "
        "evaluation of its right-hand side. No strong convexity is needed."
    )
    return Plan(algorithm, runtime, parameters, text)


SOURCES = {
    "gamma": UNIT,
    "kappa": "√(μL): derived",
    "omega": "L/(γ λ_max(C)): derived",
    "tau": "1/(L + γσ̄²(A)): derived",
    "rtol": "1e-12",
    "integrator": "DOP853",
}
"""Parameters and where they come from; γ = κ = 1 and ω𝐂 = the Laplacian are the published flow."""

IDEA_METHODS = [
    Method(
        name=name, plan=plan_idea, summary=summary, sources=SOURCES, reconstructed=True,
        needs=Needs("convex, L known", g, "a point", test_f=lipschitz_f, test_g=test,
                    test_h=point_h),
    )
    for name, summary, g, test in (
        ("IDEA", "saddle flow in continuous time", "zero", zero_g),
        ("Proj-IDEA", "projected saddle flow in continuous time", "indicator of a closed set",
         closed_set),
    )
]  # fmt: skip
"""Rows of the table of methods."""
