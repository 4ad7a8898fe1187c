"""APDG: the accelerated primal-dual gradient method for f₂ = g₂ = 0 (reconstructed).

    x_g = τ_x x + (1-τ_x) x_f,  y_g = τ_y y + (1-τ_y) y_f,  G = ∇f(x_g),  H = ∇g₁(y_g)
    x⁺ = x + η_xα_x(x_g-x) - η_xβ_x 𝐀ᵀ(𝐀x-H) - η_x(G + 𝐀ᵀ(y + θ(y-y_prev)))
    y⁺ = y + η_yα_y(y_g-y) - η_yβ_y 𝐀(𝐀ᵀy+G) - η_y(H - 𝐀x⁺)
    x_f⁺ = x_g + σ_x(x⁺-x),  y_f⁺ = y_g + σ_y(y⁺-y)

Parameter sets: strongly convex-strongly concave; full row rank (or g₁ linear: L_y = 0, smallest
nonzero singular value); square nonsingular 𝐀 [Kovalev, Gasnikov & Richtárik 2022].
"""

import math

from dual2.compiled import compiled, inline
from dual2.engine.local import FAILED, adjoint, apply, grad_f, prox_g
from dual2.methods.subsolvers.loop import advance
from dual2.methods.subsolvers.saddle_state import C_MESSAGE, MESSAGE, OWN, grad_g1, prox_g2

FAST, ATY = range(2)
"""Own primal vectors: x_f, the previous 𝐀ᵀy."""
Y_FAST, C_FAST, C_POINT = range(OWN, OWN + 3)
"""Own dual rows: y_f, 𝐂y_f, 𝐂y_g; y is the message."""
ETA_X, ETA_Y, SIGMA_X, SIGMA_Y, THETA, ALPHA_Y, BETA_X, BETA_Y = range(8)
"""Own scalars, see :func:`apdg_parameters`."""
RANK, SQUARE = 1.0, 2.0
"""Kinds of parameter set beside the strongly concave one (0)."""


def apdg_parameters(
    lx: float, mx: float, ly: float, my: float, big: float, small: float, kind: float
) -> tuple[float, ...]:
    """(η_x, η_y, σ_x, σ_y, θ, α_y, β_x, β_y) of one row; ``small`` is σ_min(A) (or σ⁺_min)."""
    if kind == SQUARE:
        sx = sy = min(1.0, math.sqrt(small**2 / (4 * lx * ly)) if ly > 0 else 1.0)
        delta, ax, ay = math.sqrt(ly / lx) if ly > 0 else 1.0, 0.0, 0.0
        bound = 2 + 8 * max(math.sqrt(lx * ly) * big / small**2, (big / small) ** 2)
    elif kind == RANK:
        sx, ax, ay = math.sqrt(mx / (2 * lx)), mx, 0.0
        sy = min(1.0, math.sqrt(small**2 / (4 * lx * ly))) if ly > 0 else 1.0
        delta = math.sqrt(small**2 / (2 * mx * lx))
        steep = max(math.sqrt(lx * ly) / small, big / small * math.sqrt(lx / mx))
        bound = 4 + 8 * max(steep, (big / small) ** 2)
    else:
        sx, sy, ax, ay = math.sqrt(mx / (2 * lx)), math.sqrt(my / (2 * ly)), mx, my
        delta = math.sqrt(my / mx)
        steep = max(math.sqrt(2 * lx / mx), math.sqrt(2 * ly / my))
        bound = 4 + 4 * max(steep, 4 * big / math.sqrt(mx * my))
    far = math.inf if big == 0 else 1.0 / (4 * big)
    ex = min(1 / (4 * (ax + lx * sx)), delta * far)
    ey = min(1 / (4 * (ay + ly * sy)) if ay + ly * sy > 0 else math.inf, far / delta)
    bx = min(1 / (2 * ly) if ly > 0 else math.inf, 1 / (2 * ex * big**2)) if kind == SQUARE else 0
    by = min(1 / (2 * lx), 1 / (2 * ey * big**2)) if kind in (RANK, SQUARE) else 0.0
    return ex, ey, sx, sy, 1.0 - 1.0 / bound, ay, float(bx), float(by)


@inline
def begin(block, i, state):
    """x_f = x, y_f = y; nothing to extrapolate from."""
    for j in range(block.xptr[i], block.xptr[i + 1]):
        state.X[FAST, j], state.X[ATY, j] = state.x[j], state.ATy[j]
    for j in range(state.lam.shape[1]):
        state.Y[Y_FAST, i, j], state.Y[C_FAST, i, j] = state.lam[i, j], state.mixed[i, j]


@inline
def step(block, i, state, rule, z, ws):
    """One iteration of agent i up to the exchange; 0, or FAILED.

    With β_x > 0 ``Ax`` is 𝐀x. Otherwise 𝐀x⁺ and 𝐀(𝐀ᵀy+G) are one product.
    """
    s, a, b = state.S[i], block.xptr[i], block.xptr[i + 1]
    x, fast, ATy, old_ATy = state.x[a:b], state.X[FAST, a:b], state.ATy[a:b], state.X[ATY, a:b]
    y, y_fast, cy, c_fast = state.lam[i], state.Y[Y_FAST, i], state.mixed[i], state.Y[C_FAST, i]
    y_new, Ax, c_point = state.Y[MESSAGE, i], state.Ax[i], state.Y[C_POINT, i]
    d, p, vectors = x.shape[0], y.shape[0], ws.vectors
    point, G, v, new = vectors[0, :d], vectors[1, :d], vectors[2, :d], vectors[3, :d]
    y_point, H, w, ax = vectors[4, :p], vectors[5, :p], vectors[6, :p], vectors[7, :p]
    if state.since[i] == 0:
        begin(block, i, state)
    tx, ty = 1.0 / (1.0 / s[SIGMA_X] + 0.5), 1.0 / (1.0 / s[SIGMA_Y] + 0.5)
    for j in range(d):
        point[j] = tx * x[j] + (1.0 - tx) * fast[j]
    for j in range(p):
        y_point[j] = ty * y[j] + (1.0 - ty) * y_fast[j]
        c_point[j] = ty * cy[j] + (1.0 - ty) * c_fast[j]
    if grad_f(block, i, point, G) or grad_g1(block, i, y_point, c_point, rule, z, H):
        return FAILED
    square = s[BETA_X] > 0.0
    if square:
        for j in range(p):
            w[j] = Ax[j] - H[j]
        if adjoint(block, i, w, v):
            return FAILED
    alpha = 0.0 if square else rule.mu_x[i]
    for j in range(d):
        force = G[j] + ATy[j] + s[THETA] * (ATy[j] - old_ATy[j])
        if square:
            force += s[BETA_X] * v[j]
        v[j] = x[j] + s[ETA_X] * (alpha * (point[j] - x[j]) - force)
    if prox_g(block, i, 1.0, v, new, ws.work):
        return FAILED
    for j in range(d):
        v[j] = ATy[j] + G[j] if square else new[j] - s[BETA_Y] * (ATy[j] + G[j])
    if (square and apply(block, i, new, Ax)) or apply(block, i, v, ax):
        return FAILED
    for j in range(p):
        force = H[j] - Ax[j] + s[BETA_Y] * ax[j] if square else H[j] - ax[j]
        w[j] = y[j] + s[ETA_Y] * (s[ALPHA_Y] * (y_point[j] - y[j]) - force)
    if prox_g2(block, 1.0, w, y_new, rule, ws.work):
        return FAILED
    for j in range(d):
        fast[j] = point[j] + s[SIGMA_X] * (new[j] - x[j])
        x[j], old_ATy[j] = new[j], ATy[j]
    for j in range(p):
        y_fast[j] = y_point[j] + s[SIGMA_Y] * (y_new[j] - y[j])
        y[j] = y_new[j]
    return adjoint(block, i, y, ATy)


@inline
def settle(state, i):
    """𝐂y_f moves as y_f did."""
    Y, sigma = state.Y, state.S[i, SIGMA_Y]
    for j in range(Y.shape[2]):
        Y[C_FAST, i, j] = Y[C_POINT, i, j] + sigma * (Y[C_MESSAGE, i, j] - state.mixed[i, j])
        state.mixed[i, j] = Y[C_MESSAGE, i, j]


@compiled
def apdg_steps(block, links, state, rule, ask, member):
    """APDG on the rows of this thread; returns 0, or FAILED."""
    return advance(step, settle, block, links, state, rule, ask, member)
