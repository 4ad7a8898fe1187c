"""When a run is tested, recorded, saved or given up: by its rounds, so that no clock decides."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from dual2.solving.result import Status

Array = np.ndarray
MILESTONE = 1000
"""At rounds 1000, 2000, 4000, … feasibility and progress are judged."""
_PATIENCE = 5
"""This many milestones without any progress of the KKT residual, the price at rest, are a stall."""


@dataclass
class Schedule:
    """Where the next stopping test, trace row and milestone are, in rounds; the best residual.

    ``idle`` counts milestones without progress, ``milestone_dual`` is the price at the last one,
    ``forced`` is 1 if the last row of the trace is there only because the run ended, ``proven`` is
    1 once the definitions have judged a point: from then on ``best`` is what they said. ``refused``
    counts the points at which an algorithm that judges itself was wrong.
    """

    test: int
    milestone: int
    trace: int = 0
    best: float = math.inf
    judged: float = math.inf
    idle: int = 0
    forced: int = 0
    proven: int = 0
    refused: int = 0
    tests: int = 0
    sums: int = 0
    agree_rounds: int = 0
    agree_floats: int = 0
    seconds: float = 0.0
    milestone_dual: Array = field(default_factory=lambda: np.zeros(0))

    def pass_milestone(
        self, rounds: int, price: Array, separates: Callable[[Array], float]
    ) -> tuple[Status | None, Array | None]:
        """Decide, each time the rounds have doubled, whether there is hope.

        Returns the status with which to give up, and the direction of the price, if it is one that
        ``separates`` (see :meth:`dual2.Problem.separates`): that proves the coupling infeasible.
        """
        self.milestone = 2 * rounds
        change = price - self.milestone_dual
        self.milestone_dual = price
        size = float(np.linalg.norm(change))
        if 0 < 0.2 * float(np.linalg.norm(price)) <= size and separates(change / size) < 0:
            return Status.INFEASIBLE, change / size
        moves = np.abs(change) > np.maximum(0.1 * np.abs(price), 1e-3 * np.abs(price).max())
        self.idle = 0 if self.best < 0.9 * self.judged or moves.any() else self.idle + 1
        self.judged = self.best
        return (Status.STALLED if self.idle >= _PATIENCE else None), None


class StateKeeper(Protocol):
    """Where the state of a run is kept from time to time."""

    @property
    def due(self) -> bool:
        """Whether it is time to save, by the clock of this process."""
        ...

    @property
    def held(self) -> bool:
        """Whether saving has failed here, so that no process may go on saving."""
        ...

    def save(self, rounds: int, state: dict[str, Any]) -> None:
        """Keep the state after so many rounds."""
        ...
