"""What a party does with its own columns before they enter a model; nobody else sees any of it.

Missing values are filled, numbers standardised, categories become one column each. What was found
on the training rows (means, spreads, categories) is kept with the party's model.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NoReturn

import numpy as np

from dual2.errors import Refusal, counted
from dual2.learn.vertical.tables import Table, word_of

Array = np.ndarray
NUMBER, CATEGORY = "number", "category"
KINDS = (NUMBER, CATEGORY)
REFUSE, MEAN, MEDIAN, FREQUENT, OWN = "refuse", "mean", "median", "most frequent", "own category"
POLICIES = {NUMBER: (REFUSE, MEAN, MEDIAN, FREQUENT), CATEGORY: (REFUSE, FREQUENT, OWN)}
"""What may be done about a missing value, for each kind of column."""
_WRONG = "some of its values cannot be used."


@dataclass(frozen=True)
class Column:
    """A column of the table as the party's file describes it."""

    name: str
    kind: str = NUMBER
    missing: str = REFUSE


@dataclass(frozen=True)
class Prepared:
    """How one column enters the model: (value - mean)/scale, or a 1 in its category's column."""

    name: str
    kind: str
    fill: float | str | None = None
    mean: float = 0.0
    scale: float = 1.0
    categories: tuple[str, ...] = ()

    @property
    def outputs(self) -> list[str]:
        """Names of the columns of the model that come of it."""
        if self.kind == NUMBER:
            return [self.name]
        return [f"{self.name}={value}" for value in self.categories]


@dataclass(frozen=True)
class Preparation:
    """Of all columns of one party.

    Examples
    --------
    >>> from dual2.learn.vertical.tables import as_table
    >>> table = as_table({"age": [40, 60, None], "sex": ["f", "m", "f"]})
    >>> columns = [Column("age", NUMBER, MEAN), Column("sex", CATEGORY)]
    >>> made = learn_preparation(columns, table, [0, 1, 2], standardize=False)
    >>> made.outputs, made.apply(table, [0, 2]).tolist()
    (['age', 'sex=f', 'sex=m'], [[40.0, 1.0, 0.0], [50.0, 1.0, 0.0]])
    """

    columns: tuple[Prepared, ...]
    notes: tuple[str, ...] = ()  # for the owner: constant columns, categories that are left out

    @property
    def outputs(self) -> list[str]:
        """Names of the columns of the model."""
        return [name for column in self.columns for name in column.outputs]

    def apply(self, table: Table, rows: Sequence[int] | Array) -> Array:
        """The party's matrix of some rows."""
        parts = [np.zeros((len(rows), 0))]
        for one in self.columns:
            if one.kind == NUMBER:
                found = _filled(_numbers(table, one.name, rows), table, one)
                parts.append(((found - one.mean) / one.scale)[:, None])
            else:
                texts = _filled_texts(_texts(table, one.name, rows), table, one)
                places = {value: k for k, value in enumerate(one.categories)}
                block = np.zeros((len(rows), len(one.categories)))
                known = [(j, places[text]) for j, text in enumerate(texts) if text in places]
                if known:
                    block[tuple(np.array(known).T)] = 1.0
                parts.append(block)
        return np.ascontiguousarray(np.hstack(parts))

    def unknown(self, table: Table, rows: Sequence[int] | Array) -> dict[str, int]:
        """How many values of each category column were not met in training; they count as none."""
        found = {}
        for one in self.columns:
            if one.kind == CATEGORY:
                texts = _filled_texts(_texts(table, one.name, rows), table, one)
                count = sum(text not in one.categories for text in texts)
                found |= {one.name: count} if count else {}
        return found

    def as_list(self) -> list[dict[str, Any]]:
        """For JSON."""
        return [asdict(column) for column in self.columns]


def read_preparation(document: list[dict[str, Any]]) -> Preparation:
    """What :meth:`Preparation.as_list` wrote."""
    made = []
    for entry in document:
        fields: dict[str, Any] = entry | {"categories": tuple(entry["categories"])}
        one = Prepared(**fields)
        numbers = [one.mean, one.scale]
        if one.kind == NUMBER:
            numbers += [] if one.fill is None else [one.fill]
        elif one.kind != CATEGORY or not all(isinstance(c, str) for c in one.categories):
            raise ValueError(f"{one.name!r} is of no known kind")
        if not all(isinstance(v, int | float) and math.isfinite(v) for v in numbers):
            raise ValueError(f"{one.name!r} is prepared by what is no finite number")
        if one.scale == 0:
            raise ValueError(f"{one.name!r} is divided by 0")
        made.append(one)
    return Preparation(tuple(made))


def learn_preparation(
    columns: Sequence[Column],
    table: Table,
    rows: Sequence[int] | Array,
    standardize: bool,
    least: int = 1,
) -> Preparation:
    """Means, spreads, categories and fillings, from the training rows.

    Categories of fewer than ``least`` rows are left out.
    """
    notes: list[str] = []
    made = [_learn(column, table, rows, standardize, least, notes) for column in columns]
    return Preparation(tuple(made), tuple(notes))


def _learn(
    column: Column, table: Table, rows: Any, standardize: bool, least: int, notes: list[str]
) -> Prepared:
    if column.kind == CATEGORY:
        texts = [text for text in _texts(table, column.name, rows) if text is not None]
        fill = _choose(Counter(texts)) if column.missing == FREQUENT else None
        fill = "missing" if column.missing == OWN else fill
        made = Prepared(column.name, CATEGORY, fill)
        counts = Counter(_filled_texts(_texts(table, column.name, rows), table, made))
        found = sorted(value for value in counts if counts[value] >= least)
        if rare := len(counts) - len(found):
            notes.append(
                f"Column {column.name!r}: {counted(rare, 'category value')} with fewer than "
                f"{least} rows left out, since such a column would tell labels."
            )
        return Prepared(column.name, CATEGORY, fill, categories=tuple(found))
    numbers = _numbers(table, column.name, rows)
    known = numbers[~np.isnan(numbers)]
    fill = None
    if column.missing != REFUSE and known.size:
        fill = {
            MEAN: lambda: float(known.mean()),
            MEDIAN: lambda: float(np.median(known)),
            FREQUENT: lambda: float(_choose(Counter(known.tolist()))),
        }[column.missing]()
    whole = _filled(numbers, table, Prepared(column.name, NUMBER, fill))
    if whole.size and np.all(whole == whole[0]):
        notes.append(f"Column {column.name!r} has the same value in all training rows.")
    if not standardize or not whole.size:
        return Prepared(column.name, NUMBER, fill)
    with np.errstate(over="ignore", invalid="ignore"):
        mean, spread = float(whole.mean()), float(whole.std())
    if not math.isfinite(spread):
        raise Refusal(
            f"{table.where}: column {column.name!r} has values so large that its spread is no "
            "double. Use other units.",
            _WRONG,
        )
    flat = spread <= 10.0 * np.finfo(float).eps * abs(mean)
    return Prepared(column.name, NUMBER, fill, mean, 1.0 if flat else spread)


def _choose(counts: Counter[Any]) -> Any:
    """The most frequent value, of several the smallest."""
    return min(counts, key=lambda value: (-counts[value], value)) if counts else None


def _numbers(table: Table, name: str, rows: Any) -> Array:
    """Values as doubles, NaN where there is none."""
    rows = np.asarray(rows, dtype=np.int64)
    found = table.numbers(name)[rows]
    wrong = rows[np.isinf(found)]
    if wrong.size:
        raise Refusal(
            f"{table.where}: column {name!r} has {counted(len(wrong), 'value')} that "
            f"{'is' if len(wrong) == 1 else 'are'} no finite number (the first in row "
            f"{wrong[0] + 1}). Repair them, or call the column a category.",
            _WRONG,
        )
    return found


def _texts(table: Table, name: str, rows: Any) -> list[str | None]:
    values = table.column(name)
    return [None if values[row] is None else word_of(values[row]) for row in rows]


def _filled(numbers: Array, table: Table, one: Prepared) -> Array:
    missing = np.isnan(numbers)
    if not missing.any():
        return numbers
    if one.fill is None:
        _refuse_missing(table, one.name, int(missing.sum()), POLICIES[NUMBER])
    return np.where(missing, float(one.fill), numbers)


def _filled_texts(texts: list[str | None], table: Table, one: Prepared) -> list[str]:
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
