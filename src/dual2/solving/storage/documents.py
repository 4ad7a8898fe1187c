"""Documents: nested dictionaries with numbers, text and arrays, stored as TOML or npz.

A TOML file holds everything a person may want to read or edit. Arrays above a size limit are
replaced by ``{array = "key"}`` and live under that key in an npz file: the one of the same name
beside the TOML file, or the document's own npz file, where the TOML text is the entry
``document``. No pickles are written or read.

The TOML writer is our own because people read these files: tomli-w puts every number of an array on
a line of its own, some 220 lines for a matrix of 20 rows and 10 columns.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dual2.errors import ProblemError
from dual2.files import parse_toml, read_arrays, read_text, write_arrays, write_atomically

TEXT = "document"
"""Key of the TOML text inside an npz file."""


def to_json(document: dict[str, Any]) -> str:
    """Strict JSON text: numbers that JSON does not know become the words inf, -inf, nan.

    A list of plain values is one line, so that every agent, row or vector has a line of its own.

    Examples
    --------
    >>> print(to_json({"L": float("inf"), "n": np.int64(3), "x": [[1.0, 2.0], [3.0]]}), end="")
    {
     "L": "inf",
     "n": 3,
     "x": [
      [1.0, 2.0],
      [3.0]
     ]
    }
    """
    return _laid_out(_spelled(document), "\n") + "\n"


def _laid_out(value: Any, break_: str) -> str:
    """JSON text in which what holds tables or lists goes over several lines, the rest over one."""
    members = list(value.values()) if isinstance(value, dict) else value
    flat = not isinstance(value, dict | list) or not members
    if flat or (isinstance(value, list) and not any(isinstance(m, dict | list) for m in members)):
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    deeper = break_ + " "
    texts = [_laid_out(member, deeper) for member in members]
    if isinstance(value, dict):
        texts = [
            f"{json.dumps(name, ensure_ascii=False)}: {text}"
            for name, text in zip(value, texts, strict=True)
        ]
    first, last = "{}" if isinstance(value, dict) else "[]"
    return first + deeper + f",{deeper}".join(texts) + break_ + last


def _spelled(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _spelled(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_spelled(member) for member in value]
    if isinstance(value, np.generic | np.ndarray):
        return _spelled(value.tolist())
    return str(value) if isinstance(value, float) and not np.isfinite(value) else value


_WORDS = {"inf": float("inf"), "-inf": float("-inf"), "nan": float("nan")}


def numbers_of_words(value: Any) -> Any:
    """The words inf, -inf, nan as numbers again; the inverse of :func:`to_json`.

    Examples
    --------
    >>> numbers_of_words({"L": ["inf", 2]})
    {'L': [inf, 2]}
    """
    if isinstance(value, dict):
        return {name: numbers_of_words(member) for name, member in value.items()}
    if isinstance(value, list):
        return [numbers_of_words(member) for member in value]
    return _WORDS.get(value, value) if isinstance(value, str) else value


def to_toml(document: dict[str, Any]) -> str:
    """TOML text of a nested dictionary: one section per table, tables inside them inline.

    Examples
    --------
    >>> print(to_toml({"format": 1, "h": {"function": "L1Norm", "weight": 0.5}}), end="")
    format = 1
    <BLANKLINE>
    [h]
    function = "L1Norm"
    weight = 0.5
    """
    tables = {name: value for name, value in document.items() if isinstance(value, dict)}
    text = _lines({name: value for name, value in document.items() if name not in tables})
    return text + "".join(f"\n[{_key(name)}]\n{_lines(table)}" for name, table in tables.items())


def _lines(table: dict[str, Any]) -> str:
    return "".join(f"{_key(name)} = {_value(value)}\n" for name, value in table.items())


def _key(name: str) -> str:
    plain = name.replace("_", "").replace("-", "")
    return name if plain.isascii() and plain.isalnum() else json.dumps(name, ensure_ascii=False)


def _value(value: Any) -> str:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, bool | str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items()) + "}"
    members = [_value(member) for member in value]
    rows = len(value) > 1 and all(isinstance(member, list) for member in value)
    return "[\n  " + ",\n  ".join(members) + "\n]" if rows else f"[{', '.join(members)}]"


def split(value: Any, limit: float, where: str = "") -> tuple[Any, dict[str, NDArray[Any]]]:
    """Take arrays with more than ``limit`` entries out of a document.

    Returns the document with ``{"array": key}`` in the place of each array taken out, and the
    arrays by key; a key tells the place, like ``h.y``.
    """
    if isinstance(value, np.ndarray):
        return ({"array": where}, {where: value}) if value.size > limit else (value, {})
    if not isinstance(value, dict | list):
        return value, {}
    parts, arrays = {}, {}
    for name, member in value.items() if isinstance(value, dict) else enumerate(value):
        place = f"{where}.{name}" if where else str(name)
        parts[name], found = split(member, limit, place)
        arrays |= found
    return (list(parts.values()) if isinstance(value, list) else parts), arrays


def join(value: Any, arrays: dict[str, NDArray[Any]], path: Path) -> Any:
    """Put the arrays back, the inverse of :func:`split`; each is used up, none serves twice."""
    if isinstance(value, list):
        return [join(member, arrays, path) for member in value]
    if not isinstance(value, dict):
        return value
    if value.keys() != {"array"}:
        return {name: join(member, arrays, path) for name, member in value.items()}
    key = value["array"]
    if not isinstance(key, str) or key not in arrays:
        raise ProblemError(
            f"{path} refers to the array {key!r}, which is not in "
            f"{path.with_suffix('.npz').name}, or for a second time. "
            f"Left there: {', '.join(arrays) or 'nothing'}."
        )
    found = arrays.pop(key)
    if found.dtype.kind == "U":
        raise ProblemError(f"{path}: the array {key!r} is text; expected numbers.")
    return found


def write_document(path: Path, document: dict[str, Any], limit: float) -> None:
    """Write ``path`` (.toml, large arrays beside it; or .npz, one file), each file atomically."""
    skeleton, arrays = split(document, limit)
    text = to_toml(skeleton)
    if path.suffix == ".npz":
        arrays = {TEXT: np.array(text), **arrays}
    if arrays:
        write_arrays(path.with_suffix(".npz"), arrays)
    if path.suffix != ".npz":
        write_atomically(path, text)


def read_document(path: Path) -> dict[str, Any]:
    """Read what :func:`write_document` wrote, or a person by hand."""
    if path.suffix == ".npz":
        arrays = read_arrays(path)
        if TEXT not in arrays:
            raise ProblemError(
                f"{path} has no entry {TEXT!r}, the TOML text that says what its arrays mean. "
                "Write it with dual2.save_problem."
            )
        text = text_of(arrays.pop(TEXT), f"{path}, entry {TEXT!r}")
    else:
        text = read_text(path)
        beside = path.with_suffix(".npz")
        arrays = read_arrays(beside) if beside.exists() else {}
    document = join(parse_toml(text, path), arrays, path)
    if arrays:
        raise ProblemError(
            f"{path} has nothing to say about the arrays {', '.join(arrays)}. Remove them, or "
            'refer to each as {array = "name"}.'
        )
    return document


def text_of(array: NDArray[Any], where: str) -> str:
    """The text that an array of no dimension holds; ``where`` names it in errors."""
    try:
        if array.shape == () and array.dtype.kind == "U":
            return str(array)
    except ValueError as error:  # numbers that are no characters
        raise ProblemError(f"{where}: {error}.") from error
    raise ProblemError(
        f"{where}: an array of shape {array.shape} and type {array.dtype} found; expected text."
    )
