"""One column of a party's table and what becomes of it in a model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from dual2.errors import Refusal, counted
from dual2.learn.vertical.column_bases import (
    bin_names,
    bin_of,
    spline_columns,
    spline_names,
)
from dual2.learn.vertical.tables import Table, number_of, word_of

Array = np.ndarray
NUMBER, CATEGORY = "number", "category"
KINDS = (NUMBER, CATEGORY)
REFUSE, MEAN, MEDIAN, FREQUENT, OWN = "refuse", "mean", "median", "most frequent", "own category"
POLICIES = {NUMBER: (REFUSE, MEAN, MEDIAN, FREQUENT), CATEGORY: (REFUSE, FREQUENT, OWN)}
"""What may be done about a missing value, for each kind of column."""
PLAIN, BINS, WOE, SPLINES = "plain", "bins", "woe", "splines"
FORMS = (BINS, WOE, SPLINES)
"""What a number may become, but for itself."""
UNUSABLE = "some of its values cannot be used."


@dataclass(frozen=True)
class Column:
    """A column of the table as the party's file describes it.

    ``form`` and ``size`` say into how many bins or splines numbers are cut. ``drop`` leaves the
    first category or bin out, ``indicator`` adds a column that is 1 where the value is missing.
    """

    name: str
    kind: str = NUMBER
    missing: str = REFUSE
    form: str = PLAIN
    size: int = 0
    drop: bool = False
    indicator: bool = False


@dataclass(frozen=True)
class Prepared:
    """How one column enters the model.

    (value - mean)/scale, where the value may be that of its bin; or a 1 in the column of its
    category or bin; or the values of some splines.
    """

    name: str
    kind: str
    fill: float | str | None = None
    mean: float = 0.0
    scale: float = 1.0
    categories: tuple[str, ...] = ()
    form: str = PLAIN
    edges: tuple[float, ...] = ()  # between bins, or knots of splines
    codes: tuple[float, ...] = ()  # weights of evidence, one for each bin
    missing_bin: bool = False
    dropped: str | None = None  # the first category or bin
    indicator: bool = False

    @property
    def scaled(self) -> bool:
        """Whether it is a number that has a scale."""
        return self.kind == NUMBER and self.form in (PLAIN, WOE)

    @property
    def all_outputs(self) -> list[str]:
        """Names of its columns with the one that is dropped."""
        if self.kind == CATEGORY:
            return [f"{self.name}={value}" for value in self.categories]
        edges = np.array(self.edges)
        if self.form == BINS:
            return bin_names(self.name, edges) + [f"{self.name} missing"] * self.missing_bin
        if self.form == SPLINES:
            return spline_names(self.name, edges)
        return [f"{self.name} woe" if self.form == WOE else self.name]

    @property
    def outputs(self) -> list[str]:
        """Names of the columns of the model that come of it."""
        found = [name for name in self.all_outputs if name != self.dropped]
        return found + [f"{self.name} missing"] * self.indicator

    def matrix(self, table: Table, rows: Sequence[int] | Array) -> Array:
        """Its columns of the model."""
        if self.kind == CATEGORY:
            texts = filled_texts(texts_of(table, self.name, rows), table, self)
            places = {value: k for k, value in enumerate(self.categories)}
            block = marks([places.get(text, -1) for text in texts], len(self.categories))
            return self._kept(block)
        numbers = numbers_of(table, self.name, rows)
        block = self._kept(self._numbers(filled(numbers, table, self)))
        return np.hstack([block, np.isnan(numbers)[:, None]]) if self.indicator else block

    def _numbers(self, found: Array) -> Array:
        """The columns of numbers that are filled; NaN belongs to the bin of missing values."""
        edges = np.array(self.edges)
        if self.form == PLAIN:
            return ((found - self.mean) / self.scale)[:, None]
        if self.form == SPLINES:
            return spline_columns(found, edges)
        bins = np.where(np.isnan(found), len(edges) + 1, bin_of(found, edges))
        if self.form == BINS:
            return marks(bins, len(edges) + 1 + self.missing_bin)
        return ((np.array(self.codes)[bins] - self.mean) / self.scale)[:, None]

    def _kept(self, block: Array) -> Array:
        return block[:, [name != self.dropped for name in self.all_outputs]]


def marks(places: Sequence[int] | Array, width: int) -> Array:
    """A 1 in each row at its place, none where the place is -1."""
    block, found = np.zeros((len(places), width)), np.asarray(places, dtype=np.int64)
    known = found >= 0
    block[known, found[known]] = 1.0
    return block


def numbers_of(table: Table, name: str, rows: Any) -> Array:
    """Values as doubles, NaN where there is none."""
    rows = np.asarray(rows, dtype=np.int64)
    found = table.numbers(name)[rows]
    wrong = rows[np.isinf(found)]
    if wrong.size:
        raise Refusal(
            f"{table.where}: column {name!r} has {counted(len(wrong), 'value')} that "
            f"{'is' if len(wrong) == 1 else 'are'} no finite number (the first in row "
            f"{wrong.min() + 1}).{_decimal_comma(table, name, wrong)} Repair them, or call the "
            "column a category.",
            UNUSABLE,
        )
    return found


def _decimal_comma(table: Table, name: str, wrong: Array) -> str:
    """What to do if the values would be numbers with the other decimal mark."""
    other = "," if table.decimal == "." else "."
    values = [table.column(name)[row] for row in wrong]
    if not all(isinstance(v, str) and np.isfinite(number_of(v, other)) for v in values):
        return ""
    return f" If the file has numbers like 1{other}5, set decimal = {other!r} under [table]."


def texts_of(table: Table, name: str, rows: Any) -> list[str | None]:
    """Values as words, None where there is none."""
    values = table.column(name)
    return [None if values[row] is None else word_of(values[row]) for row in rows]


def filled(numbers: Array, table: Table, one: Prepared) -> Array:
    """Numbers with what stands for missing ones; NaN if these have a bin of their own."""
    missing = np.isnan(numbers)
    if not missing.any():
        return numbers
    if one.fill is None and one.missing_bin:
        return numbers
    if one.fill is None:
        own = (OWN,) if one.form in (BINS, WOE) else ()
        _refuse_missing(table, one.name, int(missing.sum()), POLICIES[NUMBER] + own)
    return np.where(missing, float(one.fill), numbers)


def filled_texts(texts: list[str | None], table: Table, one: Prepared) -> list[str]:
    """Words with what stands for missing ones."""
    missing = sum(text is None for text in texts)
    if missing and one.fill is None:
        _refuse_missing(table, one.name, missing, POLICIES[CATEGORY])
    return [str(one.fill) if text is None else text for text in texts]


def _refuse_missing(table: Table, name: str, count: int, policies: tuple[str, ...]) -> NoReturn:
    raise Refusal(
        f"{table.where}: column {name!r} lacks {counted(count, 'value')}. Say what to do about it: "
        f"missing = {' or '.join(repr(policy) for policy in policies[1:])}, in the party's file.",
        "some of its values are missing, and its own file does not say what to do about it.",
    )
