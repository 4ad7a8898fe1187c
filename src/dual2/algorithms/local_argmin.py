"""Local problems with a quadratic penalty, solved to machine precision by compiled code.

Methods of ADMM type ask every agent for

    argmin_x  f_i(x) + g_i(x) + Σ_k ψ_k((A_i x)_k) + (q/2)|x - anchor|²,

where ψ_k(u) = (r/2)(u - t_k)², or (r/2)max(u - t_k, 0)² and its mirror image for inequalities. A
linear term <A_iᵀλ, x> needs no place of its own: it moves t by -λ/r. With dense A_i, quadratic f_i
and separable g_i the active set method of :mod:`dual2.algorithms.penalised_kernel` ends after a few
Newton steps; everything else, and what it leaves unsettled, takes the accelerated proximal
gradient method, warm started, to a relative accuracy of 1e-13.
"""

import math

import numpy as np

from dual2.algorithms.penalised_kernel import QUADRATIC_H, coupling_loss, solve_local
from dual2.compiled import compiled
from dual2.engine.local import (
    DENSE_A,
    DENSE_F,
    FAILED,
    adjoint,
    apply,
    copy,
    distance,
    dot,
    grad_f,
    prox_g,
)
from dual2.engine.pack import is_separable
from dual2.functions.lowering import prox_blocks
from dual2.runtime import Stacked

Array = np.ndarray
_CAP = 60.0
_FLAT_CAP = 20_000
"""Most gradient steps on one local problem without known strong convexity."""


@compiled
def minimise_penalised(
    i, own, target, anchor, q, penalty, vectors, ax, slope,
    xptr, akind, place, cols, sval, sidx, fkind, fcoef, fptr, fpool, fsize, gptr, gtab, gpar,
    lip, mu, sigma, inbox, outbox, address, work,
):  # fmt: skip
    """The local problem by the accelerated proximal gradient method, in place.

    Step 1/L, L = L_i + rσ̄²(A_i) + q, momentum (√κ-1)/(√κ+1) with κ = L/(μ_i + q), or k/(k+3) with
    restarts where the momentum points uphill if that is infinite. Returns the number of steps, or
    FAILED if a user's function raised.
    """
    d, p = own.shape[0], ax.shape[0]
    L, strong = lip[i] + sigma[i] ** 2 / penalty[0] + q, mu[i] + q
    if L <= 0.0:
        L = 1.0
    kappa = math.sqrt(L / strong) if strong > 0.0 else math.inf
    most = int(_CAP * kappa) + 10 if strong > 0.0 else _FLAT_CAP
    u, w, pull, new = vectors[0, :d], vectors[1, :d], vectors[2], vectors[3, :d]
    copy(own, u, d)
    since = 0
    for step in range(most):
        if grad_f(i, u, w, xptr[i], fkind, fcoef, fptr, fpool, fsize, inbox, outbox, address) != 0:
            return FAILED
        if apply(i, u, ax, xptr, akind, place, cols, sval, sidx, inbox, outbox, address) != 0:
            return FAILED
        for k in range(p):
            _, slope[k], _ = coupling_loss(QUADRATIC_H, penalty, k, p, ax[k] - target[k])
        if adjoint(i, slope, pull, xptr, akind, place, cols, sval, sidx, inbox, outbox, address):
            return FAILED
        force = math.sqrt(dot(w, w)) + math.sqrt(dot(pull[:d], pull[:d]))
        for j in range(d):
            w[j] = u[j] - (w[j] + pull[j] + q * (u[j] - anchor[j])) / L
        if prox_g(i, 1.0 / L, w, new, gptr, gtab, gpar, inbox, outbox, address, work) != 0:
            return FAILED
        moved, size = distance(u, new), math.sqrt(dot(new, new))
        uphill = 0.0
        for j in range(d):
            uphill += (u[j] - new[j]) * (new[j] - own[j])
        since = 0 if uphill > 0.0 else since + 1
        momentum = (kappa - 1.0) / (kappa + 1.0) if strong > 0.0 else since / (since + 3.0)
        for j in range(d):
            u[j] = new[j] + momentum * (new[j] - own[j])
            own[j] = new[j]
        if (L - strong) * moved <= max(1e-13 * strong * size, 1e-15 * (L * size + force)):
            return step + 1
    return most


@compiled
def local_argmin(
    i, own, target, anchor, q, penalty, newton, vectors, free, side, full, reduced, rows,
    xptr, akind, place, cols, sval, sidx, coef, fkind, fcoef, fptr, fpool, fsize, gptr, gtab, gpar,
    lip, mu, sigma, inbox, outbox, address, work,
):  # fmt: skip
    """The local problem of agent i, in place, from ``own``.

    ``penalty`` holds 7p numbers: 1/r, 0 and the bounds of ψ' in rows 0, 1, 5 and 6 (the form of
    a separable conjugate). ``newton[i]`` says whether the active set method applies. ``vectors``
    (5, ·), ``free``, ``side``, ``full``, ``reduced``, ``rows`` (4, p) and ``work`` are scratch.
    Returns the number of gradients, or FAILED.
    """
    tried = 0
    if newton[i] != 0:
        tried, settled = solve_local(
            i, own, target, anchor, q, full, reduced, vectors, free, side, rows, QUADRATIC_H,
            penalty, 1.0, xptr, akind, place, cols, sval, sidx, coef, fkind, fptr, fpool, lip, mu,
            sigma, inbox, outbox, address,
        )  # fmt: skip
        if settled:
            return tried
    more = minimise_penalised(
        i, own, target, anchor, q, penalty, vectors, rows[0], rows[1], xptr, akind, place, cols,
        sval, sidx, fkind, fcoef, fptr, fpool, fsize, gptr, gtab, gpar, lip, mu, sigma, inbox,
        outbox, address, work,
    )  # fmt: skip
    return FAILED if more == FAILED else tried + more


def penalty_rows(r: Array, low: Array, high: Array) -> Array:
    """The (n, 7p) table that :func:`local_argmin` reads, r per agent, bounds of ψ' per row.

    Examples
    --------
    >>> penalty_rows(np.array([2.0]), np.array([0.0]), np.array([np.inf])).tolist()
    [[0.5, 0.0, 0.0, 0.0, 0.0, 0.0, inf]]
    """
    p = low.size
    rows = np.zeros((r.size, 7 * p))
    rows[:, :p] = 1.0 / r[:, None]
    rows[:, 5 * p : 6 * p] = low
    rows[:, 6 * p :] = high
    return rows


def newton_rows(runtime: Stacked) -> Array:
    """1 for each agent whose local problem the active set method solves, else 0."""
    akind, fkind = runtime.packed.local[1], runtime.packed.local[8]
    fits = [
        akind[i] == DENSE_A
        and fkind[i] in (0, DENSE_F)
        and is_separable(prox_blocks(agent.g, agent.dim))
        for i, agent in enumerate(runtime.problem.agents)
    ]
    return np.array(fits, dtype=np.int64)
