"""Compiled proxes, one branch per kind, for the loops that cannot call Python.

Every kernel works on contiguous 1-D float64 arrays, allocates nothing, and says the same as the
NumPy class it belongs to (``dual2.testing.check_function`` compares them). The parameters of each
kind are laid out by ``dual2.functions.lowering``.
"""

import math

from dual2.compiled import compiled, fast_compiled, inline

SEPARABLE, L2, SIMPLEX, BALL, HALFSPACE, AFFINE, LOGISTIC, POISSON, LOG, ENTROPY = range(10)
CALLBACK = 10
CONJUGATED, AFFINED, KINKLESS = 1, 2, 4


@fast_compiled
def dot(a, b):
    """Sum of a_j b_j, in any order."""
    total = 0.0
    for j in range(a.shape[0]):
        total += a[j] * b[j]
    return total


@compiled
def prox_separable(kind, flags, step, v, out, params, work):
    """:func:`prox_block` for SEPARABLE blocks only: a small part of its text, so soon compiled."""
    if flags & CONJUGATED:
        _separable_conjugate(step, v, out, params)
    elif flags & KINKLESS:
        _separable_kinkless(step, v, out, params)
    else:
        _separable(step, v, out, params)


@compiled
def prox_block(kind, flags, step, v, out, params, work):
    """out = prox_{step·F}(v), F the block's function, or its conjugate if flags say so.

    With the flag AFFINED, F(x) = c·f(x - a) + <b, x> + (q/2)|x|² and the parameters start with
    c, q, a, b. With the flag CONJUGATED the result is that of F*, in the form of Moreau's
    identity that does not cancel. ``out`` must not overlap ``v``; ``work`` has at least
    3·size + 8 entries.
    """
    if kind == SEPARABLE:
        prox_separable(kind, flags, step, v, out, params, work)
        return
    inner, length, rest, spare = v, step, params, work
    if flags & AFFINED:
        n = v.shape[0]
        inner, rest, spare = work[:n], params[2 * n + 2 :], work[n:]
        length = _enter(flags & CONJUGATED, step, v, inner, params)
    if flags & CONJUGATED:
        _conjugate(kind, length, inner, out, rest, spare)
    else:
        _plain(kind, length, inner, out, rest, spare)
    if flags & AFFINED:
        _leave(flags & CONJUGATED, step, inner, out, params)


@inline
def _enter(conjugated, step, v, inner, params):
    """Point and step for the prox of f itself, where F = c·f(· - a) + <b, ·> + (q/2)|·|².

    Conjugated: solve s·z + F'(z) = v for F'(z); with y = z - a it reads (s+q)·y + c·f'(y) = rest.
    """
    n, c, q = v.shape[0], params[0], params[1]
    if conjugated:
        for j in range(n):
            inner[j] = (v[j] - params[n + 2 + j] - (step + q) * params[2 + j]) / c
        return (step + q) / c
    kappa = 1.0 + step * q
    for j in range(n):
        inner[j] = (v[j] - step * params[n + 2 + j]) / kappa - params[2 + j]
    return step * c / kappa


@inline
def _leave(conjugated, step, inner, out, params):
    """From the result for f back to the one for F."""
    n, c, q = inner.shape[0], params[0], params[1]
    for j in range(n):
        if conjugated:
            y = c * (inner[j] - out[j]) / (step + q)
            out[j] = c * out[j] + params[n + 2 + j] + q * (y + params[2 + j])
        else:
            out[j] += params[2 + j]


@inline
def _plain(kind, step, v, out, params, work):
    if kind == L2:
        _shrink(step * params[0], v, out)
    elif kind == SIMPLEX:
        level = simplex_level(params[0], v)
        for j in range(v.shape[0]):
            out[j] = max(v[j] - level, 0.0)
    elif kind == BALL:
        _ball(params[0], params[1:], v, out)
    elif kind == HALFSPACE:
        factor = _excess(params[0], v, params)
        for j in range(v.shape[0]):
            out[j] = v[j] - factor * params[2 + j]
    elif kind == AFFINE:
        for j in range(v.shape[0]):
            out[j] = v[j]
        _add_rows(1.0, -1.0, v, out, params, work)
    else:
        _losses(kind, 1.0, step, v, out, params, False)


@inline
def _conjugate(kind, step, v, out, params, work):
    n = v.shape[0]
    if kind == L2:
        norm = math.sqrt(dot(v, v))
        factor = params[0] / norm if norm > params[0] else 1.0
        for j in range(n):
            out[j] = factor * v[j]
    elif kind == SIMPLEX:
        level = simplex_level(step * params[0], v)
        for j in range(n):
            out[j] = min(v[j], level)
    elif kind == BALL:
        for j in range(n):
            work[j] = v[j] - step * params[1 + j]
        _shrink(step * params[0], work[:n], out)
    elif kind == HALFSPACE:
        factor = _excess(step * params[0], v, params)
        for j in range(n):
            out[j] = factor * params[2 + j]
    elif kind == AFFINE:
        for j in range(n):
            out[j] = 0.0
        _add_rows(step, 1.0, v, out, params, work)
    else:
        _losses(kind, step, 1.0, v, out, params, True)


@inline
def _separable(step, v, out, params):
    n = v.shape[0]
    curvature, linear = params[:n], params[n : 2 * n]
    left, right, kink = params[2 * n : 3 * n], params[3 * n : 4 * n], params[4 * n : 5 * n]
    lower, upper = params[5 * n : 6 * n], params[6 * n : 7 * n]
    for j in range(n):
        weight = 1.0 / (1.0 + step * curvature[j])
        u = (v[j] - step * linear[j]) * weight
        weight *= step
        x = min(max(kink[j], u - weight * right[j]), u - weight * left[j])
        out[j] = min(max(x, lower[j]), upper[j])


@inline
def _separable_kinkless(step, v, out, params):
    n = v.shape[0]
    curvature, linear = params[:n], params[n : 2 * n]
    lower, upper = params[5 * n : 6 * n], params[6 * n : 7 * n]
    for j in range(n):
        u = (v[j] - step * linear[j]) / (1.0 + step * curvature[j])
        out[j] = min(max(u, lower[j]), upper[j])


@inline
def _separable_conjugate(step, v, out, params):
    n = v.shape[0]
    curvature, linear = params[:n], params[n : 2 * n]
    left, right, kink = params[2 * n : 3 * n], params[3 * n : 4 * n], params[4 * n : 5 * n]
    lower, upper = params[5 * n : 6 * n], params[6 * n : 7 * n]
    for j in range(n):
        weight = 1.0 / (step + curvature[j])
        u = (v[j] - linear[j]) * weight
        x = min(max(kink[j], u - weight * right[j]), u - weight * left[j])
        out[j] = v[j] - step * min(max(x, lower[j]), upper[j])


@compiled
def conjugate_grad_separable(w, out, params):
    """out = argmax_x <w, x> - f(x) for a SEPARABLE f with curvature (or fixed) in every entry."""
    n = w.shape[0]
    curvature, linear = params[:n], params[n : 2 * n]
    left, right, kink = params[2 * n : 3 * n], params[3 * n : 4 * n], params[4 * n : 5 * n]
    lower, upper = params[5 * n : 6 * n], params[6 * n : 7 * n]
    for j in range(n):
        weight = 1.0 / curvature[j] if curvature[j] > 0.0 else 1.0
        u = (w[j] - linear[j]) * weight
        x = min(max(kink[j], u - weight * right[j]), u - weight * left[j])
        out[j] = min(max(x, lower[j]), upper[j])


@inline
def _shrink(threshold, v, out):
    norm = math.sqrt(dot(v, v))
    factor = 1.0 - threshold / norm if norm > threshold else 0.0
    for j in range(v.shape[0]):
        out[j] = factor * v[j]


@inline
def _ball(radius, center, v, out):
    n = v.shape[0]
    for j in range(n):
        out[j] = v[j] - center[j]
    norm = math.sqrt(dot(out, out))
    factor = radius / norm if norm > radius else 1.0
    for j in range(n):
        out[j] = center[j] + factor * out[j]


@inline
def _excess(b, v, params):
    """max(<a, v> - b, 0)/|a|², 0 where a = 0."""
    excess = dot(params[2:], v) - b
    return excess / params[1] if excess > 0.0 and params[1] > 0.0 else 0.0


@inline
def _add_rows(step, sign, v, out, params, work):
    """out += sign·Qᵀ(Qv - step·c)."""
    n, m = v.shape[0], int(params[0])
    for i in range(m):
        row = params[1 + m + i * n : 1 + m + (i + 1) * n]
        work[i] = sign * (dot(row, v) - step * params[1 + i])
    for i in range(m):
        row = params[1 + m + i * n : 1 + m + (i + 1) * n]
        for j in range(n):
            out[j] += work[i] * row[j]


@compiled
def simplex_level(total, v):
    """The level with Σ max(v_j - level, 0) = total: drop what lies below until nothing drops."""
    level, count = -math.inf, v.shape[0] + 1
    while True:
        s, active = 0.0, 0
        for j in range(v.shape[0]):
            if v[j] > level:
                s += v[j]
                active += 1
        if active == count or active == 0:
            return level
        level, count = (s - total) / active, active


@compiled
def _losses(kind, sigma, factor, r, out, params, conjugated):
    """Solve sigma·z + factor·h'(z) = r per entry; out = factor·h'(z) if conjugated, else z."""
    n = r.shape[0]
    data, scale = params[:n], params[n : 2 * n]
    for j in range(n):
        kappa = factor * scale[j]
        if kind == LOGISTIC:
            margin, probability = solve_logistic(sigma, kappa, data[j] * r[j])
            out[j] = -data[j] * (kappa * probability if conjugated else -margin)
        else:
            z, slope = solve_scalar(kind, sigma, kappa, data[j], r[j])
            out[j] = slope if conjugated else z


@compiled
def solve_scalar(kind, sigma, kappa, data, r):
    """Root z of sigma·z + kappa·h'(z) = r, and kappa·h'(z)."""
    if kind == LOG:
        size = abs(r) + math.sqrt(r * r + 4.0 * sigma * kappa)
        z = 0.5 * size / sigma if r >= 0.0 else 2.0 * kappa / size
        return z, -kappa / z
    if kind == POISSON:
        return solve_poisson(sigma, kappa, data, r)
    level = math.log(kappa / sigma / data)
    omega = wright_omega(r / kappa - 1.0 - level)
    slope = math.log(omega) + level + 1.0 if omega > 1.0 else r / kappa - omega
    return kappa / sigma * omega, kappa * slope


@compiled
def solve_logistic(sigma, kappa, rho):
    """Root m of sigma·m - kappa/(1 + exp(m)) = rho, and the probability 1/(1 + exp(m)).

    By the symmetry m -> -m the root is taken nonnegative. Replacing 1/(1 + exp(m)) by exp(-m)
    and solving log(m - rho/sigma) + m = log(kappa/sigma) roughly gives a start at most 1 away;
    a step of fourth order leaves 1e-2, the next 1e-10, and Newton's method does the rest.
    """
    mirrored = rho < -0.5 * kappa
    if mirrored:
        rho = -rho - kappa
    ratio = rho / sigma
    m = max(ratio, 0.0)
    slack = math.log(kappa / sigma)
    if slack - ratio > 1.0:
        m = max(m, slack - math.log(slack - ratio))
    p = 0.5
    for _ in range(8):
        e = math.exp(-m)
        p = 1.0 / (1.0 + e)
        bend, p = e * p * p, e * p
        slope = sigma + kappa * bend
        move = (rho + kappa * p - sigma * m) / slope
        if abs(move) <= 1e-9 + 4e-16 * m:
            m += move
            p -= bend * move
            break
        share = kappa * bend / slope
        turn = -move * share * (1.0 - 2.0 * p)
        third = move * move * share * (1.0 - 6.0 * bend) / 6.0
        m = max(m + move * (1.0 + 0.5 * turn) / (1.0 + turn + third), 0.0)
    if mirrored:
        return -m, 1.0 - p
    return m, p


@compiled
def solve_poisson(sigma, kappa, count, r):
    """Root z of sigma·z + kappa·(exp(z) - count) = r, and kappa·(exp(z) - count).

    omega = kappa·exp(z)/sigma solves omega + log(omega) = (r + kappa·count)/sigma
    + log(kappa/sigma). Of the two expressions for each result the one without cancellation is
    taken.
    """
    base = (r + kappa * count) / sigma
    omega = wright_omega(base + math.log(kappa / sigma))
    if omega > 1.0:
        z = math.log(omega) - math.log(kappa / sigma)
        return z, r - sigma * z
    return base - omega, sigma * omega - kappa * count


@compiled
def wright_omega(y):
    """The root of omega + log(omega) = y, by Newton in log(omega) corrected to fourth order."""
    if y < -40.0:
        return math.exp(y)
    if y < 1.0:
        omega = math.exp(y) if y < -1.0 else math.exp(0.6 * (y - 1.0))
    else:
        omega = y - math.log(y)
    for _ in range(8):
        gap = y - omega - math.log(omega)
        s = 1.0 + omega
        d = 2.0 * s * (s + 2.0 * gap / 3.0)
        omega *= 1.0 + gap / s * (d - gap) / (d - 2.0 * gap)
        if abs(gap) <= 1e-3 * s:
            break
    return omega
