"""Compiled evaluation of local optimality: how well x_i answers the price λ."""

import math

import numpy as np

from dual2.compiled import compiled
from dual2.engine.local import DENSE_A, FAILED, OPERATOR_A, adjoint, apply, dot, grad_f, prox_g
from dual2.engine.unowned import unowned


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
    block = unowned(block)
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
        out[i, 0] = L * math.sqrt(s)
    return 0


@compiled
def products(block, x, out):
    """out_i = A_i x_i for every owned agent. Returns 0, or FAILED."""
    block = unowned(block)
    for i in range(block.xptr.shape[0] - 1):
        if apply(block, i, x[block.xptr[i] : block.xptr[i + 1]], out[i]):
            return FAILED
    return 0


@compiled
def sizes(block, x, products, out):
    """out_i = |A_i||x_i| for every owned agent; of an operator |A_i x_i|, from its product."""
    block = unowned(block)
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
    block = unowned(block)
    for i in range(block.xptr.shape[0] - 1):
        if adjoint(block, i, rows[i], out[block.xptr[i] : block.xptr[i + 1]]):
            return FAILED
    return 0
