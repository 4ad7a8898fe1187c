"""What a dispatch comes to: power, cost and binding limits of each unit, and the prices."""

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from dual2.functions.arguments import Array
from dual2.solving.result import Result

if TYPE_CHECKING:
    from dual2.applications.dispatch.case import Dispatch

BINDS = 1e-6
"""A limit binds if it is met up to this fraction of max(1, |limit|)."""

ROUNDING = 1e-5
"""Powers and costs below this are shown as 0."""


class Answer:
    """Schedule, prices and cost of a solved dispatch.

    Parameters
    ----------
    case : Dispatch
        What was solved.
    result : Result
        The outcome of :func:`dual2.solve`.

    Attributes
    ----------
    power : ndarray (units, T)
        Power of each unit: what a generator feeds in, what a storage takes.
    reserve : ndarray (units, T)
        Reserve that each unit holds.
    cost : float
        Cost of all units together.
    price : ndarray (T,)
        What one more MWh of demand would cost, for each period.
    reserve_price : ndarray (T,) or None
        What one more MW of reserve would cost.
    flows, flow_prices : dict of str to ndarray (T,)
        Flow through each interface, and what relaxing its binding limit by one MW would save
        (negative where the lower limit binds).
    """

    def __init__(self, case: "Dispatch", result: Result) -> None:
        self.case, self.result = case, result
        pairs = list(zip(case.models, result.x, strict=True))
        self.injection = np.array([model.power @ x for model, x in pairs])
        self.power = np.array([x[: case.periods] for _, x in pairs])
        self.reserve = np.array([model.reserve @ x for model, x in pairs])
        self.costs = np.array([float(model.f.value(x)) for model, x in pairs])
        self.cost = float(self.costs.sum())
        blocks = dict(zip(case.row_names(), -result.dual.reshape(-1, case.periods), strict=True))
        self.price: Array = blocks["demand"]
        self.reserve_price: Array | None = None
        if case.reserve is not None:
            self.reserve_price = case._reserve_scale * blocks["reserve"]
        self.flow_prices = {i.name: -blocks[i.name] for i in case.interfaces}
        self.flows = {i.name: self._flow(i.weights) for i in case.interfaces}

    def _flow(self, weights: dict[Any, float]) -> Array:
        case = self.case
        made = sum(
            weights.get(u.bus, 0.0) * p for u, p in zip(case.units, self.injection, strict=True)
        )
        taken = sum(w * case.demand[b] for b, w in weights.items() if b in case.demand)
        return np.asarray(made - taken)

    @property
    def status(self) -> str:
        """How the run ended."""
        return str(self.result.status)

    @property
    def communication(self) -> dict[str, int]:
        """What was sent: rounds of p-vectors between neighbours, agreements, numbers in all."""
        counts = self.result.counts
        return {
            "rounds": counts.rounds,
            "agree_rounds": counts.agree_rounds,
            "floats": counts.floats,
        }

    def bus_price(self, bus: Any) -> Array:
        """Price at one bus: what one more MWh of demand there would cost, for each period."""
        congestion = sum(
            i.weights.get(bus, 0.0) * self.flow_prices[i.name] for i in self.case.interfaces
        )
        return self.price - congestion

    def limits(self, unit: int) -> list[tuple[str, int]]:
        """The limits of one unit that bind, each with its period."""
        model, x = self.case.models[unit], self.result.x[unit]
        found = []
        for limit in model.limits:
            value = float(limit.row @ x)
            for bound, name in ((limit.lower, limit.low_name), (limit.upper, limit.up_name)):
                near = abs(value - bound) <= BINDS * max(1.0, abs(bound))
                if name and np.isfinite(bound) and near:
                    found.append((name, limit.period))
        return found

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One dict per unit: name, bus, power, cost, marginal cost, price at its bus, limits.

        Power, marginal cost and price are lists over the periods, as is the reserve where the
        case has one. ``pandas.DataFrame(answer.rows)`` is the table.
        """
        found = []
        for i, unit in enumerate(self.case.units):
            row = {
                "unit": unit.name,
                "bus": unit.bus,
                "power": self.power[i].tolist(),
                "cost": float(self.costs[i]),
                "marginal": (2 * unit.cost[0] * self.power[i] + unit.cost[1]).tolist(),
                "price": self.bus_price(unit.bus).tolist(),
            }
            if self.case.reserve is not None:
                row["reserve"] = self.reserve[i].tolist()
            found.append(row | {"limits": self.limits(i)})
        return found

    def __str__(self) -> str:
        one = self.case.periods == 1
        keys = ["power", "cost", "marginal"]
        keys += ["reserve"] if self.case.reserve is not None else []
        keys += ["price"] if self.case.interfaces else []
        titles = [key if one or key == "cost" else f"mean {key}" for key in keys]
        head = ["unit", "bus", *titles, "limits" if one else "limits (periods)"]
        cells = [head, *(_cells(row, keys, one) for row in self.rows)]
        widths = [max(len(row[k]) for row in cells) for k in range(len(head) - 1)]
        lines = [
            "  ".join(
                c.rjust(w) if k else c.ljust(w)
                for k, (c, w) in enumerate(zip(row, [*widths, 0], strict=True))
            ).rstrip()
            for row in cells
        ]
        return "\n".join([self._headline(), *lines])

    def _headline(self) -> str:
        price = f"{self.price.min():.6g}"
        if self.case.periods > 1:
            price += f" … {self.price.max():.6g}"
        return (
            f"{self.status}: cost {self.cost:.8g}, price {price} per MWh; "
            f"{self.result.counts.rounds} rounds"
        )

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Figure of the schedule and the prices; see :func:`plot_dispatch`."""
        from dual2.applications.dispatch.figure import plot_dispatch

        return plot_dispatch(self, path)


def _cells(row: dict[str, Any], keys: list[str], one: bool) -> list[str]:
    places: dict[str, list[int]] = {}
    for name, period in row["limits"]:
        places.setdefault(name, []).append(period)
    shown = [name if one else f"{name} ({_ranges(where)})" for name, where in places.items()]
    numbers = [_number(np.mean(row[key])) for key in keys]
    return [row["unit"], str(row["bus"]), *numbers, ", ".join(shown)]


def _number(value: Any) -> str:
    """Six digits; what is nothing but rounding is 0."""
    return "0" if abs(value) < ROUNDING else f"{value:.6g}"


def _ranges(numbers: list[int]) -> str:
    """1, 2, 3, 7 as '1-3, 7'."""
    runs: list[list[int]] = []
    for k in sorted(numbers):
        if runs and k == runs[-1][1] + 1:
            runs[-1][1] = k
        else:
            runs.append([k, k])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
