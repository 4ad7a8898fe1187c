"""What a schedule violates, in MW and by name."""

from typing import TYPE_CHECKING

import numpy as np

from dual2.functions.arguments import Array
from dual2.solving.unsolved import SHOWN, Violation

if TYPE_CHECKING:
    from dual2.power.answer import Answer


def violations_of(answer: "Answer") -> list[Violation]:
    """Every constraint that a schedule violates by more than rounding, the worst first.

    Balance, reserve, interfaces, all lines of the grid, and the limits of each unit.
    """
    case, found = answer.case, list[Violation]()
    total = case.total_demand
    missing = total - answer.injection.sum(axis=0)
    off = np.abs(missing) if case.coupling == "equal" else np.maximum(missing, 0.0)
    found += _over("Balance", off, total)
    if case.reserve is not None:
        short = np.maximum(case.reserve - answer.reserve.sum(axis=0), 0.0)
        found += _over("Reserve", short, case.reserve)
    for interface in case.interfaces:
        flow = answer.flows[interface.name]
        found += _beyond(interface.name, flow, interface.lower, interface.upper)
    if case.grid is not None:
        for line, flow in zip(case.grid.lines, answer.line_flows, strict=True):
            found += _beyond(line.name, flow, *line.limits)
    for unit, model, x in zip(case.units, case.models, answer.by_unit, strict=True):
        for limit in model.limits:
            value = float(limit.row @ x)
            low, high = limit.lower - value, value - limit.upper
            name, bound = (
                (limit.up_name, limit.upper) if high > low else (limit.low_name, limit.lower)
            )
            if max(low, high) > SHOWN * max(1.0, abs(bound)):
                text, measure = (
                    f"{unit.name}: {name or 'limit'}",
                    "MWh" if name.startswith("e_") else "MW",
                )
                found.append(Violation(text, max(low, high), measure, limit.period))
    return sorted(found, key=lambda one: -one.amount)


def _over(name: str, off: Array, size: Array) -> list[Violation]:
    """The periods in which something is off."""
    worst = off > SHOWN * np.maximum(1.0, np.abs(size))
    return [Violation(name, float(off[t]), "MW", int(t)) for t in np.flatnonzero(worst)]


def _beyond(name: str, flow: Array, lower: Array | float, upper: Array | float) -> list[Violation]:
    """The periods in which a flow is outside its limits."""
    low, high = (np.broadcast_to(bound, flow.shape) for bound in (lower, upper))
    off = np.maximum(np.maximum(flow - high, low - flow), 0.0)
    near = np.where(flow > high, high, low)
    return _over(name, off, np.where(np.isfinite(near), near, 0.0))
