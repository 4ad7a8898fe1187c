"""Compiled answers of agents with a diagonal f_i and a polyhedron for g_i: one exact projection.

With w = d_i + r_i the answer to a multiplier minimises Σ (w_j/2)(x_j - u_j)² over the polyhedron, u
the minimiser without it: a projection in the units √w_j·x_j, exact as
:mod:`dual2.functions.projection` and :mod:`dual2.functions.chain` make it. They know the face on
which it ends; with an orthonormal basis Z of its directions the derivative of x with respect to -c
is W^(-1/2) Z Zᵀ W^(-1/2).
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dual2.compiled import compiled, inline
from dual2.engine.local import DENSE_A, adjoint, apply, dot
from dual2.engine.packed_args import borrowed
from dual2.engine.threads import own_rows
from dual2.functions import Function
from dual2.functions.chain import ROWS, project_chain
from dual2.functions.polyhedron import IndicatorPolyhedron
from dual2.functions.projection import SOLVED, ScaledPolyhedron, project
from dual2.methods.local.closed_form import abs_product, add_jacobian_triangle, set_trial_scalars
from dual2.methods.message import (
    BARRIER_DISTANCE,
    DIRECTION_SCALARS,
    OUTSIDE_BARRIER,
    SUPPORT,
    SUPPORT_MAGNITUDE,
)

Array = np.ndarray
NONE, CHAIN, GENERAL = range(3)
ARGMIN, LINEAR, TARGET, WEIGHT, ROOT, SCALED, GROUPS, SPARE, NEXT = range(9)
VECTORS = 9
_MAX_PROX_STEPS = 12
"""Most proximal steps, each eight times as long, until a support is attained."""


class PolyhedronTable(NamedTuple):
    """The polyhedra, and work space of all threads, its first axis."""

    kind: Array
    """(n,): NONE for agents that have none."""
    start: Array
    """(n,): where the polyhedron's numbers begin: a chain's four rows; else M, lower, upper and the
    bounds of the coordinates."""
    rows: Array
    """(n,): rows of M."""
    bounded: Array
    """(n,): whether all coordinates have finite bounds."""
    max_bound: Array
    """(n,): the largest of these, in magnitude."""
    pool: Array
    """The numbers."""
    vectors: Array
    """(·, VECTORS, width)."""
    basis: Array
    """(·, width, width): directions of the face."""
    workspace: Array
    """(·, ROWS, 2 · width + 2): for chains."""
    matrix: Array
    """(·, most rows · width): M in other units."""
    sides: Array
    """(·, 3 · most rows + 3 · width): bounds in other units, and multipliers."""
    terms: Array
    """(·, width): terms of the numbers of a trial."""


def make_polyhedra(
    functions: Sequence[Function], able: Array, dims: Array, threads: int, least: int
) -> PolyhedronTable:
    """The polyhedra among the g_i of the agents that are ``able``; rooms at least so wide."""
    n = len(functions)
    kind, start, rows, bounded = (np.zeros(n, np.int64) for _ in range(4))
    max_bound = np.zeros(n)
    pool: list[Array] = [np.zeros(1)]
    used, width = 1, least
    for i, g in enumerate(functions):
        if not (able[i] and isinstance(g, IndicatorPolyhedron)):
            continue
        parts: tuple[Any, ...] = g.scaled if g.chain is None else (g.chain,)
        kind[i], start[i] = GENERAL if g.chain is None else CHAIN, used
        rows[i] = len(g.scaled.M) if g.chain is None else 0
        ends = np.abs([g.scaled.box_lower, g.scaled.box_upper])
        bounded[i], max_bound[i] = np.isfinite(ends).all(), ends.max()
        pool += [part.ravel() for part in parts]
        used, width = used + sum(part.size for part in parts), max(width, int(dims[i]))
    most = int(rows.max(initial=0))
    side = width if kind.any() else 1  # nobody needs the matrix
    sizes = ((VECTORS, width), (side, side), (ROWS, 2 * width + 2), (most * width + 1,))
    sizes += ((3 * most + 3 * width,), (width,))
    workspaces = (np.zeros((threads, *size)) for size in sizes)
    return PolyhedronTable(kind, start, rows, bounded, max_bound, np.concatenate(pool), *workspaces)


@compiled
def project_to_face(table, i, d, thread):
    """Row ANSWER = minimiser of Σ (w_j/2)(x_j - u_j)²; the number of rows of ``basis``.

    w and u are the rows WEIGHT and TARGET. The directions are those in the units of x: the
    derivative is the sum of their squares. Without an answer row ANSWER is NaN.
    """
    table = borrowed(table)
    vectors, at = table.vectors[thread], table.start[i]
    u, w, x = vectors[TARGET, :d], vectors[WEIGHT, :d], vectors[ARGMIN, :d]
    basis = table.basis[thread]
    if table.kind[i] == CHAIN:
        chain = table.pool[at : at + 4 * d].reshape((4, d))
        project_chain(u, w, chain, x, vectors[GROUPS, :d], table.workspace[thread])
        return set_groups(vectors[GROUPS, :d], basis)
    roots, target, out = vectors[ROOT, :d], vectors[SCALED, :d], vectors[SPARE, :d]
    for j in range(d):
        roots[j] = math.sqrt(w[j])
        target[j] = roots[j] * u[j]
    polyhedron, multipliers = in_units(table, i, roots, thread)
    square = np.empty((d, d))
    status, count = project(target, out, polyhedron, multipliers, square)
    for j in range(d):
        x[j] = out[j] / roots[j] if status == SOLVED else math.nan
        for k in range(count):
            basis[k, j] = square[k, j] / roots[j]
    return count


@inline
def in_units(table, i, roots, thread):
    """The polyhedron in the units √w·x, rows of length one, and a workspace for multipliers."""
    d, m, at = roots.shape[0], table.rows[i], table.start[i]
    M = table.matrix[thread, : m * d].reshape((m, d))
    sides = table.sides[thread]
    end = at + m * d
    for k in range(m):
        square = 0.0
        for j in range(d):
            M[k, j] = table.pool[at + k * d + j] / roots[j]
            square += M[k, j] ** 2
        length = math.sqrt(square)
        for j in range(d):
            M[k, j] /= length
        sides[k], sides[m + k] = table.pool[end + k] / length, table.pool[end + m + k] / length
    box = end + 2 * m
    for j in range(d):
        sides[2 * m + j] = roots[j] * table.pool[box + j]
        sides[2 * m + d + j] = roots[j] * table.pool[box + d + j]
    middle = 2 * m + d
    polyhedron = ScaledPolyhedron(
        M, sides[:m], sides[m : 2 * m], sides[2 * m : middle], sides[middle : middle + d]
    )
    return polyhedron, sides[middle + d : middle + d + m + d]


@compiled
def set_groups(weights, basis):
    """Rows of ``basis`` = √weight on each free group of a chain; how many."""
    count, end = 0, weights.shape[0] - 1
    while end >= 0:
        first = end
        while first > 0 and weights[first - 1] < 0.0:
            first -= 1
        if weights[end] > 0.0:
            for j in range(weights.shape[0]):
                inside = first <= j <= end
                basis[count, j] = math.sqrt(weights[end]) if inside else 0.0
            count += 1
        end = first - 1
    return count


@inline
def add_directions(block, i, basis, count, d, image, out):
    """out += lower triangle of Σ_k (A_i z_k)(A_i z_k)ᵀ over the rows z_k of ``basis``."""
    p, first, place, dense = image.shape[0], block.xptr[i], block.place, block.akind[i] == DENSE_A
    image[:] = 0.0
    for k in range(count):
        low, high = p, -1  # where the image is not zero
        for j in range(d):
            t, at = basis[k, j], place[first + j, 0]
            if t != 0.0 and dense:
                low, high = 0, p - 1
                for a in range(p):
                    image[a] += t * block.cols[at, a]
            elif t != 0.0:
                for m in range(at, place[first + j, 1]):
                    image[block.sidx[m]] += t * block.sval[m]
                    low, high = min(low, block.sidx[m]), max(high, block.sidx[m])
        for a in range(low, high + 1):
            t, e = image[a], a * (a + 1) // 2
            if t != 0.0:
                for b in range(low, a + 1):
                    out[e + b] += t * image[b]
        for a in range(low, high + 1):
            image[a] = 0.0


@inline
def set_target(block, i, task, table, thread, multiplier):
    """Rows FORCE, WEIGHT and TARGET of an agent at a multiplier."""
    a, vectors, r = block.xptr[i], table.vectors[thread], task.weight[i]
    adjoint(block, i, multiplier, vectors[LINEAR])
    for j in range(block.xptr[i + 1] - a):
        curve = block.fcoef[0, a + j] + r
        slope = vectors[LINEAR, j] + block.fcoef[1, a + j] - r * task.center[a + j]
        vectors[WEIGHT, j] = curve if curve > 0.0 else 1.0
        vectors[TARGET, j] = -slope / vectors[WEIGHT, j]


@compiled
def polyhedron_trials(block, table, task, rows, out, member):
    """Trials, Jacobians and M of the agents in places ``rows`` that have a polyhedron.

    Without a message (``task.stride`` = 0) the answers to the only multiplier become their x.
    """
    block, table, task, member = borrowed((block, table, task, member))
    first, last = own_rows(member, rows.shape[0])
    p, stride, thread = task.trials.shape[1], task.stride, member.thread
    half, vectors, basis = p * (p + 1) // 2, table.vectors[thread], table.basis[thread]
    image = np.empty(p)
    for e in range(first, last):
        i = rows[e]
        if table.kind[i] == NONE:
            continue
        a, d = block.xptr[i], block.xptr[i + 1] - block.xptr[i]
        x, c = vectors[ARGMIN, :d], vectors[LINEAR]
        for t in range(task.trials.shape[0]):
            at = t * stride
            set_target(block, i, task, table, thread, task.trials[t])
            count = project_to_face(table, i, d, thread)
            if stride == 0:
                for j in range(d):
                    task.x[a + j] = x[j]
                continue
            apply(block, i, x, out[e, at : at + p])
            abs_product(block, i, x, out[e, at + p : at + 2 * p])
            numbers = out[e, at + 2 * p : at + stride]
            set_trial_scalars(block, block.fcoef, i, x, c, task, table.terms[thread], numbers)
            if t < task.jacobians:
                at = task.jacobian_offset + t * half
                add_directions(block, i, basis, count, d, image, out[e, at : at + half])
        if task.bound_offset >= 0:
            weights = vectors[SPARE]
            for j in range(d):
                weights[j] = 1.0 / vectors[WEIGHT, j]
            add_jacobian_triangle(
                block,
                i,
                weights,
                task.entry_slot,
                out[e, task.bound_offset : task.bound_offset + half],
            )
    return 0


@compiled
def support_polyhedra(block, table, task, rows, out, member):
    """Numbers of each direction, for agents with a polyhedron whose coordinates are all bounded.

    The support is attained by proximal steps of growing length; where it is not, the direction
    proves nothing.
    """
    block, table, task, member = borrowed((block, table, task, member))
    first, last = own_rows(member, rows.shape[0])
    thread = member.thread
    vectors = table.vectors[thread]
    for e in range(first, last):
        i = rows[e]
        if table.kind[i] == NONE or not table.bounded[i]:
            continue
        a, d = block.xptr[i], block.xptr[i + 1] - block.xptr[i]
        x, c, at = vectors[ARGMIN, :d], vectors[LINEAR], vectors[NEXT, :d]
        for t in range(task.trials.shape[0]):
            begin = task.jacobian_offset + t * DIRECTION_SCALARS
            adjoint(block, i, task.trials[t], c)
            length, step, moved = math.sqrt(dot(c[:d], c[:d])), table.max_bound[i], math.inf
            for j in range(d):
                at[j], vectors[WEIGHT, j] = task.x[a + j], 1.0
            for _ in range(_MAX_PROX_STEPS if length * step > 0.0 else 0):
                for j in range(d):
                    vectors[TARGET, j] = at[j] - step / length * c[j]
                project_to_face(table, i, d, thread)
                moved = 0.0
                for j in range(d):
                    moved, at[j] = moved + (x[j] - at[j]) ** 2, x[j]
                if math.sqrt(moved) <= 1e-13 * step:
                    moved = 0.0
                    break
                step *= 8.0
            out[e, begin + SUPPORT] = -dot(c[:d], at)
            out[e, begin + SUPPORT_MAGNITUDE] = length * math.sqrt(d) * table.max_bound[i]
            out[e, begin + BARRIER_DISTANCE] = 0.0
            idle = length * table.max_bound[i] == 0.0
            out[e, begin + OUTSIDE_BARRIER] = 0.0 if moved == 0.0 or idle else 1.0
    return 0
