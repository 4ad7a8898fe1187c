"""Compiled projection onto a polyhedron, by the dual active set method.

Goldfarb & Idnani, "A numerically stable dual method for solving strictly convex quadratic
programs", Mathematical Programming 27 (1983), for the identity as Hessian: the minimiser over some
of the constraints is kept, with multipliers ≥ 0, while violated constraints are added one by one.
Row k of the orthogonal matrix ``Q`` and the triangle ``R`` hold the normals of the active
constraints, N = QᵀR in the first rows of Q.
"""

import math
from typing import NamedTuple

import numpy as np

from dual2.compiled import compiled
from dual2.functions.kernels import dot

Array = np.ndarray
SOLVED, EMPTY, UNSETTLED = range(3)
_DEPENDENT = 1e-11
"""A unit normal this close to the span of the others counts as dependent."""
_SLACK = 1e-13
"""Violation that counts as none, relative to max(1, |v|, |bound|)."""


class ScaledPolyhedron(NamedTuple):
    """{box_lower ≤ x ≤ box_upper, lower ≤ Mx ≤ upper} with rows of M of length one."""

    M: Array
    lower: Array
    upper: Array
    box_lower: Array
    box_upper: Array


class _Active(NamedTuple):
    """The active constraints: normals N = QᵀR, numbers, sides and multipliers; a workspace."""

    Q: Array
    R: Array
    number: Array
    sign: Array
    y: Array
    normal: Array
    along: Array
    r: Array
    z: Array


@compiled
def project(v, out, polyhedron, multipliers, basis):
    """Projection of v onto a polyhedron.

    ``multipliers`` (rows of M, then coordinates) holds those of the upper sides minus those of
    the lower ones; if the set is EMPTY, the weights of a contradictory combination. The first rows
    of ``basis`` (d, d), unless it is empty, become an orthonormal basis of the directions that the
    active constraints leave free. Returns SOLVED, EMPTY or UNSETTLED, and how many these are.
    """
    m, d = polyhedron.M.shape
    multipliers[:] = 0.0
    scale = 1.0
    for j in range(d):
        scale = max(scale, abs(v[j]))
        out[j] = min(max(v[j], polyhedron.box_lower[j]), polyhedron.box_upper[j])
    worst, side = _worst(out, polyhedron, scale)
    if worst < 0:
        count = 0
        for j in range(d):
            multipliers[m + j] = v[j] - out[j]
            if v[j] == out[j]:
                count += 1
                if basis.shape[0] > 0:
                    basis[count - 1] = 0.0
                    basis[count - 1, j] = 1.0
        return SOLVED, count
    active, q = _clipped(v, out, m)
    for _ in range(50 * (m + d)):
        status, q = _add(worst, side, out, polyhedron, active, q)
        if status == EMPTY:
            multipliers[worst] = side
            for k in range(q):
                multipliers[active.number[k]] = -active.r[k] * active.sign[k]
            return EMPTY, q
        worst, side = _worst(out, polyhedron, scale)
        if worst < 0:
            for k in range(q):
                multipliers[active.number[k]] = active.y[k] * active.sign[k]
            if basis.shape[0] > 0:
                basis[: d - q] = active.Q[q:]
            return SOLVED, d - q
    return UNSETTLED, q


@compiled
def _bounds(k, polyhedron):
    """Both sides of constraint k, a row of M or a coordinate."""
    m = polyhedron.M.shape[0]
    if k < m:
        return polyhedron.lower[k], polyhedron.upper[k]
    return polyhedron.box_lower[k - m], polyhedron.box_upper[k - m]


@compiled
def _worst(x, polyhedron, scale):
    """The most violated constraint and its side (1 upper, -1 lower); -1 if none is."""
    m, d = polyhedron.M.shape
    worst, side, most = -1, 0.0, 0.0
    for k in range(m + d):
        value = dot(polyhedron.M[k], x) if k < m else x[k - m]
        lower, upper = _bounds(k, polyhedron)
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
def _clipped(v, x, m):
    """Active set at the projection onto the box: the coordinates that were clipped."""
    d = v.shape[0]
    Q, R = np.zeros((d, d)), np.zeros((d, d))
    number, sign, y = np.empty(d + 1, np.int64), np.empty(d + 1), np.zeros(d + 1)
    q, last = 0, d - 1
    for j in range(d):
        if v[j] != x[j]:
            side = 1.0 if v[j] > x[j] else -1.0
            Q[q, j], R[q, q] = 1.0, -side
            number[q], sign[q], y[q] = m + j, side, abs(v[j] - x[j])
            q += 1
        else:
            Q[last, j] = 1.0
            last -= 1
    room = np.empty(d), np.empty(d), np.empty(d + 1), np.empty(d)
    return _Active(Q, R, number, sign, y, room[0], room[1], room[2], room[3]), q


@compiled
def _set_normal(k, side, polyhedron, normal):
    """Inner normal of a constraint, written into ``normal``; returns b of <normal, x> ≥ b."""
    m = polyhedron.M.shape[0]
    if k < m:
        for j in range(normal.shape[0]):
            normal[j] = -side * polyhedron.M[k, j]
    else:
        normal[:] = 0.0
        normal[k - m] = -side
    lower, upper = _bounds(k, polyhedron)
    return -upper if side > 0 else lower


@compiled
def _add(k, side, x, polyhedron, active, q):
    """Make constraint k active, dropping others where their multipliers would turn negative."""
    Q, R, y, normal, along, r = (
        active.Q, active.R, active.y, active.normal, active.along, active.r
    )  # fmt: skip
    d, own, bound = x.shape[0], 0.0, _set_normal(k, side, polyhedron, normal)
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
            if r[i] > 0.0 and y[i] < part * r[i]:
                lower, upper = _bounds(active.number[i], polyhedron)
                if lower != upper:  # an equation is never dropped
                    part, drop = y[i] / r[i], i
        step = min(full, part)
        if step == math.inf:
            return EMPTY, q
        if full < math.inf:
            _combine(Q, along, q, active.z)
            for j in range(d):
                x[j] += step * active.z[j]
        for i in range(q):
            y[i] -= step * r[i]
        own += step
        if full <= part:
            _append(Q, R, along, q)
            active.number[q], active.sign[q], y[q] = k, side, own
            return SOLVED, q + 1
        _drop(active, q, drop)
        q -= 1


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
def _drop(active, q, k):
    """Remove active constraint k; rotations make R triangular again."""
    Q, R, number, sign, y = active.Q, active.R, active.number, active.sign, active.y
    for j in range(k + 1, q):
        number[j - 1], sign[j - 1], y[j - 1] = number[j], sign[j], y[j]
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
