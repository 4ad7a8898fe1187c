"""Kernels for what one agent does alone.

Products with A_i, the gradient of f_i, the prox of g_i, and the minimisation of f_i + g_i + <c, ·>
by the accelerated proximal gradient method.

The arguments are the arrays of :class:`dual2.engine.pack.Packed`, explained there.
"""

import math

from dual2.compiled import compiled, fast_compiled, inlined
from dual2.engine.door import ADJOINT, APPLY, GRAD_F, PROX_G, knock
from dual2.functions.kernels import dot, prox_block

DENSE_A, SPARSE_A, OPERATOR_A = 0, 1, 2
SIMPLE_F, DENSE_F, LOGISTIC_F, CALLBACK_F = 0, 1, 2, 4
CALLBACK_KIND = 8
FAILED = -1
_CAP = 40.0


@fast_compiled
def distance(a, b):
    """Euclidean distance |a - b|."""
    s = 0.0
    for k in range(b.shape[0]):
        s += (a[k] - b[k]) * (a[k] - b[k])
    return math.sqrt(s)


@inlined
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


@inlined
def set_column(out, x, cols, j):
    """out = x · column j."""
    for k in range(out.shape[0]):
        out[k] = x * cols[j, k]


@inlined
def add_column(out, x, cols, j):
    """out += x · column j."""
    for k in range(out.shape[0]):
        out[k] += x * cols[j, k]


@compiled
def adjoint(i, v, out, xptr, akind, place, cols, sval, sidx, inbox, outbox, address):
    """out = A_iᵀ v; 0 on success."""
    first, last, kind = xptr[i], xptr[i + 1], akind[i]
    if kind == OPERATOR_A:
        copy(v, inbox, v.shape[0])
        if knock(address, ADJOINT, i) != 0:
            return FAILED
        copy(outbox, out, last - first)
        return 0
    for j in range(first, last):
        if kind == DENSE_A:
            out[j - first] = dot_column(cols, place[j, 0], v)
        else:
            s = 0.0
            for e in range(place[j, 0], place[j, 1]):
                s += sval[e] * v[sidx[e]]
            out[j - first] = s
    return 0


@compiled
def apply(i, x, out, xptr, akind, place, cols, sval, sidx, inbox, outbox, address):
    """out = A_i x, x the agent's own part; 0 on success."""
    first, last, kind = xptr[i], xptr[i + 1], akind[i]
    if kind == OPERATOR_A:
        copy(x, inbox, last - first)
        if knock(address, APPLY, i) != 0:
            return FAILED
        copy(outbox, out, out.shape[0])
        return 0
    for k in range(out.shape[0]):
        out[k] = 0.0
    for j in range(first, last):
        if kind == DENSE_A:
            add_column(out, x[j - first], cols, place[j, 0])
        else:
            for e in range(place[j, 0], place[j, 1]):
                out[sidx[e]] += x[j - first] * sval[e]
    return 0


@compiled
def grad_f(i, x, out, first, fkind, fcoef, fptr, fpool, fsize, inbox, outbox, address):
    """out = ∇f_i(x) for f_i(x) = ½xᵀ(diag + P)x + qᵀx + Σ_r w_r log(1 + exp(-(Mx + o)_r))."""
    d = out.shape[0]
    kind = fkind[i]
    if kind == CALLBACK_F:
        copy(x, inbox, d)
        if knock(address, GRAD_F, i) != 0:
            return FAILED
        copy(outbox, out, d)
        return 0
    for j in range(d):
        out[j] = fcoef[0, first + j] * x[j] + fcoef[1, first + j]
    at = fptr[i]
    if kind & DENSE_F:
        for j in range(d):
            out[j] += dot(fpool[at : at + d], x)
            at += d
    if kind & LOGISTIC_F:
        m = fsize[i]
        side = at + m * d
        for r in range(m):
            row = fpool[at : at + d]
            u = dot(row, x) + fpool[side + r]
            slope = -fpool[side + m + r] / (1.0 + math.exp(min(u, 700.0)))
            for j in range(d):
                out[j] += slope * row[j]
            at += d
    return 0


@compiled
def prox_g(i, step, v, out, gptr, gtab, gpar, inbox, outbox, address, work):
    """out = prox_{step·g_i}(v), block by block; 0 on success."""
    for b in range(gptr[i], gptr[i + 1]):
        kind, flags, start = gtab[b, 0], gtab[b, 1], gtab[b, 2]
        end = start + gtab[b, 3]
        if kind == CALLBACK_KIND:
            copy(v[start:end], inbox, end - start)
            inbox[inbox.shape[0] - 1] = step
            if knock(address, PROX_G, b) != 0:
                return FAILED
            copy(outbox, out[start:end], end - start)
        else:
            params = gpar[gtab[b, 4] : gtab[b, 5]]
            prox_block(kind, flags, step, v[start:end], out[start:end], params, work)
    return 0


@compiled
def minimise_local(
    i, c, x, error, lip, mu, first, fkind, fcoef, fptr, fpool, fsize,
    gptr, gtab, gpar, inbox, outbox, address, scratch, work,
):  # fmt: skip
    """Minimise f_i + g_i + <c, ·> from x, in place, until |x - x*| ≤ ``error``.

    Accelerated proximal gradient with step 1/L and momentum (√κ-1)/(√κ+1). The minimiser is
    within (L-μ)|u - x⁺|/μ of x⁺ = prox_{g/L}(u - (∇f(u)+c)/L), which needs no further
    gradient. Returns the number of steps, or FAILED if a user's function raised.
    """
    d = x.shape[0]
    bound, strong = lip[i], mu[i]
    force = math.sqrt(dot(c[:d], c[:d]))
    kappa = math.sqrt(bound / strong)
    momentum = (kappa - 1.0) / (kappa + 1.0)
    u, w, new = scratch[0, :d], scratch[1, :d], scratch[2, :d]
    copy(x, u, d)
    for step in range(int(_CAP * kappa) + 10):
        if grad_f(i, u, w, first, fkind, fcoef, fptr, fpool, fsize, inbox, outbox, address) != 0:
            return FAILED
        for j in range(d):
            w[j] = u[j] - (w[j] + c[j]) / bound
        if prox_g(i, 1.0 / bound, w, new, gptr, gtab, gpar, inbox, outbox, address, work) != 0:
            return FAILED
        moved = distance(u, new)
        size = math.sqrt(dot(new, new))
        for j in range(d):
            u[j] = new[j] + momentum * (new[j] - x[j])
            x[j] = new[j]
        rounding = 1e-15 * (bound * size + force)
        if (bound - strong) * moved <= max(strong * error, rounding):
            return step + 1
    return int(_CAP * kappa) + 10
