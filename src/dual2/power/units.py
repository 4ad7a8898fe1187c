"""Who takes part in a dispatch: generators and energy-reserving nodes, one agent each."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from dual2.errors import ProblemError
from dual2.functions import Function, IndicatorBox, IndicatorPolyhedron, PiecewiseQuadratic
from dual2.functions.arguments import Array, entries, number, store
from dual2.functions.polyhedron import EmptySet
from dual2.power.costs import (
    PiecewiseLinear,
    curvature,
    read_cost,
    read_polynomial,
)


class Limit(NamedTuple):
    """One inequality of a unit: lower ≤ <row, x> ≤ upper, in words and in numbers."""

    period: int
    low_name: str
    up_name: str
    row: Array
    lower: float
    upper: float


@dataclass(frozen=True, eq=False)
class UnitAgent:
    """A unit as an agent: its variables x = (power, scaled reserve) and what they mean.

    Where the cost is piecewise linear, power is the sum of one part for each piece.
    """

    # f, g: cost and limits in x
    f: Function
    g: Function
    limits: list[Limit]  # the inequalities of g
    # power, reserve: power fed into the grid, and reserve held, as linear functions of x
    power: Array
    reserve: Array
    stored: Array | None = None  # change of the stored energy since the beginning, likewise


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
    cost : (c2, c1), (c2, c1, c0) or PiecewiseLinear
        c2 ≥ 0; with a linear or piecewise linear cost several schedules may be best.
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

    def __post_init__(self) -> None:
        store(self, cost=read_cost(self, self.cost))
        _read_bounds(self)
        if self.ramp is not None:
            rates = np.atleast_1d(entries(str(self), "ramp", self.ramp, finite=False))
            if rates.size not in (1, 2) or not np.all(rates >= 0):
                raise ProblemError(
                    f"{self!s}: ramp = {self.ramp!r}; expected a rate ≥ 0 or a pair (up, down)."
                )
            store(self, ramp=(float(rates[0]), float(rates[-1])))
        if self.initial is not None:
            store(self, initial=number(str(self), "initial", self.initial))
        if not self.reserve_max >= 0:
            raise ProblemError(f"{self!s}: reserve_max = {self.reserve_max!r}; expected ≥ 0.")
        if self.reserve_max > 0:
            given = (0.0, 0.0) if self.reserve_cost is None else self.reserve_cost
            price = read_polynomial(self, given, "reserve_cost")
            store(self, reserve_cost=price[:2])

    def __str__(self) -> str:
        return f"Generator {self.name!r}"

    def model(self, periods: int) -> UnitAgent:
        """The generator as an agent over so many periods."""
        T, eye = periods, np.eye(periods)
        slopes, offset, limits, parts = self._parts(T)
        holds = self.reserve_max > 0
        curves = np.array([curvature(self.cost), self.reserve_cost[0] if holds else 0.0])
        stretch = float(np.sqrt(curves[0] / curves[1])) if curves.all() else 1.0
        power = np.hstack([eye] * parts + [0.0 * eye] * holds)
        reserve = np.hstack([0.0 * eye] * parts + [stretch * eye] * holds)
        if not holds:
            reserve = 0.0 * power
        limits = [limit._replace(row=np.pad(limit.row, (0, T * holds))) for limit in limits]
        if self.ramp is not None:
            limits += self._ramps(power)
        if holds:
            limits += self._reserves(power, reserve)
            slopes = [*slopes, self.reserve_cost[1] * stretch]
        bends = [curves[0]] * parts + [stretch**2 * curves[1]] * holds
        offset = np.pad(offset, (0, T * (len(slopes) - 1)))
        f = PiecewiseQuadratic(
            curvature=2.0 * np.repeat(bends, T), slope=np.repeat(slopes, T), offset=offset
        )
        return _share(self, f, limits, power, reserve)

    def _parts(self, T: int) -> tuple[list[float], Array, list[Limit], int]:
        """Slopes, offset and limits of the parts that make up the power, and their number."""
        if not isinstance(self.cost, PiecewiseLinear):
            return [self.cost[1]], np.full(T, self.cost[2]), _box(self, np.eye(T)), 1
        ends, slopes = self.cost.pieces(float(np.min(self.p_min)), float(np.max(self.p_max)))
        k, eye = len(slopes), np.eye(T * len(slopes))
        low, high = np.array([(c.lower, c.upper) for c in _box(self, np.eye(T))]).T
        tops = np.clip(ends[1:, None], low, high)
        rooms = np.diff(np.vstack([low, tops]), axis=0)
        first, last = np.argmax(rooms > 0, axis=0), k - 1 - np.argmax(rooms[::-1] > 0, axis=0)
        limits = []
        for j, t in np.ndindex(k, T):
            names = "p_min" if j == first[t] else "", "p_max" if j == last[t] else ""
            bottom = 0.0 if j else float(low[t])
            limits.append(Limit(t, *names, eye[j * T + t], bottom, bottom + float(rooms[j, t])))
        return list(slopes), self.cost(low) - slopes[0] * low, limits, k

    def _reserves(self, power: Array, reserve: Array) -> list[Limit]:
        T, most = len(power), self.reserve_max
        top = np.broadcast_to(self.p_max, (T,))
        own = [Limit(t, "", "reserve_max", reserve[t], 0.0, most) for t in range(T)]
        both = [
            Limit(t, "", "p_max with reserve", power[t] + reserve[t], -np.inf, top[t])
            for t in range(T)
        ]
        return own + both

    def _ramps(self, power: Array) -> list[Limit]:
        up, down = self.ramp
        steps = [
            Limit(t, "ramp down", "ramp up", power[t] - power[t - 1], -down, up)
            for t in range(1, len(power))
        ]
        if self.initial is not None:
            start = self.initial
            steps.append(Limit(0, "ramp down", "ramp up", power[0], start - down, start + up))
        return steps


@dataclass(frozen=True, eq=False)
class Storage:
    """An energy-reserving node: takes y_t from the grid (negative: gives back).

    y_t costs Σ_t c2·y_t² + c1·y_t + c0 and obeys p_min ≤ y_t ≤ p_max; the energy
    e_t = initial + Σ_{s ≤ t} y_s (periods of one hour) obeys e_min ≤ e_t ≤ e_max, and
    e_T ≥ final. For one period and no energy limits it is the reserving node of the paper.

    With losses y = c - d, charged and discharged power c, d ≥ 0 have limits and costs as y ≥ 0 and
    y ≤ 0 have, and e_t = initial + Σ_{s ≤ t} η_c·c_s - d_s/η_d. Both at once only burns energy: it
    is never best where the price is positive, and may be where it is negative.

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

    Examples
    --------
    >>> battery = Storage("battery", (0.0, 0.0), p_min=-10.0, p_max=10.0, efficiency=(0.9, 0.8))
    >>> battery.model(1).stored.tolist()
    [[0.9, -1.25]]
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

    def __post_init__(self) -> None:
        store(self, cost=read_polynomial(self, self.cost))
        _read_bounds(self)
        shares = np.atleast_1d(entries(str(self), "efficiency", self.efficiency))
        if shares.size not in (1, 2) or not np.all((shares > 0) & (shares <= 1)):
            raise ProblemError(
                f"{self!s}: efficiency = {self.efficiency!r}; expected a number in (0, 1] or a "
                "pair (charging, discharging)."
            )
        store(self, efficiency=(float(shares[0]), float(shares[-1])))
        low, high = self.energy
        if not low <= self.initial <= high:
            raise ProblemError(
                f"{self!s}: it starts with {self.initial:g} MWh, outside its limits "
                f"[{low:g}, {high:g}]."
            )

    def __str__(self) -> str:
        return f"Storage {self.name!r}"

    def model(self, periods: int) -> UnitAgent:
        """The storage as an agent over so many periods."""
        lossy, eye = self.efficiency != (1.0, 1.0), np.eye(periods)
        charging, discharging = self.efficiency
        limits = self._two_ways(periods) if lossy else _box(self, eye)
        taken = np.hstack([eye, -eye]) if lossy else eye
        kept = np.hstack([charging * eye, -eye / discharging]) if lossy else eye
        low, high = (bound - self.initial for bound in self.energy)
        sums = np.tril(np.ones((periods, periods))) @ kept
        last = low if self.final is None else max(low, self.final - self.initial)
        for t in range(periods):
            ends = t == periods - 1 and last > low
            least, name = (last, "final") if ends else (low, "e_min")
            if np.isfinite(least) or np.isfinite(high):
                limits.append(Limit(t, name, "e_max", sums[t], least, high))
        c2, c1, c0 = self.cost
        offset = np.pad(np.full(periods, c0), (0, periods * lossy))
        f = PiecewiseQuadratic(
            curvature=np.full(len(offset), 2.0 * c2), slope=c1 * taken.sum(axis=0), offset=offset
        )
        return replace(_share(self, f, limits, -taken, 0.0 * taken), stored=sums)

    def _two_ways(self, periods: int) -> list[Limit]:
        """Limits of the power that is charged, and of the power that is discharged."""
        rows, limits = np.eye(2 * periods), _box(self, np.eye(periods))
        up = [c._replace(lower=max(c.lower, 0.0), upper=max(c.upper, 0.0)) for c in limits]
        down = [c._replace(lower=max(-c.upper, 0.0), upper=max(-c.lower, 0.0)) for c in limits]
        taken = [c._replace(low_name="", row=rows[c.period]) for c in up]
        return taken + [
            c._replace(low_name="", up_name="p_min", row=rows[periods + c.period]) for c in down
        ]


Unit = Generator | Storage


def shed_units(demand: Mapping[Any, Array], price: float | None) -> list[Generator]:
    """One unit for each bus whose demand may stay unserved at this price."""
    if price is None:
        return []
    cost = (0.0, number("Dispatch", "shed", price, above=0.0))
    return [
        Generator(f"shed {bus}", cost, p_max=np.maximum(power, 0.0), bus=bus)
        for bus, power in demand.items()
        if np.any(power > 0)
    ]


def _read_bounds(unit: Unit) -> None:
    for name in ("p_min", "p_max"):
        value = entries(str(unit), name, getattr(unit, name))
        store(unit, **{name: value})
    if np.any(np.greater(unit.p_min, unit.p_max)):
        raise ProblemError(
            f"{unit!s}: p_min = {np.max(unit.p_min):g} exceeds p_max = {np.min(unit.p_max):g}."
        )


def _box(unit: Unit, power: Array) -> list[Limit]:
    T = len(power)
    bounds = []
    for name in ("p_min", "p_max"):
        value = getattr(unit, name)
        if np.ndim(value) and len(value) != T:
            raise ProblemError(
                f"{unit!s}: {name} has {len(value)} entries; the demand has {T} periods."
            )
        bounds.append(np.broadcast_to(value, (T,)))
    return [Limit(t, "p_min", "p_max", power[t], bounds[0][t], bounds[1][t]) for t in range(T)]


def _share(
    unit: Unit, f: PiecewiseQuadratic, limits: list[Limit], power: Array, reserve: Array
) -> UnitAgent:
    d = power.shape[1]
    M = np.array([limit.row for limit in limits])
    lower, upper = (np.array([getattr(c, side) for c in limits]) for side in ("lower", "upper"))
    if np.array_equal(M, np.eye(d)):
        return UnitAgent(f, IndicatorBox(lower, upper), limits, power, reserve)
    try:
        g = IndicatorPolyhedron(M, lower, upper)
    except EmptySet as error:
        raise ProblemError(f"{unit!s}: {_conflict(limits, error)}") from error
    return UnitAgent(f, g, limits, power, reserve)


def _conflict(limits: list[Limit], error: EmptySet) -> str:
    names = []
    for row, side in zip(error.rows, error.sides, strict=True):
        limit = limits[row]
        name = limit.low_name if side == "lower" else limit.up_name
        names.append(f"{name or 'limits'} in period {limit.period}")
    return f"no schedule meets its limits: {', '.join(names)} contradict each other. Relax one."
