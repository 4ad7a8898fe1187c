"""Methods with exact local solves: Tracking-ADMM, NECPD, DC-ADMM, IDC-ADMM and DPMM.

All solve min Σ f_i(x_i) + g_i(x_i) subject to Σ A_i x_i = b with convex smooth f_i; b_i = b/n is
the share of agent i, W = I - σC the mixing matrix, L the graph Laplacian, N_i the neighbours of i
and d_i their number. λ_i is agent i's copy of the price.

Tracking-ADMM (Falsone, Notarnicola, Notarstefano, Prandini, Automatica 2020), tracker d_i:

    ℓ = Wλ,  δ = Wd                                                 two vectors in one round
    x_i⁺ = argmin f_i + g_i + <ℓ_i, A_i x> + (c/2)|A_i x - A_i x_i + δ_i|²
    d⁺ = δ + 𝐀x⁺ - 𝐀x,   λ⁺ = ℓ + c d⁺

NECPD (Su, Wang, Sun), reconstructed: a proximal method on the dual consensus problem that
has the published parameters and range, 0 < η ≤ ρ:

    z = Wλ - s
    x_i⁺ = argmin f_i + g_i + (1/2ρ)|z_i + ρ(A_i x - b_i)|² + (1/2τ)|x - x_i|²
    λ⁺ = z + ρ(𝐀x⁺ - b),   s⁺ = s + (η/ρ)(I - W)λ⁺

DC-ADMM and IDC-ADMM (Chang, Hong, Wang, TSP 2015), reconstructed:

    p = p + cLλ,   r_i = Σ_{j ∈ N_i}(λ_i + λ_j) - (p_i + b_i)/c
    x_i⁺ = argmin f_i + g_i + (c/4d_i)|A_i x/c + r_i|²                            (DC-ADMM)
    x_i⁺ = prox_{g_i/β_i}(x_i - [∇f_i(x_i) + A_iᵀ(A_i x_i/c + r_i)/2d_i]/β_i)    (IDC-ADMM)
    λ_i⁺ = (r_i + A_i x_i⁺/c)/2d_i

DPMM (Gong, Zhang 2023), with a projection on the dual cone for inequalities:

    x̂_i = argmin f_i + g_i + (1/2γ)|y_i - γΛ_i + γ(A_i x - b_i)|² + (1/2α)|x - x_i|²
    λ = y - γΛ + γ(𝐀x̂ - b)  [projected],   x⁺ = x + θ(x̂ - x)
    Λ⁺ = Λ + β𝐂λ,   y⁺ = λ + γ(Λ - Λ⁺)

The trackers' offset e_i = d_i - (A_i x_i - b_i), s, p and Λ start with sum zero and move by
products with 𝐂 in edge-difference form only, so their sums stay at rounding level.
"""

from typing import NamedTuple

import numpy as np

from dual2.compiled import compiled, inline
from dual2.engine.gossip_kernel import mix
from dual2.engine.local import FAILED, adjoint, apply, copy, grad_f, prox_g
from dual2.engine.packed_args import borrowed, keep
from dual2.engine.threads import own_rows
from dual2.methods.local.argmin import local_argmin
from dual2.methods.local.penalty_newton import QUADRATIC_H, Task, new_scratch

Array = np.ndarray
TRACKING, NECPD, DC, IDC, DPMM = range(5)
"""Which method."""


class ADMMState(NamedTuple):
    """x, and rows: λ and 𝐂λ, what sums to zero (e, s, p or Λ), d or DPMM's y, 𝐀x; inner work."""

    x: Array
    lam: Array
    clam: Array
    total: Array
    aux: Array
    ax: Array
    tried: Array


class ADMMParameters(NamedTuple):
    """The parameters of all methods by one name each."""

    penalty: float
    """c, ρ or γ."""
    mixing: float = 1.0
    """σ."""
    eta: float = 0.0
    """η/ρ of NECPD, β of DPMM."""
    theta: float = 1.0
    proximal: float = 0.0
    """1/τ of NECPD, 1/α of DPMM."""


class ADMMData(NamedTuple):
    """What the kernels read besides the packed problem, and a workspace."""

    kind: int
    scalars: ADMMParameters
    share: Array
    """b/n."""
    degrees: Array
    """d_i, at least 1."""
    steep: Array
    """β_i of IDC-ADMM."""
    penalties: Array
    """See :func:`.argmin.penalty_rows`."""
    solver_kind: Array
    """See :func:`.solver_kind.choose_for_penalties`."""
    before: Array
    """The last x."""
    target: Array
    """t of the next local problems."""
    caux: Array
    """𝐂d."""


@compiled
def set_target(data, current, i):
    """Before the local problem: λ becomes its multiplier's constant part, ``target`` its t."""
    kind, s, c = data.kind, data.scalars, data.scalars.penalty
    lam, clam, total, target = current.lam[i], current.clam[i], current.total[i], data.target[i]
    for k in range(target.shape[0]):
        b = data.share[k]
        if kind == TRACKING:
            lam[k] -= s.mixing * clam[k]
            # <ℓ, u> + (c/2)|u - a|² is (c/2)|u - (a - ℓ/c)|² up to a constant, with a = b - e.
            target[k] = b - total[k] - lam[k] / c
        elif kind == NECPD:
            lam[k] -= s.mixing * clam[k] + total[k]
            target[k] = b - lam[k] / c
        elif kind == DPMM:
            lam[k] = current.aux[i, k] - c * total[k]
            target[k] = b - lam[k] / c
        else:
            total[k] += c * clam[k]
            # Σ_j (λ_i + λ_j) = 2d_i λ_i - (Lλ)_i: what 𝐂 has brought is enough.
            lam[k] = 2.0 * data.degrees[i] * lam[k] - clam[k] - (total[k] + b) / c
            target[k] = -c * lam[k]


@compiled
def set_message(data, current, i):
    """After the local problem: the new multiplier (and tracker) from A_i x_i."""
    kind, c, p = data.kind, data.scalars.penalty, data.share.shape[0]
    low, high = data.penalties[i, 5 * p : 6 * p], data.penalties[i, 6 * p :]
    lam, ax = current.lam[i], current.ax[i]
    for k in range(p):
        excess = ax[k] - data.share[k]
        if kind == TRACKING:
            current.aux[i, k] = current.total[i, k] + excess
            lam[k] += c * current.aux[i, k]
        elif kind == NECPD:
            lam[k] += c * excess
        elif kind == DPMM:
            lam[k] = min(max(lam[k] + c * excess, low[k]), high[k])
        else:
            lam[k] = (lam[k] + ax[k] / c) / (2.0 * data.degrees[i])


@compiled
def set_sum(data, current, i):
    """After the exchange: what sums to zero moves by a product with 𝐂."""
    kind, s, total = data.kind, data.scalars, current.total[i]
    for k in range(total.shape[0]):
        if kind == TRACKING:
            total[k] -= s.mixing * data.caux[i, k]
        elif kind == NECPD:
            total[k] += s.eta * s.mixing * current.clam[i, k]
        elif kind == DPMM:
            move = s.eta * current.clam[i, k]
            total[k] += move
            current.aux[i, k] = current.lam[i, k] - s.penalty * move


@inline
def linearised_step(block, data, current, i, scratch):
    """IDC-ADMM: one proximal gradient step on the local problem; 0 or FAILED."""
    steep, a, b = data.steep[i], block.xptr[i], block.xptr[i + 1]
    own, slope = data.before[a:b], scratch.rows[1]
    grad, ATy = scratch.V[0, : b - a], scratch.V[1]
    if grad_f(block, i, own, grad):
        return FAILED
    for k in range(slope.shape[0]):
        slope[k] = (current.ax[i, k] / data.scalars.penalty + current.lam[i, k]) / (
            2.0 * data.degrees[i]
        )
    if adjoint(block, i, slope, ATy):
        return FAILED
    for j in range(b - a):
        grad[j] = own[j] - (grad[j] + ATy[j]) / steep
    return prox_g(block, i, 1.0 / steep, grad, current.x[a:b], scratch.work)


@compiled
def admm_steps(block, links, data, current, steps, member):
    """Advance the rows of this thread by ``steps`` iterations; returns 0, or FAILED."""
    block, links, data, current, member = borrowed((block, links, data, current, member))
    first, last = own_rows(member, current.lam.shape[0])
    own_scratch, x, before = new_scratch(block), current.x, data.before
    scratch = borrowed(own_scratch)
    theta, proximal = data.scalars.theta, data.scalars.proximal
    for _ in range(steps):
        for i in range(first, last):
            a, b = block.xptr[i], block.xptr[i + 1]
            copy(x[a:b], before[a:b], b - a)
            set_target(data, current, i)
            if data.kind == IDC:
                tried = 1
                if linearised_step(block, data, current, i, scratch):
                    return FAILED
            else:
                penalty = data.penalties[i]
                task = Task(x, data.target, before, proximal, QUADRATIC_H, penalty, 1.0)
                tried = local_argmin(block, i, task, data.solver_kind[i], scratch)
            current.tried[i] += tried
            if tried == FAILED or apply(block, i, x[a:b], current.ax[i]):
                return FAILED
            set_message(data, current, i)
            # Relaxation comes last: the multiplier belongs to the minimiser itself.
            if theta != 1.0:
                for j in range(a, b):
                    x[j] = before[j] + theta * (x[j] - before[j])
        mix(links, current.lam, current.clam, member)
        if data.kind == TRACKING:
            mix(links, current.aux, data.caux, member)
        for i in range(first, last):
            set_sum(data, current, i)
    # Nobody else holds the arrays that ``scratch`` borrows.
    return keep(own_scratch)
