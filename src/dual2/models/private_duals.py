"""Duals of private constraints, which their owner finds by itself after the run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import linprog

if TYPE_CHECKING:
    from dual2.models.partition import OwnedModel

Array = np.ndarray
ACTIVE = 1e-6
"""A bound is active if it is nearer than this, relative to the terms of its row."""


def private_duals(owned: OwnedModel, k: int, x: Array, dual: Array) -> Array:
    """∂ cost / ∂ right-hand side of the private constraints of an owner; nan where none is found.

    At the answer, the owner's variables minimise the linear cost ∇f(x) + Aᵀλ over its own set; so
    the duals of that linear program, with the bounds that are active, are those of the constraints.
    It is solved where its owner is: nothing is sent.
    """
    model, mine, rows = owned.model, owned.columns[k], owned.private[k]
    sign = -1.0 if model.maximise else 1.0
    slope = sign * (model.Q[mine] @ x + model.c[mine])
    if len(owned.coupling):
        slope = slope + model.A[owned.coupling][:, mine].T @ dual[: len(owned.coupling)]
    E = model.A[rows][:, mine]
    low, up = _active(E @ x[mine], abs(E) @ np.abs(x[mine]), model.row_lower[rows],
                      model.row_upper[rows])  # fmt: skip
    below, above = _active(x[mine], np.abs(x[mine]), model.lower[mine], model.upper[mine])
    return _multipliers(E, slope, low, up, below, above)


def _active(value: Array, size: Array, lower: Array, upper: Array) -> tuple[Array, Array]:
    """Which lower and upper bounds hold with equality."""
    near = ACTIVE * np.maximum(1.0, size)
    return value <= lower + near, value >= upper - near


def _multipliers(
    E: Array, slope: Array, low: Array, up: Array, below: Array, above: Array
) -> Array:
    """y with slope = Eᵀy + z up to the least error; y ≥ 0 at lower bounds, ≤ 0 at upper ones.

    minimise Σ(error) over y, with z ≥ 0 at lower bounds of variables and ≤ 0 at upper ones.
    """
    import scipy.sparse as sp

    m, d = E.shape
    scale = max(float(np.abs(slope).max(initial=0.0)), 1e-300)
    eye = sp.eye_array(d, format="csc")
    equations = sp.hstack([sp.csc_array(E).T, eye, eye, -eye], format="csc")
    bounds = np.concatenate(
        [_signs(low, up), _signs(below, above), np.tile([0.0, np.inf], (2 * d, 1))]
    )
    cost = np.concatenate([np.zeros(m + d), np.ones(2 * d)])
    found = linprog(cost, A_eq=equations, b_eq=slope / scale, bounds=bounds, method="highs")
    return np.asarray(found.x[:m]) * scale if found.status == 0 else np.full(m, np.nan)


def _signs(low: Array, up: Array) -> Array:
    """Bounds of multipliers: positive at lower ends, negative at upper ends, else 0."""
    return np.column_stack([np.where(up, -np.inf, 0.0), np.where(low, np.inf, 0.0)])
