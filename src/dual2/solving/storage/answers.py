"""Results written and read back: by ``Result.save``, and by ``dual2 solve --out``.

Every entry is compared with what a result has there, so that a file that was damaged or edited is
named instead of answering with its mistakes.
"""

import json
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from dual2.errors import Dual2Error, ProblemError, unknown_name
from dual2.files import parse_json, read_arrays, write_arrays
from dual2.solving.restoring import find_broken
from dual2.solving.result import FORMAT, Certificate, Counts, Result, Status
from dual2.solving.storage.documents import numbers_of_words, text_of

Array = np.ndarray
POINT = ("x", "y", "dual")
"""Entries of the document of a result that are arrays of their own in a saved one."""
_SAVED = ("meta", *POINT, "duals", "owned", "sizes")
_STATE, _TRACE = "state/", "trace/"
_R = TypeVar("_R")


def save_result(result: Result, path: Path) -> None:
    """Write everything, including what is needed to continue, to one npz file.

    Not compressed: a file that expands many times is refused when it is read.
    """
    document = result.as_dict()
    meta = {name: value for name, value in document.items() if name not in POINT}
    arrays: dict[str, Any] = {_STATE + name: value for name, value in result.state.items()}
    arrays |= {_TRACE + name: column for name, column in result.trace.items()}
    arrays |= {"x": np.concatenate(result.x), "y": result.y, "dual": result.dual}
    arrays |= {"duals": result.duals, "owned": np.array(result.owned, dtype=np.int64)}
    arrays |= {"sizes": np.array([part.size for part in result.x], dtype=np.int64)}
    write_arrays(path, arrays | {"meta": np.array(json.dumps(meta))})


def load_result(path: Path) -> Result:
    """Read what :func:`save_result` wrote."""
    try:
        arrays = read_arrays(path)
        for name in _SAVED:
            if name not in arrays:
                raise ProblemError(f"it has no entry {name!r}.")
        unknown = [k for k in arrays if k not in _SAVED and not k.startswith((_STATE, _TRACE))]
        if unknown:
            raise ProblemError(f"it has the unknown entry {unknown[0]!r}.")
        meta = parse_json(text_of(arrays.pop("meta"), "entry 'meta'"), "entry 'meta'")
        if not isinstance(meta, dict) or meta.get("format") != FORMAT:
            found = meta.get("format") if isinstance(meta, dict) else None
            raise ProblemError(f"it has the format {found!r}; this version reads {FORMAT}.")
        return _assembled(meta, arrays)
    except Dual2Error as error:
        raise ProblemError(f"{path} is not a saved result of dual2: {error}") from error


def _assembled(meta: dict[str, Any], arrays: dict[str, Array]) -> Result:
    sizes = _whole("sizes", arrays["sizes"])
    x = _point("x", arrays["x"], (int(sizes.sum()),))
    dual = _point("dual", arrays["dual"], (arrays["dual"].size,))
    owned = _whole("owned", arrays["owned"], sizes.size)
    shape = (sizes.size, dual.size)
    parts = [part.tolist() for part in np.split(x, np.cumsum(sizes)[:-1])]
    y = _point("y", arrays["y"], dual.shape, finite=False)
    state = _part(arrays, _STATE)
    broken = find_broken(state)
    if broken is not None and meta.get("status") != Status.DIVERGED:
        raise ProblemError(f"entry {_STATE + broken[0]!r} {broken[1]}.")
    return result_of(
        meta | {"x": parts, "y": y.tolist(), "dual": dual.tolist()},
        duals=_point("duals", arrays["duals"], shape),
        owned=owned.tolist(),
        trace=_trace(_part(arrays, _TRACE)),
        state=state,
    )


def _part(arrays: dict[str, Array], mark: str) -> dict[str, Array]:
    return {k.removeprefix(mark): v for k, v in arrays.items() if k.startswith(mark)}


def _whole(name: str, found: Array, size: int | None = None) -> Array:
    wrong = found.ndim != 1 or found.dtype.kind not in "iu" or found.size != (size or found.size)
    if wrong or not found.size or found.min() < 0 or found.max() >= 2**48:
        raise ProblemError(
            f"entry {name!r} has shape {found.shape} and type {found.dtype}; expected a number of "
            "agents, or of their variables, for each agent."
        )
    return found


def _point(name: str, found: Array, shape: tuple[int, ...], finite: bool = True) -> Array:
    if found.shape != shape or found.dtype.kind != "f":
        raise ProblemError(
            f"entry {name!r} has shape {found.shape} and type {found.dtype}; expected {shape} real "
            "numbers."
        )
    wrong = ~np.isfinite(found) if finite else np.isnan(found)
    if wrong.any():
        index = ", ".join(map(str, np.argwhere(wrong)[0]))
        raise ProblemError(f"entry {name}[{index}] is {found[wrong][0]}; expected a finite number.")
    return found


def _trace(columns: dict[str, Array]) -> dict[str, Array]:
    rows = len(columns["rounds"]) if "rounds" in columns and columns["rounds"].ndim else 0
    for name, column in columns.items():
        if column.shape != (rows,) or column.dtype.kind not in "iuf":
            raise ProblemError(
                f"entry 'trace/{name}' has shape {column.shape} and type {column.dtype}; expected "
                f"{rows} numbers, one for each of 'trace/rounds'."
            )
    return columns


def read_result(document: Result | Mapping[str, Any], agents: int) -> Result:
    """A result of so many agents from what ``dual2 solve --out`` wrote; a Result as it is."""
    if not isinstance(document, Result):
        if isinstance(document, Mapping) and "agent" in document:
            raise ProblemError(
                f"The document is the answer of agent {document['agent']} alone; expected that of "
                "all agents. Run dual2 solve with --gather and read the file that --out names."
            )
        try:
            document = result_of(document)
        except Dual2Error as error:
            raise ProblemError(
                f"The document is not a result of dual2 solve: {error} Expected what --out wrote, "
                "read with json.load."
            ) from error
    if len(document.x) != agents:
        raise ProblemError(
            f"The result has answers of {len(document.x)} agents; expected {agents}. It is of "
            "another problem, or of one process among several."
        )
    return document


def result_of(document: Any, **more: Any) -> Result:
    """What a document of :meth:`Result.as_dict` tells: without ``more`` no trace, no state."""
    if not isinstance(document, Mapping):
        raise ProblemError(f"a {type(document).__name__} found; expected a table.")
    table = _Table(document)
    dual, parts = table.vector("dual"), table.get("x", list)
    x = [_Table({f"x[{i}]": part}).vector(f"x[{i}]") for i, part in enumerate(parts)]
    plain = {"trace": {}, "duals": np.tile(dual, (len(x), 1)), "owned": list(range(len(x)))}
    return Result(
        x=x,
        y=table.vector("y", finite=False),
        dual=dual,
        objective=float(table.get("objective", float, int)),
        status=_status(table),
        counts=record("counts", Counts, table.get("counts", dict)),
        certificate=record("certificate", Certificate, table.get("certificate", dict)),
        parameters=_parameters(table.get("parameters", dict)),
        seconds=float(table.get("seconds", float, int)),
        explanation=table.get("explanation", str),
        versions=table.get("versions", dict),
        setting=_setting(document.get("setting", {})),
        **(plain | more),
    )


class _Table:
    """A table whose entries are taken by name and type; words for infinities are numbers."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document

    def get(self, name: str, *kinds: type) -> Any:
        if name not in self.document:
            raise ProblemError(f"there is no entry {name!r}.")
        value = self.document[name]
        value = numbers_of_words(value) if float in kinds else value
        if type(value) not in kinds:
            raise ProblemError(
                f"entry {name!r} is a {type(value).__name__}; expected {kinds[0].__name__}."
            )
        return value

    def vector(self, name: str, finite: bool = True) -> Array:
        found = self.get(name, list)
        try:
            array = np.array(numbers_of_words(found), dtype=np.float64)
            plain = all(type(member) in (int, float) for member in numbers_of_words(found))
        except (TypeError, ValueError, OverflowError) as error:
            raise ProblemError(f"entry {name!r} is not a vector of numbers: {error}.") from error
        if not plain:
            raise ProblemError(f"entry {name!r} is not a vector of numbers.")
        return _point(name, array, (len(found),), finite)


def _status(table: _Table) -> Status:
    found = table.get("status", str)
    if found not in list(Status):
        raise ProblemError(unknown_name("status", found, list(Status)))
    return Status(found)


def _parameters(table: dict[str, Any]) -> dict[str, tuple[Any, str]]:
    for name, entry in table.items():
        if not isinstance(entry, dict) or entry.keys() != {"value", "source"}:
            raise ProblemError(f"entry parameters.{name} is not a table of a value and its source.")
    return {name: (entry["value"], entry["source"]) for name, entry in table.items()}


def _setting(found: Any) -> dict[str, Any]:
    """Method, sizes and edges; files of earlier versions have none."""
    kinds = {"method": str, "n": int, "p": int, "edges": list}
    if not isinstance(found, dict):
        raise ProblemError(f"entry 'setting' is a {type(found).__name__}; expected a table.")
    for name, value in found.items():
        if type(value) is not kinds.get(name):
            raise ProblemError(f"entry setting.{name} is {value!r}; expected {', '.join(kinds)}.")
    agents = range(found.get("n", 0))
    for edge in found.get("edges", []):
        ends = edge if isinstance(edge, list) else []
        if len(ends) != 2 or not all(type(end) is int and end in agents for end in ends):
            raise ProblemError(f"entry setting.edges has {edge!r}; expected pairs of agents.")
    return found


def record(where: str, kind: type[_R], table: dict[str, Any]) -> _R:
    """A dataclass from a table, each field of the type that it is declared with.

    Examples
    --------
    >>> record("counts", Counts, {"rounds": 3}).rounds
    3
    >>> record("counts", Counts, {"rounds": "three"})
    Traceback (most recent call last):
    dual2.errors.ProblemError: entry counts.rounds is 'three'; expected <class 'int'>.
    """
    hints, found = get_type_hints(kind), numbers_of_words(table)
    for name, value in found.items():
        if name not in hints:
            raise ProblemError(unknown_name(f"entry of {where}", str(name), hints))
        if not _fits(value, hints[name]):
            raise ProblemError(f"entry {where}.{name} is {value!r}; expected {hints[name]}.")
    try:
        return kind(**found)
    except TypeError as error:
        raise ProblemError(f"entry {where!r}: {error}.") from error


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value from JSON is of an annotated type; what is no plain type is not looked at."""
    if get_origin(hint) in (Union, types.UnionType):
        return any(_fits(value, one) for one in get_args(hint))
    if get_origin(hint) is list:
        return isinstance(value, list) and all(_fits(one, get_args(hint)[0]) for one in value)
    if hint is float:
        return type(value) in (int, float)
    return type(value) is hint if hint in (int, str, bool, type(None)) else True
