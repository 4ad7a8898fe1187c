"""Curves of a report: what was spent against how far the solution still is, as data."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from dual2.solving.plotting import FAR, LABELS, PANELS, SHORTEST, Style, measure_of

AXES = dict(zip(("local", "coupling", "rounds", "latency"), PANELS, strict=True)) | {
    "seconds": (("seconds",), "seconds")
}
"""Kinds of cost: trace columns that are added up, and the label of the axis."""

POINTS = 400
"""Most points of a curve on a page."""

DASHES = {"solid": "solid", "dashed": "dash", "dashdot": "dashdot", "dotted": "dot"}
"""Kinds of lines by the names of plotly."""

STROKES = {"solid": "", "dashed": "7 4", "dashdot": "8 3 2 3", "dotted": "2 3"}
"""The same as strokes, in the picture beside a name."""

_NAMES = (
    "star square triangle-up triangle-down diamond circle cross x hexagon triangle-left "
    "triangle-right pentagon diamond-tall octagon hexagon2"
)
SYMBOLS = dict(zip("*s^vDoPXh<>pd8H", _NAMES.split(), strict=True))
"""Markers by the names of plotly."""

GLYPHS = dict(zip("*s^vDoPXh<>pd8H", "★■▲▼◆●✚✖⬢◀▶⬟♦⬣⬡", strict=True))
"""The same as characters."""


def spent(row: Mapping[str, Any], axis: str) -> Any:
    """Cost of one kind: the sum of its columns, for a row of a trace or for all rows.

    Examples
    --------
    >>> spent({"A": 2, "AT": 3, "prox_h": 1, "rounds": 9}, "coupling")
    6
    """
    return sum(row[column] for column in AXES[axis][0])


def curves(shown: Sequence[Any], names: Sequence[str], looks: Sequence[Style]) -> dict[str, Any]:
    """Curves of one plot, thinned; ``shown`` have traces.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> columns = ("rounds", "agree_rounds", "grad_f", "prox_g", "A", "AT", "prox_h", "seconds")
    >>> run = SimpleNamespace(trace={"kkt": [1.0, 1e-8]} | {name: [1, 100] for name in columns})
    >>> curves([run], ["Newton"], [Style("#0072b2")])["curves"][0]["x"]["latency"]
    [2.0, 200.0]
    """
    measure = measure_of(shown)
    drawn = [
        {
            "name": text,
            "colour": look.colour,
            "dash": DASHES[look.dash],
            "width": look.width,
            "order": look.order,
            "symbol": SYMBOLS.get(look.marker, ""),
            **_curve(run.trace, measure),
        }
        for run, text, look in zip(shown, names, looks, strict=True)
    ]
    return {"label": LABELS[measure], "measure": measure, "curves": drawn}


def inert(groups: dict[str, Any]) -> Any:
    """Curves as JSON that cannot end the script element it stands in."""
    from markupsafe import Markup

    data = {"far": FAR, "shortest": SHORTEST, "axes": {a: t for a, (_, t) in AXES.items()}}
    text = json.dumps(
        data | {"groups": groups}, ensure_ascii=False, allow_nan=False, separators=(",", ":")
    )
    return Markup(text.replace("<", "\\u003c"))


def drawable(trace: Mapping[str, Any], measure: str) -> np.ndarray:
    """Rows of a trace that a logarithmic axis can show.

    Examples
    --------
    >>> drawable({"kkt": [np.inf, 1.0, 0.0, 1e-9]}, "kkt").tolist()
    [1, 3]
    """
    values = np.asarray(trace[measure], dtype=float)
    return np.flatnonzero(np.isfinite(values) & (values > 0))


def _curve(trace: Mapping[str, Any], measure: str) -> dict[str, Any]:
    rows = drawable(trace, measure)
    if len(rows) > POINTS:
        rows = rows[np.linspace(0, len(rows) - 1, POINTS).round().astype(int)]
    columns = {name: np.asarray(column, dtype=float) for name, column in trace.items()}
    values, axes = columns[measure], {axis: spent(columns, axis)[rows] for axis in AXES}
    return {
        "y": _rounded(values[rows], 4),
        "x": {axis: _rounded(column, 7) for axis, column in axes.items()},
    }


def _rounded(values: Iterable[float], digits: int) -> list[float]:
    return [float(f"{value:.{digits}g}") for value in values]
