"""Compiled projection onto a polyhedron, by the dual active set method.

Goldfarb & Idnani, "A numerically stable dual method for solving strictly convex quadratic
programs", Mathematical Programming 27 (1983), for the identity as Hessian: the minimiser over some
of the constraints is kept, with multipliers ≥ 0, while violated constraints are added one by one.
Row k of the orthogonal matrix ``Q`` and the triangle ``R`` hold the normals of the active
constraints, N = QᵀR in the first rows of Q.
"""

import math

import numpy as np

from dual2.compiled import compiled
from dual2.functions.kernels import dot

SOLVED, EMPTY, UNSETTLED = range(3)
_DEPENDENT = 1e-11
"""A unit normal this close to the span of the others counts as dependent."""
_SLACK = 1e-13
"""Violation that counts as none, relative to max(1, |v|, |bound|)."""


@compiled
def project(v, out, M, low, up, box_low, box_up, multipliers):
    """Projection of v onto {box_low ≤ x ≤ box_up, low ≤ Mx ≤ up}, the rows of M of length one.

    ``multipliers`` (rows of M, then coordinates) holds those of the upper sides minus those of
    the lower ones; if the set is EMPTY, the weights of a contradictory combination. Returns
    SOLVED, EMPTY or UNSETTLED.
    """
    m, d = M.shape
    multipliers[:] = 0.0
    scale = 1.0
    for j in range(d):
        scale = max(scale, abs(v[j]))
        out[j] = min(max(v[j], box_low[j]), box_up[j])
    worst, side = _worst(out, M, low, up, box_low, box_up, scale)
    if worst < 0:
        for j in range(d):
            multipliers[m + j] = v[j] - out[j]
        return SOLVED
    Q, R, active, signs, y, q = _clipped(v, out, box_low, box_up, m)
    normal, along, r, z = np.empty(d), np.empty(d), np.empty(d + 1), np.empty(d)
    for _ in range(50 * (m + d)):
        bound = _normal(worst, side, M, low, up, box_low, box_up, normal)
        status, q = _add(
            worst, side, bound, normal, out, Q, R, active, signs, y, q,
            along, r, z, low, up, box_low, box_up, m,
        )  # fmt: skip
        if status == EMPTY:
            multipliers[worst] = side
            for k in range(q):
                multipliers[active[k]] = -r[k] * signs[k]
            return EMPTY
        worst, side = _worst(out, M, low, up, box_low, box_up, scale)
        if worst < 0:
            for k in range(q):
                multipliers[active[k]] = y[k] * signs[k]
            return SOLVED
    return UNSETTLED


@compiled
def _worst(x, M, low, up, box_low, box_up, scale):
    """The most violated constraint and its side (1 upper, -1 lower); -1 if none is."""
    m, d = M.shape
    worst, side, most = -1, 0.0, 0.0
    for k in range(m + d):
        if k < m:
            value, lower, upper = dot(M[k], x), low[k], up[k]
        else:
            value, lower, upper = x[k - m], box_low[k - m], box_up[k - m]
        if value > upper:
            excess = (value - upper) / max(scale, abs(upper))
            if excess > most:
                worst, side, most = k, 1.0, excess
        elif value < lower:
            excess = (lower - value) / max(scale, abs(lower))
            if excess > most:
                worst, side, most = k, -1.0, excess
    if most <= _SLACK:
        return -1, 0.0
    return worst, side


@compiled
def _clipped(v, x, box_low, box_up, m):
    """Active set at the projection onto the box: the coordinates that were clipped."""
    d = v.shape[0]
    Q, R = np.zeros((d, d)), np.zeros((d, d))
    active, signs, y = np.empty(d + 1, np.int64), np.empty(d + 1), np.zeros(d + 1)
    q, last = 0, d - 1
    for j in range(d):
        if v[j] != x[j]:
            side = 1.0 if v[j] > x[j] else -1.0
            Q[q, j], R[q, q] = 1.0, -side
            active[q], signs[q], y[q] = m + j, side, abs(v[j] - x[j])
            q += 1
        else:
            Q[last, j] = 1.0
            last -= 1
    return Q, R, active, signs, y, q


@compiled
def _normal(k, side, M, low, up, box_low, box_up, normal):
    """Inner normal of a constraint, written into ``normal``; returns b of <normal, x> ≥ b."""
    m = M.shape[0]
    if k < m:
        for j in range(normal.shape[0]):
            normal[j] = -side * M[k, j]
        return -up[k] if side > 0 else low[k]
    normal[:] = 0.0
    normal[k - m] = -side
    return -box_up[k - m] if side > 0 else box_low[k - m]


@compiled
def _add(
    k, side, bound, normal, x, Q, R, active, signs, y, q,
    along, r, z, low, up, box_low, box_up, m,
):  # fmt: skip
    """Make constraint k active, dropping others where their multipliers would turn negative."""
    d = x.shape[0]
    own = 0.0
    while True:
        for j in range(d):
            along[j] = dot(Q[j], normal)
        for i in range(q - 1, -1, -1):
            total = along[i]
            for j in range(i + 1, q):
                total -= R[i, j] * r[j]
            r[i] = total / R[i, i]
        free = dot(along[q:], along[q:])
        full = math.inf
        if free > _DEPENDENT**2:
            full = (bound - dot(normal, x)) / free
        part, drop = math.inf, -1
        for i in range(q):
            if (
                r[i] > 0.0
                and y[i] < part * r[i]
                and not _equation(active[i], low, up, box_low, box_up, m)
            ):
                part, drop = y[i] / r[i], i
        step = min(full, part)
        if step == math.inf:
            return EMPTY, q
        if full < math.inf:
            _combine(Q, along, q, z)
            for j in range(d):
                x[j] += step * z[j]
        for i in range(q):
            y[i] -= step * r[i]
        own += step
        if full <= part:
            _append(Q, R, along, q)
            active[q], signs[q], y[q] = k, side, own
            return SOLVED, q + 1
        _drop(Q, R, active, signs, y, q, drop)
        q -= 1


@compiled
def _equation(k, low, up, box_low, box_up, m):
    """Whether both sides of a constraint coincide: then it is never dropped."""
    if k < m:
        return low[k] == up[k]
    return box_low[k - m] == box_up[k - m]


@compiled
def _combine(Q, along, q, z):
    """z = Σ_{j ≥ q} along_j·Q_j: the normal without its part in the span of the active ones."""
    z[:] = 0.0
    for j in range(q, along.shape[0]):
        for i in range(z.shape[0]):
            z[i] += along[j] * Q[j, i]


@compiled
def _append(Q, R, along, q):
    """New last column of R: reflect the rows q … of Q so that one of them takes the whole of it."""
    d = along.shape[0]
    length = math.sqrt(dot(along[q:], along[q:]))
    if along[q] > 0.0:
        length = -length
    first = along[q] - length
    square = length * (length - along[q])
    if square > 0.0:
        for i in range(d):
            total = first * Q[q, i]
            for j in range(q + 1, d):
                total += along[j] * Q[j, i]
            total /= square
            Q[q, i] -= total * first
            for j in range(q + 1, d):
                Q[j, i] -= total * along[j]
    for j in range(q):
        R[j, q] = along[j]
    R[q, q] = length


@compiled
def _drop(Q, R, active, signs, y, q, k):
    """Remove active constraint k; rotations make R triangular again."""
    for j in range(k + 1, q):
        active[j - 1], signs[j - 1], y[j - 1] = active[j], signs[j], y[j]
        for i in range(j + 1):
            R[i, j - 1] = R[i, j]
    for j in range(k, q - 1):
        length = math.hypot(R[j, j], R[j + 1, j])
        c, s = R[j, j] / length, R[j + 1, j] / length
        for i in range(j, q - 1):
            above, below = R[j, i], R[j + 1, i]
            R[j, i], R[j + 1, i] = c * above + s * below, c * below - s * above
        for i in range(Q.shape[1]):
            above, below = Q[j, i], Q[j + 1, i]
            Q[j, i], Q[j + 1, i] = c * above + s * below, c * below - s * above
