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

from dual2.compiled import inlined
from dual2.subsolvers.slots import *


@inlined
def abpd(stage, i, a, b, k, X, Y, S):
    """One stage of ABPD-PGS.

    X1 = v, X2 = previous 𝐀ᵀw, Y1 = w, Y2 = 𝐂w; S1 … S4 = γ, β, a, previous a.
    """
    p = Y.shape[2]
    if stage == POINTS:
        if k == 0:
            S[i, S1] = S[i, MX]
            S[i, S2] = S[i, MY] if S[i, MY] > 0.0 else S[i, LY] + S[i, SM] ** 2 / S[i, MX]
            S[i, S4] = 0.0
            for j in range(a, b):
                X[X1, j], X[X2, j] = X[XO, j], X[AY, j]
            for j in range(p):
                Y[Y1, i, j], Y[Y2, i, j] = Y[YO, i, j], Y[CO, i, j]
        gamma, beta = S[i, S1], S[i, S2]
        s = min(math.sqrt(gamma / (2.0 * S[i, LX])), math.sqrt(gamma * beta) / (2.0 * S[i, SM]))
        if S[i, LY] > 0.0:
            s = min(s, math.sqrt(beta / (2.0 * S[i, LY])))
        S[i, S3] = s
        for j in range(a, b):
            X[XQ, j] = (X[XO, j] + s * X[X1, j]) / (1.0 + s)
        for j in range(p):
            Y[YQ, i, j] = (Y[YO, i, j] + s * Y[Y1, i, j]) / (1.0 + s)
            Y[CQ, i, j] = (Y[CO, i, j] + s * Y[Y2, i, j]) / (1.0 + s)
    elif stage == PRIMAL:
        s = S[i, S3]
        r = S[i, S4] / (s * (1.0 + S[i, S4]))
        ratio, mu = S[i, S1] / s, S[i, MX]
        S[i, TX] = 1.0 / (mu + ratio)
        for j in range(a, b):
            pull = X[AY, j] + r * (X[AY, j] - X[X2, j])
            X[XA, j] = S[i, TX] * (mu * X[XQ, j] + ratio * X[X1, j] - X[XG, j] - pull)
            X[X2, j] = X[AY, j]
    elif stage == COUPLE:
        for j in range(a, b):
            X[XB, j] = X[XP, j]
    elif stage == DUAL:
        ratio, mu = S[i, S2] / S[i, S3], S[i, MG]
        S[i, TY] = 1.0 / (mu + ratio)
        for j in range(p):
            force = Y[AX, i, j] - Y[YH, i, j]
            Y[YA, i, j] = S[i, TY] * (mu * Y[YQ, i, j] + ratio * Y[Y1, i, j] + force)
    elif stage == BACK:
        for j in range(p):
            Y[YB, i, j] = Y[YP, i, j]
    elif stage == FINISH:
        s = S[i, S3]
        for j in range(a, b):
            X[X1, j] = X[XP, j]
            X[XO, j] = (X[XO, j] + s * X[XP, j]) / (1.0 + s)
        for j in range(p):
            Y[Y1, i, j], Y[MSG, i, j] = Y[YP, i, j], Y[YP, i, j]
            Y[YO, i, j] = (Y[YO, i, j] + s * Y[YP, i, j]) / (1.0 + s)
        S[i, S1] = (S[i, S1] + s * S[i, MX]) / (1.0 + s)
        S[i, S2] = (S[i, S2] + s * S[i, MY]) / (1.0 + s)
        S[i, S4] = s
    elif stage == SETTLE:
        s = S[i, S3]
        for j in range(p):
            Y[Y2, i, j] = Y[CM, i, j]
            Y[CO, i, j] = (Y[CO, i, j] + s * Y[CM, i, j]) / (1.0 + s)
