"""Outer iterations of iD2A with ρ = 0 around local problems solved to machine precision."""

from typing import NamedTuple

import numpy as np

from dual2.compiled import compiled
from dual2.engine.gossip import mix
from dual2.engine.local import copy
from dual2.engine.threads import own_rows
from dual2.engine.unowned import keep, unowned
from dual2.methods.subsolvers.newton_kernel import SLOPE, new_scratch, solve_local

Array = np.ndarray


class State(NamedTuple):
    """Flat x, λ, 𝐂λ; (2, n): gradients and unsettled solves so far."""

    x: Array
    lam: Array
    mixed: Array
    calls: Array


class Outer(NamedTuple):
    """Outer iterates w and z, their step and momentum."""

    w: Array
    z: Array
    ascent: Array
    """<λ_i, w⁺_i - w_i> of the last iteration."""
    step: float
    beta: float
    """Negative: k/(k+3), k from ``since`` on."""
    since: int


@compiled
def exact_steps(block, links, state, outer, task, steps, member):
    """``steps`` outer iterations of iD2A with ρ = 0 and exact local solutions; 0."""
    block, links, state, outer, task, member = unowned((block, links, state, outer, task, member))
    lam, mixed, w, z = state.lam, state.mixed, outer.w, outer.z
    n, p = z.shape
    first, last = own_rows(member, n)
    own_scratch = new_scratch(block)
    scratch = unowned(own_scratch)
    for k in range(outer.since, outer.since + steps):
        for i in range(first, last):
            tried, settled = solve_local(block, i, task, scratch)
            state.calls[0, i] += tried
            state.calls[1, i] += 0 if settled else 1
            copy(scratch.rows[SLOPE], lam[i], p)
        mix(links, lam, mixed, member)
        b = outer.beta if outer.beta >= 0.0 else k / (k + 3.0)
        for i in range(first, last):
            total = 0.0
            for j in range(p):
                new = z[i, j] + outer.step * mixed[i, j]
                total += lam[i, j] * (new - w[i, j])
                z[i, j] = new + b * (new - w[i, j])
                w[i, j] = new
            outer.ascent[i] = total
    return keep(own_scratch)
