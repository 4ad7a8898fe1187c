"""The compiled loop of the NPGA family on the rows of one block of agents.

One iteration of agent i (λ, s, v ∈ R^p, x ∈ R^{d_i}; 𝐁², 𝐂, 𝐃 act on the rows of all agents):

    x⁺ = prox_{α g_i}( x - α (∇f_i(x) + A_iᵀλ) )
    v  = λ - 𝐂λ - s + β A_i ( x⁺ + θ (x⁺ - x) )
    s⁺ = s + γ 𝐁²v
    λ⁺ = prox_{(β/n) h*}( 𝐃v )

Each matrix is a polynomial p₁L + p₂L² of a weighted Laplacian L (𝐃 is the identity minus one), and
L acts by differences over the edges, so that Σ_i s_i stays at rounding level for ever.
"""

from typing import NamedTuple

import numpy as np

from dual2.compiled import compiled, inline
from dual2.engine.gossip_kernel import mix, mix_in_line, reweighted
from dual2.engine.local import (
    FAILED,
    add_column,
    adjoint,
    apply,
    dot_column,
    grad_f,
    prox_g,
    prox_h,
)
from dual2.engine.packed_args import borrowed
from dual2.engine.threads import own_rows

Array = np.ndarray
LAM, S, V, LV, LLV, CL, DV, SLOTS = range(8)
"""Rows of the stack: λ, s, v, Lv, L²v, 𝐂λ, Lv with the weights of 𝐃."""

KEEP, SHIFT, STEP, RIGHT, LEFT, KINK, LOWER, UPPER, STEP_ROWS = range(9)
"""Rows of the folded coordinate step, see :func:`step_coordinate`."""


class NPGAStep(NamedTuple):
    """Step sizes, and local steps with everything folded that does not change."""

    alpha: float
    beta: float
    theta: float
    share: float
    """1/n."""
    quick: Array
    """1 for agents whose step is :func:`step_coordinate`."""
    fast: Array
    """(STEP_ROWS, D): its coefficients."""
    clipped: bool
    """Whether prox_{(β/n)h*} is one scaled clip,"""
    clip: Array
    """(4, p): with this factor, shift and bounds."""


class Mixing(NamedTuple):
    """The Laplacians in γ𝐁², 𝐂 and 𝐃."""

    weights: Array
    """(3, ·): their edge weights."""
    powers: Array
    """(3, 2): their coefficients p₁, p₂."""
    own: bool
    """Whether 𝐃 has edge weights of its own."""


@inline
def step_coordinate(fast, j, x, ATy):
    """prox_{αg}(x - α(∇f(x) + ATy)) for one coordinate of a separable quadratic f and g.

    With everything that does not change folded: u = keep·x - shift - step·ATy, then the kink
    of g by two thresholds, then its bounds.
    """
    u = fast[KEEP, j] * x - fast[SHIFT, j] - fast[STEP, j] * ATy
    u = min(max(fast[KINK, j], u - fast[RIGHT, j]), u - fast[LEFT, j])
    return min(max(u, fast[LOWER, j]), fast[UPPER, j])


@inline
def mix_duals(links, Y, one, two, member):
    """Y[CL] = one·Lλ + two·L²λ on the rows of this thread."""
    clam, square = Y[CL], Y[LLV]
    mix(links, Y[LAM], clam, member)
    if two != 0.0:
        mix(links, clam, square, member)
    if two != 0.0 or one != 1.0:
        first, last = own_rows(member, Y.shape[1])
        for i in range(first, last):
            for k in range(Y.shape[2]):
                clam[i, k] = one * clam[i, k] + two * square[i, k]


@compiled
def begin_duals(links, Y, one, two, member):
    """:func:`mix_duals` for callers in Python."""
    links, Y, member = borrowed((links, Y, member))
    mix_duals(links, Y, one, two, member)


@inline
def general_step(block, i, x, lam, ax, rule, scratch, work):
    """x = prox_{αg_i}(x - α(∇f_i(x) + A_iᵀλ)) and ax = A_i(x + θ(x - x_prev)); 0 on success."""
    d = x.shape[0]
    c, w, new = scratch[0], scratch[1, :d], scratch[2, :d]
    if adjoint(block, i, lam, c) or grad_f(block, i, x, w):
        return FAILED
    for j in range(d):
        w[j] = x[j] - rule.alpha * (w[j] + c[j])
    if prox_g(block, i, rule.alpha, w, new, work):
        return FAILED
    for j in range(d):
        w[j] = new[j] + rule.theta * (new[j] - x[j])
        x[j] = new[j]
    return apply(block, i, w, ax)


@inline
def quick_step(block, i, x, Y, rule, coupled):
    """The same coordinate by coordinate, and v_i = λ_i - (𝐂λ)_i - s_i + β ax."""
    lam, clam, s, v, cols = Y[LAM, i], Y[CL, i], Y[S, i], Y[V, i], block.cols
    for j in range(block.xptr[i], block.xptr[i + 1]):
        column, before = block.place[j, 0], x[j]
        x[j] = step_coordinate(rule.fast, j, before, dot_column(cols, column, lam))
        factor = rule.beta * (x[j] + rule.theta * (x[j] - before))
        # The first column writes v_i, so that no pass clears it.
        if j > block.xptr[i]:
            add_column(v, factor, cols, column)
        elif coupled:
            for k in range(v.shape[0]):
                v[k] = lam[k] - clam[k] - s[k] + factor * cols[column, k]
        else:
            for k in range(v.shape[0]):
                v[k] = lam[k] - s[k] + factor * cols[column, k]


@inline
def dual_step(i, Y, rule, d1, d2, own):
    """λ_i = prox(v_i - d₁(Lv)_i - d₂(L²v)_i) where it is a clip; else its argument is left in v."""
    lam, v, lv, llv, clip = Y[LAM, i], Y[V, i], Y[DV, i] if own else Y[LV, i], Y[LLV, i], rule.clip
    # With a clip and one product, the last loop does everything in one pass.
    if d2 != 0.0 or not rule.clipped:
        for k in range(v.shape[0]):
            v[k] -= d1 * lv[k]
        d1 = 0.0
    if d2 != 0.0:
        for k in range(v.shape[0]):
            v[k] -= d2 * llv[k]
    if rule.clipped:
        for k in range(v.shape[0]):
            new = (v[k] - d1 * lv[k]) * clip[0, k] - clip[1, k]
            lam[k] = min(max(new, clip[2, k]), clip[3, k])


@compiled
def npga_steps(block, links, x, Y, rule, mixing, steps, member):
    """Advance the rows of this thread by ``steps`` iterations; returns 0, or FAILED."""
    block, links, x, Y, rule, mixing, member = borrowed((block, links, x, Y, rule, mixing, member))
    p, xptr, powers, own = Y.shape[2], block.xptr, mixing.powers, mixing.own
    first, last = own_rows(member, xptr.shape[0] - 1)
    width = max(1, block.inbox.shape[0])
    scratch, work, ax = np.empty((3, width)), np.empty(3 * width + 8), np.empty(p)
    lam, s, v, lv, llv, clam = Y[LAM], Y[S], Y[V], Y[LV], Y[LLV], Y[CL]
    links_b = reweighted(links, mixing.weights[0])
    b1, b2, c1, c2 = powers[0, 0], powers[0, 1], powers[1, 0], powers[1, 1]
    d1, d2 = powers[2, 0], powers[2, 1]
    deep = b2 != 0.0 or d2 != 0.0
    coupled = c1 != 0.0 or c2 != 0.0
    for _ in range(steps):
        for i in range(first, last):
            if rule.quick[i] != 0:
                quick_step(block, i, x, Y, rule, coupled)
                continue
            if general_step(block, i, x[xptr[i] : xptr[i + 1]], lam[i], ax, rule, scratch, work):
                return FAILED
            for k in range(p):
                v[i, k] = lam[i, k] - clam[i, k] - s[i, k] + rule.beta * ax[k]
        # Exchange 1: Lv with the weights of 𝐁; L²v if a polynomial has degree 2.
        mix_in_line(links_b, v, lv, member)
        if deep:
            mix(links_b, lv, llv, member)
        if own:
            mix(reweighted(links, mixing.weights[2]), v, Y[DV], member)
        for i in range(first, last):
            for k in range(p):
                s[i, k] += b1 * lv[i, k]
            if deep:
                for k in range(p):
                    s[i, k] += b2 * llv[i, k]
            dual_step(i, Y, rule, d1, d2, own)
            if not rule.clipped and prox_h(block, rule.beta * rule.share, v[i], lam[i], work):
                return FAILED
        # Exchange 2: 𝐂λ for the next iteration.
        if coupled:
            mix_duals(reweighted(links, mixing.weights[1]), Y, c1, c2, member)
    return 0
