"""Storage: batteries, reservoirs, and the energy-reserving node of the paper."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from dual2.errors import ProblemError
from dual2.functions import PiecewiseQuadratic
from dual2.functions.arguments import Array, entries, number, store
from dual2.power.cost_curves import read_polynomial
from dual2.power.generators import box_limits, by_period, read_bounds
from dual2.power.unit_agents import LimitTable, Terminal, UnitAgent, feasible_set

SUMMED_PERIODS = 48
"""Periods up to which a lossy storage with a strictly convex cost has no variables of its own for
energies: its cost is strongly convex then, as dual methods need. With more, dense rows of sums
cost more than the variables."""


@dataclass(frozen=True, eq=False)
class Storage:
    """An energy-reserving node: takes y_t from the grid (negative: gives back).

    y_t costs Σ_t c2·y_t² + c1·y_t + c0 per hour and obeys p_min ≤ y_t ≤ p_max; the energy
    e_t = initial + hours·Σ_{s ≤ t} y_s obeys e_min ≤ e_t ≤ e_max, and e_T ≥ final. For one period
    and no energy limits it is the reserving node of the paper.

    With losses y = c - d, charged and discharged power c, d ≥ 0 have limits and costs as y ≥ 0 and
    y ≤ 0 have, and e_t = (1 - standing_loss)^hours·e_{t-1} + hours·(η_c·c_t - d_t/η_d + inflow_t -
    spill_t) with spill_t ≥ 0 where there is an inflow. Charging and discharging at once only burns
    energy: it is never best where the price is positive, and may be where it is negative.

    Parameters
    ----------
    name : str
        For tables and messages.
    cost : (c2, c1) or (c2, c1, c0)
        Wear, and the value of stored energy as a negative c1; c2 ≥ 0.
    p_max, p_min : float or vector of length T
        Most power taken from the grid; ``p_min`` negative is the most given back.
    bus : hashable
        Where it is connected.
    energy : (e_min, e_max)
        Limits of the stored energy, in MWh.
    initial : float
        Energy before the first period.
    final : float, optional
        Least energy at the end.
    efficiency : float or (charging, discharging)
        η_c and η_d in (0, 1]; one number is both.
    standing_loss : float
        Share of the stored energy that is lost per hour.
    inflow : float or vector of length T
        Power that flows in from elsewhere, such as water; what does not fit is spilt.
    cyclic : bool
        The energy at the end is that before the first period, whatever it is; ``initial`` and
        ``final`` do not count then.

    Examples
    --------
    >>> from dual2 import power
    >>> lake = power.Storage("lake", (0.0, 0.0), p_min=-10.0, p_max=0.0, energy=(0.0, 40.0),
    ...                      inflow=[6.0, 2.0], cyclic=True)
    >>> plant = power.Generator("plant", (0.0, 50.0), p_max=20.0)
    >>> answer = power.Dispatch([lake, plant], [12.0, 9.0], graph=[("lake", "plant")]).solve()
    >>> round(answer.cost, 6), round(float(answer.power[0].sum()), 6)
    (650.0, -8.0)
    """

    name: str
    cost: Any
    p_max: Any
    p_min: Any = 0.0
    bus: Any = 0
    energy: tuple[float, float] = (-np.inf, np.inf)
    initial: float = 0.0
    final: float | None = None
    efficiency: Any = 1.0
    standing_loss: float = 0.0
    inflow: Any = None
    cyclic: bool = False

    def __post_init__(self) -> None:
        store(self, cost=read_polynomial(self, self.cost))
        read_bounds(self)
        shares = np.atleast_1d(entries(str(self), "efficiency", self.efficiency))
        if shares.size not in (1, 2) or not np.all((shares > 0) & (shares <= 1)):
            raise ProblemError(
                f"{self!s}: efficiency = {self.efficiency!r}; expected a number in (0, 1] or a "
                "pair (charging, discharging)."
            )
        store(self, efficiency=(float(shares[0]), float(shares[-1])))
        loss = number(str(self), "standing_loss", self.standing_loss, least=0.0)
        if loss > 1.0:
            raise ProblemError(f"{self!s}: standing_loss = {loss:g}; expected a share in [0, 1].")
        if self.inflow is not None:
            store(self, inflow=entries(str(self), "inflow", self.inflow, least=0.0))
        low, high = self.energy
        if not (low <= self.initial <= high or self.cyclic):
            raise ProblemError(
                f"{self!s}: it starts with {self.initial:g} MWh, outside its limits "
                f"[{low:g}, {high:g}]."
            )
        if self.cyclic and self.final is not None:
            raise ProblemError(
                f"{self!s}: cyclic=True and final = {self.final:g} found; expected one of them."
            )

    def __str__(self) -> str:
        return f"Storage {self.name!r}"

    @property
    def buses(self) -> tuple[Any, ...]:
        """Where it meets the grid."""
        return (self.bus,)

    def reach(self, periods: int) -> tuple[Array, Array]:
        """Least and most power fed into the grid in each period."""
        low, high = (by_period(self, k, getattr(self, k), periods) for k in ("p_min", "p_max"))
        return -high[None], -low[None]

    @property
    def lossy(self) -> bool:
        """Whether charging or discharging loses energy."""
        return self.efficiency != (1.0, 1.0)

    def model(self, periods: int, hours: float = 1.0) -> UnitAgent:
        """The storage as an agent over so many periods of so many hours."""
        by_level = self.cyclic or self.inflow is not None or self.standing_loss > 0
        weak = self.cost[0] == 0 or periods > SUMMED_PERIODS
        return (self._by_level if by_level or (self.lossy and weak) else self._by_sums)(
            periods, hours
        )

    def _by_sums(self, T: int, hours: float) -> UnitAgent:
        """Variables: power, or charged and discharged power; energies are their sums."""
        eye = sp.eye_array(T, format="csr")
        table = self._two_ways(T) if self.lossy else box_limits(self, T)
        taken = sp.hstack([eye, -eye], format="csr") if self.lossy else eye
        sums = sp.csr_array(np.tril(np.ones((T, T)))) @ self._kept(eye)
        low, high = ((bound - self.initial) / hours for bound in self.energy)
        tables = [table]
        if np.isfinite([low, high]).any() or self.final is not None:
            tables.append(self._levels(sums, low, high, self.initial, hours))
        cost = self._cost(T, taken)
        return self._agent(cost, tables, taken, hours * sums, np.full(T, self.initial))

    def _by_level(self, T: int, hours: float) -> UnitAgent:
        """Variables: charged and discharged power, energy/hours, and what is spilt; sparse rows."""
        eye = sp.eye_array(T, format="csr")
        spills = self.inflow is not None
        widths = [T, T, T, T] if spills else [T, T, T]
        ways = self._two_ways(T).padded(sum(widths) - 2 * T)
        none = sp.csr_array((T, 2 * T))
        level = sp.hstack([none, eye] + [0.0 * eye] * spills, format="csr")
        low, high = (bound / hours for bound in self.energy)
        tables = [ways, self._levels(level, low, high, 0.0, hours)]
        keeps = (1.0 - self.standing_loss) ** hours
        before = sp.eye_array(T, k=-1, format="lil")
        right = np.zeros(T) if self.inflow is None else by_period(self, "inflow", self.inflow, T)
        if self.cyclic:
            before[0, T - 1] = 1.0
        else:
            right[0] += keeps * self.initial / hours
        rows = [-self._charged(eye), eye - keeps * sp.csr_array(before)] + [eye] * spills
        balance = sp.hstack(rows, format="csr")
        tables.append(LimitTable.of(balance, right, right, ("", "")))
        taken = sp.hstack([eye, -eye] + [0.0 * eye] * (1 + spills), format="csr")
        if spills:
            bottom = sp.hstack([none, 0.0 * eye, eye], format="csr")
            tables.append(LimitTable.of(bottom, 0.0, np.inf, ("", "")))
        return self._agent(self._cost(T, taken, 2), tables, taken, hours * level, np.zeros(T))

    def _kept(self, eye: Any) -> Any:
        """What of the power arrives in the storage, as a matrix."""
        return self._charged(eye) if self.lossy else eye

    def _charged(self, eye: Any) -> Any:
        charging, discharging = self.efficiency
        return sp.hstack([charging * eye, -eye / discharging], format="csr")

    def _cost(self, T: int, taken: Any, parts: int | None = None) -> PiecewiseQuadratic:
        """c2·y² + c1·y + c0 on the variables that are power; the others cost nothing."""
        c2, c1, c0 = self.cost
        d = taken.shape[1]
        curves = np.full(d, 2.0 * c2)
        if parts is not None:
            curves[parts * T :] = 0.0
        slope = taken.T @ by_period(self, "cost", c1, T)
        return PiecewiseQuadratic(
            curvature=curves, slope=slope, offset=np.pad(np.full(T, c0), (0, d - T))
        )

    def _agent(
        self, f: Any, tables: list[LimitTable], taken: Any, stored: Any, base: Array
    ) -> UnitAgent:
        limits = LimitTable.joined(tables)
        g, here = feasible_set(str(self), limits), (Terminal(self.bus, -taken),)
        known = stored if np.isfinite(self.energy).any() else None
        return UnitAgent(f, g, limits, here, taken, 0.0 * taken, known, base)

    def _levels(self, rows: Any, low: float, high: float, start: float, hours: float) -> LimitTable:
        """Limits of energy/hours after each period; the last one may be higher."""
        table = LimitTable.of(rows, low, high, ("e_min", "e_max"), hours)
        last = low if self.final is None else max(low, (self.final - start) / hours)
        if last > low:
            end = table.limits[-1]._replace(lower=last, low_name="final")
            return LimitTable(table.rows, (*table.limits[:-1], end))
        return table

    def _two_ways(self, T: int) -> LimitTable:
        """Limits of the power that is charged, and of the power that is discharged."""
        eye = sp.eye_array(2 * T, format="csr")
        low, high = (by_period(self, name, getattr(self, name), T) for name in ("p_min", "p_max"))
        up, down = (np.maximum(bound, 0.0) for bound in (high, -low))
        least, most = (np.maximum(bound, 0.0) for bound in (low, -high))
        charged = LimitTable.of(eye[:T], least, up, ("", "p_max"))
        return LimitTable.joined([charged, LimitTable.of(eye[T:], most, down, ("", "p_min"))])
