"""Branches of the MATPOWER format as lines of the linear (DC) model, in two conventions."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dual2.errors import ProblemError, unknown_name
from dual2.functions.arguments import Array
from dual2.power.flows import Line

MODELS = ("matpower", "powermodels")
WIDEST = 1.0472
"""Radians to which PowerModels narrows angle limits of a quarter turn or more."""


def read_lines(
    branches: Array, model: str, base: Any, names: Sequence[str] | None = None
) -> list[Line]:
    """The lines of rows of ``branch``, in service or not.

    ``branches``: columns F_BUS, T_BUS, BR_R, BR_X, BR_B, RATE_A, …, TAP, SHIFT, BR_STATUS, ANGMIN,
    ANGMAX; ``model``: see :func:`dispatch.from_matpower`; ``base``: baseMVA, which matters for
    phase shifts and angle limits only; ``names``: of the lines, made of their buses unless given.
    """
    if model not in MODELS:
        raise ProblemError(unknown_name("model", model, list(MODELS)))
    angles = _angles(branches, model)
    shifts = np.radians(branches[:, 9]) * (model == "matpower")
    if base is None and (np.any(shifts) or np.isfinite(angles).any()):
        raise ProblemError(
            "The case has no 'baseMVA', which phase shifts and angle limits need. Add it (usually "
            "100)."
        )
    if base is not None and not 0 < base < np.inf:
        raise ProblemError(f"The case has baseMVA = {base:g}; expected a positive number (MVA).")
    names = _names(branches) if names is None else names
    found = []
    for row, b, shift, pair, name in zip(
        branches, _susceptances(branches, model, names), shifts, angles, names, strict=True
    ):
        rating = np.inf if row[5] == 0 else float(row[5])
        susceptance = float(b * (100.0 if base is None else base))
        ends = (float(pair[0]), float(pair[1]))
        found.append(Line(int(row[0]), int(row[1]), susceptance, rating, float(shift), ends, name))
    return found


def _names(branches: Array) -> list[str]:
    """By their buses; parallel ones get a mark."""
    taken: dict[str, None] = {}
    for row in branches:
        name = f"line {row[0]:.0f}-{row[1]:.0f}"
        while name in taken:
            name += "'"
        taken[name] = None
    return list(taken)


def _susceptances(branches: Array, model: str, names: Sequence[str]) -> Array:
    """Per unit: 1/(x·tap), or x/(r² + x²)."""
    r, x = branches[:, 2], branches[:, 3]
    taps = np.where(branches[:, 8] == 0, 1.0, branches[:, 8])
    if not x.all():
        raise ProblemError(
            f"{names[int(np.argmin(np.abs(x)))]!r} has no reactance (BR_X = 0), so that the linear "
            "model has no flow for it. Join its buses to one, or give it a small reactance."
        )
    return 1.0 / (x * taps) if model == "matpower" else x / (r**2 + x**2)


def _angles(branches: Array, model: str) -> Array:
    """Limits of the angle differences in radians, (L, 2), infinite where there are none."""
    given = np.zeros((len(branches), 2))
    if branches.shape[1] > 12:
        given = np.radians(branches[:, 11:13])
    unset = np.logical_not(np.any(given, axis=1))
    widest, instead = (2 * np.pi, np.inf) if model == "matpower" else (np.pi / 2, WIDEST)
    low = np.where(unset | (given[:, 0] <= -widest + 1e-12), -instead, given[:, 0])
    high = np.where(unset | (given[:, 1] >= widest - 1e-12), instead, given[:, 1])
    return np.column_stack([low, high])
