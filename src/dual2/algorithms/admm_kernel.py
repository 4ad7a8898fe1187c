"""The compiled iteration that the methods of ADMM type share; formulas in :mod:`.admm`."""

import numpy as np

from dual2.algorithms.local_argmin import local_argmin
from dual2.algorithms.semismooth import ROWS, VECTORS
from dual2.compiled import compiled
from dual2.engine.gossip import mix
from dual2.engine.local import FAILED, adjoint, apply, copy, grad_f, prox_g
from dual2.subsolvers.borrowing import borrow
from dual2.subsolvers.newton_kernel import widest

TRACKING, NECPD, DC, IDC, DPMM = range(5)
"""Which method."""

MSG, CMSG, SUM, AUX, CAUX, AX, TARGET, SLOTS = range(8)
"""Rows of the dual state: the message and 𝐂 times it, what sums to zero over the agents, a
second vector (Tracking-ADMM's tracker, which is a message too; DPMM's y) and 𝐂 times it, A_i x_i,
and the target of the next local problem."""

GAMMA, SIGMA, ETA, THETA, Q, SCALARS = range(6)
"""Scalars: the penalty (c, ρ or γ), W = I - σ𝐂, the step of the sum-free variable (η/ρ of NECPD,
β of DPMM), DPMM's relaxation θ, the weight of the proximal term."""


@compiled
def set_target(kind, i, Y, share, degree, s):
    """Before the local problem: Y[MSG] becomes its multiplier's constant part, Y[TARGET] its t."""
    gamma, sigma = s[GAMMA], s[SIGMA]
    for k in range(share.shape[0]):
        b = share[k]
        if kind == TRACKING:
            Y[MSG, i, k] -= sigma * Y[CMSG, i, k]
            Y[TARGET, i, k] = b - Y[SUM, i, k] - Y[MSG, i, k] / gamma
        elif kind == NECPD:
            Y[MSG, i, k] -= sigma * Y[CMSG, i, k] + Y[SUM, i, k]
            Y[TARGET, i, k] = b - Y[MSG, i, k] / gamma
        elif kind == DPMM:
            Y[MSG, i, k] = Y[AUX, i, k] - gamma * Y[SUM, i, k]
            Y[TARGET, i, k] = b - Y[MSG, i, k] / gamma
        else:
            Y[SUM, i, k] += gamma * Y[CMSG, i, k]
            r = 2.0 * degree * Y[MSG, i, k] - Y[CMSG, i, k] - (Y[SUM, i, k] + b) / gamma
            Y[MSG, i, k] = r
            Y[TARGET, i, k] = -gamma * r


@compiled
def set_message(kind, i, Y, share, degree, low, high, s):
    """After the local problem: the new multiplier (and tracker) from Y[AX] = A_i x_i."""
    gamma = s[GAMMA]
    for k in range(share.shape[0]):
        excess = Y[AX, i, k] - share[k]
        if kind == TRACKING:
            Y[AUX, i, k] = Y[SUM, i, k] + excess
            Y[MSG, i, k] += gamma * Y[AUX, i, k]
        elif kind == NECPD:
            Y[MSG, i, k] += gamma * excess
        elif kind == DPMM:
            Y[MSG, i, k] = min(max(Y[MSG, i, k] + gamma * excess, low[k]), high[k])
        else:
            Y[MSG, i, k] = (Y[MSG, i, k] + Y[AX, i, k] / gamma) / (2.0 * degree)


@compiled
def set_sum(kind, i, Y, s):
    """After the exchange: the variable that sums to zero moves by a product with 𝐂."""
    for k in range(Y.shape[2]):
        if kind == TRACKING:
            Y[SUM, i, k] -= s[SIGMA] * Y[CAUX, i, k]
        elif kind == NECPD:
            Y[SUM, i, k] += s[ETA] * s[SIGMA] * Y[CMSG, i, k]
        elif kind == DPMM:
            move = s[ETA] * Y[CMSG, i, k]
            Y[SUM, i, k] += move
            Y[AUX, i, k] = Y[MSG, i, k] - s[GAMMA] * move


@compiled
def linearised_step(
    i, own, new, Y, degree, steep, gamma, vectors, slope,
    xptr, akind, place, cols, sval, sidx, fkind, fcoef, fptr, fpool, fsize, gptr, gtab, gpar,
    inbox, outbox, address, work,
):  # fmt: skip
    """IDC-ADMM: one proximal gradient step on the local problem, to ``new``; 0 or FAILED."""
    d = own.shape[0]
    grad, pull = vectors[0, :d], vectors[1]
    if grad_f(i, own, grad, xptr[i], fkind, fcoef, fptr, fpool, fsize, inbox, outbox, address):
        return FAILED
    for k in range(slope.shape[0]):
        slope[k] = (Y[AX, i, k] / gamma + Y[MSG, i, k]) / (2.0 * degree)
    if adjoint(i, slope, pull, xptr, akind, place, cols, sval, sidx, inbox, outbox, address):
        return FAILED
    for j in range(d):
        grad[j] = own[j] - (grad[j] + pull[j]) / steep
    return prox_g(i, 1.0 / steep, grad, new, gptr, gtab, gpar, inbox, outbox, address, work)


@compiled
def admm_steps(
    xptr, akind, place, cols, sval, sidx, easy, coef, fkind, fcoef, fptr, fpool, fsize,
    gptr, gtab, gpar, lip, mu, sigma, inbox, outbox, address,
    nptr, nidx, nw, recurrence, buffers,
    kind, x, before, Y, share, degrees, steep, scalars, penalty, newton, calls, steps,
    thread, threads, barrier,
):  # fmt: skip
    """``steps`` iterations on the flat x and the rows Y (slots, n, p), in place.

    ``before`` has room for one more x; ``share`` (n, p) are the b_i, ``degrees`` the numbers of
    neighbours, ``steep`` IDC-ADMM's β_i, ``penalty`` and ``newton`` what :func:`local_argmin`
    reads. ``calls`` (n,) counts the inner gradients. Returns 0, or FAILED if a user's function
    raised.
    """
    (
        xptr, akind, place, cols, sval, sidx, coef, fkind, fcoef, fptr, fpool, fsize, gptr, gtab,
        gpar, lip, mu, sigma, inbox, outbox, nptr, nidx, nw, recurrence, buffers, x, before, Y,
        share, degrees, steep, scalars, penalty, newton, calls,
    ) = borrow((
        xptr, akind, place, cols, sval, sidx, coef, fkind, fcoef, fptr, fpool, fsize, gptr, gtab,
        gpar, lip, mu, sigma, inbox, outbox, nptr, nidx, nw, recurrence, buffers, x, before, Y,
        share, degrees, steep, scalars, penalty, newton, calls,
    ))  # fmt: skip
    n, p = share.shape
    first, last = n * thread // threads, n * (thread + 1) // threads
    wide, target = widest(xptr), Y[TARGET]
    full, reduced = np.empty((wide, wide)), np.empty((wide, wide))
    derivative, vectors = np.empty((wide, wide)), np.empty((VECTORS, wide))
    free, side, rows = np.empty(wide, np.int64), np.empty(wide, np.int64), np.empty((ROWS, p))
    work = np.empty(3 * wide + 8)
    for _ in range(steps):
        for i in range(first, last):
            a, b = xptr[i], xptr[i + 1]
            copy(x[a:b], before[a:b], b - a)
            set_target(kind, i, Y, share[i], degrees[i], scalars)
            if kind == IDC:
                tried = 1
                if linearised_step(
                    i, before[a:b], x[a:b], Y, degrees[i], steep[i], scalars[GAMMA], vectors,
                    rows[1], xptr, akind, place, cols, sval, sidx, fkind, fcoef, fptr, fpool,
                    fsize, gptr, gtab, gpar, inbox, outbox, address, work,
                ):  # fmt: skip
                    return FAILED
            else:
                tried = local_argmin(
                    i, x, target, before, scalars[Q], penalty, newton, vectors, free, side, full,
                    reduced, derivative, rows, xptr, akind, place, cols, sval, sidx, coef, fkind,
                    fcoef, fptr, fpool, fsize, gptr, gtab, gpar, lip, mu, sigma, inbox, outbox,
                    address, work,
                )  # fmt: skip
            calls[i] += tried
            if tried == FAILED or apply(
                i, x[a:b], Y[AX, i], xptr, akind, place, cols, sval, sidx, inbox, outbox, address
            ):
                return FAILED
            low, high = penalty[i, 5 * p : 6 * p], penalty[i, 6 * p :]
            set_message(kind, i, Y, share[i], degrees[i], low, high, scalars)
            if scalars[THETA] != 1.0:
                for j in range(a, b):
                    x[j] = before[j] + scalars[THETA] * (x[j] - before[j])
        mix(
            first, last, nptr, nidx, nw, recurrence, Y, MSG, Y, CMSG, buffers,
            thread, threads, barrier,
        )  # fmt: skip
        if kind == TRACKING:
            mix(
                first, last, nptr, nidx, nw, recurrence, Y, AUX, Y, CAUX, buffers,
                thread, threads, barrier,
            )  # fmt: skip
        for i in range(first, last):
            set_sum(kind, i, Y, scalars)
    return 0
