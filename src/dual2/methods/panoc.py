"""L-BFGS on the dual over exact sums of vectors: no second derivatives, no matrices.

The residual r, the envelope and the row scales are those of :mod:`.envelope`. A limited memory
quasi-Newton direction d for r = 0 from the last pairs of steps and changes of r is mixed with the
proximal gradient step, λ + D(τd - (1-τ)r), for ten τ from 1 to 2⁻⁹ and τ = 0, all in one sum of
vectors, and the lowest envelope is taken (PANOC: Stella, Themelis, Sopasakis & Patrinos, 2017).
"""

from typing import Any

import numpy as np

from dual2.methods.dual_newton.agents import Query
from dual2.methods.dual_newton.algorithm import Newton
from dual2.methods.dual_newton.envelope import EPS, FBEPoint, Scaling, Trials
from dual2.methods.exact_sums import FIRST, SETUP, TRIALS
from dual2.methods.message import Layout

Array = np.ndarray
MAX_PAIRS = 20
"""Pairs that are kept."""
STEP_LENGTHS = tuple(2.0**-k for k in range(11))
CANCELLATION_ULPS = 1e4
"""Envelopes closer than this many roundings are compared by their slopes."""
MIN_CURVATURE_COSINE = 1e-12
"""Least cosine of a step and the change of r along it."""


class Panoc(Newton):
    """The method on one block of agents; each call of ``advance`` is at least one sum.

    Inner problems are solved more exactly than by Newton's method, whose last step overshoots any
    demand: with a tenth left of every one the prox centers of linear programs wander.
    """

    default_inner_rtol = 3e-3

    def start(self, x: Array, lam: Array) -> None:
        """Begin from x (flat) and λ (n, p)."""
        self.pairs, self.count = np.zeros((MAX_PAIRS, 2, self.runtime.p)), 0
        super().start(x, lam)

    def state(self) -> dict[str, Any]:
        """Everything needed to continue bit for bit."""
        return super().state() | {"pairs": self.pairs.copy(), "count": self.count}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a saved :meth:`state`."""
        self.pairs, self.count = np.array(state["pairs"]), int(state["count"])
        super().restore(state)

    def _empty_matrices(self) -> tuple[Array, Array]:
        return np.zeros(0), np.zeros(self.runtime.p + 1)

    def _first_layout(self) -> Layout:
        current, p = self.current, self.runtime.p
        ray = current.phase == FIRST and current.outer_iterations > 0
        return Layout(p, 1, 0, False, 0, ray, current.phase == SETUP, rows=True)

    def _trial_layout(self, count: int, directions: int) -> Layout:
        return Layout(self.runtime.p, count, 0, False, directions)

    def _propose_trials(self) -> Trials:
        point, D, lengths = self.point, self.scaling.D, np.array(STEP_LENGTHS)
        d = -quasi_newton(self.pairs[: self.count], point.r)
        steps = np.outer(lengths, d) - np.outer(1.0 - lengths, point.r)
        multipliers = np.vstack([point.lam + D * steps, point.z])
        multipliers[~np.isfinite(multipliers).all(axis=1)] = point.z
        return Trials(multipliers, np.zeros(len(multipliers)))

    def _take_jacobian(self, G: Array | None) -> None:
        self.current.phase = TRIALS

    def _begin(self, query: Query, total: Array) -> None:
        """With other prox centers the dual function is another one, and old pairs tell nothing."""
        self.count = 0
        super()._begin(query, total)

    def _step(self, query: Query, total: Array, deltas: Array) -> None:
        old, scaling = self.point, self.scaling
        super()._step(query, total, deltas)
        if self.point is not old and self.current.phase == TRIALS:
            self._remember((self.point.lam - old.lam) / scaling.D, self.point.r - old.r)

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
