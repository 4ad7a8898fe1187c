"""Compiled answers of agents whose f_i + g_i splits by coordinate.

With curvature d = d_i + r_i and slope q of coordinate j the minimiser of f + g + <c, ·> +
(r/2)|· - x̄|² is that of a parabola at u = -(c + q - r·x̄)/d, once the kink and the bounds are
added; its derivative with respect to -c is 1/d inside a piece and 0 at a kink or bound.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from dual2.compiled import compiled, forceinline, inline
from dual2.engine.local import DENSE_A, adjoint, apply, copy, dot
from dual2.engine.packed_args import borrowed
from dual2.engine.threads import own_rows
from dual2.methods.local.solver_kind import CLOSED_FORM_SOLVER
from dual2.methods.message import (
    BARRIER_DISTANCE,
    DIRECTION_SCALARS,
    DUAL_ACTIVE,
    INFINITE_RATIO,
    MAGNITUDE,
    OBJECTIVE,
    OUTSIDE_BARRIER,
    PROX_DISTANCE,
    STATIONARITY,
    SUPPORT,
    SUPPORT_MAGNITUDE,
    VALUE,
    VIOLATIONS,
)

ROUNDING = 16.0 * 2.220446049250313e-16
"""A residual of at most this times the magnitude of its own terms is rounding."""
(
    SMOOTH_VALUE,
    NONSMOOTH_VALUE,
    LINEAR_VALUE,
    GRADIENT_VALUE,
    GRADIENT_NORM2,
    PROX_NORM2,
    REMAINDER,
) = range(7)
"""Terms of the numbers of a trial: the smooth part of f_i + g_i, the rest, <c, x>, <∇f_i, x>,
|∇f_i|², |x - x̄|², and what the local solution leaves of the stationarity."""
SCALAR_TERMS = 7
MARKS_PER_CHUNK = 1 << 20
"""Entries that :func:`mark_triangle_entries` looks at in one go."""
CONE_RTOL = 1e-9
"""Distance to the barrier cone, relative to |A_i|ᵀ|u|, that counts as none."""


@forceinline
def coordinate(coef, j, c, r, center):
    """Minimiser in one coordinate, and 1/d, negative where it sits at a kink or bound."""
    curve = coef[0, j] + r
    weight = 1.0 / curve if curve > 0.0 else 1.0
    u = -(c + coef[1, j] - r * center) * weight
    low, high = u - weight * coef[3, j], u - weight * coef[2, j]
    # Soft threshold around the kink: between ``low`` and ``high`` the answer is the kink itself.
    x = min(max(coef[4, j], low), high)
    inside = low > coef[4, j] or high < coef[4, j] or low == high
    inside = inside and coef[5, j] < x < coef[6, j]
    x = min(max(x, coef[5, j]), coef[6, j])
    return x, weight if inside else -weight


@inline
def add_jacobian_triangle(block, i, weights, entry_slot, out):
    """out += lower triangle of A_i diag(weights) A_iᵀ, weights ≤ 0 left out.

    Entry e of the triangle stands at ``slot[e]``, which is e where an A_i is dense.
    """
    first, last, place = block.xptr[i], block.xptr[i + 1], block.place
    p, dense = block.cols.shape[1], block.akind[i] == DENSE_A
    for j in range(first, last):
        weight = weights[j - first]
        if weight <= 0.0:
            continue
        if dense:
            row, e = place[j, 0], 0
            for a in range(p):
                t = weight * block.cols[row, a]
                for b in range(a + 1):
                    out[e + b] += t * block.cols[row, b]
                e += a + 1
        else:
            for e in range(place[j, 0], place[j, 1]):
                a = block.sidx[e]
                for m in range(place[j, 0], place[j, 1]):
                    b = block.sidx[m]
                    if b <= a:
                        at = entry_slot[a * (a + 1) // 2 + b]
                        out[at] += weight * block.sval[e] * block.sval[m]


def mark_triangle_entries(block: Any, kind: np.ndarray, marks: np.ndarray) -> None:
    """Mark the entries that :func:`add_jacobian_triangle` fills; all where an A_i is dense.

    Agents of another ``kind`` may fill any. NumPy: it runs once, and most problems end at
    the first line.
    """
    if np.any(kind != CLOSED_FORM_SOLVER) or (block.akind == DENSE_A).any():
        marks[:] = 1
        return
    first, counts = block.place[:, 0], block.place[:, 1] - block.place[:, 0]
    for count in np.unique(counts[counts > 0]).tolist():
        columns = first[counts == count]
        for part in np.array_split(columns, 1 + len(columns) * count**2 // MARKS_PER_CHUNK):
            rows = block.sidx[part[:, None] + np.arange(count)]
            a, b = np.broadcast_arrays(rows[:, :, None], rows[:, None, :])
            lower = b <= a
            marks[a[lower] * (a[lower] + 1) // 2 + b[lower]] = 1


def find_curvatures(block: Any, mu: np.ndarray, top: np.ndarray) -> None:
    """Least and largest curvature of f_i + g_i along the coordinates that may move; inf, 0: none.

    Only where g_i splits by coordinate.
    """
    moves, starts = block.coef[5] < block.coef[6], block.xptr[:-1]
    mu[:] = np.minimum.reduceat(np.where(moves, block.coef[0], math.inf), starts)
    top[:] = np.maximum.reduceat(np.where(moves, block.coef[0], 0.0), starts)


@inline
def abs_product(block, i, x, out):
    """out = |A_i||x|, entry by entry."""
    first, last, place = block.xptr[i], block.xptr[i + 1], block.place
    for k in range(out.shape[0]):
        out[k] = 0.0
    for j in range(first, last):
        size = abs(x[j - first])
        if block.akind[i] == DENSE_A:
            for k in range(out.shape[0]):
                out[k] += size * abs(block.cols[place[j, 0], k])
        else:
            for e in range(place[j, 0], place[j, 1]):
                out[block.sidx[e]] += size * abs(block.sval[e])


@inline
def set_trial_scalars(block, coef, i, x, c, task, terms, out):
    """The numbers of a trial for the answer x to the force c, see :mod:`.message`.

    ``coef`` are those of f_i + g_i, or of f_i alone where g_i is an indicator.
    """
    first, d, kinked = block.xptr[i], x.shape[0], coef.shape[0] > 2
    smooth, nonsmooth, linear, gradient_value, gradient, distance2 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for j in range(d):
        k = first + j
        smooth += (0.5 * coef[0, k] * x[j] + coef[1, k]) * x[j]
        if kinked:
            side = coef[2, k] if x[j] < coef[4, k] else coef[3, k]
            nonsmooth += side * (x[j] - coef[4, k])
        linear += c[j] * x[j]
        gradient_value += (coef[0, k] * x[j] + coef[1, k]) * x[j]
        gradient += (block.fcoef[0, k] * x[j] + block.fcoef[1, k]) ** 2
        distance2 += (x[j] - task.center[k]) ** 2
    terms[SMOOTH_VALUE], terms[NONSMOOTH_VALUE], terms[LINEAR_VALUE], terms[GRADIENT_VALUE] = (
        smooth,
        nonsmooth,
        linear,
        gradient_value,
    )
    terms[GRADIENT_NORM2], terms[PROX_NORM2], terms[REMAINDER] = gradient, distance2, 0.0
    set_scalars(block, i, x, c[:d], task.weight[i], terms, task.tol, out)


@inline
def set_scalars(block, i, x, c, r, terms, tol, out):
    """From the terms to the numbers of a trial."""
    prox_value = 0.5 * r * terms[PROX_NORM2]
    out[VALUE] = terms[SMOOTH_VALUE] + terms[NONSMOOTH_VALUE] + terms[LINEAR_VALUE] + prox_value
    out[MAGNITUDE] = (
        abs(terms[SMOOTH_VALUE])
        + abs(terms[NONSMOOTH_VALUE])
        + abs(terms[LINEAR_VALUE])
        + prox_value
    )
    out[OBJECTIVE] = (
        abs(terms[SMOOTH_VALUE]) + abs(terms[NONSMOOTH_VALUE]) + abs(terms[GRADIENT_VALUE])
    )
    out[PROX_DISTANCE] = 2.0 * prox_value
    size, force_norm = (
        math.sqrt(dot(x, x)),
        max(math.sqrt(terms[GRADIENT_NORM2]), math.sqrt(dot(c, c))),
    )
    remainder, scale = (
        r * math.sqrt(terms[PROX_NORM2]) + terms[REMAINDER],
        max(force_norm, block.mu[i] * size),
    )
    if remainder <= ROUNDING * ((block.lip[i] + r) * size + force_norm):
        remainder = 0.0
    out[STATIONARITY] = (
        0.0 if remainder == 0.0 else remainder / scale if scale > 0.0 else INFINITE_RATIO
    )
    out[VIOLATIONS] = 1.0 if remainder > tol * scale else 0.0
    out[DUAL_ACTIVE] = 1.0 if math.sqrt(dot(c, c)) > tol * math.sqrt(terms[GRADIENT_NORM2]) else 0.0


class TrialTask(NamedTuple):
    """What the kernels are asked; every field has one type, so that each has one signature."""

    trials: np.ndarray
    """(T, p): multipliers, or directions."""
    weight: np.ndarray
    """(n,): weights of the proximal terms."""
    center: np.ndarray
    """(D,): their centres x̄."""
    x: np.ndarray
    """(D,): the present answers."""
    y: np.ndarray
    """(p,): what h answers."""
    workspace: np.ndarray
    """(threads, 4, ·): work vectors."""
    tol: float
    stride: int
    """Numbers of a trial; 0 where only the answers are wanted."""
    jacobians: int
    """How many trials come with a Jacobian."""
    jacobian_offset: int
    """Where the Jacobians begin."""
    bound_offset: int
    """Where M begins; -1 if it does not travel."""
    entry_slot: np.ndarray
    """(p(p+1)/2,): where an entry of a triangle stands among those that travel."""
    stored: int
    """How many travel."""


@compiled
def closed_form_trials(block, kind, task, rows, out, member):
    """Trials, Jacobians and M of the agents in places ``rows`` of this kind.

    The messages of all others become zero. Without a message (``task.stride`` = 0) the answers to
    the only multiplier become their x.
    """
    block, task, member = borrowed((block, task, member))
    first, last = own_rows(member, rows.shape[0])
    p, workspace, stride = task.trials.shape[1], task.workspace[member.thread], task.stride
    x, c, weights, stored = workspace[0], workspace[1], workspace[2], task.stored
    trials = task.trials.shape[0]
    for e in range(first, last):
        i = rows[e]
        if stride > 0:
            for k in range(out.shape[1]):
                out[e, k] = 0.0
        if kind[i] != CLOSED_FORM_SOLVER:
            continue
        a, d, r = block.xptr[i], block.xptr[i + 1] - block.xptr[i], task.weight[i]
        for t in range(trials if task.bound_offset < 0 else trials + 1):
            square = -1
            if t == trials:  # in the same loop, so that add_jacobian_triangle is compiled once
                for j in range(d):
                    curve = block.coef[0, a + j] + r
                    fixed = block.coef[5, a + j] == block.coef[6, a + j]
                    weights[j] = 1.0 / curve if curve > 0.0 and not fixed else 0.0
                square = task.bound_offset
            else:
                at = t * stride
                adjoint(block, i, task.trials[t], c)
                for j in range(d):
                    x[j], weights[j] = coordinate(block.coef, a + j, c[j], r, task.center[a + j])
                if stride == 0:
                    copy(x, task.x[a : a + d], d)
                    continue
                apply(block, i, x[:d], out[e, at : at + p])
                abs_product(block, i, x, out[e, at + p : at + 2 * p])
                numbers = out[e, at + 2 * p : at + stride]
                set_trial_scalars(block, block.coef, i, x[:d], c, task, workspace[3], numbers)
                if t < task.jacobians:
                    square = task.jacobian_offset + t * stored
            if square >= 0:
                add_jacobian_triangle(
                    block, i, weights, task.entry_slot, out[e, square : square + stored]
                )
    return 0


@inline
def direction_scales(block, i, u, x, y, work):
    """| |A_i|ᵀ|u| |, and the size of x_i: |x_i|, or what it takes to move y alone."""
    first, last, place = block.xptr[i], block.xptr[i + 1], block.place
    for k in range(y.shape[0]):
        work[k] = 0.0
    reach, size = 0.0, 0.0
    for j in range(first, last):
        s = 0.0
        if block.akind[i] == DENSE_A:
            for k in range(y.shape[0]):
                s += abs(block.cols[place[j, 0], k] * u[k])
                work[k] += block.cols[place[j, 0], k] ** 2
        else:
            for e in range(place[j, 0], place[j, 1]):
                s += abs(block.sval[e] * u[block.sidx[e]])
                work[block.sidx[e]] += block.sval[e] ** 2
        reach += s * s
        size += x[j] * x[j]
    size = math.sqrt(size)
    for k in range(y.shape[0]):
        if work[k] > 0.0:
            size = max(size, abs(y[k]) / math.sqrt(work[k]))
    return math.sqrt(reach), size


@compiled
def support_rows(block, separable, task, rows, out, member):
    """Numbers of each direction, for agents whose g_i splits by coordinate (``separable``)."""
    block, task, member = borrowed((block, task, member))
    first, last = own_rows(member, rows.shape[0])
    c, work = task.workspace[member.thread, 1], task.workspace[member.thread, 2]
    for e in range(first, last):
        i = rows[e]
        if not separable[i]:
            continue
        a, d = block.xptr[i], block.xptr[i + 1] - block.xptr[i]
        for t in range(task.trials.shape[0]):
            begin = task.jacobian_offset + t * DIRECTION_SCALARS
            adjoint(block, i, task.trials[t], c)
            reach, extent = direction_scales(block, i, task.trials[t], task.x, task.y, work)
            support, size, distance = 0.0, 0.0, 0.0
            for j in range(d):
                distance2 = block.coef[6, a + j] if c[j] < 0.0 else block.coef[5, a + j]
                if math.isinf(distance2):
                    distance += c[j] * c[j]
                else:
                    support -= c[j] * distance2
                    size += abs(c[j] * distance2)
            distance = math.sqrt(distance)
            out[e, begin + SUPPORT], out[e, begin + SUPPORT_MAGNITUDE] = support, size
            out[e, begin + BARRIER_DISTANCE] = distance * extent
            out[e, begin + OUTSIDE_BARRIER] = 1.0 if distance > CONE_RTOL * reach else 0.0
    return 0
