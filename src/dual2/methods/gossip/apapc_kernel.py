"""The compiled iteration of APAPC.

Variables u = (x, y), y one row per agent; Bu = 𝐀x + γWy with W the gossip matrix; z = Bᵀζ:

    u_g = τu + (1-τ)u_f
    ū   = (u - η(∇G(u_g) - a u_g + z))/(1 + ηa),     G(u) = f(x) + (r/2)|Bu - b|²,  a = μ_G
    z⁺  = z + θ K(ū)
    u⁺  = (u - η(∇G(u_g) - a u_g + z⁺))/(1 + ηa)
    u_f⁺ = u_g + (2τ/(2-τ))(u⁺ - u)

K(u) = Bᵀ(Bu - b), or with Chebyshev acceleration u minus N steps of the semi-iteration for
Bᵀ(Bu - b) = 0 from u. ζ, which tends to the price in every row, moves along with z.
"""

from typing import NamedTuple

import numpy as np

from dual2.compiled import compiled, forceinline
from dual2.engine.gossip_kernel import mix
from dual2.engine.local import FAILED, adjoint, apply, grad_f
from dual2.engine.packed_args import borrowed
from dual2.engine.threads import own_rows

Array = np.ndarray
U, UF, UG, UH, Z, NORMAL, GRAD, POINT, MOVE, SUM, SLOTS = range(11)
"""Rows of the stacks of x and y: the variables, Bᵀ(Bu - b), ∇G - a u_g, and the semi-iteration."""

ZETA, REST, DUAL_MOVE, DUAL_SUM, ROWS = range(5)
"""Rows of the stack of duals: ζ, Bu - b, and the semi-iteration's own."""


class APAPCState(NamedTuple):
    """x and y of u, u_f and z; ζ."""

    x: Array
    x_f: Array
    x_z: Array
    y: Array
    y_f: Array
    y_z: Array
    lam: Array


class APAPCConstants(NamedTuple):
    """The constants of the iteration; ``nu`` and ``q`` are those of the semi-iteration."""

    tau: float
    eta: float
    a: float
    r: float
    gamma: float
    theta: float
    nu: float
    q: float
    degree: int
    """N, or 0 for K(u) = Bᵀ(Bu - b)."""
    share: Array
    """b/n."""


# -- helpers act on a part of a stack: x, y or the duals -----------------------------------------


@forceinline
def combine(part, t, a, s, b, r):
    """Row t = a · row s + b · row r."""
    S, first, last = part
    for j in range(first, last):
        S[t, j] = a * S[s, j] + b * S[r, j]


@forceinline
def predict(part, rule, shrink):
    """GRAD = ∇G(u_g) - a u_g, where ∇f is already there, and ū."""
    S, first, last = part
    for j in range(first, last):
        S[GRAD, j] += rule.r * S[NORMAL, j] - rule.a * S[UG, j]
        S[UH, j] = (S[U, j] - rule.eta * (S[GRAD, j] + S[Z, j])) * shrink


@forceinline
def correct(part, rule, shrink):
    """u⁺ and u_f⁺."""
    S, first, last = part
    step = 2.0 * rule.tau / (2.0 - rule.tau)
    for j in range(first, last):
        new = (S[U, j] - rule.eta * (S[GRAD, j] + S[Z, j])) * shrink
        S[UF, j] = S[UG, j] + step * (new - S[U, j])
        S[U, j] = new


@forceinline
def semi_step(part, source, move, total, k, momentum, omega):
    """Step k of the semi-iteration: what it moves by, and by how much in all."""
    S, first, last = part
    for j in range(first, last):
        S[move, j] = (S[source, j] + (momentum * S[move, j] if k else 0.0)) / omega
        S[total, j] = S[move, j] + (S[total, j] if k else 0.0)


@compiled
def normal_equations(block, links, slot, X, Y, D, rule, member):
    """D[REST] = Bu - b and (X, Y)[NORMAL] = Bᵀ(Bu - b) at u = (X, Y)[slot]; 0 on success."""
    block, X, Y, D = borrowed((block, X, Y, D))
    p, gamma = D.shape[2], rule.gamma
    first, last = own_rows(member, D.shape[1])
    ax = np.empty(p)
    mix(links, Y[slot], D[REST], member)
    for i in range(first, last):
        x0, x1 = block.xptr[i], block.xptr[i + 1]
        if apply(block, i, X[slot, x0:x1], ax):
            return FAILED
        for k in range(p):
            D[REST, i, k] = gamma * D[REST, i, k] + ax[k] - rule.share[k]
        if adjoint(block, i, D[REST, i], X[NORMAL, x0:x1]):
            return FAILED
    mix(links, D[REST], Y[NORMAL], member)
    for i in range(first, last):
        for k in range(p):
            Y[NORMAL, i, k] *= gamma
    return 0


@compiled
def apapc_steps(block, links, X, Y, D, rule, steps, member):
    """Advance the rows of this thread by ``steps`` iterations; returns 0, or FAILED."""
    block, links, member, X, Y, D, rule = borrowed((block, links, member, X, Y, D, rule))
    n, p, xptr, tau = D.shape[1], D.shape[2], block.xptr, rule.tau
    first, last = own_rows(member, n)
    xs = (X, xptr[first], xptr[last])
    ys = (Y.reshape((SLOTS, n * p)), first * p, last * p)
    duals = (D.reshape((ROWS, n * p)), first * p, last * p)
    shrink = 1.0 / (1.0 + rule.eta * rule.a)
    for _ in range(steps):
        # u_g: the point between u and u_f at which gradients are taken (Nesterov's momentum).
        combine(xs, UG, tau, U, 1.0 - tau, UF)
        combine(ys, UG, tau, U, 1.0 - tau, UF)
        if normal_equations(block, links, UG, X, Y, D, rule, member):
            return FAILED
        for i in range(first, last):
            if grad_f(block, i, X[UG, xptr[i] : xptr[i + 1]], X[GRAD, xptr[i] : xptr[i + 1]]):
                return FAILED
        for j in range(ys[1], ys[2]):
            ys[0][GRAD, j] = 0.0
        predict(xs, rule, shrink)
        predict(ys, rule, shrink)
        # Inner loop: a Chebyshev semi-iteration on the normal equations brings ū near Bu = b.
        slot, omega = UH, -0.5 * rule.nu
        for k in range(max(rule.degree, 1)):
            if normal_equations(block, links, slot, X, Y, D, rule, member):
                return FAILED
            if rule.degree == 0:
                break
            momentum = 0.0 if k == 0 else rule.q / omega
            omega = -rule.nu if k == 0 else -(rule.nu + momentum)
            semi_step(xs, NORMAL, MOVE, SUM, k, momentum, omega)
            semi_step(ys, NORMAL, MOVE, SUM, k, momentum, omega)
            semi_step(duals, REST, DUAL_MOVE, DUAL_SUM, k, momentum, omega)
            combine(xs, POINT, 1.0, UH, 1.0, SUM)
            combine(ys, POINT, 1.0, UH, 1.0, SUM)
            omega, slot = -0.5 * rule.nu if k == 0 else omega, POINT
        # The multipliers of Bu = b move first; u⁺ uses them.
        plain = rule.degree == 0
        move, rows, sign = (NORMAL, REST, rule.theta) if plain else (SUM, DUAL_SUM, -rule.theta)
        combine(xs, Z, 1.0, Z, sign, move)
        combine(ys, Z, 1.0, Z, sign, move)
        combine(duals, ZETA, 1.0, ZETA, sign, rows)
        correct(xs, rule, shrink)
        correct(ys, rule, shrink)
    return 0
