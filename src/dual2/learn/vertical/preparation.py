"""What a party does with its own columns before they enter a model; nobody else sees any of it.

Missing values are filled, numbers standardised or cut into bins or splines, categories become one
column each. What was found on the training rows (means, spreads, categories, edges) is kept with
the party's model.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NoReturn

import numpy as np

from dual2.errors import Refusal, counted
from dual2.learn.vertical.column_bases import (
    bin_of,
    quantile_edges,
    spline_columns,
    spline_knots,
    weights_of_evidence,
)
from dual2.learn.vertical.prepared_columns import (
    BINS,
    CATEGORY,
    FORMS,
    FREQUENT,
    MEAN,
    MEDIAN,
    NUMBER,
    OWN,
    PLAIN,
    REFUSE,
    SPLINES,
    UNUSABLE,
    WOE,
    Column,
    Prepared,
    filled,
    filled_texts,
    marks,
    numbers_of,
    texts_of,
)
from dual2.learn.vertical.tables import Table

Array = np.ndarray


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
        parts = [np.zeros((len(rows), 0)), *(one.matrix(table, rows) for one in self.columns)]
        return np.ascontiguousarray(np.hstack(parts))

    def unknown(self, table: Table, rows: Sequence[int] | Array) -> dict[str, int]:
        """How many values of each category column were not met in training; they count as none."""
        found = {}
        for one in self.columns:
            if one.kind == CATEGORY:
                texts = filled_texts(texts_of(table, one.name, rows), table, one)
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
        lists = {name: tuple(entry.get(name, ())) for name in ("categories", "edges", "codes")}
        fields: dict[str, Any] = entry | lists
        one = Prepared(**fields)
        numbers = [one.mean, one.scale, *one.edges, *one.codes]
        if one.kind == NUMBER:
            numbers += [] if one.fill is None else [one.fill]
        elif one.kind != CATEGORY or not all(isinstance(c, str) for c in one.categories):
            raise ValueError(f"{one.name!r} is of no known kind")
        if one.form not in (PLAIN, *FORMS):
            raise ValueError(f"{one.name!r} has the unknown form {one.form!r}")
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
    hits: Array | None = None,
) -> Preparation:
    """Means, spreads, categories, edges and fillings, from the training rows.

    Categories of fewer than ``least`` rows are left out, bins of fewer are refused. ``hits`` has 1
    for rows of the second class, for weights of evidence.
    """
    notes: list[str] = []
    made = []
    for column in columns:
        if column.kind == CATEGORY:
            made.append(_learn_category(column, table, rows, least, notes))
        else:
            made.append(_learn_number(column, table, rows, standardize, least, hits, notes))
    return Preparation(tuple(made), tuple(notes))


def _learn_category(
    column: Column, table: Table, rows: Any, least: int, notes: list[str]
) -> Prepared:
    texts = [text for text in texts_of(table, column.name, rows) if text is not None]
    fill = _choose(Counter(texts)) if column.missing == FREQUENT else None
    fill = "missing" if column.missing == OWN else fill
    made = Prepared(column.name, CATEGORY, fill)
    counts = Counter(filled_texts(texts_of(table, column.name, rows), table, made))
    found = sorted(value for value in counts if counts[value] >= least)
    if rare := len(counts) - len(found):
        notes.append(
            f"Column {column.name!r}: {counted(rare, 'category value')} with fewer than "
            f"{least} rows left out, since such a column would tell labels."
        )
    return _without_first(replace(made, categories=tuple(found)), column)


def _without_first(made: Prepared, column: Column) -> Prepared:
    """The first category or bin is what the others are compared with, if the party says so."""
    return replace(made, dropped=made.all_outputs[0]) if column.drop and made.all_outputs else made


def _learn_number(
    column: Column,
    table: Table,
    rows: Any,
    standardize: bool,
    least: int,
    hits: Array | None,
    notes: list[str],
) -> Prepared:
    numbers = numbers_of(table, column.name, rows)
    gaps = np.isnan(numbers)
    known = numbers[~gaps]
    made = Prepared(
        column.name,
        NUMBER,
        _number_fill(column.missing, known, bool(gaps.any())),
        form=column.form,
        missing_bin=column.missing == OWN and bool(gaps.any()),
        indicator=column.indicator and _is_worth_a_column(column, int(gaps.sum()), least, notes),
    )
    whole = filled(numbers, table, made)
    if whole.size and np.all(whole == whole[0]):
        notes.append(f"Column {column.name!r} has the same value in all training rows.")
    if not whole.size:
        return replace(made, form=PLAIN, indicator=False)
    if column.form == SPLINES:
        knots = spline_knots(whole, column.size)
        if len(knots) < 2:
            _refuse_form(column, table, "has one value only, of which no splines can be made")
        _demand_rows(column, table, spline_columns(whole, knots) > 0, least)
        return replace(made, edges=tuple(knots.tolist()))
    if column.form in (BINS, WOE):
        made = _with_bins(column, table, made, whole, least)
    if column.form == BINS:
        return _without_first(made, column)
    if column.form == WOE:
        assert hits is not None, "demanded before"
        edges = np.array(made.edges)
        bins = np.where(np.isnan(whole), len(edges) + 1, bin_of(whole, edges))
        codes, value = weights_of_evidence(bins, hits, len(edges) + 1 + made.missing_bin)
        notes.append(
            f"Column {column.name!r}: information value {value:.3f} over {len(codes)} bins. The "
            "weights come from all training rows, so figures of held-out rows are somewhat too "
            "good."
        )
        made, whole = replace(made, codes=tuple(codes.tolist())), codes[bins]
    return replace(made, **_spread(column, table, whole)) if standardize else made


def _number_fill(policy: str, known: Array, gaps: bool) -> float | None:
    """What is put in the place of a missing number, None if nothing.

    Numbers that are missing in new rows only have no bin of their own: they count as the median.
    """
    if policy == REFUSE or not known.size or (policy == OWN and gaps):
        return None
    if policy == MEAN:
        return float(known.mean())
    if policy in (MEDIAN, OWN):
        return float(np.median(known))
    return float(_choose(Counter(known.tolist())))


def _is_worth_a_column(column: Column, gaps: int, least: int, notes: list[str]) -> bool:
    """Whether enough values are missing for a column of their own."""
    if 0 < gaps < least:
        notes.append(
            f"Column {column.name!r}: {counted(gaps, 'missing value')}, fewer than {least}; no "
            "column is made of them, since it would tell labels."
        )
    return gaps >= max(1, least)


def _with_bins(column: Column, table: Table, made: Prepared, whole: Array, least: int) -> Prepared:
    """The same with edges between bins, none of which has too few rows."""
    edges = quantile_edges(whole[~np.isnan(whole)], column.size)
    if not len(edges) + made.missing_bin:
        _refuse_form(column, table, "has one value only, of which no bins can be made")
    made = replace(made, edges=tuple(edges.tolist()))
    bins = np.where(np.isnan(whole), len(edges) + 1, bin_of(whole, edges))
    _demand_rows(column, table, marks(bins, len(edges) + 1 + made.missing_bin) > 0, least)
    return made


def _demand_rows(column: Column, table: Table, used: Array, least: int) -> None:
    """Refuse a bin or spline of fewer than ``least`` rows: it would tell their labels."""
    fewest = int(used.sum(axis=0).min())
    if fewest < least:
        _refuse_form(
            column,
            table,
            f"has a column of {column.form} that is not zero in {counted(fewest, 'row')}, which "
            f"would tell labels; at least {least} are needed. Use fewer than {column.size}",
        )


def _refuse_form(column: Column, table: Table, what: str) -> NoReturn:
    raise Refusal(f"{table.where}: column {column.name!r} {what}.", UNUSABLE)


def _spread(column: Column, table: Table, whole: Array) -> dict[str, float]:
    """Mean and scale of the training rows; a column that does not vary keeps the scale 1."""
    with np.errstate(over="ignore", invalid="ignore"):
        mean, spread = float(whole.mean()), float(whole.std())
    if not math.isfinite(spread):
        _refuse_form(
            column, table, "has values so large that its spread is no double. Use other units"
        )
    flat = spread <= 10.0 * np.finfo(float).eps * abs(mean)
    return {"mean": mean, "scale": 1.0 if flat else spread}


def _choose(counts: Counter[Any]) -> Any:
    """The most frequent value, of several the smallest."""
    return min(counts, key=lambda value: (-counts[value], value)) if counts else None
