"""Who takes part in a dispatch: generators with their costs, limits, ramps and reserve."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from dual2.errors import ProblemError
from dual2.functions import PiecewiseQuadratic
from dual2.functions.arguments import Array, entries, number, store
from dual2.power.commitment import Commitment, CommittedUnit, check_commitment
from dual2.power.cost_curves import PiecewiseLinearCost, curvature, read_cost, read_polynomial
from dual2.power.unit_agents import (
    LimitTable,
    Terminal,
    UnitAgent,
    feasible_set,
    ramp_limits,
)


@dataclass(frozen=True, eq=False)
class Generator:
    """A producer with a convex cost, limits, and optionally ramps and reserve.

    Power p_t, t = 1 … T, costs Σ_t c2·p_t² + c1·p_t + c0 and obeys p_min ≤ p_t ≤ p_max,
    -ramp_down ≤ p_t - p_{t-1} ≤ ramp_up (p_0 = ``initial`` if given). Reserve r_t costs
    c2'·r_t² + c1'·r_t and obeys 0 ≤ r_t ≤ reserve_max, p_t + r_t ≤ p_max.

    Parameters
    ----------
    name : str
        For tables and messages.
    cost : (c2, c1), (c2, c1, c0) or PiecewiseLinearCost
        Per hour; c2 ≥ 0; c1 may be a vector of length T. With a linear or piecewise linear cost
        several schedules may be best.
    p_min, p_max : float or vector of length T
        Limits of the power, in MW.
    bus : hashable
        Where it feeds in.
    ramp : float or (up, down), optional
        Largest change from one period to the next.
    initial : float, optional
        Power before the first period.
    reserve_max : float
        Most reserve it can hold; 0: takes no part in reserves.
    reserve_cost : (c2', c1')
        Cost of holding reserve, c2' ≥ 0; none unless given.
    emissions : float
        Tonnes of CO₂ per MWh.
    commitment : Commitment, optional
        It can be switched off, relaxed: p_min counts as far as it is on.

    Examples
    --------
    >>> Generator("coal", cost=(0.01, 20.0), p_max=300.0, ramp=50.0).cost
    (0.01, 20.0, 0.0)
    """

    name: str
    cost: Any
    p_max: Any
    p_min: Any = 0.0
    bus: Any = 0
    ramp: Any = None
    initial: float | None = None
    reserve_max: float = 0.0
    reserve_cost: Any = None
    emissions: float = 0.0
    commitment: Commitment | None = None

    def __post_init__(self) -> None:
        store(self, cost=read_cost(self, self.cost))
        store(self, emissions=number(str(self), "emissions", self.emissions))
        read_bounds(self)
        if self.ramp is not None:
            store(self, ramp=read_ramp(self, self.ramp))
        if self.initial is not None:
            store(self, initial=number(str(self), "initial", self.initial))
        if not self.reserve_max >= 0:
            raise ProblemError(f"{self!s}: reserve_max = {self.reserve_max!r}; expected ≥ 0.")
        if self.reserve_max > 0:
            given = (0.0, 0.0) if self.reserve_cost is None else self.reserve_cost
            price = read_polynomial(self, given, "reserve_cost")
            store(self, reserve_cost=price[:2])
        if self.commitment is not None:
            check_commitment(self)

    def __str__(self) -> str:
        return f"Generator {self.name!r}"

    @property
    def buses(self) -> tuple[Any, ...]:
        """Where it meets the grid."""
        return (self.bus,)

    def reach(self, periods: int) -> tuple[Array, Array]:
        """Least and most power in each period, ramps followed from both ends."""
        low, high = (np.array(np.broadcast_to(p, (periods,))) for p in (self.p_min, self.p_max))
        if self.commitment is not None:
            low = np.zeros(periods)
        if self.ramp is not None:
            follow_ramps(low, high, self.ramp, self.initial)
        return low[None], high[None]

    def model(self, periods: int, hours: float = 1.0) -> UnitAgent:
        """The generator as an agent over so many periods of so many hours."""
        if self.commitment is not None:
            built = CommittedUnit(self, self.commitment, hours)
            parts = (("p_min", self.p_min), ("p_max", self.p_max), ("cost", self.cost[1]))
            return built.over(*(by_period(self, name, value, periods) for name, value in parts))
        T, eye = periods, sp.eye_array(periods, format="csr")
        slopes, offset, table, parts = self._parts(T)
        holds = self.reserve_max > 0
        curves = np.array([curvature(self.cost), self.reserve_cost[0] if holds else 0.0])
        stretch = float(np.sqrt(curves[0] / curves[1])) if curves.all() else 1.0
        power = sp.csr_array(sp.hstack([eye] * parts + [0.0 * eye] * holds))
        reserve = sp.csr_array(sp.hstack([0.0 * eye] * parts + [stretch * eye] * holds))
        if not holds:
            reserve = 0.0 * power
        tables = [table.padded(T * holds)]
        if self.ramp is not None:
            tables.append(ramp_limits(power, self.ramp, self.initial))
        if holds:
            tables += self._reserves(power, reserve)
            slopes = [*slopes, np.full(T, self.reserve_cost[1] * stretch)]
        bends = [curves[0]] * parts + [stretch**2 * curves[1]] * holds
        offset = np.pad(offset, (0, T * (len(slopes) - 1)))
        f = PiecewiseQuadratic(
            curvature=2.0 * np.repeat(bends, T), slope=np.concatenate(slopes), offset=offset
        )
        limits = LimitTable.joined(tables)
        here = (Terminal(self.bus, power),)
        return UnitAgent(f, feasible_set(str(self), limits), limits, here, power, reserve)

    def _parts(self, T: int) -> tuple[list[Array], Array, LimitTable, int]:
        """Slopes, offset and limits of the parts that make up the power, and their number."""
        if not isinstance(self.cost, PiecewiseLinearCost):
            slope = by_period(self, "cost", self.cost[1], T)
            return [slope], np.full(T, self.cost[2]), box_limits(self, T), 1
        ends, slopes = self.cost.pieces(float(np.min(self.p_min)), float(np.max(self.p_max)))
        k, eye = len(slopes), sp.eye_array(T * len(slopes), format="csr")
        low, high = (by_period(self, name, getattr(self, name), T) for name in ("p_min", "p_max"))
        tops = np.clip(ends[1:, None], low, high)
        rooms = np.diff(np.vstack([low, tops]), axis=0)
        first, last = np.argmax(rooms > 0, axis=0), k - 1 - np.argmax(rooms[::-1] > 0, axis=0)
        limits = []
        for j, t in np.ndindex(k, T):
            names = "p_min" if j == first[t] else "", "p_max" if j == last[t] else ""
            bottom = 0.0 if j else float(low[t])
            row = eye[[j * T + t]]
            one = LimitTable.of(row, bottom, bottom + float(rooms[j, t]), names)
            limits.append(LimitTable(row, (one.limits[0]._replace(period=t),)))
        start = self.cost(low) - slopes[0] * low
        return [np.full(T, s) for s in slopes], start, LimitTable.joined(limits), k

    def _reserves(self, power: Any, reserve: Any) -> list[LimitTable]:
        """Limits of the reserve, and of power and reserve together."""
        own = LimitTable.of(reserve, 0.0, self.reserve_max, ("", "reserve_max"))
        both = power + reserve
        return [own, LimitTable.of(both, -np.inf, self.p_max, ("", "p_max with reserve"))]


def read_bounds(unit: Any) -> None:
    """Store p_min and p_max as floats or vectors; refuse those that cross."""
    for name in ("p_min", "p_max"):
        value = entries(str(unit), name, getattr(unit, name))
        store(unit, **{name: value})
    if np.any(np.greater(unit.p_min, unit.p_max)):
        raise ProblemError(
            f"{unit!s}: p_min = {np.max(unit.p_min):g} exceeds p_max = {np.min(unit.p_max):g}."
        )


def read_ramp(unit: Any, ramp: Any) -> tuple[float, float]:
    """Largest rise and fall."""
    rates = np.atleast_1d(entries(str(unit), "ramp", ramp, finite=False))
    if rates.size not in (1, 2) or not np.all(rates >= 0):
        raise ProblemError(f"{unit!s}: ramp = {ramp!r}; expected a rate ≥ 0 or a pair (up, down).")
    return float(rates[0]), float(rates[-1])


def by_period(unit: Any, name: str, value: Any, T: int) -> Array:
    """A number, or one number for each period, as a vector."""
    if np.ndim(value) and len(value) != T:
        raise ProblemError(
            f"{unit!s}: {name} has {len(value)} entries; the demand has {T} periods."
        )
    return np.array(np.broadcast_to(value, (T,)), dtype=float)


def box_limits(unit: Any, T: int) -> LimitTable:
    """p_min and p_max of a unit in each period."""
    low, high = (by_period(unit, name, getattr(unit, name), T) for name in ("p_min", "p_max"))
    return LimitTable.of(sp.eye_array(T, format="csr"), low, high, ("p_min", "p_max"))


def follow_ramps(low: Array, high: Array, ramp: tuple[float, float], initial: float | None) -> None:
    """Narrow least and most power in place to what the ramps let a unit reach."""
    up, down = ramp
    if initial is not None:
        low[0], high[0] = max(low[0], initial - down), min(high[0], initial + up)
    for t in range(1, len(low)):
        low[t], high[t] = max(low[t], low[t - 1] - down), min(high[t], high[t - 1] + up)
    for t in range(len(low) - 2, -1, -1):
        low[t], high[t] = max(low[t], low[t + 1] - up), min(high[t], high[t + 1] + down)


def shed_units(demand: Mapping[Any, Array], price: Any) -> list[Generator]:
    """One unit for each bus whose demand may stay unserved.

    ``price``: per MWh, as a number, by period, or a mapping from bus to either.
    """
    if price is None:
        return []
    prices = price if isinstance(price, Mapping) else dict.fromkeys(demand, price)
    unknown = [bus for bus in prices if bus not in demand]
    if unknown:
        raise ProblemError(f"Dispatch: shed has a price for bus {unknown[0]!r}, without demand.")
    found = []
    for bus, power in demand.items():
        if bus not in prices or not np.any(power > 0):
            continue
        rate = entries("Dispatch", "shed", prices[bus])
        if not np.all(np.greater(rate, 0)):
            raise ProblemError(f"Dispatch: shed = {prices[bus]!r} found; expected prices > 0.")
        top = np.maximum(power, 0.0)
        found.append(Generator(f"shed {bus}", (0.0, rate), p_max=top, bus=bus))
    return found
