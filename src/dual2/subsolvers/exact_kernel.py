"""Outer iterations of iD2A with ρ = 0 around local problems solved to machine precision."""

import numpy as np

from dual2.compiled import compiled
from dual2.engine.gossip import mix
from dual2.subsolvers.borrowing import borrow
from dual2.subsolvers.newton_kernel import ROWS, SLOPE, V_SLOTS, solve_local, widest


@compiled
def exact_steps(
    xptr, akind, place, cols, sval, sidx, easy, coef, fkind, fcoef, fptr, fpool, fsize,
    gptr, gtab, gpar, lip, mu, sigma, inbox, outbox, address,
    nptr, nidx, nw, recurrence, buffers,
    x, lam, w, z, hkind, hpar, share, steps, step, beta, since, ascent, calls,
    thread, threads, barrier,
):  # fmt: skip
    """``steps`` outer iterations of iD2A with ρ = 0 and exact local solutions.

    ``lam`` stacks λ and 𝐂λ; β < 0 means k/(k+3) with k from ``since`` on. ``ascent[i]`` is left as
    <λ_i, w⁺_i - w_i> of the last iteration. ``calls`` counts gradients and unsettled solves.
    """
    (
        xptr, place, cols, coef, fkind, fptr, fpool, lip, mu, sigma, nptr, nidx, nw,
        recurrence, buffers, x, lam, w, z, hpar, calls,
    ) = borrow((
        xptr, place, cols, coef, fkind, fptr, fpool, lip, mu, sigma, nptr, nidx, nw,
        recurrence, buffers, x, lam, w, z, hpar, calls,
    ))  # fmt: skip
    n, p = z.shape
    first, last = n * thread // threads, n * (thread + 1) // threads
    wide = widest(xptr)
    full, reduced, V = np.empty((wide, wide)), np.empty((wide, wide)), np.empty((V_SLOTS, wide))
    free, side, rows = np.empty(wide, np.int64), np.empty(wide, np.int64), np.empty((ROWS, p))
    for outer in range(since, since + steps):
        for i in range(first, last):
            tried, settled = solve_local(
                i, x, z, x, 0.0, full, reduced, V, free, side, rows, hkind, hpar, 1.0 / share,
                xptr, place, cols, coef, fkind, fptr, fpool, lip, mu, sigma,
            )  # fmt: skip
            calls[0, i] += tried
            calls[1, i] += 0 if settled else 1
            for k in range(p):
                lam[0, i, k] = rows[SLOPE, k]
        mix(
            first, last, nptr, nidx, nw, recurrence, lam, 0, lam, 1, buffers,
            thread, threads, barrier,
        )  # fmt: skip
        b = beta if beta >= 0.0 else outer / (outer + 3.0)
        for i in range(first, last):
            total = 0.0
            for k in range(p):
                new = z[i, k] + step * lam[1, i, k]
                total += lam[0, i, k] * (new - w[i, k])
                z[i, k] = new + b * (new - w[i, k])
                w[i, k] = new
            ascent[i] = total
    return 0
