"""Compiled local problems with a proximal term, solved to machine precision.

With ρ = 0 the subproblem of agent i is, in primal form,

    min_x  ½xᵀPx + qᵀx + g_i(x) + Σ_k ψ_k((A_i x)_k),   ψ_k(u) = h_k(n(u - z_k))/n,

with g_i separable and piecewise linear-quadratic and ψ smooth. A proximal Newton method solves it:
the quadratic model of the smooth part plus the piecewise linear part of g_i is minimised by a
primal active set method, which begins at a proximal gradient step and never increases the model;
then comes a line search on derivatives. The multiplier is λ_k = ψ_k'((A_i x)_k). A proximal term
(q/2)|x - anchor|² may be added.
"""

import math

from dual2.compiled import compiled, inlined
from dual2.engine.local import adjoint, apply

QUADRATIC_H, LOGISTIC_H, POISSON_H = range(3)
_ROUNDS, _TRIALS = 200, 40
_FLOOR = 1e-15
"""A proximal gradient step this small, relative to its terms, is rounding."""
_TINY = 1e-9
"""Curvature, relative to the largest, that the model gets where the problem may have none."""


@inlined
def coupling_loss(kind, par, k, p, u):
    """(h, h', h'') of the k-th entry of h at u, up to a constant.

    QUADRATIC_H: h* has curvature par[k], slope par[p+k] at 0 and domain [par[5p+k], par[6p+k]];
    its inverse gradient is a clip. LOGISTIC_H, POISSON_H: data and scale as in the lowering.
    """
    if kind == QUADRATIC_H:
        w = (u - par[p + k]) / par[k]
        low, high = par[5 * p + k], par[6 * p + k]
        bend = 0.0 if w < low or w > high else 1.0 / par[k]
        w = min(max(w, low), high)
        return w * (u - par[p + k] - 0.5 * par[k] * w), w, bend
    data, scale = par[k], par[p + k]
    if kind == LOGISTIC_H:
        e = math.exp(-abs(data * u))
        share = e / (1.0 + e) if data * u > 0.0 else 1.0 / (1.0 + e)
        value = scale * (math.log1p(e) + max(-data * u, 0.0))
        return value, -data * scale * share, scale * share * (1.0 - share)
    e = scale * math.exp(min(u, 700.0))
    return e - scale * data * u, e - scale * data, e


@compiled
def solve_system(matrix, right, size):
    """Solve the leading size × size positive definite system in place by Cholesky's method."""
    for j in range(size):
        for k in range(j):
            t = matrix[j, k]
            for l in range(k):  # noqa: E741
                t -= matrix[j, l] * matrix[k, l]
            matrix[j, k] = t / matrix[k, k]
        t = matrix[j, j]
        for l in range(j):  # noqa: E741
            t -= matrix[j, l] ** 2
        matrix[j, j] = math.sqrt(max(t, 1e-300))
    for j in range(size):
        for k in range(j):
            right[j] -= matrix[j, k] * right[k]
        right[j] /= matrix[j, j]
    for j in range(size - 1, -1, -1):
        for k in range(j + 1, size):
            right[j] -= matrix[k, j] * right[k]
        right[j] /= matrix[j, j]


@inlined
def evaluate(
    i, own, z, anchor, q, g, ax, slope, bend, hkind, hpar, share,
    xptr, akind, place, cols, sval, sidx, coef, fkind, fptr, fpool, inbox, outbox, address,
):  # fmt: skip
    """g = ∇(f_i + smooth part of g_i + Σψ + (q/2)|· - anchor|²)(x), slope = ψ', bend = ψ''.

    Returns the size of the gradient's terms.
    """
    a, d, p = xptr[i], own.shape[0], ax.shape[0]
    apply(i, own, ax, xptr, akind, place, cols, sval, sidx, inbox, outbox, address)
    size, scale = 0.0, 1.0 / share
    if hkind == QUADRATIC_H:
        for k in range(p):
            inverse = 1.0 / hpar[k]
            w = ((ax[k] - z[k]) * scale - hpar[p + k]) * inverse
            slope[k] = min(max(w, hpar[5 * p + k]), hpar[6 * p + k])
            bend[k] = inverse * scale if slope[k] == w else 0.0
    else:
        for k in range(p):
            _, slope[k], bend[k] = coupling_loss(hkind, hpar, k, p, (ax[k] - z[k]) * scale)
            bend[k] *= scale
    adjoint(i, slope, g, xptr, akind, place, cols, sval, sidx, inbox, outbox, address)
    for j in range(d):
        own_part = coef[0, a + j] * own[j]
        if fkind[i] != 0:
            for m in range(d):
                own_part += fpool[fptr[i] + j * d + m] * own[m]
        lag = q * (own[j] - anchor[j])
        size = max(size, abs(g[j]) + abs(own_part) + abs(coef[1, a + j]) + abs(lag))
        g[j] += own_part + coef[1, a + j] + lag
    return size


@inlined
def linear_part(coef, j, t):
    """s(t)·(t - kink)."""
    return (coef[3, j] if t > coef[4, j] else coef[2, j]) * (t - coef[4, j])


@compiled
def objective(
    i, own, z, anchor, q, ax, hkind, hpar, share,
    xptr, akind, place, cols, sval, sidx, coef, fkind, fptr, fpool, inbox, outbox, address,
):  # fmt: skip
    """f_i + g_i + Σψ + (q/2)|· - anchor|² at ``own``, up to a constant."""
    a, d, p, value = xptr[i], own.shape[0], ax.shape[0], 0.0
    apply(i, own, ax, xptr, akind, place, cols, sval, sidx, inbox, outbox, address)
    for k in range(p):
        loss, _, _ = coupling_loss(hkind, hpar, k, p, (ax[k] - z[k]) / share)
        value += share * loss
    for j in range(d):
        part = coef[0, a + j] * own[j]
        if fkind[i] != 0:
            for m in range(d):
                part += fpool[fptr[i] + j * d + m] * own[m]
        value += (0.5 * part + coef[1, a + j]) * own[j] + linear_part(coef, a + j, own[j])
        value += 0.5 * q * (own[j] - anchor[j]) ** 2
    return value


@inlined
def chord(coef, j, x, t):
    """Slope of the piecewise linear part between x and t, without cancellation on one piece."""
    kink = coef[4, j]
    if x >= kink and t >= kink:
        return coef[3, j]
    if x <= kink and t <= kink:
        return coef[2, j]
    return (linear_part(coef, j, t) - linear_part(coef, j, x)) / (t - x)


@compiled
def hessian(i, d, bend, out, xptr, place, cols, coef, fkind, fptr, fpool):
    """out = P + diag(curvature) + A_iᵀ diag(bend) A_i."""
    a, p = xptr[i], bend.shape[0]
    for j in range(d):
        for m in range(j + 1):
            s = coef[0, a + j] if m == j else 0.0
            if fkind[i] != 0:
                s += fpool[fptr[i] + j * d + m]
            one, two = place[a + j, 0], place[a + m, 0]
            for k in range(p):
                s += bend[k] * cols[one, k] * cols[two, k]
            out[j, m], out[m, j] = s, s


@inlined
def prox_step(a, own, g, gamma, coef, target):
    """Proximal gradient step of length γ; returns the largest change and coordinate."""
    worst, reach = 0.0, 0.0
    for j in range(own.shape[0]):
        v = own[j] - gamma * g[j]
        t = min(max(coef[4, a + j], v - gamma * coef[3, a + j]), v - gamma * coef[2, a + j])
        target[j] = min(max(t, coef[5, a + j]), coef[6, a + j])
        worst, reach = max(worst, abs(target[j] - own[j])), max(reach, abs(target[j]))
    return worst, reach


@compiled
def release(a, t, r, side, full, coef, size):
    """Free the fixed coordinate that wants most to leave its kink or bound; False if none does.

    ``side[j]`` is 0 for a fixed coordinate, else the sign of (t - kink) that decides its slope.
    """
    best, chosen, way = 0.0, -1, 0
    for j in range(t.shape[0]):
        if side[j] != 0:
            continue
        kink = coef[4, a + j]
        pull = r[j] + (coef[3, a + j] if t[j] >= kink else coef[2, a + j])
        push = r[j] + (coef[2, a + j] if t[j] <= kink else coef[3, a + j])
        gain = max(-pull, 0.0) if t[j] < coef[6, a + j] else 0.0
        loss = max(push, 0.0) if t[j] > coef[5, a + j] else 0.0
        score = max(gain, loss) / math.sqrt(full[j, j])
        if max(gain, loss) > 1e-15 * size and score > best:
            best, chosen = score, j
            if gain > loss:
                way = 1 if t[j] >= kink else -1
            else:
                way = -1 if t[j] <= kink else 1
    if chosen >= 0:
        side[chosen] = way
    return chosen >= 0


@compiled
def minimise_model(a, own, g, full, coef, t, r, side, free, right, reduced, size):
    """t = argmin ½(t-x)ᵀH(t-x) + <g, t-x> + Σ s_j(t_j)(t_j - kink_j) on [lower, upper], from t."""
    d = t.shape[0]
    for j in range(d):
        kink, low, high = coef[4, a + j], coef[5, a + j], coef[6, a + j]
        smooth = coef[2, a + j] == coef[3, a + j]
        side[j] = 0 if t[j] <= low or t[j] >= high else 1 if t[j] > kink else -1
        if t[j] == kink and not smooth:
            side[j] = 0
    for _ in range(50 + 20 * d):
        count = 0
        for j in range(d):
            r[j] = g[j]
            for m in range(d):
                r[j] += full[j, m] * (t[m] - own[m])
            if side[j] != 0:
                free[count] = j
                right[count] = -(r[j] + (coef[3, a + j] if side[j] > 0 else coef[2, a + j]))
                count += 1
        for c in range(count):
            for e in range(count):
                reduced[c, e] = full[free[c], free[e]]
        solve_system(reduced, right, count)
        length, blocking, wall = 1.0, -1, 0.0
        for c in range(count):
            j = free[c]
            kink, low, high = coef[4, a + j], coef[5, a + j], coef[6, a + j]
            end = high if right[c] > 0.0 else low
            if coef[2, a + j] != coef[3, a + j] and side[j] * right[c] < 0.0:
                end = max(kink, low) if right[c] < 0.0 else min(kink, high)
            if abs(right[c]) * length > abs(end - t[j]):
                length, blocking, wall = abs(end - t[j]) / abs(right[c]), j, end
        for c in range(count):
            t[free[c]] += length * right[c]
        if blocking >= 0:
            t[blocking], side[blocking] = wall, 0
        elif count > 0:
            for j in range(d):
                r[j] = g[j]
                for m in range(d):
                    r[j] += full[j, m] * (t[m] - own[m])
        if blocking < 0 and not release(a, t, r, side, full, coef, size):
            return


@compiled
def solve_local(
    i, own, z, anchor, q, full, reduced, vectors, free, side, rows, hkind, hpar, share,
    xptr, akind, place, cols, sval, sidx, coef, fkind, fptr, fpool, lip, mu, sigma,
    inbox, outbox, address,
):  # fmt: skip
    """Solve the problem of agent i from ``own``, in place; rows[1] is left as ψ'(A_i x).

    ``full``, ``reduced``, ``vectors`` (5, ·), ``free`` and ``side`` are scratch. Returns the
    number of gradients and whether the solution is exact to rounding.
    """
    a, d, tried = xptr[i], own.shape[0], 1
    flat = mu[i] + q <= 0.0
    g, t = vectors[0, :d], vectors[1, :d]
    base, r, right = vectors[2, :d], vectors[3, :d], vectors[4, :d]
    ax, slope, bend = rows[0], rows[1], rows[2]
    for j in range(d):
        own[j] = min(max(own[j], coef[5, a + j]), coef[6, a + j])
    size = evaluate(
        i, own, z, anchor, q, g, ax, slope, bend, hkind, hpar, share, xptr, akind, place, cols,
        sval, sidx, coef, fkind, fptr, fpool, inbox, outbox, address,
    )  # fmt: skip
    before = math.inf
    for _ in range(_ROUNDS):
        steep = 0.0
        for k in range(bend.shape[0]):
            steep = max(steep, bend[k])
        steep = lip[i] + steep * sigma[i] ** 2 + q
        gamma = 1.0 / steep if steep > 0.0 else 1.0
        worst, reach = prox_step(a, own, g, gamma, coef, t)
        scale = reach + gamma * size
        if worst <= _FLOOR * scale or (worst <= 1e3 * _FLOOR * scale and worst > 0.3 * before):
            return tried, True
        before = worst
        hessian(i, d, bend, full, xptr, place, cols, coef, fkind, fptr, fpool)
        for j in range(d):
            full[j, j] += q + (_TINY * steep if flat else 0.0)
        minimise_model(a, own, g, full, coef, t, r, side, free, right, reduced, size)
        promise = 0.0
        for j in range(d):
            base[j] = own[j]
            r[j] = chord(coef, a + j, own[j], t[j])
            promise += (g[j] + r[j]) * (t[j] - own[j])
        alpha, value = 1.0, math.nan
        for _ in range(_TRIALS):
            for j in range(d):
                own[j] = t[j] if alpha == 1.0 else base[j] + alpha * (t[j] - base[j])
            size = evaluate(
                i, own, z, anchor, q, g, ax, slope, bend, hkind, hpar, share, xptr, akind, place,
                cols, sval, sidx, coef, fkind, fptr, fpool, inbox, outbox, address,
            )  # fmt: skip
            tried += 1
            rise = 0.0
            for j in range(d):
                rise += (g[j] + r[j]) * (t[j] - base[j])
            if rise <= 1e-3 * abs(promise):
                break
            if math.isnan(value):
                value = objective(
                    i, base, z, anchor, q, rows[3], hkind, hpar, share, xptr, akind, place, cols,
                    sval, sidx, coef, fkind, fptr, fpool, inbox, outbox, address,
                )  # fmt: skip
            new = objective(
                i, own, z, anchor, q, rows[3], hkind, hpar, share, xptr, akind, place, cols,
                sval, sidx, coef, fkind, fptr, fpool, inbox, outbox, address,
            )  # fmt: skip
            if new <= value + 0.1 * alpha * promise:
                break
            alpha *= min(max(abs(promise) / (abs(promise) + rise), 0.1), 0.5)
    return tried, False
