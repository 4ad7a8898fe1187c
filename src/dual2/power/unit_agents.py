"""Units as agents: their variables, their inequalities as sparse rows, and what they feed in."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dual2.errors import ProblemError
from dual2.functions import Function, IndicatorBox, IndicatorPolyhedron, PiecewiseQuadratic
from dual2.functions.arguments import Array
from dual2.functions.polyhedron import EmptySet

DENSE_ENTRIES = 65_536
"""Entries up to which a matrix of a unit is dense: 96 periods, some seven variables for each."""


class Limit(NamedTuple):
    """One inequality of a unit in words and in numbers; its row is in a :class:`LimitTable`."""

    period: int
    low_name: str
    up_name: str
    lower: float
    upper: float
    scale: float = 1.0  # what the numbers are multiplied by to be in MW, or MWh for energies


@dataclass(frozen=True, eq=False)
class LimitTable:
    """Inequalities lower ≤ rows·x ≤ upper, sparse, with their names and periods."""

    rows: sp.csr_array
    limits: tuple[Limit, ...]

    @classmethod
    def of(
        cls, rows: Any, lower: Any, upper: Any, names: tuple[str, str], scale: float = 1.0
    ) -> "LimitTable":
        """One inequality for each period, with the names of the lower and the upper limit."""
        rows = sp.csr_array(rows)
        T = rows.shape[0]
        low, up = (np.broadcast_to(bound, (T,)) for bound in (lower, upper))
        limits = (Limit(t, *names, float(low[t]), float(up[t]), scale) for t in range(T))
        return cls(rows, tuple(limits))

    @classmethod
    def joined(cls, tables: Sequence["LimitTable"]) -> "LimitTable":
        """Several tables as one."""
        rows = sp.csr_array(sp.vstack([table.rows for table in tables]))
        return cls(rows, tuple(limit for table in tables for limit in table.limits))

    def padded(self, columns: int) -> "LimitTable":
        """The same rows with further variables, which they do not contain."""
        if columns == 0:
            return self
        none = sp.csr_array((self.rows.shape[0], columns))
        return LimitTable(sp.csr_array(sp.hstack([self.rows, none])), self.limits)

    def bounds(self) -> tuple[Array, Array]:
        """Lower and upper limits as vectors."""
        found = np.array([(limit.lower, limit.upper) for limit in self.limits]).reshape(-1, 2)
        return found[:, 0], found[:, 1]


class Terminal(NamedTuple):
    """Where a unit meets the grid: its bus, and what it feeds in there as a function of x."""

    bus: Any
    matrix: Any


@dataclass(frozen=True, eq=False)
class UnitAgent:
    """A unit as an agent: its variables x and what they mean.

    Where the cost is piecewise linear, power is the sum of one part for each piece.
    """

    f: PiecewiseQuadratic  # cost per hour in x, a parabola for each variable
    g: Function  # limits in x
    table: LimitTable  # the inequalities of g
    terminals: tuple[Terminal, ...]
    power: Any  # the unit's power in its own sense, (T, d)
    reserve: Any  # the reserve it holds, (T, d)
    stored: Any = None  # stored energy in MWh after each period is base + stored·x
    base: Array = field(default_factory=lambda: np.zeros(1))
    more: dict[str, Any] = field(default_factory=dict)  # further series, by name: matrices (T, d)

    def costs(self, x: Array) -> Array:
        """Cost per hour in each period: variables come in groups of one for each period."""
        f = self.f
        each = 0.5 * f.curvature * x**2 + f.slope * x + f.offset
        return each.reshape(-1, self.power.shape[0]).sum(axis=0)


def feasible_set(owner: str, table: LimitTable) -> Function:
    """The set that a table of limits describes; an error names those that contradict others."""
    lower, upper = table.bounds()
    rows, d = table.rows, table.rows.shape[1]
    if rows.shape[0] == d and (rows - sp.eye_array(d, format="csr")).nnz == 0:
        return IndicatorBox(lower, upper)
    try:
        return IndicatorPolyhedron(compact(rows), lower, upper)
    except EmptySet as error:
        raise ProblemError(f"{owner}: {_conflict(table.limits, error)}") from error


def ramp_limits(power: Any, ramp: tuple[float, float], initial: float | None) -> LimitTable:
    """Changes of the power from one period to the next, and from ``initial`` to the first."""
    up, down = ramp
    names, T = ("ramp down", "ramp up"), power.shape[0]
    found = []
    if T > 1:
        steps = LimitTable.of(power[1:] - power[:-1], -down, up, names)
        later = tuple(limit._replace(period=limit.period + 1) for limit in steps.limits)
        found.append(LimitTable(steps.rows, later))
    if initial is not None:
        found.append(LimitTable.of(power[[0]], initial - down, initial + up, names))
    if not found:
        return LimitTable(sp.csr_array((0, power.shape[1])), ())
    return LimitTable.joined(found)


def compact(matrix: Any) -> Any:
    """A sparse matrix, or the same as an array if it is small."""
    if not sp.issparse(matrix):
        return matrix
    if matrix.shape[0] * matrix.shape[1] <= DENSE_ENTRIES:
        return matrix.toarray()
    return sp.csr_array(matrix)


def _conflict(limits: Sequence[Limit], error: EmptySet) -> str:
    """Which limits contradict each other, in words."""
    names = []
    for row, side in zip(error.rows, error.sides, strict=True):
        limit = limits[row]
        name = limit.low_name if side == "lower" else limit.up_name
        names.append(f"{name or 'limits'} in period {limit.period}")
    return f"no schedule meets its limits: {', '.join(names)} contradict each other. Relax one."
