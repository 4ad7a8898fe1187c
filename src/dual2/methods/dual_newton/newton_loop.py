"""Newton's method on the dual, over exact sums along the spanning tree.

It needs f_i + g_i strongly convex: then ψ is differentiable, S = -∇ψ(λ), and Σ A_i J_i A_iᵀ is its
generalised second derivative. One sum brings both for some twenty multipliers: the full Newton
step, shorter and longer ones, regularised ones, and a proximal gradient step.
"""

from dataclasses import replace

import numpy as np

from dual2.methods.dual_newton.dual_loop import DualLoop
from dual2.methods.dual_newton.dual_state import DualPhase
from dual2.methods.dual_newton.envelope import (
    FBEPoint,
    Trials,
    coordinate_candidates,
    propose_trials,
)
from dual2.methods.message import Layout, triangle_size

Array = np.ndarray
_MAX_JACOBIAN_NUMBERS = 100_000
"""Most numbers of Jacobians in a message: up to here every trial comes with its own."""
_MAX_JACOBIAN_WORK = 2e9
"""Multiply-adds for the Jacobians of all trials above which only the first has one."""


class DualNewton(DualLoop):
    """The method on one block of agents; each call of ``advance`` is at least one sum."""

    def _empty_matrices(self) -> tuple[Array, Array]:
        square = np.zeros((self.runtime.p, self.runtime.p))
        return square, square

    def _first_layout(self) -> Layout:
        setup = self.current.phase == DualPhase.SETUP
        return Layout(self.runtime.p, 1, 1, self.current.phase != DualPhase.JACOBIAN, 0, setup)

    def _trial_layout(self, count: int, directions: int) -> Layout:
        """With Jacobians of all multipliers, unless they are too much."""
        p = self.runtime.p
        first_only = (
            count * triangle_size(p) > _MAX_JACOBIAN_NUMBERS
            or count * self.current.variables * p**2 > _MAX_JACOBIAN_WORK
        )
        return Layout(p, count, 1 if first_only else count, False, directions)

    def _propose_trials(self) -> Trials:
        current = self.current
        candidates = current.candidates if current.diagonally_dominant else current.candidates[:0]
        trials = propose_trials(
            self.h, self.scaling, self.point, current.G, current.damping, candidates
        )
        # Near the solution a full step is right, and a message with one trial is short.
        return Trials(trials.multipliers[:1], trials.deltas[:1]) if current.warm_phase else trials

    def _take_curvature(self, layout: Layout, total: Array, trial: int) -> None:
        """Σ A_i J_i A_iᵀ at λ; another sum brings it if it did not travel."""
        G = layout.read_jacobian(total, trial)
        if G is None:
            self.current = replace(self.current, phase=DualPhase.JACOBIAN)
        else:
            self.current = replace(self.current, phase=DualPhase.TRIALS, G=G)

    def _on_step(self, points: FBEPoint, diagonals: Array | None) -> None:
        """Where rows hardly influence each other, the trials also bracket each row's multiplier."""
        candidates = coordinate_candidates(self.h, self.scaling, points, self.current.G, diagonals)
        if candidates is None:
            self.current = replace(self.current, diagonally_dominant=False)
        else:
            found = {"diagonally_dominant": True, "candidates": candidates}
            self.current = replace(self.current, **found)
