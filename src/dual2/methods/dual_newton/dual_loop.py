"""What the dual methods over sums share: Newton's method and L-BFGS.

The dual problem is min_λ ψ(λ) + h*(λ) with ψ(λ) = -Σ_i min_x f_i + g_i + <A_iᵀλ, x>. Every process
answers multipliers exactly; one sum brings S = Σ A_i x_i(λ) and values for several multipliers at
once, from which every process computes alike which of them to take and what to try next.
"""

from abc import abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np

from dual2.methods.deadline import OutOfTime
from dual2.methods.dual_newton.dual_agents import DualAgents, ProximalTerms, Query
from dual2.methods.dual_newton.dual_state import DualPhase, DualState
from dual2.methods.dual_newton.envelope import (
    EPS,
    MAX_CANDIDATES,
    MAX_TRIALS,
    FBEPoint,
    Trials,
    abs_bound_product,
    choose_trial,
    equilibrate,
    evaluate_fbe,
    evaluate_fbe_batch,
)
from dual2.methods.dual_newton.termination import (
    check_optimality,
    proves_infeasible,
    residual_is_rounding,
    separating_directions,
)
from dual2.methods.exact_sums import ExactSumMethod, dump_state, load_state
from dual2.methods.message import DUAL_ACTIVE, TRIAL_SCALARS, Layout
from dual2.methods.method import TerminationReport
from dual2.methods.run_status import RunStatus
from dual2.runtime import Runtime

Array = np.ndarray
_MIN_TOL = 1e-11
"""Least tolerance for which rounding is asked to stay well below it."""
_WARM_RESIDUAL = 0.1
"""Residual of a multiplier to start from, up to which one full step is tried alone."""
_ROUNDING_SHARE = 0.1
"""Part of the tolerance by which the rounding of a multiplier may move a row."""
_MAX_IDLE_STEPS = 3
"""Steps without progress after which a point is final."""
_ZERO_DUAL_RTOL = 1e-12
"""Length of a multiplier, relative to the longest one, that is nothing but rounding."""


class DualLoop(ExactSumMethod):
    """The loop on one block of agents; each call of ``advance`` is at least one sum.

    Subclasses propose trials and say which matrices travel.

    Parameters
    ----------
    runtime : Runtime
        Where the agents are.
    max_sums : int
        Most sums.
    """

    current: DualState

    def __init__(self, runtime: Runtime, max_sums: int) -> None:
        super().__init__(runtime, max_sums)
        self.agents = DualAgents(runtime)
        self.x = np.zeros(runtime.packed.size)
        """Flat primal iterate: the agents' answers to λ; a buffer, overwritten in place."""
        self.prox = ProximalTerms.none(runtime)

    # -- what a method gives ----------------------------------------------------------------------
    @abstractmethod
    def _empty_matrices(self) -> tuple[Array, Array]:
        """Places for Σ A_i J_i A_iᵀ and M, or what is known of them."""

    @abstractmethod
    def _first_layout(self) -> Layout:
        """Of a sum with one multiplier."""

    @abstractmethod
    def _trial_layout(self, count: int, directions: int) -> Layout:
        """Of a sum with so many multipliers."""

    @abstractmethod
    def _propose_trials(self) -> Trials:
        """The multipliers of the next sum."""

    def _take_curvature(self, layout: Layout, total: Array, trial: int) -> None:
        """Take what came with a trial that has been accepted; by default nothing does."""
        self.current = replace(self.current, phase=DualPhase.TRIALS)

    def _on_begin(self) -> None:
        """What a method adds after the first answers."""

    def _on_step(self, points: FBEPoint, diagonals: Array | None) -> None:
        """What a method adds after a step to one of these ``points``."""

    def _on_no_progress(self) -> None:
        """Nothing improves any more."""
        self._terminate()

    # -- start, save, restore ---------------------------------------------------------------------
    def _start(self, x: Array, lam: Array, priced: bool, warm: bool) -> None:
        rt, p, zero = self.runtime, self.runtime.p, np.zeros(self.runtime.p)
        multiplier = rt.allreduce_sum(lam) / rt.problem.n if priced else zero
        G, M = self._empty_matrices()
        trials, candidates = np.zeros((MAX_TRIALS, p)), np.zeros((MAX_CANDIDATES, p))
        answers = zero, zero, np.zeros(TRIAL_SCALARS)
        self.current = DualState(
            multiplier, *answers, G, M, zero, zero, zero, trials, candidates, warm_phase=priced
        )
        self.x = x.copy()
        self.agents.tried[:] = self.agents.queries = 0
        self._begin_proximal_terms(warm)
        self._prepare()

    def _begin_proximal_terms(self, warm: bool) -> None:
        """Set the proximal terms; by default there are none."""

    def _prepare(self) -> None:
        """What follows from the state; nothing is sent."""
        current, zero = self.current, np.zeros(self.runtime.p)
        self.scaling = equilibrate(current.M, self.h)
        if current.phase in (DualPhase.TRIALS, DualPhase.JACOBIAN):
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
        own = {"x": self.x.copy(), "tried": self.agents.tried.copy()}
        return dump_state(self.current) | own | {"queries": self.agents.queries}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a saved :meth:`state`."""
        self.current = load_state(DualState, state)
        self.x = np.array(state["x"])
        self.agents.resume(state["tried"], int(state["queries"]))
        self._prepare()

    def on_certificate_rejected(self) -> None:
        """Go on after an end to which the definitions did not consent.

        First without the multipliers of rows that are nothing but rounding beside those of others:
        an agent who feels only such multipliers has nothing to compare them with.
        """
        current, costs = self.current, self.current.max_row_scale * np.abs(self.current.lam)
        kept = np.where(costs <= _ZERO_DUAL_RTOL * costs.max(initial=0.0), 0.0, current.lam)
        same = np.array_equal(kept, current.lam)
        status = RunStatus.RUNNING if same else RunStatus.CONVERGED
        self.current = replace(current, status=status, lam=kept)
        if status and current.phase in (DualPhase.TRIALS, DualPhase.JACOBIAN):
            self.point = self._evaluate(kept, current.S, current.abs_products, current.scalars)

    def oracle_calls(self) -> dict[str, int]:
        """Calls so far, by the names of :class:`dual2.Counts`."""
        asked, sums = self.agents.queries, self.current.sums
        local = max(asked, int(self.agents.tried.max(initial=0)))
        each = {"grad_f": local, "prox_g": local, "A": asked, "AT": asked, "prox_h": asked}
        return each | {"iterations": sums, "sums": sums}

    def _report(self) -> TerminationReport:
        current = self.current
        separator = current.separator if current.status == RunStatus.INFEASIBLE else None
        return TerminationReport(
            current.kkt, current.lam, current.status, self._asked, separator, None
        )

    # -- the loop ---------------------------------------------------------------------------------
    def _sum(self) -> None:
        """One sum, and what follows from it."""
        phase = self.current.phase
        query, deltas = self._build_query()
        if (total := self._reduce(query)) is None:
            return
        self._asked = query.layout.read_request(total)
        if not np.isfinite(total).all():
            self.current = replace(self.current, status=RunStatus.DIVERGED)
            return
        if phase in (DualPhase.SETUP, DualPhase.FIRST):
            self._begin(query, total)
        elif phase == DualPhase.JACOBIAN:
            self._take_curvature(query.layout, total, 0)
        else:
            self._step(query, total, deltas)
        self._check_infeasible(query, total)
        if not self.current.status and self.current.sums >= self.max_sums:
            self._terminate()

    def _reduce(self, query: Query) -> Array | None:
        """The sum; None where time ends within it, and then nothing has happened."""
        agents, tried, queries = self.agents, self.agents.tried.copy(), self.agents.queries
        try:
            with self.runtime.comm.counted_if_finished():
                total = agents.reduce(query, self.prox, self.x, self.tol, self.deadline)
        except OutOfTime:
            agents.resume(tried, queries)
            return None
        self.current = replace(self.current, sums=self.current.sums + 1)
        return total

    def _build_query(self) -> tuple[Query, Array]:
        """The next question, and the regularisations behind its trials."""
        current, p = self.current, self.runtime.p
        if current.phase != DualPhase.TRIALS:
            none = np.zeros((0, p))
            return self._query(self._first_layout(), current.lam[None], none), np.zeros(1)
        trials = self._propose_trials()
        candidates = [trials.multipliers[0] - current.lam, current.lam, current.step]
        directions = separating_directions(self.h, self.scaling, candidates, current.trial_products)
        layout = self._trial_layout(len(trials.multipliers), len(directions))
        return self._query(layout, trials.multipliers, directions), trials.deltas

    def _query(self, layout: Layout, trials: Array, directions: Array) -> Query:
        return Query(layout, trials, directions, self.point.y, self.request)

    def _begin(self, query: Query, total: Array) -> None:
        """The first answers: row scales, and the residual at the start."""
        layout = query.layout
        M = layout.read_bound(total)
        self.scaling = equilibrate(M, self.h)
        S, abs_products, scalars = (part[0].copy() for part in layout.read_trials(total))
        products = S[None].repeat(MAX_TRIALS, axis=0)
        self.current = replace(self.current, M=M, trial_products=products)
        if layout.setup:
            self.current = replace(self.current, **layout.read_setup(total))
        self._accept(self._evaluate(self.current.lam, S, abs_products, scalars), 0)
        self._take_curvature(layout, total, 0)
        self.current = replace(
            self.current,
            best_residual=self.point.residual,
            idle=0,
            steps=0,
            damping=0.0,
            diagonally_dominant=False,
            max_objective=max(self.current.max_objective, float(self.point.objective)),
        )
        self._check_termination()
        near = self.current.warm_phase and self.current.kkt <= _WARM_RESIDUAL
        self.current = replace(self.current, warm_phase=bool(near))
        if not self.current.status:
            self._on_begin()

    def _step(self, query: Query, total: Array, deltas: Array) -> None:
        """Take the best of the trials."""
        layout, old = query.layout, self.point
        parts = layout.read_trials(total)
        products = parts[0][np.arange(MAX_TRIALS) % layout.trials]
        with np.errstate(over="ignore", invalid="ignore"):  # far trials may overflow, and lose
            points = evaluate_fbe_batch(self.h, self.scaling, query.trials, *parts)
        chosen, decreased = self._choose_trial(old, points)
        self.current = replace(self.current, trial_products=products, warm_phase=False)
        if chosen < 0:
            if layout.trials > 1:  # else the next sum tries more
                self._on_no_progress()
            return
        self._move_to(points.select(chosen), chosen, decreased)
        if deltas[chosen] > 0:  # the next damped trials surround the one that was right
            damping = 0.0 if chosen == 0 else float(deltas[chosen])
            self.current = replace(self.current, damping=damping)
        self._take_curvature(layout, total, chosen)
        self._on_step(points, layout.read_diagonals(total))
        self._check_termination()
        if not self.current.status and self.current.idle >= _MAX_IDLE_STEPS:
            self._on_no_progress()
        elif not self.current.status:
            self._after_step()

    def _after_step(self) -> None:
        """What a method does where the run goes on."""

    def _move_to(self, new: FBEPoint, trial: int, decreased: bool) -> None:
        """Count a step to a trial, and accept it."""
        current = self.current
        progress = decreased or new.residual < current.best_residual
        self.current = replace(
            current,
            idle=0 if progress else current.idle + 1,
            best_residual=min(current.best_residual, float(new.residual)),
            step=new.lam - self.point.lam,
            steps=current.steps + 1,
        )
        self._accept(new, trial)

    def _evaluate(self, lam: Array, S: Array, abs_products: Array, scalars: Array) -> FBEPoint:
        return evaluate_fbe(self.h, self.scaling, lam, S, abs_products, scalars)

    def _choose_trial(self, old: FBEPoint, new: FBEPoint) -> tuple[int, bool]:
        """Which of the new points is taken, -1 for none, and whether its envelope is lower."""
        chosen = choose_trial(
            old, new, self.current.best_residual, self.scaling.gamma, self._rounding_gain(new)
        )
        return chosen, bool(new.envelope[chosen] < old.envelope - 8.0 * EPS * old.magnitude)

    def _rounding_gain(self, new: FBEPoint) -> Array:
        """How much too far the rounding of each multiplier may move a row.

        That is up to ε|M||λ|, of which a tenth of the tolerance is too much, unless the present
        multiplier has as much.
        """
        current, rtol = self.current, _ROUNDING_SHARE * max(self.tol, _MIN_TOL)
        with np.errstate(over="ignore", invalid="ignore"):
            reach = [abs_bound_product(current.M, np.abs(lam)) for lam in (current.lam, *new.lam)]
            before, after = 2.0 * EPS * reach[0], EPS * np.array(reach[1:])
            rows = np.maximum(current.max_row_scale, np.maximum(new.abs_products, np.abs(new.y)))
            tolerated = np.maximum(before, rtol * rows)
            gain = np.divide(after, tolerated, out=np.zeros_like(after), where=tolerated > 0)
        return np.where(np.isfinite(gain), gain, np.inf).max(axis=1)

    def _accept(self, point: FBEPoint, trial: int) -> None:
        """Take a multiplier and the answers to it; entries that differ from z by rounding become z.

        No multiplier stays none: z has none but for rounding, which nothing could be compared with.
        """
        self.agents.adopt_trial(point.lam, trial, self.prox, self.x)
        noise = 8.0 * EPS * (np.abs(point.S) + np.abs(point.y)) / self.scaling.steps
        close = (np.abs(point.lam - point.z) <= noise) & (point.lam != 0)
        if close.any():
            multiplier = np.where(close, point.z, point.lam)
            point = self._evaluate(multiplier, point.S, point.abs_products, point.scalars)
        self.point = point
        lam, S, abs_products, scalars = (np.array(part) for part in point[:4])
        scale = np.maximum(point.abs_products, np.abs(point.y))
        largest = np.maximum(self.current.max_row_scale, scale)
        answers = {"lam": lam, "S": S, "abs_products": abs_products, "scalars": scalars}
        self.current = replace(self.current, **answers, max_row_scale=largest)

    # -- decisions --------------------------------------------------------------------------------
    def _check_termination(self) -> None:
        """Whether the optimality conditions hold; the certificate has the last word."""
        current = self.current
        test = self._check_optimality(self.point)
        if not test.met and self.point.scalars[DUAL_ACTIVE] == 0 and current.lam.any():
            at_zero = self.point._replace(lam=np.zeros_like(current.lam))
            test_at_zero = self._check_optimality(at_zero)
            if test_at_zero.met:  # every A_iᵀλ vanishes, whose direction is nothing but rounding
                test, self.point = test_at_zero, at_zero
                self.current = current = replace(current, lam=at_zero.lam)
        met = test.met and not current.status
        status = RunStatus.CONVERGED if met else current.status
        self.current = replace(current, kkt=test.kkt, status=status)

    def _check_optimality(self, point: FBEPoint) -> Any:
        largest = self.current.max_objective
        return check_optimality(self.h, self.scaling, point, largest, self.tol, self.atol)

    def _check_infeasible(self, query: Query, total: Array) -> None:
        """Whether one of the directions proves that there is no feasible point."""
        layout = query.layout
        if self.current.status == RunStatus.CONVERGED or not layout.directions:
            return
        for u, scalars in zip(query.directions, layout.read_directions(total), strict=True):
            if proves_infeasible(self.h, u, scalars, query.y):
                found = {"status": RunStatus.INFEASIBLE, "separator": u.copy()}
                self.current = replace(self.current, **found)

    def _terminate(self) -> None:
        """The end, at a point that rounding makes final; the certificate has the last word."""
        test = self._check_optimality(self.point)
        final = residual_is_rounding(self.scaling, self.point) and self._at_rest()
        if final and not test.met_but_for_cancellation:
            # Rows that should be empty have no size to be judged by.
            self.agents.zero_rounding_entries(self.current.lam, self.x)
        done = test.met_but_for_cancellation or final
        status = RunStatus.CONVERGED if done else RunStatus.STALLED
        self.current = replace(self.current, status=status)

    def _at_rest(self) -> bool:
        """Whether the problem that is solved is the user's, without active proximal terms."""
        return True
