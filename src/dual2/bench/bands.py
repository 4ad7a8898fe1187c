"""Convergence over several seeds: the median with its quartiles, one band for each method.

For each level of the residual a band shows how much the runs had spent when they first met it:
the median over the seeds as a line, lower and upper quartile as the band around it. A run that
never met a level counts as infinite there. The line ends at the tolerance of the runs, or at the
level that half of them met.
"""

import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dual2.bench.store import StoredRun
from dual2.bench.styles import print_styles
from dual2.bench.summary import quartiles
from dual2.solving.plotting import LABELS, TOP, Style, measure_of, new_panels
from dual2.solving.solve import solve

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TOL: float = inspect.signature(solve).parameters["tol"].default
"""Tolerance of runs that name none."""

LEVELS = 150
"""Levels of the residual at which a band is evaluated."""

PRINT: Any = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.linewidth": 0.6,
    "legend.fontsize": 8,
    "mathtext.fontset": "stix",
    "pdf.fonttype": 42,
}
"""Sizes in points on a page: the figure is as wide as the text of two columns."""

PAGE_WIDTH = 7.1
"""Inches between the margins of a page of two columns."""


@dataclass(frozen=True, eq=False)
class Band:
    """What the runs of one method had spent when they first met each level."""

    levels: np.ndarray  # of the residual, falling
    low: np.ndarray  # lower quartile of the rounds
    median: np.ndarray
    high: np.ndarray  # upper quartile; infinite where a quarter of the runs never came


def band(runs: Sequence[StoredRun], measure: str) -> Band:
    """The band of some runs that differ in their seed alone.

    ``measure``: column of the traces, ``"gap"`` or ``"kkt"``.

    Examples
    --------
    >>> from dual2.bench.case import Case
    >>> runs = [
    ...     StoredRun(Case("net", "iD2A", "random", seed=k), "CONVERGED",
    ...               trace={"rounds": np.array([1, 10 * (k + 1)]), "kkt": np.array([1.0, 1e-8])})
    ...     for k in range(3)
    ... ]
    >>> found = band(runs, "kkt")
    >>> print(found.low[-1], found.median[-1], found.high[-1])
    10.0 20.0 30.0
    """
    traces = [_falling(run, measure) for run in runs]
    last = [residual[-1] for _, residual in traces if len(residual)]
    best = quartiles(last)[1] if last else 1.0
    if measure == "kkt":
        best = max(best, float(runs[0].case.solve.get("tol", TOL)))
    worst = max((residual[0] for _, residual in traces if len(residual)), default=1.0)
    top, bottom = min(worst, TOP), max(best, 1e-16)
    levels = np.geomspace(max(top, bottom), bottom, LEVELS)
    levels[-1] = bottom  # rounding must not put the last level below the best residual
    spent = np.array([[_first(trace, level) for level in levels] for trace in traces])
    return Band(levels, *np.array([quartiles(column.tolist()) for column in spent.T]).T)


def _falling(run: StoredRun, measure: str) -> tuple[np.ndarray, np.ndarray]:
    """Rounds, and the smallest residual up to each of them."""
    residual = np.asarray(run.trace.get(measure, ()), dtype=float)
    rounds = np.asarray(run.trace.get("rounds", ()), dtype=float)
    known = np.isfinite(residual)
    return rounds[known], np.minimum.accumulate(residual[known])


def _first(trace: tuple[np.ndarray, np.ndarray], level: float) -> float:
    rounds, residual = trace
    place = np.searchsorted(-residual, -level)
    return float(rounds[place]) if place < len(rounds) else math.inf


def bands_figure(runs: Sequence[StoredRun], title: str = "") -> "Figure":
    """One panel for each problem and network, one band for each method, for a page in print.

    ``runs``: finished runs; ``title``: heading, none in a figure that gets a caption.
    """
    from matplotlib import rc_context

    groups: dict[str, dict[str, list[StoredRun]]] = {}
    for run in runs:
        if len(run.trace.get("rounds", ())):
            groups.setdefault(run.case.group, {}).setdefault(run.case.label, []).append(run)
    looks = print_styles(dict.fromkeys(run.case.label for run in runs))
    columns = min(3, max(len(groups), 1))
    rows = max(1, math.ceil(len(groups) / columns))
    legend_rows = math.ceil(len(looks) / 3)
    with rc_context(PRINT):
        height = 2.1 * rows + 0.2 * legend_rows + 0.2
        figure = new_panels(rows, columns, (PAGE_WIDTH, height), sharey=True)
        for panel, (group, methods) in zip(figure.axes, groups.items(), strict=False):
            _panel(panel, group, methods, looks)
        for panel in figure.axes[len(groups) :]:
            panel.set_visible(False)
        _decorate(figure, looks, runs, columns, title)
    return figure


def _decorate(
    figure: "Figure",
    looks: Mapping[str, Style],
    runs: Sequence[StoredRun],
    columns: int,
    title: str,
) -> None:
    """Labels of the vertical axes, one legend for all panels, the heading."""
    from matplotlib.lines import Line2D

    measure = measure_of([run for run in runs if run.trace])
    for panel in figure.axes[::columns]:
        panel.set_ylabel(LABELS.get(measure, measure))
    handles = [Line2D([], [], label=name, **_line(look)) for name, look in looks.items()]
    figure.legend(
        handles=handles, loc="outside lower center", ncols=3, frameon=False, handlelength=3.4
    )
    if title:
        figure.suptitle(title, fontsize=9)


def _panel(
    panel: Any, group: str, methods: Mapping[str, list[StoredRun]], looks: Mapping[str, Style]
) -> None:
    everything = [run for members in methods.values() for run in members]
    measure = measure_of(everything)
    edge = max(float(run.trace["rounds"][-1]) for run in everything)
    names = list(looks)
    for label, members in methods.items():
        look, found = looks[label], band(members, measure)
        reached = np.isfinite(found.low)
        high = np.where(np.isfinite(found.high), found.high, edge)
        panel.fill_betweenx(
            found.levels[reached],
            np.maximum(found.low[reached], 1),
            np.maximum(high[reached], 1),
            color=look.colour,
            alpha=0.22,
            linewidth=0,
        )
        drawn = np.isfinite(found.median)
        start = 0.12 * names.index(label) / len(names)
        panel.plot(
            np.maximum(found.median[drawn], 1),
            found.levels[drawn],
            markevery=(start, 0.2),
            **_line(look),
        )
    panel.set(xscale="log", yscale="log", xlabel="communication rounds", title=group)


def _line(look: Style) -> dict[str, Any]:
    """Line and markers of a look; a white edge keeps markers apart from the line in grey."""
    return {
        "color": look.colour,
        "linestyle": look.dash,
        "linewidth": look.width,
        "marker": look.marker,
        "markersize": 4.5,
        "markeredgecolor": "white",
        "markeredgewidth": 0.4,
    }
