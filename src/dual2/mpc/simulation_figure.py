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

    A subsystem with several states (or inputs) is drawn by all of them in one colour.

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
    for j in range(log.usage.shape[1]):
        colour = COLOURS[j % len(COLOURS)]
        name = "" if log.usage.shape[1] == 1 else f" {j}"
        _stairs(shared, log.usage[:, j], color=colour, label=f"used{name}")
        _stairs(shared, log.limit[:, j], color=colour, linestyle="--", label=f"limit{name}")
        _stairs(prices, log.price[:, j], color=colour)
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
