"""Figures of fitted models: coefficients with their intervals, and calibration."""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dual2.errors import ProblemError
from dual2.solving.plotting import COLOURS, new_panels, write_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dual2.learn.inference import Summary


def plot_coefficients(summary: "Summary", path: str | os.PathLike[str] | None = None) -> "Figure":
    """Coefficients with 95 % intervals, the intercept left out.

    Parameters
    ----------
    summary : Summary
        What ``summary()`` of an estimator returned, or ``Party.inference_``.
    path : path, optional
        Where to write the figure; the suffix decides the format.
    """
    shown = [k for k, name in enumerate(summary.names) if not name.endswith("intercept")]
    if not shown:
        raise ProblemError("The summary has an intercept only; there is no coefficient to draw.")
    place = np.arange(len(shown))[::-1]
    figure = new_panels(1, 1, (7.0, 1.2 + 0.3 * len(shown)))
    panel = figure.axes[0]
    apart = (summary.lower[shown] > 0) | (summary.upper[shown] < 0)
    for mask, colour, label in (
        (apart, COLOURS[0], "interval without 0"),
        (~apart, COLOURS[7], ""),
    ):
        ends = summary.lower[shown][mask], summary.upper[shown][mask]
        panel.hlines(place[mask], *ends, color=colour, linewidth=2.0)
        values = summary.coef[shown][mask]
        panel.plot(values, place[mask], "o", color=colour, markersize=5, label=label)
    panel.axvline(0.0, color="black", linewidth=1.0)
    panel.set_yticks(place, [summary.names[k] for k in shown])
    panel.set(xlabel="coefficient with its 95 % interval")
    panel.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)
    if path is not None:
        write_figure(figure, path)
    return figure


def plot_calibration(
    rows: Sequence[Mapping[str, float]], path: str | os.PathLike[str] | None = None
) -> "Figure":
    """Observed shares against predicted probabilities, each point a tenth of the rows.

    Parameters
    ----------
    rows : sequence of dict
        ``Party.evaluation_["calibration"]`` of the holder of the labels.
    path : path, optional
        Where to write the figure; the suffix decides the format.
    """
    if not rows:
        raise ProblemError(
            "There is no calibration to draw: the model has no probabilities, or the study has no "
            "[evaluation]. Only the holder of the labels has one."
        )
    predicted, observed, count = (
        np.array([row[name] for row in rows]) for name in ("predicted", "observed", "rows")
    )
    figure = new_panels(1, 1, (4.8, 4.6))
    panel = figure.axes[0]
    panel.plot([0, 1], [0, 1], color="black", linestyle=":", linewidth=1.2, label="exact")
    # Two standard errors of a share of so many rows, at the predicted probability.
    spread: Any = 2.0 * np.sqrt(predicted * (1.0 - predicted) / count)
    style = {"color": COLOURS[0], "capsize": 3, "markersize": 5, "label": "tenths of the rows"}
    panel.errorbar(predicted, observed, yerr=spread, fmt="o", **style)
    panel.set(xlabel="predicted probability", ylabel="observed share", xlim=(0, 1), ylim=(0, 1))
    panel.legend(loc="upper left", frameon=False)
    if path is not None:
        write_figure(figure, path)
    return figure
