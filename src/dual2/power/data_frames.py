"""Answers as tidy tables: one row per unit, bus, line, storage or zone and period."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dual2.errors import CapabilityError, ProblemError, unknown_name
from dual2.solving.unsolved import check_accept

if TYPE_CHECKING:
    from dual2.power.answer import Answer

TABLES = ("units", "buses", "lines", "storage", "zones", "contingencies")
FORMATS = ("csv", "parquet")


def frame(answer: "Answer", table: str) -> Any:
    """One of the tables as a DataFrame; the work of :meth:`Answer.frame`."""
    if table not in TABLES:
        raise ProblemError(unknown_name("table", table, list(TABLES)))
    try:
        import pandas
    except ImportError as error:
        raise CapabilityError(
            "Tables as DataFrames need pandas: pip install 'dual2[power]'. Without it, "
            "answer.rows, answer.lines and answer.buses are lists of dicts."
        ) from error
    found = pandas.DataFrame(_records(answer, table))
    if "period" in found:
        place = found.columns.get_loc("period")
        found.insert(int(place) + 1, "hour", found["period"] * answer.case.hours)
    return found


def write_tables(
    answer: "Answer", folder: str | os.PathLike[str], kind: str, accept: str | None
) -> list[Path]:
    """Write every table that has rows; the work of :meth:`Answer.export`."""
    check_accept("Answer.export", accept)
    if kind not in FORMATS:
        raise ProblemError(unknown_name("format", kind, list(FORMATS)))
    if not answer.solved and accept is None:
        raise ProblemError(f'{answer.notice} Nothing is written; accept="unsolved" writes it.')
    path, written = Path(folder), []
    path.mkdir(parents=True, exist_ok=True)
    for table in TABLES:
        data = frame(answer, table)
        if len(data):
            target = path / f"{table}.{kind}"
            data.to_csv(target, index=False) if kind == "csv" else data.to_parquet(target)
            written.append(target)
    return written


def _records(answer: "Answer", table: str) -> list[dict[str, Any]]:
    """Rows with one number in each cell."""
    if table == "contingencies":
        return answer.contingencies
    if table == "storage":
        return _storage(answer)
    rows = {
        "units": _units,
        "buses": lambda one: one.buses,
        "lines": lambda one: one.lines,
        "zones": lambda one: one.zones,
    }[table](answer)
    return [record for row in rows for record in _by_period(row, answer.case.periods)]


def _units(answer: "Answer") -> list[dict[str, Any]]:
    """Units with the cost of each period, and their limits in words."""
    found = []
    for k, row in enumerate(answer.rows):
        limits: list[list[str]] = [[] for _ in range(answer.case.periods)]
        for name, period in row["limits"]:
            limits[period].append(name)
        own = dict(row) | {"limits": [", ".join(names) for names in limits]}
        own["cost"] = answer.costs_by_period[k].tolist()
        if "slopes" in own:
            own["slope below"], own["slope above"] = np.transpose(own.pop("slopes")).tolist()
        if answer.case.names[k] in answer.on:
            own["on"] = answer.on[answer.case.names[k]].tolist()
        found.append(own)
    return found


def _storage(answer: "Answer") -> list[dict[str, Any]]:
    """Energy before and after each period, and the power taken."""
    found, powers = [], dict(zip(answer.case.names, answer.power, strict=True))
    for unit in answer.case.units:
        if unit.name not in answer.energy:
            continue
        energy = answer.energy[unit.name]
        first = energy[-1] if getattr(unit, "cyclic", False) else getattr(unit, "initial", 0.0)
        before = np.concatenate([[first], energy[:-1]])
        found += [
            {"storage": unit.name, "bus": unit.bus, "period": t, "power": float(power),
             "energy before": float(before[t]), "energy": float(energy[t])}
            for t, power in enumerate(powers[unit.name])
        ]  # fmt: skip
    return found


def _by_period(row: dict[str, Any], periods: int) -> list[dict[str, Any]]:
    """One record for each period of a row whose lists have one entry per period."""
    series = {name for name, value in row.items() if isinstance(value, list)}
    empty = {name for name in series if len(row[name]) != periods}
    first = {name: value for name, value in row.items() if name not in series}
    return [
        first
        | {"period": t}
        | {name: None if name in empty else row[name][t] for name in row if name in series}
        for t in range(periods)
    ]
