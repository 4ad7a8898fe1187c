"""N-1 security: flows after the outage of one line, searched without the full matrix."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dual2.errors import ProblemError, unknown_name
from dual2.functions.arguments import Array
from dual2.power.flows import Grid

SEPARATES = 1e-6
"""An outage separates the grid if less than this share of a transfer between the line's ends takes
other lines."""
BLOCK_ENTRIES = 4_000_000
"""Flows after outages that are looked at together: 32 MB."""


@dataclass(frozen=True)
class Security:
    """Flows have to stay within emergency limits after the outage of any one line.

    After the outage of line k, line l carries f_l + LODF_lk·f_k in the linear model. Rows enter the
    problem when a schedule violates them, as limits of lines do; the line outage distribution
    factors (LODF) are formed block by block.

    Parameters
    ----------
    outages : sequence of str, optional
        Names of the lines that may fail; all unless given. Outages that separate the grid are left
        out and listed in ``answer.separating``.
    factor : float
        Emergency limits are this multiple of the rating where a line has no ``emergency`` of its
        own.

    Examples
    --------
    Three equal lines in parallel, of which each may carry 60 MW: at most 120 MW in all, so that
    the others hold when one fails.

    >>> from dual2 import power
    >>> lines = [power.Line("a", "b", 1.0, rating=60.0, name=name) for name in ("1", "2", "3")]
    >>> units = [power.Generator("cheap", (0.0, 10.0), 200.0, bus="a"),
    ...          power.Generator("dear", (0.0, 30.0), 200.0, bus="b")]
    >>> case = power.Dispatch(units, {"b": 150.0}, grid=power.Grid(lines),
    ...                       security=power.Security())
    >>> answer = case.solve()
    >>> answer.power.ravel().round(4).tolist()
    [120.0, 30.0]
    """

    outages: Sequence[str] | None = None
    factor: float = 1.0

    def __post_init__(self) -> None:
        if not self.factor > 0:
            raise ProblemError(f"Security: factor = {self.factor:g}; expected a number > 0.")


class OutageFactors:
    """Line outage distribution factors of a grid, by outage.

    ``limits``: emergency limits of all lines, (2, lines, T).
    """

    def __init__(self, grid: Grid, security: Security, periods: int) -> None:
        self.grid = grid
        names = [line.name for line in grid.lines]
        places = {name: k for k, name in enumerate(names)}
        for name in security.outages or ():
            if name not in places:
                raise ProblemError(unknown_name("line in outages", name, names))
        chosen = names if security.outages is None else security.outages
        self.outages: NDArray[np.intp] = np.array([places[name] for name in chosen], dtype=np.intp)
        self.limits = np.empty((2, len(names), periods))
        for k, line in enumerate(grid.lines):
            factor = security.factor if line.emergency is None else 1.0
            low, high = line.emergency_limits
            angles = line.by_angle
            self.limits[0, k] = np.maximum(factor * np.asarray(low), angles[0])
            self.limits[1, k] = np.minimum(factor * np.asarray(high), angles[1])
        self._columns: dict[int, Array] = {}
        self.separating: dict[int, str] = {}

    def column(self, outage: int) -> Array:
        """LODF of all lines for one outage; -1 for the line itself."""
        if outage not in self._columns:
            self._columns[outage] = self._block([outage])[1][:, 0]
        return self._columns[outage]

    def _block(self, outages: Sequence[int]) -> tuple[list[int], Array]:
        """The outages that do not separate the grid, and the LODF of all lines for them."""
        shares = self.grid.transfer(outages)
        rest = 1.0 - shares[list(outages), np.arange(len(outages))]
        whole = np.abs(rest) > SEPARATES
        for k in np.asarray(outages)[~whole].tolist():
            self.separating[k] = self.grid.lines[k].name
        kept = [int(k) for k in np.asarray(outages)[whole]]
        factors = shares[:, whole] / rest[whole]
        factors[kept, np.arange(len(kept))] = -1.0
        return kept, factors

    def blocks(self) -> Iterator[tuple[list[int], Array]]:
        """All outages, a block at a time, with their LODF."""
        lines, periods = self.limits.shape[1:]
        step = max(1, BLOCK_ENTRIES // max(lines * periods, 1))
        for first in range(0, len(self.outages), step):
            yield self._block(self.outages[first : first + step].tolist())

    def worst(self, flows: Array) -> tuple[Array, NDArray[np.intp]]:
        """Largest excess of every line over its emergency limits, and after which outage.

        ``flows``: of all lines, (lines, T); both answers have that shape.
        """
        excess = np.full(flows.shape, -np.inf)
        outage = np.full(flows.shape, -1, dtype=np.intp)
        for outages, factors in self.blocks():
            if not outages:
                continue
            after = flows[:, None] + factors[:, :, None] * flows[outages][None]
            over = np.maximum(after - self.limits[1][:, None], self.limits[0][:, None] - after)
            over[outages, np.arange(len(outages))] = -np.inf  # the line that fails has no flow
            place = np.argmax(over, axis=1)
            here = np.take_along_axis(over, place[:, None], axis=1)[:, 0]
            more = here > excess
            excess[more] = here[more]
            outage[more] = np.asarray(outages, dtype=np.intp)[place][more]
        return excess, outage


def outage_table(answer: Any) -> list[dict[str, Any]]:
    """One dict per line and outage whose limit has a price.

    ``line``, ``outage``, ``period``, ``flow`` after the outage, ``limit``, ``price`` per MWh.
    """
    rows = answer.case.line_rows
    if rows is None or rows.outages is None:
        return []
    duals, found = rows.row_prices(answer.active, answer.row_duals), []
    names = [line.name for line in answer.case.grid.lines]
    floor = 1e-7 * max(np.abs(duals).max(initial=0.0), np.abs(answer.price).max(initial=0.0))
    for row, price in zip(answer.active, duals, strict=True):
        if row.outage < 0 or abs(price) <= floor:
            continue
        factor = float(rows.outages.column(row.outage)[row.line])
        flows = answer.line_flows[:, row.period]
        flow = float(flows[row.line] + factor * flows[row.outage])
        limit = rows.outages.limits[1 if price > 0 else 0, row.line, row.period]
        ends = {"line": names[row.line], "outage": names[row.outage], "period": row.period}
        found.append(ends | {"flow": flow, "limit": float(limit), "price": abs(float(price))})
    return found
