"""Newton's method on the dual, over exact sums along the spanning tree.

The dual problem is min_λ ψ(λ) + h*(λ) with ψ(λ) = -Σ_i min_x f_i + g_i + <A_iᵀλ, x>. Everybody
answers prices exactly; one sum brings S = Σ A_i x_i(λ), values and Σ A_i J_i A_iᵀ for some twenty
prices at once, from which everybody computes alike which of them to take and the next twenty.
Where f_i + g_i is not strongly convex a proximal term is added, and moved from time to time.
"""

from typing import Any

import numpy as np

from dual2.methods.method import Verdict
from dual2.methods.newton import flat as springs_of
from dual2.methods.newton.agents import Agents, Question, Springs
from dual2.methods.newton.coupling import (
    EPS,
    MOST,
    WAYS,
    Point,
    Trials,
    choose,
    equilibrate,
    find_ways,
    look,
    look_all,
    propose,
)
from dual2.methods.newton.message import FLAT, MOVED, PRICED, SCALARS, VARIABLES, Layout, half_size
from dual2.methods.newton.shared import (
    FIRST,
    JACOBIAN,
    SURVEY,
    TRIALS,
    OverSums,
    Shared,
    packed,
    unpacked,
)
from dual2.methods.newton.stopping import (
    falls_along,
    group_norm,
    is_at_rest,
    is_final,
    judge,
    proves_infeasible,
    separators,
)
from dual2.runtime import Runtime

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
_SHARP, _FINEST = 0.1, 1e-11
"""Part of the tolerance by which the rounding of a price may move a row, and the least tolerance
for which that is asked."""
_NO_PRICE = 1e-12
"""Length of a price, relative to the longest one, that is nothing but rounding."""
_IDLE, _CLAIMS = 3, 5
"""Steps without progress after which a point is final; how often one at rest is shown to the
certificate, since what agents still feel there may be nothing but rounding."""


class Newton(OverSums):
    """The method on one block of agents; each call of ``advance`` is at least one sum.

    Parameters
    ----------
    runtime : Runtime
        Where the agents are.
    max_sums : int
        Most sums.
    """

    now: Shared
    loosely = 0.1  # the same in general

    def __init__(self, runtime: Runtime, max_sums: int) -> None:
        super().__init__(runtime, max_sums)
        self.agents = Agents(runtime)
        self.flat = self.agents.flat()

    # -- start, save, restore ---------------------------------------------------------------------
    def _start(self, x: Array, lam: Array, priced: bool, warm: bool) -> None:
        """Begin; anchors begin at x, or at the nearest point of g."""
        rt, p, zero = self.runtime, self.runtime.p, np.zeros(self.runtime.p)
        price = rt.total(lam) / rt.problem.n if priced else zero
        G, M = self._unknown()
        known = np.zeros(SCALARS), G, M, zero, zero, zero, np.zeros((MOST, p)), np.zeros((WAYS, p))
        self.now = Shared(price, zero, zero, *known, near=int(priced), share=self.loosely)
        held = np.where(self.flat, np.maximum(rt.block.lip, 1.0), 0.0)  # until the survey is made
        self.springs = Springs(held, x.copy(), x.copy(), np.zeros_like(x))
        self.floor = np.zeros(rt.n)
        for i in np.flatnonzero(self.flat) if not warm else ():
            own = slice(rt.block.xptr[i], rt.block.xptr[i + 1])
            self.springs.anchor[own] = rt.problem.agents[i].g.prox(self.springs.anchor[own], 1.0)
        self.sizes = springs_of.take_survey(self.agents, self.flat, self.springs.anchor)
        self.agents.tried[:] = self.agents.asked = 0
        self._prepare()

    def _prepare(self) -> None:
        """What follows from the state; nothing is sent."""
        now, zero = self.now, np.zeros(self.runtime.p)
        self.scaling = equilibrate(now.M, self.h)
        if now.phase in (TRIALS, JACOBIAN):
            self.point = self._look(now.lam, now.S, now.load, now.numbers)
        else:
            numbers = now.numbers
            self.point = Point(
                now.lam, zero, zero, numbers, zero, zero, zero, zero, np.inf, 0.0, 0.0
            )

    def state(self) -> dict[str, Any]:
        """Everything needed to continue bit for bit."""
        springs = self.springs
        parts = {"x": springs.x, "anchor": springs.anchor, "r": springs.r, "ray": springs.ray}
        parts |= {"floor": self.floor, "tried": self.agents.tried}
        parts |= {"force": self.sizes.force, "seen": self.sizes.seen}
        own = {k: v.copy() for k, v in parts.items()} | {"asked": self.agents.asked}
        return packed(self.now) | own

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a saved :meth:`state`."""
        self.now = unpacked(Shared, state)
        own = (np.array(state[name]) for name in ("r", "anchor", "x", "ray"))
        self.springs, self.floor = Springs(*own), np.array(state["floor"])
        force, seen = np.array(state["force"]), np.array(state["seen"])
        self.sizes = self.sizes._replace(force=force, seen=seen)
        self.agents.tried[:], self.agents.asked = state["tried"], int(state["asked"])
        self._prepare()

    def reconsider(self) -> None:
        """Go on after an end to which the definitions did not consent."""
        self.now.end = ""

    # -- what others read -------------------------------------------------------------------------
    @property
    def x(self) -> Array:
        """Flat primal iterate: the agents' answers to λ."""
        return self.springs.x

    def oracle_calls(self) -> dict[str, int]:
        """Calls so far, by the names of :class:`dual2.Counts`."""
        asked, most = self.agents.asked, int(self.agents.tried.max(initial=0))
        local = max(asked, most)
        return {
            "grad_f": local,
            "prox_g": local,
            "A": asked,
            "AT": asked,
            "prox_h": asked,
            "iterations": self.now.sums,
            "outer": self.now.outers,
            "sums": self.now.sums,
        }

    # -- the loop ---------------------------------------------------------------------------------
    def _verdict(self) -> Verdict:
        ended = self.now.end
        return Verdict(
            self.now.kkt,
            self.now.lam,
            ended,
            self._asked,
            self.now.separator if ended == "INFEASIBLE" else None,
            self.springs.ray if ended == "UNBOUNDED" else None,
        )

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

    def _unknown(self) -> tuple[Array, Array]:
        """Places for Σ A_i J_i A_iᵀ and M."""
        square = np.zeros((self.runtime.p, self.runtime.p))
        return square, square

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

    def _survey(self, told: Array) -> bool:
        """Whether some agents need a proximal term, which then follows from the survey."""
        now, p = self.now, self.runtime.p
        now.flat, now.variables = int(told[p + FLAT]), float(told[p + VARIABLES])
        if now.flat:
            r = springs_of.first_weights(self.agents, self.sizes, self.flat, told)
            self.springs.r, self.floor, now.phase = r, springs_of.LEAST * r, FIRST
        return bool(now.flat)

    def _question(self, layout: Layout, trials: Array, directions: Array) -> Question:
        return Question(layout, trials, directions, self.point.y, self.request)

    def _look(self, lam: Array, S: Array, load: Array, numbers: Array) -> Point:
        return look(self.h, self.scaling, lam, S, load, numbers)

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
        now, least = self.now, _SHARP * max(self.tol, _FINEST)
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

    def _notice(self, x: Array) -> None:
        """Remember how large the agents' answers have been."""
        largest = springs_of.largest_entries(x, self.runtime.block.xptr)
        self.sizes = self.sizes._replace(seen=np.maximum(self.sizes.seen, largest))

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

    def _inner_done(self, share: float | None = None) -> bool:
        """Whether the inner problem is solved well enough to move the anchors.

        What is left must be at most this ``share`` of how far they move. Before the price has
        moved it must be next to nothing: x alone would run away along an old price.
        """
        now, at = self.now, self.point
        share = now.share if share is None else share
        near = at.residual / self.scaling.gamma <= share * np.sqrt(at.numbers[MOVED])
        return bool(near or is_final(self.scaling, at) or now.steps >= springs_of.STEPS)

    def _stuck(self) -> None:
        """Nothing improves any more: the end, or stronger proximal terms."""
        if self.now.flat:
            self._move_anchors(stuck=not self._inner_done())
        else:
            self._give_up()

    def _give_up(self) -> None:
        """The end, at a point that rounding makes final; the certificate has the last word."""
        found = judge(self.h, self.scaling, self.point, self.now.largest, self.tol, self.atol)
        final = is_final(self.scaling, self.point)
        if final and not found.nearly:  # rows that should be empty have no size to be judged by
            self.agents.round_off(self.now.lam, self.springs.x)
        self.now.end = "CONVERGED" if found.nearly or final else "STALLED"

    def _move_anchors(self, stuck: bool) -> None:
        """x̄ = x with weaker proximal terms, or stronger ones where the inner problem is stuck.

        Where that happens again, they become so strong that no row feels the agents' own rounding.
        """
        now, springs = self.now, self.springs
        if stuck and now.retreats >= springs_of.RETREATS:
            self._give_up()
            return
        springs.ray = self.agents.find_ray(springs, self.scaling.D, now.spare, now.fall)
        pulls = springs_of.pulls_of(self.agents, self.flat, now.lam)
        anchor = springs_of.next_anchor(self.sizes, springs, pulls, self.runtime.block.xptr)
        springs.anchor[:] = anchor
        widest = group_norm(now.widest, self.h.groups(len(now.widest)))
        scale = springs_of.row_scales(widest, now.M, float(self.point.numbers[MOVED]))
        if stuck:
            r = 10.0 * springs.r
            if now.retreats:
                tol = max(self.tol, _FINEST)
                r = np.maximum(r, springs_of.heard(self.agents, self.flat, springs.x, scale, tol))
            now.retreats, self.floor, springs.r = now.retreats + 1, 0.3 * r, r
        else:
            tol = max(self.tol, 1e-13)
            grow = springs_of.growth(now.steps, now.M, now.lam, scale, tol)
            least = np.where(self.flat, springs_of.LEAST * self.runtime.block.lip, 0.0)
            usual = springs_of.usual_growth(now.steps)
            r = springs_of.weakened(self.agents, self.flat, springs.r, now.M, grow, usual)
            springs.r = np.maximum(r, np.maximum(least, self.floor))
        now.largest = max(now.largest, self.point.objective)
        if np.linalg.norm(now.lam / self.scaling.D) <= _NO_PRICE * now.longest:
            now.lam = np.zeros_like(now.lam)  # a price of rounding has no scale to be judged by
        now.outers, now.phase = now.outers + 1, FIRST
        resting = is_at_rest(self.scaling, self.point, now.widest)
        if not stuck and now.claims < _CLAIMS and resting:
            now.claims, now.end = now.claims + 1, "CONVERGED"  # the certificate has the last word
            springs.x[:] = springs.anchor  # without entries that are nothing but rounding
