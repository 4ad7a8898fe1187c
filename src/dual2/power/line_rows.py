"""Limits of lines as coupling rows: centred, scaled, and only those that matter."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dual2.errors import ProblemError
from dual2.functions.arguments import Array
from dual2.power.flows import Grid
from dual2.power.outages import OutageFactors

if TYPE_CHECKING:
    from dual2.power.dispatch import Dispatch

MOST_SCALE = 10.0
"""Rows of lines that hardly feel the units are not made longer than by this factor."""
VIOLATED = 1e-7
"""A flow this fraction of max(1, |limit|) beyond its limit violates it."""
PARALLEL = 1e-9
"""Rows whose directions differ by less are one."""


class Row(NamedTuple):
    """A coupling row: the limits of one line in one period, perhaps after an outage."""

    line: int
    period: int
    outage: int = -1


class LineRows:
    """The rows lower - f⁰ ≤ Σ_i H_{l,i} p_i ≤ upper - f⁰ of the lines of a grid.

    f⁰ is the flow that demands and shifts cause. As Σ_i p_i is the demand D of an island, a
    multiple h̄_l of its balance may be taken off: r_l·(H_l - h̄_l), limits
    r_l·(limit - f⁰_l - h̄_l·D), with h̄_l the mean of H_l weighted by the units' room and r_l such
    that the row is as long as the balance. Prices of buses are what they were; methods see rows
    that are nearly orthogonal to the balance. After the outage of line k the row is
    H_l + LODF_lk·H_k, and so is all else.

    ``case``: terminals of units, demand and periods; ``low``, ``high``: least and most power that
    each terminal feeds in, (terminals, T).
    """

    def __init__(self, case: "Dispatch", grid: Grid, low: Array, high: Array) -> None:
        self.grid, self.low, self.high = grid, low, high
        buses = [terminal.bus for _, terminal in case.terminals]
        self.island = grid.island[[grid.place[bus] for bus in buses]]
        self.demand = case.island_demand
        self.factors = grid.factors(buses)
        self.taken = grid.gather(case.demand.items(), case.periods)
        at_origin = np.zeros((grid.size, case.periods))
        at_origin[grid.references] = self.demand
        self.base = grid.flows(at_origin - self.taken)
        self.of_line = grid.island[[grid.place_of(line.start) for line in grid.lines]]
        limits = np.zeros((2, *self.base.shape))
        for k, line in enumerate(grid.lines):
            limits[0, k], limits[1, k] = line.limits
        self.lower, self.upper = limits - self.base
        self.means, self.centred = self._centre((high - low).mean(axis=1))
        self.whole = np.sqrt(np.maximum(np.bincount(self.island, minlength=len(self.demand)), 1))
        lengths, wholes = np.linalg.norm(self.centred, axis=1), self._wholes()
        self.significant = lengths > PARALLEL * wholes
        self.scales = np.minimum(wholes / np.where(self.significant, lengths, wholes), MOST_SCALE)
        security = case.security
        self.outages = None if security is None else OutageFactors(grid, security, case.periods)

    def _wholes(self) -> Array:
        """Length of the balance row of each line's island."""
        return self.whole[self.of_line]

    def _centre(self, room: Array) -> tuple[Array, Array]:
        """Mean factor of each line by the room of the island's units, and the factors less it."""
        count = len(self.demand)
        total = np.bincount(self.island, room, count)[self.island]
        equal = 1.0 / np.bincount(self.island, minlength=count)[self.island]
        share = np.where(total > 0, room / np.where(total > 0, total, 1.0), equal)
        means = self.factors @ share
        same = self.of_line[:, None] == self.island
        return means, self.factors - means[:, None] * same

    @cached_property
    def reach(self) -> tuple[Array, Array]:
        """Least and most of Σ_i H_{l,i} p_i, (lines, T), for powers within limits that meet D.

        A fractional knapsack: units fill up in the order of their factors.
        """
        least, most = np.zeros(self.base.shape), np.zeros(self.base.shape)
        for k in range(len(self.demand)):
            lines, own = np.flatnonzero(self.of_line == k), np.flatnonzero(self.island == k)
            if len(lines) and len(own):
                factors = self.factors[np.ix_(lines, own)]
                rising = np.argsort(factors, axis=1, kind="stable")
                least[lines] = self._filled(factors, rising, own, k)
                most[lines] = self._filled(factors, rising[:, ::-1], own, k)
        return least, most

    def _filled(
        self, factors: Array, order: NDArray[np.intp], own: NDArray[np.intp], island: int
    ) -> Array:
        """Flow if the units of an island fill up in this order until they meet the demand."""
        found = np.empty((len(factors), self.base.shape[1]))
        ranked = np.take_along_axis(factors, order, axis=1)
        low, high = self.low[own], self.high[own]
        for t, demand in enumerate(self.demand[island]):
            room = (high - low)[:, t][order]
            before = np.cumsum(room, axis=1) - room
            left = demand - low[:, t].sum()
            used = np.clip(left - before, 0.0, room)
            found[:, t] = factors @ low[:, t] + (ranked * used).sum(axis=1)
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
        """Rows without outages that some dispatch within the units' limits could violate."""
        least, most = self.reach
        slack = VIOLATED * np.maximum(1.0, np.abs(self.base))
        binding = (most > self.upper - slack) | (least < self.lower + slack)
        return [Row(int(k), int(t)) for k, t in np.argwhere(binding & self.significant[:, None])]

    def violated(self, injection: Array, known: Iterable[Row]) -> list[Row]:
        """Rows that the powers (terminals, T) violate, without those known; worst first.

        Of lines whose rows are multiples of each other only the worst is taken, and of the outages
        that overload a line in a period only the worst.
        """
        flows = self.factors @ injection
        excess = np.maximum(flows - self.upper, self.lower - flows)
        limit = np.where(flows > self.upper, self.upper, self.lower) + self.base
        found = self._over(excess, limit, np.full(excess.shape, -1))
        if self.outages is not None:
            more, outage = self.outages.worst(flows + self.base)
            found += self._over(more, self.outages.limits[1], outage)
        seen, taken = set(known), list[Row]()
        for _, row in sorted(found, key=lambda pair: -pair[0]):
            if row not in seen and not self._alike(row, taken):
                taken.append(row)
        return taken

    def _over(
        self, excess: Array, limit: Array, outage: NDArray[np.intp]
    ) -> list[tuple[float, Row]]:
        """Rows beyond their limits with what they exceed them by, scaled as the rows are."""
        size = np.where(np.isfinite(limit), np.abs(limit), 0.0)
        over = (excess > VIOLATED * np.maximum(1.0, size)) & self.significant[:, None]
        return [
            (float(self.scales[k] * excess[k, t]), Row(int(k), int(t), int(outage[k, t])))
            for k, t in np.argwhere(over)
        ]

    def _alike(self, row: Row, others: Sequence[Row]) -> bool:
        """Whether a row is a multiple of one of the others in the same period."""
        same = [other for other in others if other.period == row.period]
        if not same:
            return False
        own, rows = self._directions([row])[0], self._directions(same)
        lengths = np.linalg.norm(own) * np.linalg.norm(rows, axis=1)
        return bool(np.any(1.0 - np.abs(rows @ own) / lengths < PARALLEL))

    # -- rows in numbers --------------------------------------------------------------------------

    def _mixed(self, rows: Sequence[Row], values: Array) -> Array:
        """values_l + LODF_lk·values_k of each row, where ``values`` has an entry per line."""
        lines = [row.line for row in rows]
        found = np.array(values[lines], dtype=float)
        for k, row in enumerate(rows):
            if row.outage >= 0 and self.outages is not None:
                found[k] += self.outages.column(row.outage)[row.line] * values[row.outage]
        return found

    def _directions(self, rows: Sequence[Row]) -> Array:
        return self._mixed(rows, self.centred)

    def _scales(self, rows: Sequence[Row]) -> Array:
        """r_l of each row."""
        lengths = np.linalg.norm(self._directions(rows), axis=1)
        whole = self._wholes()[[row.line for row in rows]]
        return np.minimum(whole / np.where(lengths > 0, lengths, whole), MOST_SCALE)

    def weights(self, rows: Sequence[Row]) -> Array:
        """r_l·(H_l - h̄_l) of the terminals, (rows, terminals)."""
        return self._scales(rows)[:, None] * self._directions(rows)

    def bounds(self, rows: Sequence[Row]) -> tuple[Array, Array]:
        """Limits of the scaled rows."""
        lines = np.array([row.line for row in rows], dtype=int)
        periods = np.array([row.period for row in rows], dtype=int)
        places = np.arange(len(rows)), periods
        limits = np.array([self.lower + self.base, self.upper + self.base])[:, lines, periods]
        for k, row in enumerate(rows):
            if row.outage >= 0 and self.outages is not None:
                limits[:, k] = self.outages.limits[:, row.line, row.period]
        caused = self._mixed(rows, self.base)[places]
        moved = self._mixed(rows, self.means) * self.demand[self.of_line[lines], periods]
        scales = self._scales(rows)
        return scales * (limits[0] - caused - moved), scales * (limits[1] - caused - moved)

    def row_prices(self, rows: Sequence[Row], duals: Array) -> Array:
        """What one more MW of each row's limit would save; negative at a lower limit."""
        return self._scales(rows) * np.asarray(duals) if len(rows) else np.zeros(0)

    def line_prices(self, rows: Sequence[Row], duals: Array) -> Array:
        """The same by line and period, (lines, T), of the limits without an outage."""
        found = np.zeros(self.base.shape)
        for row, price in zip(rows, self.row_prices(rows, duals), strict=True):
            if row.outage < 0:
                found[row.line, row.period] += price
        return found

    def node_prices(self, rows: Sequence[Row], duals: Array) -> Array:
        """What rows add to the price of the balance at every node, (nodes, T)."""
        prices = np.zeros(self.base.shape)
        for row, price in zip(rows, self.row_prices(rows, duals), strict=True):
            prices[row.line, row.period] += price
            if row.outage >= 0 and self.outages is not None:
                factor = self.outages.column(row.outage)[row.line]
                prices[row.outage, row.period] += factor * price
        lines = np.flatnonzero(prices.any(axis=1))
        found = np.zeros((self.grid.size, self.base.shape[1]))
        if len(lines):
            same = self.of_line[lines, None] == self.grid.island
            spread = self.grid.rows(lines.tolist()) - self.means[lines, None] * same
            found -= spread.T @ prices[lines]
        return found
