"""The compiled loop of APAPC on the rows of one block of agents.

Variables u = (x, y), y one row per agent; B u = 𝐀x + γWy with W the gossip matrix; z = Bᵀζ:

    u_g = τu + (1-τ)u_f
    ū   = (u - η(∇G(u_g) - a u_g + z))/(1 + ηa),     G(u) = f(x) + (r/2)|Bu - b|²
    z⁺  = z + θ K(ū)
    u⁺  = (u - η(∇G(u_g) - a u_g + z⁺))/(1 + ηa)
    u_f⁺ = u_g + (2τ/(2-τ))(u⁺ - u)

K(u) = Bᵀ(Bu - b), or with Chebyshev acceleration u minus N steps of the semi-iteration for
Bᵀ(Bu - b) = 0 from u. ζ, which tends to the price in every row, moves along with z.
"""

import numpy as np

from dual2.compiled import compiled, inlined
from dual2.engine.gossip import mix
from dual2.engine.local import FAILED, adjoint, apply, grad_f
from dual2.engine.threads import own_rows
from dual2.engine.unowned import unowned

U, UF, UG, UH, Z, NORMAL, GRAD, POINT, MOVE, SUM, SLOTS = range(11)
"""Rows of the stacks of x and y: the variables above, BᵀBu - Bᵀb, ∇G, and the semi-iteration."""

ZETA, REST, PI, PIS, ROWS = range(5)
"""Rows of the stack of duals: ζ, Bu - b, and the semi-iteration's own."""

TAU, ETA, A, R, GAMMA, THETA, NU, Q, CONSTANTS = range(9)
"""Entries of the vector of constants."""


@inlined
def combine(target, t, a, s, b, r, first, last):
    """target[t] = a·target[s] + b·target[r] between two positions."""
    for j in range(first, last):
        target[t, j] = a * target[s, j] + b * target[r, j]


@compiled
def normal_equations(block, links, slot, X, Y, D, share, gamma, member):
    """D[REST] = Bu - b and (X, Y)[NORMAL] = Bᵀ(Bu - b) at u = (X, Y)[slot]; 0 on success."""
    block, X, D = unowned(block), unowned(X), unowned(D)
    n, p = D.shape[1], D.shape[2]
    first, last = own_rows(member, n)
    ax = np.empty(p)
    mix(links, Y, slot, D, REST, member)
    for i in range(first, last):
        x0, x1 = block.xptr[i], block.xptr[i + 1]
        if apply(block, i, X[slot, x0:x1], ax):
            return FAILED
        for k in range(p):
            D[REST, i, k] = gamma * D[REST, i, k] + ax[k] - share[k]
        if adjoint(block, i, D[REST, i], X[NORMAL, x0:x1]):
            return FAILED
    mix(links, D, REST, Y, NORMAL, member)
    for i in range(first, last):
        for k in range(p):
            Y[NORMAL, i, k] *= gamma
    return 0


@compiled
def apapc_steps(block, links, X, Y, D, share, constants, degree, steps, member):
    """Advance the rows of this thread by ``steps`` iterations; returns 0, or FAILED.

    ``degree`` is the number N of steps of the semi-iteration, 0 for K(u) = Bᵀ(Bu - b); ``share``
    is b/n.
    """
    block, links, member = unowned(block), unowned(links), unowned(member)
    X, Y, D = unowned(X), unowned(Y), unowned(D)
    n, p, xptr = D.shape[1], D.shape[2], block.xptr
    first, last = own_rows(member, n)
    x0, x1 = xptr[first], xptr[last]
    y0, y1, size = first * p, last * p, n * p
    V, E = Y.reshape((Y.shape[0], size)), D.reshape((D.shape[0], size))
    tau, eta, a, r = constants[TAU], constants[ETA], constants[A], constants[R]
    gamma, theta, nu, q = constants[GAMMA], constants[THETA], constants[NU], constants[Q]
    shrink, pull = 1.0 / (1.0 + eta * a), 2.0 * tau / (2.0 - tau)
    for _ in range(steps):
        combine(X, UG, tau, U, 1.0 - tau, UF, x0, x1)
        combine(V, UG, tau, U, 1.0 - tau, UF, y0, y1)
        if normal_equations(block, links, UG, X, Y, D, share, gamma, member):
            return FAILED
        for i in range(first, last):
            b0, b1 = xptr[i], xptr[i + 1]
            if grad_f(block, i, X[UG, b0:b1], X[GRAD, b0:b1]):
                return FAILED
        for j in range(x0, x1):
            X[GRAD, j] += r * X[NORMAL, j] - a * X[UG, j]
            X[UH, j] = (X[U, j] - eta * (X[GRAD, j] + X[Z, j])) * shrink
        for j in range(y0, y1):
            V[GRAD, j] = r * V[NORMAL, j] - a * V[UG, j]
            V[UH, j] = (V[U, j] - eta * (V[GRAD, j] + V[Z, j])) * shrink
        slot = UH
        omega = -0.5 * nu
        for k in range(max(degree, 1)):
            if normal_equations(block, links, slot, X, Y, D, share, gamma, member):
                return FAILED
            if degree == 0:
                break
            momentum = 0.0 if k == 0 else q / omega
            omega = -nu if k == 0 else -(nu + momentum)
            for j in range(x0, x1):
                X[MOVE, j] = (X[NORMAL, j] + (momentum * X[MOVE, j] if k else 0.0)) / omega
                X[SUM, j] = X[MOVE, j] + (X[SUM, j] if k else 0.0)
                X[POINT, j] = X[UH, j] + X[SUM, j]
            for j in range(y0, y1):
                V[MOVE, j] = (V[NORMAL, j] + (momentum * V[MOVE, j] if k else 0.0)) / omega
                V[SUM, j] = V[MOVE, j] + (V[SUM, j] if k else 0.0)
                V[POINT, j] = V[UH, j] + V[SUM, j]
                E[PI, j] = (E[REST, j] + (momentum * E[PI, j] if k else 0.0)) / omega
                E[PIS, j] = E[PI, j] + (E[PIS, j] if k else 0.0)
            if k == 0:
                omega = -0.5 * nu
            slot = POINT
        move, rows, sign = (NORMAL, REST, theta) if degree == 0 else (SUM, PIS, -theta)
        combine(X, Z, 1.0, Z, sign, move, x0, x1)
        combine(V, Z, 1.0, Z, sign, move, y0, y1)
        combine(E, ZETA, 1.0, ZETA, sign, rows, y0, y1)
        for j in range(x0, x1):
            new = (X[U, j] - eta * (X[GRAD, j] + X[Z, j])) * shrink
            X[UF, j] = X[UG, j] + pull * (new - X[U, j])
            X[U, j] = new
        for j in range(y0, y1):
            new = (V[U, j] - eta * (V[GRAD, j] + V[Z, j])) * shrink
            V[UF, j] = V[UG, j] + pull * (new - V[U, j])
            V[U, j] = new
    return 0
