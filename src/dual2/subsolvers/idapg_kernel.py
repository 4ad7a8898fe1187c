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

from dual2.compiled import compiled, inlined
from dual2.engine.gossip import mix_in_line
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
from dual2.engine.threads import own_rows
from dual2.engine.unowned import unowned

Array = np.ndarray
CLIP_H, BLOCK_H, SMOOTH_H, BOTH_H = range(4)
"""How the dual terms enter: prox by one scaled clip, or block by block; gradient; both."""


class Rows(NamedTuple):
    """The state on the rows of a block, by the names of :class:`.idapg.IDAPGState`, and z."""

    x: Array
    lam: Array
    clam: Array
    v: Array
    cv: Array
    moved: Array
    since: Array
    calls: Array
    finished: Array
    z: Array


class Rule(NamedTuple):
    """How steps are taken."""

    step: Array
    """t of each row."""
    beta: Array
    """β of each row; negative: k/(k+3), k the iterations since the last restart."""
    rho: float
    share: float
    """1/n."""
    mode: int
    """How the dual terms enter."""
    slack: float
    """A_i(x_i - x_i*) may be this much of the last dual movement/t,"""
    floor: float
    """or this."""


@inlined
def extrapolate(out, rows, i, at, beta):
    """out = λ_i + β (λ_i - λ_prev,i)."""
    lam = rows.lam
    for k in range(out.shape[0]):
        out[k] = lam[at, i, k] + beta * (lam[at, i, k] - lam[1 - at, i, k])


@inlined
def solve_coordinate(coef, j, r):
    """Minimiser of ½q x² + b x + s(x)(x - kink) - r x on [lower, upper]; rows of ``coef``."""
    q = coef[0, j]
    r -= coef[1, j]
    x = min(max(coef[4, j], (r - coef[3, j]) / q), (r - coef[2, j]) / q)
    return min(max(x, coef[5, j]), coef[6, j])


@inlined
def solve_coordinates(block, i, x, v, ax):
    """x_i = argmin f_i + g_i + <A_iᵀ v, ·> coordinate by coordinate, ax = A_i x_i."""
    first, cols, place = block.xptr[i], block.cols, block.place
    for j in range(first, block.xptr[i + 1]):
        x[j] = solve_coordinate(block.coef, j, -dot_column(cols, place[j, 0], v))
        if j == first:
            set_column(ax, x[j], cols, place[j, 0])
        else:
            add_column(ax, x[j], cols, place[j, 0])


@inlined
def gradient_step(out, v, rows, i, at, beta, t, rho, ax):
    """out = v - t (ρ (𝐂v)_i + z_i - A_i x)."""
    clam, z = rows.clam, rows.z
    for k in range(v.shape[0]):
        cv = clam[at, i, k] + beta * (clam[at, i, k] - clam[1 - at, i, k])
        out[k] = v[k] - t * (rho * cv + z[i, k] - ax[k])


@inlined
def clipped_step(v, rows, i, at, beta, t, rule, ax, h, shrink):
    """λ⁺ = clip((w - s·h_1)·shrink, h_5, h_6), w the gradient step, s = t/n: prox of a clip."""
    lam, clam, z = rows.lam, rows.clam, rows.z
    rho, s = rule.rho, t * rule.share
    for k in range(v.shape[0]):
        cv = clam[at, i, k] + beta * (clam[at, i, k] - clam[1 - at, i, k])
        w = v[k] - t * (rho * cv + z[i, k] - ax[k])
        lam[1 - at, i, k] = min(max((w - s * h[1, k]) * shrink[k], h[5, k]), h[6, k])


@inlined
def keep_point(rows, i, at, beta, v):
    """Store v_i and (𝐂v)_i for the residual."""
    clam = rows.clam
    for k in range(v.shape[0]):
        rows.v[i, k] = v[k]
        rows.cv[i, k] = clam[at, i, k] + beta * (clam[at, i, k] - clam[1 - at, i, k])


@compiled
def points_uphill(v, lam, at, i):
    """Whether <v - λ⁺, λ⁺ - λ> > 0."""
    s = 0.0
    for k in range(v.shape[0]):
        s += (v[k] - lam[1 - at, i, k]) * (lam[1 - at, i, k] - lam[at, i, k])
    return s > 0.0


@compiled
def idapg_steps(block, links, rows, rule, now, steps, stop, local, member):
    """Advance the rows of this thread by ``steps`` iterations; returns 0, or FAILED.

    ``lam[now]`` and ``lam[1-now]`` are λ and λ_prev on entry; after s iterations λ is
    ``lam[(now+s) % 2]`` (with ``local``: ``lam[now]`` again). ``since`` counts iterations since the
    last restart, ``calls`` local gradients and iterations. ``v``, ``cv`` keep the last extrapolated
    point. ``stop`` is per row.
    """
    block, links, rows, rule, member = unowned((block, links, rows, rule, member))
    x, lam, since, calls, moved = rows.x, rows.lam, rows.since, rows.calls, rows.moved
    n, p = rows.z.shape
    first, last = own_rows(member, n)
    v, ax, u, shrink = np.empty(p), np.empty(p), np.empty(p), np.empty(p)
    width = max(1, block.inbox.shape[0])
    c, scratch, work = np.empty(width), np.empty((3, width)), np.empty(3 * width + 8)
    mode = rule.mode
    h = block.hpar.reshape((-1, p)) if mode == CLIP_H else np.empty((7, 1))
    shrunk_for = -1.0

    for group in range(last - first if local else 1):
        r0, r1 = (first + group, first + group + 1) if local else (first, last)
        if local and rows.finished[r0] != 0:
            continue
        at = now
        for it in range(steps):
            for i in range(r0, r1):
                t, b = rule.step[i], rule.beta[i]
                if since[i] == 0 or b < 0.0:
                    b = since[i] / (since[i] + 3.0)
                since[i] += 1
                calls[1, i] += 1
                extrapolate(v, rows, i, at, b)
                if block.easy[i] != 0:
                    solve_coordinates(block, i, x, v, ax)
                    calls[0, i] += 1
                else:
                    own = x[block.xptr[i] : block.xptr[i + 1]]
                    error = max(rule.slack * moved[i], rule.floor) / max(block.sigma[i], 1e-300)
                    if adjoint(block, i, v, c):
                        return FAILED
                    done = minimise_local(block, i, c, own, error, scratch, work)
                    if done == FAILED or apply(block, i, own, ax):
                        return FAILED
                    calls[0, i] += done
                if it == steps - 1 or local:
                    keep_point(rows, i, at, b, v)
                if mode == CLIP_H:
                    if t != shrunk_for:
                        shrunk_for = t
                        for k in range(p):
                            shrink[k] = 1.0 / (1.0 + t * rule.share * h[0, k])
                    clipped_step(v, rows, i, at, b, t, rule, ax, h, shrink)
                else:
                    gradient_step(ax, v, rows, i, at, b, t, rule.rho, ax)
                    if mode >= SMOOTH_H:
                        if grad_h(block, v, u):
                            return FAILED
                        for k in range(p):
                            ax[k] -= t * rule.share * u[k]
                    new = lam[1 - at, i]
                    if mode == SMOOTH_H:
                        copy(ax, new, p)
                    elif prox_h(block, t * rule.share, ax, new, work):
                        return FAILED
                if local or block.easy[i] == 0:
                    moved[i] = distance(v, lam[1 - at, i]) / t
                if local and rule.beta[i] < 0.0 and points_uphill(v, lam, at, i):
                    since[i] = 0
            at = 1 - at
            if not local:
                mix_in_line(links, lam[at], rows.clam[at], member)
            elif not moved[r0] > stop[r0]:
                rows.finished[r0] = 1
                break
        if local and at != now:
            for k in range(p):
                swap = lam[now, r0, k]
                lam[now, r0, k] = lam[at, r0, k]
                lam[at, r0, k] = swap
    return 0
