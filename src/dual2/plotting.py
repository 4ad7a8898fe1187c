"""Convergence figures: what was spent against how far the solution still is."""

import io
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dual2.errors import Dual2Error
from dual2.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANELS = (
    (("grad_f", "prox_g"), "calls to ∇f and prox g"),
    (("A", "AT", "prox_h"), "calls to A, Aᵀ and prox h*"),
    (("rounds",), "communication rounds"),
)
"""Trace columns that are added up on each horizontal axis, and its label."""

LABELS = {
    "gap": "relative gap |x − x*| / |x*|",
    "kkt": "relative KKT residual",
}

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000", "#999999")
"""Okabe and Ito's palette, which colour-blind readers can tell apart."""

STYLES = ("-", "--", "-.", ":")

FAR = 20
"""Ratio of the longest to the shortest curve from which a linear axis would hide the latter."""


class Traced(Protocol):
    """Anything with a trace: columns of equal length, ``rounds`` and ``kkt`` among them."""

    @property
    def trace(self) -> Mapping[str, Any]:
        """Columns by name."""
        ...


def plot_trace(
    results: Traced | Mapping[str, Traced],
    path: str | os.PathLike[str] | None = None,
    *,
    measure: str | None = None,
    title: str | None = None,
) -> "Figure":
    """Three panels: oracle calls of the objective, of the coupling, and rounds.

    Parameters
    ----------
    results : Result or mapping from name to Result
        What to draw, one curve each.
    path : path, optional
        Where to write the figure; the suffix decides the format.
    measure : {"gap", "kkt"}, optional
        Vertical axis; the gap if every trace has one, else the KKT residual.
    title : str, optional
        Heading.

    Returns
    -------
    matplotlib.figure.Figure
        Not attached to a window; in a notebook it shows itself.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> columns = ("rounds", "grad_f", "prox_g", "A", "AT", "prox_h")
    >>> run = SimpleNamespace(trace={"kkt": [1.0, 1e-8]} | {name: [1, 100] for name in columns})
    >>> [panel.get_xlabel() for panel in plot_trace(run).axes]
    ['calls to ∇f and prox g', 'calls to A, Aᵀ and prox h*', 'communication rounds']
    """
    named = results if isinstance(results, Mapping) else {"": results}
    if not named:
        raise Dual2Error("There is nothing to plot: the mapping of results is empty.")
    figure = _figure(len(named))
    measure = measure or _measure(named)
    for panel, (columns, label) in zip(figure.axes, PANELS, strict=True):
        for position, (name, result) in enumerate(named.items()):
            spent = sum(_column(result, column, name) for column in columns)
            _curve(panel, spent, _column(result, measure, name), name, position)
        _finish(panel, label)
    figure.axes[0].set_ylabel(LABELS.get(measure, measure))
    if any(named):
        figure.legend(
            *figure.axes[0].get_legend_handles_labels(),
            loc="outside lower center", ncols=min(len(named), 4), frameon=False,
        )  # fmt: skip
    if title:
        figure.suptitle(title)
    if path is not None:
        write_figure(figure, path)
    return figure


def _figure(curves: int) -> "Figure":
    height = 3.4 + 0.25 * ((curves + 3) // 4)
    return new_panels(1, len(PANELS), (11, height), sharey=True)


def new_panels(rows: int, columns: int, size: tuple[float, float], **shared: Any) -> "Figure":
    """An empty figure of rows × columns panels in the package's look, not attached to a window."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise Dual2Error(
            "Plots need matplotlib, which is not installed: pip install 'dual2[plot]'."
        ) from error
    figure = Figure(figsize=size, layout="constrained", dpi=150)
    for panel in figure.subplots(rows, columns, squeeze=False, **shared).flat:
        panel.grid(True, which="major", color="#dddddd", linewidth=0.6)
        panel.set_axisbelow(True)
        panel.spines[["top", "right"]].set_visible(False)
    return figure


def _measure(named: Mapping[str, Traced]) -> str:
    return "gap" if all("gap" in result.trace for result in named.values()) else "kkt"


def _column(result: Traced, column: str, name: str) -> np.ndarray:
    if column not in result.trace:
        raise Dual2Error(
            f"The trace{f' of {name}' if name else ''} has no column {column!r}; it has "
            f"{', '.join(result.trace) or 'none'}. Solve with record=True."
        )
    return np.asarray(result.trace[column], dtype=float)


def _curve(panel: Any, spent: Any, measured: np.ndarray, name: str, position: int) -> None:
    shown = np.isfinite(measured) & (measured > 0) & (spent > 0)
    panel.plot(
        spent[shown], measured[shown], label=name, linewidth=1.6,
        color=COLOURS[position % len(COLOURS)],
        linestyle=STYLES[position // len(COLOURS) % len(STYLES)],
    )  # fmt: skip


def _finish(panel: Any, label: str) -> None:
    """Label and scales; the horizontal one is logarithmic where curves end far apart."""
    from matplotlib.ticker import EngFormatter

    ends = [line.get_xdata()[-1] for line in panel.lines if len(line.get_xdata())]
    far = bool(ends) and max(ends) > FAR * min(ends)
    panel.set(xlabel=label, xscale="log" if far else "linear", yscale="log")
    if not far:
        panel.xaxis.set_major_formatter(EngFormatter(sep=""))


def write_figure(figure: "Figure", path: str | os.PathLike[str]) -> None:
    """Write a figure atomically; the suffix decides the format."""
    buffer = io.BytesIO()
    suffix = os.path.splitext(path)[1].lstrip(".") or "png"
    figure.savefig(buffer, format=suffix)
    write_atomically(path, buffer.getvalue())
