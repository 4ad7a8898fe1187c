"""The outer loop of the dual modes: what is kept between sums, and how proximal terms move.

Where f_i + g_i is not strongly convex, (r_i/2)|x_i - x̄_i|² is added. The prox centers x̄_i move to
x_i when the inner problem is solved well enough, and r_i falls, or rises where rounding shows; see
:mod:`.prox_weights`.
"""

from typing import Any

import numpy as np

from dual2.methods.dual_newton import prox_weights
from dual2.methods.dual_newton.agents import Agents, ProximalTerms
from dual2.methods.dual_newton.envelope import (
    MAX_CANDIDATES,
    MAX_TRIALS,
    FBEPoint,
    equilibrate,
    evaluate_fbe,
)
from dual2.methods.dual_newton.termination import (
    check_optimality,
    group_norm,
    is_stationary,
    residual_is_rounding,
)
from dual2.methods.exact_sums import (
    FIRST,
    JACOBIAN,
    TRIALS,
    DualState,
    ExactSumMethod,
    dump_state,
    load_state,
)
from dual2.methods.message import COUNT_NOT_STRONGLY_CONVEX, PROX_DISTANCE, TRIAL_SCALARS, VARIABLES
from dual2.methods.method import TerminationReport
from dual2.runtime import Runtime

Array = np.ndarray
MIN_TOL = 1e-11
"""Least tolerance for which rounding is asked to stay well below it."""
_ZERO_DUAL_RTOL = 1e-12
"""Length of a multiplier, relative to the longest one, that is nothing but rounding."""
_MAX_CLAIMS = 5
"""How often a point at rest is shown to the certificate, since what agents still feel there may be
nothing but rounding."""


class ProximalOuterLoop(ExactSumMethod):
    """What a dual method over sums keeps, and its outer loop.

    Parameters
    ----------
    runtime : Runtime
        Where the agents are.
    max_sums : int
        Most sums.
    """

    current: DualState
    default_inner_rtol = 0.1  # how much of a move may be left of the inner problem, in general

    def __init__(self, runtime: Runtime, max_sums: int) -> None:
        super().__init__(runtime, max_sums)
        self.agents = Agents(runtime)
        self.not_strongly_convex = self.agents.lacks_strong_convexity()

    # -- start, save, restore ---------------------------------------------------------------------
    def _start(self, x: Array, lam: Array, priced: bool, warm: bool) -> None:
        """Begin; prox centers begin at x, or at the nearest point of g."""
        rt, p, zero = self.runtime, self.runtime.p, np.zeros(self.runtime.p)
        multiplier = rt.allreduce_sum(lam) / rt.problem.n if priced else zero
        G, M = self._empty_matrices()
        rest = (
            np.zeros(TRIAL_SCALARS),
            G,
            M,
            zero,
            zero,
            zero,
            np.zeros((MAX_TRIALS, p)),
            np.zeros((MAX_CANDIDATES, p)),
        )
        self.current = DualState(
            multiplier,
            zero,
            zero,
            *rest,
            warm_phase=int(priced),
            inner_rtol=self.default_inner_rtol,
        )
        weights = np.where(
            self.not_strongly_convex, np.maximum(rt.block.lip, 1.0), 0.0
        )  # until the setup sum is made
        self.prox = ProximalTerms(weights, x.copy(), x.copy(), np.zeros_like(x))
        self.floor = np.zeros(rt.n)
        for i in np.flatnonzero(self.not_strongly_convex) if not warm else ():
            own = slice(rt.block.xptr[i], rt.block.xptr[i + 1])
            self.prox.center[own] = rt.problem.agents[i].g.prox(self.prox.center[own], 1.0)
        self.sizes = prox_weights.collect_setup(
            self.agents, self.not_strongly_convex, self.prox.center
        )
        self.agents.tried[:] = self.agents.queries = 0
        self._prepare()

    def _prepare(self) -> None:
        """What follows from the state; nothing is sent."""
        current, zero = self.current, np.zeros(self.runtime.p)
        self.scaling = equilibrate(current.M, self.h)
        if current.phase in (TRIALS, JACOBIAN):
            self.point = self._evaluate(
                current.lam, current.S, current.abs_products, current.scalars
            )
        else:
            scalars = current.scalars
            self.point = FBEPoint(
                current.lam, zero, zero, scalars, zero, zero, zero, zero, np.inf, 0.0, 0.0
            )

    def state(self) -> dict[str, Any]:
        """Everything needed to continue bit for bit."""
        prox = self.prox
        parts = {"x": prox.x, "center": prox.center, "weight": prox.weight, "ray": prox.ray}
        parts |= {"floor": self.floor, "tried": self.agents.tried}
        parts |= {"gradient_norm": self.sizes.gradient_norm, "max_entry": self.sizes.max_entry}
        own = {k: v.copy() for k, v in parts.items()} | {"queries": self.agents.queries}
        return dump_state(self.current) | own

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a saved :meth:`state`."""
        self.current = load_state(DualState, state)
        own = (np.array(state[name]) for name in ("weight", "center", "x", "ray"))
        self.prox, self.floor = ProximalTerms(*own), np.array(state["floor"])
        gradient_norm, max_entry = np.array(state["gradient_norm"]), np.array(state["max_entry"])
        self.sizes = self.sizes._replace(gradient_norm=gradient_norm, max_entry=max_entry)
        self.agents.tried[:], self.agents.queries = state["tried"], int(state["queries"])
        self._prepare()

    def on_certificate_rejected(self) -> None:
        """Go on after an end to which the definitions did not consent.

        First without the multipliers of rows that are nothing but rounding beside those of others:
        an agent who feels only such multipliers has nothing to compare them with.
        """
        current, costs = self.current, self.current.max_row_scale * np.abs(self.current.lam)
        kept = np.where(costs <= _ZERO_DUAL_RTOL * costs.max(initial=0.0), 0.0, current.lam)
        current.status = "" if np.array_equal(kept, current.lam) else "CONVERGED"
        current.lam = kept
        if current.status and current.phase in (TRIALS, JACOBIAN):
            self.point = self._evaluate(kept, current.S, current.abs_products, current.scalars)

    # -- what others read -------------------------------------------------------------------------
    @property
    def x(self) -> Array:
        """Flat primal iterate: the agents' answers to λ."""
        return self.prox.x

    def oracle_calls(self) -> dict[str, int]:
        """Calls so far, by the names of :class:`dual2.Counts`."""
        asked, most = self.agents.queries, int(self.agents.tried.max(initial=0))
        local = max(asked, most)
        return {
            "grad_f": local,
            "prox_g": local,
            "A": asked,
            "AT": asked,
            "prox_h": asked,
            "iterations": self.current.sums,
            "outer": self.current.outer_iterations,
            "sums": self.current.sums,
        }

    def _report(self) -> TerminationReport:
        status = self.current.status
        return TerminationReport(
            self.current.kkt,
            self.current.lam,
            status,
            self._asked,
            self.current.separator if status == "INFEASIBLE" else None,
            self.prox.ray if status == "UNBOUNDED" else None,
        )

    def _empty_matrices(self) -> tuple[Array, Array]:
        """Places for Σ A_i J_i A_iᵀ and M."""
        square = np.zeros((self.runtime.p, self.runtime.p))
        return square, square

    def _read_setup(self, stats: Array) -> bool:
        """Whether some agents need a proximal term, which then follows from the setup sum."""
        current, p = self.current, self.runtime.p
        current.not_strongly_convex, current.variables = (
            int(stats[p + COUNT_NOT_STRONGLY_CONVEX]),
            float(stats[p + VARIABLES]),
        )
        if current.not_strongly_convex:
            r = prox_weights.initial_weights(
                self.agents, self.sizes, self.not_strongly_convex, stats
            )
            self.prox.weight, self.floor, current.phase = r, prox_weights.MIN_WEIGHT_RTOL * r, FIRST
        return bool(current.not_strongly_convex)

    def _evaluate(self, lam: Array, S: Array, abs_products: Array, scalars: Array) -> FBEPoint:
        return evaluate_fbe(self.h, self.scaling, lam, S, abs_products, scalars)

    def _track_entries(self, x: Array) -> None:
        """Remember how large the agents' answers have been."""
        largest = prox_weights.max_abs_entries(x, self.runtime.block.xptr)
        self.sizes = self.sizes._replace(max_entry=np.maximum(self.sizes.max_entry, largest))

    # -- the outer loop ---------------------------------------------------------------------------
    def _inner_done(self, rtol: float | None = None) -> bool:
        """Whether the inner problem is solved well enough to move the prox centers.

        What is left must be at most this ``inner_rtol`` of how far they move. Before the multiplier
        has moved it must be next to nothing: x alone would run away along an old multiplier.
        """
        current, point = self.current, self.point
        rtol = current.inner_rtol if rtol is None else rtol
        close = point.residual / self.scaling.gamma <= rtol * np.sqrt(point.scalars[PROX_DISTANCE])
        return bool(
            close
            or residual_is_rounding(self.scaling, point)
            or current.steps >= prox_weights.MAX_INNER_STEPS
        )

    def _on_no_progress(self) -> None:
        """Nothing improves any more: the end, or stronger proximal terms."""
        if self.current.not_strongly_convex:
            self._move_centers(stuck=not self._inner_done())
        else:
            self._terminate()

    def _terminate(self) -> None:
        """The end, at a point that rounding makes final; the certificate has the last word."""
        test = check_optimality(
            self.h, self.scaling, self.point, self.current.max_objective, self.tol, self.atol
        )
        final = residual_is_rounding(self.scaling, self.point)
        if (
            final and not test.met_but_for_cancellation
        ):  # rows that should be empty have no size to be judged by
            self.agents.zero_rounding_entries(self.current.lam, self.prox.x)
        self.current.status = "CONVERGED" if test.met_but_for_cancellation or final else "STALLED"

    def _move_centers(self, stuck: bool) -> None:
        """x̄ = x with weaker proximal terms, or stronger ones where the inner problem is stuck.

        Where that happens again, they become so strong that no row feels the agents' own rounding.
        """
        current, prox = self.current, self.prox
        if stuck and current.retreats >= prox_weights.MAX_RETREATS:
            self._terminate()
            return
        prox.ray = self.agents.recession_of(
            prox, self.scaling.D, current.row_slack, current.descent_rate
        )
        adjoints = prox_weights.adjoint_scales(self.agents, self.not_strongly_convex, current.lam)
        center = prox_weights.next_center(self.sizes, prox, adjoints, self.runtime.block.xptr)
        prox.center[:] = center
        row_scale = group_norm(current.max_row_scale, self.h.groups(len(current.max_row_scale)))
        scale = prox_weights.row_scales(
            row_scale, current.M, float(self.point.scalars[PROX_DISTANCE])
        )
        if stuck:
            r = 10.0 * prox.weight
            if current.retreats:
                tol = max(self.tol, MIN_TOL)
                r = np.maximum(
                    r,
                    prox_weights.min_weight_for_rounding(
                        self.agents, self.not_strongly_convex, prox.x, scale, tol
                    ),
                )
            current.retreats, self.floor, prox.weight = current.retreats + 1, 0.3 * r, r
        else:
            tol = max(self.tol, 1e-13)
            divisor = prox_weights.weight_divisor(current.steps, current.M, current.lam, scale, tol)
            floor = np.where(
                self.not_strongly_convex, prox_weights.MIN_WEIGHT_RTOL * self.runtime.block.lip, 0.0
            )
            default = prox_weights.default_divisor(current.steps)
            r = prox_weights.reduce_weights(
                self.agents, self.not_strongly_convex, prox.weight, current.M, divisor, default
            )
            prox.weight = np.maximum(r, np.maximum(floor, self.floor))
        current.max_objective = max(current.max_objective, self.point.objective)
        if np.linalg.norm(current.lam / self.scaling.D) <= _ZERO_DUAL_RTOL * current.max_dual_norm:
            current.lam = np.zeros_like(
                current.lam
            )  # a multiplier of rounding has no scale to be judged by
        current.outer_iterations, current.phase = current.outer_iterations + 1, FIRST
        stationary = is_stationary(self.scaling, self.point, current.max_row_scale)
        if not stuck and current.claims < _MAX_CLAIMS and stationary:
            current.claims, current.status = (
                current.claims + 1,
                "CONVERGED",
            )  # the certificate has the last word
            prox.x[:] = prox.center  # without entries that are nothing but rounding
