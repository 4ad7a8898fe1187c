"""What the single-loop saddle solvers share: their state, their rule, and the oracles of g₁ and g₂.

The subproblem is min_x max_y f(x) + g(x) + yᵀ𝐀x - g₁(y) - g₂(y) with, on the rows of the agents,
g₁(y) = (ρ/2)yᵀ𝐂y + zᵀy (+ h*/n if it enters by its gradient) and g₂ = h*/n (if by its prox).

A solver is one file with two kernels and its loop. ``step(block, i, state, rule, z, ws)`` is one
iteration of agent i up to the exchange: it leaves the row that travels in Y[MESSAGE] and 𝐀ᵀ of its
dual point in ``ATy``. ``settle(state, i)`` takes 𝐂 times the message from Y[C_MESSAGE] and leaves
𝐂y in ``mixed``. With since[i] = 0 a subproblem begins at (x, y), ``ATy`` = 𝐀ᵀy, ``Ax`` = 𝐀x.
"""

from typing import NamedTuple

import numpy as np

from dual2.compiled import inline
from dual2.engine.local import FAILED, copy, grad_h, prox_h

Array = np.ndarray
MESSAGE, C_MESSAGE, OWN = range(3)
"""Rows of Y: what travels and 𝐂 times it; then those of the solver."""
X_ROWS, Y_ROWS, SCALARS = 4, OWN + 4, 8
"""Most primal vectors, dual rows and scalars that a solver has of its own."""


class SaddleState(NamedTuple):
    """All that is carried from one iteration to the next, on the rows of a block."""

    x: Array
    """Flat: output."""
    lam: Array
    """(n, p): output y."""
    mixed: Array
    """(n, p): 𝐂y."""
    ATy: Array
    """Flat: 𝐀ᵀ of the last dual point."""
    Ax: Array
    """(n, p): 𝐀 of the last primal point, where the solver needs it."""
    X: Array
    """(X_ROWS, D): further primal vectors."""
    Y: Array
    """(Y_ROWS, n, p): the message and further dual rows."""
    S: Array
    """(n, SCALARS): scalars."""
    mark: Array
    """(n,): residual at the last restart, 0 for none."""
    since: Array
    """(n,): iterations on the present subproblem."""
    calls: Array
    """(3, n): local oracles, iterations, further products with A and Aᵀ."""
    finished: Array
    """(n,): whether an agent that iterates alone is done."""
    residual: Array
    """(n, 4): see :func:`dual2.methods.subsolvers.loop.mapping_residual`."""


class SaddleRule(NamedTuple):
    """The subproblem's constants, arrays with one entry per row, and how it is solved."""

    rho: float
    share: float
    """1/n."""
    by_grad: bool
    """Whether h* enters by its gradient,"""
    by_prox: bool
    """by its prox."""
    restarts: bool
    """Whether to start afresh when the residual has fallen enough."""
    L_x: Array
    mu_x: Array
    L_y: Array
    mu_y: Array
    mu_gradient: Array
    """The part of μ_y that is in the gradient of g₁."""
    sigma: Array
    """σ̄(A)."""
    dual_step: Array
    """t of the residual D_y."""
    weight: Array
    """Of D_x beside D_y."""


class LoopCall(NamedTuple):
    """What is asked of a call of the loop."""

    z: Array
    steps: int
    """Iterations; 0 for the residuals of the present output."""
    stop: Array
    """The residual at which an agent that iterates alone stops."""
    alone: bool
    """Whether agents iterate without any exchange."""


class SaddleWorkspace(NamedTuple):
    """Scratch for one agent."""

    vectors: Array
    """(8, ·): each as long as any primal or dual vector."""
    work: Array
    """For proxes."""


@inline
def new_workspace(block):
    """A workspace for the largest agent of the block."""
    width = max(1, block.inbox.shape[0])
    return SaddleWorkspace(np.empty((8, width)), np.empty(3 * width + 8))


@inline
def grad_g1(block, i, y, cy, rule, z, out):
    """out = ∇g₁(y) = ρ(𝐂y)_i + z_i (+ ∇h*(y)/n), ``cy`` = (𝐂y)_i."""
    if rule.by_grad and grad_h(block, y, out) != 0:
        return FAILED
    for j in range(y.shape[0]):
        slope = rule.rho * cy[j] + z[i, j]
        out[j] = slope + rule.share * out[j] if rule.by_grad else slope
    return 0


@inline
def prox_g2(block, step, v, out, rule, work):
    """out = prox_{step·g₂}(v)."""
    if rule.by_prox:
        return prox_h(block, step * rule.share, v, out, work)
    copy(v, out, out.shape[0])
    return 0
