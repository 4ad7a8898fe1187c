"""What figures other than traces share: markers that tell methods apart, a light grid."""

from typing import Any

FILLED = {"solid": "full", "dashed": "left", "dashdot": "bottom", "dotted": "none"}
"""How markers are filled where there are no lines to tell methods of one colour apart."""


def tidy(panel: Any) -> None:
    """A light grid, no frame."""
    panel.grid(True, which="major", color="#dddddd", linewidth=0.6)
    panel.spines[["top", "right"]].set_visible(False)
