"""LPD: the lifted primal-dual method, in its proximal version.

f - (μ_x/2)|·|² and g₁ - (μ_y/2)|·|² enter through gradients at averages x̄, ȳ:
p = ∇f(x̄) - μ_x x̄, q = ∇g₁(ȳ) - μ_y ȳ, and with extrapolation e(u) = u + θ(u - u_prev)

    x⁺ = prox_{s_x/(1+s_xμ_x) g}( (x - s_x(𝐀ᵀe(y) + e(p)))/(1+s_xμ_x) )
    y⁺ = prox_{s_y/(1+s_yμ_y) g₂}( (y + s_y(𝐀e(x) - e(q)))/(1+s_yμ_y) )     (from the old x)
    x̄⁺ = (x̄ + w_x x⁺)/(1+w_x),  ȳ⁺ = (ȳ + w_y y⁺)/(1+w_y)

μ_y > 0: a_x = √(κ_x-1), a_y = √(κ_y-1), c = 2σ̄/√(μ_xμ_y), θ = 1/(1+1/(a_x+c+a_y)),
s_x = 1/(μ_x(a_x+c)), s_y = 1/(μ_y(a_y+c)), w = 1/a; last iterate; O(√κ_x+√κ_xy+√κ_y).
μ_y = 0: θ = k/(k+1), s_x = 1/(2(L_x-μ_x)/(k+1) + kμ_x/2), s_y = (k+1)/(2L_y+16σ̄²/μ_x),
w = 2/k; averages; O(1/k²) [Thekumparampil, He & Oh 2022].
"""

import math

from dual2.compiled import compiled, inline
from dual2.engine.local import FAILED, adjoint, apply, grad_f, prox_g
from dual2.methods.subsolvers.loop import advance
from dual2.methods.subsolvers.saddle_state import C_MESSAGE, MESSAGE, OWN, grad_g1, prox_g2

LAST, MEAN, P, ATY = range(4)
"""Own primal vectors: x, x̄, the previous p and 𝐀ᵀy."""
Y_MEAN, C_MEAN, Q, AX = range(OWN, OWN + 4)
"""Own dual rows: ȳ, 𝐂ȳ, the previous q and 𝐀x; y is the message."""
PART, LAST_COUNTS = range(2)
"""Own scalars: w_y/(1+w_y), and whether the output is the last iterate."""
_FAR = 1e300


@inline
def parameters(rule, i, k):
    """θ, s_x, s_y, w_x, w_y of iteration k; an infinite weight replaces the average."""
    lx, mx, ly, my, sigma = rule.L_x[i], rule.mu_x[i], rule.L_y[i], rule.mu_y[i], rule.sigma[i]
    if my > 0.0:
        ax, ay = math.sqrt(max(lx / mx - 1.0, 0.0)), math.sqrt(max(ly / my - 1.0, 0.0))
        c = max(2.0 * sigma / math.sqrt(mx * my), 1e-8)
        theta = 1.0 / (1.0 + 1.0 / (ax + c + ay))
        sx, sy = 1.0 / (mx * (ax + c)), 1.0 / (my * (ay + c))
        return theta, sx, sy, 1.0 / ax if ax > 0.0 else _FAR, 1.0 / ay if ay > 0.0 else _FAR
    sx = 1.0 / max(2.0 * (lx - mx) / (k + 1.0) + 0.5 * k * mx, mx if k == 0 else 0.0)
    sy = (k + 1.0) / (2.0 * ly + 16.0 * sigma * sigma / mx)
    weight = 2.0 / k if k > 0 else _FAR
    return k / (k + 1.0), sx, sy, weight, weight


@inline
def begin(block, i, state):
    """x = x̄ = the start, y likewise; nothing to extrapolate from."""
    X, Y, p = state.X, state.Y, state.lam.shape[1]
    for j in range(block.xptr[i], block.xptr[i + 1]):
        X[LAST, j], X[MEAN, j], X[ATY, j] = state.x[j], state.x[j], state.ATy[j]
    for j in range(p):
        Y[MESSAGE, i, j], Y[Y_MEAN, i, j] = state.lam[i, j], state.lam[i, j]
        Y[C_MEAN, i, j], Y[AX, i, j] = state.mixed[i, j], state.Ax[i, j]


@inline
def step(block, i, state, rule, z, ws):
    """One iteration of agent i up to the exchange; 0, or FAILED."""
    X, Y, k = state.X, state.Y, state.since[i]
    a, b = block.xptr[i], block.xptr[i + 1]
    x, mean, old_p, old_ATy = X[LAST, a:b], X[MEAN, a:b], X[P, a:b], X[ATY, a:b]
    y, y_mean, old_q, old_Ax = Y[MESSAGE, i], Y[Y_MEAN, i], Y[Q, i], Y[AX, i]
    ATy, Ax, d, p = state.ATy[a:b], state.Ax[i], b - a, y.shape[0]
    grad, v = ws.vectors[0, :d], ws.vectors[1, :d]
    slope, w = ws.vectors[2, :p], ws.vectors[3, :p]
    if k == 0:
        begin(block, i, state)
    theta, sx, sy, wx, wy = parameters(rule, i, k)
    if grad_f(block, i, mean, grad) or grad_g1(block, i, y_mean, Y[C_MEAN, i], rule, z, slope):
        return FAILED
    mu = rule.mu_x[i]
    for j in range(d):
        new = grad[j] - mu * mean[j]
        old = old_p[j] if k > 0 else new
        force = ATy[j] + theta * (ATy[j] - old_ATy[j]) + new + theta * (new - old)
        v[j] = (x[j] - sx * force) / (1.0 + sx * mu)
        old_p[j], old_ATy[j] = new, ATy[j]
    if prox_g(block, i, sx / (1.0 + sx * mu), v, x, ws.work):
        return FAILED
    mu = rule.mu_gradient[i]
    for j in range(p):
        new = slope[j] - mu * y_mean[j]
        old = old_q[j] if k > 0 else new
        force = Ax[j] + theta * (Ax[j] - old_Ax[j]) - new - theta * (new - old)
        w[j] = (y[j] + sy * force) / (1.0 + sy * mu)
        old_q[j], old_Ax[j] = new, Ax[j]
    if apply(block, i, x, Ax) or prox_g2(block, sy / (1.0 + sy * mu), w, y, rule, ws.work):
        return FAILED
    last, part = rule.mu_y[i] > 0.0, 1.0 / (1.0 + 1.0 / wx)
    for j in range(d):
        mean[j] += part * (x[j] - mean[j])
        state.x[a + j] = x[j] if last else mean[j]
    part = 1.0 / (1.0 + 1.0 / wy)
    for j in range(p):
        y_mean[j] += part * (y[j] - y_mean[j])
        state.lam[i, j] = y[j] if last else y_mean[j]
    state.S[i, PART], state.S[i, LAST_COUNTS] = part, last
    return adjoint(block, i, y, ATy)


@inline
def settle(state, i):
    """𝐂ȳ moves as ȳ did."""
    Y, part = state.Y, state.S[i, PART]
    for j in range(Y.shape[2]):
        Y[C_MEAN, i, j] += part * (Y[C_MESSAGE, i, j] - Y[C_MEAN, i, j])
        last = state.S[i, LAST_COUNTS] != 0.0
        state.mixed[i, j] = Y[C_MESSAGE, i, j] if last else Y[C_MEAN, i, j]


@compiled
def lpd_steps(block, links, state, rule, ask, member):
    """LPD on the rows of this thread; returns 0, or FAILED."""
    return advance(step, settle, block, links, state, rule, ask, member)
