"""What power costs: parabolas and convex piecewise linear curves."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from dual2.errors import ProblemError
from dual2.functions.arguments import Array, entries, number, store

Polynomial = tuple[float, Any, float]
"""c2, c1, c0 of c2·p² + c1·p + c0; c1 may differ from period to period."""


@dataclass(frozen=True, eq=False)
class PiecewiseLinearCost:
    """A convex curve through points; the first and the last piece go on beyond them.

    Parameters
    ----------
    power, cost : vector
        At least two points, the powers rising, the slopes between them not falling.

    Examples
    --------
    >>> steps = PiecewiseLinearCost([0.0, 50.0, 80.0], [0.0, 500.0, 950.0])
    >>> steps.slopes.tolist(), float(steps(60.0))
    ([10.0, 15.0], 650.0)
    """

    power: Any
    cost: Any

    def __post_init__(self) -> None:
        for name in ("power", "cost"):
            store(self, **{name: np.atleast_1d(entries(self, name, getattr(self, name)))})
        if len(self.power) != len(self.cost) or len(self.power) < 2:
            raise ProblemError(
                f"PiecewiseLinearCost: {len(self.power)} powers and {len(self.cost)} costs; "
                "expected as many of each, and at least two."
            )
        if not np.all(np.diff(self.power) > 0):
            raise ProblemError(
                f"PiecewiseLinearCost: the powers {self.power.tolist()} do not rise; expected the "
                "points of a cost from the least power to the greatest."
            )

    @classmethod
    def of(cls, owner: str, power: Any, cost: Any) -> Self:
        """The curve; an error names who it belongs to."""
        try:
            return cls(power, cost)
        except ProblemError as error:
            raise ProblemError(f"{owner}: {error}") from error

    @property
    def slopes(self) -> Array:
        """Cost of one more MW in each piece."""
        return np.diff(self.cost) / np.diff(self.power)

    def __call__(self, power: Any) -> Array:
        """Cost of a power."""
        power = np.asarray(power, dtype=float)
        piece = np.clip(np.searchsorted(self.power, power) - 1, 0, len(self.power) - 2)
        return self.cost[piece] + self.slopes[piece] * (power - self.power[piece])

    def pieces(self, low: float, high: float) -> tuple[Array, Array]:
        """Ends (k + 1) and slopes (k) of the pieces between two powers, equal slopes joined."""
        inner = self.power[1:-1]
        slopes = self.slopes
        inside = (inner > low) & (inner < high) & (np.diff(slopes) > 0)
        ends = np.concatenate([[low], inner[inside], [high]])
        at = np.searchsorted(inner, (ends[:-1] + ends[1:]) / 2)
        return ends, slopes[at]

    def marginal(self, power: Array) -> tuple[Array, Array]:
        """Slopes to the left and to the right, which differ at a kink."""
        inner, near = self.power[1:-1], 1e-6 * np.maximum(1.0, np.abs(power))
        left, right = (np.searchsorted(inner, power + side) for side in (-near, near))
        return self.slopes[left], self.slopes[right]


Cost = Polynomial | PiecewiseLinearCost


def curvature(cost: Cost) -> float:
    """c2, which a piecewise linear cost has not."""
    return 0.0 if isinstance(cost, PiecewiseLinearCost) else cost[0]


def marginal(cost: Cost, power: Array) -> tuple[Array, Array]:
    """Cost of one MW less and of one MW more."""
    if isinstance(cost, PiecewiseLinearCost):
        return cost.marginal(power)
    slope = 2.0 * cost[0] * power + cost[1]
    return slope, slope


def read_cost(unit: Any, cost: Any) -> Cost:
    """c2, c1, c0 as floats, or a curve; what is not convex is refused."""
    if not isinstance(cost, PiecewiseLinearCost):
        return read_polynomial(unit, cost)
    if np.any(np.diff(cost.slopes) < -1e-9 * np.abs(cost.slopes).max()):
        raise ProblemError(
            f"{unit!s}: its cost is not convex: the slopes {cost.slopes.round(6).tolist()} fall. "
            "Expected slopes that do not fall."
        )
    return cost


def read_polynomial(unit: Any, cost: Any, what: str = "cost") -> Polynomial:
    """c2, c1, c0 as floats; a negative quadratic term is refused."""
    given = tuple(cost) if isinstance(cost, list | tuple) else np.atleast_1d(cost)
    if len(given) not in (2, 3):
        raise ProblemError(
            f"{unit!s}: {what} has {len(given)} coefficients; expected (c2, c1) or (c2, c1, c0) of "
            "c2·p² + c1·p + c0."
        )
    c2, c1, c0 = (*given, 0.0)[:3]
    c2, c0 = number(str(unit), f"{what}[0]", c2), number(str(unit), f"{what}[2]", c0)
    if c2 < 0:
        raise ProblemError(
            f"{unit!s}: its {what} is not convex: the quadratic coefficient is {c2:g}. "
            "Expected c2 ≥ 0."
        )
    return c2, entries(str(unit), f"{what}[1]", c1), c0
