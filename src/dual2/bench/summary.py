"""A store as one table: what each method cost on each problem, over the seeds."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median_high
from typing import TYPE_CHECKING

from dual2.bench.costs import COUPLING, LOCAL
from dual2.bench.store import StoredRun
from dual2.bench.styles import draw_costs, name_rows, print_styles
from dual2.files import to_csv
from dual2.solving.plotting import new_panels
from dual2.solving.result import Status

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COSTS = {name: (name,) for name in ("rounds", "agree_rounds")}
COSTS |= {"local": LOCAL, "coupling": COUPLING, "floats": ("floats",)}
"""Kinds of cost: the counts that each adds up."""


@dataclass(frozen=True)
class SummaryLine:
    """One method on one problem and network."""

    # problem, network, method: where and what
    problem: str
    network: str
    method: str
    statuses: dict[str, int]  # status → number of seeds
    # kind of cost, or seconds → median over the seeds of what it took to converge, runs that
    # did not converge counted as infinite
    costs: dict[str, float]
    rounds: tuple[float, float, float]  # lower quartile, median and upper quartile
    sample: StoredRun  # one of the runs, for its style

    @property
    def place(self) -> str:
        """Problem and network."""
        return self.sample.case.group


def summarise(runs: Iterable[StoredRun]) -> list[SummaryLine]:
    """One line for each group and label, in order of appearance.

    Examples
    --------
    >>> from dual2.bench.case import Case
    >>> counts = [dict.fromkeys(("rounds", "agree_rounds", "grad_f", "prox_g", "A", "AT",
    ...           "prox_h", "floats"), k) for k in (10, 40, 20)]
    >>> runs = [StoredRun(Case("net", "iD2A", "random", seed=k), "CONVERGED", counts=counts[k])
    ...         for k in range(3)]
    >>> line, = summarise(runs)
    >>> line.statuses, line.costs["rounds"], line.costs["local"]
    ({'CONVERGED': 3}, 20.0, 40.0)
    """
    cells: dict[tuple[str, str], list[StoredRun]] = {}
    for run in runs:
        cells.setdefault((run.case.group, run.case.label), []).append(run)
    return [_line(members) for members in cells.values()]


def _line(runs: Sequence[StoredRun]) -> SummaryLine:
    case = runs[0].case
    kinds = (*COSTS, "seconds")  # infinite costs cannot be averaged: the larger middle one
    costs = {kind: median_high(cost(run, kind) for run in runs) for kind in kinds}
    where = str(case.notes.get("problem", case.group)), str(case.notes.get("network", ""))
    statuses = dict(Counter(run.status for run in runs))
    rounds = quartiles([cost(run, "rounds") for run in runs])
    return SummaryLine(*where, case.label, statuses, costs, rounds, runs[0])


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Lower quartile, median and upper quartile, each one of the values: some may be infinite.

    Of two middle values the median is the larger one; the quartiles are rounded outwards.

    Examples
    --------
    >>> quartiles([4.0, 1.0, math.inf, 2.0, 3.0]), quartiles([1.0, 2.0])
    ((2.0, 3.0, 4.0), (1.0, 2.0, 2.0))
    """
    ordered, last = sorted(values), len(values) - 1
    return ordered[last // 4], ordered[len(values) // 2], ordered[math.ceil(3 * last / 4)]


def cost(run: StoredRun, kind: str) -> float:
    """What a run cost; infinite if it did not converge."""
    if run.status != Status.CONVERGED:
        return math.inf
    if kind == "seconds":
        return run.seconds
    return float(sum(run.counts[name] for name in COSTS[kind]))


def summary_csv(lines: Sequence[SummaryLine]) -> str:
    """The table as CSV; a cost is empty where the median run did not converge."""
    rows = []
    for line in lines:
        told = "; ".join(f"{number} {status}" for status, number in line.statuses.items())
        found = line.statuses.get(Status.CONVERGED, 0)
        values = (*line.costs.values(), line.rounds[0], line.rounds[2])
        costs = [value if math.isfinite(value) else "" for value in values]
        total = sum(line.statuses.values())
        rows.append([line.problem, line.network, line.method, total, found, told, *costs])
    head = ["problem", "network", "method", "runs", "converged", "statuses", *COSTS, "seconds"]
    return to_csv([*head, "rounds_q1", "rounds_q3"], rows)


def summary_figure(lines: Sequence[SummaryLine], title: str) -> "Figure":
    """Rounds to the tolerance: one row per problem and network, one marker per method."""
    places = list(dict.fromkeys(line.place for line in lines))
    methods = {line.method: line.sample for line in reversed(lines)}
    methods = {name: methods[name] for name in dict.fromkeys(line.method for line in lines)}
    looks = print_styles(methods)
    height = 1.6 + 0.3 * len(places) + 0.25 * math.ceil(len(methods) / 3)
    figure = new_panels(1, 1, (9, max(height, 3)))
    panel = figure.axes[0]
    for name, look in looks.items():
        own = {line.place: line.costs["rounds"] for line in lines if line.method == name}
        some = any(map(math.isfinite, own.values()))
        draw_costs(panel, look, own, places, name if some else f"{name} (did not converge)")
    panel.set(xscale="log", xlabel="communication rounds (median over seeds)", title=title)
    name_rows(panel, places)
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    return figure
