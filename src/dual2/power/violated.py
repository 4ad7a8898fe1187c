"""What a schedule violates, in MW and by name."""

from typing import TYPE_CHECKING

import numpy as np

from dual2.functions.arguments import Array
from dual2.solving.unsolved import SHOWN, Violation

ENERGIES = ("e_min", "e_max", "final")
"""Names of limits in MWh."""

if TYPE_CHECKING:
    from dual2.power.answer import Answer


def violations_of(answer: "Answer") -> list[Violation]:
    """Every constraint that a schedule violates by more than rounding, the worst first.

    Balance, reserve, interfaces, all lines of the grid, and the limits of each unit.
    """
    case, found = answer.case, list[Violation]()
    island = np.array([case.island_of(terminal.bus) for _, terminal in case.terminals])
    for k, total in enumerate(case.island_demand):
        missing = total - answer.injection[island == k].sum(axis=0)
        off = np.abs(missing) if case.coupling == "equal" else np.maximum(missing, 0.0)
        where = "" if len(case.islands) == 1 else f" of island {case.islands[k]}"
        found += _over(f"Balance{where}", off, total)
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
        values = model.table.rows @ x
        for value, limit in zip(values.tolist(), model.table.limits, strict=True):
            low, high = limit.lower - value, value - limit.upper
            name, bound = (
                (limit.up_name, limit.upper) if high > low else (limit.low_name, limit.lower)
            )
            if max(low, high) > SHOWN * max(1.0, abs(bound)):
                measure = "MWh" if name in ENERGIES else "MW"
                off = max(low, high) * (limit.scale if name in ENERGIES else 1.0)
                found.append(
                    Violation(f"{unit.name}: {name or 'limit'}", off, measure, limit.period)
                )
    if case.co2_cap is not None:
        off = np.array([max(answer.emissions.sum() - case.co2_cap, 0.0)])
        if off[0] > SHOWN * max(1.0, abs(case.co2_cap)):
            found.append(Violation("CO2 cap", float(off[0]), "t", case.periods - 1))
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
