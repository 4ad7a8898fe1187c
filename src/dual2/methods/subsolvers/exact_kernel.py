"""Outer iterations of iD2A with ρ = 0 around local problems solved to machine precision."""

from typing import NamedTuple

import numpy as np

from dual2.compiled import compiled
from dual2.engine.gossip import mix
from dual2.engine.threads import own_rows
from dual2.engine.unowned import keep, unowned
from dual2.methods.subsolvers.newton_kernel import SLOPE, new_scratch, solve_local

Array = np.ndarray


class Rows(NamedTuple):
    """The outer state on the rows of a block."""

    lam: Array
    """(2, n, p): λ and 𝐂λ."""
    w: Array
    z: Array
    ascent: Array
    """<λ_i, w⁺_i - w_i> of the last iteration."""
    calls: Array
    """(2, n): gradients and unsettled solves."""


@compiled
def exact_steps(block, links, rows, task, steps, step, beta, since, member):
    """``steps`` outer iterations of iD2A with ρ = 0 and exact local solutions, of which x is kept.

    β < 0 means k/(k+3) with k from ``since`` on.
    """
    block, links, rows, task, member = unowned((block, links, rows, task, member))
    lam, w, z, calls = rows.lam, rows.w, rows.z, rows.calls
    n, p = z.shape
    first, last = own_rows(member, n)
    own_scratch = new_scratch(block)
    scratch = unowned(own_scratch)
    for outer in range(since, since + steps):
        for i in range(first, last):
            tried, settled = solve_local(block, i, task, scratch)
            calls[0, i] += tried
            calls[1, i] += 0 if settled else 1
            for k in range(p):
                lam[0, i, k] = scratch.rows[SLOPE, k]
        mix(links, lam[0], lam[1], member)
        b = beta if beta >= 0.0 else outer / (outer + 3.0)
        for i in range(first, last):
            total = 0.0
            for k in range(p):
                new = z[i, k] + step * lam[1, i, k]
                total += lam[0, i, k] * (new - w[i, k])
                z[i, k] = new + b * (new - w[i, k])
                w[i, k] = new
            rows.ascent[i] = total
    return keep(own_scratch)
