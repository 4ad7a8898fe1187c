"""One compiled loop for every single-loop saddle solver; the solvers supply formulas only.

The sequence of oracles and the slots are described in :mod:`dual2.subsolvers.slots`. A new solver
is one file with its ``combine`` function and one branch in :func:`combine` here.
"""

import math

import numpy as np

from dual2.compiled import compiled
from dual2.engine.gossip import mix
from dual2.engine.local import FAILED, adjoint, apply, copy, grad_f, prox_g
from dual2.subsolvers.abpd import abpd
from dual2.subsolvers.apdg import apdg
from dual2.subsolvers.borrowing import borrow
from dual2.subsolvers.dual_oracles import grad_h, prox_h
from dual2.subsolvers.lpd import lpd
from dual2.subsolvers.pdpg import pdpg
from dual2.subsolvers.slots import *

PDPG, LPD, ABPD, APDG = range(4)
TEST_EVERY = 10
"""With ρ = 0, iterations between two tests of an agent's residual."""
ROUNDING = 2e-15
"""Residuals below this share of their terms are rounding: an agent that iterates alone stops."""
DROP = 0.3
"""LPD and ABPD-PGS on a merely concave problem start afresh when the residual has fallen by this
factor since the last time (kept in S8): O(1/k²) becomes a linear rate where there is one."""


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
def mapping_residual(
    i, x, y, cy, step_y, z, rho, share, by_grad, by_prox,
    xptr, akind, place, cols, sval, sidx, fkind, fcoef, fptr, fpool, fsize, gptr, gtab, gpar, lip,
    ptab, ppar, dtab, dpar, inbox, outbox, address, scratch, work, out,
):  # fmt: skip
    """out[i] = (D_x, D_y, size of x's terms, of y's): proximal gradient mappings at (x, y).

    D_x = L_i|x - prox_{g_i/L_i}(x - (∇f_i(x)+A_iᵀy)/L_i)|,
    D_y = |y - prox_{t g₂}(y - t(∇g₁(y) - A_i x))|/t. Returns 0, or FAILED.
    """
    d, p, bound = x.shape[0], y.shape[0], lip[i]
    c, w, u = scratch[0, :d], scratch[1, :d], scratch[2, :d]
    if adjoint(i, y, c, xptr, akind, place, cols, sval, sidx, inbox, outbox, address):
        return FAILED
    if grad_f(i, x, w, xptr[i], fkind, fcoef, fptr, fpool, fsize, inbox, outbox, address):
        return FAILED
    terms = 0.0
    for j in range(d):
        terms += (bound * x[j]) ** 2 + w[j] ** 2 + c[j] ** 2
        w[j] = x[j] - (w[j] + c[j]) / bound
    if prox_g(i, 1.0 / bound, w, u, gptr, gtab, gpar, inbox, outbox, address, work):
        return FAILED
    total = 0.0
    for j in range(d):
        total += (x[j] - u[j]) ** 2
    out[i, 0], out[i, 2] = bound * math.sqrt(total), math.sqrt(terms)
    s, r = scratch[0, :p], scratch[1, :p]
    if apply(i, x, s, xptr, akind, place, cols, sval, sidx, inbox, outbox, address):
        return FAILED
    if by_grad and grad_h(y, r, dtab, dpar, inbox, outbox, address):
        return FAILED
    terms = 0.0
    for j in range(p):
        terms += (y[j] / step_y) ** 2 + s[j] ** 2 + z[i, j] ** 2
        slope = rho * cy[j] + z[i, j] - s[j] + (share * r[j] if by_grad else 0.0)
        s[j] = y[j] - step_y * slope
        r[j] = s[j]
    if by_prox and prox_h(step_y * share, s, r, ptab, ppar, inbox, outbox, address, work):
        return FAILED
    total = 0.0
    for j in range(p):
        total += (y[j] - r[j]) ** 2
    out[i, 1], out[i, 3] = math.sqrt(total) / step_y, math.sqrt(terms)
    return 0


@compiled
def saddle_steps(
    xptr, akind, place, cols, sval, sidx, easy, coef, fkind, fcoef, fptr, fpool, fsize,
    gptr, gtab, gpar, lip, mu, sigma, ptab, ppar, dtab, dpar, inbox, outbox, address,
    nptr, nidx, nw, recurrence, buffers,
    X, Y, S, z, since, calls, finished, residual, step_y,
    solver, steps, rho, share, by_grad, by_prox, extra, local, stop, weight, restarts,
    thread, threads, barrier,
):  # fmt: skip
    """Advance the rows of this thread by ``steps`` iterations; returns 0, or FAILED.

    With ``steps`` = 0 only the residuals of the present output are computed. With ``local`` each
    row iterates alone until D_y + weight·D_x ≤ stop.
    """
    (
        xptr, akind, place, cols, sval, sidx, fkind, fcoef, fptr, fpool, fsize, gptr, gtab, gpar,
        lip, ptab, ppar, dtab, dpar, inbox, outbox, nptr, nidx, nw, recurrence, buffers,
        X, Y, S, z, since, calls, finished, residual,
    ) = borrow((
        xptr, akind, place, cols, sval, sidx, fkind, fcoef, fptr, fpool, fsize, gptr, gtab, gpar,
        lip, ptab, ppar, dtab, dpar, inbox, outbox, nptr, nidx, nw, recurrence, buffers,
        X, Y, S, z, since, calls, finished, residual,
    ))  # fmt: skip
    n, p = z.shape
    first, last = n * thread // threads, n * (thread + 1) // threads
    width = max(1, inbox.shape[0])
    scratch, work, r = np.empty((3, width)), np.empty(3 * width + 8), np.empty(p)
    for group in range(last - first if local else 1):
        r0, r1 = (first + group, first + group + 1) if local else (first, last)
        if local and finished[r0] != 0:
            continue
        for _ in range(max(steps, 1)):
            for i in range(r0, r1 if steps > 0 else r0):
                a, b = xptr[i], xptr[i + 1]
                for stage in range(SETTLE):
                    combine(solver, stage, i, a, b, since[i], X, Y, S)
                    failed = 0
                    if stage == POINTS:
                        failed = grad_f(
                            i, X[XQ, a:b], X[XG, a:b], a, fkind, fcoef, fptr, fpool, fsize,
                            inbox, outbox, address,
                        )  # fmt: skip
                        if by_grad:
                            failed += grad_h(Y[YQ, i], r, dtab, dpar, inbox, outbox, address)
                        for j in range(p):
                            slope = rho * Y[CQ, i, j] + z[i, j]
                            Y[YH, i, j] = slope + share * r[j] if by_grad else slope
                    elif stage == PRIMAL:
                        failed = prox_g(
                            i, S[i, TX], X[XA, a:b], X[XP, a:b], gptr, gtab, gpar,
                            inbox, outbox, address, work,
                        )  # fmt: skip
                    elif stage == COUPLE or (stage == PUSH and extra):
                        source, target = (XB, AX) if stage == COUPLE else (XW, AZ)
                        failed = apply(
                            i, X[source, a:b], Y[target, i], xptr, akind, place, cols, sval,
                            sidx, inbox, outbox, address,
                        )  # fmt: skip
                    elif stage == DUAL:
                        if by_prox:
                            failed = prox_h(
                                S[i, TY] * share, Y[YA, i], Y[YP, i], ptab, ppar,
                                inbox, outbox, address, work,
                            )  # fmt: skip
                        else:
                            copy(Y[YA, i], Y[YP, i], p)
                    elif stage == BACK or (stage == PULL and extra):
                        source, target = (YB, AY) if stage == BACK else (YZ, XZ)
                        failed = adjoint(
                            i, Y[source, i], X[target, a:b], xptr, akind, place, cols, sval,
                            sidx, inbox, outbox, address,
                        )  # fmt: skip
                    if failed != 0:
                        return FAILED
                since[i] += 1
                calls[0, i] += 1
                calls[1, i] += 1
            if not local and steps > 0:
                mix(
                    r0, r1, nptr, nidx, nw, recurrence, Y, MSG, Y, CM, buffers,
                    thread, threads, barrier,
                )  # fmt: skip
                for i in range(r0, r1):
                    combine(solver, SETTLE, i, xptr[i], xptr[i + 1], since[i], X, Y, S)
            if steps == 0 or (local and since[r0] % TEST_EVERY == 0):
                for i in range(r0, r1):
                    if mapping_residual(
                        i, X[XO, xptr[i] : xptr[i + 1]], Y[YO, i], Y[CO, i], step_y[i], z,
                        rho, share, by_grad, by_prox, xptr, akind, place, cols, sval, sidx,
                        fkind, fcoef, fptr, fpool, fsize, gptr, gtab, gpar, lip,
                        ptab, ppar, dtab, dpar, inbox, outbox, address, scratch, work, residual,
                    ):  # fmt: skip
                        return FAILED
                    calls[0, i] += 1
                if local:
                    size = residual[r0, 1] + weight[r0] * residual[r0, 0]
                    terms = residual[r0, 3] + weight[r0] * residual[r0, 2]
                    if not size > max(stop[r0], ROUNDING * terms):
                        finished[r0] = 1
                        break
                    if restarts and S[r0, S8] == 0.0:
                        S[r0, S8] = size
                    elif restarts and size <= DROP * S[r0, S8]:
                        a, b = xptr[r0], xptr[r0 + 1]
                        if apply(
                            r0, X[XO, a:b], Y[AX, r0], xptr, akind, place, cols, sval, sidx,
                            inbox, outbox, address,
                        ) or adjoint(
                            r0, Y[YO, r0], X[AY, a:b], xptr, akind, place, cols, sval, sidx,
                            inbox, outbox, address,
                        ):  # fmt: skip
                            return FAILED
                        since[r0] = 0
                        calls[2, r0] += 1
                        S[r0, S8] = size
    return 0
