"""The compiled exchange with neighbours: 𝐂V by differences, and Chebyshev polynomials of it.

Each row sums c_ij (v_i - v_j) over its neighbours. The two ends of an edge compute the same
difference up to its sign, so Σ_i (𝐂V)_i stays at rounding level for ever, which a product with the
matrix C does not guarantee.
"""

from typing import NamedTuple

import numpy as np

from dual2.compiled import compiled, inlined
from dual2.engine.callbacks import SHIP, call_python
from dual2.engine.threads import EXCHANGE, meet, own_rows
from dual2.engine.unowned import unowned

Array = np.ndarray

STAGE = 2
"""The matrix of ``buffers`` from which rows travel to other processes. Behind the owned rows it has
those of their neighbours elsewhere, which every exchange refreshes."""


class Links(NamedTuple):
    """The edges at the rows of a block, and the polynomial of 𝐂 that is meant."""

    nptr: Array
    """Edges nptr[i] … nptr[i+1]-1 are those of row i."""
    nidx: Array
    """Row at the other end; behind the block's own rows those of other processes."""
    weights: Array
    """c_ij of the edges."""
    recurrence: Array
    """(K, 3): see :func:`mix`."""
    buffers: Array
    """(3, rows, p): room for the polynomial, and ``STAGE``."""


@inlined
def reweighted(links, weights):
    """The same edges with other weights."""
    return Links(links.nptr, links.nidx, weights, links.recurrence, links.buffers)


@inlined
def set_one(target, t, i, weight, source, s, j):
    """target_i = w (source_i - source_j); ``s`` and ``t`` pick the matrix in each stack."""
    for k in range(target.shape[2]):
        target[t, i, k] = weight * (source[s, i, k] - source[s, j, k])


@inlined
def set_two(target, t, i, weight, source, s, j, other, h):
    """target_i = w (source_i - source_j) + w' (source_i - source_h)."""
    for k in range(target.shape[2]):
        one = weight * (source[s, i, k] - source[s, j, k])
        target[t, i, k] = one + other * (source[s, i, k] - source[s, h, k])


@inlined
def add_two(target, t, i, weight, source, s, j, other, h):
    """target_i += w (source_i - source_j) + w' (source_i - source_h), from left to right."""
    for k in range(target.shape[2]):
        one = target[t, i, k] + weight * (source[s, i, k] - source[s, j, k])
        target[t, i, k] = one + other * (source[s, i, k] - source[s, h, k])


@inlined
def differences(links, first, last, source, s, target, t):
    """target[t]_i = Σ_j w_ij (source[s]_i - source[s]_j) for the rows first … last-1.

    Neighbours are taken two at a time: fewer passes over the target row.
    """
    nidx, nw = links.nidx, links.weights
    for i in range(first, last):
        e, end = links.nptr[i], links.nptr[i + 1]
        if e == end:
            for k in range(target.shape[2]):
                target[t, i, k] = 0.0
        elif (end - e) % 2 == 1:
            set_one(target, t, i, nw[e], source, s, nidx[e])
            e += 1
        else:
            set_two(target, t, i, nw[e], source, s, nidx[e], nw[e + 1], nidx[e + 1])
            e += 2
        while e < end:
            add_two(target, t, i, nw[e], source, s, nidx[e], nw[e + 1], nidx[e + 1])
            e += 2


@inlined
def refresh(member):
    """Wait for the other threads, and for the rows of neighbours in other processes.

    If that fails the callbacks keep the error and answer no more; whoever called the kernel raises
    it.
    """
    meet(member)
    if member.barrier[EXCHANGE] != 0:
        if member.thread == 0:
            call_python(member.barrier[EXCHANGE], SHIP, 0)
        meet(member)


@inlined
def mix_in_line(links, source, s, target, t, member):
    """The same as :func:`mix`, the network's own 𝐂 without a call.

    For short rows the call costs more than the work.
    """
    recurrence = links.recurrence
    plain = recurrence.shape[0] == 1 and recurrence[0, 0] * recurrence[0, 2] == 1.0
    if plain and member.barrier[EXCHANGE] == 0:
        first, last = own_rows(member, links.nptr.shape[0] - 1)
        if member.threads > 1:
            meet(member)
        differences(links, first, last, source, s, target, t)
        if member.threads > 1:
            meet(member)
    else:
        mix(links, source, s, target, t, member)


@compiled
def mix(links, source, s, target, t, member):
    """target[t] = P_K(𝐂) source[s] on this thread's rows, K the rows of ``recurrence``.

    With r₀ = 0 and rows (a_k, b_k, c_k) of ``recurrence``:
    r_{k+1} = a_k (r_k + c_k 𝐂(V - r_k)) - b_k r_{k-1};  P_K(𝐂)V = r_K.
    For the network itself K = 1 and the row is (1, 0, 1). ``source`` and ``target`` are stacks of
    matrices (·, n, p) with the index of the one meant. ``buffers`` has more rows than the block
    (``STAGE``) where some neighbours live in other processes.
    """
    links, member = unowned(links), unowned(member)
    recurrence, buffers = links.recurrence, links.buffers
    first, last = own_rows(member, links.nptr.shape[0] - 1)
    p = source.shape[2]
    degree = recurrence.shape[0]
    if degree == 1:
        if member.barrier[EXCHANGE] == 0:
            meet(member)
            differences(links, first, last, source, s, target, t)
        else:
            for i in range(first, last):
                for k in range(p):
                    buffers[STAGE, i, k] = source[s, i, k]
            refresh(member)
            differences(links, first, last, buffers, STAGE, target, t)
        scale = recurrence[0, 0] * recurrence[0, 2]
        if scale != 1.0:
            for i in range(first, last):
                for k in range(p):
                    target[t, i, k] *= scale
        meet(member)
        return
    old, now = 0, 1
    for i in range(first, last):
        for k in range(p):
            buffers[old, i, k] = 0.0
            buffers[now, i, k] = 0.0
    for step in range(degree):
        a, b, c = recurrence[step, 0], recurrence[step, 1], recurrence[step, 2]
        for i in range(first, last):
            for k in range(p):
                buffers[STAGE, i, k] = source[s, i, k] - buffers[now, i, k]
        refresh(member)
        differences(links, first, last, buffers, STAGE, target, t)
        for i in range(first, last):
            for k in range(p):
                fresh = a * (buffers[now, i, k] + c * target[t, i, k]) - b * buffers[old, i, k]
                buffers[old, i, k] = fresh
        old, now = now, old
        meet(member)
    for i in range(first, last):
        for k in range(p):
            target[t, i, k] = buffers[now, i, k]
    meet(member)


@inlined
def mix_rows(links, source, target, member):
    """:func:`mix` of two matrices (n, p), no stacks."""
    n, p = source.shape
    mix(links, source.reshape((1, n, p)), 0, target.reshape((1, n, p)), 0, member)
