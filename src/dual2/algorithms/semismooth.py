"""Compiled local problems with any prox-friendly g_i, to machine precision.

    min_x  F(x) + g_i(x),   F(x) = f_i(x) + Σ_k ψ_k((A_i x)_k) + (q/2)|x - anchor|².

The solution is the root of R(x) = x - prox_{g/L}(x - ∇F(x)/L). Two methods share the work. The
accelerated proximal gradient method converges from anywhere; a semismooth Newton step,

    (I - D + D∇²F/L) s = -R(x),   D the derivative of the prox at x - ∇F(x)/L,

is tried from where it stands, and kept if it halves |R|. Near the solution every trial is kept: one
step is exact where f_i is quadratic and g_i polyhedral (box, simplex, halfspace, affine set, l1),
once the active face is right; convergence is quadratic for balls, norms and logistic f_i. After a
rejected trial the wait for the next one doubles. Functions or matrices of the user that have no
compiled form are left to the gradient method alone.
"""

import math

from dual2.compiled import compiled
from dual2.engine.local import (
    DENSE_A,
    DENSE_F,
    FAILED,
    LOGISTIC_F,
    adjoint,
    apply,
    distance,
    dot,
    grad_f,
    prox_g,
)
from dual2.functions.jacobians import prox_jacobian

U, W, PULL, NEW, OLD, TRIAL_U, TRIAL_W, TRIAL_NEW, VECTORS = range(9)
"""Work vectors of length d: the point, where its prox is taken, A_iᵀψ', the prox; the last prox;
the same of a trial."""
AX, SLOPE, BEND, COLUMN, ROWS = range(5)
"""Work vectors of length p: A_i x, ψ', ψ''; a column of A_i."""
_CAP = 60.0
_FLAT_CAP = 20_000
"""Most gradient steps on one local problem without known strong convexity."""
_ACCURACY, _FLOOR = 1e-13, 1e-15
"""Relative accuracy aimed at; what is rounding, relative to the terms of the residual."""
_TINY = 1e-9
"""Curvature, relative to L, that Newton's matrix gets where the problem may have none."""
_WAIT, _SMALL = 4, 100
"""Gradients between the first two trials, of which the first comes at once if d is small. A trial
costs about as much as d gradients, so that with more coordinates that many gradients come first."""


@compiled
def prox_point(
    i, L, u, w, new, target, anchor, q, penalty, vectors, rows,
    xptr, akind, place, cols, sval, sidx, fkind, fcoef, fptr, fpool, fsize, gptr, gtab, gpar,
    inbox, outbox, address, work,
):  # fmt: skip
    """Rows w = x - ∇F(x)/L and new = prox_{g/L}(w) for x = row u of ``vectors``.

    ``rows`` is left with A_i x, ψ' and ψ''. Returns the size of the gradient's terms, or FAILED.
    """
    a, d, p = xptr[i], xptr[i + 1] - xptr[i], rows.shape[1]
    x, step, pull = vectors[u, :d], vectors[w, :d], vectors[PULL]
    if grad_f(i, x, step, a, fkind, fcoef, fptr, fpool, fsize, inbox, outbox, address) != 0:
        return FAILED
    if apply(i, x, rows[AX], xptr, akind, place, cols, sval, sidx, inbox, outbox, address) != 0:
        return FAILED
    for k in range(p):
        slope = (rows[AX, k] - target[k]) / penalty[k]
        rows[SLOPE, k] = min(max(slope, penalty[5 * p + k]), penalty[6 * p + k])
        rows[BEND, k] = 1.0 / penalty[k] if rows[SLOPE, k] == slope else 0.0
    if adjoint(i, rows[SLOPE], pull, xptr, akind, place, cols, sval, sidx, inbox, outbox, address):
        return FAILED
    force = math.sqrt(dot(step, step)) + math.sqrt(dot(pull[:d], pull[:d]))
    for j in range(d):
        step[j] = x[j] - (step[j] + pull[j] + q * (x[j] - anchor[a + j])) / L
    if prox_g(i, 1.0 / L, step, vectors[new, :d], gptr, gtab, gpar, inbox, outbox, address, work):
        return FAILED
    return force


@compiled
def curvature(
    i, more, u, vectors, rows, full,
    xptr, akind, place, cols, sval, sidx, fkind, fcoef, fptr, fpool, fsize,
):  # fmt: skip
    """full = ∇²f_i + A_iᵀ diag(ψ'') A_i + more·I at row u of ``vectors``, ψ'' in ``rows``."""
    a, d, p = xptr[i], xptr[i + 1] - xptr[i], rows.shape[1]
    for j in range(d):
        for k in range(p):
            rows[COLUMN, k] = rows[BEND, k] * cols[place[a + j, 0], k] if akind[i] == DENSE_A else 0
        if akind[i] != DENSE_A:
            for e in range(place[a + j, 0], place[a + j, 1]):
                rows[COLUMN, sidx[e]] = rows[BEND, sidx[e]] * sval[e]
        for m in range(j + 1):
            s = fcoef[0, a + j] + more if m == j else 0.0
            if fkind[i] & DENSE_F:
                s += fpool[fptr[i] + j * d + m]
            if akind[i] == DENSE_A:
                for k in range(p):
                    s += rows[COLUMN, k] * cols[place[a + m, 0], k]
            else:
                for e in range(place[a + m, 0], place[a + m, 1]):
                    s += rows[COLUMN, sidx[e]] * sval[e]
            full[j, m], full[m, j] = s, s
    if fkind[i] & LOGISTIC_F:
        size, at = fsize[i], fptr[i] + (d * d if fkind[i] & DENSE_F else 0)
        for r in range(size):
            row = at + r * d
            margin = dot(fpool[row : row + d], vectors[u, :d]) + fpool[at + size * d + r]
            e = math.exp(-abs(margin))
            bend = fpool[at + size * d + size + r] * e / (1.0 + e) ** 2
            for j in range(d):
                for m in range(d):
                    full[j, m] += bend * fpool[row + j] * fpool[row + m]


@compiled
def solve_general(matrix, right, size):
    """Solve the leading size × size system in place by elimination with row pivots.

    False if the matrix is singular to working precision.
    """
    for j in range(size):
        pivot = j
        for k in range(j + 1, size):
            if abs(matrix[k, j]) > abs(matrix[pivot, j]):
                pivot = k
        if not abs(matrix[pivot, j]) > 1e-300:
            return False
        if pivot != j:
            right[j], right[pivot] = right[pivot], right[j]
            for m in range(j, size):
                matrix[j, m], matrix[pivot, m] = matrix[pivot, m], matrix[j, m]
        for k in range(j + 1, size):
            factor = matrix[k, j] / matrix[j, j]
            if factor != 0.0:
                right[k] -= factor * right[j]
                for m in range(j + 1, size):
                    matrix[k, m] -= factor * matrix[j, m]
    for j in range(size - 1, -1, -1):
        for k in range(j + 1, size):
            right[j] -= matrix[j, k] * right[k]
        right[j] /= matrix[j, j]
    return True


@compiled
def newton_trial(
    i, L, more, vectors, rows, full, reduced, derivative,
    xptr, akind, place, cols, sval, sidx, fkind, fcoef, fptr, fpool, fsize, gptr, gtab, gpar, work,
):  # fmt: skip
    """Row TRIAL_U = the semismooth Newton step from row U; False if its matrix is singular."""
    d = xptr[i + 1] - xptr[i]
    curvature(
        i, more, U, vectors, rows, full, xptr, akind, place, cols, sval, sidx,
        fkind, fcoef, fptr, fpool, fsize,
    )  # fmt: skip
    for b in range(gptr[i], gptr[i + 1]):
        at, end = gtab[b, 2], gtab[b, 2] + gtab[b, 3]
        prox_jacobian(
            gtab[b, 0], gtab[b, 1], 1.0 / L, vectors[W, at:end], derivative, at,
            gpar[gtab[b, 4] : gtab[b, 5]], work,
        )  # fmt: skip
        for j in range(at, end):
            for m in range(d):
                reduced[j, m] = 0.0
            for k in range(at, end):
                factor = derivative[j, k] / L
                if factor != 0.0:
                    for m in range(d):
                        reduced[j, m] += factor * full[k, m]
            for m in range(at, end):
                reduced[j, m] -= derivative[j, m]
            reduced[j, j] += 1.0
    right = vectors[TRIAL_U]
    for j in range(d):
        right[j] = vectors[NEW, j] - vectors[U, j]
    if not solve_general(reduced, right, d):
        return False
    for j in range(d):
        right[j] += vectors[U, j]
    return True


@compiled
def accelerate(d, kappa, since, vectors):
    """Row U = NEW + β(NEW - OLD), OLD = NEW; returns the steps since the momentum was uphill.

    β = (√κ-1)/(√κ+1) for a finite ``kappa`` = √κ, else k/(k+3) with k = ``since``.
    """
    uphill = 0.0
    for j in range(d):
        uphill += (vectors[U, j] - vectors[NEW, j]) * (vectors[NEW, j] - vectors[OLD, j])
    since = 0 if uphill > 0.0 else since + 1
    momentum = since / (since + 3.0) if kappa == math.inf else (kappa - 1.0) / (kappa + 1.0)
    for j in range(d):
        vectors[U, j] = vectors[NEW, j] + momentum * (vectors[NEW, j] - vectors[OLD, j])
        vectors[OLD, j] = vectors[NEW, j]
    return since


@compiled
def minimise(
    i, x, target, anchor, q, penalty, newton, vectors, rows, full, reduced, derivative,
    xptr, akind, place, cols, sval, sidx, fkind, fcoef, fptr, fpool, fsize, gptr, gtab, gpar,
    lip, mu, sigma, inbox, outbox, address, work,
):  # fmt: skip
    """The local problem of agent i from the flat x, in place, with Newton trials if ``newton``.

    L = L_i + rσ̄²(A_i) + q; the momentum is (√κ-1)/(√κ+1) with κ = L/(μ_i + q), or k/(k+3) with
    restarts where it points uphill if κ is infinite. Returns the number of gradients, or FAILED if
    a user's function raised.
    """
    a, d = xptr[i], xptr[i + 1] - xptr[i]
    L, strong = lip[i] + sigma[i] ** 2 / penalty[0] + q, mu[i] + q
    L = L if L > 0.0 else 1.0
    more = q if strong > 0.0 else _TINY * L
    kappa = math.sqrt(L / strong) if strong > 0.0 else math.inf
    most = int(_CAP * kappa) + 10 if strong > 0.0 else _FLAT_CAP
    for j in range(d):
        vectors[U, j], vectors[OLD, j] = x[a + j], x[a + j]
    u, new = vectors[U, :d], vectors[NEW, :d]
    pause, due = (_WAIT, 0) if d <= _SMALL else (d, d)
    tried, since, wait, fresh, force = 0, 0, pause, True, 0.0
    while True:
        if fresh:
            force = prox_point(
                i, L, U, W, NEW, target, anchor, q, penalty, vectors, rows, xptr, akind, place,
                cols, sval, sidx, fkind, fcoef, fptr, fpool, fsize, gptr, gtab, gpar, inbox,
                outbox, address, work,
            )  # fmt: skip
            if force == FAILED:
                return FAILED
            tried += 1
        moved, size = distance(u, new), math.sqrt(dot(new, new))
        rounding = _FLOOR * (L * size + force)
        settled = (L - strong) * moved <= max(_ACCURACY * strong * size, rounding)
        if settled or tried >= most:
            break
        fresh = True
        if newton and tried >= due:
            better, pressure = False, 0.0
            if newton_trial(
                i, L, more, vectors, rows, full, reduced, derivative, xptr, akind, place, cols,
                sval, sidx, fkind, fcoef, fptr, fpool, fsize, gptr, gtab, gpar, work,
            ):  # fmt: skip
                pressure = prox_point(
                    i, L, TRIAL_U, TRIAL_W, TRIAL_NEW, target, anchor, q, penalty, vectors, rows,
                    xptr, akind, place, cols, sval, sidx, fkind, fcoef, fptr, fpool, fsize, gptr,
                    gtab, gpar, inbox, outbox, address, work,
                )  # fmt: skip
                if pressure == FAILED:
                    return FAILED
                tried += 1
                there = distance(vectors[TRIAL_U, :d], vectors[TRIAL_NEW, :d])
                better = there <= 0.5 * moved
            if better:
                for j in range(d):
                    vectors[U, j], vectors[W, j] = vectors[TRIAL_U, j], vectors[TRIAL_W, j]
                    vectors[NEW, j] = vectors[OLD, j] = vectors[TRIAL_NEW, j]
                force, fresh, since, wait = pressure, False, 0, pause
                continue
            if moved * L <= 1e3 * rounding:
                break
            due, wait = tried + wait, 2 * wait
        since = accelerate(d, kappa, since, vectors)
    for j in range(d):
        x[a + j] = new[j]
    return tried
