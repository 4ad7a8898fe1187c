"""Reading of constructor arguments: finite numbers, vectors and matrices, or a clear error."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dual2.errors import ProblemError

Array = NDArray[np.float64]
Entries = float | Array
"""A number for every coordinate, or one number per coordinate."""


def store(owner: Any, **values: Any) -> None:
    """Write normalised fields into a frozen dataclass during ``__post_init__``."""
    for name, value in values.items():
        object.__setattr__(owner, name, value)


def entries(owner: Any, name: str, value: Any, *, finite: bool = True) -> Entries:
    """A float, or a read-only float64 vector; nan is refused, inf unless ``finite=False``."""
    array = _numbers(owner, name, value)
    if array.ndim > 1:
        raise ProblemError(
            f"{_title(owner)}: {name} has shape {array.shape}; expected a number or a vector."
        )
    _check_finite(owner, name, array, finite)
    return float(array) if array.ndim == 0 else array


def number(
    owner: Any, name: str, value: Any, *, above: float | None = None, least: float | None = None,
    finite: bool = True,
) -> float:  # fmt: skip
    """A finite float (or an infinity if allowed), optionally ``> above`` or ``>= least``."""
    found = entries(owner, name, value, finite=finite)
    if not isinstance(found, float):
        shape = np.shape(found)
        raise ProblemError(f"{_title(owner)}: {name} has shape {shape}; expected one number.")
    check_entries(owner, name, found, above=above, least=least)
    return found


def matrix(owner: Any, name: str, value: Any) -> Array:
    """A read-only float64 matrix with finite entries; scipy.sparse is made dense."""
    array = _numbers(owner, name, value.toarray() if hasattr(value, "toarray") else value)
    if array.ndim != 2:
        raise ProblemError(
            f"{_title(owner)}: {name} has shape {array.shape}; expected a matrix (rows, columns)."
        )
    _check_finite(owner, name, array, True)
    return array


def check_entries(
    owner: Any, name: str, value: Entries, *, above: float | None = None, least: float | None = None
) -> None:
    """Refuse entries that are not ``> above`` or not ``>= least``; name the first one."""
    if above is not None:
        refuse(owner, name, value, lambda v: ~(v > above), f"greater than {above:g}")
    if least is not None:
        refuse(owner, name, value, lambda v: ~(v >= least), f"at least {least:g}")


def refuse(
    owner: Any, name: str, value: Entries, wrong: Callable[[Array], Any], expected: str
) -> None:
    """Raise if ``wrong`` holds for an entry of ``value``, naming the first such entry."""
    array = np.atleast_1d(np.asarray(value, dtype=np.float64))
    where = np.flatnonzero(wrong(array))
    if where.size:
        place = name if np.ndim(value) == 0 else f"{name}[{where[0]}]"
        raise ProblemError(
            f"{_title(owner)}: {place} is {array[where[0]]:g}; expected a number {expected}."
        )


def common_dim(owner: Any, **values: Any) -> int | None:
    """The common length of those arguments that are vectors; None if all are numbers."""
    lengths = {name: len(value) for name, value in values.items() if np.ndim(value) == 1}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise ProblemError(
            f"{_title(owner)}: the arguments differ in length ({found}); "
            "expected equal lengths, or numbers that hold for every coordinate."
        )
    return next(iter(lengths.values()), None)


def _title(owner: Any) -> str:
    return owner if isinstance(owner, str) else type(owner).__name__


def _numbers(owner: Any, name: str, value: Any) -> Array:
    try:
        array = np.array(value, dtype=np.float64)
        if value is None:  # which NumPy reads as nan
            raise TypeError("it is missing")
    except (TypeError, ValueError) as error:
        raise ProblemError(
            f"{_title(owner)}: {name} is {type(value).__name__} and cannot be read as real "
            f"numbers ({error}). Pass a number or an array of numbers."
        ) from error
    array.setflags(write=False)
    return array


def _check_finite(owner: Any, name: str, array: Array, finite: bool) -> None:
    wrong = ~np.isfinite(array) if finite else np.isnan(array)
    if wrong.any():
        index = tuple(int(i) for i in np.argwhere(wrong)[0])
        place = name + (f"[{', '.join(map(str, index))}]" if index else "")
        kind = "a finite number" if finite else "a number or an infinity"
        raise ProblemError(
            f"{_title(owner)}: {place} is {array[index]}; expected {kind}. "
            "Repair or remove that entry."
        )
