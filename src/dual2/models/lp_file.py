"""Reader of files in the LP format: objective, constraints and bounds as algebra."""

import math
import re
from pathlib import Path

from dual2.models.builder import ModelBuilder
from dual2.models.lp_tokens import RELATIONS, Expression, Tokens, cut_sections
from dual2.models.model import Model
from dual2.models.source import Place, read_lines

FLIPPED = {"L": "G", "G": "L", "E": "E"}
INFINITY = re.compile(r"inf(inity)?$", re.IGNORECASE)


def read_lp(path: str | Path, *, relax: bool = False) -> Model:
    """Read a file in the LP format, packed by gzip if its name ends in .gz.

    Variables are at least 0 unless the section Bounds says otherwise. Squares and products stand in
    brackets; in the objective ``[ … ] / 2``.

    Parameters
    ----------
    path : str or Path
        The file.
    relax : bool
        Read variables that must be whole as continuous ones, instead of refusing the file.

    Raises
    ------
    ProblemError
        Names the line of the file.
    """
    return _LpReader(path).read(read_lines(path), relax)


class _LpReader:
    """One method for each section."""

    def __init__(self, path: str | Path) -> None:
        self.place = Place(path)
        self.model = ModelBuilder(self.place)
        self.lower_set: set[int] = set()

    def read(self, lines: list[str], relax: bool) -> Model:
        """The model of these lines."""
        for section, tokens in cut_sections(lines, self.place):
            getattr(self, f"_{section}")(tokens)
        return self.model.build(relax)

    def _minimise(self, tokens: Tokens) -> None:
        if tokens.at_label():
            tokens.label()
        found = tokens.expression(quadratic=True)
        if tokens.more():
            self.place.fail(f"{tokens.peek()!r} does not belong to an objective.")
        model = self.model
        model.constant = found.constant
        for name, value in found.linear.items():
            model.costs[self._column(name)] = value
        for (first, second), value in found.products.items():
            i, j = self._column(first), self._column(second)
            for place in {(i, j), (j, i)}:
                weight = 2 * value if i == j else value
                model.products[place] = model.products.get(place, 0.0) + weight

    def _maximise(self, tokens: Tokens) -> None:
        self.model.maximise = True
        self._minimise(tokens)

    def _constraints(self, tokens: Tokens) -> None:
        while tokens.more():
            name = tokens.label() if tokens.at_label() else self._unused_name()
            self._constraint(name, tokens)

    def _constraint(self, name: str, tokens: Tokens) -> None:
        """``a <= expression <= b``, or with one side only."""
        first = tokens.expression()
        sense = self._relation(tokens)
        if first.linear:
            middle, end = first, self._bound(tokens)
        else:
            middle, end, sense = tokens.expression(), first.constant, FLIPPED[sense]
        if not middle.linear:
            self.place.fail(f"constraint {name!r} has no variables.")
        row = self.model.add_row(name, sense)
        for variable, value in middle.linear.items():
            self.model.add_entry(row, self._column(variable), value)
        self.model.rhs[row] = end - middle.constant
        if not first.linear and tokens.peek() in RELATIONS:
            self._second_end(name, row, tokens, middle)

    def _second_end(self, name: str, row: int, tokens: Tokens, middle: Expression) -> None:
        """The other end of a range."""
        sense = self._relation(tokens)
        mine, shift = self.model.senses[row], self._bound(tokens) - middle.constant
        if {sense, mine} != {"L", "G"}:
            self.place.fail(f"the range of constraint {name!r} needs one end on each side.")
        reach = (shift - self.model.rhs[row]) * (1 if mine == "G" else -1)
        if reach < 0:
            self.place.fail(f"the ends of constraint {name!r} exclude each other.")
        self.model.ranges[row] = reach

    def _bounds(self, tokens: Tokens) -> None:
        while tokens.more():
            if tokens.is_name() and not INFINITY.match(tokens.peek()):
                name = tokens.take()
                if tokens.more() and tokens.peek().lower() == "free":
                    tokens.take()
                    self._set_bound(name, "G", -math.inf)
                    self._set_bound(name, "L", math.inf)
                else:
                    self._set_bound(name, self._relation(tokens), self._bound(tokens))
                continue
            value, sense = self._bound(tokens), self._relation(tokens)
            if not tokens.is_name():
                self.place.fail("expected the name of a variable.")
            name = tokens.take()
            self._set_bound(name, FLIPPED[sense], value)
            if tokens.more() and tokens.peek() in RELATIONS:
                self._set_bound(name, self._relation(tokens), self._bound(tokens))

    def _set_bound(self, name: str, sense: str, value: float) -> None:
        """Take a bound; as in MPS, a negative upper one takes away a lower one nobody has set."""
        k, model = self._column(name), self.model
        if sense in "EG":
            model.lower[k] = value
            self.lower_set.add(k)
        if sense in "EL":
            model.upper[k] = value
        if sense == "L" and value < 0 and k not in self.lower_set:
            model.lower[k] = -math.inf
            model.notes.append(f"{name} ≤ {value:g}: no lower bound, since none was set")

    def _generals(self, tokens: Tokens) -> None:
        while tokens.more():
            name = tokens.take()
            self._column(name)
            self.model.mark_integer(name)

    def _binaries(self, tokens: Tokens) -> None:
        while tokens.more():
            name = tokens.take()
            k = self._column(name)
            self.model.mark_integer(name)
            self.model.lower[k], self.model.upper[k] = 0.0, 1.0

    def _bound(self, tokens: Tokens) -> float:
        """A number or an infinity, with its signs."""
        sign = 1.0
        while tokens.more() and tokens.peek() in ("+", "-"):
            sign *= -1.0 if tokens.take() == "-" else 1.0
        if tokens.more() and INFINITY.match(tokens.peek()):
            tokens.take()
            return sign * math.inf
        return sign * self.place.number(tokens.take())

    def _relation(self, tokens: Tokens) -> str:
        found = tokens.take()
        if found not in RELATIONS:
            self.place.fail(f"expected <=, >= or =; found {found!r}.")
        return RELATIONS[found]

    def _column(self, name: str) -> int:
        if name not in self.model.columns:
            return self.model.add_column(name)
        return self.model.columns[name]

    def _unused_name(self) -> str:
        k = len(self.model.senses) + 1
        while f"R{k}" in self.model.rows:
            k += 1
        return f"R{k}"
