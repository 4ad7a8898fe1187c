"""Limits of lines as coupling rows: centred, scaled, and only those that matter."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dual2.errors import ProblemError
from dual2.functions.arguments import Array
from dual2.power.flows import Grid

if TYPE_CHECKING:
    from dual2.power.case import Dispatch

MOST_SCALE = 10.0
"""Rows of lines that hardly feel the units are not made longer than by this factor."""
VIOLATED = 1e-7
"""A flow this fraction of max(1, |limit|) beyond its limit violates it."""
PARALLEL = 1e-9
"""Rows whose directions differ by less are one."""


class Row(NamedTuple):
    """A coupling row: the limits of one line in one period."""

    line: int
    period: int


class LineRows:
    """The rows lower - f⁰ ≤ Σ_i H_{l,i} p_i ≤ upper - f⁰ of the lines of a grid.

    f⁰ is the flow that demands and shifts cause. As Σ_i p_i is the demand D, a multiple h̄_l of the
    balance may be taken off: r_l·(H_l - h̄_l), limits r_l·(limit - f⁰_l - h̄_l·D), with h̄_l the mean
    of H_l weighted by the units' room and r_l such that the row is as long as the balance. Prices
    of buses are what they were; methods see rows that are nearly orthogonal to the balance.

    ``case``: units, demand and periods; ``low``, ``high``: least and most power that each unit
    feeds in, (units, T).
    """

    def __init__(self, case: "Dispatch", grid: Grid, low: Array, high: Array) -> None:
        self.grid, self.low, self.high = grid, low, high
        self.demand = case.total_demand
        self.factors = grid.factors([unit.bus for unit in case.units])
        self.taken = grid.gather(case.demand.items(), case.periods)
        at_origin = np.zeros((grid.size, case.periods))
        at_origin[0] = self.demand
        self.base = grid.flows(at_origin - self.taken)
        limits = np.array([line.limits for line in grid.lines]).reshape(-1, 2)
        self.lower, self.upper = (limits[:, k, None] - self.base for k in range(2))
        room = (high - low).mean(axis=1)
        share = room / room.sum() if room.sum() > 0 else np.full(len(room), 1 / len(room))
        self.means = self.factors @ share
        self.centred = self.factors - self.means[:, None]
        lengths = np.linalg.norm(self.centred, axis=1)
        whole = np.sqrt(len(room))
        self.significant = lengths > PARALLEL * whole
        self.scales = np.minimum(whole / np.where(self.significant, lengths, whole), MOST_SCALE)

    @cached_property
    def reach(self) -> tuple[Array, Array]:
        """Least and most of Σ_i H_{l,i} p_i, (lines, T), for powers within limits that meet D.

        A fractional knapsack: units fill up in the order of their factors.
        """
        rising = np.argsort(self.factors, axis=1, kind="stable")
        return self._filled(rising), self._filled(rising[:, ::-1])

    def _filled(self, order: NDArray[np.intp]) -> Array:
        found = np.empty(self.base.shape)
        ranked = np.take_along_axis(self.factors, order, axis=1)
        for t, demand in enumerate(self.demand):
            room = (self.high - self.low)[:, t][order]
            before = np.cumsum(room, axis=1) - room
            left = demand - self.low[:, t].sum()
            used = np.clip(left - before, 0.0, room)
            found[:, t] = self.factors @ self.low[:, t] + (ranked * used).sum(axis=1)
        return found

    def check(self) -> None:
        """Refuse limits that no dispatch meets: some line carries too much whatever is done."""
        least, most = self.reach
        room = VIOLATED * np.maximum(1.0, np.abs(np.where(np.isfinite(self.upper), self.base, 0.0)))
        for worst, sign, verb in (
            (least - self.upper, 1.0, "at least"),
            (self.lower - most, -1.0, "at most"),
        ):
            if not np.any(worst > room):
                continue
            line, t = np.unravel_index(np.argmax(worst), worst.shape)
            bound = (self.upper if sign > 0 else self.lower)[line, t] + self.base[line, t]
            flow = bound + sign * worst[line, t]
            raise ProblemError(
                f"The dispatch is infeasible: {self.grid.lines[line].name!r} carries {verb} "
                f"{flow:.4f} MW in period {t}, whoever produces, and its limit is {bound:.4f} MW. "
                "Relax the limit, or allow unserved energy (shed=price per MWh)."
            )

    @cached_property
    def kept(self) -> list[Row]:
        """Rows that some dispatch within the units' limits could violate."""
        least, most = self.reach
        slack = VIOLATED * np.maximum(1.0, np.abs(self.base))
        binding = (most > self.upper - slack) | (least < self.lower + slack)
        return [Row(int(k), int(t)) for k, t in np.argwhere(binding & self.significant[:, None])]

    def violated(self, injection: Array, known: Iterable[Row]) -> list[Row]:
        """Rows that the units' powers (units, T) violate, without those known; worst first.

        Of lines whose rows are multiples of each other only the worst is taken.
        """
        flows = self.factors @ injection
        excess = np.maximum(flows - self.upper, self.lower - flows)
        limit = np.where(flows > self.upper, self.upper, self.lower) + self.base
        over = excess > VIOLATED * np.maximum(1.0, np.abs(limit))
        found = [Row(int(k), int(t)) for k, t in np.argwhere(over & self.significant[:, None])]
        seen, taken = set(known), list[Row]()
        for row in sorted(found, key=lambda r: -self.scales[r.line] * excess[r]):
            if row not in seen and not self._alike(row, taken):
                taken.append(row)
        return taken

    def _alike(self, row: Row, others: Sequence[Row]) -> bool:
        lines = [other.line for other in others if other.period == row.period]
        own = self.centred[row.line] / np.linalg.norm(self.centred[row.line])
        rows = self.centred[lines]
        angles = rows @ own / np.linalg.norm(rows, axis=1)
        return bool(np.any(1.0 - np.abs(angles) < PARALLEL))

    def weights(self, rows: Sequence[Row]) -> Array:
        """r_l·(H_l - h̄_l) of the units, (rows, units)."""
        lines = [row.line for row in rows]
        return self.scales[lines, None] * self.centred[lines]

    def bounds(self, rows: Sequence[Row]) -> tuple[Array, Array]:
        """Limits of the scaled rows."""
        lines, periods = np.array(rows, dtype=int).reshape(-1, 2).T
        moved = self.means[lines] * self.demand[periods]
        lower, upper = self.lower[lines, periods], self.upper[lines, periods]
        return self.scales[lines] * (lower - moved), self.scales[lines] * (upper - moved)

    def line_prices(self, rows: Sequence[Row], duals: Array) -> Array:
        """μ, (lines, T): what one more MW of a limit would save; negative at a lower limit."""
        found = np.zeros(self.base.shape)
        for row, dual in zip(rows, duals, strict=True):
            found[row] += self.scales[row.line] * dual
        return found

    def node_prices(self, rows: Sequence[Row], prices: Array) -> Array:
        """What line prices add to the price of the balance at every node, (nodes, T)."""
        lines = sorted({row.line for row in rows})
        found = np.zeros((self.grid.size, self.base.shape[1]))
        if lines:
            spread = self.grid.rows(lines) - self.means[lines, None]
            found -= spread.T @ prices[lines]
        return found
