"""Kernels for what one agent does alone.

Products with A_i, the gradient of f_i, the prox of g_i, and the minimisation of f_i + g_i + <c, ·>
by the accelerated proximal gradient method.

Also the oracles of h*, which every agent knows. ``block`` is a :class:`dual2.engine.pack.Block`.
All kernels with an answer return 0 on success, FAILED if a user's Python function raised. They are
compiled into their callers: a block is some two hundred words, too many to pass.
"""

import math

from dual2.compiled import fast_compiled, forceinline, inline
from dual2.engine.callbacks import (
    ADJOINT,
    APPLY,
    GRAD_F,
    GRAD_H,
    PROX_G,
    PROX_H,
    call_prox,
    call_python,
)
from dual2.functions.kernels import CALLBACK, conjugate_grad_separable, dot

DENSE_A, SPARSE_A, OPERATOR_A = 0, 1, 2
SIMPLE_F, DENSE_F, LOGISTIC_F, CALLBACK_F = 0, 1, 2, 4
FAILED = -1
_CAP = 40.0


@fast_compiled
def distance(a, b):
    """Euclidean distance |a - b|."""
    s = 0.0
    for k in range(b.shape[0]):
        s += (a[k] - b[k]) * (a[k] - b[k])
    return math.sqrt(s)


@forceinline
def copy(source, target, size):
    """The first ``size`` entries; slice assignment would compile its error messages too."""
    for k in range(size):
        target[k] = source[k]


@fast_compiled
def dot_column(cols, j, v):
    """<column j, v>, in any order."""
    s = 0.0
    for k in range(v.shape[0]):
        s += cols[j, k] * v[k]
    return s


@forceinline
def set_column(out, x, cols, j):
    """out = x · column j."""
    for k in range(out.shape[0]):
        out[k] = x * cols[j, k]


@forceinline
def add_column(out, x, cols, j):
    """out += x · column j."""
    for k in range(out.shape[0]):
        out[k] += x * cols[j, k]


@forceinline
def adjoint(block, i, v, out):
    """out = A_iᵀ v."""
    first, last, kind = block.xptr[i], block.xptr[i + 1], block.akind[i]
    place = block.place
    if kind == OPERATOR_A:
        copy(v, block.inbox, v.shape[0])
        if call_python(block.address, ADJOINT, i) != 0:
            return FAILED
        copy(block.outbox, out, last - first)
        return 0
    for j in range(first, last):
        if kind == DENSE_A:
            out[j - first] = dot_column(block.cols, place[j, 0], v)
        else:
            s = 0.0
            for e in range(place[j, 0], place[j, 1]):
                s += block.sval[e] * v[block.sidx[e]]
            out[j - first] = s
    return 0


@forceinline
def apply(block, i, x, out):
    """out = A_i x, x the agent's own part."""
    first, last, kind = block.xptr[i], block.xptr[i + 1], block.akind[i]
    place = block.place
    if kind == OPERATOR_A:
        copy(x, block.inbox, last - first)
        if call_python(block.address, APPLY, i) != 0:
            return FAILED
        copy(block.outbox, out, out.shape[0])
        return 0
    for k in range(out.shape[0]):
        out[k] = 0.0
    for j in range(first, last):
        if kind == DENSE_A:
            add_column(out, x[j - first], block.cols, place[j, 0])
        else:
            for e in range(place[j, 0], place[j, 1]):
                out[block.sidx[e]] += x[j - first] * block.sval[e]
    return 0


@forceinline
def grad_f(block, i, x, out):
    """out = ∇f_i(x) for f_i(x) = ½xᵀ(diag + P)x + qᵀx + Σ_r w_r log(1 + exp(-(Mx + o)_r))."""
    d, first, kind = out.shape[0], block.xptr[i], block.fkind[i]
    if kind == CALLBACK_F:
        copy(x, block.inbox, d)
        if call_python(block.address, GRAD_F, i) != 0:
            return FAILED
        copy(block.outbox, out, d)
        return 0
    for j in range(d):
        out[j] = block.fcoef[0, first + j] * x[j] + block.fcoef[1, first + j]
    at, fpool = block.fptr[i], block.fpool
    if kind & DENSE_F:
        for j in range(d):
            out[j] += dot(fpool[at : at + d], x)
            at += d
    if kind & LOGISTIC_F:
        m = block.fsize[i]
        side = at + m * d
        for r in range(m):
            row = fpool[at : at + d]
            u = dot(row, x) + fpool[side + r]
            # exp overflows above 709; the slope is 0 to rounding long before.
            slope = -fpool[side + m + r] / (1.0 + math.exp(min(u, 700.0)))
            for j in range(d):
                out[j] += slope * row[j]
            at += d
    return 0


@inline
def ask_python(block, what, b, v, out):
    """out = the answer of a user's function to v; FAILED if it raised."""
    copy(v, block.inbox, v.shape[0])
    if call_python(block.address, what, b) != 0:
        return FAILED
    copy(block.outbox, out, out.shape[0])
    return 0


@inline
def prox_g(block, i, step, v, out, work):
    """out = prox_{step·g_i}(v), block by block."""
    table = block.gtab
    for b in range(block.gptr[i], block.gptr[i + 1]):
        kind, flags, start = table[b, 0], table[b, 1], table[b, 2]
        end = start + table[b, 3]
        if kind == CALLBACK:
            block.inbox[block.inbox.shape[0] - 1] = step
            if ask_python(block, PROX_G, b, v[start:end], out[start:end]) != 0:
                return FAILED
        else:
            params = block.gpar[table[b, 4] : table[b, 5]]
            call_prox(block.prox, kind, flags, step, v[start:end], out[start:end], params, work)
    return 0


@inline
def prox_h(block, step, v, out, work):
    """out = prox_{step·h*}(v), block by block."""
    table = block.htab
    for b in range(table.shape[0]):
        kind, flags, start = table[b, 0], table[b, 1], table[b, 2]
        end = start + table[b, 3]
        if kind == CALLBACK:
            block.inbox[block.inbox.shape[0] - 1] = step
            if ask_python(block, PROX_H, b, v[start:end], out[start:end]) != 0:
                return FAILED
        else:
            params = block.hpar[table[b, 4] : table[b, 5]]
            call_prox(block.prox, kind, flags, step, v[start:end], out[start:end], params, work)
    return 0


@inline
def grad_h(block, v, out):
    """out = ∇h*(v), block by block (here the blocks describe h, not h*)."""
    table = block.stab
    for b in range(table.shape[0]):
        start = table[b, 2]
        end = start + table[b, 3]
        if table[b, 0] == CALLBACK:
            if ask_python(block, GRAD_H, b, v[start:end], out[start:end]) != 0:
                return FAILED
        else:
            params = block.spar[table[b, 4] : table[b, 5]]
            conjugate_grad_separable(v[start:end], out[start:end], params)
    return 0


@inline
def minimise_local(block, i, c, x, error, scratch, work):
    """Minimise f_i + g_i + <c, ·> from x, in place, until |x - x*| ≤ ``error``.

    Accelerated proximal gradient with step 1/L and momentum (√κ-1)/(√κ+1). The minimiser is
    within (L-μ)|u - x⁺|/μ of x⁺ = prox_{g/L}(u - (∇f(u)+c)/L), which needs no further
    gradient. Returns the number of steps, or FAILED.
    """
    d = x.shape[0]
    bound, strong = block.lip[i], block.mu[i]
    force = math.sqrt(dot(c[:d], c[:d]))
    kappa = math.sqrt(bound / strong)
    momentum = (kappa - 1.0) / (kappa + 1.0)
    u, w, new = scratch[0, :d], scratch[1, :d], scratch[2, :d]
    copy(x, u, d)
    for step in range(int(_CAP * kappa) + 10):
        if grad_f(block, i, u, w) != 0:
            return FAILED
        for j in range(d):
            w[j] = u[j] - (w[j] + c[j]) / bound
        if prox_g(block, i, 1.0 / bound, w, new, work) != 0:
            return FAILED
        moved = distance(u, new)
        size = math.sqrt(dot(new, new))
        # The residual of this point is known now, so the next one may overwrite it.
        for j in range(d):
            u[j] = new[j] + momentum * (new[j] - x[j])
            x[j] = new[j]
        # An error below the rounding of the gradient's own terms cannot be had.
        rounding = 1e-15 * (bound * size + force)
        if (bound - strong) * moved <= max(strong * error, rounding):
            return step + 1
    return int(_CAP * kappa) + 10
