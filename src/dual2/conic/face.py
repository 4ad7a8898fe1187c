"""The safe finish: from an interior point to an answer on its face.

An interior answer is near its bounds, not at them. Faces are guessed by Tapia's indicators (a slack
that shrank faster than its multiplier is a bound that holds), and Newton steps solve the equations
of the face. A :class:`Point` carries a face as s = 0, z = 1 where a bound holds, t = 0 where a row
does.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from dual2.conic.block import Block, Point, dot
from dual2.conic.cones import TINY, plain_rows
from dual2.conic.local_system import (
    LocalMatrix,
    LocalSystem,
    SystemCache,
    factorise,
)
from dual2.conic.standard_form import ConicRows

Array = np.ndarray
RHO = 1e-8
"""Proximal weight of a polishing step."""
NEAR = 1e-14
"""Distance to a bound, relative to the largest variable, at which it holds: rounding, no more. A
variable may well be at 1e-8 when others are at 1e3."""
WRONG = 1e-12
"""Part of the forces by which a multiplier may have the wrong sign."""
CLOSE = 1e-3
"""Relative distance within which a multiplier of h is set to the slope of its piece."""


@dataclass(frozen=True)
class Equations:
    """Private rows that hold, as equations."""

    rows: ConicRows

    def inverse_entries(self) -> Array:
        """Equations have no curvature of their own."""
        return np.zeros(len(self.rows.rhs))


@dataclass(frozen=True)
class FaceStep:
    """A block at its face: its system, K⁻¹ of what its equations miss, the most that one misses."""

    point: Point
    system: LocalSystem
    held: Array
    M: Array
    missed: float


def face_of(block: Block, point: Point, before: Point, tau: float) -> Point:
    """The face that an iterate and the one before indicate, and the iterate on it (τ = 1)."""
    held = block.bounded & (point.s / before.s < point.z / before.z.clip(min=1e-300))
    both = held.all(axis=0)
    held[0] &= ~both | (point.s[0] <= point.s[1])
    held[1] &= ~both | (point.s[1] < point.s[0])
    t, y = point.t, point.y / tau
    if block.rows is not None:
        rows, (t_now, y_now) = block.rows, (point.t[0], point.y[0])
        ratio = t_now / np.maximum(before.t[0], 1e-300)
        active = ratio < y_now / np.where(before.y[0] > 0, before.y[0], 1e-300)
        own = np.where(rows.equation | (plain_rows(rows) & active), 0.0, 1.0)
        for place in rows.cones:
            own[place] = _cone_face(t_now[place], y_now[place])
        t = own[None]
    y = np.where(t != 1.0, y, 0.0)
    return on_face(block, Point(point.v / tau, (~held).astype(float), held.astype(float), t, y))


def _cone_face(s: Array, z: Array) -> Array:
    """0 at the apex; 1 in the interior; on the boundary 2 and then 1."""
    rs, rz = float(np.linalg.norm(s[1:])), float(np.linalg.norm(z[1:]))
    face = np.ones(len(s))
    if s[0] + rs < z[0] - rz:
        return face - 1.0
    if not z[0] + rz < s[0] - rs:
        face[0] = 2.0
    return face


def on_face(block: Block, point: Point) -> Point:
    """The point with its variables at the bounds that hold."""
    low, high = point.z > 0
    v = np.where(low, -block.g[0], np.where(high, block.g[1], point.v))
    return replace(point, v=v)


def linearise_face(block: Block, point: Point, dual: Array) -> FaceStep:
    """Factors and residual of the equations of the face."""
    free = np.logical_not((point.z > 0).any(axis=0))
    H, gradient = block.expanded(point.v)
    force = block.curve(point.v) + gradient + block.q + block.A.adjoint(dual)
    held, rows, residual = np.zeros(0, np.int64), None, [force]
    if block.rows is not None:
        held, B, left, bent = _equations(block.rows, point)
        rows = Equations(ConicRows(B, left, np.ones(len(left), bool)))
        residual = [force + (B.T @ point.y[0, held])[None], left[None]]
        H = _with_bent(H, bent)
    matrix = LocalMatrix(H, rows, block.coupled)
    system = factorise(matrix, np.zeros_like(block.q), RHO, SystemCache(), free)
    left = np.hstack([np.where(free, residual[0], 0.0), *residual[1:]])
    missed = float(np.abs(left).max(initial=0.0))
    return FaceStep(point, system, held, system.solve(np.hstack(residual)), missed)


def _equations(rows: ConicRows, point: Point) -> tuple[Array, sp.csr_array, Array, list[Any]]:
    """Places of the multipliers of what holds, its rows and residuals, curvature of boundaries."""
    t, y, v = point.t[0], point.y[0], point.v[0]
    held = np.flatnonzero(t == 0)
    own, places, bent = [rows.B[held]], [held], []
    left = [own[0] @ v - rows.rhs[held]]
    for place in rows.cones:
        if t[place.start] == 2.0:
            Q = rows.B[place]
            s = rows.rhs[place] - Q @ v
            r = max(float(np.linalg.norm(s[1:])), TINY)
            u = s[1:] / r
            along = u @ Q[1:]
            own.append(sp.csr_array((Q[[0]].toarray()[0] - along)[None]))
            left.append(np.array([r - s[0]]))
            places.append(np.array([place.start]))
            across = Q[1:].toarray() - np.outer(u, along)
            bent.append(max(y[place.start], 0.0) / r * (across.T @ across))
    return np.concatenate(places), sp.csr_array(sp.vstack(own)), np.concatenate(left), bent


def _with_bent(H: Any, bent: list[Any]) -> Any:
    """The curvature with that of the cones' boundaries."""
    if not bent:
        return H
    total = sp.csr_array(sum(bent))
    if sp.issparse(H):
        return sp.csr_array(H + total)
    return sp.csr_array(sp.diags_array(H[0]) + total) if H.ndim == 2 else H + total.toarray()[None]


def take_face_step(block: Block, step: FaceStep, change: Array, dual: Array) -> Point:
    """The point after a Newton step with λ + ``change`` = ``dual``, and its new face."""
    n = block.q.shape[1]
    pull = block.A.adjoint(change)
    padded = np.hstack([pull, np.zeros((len(pull), len(step.held)))])
    w = -(step.M + step.system.solve(padded))
    v, y = step.point.v + w[:, :n], step.point.y.copy()
    if len(step.held):
        y[0, step.held] += w[0, n:]
    moved = replace(step.point, v=v, y=y)
    force = block.curve(v) + block.expanded(v)[1] + block.q + block.A.adjoint(dual)
    if block.rows is not None:
        held, B, _, _ = _equations(block.rows, moved)
        force = force + (B.T @ y[0, held])[None]
    return on_face(block, _next_face(block, moved, force, dual))


def _next_face(block: Block, point: Point, force: Array, dual: Array) -> Point:
    """Bounds that are crossed hold; those with multipliers of the wrong sign are left."""
    size = np.maximum(np.abs(point.v).max(axis=1, initial=0.0), 1.0)[:, None]
    wrong = WRONG * (np.abs(block.q) + block.A.size.adjoint(np.abs(dual)))
    held = point.z > 0
    low = block.bounded[0] & (point.v < -block.g[0] + NEAR * size)
    high = block.bounded[1] & (point.v > block.g[1] - NEAR * size)
    free = ~held.any(axis=0)
    low = np.where(free, low, held[0] & (force >= -wrong))
    high = np.where(free, high & ~low, held[1] & (force <= wrong))
    z = np.array([low, high]).astype(float)
    if block.rows is None:
        return replace(point, s=1.0 - z, z=z)
    room = block.rows.rhs - block.rows.B @ point.v[0]
    plain, holds = plain_rows(block.rows), point.t[0] == 0
    floor = NEAR * float(size[0, 0])
    holds = np.where(plain, np.where(holds, point.y[0] >= -WRONG, room < -floor), holds)
    t = np.where(plain | block.rows.equation, np.where(holds, 0.0, 1.0), point.t[0])[None]
    return replace(point, s=1.0 - z, z=z, t=t, y=np.where(t != 1.0, point.y, 0.0))


def changes_of_face(before: Point, after: Point) -> Array:
    """How many bounds and rows of each agent are met by one point only."""
    bounds = ((before.z > 0) != (after.z > 0)).sum(axis=(0, 2))
    return bounds + ((before.t == 0) != (after.t == 0)).sum(axis=1)


def objective_of(block: Block, point: Point) -> Array:
    """½vᵀHv + qᵀv of each agent, in scaled units."""
    return 0.5 * dot(point.v, block.curve(point.v)) + dot(block.q, point.v)


def without_dust(v: Array, part: float) -> Array:
    """Rows of numbers; those below this part of their row's largest are 0.

    Examples
    --------
    >>> without_dust(np.array([[1.0, 1e-15, 1e-12]]), 1e-14).tolist()
    [[1.0, 0.0, 1e-12]]
    """
    return np.where(np.abs(v) > part * np.abs(v).max(axis=-1, initial=0.0, keepdims=True), v, 0.0)


def exact_prices(block: Block, point: Point, dual: Array) -> Array:
    """λ with the slope of its piece where that of h is strictly inside."""
    if block.rows is not None or block.smooth or block.H.ndim != 2 or sp.issparse(block.H):
        return dual
    matrix: Any = block.A.transposed()
    dual, slope = dual.copy(), (block.curve(point.v) + block.q)[0]
    free = np.logical_not((point.z > 0).any(axis=0))[0]
    for k in np.flatnonzero(free & (np.diff(matrix.indptr) == 1)).tolist():
        at = matrix.indptr[k]
        row, price = int(matrix.indices[at]), -slope[k] / float(matrix.data[at])
        if abs(price - dual[row]) <= CLOSE * max(abs(price), abs(dual[row])):
            dual[row] = price
    return dual
