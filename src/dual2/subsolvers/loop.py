"""One compiled loop for every single-loop saddle solver; the solvers supply formulas only.

The sequence of oracles and the slots are described in :mod:`dual2.subsolvers.slots`. A new solver
is one file with its ``combine`` function and one branch in :func:`combine` here.
"""

import math
from typing import NamedTuple

import numpy as np

from dual2.compiled import compiled
from dual2.engine.gossip import mix
from dual2.engine.local import FAILED, adjoint, apply, copy, grad_f, grad_h, prox_g, prox_h
from dual2.engine.threads import own_rows
from dual2.engine.unowned import unowned
from dual2.subsolvers.abpd import abpd
from dual2.subsolvers.apdg import apdg
from dual2.subsolvers.lpd import lpd
from dual2.subsolvers.pdpg import pdpg
from dual2.subsolvers.slots import *

Array = np.ndarray
PDPG, LPD, ABPD, APDG = range(4)
TEST_EVERY = 10
"""With ρ = 0, iterations between two tests of an agent's residual."""
ROUNDING = 2e-15
"""Residuals below this share of their terms are rounding: an agent that iterates alone stops."""
DROP = 0.3
"""LPD and ABPD-PGS on a merely concave problem start afresh when the residual has fallen by this
factor since the last time (kept in S8): O(1/k²) becomes a linear rate where there is one."""


class State(NamedTuple):
    """The slots, and per row: iterations since the start, calls, done, residuals; z."""

    X: Array
    Y: Array
    S: Array
    since: Array
    calls: Array
    finished: Array
    residual: Array
    z: Array


class Rule(NamedTuple):
    """What the subproblem and the solver are."""

    solver: int
    rho: float
    share: float
    """1/n."""
    by_grad: bool
    """Whether h* enters by its gradient,"""
    by_prox: bool
    """by its prox."""
    extra: bool
    """Whether the solver asks for PULL and PUSH."""
    restarts: bool
    dual_step: Array
    """t of the residual, per row."""
    weight: Array
    """Of D_x beside D_y, per row."""


@compiled
def combine(solver, stage, i, a, b, k, X, Y, S):
    """The stage of the solver that runs."""
    if solver == PDPG:
        pdpg(stage, i, a, b, k, X, Y, S)
    elif solver == LPD:
        lpd(stage, i, a, b, k, X, Y, S)
    elif solver == ABPD:
        abpd(stage, i, a, b, k, X, Y, S)
    else:
        apdg(stage, i, a, b, k, X, Y, S)


@compiled
def mapping_residual(block, i, state, rule, scratch, work):
    """residual[i] = (D_x, D_y, size of x's terms, of y's): proximal gradient mappings at (x, y).

    D_x = L_i|x - prox_{g_i/L_i}(x - (∇f_i(x)+A_iᵀy)/L_i)|,
    D_y = |y - prox_{t g₂}(y - t(∇g₁(y) - A_i x))|/t. Returns 0, or FAILED.
    """
    block, state, rule = unowned(block), unowned(state), unowned(rule)
    x, y = state.X[XO, block.xptr[i] : block.xptr[i + 1]], state.Y[YO, i]
    cy, z, out, step_y = state.Y[CO, i], state.z, state.residual, rule.dual_step[i]
    d, p, bound = x.shape[0], y.shape[0], block.lip[i]
    c, w, u = scratch[0, :d], scratch[1, :d], scratch[2, :d]
    if adjoint(block, i, y, c) or grad_f(block, i, x, w):
        return FAILED
    terms = 0.0
    for j in range(d):
        terms += (bound * x[j]) ** 2 + w[j] ** 2 + c[j] ** 2
        w[j] = x[j] - (w[j] + c[j]) / bound
    if prox_g(block, i, 1.0 / bound, w, u, work):
        return FAILED
    total = 0.0
    for j in range(d):
        total += (x[j] - u[j]) ** 2
    out[i, 0], out[i, 2] = bound * math.sqrt(total), math.sqrt(terms)
    s, r = scratch[0, :p], scratch[1, :p]
    if apply(block, i, x, s) or (rule.by_grad and grad_h(block, y, r)):
        return FAILED
    terms = 0.0
    for j in range(p):
        terms += (y[j] / step_y) ** 2 + s[j] ** 2 + z[i, j] ** 2
        slope = rule.rho * cy[j] + z[i, j] - s[j] + (rule.share * r[j] if rule.by_grad else 0.0)
        s[j] = y[j] - step_y * slope
        r[j] = s[j]
    if rule.by_prox and prox_h(block, step_y * rule.share, s, r, work):
        return FAILED
    total = 0.0
    for j in range(p):
        total += (y[j] - r[j]) ** 2
    out[i, 1], out[i, 3] = math.sqrt(total) / step_y, math.sqrt(terms)
    return 0


@compiled
def saddle_steps(block, links, state, rule, steps, stop, local, member):
    """Advance the rows of this thread by ``steps`` iterations; returns 0, or FAILED.

    With ``steps`` = 0 only the residuals of the present output are computed. With ``local`` each
    row iterates alone until D_y + weight·D_x ≤ stop.
    """
    block, links, state, rule = unowned(block), unowned(links), unowned(state), unowned(rule)
    member = unowned(member)
    X, Y, S, since, calls = state.X, state.Y, state.S, state.since, state.calls
    xptr, z, residual, weight = block.xptr, state.z, state.residual, rule.weight
    solver, by_grad, extra, share = rule.solver, rule.by_grad, rule.extra, rule.share
    n, p = z.shape
    first, last = own_rows(member, n)
    width = max(1, block.inbox.shape[0])
    scratch, work, r = np.empty((3, width)), np.empty(3 * width + 8), np.empty(p)
    for group in range(last - first if local else 1):
        r0, r1 = (first + group, first + group + 1) if local else (first, last)
        if local and state.finished[r0] != 0:
            continue
        for _ in range(max(steps, 1)):
            for i in range(r0, r1 if steps > 0 else r0):
                a, b = xptr[i], xptr[i + 1]
                for stage in range(SETTLE):
                    combine(solver, stage, i, a, b, since[i], X, Y, S)
                    failed = 0
                    if stage == POINTS:
                        failed = grad_f(block, i, X[XQ, a:b], X[XG, a:b])
                        if by_grad:
                            failed += grad_h(block, Y[YQ, i], r)
                        for j in range(p):
                            slope = rule.rho * Y[CQ, i, j] + z[i, j]
                            Y[YH, i, j] = slope + share * r[j] if by_grad else slope
                    elif stage == PRIMAL:
                        failed = prox_g(block, i, S[i, TX], X[XA, a:b], X[XP, a:b], work)
                    elif stage == COUPLE or (stage == PUSH and extra):
                        source, target = (XB, AX) if stage == COUPLE else (XW, AZ)
                        failed = apply(block, i, X[source, a:b], Y[target, i])
                    elif stage == DUAL:
                        if rule.by_prox:
                            failed = prox_h(block, S[i, TY] * share, Y[YA, i], Y[YP, i], work)
                        else:
                            copy(Y[YA, i], Y[YP, i], p)
                    elif stage == BACK or (stage == PULL and extra):
                        source, target = (YB, AY) if stage == BACK else (YZ, XZ)
                        failed = adjoint(block, i, Y[source, i], X[target, a:b])
                    if failed != 0:
                        return FAILED
                since[i] += 1
                calls[0, i] += 1
                calls[1, i] += 1
            if not local and steps > 0:
                mix(links, Y, MSG, Y, CM, member)
                for i in range(r0, r1):
                    combine(solver, SETTLE, i, xptr[i], xptr[i + 1], since[i], X, Y, S)
            if steps == 0 or (local and since[r0] % TEST_EVERY == 0):
                for i in range(r0, r1):
                    if mapping_residual(block, i, state, rule, scratch, work):
                        return FAILED
                    calls[0, i] += 1
                if local:
                    size = residual[r0, 1] + weight[r0] * residual[r0, 0]
                    terms = residual[r0, 3] + weight[r0] * residual[r0, 2]
                    if not size > max(stop[r0], ROUNDING * terms):
                        state.finished[r0] = 1
                        break
                    if rule.restarts and S[r0, S8] == 0.0:
                        S[r0, S8] = size
                    elif rule.restarts and size <= DROP * S[r0, S8]:
                        a, b = xptr[r0], xptr[r0 + 1]
                        if apply(block, r0, X[XO, a:b], Y[AX, r0]):
                            return FAILED
                        if adjoint(block, r0, Y[YO, r0], X[AY, a:b]):
                            return FAILED
                        since[r0] = 0
                        calls[2, r0] += 1
                        S[r0, S8] = size
    return 0
