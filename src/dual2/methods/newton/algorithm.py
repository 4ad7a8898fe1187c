"""Newton's method on the dual, over exact sums along the spanning tree.

The dual problem is min_λ ψ(λ) + h*(λ) with ψ(λ) = -Σ_i min_x f_i + g_i + <A_iᵀλ, x>. Everybody
answers prices exactly; one sum brings S = Σ A_i x_i(λ), values and Σ A_i J_i A_iᵀ for some twenty
prices at once, from which everybody computes alike which of them to take and the next twenty.
Where f_i + g_i is not strongly convex a proximal term is added, and moved from time to time.
"""

import numpy as np

from dual2.methods.newton import flat as springs_of
from dual2.methods.newton.agents import Question
from dual2.methods.newton.coupling import (
    EPS,
    MOST,
    Point,
    Trials,
    choose,
    equilibrate,
    find_ways,
    look_all,
    propose,
)
from dual2.methods.newton.message import MOVED, PRICED, Layout, half_size
from dual2.methods.newton.outer import FINEST, Outer
from dual2.methods.newton.shared import (
    FIRST,
    JACOBIAN,
    SURVEY,
    TRIALS,
)
from dual2.methods.newton.stopping import (
    falls_along,
    judge,
    proves_infeasible,
    separators,
)

Array = np.ndarray
_MANY = 100_000
"""Most numbers of Jacobians in a message: up to here every trial comes with its own."""
_HEAVY = 2e9
"""Multiply-adds for the Jacobians of all trials above which only the first has one."""
_EXACTLY = 1e-11
"""How much may be left of the inner problem, beside the move, before the anchors are moved, where
the last move looked like one along which the objective falls for ever."""
_LITTLE = 1e-6
"""Part of the rows' slack and of the objective's fall that one agent need not contribute."""
_NEAR = 0.1
"""Residual of a price to start from, up to which one full Newton step is tried alone."""
_SHARP = 0.1
"""Part of the tolerance by which the rounding of a price may move a row."""
_IDLE = 3
"""Steps without progress after which a point is final."""


class Newton(Outer):
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
        now = self.now
        now.sums += 1
        question, deltas = self._ask()
        total = self.agents.total(question, self.springs, self.tol)
        self._asked = question.layout.read_request(total)
        if now.phase == SURVEY and self._survey(question.layout.read_survey(total)):
            return
        if not np.isfinite(total).all():
            now.end = "DIVERGED"
            return
        if now.phase in (SURVEY, FIRST):
            self._begin(question, total)
        elif now.phase == JACOBIAN:
            self._take_jacobian(question.layout.read_jacobian(total, 0))
        else:
            self._step(question, total, deltas)
        self._examine(question, total)
        if not now.end and now.sums >= self.max_sums:
            self._give_up()

    def _ask(self) -> tuple[Question, Array]:
        """The next question, and the regularisations behind its trials."""
        now, p = self.now, self.runtime.p
        if now.phase != TRIALS:
            layout = self._first_layout()
            return self._question(layout, now.lam[None], np.zeros((0, p))), np.zeros(1)
        trials = self._propose()
        candidates = [trials.prices[0] - now.lam, now.lam, now.step]
        directions = separators(self.h, self.scaling, candidates, now.reached)
        layout = self._layout(len(trials.prices), len(directions))
        return self._question(layout, trials.prices, directions), trials.deltas

    def _first_layout(self) -> Layout:
        """Of a sum with one price."""
        now, p = self.now, self.runtime.p
        ray = now.phase == FIRST and now.outers > 0
        return Layout(p, 1, 1, now.phase != JACOBIAN, 0, ray, now.phase == SURVEY)

    def _propose(self) -> Trials:
        """The prices of the next sum."""
        now = self.now
        ways = now.ways if now.apart else now.ways[:0]
        trials = propose(self.h, self.scaling, self.point, now.G, now.around, ways)
        return Trials(trials.prices[:1], trials.deltas[:1]) if now.near else trials

    def _layout(self, count: int, directions: int) -> Layout:
        """Of a sum with so many prices: with Jacobians of all unless they are too much."""
        p = self.runtime.p
        few = count * half_size(p) > _MANY or count * self.now.variables * p**2 > _HEAVY
        return Layout(p, count, 1 if few else count, False, directions)

    def _question(self, layout: Layout, trials: Array, directions: Array) -> Question:
        return Question(layout, trials, directions, self.point.y, self.request)

    def _begin(self, question: Question, total: Array) -> None:
        """The first answers with these anchors."""
        now, layout = self.now, question.layout
        now.M = layout.read_bound(total)
        self.scaling = equilibrate(now.M, self.h)
        S, load, numbers = (part[0].copy() for part in layout.read_trials(total))
        now.reached = S[None].repeat(MOST, axis=0)
        self._accept(self._look(now.lam, S, load, numbers), 0)
        self._take_jacobian(layout.read_jacobian(total, 0))
        now.best, now.idle, now.steps, now.around = self.point.residual, 0, 0, 0.0
        now.apart = 0
        now.largest = max(now.largest, self.point.objective)
        if layout.ray:
            self._follow(layout.read_ray(total))
        self._test()
        now.near = int(now.near and now.kkt <= _NEAR and not now.flat)
        if not now.end and now.flat and self._inner_done(min(1e-6, now.share)):
            self._move_anchors(stuck=self.point.numbers[MOVED] == 0)

    def _follow(self, ray: Array) -> None:
        """Whether the objective falls for ever along the last move, or may: then move exactly."""
        now = self.now
        fall = falls_along(self.h, self.scaling, ray, now.longest, self.point.objective)
        now.share = _EXACTLY if fall.nearly else self.loosely
        now.spare, now.fall = _LITTLE * fall.spare, _LITTLE * fall.rate
        if fall.proven:
            now.end = "UNBOUNDED"

    def _step(self, question: Question, total: Array, deltas: Array) -> None:
        """Take the best of the trials."""
        now, layout, old = self.now, question.layout, self.point
        told = layout.read_trials(total)
        now.reached = told[0][np.arange(MOST) % layout.trials]
        with np.errstate(over="ignore", invalid="ignore"):
            points = look_all(self.h, self.scaling, question.trials, *told)
        chosen, ahead = self._choose(old, points)
        now.near = 0
        if chosen < 0:
            if layout.trials > 1:  # else the next sum tries more
                self._stuck()
            return
        new = points.one(chosen)
        now.idle = 0 if ahead or new.residual < now.best else now.idle + 1
        now.best = min(now.best, new.residual)
        now.step = new.lam - old.lam
        if deltas[chosen] > 0:
            now.around = 0.0 if chosen == 0 else float(deltas[chosen])
        self._accept(new, chosen)
        now.steps, now.taken = now.steps + 1, now.taken + 1
        self._take_jacobian(layout.read_jacobian(total, chosen))
        ways = find_ways(self.h, self.scaling, points, now.G, layout.read_diagonals(total))
        now.apart, now.ways = int(ways is not None), now.ways if ways is None else ways
        self._test()
        if not now.end and now.idle >= _IDLE:
            self._stuck()
        elif not now.end and self.now.flat and self._inner_done():
            self._move_anchors(stuck=False)

    def _choose(self, old: Point, new: Point) -> tuple[int, bool]:
        """Which of the new points is taken, -1 for none, and whether its envelope is lower."""
        chosen = choose(old, new, self.now.best, self.scaling.gamma, self._felt(new))
        return chosen, bool(new.envelope[chosen] < old.envelope - 8.0 * EPS * old.magnitude)

    def _felt(self, new: Point) -> Array:
        """How much too far the rounding of each price may move a row.

        That is up to ε|M||λ|, of which a tenth of the tolerance is too much, unless the present
        price has as much.
        """
        now, least = self.now, _SHARP * max(self.tol, FINEST)
        with np.errstate(over="ignore", invalid="ignore"):
            reach = [springs_of.reach_of(now.M, np.abs(lam)) for lam in (now.lam, *new.lam)]
            before, after = 2.0 * EPS * reach[0], EPS * np.array(reach[1:])
            rows = np.maximum(now.widest, np.maximum(new.load, np.abs(new.y)))
            room = np.maximum(before, least * rows)
            felt = np.divide(after, room, out=np.zeros_like(after), where=room > 0)
        return np.where(np.isfinite(felt), felt, np.inf).max(axis=1)

    def _accept(self, point: Point, trial: int) -> None:
        """Take a price and the answers to it; entries that differ from z by rounding become z.

        No price stays none: z has none but for rounding, which nothing could be compared with.
        """
        now = self.now
        self.agents.settle(point.lam, trial, self.springs)
        self._notice(self.springs.x)
        noise = 8.0 * EPS * (np.abs(point.S) + np.abs(point.y)) / self.scaling.steps
        near = (np.abs(point.lam - point.z) <= noise) & (point.lam != 0)
        if near.any():
            price = np.where(near, point.z, point.lam)
            point = self._look(price, point.S, point.load, point.numbers)
        self.point = point
        now.lam, now.S, now.load, now.numbers = (np.array(part) for part in self.point[:4])
        now.widest = np.maximum(now.widest, np.maximum(point.load, np.abs(point.y)))
        now.longest = max(now.longest, float(np.linalg.norm(now.lam / self.scaling.D)))

    def _take_jacobian(self, G: Array | None) -> None:
        """Σ A_i J_i A_iᵀ at λ; another sum brings it if it did not travel."""
        self.now.phase = JACOBIAN if G is None else TRIALS
        if G is not None:
            self.now.G = G

    # -- decisions --------------------------------------------------------------------------------
    def _test(self) -> None:
        now = self.now
        found = judge(self.h, self.scaling, self.point, now.largest, self.tol, self.atol)
        if not found.met and self.point.numbers[PRICED] == 0 and now.lam.any():
            none = self.point._replace(lam=np.zeros_like(now.lam))
            without = judge(self.h, self.scaling, none, now.largest, self.tol, self.atol)
            if without.met:  # nobody feels the price, whose direction is nothing but rounding
                found, self.point, now.lam = without, none, none.lam
        now.kkt = found.kkt
        if found.met and not now.end:
            now.end = "CONVERGED"

    def _examine(self, question: Question, total: Array) -> None:
        """Whether one of the directions proves that there is no feasible point."""
        now, layout = self.now, question.layout
        if now.end == "CONVERGED" or not layout.directions:
            return
        for u, numbers in zip(question.directions, layout.read_directions(total), strict=True):
            if proves_infeasible(self.h, u, numbers, question.y):
                now.end, now.separator = "INFEASIBLE", u.copy()
