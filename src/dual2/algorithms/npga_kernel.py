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

from dual2.compiled import compiled, inlined, spliced
from dual2.engine.gossip import mix, mix_in_line, reweighted
from dual2.engine.local import FAILED, adjoint, apply, dot_column, grad_f, prox_g, prox_h
from dual2.engine.threads import own_rows
from dual2.engine.unowned import unowned

Array = np.ndarray
LAM, S, V, LV, LLV, CL, DV, SLOTS = range(8)
"""Rows of the stack: λ, s, v, Lv, L²v, 𝐂λ, Lv with the weights of 𝐃."""

KEEP, FORCE, PUSH, RIGHT, LEFT, KINK, LOWER, UPPER, STEP_ROWS = range(9)
"""Rows of the folded coordinate step, see :func:`step_coordinate`."""


class Rule(NamedTuple):
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
def set_coupling(Y, i, one, two):
    """(𝐂λ)_i = one·(Lλ)_i + two·(L²λ)_i, which lie in Y[CL] and Y[LLV]."""
    for k in range(Y.shape[2]):
        Y[CL, i, k] = one * Y[CL, i, k] + two * Y[LLV, i, k]


@compiled
def mix_duals(links, Y, one, two, member):
    """Y[CL] = one·Lλ + two·L²λ on the rows of this thread."""
    Y = unowned(Y)
    mix(links, Y[LAM], Y[CL], member)
    if two != 0.0:
        mix(links, Y[CL], Y[LLV], member)
    if two != 0.0 or one != 1.0:
        first, last = own_rows(member, Y.shape[1])
        for i in range(first, last):
            set_coupling(Y, i, one, two)


@spliced
def general_step(block, i, x, lam, ax, alpha, theta, scratch, work):
    """x = prox_{αg_i}(x - α(∇f_i(x) + A_iᵀλ)) and ax = A_i(x + θ(x - x_prev)); 0 on success."""
    d = x.shape[0]
    c, w, new = scratch[0], scratch[1, :d], scratch[2, :d]
    if adjoint(block, i, lam, c) or grad_f(block, i, x, w):
        return FAILED
    for j in range(d):
        w[j] = x[j] - alpha * (w[j] + c[j])
    if prox_g(block, i, alpha, w, new, work):
        return FAILED
    for j in range(d):
        w[j] = new[j] + theta * (new[j] - x[j])
        x[j] = new[j]
    return apply(block, i, w, ax)


@spliced
def quick_step(block, i, x, Y, rule, coupled):
    """The same coordinate by coordinate, and v_i."""
    lam, s, v, clam, cols = Y[LAM], Y[S], Y[V], Y[CL], block.cols
    for j in range(block.xptr[i], block.xptr[i + 1]):
        column, before = block.place[j, 0], x[j]
        x[j] = step_coordinate(rule.fast, j, before, dot_column(cols, column, lam[i]))
        factor = rule.beta * (x[j] + rule.theta * (x[j] - before))
        if j == block.xptr[i] and coupled:
            begin_v(v, i, lam, clam, s, factor, cols, column)
        elif j == block.xptr[i]:
            begin_v_uncoupled(v, i, lam, s, factor, cols, column)
        else:
            add_to_v(v, i, factor, cols, column)


@compiled
def npga_steps(block, links, x, Y, rule, mixing, steps, member):
    """Advance the rows of this thread by ``steps`` iterations; returns 0, or FAILED."""
    block, links, x, Y, rule, mixing, member = unowned((block, links, x, Y, rule, mixing, member))
    p, xptr, powers, own = Y.shape[2], block.xptr, mixing.powers, mixing.own
    first, last = own_rows(member, xptr.shape[0] - 1)
    width = max(1, block.inbox.shape[0])
    scratch, work, ax = np.empty((3, width)), np.empty(3 * width + 8), np.empty(p)
    lam, s, v, lv, llv, clam, dv = Y[LAM], Y[S], Y[V], Y[LV], Y[LLV], Y[CL], Y[DV]
    links_b, links_c = reweighted(links, mixing.weights[0]), reweighted(links, mixing.weights[1])
    links_d = reweighted(links, mixing.weights[2])
    b1, b2, c1, c2 = powers[0, 0], powers[0, 1], powers[1, 0], powers[1, 1]
    d1, d2 = powers[2, 0], powers[2, 1]
    deep = b2 != 0.0 or d2 != 0.0
    coupled = c1 != 0.0 or c2 != 0.0
    for _ in range(steps):
        for i in range(first, last):
            if rule.quick[i] != 0:
                quick_step(block, i, x, Y, rule, coupled)
                continue
            own_x = x[xptr[i] : xptr[i + 1]]
            if general_step(block, i, own_x, lam[i], ax, rule.alpha, rule.theta, scratch, work):
                return FAILED
            set_v(v, i, lam, clam, s, rule.beta, ax)
        mix_in_line(links_b, v, lv, member)
        if deep:
            mix(links_b, lv, llv, member)
        if own:
            mix(links_d, v, dv, member)
        for i in range(first, last):
            add_row(s, i, b1, lv)
            if deep:
                add_row(s, i, b2, llv)
            elif rule.clipped and not own:
                clip_mixed(lam, i, v, d1, lv, rule.clip)
                continue
            add_row(v, i, -d1, dv if own else lv)
            if deep:
                add_row(v, i, -d2, llv)
            if rule.clipped:
                clip_dual(lam, i, v, rule.clip)
            elif prox_h(block, rule.beta * rule.share, v[i], lam[i], work):
                return FAILED
        if coupled:
            mix_duals(links_c, Y, c1, c2, member)
    return 0
