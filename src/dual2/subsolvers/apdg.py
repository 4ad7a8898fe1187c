"""APDG: the accelerated primal-dual gradient method for f₂ = g₂ = 0 (reconstructed).

    x_g = τ_x x + (1-τ_x) x_f,  y_g = τ_y y + (1-τ_y) y_f,  G = ∇f(x_g),  H = ∇g₁(y_g)
    x⁺ = x + η_xα_x(x_g-x) - η_xβ_x 𝐀ᵀ(𝐀x-H) - η_x(G + 𝐀ᵀ(y + θ(y-y_prev)))
    y⁺ = y + η_yα_y(y_g-y) - η_yβ_y 𝐀(𝐀ᵀy+G) - η_y(H - 𝐀x⁺)
    x_f⁺ = x_g + σ_x(x⁺-x),  y_f⁺ = y_g + σ_y(y⁺-y)

Parameter sets: strongly convex-strongly concave; full row rank (or g₁ linear: L_y = 0, smallest
nonzero singular value); square nonsingular 𝐀 [Kovalev, Gasnikov & Richtárik 2022].
"""

import math

from dual2.compiled import inlined
from dual2.subsolvers.slots import *

RANK, SQUARE = 1.0, 2.0
"""Kinds of parameter set beside the strongly concave one (0)."""


def apdg_parameters(lx: float, mx: float, ly: float, my: float, big: float, small: float,
                    kind: float) -> tuple[float, ...]:  # fmt: skip
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


@inlined
def apdg(stage, i, a, b, k, X, Y, S):
    """One stage of APDG.

    S1 … S8 as in :func:`apdg_parameters`; X1 = x_f, X2 = previous 𝐀ᵀy, Y1 = y_f, Y2 = 𝐂y_f,
    Y3 = 𝐀x (kept where β_x > 0).
    """
    p = Y.shape[2]
    square = S[i, S7] > 0.0
    if stage == POINTS:
        S[i, TX], S[i, TY] = 1.0, 1.0
        if k == 0:
            for j in range(a, b):
                X[X1, j], X[X2, j] = X[XO, j], X[AY, j]
            for j in range(p):
                Y[Y1, i, j], Y[Y2, i, j], Y[Y3, i, j] = Y[YO, i, j], Y[CO, i, j], Y[AX, i, j]
        tx, ty = 1.0 / (1.0 / S[i, S3] + 0.5), 1.0 / (1.0 / S[i, S4] + 0.5)
        for j in range(a, b):
            X[XQ, j] = tx * X[XO, j] + (1.0 - tx) * X[X1, j]
        for j in range(p):
            Y[YQ, i, j] = ty * Y[YO, i, j] + (1.0 - ty) * Y[Y1, i, j]
            Y[CQ, i, j] = ty * Y[CO, i, j] + (1.0 - ty) * Y[Y2, i, j]
    elif stage == PULL:
        for j in range(p):
            Y[YZ, i, j] = Y[Y3, i, j] - Y[YH, i, j]
    elif stage == PRIMAL:
        ex, alpha = S[i, S1], 0.0 if square else S[i, MX]
        for j in range(a, b):
            force = X[XG, j] + X[AY, j] + S[i, S5] * (X[AY, j] - X[X2, j])
            if square:
                force += S[i, S7] * X[XZ, j]
            X[XA, j] = X[XO, j] + ex * (alpha * (X[XQ, j] - X[XO, j]) - force)
    elif stage == COUPLE:
        for j in range(a, b):
            X[XW, j] = X[AY, j] + X[XG, j]
            X[XB, j] = X[XP, j] if square else X[XP, j] - S[i, S8] * X[XW, j]
    elif stage == DUAL:
        for j in range(p):
            force = Y[YH, i, j] - Y[AX, i, j]
            if square:
                force += S[i, S8] * Y[AZ, i, j]
                Y[Y3, i, j] = Y[AX, i, j]
            lag = S[i, S6] * (Y[YQ, i, j] - Y[YO, i, j])
            Y[YA, i, j] = Y[YO, i, j] + S[i, S2] * (lag - force)
    elif stage == BACK:
        for j in range(a, b):
            X[X2, j] = X[AY, j]
        for j in range(p):
            Y[YB, i, j] = Y[YP, i, j]
    elif stage == FINISH:
        for j in range(a, b):
            X[X1, j] = X[XQ, j] + S[i, S3] * (X[XP, j] - X[XO, j])
            X[XO, j] = X[XP, j]
        for j in range(p):
            Y[Y1, i, j] = Y[YQ, i, j] + S[i, S4] * (Y[YP, i, j] - Y[YO, i, j])
            Y[YO, i, j], Y[MSG, i, j] = Y[YP, i, j], Y[YP, i, j]
    elif stage == SETTLE:
        for j in range(p):
            Y[Y2, i, j] = Y[CQ, i, j] + S[i, S4] * (Y[CM, i, j] - Y[CO, i, j])
            Y[CO, i, j] = Y[CM, i, j]
