"""Compiled derivatives of proxes, for Newton methods on equations that contain one.

A prox is Lipschitz, hence differentiable almost everywhere; where it has a kink, one of its
generalised derivatives is taken. All are symmetric with eigenvalues in [0, 1]. Parameters are laid
out by ``dual2.functions.lowering``.
"""

import math

from dual2.compiled import compiled
from dual2.functions.kernels import (
    AFFINE,
    AFFINED,
    BALL,
    CONJUGATED,
    HALFSPACE,
    L2,
    LOG,
    LOGISTIC,
    POISSON,
    SEPARABLE,
    SIMPLEX,
    dot,
    simplex_level,
    solve_logistic,
    solve_scalar,
)


@compiled
def prox_jacobian(kind, flags, step, v, out, at, params, work):
    """Block (at, at) of ``out`` = derivative at v of what ``kernels.prox_block`` computes.

    By Moreau's identity the prox of a conjugate, v - step·prox_{F/step}(v/step), has the derivative
    I - D with D that of prox_{F/step} at v/step; with F(x) = c·f(x - a) + <b, x> + (q/2)|x|² that
    of F is the one of f, at the point and with the step of ``prox_block``, over 1 + step·q.
    ``work`` has at least size entries.
    """
    n, kappa, rest = v.shape[0], 1.0, params
    u, length = work[:n], 1.0 / step if flags & CONJUGATED else step
    for j in range(n):
        u[j] = v[j] / step if flags & CONJUGATED else v[j]
    if flags & AFFINED:
        kappa, rest = 1.0 + length * params[1], params[2 * n + 2 :]
        for j in range(n):
            u[j] = (u[j] - length * params[n + 2 + j]) / kappa - params[2 + j]
        length *= params[0] / kappa
    for j in range(n):
        for m in range(n):
            out[at + j, at + m] = 0.0
    if kind == SEPARABLE:
        _separable(length, u, out, at, rest)
    elif kind == L2 or kind == BALL:
        _radial(kind, length, u, out, at, rest)
    elif kind == SIMPLEX or kind == HALFSPACE or kind == AFFINE:
        _polyhedral(kind, u, out, at, rest)
    else:
        _losses(kind, length, u, out, at, rest)
    for j in range(n):
        for m in range(n):
            out[at + j, at + m] /= kappa
            if flags & CONJUGATED:
                out[at + j, at + m] = (1.0 if j == m else 0.0) - out[at + j, at + m]


@compiled
def _separable(step, v, out, at, params):
    """1/(1 + step·curvature) where the prox is inside a piece, 0 at a kink or bound."""
    n = v.shape[0]
    for j in range(n):
        weight = 1.0 / (1.0 + step * params[j])
        u = (v[j] - step * params[n + j]) * weight
        low, high = u - weight * step * params[3 * n + j], u - weight * step * params[2 * n + j]
        x = low if low > params[4 * n + j] else high
        inside = low > params[4 * n + j] or high < params[4 * n + j] or low == high
        if inside and params[5 * n + j] < x < params[6 * n + j]:
            out[at + j, at + j] = weight


@compiled
def _radial(kind, step, v, out, at, params):
    """Of (1 - t/|v|)·v outside the ball of radius t, or of the projection on a ball."""
    n = v.shape[0]
    if kind == BALL:
        for j in range(n):
            v[j] -= params[1 + j]
    norm = math.sqrt(dot(v, v))
    radius = params[0] if kind == BALL else step * params[0]
    outside = norm > radius
    ratio = radius / norm if outside else 1.0 if radius > 0.0 else 0.0
    sign = -1.0 if kind == BALL else 1.0
    for j in range(n):
        out[at + j, at + j] = ratio if kind == BALL else 1.0 - ratio
        for m in range(n):
            if outside:
                out[at + j, at + m] += sign * ratio * (v[j] / norm) * (v[m] / norm)


@compiled
def _polyhedral(kind, v, out, at, params):
    """The projection on the linear space of the active face."""
    n, count, level = v.shape[0], 0, -math.inf
    if kind == SIMPLEX:
        level = simplex_level(params[0], v)
    for j in range(n):
        if v[j] > level:
            out[at + j, at + j] = 1.0
            count += 1
    held = kind == HALFSPACE and params[1] > 0.0 and dot(params[2:], v) > params[0]
    rows = int(params[0]) if kind == AFFINE else 0
    for j in range(n):
        for m in range(n):
            if kind == SIMPLEX and v[j] > level and v[m] > level:
                out[at + j, at + m] -= 1.0 / count
            elif held:
                out[at + j, at + m] -= params[2 + j] * params[2 + m] / params[1]
            for r in range(rows):
                row = 1 + rows + r * n
                out[at + j, at + m] -= params[row + j] * params[row + m]


@compiled
def _losses(kind, step, v, out, at, params):
    """1/(1 + step·h'') at the prox."""
    n = v.shape[0]
    for j in range(n):
        data, kappa = params[j], step * params[n + j]
        if kind == LOGISTIC:
            _, probability = solve_logistic(1.0, kappa, data * v[j])
            out[at + j, at + j] = 1.0 / (1.0 + kappa * probability * (1.0 - probability))
            continue
        z, _ = solve_scalar(kind, 1.0, kappa, data, v[j])
        if kind == POISSON:
            out[at + j, at + j] = 1.0 / (1.0 + kappa * math.exp(z))
        else:
            out[at + j, at + j] = z / (z + (kappa / z if kind == LOG else kappa))
