"""The replicated state of a dual method over sums."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from dual2.methods.run_status import RunStatus

Array = np.ndarray


class DualPhase(IntEnum):
    """What the next sum is for."""

    SETUP = 0
    """The answers at λ and M, and how many variables there are."""
    FIRST = 1
    """The same without that number: a proximal term has changed."""
    TRIALS = 2
    """Some twenty multipliers to choose the next one from."""
    JACOBIAN = 3
    """Σ A_i J_i A_iᵀ at λ, where it did not travel with the trials."""


@dataclass(frozen=True)
class DualState:
    """What every process knows, the same in every process; saved and restored by its fields."""

    lam: Array  # λ
    S: Array  # Σ A_i x_i(λ)
    abs_products: Array  # Σ |A_i||x_i(λ)|
    scalars: Array  # the numbers of a trial at λ, see methods.message
    G: Array  # Σ A_i J_i A_iᵀ at λ
    M: Array  # bounds the curvature of the dual function
    step: Array  # last change of λ
    max_row_scale: Array  # largest scale of each row so far
    separator: Array  # direction that proves infeasibility; 0 while there is none
    trial_products: Array  # S of the last trials
    candidates: Array  # multipliers made row by row
    phase: DualPhase = DualPhase.SETUP
    sums: int = 0
    steps: int = 0  # accepted since the dual function last changed
    idle: int = 0  # steps in a row without progress
    diagonally_dominant: bool = False  # whether ``candidates`` are worth a trial
    warm_phase: bool = False  # whether the run began near its end and has not moved yet
    variables: float = 0.0  # Σ d_i
    weak_agents: float = 0.0  # how many have an f + g that is not strongly convex
    best_residual: float = np.inf  # least |r| since the dual function last changed
    damping: float = 0.0  # last regularisation that was needed
    max_objective: float = 0.0  # largest objective seen
    kkt: float = np.inf
    status: RunStatus = RunStatus.RUNNING
