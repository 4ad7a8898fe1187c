"""ABPD-PGS: accelerated Bregman primal-dual splitting (reconstructed, with a Lyapunov proof).

With scalars γ, β and a = min(√(γ/2L_x), √(β/2L_y), √(γβ)/(2σ̄)), r = a_prev/(a(1+a_prev)):

    x̄ = (x+av)/(1+a),   t = 1/(μ_x+γ/a)
    v⁺ = prox_{t g}( t(μ_x x̄ + (γ/a)v - ∇f(x̄) - 𝐀ᵀ(w + r(w-w_prev))) )
    ȳ = (y+aw)/(1+a),   s = 1/(μ_y+β/a)
    w⁺ = prox_{s g₂}( s(μ_y ȳ + (β/a)w - ∇g₁(ȳ) + 𝐀v⁺) )
    x⁺ = (x+av⁺)/(1+a), y⁺ = (y+aw⁺)/(1+a), γ⁺ = (γ+aμ_x)/(1+a), β⁺ = (β+aμ_y)/(1+a)

Rate: Π 1/(1+a_k), optimal and linear if μ_y > 0, O(1/k²) in y else [Luo 2024].
"""

import math

from dual2.compiled import compiled, inline
from dual2.engine.local import FAILED, adjoint, apply, copy, grad_f, prox_g
from dual2.methods.subsolvers.loop import advance
from dual2.methods.subsolvers.saddle_state import C_MESSAGE, MESSAGE, grad_g1, prox_g2

V, ATY = range(2)
"""Own primal vectors: v, the previous 𝐀ᵀw; w is the message."""
GAMMA, BETA, A = range(3)
"""Own scalars; A is that of the last iteration."""


@inline
def begin(block, i, state, rule):
    """v = x, w = y; γ = μ_x, β = μ_y or what makes the first step as long as PDPG's."""
    X, Y, S, my = state.X, state.Y, state.S, rule.mu_y[i]
    S[i, GAMMA], S[i, A] = rule.mu_x[i], 0.0
    S[i, BETA] = my if my > 0.0 else rule.L_y[i] + rule.sigma[i] ** 2 / rule.mu_x[i]
    for j in range(block.xptr[i], block.xptr[i + 1]):
        X[V, j], X[ATY, j] = state.x[j], state.ATy[j]
    copy(state.lam[i], Y[MESSAGE, i], Y.shape[2])
    copy(state.mixed[i], Y[C_MESSAGE, i], Y.shape[2])


@inline
def step(block, i, state, rule, z, ws):
    """One iteration of agent i up to the exchange; 0, or FAILED."""
    S, a0, a1 = state.S, block.xptr[i], block.xptr[i + 1]
    x, v, ATy = state.x[a0:a1], state.X[V, a0:a1], state.ATy[a0:a1]
    old_ATy = state.X[ATY, a0:a1]
    y, w, cy, cw = state.lam[i], state.Y[MESSAGE, i], state.mixed[i], state.Y[C_MESSAGE, i]
    d, p = x.shape[0], y.shape[0]
    mean, grad, u = ws.vectors[0, :d], ws.vectors[1, :d], ws.vectors[2, :d]
    y_mean, c_mean, slope = (
        ws.vectors[3, :p],
        ws.vectors[4, :p],
        ws.vectors[5, :p],
    )
    ax, u_dual = ws.vectors[6, :p], ws.vectors[7, :p]
    if state.since[i] == 0:
        begin(block, i, state, rule)
    gamma, beta, before = S[i, GAMMA], S[i, BETA], S[i, A]
    a = min(math.sqrt(gamma / (2.0 * rule.L_x[i])), math.sqrt(gamma * beta) / (2.0 * rule.sigma[i]))
    if rule.L_y[i] > 0.0:
        a = min(a, math.sqrt(beta / (2.0 * rule.L_y[i])))
    for j in range(d):
        mean[j] = (x[j] + a * v[j]) / (1.0 + a)
    for j in range(p):
        y_mean[j] = (y[j] + a * w[j]) / (1.0 + a)
        c_mean[j] = (cy[j] + a * cw[j]) / (1.0 + a)
    if grad_f(block, i, mean, grad) or grad_g1(block, i, y_mean, c_mean, rule, z, slope):
        return FAILED
    r, ratio, mu = before / (a * (1.0 + before)), gamma / a, rule.mu_x[i]
    t = 1.0 / (mu + ratio)
    for j in range(d):
        ahead = ATy[j] + r * (ATy[j] - old_ATy[j])
        u[j] = t * (mu * mean[j] + ratio * v[j] - grad[j] - ahead)
        old_ATy[j] = ATy[j]
    if prox_g(block, i, t, u, v, ws.work) or apply(block, i, v, ax):
        return FAILED
    ratio, mu = beta / a, rule.mu_gradient[i]
    t = 1.0 / (mu + ratio)
    for j in range(p):
        u_dual[j] = t * (mu * y_mean[j] + ratio * w[j] + (ax[j] - slope[j]))
    if prox_g2(block, t, u_dual, w, rule, ws.work):
        return FAILED
    for j in range(d):
        x[j] = (x[j] + a * v[j]) / (1.0 + a)
    for j in range(p):
        y[j] = (y[j] + a * w[j]) / (1.0 + a)
    S[i, GAMMA] = (gamma + a * rule.mu_x[i]) / (1.0 + a)
    S[i, BETA] = (beta + a * rule.mu_y[i]) / (1.0 + a)
    S[i, A] = a
    return adjoint(block, i, w, ATy)


@inline
def settle(state, i):
    """𝐂y moves as y did."""
    a = state.S[i, A]
    for j in range(state.mixed.shape[1]):
        state.mixed[i, j] = (state.mixed[i, j] + a * state.Y[C_MESSAGE, i, j]) / (1.0 + a)


@compiled
def abpd_steps(block, links, state, rule, ask, member):
    """ABPD-PGS on the rows of this thread; returns 0, or FAILED."""
    return advance(step, settle, block, links, state, rule, ask, member)
