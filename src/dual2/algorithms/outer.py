"""What the outer loop of iD2A is told, and what it remembers."""

import math
from dataclasses import dataclass

import numpy as np

from dual2.errors import CapabilityError

Array = np.ndarray
PATIENCE, TIGHTER = 2.0, 0.25
"""The target shrinks by the second factor where |𝐂λ| finds no new minimum for the first one times
the memory 1/(1-β) of the outer steps: with exact subproblems it would have fallen."""


@dataclass(frozen=True)
class Options:
    """Parameters of iD2A that are not constants of the problem.

    Attributes
    ----------
    accuracy : str
        ``"relative"``: the subproblem's residual is at most ``eta`` times the last outer step.
        ``"paper"``: the schedules of Theorem iD2A_complexity_convex (μ_F, μ_H > 0) or 1717.
    eta : float
        η of the relative rule, below 1.
    c, delta : float
        Constants of the printed schedules.
    slack : float
        δ of the subsolver's own inner accuracy.
    mapping : str
        ``"auto"``, ``"prox"`` or ``"smooth"``: how h* enters the subproblem.
    restart : bool
        Adaptive restart of the inner momentum also where μ_φ > 0 is known.
    check : int
        Inner iterations between two agreed tests, while these are few. With the relative rule
        the next test is earlier if the residual's fall foretells it.
    """

    accuracy: str = "relative"
    eta: float = 0.1
    c: float = 2.0
    delta: float = 1.0
    slack: float = 0.3
    mapping: str = "auto"
    restart: bool = False
    check: int = 10

    def __post_init__(self) -> None:
        if self.accuracy not in ("relative", "paper"):
            raise CapabilityError(
                f"accuracy={self.accuracy!r} is unknown; use 'auto', 'relative' or 'paper'."
            )
        ranges = {"eta": (0, 1), "c": (1, math.inf), "delta": (0, math.inf)}
        ranges |= {"slack": (0, 1), "check": (0, 10**9)}
        for name, (low, high) in ranges.items():
            value = getattr(self, name)
            if not isinstance(value, int | float) or not low < value < high:
                raise CapabilityError(
                    f"{name} = {value!r} found; expected {low} < {name} < {high}."
                )


@dataclass
class Outer:
    """State of the outer loop beside w and z.

    ``k`` counts outer iterations, ``since`` those since the last restart, ``inner`` the iterations
    on the present subproblem, ``check``, ``tested`` and ``restarted`` where its next test, last
    test (which found ``residual``) and last restart are, ``reference`` the size that the residual
    is compared with. ``past`` is z of the subproblem before; ``idle`` counts outer steps since
    |𝐂λ| was smallest, ``least``.
    """

    w: Array
    z: Array
    past: Array
    scale: Array
    k: int = 0
    since: int = 0
    inner: int = 0
    check: int = 1
    tested: int = 0
    restarted: int = 0
    residual: float = math.inf
    reference: float = math.inf
    least: float = math.inf
    idle: int = 0
    first: float = 0.0
    rounds: int = 0

    def lower_reference(self, step: float, consensus: float, beta: float) -> None:
        """Compare with the present step, and with less where steps no longer shrink.

        ``step``·``consensus`` is |𝐂λ|/L_F, ``beta`` the momentum of the outer step just made.
        """
        self.reference = min(step * consensus, self.reference)
        self.idle = 0 if consensus < self.least or self.since == 1 else self.idle + 1
        self.least = min(consensus, self.least)
        if self.idle * (1.0 - beta) >= PATIENCE:
            self.idle, self.reference = 0, TIGHTER * self.reference
