"""Figures of a closed loop."""

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from dual2.solving.plotting import COLOURS, new_panels, write_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dual2.mpc.simulation import Simulation

FEW = 8
"""Subsystems drawn with a colour and a name of their own; more are drawn alike."""


def plot_simulation(log: "Simulation", path: str | os.PathLike[str] | None = None) -> "Figure":
    """States, inputs, shared resources with their limits, and prices, over the steps.

    A subsystem with several states (or inputs) is drawn by all of them in one colour. References
    are dotted, limits dashed, if they are few.

    Parameters
    ----------
    log : Simulation
        What :meth:`Controller.simulate` returned.
    path : path, optional
        Where to write the figure; the suffix decides the format.
    """
    figure = new_panels(2, 2, (10.5, 6.0), sharex=True)
    states, inputs, shared, prices = figure.axes
    _bundle(states, log, [x[: log.steps + 1] for x in log.states])
    _bundle(inputs, log, log.inputs, steps=True)
    _references(states, log)
    systems = log.controller.subsystems
    _limits(states, [end for s in systems for end in (s.x_min, s.x_max)])
    _limits(inputs, [end for s in systems for end in (s.u_min, s.u_max)])
    for j in range(log.usage.shape[1]):
        colour = COLOURS[j % len(COLOURS)]
        name = "" if log.usage.shape[1] == 1 else f" {j}"
        _stairs(shared, log.usage[:, j], color=colour, label=f"used{name}")
        limit = {"color": "black", "linestyle": (j, (4, 3)), "label": f"limit{name}"}
        _stairs(shared, log.limit[:, j], **limit)
        _stairs(prices, log.price[:, j], color=colour)
    if log.steps:  # a limit that binds everywhere is not a picture of its rounding errors
        top = max(float(np.max(log.usage)), float(np.max(log.limit)))
        shared.set_ylim(min(0.0, 1.1 * float(np.min(log.usage))), 1.15 * max(top, 1e-12))
    shared.legend(frameon=False)
    if len(log.states) <= FEW:
        named = states.get_legend_handles_labels()
        figure.legend(*named, loc="outside lower center", ncols=4, frameon=False)
    states.set(ylabel="states")
    inputs.set(ylabel="inputs")
    shared.set(ylabel="shared resource", xlabel="step")
    prices.set(ylabel="price", xlabel="step")
    if log.failure is not None or log.unsolved:
        figure.suptitle(str(log).splitlines()[0], color="crimson", wrap=True)
    if path is not None:
        write_figure(figure, path)
    return figure


def _references(panel: Any, log: "Simulation") -> None:
    """Where the states with a cost should be, each line once; no forest of them."""
    columns = [
        series[:, j]
        for s, series in zip(log.controller.subsystems, log.references, strict=True)
        for j in np.flatnonzero(np.diag(s.Q) > 0)
    ]
    lines = np.unique(np.array(columns).reshape(-1, log.steps), axis=0)
    for k, line in enumerate(lines if log.steps and len(lines) <= FEW else []):
        label = None if k else "reference"
        panel.plot(line, color="black", linestyle=":", linewidth=1.2, label=label)


def _limits(panel: Any, ends: list[Any]) -> None:
    """Limits as dashed lines, but for those so far away that they would flatten the curves."""
    low, high = panel.get_ylim()
    values = np.unique(np.concatenate(ends))
    near = values[(values >= 1.5 * low - 0.5 * high) & (values <= 1.5 * high - 0.5 * low)]
    for k, value in enumerate(near if len(near) <= FEW else []):
        label = None if k else "limit"
        panel.axhline(value, color="#777777", linestyle="--", linewidth=0.9, label=label)


def _bundle(panel: Any, log: "Simulation", series: list[Any], steps: bool = False) -> None:
    few = len(series) <= FEW
    for i, values in enumerate(series):
        style = {"color": COLOURS[i if few else 0], "alpha": 1.0 if few else 0.35}
        style |= {"linewidth": 1.4 if few else 0.7}
        for j in range(values.shape[1]):
            label = log.controller.subsystems[i].name if few and j == 0 else None
            if steps:
                _stairs(panel, values[:, j], label=label, **style)
            else:
                panel.plot(np.arange(len(values)), values[:, j], label=label, **style)


def _stairs(panel: Any, values: Any, **style: Any) -> None:
    panel.stairs(values, np.arange(len(values) + 1), baseline=None, **style)
