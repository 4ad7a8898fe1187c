"""Figures that are not traces: an empty one to draw in, and its bytes."""

import io
from typing import TYPE_CHECKING, Any

from dual2.errors import Dual2Error

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FILLED = {"solid": "full", "dashed": "left", "dashdot": "bottom", "dotted": "none"}
"""How markers are filled where there are no lines to tell methods of one colour apart."""


def blank_figure(width: float, height: float) -> "Figure":
    """An empty figure, inches wide and high; not attached to a window."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise Dual2Error(
            "Figures need matplotlib, which is not installed: pip install 'dual2[plot]'."
        ) from error
    return Figure(figsize=(width, height), layout="constrained", dpi=150)


def tidy(panel: Any) -> None:
    """A light grid, no frame."""
    panel.grid(True, which="major", color="#dddddd", linewidth=0.6)
    panel.spines[["top", "right"]].set_visible(False)


def png(figure: "Figure") -> bytes:
    """The figure as a PNG file; the same figure gives the same bytes."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()
