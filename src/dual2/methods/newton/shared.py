"""What everybody knows in the dual modes, and how a run may end."""

from dataclasses import dataclass

import numpy as np

Array = np.ndarray
SURVEY, FIRST, TRIALS, JACOBIAN = range(4)
"""What the next sum is for: as the second but with the agents' sizes too, from which the r_i follow
if some need them; the answers at λ and M; trials; the Jacobian at λ."""
ENDS = ("", "CONVERGED", "STALLED", "DIVERGED", "INFEASIBLE", "UNBOUNDED")
"""How a run may end; saved as a number."""


@dataclass
class Shared:
    """What everybody knows, the same in every process; saved and restored.

    ``around`` is the last regularisation that was needed, ``best`` the least |r| since the anchors
    moved, ``widest`` the largest scale of each row and ``largest`` the largest objective seen,
    ``longest`` the longest scaled price, ``flat`` how many agents lack strong convexity and
    ``variables`` how many there are in all; ``reached`` are the S of the last trials, and ``M``
    bounds the dual function's curvature.
    """

    lam: Array
    S: Array
    load: Array
    numbers: Array
    G: Array
    M: Array
    step: Array
    widest: Array
    separator: Array
    reached: Array
    phase: int = SURVEY
    sums: int = 0
    outers: int = 0
    steps: int = 0
    taken: int = 0
    idle: int = 0
    retreats: int = 0
    flat: int = 0
    variables: float = 0.0
    best: float = np.inf
    around: float = 0.0
    largest: float = 0.0
    longest: float = 0.0
    kkt: float = np.inf
    end: str = ""
