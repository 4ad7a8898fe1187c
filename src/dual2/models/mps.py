"""Reader of MPS and QPS files, in fixed and free format."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from dual2.errors import ProblemError
from dual2.models.builder import ModelBuilder
from dual2.models.model import Model
from dual2.models.mps_fields import Split, split_fixed, split_free
from dual2.models.source import Place, read_lines

NO_VALUE = {"FR", "MI", "PL", "BV"}
"""Types of bounds without a number."""

WITH_VALUE = {"UP", "LO", "FX", "LI", "UI"}
SECTIONS = {"NAME", "OBJSENSE", "OBJNAME", "ROWS", "COLUMNS", "RHS", "RANGES", "BOUNDS", "ENDATA"}
QUADRATIC = {"QUADOBJ", "QMATRIX", "QSECTION"}
REFUSED = {
    "QCMATRIX": "quadratic constraints",
    "CSECTION": "cones",
    "SOS": "special ordered sets",
    "SETS": "special ordered sets",
    "INDICATORS": "constraints that hold under a condition",
    "GENCONS": "general constraints",
    "PWLOBJ": "piecewise linear costs",
}
SENSES = {"MAX": True, "MAXIMIZE": True, "MAXIMISE": True, "MIN": False, "MINIMIZE": False}
FREE_ROW = -1
"""Number of rows of type N after the first, and of the objective in no case."""

OBJECTIVE = -2


def read_mps(path: str | Path, *, format: str = "auto", relax: bool = False) -> Model:
    """Read an MPS or QPS file, packed by gzip if its name ends in .gz.

    The first row of type N is the objective unless a section OBJNAME names another; further ones
    are ignored. A right-hand side of the objective is the negative of its constant. An upper bound
    below 0 takes the lower bound of 0 away that nobody has set. Q of QUADOBJ is one triangle, of
    QMATRIX the whole; the objective has ½xᵀQx. :attr:`Model.notes` says what was left out.

    Parameters
    ----------
    path : str or Path
        The file.
    format : {"auto", "free", "fixed"}
        Fields between blanks, or in the columns of the original format, where names may contain
        blanks. ``"auto"`` tries them in this order.
    relax : bool
        Read variables that must be whole as continuous ones, instead of refusing the file.

    Raises
    ------
    ProblemError
        Names the line of the file.
    """
    lines = read_lines(path)
    if format not in ("auto", "free", "fixed"):
        raise ProblemError(f"format is {format!r}; expected 'auto', 'free' or 'fixed'.")
    if format != "auto":
        return _MpsReader(path, split_free if format == "free" else split_fixed).read(lines, relax)
    try:
        return _MpsReader(path, split_free).read(lines, relax)
    except ProblemError as error:
        try:
            return _MpsReader(path, split_fixed).read(lines, relax)
        except ProblemError:
            raise error from None


class _MpsReader:
    """One pass over the lines; a method for each section."""

    def __init__(self, path: str | Path, split: Split) -> None:
        self.place, self.split = Place(path), split
        self.model = ModelBuilder(self.place)
        self.objective, self.sets, self.integer = "", {}, False
        self.where: dict[str, int] = {}
        self.lower_set: set[int] = set()
        self.bounded: set[int] = set()
        self.given: set[int] = set()
        self.ignored: list[str] = []
        self.column = ""

    def read(self, lines: list[str], relax: bool) -> Model:
        """The model of these lines."""
        section = ""
        for text in self.place.walk(lines):
            if not text.strip() or text.lstrip().startswith("*"):
                continue
            if not text[0].isspace():
                section = self._header(text.split())
                if section == "ENDATA":
                    break
            else:
                self._line(section, self.split(text, section))
        if section != "ENDATA":
            self.place.fail("the file ends without ENDATA; it may be cut off.")
        self._binary_by_default()
        self._check_symmetric()
        if self.ignored:
            names = ", ".join(self.ignored[:5]) + (", …" if len(self.ignored) > 5 else "")
            self.model.notes.append(f"rows of type N after the objective were ignored: {names}")
        return self.model.build(relax)

    def _header(self, words: list[str]) -> str:
        """Enter the section that a line opens."""
        section = words[0].upper()
        if section == "NAME":
            self.model.name = " ".join(words[1:])
        elif section == "OBJSENSE" and len(words) > 1:
            self._objsense(words[1:])
        elif section in REFUSED:
            self.place.fail(
                f"the section {section} states {REFUSED[section]}, which a linear or quadratic "
                "program does not have. Remove it, or state the model through cvxpy."
            )
        elif section not in SECTIONS | QUADRATIC:
            self.place.fail(
                f"{words[0]!r} is no section of an MPS file. Entries of a section begin with a "
                "blank."
            )
        return section

    def _line(self, section: str, fields: list[str]) -> None:
        if section in QUADRATIC:
            self._quadratic(section, fields)
        elif section in ("", "NAME", "ENDATA"):
            self.place.fail("an entry outside any section.")
        else:
            getattr(self, f"_{section.lower()}")(fields)

    def _objsense(self, fields: list[str]) -> None:
        word = fields[0].upper()
        if word not in SENSES:
            self.place.fail(f"{fields[0]!r} is no sense of an objective; expected MIN or MAX.")
        self.model.maximise = SENSES[word]

    def _objname(self, fields: list[str]) -> None:
        self.objective = fields[0]

    def _rows(self, fields: list[str]) -> None:
        if len(fields) != 2 or fields[0].upper() not in ("N", "E", "L", "G"):
            self.place.fail(f"expected a type (N, E, L or G) and a name; found {fields}.")
        sense, name = fields[0].upper(), fields[1]
        if name in self.where:
            self.place.fail(f"the row {name!r} is declared twice; names are unique.")
        if sense != "N":
            self.where[name] = self.model.add_row(name, sense)
        elif self.objective in ("", name):
            self.objective = name
            self.where[name] = OBJECTIVE
        else:
            self.where[name] = FREE_ROW
            self.ignored.append(name)

    def _columns(self, fields: list[str]) -> None:
        if len(fields) >= 3 and fields[1].strip("'") == "MARKER":
            kind = fields[-1].strip("'")
            if kind not in ("INTORG", "INTEND"):
                self.place.fail(f"{kind!r} is no marker; expected INTORG or INTEND.")
            self.integer = kind == "INTORG"
            return
        if len(fields) not in (3, 5):
            self.place.fail(f"expected a column, then a row and a number, or two; found {fields}.")
        if fields[0] != self.column:
            self.column = fields[0]
            if self.column in self.model.columns:
                self.place.fail(f"the column {self.column!r} comes back after others.")
            self.model.add_column(self.column)
            if self.integer:
                self.model.mark_integer(self.column)
        number = self.model.columns[self.column]
        for row, value in self._pairs(fields[1:]):
            if row == OBJECTIVE:
                if self.model.costs[number]:
                    self.place.fail(f"the cost of {self.column!r} is given twice.")
                self.model.costs[number] = value
            elif row != FREE_ROW:
                self.model.add_entry(row, number, value)

    def _rhs(self, fields: list[str]) -> None:
        for row, value in self._set_of_pairs("RHS", fields):
            if row != FREE_ROW and row in self.given:
                self.place.fail("this right-hand side is given twice.")
            self.given.add(row)
            if row == OBJECTIVE:
                self.model.constant = -value
            elif row != FREE_ROW:
                self.model.rhs[row] = value

    def _ranges(self, fields: list[str]) -> None:
        for row, value in self._set_of_pairs("RANGES", fields):
            if row >= 0:
                self.model.ranges[row] = value

    def _bounds(self, fields: list[str]) -> None:
        kind = fields[0].upper()
        name, value = self._bound_fields(kind, fields)
        if name is None:
            return
        model, k = self.model, self._column(name)
        self.bounded.add(k)
        if kind in ("BV", "LI", "UI"):
            model.mark_integer(name)
        if kind in ("LO", "LI", "FX"):
            model.lower[k] = value
            self.lower_set.add(k)
        if kind in ("UP", "UI", "FX"):
            model.upper[k] = value
            if kind != "FX" and value < 0 and k not in self.lower_set:
                model.lower[k] = -np.inf
                model.notes.append(f"{name} ≤ {value:g}: no lower bound, since none was set")
        if kind in ("FR", "MI"):
            model.lower[k] = -np.inf
            self.lower_set.add(k)
        if kind in ("FR", "PL"):
            model.upper[k] = np.inf
        if kind == "BV":
            model.lower[k], model.upper[k] = 0.0, 1.0
            self.lower_set.add(k)

    def _bound_fields(self, kind: str, fields: list[str]) -> tuple[str | None, float]:
        """Variable and number of a bound; None if it belongs to a set that is not used."""
        if kind == "SC":
            self.place.fail("a bound of type SC: semi-continuous variables are not convex.")
        if kind not in NO_VALUE | WITH_VALUE:
            known = ", ".join(sorted(NO_VALUE | WITH_VALUE))
            self.place.fail(f"a bound of type {fields[0]!r}; expected one of {known}.")
        rest = fields[1:]
        if kind in NO_VALUE:
            named = len(rest) > 1 and rest[1] in self.model.columns
            if not rest or (len(rest) == 1 and rest[0] not in self.model.columns):
                self.place.fail(f"expected the name of a column; found {rest}.")
            chosen, name, value = (rest[0] if named else ""), rest[int(named)], 0.0
        else:
            if len(rest) not in (2, 3):
                self.place.fail(f"expected a set, a column and a number; found {rest}.")
            chosen, name = (rest[0] if len(rest) == 3 else ""), rest[-2]
            value = self.place.number(rest[-1])
        return (name if self._uses("BOUNDS", chosen) else None), value

    def _quadratic(self, section: str, fields: list[str]) -> None:
        """An entry of Q; of QUADOBJ and QSECTION one triangle is given."""
        if len(fields) not in (3, 5):
            self.place.fail(f"expected two columns and a number; found {fields}.")
        i, products = self._column(fields[0]), self.model.products
        for name, text in zip(fields[1::2], fields[2::2], strict=True):
            j, value = self._column(name), self.place.number(text)
            places = {(i, j)} if section == "QMATRIX" else {(i, j), (j, i)}
            if not places.isdisjoint(products):
                hint = "" if section == "QMATRIX" else " Give one triangle, or call it QMATRIX."
                self.place.fail(f"the product of {fields[0]!r} and {name!r} comes twice.{hint}")
            products.update(dict.fromkeys(places, value))

    def _column(self, name: str) -> int:
        if name not in self.model.columns:
            self.place.fail(f"there is no column {name!r} in COLUMNS.")
        return self.model.columns[name]

    def _pairs(self, fields: list[str]) -> Iterator[tuple[int, float]]:
        """Rows and numbers, one or two of each."""
        for name, text in zip(fields[::2], fields[1::2], strict=True):
            if name not in self.where:
                self.place.fail(f"there is no row {name!r} in ROWS.")
            yield self.where[name], self.place.number(text)

    def _set_of_pairs(self, section: str, fields: list[str]) -> Iterator[tuple[int, float]]:
        """Those of the first set; its name may be missing."""
        if not 2 <= len(fields) <= 5:
            self.place.fail(f"expected a set, then a row and a number, or two; found {fields}.")
        named = len(fields) % 2
        chosen = fields[0] if named else ""
        return self._pairs(fields[named:]) if self._uses(section, chosen) else iter(())

    def _uses(self, section: str, chosen: str) -> bool:
        """Whether a set of right-hand sides, ranges or bounds is the first one of its section."""
        first = self.sets.setdefault(section, chosen)
        note = f"{section}: the set {chosen!r} was ignored; {first!r} is the first"
        if chosen != first and note not in self.model.notes:
            self.model.notes.append(note)
        return chosen == first

    def _binary_by_default(self) -> None:
        """Whole variables between markers without any bound are 0 or 1, as MPS has it."""
        for name in self.model.integers:
            k = self.model.columns[name]
            if k not in self.bounded:
                self.model.upper[k] = 1.0

    def _check_symmetric(self) -> None:
        products, names = self.model.products, list(self.model.columns)
        for (i, j), value in products.items():
            other = products.get((j, i), 0.0)
            if abs(value - other) > 1e-10 * max(abs(value), abs(other)):
                self.place.fail(
                    f"QMATRIX is not symmetric: {names[i]!r}, {names[j]!r} has {value:g} and "
                    f"{names[j]!r}, {names[i]!r} has {other:g}. One triangle alone is a QUADOBJ."
                )
