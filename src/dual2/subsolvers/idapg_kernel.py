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

import numpy as np

from dual2.compiled import compiled, inlined
from dual2.engine.gossip import differences, mix
from dual2.engine.local import (
    FAILED,
    add_column,
    adjoint,
    apply,
    copy,
    distance,
    dot_column,
    minimise_local,
    set_column,
)
from dual2.engine.threads import EXCHANGE, meet
from dual2.subsolvers.dual_oracles import grad_h, prox_h

CLIP_H, BLOCK_H, SMOOTH_H, BOTH_H = range(4)
"""How the dual terms enter: prox by one scaled clip, or block by block; gradient; both."""


@inlined
def extrapolate(v, lam, at, i, beta):
    """v = λ_i + β (λ_i - λ_prev,i)."""
    for k in range(v.shape[0]):
        v[k] = lam[at, i, k] + beta * (lam[at, i, k] - lam[1 - at, i, k])


@inlined
def solve_coordinate(coef, j, r):
    """Minimiser of ½q x² + b x + s(x)(x - kink) - r x on [lower, upper]; rows of ``coef``."""
    q = coef[0, j]
    r -= coef[1, j]
    x = min(max(coef[4, j], (r - coef[3, j]) / q), (r - coef[2, j]) / q)
    return min(max(x, coef[5, j]), coef[6, j])


@inlined
def gradient_step(out, v, clam, at, i, beta, t, rho, z, ax):
    """out = v - t (ρ (𝐂v)_i + z_i - A_i x)."""
    for k in range(v.shape[0]):
        cv = clam[at, i, k] + beta * (clam[at, i, k] - clam[1 - at, i, k])
        out[k] = v[k] - t * (rho * cv + z[i, k] - ax[k])


@inlined
def clipped_step(lam, v, clam, at, i, beta, t, rho, z, ax, share, h, shrink):
    """λ⁺ = clip((w - s·h_1)·shrink, h_5, h_6), w the gradient step, s = t/n: prox of a clip."""
    s = t * share
    for k in range(v.shape[0]):
        cv = clam[at, i, k] + beta * (clam[at, i, k] - clam[1 - at, i, k])
        w = v[k] - t * (rho * cv + z[i, k] - ax[k])
        lam[1 - at, i, k] = min(max((w - s * h[1, k]) * shrink[k], h[5, k]), h[6, k])


@inlined
def keep_point(v, cv, i, row, clam, at, beta):
    """Store v_i and (𝐂v)_i for the residual."""
    for k in range(row.shape[0]):
        v[i, k] = row[k]
        cv[i, k] = clam[at, i, k] + beta * (clam[at, i, k] - clam[1 - at, i, k])


@compiled
def points_uphill(row, lam, at, i):
    """Whether <v - λ⁺, λ⁺ - λ> > 0."""
    s = 0.0
    for k in range(row.shape[0]):
        s += (row[k] - lam[1 - at, i, k]) * (lam[1 - at, i, k] - lam[at, i, k])
    return s > 0.0


@compiled
def idapg_steps(
    xptr, akind, place, cols, sval, sidx, easy, coef, fkind, fcoef, fptr, fpool, fsize,
    gptr, gtab, gpar, lip, mu, sigma, ptab, ppar, dtab, dpar, inbox, outbox, address,
    nptr, nidx, nw, recurrence, buffers,
    x, lam, clam, v, cv, z, moved, since, calls, finished,
    now, steps, step, beta, rho, share, mode, slack, floor, local, stop,
    thread, threads, barrier,
):  # fmt: skip
    """Advance the rows of this thread by ``steps`` iterations; returns 0, or FAILED.

    ``lam[now]`` and ``lam[1-now]`` are λ and λ_prev on entry; after s iterations λ is
    ``lam[(now+s) % 2]`` (with ``local``: ``lam[now]`` again). ``since`` counts iterations since the
    last restart, ``calls`` local gradients and iterations. ``v``, ``cv`` keep the last extrapolated
    point. ``step``, ``beta`` (negative: k/(k+3)) and ``stop`` are per row.
    """
    n, p = z.shape
    first, last = n * thread // threads, n * (thread + 1) // threads
    row, ax, u, shrink = np.empty(p), np.empty(p), np.empty(p), np.empty(p)
    width = max(1, inbox.shape[0])
    c, scratch, work = np.empty(width), np.empty((3, width)), np.empty(3 * width + 8)
    h = ppar.reshape((-1, p)) if mode == CLIP_H else np.empty((7, 1))
    shrunk_for = -1.0
    plain = recurrence.shape[0] == 1 and recurrence[0, 2] == 1.0 and barrier[EXCHANGE] == 0

    for group in range(last - first if local else 1):
        r0, r1 = (first + group, first + group + 1) if local else (first, last)
        if local and finished[r0] != 0:
            continue
        at = now
        for it in range(steps):
            for i in range(r0, r1):
                t, b = step[i], beta[i]
                if since[i] == 0 or b < 0.0:
                    b = since[i] / (since[i] + 3.0)
                since[i] += 1
                calls[1, i] += 1
                extrapolate(row, lam, at, i, b)
                if easy[i] != 0:
                    for j in range(xptr[i], xptr[i + 1]):
                        x[j] = solve_coordinate(coef, j, -dot_column(cols, place[j, 0], row))
                        if j == xptr[i]:
                            set_column(ax, x[j], cols, place[j, 0])
                        else:
                            add_column(ax, x[j], cols, place[j, 0])
                    calls[0, i] += 1
                else:
                    own = x[xptr[i] : xptr[i + 1]]
                    error = max(slack * moved[i], floor) / max(sigma[i], 1e-300)
                    if adjoint(
                        i, row, c, xptr, akind, place, cols, sval, sidx, inbox, outbox, address
                    ):
                        return FAILED
                    done = minimise_local(
                        i, c, own, error, lip, mu, xptr[i], fkind, fcoef, fptr, fpool, fsize,
                        gptr, gtab, gpar, inbox, outbox, address, scratch, work,
                    )  # fmt: skip
                    if done == FAILED or apply(
                        i, own, ax, xptr, akind, place, cols, sval, sidx, inbox, outbox, address
                    ):
                        return FAILED
                    calls[0, i] += done
                if it == steps - 1 or local:
                    keep_point(v, cv, i, row, clam, at, b)
                if mode == CLIP_H:
                    if t != shrunk_for:
                        shrunk_for = t
                        for k in range(p):
                            shrink[k] = 1.0 / (1.0 + t * share * h[0, k])
                    clipped_step(lam, row, clam, at, i, b, t, rho, z, ax, share, h, shrink)
                else:
                    gradient_step(ax, row, clam, at, i, b, t, rho, z, ax)
                    if mode >= SMOOTH_H:
                        if grad_h(row, u, dtab, dpar, inbox, outbox, address):
                            return FAILED
                        for k in range(p):
                            ax[k] -= t * share * u[k]
                    new = lam[1 - at, i]
                    if mode == SMOOTH_H:
                        copy(ax, new, p)
                    elif prox_h(t * share, ax, new, ptab, ppar, inbox, outbox, address, work):
                        return FAILED
                if local or easy[i] == 0:
                    moved[i] = distance(row, lam[1 - at, i]) / t
                if local and beta[i] < 0.0 and points_uphill(row, lam, at, i):
                    since[i] = 0
            at = 1 - at
            if local:
                if not moved[r0] > stop[r0]:
                    finished[r0] = 1
                    break
            elif plain:
                meet(barrier, threads)
                differences(r0, r1, nptr, nidx, nw, lam, at, clam, at)
                meet(barrier, threads)
            else:
                mix(
                    r0, r1, nptr, nidx, nw, recurrence, lam, at, clam, at, buffers,
                    thread, threads, barrier,
                )  # fmt: skip
        if local and at != now:
            for k in range(p):
                swap = lam[now, r0, k]
                lam[now, r0, k] = lam[at, r0, k]
                lam[at, r0, k] = swap
    return 0
