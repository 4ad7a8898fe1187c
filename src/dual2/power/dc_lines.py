"""Direct current lines: power that is sent from one bus to another, with losses."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from dual2.errors import ProblemError
from dual2.functions import PiecewiseQuadratic
from dual2.functions.arguments import Array, number, store
from dual2.power.cost_curves import read_polynomial
from dual2.power.generators import box_limits, by_period, read_bounds, read_ramp
from dual2.power.unit_agents import (
    LimitTable,
    Terminal,
    UnitAgent,
    feasible_set,
    ramp_limits,
)


@dataclass(frozen=True, eq=False)
class DCLine:
    """A controllable line: takes p_t from one bus and gives (1 - loss)·p_t to another.

    It is an agent like a generator: its limits stay with its owner. Against its direction
    (p_t < 0) the losses are those of the other end: it takes |p_t| at ``end`` and gives
    (1 - loss)·|p_t| at ``start``.

    Parameters
    ----------
    name : str
        For tables and messages.
    start, end : hashable
        The buses; they may be of different islands.
    p_max, p_min : float or vector of length T
        Limits of the power that is sent; ``p_min`` is -p_max unless given.
    loss : float
        Share of the power that is lost on the way, in [0, 1).
    cost : (c2, c1)
        Per hour, of the power that is sent, in either direction.
    ramp : float or (up, down), optional
        Largest change from one period to the next.

    Examples
    --------
    >>> from dual2 import power
    >>> units = [power.Generator("hydro", (0.0, 10.0), 90.0, bus="NO"),
    ...          power.Generator("gas", (0.0, 60.0), 90.0, bus="DK"),
    ...          power.DCLine("cable", "NO", "DK", p_max=40.0, loss=0.05)]
    >>> case = power.Dispatch(units, {"NO": 30.0, "DK": 50.0}, islands={"NO": "A", "DK": "B"},
    ...                       graph=[("hydro", "cable"), ("cable", "gas")])
    >>> answer = case.solve()
    >>> answer.power.ravel().round(4).tolist()
    [70.0, 12.0, 40.0]
    >>> {bus: price.round(4).tolist() for bus, price in answer.bus_prices().items()}
    {'NO': [10.0], 'DK': [60.0]}
    """

    name: str
    start: Any
    end: Any
    p_max: Any
    p_min: Any = None
    loss: float = 0.0
    cost: Any = (0.0, 0.0)
    ramp: Any = None

    def __post_init__(self) -> None:
        if self.p_min is None:
            store(self, p_min=-np.asarray(self.p_max, dtype=float))
        read_bounds(self)
        store(
            self, cost=read_polynomial(self, self.cost), loss=number(str(self), "loss", self.loss)
        )
        if not 0 <= self.loss < 1:
            raise ProblemError(f"{self!s}: loss = {self.loss:g}; expected a share in [0, 1).")
        if self.start == self.end:
            raise ProblemError(f"{self!s}: both ends are at bus {self.start!r}; expected two.")
        if self.ramp is not None:
            store(self, ramp=read_ramp(self, self.ramp))

    def __str__(self) -> str:
        return f"DC line {self.name!r}"

    @property
    def bus(self) -> Any:
        """Where its owner sits, for zones and the communication: the first bus."""
        return self.start

    @property
    def buses(self) -> tuple[Any, ...]:
        """Where it meets the grid."""
        return self.start, self.end

    def reach(self, periods: int) -> tuple[Array, Array]:
        """Least and most power fed in at either end."""
        low, high = (by_period(self, k, getattr(self, k), periods) for k in ("p_min", "p_max"))
        at_start = [self._arrives(-high), self._arrives(-low)]
        at_end = [self._arrives(low), self._arrives(high)]
        return np.array([at_start[0], at_end[0]]), np.array([at_start[1], at_end[1]])

    def _arrives(self, power: Array) -> Array:
        """What an end feeds in where it would be this power without losses."""
        return np.where(power > 0, (1.0 - self.loss) * power, power)

    def model(self, periods: int, hours: float = 1.0) -> UnitAgent:
        """The line as an agent; with losses or a fee it has a variable for each direction."""
        T, eye = periods, sp.eye_array(periods, format="csr")
        if self.loss == 0 and not np.any(self.cost[1]):
            sent, fed, given, table = eye, -eye, eye, box_limits(self, T)
        else:
            rest = 1.0 - self.loss
            sent = sp.hstack([eye, -eye], format="csr")
            fed = sp.hstack([-eye, rest * eye], format="csr")
            given = sp.hstack([rest * eye, -eye], format="csr")
            table = self._two_ways(T)
        tables = [table] if self.ramp is None else [table, ramp_limits(sent, self.ramp, None)]
        c2, c1, c0 = self.cost
        d, limits = sent.shape[1], LimitTable.joined(tables)
        slope = np.tile(by_period(self, "cost", c1, T), d // T)
        f = PiecewiseQuadratic(
            curvature=np.full(d, 2.0 * c2), slope=slope, offset=np.pad(np.full(T, c0), (0, d - T))
        )
        ends = (Terminal(self.start, fed), Terminal(self.end, given))
        return UnitAgent(f, feasible_set(str(self), limits), limits, ends, sent, 0.0 * sent)

    def _two_ways(self, T: int) -> LimitTable:
        """Limits of the power that is sent ahead, and of that sent back."""
        eye = sp.eye_array(2 * T, format="csr")
        low, high = (by_period(self, name, getattr(self, name), T) for name in ("p_min", "p_max"))
        ahead = np.maximum(low, 0.0), np.maximum(high, 0.0)
        back = np.maximum(-high, 0.0), np.maximum(-low, 0.0)
        first = LimitTable.of(eye[:T], *ahead, ("", "p_max"))
        return LimitTable.joined([first, LimitTable.of(eye[T:], *back, ("", "p_min"))])
