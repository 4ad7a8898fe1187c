"""iD2A and MiD2A: accelerated gradient descent on the dual of the dual.

Problem: min Σ f_i(x_i) + g_i(x_i) + h(Σ A_i x_i). The dual in consensus form, min φ(λ) + h*(λ)
subject to √𝐂λ = 0, has the augmented dual F_ρ(y) = H*(-√𝐂y), which is smooth. Nesterov's method
on F_ρ, in the variables w = √𝐂y, z = √𝐂v, is

    (x⁺, λ⁺) ≈ saddle point of f + g + λᵀ𝐀x - (h*(λ) + (ρ/2)λᵀ𝐂λ + λᵀz)      (subsolver)
    w⁺ = z + 𝐂λ⁺/L_F
    z⁺ = w⁺ + β(w⁺ - w)

With the relative accuracy rule the momentum is left out for one step where it points uphill
(<λ, w⁺-w> < 0), and a subproblem begins ahead of the last λ by as much as z⁺-z repeats the
last change of z: both need sums that the test of the subproblem agrees on anyway.
MiD2A is the same text over a Chebyshev network P_K(C). Assumptions: Slater's condition, f_i
μ_i-strongly convex and L_i-smooth, C symmetric positive semidefinite with null space span(1).
Guarantees: Theorem 1717 (convex, O(1/k²)) and Theorem outer_convergence_SC (linear, √κ_F) of
Li & Lau, "Accelerated decentralized constraint-coupled optimization: a dual² approach", 2025.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from dual2.algorithms.outer import Options, Outer
from dual2.runtime import Stacked
from dual2.subsolvers import Exact, Subsolver
from dual2.subsolvers.base import LOCAL_STEPS
from dual2.theory import (
    Constants,
    Facts,
    LinearSchedule,
    convex_error,
    initial_value_gap,
    linear_schedule,
    subproblem_errors,
)

Array = np.ndarray
_EPS = np.finfo(float).eps
_BURST = 1000
"""Outer iterations in one compiled call where each takes microseconds."""
_SOONEST, _SHARE = 4, 0.75
"""Fewest inner iterations between two tests; how much of the last subproblem's the first waits."""
_GROWTH = 2.0
"""The relative rule's target never grows, but by this factor where it could not be reached."""


class ID2A:
    """iD2A on one block of agents; see the module's text for the iteration.

    Parameters
    ----------
    runtime : Stacked
        The rows, their exchange and agreement.
    facts, constants
        Of the problem at the ρ in use.
    options : Options
        Accuracy rule and the like.
    subsolver : Subsolver
        Solver of the saddle problem of each outer iteration.
    """

    def __init__(
        self, runtime: Stacked, facts: Facts, constants: Constants, options: Options,
        subsolver: Subsolver,
    ) -> None:  # fmt: skip
        self.runtime, self.facts, self.constants, self.options = runtime, facts, constants, options
        self.subsolver = subsolver
        self.per_mix = runtime.network.rounds
        self.step = 1.0 / constants.L_F if constants.L_F > 0 else 0.0
        strong = math.isfinite(constants.kappa_F) and constants.mu_H > 0
        self._relative = options.accuracy == "relative"
        self._linear = not self._relative and strong
        self._schedule: LinearSchedule | None = None

    # -- start, save, restore ----------------------------------------------------------------
    def start(self, x: Array, lam: Array) -> None:
        """Begin from x (flat) and λ (n, p), both zero if nothing better is known.

        At the solution z_i = A_i x_i - (1/n)Σ_j A_j x_j, so a good x gives a good z.
        """
        rt = self.runtime
        z = np.zeros((rt.n, rt.p))
        if rt.anywhere(x):
            products = rt.products(x)
            z = products - rt.agree_sum(products) / rt.problem.n
        self.outer = Outer(w=z.copy(), z=z, past=z.copy(), scale=np.zeros(rt.n))
        self.subsolver.start(x, lam)
        if rt.anywhere(lam):
            self.outer.rounds += self.per_mix
        if self._linear:
            self.outer.first = self._first_gap()
        self._prepare()

    def state(self) -> dict[str, Any]:
        """Everything needed to continue bit for bit."""
        outer = {f"outer_{f.name}": getattr(self.outer, f.name) for f in fields(self.outer)}
        inner = {f"inner_{k}": v for k, v in self.subsolver.as_dict().items()}
        return outer | inner

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a saved :meth:`state`."""
        part = lambda mark: {  # noqa: E731
            k.removeprefix(mark): _native(v) for k, v in state.items() if k.startswith(mark)
        }
        self.outer = Outer(**part("outer_"))
        self.subsolver.restore(part("inner_"))
        self._prepare()

    def _prepare(self) -> None:
        """Set what follows from the state: the schedule and the local accuracy floor."""
        lambda_max = self.runtime.network.lambda_max
        if self._linear and self._schedule is None:
            self._schedule = linear_schedule(
                self.constants, self.facts, lambda_max, self.outer.first, self.options.c
            )
        known = self._schedule is not None or self.outer.reference < math.inf
        more = self.facts.n > 1  # the subproblem of one agent is the last: it has no floor
        self.subsolver.floor = (
            0.1 * self._target() / math.sqrt(self.facts.n) if known and more else 0.0
        )

    # -- what others read ---------------------------------------------------------------------
    @property
    def x(self) -> Array:
        """Flat primal iterate."""
        return self.subsolver.x

    @property
    def duals(self) -> Array:
        """λ, one row per agent."""
        return self.subsolver.lam

    @property
    def rounds(self) -> int:
        """Exchanges of p-vectors with the neighbours so far."""
        return self.outer.rounds

    @property
    def vectors(self) -> int:
        """p-vectors sent to each neighbour so far: one per round."""
        return self.outer.rounds

    @property
    def stride(self) -> int:
        """Rounds of one product with the gossip matrix."""
        return self.per_mix

    def oracle_calls(self) -> dict[str, int]:
        """Calls so far: the maximum over agents for local work, iterations for the rest."""
        return self.subsolver.oracle_calls() | {"outer": self.outer.k}

    # -- the loop --------------------------------------------------------------------------------
    def advance(self, rounds: int, seconds: float) -> None:
        """Continue until ``rounds`` exchanges or for about ``seconds``, whatever comes first."""
        end = time.perf_counter() + seconds
        while self.outer.rounds < rounds and time.perf_counter() < end:
            if isinstance(self.subsolver, Exact):
                self._advance_exactly(rounds)
            elif self.subsolver.local:
                self._advance_local()
            else:
                self._advance_together(rounds, end - time.perf_counter())

    def _advance_together(self, rounds: int, seconds: float) -> None:
        o = self.outer
        allowed = max(1, (rounds - o.rounds) // self.per_mix)
        steps = self.subsolver.advance(o.z, min(o.check - o.inner, allowed), max(seconds, 1e-3))
        o.inner += steps
        o.rounds += steps * self.per_mix
        if o.inner >= o.check:
            self._test()

    def _test(self) -> None:
        """Agree on the residual; end the subproblem, restart its momentum, or go on."""
        o, sub = self.outer, self.subsolver
        primal, dual = sub.residuals(o.z, with_primal=self._linear)
        rows = dual if self._linear else sub.combined(primal, dual)
        columns = [rows**2, sub.uphill(), _squares(sub.lam), _squares(sub.clam), primal**2]
        columns += self._outlook()
        total = self.runtime.agree_sum(np.column_stack(columns))
        residual2, uphill, size2, consensus2, primal2, ascent, *turn, z2 = map(float, total)
        residual, size = math.sqrt(residual2), math.sqrt(size2)
        if o.reference == math.inf:
            o.reference = residual
            self._prepare()
        floor = 4 * _EPS * self.constants.L_phi * size
        accurate = self._accurate(residual, math.sqrt(primal2))
        done = accurate or residual <= floor or o.inner >= sub.cap
        if done and self.facts.n > 1:
            if self._relative and not accurate:
                o.reference *= _GROWTH
            noise = 4 * _EPS * size * math.sqrt(z2)
            self._outer_step(math.sqrt(consensus2), ascent if ascent < -noise else 0.0, turn)
            return
        if sub.restarts and uphill > 0:
            sub.restart()
            o.restarted = o.inner
        o.check = o.inner + self._pause(residual)
        o.tested, o.residual = o.inner, residual

    def _pause(self, residual: float) -> int:
        """Inner iterations until the next test, at most as many as the residual should need."""
        o, target = self.outer, self._target()
        most = max(self.options.check, (o.inner - o.restarted) // 8)
        if not (self._relative and 0 < target < residual < o.residual < math.inf):
            return most
        rate = math.log(o.residual / residual) / (o.inner - o.tested)
        return int(min(max(math.log(residual / target) / rate, _SOONEST), most))

    def _outlook(self) -> list[Array]:
        """Per agent <λ, w⁺-w>, <Δ, 𝐂λ>, <Δ, w⁺-w>, |Δ|² and |z|², Δ the last change of z."""
        o, sub = self.outer, self.subsolver
        step, turn = o.z + self.step * sub.clam - o.w, o.z - o.past
        pairs = ((sub.lam, step), (turn, sub.clam), (turn, step), (turn, turn), (o.z, o.z))
        return [np.einsum("ij,ij->i", a, b) for a, b in pairs]

    def _accurate(self, residual: float, primal: float) -> bool:
        """Whether the present subproblem is solved well enough."""
        if self._schedule is None:
            return residual <= self._target()
        x_error, dual_error = subproblem_errors(self.constants, self.facts, primal, residual)
        k = self.outer.k
        enough = x_error <= self._schedule.primal_error(k)
        return enough and dual_error <= self._schedule.dual_error(k)

    def _target(self) -> float:
        """Residual of the subproblem to aim at in this outer iteration."""
        o, options = self.outer, self.options
        if self._schedule is not None:
            return self.constants.mu_H * self._schedule.dual_error(o.k)
        if options.accuracy == "paper":
            return convex_error(o.reference, o.k, options.delta)
        return options.eta * o.reference

    def _outer_step(
        self, consensus: float, ascent: float = 0.0, turn: Sequence[float] = (0.0, 0.0, 0.0)
    ) -> None:
        """w⁺ = z + 𝐂λ/L_F, z⁺ = w⁺ + β(w⁺-w); restart where the momentum points uphill.

        ``consensus`` is |𝐂λ|, ``ascent`` and ``turn`` are the sums of :meth:`_outlook`.
        """
        o, sub = self.outer, self.subsolver
        new = o.z + self.step * sub.clam
        beta = self.constants.outer_momentum
        uphill = o.since > 0 and ascent < 0 and (self._relative or beta < 0)
        o.since = 0 if uphill else o.since
        if beta < 0 or uphill:
            beta = o.since / (o.since + 3.0)
        o.past, o.z, o.w = o.z, new + beta * (new - o.w), new
        o.k += 1
        o.since += 1
        o.check = max(_SOONEST, int(_SHARE * o.inner)) if self._relative else self.options.check
        o.inner, o.tested, o.restarted, o.residual = 0, 0, 0, math.inf
        ahead = 0.0
        along, forward, length = turn
        if self._relative and length > 0:
            ahead = min(max((self.step * along + beta * forward) / length, 0.0), 1.0)
        if self._relative and consensus > 0:  # 0: no step to compare with
            o.lower_reference(self.step, consensus, beta)
        sub.begin(ahead)
        self._prepare()

    # -- rho = 0: subproblems without communication ---------------------------------------------
    def _advance_local(self) -> None:
        o, sub = self.outer, self.subsolver
        if not np.any(o.scale):
            sub.advance_local(o.z, np.zeros(self.runtime.n), steps=1)
            o.scale = np.maximum(sub.local_size(), 1e-300)
        settled = sub.advance_local(o.z, self._local_stop())
        o.inner += LOCAL_STEPS
        if not settled and o.inner < sub.cap:
            return
        sub.settle()
        o.rounds += self.per_mix
        own = self.step * np.sqrt(_squares(sub.clam))
        o.scale = np.maximum(own, 0.5 * o.scale)
        ascent = 0.0
        if self.constants.outer_momentum < 0 and o.since > 0:
            ascent = float(self.runtime.agree_sum(self._outlook()[0][:, None])[0])
        self._outer_step(0.0, ascent)

    def _advance_exactly(self, rounds: int) -> None:
        """Whole outer iterations in one compiled call; with restarts a few at a time."""
        o, sub, beta = self.outer, self.subsolver, self.constants.outer_momentum
        assert isinstance(sub, Exact)
        burst = _BURST if beta >= 0 else self.options.check
        steps = max(1, min((rounds - o.rounds) // self.per_mix, burst - o.k % burst))
        ascent = sub.iterate(o.w, o.z, steps, self.step, beta, o.since)
        o.rounds += steps * self.per_mix
        o.k += steps
        o.since += steps
        if beta < 0 and o.k % burst == 0 and self.runtime.agree_sum(ascent[:, None])[0] < 0:
            o.since = 0

    def _local_stop(self) -> Array:
        """Residual at which each agent may stop, by what it knows itself."""
        o, n = self.outer, self.facts.n
        floor = 4 * _EPS / self.subsolver.dual_step * np.sqrt(_squares(self.subsolver.lam))
        if self._schedule is not None:
            error = self._schedule.dual_error(o.k) / math.sqrt(n)
            return np.maximum(0.5 * self.constants.mu_H * error, floor)
        return np.maximum(self.options.eta * o.scale, floor)

    # -- the printed schedule ----------------------------------------------------------------------
    def _first_gap(self) -> float:
        """Remark 2 at the starting point: a bound of F_ρ(y⁰) - F_ρ(y*)."""
        rt, sub, n = self.runtime, self.subsolver, self.facts.n
        smooth = np.array([rt.problem.h.conjugate.grad(row) for row in sub.lam]) / n
        dual = rt.products(self.x) - smooth - self.outer.z - self.constants.rho * sub.clam
        local = rt.stationarity(self.x, sub.lam)[:, 0]
        columns = [np.einsum("ij,ij->i", sub.lam, sub.clam), _squares(dual), local**2]
        total = np.sqrt(np.maximum(rt.agree_sum(np.column_stack(columns)), 0.0))
        return initial_value_gap(
            self.constants, self.facts, rt.network.lambda_max, total[0], total[1], total[2]
        )


def _squares(rows: Array) -> Array:
    return np.einsum("ij,ij->i", rows, rows)


def _native(value: Any) -> Any:
    """Saved scalars come back as 0-d arrays; make them Python numbers again."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return value.item()
    return value.copy() if isinstance(value, np.ndarray) else value
