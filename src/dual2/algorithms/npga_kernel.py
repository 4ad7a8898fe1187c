"""The compiled loop of the NPGA family on the rows of one block of agents.

One iteration of agent i (λ, s, v ∈ R^p, x ∈ R^{d_i}; 𝐁², 𝐂, 𝐃 act on the rows of all agents):

    x⁺ = prox_{α g_i}( x - α (∇f_i(x) + A_iᵀλ) )
    v  = λ - 𝐂λ - s + β A_i ( x⁺ + θ (x⁺ - x) )
    s⁺ = s + γ 𝐁²v
    λ⁺ = prox_{(β/n) h*}( 𝐃v )

Each matrix is a polynomial p₁L + p₂L² of a weighted Laplacian L (𝐃 is the identity minus one), and
L acts by differences over the edges, so that Σ_i s_i stays at rounding level for ever.
"""

import numpy as np

from dual2.compiled import compiled, fast_compiled, inlined
from dual2.engine.gossip import differences, mix
from dual2.engine.local import FAILED, adjoint, apply, grad_f, prox_g
from dual2.engine.threads import EXCHANGE, meet
from dual2.subsolvers.dual_oracles import prox_h

LAM, S, V, LV, LLV, CL, DV, SLOTS = range(8)
"""Rows of the stack: λ, s, v, Lv, L²v, 𝐂λ, Lv with the weights of 𝐃."""

KEEP, FORCE, PUSH, RIGHT, LEFT, KINK, LOWER, UPPER, STEP_ROWS = range(9)
"""Rows of the folded coordinate step, see :func:`step_coordinate`."""


@fast_compiled
def dot_dual(cols, j, lam, i):
    """<column j, λ_i>, in any order."""
    s = 0.0
    for k in range(lam.shape[1]):
        s += cols[j, k] * lam[i, k]
    return s


@inlined
def step_coordinate(fast, j, x, pull):
    """prox_{αg}(x - α(∇f(x) + pull)) for one coordinate of a separable quadratic f and g.

    With everything that does not change folded: u = keep·x - force - push·pull, then the kink
    of g by two thresholds, then its bounds.
    """
    u = fast[KEEP, j] * x - fast[FORCE, j] - fast[PUSH, j] * pull
    u = min(max(fast[KINK, j], u - fast[RIGHT, j]), u - fast[LEFT, j])
    return min(max(u, fast[LOWER, j]), fast[UPPER, j])


@inlined
def begin_v(v, i, lam, clam, s, factor, cols, j):
    """v_i = λ_i - (𝐂λ)_i - s_i + factor · column j."""
    for k in range(v.shape[1]):
        v[i, k] = lam[i, k] - clam[i, k] - s[i, k] + factor * cols[j, k]


@inlined
def begin_v_uncoupled(v, i, lam, s, factor, cols, j):
    """The same where 𝐂 = 0."""
    for k in range(v.shape[1]):
        v[i, k] = lam[i, k] - s[i, k] + factor * cols[j, k]


@inlined
def add_to_v(v, i, factor, cols, j):
    """v_i += factor · column j."""
    for k in range(v.shape[1]):
        v[i, k] += factor * cols[j, k]


@inlined
def set_v(v, i, lam, clam, s, beta, ax):
    """v_i = λ_i - (𝐂λ)_i - s_i + β ax."""
    for k in range(v.shape[1]):
        v[i, k] = lam[i, k] - clam[i, k] - s[i, k] + beta * ax[k]


@inlined
def add_row(target, i, factor, source):
    """target_i += factor · source_i."""
    for k in range(target.shape[1]):
        target[i, k] += factor * source[i, k]


@inlined
def clip_dual(lam, i, v, clip):
    """λ_i = clip(v_i · clip_0 - clip_1, clip_2, clip_3): the prox of a scaled clip."""
    for k in range(lam.shape[1]):
        new = v[i, k] * clip[0, k] - clip[1, k]
        lam[i, k] = min(max(new, clip[2, k]), clip[3, k])


@inlined
def clip_mixed(lam, i, v, d, lv, clip):
    """The same of v_i - d·(Lv)_i."""
    for k in range(lam.shape[1]):
        new = (v[i, k] - d * lv[i, k]) * clip[0, k] - clip[1, k]
        lam[i, k] = min(max(new, clip[2, k]), clip[3, k])


@inlined
def exchange(
    first, last, nptr, nidx, nw, recurrence, Y, source, target, buffers, thread, threads, barrier
):
    """Y[target] = L Y[source] on the rows first … last-1.

    The network's own L is taken in line: for short rows the call costs more than the work.
    """
    plain = recurrence.shape[0] == 1 and recurrence[0, 0] * recurrence[0, 2] == 1.0
    if plain and barrier[EXCHANGE] == 0:
        if threads > 1:
            meet(barrier, threads)
        differences(first, last, nptr, nidx, nw, Y, source, Y, target)
        if threads > 1:
            meet(barrier, threads)
    else:
        mix(
            first, last, nptr, nidx, nw, recurrence, Y, source, Y, target, buffers,
            thread, threads, barrier,
        )  # fmt: skip


@inlined
def set_coupling(Y, i, one, two):
    """(𝐂λ)_i = one·(Lλ)_i + two·(L²λ)_i, which lie in Y[CL] and Y[LLV]."""
    for k in range(Y.shape[2]):
        Y[CL, i, k] = one * Y[CL, i, k] + two * Y[LLV, i, k]


@compiled
def mix_duals(
    first, last, nptr, nidx, nw, recurrence, Y, one, two, buffers, thread, threads, barrier
):
    """Y[CL] = one·Lλ + two·L²λ on the rows first … last-1."""
    mix(
        first, last, nptr, nidx, nw, recurrence, Y, LAM, Y, CL, buffers,
        thread, threads, barrier,
    )  # fmt: skip
    if two != 0.0:
        mix(
            first, last, nptr, nidx, nw, recurrence, Y, CL, Y, LLV, buffers,
            thread, threads, barrier,
        )  # fmt: skip
    if two != 0.0 or one != 1.0:
        for i in range(first, last):
            set_coupling(Y, i, one, two)


@compiled
def general_step(
    i, x, lam, ax, alpha, theta,
    xptr, akind, place, cols, sval, sidx, fkind, fcoef, fptr, fpool, fsize,
    gptr, gtab, gpar, inbox, outbox, address, scratch, work,
):  # fmt: skip
    """x = prox_{αg_i}(x - α(∇f_i(x) + A_iᵀλ)) and ax = A_i(x + θ(x - x_prev)); 0 on success."""
    d = x.shape[0]
    c, w, new = scratch[0], scratch[1, :d], scratch[2, :d]
    if adjoint(i, lam, c, xptr, akind, place, cols, sval, sidx, inbox, outbox, address):
        return FAILED
    if grad_f(i, x, w, xptr[i], fkind, fcoef, fptr, fpool, fsize, inbox, outbox, address):
        return FAILED
    for j in range(d):
        w[j] = x[j] - alpha * (w[j] + c[j])
    if prox_g(i, alpha, w, new, gptr, gtab, gpar, inbox, outbox, address, work):
        return FAILED
    for j in range(d):
        w[j] = new[j] + theta * (new[j] - x[j])
        x[j] = new[j]
    return apply(i, w, ax, xptr, akind, place, cols, sval, sidx, inbox, outbox, address)


@compiled
def npga_steps(
    xptr, akind, place, cols, sval, sidx, easy, coef, fkind, fcoef, fptr, fpool, fsize,
    gptr, gtab, gpar, lip, mu, sigma, ptab, ppar, inbox, outbox, address,
    nptr, nidx, weights, recurrence, buffers,
    x, Y, quick, fast, clip, powers, alpha, beta, theta, share, clipped, own, steps,
    thread, threads, barrier,
):  # fmt: skip
    """Advance the rows of this thread by ``steps`` iterations; returns 0, or FAILED.

    ``weights`` holds the edge weights of the Laplacians in γ𝐁², 𝐂 and 𝐃, ``powers`` their
    coefficients (p₁, p₂). ``quick`` marks agents whose local step is ``step_coordinate`` with
    ``fast``; ``clipped`` says that prox_{(β/n)h*} is ``clip``; ``share`` = 1/n; ``own``, that 𝐃 has
    edge weights of its own.
    """
    p = Y.shape[2]
    n = xptr.shape[0] - 1
    first, last = n * thread // threads, n * (thread + 1) // threads
    width = max(1, inbox.shape[0])
    scratch, work, ax = np.empty((3, width)), np.empty(3 * width + 8), np.empty(p)
    lam, s, v, lv, llv, clam, dv = Y[LAM], Y[S], Y[V], Y[LV], Y[LLV], Y[CL], Y[DV]
    weights_b, weights_c, weights_d = weights[0], weights[1], weights[2]
    b1, b2, c1, c2, d1, d2 = (
        powers[0, 0], powers[0, 1], powers[1, 0], powers[1, 1], powers[2, 0], powers[2, 1]
    )  # fmt: skip
    deep = b2 != 0.0 or d2 != 0.0
    coupled = c1 != 0.0 or c2 != 0.0
    for _ in range(steps):
        for i in range(first, last):
            if quick[i] != 0:
                for j in range(xptr[i], xptr[i + 1]):
                    column, before = place[j, 0], x[j]
                    x[j] = step_coordinate(fast, j, before, dot_dual(cols, column, lam, i))
                    factor = beta * (x[j] + theta * (x[j] - before))
                    if j == xptr[i] and coupled:
                        begin_v(v, i, lam, clam, s, factor, cols, column)
                    elif j == xptr[i]:
                        begin_v_uncoupled(v, i, lam, s, factor, cols, column)
                    else:
                        add_to_v(v, i, factor, cols, column)
                continue
            if general_step(
                i, x[xptr[i] : xptr[i + 1]], lam[i], ax, alpha, theta,
                xptr, akind, place, cols, sval, sidx, fkind, fcoef, fptr, fpool, fsize,
                gptr, gtab, gpar, inbox, outbox, address, scratch, work,
            ):  # fmt: skip
                return FAILED
            set_v(v, i, lam, clam, s, beta, ax)
        exchange(
            first, last, nptr, nidx, weights_b, recurrence, Y, V, LV, buffers,
            thread, threads, barrier,
        )  # fmt: skip
        if deep:
            mix(
                first, last, nptr, nidx, weights_b, recurrence, Y, LV, Y, LLV, buffers,
                thread, threads, barrier,
            )  # fmt: skip
        if own:
            mix(
                first, last, nptr, nidx, weights_d, recurrence, Y, V, Y, DV, buffers,
                thread, threads, barrier,
            )  # fmt: skip
        for i in range(first, last):
            add_row(s, i, b1, lv)
            if deep:
                add_row(s, i, b2, llv)
            elif clipped and not own:
                clip_mixed(lam, i, v, d1, lv, clip)
                continue
            add_row(v, i, -d1, dv if own else lv)
            if deep:
                add_row(v, i, -d2, llv)
            if clipped:
                clip_dual(lam, i, v, clip)
            elif prox_h(beta * share, v[i], lam[i], ptab, ppar, inbox, outbox, address, work):
                return FAILED
        if coupled:
            mix_duals(
                first, last, nptr, nidx, weights_c, recurrence, Y, c1, c2, buffers,
                thread, threads, barrier,
            )  # fmt: skip
    return 0
