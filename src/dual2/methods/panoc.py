"""L-BFGS on the dual over exact sums of vectors: no second derivatives, no matrices.

The residual r, the envelope and the row scales are those of :mod:`.envelope`. A limited memory
quasi-Newton direction d for r = 0 from the last pairs of steps and changes of r is mixed with the
proximal gradient step, λ + D(τd - (1-τ)r), for ten τ from 1 to 2⁻⁹ and τ = 0, all in one sum of
vectors, and the lowest envelope is taken (PANOC: Stella, Themelis, Sopasakis & Patrinos, 2017).
"""

from dataclasses import fields, replace
from typing import Any

import numpy as np

from dual2.methods.dual_newton.dual_agents import ProximalTerms
from dual2.methods.dual_newton.dual_loop import DualLoop
from dual2.methods.dual_newton.dual_state import DualPhase
from dual2.methods.dual_newton.envelope import EPS, FBEPoint, Scaling, Trials
from dual2.methods.dual_newton.termination import residual_is_rounding
from dual2.methods.message import PROX_DISTANCE, Layout
from dual2.methods.proximal_centers import (
    INNER_RTOL,
    MAX_INNER_STEPS,
    MAX_UNSOLVED_MOVES,
    ProximalState,
    next_proximal_state,
    start_proximal_state,
)
from dual2.runtime import Runtime

Array = np.ndarray
MAX_PAIRS = 20
"""Pairs that are kept."""
STEP_LENGTHS = tuple(2.0**-k for k in range(11))
CANCELLATION_ULPS = 1e4
"""Envelopes closer than this many roundings are compared by their slopes."""
MIN_CURVATURE_COSINE = 1e-12
"""Least cosine of a step and the change of r along it."""
_FIRST_INNER_RTOL = 1e-6
"""The same as INNER_RTOL before the multiplier has moved: x alone would run away along an old
one."""


class Panoc(DualLoop):
    """The method on one block of agents; each call of ``advance`` is at least one sum.

    Parameters
    ----------
    runtime : Runtime
        Where the agents are.
    max_sums : int
        Most sums.
    """

    def __init__(self, runtime: Runtime, max_sums: int) -> None:
        super().__init__(runtime, max_sums)
        self.pairs, self.count = np.zeros((MAX_PAIRS, 2, runtime.p)), 0
        """Pairs of steps and changes of r; a buffer, of which ``count`` are filled."""

    # -- start, save, restore ---------------------------------------------------------------------
    def start(self, x: Array, lam: Array) -> None:
        """Begin from x (flat) and λ (n, p)."""
        self.count = 0
        super().start(x, lam)

    def _begin_proximal_terms(self, warm: bool) -> None:
        self._take_terms(start_proximal_state(self.runtime, self.agents.weak, self.x, warm))

    def _take_terms(self, outer: ProximalState) -> None:
        self.outer, self.prox = outer, ProximalTerms(outer.weight, outer.center)

    def state(self) -> dict[str, Any]:
        """Everything needed to continue bit for bit."""
        pairs = {"pairs": self.pairs.copy(), "count": self.count}
        outer = {f.name: np.copy(getattr(self.outer, f.name)) for f in fields(ProximalState)}
        return super().state() | pairs | outer

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a saved :meth:`state`."""
        self.pairs, self.count = np.array(state["pairs"]), int(state["count"])
        weight, center, least = (np.array(state[k]) for k in ("weight", "center", "min_weight"))
        moves, unsolved = int(state["moves"]), int(state["unsolved"])
        self._take_terms(ProximalState(weight, center, least, moves, unsolved))
        super().restore(state)

    def oracle_calls(self) -> dict[str, int]:
        """Calls so far, by the names of :class:`dual2.Counts`."""
        return super().oracle_calls() | {"outer": self.outer.moves}

    # -- messages ---------------------------------------------------------------------------------
    def _empty_matrices(self) -> tuple[Array, Array]:
        return np.zeros(0), np.zeros(self.runtime.p + 1)

    def _first_layout(self) -> Layout:
        setup = self.current.phase == DualPhase.SETUP
        return Layout(self.runtime.p, 1, 0, False, 0, setup, rows=True)

    def _trial_layout(self, count: int, directions: int) -> Layout:
        return Layout(self.runtime.p, count, 0, False, directions)

    def _propose_trials(self) -> Trials:
        point, D, lengths = self.point, self.scaling.D, np.array(STEP_LENGTHS)
        d = -quasi_newton(self.pairs[: self.count], point.r)
        steps = np.outer(lengths, d) - np.outer(1.0 - lengths, point.r)
        multipliers = np.vstack([point.lam + D * steps, point.z])
        multipliers[~np.isfinite(multipliers).all(axis=1)] = point.z
        return Trials(multipliers, np.zeros(len(multipliers)))

    def _move_to(self, new: FBEPoint, trial: int, decreased: bool) -> None:
        old = self.point
        super()._move_to(new, trial, decreased)
        self._remember((self.point.lam - old.lam) / self.scaling.D, self.point.r - old.r)

    # -- the proximal point method ----------------------------------------------------------------
    def _on_begin(self) -> None:
        """With other centres the dual function is another one, and old pairs say nothing."""
        self.count = 0
        if self.current.weak_agents and self._inner_solved(_FIRST_INNER_RTOL):
            moved = bool(self.point.scalars[PROX_DISTANCE] > 0)
            self._move_centers(solved=moved, improved=moved)

    def _after_step(self) -> None:
        if not self.current.weak_agents:
            return
        if self._inner_solved(INNER_RTOL):
            self._move_centers(solved=True, improved=True)
        elif self.current.steps >= MAX_INNER_STEPS:
            self._move_centers(solved=False, improved=True)

    def _on_no_progress(self) -> None:
        if not self.current.weak_agents or self.outer.unsolved >= MAX_UNSOLVED_MOVES:
            self._terminate()
        else:
            solved = self._inner_solved(INNER_RTOL)
            self._move_centers(solved=solved, improved=solved)

    def _inner_solved(self, rtol: float) -> bool:
        """Whether what is left is at most this part of how far the centres will move."""
        move = np.sqrt(self.point.scalars[PROX_DISTANCE])
        close = self.point.residual / self.scaling.gamma <= rtol * move
        return bool(close or residual_is_rounding(self.scaling, self.point))

    def _at_rest(self) -> bool:
        """Whether the proximal terms are negligible for every agent, relative to the objective."""
        distance = float(self.point.scalars[PROX_DISTANCE])
        return distance <= EPS * float(self.point.objective)

    def _move_centers(self, solved: bool, improved: bool) -> None:
        if self.outer.unsolved >= MAX_UNSOLVED_MOVES:
            self._terminate()
            return
        self._take_terms(next_proximal_state(self.outer, self.x, solved, improved))
        largest = max(self.current.max_objective, float(self.point.objective))
        self.current = replace(self.current, phase=DualPhase.FIRST, max_objective=largest)

    # -- steps ------------------------------------------------------------------------------------
    def _choose_trial(self, old: FBEPoint, new: FBEPoint) -> tuple[int, bool]:
        """As for Newton's method where envelopes tell; by their slopes where they are a blur."""
        parts = np.where(np.isfinite(new.envelope), new.envelope - old.envelope, np.inf)
        decreases, noise = slopes(self.scaling, old, new)
        cancelled = np.abs(parts) <= CANCELLATION_ULPS * EPS * old.magnitude
        lowest = int(np.argmin(np.where(cancelled, decreases, parts)))
        if cancelled[lowest] and decreases[lowest] < -noise[lowest]:
            return lowest, True
        return super()._choose_trial(old, new)

    def _remember(self, step: Array, change: Array) -> None:
        size = float(np.linalg.norm(step) * np.linalg.norm(change))
        if not float(step @ change) > MIN_CURVATURE_COSINE * size:
            return
        if self.count == MAX_PAIRS:
            self.pairs[:-1] = self.pairs[1:].copy()
            self.count -= 1
        self.pairs[self.count] = step, change
        self.count += 1


def slopes(scaling: Scaling, old: FBEPoint, new: FBEPoint) -> tuple[Array, Array]:
    """How far the envelope falls from a point to each of several others, and what rounding hides.

    ψ and h* change by the mean of their slopes at both ends, up to half of what the slopes differ
    by (both are convex) and exactly where they are quadratic. Then most terms cancel on paper, and
    <(r + r⁺)/2, D⁻¹(λ⁺ - λ)/γ + D(S⁺ - S)> is left, which is far more exact than a difference of
    two envelopes (as a line search is by slopes: Hager & Zhang, 2005).
    """
    D, gamma, _ = scaling
    mean = 0.5 * (old.r + new.r)
    decreases = (mean * ((new.lam - old.lam) / (gamma * D) + D * (new.S - old.S))).sum(axis=-1)
    parts = np.abs(old.lam) / (gamma * D) + D * old.abs_products
    return decreases, EPS * (np.abs(mean) * parts).sum(axis=-1)


def quasi_newton(pairs: Array, v: Array) -> Array:
    """The two-loop recursion (Nocedal, 1980): an approximate inverse from pairs, times v.

    Examples
    --------
    >>> quasi_newton(np.array([[[1.0, 0.0], [4.0, 0.0]]]), np.array([4.0, 4.0])).tolist()
    [1.0, 1.0]
    """
    q, weights = v.copy(), []
    for s, y in pairs[::-1]:
        weights.append(float(s @ q) / float(s @ y))
        q = q - weights[-1] * y
    if len(pairs):
        s, y = pairs[-1]
        q = q * (float(s @ y) / float(y @ y))
    for (s, y), weight in zip(pairs, weights[::-1], strict=True):
        q = q + (weight - float(y @ q) / float(s @ y)) * s
    return q
