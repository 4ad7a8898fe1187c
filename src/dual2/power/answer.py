"""What a dispatch comes to: power, cost and binding limits of each unit, and the prices."""

import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dual2.errors import ProblemError
from dual2.functions.arguments import Array
from dual2.power.answer_text import answer_text
from dual2.power.balance_rows import CO2, balance_name, reserve_scale, split_rows
from dual2.power.cost_curves import PiecewiseLinearCost, marginal
from dual2.power.data_frames import frame, write_tables
from dual2.power.generators import Generator
from dual2.power.line_rows import LineRows, Row
from dual2.power.network_tables import bus_table, line_table
from dual2.power.outages import outage_table
from dual2.power.violated import violations_of
from dual2.power.zones import zone_table
from dual2.solving.result import Result, Status
from dual2.solving.unsolved import (
    Violation,
    is_solved,
    mark_unsolved,
    not_solved,
)

if TYPE_CHECKING:
    from dual2.power.dispatch import Dispatch

BINDS = 1e-6
"""A limit binds if it is met up to this fraction of max(1, |limit|)."""

PARTS = ("total", "energy", "congestion")


class Answer:
    """Schedule, prices and cost of a solved dispatch.

    Parameters
    ----------
    case : Dispatch
        What was solved.
    result : Result
        The outcome of :func:`dual2.solve`.
    active : sequence of Row
        The limits of lines that the problem had.

    Attributes
    ----------
    power : ndarray (units, T)
        Power of each unit: what a generator feeds in, what a storage takes, what a DC line sends.
    injection : ndarray (terminals, T)
        What is fed in at each terminal of a unit, in the order of ``case.terminals``.
    reserve : ndarray (units, T)
        Reserve that each unit holds.
    cost : float
        Cost of all units together.
    price : ndarray (T,)
        What one more MWh of demand would cost, for each period; with a grid, of demand that is
        shared among the buses as the demand is.
    reserve_price : ndarray (T,) or None
        What one more MW of reserve would cost.
    flows, flow_prices : dict of str to ndarray (T,)
        Flow through each interface, and what relaxing its binding limit by one MW would save
        (negative where the lower limit binds).
    energy : dict of str to ndarray (T,)
        Energy after each period of every storage that has a limit of it.
    line_flows, line_prices : ndarray (lines, T)
        The same for the lines of the grid; :attr:`lines` is the table.
    on : dict of str to ndarray (T,)
        By what fraction each unit with a relaxed commitment is on.
    co2_price : float
        What one more tonne of the CO₂ cap would save.
    node_prices : ndarray (nodes, T)
        What limits of lines add to the price at each node of the grid.
    unserved : dict of bus to ndarray (T,)
        Demand that is not met, where ``shed`` allows it.
    """

    def __init__(self, case: "Dispatch", result: Result, active: Sequence[Row] = ()) -> None:
        self.case, self.result, self.active = case, result, tuple(active)
        self.injection = case.injections(result.x)
        self._x = case.by_unit(result.x)
        pairs = list(zip(case.models, self._x, strict=True))
        self.power = np.array([model.power @ x for model, x in pairs])
        self.reserve = np.array([model.reserve @ x for model, x in pairs])
        self.energy: dict[str, Array] = {
            unit.name: model.base + model.stored @ x
            for unit, (model, x) in zip(case.units, pairs, strict=True)
            if model.stored is not None
        }
        self.on: dict[str, Array] = {
            unit.name: model.more["on"] @ x
            for unit, (model, x) in zip(case.units, pairs, strict=True)
            if "on" in model.more
        }
        blocks = split_rows(case, -np.asarray(result.dual))
        self.row_duals = np.asarray(result.dual)[case.base_rows :]
        self.island_prices = np.array(
            [blocks[balance_name(case, k)] for k in range(len(case.islands))]
        )
        self.reserve_price: Array | None = None
        if case.reserve is not None:
            self.reserve_price = reserve_scale(case) * blocks["reserve"]
        self.co2_price = 0.0 if case.co2_cap is None else -float(blocks[CO2][0])
        self.flow_prices = {i.name: -blocks[i.name] for i in case.interfaces}
        self.flows = {i.name: self._flow(i.weights) for i in case.interfaces}
        self.node_prices = np.zeros((0, case.periods))
        self.line_flows = self.line_prices = self.node_prices
        if case.line_rows is not None:
            self._read_lines(case.line_rows)
        self.price: Array = self._mean_price()
        self.unserved = {
            unit.bus: self.power[i]
            for i, unit in enumerate(case.units)
            if case.shed is not None and unit.name == f"shed {unit.bus}"
        }

    def _read_lines(self, line_rows: LineRows) -> None:
        """Flows and prices of lines, and what they add to the price at every node."""
        self.line_flows = line_rows.base + line_rows.factors @ self.injection
        self.line_prices = line_rows.line_prices(self.active, self.row_duals)
        self.node_prices = line_rows.node_prices(self.active, self.row_duals)

    def _mean_price(self) -> Array:
        """Mean of the buses' prices by demand, without what interfaces add."""
        case, rows = self.case, self.case.line_rows
        if rows is None:
            total, taken, nodes = case.total_demand, case.island_demand, self.island_prices
        else:
            total, taken = rows.demand.sum(axis=0), rows.taken
            nodes = self.island_prices[rows.grid.island] + self.node_prices
        known = np.abs(total) > 0
        share = np.where(known, taken / np.where(known, total, 1.0), 1.0 / len(taken))
        return (share * nodes).sum(axis=0)

    def _flow(self, weights: dict[Any, float]) -> Array:
        """Net flow through an interface."""
        case = self.case
        made = np.zeros(case.periods)
        for (_, terminal), power in zip(case.terminals, self.injection, strict=True):
            made = made + weights.get(terminal.bus, 0.0) * power
        taken = sum(w * case.demand[b] for b, w in weights.items() if b in case.demand)
        return np.asarray(made - taken)

    def net_injection(self) -> Array:
        """What each unit feeds in at all of its terminals together, (units, T)."""
        found = np.zeros(self.power.shape)
        for (unit, _), power in zip(self.case.terminals, self.injection, strict=True):
            found[unit] += power
        return found

    def fed_in(self, bus: Any) -> Array:
        """What units feed in at one bus, for each period; storage that charges counts negative."""
        pairs = zip(self.case.terminals, self.injection, strict=True)
        parts = [power for (_, terminal), power in pairs if terminal.bus == bus]
        return np.sum(parts, axis=0) if parts else np.zeros(self.case.periods)

    @cached_property
    def costs(self) -> Array:
        """What each unit costs in all."""
        return self.costs_by_period.sum(axis=1)

    @cached_property
    def costs_by_period(self) -> Array:
        """What each unit costs in each period, (units, T)."""
        parts = zip(self.case.models, self._x, strict=True)
        return self.case.hours * np.array([model.costs(x) for model, x in parts])

    @cached_property
    def emissions(self) -> Array:
        """Tonnes of CO₂ of each unit in all."""
        rates = np.array([getattr(unit, "emissions", 0.0) for unit in self.case.units])
        return self.case.hours * rates * self.power.sum(axis=1)

    @property
    def contingencies(self) -> list[dict[str, Any]]:
        """One dict per limit after an outage that has a price; see :class:`Security`."""
        return outage_table(self)

    @property
    def separating(self) -> list[str]:
        """Lines whose outage separates the grid, which security leaves out."""
        rows = self.case.line_rows
        outages = None if rows is None else rows.outages
        return (
            [] if outages is None else [outages.separating[k] for k in sorted(outages.separating)]
        )

    @cached_property
    def cost(self) -> float:
        """What all of them cost together."""
        return float(self.costs.sum())

    @property
    def status(self) -> str:
        """How the run ended."""
        return str(self.result.status)

    @property
    def solved(self) -> bool:
        """Whether the run converged; else nothing here may be taken for a solution."""
        return is_solved(self.result)

    @property
    def by_unit(self) -> list[Array]:
        """The variables of each unit."""
        return self._x

    @property
    def notice(self) -> str:
        """What stands first if the run has not converged; empty if it has."""
        if self.solved:
            return ""
        return not_solved(Status(self.result.status), self.violations, "cost below", "schedule")

    def __repr__(self) -> str:
        what = self.notice or f"{self.status}, cost {self.cost:.8g}"
        return f"<Answer of {len(self.case.units)} units: {what}>"

    @cached_property
    def violations(self) -> list[Violation]:
        """What the schedule violates; see :func:`dispatch.violated.violations_of`."""
        return violations_of(self)

    @property
    def communication(self) -> dict[str, int]:
        """What was sent: rounds of p-vectors between neighbours, agreements, numbers in all."""
        counts = self.result.counts
        names = ("rounds", "agree_rounds", "sums", "floats", "latency")
        return {name: getattr(counts, name) for name in names}

    def bus_price(self, bus: Any) -> Array:
        """Price at one bus: what one more MWh of demand there would cost, for each period."""
        return self.price + self._congestion(bus)

    def _congestion(self, bus: Any) -> Array:
        """The price of a bus less the mean price."""
        grid = self.case.grid
        lines = 0.0 if grid is None else self.node_prices[grid.place[bus]]
        flows = sum(
            i.weights.get(bus, 0.0) * self.flow_prices[i.name] for i in self.case.interfaces
        )
        own = self.island_prices[self.case.island_of(bus)]
        return np.asarray(own + lines - flows - self.price)

    def bus_prices(self, part: str = "total") -> dict[Any, Array]:
        """Price of every bus, (T,) each: what one more MWh of demand there would cost.

        Parameters
        ----------
        part : {"total", "energy", "congestion"}
            The whole price, or one of its parts: energy is :attr:`price`, the same at every bus;
            congestion is the rest. With a grid the energy part is the mean by demand, so that the
            loads together pay no congestion.
        """
        if part not in PARTS:
            raise ProblemError(f"part = {part!r}; expected one of {', '.join(PARTS)}.")
        energy = self.price if part != "congestion" else 0.0 * self.price
        moved = part != "energy"
        return {
            bus: energy + self._congestion(bus) if moved else energy.copy()
            for bus in self.case.buses
        }

    @property
    def lines(self) -> list[dict[str, Any]]:
        """One dict per line of the grid; see :func:`dispatch.tables.line_table`."""
        return self._marked(line_table(self))

    @property
    def buses(self) -> list[dict[str, Any]]:
        """One dict per bus; see :func:`dispatch.tables.bus_table`."""
        return self._marked(bus_table(self))

    @property
    def zones(self) -> list[dict[str, Any]]:
        """One dict per zone; see :func:`dispatch.zones.zone_table`."""
        return self._marked(zone_table(self))

    def _marked(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return mark_unsolved(rows, Status(self.result.status))

    @property
    def congestion_rent(self) -> Array:
        """Payments of the demand minus revenues of the units at the bus prices, for each period.

        Without phase shifters and interfaces it equals Σ μ_l·flow_l, summed over the lines, times
        the hours of a period.
        """
        paid = sum(self.bus_price(bus) * power for bus, power in self.case.demand.items())
        pairs = zip(self.case.terminals, self.injection, strict=True)
        earned = sum(self.bus_price(terminal.bus) * power for (_, terminal), power in pairs)
        return self.case.hours * np.asarray(paid - earned)

    def limits(self, unit: int) -> list[tuple[str, int]]:
        """The limits of one unit that bind, each with its period."""
        model, x = self.case.models[unit], self._x[unit]
        found = []
        values = model.table.rows @ x
        for value, limit in zip(values.tolist(), model.table.limits, strict=True):
            for bound, name in ((limit.lower, limit.low_name), (limit.upper, limit.up_name)):
                near = abs(value - bound) <= BINDS * max(1.0, abs(bound))
                if name and np.isfinite(bound) and near:
                    found.append((name, limit.period))
        return found

    def marginal(self, unit: int) -> Array:
        """Marginal cost of one unit; at a kink of its cost, the slope nearest to the price."""
        own = self.case.units[unit]
        low, high = marginal(own.cost, self.power[unit])
        sign = 1.0 if isinstance(own, Generator) else -1.0
        return np.clip(sign * self.bus_price(own.bus), low, high)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One dict per unit: name, bus, power, cost, marginal cost, price at its bus, limits.

        Power, marginal cost and price are lists over the periods, as are the reserve where the
        case has one and the stored ``energy`` of a storage after each period. A unit with a
        piecewise linear cost also has ``slopes``, the marginal cost to the left and to the right.
        ``pandas.DataFrame(answer.rows)`` is the table. Tables of an answer that has not converged
        have a first column "NOT SOLVED".
        """
        found = []
        for i, unit in enumerate(self.case.units):
            row = {
                "unit": unit.name,
                "bus": unit.bus,
                "power": self.power[i].tolist(),
                "cost": float(self.costs[i]),
                "marginal": self.marginal(i).tolist(),
                "price": self.bus_price(unit.bus).tolist(),
            }
            if isinstance(unit.cost, PiecewiseLinearCost):
                row["slopes"] = np.transpose(marginal(unit.cost, self.power[i])).tolist()
            if self.case.reserve is not None:
                row["reserve"] = self.reserve[i].tolist()
            if unit.name in self.energy:
                row["energy"] = self.energy[unit.name].tolist()
            found.append(row | {"limits": self.limits(i)})
        return self._marked(found)

    def __str__(self) -> str:
        return answer_text(self)

    def frame(self, table: str = "units") -> Any:
        """A tidy pandas.DataFrame: one row per thing and period.

        Parameters
        ----------
        table : {"units", "buses", "lines", "storage", "zones", "contingencies"}
            Which one. Column ``period`` counts from 0, ``hour`` is where the period begins. Tables
            of an answer that has not converged have a first column "NOT SOLVED".
        """
        return frame(self, table)

    def export(
        self, folder: str | os.PathLike[str], format: str = "csv", *, accept: str | None = None
    ) -> list[Path]:
        """Write all tables into a folder, one file each.

        Parameters
        ----------
        folder : path
            Made if it is not there.
        format : {"csv", "parquet"}
            Parquet needs pyarrow (extra ``tables``).
        accept : {None, "unsolved"}
            ``"unsolved"`` also writes an answer that has not converged.
        """
        return write_tables(self, folder, format, accept)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Figure of the schedule and the prices; see :func:`plot_dispatch`."""
        from dual2.power.figure import plot_dispatch

        return plot_dispatch(self, path)
