"""Convergence figures: what was spent against how far the solution still is."""

import io
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dual2.errors import Dual2Error
from dual2.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Panels = Sequence[tuple[tuple[str, ...], str]]
PANELS: Panels = (
    (("grad_f", "prox_g"), "calls to ∇f and prox g"),
    (("A", "AT", "prox_h"), "calls to A, Aᵀ and prox h*"),
    (("rounds",), "communication rounds"),
    (("rounds", "agree_rounds"), "rounds and agreement: latency"),
)
"""Trace columns that are added up on each horizontal axis, and its label."""

LABELS = {"gap": "relative gap |x − x*| / |x*|", "kkt": "relative KKT residual"}

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000", "#999999")
"""Okabe and Ito's palette, which colour-blind readers can tell apart."""

DASHES = ("solid", "dashed", "dashdot", "dotted")
"""Kinds of lines, by matplotlib's names."""

FAR = 8
"""Ratio of the longest to the shortest curve from which a linear axis would hide the latter."""


SHORTEST = 100
"""Part of the shortest curve at which a logarithmic axis starts; before, nothing happens."""

TOP = 100.0
"""Where the vertical axis ends at the latest: a curve that diverges leaves the figure."""


@dataclass(frozen=True)
class Style:
    """How a curve looks.

    Attributes
    ----------
    colour : str
        ``"#rrggbb"``.
    dash : str
        Kind of line, one of :data:`DASHES`.
    marker : str
        By matplotlib's names, "" for none.
    width : float
        Of the line, in points.
    order : int
        Curves of a higher order lie over those of a lower one.
    """

    colour: str
    dash: str = "solid"
    marker: str = ""
    width: float = 1.6
    order: int = 0


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
    styles: Mapping[str, Style] | None = None,
    panels: Panels = PANELS,
    width: float = 14.0,
) -> "Figure":
    """Four panels: oracle calls of the objective, of the coupling, rounds, and all exchanges.

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
    styles : mapping from name to Style, optional
        How each curve looks; by default the colours of :data:`COLOURS` in turn.
    panels : sequence, optional
        Trace columns that are added up on each horizontal axis, and its label.
    width : float, optional
        Of the figure, in inches.

    Returns
    -------
    matplotlib.figure.Figure
        Not attached to a window; in a notebook it shows itself.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> columns = ("rounds", "agree_rounds", "grad_f", "prox_g", "A", "AT", "prox_h")
    >>> run = SimpleNamespace(trace={"kkt": [1.0, 1e-8]} | {name: [1, 100] for name in columns})
    >>> [panel.get_xlabel() for panel in plot_trace(run).axes][2:]
    ['communication rounds', 'rounds and agreement: latency']
    """
    named = results if isinstance(results, Mapping) else {"": results}
    if not named:
        raise Dual2Error("There is nothing to plot: the mapping of results is empty.")
    height = width / 3.9 + 0.25 * -(-len(named) // _legend_columns(named, width))
    figure = new_panels(1, len(panels), (width, height), sharey=True)
    measure = measure or measure_of(named.values())
    for panel, (columns, label) in zip(figure.axes, panels, strict=True):
        for position, (name, result) in enumerate(named.items()):
            spent = sum(_column(result, column, name) for column in columns)
            style = styles[name] if styles else _style(position)
            offset = 0.15 * position / len(named)
            _curve(panel, spent, _column(result, measure, name), name, style, offset)
        _finish(panel, label)
    figure.axes[0].set_ylabel(LABELS.get(measure, measure))
    if any(named):
        figure.legend(
            *figure.axes[0].get_legend_handles_labels(),
            loc="outside lower center",
            ncols=_legend_columns(named, width),
            frameon=False,
            handlelength=3.2,
        )
    if title:
        figure.suptitle(title)
    if path is not None:
        write_figure(figure, path)
    return figure


def _legend_columns(named: Mapping[str, Traced], width: float) -> int:
    """As many as the longest name leaves room for: about ten characters to an inch."""
    longest = max(len(name) for name in named)
    return min(len(named), max(1, int(10.0 * width) // (longest + 10)), 4)


def _style(position: int) -> Style:
    dash = DASHES[position // len(COLOURS) % len(DASHES)]
    return Style(COLOURS[position % len(COLOURS)], dash)


def require(*packages: str) -> None:
    """Refuse to begin what would end in a figure or report that cannot be drawn."""
    for package in packages:
        if find_spec(package) is None:
            raise Dual2Error(
                f"Figures and reports need {package}, which is not installed: "
                "pip install 'dual2[plot]'."
            )


def new_panels(rows: int, columns: int, size: tuple[float, float], **shared: Any) -> "Figure":
    """A figure of rows × columns empty panels, size in inches, not attached to a window."""
    require("matplotlib")
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained", dpi=150)
    for panel in figure.subplots(rows, columns, squeeze=False, **shared).flat:
        panel.grid(True, which="major", color="#dddddd", linewidth=0.6)
        panel.set_axisbelow(True)
        panel.spines[["top", "right"]].set_visible(False)
    return figure


def measure_of(results: Iterable[Traced]) -> str:
    """``"gap"`` if every trace has one, else ``"kkt"``."""
    return "gap" if all("gap" in result.trace for result in results) else "kkt"


def _column(result: Traced, column: str, name: str) -> np.ndarray:
    if column not in result.trace:
        raise Dual2Error(
            f"The trace{f' of {name}' if name else ''} has no column {column!r}; it has "
            f"{', '.join(result.trace) or 'none'}. Solve with record=True."
        )
    return np.asarray(result.trace[column], dtype=float)


def _curve(
    panel: Any, spent: Any, measured: np.ndarray, name: str, style: Style, offset: float
) -> None:
    """One line; markers start at an offset, so that those of curves that coincide are seen."""
    shown = np.isfinite(measured) & (measured > 0) & (spent > 0)
    line = {"color": style.colour, "linestyle": style.dash, "linewidth": style.width}
    line |= {"marker": style.marker or None, "markersize": 3.5 + style.width}
    line |= {"markevery": (offset, 0.15), "zorder": 2.5 + 0.1 * style.order}
    panel.plot(spent[shown], measured[shown], label=name, **line)


def _finish(panel: Any, label: str) -> None:
    """Label and scales; the horizontal one is logarithmic where curves end far apart."""
    from matplotlib.ticker import EngFormatter

    ends = [line.get_xdata()[-1] for line in panel.lines if len(line.get_xdata())]
    far = bool(ends) and max(ends) > FAR * min(ends)
    panel.set(xlabel=label, xscale="log" if far else "linear", yscale="log")
    if far:
        panel.set_xlim(left=max(panel.get_xlim()[0], min(ends) / SHORTEST))
    else:
        panel.xaxis.set_major_formatter(EngFormatter(sep=""))
    panel.set_ylim(top=min(panel.get_ylim()[1], TOP))


def write_figure(figure: "Figure", path: str | os.PathLike[str], made_from: str = "") -> None:
    """Write a figure atomically, the suffix decides the format; same figure, same bytes.

    ``made_from`` goes into the file's own data, where no reader sees it.
    """
    from matplotlib import rc_context

    buffer = io.BytesIO()
    suffix = os.path.splitext(path)[1].lstrip(".") or "png"
    undated = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(suffix, {})
    key = {"pdf": "Subject", "png": "Description", "svg": "Description"}.get(suffix)
    named = {key: made_from} if made_from and key else {}
    with rc_context({"svg.hashsalt": "dual2", "pdf.fonttype": 42}):
        figure.savefig(buffer, format=suffix, metadata=undated | named or None)
    write_atomically(path, buffer.getvalue())
