"""Run an experiment with several methods and write its table, traces and figure."""

import csv
import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dual2.documents import to_json
from dual2.errors import Dual2Error, unknown_name
from dual2.experiments.exp1 import Experiment, experiment1
from dual2.files import refuse_existing, write_atomically
from dual2.plotting import plot_trace
from dual2.result import Result
from dual2.solve import solve

TARGET = 1e-8
"""Relative gap |x − x*|/|x*| at which costs are read off."""

QUICK = 1e-4
"""The same with ``quick``."""

WARM_UP = 100
"""Rounds of a run before the measured one, so that no kernel is compiled while the clock runs."""


@dataclass(frozen=True)
class Plan:
    """What to run: an experiment, the heading of its figure, the arguments of each solve."""

    experiment: Callable[[], Experiment]
    title: str
    runs: Mapping[str, Mapping[str, Any]]


PLANS = {
    "exp1": Plan(
        experiment1,
        "Experiment I: elastic net regression, 8 agents on a path",
        {
            "iD2A, ρ = ρ*": {"method": "iD2A", "rho": "auto"},
            "MiD2A, ρ = ρ*": {"method": "MiD2A", "rho": "auto"},
            "iD2A, ρ = 0": {"method": "iD2A", "rho": 0.0},
            "MiD2A, ρ = 0": {"method": "MiD2A", "rho": 0.0},
        },
    ),
}
"""The experiments by name."""


@dataclass(frozen=True)
class Run:
    """One method on one experiment, and what it had spent when the gap met the target.

    Attributes
    ----------
    name : str
        As in the plan.
    result : Result
        The whole run.
    reached : dict or None
        First row of the trace with a gap of at most the target; None if there is none.
    settled : dict or None
        First row from which on the gap stays there (accelerated methods oscillate).
    """

    name: str
    result: Result
    reached: dict[str, float] | None
    settled: dict[str, float] | None


def rows_at_gap(
    trace: Mapping[str, Any], target: float
) -> tuple[dict[str, float] | None, dict[str, float] | None]:
    """First row of a trace with a gap of at most ``target``, and the one from which it stays.

    Examples
    --------
    >>> rows_at_gap({"rounds": [1, 10, 20, 40], "gap": [1.0, 1e-9, 1e-7, 1e-8]}, 1e-8)
    ({'rounds': 10.0, 'gap': 1e-09}, {'rounds': 40.0, 'gap': 1e-08})
    """
    met = np.asarray(trace["gap"]) <= target
    last_miss = np.flatnonzero(~met).max(initial=-1)
    rows = (int(np.argmax(met)) if met.any() else len(met), int(last_miss) + 1)
    first, stays = (
        {name: float(column[row]) for name, column in trace.items()} if row < len(met) else None
        for row in rows
    )
    return first, stays


def run_plan(plan: Plan, target: float) -> Iterator[Run]:
    """Solve the experiment with each method in turn; ``tol`` is the target."""
    problem, network, reference = plan.experiment()
    for name, arguments in plan.runs.items():
        solve(problem, network, max_rounds=WARM_UP, **arguments)
        result = solve(problem, network, tol=target, reference=reference, **arguments)
        yield Run(name, result, *rows_at_gap(result.trace, target))


def reproduce(
    name: str,
    out: str | Path = "results",
    *,
    quick: bool = False,
    force: bool = False,
    report: Callable[[Run], None] | None = None,
) -> list[Run]:
    """Run an experiment; write NAME.csv (traces), NAME.json (what was run), NAME.png (figure).

    Parameters
    ----------
    name : str
        ``"exp1"``.
    out : path
        Folder for the three files, made if need be.
    quick : bool
        Stop at a gap of 1e-4 instead of 1e-8.
    force : bool
        Replace files of an earlier run.
    report : callable, optional
        Called with each run as it ends.
    """
    if name not in PLANS:
        raise Dual2Error(unknown_name("experiment", name, PLANS))
    plan, target = PLANS[name], QUICK if quick else TARGET
    table, record, figure = (
        refuse_existing(Path(out) / f"{name}.{suffix}", force) for suffix in ("csv", "json", "png")
    )
    runs = []
    for run in run_plan(plan, target):
        runs.append(run)
        if report is not None:
            report(run)
    write_atomically(table, csv_text(runs))
    write_atomically(record, json_text(name, target, runs))
    plot_trace({run.name: run.result for run in runs}, figure, title=plan.title)
    return runs


def csv_text(runs: list[Run]) -> str:
    """Every trace as rows, the run's name first."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    columns = list(runs[0].result.trace)
    writer.writerow(["run", *columns])
    for run in runs:
        values = [np.asarray(run.result.trace[column]).tolist() for column in columns]
        writer.writerows([run.name, *row] for row in zip(*values, strict=True))
    return buffer.getvalue()


def json_text(name: str, target: float, runs: list[Run]) -> str:
    """What was run, with which parameters, and what came out."""
    details = {
        run.name: {"reached": run.reached, "settled": run.settled, **run.result.as_dict()}
        for run in runs
    }
    return to_json({"experiment": name, "gap": target, "runs": details})
