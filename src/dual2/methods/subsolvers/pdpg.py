"""PDPG: the primal-dual proximal gradient method (reconstructed).

    x⁺ = prox_{α g}(x - α(∇f(x) + 𝐀ᵀy)),   α = 1/L_x
    y⁺ = prox_{β g₂}(y - β(∇g₁(y) - 𝐀x⁺)), β = 1/(L_y + σ̄²(𝐀)/μ_x)

Linear rate O(κ_φ) if h* is strongly convex, or g = 0 and H is [Li & Li 2025]; step sizes
reconstructed from the stated complexity.
"""

from dual2.compiled import compiled, inline
from dual2.engine.local import FAILED, adjoint, apply, copy, grad_f, prox_g
from dual2.methods.subsolvers.loop import advance
from dual2.methods.subsolvers.saddle_state import C_MESSAGE, MESSAGE, grad_g1, prox_g2


@inline
def step(block, i, state, rule, z, ws):
    """One iteration of agent i up to the exchange; 0, or FAILED."""
    a, b = block.xptr[i], block.xptr[i + 1]
    x, ATy, y = state.x[a:b], state.ATy[a:b], state.lam[i]
    d, p = x.shape[0], y.shape[0]
    grad, v = ws.vectors[0, :d], ws.vectors[1, :d]
    slope, w, ax = ws.vectors[2, :p], ws.vectors[3, :p], ws.vectors[4, :p]
    alpha = 1.0 / rule.L_x[i]
    beta = 1.0 / (rule.L_y[i] + rule.sigma[i] ** 2 / rule.mu_x[i])
    if grad_f(block, i, x, grad) or grad_g1(block, i, y, state.mixed[i], rule, z, slope):
        return FAILED
    for j in range(d):
        v[j] = x[j] - alpha * (grad[j] + ATy[j])
    if prox_g(block, i, alpha, v, x, ws.work) or apply(block, i, x, ax):
        return FAILED
    for j in range(p):
        w[j] = y[j] - beta * (slope[j] - ax[j])
    if prox_g2(block, beta, w, y, rule, ws.work):
        return FAILED
    copy(y, state.Y[MESSAGE, i], p)
    return adjoint(block, i, y, ATy)


@inline
def settle(state, i):
    """𝐂y is 𝐂 times the message."""
    copy(state.Y[C_MESSAGE, i], state.mixed[i], state.mixed.shape[1])


@compiled
def pdpg_steps(block, links, state, rule, ask, member):
    """PDPG on the rows of this thread; returns 0, or FAILED."""
    return advance(step, settle, block, links, state, rule, ask, member)
