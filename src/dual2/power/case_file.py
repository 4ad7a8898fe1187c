"""MATPOWER case files (``case.m``), read as data: nothing in them is executed.

A case file is a MATLAB function that fills a struct. Of that language only assignments of numbers,
texts, matrices and cell arrays to the fields of the struct are understood (format version 2;
Zimmerman, Murillo-Sánchez & Thomas, *IEEE Trans. Power Systems* 26, 2011); anything else, such as
a formula, is refused with its line.
"""

import re
from typing import Any, NoReturn

import numpy as np

from dual2.errors import ProblemError
from dual2.files.reading import AnyPath, read_bytes
from dual2.functions.arguments import Array

MOST_BYTES = 64 * 2**20
"""Largest case file; 80 000 buses take half of it."""

_REMARK = re.compile(r"'[^'\n]*'|%[^\n]*|\.\.\.[^\n]*(?:\n|$)")
_GAP = re.compile(r"[\s;,]*")
_FUNCTION = re.compile(r"function\s+(\w+)\s*=\s*\w+|(?:end|return)\b")
_FIELD = re.compile(r"(\w+)\.(\w+)[ \t]*=[ \t]*")
_VALUE = re.compile(
    r"\[(?P<matrix>[^\]\[]*+)\]|(?P<cells>\{(?:[^'{}]++|'[^'\n]*')*+\})|'(?P<text>[^'\n]*+)'|"
    r"(?P<number>[^\s;,'\[\]{}]++)"
)
_END = re.compile(r"[ \t]*(?:[;,\n]|$)")


def read_case(path: AnyPath) -> dict[str, Any]:
    r"""The fields of a case file: matrices as arrays, numbers and texts, no cell arrays.

    Remarks may be in any encoding that leaves ASCII what it is.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> text = "function mpc = two\nmpc.baseMVA = 100; % MVA\nmpc.bus = [1 3; 2 1];"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pathlib.Path(folder, "two.m").write_text(text)
    ...     read_case(pathlib.Path(folder, "two.m"))["bus"].tolist()
    [[1.0, 3.0], [2.0, 1.0]]
    """
    return parse_case(read_bytes(path, MOST_BYTES).decode(errors="replace"), path)


def parse_case(text: str, name: AnyPath) -> dict[str, Any]:
    """The fields of the text of a case file; ``name`` is what errors call it."""
    text = _REMARK.sub(_without_remark, text.replace("\r\n", "\n"))
    found: dict[str, Any] = {}
    place, struct = _skip(text, 0), None
    while place < len(text):
        if head := _FUNCTION.match(text, place):
            struct, place = head[1] or struct, _skip(text, head.end())
            continue
        field = _FIELD.match(text, place)
        value = field and _VALUE.match(text, field.end())
        owned = field is not None and field[1] == (struct or "mpc")
        if not (field and value and owned and _END.match(text, value.end())):
            _refuse(text, place, name, "a statement that is no plain assignment of data")
        if value["cells"] is None:
            found[field[2]] = _read(value, text, field, name)
        place = _skip(text, value.end())
    if not found:
        _refuse(text, 0, name, "no field of a case")
    return found


def _without_remark(found: re.Match[str]) -> str:
    """Texts stay; a remark goes; a line that is continued is joined with the next."""
    return found[0] if found[0][0] == "'" else "" if found[0][0] == "%" else " "


def _skip(text: str, place: int) -> int:
    gap = _GAP.match(text, place)
    return gap.end() if gap else place


def _read(value: re.Match[str], text: str, field: re.Match[str], name: AnyPath) -> Any:
    if value["text"] is not None:
        return value["text"]
    try:
        if value["number"] is not None:
            return _number(value["number"])
        return _matrix(value["matrix"])
    except ValueError as error:
        _refuse(text, field.start(), name, f"in {field[2]!r} {error}")


def _number(token: str) -> float:
    if "_" in token:
        raise ValueError(f"{token!r}, which is no number")
    try:
        return float(token)
    except ValueError:
        raise ValueError(f"{token[:40]!r}, which is no number") from None


def _matrix(body: str) -> Array:
    rows = [
        [_number(token) for token in row.replace(",", " ").split()]
        for row in re.split("[;\n]", body)
    ]
    rows = [row for row in rows if row]
    lengths = sorted({len(row) for row in rows})
    if len(lengths) > 1:
        raise ValueError(f"rows of {lengths[0]} and of {lengths[-1]} numbers")
    return np.array(rows) if rows else np.zeros((0, 0))


def _refuse(text: str, place: int, name: AnyPath, what: str) -> NoReturn:
    line = text.count("\n", 0, place) + 1
    shown = text[place : place + 60].split("\n")[0].strip()
    raise ProblemError(
        f"{name} cannot be read as a MATPOWER case: line {line} ({shown!r}): found {what}; "
        "expected 'mpc.name = number, text or matrix;'. Formulas are not executed: save the case "
        "with MATPOWER's savecase, or give the arrays as a dict."
    )
