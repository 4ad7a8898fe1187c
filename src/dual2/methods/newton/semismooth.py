"""Compiled answers of the other agents: the method of :mod:`.local` for functions with kernels."""

import math
from typing import NamedTuple

import numpy as np

from dual2.compiled import compiled, spliced
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
from dual2.engine.threads import own_rows
from dual2.engine.unowned import unowned
from dual2.functions.jacobians import prox_jacobian
from dual2.functions.values import value_at_prox
from dual2.methods.newton.closed_form import (
    FAR,
    FORCED,
    GRADIENT,
    KINKS,
    LEFT,
    PULLED,
    SMOOTH,
    TERMS,
    load_of,
    tell,
)

X, V, Z, NEW_X, NEW_V, NEW_Z, STEP, FORCE, SLOPE = range(9)
"""Work vectors: the point, where its prox is taken, the prox; the same of a trial; a Newton step;
c = A_iᵀλ; a gradient."""
VECTORS = 9
MOVED_BY, ENVELOPE, MAGNITUDE = range(3)
"""What is seen at a point: |x - z|, the envelope there, the magnitude of its terms."""
FULL, SYSTEM, DERIVATIVE = range(3)
"""Work matrices: Hessian, Newton's matrix, derivative of the prox."""
_EPS = 2.220446049250313e-16
_STEPS, _SETTLED, _PATIENCE, _HALVINGS = 100, 1e-11, 6, 20


class Desk(NamedTuple):
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
    found: np.ndarray
    """(·, 3): what was seen last."""
    old: np.ndarray
    """(·, 3): what was seen before."""
    terms: np.ndarray
    """(·, TERMS): terms of the numbers of a trial."""


def make_desk(curve: np.ndarray, sets: np.ndarray, threads: int, width: int, p: int) -> Desk:
    """Room for agents of up to ``width`` variables."""
    sizes = (
        (VECTORS, width),
        (3, width, width),
        (width, p),
        (4 * width + 8,),
        (3,),
        (3,),
        (TERMS,),
    )
    return Desk(curve, sets, *(np.zeros((threads, *size)) for size in sizes))


@spliced
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
def see(block, i, L, task, vectors, at, work, found):
    """Prox point, |x - z|, envelope and its magnitude of the vector in row ``at``."""
    block, task, vectors = unowned((block, task, vectors))
    a, d, r = block.xptr[i], block.xptr[i + 1] - block.xptr[i], task.r[i]
    x, v, z = vectors[at, :d], vectors[at + 1, :d], vectors[at + 2, :d]
    slope, c = vectors[SLOPE, :d], vectors[FORCE, :d]
    value, spring, pulled = value_f(block, i, x, slope), 0.0, 0.0
    for j in range(d):
        away = x[j] - task.anchor[a + j]
        spring += 0.5 * r * away * away
        pulled += c[j] * x[j]
        slope[j] += c[j] + r * away
        v[j] = x[j] - slope[j] / L
    prox_g(block, i, 1.0 / L, v, z, work)
    ahead, square = 0.0, 0.0
    for j in range(d):
        ahead += slope[j] * (z[j] - x[j])
        square += (z[j] - x[j]) ** 2
    kinks, far = value_g(block, i, L, v, z, work), 0.5 * L * square
    found[MOVED_BY] = math.sqrt(square)
    found[ENVELOPE] = value + spring + pulled + ahead + far + kinks
    found[MAGNITUDE] = abs(value) + spring + abs(pulled) + abs(ahead) + far + abs(kinks)
    return kinks


@spliced
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
    block, matrices, work = unowned((block, matrices, work))
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


@spliced
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


@compiled
def solve_many(matrix, right, size):
    """Solve the leading size × size system for all columns of ``right``, in place."""
    width = right.shape[1]
    for j in range(size):
        pivot = j
        for k in range(j + 1, size):
            if abs(matrix[k, j]) > abs(matrix[pivot, j]):
                pivot = k
        if not abs(matrix[pivot, j]) > 1e-300:
            return False
        if pivot != j:
            for m in range(size):
                matrix[j, m], matrix[pivot, m] = matrix[pivot, m], matrix[j, m]
            for m in range(width):
                right[j, m], right[pivot, m] = right[pivot, m], right[j, m]
        for k in range(j + 1, size):
            factor = matrix[k, j] / matrix[j, j]
            if factor != 0.0:
                for m in range(j + 1, size):
                    matrix[k, m] -= factor * matrix[j, m]
                for m in range(width):
                    right[k, m] -= factor * right[j, m]
    for j in range(size - 1, -1, -1):
        for m in range(width):
            total = right[j, m]
            for k in range(j + 1, size):
                total -= matrix[j, k] * right[k, m]
            right[j, m] = total / matrix[j, j]
    return True


@spliced
def advance(block, i, L, task, desk, thread, old):
    """Rows X, V, Z move by a Newton step of acceptable length, else a prox step.

    ``old`` has what was seen at row X, the desk's ``found`` gets what is seen there afterwards.
    Returns the number of gradients.
    """
    d, vectors, found = block.xptr[i + 1] - block.xptr[i], desk.vectors[thread], desk.found[thread]
    work, matrices, right = desk.work[thread], desk.matrices[thread], desk.right[thread]
    set_system(block, i, L, task.r[i], vectors[X, :d], vectors[V, :d], matrices, work)
    for j in range(d):
        right[j, 0] = vectors[Z, j] - vectors[X, j]
    tries = _HALVINGS if solve_many(matrices[SYSTEM], right[:, :1], d) else 0
    length, tried, taken = 1.0, 0, False
    enough = 1e-4 * L * old[MOVED_BY] ** 2
    while not taken:
        for j in range(d):
            move = vectors[X, j] + length * right[j, 0] if tried < tries else vectors[Z, j]
            vectors[NEW_X, j] = move
        see(block, i, L, task, vectors, NEW_X, work, found)
        slack = 1e-12 * old[MAGNITUDE]
        taken = found[MOVED_BY] <= 0.5 * old[MOVED_BY] and found[ENVELOPE] <= old[ENVELOPE] + slack
        taken = taken or found[ENVELOPE] <= old[ENVELOPE] - length * enough or tried >= tries
        tried, length = tried + 1, 0.5 * length
    for j in range(d):
        vectors[X, j], vectors[V, j] = vectors[NEW_X, j], vectors[NEW_V, j]
        vectors[Z, j] = vectors[NEW_Z, j]
    return tried


@spliced
def answer(block, i, task, desk, thread):
    """Row Z = the answer of agent i to the force in row FORCE, from row X; number of gradients."""
    d, vectors, found = block.xptr[i + 1] - block.xptr[i], desk.vectors[thread], desk.found[thread]
    L, old = step_of(block, desk, i, task.r[i]), desk.old[thread]
    pressed = math.sqrt(dot(vectors[FORCE, :d], vectors[FORCE, :d])) / L
    see(block, i, L, task, vectors, X, desk.work[thread], found)
    tried, best, idle = 1, math.inf, 0
    for _ in range(_STEPS):
        moved, size = found[MOVED_BY], math.sqrt(dot(vectors[Z, :d], vectors[Z, :d]))
        if moved <= 8.0 * _EPS * (size + 0.1 * pressed):
            break
        idle = 0 if moved < 0.9 * best else idle + 1
        best = min(best, moved)
        if idle >= _PATIENCE and moved <= _SETTLED * (size + pressed):
            break
        for k in range(3):
            old[k] = found[k]
        tried += advance(block, i, L, task, desk, thread, old)
    return tried


@spliced
def step_of(block, desk, i, r):
    """L of the smooth part; where it is linear, the curvature of g takes its place."""
    L, more = block.lip[i] + r, desk.curve[i]
    return L if L > 0.0 else more if 0.0 < more < math.inf else 1.0


@spliced
def ask(block, i, task, desk, thread, price):
    """Row Z = the answer of agent i to a price; number of gradients.

    A projection of a point far away is in the set up to the rounding of that point; projected once
    more it is in the set.
    """
    vectors, a = desk.vectors[thread], block.xptr[i]
    d = block.xptr[i + 1] - a
    adjoint(block, i, price, vectors[FORCE])
    for j in range(d):
        vectors[X, j] = task.x[a + j]
    tried = answer(block, i, task, desk, thread)
    if desk.sets[i]:
        for j in range(d):
            vectors[NEW_X, j] = vectors[Z, j]
        prox_g(block, i, 1.0, vectors[NEW_X, :d], vectors[Z, :d], desk.work[thread])
    return tried


@spliced
def account(block, i, task, desk, thread, out):
    """The numbers of a trial for the answer in row Z, see :mod:`.message`."""
    a, d, r = block.xptr[i], block.xptr[i + 1] - block.xptr[i], task.r[i]
    vectors, terms, L = desk.vectors[thread], desk.terms[thread], step_of(block, desk, i, task.r[i])
    x, c, slope = vectors[Z, :d], vectors[FORCE, :d], vectors[SLOPE, :d]
    for k in range(terms.shape[0]):
        terms[k] = 0.0
    terms[KINKS] = value_g(block, i, L, vectors[V, :d], x, desk.work[thread])
    terms[SMOOTH] = value_f(block, i, x, slope)
    for j in range(d):
        terms[PULLED] += c[j] * x[j]
        terms[FORCED] += slope[j] * x[j]
        terms[GRADIENT] += slope[j] ** 2
        terms[FAR] += (x[j] - task.anchor[a + j]) ** 2
    terms[LEFT] = L * desk.found[thread, MOVED_BY]
    tell(block, i, x, c, r, terms, task.tol, out)


@spliced
def add_jacobian(block, i, task, desk, thread, out):
    """out = lower triangle of A_i J_i A_iᵀ at the answer in row Z."""
    a, d, p = block.xptr[i], block.xptr[i + 1] - block.xptr[i], task.trials.shape[1]
    vectors, matrices, right = desk.vectors[thread], desk.matrices[thread], desk.right[thread]
    L, r, place = step_of(block, desk, i, task.r[i]), task.r[i], block.place
    set_system(block, i, L, r, vectors[Z, :d], vectors[V, :d], matrices, desk.work[thread])
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
    if not solve_many(matrices[SYSTEM], right[:, :p], d):
        return
    for j in range(d):
        if dense:
            at = 0
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
def respond_others(block, others, task, desk, rows, out, tried, member):
    """Trials and Jacobians of the agents in places ``rows`` that ``others`` marks.

    Without a message (``task.stride`` = 0) the answers to the only price become their x.
    """
    block, task, desk, member = unowned((block, task, desk, member))
    first, last = own_rows(member, rows.shape[0])
    p, half = task.trials.shape[1], task.trials.shape[1] * (task.trials.shape[1] + 1) // 2
    thread, stride = member.thread, task.stride
    for e in range(first, last):
        i = rows[e]
        if not others[i]:
            continue
        z = desk.vectors[thread, Z, : block.xptr[i + 1] - block.xptr[i]]
        for t in range(task.trials.shape[0]):
            at = t * stride
            tried[i] += ask(block, i, task, desk, thread, task.trials[t])
            if stride == 0:
                for j in range(z.shape[0]):
                    task.x[block.xptr[i] + j] = z[j]
                continue
            apply(block, i, z, out[e, at : at + p])
            load_of(block, i, z, out[e, at + p : at + 2 * p])
            account(block, i, task, desk, thread, out[e, at + 2 * p : at + stride])
            if t < task.jacobians:
                at = task.squares + t * half
                add_jacobian(block, i, task, desk, thread, out[e, at : at + half])
    return 0
