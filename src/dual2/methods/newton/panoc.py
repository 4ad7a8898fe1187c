"""L-BFGS on the dual over exact sums of vectors: no second derivatives, no matrices.

The residual r, the envelope and the row scales are those of :mod:`.coupling`. A limited memory
quasi-Newton direction d for r = 0 from the last pairs of steps and changes of r is mixed with the
proximal gradient step, λ + D(τd - (1-τ)r), for ten τ from 1 to 2⁻⁹ and τ = 0, all in one sum of
vectors, and the lowest envelope is taken (PANOC: Stella, Themelis, Sopasakis & Patrinos, 2017).
"""

from typing import Any

import numpy as np

from dual2.methods.newton.agents import Question
from dual2.methods.newton.algorithm import Newton
from dual2.methods.newton.coupling import EPS, Point, Scaling, Trials
from dual2.methods.newton.message import Layout
from dual2.methods.newton.shared import FIRST, SURVEY, TRIALS

Array = np.ndarray
MEMORY = 20
"""Pairs that are kept."""
LENGTHS = tuple(2.0**-k for k in range(11))
BLURRED = 1e4
"""Envelopes closer than this many roundings are compared by their slopes."""
CURVED = 1e-12
"""Least cosine of a step and the change of r along it."""


class Panoc(Newton):
    """The method on one block of agents; each call of ``advance`` is at least one sum.

    Inner problems are solved more exactly than by Newton's method, whose last step overshoots any
    demand: with a tenth left of every one the anchors of linear programs wander.
    """

    loosely = 3e-3

    def start(self, x: Array, lam: Array) -> None:
        """Begin from x (flat) and λ (n, p)."""
        self.pairs, self.count = np.zeros((MEMORY, 2, self.runtime.p)), 0
        super().start(x, lam)

    def state(self) -> dict[str, Any]:
        """Everything needed to continue bit for bit."""
        return super().state() | {"pairs": self.pairs.copy(), "count": self.count}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a saved :meth:`state`."""
        self.pairs, self.count = np.array(state["pairs"]), int(state["count"])
        super().restore(state)

    def _unknown(self) -> tuple[Array, Array]:
        return np.zeros(0), np.zeros(self.runtime.p + 1)

    def _first_layout(self) -> Layout:
        now, p = self.now, self.runtime.p
        ray = now.phase == FIRST and now.outers > 0
        return Layout(p, 1, 0, False, 0, ray, now.phase == SURVEY, rows=True)

    def _layout(self, count: int, directions: int) -> Layout:
        return Layout(self.runtime.p, count, 0, False, directions)

    def _propose(self) -> Trials:
        at, D, lengths = self.point, self.scaling.D, np.array(LENGTHS)
        d = -quasi_newton(self.pairs[: self.count], at.r)
        steps = np.outer(lengths, d) - np.outer(1.0 - lengths, at.r)
        prices = np.vstack([at.lam + D * steps, at.z])
        prices[~np.isfinite(prices).all(axis=1)] = at.z
        return Trials(prices, np.zeros(len(prices)))

    def _take_jacobian(self, G: Array | None) -> None:
        self.now.phase = TRIALS

    def _begin(self, question: Question, total: Array) -> None:
        """With other anchors the dual function is another one, and old pairs tell nothing."""
        self.count = 0
        super()._begin(question, total)

    def _step(self, question: Question, total: Array, deltas: Array) -> None:
        old, scaling = self.point, self.scaling
        super()._step(question, total, deltas)
        if self.point is not old and self.now.phase == TRIALS:
            self._remember((self.point.lam - old.lam) / scaling.D, self.point.r - old.r)

    def _choose(self, old: Point, new: Point) -> tuple[int, bool]:
        """As for Newton's method where envelopes tell; by their slopes where they are a blur."""
        told = np.where(np.isfinite(new.envelope), new.envelope - old.envelope, np.inf)
        falls, noise = slopes(self.scaling, old, new)
        blurred = np.abs(told) <= BLURRED * EPS * old.magnitude
        lowest = int(np.argmin(np.where(blurred, falls, told)))
        if blurred[lowest] and falls[lowest] < -noise[lowest]:
            return lowest, True
        return super()._choose(old, new)

    def _remember(self, step: Array, change: Array) -> None:
        size = float(np.linalg.norm(step) * np.linalg.norm(change))
        if not float(step @ change) > CURVED * size:
            return
        if self.count == MEMORY:
            self.pairs[:-1] = self.pairs[1:].copy()
            self.count -= 1
        self.pairs[self.count] = step, change
        self.count += 1


def slopes(scaling: Scaling, old: Point, new: Point) -> tuple[Array, Array]:
    """How far the envelope falls from a point to each of several others, and what rounding hides.

    ψ and h* change by the mean of their slopes at both ends, up to half of what the slopes differ
    by (both are convex) and exactly where they are quadratic. Then most terms cancel on paper, and
    <(r + r⁺)/2, D⁻¹(λ⁺ - λ)/γ + D(S⁺ - S)> is left, which is far more exact than a difference of
    two envelopes (as a line search is by slopes: Hager & Zhang, 2005).
    """
    D, gamma, _ = scaling
    mean = 0.5 * (old.r + new.r)
    falls = (mean * ((new.lam - old.lam) / (gamma * D) + D * (new.S - old.S))).sum(axis=-1)
    parts = np.abs(old.lam) / (gamma * D) + D * old.load
    return falls, EPS * (np.abs(mean) * parts).sum(axis=-1)


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
