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

from dual2.compiled import inlined
from dual2.subsolvers.slots import *

_FAR = 1e300


@inlined
def set_parameters(S, i, k):
    """θ, s_x, s_y, w_x, w_y of iteration k in S1 … S5; an infinite weight replaces the average."""
    lx, mx, ly, my, sm = S[i, LX], S[i, MX], S[i, LY], S[i, MY], S[i, SM]
    if my > 0.0:
        ax, ay = math.sqrt(max(lx / mx - 1.0, 0.0)), math.sqrt(max(ly / my - 1.0, 0.0))
        c = 2.0 * sm / math.sqrt(mx * my)
        c = max(c, 1e-8)
        S[i, S1] = 1.0 / (1.0 + 1.0 / (ax + c + ay))
        S[i, S2], S[i, S3] = 1.0 / (mx * (ax + c)), 1.0 / (my * (ay + c))
        S[i, S4] = 1.0 / ax if ax > 0.0 else _FAR
        S[i, S5] = 1.0 / ay if ay > 0.0 else _FAR
    else:
        S[i, S1] = k / (k + 1.0)
        S[i, S2] = 1.0 / max(2.0 * (lx - mx) / (k + 1.0) + 0.5 * k * mx, mx if k == 0 else 0.0)
        S[i, S3] = (k + 1.0) / (2.0 * ly + 16.0 * sm * sm / mx)
        S[i, S4] = 2.0 / k if k > 0 else _FAR
        S[i, S5] = S[i, S4]


@inlined
def lpd(stage, i, a, b, k, X, Y, S):
    """One stage of LPD.

    X1 = x, X2 = previous p, X3 = previous 𝐀ᵀy, XW = x̄; Y1 = y, Y2 = ȳ, Y3 = previous q,
    Y4 = previous 𝐀x, YZ = 𝐂ȳ; the current 𝐀x is kept in YB until it is used.
    """
    p = Y.shape[2]
    if stage == POINTS:
        set_parameters(S, i, k)
        if k == 0:
            for j in range(a, b):
                X[X1, j], X[XW, j], X[X3, j] = X[XO, j], X[XO, j], X[AY, j]
            for j in range(p):
                Y[Y1, i, j], Y[Y2, i, j] = Y[YO, i, j], Y[YO, i, j]
                Y[YZ, i, j], Y[Y4, i, j] = Y[CO, i, j], Y[AX, i, j]
        for j in range(a, b):
            X[XQ, j] = X[XW, j]
        for j in range(p):
            Y[YQ, i, j], Y[CQ, i, j] = Y[Y2, i, j], Y[YZ, i, j]
    elif stage == PRIMAL:
        theta, s, mu = S[i, S1], S[i, S2], S[i, MX]
        S[i, TX] = s / (1.0 + s * mu)
        for j in range(a, b):
            slope = X[XG, j] - mu * X[XQ, j]
            before = X[X2, j] if k > 0 else slope
            pull = X[AY, j] + theta * (X[AY, j] - X[X3, j])
            force = pull + slope + theta * (slope - before)
            X[XA, j] = (X[X1, j] - s * force) / (1.0 + s * mu)
            X[X2, j], X[X3, j] = slope, X[AY, j]
    elif stage == COUPLE:
        for j in range(a, b):
            X[XB, j] = X[XP, j]
        for j in range(p):
            Y[YB, i, j] = Y[AX, i, j]
    elif stage == DUAL:
        theta, s, mu = S[i, S1], S[i, S3], S[i, MG]
        S[i, TY] = s / (1.0 + s * mu)
        for j in range(p):
            slope = Y[YH, i, j] - mu * Y[YQ, i, j]
            before = Y[Y3, i, j] if k > 0 else slope
            push = Y[YB, i, j] + theta * (Y[YB, i, j] - Y[Y4, i, j])
            force = push - slope - theta * (slope - before)
            Y[YA, i, j] = (Y[Y1, i, j] + s * force) / (1.0 + s * mu)
            Y[Y3, i, j], Y[Y4, i, j] = slope, Y[YB, i, j]
    elif stage == BACK:
        for j in range(p):
            Y[YB, i, j] = Y[YP, i, j]
    elif stage == FINISH:
        part = 1.0 / (1.0 + 1.0 / S[i, S4])
        for j in range(a, b):
            X[X1, j] = X[XP, j]
            X[XW, j] += part * (X[XP, j] - X[XW, j])
            X[XO, j] = X[XP, j] if S[i, MY] > 0.0 else X[XW, j]
        part = 1.0 / (1.0 + 1.0 / S[i, S5])
        for j in range(p):
            Y[Y1, i, j], Y[MSG, i, j] = Y[YP, i, j], Y[YP, i, j]
            Y[Y2, i, j] += part * (Y[YP, i, j] - Y[Y2, i, j])
            Y[YO, i, j] = Y[YP, i, j] if S[i, MY] > 0.0 else Y[Y2, i, j]
    elif stage == SETTLE:
        part = 1.0 / (1.0 + 1.0 / S[i, S5])
        for j in range(p):
            Y[YZ, i, j] += part * (Y[CM, i, j] - Y[YZ, i, j])
            Y[CO, i, j] = Y[CM, i, j] if S[i, MY] > 0.0 else Y[YZ, i, j]
