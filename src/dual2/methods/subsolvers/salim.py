"""Salim: Algorithm 1 of Salim, Condat, Kovalev & Richtárik for affinely constrained problems.

With ρ = 0, all g_i = 0 and h the indicator of a point b, the subproblem of agent i is
min f_i(x) subject to A_i x = b/n + z_i, agent by agent. For min f(x) subject to Ax = c, with
l₁ ≥ σ̄²(A), 0 < l₂ ≤ σ²_min⁺(A), N = ⌈√(l₁/l₂)⌉, κ = L/μ,
τ = min(1, ½√(19/(15κ))), η = 1/(4τL), ω = 15/(19η):

    x_g = τx + (1-τ)x_f,   x̂ = (x - η(∇f(x_g) - μx_g + Aᵀy))/(1+ημ)
    x̂ - Cheb(x̂) = -AᵀS  with S the sum of N Chebyshev steps on AAᵀ
    y⁺ = y - ωS,   x⁺ = x̂ + ηωAᵀS/(1+ημ),   x_f⁺ = x_g + 2τ/(2-τ)(x⁺-x)

S is accumulated in the dual, so that the multiplier y is known (the paper's listing has only Aᵀy).
Rate: O(√κ_f) gradients, O(√(κ_f κ_A)) products [Salim, Condat, Kovalev & Richtárik 2022].
"""

import math
from typing import NamedTuple

import numpy as np

from dual2.compiled import compiled
from dual2.engine.local import FAILED, adjoint, apply, dot, grad_f
from dual2.engine.packed_args import borrowed
from dual2.methods.subsolvers.subsolver import LOCAL_STEPS, Subsolver, smallest_singular
from dual2.runtime import Runtime
from dual2.theory import Constants, Facts

Array = np.ndarray
ROUNDING = 2e-15
"""Residuals below this share of their terms are rounding."""


class SalimState(NamedTuple):
    """Flat: x_f (the output), x and Aᵀy; y and 𝐂y; per row calls, whether done, (D_x, D_y)."""

    x: Array
    x_now: Array
    ATy: Array
    lam: Array
    mixed: Array
    calls: Array
    finished: Array
    residual: Array


@compiled
def salim_steps(block, state, right, small2, steps, stop, weight):
    """Advance every unfinished agent by at most ``steps`` iterations, until its residual ≤ stop.

    ``right`` holds the rows c_i, ``small2`` the l₂ of each agent; D_x = |∇f(x_f) + Aᵀy|,
    D_y = |Ax_f - c|. Returns 0, or FAILED.
    """
    block, state = borrowed((block, state))
    y, calls, residual = state.lam, state.calls, state.residual
    n, p = y.shape
    width = max(1, block.inbox.shape[0])
    hat, move, g, xg = np.empty(width), np.empty(width), np.empty(width), np.empty(width)
    r, s, total = np.empty(p), np.empty(p), np.empty(p)
    for i in range(n):
        if state.finished[i] != 0:
            continue
        first, last = block.xptr[i], block.xptr[i + 1]
        d, bound, strong = last - first, block.lip[i], block.mu[i]
        l1, l2 = block.sigma[i] ** 2, small2[i]
        rounds = math.ceil(math.sqrt(l1 / l2) - 1e-9)
        tau = min(1.0, 0.5 * math.sqrt(19.0 * strong / (15.0 * bound)))
        eta = 1.0 / (4.0 * tau * bound)
        omega = 15.0 / (19.0 * eta)
        nu, spread = 0.5 * (l1 + l2), (l1 - l2) ** 2 / 16.0
        x, xf, ATy = state.x_now[first:last], state.x[first:last], state.ATy[first:last]
        for _ in range(steps):
            for j in range(d):
                xg[j] = tau * x[j] + (1.0 - tau) * xf[j]
            if grad_f(block, i, xg[:d], g[:d]):
                return FAILED
            for j in range(d):
                slope = g[j] - strong * xg[j] + ATy[j]
                hat[j] = (x[j] - eta * slope) / (1.0 + eta * strong)
                g[j] = hat[j]
                move[j] = 0.0
            gamma = -nu
            for k in range(p):
                s[k], total[k] = 0.0, 0.0
            for step in range(rounds):
                if apply(block, i, g[:d], r):
                    return FAILED
                lead = 0.0
                if step > 0:
                    lead = spread / gamma if step > 1 else spread / (-0.5 * nu)
                    gamma = -(nu + lead)
                for k in range(p):
                    s[k] = (r[k] - right[i, k] + lead * s[k]) / gamma
                    total[k] += s[k]
                if adjoint(block, i, total, move):
                    return FAILED
                for j in range(d):
                    g[j] = hat[j] + move[j]
                calls[1, i] += 1
            for k in range(p):
                y[i, k] -= omega * total[k]
            for j in range(d):
                ATy[j] -= omega * move[j]
                new = hat[j] + eta * omega * move[j] / (1.0 + eta * strong)
                xf[j] = xg[j] + 2.0 * tau / (2.0 - tau) * (new - x[j])
                x[j] = new
            calls[0, i] += 1
            calls[2, i] += 1
            if calls[2, i] % 10 != 0:
                continue
            if grad_f(block, i, xf, g[:d]) or apply(block, i, xf, r):
                return FAILED
            calls[0, i] += 1
            calls[1, i] += 1
            over = math.sqrt(dot(g[:d], g[:d])) + bound * math.sqrt(dot(xf, xf))
            under = math.sqrt(dot(r, r)) + block.sigma[i] * math.sqrt(dot(xf, xf))
            for j in range(d):
                g[j] += ATy[j]
            for k in range(p):
                r[k] -= right[i, k]
            residual[i, 0] = math.sqrt(dot(g[:d], g[:d]))
            residual[i, 1] = math.sqrt(dot(r, r))
            size, terms = residual[i, 1] + weight[i] * residual[i, 0], under + weight[i] * over
            if not size > max(stop[i], ROUNDING * terms) and stop[i] >= 0.0:
                state.finished[i] = 1
                break
    return 0


class Salim(Subsolver):
    """Solves each agent's affinely constrained problem alone.

    Parameters
    ----------
    runtime, facts, constants
        As for every subsolver; ρ must be 0, h* linear and all g_i zero.
    """

    name = "Salim"
    layout = SalimState

    def __init__(self, runtime: Runtime, facts: Facts, constants: Constants) -> None:
        super().__init__(runtime, facts, constants)
        slope = runtime.packed.smooth.grad(np.zeros(runtime.p))
        self._share = slope / runtime.problem.n
        self._small2 = np.nan_to_num(facts.rank2)
        for i in np.flatnonzero(self._small2 == 0):
            self._small2[i] = smallest_singular(runtime.problem.agents[i].A) ** 2
        self.weight = np.sqrt(facts.sigma2) / facts.mu
        self.dual_step = facts.mu / facts.sigma2

    def start(self, x: Array, lam: Array) -> None:
        """Begin from x (flat) and λ (n, p); costs one exchange. Compiles what is needed."""
        n = self.runtime.n
        counts = np.zeros((3, n), np.int64), np.zeros(n, np.int64)
        point = (x.copy(), x.copy(), np.zeros(x.size), lam.copy(), self.runtime.mix(lam))
        self.state = SalimState(*point, *counts, np.zeros((n, 2)))
        self.begin()
        self._run(np.zeros_like(lam), np.zeros(n), 0)

    def begin(self, ahead: float = 0.0) -> None:
        """Begin a new subproblem from the last output."""
        s = self.state
        s.x_now[:], s.ATy[:], s.finished[:] = s.x, self.runtime.adjoints(s.lam), 0
        s.calls[1] += 1

    def oracle_calls(self) -> dict[str, int]:
        """Calls so far: N products with A and Aᵀ per iteration."""
        most = {"prox_g": 0, "prox_h": 0}
        most |= zip(
            ("grad_f", "A", "iterations"), map(int, self.state.calls.max(axis=1)), strict=True
        )
        return most | {"AT": most["A"]}

    def advance(self, z: Array, steps: int) -> None:
        """That many iterations without a stopping test, for a single agent."""
        self._run(z, np.full(self.runtime.n, -1.0), steps)

    def advance_local(self, z: Array, stop: Array, steps: int = LOCAL_STEPS) -> bool:
        """Agents iterate alone until their residual is ≤ ``stop``; True when all are."""
        self._run(z, stop, max(steps, 10))
        return bool(self.state.finished.all())

    def _run(self, z: Array, stop: Array, steps: int) -> None:
        right = self._share + z
        self.runtime.call(salim_steps, self.state, right, self._small2, steps, stop, self.weight)

    def residuals(self, z: Array, with_primal: bool = True) -> tuple[Array, Array]:
        """Per agent |∇f(x) + Aᵀλ| and |Ax - c| at the last test."""
        primal, dual = self.state.residual.T.copy()
        return primal, dual
