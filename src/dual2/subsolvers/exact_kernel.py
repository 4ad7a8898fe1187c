"""Compiled local problems solved to machine precision, and whole outer iterations around them.

With ρ = 0 the subproblem of agent i is, in primal form,

    min_x  ½xᵀPx + qᵀx + g_i(x) + Σ_k ψ_k((A_i x)_k),   ψ_k(u) = h_k(n(u - z_k))/n,

with g_i separable and piecewise linear-quadratic and ψ smooth. A primal-dual active set method (a
semismooth Newton method on x = prox(x - γ∇)) solves it: coordinates at a kink or a bound are
fixed there, the others take a Newton step. The multiplier is λ_k = ψ_k'((A_i x)_k). Where the
active sets cycle, proximal gradient steps help out. A term (q/2)|x - anchor|² may be added.
"""

import math

import numpy as np

from dual2.compiled import compiled
from dual2.engine.gossip import mix
from dual2.engine.local import adjoint, apply

QUADRATIC_H, LOGISTIC_H, POISSON_H = range(3)
_ROUNDS = 60
_PATIENT = 24
"""Newton steps after which rounding errors a hundred times larger are accepted."""
_TINY = 1e-9
"""Curvature, relative to the largest, that is added where the problem may have none."""


@compiled
def slope_h(kind, par, k, p, u):
    """(h', h'') of the k-th entry of h at u.

    QUADRATIC_H: h* has curvature par[k], slope par[p+k] at 0 and domain [par[5p+k], par[6p+k]];
    its inverse gradient is a clip. LOGISTIC_H, POISSON_H: data and scale as in the lowering.
    """
    if kind == QUADRATIC_H:
        w = (u - par[p + k]) / par[k]
        low, high = par[5 * p + k], par[6 * p + k]
        return (low, 0.0) if w < low else (high, 0.0) if w > high else (w, 1.0 / par[k])
    data, scale = par[k], par[p + k]
    if kind == LOGISTIC_H:
        e = math.exp(-abs(data * u))
        share = e / (1.0 + e) if data * u > 0.0 else 1.0 / (1.0 + e)
        return -data * scale * share, scale * share * (1.0 - share)
    e = scale * math.exp(min(u, 700.0))
    return e - scale * data, e


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


@compiled
def gradient(
    i, own, z, anchor, q, g, ax, slope, bend, hkind, hpar, share,
    xptr, akind, place, cols, sval, sidx, coef, fkind, fptr, fpool, inbox, outbox, address,
):  # fmt: skip
    """g = ∇(f_i + smooth part of g_i + Σψ + (q/2)|· - anchor|²)(x), slope = ψ', bend = ψ''.

    Returns the size of its terms.
    """
    a, d, p = xptr[i], own.shape[0], ax.shape[0]
    apply(i, own, ax, xptr, akind, place, cols, sval, sidx, inbox, outbox, address)
    for k in range(p):
        slope[k], bend[k] = slope_h(hkind, hpar, k, p, (ax[k] - z[k]) / share)
        bend[k] /= share
    adjoint(i, slope, g, xptr, akind, place, cols, sval, sidx, inbox, outbox, address)
    size = 0.0
    for j in range(d):
        own_part = coef[0, a + j] * own[j]
        if fkind[i] != 0:
            for m in range(d):
                own_part += fpool[fptr[i] + j * d + m] * own[m]
        if q > 0.0:
            own_part += q * (own[j] - anchor[j])
        size = max(size, abs(g[j]) + abs(own_part) + abs(coef[1, a + j]))
        g[j] += own_part + coef[1, a + j]
    return size


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


@compiled
def classify(a, own, g, gamma, coef, change, free, right):
    """Proximal gradient step ``change`` of each coordinate; which are free, with -∇ there.

    Returns the number of free coordinates and the largest change and coordinate.
    """
    count, worst, size = 0, 0.0, 0.0
    for j in range(own.shape[0]):
        kink, low, high = coef[4, a + j], coef[5, a + j], coef[6, a + j]
        v = own[j] - gamma * g[j]
        t = min(max(kink, v - gamma * coef[3, a + j]), v - gamma * coef[2, a + j])
        t = min(max(t, low), high)
        change[j] = t - own[j]
        worst, size = max(worst, abs(change[j])), max(size, abs(t))
        if low < t < high and (coef[2, a + j] == coef[3, a + j] or t != kink):
            free[count] = j
            right[count] = -(g[j] + (coef[3, a + j] if t > kink else coef[2, a + j]))
            count += 1
    return count, worst, size


@compiled
def newton_step(count, free, right, full, reduced, change):
    """Replace ``change`` on the free coordinates by the Newton step, given it on the others."""
    for c in range(count):
        for e in range(count):
            reduced[c, e] = full[free[c], free[e]]
    at = 0
    for j in range(change.shape[0]):
        if at < count and free[at] == j:
            at += 1
        elif change[j] != 0.0:
            for c in range(count):
                right[c] -= full[free[c], j] * change[j]
    solve_system(reduced, right, count)
    for c in range(count):
        change[free[c]] = right[c]


@compiled
def solve_local(
    i, own, z, anchor, q, hkind, hpar, share, vectors, free, full, reduced, ax, slope, bend,
    xptr, akind, place, cols, sval, sidx, coef, fkind, fptr, fpool, lip, mu, sigma,
    inbox, outbox, address,
):  # fmt: skip
    """Minimise ½xᵀPx + qᵀx + g_i(x) + Σψ + (q/2)|x - anchor|² from ``own``, in place.

    ``vectors`` (3, ·), ``free``, ``full`` and ``reduced`` are scratch. On return ``slope`` is
    ψ'(A_i x). Where neither f_i nor q gives curvature, the Newton system gets a little (the
    gradient does not, so the answer is the same) and x stays within its bounds.

    Returns (gradients, whether the solution is exact to rounding).
    """
    a, d = xptr[i], own.shape[0]
    g, change, right = vectors[0], vectors[1], vectors[2]
    flat = mu[i] + q <= 0.0
    for attempt in range(_ROUNDS):
        size = gradient(
            i, own, z, anchor, q, g, ax, slope, bend, hkind, hpar, share, xptr, akind, place, cols,
            sval, sidx, coef, fkind, fptr, fpool, inbox, outbox, address,
        )  # fmt: skip
        steep = lip[i]
        for k in range(bend.shape[0]):
            steep = max(steep, lip[i] + bend[k] * sigma[i] ** 2)
        steep += q
        gamma = 1.0 / steep if steep > 0.0 else 1.0
        count, worst, reach = classify(a, own, g, gamma, coef, change[:d], free, right)
        exact = 1e-15 if attempt < _PATIENT else 1e-13
        if worst <= exact * (reach + gamma * size):
            return attempt + 1, True
        if attempt % 8 != 7:
            hessian(i, d, bend, full, xptr, place, cols, coef, fkind, fptr, fpool)
            for j in range(d):
                full[j, j] += q + (_TINY * steep if flat else 0.0)
            newton_step(count, free, right, full, reduced, change[:d])
        for j in range(d):
            own[j] += change[j]
            if flat:
                own[j] = min(max(own[j], coef[5, a + j]), coef[6, a + j])
    return _ROUNDS, False


@compiled
def exact_steps(
    xptr, akind, place, cols, sval, sidx, easy, coef, fkind, fcoef, fptr, fpool, fsize,
    gptr, gtab, gpar, lip, mu, sigma, inbox, outbox, address,
    nptr, nidx, nw, recurrence, buffers,
    x, lam, w, z, hkind, hpar, share, steps, step, beta, since, ascent, calls,
    thread, threads, barrier,
):  # fmt: skip
    """``steps`` outer iterations of iD2A with ρ = 0 and exact local solutions.

    ``lam`` stacks λ and 𝐂λ; β < 0 means k/(k+3) with k = since[0]. ``ascent[i]`` is left as
    <λ_i, w⁺_i - w_i> of the last iteration. ``calls`` counts gradients and unsettled solves.
    """
    n, p = z.shape
    first, last = n * thread // threads, n * (thread + 1) // threads
    wide = max(1, inbox.shape[0])
    full, reduced = np.empty((wide, wide)), np.empty((wide, wide))
    vectors, free = np.empty((3, wide)), np.empty(wide, np.int64)
    ax, slope, bend = np.empty(p), np.empty(p), np.empty(p)
    for _ in range(steps):
        for i in range(first, last):
            own = x[xptr[i] : xptr[i + 1]]
            tried, settled = solve_local(
                i, own, z[i], own, 0.0, hkind, hpar, share, vectors, free, full, reduced, ax, slope,
                bend, xptr, akind, place, cols, sval, sidx, coef, fkind, fptr, fpool, lip, mu,
                sigma, inbox, outbox, address,
            )  # fmt: skip
            calls[0, i] += tried
            if not settled:
                calls[1, i] += 1
            for k in range(p):
                lam[0, i, k] = slope[k]
        mix(
            first, last, nptr, nidx, nw, recurrence, lam, 0, lam, 1, buffers,
            thread, threads, barrier,
        )  # fmt: skip
        b = beta if beta >= 0.0 else since[0] / (since[0] + 3.0)
        for i in range(first, last):
            total = 0.0
            for k in range(p):
                new = z[i, k] + step * lam[1, i, k]
                total += lam[0, i, k] * (new - w[i, k])
                z[i, k] = new + b * (new - w[i, k])
                w[i, k] = new
            ascent[i] = total
        if thread == 0:
            since[0] += 1
    return 0
