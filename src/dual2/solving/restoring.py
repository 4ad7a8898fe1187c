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
_MAX_COUNT = 2**62
_OLD_NAMES = {
    "status": "end",
    "current": "now",
    "abs_products": "load",
    "scalars": "numbers",
    "max_row_scale": "widest",
    "trial_products": "reached",
    "candidates": "ways",
    "outer_iterations": "outers",
    "not_strongly_convex": "flat",
    "diagonally_dominant": "apart",
    "warm_phase": "near",
    "nearly_met": "near",
    "best_residual": "best",
    "damping": "around",
    "max_objective": "largest",
    "max_dual_norm": "longest",
    "inner_rtol": "share",
    "row_slack": "spare",
    "descent_rate": "fall",
    "center": "anchor",
    "weight": "r",
    "gradient_norm": "force",
    "max_entry": "seen",
    "queries": "asked",
    "worse_points": "waited",
    "driver_milestone_dual": "driver_anchor",
}
"""What entries of a state were called in earlier versions."""


def with_present_names(state: Mapping[str, Any], fresh: Mapping[str, Any]) -> dict[str, Any]:
    """A state whose entries have the names of a ``fresh`` one, also if an older version saved it.

    Examples
    --------
    >>> with_present_names({"end": 1, "x": 2}, {"status": 0, "x": 0})
    {'status': 1, 'x': 2}
    """
    new = {old: name for name, old in _OLD_NAMES.items() if name in fresh and old not in fresh}
    return {new.get(name, name): value for name, value in state.items()}


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
        if (
            found.dtype.kind in "iu"
            and found.size
            and not 0 <= found.min() <= found.max() < _MAX_COUNT
        ):
            _refuse(name, f"counts from {found.min()} to {found.max()}")


def _without(shape: Shape, axes: tuple[int, ...]) -> Shape:
    """A shape with the lengths of some axes left open."""
    return tuple(-1 if k in axes else size for k, size in enumerate(shape))


def _refuse(name: str, why: str) -> None:
    raise ProblemError(
        f"The stored state cannot be continued: its entry {name!r} {why}. Start afresh, or from "
        "the pair (x, duals) of the result."
    )
