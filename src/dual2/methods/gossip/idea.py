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
from typing import Any, NamedTuple

import numpy as np

from dual2.compiled import compiled
from dual2.engine.gossip_kernel import mix
from dual2.engine.local import FAILED, adjoint, apply, grad_f, prox_g
from dual2.engine.packed_args import borrowed
from dual2.engine.threads import own_rows
from dual2.errors import CapabilityError, unknown_name
from dual2.methods.coupling import UNIT, coupling_cone
from dual2.methods.gossip.single_loop import SingleLoop, single_loop_method
from dual2.methods.parameters import Parameter, Values
from dual2.runtime import Runtime
from dual2.theory.conditions import LIPSCHITZ_F, POINT_H, SET_G, ZERO_G, Needs

Array = np.ndarray
GAMMA, KAPPA, OMEGA, TAU = range(4)
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
    block, links, drows, member = borrowed((block, links, drows, member))
    n, p = share.shape
    first, last = own_rows(member, n)
    wide = max(1, block.inbox.shape[0])
    grad, ATy, new, work = np.empty(wide), np.empty(wide), np.empty(wide), np.empty(3 * wide + 8)
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
        if grad_f(block, i, own, grad[:d]) or adjoint(block, i, message, ATy):
            return FAILED
        for j in range(d):
            grad[j] = own[j] - tau * (grad[j] + ATy[j])
        if prox_g(block, i, tau, grad[:d], new[:d], work):
            return FAILED
        for j in range(d):
            dx[a + j] = (new[j] - own[j]) / tau
    mix(links, drows[2], drows[0], member)
    for i in range(first, last):
        for k in range(p):
            drows[0, i, k] *= rates[OMEGA]
    return 0


class IDEAState(NamedTuple):
    """x; per agent y and λ; the number of segments and the time they reach to."""

    x: Array
    y: Array
    lam: Array
    clock: Array


class IDEA(SingleLoop):
    """The flow on one block of agents; see the module's text. An iteration is an evaluation."""

    conserved = "y"

    def __init__(self, runtime: Runtime, values: Values) -> None:
        super().__init__(runtime, values)
        if not runtime.problem.complete:
            raise CapabilityError(
                f"{values.method} works in continuous time: its integrator looks at all agents, so "
                "they must be in one process. Use runtime='stacked', or a method in discrete time."
            )
        n, p, v = runtime.n, runtime.p, values
        self.calls = dict.fromkeys(("grad_f", "prox_g", "A", "AT", "outer"), 1)
        self.rates = np.array([v.gamma, v.kappa, v.omega, v.tau])
        self.share = np.tile(coupling_cone(runtime.problem.h, p)[0] / n, (n, 1))
        self.point = np.zeros(runtime.packed.size + 2 * n * p)
        x, rows = np.split(self.point, [runtime.packed.size])
        self.current = IDEAState._make([x, *rows.reshape(2, n, p), np.zeros(2)])
        self._slots = np.zeros((3, n, p))

    def begin(self, x: Array, lam: Array) -> None:
        """From x and λ; y makes every d_i the mean violation, or is 0."""
        rt, current = self.runtime, self.current
        current.x[:], current.lam[:] = x, lam
        if rt.anywhere(x):
            excess = rt.products(current.x) - self.share
            current.y[:] = excess - rt.allreduce_sum(excess) / rt.problem.n

    def step(self, steps: int) -> None:
        """The integrator decides on the steps; here it only compiles."""
        self.slope(self.point)

    def advance(self, rounds: int, seconds: float) -> None:
        """Continue by whole segments until ``rounds`` or for about ``seconds``."""
        end = time.perf_counter() + seconds
        while self.rounds < rounds and time.perf_counter() < end:
            self._integrate()

    def _integrate(self) -> None:
        """One segment of time."""
        from scipy.integrate import solve_ivp  # a quarter of a second that other methods save

        v, clock = self.values, self.current.clock
        span = _FIRST * v.tau * GROWTH ** int(clock[0])
        size = float(np.abs(self.point).max())
        answer = solve_ivp(
            self._evaluate,
            (0.0, span),
            self.point,
            method=v.integrator,
            rtol=v.rtol,
            atol=v.rtol * (size if size > 0 else 1.0),
            t_eval=(span,),
        )
        clock += 1, span
        self.point[:] = answer.y[:, -1] if answer.success else np.nan

    def _evaluate(self, _: float, point: Array) -> Array:
        self.iterations += 1
        self.rounds += self.stride
        self.vectors = self.rounds
        return self.slope(point)

    def slope(self, point: Array) -> Array:
        """The right-hand side at a point (x, y, λ)."""
        rt, slots = self.runtime, self._slots
        size = rt.packed.size
        out = np.empty_like(point)
        rows = np.ascontiguousarray(point[size:]).reshape(2, rt.n, rt.p)
        x = np.ascontiguousarray(point[:size])
        rt.run(flow, rt.block, rt.links, self.rates, self.share, x, rows, out[:size], slots)
        out[size:] = slots[:2].ravel()
        return out

    def explain(self) -> str:
        """What a round is."""
        return (
            f"Integrated by scipy's {self.values.integrator}; a round is an evaluation of the "
            "right-hand side. No strong convexity is needed."
        )


# -- parameters and the table --------------------------------------------------------------------


def _integrator(name: str, value: Any) -> str:
    if value not in INTEGRATORS:
        raise CapabilityError(unknown_name(name, str(value), INTEGRATORS))
    return value


def _omega(v: Values) -> float:
    return v.scales.L / (v.gamma * (float(v.network.lambda_max) or 1.0))


_DECLARED = (
    Parameter("gamma", UNIT, lambda v: v.scales.unit),
    Parameter("kappa", "√(μL): derived", lambda v: math.sqrt(v.scales.mu * v.scales.L)),
    Parameter("omega", "L/(γ λ_max(C)): derived", _omega),
    Parameter(
        "tau", "1/(L + γσ̄²(A)): derived", lambda v: 1.0 / (v.scales.L + v.gamma * v.scales.sigma2)
    ),
    Parameter("rtol", "1e-12", 1e-12),
    Parameter("integrator", "DOP853", "DOP853", _integrator),
)
"""γ = κ = 1 and ω𝐂 = the Laplacian are the published flow."""

_NAMED = {"IDEA": ("saddle flow", ZERO_G), "Proj-IDEA": ("projected saddle flow", SET_G)}
IDEA_METHODS = [
    single_loop_method(
        name,
        IDEA,
        f"{flow} in continuous time",
        Needs(LIPSCHITZ_F, g, POINT_H),
        _DECLARED,
        reconstructed=True,
    )
    for name, (flow, g) in _NAMED.items()
]
"""Rows of the table of methods."""
