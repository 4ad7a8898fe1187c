"""The coupling of a dispatch: balances, reserve, interfaces, emissions and limits of lines."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from dual2.functions import Function, IndicatorAtMost, IndicatorBox, IndicatorPoint, Stacked
from dual2.functions.arguments import Array
from dual2.power.answer_text import number_ranges
from dual2.power.cost_curves import curvature
from dual2.power.generators import Generator
from dual2.power.line_rows import Row
from dual2.power.unit_agents import UnitAgent, compact

if TYPE_CHECKING:
    from dual2.power.dispatch import Dispatch

CO2 = "CO2 cap"
NEGLIGIBLE = 1e-6
"""Blocks of rows with smaller weights, relative to the largest, are not named in a conflict; their
units differ (MW, tonnes)."""
MATTERS = 0.1
"""Rows of a block are named from this fraction of its largest weight on."""


def block_sizes(case: "Dispatch") -> dict[str, int]:
    """Name and number of rows of each block of the coupling, without those of lines."""
    T = case.periods
    found = {balance_name(case, k): T for k in range(len(case.islands))}
    if case.reserve is not None:
        found["reserve"] = T
    found |= {interface.name: T for interface in case.interfaces}
    return found | ({} if case.co2_cap is None else {CO2: 1})


def balance_name(case: "Dispatch", island: int) -> str:
    """What messages call the balance of an island."""
    return "demand" if len(case.islands) == 1 else f"demand of island {case.islands[island]}"


def split_rows(case: "Dispatch", values: Array) -> dict[str, Array]:
    """The entries of each block, from those of all rows."""
    sizes = block_sizes(case)
    cuts = np.cumsum(list(sizes.values()))
    return dict(zip(sizes, np.split(values[: cuts[-1]], cuts[:-1]), strict=True))


def reserve_scale(case: "Dispatch") -> float:
    """Scale of the reserve rows that gives them the curvature of the balance."""
    holders = [u for u in case.units if isinstance(u, Generator) and u.reserve_max > 0]
    soft = min(curvature(u.cost) for u in case.units)
    least = min((u.reserve_cost[0] for u in holders), default=soft)
    return float(np.sqrt(least / soft)) if least > 0 and soft > 0 else 1.0


def unit_matrix(case: "Dispatch", unit: int, model: UnitAgent, rows: Sequence[Row]) -> Any:
    """What a unit adds to the rows, as a matrix of its variables."""
    T, d = case.periods, model.power.shape[1]
    none = sp.csr_array((T, d))
    places = [k for k, (owner, _) in enumerate(case.terminals) if owner == unit]
    ends = [(k, *case.terminals[k][1]) for k in places]
    blocks: list[Any] = []
    for island in range(len(case.islands)):
        fed = [matrix for _, bus, matrix in ends if case.island_of(bus) == island]
        blocks.append(sum(fed[1:], fed[0]) if fed else none)
    if case.reserve is not None:
        blocks.append(reserve_scale(case) * model.reserve)
    for interface in case.interfaces:
        blocks.append(sum((interface.weights.get(bus, 0.0) * m for _, bus, m in ends), none))
    if case.co2_cap is not None:
        rate = getattr(case.units[unit], "emissions", 0.0)
        blocks.append(rate * sp.csr_array(np.ones((1, T))) @ model.power)
    if rows and case.line_rows is not None:
        weights = case.line_rows.weights(rows)
        periods = [row.period for row in rows]
        parts = [sp.diags_array(weights[:, k]) @ matrix[periods] for k, _, matrix in ends]
        blocks.append(sum(parts[1:], parts[0]))
    return compact(sp.csr_array(sp.vstack(blocks)))


def coupling_function(case: "Dispatch", rows: Sequence[Row]) -> Function:
    """h: equations for balances, bounds for all else."""
    parts: list[Any] = []
    for total in case.island_demand:
        equal = case.coupling == "equal"
        parts.append(IndicatorPoint(total) if equal else IndicatorBox(total, np.inf))
    if case.reserve is not None:
        parts.append(IndicatorBox(reserve_scale(case) * case.reserve, np.inf))
    for interface in case.interfaces:
        taken = sum(w * case.demand[b] for b, w in interface.weights.items() if b in case.demand)
        upper, lower = interface.upper + taken, interface.lower + taken
        only_upper = np.isneginf(lower).all() if np.ndim(lower) else lower == -np.inf
        parts.append(IndicatorAtMost(upper) if only_upper else IndicatorBox(lower, upper))
    if case.co2_cap is not None:
        parts.append(IndicatorAtMost(case.co2_cap / case.hours))
    sizes = list(block_sizes(case).values())
    if case.line_rows is not None and rows:
        parts.append(IndicatorBox(*case.line_rows.bounds(rows)))
        sizes.append(len(rows))
    return Stacked(parts, sizes) if len(parts) > 1 else parts[0]


def named_conflict(case: "Dispatch", weights: Array, rows: Sequence[Row]) -> str:
    """The blocks of rows that matter in a certificate of infeasibility, with their periods."""
    weights, found = np.abs(weights), list[str]()
    for name, block in split_rows(case, weights).items():
        if block.max(initial=0.0) <= NEGLIGIBLE * weights.max():
            continue
        periods = np.flatnonzero(block > MATTERS * block.max())
        found.append(name if name == CO2 else f"{name} in {_periods(periods.tolist())}")
    of_lines = weights[case.base_rows :]
    worst = np.argsort(-of_lines, kind="stable")[:6]
    found += [_line_name(case, rows[k]) for k in worst if of_lines[k] > MATTERS * weights.max()]
    return ", ".join(found)


def _periods(numbers: list[int]) -> str:
    """One period or several, in words."""
    return f"period {numbers[0]}" if len(numbers) == 1 else f"periods {number_ranges(numbers)}"


def _line_name(case: "Dispatch", row: Row) -> str:
    """What messages call the limit of a line."""
    lines = case.grid.lines if case.grid else ()
    after = f" after the outage of {lines[row.outage].name}" if row.outage >= 0 else ""
    return f"{lines[row.line].name} in period {row.period}{after}"
