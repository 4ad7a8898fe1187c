"""Figures of a dispatch."""

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from dual2.solving.plotting import COLOURS, new_panels, write_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dual2.power.answer import Answer

MOST = 6
"""Units drawn by name; the others are drawn as one."""
REST = "#999999"


def plot_dispatch(answer: "Answer", path: str | os.PathLike[str] | None = None) -> "Figure":
    """Schedule and price: over the periods if there are several, else unit by unit.

    Parameters
    ----------
    answer : Answer
        What :meth:`Dispatch.solve` returned.
    path : path, optional
        Where to write the figure; the suffix decides the format.
    """
    stored = _stored_energy(answer)
    if answer.case.periods > 1:
        count, ratios = (3, (2, 1, 1)) if stored else (2, (2, 1))
        figure = new_panels(count, 1, (8.5, 3.6 + count), sharex=True, height_ratios=ratios)
        _over_time(answer, figure.axes[0], figure.axes[-1])
        if stored:
            _state_of_charge(answer, stored, figure.axes[1])
    else:
        figure = new_panels(1, 2, (9.5, 3.8))
        _by_unit(answer, *figure.axes)
    if not answer.solved:
        figure.suptitle(answer.notice, color="crimson", wrap=True)
    if path is not None:
        write_figure(figure, path)
    return figure


def _over_time(answer: "Answer", schedule: Any, prices: Any) -> None:
    """What is fed in, stacked; the demand; what storage takes, below zero; the prices."""
    hours = np.arange(answer.case.periods + 1)
    bottom, below = (np.zeros(answer.case.periods) for _ in range(2))
    for k, (name, power) in enumerate(_largest(answer)):
        up, down = np.maximum(power, 0.0), np.minimum(power, 0.0)
        style = {"color": COLOURS[k] if k < MOST else REST, "linewidth": 0.0}
        schedule.stairs(bottom + up, hours, baseline=bottom, fill=True, label=name, **style)
        if np.any(down < 0):
            schedule.stairs(below + down, hours, baseline=below, fill=True, **style)
        bottom, below = bottom + up, below + down
    demand = answer.case.total_demand
    schedule.stairs(demand, hours, color="black", linewidth=1.6, label="demand", baseline=None)
    schedule.set(ylabel="power, MW")
    schedule.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    if answer.case.grid is not None:
        _price_range(answer, hours, prices)
    line: dict[str, Any] = {"linewidth": 1.6, "baseline": None}
    prices.stairs(answer.price, hours, color=COLOURS[1], **line)
    if answer.reserve_price is not None:
        line |= {"color": COLOURS[2], "linestyle": "--", "label": "reserve"}
        prices.stairs(answer.reserve_price, hours, **line)
        prices.legend(frameon=False)
    prices.set(xlabel="period", ylabel="price per MWh", xlim=(0, hours[-1]))
    prices.xaxis.get_major_locator().set_params(integer=True)


def _price_range(answer: "Answer", hours: np.ndarray, prices: Any) -> None:
    """From the lowest to the highest price of a bus, where they differ."""
    values = np.array(list(answer.bus_prices().values()))
    low, high = values.min(axis=0), values.max(axis=0)
    if np.any(high - low > 1e-6 * np.abs(high)):
        style = {"color": COLOURS[1], "alpha": 0.2, "linewidth": 0.0, "label": "all buses"}
        prices.stairs(high, hours, baseline=low, fill=True, **style)
        prices.legend(frameon=False)


def _stored_energy(answer: "Answer") -> dict[str, np.ndarray]:
    """Stored energy of every storage, that before the first period included."""
    first = {unit.name: getattr(unit, "initial", 0.0) for unit in answer.case.units}
    return {name: np.append(first[name], energy) for name, energy in answer.energy.items()}


def _state_of_charge(answer: "Answer", stored: dict[str, np.ndarray], panel: Any) -> None:
    """Stored energy in the colours of the schedule, with its limits dashed."""
    colours = {name: COLOURS[k] for k, (name, _) in enumerate(_largest(answer)[:MOST])}
    limits = {unit.name: getattr(unit, "energy", ()) for unit in answer.case.units}
    for name, energy in list(stored.items())[:MOST]:
        colour = colours.get(name, REST)
        panel.plot(energy, "o-", color=colour, markersize=3, linewidth=1.4, label=name)
        for end in limits[name]:
            if np.ndim(end) == 0 and np.isfinite(end):
                panel.axhline(end, color=colour, linestyle="--", linewidth=0.9)
    panel.set(ylabel="stored, MWh")
    panel.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)


def _largest(answer: "Answer") -> list[tuple[str, np.ndarray]]:
    """Injections of the units that move the most energy, the rest summed up; no DC lines."""
    fed = answer.net_injection()
    energy = np.abs(fed).sum(axis=1)
    order = np.argsort(-energy, kind="stable")
    many = len(order) > MOST + 1
    shown = sorted(order[:MOST] if many else order)
    found = [(answer.case.names[i], fed[i]) for i in shown]
    if many:
        found.append((f"{len(order) - MOST} others", fed[order[MOST:]].sum(axis=0)))
    return found


def _by_unit(answer: "Answer", powers: Any, costs: Any) -> None:
    """Power within its limits, and marginal cost against the price."""
    units, power = answer.case.units, answer.power[:, 0]
    place = np.arange(len(units))
    low = np.array([np.min(unit.p_min) for unit in units])
    high = np.array([np.max(unit.p_max) for unit in units])
    powers.vlines(place, low, high, color="#bbbbbb", linewidth=5, capstyle="butt", label="limits")
    powers.plot(place, power, "o", color=COLOURS[0], markersize=4, label="power")
    powers.set(ylabel="power, MW")
    marginal = [float(answer.marginal(i)[0]) for i in range(len(units))]
    free = np.array([not answer.limits(i) for i in range(len(units))])
    for mask, colour, label in ((free, COLOURS[0], "free"), (~free, COLOURS[1], "at a limit")):
        if mask.any():
            costs.plot(
                place[mask], np.array(marginal)[mask], "o", color=colour, label=label, markersize=4
            )
    seen = [float(answer.bus_price(unit.bus)[0]) for unit in units]
    width = {"color": "black", "linewidth": 1.6, "label": "price"}
    costs.hlines(seen, place - 0.4, place + 0.4, **width)
    room = 0.1 * max(1.0, *np.abs(seen))
    spread = [*marginal, *seen]
    costs.set(ylabel="marginal cost per MWh", ylim=(min(spread) - room, max(spread) + room))
    for panel in (powers, costs):
        if len(units) <= 12:
            panel.set_xticks(place, [unit.name for unit in units], rotation=45, ha="right")
        else:
            panel.set_xlabel("unit")
        panel.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False)
