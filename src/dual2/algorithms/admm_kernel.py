"""The compiled iteration that the methods of ADMM type share; formulas in :mod:`.admm`."""

from typing import NamedTuple

import numpy as np

from dual2.algorithms.local_argmin import local_argmin
from dual2.compiled import compiled
from dual2.engine.gossip import mix
from dual2.engine.local import FAILED, adjoint, apply, copy, grad_f, prox_g
from dual2.engine.threads import own_rows
from dual2.engine.unowned import unowned
from dual2.subsolvers.newton_kernel import QUADRATIC_H, Task, new_scratch

Array = np.ndarray
TRACKING, NECPD, DC, IDC, DPMM = range(5)
"""Which method."""

MSG, CMSG, SUM, AUX, CAUX, AX, TARGET, SLOTS = range(8)
"""Rows of the dual state: the message and 𝐂 times it, what sums to zero over the agents, a
second vector (Tracking-ADMM's tracker, which is a message too; DPMM's y) and 𝐂 times it, A_i x_i,
and the target of the next local problem."""

GAMMA, SIGMA, ETA, THETA, Q, SCALARS = range(6)
"""Scalars: the penalty (c, ρ or γ), W = I - σ𝐂, the step of the sum-free variable (η/ρ of NECPD,
β of DPMM), DPMM's relaxation θ, the weight of the proximal term."""


class Data(NamedTuple):
    """What one of the methods needs beside the packed problem."""

    kind: int
    """Which method."""
    share: Array
    """(n, p): b_i."""
    degrees: Array
    """(n,): d_i, at least 1."""
    steep: Array
    """(n,): β_i of IDC-ADMM."""
    scalars: Array
    """By the slots above."""
    penalty: Array
    """(n, 7p): see :func:`.local_argmin.penalty_rows`."""
    ways: Array = np.zeros(0, np.int64)
    """(n,): how each local problem is solved, see :func:`.local_argmin.newton_rows`."""


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
def linearised_step(block, i, own, new, Y, degree, steep, gamma, scratch):
    """IDC-ADMM: one proximal gradient step on the local problem, to ``new``; 0 or FAILED."""
    scratch = unowned(scratch)
    d, slope = own.shape[0], scratch.rows[1]
    grad, pull = scratch.V[0, :d], scratch.V[1]
    if grad_f(block, i, own, grad):
        return FAILED
    for k in range(slope.shape[0]):
        slope[k] = (Y[AX, i, k] / gamma + Y[MSG, i, k]) / (2.0 * degree)
    if adjoint(block, i, slope, pull):
        return FAILED
    for j in range(d):
        grad[j] = own[j] - (grad[j] + pull[j]) / steep
    return prox_g(block, i, 1.0 / steep, grad, new, scratch.work)


@compiled
def admm_steps(block, links, data, x, before, Y, calls, steps, member):
    """``steps`` iterations on the flat x and the rows Y (slots, n, p), in place.

    ``before`` has room for one more x. ``calls`` (n,) counts the inner gradients. Returns 0, or
    FAILED if a user's function raised.
    """
    block, links, data, member = unowned(block), unowned(links), unowned(data), unowned(member)
    x, before, Y, calls = unowned(x), unowned(before), unowned(Y), unowned(calls)
    kind, share, degrees, s = data.kind, data.share, data.degrees, data.scalars
    n, p = share.shape
    first, last = own_rows(member, n)
    scratch, target = new_scratch(block), Y[TARGET]
    for _ in range(steps):
        for i in range(first, last):
            a, b = block.xptr[i], block.xptr[i + 1]
            penalty = data.penalty[i]
            copy(x[a:b], before[a:b], b - a)
            set_target(kind, i, Y, share[i], degrees[i], s)
            if kind == IDC:
                tried, steep = 1, data.steep[i]
                if linearised_step(
                    block, i, before[a:b], x[a:b], Y, degrees[i], steep, s[GAMMA], scratch
                ):
                    return FAILED
            else:
                task = Task(x, target, before, s[Q], QUADRATIC_H, penalty, 1.0)
                tried = local_argmin(block, i, task, data.ways[i], scratch)
            calls[i] += tried
            if tried == FAILED or apply(block, i, x[a:b], Y[AX, i]):
                return FAILED
            low, high = penalty[5 * p : 6 * p], penalty[6 * p :]
            set_message(kind, i, Y, share[i], degrees[i], low, high, s)
            if s[THETA] != 1.0:
                for j in range(a, b):
                    x[j] = before[j] + s[THETA] * (x[j] - before[j])
        mix(links, Y, MSG, Y, CMSG, member)
        if kind == TRACKING:
            mix(links, Y, AUX, Y, CAUX, member)
        for i in range(first, last):
            set_sum(kind, i, Y, s)
    return 0
