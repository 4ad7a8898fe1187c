"""The outer loop of the dual modes: what is kept between sums, and how proximal terms move.

Where f_i + g_i is not strongly convex, (r_i/2)|x_i - x̄_i|² is added. The anchors x̄_i move to x_i
when the inner problem is solved well enough, and r_i falls, or rises where rounding shows; see
:mod:`.flat`.
"""

from typing import Any

import numpy as np

from dual2.methods.method import Verdict
from dual2.methods.newton import flat as springs_of
from dual2.methods.newton.agents import Agents, Springs
from dual2.methods.newton.coupling import MOST, WAYS, Point, equilibrate, look
from dual2.methods.newton.message import FLAT, MOVED, SCALARS, VARIABLES
from dual2.methods.newton.shared import (
    FIRST,
    JACOBIAN,
    TRIALS,
    OverSums,
    Shared,
    packed,
    unpacked,
)
from dual2.methods.newton.stopping import group_norm, is_at_rest, is_final, judge
from dual2.runtime import Runtime

Array = np.ndarray
FINEST = 1e-11
"""Least tolerance for which rounding is asked to stay well below it."""
_NO_PRICE = 1e-12
"""Length of a price, relative to the longest one, that is nothing but rounding."""
_CLAIMS = 5
"""How often a point at rest is shown to the certificate, since what agents still feel there may be
nothing but rounding."""


class Outer(OverSums):
    """What a dual method over sums keeps, and its outer loop.

    Parameters
    ----------
    runtime : Runtime
        Where the agents are.
    max_sums : int
        Most sums.
    """

    now: Shared
    loosely = 0.1  # how much of a move may be left of the inner problem, in general

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
        """Go on after an end to which the definitions did not consent.

        First without the prices of rows that are nothing but rounding beside those of others: an
        agent who feels only such prices has nothing to compare them with.
        """
        now, costs = self.now, self.now.widest * np.abs(self.now.lam)
        kept = np.where(costs <= _NO_PRICE * costs.max(initial=0.0), 0.0, now.lam)
        now.end = "" if np.array_equal(kept, now.lam) else "CONVERGED"
        now.lam = kept
        if now.end and now.phase in (TRIALS, JACOBIAN):
            self.point = self._look(kept, now.S, now.load, now.numbers)

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

    def _unknown(self) -> tuple[Array, Array]:
        """Places for Σ A_i J_i A_iᵀ and M."""
        square = np.zeros((self.runtime.p, self.runtime.p))
        return square, square

    def _survey(self, told: Array) -> bool:
        """Whether some agents need a proximal term, which then follows from the survey."""
        now, p = self.now, self.runtime.p
        now.flat, now.variables = int(told[p + FLAT]), float(told[p + VARIABLES])
        if now.flat:
            r = springs_of.first_weights(self.agents, self.sizes, self.flat, told)
            self.springs.r, self.floor, now.phase = r, springs_of.LEAST * r, FIRST
        return bool(now.flat)

    def _look(self, lam: Array, S: Array, load: Array, numbers: Array) -> Point:
        return look(self.h, self.scaling, lam, S, load, numbers)

    def _notice(self, x: Array) -> None:
        """Remember how large the agents' answers have been."""
        largest = springs_of.largest_entries(x, self.runtime.block.xptr)
        self.sizes = self.sizes._replace(seen=np.maximum(self.sizes.seen, largest))

    # -- the outer loop ---------------------------------------------------------------------------
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
                tol = max(self.tol, FINEST)
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
