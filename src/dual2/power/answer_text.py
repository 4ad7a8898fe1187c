"""What a printed answer says."""

from typing import TYPE_CHECKING, Any

import numpy as np

from dual2.solving.unsolved import list_violations

if TYPE_CHECKING:
    from dual2.power.answer import Answer

ROUNDING = 1e-5
"""Powers and costs below this are shown as 0."""


def answer_text(answer: "Answer") -> str:
    """The table of units below a headline."""
    one = answer.case.periods == 1
    keys = ["power", "cost", "marginal"]
    keys += ["reserve"] if answer.case.reserve is not None else []
    apart = answer.case.interfaces or answer.active or len(answer.case.islands) > 1
    keys += ["price"] if apart else []
    titles = [key if one or key == "cost" else f"mean {key}" for key in keys]
    head = ["unit", "bus", *titles, "limits" if one else "limits (periods)"]
    cells = [head, *(_cells(row, keys, one) for row in answer.rows)]
    widths = [max(len(row[k]) for row in cells) for k in range(len(head) - 1)]
    lines = [
        "  ".join(
            c.rjust(w) if k else c.ljust(w)
            for k, (c, w) in enumerate(zip(row, [*widths, 0], strict=True))
        ).rstrip()
        for row in cells
    ]
    return "\n".join([headline(answer), *lines])


def headline(answer: "Answer") -> str:
    """Status, cost, range of prices, what is unserved, and the lines that bind."""
    prices = np.array([answer.bus_price(unit.bus) for unit in answer.case.units])
    if answer.node_prices.size:
        island = answer.case.line_rows.grid.island if answer.case.line_rows else slice(None)
        prices = answer.island_prices[island] + answer.node_prices
    low, high = f"{prices.min():.6g}", f"{prices.max():.6g}"
    price = low if low == high else f"{low} … {high}"
    text = (
        f"{answer.status}: cost {answer.cost:.8g}, price {price} per MWh; "
        f"{answer.result.counts.rounds} rounds"
    )
    if answer.on:
        text += "\nrelaxed unit commitment: units are on by fractions, prices are of the relaxation"
    if not answer.solved:
        named = [list_violations(answer.violations)] if answer.violations else []
        text = "\n".join([answer.notice, *named, text])
    missing = {bus: p for bus, p in answer.unserved.items() if p.max() > ROUNDING}
    if missing:
        hours = answer.case.hours
        total = hours * sum(p.sum() for p in missing.values())
        where = ", ".join(
            f"bus {bus}: {hours * p.sum():.6g}" for bus, p in list(missing.items())[:6]
        )
        text = f"UNSERVED {total:.6g} MWh ({where}{', …' if len(missing) > 6 else ''})\n{text}"
    full = [row["line"] for row in answer.lines if max(row["price"]) > 0]
    if full:
        text += f"\nbinding: {', '.join(full[:6])}{', …' if len(full) > 6 else ''}"
    return text


def _cells(row: dict[str, Any], keys: list[str], one: bool) -> list[str]:
    places: dict[str, list[int]] = {}
    for name, period in row["limits"]:
        places.setdefault(name, []).append(period)
    shown = [name if one else f"{name} ({number_ranges(where)})" for name, where in places.items()]
    numbers = [_number(np.mean(row[key])) for key in keys]
    return [row["unit"], str(row["bus"]), *numbers, ", ".join(shown)]


def _number(value: Any) -> str:
    """Six digits; what is nothing but rounding is 0."""
    return "0" if abs(value) < ROUNDING else f"{value:.6g}"


def number_ranges(numbers: list[int]) -> str:
    """1, 2, 3, 7 as '1-3, 7'."""
    runs: list[list[int]] = []
    for k in sorted(numbers):
        if runs and k == runs[-1][1] + 1:
            runs[-1][1] = k
        else:
            runs.append([k, k])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
