"""Rows, columns and bounds as a file gives them, one by one; then a :class:`Model`."""

from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp

from dual2.models.model import INFINITE, Model
from dual2.models.source import Place

Array = np.ndarray


@dataclass
class ModelBuilder:
    """A model that grows while its file is read.

    Constraints have a sense, ``"E"``, ``"L"`` or ``"G"``, and a right-hand side; variables are at
    least 0 unless their bounds say otherwise.
    """

    place: Place
    name: str = ""
    maximise: bool = False
    constant: float = 0.0
    rows: dict[str, int] = field(default_factory=dict)
    columns: dict[str, int] = field(default_factory=dict)
    senses: list[str] = field(default_factory=list)
    rhs: list[float] = field(default_factory=list)
    ranges: dict[int, float] = field(default_factory=dict)
    costs: list[float] = field(default_factory=list)
    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    entries: dict[tuple[int, int], float] = field(default_factory=dict)
    products: dict[tuple[int, int], float] = field(default_factory=dict)
    integers: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add_row(self, name: str, sense: str) -> int:
        """A new constraint; its number."""
        if name in self.rows:
            self.place.fail(f"the row {name!r} is declared twice; names are unique.")
        self.rows[name] = len(self.senses)
        self.senses.append(sense)
        self.rhs.append(0.0)
        return self.rows[name]

    def add_column(self, name: str) -> int:
        """A new variable, at least 0; its number."""
        self.columns[name] = len(self.costs)
        self.costs.append(0.0)
        self.lower.append(0.0)
        self.upper.append(np.inf)
        return self.columns[name]

    def add_entry(self, row: int, column: int, value: float) -> None:
        """An entry of A."""
        if (row, column) in self.entries:
            names = list(self.rows)[row], list(self.columns)[column]
            self.place.fail(f"the entry of row {names[0]!r}, column {names[1]!r} is given twice.")
        self.entries[row, column] = value

    def mark_integer(self, name: str) -> None:
        """Remember a variable that must be whole, and the line that says so."""
        self.integers.setdefault(name, self.place.line)

    def build(self, relax: bool) -> Model:
        """The model; whole variables are refused unless they may be relaxed."""
        if self.integers:
            name, line = next(iter(self.integers.items()))
            if not relax:
                self.place.fail(
                    f"the variable {name!r} must be whole ({len(self.integers)} such variables). "
                    "dual2 solves convex problems; relax=True drops the demand.",
                    line,
                )
            self.notes.append(f"{len(self.integers)} whole variables were relaxed")
        n, m = len(self.costs), len(self.senses)
        row_lower, row_upper = self._row_bounds()
        return Model(
            name=self.name,
            variables=tuple(self.columns),
            constraints=tuple(self.rows),
            c=np.array(self.costs),
            Q=sp.csc_array(_matrix(self.products, (n, n))),
            A=sp.csr_array(_matrix(self.entries, (m, n))),
            row_lower=row_lower,
            row_upper=row_upper,
            lower=infinite(np.array(self.lower)),
            upper=infinite(np.array(self.upper)),
            constant=self.constant,
            maximise=self.maximise,
            notes=tuple(self.notes),
        )

    def _row_bounds(self) -> tuple[Array, Array]:
        """Bounds of the rows by their sense, right-hand side and range.

        A range r of an equation reaches from the right-hand side b to b + r, of a row ≤ b from
        b - |r| to b, of a row ≥ b from b to b + |r|.
        """
        senses, rhs = np.array(self.senses, dtype="U1"), np.array(self.rhs, dtype=float)
        lower = np.where(senses == "L", -np.inf, rhs)
        upper = np.where(senses == "G", np.inf, rhs)
        for k, reach in self.ranges.items():
            if senses[k] == "E":
                lower[k], upper[k] = min(rhs[k], rhs[k] + reach), max(rhs[k], rhs[k] + reach)
            elif senses[k] == "L":
                lower[k] = rhs[k] - abs(reach)
            else:
                upper[k] = rhs[k] + abs(reach)
        return infinite(lower), infinite(upper)


def infinite(bounds: Array) -> Array:
    """Bounds of size 1e20 and beyond as infinities."""
    return np.where(np.abs(bounds) >= INFINITE, np.copysign(np.inf, bounds), bounds)


def _matrix(entries: dict[tuple[int, int], float], shape: tuple[int, int]) -> sp.coo_array:
    """Entries as a sparse matrix without stored zeros."""
    kept = {place: value for place, value in entries.items() if value}
    where = np.array(list(kept), dtype=int).reshape(-1, 2).T
    return sp.coo_array((np.array(list(kept.values())), (where[0], where[1])), shape=shape)
