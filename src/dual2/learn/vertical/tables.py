"""A party's table: CSV, Parquet, or the answer of a SQL query. Read here, shown to nobody."""

import csv
import hashlib
import io
import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dual2.errors import CapabilityError, Refusal, counted
from dual2.files import read_bytes

Array = np.ndarray
MISSING = ("", "NA", "NaN", "nan", "NULL", "null")
"""Texts of a CSV file that mean that a value is missing."""
SUFFIXES = (".csv", ".parquet", ".pq")
UNREADABLE = "its table cannot be read."


@dataclass(frozen=True)
class CsvFormat:
    """How a CSV file is written: ``encoding`` by a name that Python knows."""

    encoding: str = "utf-8"
    decimal: str = "."
    delimiter: str = ","


PLAIN_CSV = CsvFormat()


@dataclass(frozen=True)
class Table:
    """Columns of one length; a missing value is None. ``where`` is what errors call it."""

    where: str
    columns: Mapping[str, Sequence[Any]]
    decimal: str = "."

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def column(self, name: str) -> Sequence[Any]:
        """The values of a column, or an error that says which there are."""
        if name not in self.columns:
            raise Refusal(
                f"{self.where} has no column {name!r}. Its columns: {', '.join(self.columns)}.",
                "its table lacks a column that its own file names.",
            )
        return self.columns[name]

    def digest(self, names: Sequence[str]) -> str:
        """Hash of some columns: what a restart must find again."""
        total = hashlib.sha256()
        for name in names:
            total.update(repr((name, list(self.column(name)))).encode())
        return total.hexdigest()

    def numbers(self, name: str) -> Array:
        """The values of a column as doubles, read once: NaN if missing, infinite if no number."""
        if name not in self._numbers:
            column = self.column(name)
            read = (math.nan if v is None else number_of(v, self.decimal) for v in column)
            self._numbers[name] = np.fromiter(read, np.float64, len(self))
        return self._numbers[name]

    @cached_property
    def _numbers(self) -> dict[str, Array]:
        return {}


def as_table(source: Any, where: str = "the table") -> Table:
    """A pandas frame or a mapping of columns as a table.

    Examples
    --------
    >>> as_table({"age": [61, None], "sex": ["f", "m"]}).column("age")
    [61, None]
    """
    if isinstance(source, Table):
        return source
    names = list(source.keys())
    columns = [[_plain(value) for value in list(source[name])] for name in names]
    return _named(where, [str(name) for name in names], columns)


def read_new(source: Any, how: CsvFormat = PLAIN_CSV) -> Table:
    """A table of new rows: a file, a frame or columns."""
    if isinstance(source, str | os.PathLike):
        return read_file(Path(source), how)
    return as_table(source, "the table of new rows")


def read_file(path: Path, how: CsvFormat = PLAIN_CSV) -> Table:
    r"""The table in a CSV or Parquet file.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "lab.csv"
    ...     _ = file.write_text("id,age\na1,61\na2,\n")
    ...     read_file(file).column("age")
    ['61', None]
    """
    if path.suffix.lower() == ".csv":
        return _read_csv(path, how)
    if path.suffix.lower() in (".parquet", ".pq"):
        return _read_parquet(path)
    raise Refusal(
        f"{path}: {path.suffix or 'no'} suffix found; expected one of {', '.join(SUFFIXES)}.",
        UNREADABLE,
    )


def _read_csv(path: Path, how: CsvFormat) -> Table:
    encoding = "utf-8-sig" if how.encoding.lower() in ("utf-8", "utf8") else how.encoding
    try:
        text = read_bytes(path).decode(encoding)
        stream = io.StringIO(text, newline="")
        rows = list(csv.reader(stream, delimiter=how.delimiter, strict=True))
    except UnicodeDecodeError as error:
        raise Refusal(
            f"{path} is no CSV in {how.encoding.upper()}: {error}. If it is written otherwise, say "
            'so under [table]: encoding = "latin-1" or "cp1252".',
            UNREADABLE,
        ) from error
    except csv.Error as error:
        raise Refusal(
            f"{path} is no CSV in {how.encoding.upper()}: {error}.", UNREADABLE
        ) from error
    rows = [row for row in rows if row]
    if not rows:
        raise Refusal(f"{path} is empty; expected a line with names, then rows.", UNREADABLE)
    names, wrong = rows[0], [k for k, row in enumerate(rows, 1) if len(row) != len(rows[0])]
    if wrong:
        raise Refusal(
            f"{path}: {counted(len(wrong), 'line')} (the first is {wrong[0]}) with other than "
            f"{len(names)} values.{_other_delimiter(names, how)}",
            UNREADABLE,
        )
    columns = zip(*rows[1:], strict=True) if len(rows) > 1 else ((),) * len(names)
    found = _named(path, names, [[_or_none(value) for value in column] for column in columns])
    return replace(found, decimal=how.decimal)


def _other_delimiter(names: Sequence[str], how: CsvFormat) -> str:
    """What to do if the line of names is one word with semicolons or tabs in it."""
    seen = next((mark for mark in ";\t|" if mark != how.delimiter and mark in names[0]), None)
    if seen is None:
        return ""
    return f" If values are separated by {seen!r}, say so under [table]: delimiter = {seen!r}."


def _read_parquet(path: Path) -> Table:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import read_table
    except ImportError as error:
        raise CapabilityError(
            f"{path}: Parquet needs the package pyarrow: pip install 'dual2[tables]'."
        ) from error
    try:
        found = read_table(io.BytesIO(read_bytes(path)))
    except ArrowException as error:
        raise Refusal(f"{path} is no Parquet file: {error}.", UNREADABLE) from error
    columns = [[_plain(value) for value in column.to_pylist()] for column in found.columns]
    return _named(path, found.column_names, columns)


def read_sql(url: str, query: str) -> Table:
    """The answer of a query, through SQLAlchemy; the address may contain a password, errors not.

    Examples
    --------
    >>> read_sql("sqlite://", "SELECT 'a1' AS id, 61 AS age").column("age")
    [61]
    """
    try:
        import sqlalchemy
        from sqlalchemy.exc import SQLAlchemyError
    except ImportError as error:
        raise CapabilityError(
            "A SQL query needs the package sqlalchemy: pip install 'dual2[tables]'."
        ) from error
    try:
        engine = sqlalchemy.create_engine(url)
        try:
            with engine.connect() as connection:
                answer = connection.execute(sqlalchemy.text(query))
                names, rows = list(answer.keys()), answer.fetchall()
        finally:
            engine.dispose()
    except (SQLAlchemyError, ImportError) as error:
        kind = type(error).__name__
        text = str(getattr(error, "orig", None) or kind)
        raise Refusal(f"The query of the table failed ({kind}): {text}.", UNREADABLE) from None
    columns = [[_plain(row[k]) for row in rows] for k in range(len(names))]
    return _named("the answer of the query", names, columns)


def _named(where: Any, names: Sequence[str], columns: Sequence[list[Any]]) -> Table:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise Refusal(f"{where}: two columns are called {min(twice)!r}.", UNREADABLE)
    if len({len(column) for column in columns}) > 1:
        raise Refusal(f"{where} has columns of different lengths.", UNREADABLE)
    return Table(str(where), dict(zip(names, columns, strict=True)))


def _or_none(text: str) -> str | None:
    return None if text.strip() in MISSING else text


def _plain(value: Any) -> Any:
    """A value as Python has it; NaN and the like of pandas are missing."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and math.isnan(value) else value


def number_of(value: Any, decimal: str = ".") -> float:
    """A value as a double, infinite where it is no number that others would read too.

    Examples
    --------
    >>> number_of(" 1.5"), number_of("1_000"), number_of("two"), number_of("1,5", ",")
    (1.5, inf, inf, 1.5)
    """
    if isinstance(value, str) and ("_" in value or not value.isascii()):
        return math.inf  # Python reads them, nobody else does
    if isinstance(value, str) and decimal != ".":
        value = "" if "." in value else value.replace(decimal, ".")  # a point would mark thousands
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.inf


def word_of(value: Any) -> str:
    """A value as text; whole numbers have the same in every kind of table.

    Examples
    --------
    >>> word_of(3.0), word_of("3"), word_of(2.5)
    ('3', '3', '2.5')
    """
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
