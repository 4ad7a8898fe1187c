"""What everybody knows about a run."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from dual2.methods.run_status import RunStatus

Array = np.ndarray


class Phase(IntEnum):
    """What the next exchange is for."""

    SETUP = 0
    """Units of rows and columns."""
    ITERATE = 1
    """One predictor–corrector step."""
    POLISH = 2
    """Newton steps on the face that the iterates indicate."""


@dataclass(frozen=True)
class State:
    """The replicated part of the iterate; the same in every process.

    Attributes
    ----------
    lam : ndarray
        λ of the answer in the user's units, all rows.
    factors : ndarray, shape (rounds, rows)
        Agreed factors of the rows, of every round.
    entries : ndarray of int64
        Which entries of the lower triangle of S can be other than 0.
    b : ndarray
        Right-hand side of the coupling in scaled units.
    cost_scale : float
        By which the objective is multiplied.
    dual, tau, kappa : ndarray, float, float
        λ of the embedding, its homogenising variable and the complement of that.
    d_dual, d_tau, d_kappa : ndarray, float, float
        Direction of the next step.
    rho : float
        Weight of the proximal term.
    sigma, mu, affine : float
        Centring, complementarity, and the predictor's step length of the last iteration.
    count : float
        Complementarity pairs of all agents.
    balance : float
        |z| over |v|, at most 1.
    curved, cones : bool
        Whether somebody has smooth terms (then τ = 1), or second-order cones.
    merit, first_merit, weight : float
        What the line search for smooth terms wants to fall: residuals plus ``weight`` times μ.
    careful : int
        Iterations with more centring that follow a step that was cut short.
    best : float
        Least residual so far.
    progress_at, mark_residual, mark_mu : int, float, float
        The iteration in which the residual, or far from a solution μ, last fell clearly; the least
        residual and μ then.
    best_dual, best_tau : ndarray, float
        The dual and τ there.
    best_kappa : float
        κ there.
    objective, magnitude : float
        Of the best point, in scaled units.
    answer_kkt : float
        Least KKT residual of all answers that were tried.
    target : float
        Part of the usual residual at which the iterations end; falls when a face was wrong.
    resumed : bool
        Whether the next iteration begins at the best point, without a step.
    """

    lam: Array
    factors: Array
    b: Array
    dual: Array
    d_dual: Array
    best_dual: Array
    separator: Array
    entries: Array
    phase: int = Phase.SETUP
    cost_scale: float = 1.0
    tau: float = 1.0
    kappa: float = 1.0
    d_tau: float = 0.0
    d_kappa: float = 0.0
    rho: float = 1e-3
    sigma: float = 1.0
    mu: float = 1.0
    affine: float = 1.0
    count: float = 1.0
    balance: float = 1.0
    curved: bool = False
    cones: bool = False
    merit: float = np.inf
    first_merit: float = np.inf
    weight: float = 0.0
    careful: int = 0
    best: float = np.inf
    progress_at: int = 0
    mark_residual: float = np.inf
    mark_mu: float = np.inf
    best_tau: float = 1.0
    best_kappa: float = 1.0
    objective: float = 0.0
    magnitude: float = 0.0
    iterations: int = 0
    polished: int = 0
    idle: int = 0
    refusals: int = 0
    sums: int = 0
    kkt: float = np.inf
    answer_kkt: float = np.inf
    target: float = 1.0
    resumed: bool = False
    status: RunStatus = RunStatus.RUNNING

    def limit(self, d_tau: float, d_kappa: float) -> float:
        """The longest step that keeps τ and κ positive."""
        pairs = ((self.tau, d_tau), (self.kappa, d_kappa))
        return min([-x / d for x, d in pairs if d < 0], default=np.inf)
