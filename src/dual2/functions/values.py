"""Compiled values at the results of proxes, which lie in the domain: indicators count as 0.

Parameters are laid out by ``dual2.functions.lowering``.
"""

import math

from dual2.compiled import compiled
from dual2.functions.kernels import (
    AFFINED,
    CONJUGATED,
    ENTROPY,
    L2,
    LOG,
    LOGISTIC,
    POISSON,
    SEPARABLE,
    dot,
)


@compiled
def value_at_prox(kind, flags, step, v, z, params, work):
    """F(z) for z = prox_{step·F}(v) as ``kernels.prox_block`` computes it.

    If F = G*, then u = (v - z)/step is a subgradient of it at z, and by the equality of Fenchel and
    Young F(z) = <u, z> - G(u). ``work`` has at least size entries.
    """
    if not flags & CONJUGATED:
        return _inside(kind, flags, z, params, work)
    n, product = v.shape[0], 0.0
    u = work[:n]
    for j in range(n):
        u[j] = (v[j] - z[j]) / step
        product += u[j] * z[j]
    return product - _inside(kind, flags, u, params, work[n:])


@compiled
def _inside(kind, flags, x, params, work):
    """c·f(x - a) + <b, x> + (q/2)|x|² if AFFINED, else f(x)."""
    n = x.shape[0]
    if not flags & AFFINED:
        return _plain(kind, x, params)
    at, more = work[:n], 0.0
    for j in range(n):
        at[j] = x[j] - params[2 + j]
        more += (params[n + 2 + j] + 0.5 * params[1] * x[j]) * x[j]
    return params[0] * _plain(kind, at, params[2 * n + 2 :]) + more


@compiled
def _plain(kind, x, params):
    n, total = x.shape[0], 0.0
    if kind == SEPARABLE:
        for j in range(n):
            kink = params[4 * n + j]
            side = params[2 * n + j] if x[j] < kink else params[3 * n + j]
            total += (0.5 * params[j] * x[j] + params[n + j]) * x[j] + side * (x[j] - kink)
    elif kind == L2:
        total = params[0] * math.sqrt(dot(x, x))
    elif kind == LOGISTIC:
        for j in range(n):
            margin = params[j] * x[j]
            total += params[n + j] * (max(-margin, 0.0) + math.log1p(math.exp(-abs(margin))))
    elif kind == POISSON:
        for j in range(n):
            total += params[n + j] * (math.exp(x[j]) - params[j] * x[j])
    elif kind == LOG or kind == ENTROPY:
        for j in range(n):
            if x[j] > 0.0:
                factor = x[j] if kind == ENTROPY else -1.0
                total += params[n + j] * factor * math.log(x[j] / params[j])
    return total
