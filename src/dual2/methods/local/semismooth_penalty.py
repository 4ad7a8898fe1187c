"""Compiled local problems with any prox-friendly g_i, to machine precision.

    min_x  F(x) + g_i(x),   F(x) = f_i(x) + Σ_k ψ_k((A_i x)_k) + (q/2)|x - prox center|².

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

from dual2.compiled import compiled, inline
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
from dual2.engine.packed_args import borrowed
from dual2.functions.jacobians import prox_jacobian
from dual2.methods.local.elimination import solve_general
from dual2.methods.local.penalty_newton import AX, BEND, COLUMN, SLOPE

U, W, ATY, NEW, OLD, TRIAL_U, TRIAL_W, TRIAL_NEW = range(8)
"""Work vectors of length d: the point, where its prox is taken, A_iᵀψ', the prox; the last prox;
the same of a trial."""
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
def prox_point(block, i, L, x, step, new, task, scratch):
    """step = x - ∇F(x)/L and new = prox_{g/L}(step).

    ``rows`` is left with A_i x, ψ' and ψ''. Returns the size of the gradient's terms, or FAILED.
    """
    block, task, scratch = borrowed((block, task, scratch))
    rows, penalty, ATy = scratch.rows, task.par, scratch.V[ATY]
    a, d, p = block.xptr[i], block.xptr[i + 1] - block.xptr[i], rows.shape[1]
    x, step, new = borrowed((x, step, new))
    if grad_f(block, i, x, step) != 0 or apply(block, i, x, rows[AX]) != 0:
        return FAILED
    for k in range(p):
        slope = (rows[AX, k] - task.z[i, k]) / penalty[k]
        rows[SLOPE, k] = min(max(slope, penalty[5 * p + k]), penalty[6 * p + k])
        rows[BEND, k] = 1.0 / penalty[k] if rows[SLOPE, k] == slope else 0.0
    if adjoint(block, i, rows[SLOPE], ATy):
        return FAILED
    force = math.sqrt(dot(step, step)) + math.sqrt(dot(ATy[:d], ATy[:d]))
    for j in range(d):
        step[j] = x[j] - (step[j] + ATy[j] + task.weight * (x[j] - task.center[a + j])) / L
    if prox_g(block, i, 1.0 / L, step, new, scratch.work):
        return FAILED
    return force


@inline
def curvature(block, i, more, scratch):
    """full = ∇²f_i + A_iᵀ diag(ψ'') A_i + more·I at row U of ``V``, ψ'' in ``rows``."""
    full, rows, place, cols = scratch.full, scratch.rows, block.place, block.cols
    fkind, fpool, sidx, sval = block.fkind[i], block.fpool, block.sidx, block.sval
    a, d, p = block.xptr[i], block.xptr[i + 1] - block.xptr[i], rows.shape[1]
    dense = block.akind[i] == DENSE_A
    for j in range(d):
        for k in range(p):
            rows[COLUMN, k] = rows[BEND, k] * cols[place[a + j, 0], k] if dense else 0
        if not dense:
            for e in range(place[a + j, 0], place[a + j, 1]):
                rows[COLUMN, sidx[e]] = rows[BEND, sidx[e]] * sval[e]
        for m in range(j + 1):
            s = block.fcoef[0, a + j] + more if m == j else 0.0
            if fkind & DENSE_F:
                s += fpool[block.fptr[i] + j * d + m]
            if dense:
                for k in range(p):
                    s += rows[COLUMN, k] * cols[place[a + m, 0], k]
            else:
                for e in range(place[a + m, 0], place[a + m, 1]):
                    s += rows[COLUMN, sidx[e]] * sval[e]
            full[j, m], full[m, j] = s, s
    if fkind & LOGISTIC_F:
        size, at = block.fsize[i], block.fptr[i] + (d * d if fkind & DENSE_F else 0)
        for r in range(size):
            row = at + r * d
            margin = dot(fpool[row : row + d], scratch.V[U, :d]) + fpool[at + size * d + r]
            e = math.exp(-abs(margin))
            bend = fpool[at + size * d + size + r] * e / (1.0 + e) ** 2
            for j in range(d):
                for m in range(d):
                    full[j, m] += bend * fpool[row + j] * fpool[row + m]


@inline
def newton_trial(block, i, L, more, scratch):
    """Row TRIAL_U = the semismooth Newton step from row U; False if its matrix is singular."""
    d, table, vectors = block.xptr[i + 1] - block.xptr[i], block.gtab, scratch.V
    full, reduced, derivative = scratch.full, scratch.reduced, scratch.derivative
    curvature(block, i, more, scratch)
    for b in range(block.gptr[i], block.gptr[i + 1]):
        at, end = table[b, 2], table[b, 2] + table[b, 3]
        v, params = vectors[W, at:end], block.gpar[table[b, 4] : table[b, 5]]
        prox_jacobian(table[b, 0], table[b, 1], 1.0 / L, v, derivative, at, params, scratch.work)
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


@inline
def minimise(block, i, task, newton, scratch):
    """The local problem of agent i from the flat x, in place, with Newton trials if ``newton``.

    L = L_i + rσ̄²(A_i) + w; the momentum is (√κ-1)/(√κ+1) with κ = L/(μ_i + w), or k/(k+3) with
    restarts where it points uphill if κ is infinite. Returns the number of gradients, or FAILED if
    a user's function raised.
    """
    a, d, vectors, q = block.xptr[i], block.xptr[i + 1] - block.xptr[i], scratch.V, task.weight
    L, strong = block.lip[i] + block.sigma[i] ** 2 / task.par[0] + q, block.mu[i] + q
    L = L if L > 0.0 else 1.0
    more = q if strong > 0.0 else _TINY * L
    kappa = math.sqrt(L / strong) if strong > 0.0 else math.inf
    most = int(_CAP * kappa) + 10 if strong > 0.0 else _FLAT_CAP
    for j in range(d):
        vectors[U, j], vectors[OLD, j] = task.x[a + j], task.x[a + j]
    u, w, new = vectors[U, :d], vectors[W, :d], vectors[NEW, :d]
    u_trial, w_trial, new_trial = vectors[TRIAL_U, :d], vectors[TRIAL_W, :d], vectors[TRIAL_NEW, :d]
    pause, due = (_WAIT, 0) if d <= _SMALL else (d, d)
    tried, since, wait, fresh, force = 0, 0, pause, True, 0.0
    while True:
        if fresh:
            force = prox_point(block, i, L, u, w, new, task, scratch)
            if force == FAILED:
                return FAILED
            tried += 1
        moved, size = distance(u, new), math.sqrt(dot(new, new))
        # A prox step of length 1/L contracts by 1 - μ/L, so |x⁺ - x*| ≤ (L - μ)/μ·|x⁺ - x|.
        rounding = _FLOOR * (L * size + force)
        settled = (L - strong) * moved <= max(_ACCURACY * strong * size, rounding)
        if settled or tried >= most:
            break
        # Except after an accepted trial, which has evaluated its own prox already.
        fresh = True
        if newton and tried >= due:
            better, pressure = False, 0.0
            if newton_trial(block, i, L, more, scratch):
                pressure = prox_point(block, i, L, u_trial, w_trial, new_trial, task, scratch)
                if pressure == FAILED:
                    return FAILED
                tried += 1
                better = distance(u_trial, new_trial) <= 0.5 * moved
            if better:
                for j in range(d):
                    u[j], w[j] = u_trial[j], w_trial[j]
                    new[j] = vectors[OLD, j] = new_trial[j]
                force, fresh, since, wait = pressure, False, 0, pause
                continue
            # So near to rounding another trial fails as well, and gradient steps gain nothing.
            if moved * L <= 1e3 * rounding:
                break
            due, wait = tried + wait, 2 * wait
        since = accelerate(d, kappa, since, vectors)
    for j in range(d):
        task.x[a + j] = new[j]
    return tried
