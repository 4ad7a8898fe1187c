"""Newton's method on the dual, over exact sums along the spanning tree.

The dual problem is min_λ ψ(λ) + h*(λ) with ψ(λ) = -Σ_i min_x f_i + g_i + <A_iᵀλ, x>. Every process
answers multipliers exactly; one sum brings S = Σ A_i x_i(λ), values and Σ A_i J_i A_iᵀ for some
twenty multipliers at once, from which every process computes alike which of them to take and the
next twenty. Where f_i + g_i is not strongly convex a proximal term is added, and moved from time to
time.
"""

import numpy as np

from dual2.methods.deadline import OutOfTime
from dual2.methods.dual_newton import prox_weights
from dual2.methods.dual_newton.agents import Query
from dual2.methods.dual_newton.envelope import (
    EPS,
    MAX_TRIALS,
    FBEPoint,
    Trials,
    choose_trial,
    coordinate_candidates,
    equilibrate,
    evaluate_fbe_batch,
    propose_trials,
)
from dual2.methods.dual_newton.proximal_point import MIN_TOL, ProximalOuterLoop
from dual2.methods.dual_newton.termination import (
    check_optimality,
    check_recession,
    proves_infeasible,
    separating_directions,
)
from dual2.methods.exact_sums import (
    FIRST,
    JACOBIAN,
    SETUP,
    TRIALS,
)
from dual2.methods.message import DUAL_ACTIVE, PROX_DISTANCE, Layout, triangle_size

Array = np.ndarray
_MAX_JACOBIAN_NUMBERS = 100_000
"""Most numbers of Jacobians in a message: up to here every trial comes with its own."""
_MAX_JACOBIAN_WORK = 2e9
"""Multiply-adds for the Jacobians of all trials above which only the first has one."""
_TIGHT_INNER_RTOL = 1e-11
"""How much may be left of the inner problem, beside the move, before the prox centers are moved,
where the last move looked like one along which the objective falls without bound."""
_NEGLIGIBLE_PART = 1e-6
"""Part of the rows' slack and of the objective's fall that one agent need not contribute."""
_WARM_RESIDUAL = 0.1
"""Residual of a multiplier to start from, up to which one full Newton step is tried alone."""
_ROUNDING_SHARE = 0.1
"""Part of the tolerance by which the rounding of a multiplier may move a row."""
_MAX_IDLE_STEPS = 3
"""Steps without progress after which a point is final."""


class Newton(ProximalOuterLoop):
    """The method on one block of agents; each call of ``advance`` is at least one sum.

    Parameters
    ----------
    runtime : Runtime
        Where the agents are.
    max_sums : int
        Most sums.
    """

    # -- the loop ---------------------------------------------------------------------------------
    def _sum(self) -> None:
        """One sum, and what follows from it."""
        current = self.current
        current.sums += 1
        query, deltas = self._build_query()
        if (total := self._reduce(query)) is None:
            return
        self._asked = query.layout.read_request(total)
        if current.phase == SETUP and self._read_setup(query.layout.read_setup(total)):
            return
        if not np.isfinite(total).all():
            current.status = "DIVERGED"
            return
        if current.phase in (SETUP, FIRST):
            self._begin(query, total)
        elif current.phase == JACOBIAN:
            self._take_jacobian(query.layout.read_jacobian(total, 0))
        else:
            self._step(query, total, deltas)
        self._check_infeasible(query, total)
        if not current.status and current.sums >= self.max_sums:
            self._terminate()

    def _reduce(self, query: Query) -> Array | None:
        """The sum; None where time ends within it, and then nothing has happened."""
        comm, agents = self.runtime.comm, self.agents
        counts, tried = (comm.sums, comm.agree_floats, agents.queries), agents.tried.copy()
        try:
            return agents.reduce(query, self.prox, self.tol, self.deadline)
        except OutOfTime:
            comm.sums, comm.agree_floats, agents.queries = counts
            agents.tried[:] = tried
            self.current.sums -= 1
            return None

    def _build_query(self) -> tuple[Query, Array]:
        """The next question, and the regularisations behind its trials."""
        current, p = self.current, self.runtime.p
        if current.phase != TRIALS:
            layout = self._first_layout()
            return self._make_query(layout, current.lam[None], np.zeros((0, p))), np.zeros(1)
        trials = self._propose_trials()
        candidates = [trials.multipliers[0] - current.lam, current.lam, current.step]
        directions = separating_directions(self.h, self.scaling, candidates, current.trial_products)
        layout = self._trial_layout(len(trials.multipliers), len(directions))
        return self._make_query(layout, trials.multipliers, directions), trials.deltas

    def _first_layout(self) -> Layout:
        """Of a sum with one multiplier."""
        current, p = self.current, self.runtime.p
        ray = current.phase == FIRST and current.outer_iterations > 0
        return Layout(p, 1, 1, current.phase != JACOBIAN, 0, ray, current.phase == SETUP)

    def _propose_trials(self) -> Trials:
        """The multipliers of the next sum."""
        current = self.current
        candidates = current.candidates if current.diagonally_dominant else current.candidates[:0]
        trials = propose_trials(
            self.h, self.scaling, self.point, current.G, current.damping, candidates
        )
        return Trials(trials.multipliers[:1], trials.deltas[:1]) if current.warm_phase else trials

    def _trial_layout(self, count: int, directions: int) -> Layout:
        """Of a sum with so many multipliers: with Jacobians of all unless they are too much."""
        p = self.runtime.p
        first_only = (
            count * triangle_size(p) > _MAX_JACOBIAN_NUMBERS
            or count * self.current.variables * p**2 > _MAX_JACOBIAN_WORK
        )
        return Layout(p, count, 1 if first_only else count, False, directions)

    def _make_query(self, layout: Layout, trials: Array, directions: Array) -> Query:
        return Query(layout, trials, directions, self.point.y, self.request)

    def _begin(self, query: Query, total: Array) -> None:
        """The first answers with these prox centers."""
        current, layout = self.current, query.layout
        current.M = layout.read_bound(total)
        self.scaling = equilibrate(current.M, self.h)
        S, abs_products, scalars = (part[0].copy() for part in layout.read_trials(total))
        current.trial_products = S[None].repeat(MAX_TRIALS, axis=0)
        self._accept(self._evaluate(current.lam, S, abs_products, scalars), 0)
        self._take_jacobian(layout.read_jacobian(total, 0))
        current.best_residual, current.idle, current.steps, current.damping = (
            self.point.residual,
            0,
            0,
            0.0,
        )
        current.diagonally_dominant = 0
        current.max_objective = max(current.max_objective, self.point.objective)
        if layout.ray:
            self._check_unbounded(layout.read_ray(total))
        self._check_termination()
        current.warm_phase = int(
            current.warm_phase and current.kkt <= _WARM_RESIDUAL and not current.not_strongly_convex
        )
        if (
            not current.status
            and current.not_strongly_convex
            and self._inner_done(min(1e-6, current.inner_rtol))
        ):
            self._move_centers(stuck=self.point.scalars[PROX_DISTANCE] == 0)

    def _check_unbounded(self, ray: Array) -> None:
        """Is the objective unbounded below along the last move? If it may be, move exactly."""
        current = self.current
        recession = check_recession(
            self.h, self.scaling, ray, current.max_dual_norm, self.point.objective
        )
        current.inner_rtol = (
            _TIGHT_INNER_RTOL if recession.met_but_for_cancellation else self.default_inner_rtol
        )
        current.row_slack, current.descent_rate = (
            _NEGLIGIBLE_PART * recession.slack,
            _NEGLIGIBLE_PART * recession.rate,
        )
        if recession.proven:
            current.status = "UNBOUNDED"

    def _step(self, query: Query, total: Array, deltas: Array) -> None:
        """Take the best of the trials."""
        current, layout, old = self.current, query.layout, self.point
        parts = layout.read_trials(total)
        current.trial_products = parts[0][np.arange(MAX_TRIALS) % layout.trials]
        with np.errstate(over="ignore", invalid="ignore"):
            points = evaluate_fbe_batch(self.h, self.scaling, query.trials, *parts)
        chosen, decreased = self._choose_trial(old, points)
        current.warm_phase = 0
        if chosen < 0:
            if layout.trials > 1:  # else the next sum tries more
                self._on_no_progress()
            return
        new = points.select(chosen)
        current.idle = 0 if decreased or new.residual < current.best_residual else current.idle + 1
        current.best_residual = min(current.best_residual, new.residual)
        current.step = new.lam - old.lam
        if deltas[chosen] > 0:
            current.damping = 0.0 if chosen == 0 else float(deltas[chosen])
        self._accept(new, chosen)
        current.steps += 1
        self._take_jacobian(layout.read_jacobian(total, chosen))
        candidates = coordinate_candidates(
            self.h, self.scaling, points, current.G, layout.read_diagonals(total)
        )
        current.diagonally_dominant, current.candidates = (
            int(candidates is not None),
            current.candidates if candidates is None else candidates,
        )
        self._check_termination()
        if not current.status and current.idle >= _MAX_IDLE_STEPS:
            self._on_no_progress()
        elif not current.status and self.current.not_strongly_convex and self._inner_done():
            self._move_centers(stuck=False)

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
        current, rtol = self.current, _ROUNDING_SHARE * max(self.tol, MIN_TOL)
        with np.errstate(over="ignore", invalid="ignore"):
            reach = [
                prox_weights.abs_bound_product(current.M, np.abs(lam))
                for lam in (current.lam, *new.lam)
            ]
            before, after = 2.0 * EPS * reach[0], EPS * np.array(reach[1:])
            rows = np.maximum(current.max_row_scale, np.maximum(new.abs_products, np.abs(new.y)))
            tolerated = np.maximum(before, rtol * rows)
            gain = np.divide(after, tolerated, out=np.zeros_like(after), where=tolerated > 0)
        return np.where(np.isfinite(gain), gain, np.inf).max(axis=1)

    def _accept(self, point: FBEPoint, trial: int) -> None:
        """Take a multiplier and the answers to it; entries that differ from z by rounding become z.

        No multiplier stays none: z has none but for rounding, which nothing could be compared with.
        """
        current = self.current
        self.agents.adopt_trial(point.lam, trial, self.prox)
        self._track_entries(self.prox.x)
        noise = 8.0 * EPS * (np.abs(point.S) + np.abs(point.y)) / self.scaling.steps
        close = (np.abs(point.lam - point.z) <= noise) & (point.lam != 0)
        if close.any():
            multiplier = np.where(close, point.z, point.lam)
            point = self._evaluate(multiplier, point.S, point.abs_products, point.scalars)
        self.point = point
        current.lam, current.S, current.abs_products, current.scalars = (
            np.array(part) for part in self.point[:4]
        )
        current.max_row_scale = np.maximum(
            current.max_row_scale, np.maximum(point.abs_products, np.abs(point.y))
        )
        current.max_dual_norm = max(
            current.max_dual_norm, float(np.linalg.norm(current.lam / self.scaling.D))
        )

    def _take_jacobian(self, G: Array | None) -> None:
        """Σ A_i J_i A_iᵀ at λ; another sum brings it if it did not travel."""
        self.current.phase = JACOBIAN if G is None else TRIALS
        if G is not None:
            self.current.G = G

    # -- decisions --------------------------------------------------------------------------------
    def _check_termination(self) -> None:
        current = self.current
        test = check_optimality(
            self.h, self.scaling, self.point, current.max_objective, self.tol, self.atol
        )
        if not test.met and self.point.scalars[DUAL_ACTIVE] == 0 and current.lam.any():
            at_zero = self.point._replace(lam=np.zeros_like(current.lam))
            test_at_zero = check_optimality(
                self.h, self.scaling, at_zero, current.max_objective, self.tol, self.atol
            )
            if test_at_zero.met:  # every A_iᵀλ vanishes, whose direction is nothing but rounding
                test, self.point, current.lam = test_at_zero, at_zero, at_zero.lam
        current.kkt = test.kkt
        if test.met and not current.status:
            current.status = "CONVERGED"

    def _check_infeasible(self, query: Query, total: Array) -> None:
        """Whether one of the directions proves that there is no feasible point."""
        current, layout = self.current, query.layout
        if current.status == "CONVERGED" or not layout.directions:
            return
        for u, scalars in zip(query.directions, layout.read_directions(total), strict=True):
            if proves_infeasible(self.h, u, scalars, query.y):
                current.status, current.separator = "INFEASIBLE", u.copy()
