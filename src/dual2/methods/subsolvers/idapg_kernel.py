"""The compiled loop of iDAPG on the rows of one block of agents.

One iteration of agent i, with the letters of the paper (λ, v, z ∈ R^p, x ∈ R^{d_i}):

    v   = λ + β (λ - λ_prev)
    x   ≈ argmin f_i + g_i + <A_iᵀ v, ·>
    λ⁺  = prox_{t h*/n}( v - t (ρ (𝐂v)_i + z_i - A_i x) )          (prox-friendly h*)
    λ⁺  = v - t (∇h*(v)/n + ρ (𝐂v)_i + z_i - A_i x)                (smooth h*)
    𝐂λ⁺ by one exchange;  𝐂v = 𝐂λ + β (𝐂λ - 𝐂λ_prev) comes for free

Rows are worked in groups. With ρ > 0 the group is all rows of a thread and every iteration
ends with an exchange. With ρ = 0 each row is a group of its own that iterates, without any
exchange, until its residual |v - λ⁺|/t is at most ``stop``.
"""

from typing import NamedTuple

import numpy as np

from dual2.compiled import compiled, inline
from dual2.engine.callbacks import call_step
from dual2.engine.gossip_kernel import is_plain, mix_plain
from dual2.engine.local import (
    FAILED,
    add_column,
    adjoint,
    apply,
    copy,
    distance,
    dot_column,
    grad_h,
    minimise_local,
    prox_h,
    set_column,
)
from dual2.engine.packed_args import borrowed, keep
from dual2.engine.threads import own_rows
from dual2.methods.subsolvers.subsolver import NO_MOMENTUM

Array = np.ndarray
CLIP_H, BLOCK_H, SMOOTH_H, BOTH_H = range(4)
"""How the dual terms enter: prox by one scaled clip, or block by block; gradient; both."""


class IDAPGState(NamedTuple):
    """Everything iDAPG carries from one iteration to the next, on the rows of a block."""

    x: Array
    """Flat."""
    lam: Array
    """(2, n, p): λ and λ_prev; which is which says ``current``."""
    mixed: Array
    """𝐂 times them."""
    v: Array
    """Last extrapolated point."""
    mixed_v: Array
    end: Array
    """λ at the end of the last subproblem."""
    mixed_end: Array
    moved: Array
    """|v_i - λ_i⁺|/t per row, which sets the accuracy of the local minimisations."""
    since: Array
    """Per row, iterations since the last restart."""
    finished: Array
    """Per row, whether the local solve is done."""
    calls: Array
    """(2, n): local gradients and iterations so far."""


class IDAPGRule(NamedTuple):
    """How steps are taken."""

    step: Array
    """t of each row."""
    beta: Array
    """β of each row; -1: k/(k+3), k the iterations since the last restart; -2: (k-1)/(k+2) as the
    paper prints it, without restarts."""
    rho: float
    share: float
    """1/n."""
    mode: int
    """How the dual terms enter."""
    slack: float
    """A_i(x_i - x_i*) may be this much of the last dual movement/t,"""
    floor: float
    """or this."""
    local: int
    """Where :func:`argmin_by_gradients` is; 0 if every agent solves coordinate by coordinate."""
    dual: int
    """Where :func:`dual_by_blocks` is; 0 if prox_{h*} is a clip."""
    exchange: int
    """Where :func:`dual2.engine.gossip_kernel.mix_rows` is."""


@inline
def solve_coordinate(coef, j, r):
    """Minimiser of ½q x² + b x + s(x)(x - kink) - r x on [lower, upper]; rows of ``coef``."""
    q = coef[0, j]
    r -= coef[1, j]
    x = min(max(coef[4, j], (r - coef[3, j]) / q), (r - coef[2, j]) / q)
    return min(max(x, coef[5, j]), coef[6, j])


@inline
def solve_coordinates(block, i, x, v, ax):
    """x_i = argmin f_i + g_i + <A_iᵀ v, ·> coordinate by coordinate, ax = A_i x_i."""
    first, cols, place = block.xptr[i], block.cols, block.place
    for j in range(first, block.xptr[i + 1]):
        x[j] = solve_coordinate(block.coef, j, -dot_column(cols, place[j, 0], v))
        if j == first:
            set_column(ax, x[j], cols, place[j, 0])
        else:
            add_column(ax, x[j], cols, place[j, 0])


class IDAPGWorkspace(NamedTuple):
    """Scratch: v, A_i x, ∇h*(v), parameters of a clip in rows; for local problems."""

    v: Array
    ax: Array
    slope: Array
    clip: Array
    ATy: Array
    vectors: Array
    work: Array


@inline
def new_workspace(block):
    """A workspace for the largest agent of the block.

    Arrays of their own begin at a multiple of 32 bytes, rows of one do not: stores into them would
    straddle cache lines. An entry of ``clip`` has a place that cannot be negative, one of ``hpar``,
    p·r + k, may for all that the compiler knows, which then reads it one by one.
    """
    p, width = block.cols.shape[1], max(1, block.inbox.shape[0])
    clip, vectors, work = np.empty((7, p)), np.empty((4, width)), np.empty(3 * width + 8)
    copy(block.hpar, clip.reshape(clip.size), min(clip.size, block.hpar.shape[0]))
    v, ax, slope = np.empty(p), np.empty(p), np.empty(p)
    return IDAPGWorkspace(v, ax, slope, clip, vectors[0], vectors[1:], work)


@compiled
def argmin_by_gradients(block, i, v, ax, own, error, ATy, vectors, work):
    """x_i ≈ argmin f_i + g_i + <A_iᵀ v, ·> and A_i x_i; the gradients that it took, or FAILED.

    A kernel of its own, called by its address: what separates is compiled without it.
    """
    block, v, ax, own = borrowed((block, v, ax, own))
    ATy, vectors, work = borrowed((ATy, vectors, work))
    if adjoint(block, i, v, ATy):
        return FAILED
    done = minimise_local(block, i, ATy, own, error, vectors, work)
    if done == FAILED or apply(block, i, own, ax):
        return FAILED
    return done


@inline
def minimise(block, packed_block, i, state, rule, ws):
    """x_i ≈ argmin f_i + g_i + <A_iᵀ v, ·> and A_i x_i; the gradients that it took, or FAILED."""
    if block.easy[i] != 0:
        solve_coordinates(block, i, state.x, ws.v, ws.ax)
        return 1
    own = state.x[block.xptr[i] : block.xptr[i + 1]]
    error = max(rule.slack * state.moved[i], rule.floor) / max(block.sigma[i], 1e-300)
    ATy, vectors, work = ws.ATy, ws.vectors, ws.work
    return call_step(rule.local, packed_block, i, ws.v, ws.ax, own, error, ATy, vectors, work)


@compiled
def dual_by_blocks(block, s, mode, v, ax, new, slope, work):
    """λ⁺ from ax = v - t(…), where prox_{h*} is no clip; 0, or FAILED. Called by its address."""
    block, v, ax, new = borrowed((block, v, ax, new))
    slope, work = borrowed((slope, work))
    if mode >= SMOOTH_H:
        if grad_h(block, v, slope):
            return FAILED
        for k in range(v.shape[0]):
            ax[k] -= s * slope[k]
    if mode == SMOOTH_H:
        copy(ax, new, v.shape[0])
        return 0
    return prox_h(block, s, ax, new, work)


@inline
def dual_step(packed_block, i, at, beta, state, z, rule, ws):
    """λ⁺ from v and A_i x, into the place of λ_prev; 0, or FAILED."""
    t, p, rho, clip = rule.step[i], z.shape[1], rule.rho, ws.clip
    s, v, ax, new = t * rule.share, ws.v, ws.ax, state.lam[1 - at, i]
    mixed, before = state.mixed[at, i], state.mixed[1 - at, i]
    for k in range(p):
        # 𝐂v is the same extrapolation of products that were exchanged: no round for it.
        cv = mixed[k] + beta * (mixed[k] - before[k])
        ax[k] = v[k] - t * (rho * cv + z[i, k] - ax[k])
    if rule.mode != CLIP_H:
        return call_step(rule.dual, packed_block, s, rule.mode, v, ax, new, ws.slope, ws.work)
    for k in range(p):
        w = (ax[k] - s * clip[1, k]) * (1.0 / (1.0 + s * clip[0, k]))
        new[k] = min(max(w, clip[5, k]), clip[6, k])
    return 0


@inline
def iterate(block, packed_block, i, at, last, state, z, rule, ws):
    """One iteration of agent i up to the exchange; v is kept if it is the last. 0, or FAILED."""
    lam, before, v, beta = state.lam[at, i], state.lam[1 - at, i], ws.v, rule.beta[i]
    if state.since[i] == 0:  # apart, or the compiler divides in every row
        beta = 0.0
    elif beta < 0.0:
        step = state.since[i] + 1.0 + beta  # k, or k-1 where the momentum is as printed
        beta = step / (step + 3.0)
    state.since[i] += 1
    for k in range(v.shape[0]):
        v[k] = lam[k] + beta * (lam[k] - before[k])
    done = minimise(block, packed_block, i, state, rule, ws)
    if done == FAILED:
        return FAILED
    state.calls[0, i] += done
    state.calls[1, i] += 1
    if last:
        for k in range(v.shape[0]):
            current, old = state.mixed[at, i, k], state.mixed[1 - at, i, k]
            state.v[i, k], state.mixed_v[i, k] = v[k], current + beta * (current - old)
    return dual_step(packed_block, i, at, beta, state, z, rule, ws)


@compiled
def points_uphill(v, new, lam):
    """Whether <v - λ⁺, λ⁺ - λ> > 0."""
    s = 0.0
    for k in range(v.shape[0]):
        s += (v[k] - new[k]) * (new[k] - lam[k])
    return s > 0.0


@compiled
def idapg_steps(block, links, state, z, rule, current, steps, stop, local, member):
    """Advance the rows of this thread by ``steps`` iterations; returns 0, or FAILED.

    ``lam[now]`` and ``lam[1-now]`` are λ and λ_prev on entry; after s iterations λ is
    ``lam[(now+s) % 2]`` (with ``local``: ``lam[now]`` again).
    ``stop`` is per row.
    """
    packed_block, edges, team = block, links, member  # for kernels called by address
    block, links, state, z, rule, member = borrowed((block, links, state, z, rule, member))
    lam, moved = state.lam, state.moved
    first, last = own_rows(member, z.shape[0])
    own_ws = new_workspace(block)
    ws = borrowed(own_ws)
    for group in range(last - first if local else 1):
        r0, r1 = (first + group, first + group + 1) if local else (first, last)
        if local and state.finished[r0] != 0:
            continue
        at = current
        for it in range(steps):
            for i in range(r0, r1):
                last_one = local or it == steps - 1
                if iterate(block, packed_block, i, at, last_one, state, z, rule, ws):
                    return FAILED
                new = lam[1 - at, i]
                if local or block.easy[i] == 0:
                    moved[i] = distance(ws.v, new) / rule.step[i]
                if local and rule.beta[i] == NO_MOMENTUM and points_uphill(ws.v, new, lam[at, i]):
                    state.since[i] = 0
            at = 1 - at
            if not local:
                if is_plain(links, member):
                    mix_plain(links, lam[at], state.mixed[at], member)
                else:
                    call_step(rule.exchange, edges, lam[at], state.mixed[at], team)
            # Not ``<=``: NaN ends the loop too; the caller finds it.
            elif not moved[r0] > stop[r0]:
                state.finished[r0] = 1
                break
        # Rows of their own end after different counts; the caller expects λ where it began.
        if local and at != current:
            for k in range(lam.shape[2]):
                lam[current, r0, k], lam[at, r0, k] = lam[at, r0, k], lam[current, r0, k]
    return keep(own_ws)
