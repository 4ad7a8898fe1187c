"""States of earlier runs, compared with what this run would have there before they are taken over.

Compiled code indexes by a state's shapes and counters, and NaN in it would be the answer.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from dual2.errors import ProblemError

Shape = tuple[int, ...]
MARK = "mark"
"""Entry of a state that tells whose it is."""
_MOST = 2**62


def find_broken(state: Mapping[str, Any]) -> tuple[str, str] | None:
    """The first entry that has NaN in it or is text, and which of both; None if there is none.

    Examples
    --------
    >>> find_broken({"k": 3, "x": np.array([1.0, np.nan])})
    ('x', 'contains NaN')
    """
    for name, value in state.items():
        array = np.asarray(value)
        if array.dtype.kind == "f" and np.isnan(array).any():
            return name, "contains NaN"
        if array.dtype.kind not in "biuf" and name != MARK:
            return name, f"is of type {array.dtype}"
    return None


def demand_continuable(
    state: Mapping[str, Any],
    fresh: Mapping[str, Any],
    more: Mapping[str, Shape],
    rows: int,
    growing: Mapping[str, tuple[int, ...]] | None = None,
) -> None:
    """An error unless a state has the entries of a ``fresh`` one, in shape and type, without NaN.

    Entries that a fresh state does not have yet are numbers, or one for each of the ``rows``
    agents; ``more`` has the shapes of those that are neither. ``growing`` names the axes of entries
    that may be of any length.
    """
    if (broken := find_broken(state)) is not None:
        _refuse(*broken)
    for name, value in state.items():
        found = np.asarray(value)
        if name == MARK:
            continue
        if name in fresh:
            wanted = np.asarray(fresh[name])
            shapes, whole = [wanted.shape], wanted.dtype.kind in "biu"
        else:
            shapes, whole = [more[name]] if name in more else [(), (rows,)], False
        free = (growing or {}).get(name, ())
        fits = _without(found.shape, free) in [_without(shape, free) for shape in shapes]
        if not fits or found.dtype.kind not in ("biu" if whole else "biuf"):
            _refuse(name, f"has shape {found.shape} and type {found.dtype}, not {shapes[0]}")
        if found.dtype.kind in "iu" and found.size and not 0 <= found.min() <= found.max() < _MOST:
            _refuse(name, f"counts from {found.min()} to {found.max()}")


def _without(shape: Shape, axes: tuple[int, ...]) -> Shape:
    """A shape with the lengths of some axes left open."""
    return tuple(-1 if k in axes else size for k, size in enumerate(shape))


def _refuse(name: str, why: str) -> None:
    raise ProblemError(
        f"The stored state cannot be continued: its entry {name!r} {why}. Start afresh, or from "
        "the pair (x, duals) of the result."
    )
