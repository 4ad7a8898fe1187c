"""Compiled argmins: the method of :mod:`.semismooth_numpy` for functions with kernels."""

import math
from typing import NamedTuple

import numpy as np

from dual2.compiled import compiled, inline
from dual2.engine.local import (
    DENSE_A,
    DENSE_F,
    LOGISTIC_F,
    adjoint,
    apply,
    dot,
    grad_f,
    prox_g,
)
from dual2.engine.packed_args import borrowed
from dual2.engine.threads import own_rows
from dual2.functions.jacobians import prox_jacobian
from dual2.functions.values import value_at_prox
from dual2.methods.local.closed_form import (
    GRADIENT_NORM2,
    GRADIENT_VALUE,
    LINEAR_VALUE,
    NONSMOOTH_VALUE,
    PROX_NORM2,
    REMAINDER,
    SCALAR_TERMS,
    SMOOTH_VALUE,
    abs_product,
    set_scalars,
)
from dual2.methods.local.elimination import solve_many
from dual2.methods.local.solver_kind import SEMISMOOTH_SOLVER

X, V, Z, NEW_X, NEW_V, NEW_Z, STEP, LINEAR, GRADIENT = range(9)
"""Work vectors: the point, where its prox is taken, the prox; the same of a trial; a Newton step;
c = A_iᵀλ; a gradient."""
VECTORS = 9
STEP_NORM, ENVELOPE, MAGNITUDE = range(3)
"""What is seen at a point: |x - z|, the envelope there, the magnitude of its terms."""
FULL, SYSTEM, DERIVATIVE = range(3)
"""Work matrices: Hessian, Newton's matrix, derivative of the prox."""
_EPS = 2.220446049250313e-16
_MAX_STEPS, _SETTLED_RTOL, _MAX_IDLE_STEPS, _HALVINGS = 100, 1e-11, 6, 20


class SemismoothWorkspace(NamedTuple):
    """What is known of the agents, and work space of all threads, its first axis."""

    curve: np.ndarray
    """(n,): μ of g_i."""
    sets: np.ndarray
    """(n,): 1 where g_i is the indicator of a set."""
    vectors: np.ndarray
    """(·, VECTORS, width)."""
    matrices: np.ndarray
    """(·, 3, width, width)."""
    right: np.ndarray
    """(·, width, p): right-hand sides, then J_i A_iᵀ."""
    work: np.ndarray
    """(·, ·): for proxes."""
    evaluation: np.ndarray
    """(·, 3): what was seen last."""
    previous: np.ndarray
    """(·, 3): what was seen before."""
    terms: np.ndarray
    """(·, TERMS): terms of the numbers of a trial."""


def make_workspace(
    curve: np.ndarray, sets: np.ndarray, threads: int, width: int, p: int
) -> SemismoothWorkspace:
    """A workspace for agents of up to ``width`` variables."""
    sizes = (
        (VECTORS, width),
        (3, width, width),
        (width, p),
        (4 * width + 8,),
        (3,),
        (3,),
        (SCALAR_TERMS,),
    )
    return SemismoothWorkspace(curve, sets, *(np.zeros((threads, *size)) for size in sizes))


@inline
def value_f(block, i, x, slope):
    """f_i(x) up to a constant, and ∇f_i in ``slope``."""
    grad_f(block, i, x, slope)
    kind, d = block.fkind[i], x.shape[0]
    total = 0.0
    for j in range(d):
        total += 0.5 * (slope[j] + block.fcoef[1, block.xptr[i] + j]) * x[j]
    if kind & LOGISTIC_F:
        m, at = block.fsize[i], block.fptr[i] + (d * d if kind & DENSE_F else 0)
        side = at + m * d
        for row in range(m):
            inner = dot(block.fpool[at + row * d : at + (row + 1) * d], x)
            margin, weight = inner + block.fpool[side + row], block.fpool[side + m + row]
            e = math.exp(-abs(margin))
            total += weight * (max(-margin, 0.0) + math.log1p(e))
            total += 0.5 * weight * inner * (e if margin > 0.0 else 1.0) / (1.0 + e)
    return total


@compiled
def evaluate_point(block, i, L, task, vectors, at, work, evaluation):
    """Prox point, |x - z|, envelope and its magnitude of the vector in row ``at``."""
    block, task, vectors = borrowed((block, task, vectors))
    a, d, r = block.xptr[i], block.xptr[i + 1] - block.xptr[i], task.weight[i]
    x, v, z = vectors[at, :d], vectors[at + 1, :d], vectors[at + 2, :d]
    slope, c = vectors[GRADIENT, :d], vectors[LINEAR, :d]
    value, prox_value, linear = value_f(block, i, x, slope), 0.0, 0.0
    for j in range(d):
        away = x[j] - task.center[a + j]
        prox_value += 0.5 * r * away * away
        linear += c[j] * x[j]
        slope[j] += c[j] + r * away
        v[j] = x[j] - slope[j] / L
    prox_g(block, i, 1.0 / L, v, z, work)
    slope_term, square = 0.0, 0.0
    for j in range(d):
        slope_term += slope[j] * (z[j] - x[j])
        square += (z[j] - x[j]) ** 2
    nonsmooth, step_term = value_g(block, i, L, v, z, work), 0.5 * L * square
    evaluation[STEP_NORM] = math.sqrt(square)
    evaluation[ENVELOPE] = value + prox_value + linear + slope_term + step_term + nonsmooth
    evaluation[MAGNITUDE] = (
        abs(value) + prox_value + abs(linear) + abs(slope_term) + step_term + abs(nonsmooth)
    )
    return nonsmooth


@inline
def value_g(block, i, L, v, z, work):
    """g_i at z = prox_{g_i/L}(v)."""
    table, total = block.gtab, 0.0
    for b in range(block.gptr[i], block.gptr[i + 1]):
        start = table[b, 2]
        end, params = start + table[b, 3], block.gpar[table[b, 4] : table[b, 5]]
        point, prox = v[start:end], z[start:end]
        total += value_at_prox(table[b, 0], table[b, 1], 1.0 / L, point, prox, params, work)
    return total


@compiled
def set_system(block, i, L, r, x, v, matrices, work):
    """SYSTEM = I - D + DH/L with the Hessian H at x and the derivative D of the prox at v."""
    block, matrices, work = borrowed((block, matrices, work))
    d = x.shape[0]
    full, system, D = matrices[FULL], matrices[SYSTEM], matrices[DERIVATIVE]
    set_hessian(block, i, r, x, full)
    for j in range(d):
        for m in range(d):
            system[j, m] = 1.0 if j == m else 0.0
            D[j, m] = 0.0
    for b in range(block.gptr[i], block.gptr[i + 1]):
        at, params = block.gtab[b, 2], block.gpar[block.gtab[b, 4] : block.gtab[b, 5]]
        end, kind, flags = at + block.gtab[b, 3], block.gtab[b, 0], block.gtab[b, 1]
        prox_jacobian(kind, flags, 1.0 / L, v[at:end], D, at, params, work)
        for j in range(at, end):
            for k in range(at, end):
                if D[j, k] != 0.0:
                    factor = D[j, k] / L
                    system[j, k] -= D[j, k]
                    for m in range(d):
                        system[j, m] += factor * full[k, m]


@inline
def set_hessian(block, i, r, x, full):
    """full = ∇²f_i(x) + r·I."""
    a, d, kind = block.xptr[i], x.shape[0], block.fkind[i]
    at = block.fptr[i]
    for j in range(d):
        for m in range(d):
            full[j, m] = block.fpool[at + j * d + m] if kind & DENSE_F else 0.0
        full[j, j] += block.fcoef[0, a + j] + r
    if kind & LOGISTIC_F:
        at += d * d if kind & DENSE_F else 0
        size = block.fsize[i]
        for row in range(at, at + size * d, d):
            place = at + size * d + (row - at) // d
            e = math.exp(-abs(dot(block.fpool[row : row + d], x) + block.fpool[place]))
            bend = block.fpool[place + size] * e / (1.0 + e) ** 2
            for j in range(d):
                for m in range(d):
                    full[j, m] += bend * block.fpool[row + j] * block.fpool[row + m]


@inline
def advance(block, i, L, task, ws, thread, previous):
    """Rows X, V, Z move by a Newton step of acceptable length, else a prox step.

    ``previous`` has what was seen at row X, the workspace's ``evaluation`` gets what is seen there
    afterwards. Returns the number of gradients.
    """
    d, vectors, evaluation = (
        block.xptr[i + 1] - block.xptr[i],
        ws.vectors[thread],
        ws.evaluation[thread],
    )
    work, matrices, right = (
        ws.work[thread],
        ws.matrices[thread],
        ws.right[thread],
    )
    set_system(block, i, L, task.weight[i], vectors[X, :d], vectors[V, :d], matrices, work)
    for j in range(d):
        right[j, 0] = vectors[Z, j] - vectors[X, j]
    # A singular system leaves the prox step, which always descends.
    max_halvings = _HALVINGS if solve_many(matrices[SYSTEM], right[:, :1], d) else 0
    length, gradients, taken = 1.0, 0, False
    enough = 1e-4 * L * previous[STEP_NORM] ** 2
    while not taken:
        for j in range(d):
            move = (
                vectors[X, j] + length * right[j, 0] if gradients < max_halvings else vectors[Z, j]
            )
            vectors[NEW_X, j] = move
        evaluate_point(block, i, L, task, vectors, NEW_X, work, evaluation)
        # Halving |R| is enough if the envelope does not rise by more than rounding.
        slack = 1e-12 * previous[MAGNITUDE]
        taken = (
            evaluation[STEP_NORM] <= 0.5 * previous[STEP_NORM]
            and evaluation[ENVELOPE] <= previous[ENVELOPE] + slack
        )
        taken = (
            taken
            or evaluation[ENVELOPE] <= previous[ENVELOPE] - length * enough
            or gradients >= max_halvings
        )
        gradients, length = gradients + 1, 0.5 * length
    for j in range(d):
        vectors[X, j], vectors[V, j] = vectors[NEW_X, j], vectors[NEW_V, j]
        vectors[Z, j] = vectors[NEW_Z, j]
    return gradients


@inline
def argmin(block, i, task, ws, thread):
    """Row Z = the answer of agent i to the force in row FORCE, from row X; number of gradients."""
    d, vectors, evaluation = (
        block.xptr[i + 1] - block.xptr[i],
        ws.vectors[thread],
        ws.evaluation[thread],
    )
    L, previous = step_of(block, ws, i, task.weight[i]), ws.previous[thread]
    force_scale = math.sqrt(dot(vectors[LINEAR, :d], vectors[LINEAR, :d])) / L
    evaluate_point(block, i, L, task, vectors, X, ws.work[thread], evaluation)
    gradients, best, idle = 1, math.inf, 0
    for _ in range(_MAX_STEPS):
        moved, size = evaluation[STEP_NORM], math.sqrt(dot(vectors[Z, :d], vectors[Z, :d]))
        # At rounding level, relative to the point and to the force that acts on it.
        if moved <= 8.0 * _EPS * (size + 0.1 * force_scale):
            break
        idle = 0 if moved < 0.9 * best else idle + 1
        best = min(best, moved)
        if idle >= _MAX_IDLE_STEPS and moved <= _SETTLED_RTOL * (size + force_scale):
            break
        for k in range(3):
            previous[k] = evaluation[k]
        gradients += advance(block, i, L, task, ws, thread, previous)
    return gradients


@inline
def step_of(block, ws, i, r):
    """L of the smooth part; where it is linear, the curvature of g takes its place."""
    L, more = block.lip[i] + r, ws.curve[i]
    return L if L > 0.0 else more if 0.0 < more < math.inf else 1.0


@inline
def argmin_at(block, i, task, ws, thread, multiplier):
    """Row Z = the answer of agent i to a multiplier; number of gradients.

    A projection of a point far away is in the set up to the rounding of that point; projected once
    more it is in the set.
    """
    vectors, a = ws.vectors[thread], block.xptr[i]
    d = block.xptr[i + 1] - a
    adjoint(block, i, multiplier, vectors[LINEAR])
    for j in range(d):
        vectors[X, j] = task.x[a + j]
    gradients = argmin(block, i, task, ws, thread)
    if ws.sets[i]:
        for j in range(d):
            vectors[NEW_X, j] = vectors[Z, j]
        prox_g(block, i, 1.0, vectors[NEW_X, :d], vectors[Z, :d], ws.work[thread])
    return gradients


@inline
def set_scalars_of(block, i, task, ws, thread, out):
    """The numbers of a trial for the answer in row Z, see :mod:`.message`."""
    a, d, r = block.xptr[i], block.xptr[i + 1] - block.xptr[i], task.weight[i]
    vectors, terms, L = (
        ws.vectors[thread],
        ws.terms[thread],
        step_of(block, ws, i, task.weight[i]),
    )
    x, c, slope = vectors[Z, :d], vectors[LINEAR, :d], vectors[GRADIENT, :d]
    for k in range(terms.shape[0]):
        terms[k] = 0.0
    terms[NONSMOOTH_VALUE] = value_g(block, i, L, vectors[V, :d], x, ws.work[thread])
    terms[SMOOTH_VALUE] = value_f(block, i, x, slope)
    for j in range(d):
        terms[LINEAR_VALUE] += c[j] * x[j]
        terms[GRADIENT_VALUE] += slope[j] * x[j]
        terms[GRADIENT_NORM2] += slope[j] ** 2
        terms[PROX_NORM2] += (x[j] - task.center[a + j]) ** 2
    terms[REMAINDER] = L * ws.evaluation[thread, STEP_NORM]
    set_scalars(block, i, x, c, r, terms, task.tol, out)


@inline
def add_jacobian(block, i, task, ws, thread, out):
    """out = lower triangle of A_i J_i A_iᵀ at the answer in row Z."""
    a, d, p = block.xptr[i], block.xptr[i + 1] - block.xptr[i], task.trials.shape[1]
    vectors, matrices, right = (
        ws.vectors[thread],
        ws.matrices[thread],
        ws.right[thread],
    )
    L, r, place = step_of(block, ws, i, task.weight[i]), task.weight[i], block.place
    set_system(block, i, L, r, vectors[Z, :d], vectors[V, :d], matrices, ws.work[thread])
    D, dense = matrices[DERIVATIVE], block.akind[i] == DENSE_A
    for j in range(d):
        for k in range(p):
            right[j, k] = 0.0
        for m in range(d):
            factor = D[j, m] / L
            if factor == 0.0:
                continue
            if dense:
                for k in range(p):
                    right[j, k] += factor * block.cols[place[a + m, 0], k]
            else:
                for e in range(place[a + m, 0], place[a + m, 1]):
                    right[j, block.sidx[e]] += factor * block.sval[e]
    # A singular system: this agent adds nothing, and G is too small rather than too large.
    if not solve_many(matrices[SYSTEM], right[:, :p], d):
        return
    for j in range(d):
        if dense:
            at = 0
            # A J Aᵀ is symmetric but for rounding; half of both triangles keeps it so everywhere.
            for k in range(p):
                t = 0.5 * block.cols[place[a + j, 0], k]
                for m in range(k + 1):
                    out[at + m] += t * right[j, m]
                    out[at + m] += 0.5 * block.cols[place[a + j, 0], m] * right[j, k]
                at += k + 1
        else:
            for e in range(place[a + j, 0], place[a + j, 1]):
                k, t = block.sidx[e], 0.5 * block.sval[e]
                for m in range(p):
                    twice = 2.0 if m == k else 1.0
                    at = k * (k + 1) // 2 + m if m <= k else m * (m + 1) // 2 + k
                    out[at] += twice * t * right[j, m]


@compiled
def semismooth_trials(block, kind, task, ws, rows, out, gradients, member):
    """Trials and Jacobians of the agents in places ``rows`` of this kind.

    Without a message (``task.stride`` = 0) the answers to the only multiplier become their x.
    """
    block, task, ws, member = borrowed((block, task, ws, member))
    first, last = own_rows(member, rows.shape[0])
    p, half = task.trials.shape[1], task.trials.shape[1] * (task.trials.shape[1] + 1) // 2
    thread, stride = member.thread, task.stride
    for e in range(first, last):
        i = rows[e]
        if kind[i] != SEMISMOOTH_SOLVER:
            continue
        z = ws.vectors[thread, Z, : block.xptr[i + 1] - block.xptr[i]]
        for t in range(task.trials.shape[0]):
            at = t * stride
            gradients[i] += argmin_at(block, i, task, ws, thread, task.trials[t])
            if stride == 0:
                for j in range(z.shape[0]):
                    task.x[block.xptr[i] + j] = z[j]
                continue
            apply(block, i, z, out[e, at : at + p])
            abs_product(block, i, z, out[e, at + p : at + 2 * p])
            set_scalars_of(block, i, task, ws, thread, out[e, at + 2 * p : at + stride])
            if t < task.jacobians:
                at = task.jacobian_offset + t * half
                add_jacobian(block, i, task, ws, thread, out[e, at : at + half])
    return 0
