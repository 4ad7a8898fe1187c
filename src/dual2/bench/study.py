"""Scaling studies: exponents fitted to measured costs, beside those of the theory.

Costs over a quantity q (κ_f, κ_C, n, p) are fitted by c·q^a, least squares in the logarithms. The
theory's exponent is the same fit through what the complexity table predicts for the very same
problems, so it takes into account that other condition numbers change along with q. ``polyfit`` of
NumPy gives the standard error from the residuals; ``linregress`` of SciPy takes it from 1 - r²,
which is rounding noise where the points lie on a line.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dual2.bench.config import Study
from dual2.bench.costs import COUPLING, LOCAL
from dual2.bench.store import StoredRun
from dual2.bench.styles import points, style
from dual2.files import to_csv
from dual2.solving.plotting import new_panels
from dual2.solving.result import Status

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = {"rounds": ("rounds",), "oracle_a": LOCAL, "oracle_b": COUPLING}
"""Costs of the complexity table; each is the largest of the counts."""

TITLES = {"rounds": "rounds", "oracle_a": "𝒜", "oracle_b": "ℬ"}

SYMBOLS = {f"kappa_{k}": f"κ_{k}" for k in ("f", "C", "pd", "A")} | {"kappa_h": "κ_h*"}
"""How quantities are written in tables and figures."""


@dataclass(frozen=True)
class Power:
    """c·q^a fitted to points."""

    # exponent, factor: a and c
    exponent: float
    factor: float
    error: float  # standard error of a; NaN with two points


def fit_power(q: Sequence[float], costs: Sequence[float]) -> Power | None:
    """Least squares in log-log; None unless two different q with finite positive costs are there.

    Examples
    --------
    >>> power = fit_power([1, 10, 100], [3, 30, 300])
    >>> round(power.exponent, 12), round(power.factor, 12), round(power.error, 12)
    (1.0, 3.0, 0.0)
    """
    x, y = np.asarray(q, dtype=float), np.asarray(costs, dtype=float)
    good = np.isfinite(x) & np.isfinite(y) & (x > 0) & (y > 0)
    x, y = np.log(x[good]), np.log(y[good])
    if len(x) < 2 or np.ptp(x) < 1e-9 * max(1.0, float(np.abs(x).max())):
        return None
    slope, start = np.polyfit(x, y, 1)
    error = math.sqrt(np.polyfit(x, y, 1, cov=True)[1][0, 0]) if len(x) > 2 else math.nan
    return Power(float(slope), math.exp(start), error)


@dataclass(frozen=True)
class Growth:
    """How one cost of one method grows in one study."""

    # over, method, kind: the quantity, the method's label, the cost (a key of KINDS)
    over: str
    method: str
    kind: str
    # q, costs, predicted: points: medians over the seeds; costs are NaN where a run did not
    # converge
    q: tuple[float, ...]
    costs: tuple[float, ...]
    predicted: tuple[float, ...]
    # measured, theory: the fits
    measured: Power | None
    theory: Power | None
    sample: StoredRun  # one of the runs, for its style


def growth(studies: Iterable[Study], runs: Sequence[StoredRun]) -> list[Growth]:
    """Fits of every study, method and cost.

    ``studies``: from a config; ``runs``: of the same config; runs skipped or failed are left out.
    """
    found = []
    for study in studies:
        own = [run for run in runs if run.case.notes.get("entry") in study.problems and run.counts]
        for label in dict.fromkeys(run.case.label for run in own):
            chosen = [run for run in own if run.case.label == label]
            found += [_growth(study.over, label, kind, chosen) for kind in KINDS]
    return found


def _growth(over: str, label: str, kind: str, runs: Sequence[StoredRun]) -> Growth:
    groups: dict[str, list[StoredRun]] = {}
    for run in runs:
        groups.setdefault(run.case.group, []).append(run)
    points = sorted(
        (
            float(np.median([float(run.facts[over]) for run in members])),
            float(np.median([_cost(run, kind) for run in members])),
            float(np.median([float(run.predicted.get(kind, math.nan)) for run in members])),
        )
        for members in groups.values()
    )
    q, costs, predicted = zip(*points, strict=True)
    fits = fit_power(q, costs), fit_power(q, predicted)
    return Growth(over, label, kind, q, costs, predicted, *fits, runs[0])


def _cost(run: StoredRun, kind: str) -> float:
    if run.status != Status.CONVERGED:
        return math.nan
    return float(max(run.counts[name] for name in KINDS[kind]))


def two(value: float) -> str:
    """Two decimals, zero without a sign.

    Examples
    --------
    >>> two(-0.001), two(0.456)
    ('0.00', '0.46')
    """
    return f"{round(value, 2) + 0.0:.2f}"


def exponents_csv(found: Sequence[Growth]) -> str:
    """The fits and their points as CSV."""
    rows = []
    for one in found:
        m, t = one.measured, one.theory
        fits = [m.exponent if m else "", m.error if m else "", t.exponent if t else ""]
        lists = [" ".join(f"{v:.6g}" for v in v) for v in (one.q, one.costs, one.predicted)]
        rows.append([one.over, one.method, one.kind, *fits, *lists])
    head = ["over", "method", "cost", "exponent", "error", "theory", "q", "costs", "predicted"]
    return to_csv(head, rows)


def study_figure(found: Sequence[Growth], title: str) -> "Figure":
    """One panel per study: rounds over the quantity, with the fitted lines."""
    shown = [one for one in found if one.kind == "rounds"]
    overs = list(dict.fromkeys(one.over for one in shown))
    rows = math.ceil(len(overs) / 2)
    figure = new_panels(rows, min(len(overs), 2), (11, 4.4 * rows))
    for over, panel in zip(overs, figure.axes, strict=False):
        own = [one for one in shown if one.over == over]
        for one in own:
            _draw(panel, one)
        panel.set(xscale="log", yscale="log", xlabel=_formula(SYMBOLS.get(over, over)))
        panel.set_ylabel("communication rounds")
        places = sorted({float(f"{q:.4g}") for one in own for q in one.q})
        panel.set_xticks(places, [f"{place:g}" for place in places])
        panel.set_xticks([], minor=True)
        if any(one.measured for one in own):
            panel.legend(frameon=False, fontsize="small", title="exponent (theory)")
    for panel in figure.axes[len(overs) :]:
        panel.set_visible(False)
    figure.suptitle(title)
    return figure


def _formula(symbol: str) -> str:
    """A symbol with its index lowered, as matplotlib writes it."""
    letter, _, index = symbol.partition("_")
    return f"${letter}_{{{index}}}$" if index else symbol


def _draw(panel: Any, one: Growth) -> None:
    look = style(one.sample)
    panel.plot(one.q, one.costs, **points(look))
    if one.measured is None:
        return
    theory = "" if one.theory is None else f" ({two(one.theory.exponent)})"
    ends = np.array([min(one.q), max(one.q)])
    panel.plot(
        ends,
        one.measured.factor * ends**one.measured.exponent,
        color=look.colour,
        linestyle=look.dash,
        linewidth=1.2,
        label=f"{one.method}: {two(one.measured.exponent)}{theory}",
    )
