"""One loop for every single-loop saddle solver; the solvers supply their iteration.

State, rule and what a solver consists of are described in
:mod:`dual2.methods.subsolvers.saddle_state`.
"""

import math

from dual2.compiled import inline
from dual2.engine.gossip_kernel import mix
from dual2.engine.local import FAILED, adjoint, apply, grad_f, grad_h, prox_g
from dual2.engine.packed_args import borrowed, keep
from dual2.engine.threads import own_rows
from dual2.methods.subsolvers.saddle_state import C_MESSAGE, MESSAGE, new_workspace, prox_g2

TEST_EVERY = 10
"""With ρ = 0, iterations between two tests of an agent's residual."""
ROUNDING = 2e-15
"""Residuals below this share of their terms are rounding: an agent that iterates alone stops."""
DROP = 0.3
"""LPD and ABPD-PGS on a merely concave problem start afresh when the residual has fallen by this
factor since the last time: O(1/k²) becomes a linear rate where there is one."""


@inline
def mapping_residual(block, i, state, rule, z, ws):
    """residual[i] = (D_x, D_y, size of x's terms, of y's): proximal gradient mappings at (x, y).

    D_x = L_i|x - prox_{g_i/L_i}(x - (∇f_i(x)+A_iᵀy)/L_i)|,
    D_y = |y - prox_{t g₂}(y - t(∇g₁(y) - A_i x))|/t. Returns 0, or FAILED.
    """
    x, y, cy = state.x[block.xptr[i] : block.xptr[i + 1]], state.lam[i], state.mixed[i]
    d, p, L, t, out = x.shape[0], y.shape[0], block.lip[i], rule.dual_step[i], state.residual[i]
    c, w, u = ws.vectors[0, :d], ws.vectors[1, :d], ws.vectors[2, :d]
    state.calls[0, i] += 1
    if adjoint(block, i, y, c) or grad_f(block, i, x, w):
        return FAILED
    terms = 0.0
    for j in range(d):
        terms += (L * x[j]) ** 2 + w[j] ** 2 + c[j] ** 2
        w[j] = x[j] - (w[j] + c[j]) / L
    if prox_g(block, i, 1.0 / L, w, u, ws.work):
        return FAILED
    total = 0.0
    for j in range(d):
        total += (x[j] - u[j]) ** 2
    out[0], out[2] = L * math.sqrt(total), math.sqrt(terms)
    s, r = ws.vectors[0, :p], ws.vectors[1, :p]
    if apply(block, i, x, s) or (rule.by_grad and grad_h(block, y, r)):
        return FAILED
    terms = 0.0
    for j in range(p):
        terms += (y[j] / t) ** 2 + s[j] ** 2 + z[i, j] ** 2
        slope = rule.rho * cy[j] + z[i, j] - s[j] + (rule.share * r[j] if rule.by_grad else 0.0)
        s[j] = y[j] - t * slope
    if prox_g2(block, t, s, r, rule, ws.work):
        return FAILED
    total = 0.0
    for j in range(p):
        total += (y[j] - r[j]) ** 2
    out[1], out[3] = math.sqrt(total) / t, math.sqrt(terms)
    return 0


@inline
def judge_alone(block, i, state, rule, stop):
    """After a test of agent i alone: is it done, or to start afresh? 0, or FAILED."""
    residual, weight, mark = state.residual, rule.weight[i], state.mark
    size = residual[i, 1] + weight * residual[i, 0]
    terms = residual[i, 3] + weight * residual[i, 2]
    failed = 0
    if not size > max(stop[i], ROUNDING * terms):
        state.finished[i] = 1
    elif rule.restarts and mark[i] == 0.0:
        mark[i] = size
    elif rule.restarts and size <= DROP * mark[i]:
        a, b = block.xptr[i], block.xptr[i + 1]
        state.since[i], mark[i] = 0, size
        state.calls[2, i] += 1
        failed = apply(block, i, state.x[a:b], state.Ax[i])
        failed += adjoint(block, i, state.lam[i], state.ATy[a:b])
    return failed


@inline
def advance(step, settle, block, links, state, rule, ask, member):
    """Advance the rows of this thread by ``ask.steps`` iterations; returns 0, or FAILED.

    Rows are worked in groups. With an exchange after each iteration the group is all rows of a
    thread. With ``alone`` each row is a group of its own until D_y + weight·D_x ≤ stop.
    """
    block, links, state, rule, ask, member = borrowed((block, links, state, rule, ask, member))
    z, steps, alone = ask.z, ask.steps, ask.alone
    first, last = own_rows(member, z.shape[0])
    own_ws = new_workspace(block)
    ws = borrowed(own_ws)
    for group in range(last - first if alone else 1):
        r0, r1 = (first + group, first + group + 1) if alone else (first, last)
        for _ in range(max(steps, 1)):
            if alone and state.finished[r0] != 0:
                break
            for i in range(r0, r1 if steps > 0 else r0):
                if step(block, i, state, rule, z, ws) != 0:
                    return FAILED
                state.since[i] += 1
                state.calls[0, i] += 1
                state.calls[1, i] += 1
            if not alone and steps > 0:
                mix(links, state.Y[MESSAGE], state.Y[C_MESSAGE], member)
                for i in range(r0, r1):
                    settle(state, i)
            if steps == 0 or (alone and state.since[r0] % TEST_EVERY == 0):
                for i in range(r0, r1):
                    if mapping_residual(block, i, state, rule, z, ws) != 0:
                        return FAILED
                if alone and judge_alone(block, r0, state, rule, ask.stop) != 0:
                    return FAILED
    return keep(own_ws)
