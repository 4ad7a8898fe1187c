"""What cannot be dispatched is said before any work: too much demand, or too fast."""

from collections.abc import Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dual2.errors import ProblemError, unknown_name
from dual2.functions.arguments import Array, entries
from dual2.power.flows import Grid
from dual2.power.grid import Interface

if TYPE_CHECKING:
    from dual2.power.dispatch import Dispatch


REPLACED = {
    "min_curvature": "Costs are taken as they are, linear and piecewise linear ones too: leave it "
    "out. A cost that really is quadratic belongs to the units."
}
"""Arguments that readers of nets and cases had once, and what to do instead."""


def check_options(options: Mapping[str, Any], allowed: Iterable[str]) -> None:
    """Refuse further arguments of a reader that no dispatch has.

    Examples
    --------
    >>> check_options({"min_curvature": 1e-3}, ["reserve", "shed"])
    Traceback (most recent call last):
    ...
    dual2.errors.ProblemError: min_curvature is gone. Costs are taken as they are, ...
    """
    for name in options:
        if name in REPLACED:
            raise ProblemError(f"{name} is gone. {REPLACED[name]}")
        if name not in allowed:
            raise ProblemError(unknown_name("argument", name, allowed))


def check_capacity(case: "Dispatch", low: Array, high: Array) -> None:
    """Refuse a demand that exceeds what the terminals (least and most of each) can do."""
    island = np.array([case.island_of(terminal.bus) for _, terminal in case.terminals])
    for k, total in enumerate(case.island_demand):
        least, most = low[island == k].sum(axis=0), high[island == k].sum(axis=0)
        where = "" if len(case.islands) == 1 else f" of island {case.islands[k]}"
        _check_island(case, where, least, most, total)
    if len(case.islands) == 1:
        _check_changes(case, case.island_demand[0])
    held = np.zeros(case.periods) if case.reserve is None else case.reserve
    offered = [getattr(unit, "reserve_max", 0.0) for unit in case.units]
    if held.max(initial=0.0) > sum(offered) + 1e-9:
        raise ProblemError(
            f"Dispatch: the reserve is {held.max():g} MW, but the units can hold at most "
            f"{sum(offered):g} MW (reserve_max)."
        )


def _check_island(case: "Dispatch", where: str, least: Array, most: Array, total: Array) -> None:
    """Refuse a demand of one island that its units and DC lines cannot meet."""
    slack = 1e-9 * np.maximum(1.0, np.abs(total))
    for t in range(case.periods):
        if total[t] > most[t] + slack[t]:
            raise ProblemError(
                f"Dispatch: in period {t} the demand{where} is {total[t]:g} MW, but the units can "
                f"deliver at most {most[t]:g} MW. Add capacity, lower the demand, or allow "
                "unserved energy (shed=price per MWh)."
            )
        if case.coupling == "equal" and total[t] < least[t] - slack[t]:
            raise ProblemError(
                f"Dispatch: in period {t} the demand{where} is {total[t]:g} MW, but the units "
                f"deliver at least {least[t]:g} MW. Lower some p_min, add storage, or use "
                "coupling='at least'."
            )


def read_islands(
    case: "Dispatch", islands: Mapping[Any, Hashable] | None
) -> tuple[dict[Any, int], list[str]]:
    """The number of the island of every bus, and the islands' names."""
    buses = list(dict.fromkeys([*case.buses, *case.demand]))
    if case.grid is not None:
        if islands is not None:
            raise ProblemError("Dispatch: islands follow from the grid; leave islands= out.")
        found = {bus: int(case.grid.island[case.grid.place[bus]]) for bus in buses}
        names: dict[int, str] = {}
        for bus, k in found.items():
            names.setdefault(k, str(bus))
        return found, [names.get(k, str(k)) for k in range(int(case.grid.island.max()) + 1)]
    if islands is None:
        return dict.fromkeys(buses, 0), ["all"]
    missing = [bus for bus in buses if bus not in islands]
    if missing:
        raise ProblemError(f"Dispatch: islands has no entry for bus {missing[0]!r}.")
    labels = {label: k for k, label in enumerate(dict.fromkeys(islands[bus] for bus in buses))}
    return {bus: labels[islands[bus]] for bus in buses}, [str(label) for label in labels]


def _check_changes(case: "Dispatch", total: Array) -> None:
    """Refuse a demand that changes faster than all ramps together allow."""
    ramps = [getattr(unit, "ramp", None) or (np.inf, np.inf) for unit in case.units]
    up, down = np.sum(ramps, axis=0)
    for t, change in enumerate(np.diff(total), start=1):
        falls = case.coupling == "equal" and -change > down * (1 + 1e-9)
        if change > up * (1 + 1e-9) or falls:
            raise ProblemError(
                f"Dispatch: from period {t - 1} to {t} the demand changes by {change:g} MW, "
                f"but all ramps together allow {down if falls else up:g} MW. Add units that "
                "can follow, or storage."
            )


def read_demand(demand: Any) -> tuple[dict[Hashable, Array], int]:
    """Demand by bus (None where no bus was named) as vectors of one length."""
    given = dict(demand) if isinstance(demand, Mapping) else {None: demand}
    found = {bus: np.atleast_1d(entries("Dispatch", "demand", d)) for bus, d in given.items()}
    lengths = {len(d) for d in found.values()} - {1} or {1}
    if not found:
        raise ProblemError("Dispatch: the demand names no bus; expected demand={bus: MW}.")
    if len(lengths) > 1:
        raise ProblemError(
            f"Dispatch: the demands of the buses have lengths {sorted(lengths)}; expected one "
            "number of periods."
        )
    T = lengths.pop()
    return {bus: np.array(np.broadcast_to(d, (T,))) for bus, d in found.items()}, T


def check_interface_length(case: "Dispatch", interface: Interface) -> None:
    """Refuse limits of an interface for another number of periods."""
    for limit in (interface.lower, interface.upper):
        if np.ndim(limit) and len(limit) != case.periods:
            raise ProblemError(
                f"Interface {interface.name!r}: a limit has {len(limit)} entries; the demand "
                f"has {case.periods} periods."
            )


def check_grid(case: "Dispatch", grid: Grid) -> None:
    """Refuse a surplus without a place, buses without a line, and ratings for other periods."""
    if case.coupling != "equal":
        raise ProblemError(
            "Dispatch: with a grid, coupling='at least' leaves open where the surplus goes. "
            "Use coupling='equal'."
        )
    for bus in [*case.unit_buses, *case.demand]:
        if bus not in grid.place:
            raise ProblemError(f"Dispatch: no line of the grid leads to bus {bus!r}.")
    for line in grid.lines:
        for rating in (line.rating, line.emergency):
            if np.ndim(rating) and len(rating) != case.periods:
                raise ProblemError(
                    f"{line.name!r}: a rating has {len(rating)} entries; the demand has "
                    f"{case.periods} periods."
                )
