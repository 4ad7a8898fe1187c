"""Compiled local problems with separable g_i and quadratic f_i, solved to machine precision.

    min_x  ½xᵀPx + qᵀx + g_i(x) + Σ_k ψ_k((A_i x)_k) + (w/2)|x - center_i|²,

with g_i separable and piecewise linear-quadratic and ψ smooth. The subproblem of iD2A with ρ = 0
is of this form with ψ_k(u) = h_k(n(u - z_k))/n and w = 0; the local problems of the methods of ADMM
type are, with ψ_k(u) = (r/2)(u - z_k)², one-sided for inequalities. A proximal Newton method solves
it: the quadratic model of the smooth part plus the piecewise linear part of g_i is minimised by a
primal active set method, which begins at a proximal gradient step and never increases the model;
then comes a line search on derivatives. The multiplier is λ_k = ψ_k'((A_i x)_k).

Arrays belong to all agents, so that no call makes views: x and ``prox center`` are flat, ``z`` has
rows.
"""

import math
from typing import NamedTuple

import numpy as np

from dual2.compiled import compiled, forceinline, inline
from dual2.engine.local import dot_column
from dual2.engine.packed_args import borrowed

Array = np.ndarray
QUADRATIC_H, LOGISTIC_H, POISSON_H = range(3)
G, T, BASE, R, STEP = range(5)
"""Work vectors of length d: gradient, target, start of the line search, model gradient, step."""
AX, SLOPE, BEND, COLUMN, ROWS = range(5)
"""Work vectors of length p: A_i x, ψ' and ψ''; a column of A_i."""
VECTORS = 8
"""Most work vectors of length d that a method on a local problem needs."""
_ROUNDS, _TRIALS = 200, 40
_FLOOR = 1e-15
"""A proximal gradient step this small, relative to its terms, is rounding."""
_TINY = 1e-9
"""Curvature, relative to the largest, that the model gets where the problem may have none."""


class Task(NamedTuple):
    """A local problem of each agent, see the module's text."""

    x: Array
    """The flat x, in which the answer is left."""
    z: Array
    """(n, p)."""
    center: Array
    weight: float
    """w."""
    kind: int
    """QUADRATIC_H, LOGISTIC_H or POISSON_H."""
    par: Array
    """Parameters of ψ by the kind."""
    inverse: float
    """The n of ψ_k(u) = h_k(n(u - z_k))/n."""


class Scratch(NamedTuple):
    """Workspace of one local problem; d stands for the largest d_i."""

    full: Array
    """(d, d): a Hessian."""
    reduced: Array
    """(d, d): a system to solve."""
    derivative: Array
    """(d, d): derivative of a prox."""
    V: Array
    """(VECTORS, d)."""
    rows: Array
    """(ROWS, p)."""
    free: Array
    """(d,): numbers of the coordinates that move."""
    side: Array
    """(d,): 0 for a coordinate that is held, else the sign of (t - kink)."""
    work: Array
    """For proxes."""


@compiled
def new_scratch(block):
    """A workspace for the largest agent of the block."""
    d, p = 1, block.cols.shape[1]
    for i in range(block.xptr.shape[0] - 1):
        d = max(d, block.xptr[i + 1] - block.xptr[i])
    return Scratch(
        np.empty((d, d)),
        np.empty((d, d)),
        np.empty((d, d)),
        np.empty((VECTORS, d)),
        np.empty((ROWS, p)),
        np.empty(d, np.int64),
        np.empty(d, np.int64),
        np.empty(3 * d + 8),
    )


@forceinline
def quadratic_slopes(i, task, rows):
    """ψ' and ψ'' where h* has curvature par[k], slope par[p+k] at 0 and a domain: a clip."""
    p, z, par, inverse = rows.shape[1], task.z, task.par, task.inverse
    for k in range(p):
        w = ((rows[AX, k] - z[i, k]) * inverse - par[p + k]) / par[k]
        low, high = par[5 * p + k], par[6 * p + k]
        rows[SLOPE, k] = min(max(w, low), high)
        rows[BEND, k] = inverse / par[k] if low <= w <= high else 0.0


@forceinline
def other_slopes(i, task, rows):
    """ψ' and ψ'' of logistic and Poisson losses, data and scale as in the lowering."""
    p, z, par, inverse = rows.shape[1], task.z, task.par, task.inverse
    for k in range(p):
        u, data, scale = (rows[AX, k] - z[i, k]) * inverse, par[k], par[p + k]
        if task.kind == LOGISTIC_H:
            e = math.exp(-abs(data * u))
            share = e / (1.0 + e) if data * u > 0.0 else 1.0 / (1.0 + e)
            rows[SLOPE, k] = -data * scale * share
            rows[BEND, k] = inverse * scale * share * (1.0 - share)
        else:
            e = scale * math.exp(min(u, 700.0))
            rows[SLOPE, k], rows[BEND, k] = e - scale * data, inverse * e


@compiled
def objective(block, i, task, rows):
    """f_i + g_i + Σψ + (w/2)|x - prox center|² at x, up to a constant; rows[AX] is A_i x."""
    block, task, rows = borrowed((block, task, rows))
    a, d, p = block.xptr[i], block.xptr[i + 1] - block.xptr[i], rows.shape[1]
    x, z, kind, par, inverse = task.x, task.z, task.kind, task.par, task.inverse
    coef, fpool = block.coef, block.fpool
    value = 0.0
    for k in range(p):
        u = (rows[AX, k] - z[i, k]) * inverse
        if kind == QUADRATIC_H:
            w = rows[SLOPE, k]
            value += w * (u - par[p + k] - 0.5 * par[k] * w)
        elif kind == LOGISTIC_H:
            m = par[k] * u
            value += par[p + k] * (math.log1p(math.exp(-abs(m))) + max(-m, 0.0))
        else:
            value += par[p + k] * (math.exp(min(u, 700.0)) - par[k] * u)
    value /= inverse
    for j in range(d):
        half = coef[0, a + j] * x[a + j]
        if block.fkind[i] != 0:
            for m in range(d):
                half += fpool[block.fptr[i] + j * d + m] * x[a + m]
        value += (0.5 * half + coef[1, a + j]) * x[a + j] + linear_part(coef, a + j, x[a + j])
        value += 0.5 * task.weight * (x[a + j] - task.center[a + j]) ** 2
    return value


@forceinline
def linear_part(coef, j, t):
    """s(t)·(t - kink)."""
    return (coef[3, j] if t > coef[4, j] else coef[2, j]) * (t - coef[4, j])


@forceinline
def chord(coef, j, x, t):
    """Slope of the piecewise linear part between x and t, without cancellation on one piece."""
    kink = coef[4, j]
    if x >= kink and t >= kink:
        return coef[3, j]
    if x <= kink and t <= kink:
        return coef[2, j]
    return (linear_part(coef, j, t) - linear_part(coef, j, x)) / (t - x)


@compiled
def differentiate(block, i, task, scratch):
    """V[G] = gradient of all that is smooth at x, rows = A_i x, ψ', ψ''; the size of its terms."""
    block, task, scratch = borrowed((block, task, scratch))
    V, rows = scratch.V, scratch.rows
    a, d, p = block.xptr[i], block.xptr[i + 1] - block.xptr[i], rows.shape[1]
    x, place, cols, coef, fpool = task.x, block.place, block.cols, block.coef, block.fpool
    for k in range(p):
        rows[AX, k] = x[a] * cols[place[a, 0], k]
    for j in range(a + 1, a + d):
        for k in range(p):
            rows[AX, k] += x[j] * cols[place[j, 0], k]
    if task.kind == QUADRATIC_H:
        quadratic_slopes(i, task, rows)
    else:
        other_slopes(i, task, rows)
    size = 0.0
    for j in range(d):
        ATy, own = dot_column(cols, place[a + j, 0], rows[SLOPE]), coef[0, a + j] * x[a + j]
        if block.fkind[i] != 0:
            for m in range(d):
                own += fpool[block.fptr[i] + j * d + m] * x[a + m]
        lag = task.weight * (x[a + j] - task.center[a + j])
        size = max(size, abs(ATy) + abs(own) + abs(coef[1, a + j]) + abs(lag))
        V[G, j] = ATy + own + coef[1, a + j] + lag
    return size


@inline
def hessian(block, i, more, scratch):
    """full = P + diag(curvature + more) + A_iᵀ diag(ψ'') A_i; rows[AX] is used for work."""
    full, rows, place, cols, coef = scratch.full, scratch.rows, block.place, block.cols, block.coef
    a, d, p = block.xptr[i], block.xptr[i + 1] - block.xptr[i], rows.shape[1]
    for j in range(d):
        one = place[a + j, 0]
        for k in range(p):
            rows[AX, k] = rows[BEND, k] * cols[one, k]
        for m in range(j + 1):
            s = dot_column(cols, place[a + m, 0], rows[AX])
            s += coef[0, a + j] + more if m == j else 0.0
            if block.fkind[i] != 0:
                s += block.fpool[block.fptr[i] + j * d + m]
            full[j, m], full[m, j] = s, s


@compiled
def solve_system(matrix, V, size):
    """Solve the leading positive definite system for V[STEP] in place by Cholesky's method."""
    for j in range(size):
        for k in range(j):
            t = matrix[j, k]
            for l in range(k):  # noqa: E741
                t -= matrix[j, l] * matrix[k, l]
            matrix[j, k] = t / matrix[k, k]
        t = matrix[j, j]
        for l in range(j):  # noqa: E741
            t -= matrix[j, l] ** 2
        # Rounding may leave the pivot of a singular direction below 0; its root must be a number.
        matrix[j, j] = math.sqrt(max(t, 1e-300))
    for j in range(size):
        for k in range(j):
            V[STEP, j] -= matrix[j, k] * V[STEP, k]
        V[STEP, j] /= matrix[j, j]
    for j in range(size - 1, -1, -1):
        for k in range(j + 1, size):
            V[STEP, j] -= matrix[k, j] * V[STEP, k]
        V[STEP, j] /= matrix[j, j]


@forceinline
def prox_step(a, d, x, gamma, coef, V):
    """V[T] = proximal gradient step of length γ; returns the largest change and coordinate."""
    worst, reach = 0.0, 0.0
    for j in range(d):
        v = x[a + j] - gamma * V[G, j]
        t = min(max(coef[4, a + j], v - gamma * coef[3, a + j]), v - gamma * coef[2, a + j])
        t = min(max(t, coef[5, a + j]), coef[6, a + j])
        worst, reach = max(worst, abs(t - x[a + j])), max(reach, abs(t))
        V[T, j] = t
    return worst, reach


@forceinline
def release(a, d, coef, scratch, size):
    """Free the fixed coordinate that wants most to leave its kink or bound; False if none does.

    ``side[j]`` is 0 for a fixed coordinate, else the sign of (t - kink) that decides its slope.
    """
    V, side, full = scratch.V, scratch.side, scratch.full
    best, chosen, way = 0.0, -1, 0
    for j in range(d):
        if side[j] != 0:
            continue
        t, kink = V[T, j], coef[4, a + j]
        up = V[R, j] + (coef[3, a + j] if t >= kink else coef[2, a + j])
        down = V[R, j] + (coef[2, a + j] if t <= kink else coef[3, a + j])
        gain = max(-up, 0.0) if t < coef[6, a + j] else 0.0
        loss = max(down, 0.0) if t > coef[5, a + j] else 0.0
        # Slope over √curvature: the promised decrease, whatever the units of the coordinate.
        score = max(gain, loss) / math.sqrt(full[j, j])
        if max(gain, loss) > _FLOOR * size and score > best:
            best, chosen = score, j
            if gain > loss:
                way = 1 if t >= kink else -1
            else:
                way = -1 if t <= kink else 1
    if chosen >= 0:
        side[chosen] = way
    return chosen >= 0


@forceinline
def model_gradient(a, d, x, V, full):
    """V[R] = gradient of the model's smooth part at V[T]."""
    for j in range(d):
        r = V[G, j]
        for m in range(d):
            r += full[j, m] * (V[T, m] - x[a + m])
        V[R, j] = r


@inline
def minimise_model(block, i, x, scratch, size):
    """V[T] = argmin ½(t-x)ᵀH(t-x) + <∇, t-x> + Σ s_j(t_j)(t_j - kink_j) on [lower, upper].

    It starts at V[T]: a Newton step of the free coordinates ends at the first kink or bound on its
    way, which then holds its coordinate; where none is met, one coordinate is released.
    """
    a, d, coef = block.xptr[i], block.xptr[i + 1] - block.xptr[i], block.coef
    V, full, reduced, free, side = (
        scratch.V,
        scratch.full,
        scratch.reduced,
        scratch.free,
        scratch.side,
    )
    for j in range(d):
        t, kink = V[T, j], coef[4, a + j]
        held = t <= coef[5, a + j] or t >= coef[6, a + j]
        held = held or (t == kink and coef[2, a + j] != coef[3, a + j])
        side[j] = 0 if held else 1 if t > kink else -1
    for _ in range(50 + 20 * d):
        model_gradient(a, d, x, V, full)
        count = 0
        for j in range(d):
            if side[j] != 0:
                free[count] = j
                V[STEP, count] = -V[R, j] - (coef[3, a + j] if side[j] > 0 else coef[2, a + j])
                count += 1
        for c in range(count):
            for e in range(c + 1):
                reduced[c, e] = full[free[c], free[e]]
        solve_system(reduced, V, count)
        length, blocking, wall = 1.0, -1, 0.0
        for c in range(count):
            j, move = free[c], V[STEP, c]
            end = coef[6, a + j] if move > 0.0 else coef[5, a + j]
            if coef[2, a + j] != coef[3, a + j] and side[j] * move < 0.0:
                end = max(coef[4, a + j], end) if move < 0.0 else min(coef[4, a + j], end)
            if abs(move) * length > abs(end - V[T, j]):
                length, blocking, wall = abs(end - V[T, j]) / abs(move), j, end
        for c in range(count):
            V[T, free[c]] += length * V[STEP, c]
        if blocking >= 0:
            V[T, blocking], side[blocking] = wall, 0
            continue
        if count == d:
            return
        model_gradient(a, d, x, V, full)
        if not release(a, d, coef, scratch, size):
            return


@inline
def solve_local(block, i, task, scratch):
    """Solve the problem of agent i from x, in place; rows[SLOPE] is left as λ_i.

    Returns the number of gradients and whether x is exact to rounding.
    """
    x, weight, coef, V, rows = task.x, task.weight, block.coef, scratch.V, scratch.rows
    a, d, tried = block.xptr[i], block.xptr[i + 1] - block.xptr[i], 1
    for j in range(a, a + d):
        x[j] = min(max(x[j], coef[5, j]), coef[6, j])
    size = differentiate(block, i, task, scratch)
    before = math.inf
    for _ in range(_ROUNDS):
        steep = 0.0
        for k in range(rows.shape[1]):
            steep = max(steep, rows[BEND, k])
        steep = block.lip[i] + steep * block.sigma[i] ** 2 + weight
        gamma = 1.0 / steep if steep > 0.0 else 1.0
        worst, reach = prox_step(a, d, x, gamma, coef, V)
        scale = reach + gamma * size
        # A step at rounding level is the end; near to it, so is one that no longer shrinks.
        if worst <= _FLOOR * scale or (worst <= 1e3 * _FLOOR * scale and worst > 0.3 * before):
            return tried, True
        before = worst
        value = objective(block, i, task, rows)
        hessian(block, i, weight if block.mu[i] + weight > 0.0 else _TINY * steep, scratch)
        minimise_model(block, i, x, scratch, size)
        promise, alpha = 0.0, 1.0
        for j in range(d):
            V[BASE, j] = x[a + j]
            V[R, j] = chord(coef, a + j, x[a + j], V[T, j])
            promise += (V[G, j] + V[R, j]) * (V[T, j] - x[a + j])
        for _ in range(_TRIALS):
            for j in range(d):
                part = V[BASE, j] + alpha * (V[T, j] - V[BASE, j])
                # Not BASE + (T - BASE), which need not be T: kinks and bounds are met exactly.
                x[a + j] = V[T, j] if alpha == 1.0 else part
            size = differentiate(block, i, task, scratch)
            tried += 1
            rise = 0.0
            for j in range(d):
                rise += (V[G, j] + V[R, j]) * (V[T, j] - V[BASE, j])
            # Slopes decide first: near the solution values differ by rounding only.
            if rise <= 1e-3 * abs(promise):
                break
            if objective(block, i, task, rows) <= value + 0.1 * alpha * promise:
                break
            # The secant through both slopes, kept between a tenth and a half of the last length.
            alpha *= min(max(abs(promise) / (abs(promise) + rise), 0.1), 0.5)
    return tried, False
