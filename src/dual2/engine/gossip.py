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
def set_one(target, i, weight, source, j):
    """target_i = w (source_i - source_j)."""
    for k in range(target.shape[1]):
        target[i, k] = weight * (source[i, k] - source[j, k])


@inlined
def set_two(target, i, weight, source, j, other, h):
    """target_i = w (source_i - source_j) + w' (source_i - source_h)."""
    for k in range(target.shape[1]):
        one = weight * (source[i, k] - source[j, k])
        target[i, k] = one + other * (source[i, k] - source[h, k])


@inlined
def add_two(target, i, weight, source, j, other, h):
    """target_i += w (source_i - source_j) + w' (source_i - source_h), from left to right."""
    for k in range(target.shape[1]):
        one = target[i, k] + weight * (source[i, k] - source[j, k])
        target[i, k] = one + other * (source[i, k] - source[h, k])


@inlined
def differences(links, first, last, source, target):
    """target_i = Σ_j w_ij (source_i - source_j) for the rows first … last-1.

    Neighbours are taken two at a time: fewer passes over the target row.
    """
    nidx, nw = links.nidx, links.weights
    for i in range(first, last):
        e, end = links.nptr[i], links.nptr[i + 1]
        if e == end:
            for k in range(target.shape[1]):
                target[i, k] = 0.0
        elif (end - e) % 2 == 1:
            set_one(target, i, nw[e], source, nidx[e])
            e += 1
        else:
            set_two(target, i, nw[e], source, nidx[e], nw[e + 1], nidx[e + 1])
            e += 2
        while e < end:
            add_two(target, i, nw[e], source, nidx[e], nw[e + 1], nidx[e + 1])
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
def mix_in_line(links, source, target, member):
    """The same as :func:`mix`, the network's own 𝐂 without a call.

    For short rows the call costs more than the work.
    """
    recurrence = links.recurrence
    plain = recurrence.shape[0] == 1 and recurrence[0, 0] * recurrence[0, 2] == 1.0
    if plain and member.barrier[EXCHANGE] == 0:
        first, last = own_rows(member, links.nptr.shape[0] - 1)
        if member.threads > 1:
            meet(member)
        differences(links, first, last, source, target)
        if member.threads > 1:
            meet(member)
    else:
        mix(links, source, target, member)


@compiled
def mix(links, source, target, member):
    """target = P_K(𝐂) source on this thread's rows of both (n, p), K the rows of ``recurrence``.

    With r₀ = 0 and rows (a_k, b_k, c_k) of ``recurrence``:
    r_{k+1} = a_k (r_k + c_k 𝐂(V - r_k)) - b_k r_{k-1};  P_K(𝐂)V = r_K.
    For the network itself K = 1 and the row is (1, 0, 1).
    """
    links, source, target, member = unowned((links, source, target, member))
    recurrence, old, now = links.recurrence, links.buffers[0], links.buffers[1]
    stage, degree = links.buffers[STAGE], links.recurrence.shape[0]
    first, last = own_rows(member, links.nptr.shape[0] - 1)
    p = source.shape[1]
    if degree == 1:
        if member.barrier[EXCHANGE] == 0:
            meet(member)
            differences(links, first, last, source, target)
        else:
            for i in range(first, last):
                for k in range(p):
                    stage[i, k] = source[i, k]
            refresh(member)
            differences(links, first, last, stage, target)
        scale = recurrence[0, 0] * recurrence[0, 2]
        if scale != 1.0:
            for i in range(first, last):
                for k in range(p):
                    target[i, k] *= scale
        meet(member)
        return
    for i in range(first, last):
        for k in range(p):
            old[i, k] = 0.0
            now[i, k] = 0.0
    for step in range(degree):
        a, b, c = recurrence[step, 0], recurrence[step, 1], recurrence[step, 2]
        for i in range(first, last):
            for k in range(p):
                stage[i, k] = source[i, k] - now[i, k]
        refresh(member)
        differences(links, first, last, stage, target)
        for i in range(first, last):
            for k in range(p):
                old[i, k] = a * (now[i, k] + c * target[i, k]) - b * old[i, k]
        old, now = now, old
        meet(member)
    for i in range(first, last):
        for k in range(p):
            target[i, k] = now[i, k]
    meet(member)
