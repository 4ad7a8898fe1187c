"""PDPG: the primal-dual proximal gradient method (reconstructed).

    x⁺ = prox_{α g}(x - α(∇f(x) + 𝐀ᵀy)),   α = 1/L_x
    y⁺ = prox_{β g₂}(y - β(∇g₁(y) - 𝐀x⁺)), β = 1/(L_y + σ̄²(𝐀)/μ_x)

Linear rate O(κ_φ) if h* is strongly convex, or g = 0 and H is [Li & Li 2025]; step sizes
reconstructed from the stated complexity.
"""

from dual2.compiled import inlined
from dual2.subsolvers.slots import *


@inlined
def pdpg(stage, i, a, b, k, X, Y, S):
    """One stage of PDPG; see :mod:`dual2.subsolvers.slots`."""
    p = Y.shape[2]
    if stage == POINTS:
        S[i, TX] = 1.0 / S[i, LX]
        S[i, TY] = 1.0 / (S[i, LY] + S[i, SM] ** 2 / S[i, MX])
        for j in range(a, b):
            X[XQ, j] = X[XO, j]
        for j in range(p):
            Y[YQ, i, j], Y[CQ, i, j] = Y[YO, i, j], Y[CO, i, j]
    elif stage == PRIMAL:
        for j in range(a, b):
            X[XA, j] = X[XO, j] - S[i, TX] * (X[XG, j] + X[AY, j])
    elif stage == COUPLE:
        for j in range(a, b):
            X[XB, j] = X[XP, j]
    elif stage == DUAL:
        for j in range(p):
            Y[YA, i, j] = Y[YO, i, j] - S[i, TY] * (Y[YH, i, j] - Y[AX, i, j])
    elif stage == BACK:
        for j in range(p):
            Y[YB, i, j] = Y[YP, i, j]
    elif stage == FINISH:
        for j in range(a, b):
            X[XO, j] = X[XP, j]
        for j in range(p):
            Y[YO, i, j], Y[MSG, i, j] = Y[YP, i, j], Y[YP, i, j]
    elif stage == SETTLE:
        for j in range(p):
            Y[CO, i, j] = Y[CM, i, j]
