"""What cannot be dispatched is said before any work: too much demand, or too fast."""

from collections.abc import Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dual2.errors import ProblemError, unknown_name
from dual2.functions.arguments import Array, entries
from dual2.power.units import Generator, Unit

if TYPE_CHECKING:
    from dual2.power.case import Dispatch


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
    """Refuse a demand that exceeds what the units (least and most of each) can do."""
    least, most, total = low.sum(axis=0), high.sum(axis=0), case.total_demand
    slack = 1e-9 * np.maximum(1.0, np.abs(total))
    for t in range(case.periods):
        if total[t] > most[t] + slack[t]:
            raise ProblemError(
                f"Dispatch: in period {t} the demand is {total[t]:g} MW, but the units can "
                f"deliver at most {most[t]:g} MW. Add capacity, lower the demand, or allow "
                "unserved energy (shed=price per MWh)."
            )
        if case.coupling == "equal" and total[t] < least[t] - slack[t]:
            raise ProblemError(
                f"Dispatch: in period {t} the demand is {total[t]:g} MW, but the units deliver "
                f"at least {least[t]:g} MW. Lower some p_min, add storage, or use "
                "coupling='at least'."
            )
    _check_changes(case, total)
    held = np.zeros_like(total) if case.reserve is None else case.reserve
    offered = [getattr(unit, "reserve_max", 0.0) for unit in case.units]
    if held.max(initial=0.0) > sum(offered) + 1e-9:
        raise ProblemError(
            f"Dispatch: the reserve is {held.max():g} MW, but the units can hold at most "
            f"{sum(offered):g} MW (reserve_max)."
        )


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


def reach(unit: Unit, T: int) -> tuple[Array, Array]:
    """Least and most power fed into the grid in each period, ramps followed from both ends."""
    low, high = (np.array(np.broadcast_to(p, (T,))) for p in (unit.p_min, unit.p_max))
    if not isinstance(unit, Generator):
        return -high, -low
    if unit.ramp is None:
        return low, high
    up, down = unit.ramp
    if unit.initial is not None:
        low[0], high[0] = max(low[0], unit.initial - down), min(high[0], unit.initial + up)
    for t in range(1, T):
        low[t], high[t] = max(low[t], low[t - 1] - down), min(high[t], high[t - 1] + up)
    for t in range(T - 2, -1, -1):
        low[t], high[t] = max(low[t], low[t + 1] - up), min(high[t], high[t + 1] + down)
    return low, high


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
