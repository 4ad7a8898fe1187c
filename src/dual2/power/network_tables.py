"""Tables of lines and buses, period by period."""

from typing import TYPE_CHECKING, Any

import numpy as np

from dual2.functions.arguments import Array

if TYPE_CHECKING:
    from dual2.power.answer import Answer
    from dual2.power.flows import Line

NO_PRICE = 1e-7
"""Prices of limits below this fraction of the largest price are shown as 0."""


def line_table(answer: "Answer") -> list[dict[str, Any]]:
    """One dict per line of the grid, also for those that never came near a limit.

    ``line``, ``from``, ``to``; ``flow`` in MW, counted from the first bus to the second;
    ``limit`` in the direction of the flow and ``limited by`` ("rating", "angle" or ""); ``loading``
    in percent of the rating; ``price`` ≥ 0, what one more MW of the limit that binds would save;
    ``direction`` of that limit ("from→to", "to→from" or ""); ``rent`` = price·|limit|. All but the
    names are lists over the periods.
    """
    grid, found = answer.case.grid, []
    if grid is None:
        return found
    prices = answer.line_prices
    floor = NO_PRICE * max(np.abs(prices).max(initial=0.0), np.abs(answer.price).max(initial=0.0))
    for k, line in enumerate(grid.lines):
        flow, mu = answer.line_flows[k], np.where(np.abs(prices[k]) > floor, prices[k], 0.0)
        ahead = np.where(mu != 0, mu > 0, flow >= 0)
        limit = np.where(ahead, line.limits[1], line.limits[0]) + np.zeros(len(flow))
        rating = np.broadcast_to(line.rating, flow.shape)
        found.append(
            {
                "line": line.name,
                "from": line.start,
                "to": line.end,
                "flow": flow.tolist(),
                "limit": limit.tolist(),
                "limited by": [
                    _cause(line, rate, bool(up)) for rate, up in zip(rating, ahead, strict=True)
                ],
                "loading": _loading(flow, rating),
                "price": np.abs(mu).tolist(),
                "direction": [_direction(value) for value in mu],
                "rent": (np.where(mu != 0, mu, 0.0) * np.where(mu != 0, limit, 0.0)).tolist(),
            }
        )
    return found


def _loading(flow: Array, rating: Array) -> list[float]:
    """Percent of the rating, none where that is 0."""
    return (100.0 * np.abs(flow) / rating).tolist() if np.all(rating > 0) else []


def _cause(line: "Line", rating: float, ahead: bool) -> str:
    """What limits a line in one direction: "rating", "angle" or nothing."""
    by_angle = line.by_angle[1] if ahead else -line.by_angle[0]
    if np.isinf(min(by_angle, rating)):
        return ""
    return "rating" if rating <= by_angle else "angle"


def _direction(price: float) -> str:
    return "" if price == 0 else "from→to" if price > 0 else "to→from"


def bus_table(answer: "Answer") -> list[dict[str, Any]]:
    """One dict per bus: demand, generation, price and its parts, lists over the periods.

    With a grid also the ``angle`` in degrees, 0 at the first bus. Buses that are one electrically
    have the same angle and price.
    """
    case, T = answer.case, answer.case.periods
    made = {bus: answer.fed_in(bus) for bus in case.buses}
    angles = None
    if case.grid is not None and case.line_rows is not None:
        net = case.grid.gather(made.items(), T) - case.line_rows.taken
        angles = np.degrees(case.grid.angles(net))
    found = []
    for bus in case.buses:
        price = answer.bus_price(bus)
        row = {
            "bus": bus,
            "demand": case.demand.get(bus, np.zeros(T)).tolist(),
            "generation": made[bus].tolist(),
            "price": price.tolist(),
            "energy": answer.price.tolist(),
            "congestion": (price - answer.price).tolist(),
        }
        if case.grid is not None and angles is not None:
            row["angle"] = angles[case.grid.place[bus]].tolist()
        found.append(row)
    return found
