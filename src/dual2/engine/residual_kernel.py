"""Compiled evaluation of local optimality: how well x_i answers the price λ."""

import math
from typing import Any, NamedTuple

import numpy as np

from dual2.compiled import compiled, inline
from dual2.engine.local import DENSE_A, FAILED, OPERATOR_A, adjoint, apply, dot, grad_f, prox_g
from dual2.engine.packed_args import borrowed


class Bounds(NamedTuple):
    """What the residuals of agents are judged by, see :class:`dual2.problem.residual.KKT`."""

    norms: Any
    """(n, p): |A_i,j|."""
    atol: Any
    """(n,): what is forgiven to agents."""
    rounding: float
    """A residual of at most this times its own terms is none."""


@compiled
def step_constant(lip, slope, size):
    """L_i, or its substitute slope/size where it is 0 or infinite, as in :class:`KKT`."""
    if 0.0 < lip < math.inf:
        return lip
    ratio = slope / size if size > 0.0 else 0.0
    return ratio if 0.0 < ratio < math.inf else 1.0


@compiled
def stationarity_rows(block, x, dual, out):
    """Per agent what :class:`dual2.problem.residual.Local` names, of x_i and λ_i.

    ``dual`` has one row per agent, or a single row for all. Returns 0, or FAILED.
    """
    block = borrowed(block)
    xptr, width = block.xptr, max(1, block.inbox.shape[0])
    c, grad, w, new = np.empty(width), np.empty(width), np.empty(width), np.empty(width)
    work = np.empty(3 * width + 8)
    for i in range(xptr.shape[0] - 1):
        first, last = xptr[i], xptr[i + 1]
        d = last - first
        own = x[first:last]
        if adjoint(block, i, dual[min(i, dual.shape[0] - 1)], c):
            return FAILED
        if grad_f(block, i, own, grad[:d]):
            return FAILED
        out[i, 1] = math.sqrt(dot(grad[:d], grad[:d]))
        out[i, 2] = math.sqrt(dot(c[:d], c[:d]))
        out[i, 3] = math.sqrt(dot(own, own))
        L = step_constant(block.lip[i], max(out[i, 1], out[i, 2]), out[i, 3])
        out[i, 4] = L
        for j in range(d):
            w[j] = own[j] - (grad[j] + c[j]) / L
        if prox_g(block, i, 1.0 / L, w[:d], new[:d], work):
            return FAILED
        s = 0.0
        for j in range(d):
            s += (own[j] - new[j]) ** 2
        # The step of the prox-gradient map, times L: a force, comparable with the gradient.
        out[i, 0] = L * math.sqrt(s)
    return 0


@inline
def ratio(residual, scale):
    """residual/scale; 0 without a residual, infinite without a scale or with no number."""
    if residual <= 0.0:
        return 0.0
    return residual / scale if residual < math.inf and scale > 0.0 else math.inf


@compiled
def agent_ratios(block, bounds, known, dual, out):
    """Ratio and φ_i of each agent from what :func:`stationarity_rows` knows of it."""
    block, bounds = borrowed(block), borrowed(bounds)
    for i in range(known.shape[0]):
        residual, gradient, size = known[i, 0], known[i, 1], known[i, 3]
        row, abs_ATy = dual[min(i, dual.shape[0] - 1)], 0.0
        for k in range(row.shape[0]):
            abs_ATy += bounds.norms[i, k] * abs(row[k])
        force = max(max(gradient, known[i, 2]), block.mu[i] * size)
        own = known[i, 4] * size + gradient + abs_ATy
        # A residual that rounding of its own terms explains is none, whatever the tolerance.
        left = 0.0 if residual <= bounds.rounding * own else residual - bounds.atol[i]
        out[i, 0], out[i, 1] = ratio(left, force), force


@compiled
def row_steps(lam, sums, weight, out):
    """t_j = l_j/π_j of separate rows; ``sums`` are s, load and forces. Whether all are numbers."""
    known = True
    for j in range(lam.shape[0]):
        price = sums[2, j] / weight[j] if weight[j] > 0.0 else 0.0
        out[j] = step_constant(0.0, sums[1, j], max(abs(lam[j]), price))
        known &= math.isfinite(abs(sums[0, j]) + sums[1, j] + sums[2, j])
    return known


@compiled
def worst_row(lam, sums, steps, y, atol, rounding):
    """The largest ratio of separate rows, where h responds to ``steps`` t_j with ``y``."""
    worst = 0.0
    for j in range(lam.shape[0]):
        residual, size = abs(sums[0, j] - y[j]), max(sums[1, j], abs(y[j]))
        own = sums[1, j] + abs(y[j]) + steps[j] * abs(lam[j])
        left = 0.0 if residual <= rounding * own else residual - atol[j]
        worst = max(worst, ratio(left, size))
    return worst


@compiled
def products(block, x, out):
    """out_i = A_i x_i for every owned agent. Returns 0, or FAILED."""
    block = borrowed(block)
    for i in range(block.xptr.shape[0] - 1):
        if apply(block, i, x[block.xptr[i] : block.xptr[i + 1]], out[i]):
            return FAILED
    return 0


@compiled
def sizes(block, x, products, out):
    """out_i = |A_i||x_i| for every owned agent; of an operator |A_i x_i|, from its product."""
    block = borrowed(block)
    for i in range(block.xptr.shape[0] - 1):
        first, last, row = block.xptr[i], block.xptr[i + 1], out[i]
        if block.akind[i] == OPERATOR_A:
            for k in range(row.shape[0]):
                row[k] = abs(products[i, k])
            continue
        for k in range(row.shape[0]):
            row[k] = 0.0
        for j in range(first, last):
            if block.akind[i] == DENSE_A:
                for k in range(row.shape[0]):
                    row[k] += abs(x[j] * block.cols[block.place[j, 0], k])
            else:
                for e in range(block.place[j, 0], block.place[j, 1]):
                    row[block.sidx[e]] += abs(x[j] * block.sval[e])


@compiled
def adjoints(block, rows, out):
    """Flat vector of all A_iᵀ rows_i. Returns 0, or FAILED."""
    block = borrowed(block)
    for i in range(block.xptr.shape[0] - 1):
        if adjoint(block, i, rows[i], out[block.xptr[i] : block.xptr[i + 1]]):
            return FAILED
    return 0
