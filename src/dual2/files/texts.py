"""TOML and JSON texts that somebody else may have written; CSV of our own.

The parsers of the standard library execute nothing, but nesting, long dotted keys and masses of
tables cost them far more than the text has bytes. So a text is measured first.
"""

import csv
import io
import json
import re
import tomllib
from collections.abc import Callable, Iterable
from typing import Any

from dual2.errors import ProblemError
from dual2.files.reading import MOST_TEXT, AnyPath, read_text

MOST_DEPTH = 32
"""Most tables and lists inside one another, and parts of a dotted key."""
MOST_ENTRIES = 50_000
"""Most tables and keys of a TOML text; :mod:`tomllib` keeps some 700 bytes for each table."""
MOST_LISTS = 1_000_000
MOST_INTEGER = 2**63
_MASSES = "it has too many tables, keys or lists; keep arrays in an npz file"

_TOKENS = re.compile(
    r'"""(?:[^"\\]++|\\.|"(?!""))*+"{3,5}+|'
    r"'''(?:[^']++|'(?!''))*+'{3,5}+|"
    r'"""|' + "'''|" + r'"(?:[^"\\\n]++|\\.)*+"|' + r"'[^'\n]*+'|#[^\n]*+|,[\s\d,]*+|[\[\]{}.=\n]",
    re.DOTALL,
)
"""Texts in quotes, remarks, and the signs that structure TOML; a comma with what is no sign."""


def parse_toml(text: str, name: AnyPath) -> dict[str, Any]:
    """The document of a TOML text; ``name`` is what errors call it.

    Examples
    --------
    >>> parse_toml("a = [1, 2.5]", "note")
    {'a': [1, 2.5]}
    >>> parse_toml("n = 1" + 400 * "0", "note.toml")
    Traceback (most recent call last):
    dual2.errors.ProblemError: note.toml, n: a whole number of 401 digits found; expected ...
    """
    return _parsed("TOML", _loads_toml, text, name)


def parse_json(text: str, name: AnyPath) -> Any:
    """The document of a JSON text; ``name`` is what errors call it.

    Examples
    --------
    >>> parse_json('{"a": [1, 2.5]}', "note")
    {'a': [1, 2.5]}
    """
    return _parsed("JSON", json.loads, text, name)


def read_toml(path: AnyPath) -> dict[str, Any]:
    """The document of a TOML file."""
    return parse_toml(read_text(path), path)


def read_json(path: AnyPath) -> Any:
    """The document of a JSON file."""
    return parse_json(read_text(path), path)


def to_csv(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """A table as CSV; every number can be read back exactly."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows([head, *rows])
    return buffer.getvalue()


def _parsed(kind: str, parse: Callable[[str], Any], text: str, name: AnyPath) -> Any:
    if len(text) > MOST_TEXT:
        raise ProblemError(
            f"{name} has {len(text)} characters of {kind}; expected at most {MOST_TEXT}. Keep "
            "large arrays in an npz file."
        )
    try:
        document = parse(text)
    except RecursionError as error:
        raise ProblemError(f"{name} is not valid {kind}: it is nested too deeply.") from error
    except ValueError as error:
        raise ProblemError(f"{name} is not valid {kind}: {error}.") from error
    _demand_plain(document, "", name)
    return document


def _loads_toml(text: str) -> dict[str, Any]:
    _measure(text)
    return tomllib.loads(text)


def _measure(text: str) -> None:
    """A ValueError where parsing would cost out of all proportion."""
    if text.count("[") + text.count("{") > MOST_LISTS or text.count("=") > 2 * MOST_ENTRIES:
        raise ValueError(_MASSES)
    depth = dots = entries = 0
    fresh, header = True, False
    for found in _TOKENS.finditer(text):
        token = found[0]
        if token in ('"""', "'''"):
            raise ValueError(f"the text that {token} begins does not end")
        if token == ".":
            dots += 1
        elif token in "[{":
            header = token == "[" and depth == 0 and (fresh or header)
            depth, dots = depth + 1, 0
            entries += token == "{" or header
        elif token in "]}":
            entries += dots if header else 0
            depth, dots = max(depth - 1, 0), 0
        elif token[0] in "=,\n":
            entries += dots + 1 if token == "=" else 0
            dots, header = 0, header and token != "\n"
        fresh = token == "\n"
        if depth > MOST_DEPTH or dots > MOST_DEPTH:
            raise ValueError(f"it is nested more than {MOST_DEPTH} times")
        if entries > MOST_ENTRIES:
            raise ValueError(_MASSES)


def _demand_plain(value: Any, where: str, name: AnyPath, depth: int = 0) -> None:
    """Only tables, lists, text, truth values, numbers of 64 bits; not too deep."""
    if depth > 2 * MOST_DEPTH:
        raise ProblemError(f"{name} is nested more than {2 * MOST_DEPTH} times.")
    if isinstance(value, dict):
        for key, member in value.items():
            _demand_plain(member, f"{where}.{key}" if where else str(key), name, depth + 1)
    elif isinstance(value, list):
        for k, member in enumerate(value):
            if type(member) is not float:
                _demand_plain(member, f"{where}[{k}]", name, depth + 1)
    elif isinstance(value, int) and not -MOST_INTEGER <= value < MOST_INTEGER:
        digits = len(str(abs(value)))
        raise ProblemError(
            f"{name}, {where}: a whole number of {digits} digits found; expected one of 64 bits. "
            "Write it as a real number."
        )
    elif value is not None and not isinstance(value, bool | int | float | str):
        raise ProblemError(
            f"{name}, {where}: {value} found, a {type(value).__name__}; expected numbers, text, "
            "truth values, lists and tables."
        )
