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
from dual2.engine.gossip import mix
from dual2.engine.local import FAILED, adjoint, apply, grad_f, prox_g
from dual2.subsolvers.dual_oracles import prox_h

LAM, S, V, LV, LLV, CL, DV, SLOTS = range(8)
"""Rows of the stack: λ, s, v, Lv, L²v, 𝐂λ, Lv with the weights of 𝐃."""

KEEP, FORCE, PUSH, RIGHT, LEFT, KINK, LOWER, UPPER, STEP_ROWS = range(9)
"""Rows of the folded coordinate step, see :func:`step_coordinate`."""


@fast_compiled
def dot_dual(cols, j, Y, i):
    """<column j, λ_i>, in any order."""
    s = 0.0
    for k in range(Y.shape[2]):
        s += cols[j, k] * Y[LAM, i, k]
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
def begin_v(Y, i, factor, cols, j):
    """v_i = λ_i - (𝐂λ)_i - s_i + factor · column j."""
    for k in range(Y.shape[2]):
        Y[V, i, k] = Y[LAM, i, k] - Y[CL, i, k] - Y[S, i, k] + factor * cols[j, k]


@inlined
def add_to_v(Y, i, factor, cols, j):
    """v_i += factor · column j."""
    for k in range(Y.shape[2]):
        Y[V, i, k] += factor * cols[j, k]


@inlined
def set_v(Y, i, beta, ax):
    """v_i = λ_i - (𝐂λ)_i - s_i + β ax."""
    for k in range(Y.shape[2]):
        Y[V, i, k] = Y[LAM, i, k] - Y[CL, i, k] - Y[S, i, k] + beta * ax[k]


@inlined
def settle(Y, i, source, b, t, d):
    """s_i += b·Y[source]_i and v_i -= d·Y[t]_i: one power of L in γ𝐁²v and in 𝐃v."""
    for k in range(Y.shape[2]):
        Y[S, i, k] += b * Y[source, i, k]
        Y[V, i, k] -= d * Y[t, i, k]


@inlined
def clip_dual(Y, i, clip):
    """λ_i = clip(v_i · clip_0 - clip_1, clip_2, clip_3): the prox of a scaled clip."""
    for k in range(Y.shape[2]):
        lam = Y[V, i, k] * clip[0, k] - clip[1, k]
        Y[LAM, i, k] = min(max(lam, clip[2, k]), clip[3, k])


@inlined
def settle_and_clip(Y, i, b, d, clip):
    """Both of the above in one pass, for polynomials of degree one with the same L."""
    for k in range(Y.shape[2]):
        lv = Y[LV, i, k]
        Y[S, i, k] += b * lv
        lam = (Y[V, i, k] - d * lv) * clip[0, k] - clip[1, k]
        Y[LAM, i, k] = min(max(lam, clip[2, k]), clip[3, k])


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
        first, last, nptr, nidx, nw, recurrence, Y, LAM, Y, CL, buffers, thread, threads, barrier
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
def npga_steps(
    xptr, akind, place, cols, sval, sidx, easy, coef, fkind, fcoef, fptr, fpool, fsize,
    gptr, gtab, gpar, lip, mu, sigma, ptab, ppar, inbox, outbox, address,
    nptr, nidx, weights, recurrence, buffers,
    x, Y, quick, fast, clip, powers, alpha, beta, theta, share, clipped, steps,
    thread, threads, barrier,
):  # fmt: skip
    """Advance the rows of this thread by ``steps`` iterations; returns 0, or FAILED.

    ``weights`` holds the edge weights of the Laplacians in γ𝐁², 𝐂 and 𝐃, ``powers`` their
    coefficients (p₁, p₂). ``quick`` marks agents whose local step is ``step_coordinate`` with
    ``fast``; ``clipped`` says that prox_{(β/n)h*} is ``clip``; ``share`` = 1/n.
    """
    p = Y.shape[2]
    n = xptr.shape[0] - 1
    first, last = n * thread // threads, n * (thread + 1) // threads
    width = max(1, inbox.shape[0])
    c, w, new, ax = np.empty(width), np.empty(width), np.empty(width), np.empty(p)
    work = np.empty(3 * width + 8)
    weights_b, weights_c, weights_d = weights[0], weights[1], weights[2]
    b1, b2, c1, c2, d1, d2 = (
        powers[0, 0], powers[0, 1], powers[1, 0], powers[1, 1], powers[2, 0], powers[2, 1]
    )  # fmt: skip
    own = False
    for e in range(weights.shape[1]):
        own = own or (weights_b[e] != weights_d[e])
    own = own and (d1 != 0.0 or d2 != 0.0)
    deep = b2 != 0.0 or d2 != 0.0
    for _ in range(steps):
        for i in range(first, last):
            if quick[i] != 0:
                for j in range(xptr[i], xptr[i + 1]):
                    column, before = place[j, 0], x[j]
                    x[j] = step_coordinate(fast, j, before, dot_dual(cols, column, Y, i))
                    factor = beta * (x[j] + theta * (x[j] - before))
                    if j == xptr[i]:
                        begin_v(Y, i, factor, cols, column)
                    else:
                        add_to_v(Y, i, factor, cols, column)
                continue
            own_x = x[xptr[i] : xptr[i + 1]]
            d = own_x.shape[0]
            lam = Y[LAM, i]
            if adjoint(i, lam, c, xptr, akind, place, cols, sval, sidx, inbox, outbox, address):
                return FAILED
            if grad_f(
                i, own_x, w[:d], xptr[i], fkind, fcoef, fptr, fpool, fsize, inbox, outbox, address
            ):
                return FAILED
            for j in range(d):
                w[j] = own_x[j] - alpha * (w[j] + c[j])
            if prox_g(i, alpha, w[:d], new[:d], gptr, gtab, gpar, inbox, outbox, address, work):
                return FAILED
            for j in range(d):
                w[j] = new[j] + theta * (new[j] - own_x[j])
                own_x[j] = new[j]
            if apply(i, w[:d], ax, xptr, akind, place, cols, sval, sidx, inbox, outbox, address):
                return FAILED
            set_v(Y, i, beta, ax)
        mix(
            first, last, nptr, nidx, weights_b, recurrence, Y, V, Y, LV, buffers,
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
            if clipped and not deep and not own:
                settle_and_clip(Y, i, b1, d1, clip)
                continue
            settle(Y, i, LV, b1, DV if own else LV, d1)
            if deep:
                settle(Y, i, LLV, b2, LLV, d2)
            if clipped:
                clip_dual(Y, i, clip)
            elif prox_h(beta * share, Y[V, i], Y[LAM, i], ptab, ppar, inbox, outbox, address, work):
                return FAILED
        if c1 != 0.0 or c2 != 0.0:
            mix_duals(
                first, last, nptr, nidx, weights_c, recurrence, Y, c1, c2, buffers,
                thread, threads, barrier,
            )  # fmt: skip
    return 0
