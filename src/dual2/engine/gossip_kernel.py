"""The compiled exchange with neighbours: 𝐂V by differences, and Chebyshev polynomials of it.

Each row sums c_ij (v_i - v_j) over its neighbours. The two ends of an edge compute the same
difference up to its sign, so Σ_i (𝐂V)_i stays at rounding level for ever, which a product with the
matrix C does not guarantee. Sums up a tree take its own order, for many agents at no more cost than
any other.
"""

from typing import NamedTuple

import numpy as np

from dual2.compiled import compiled, forceinline, inline
from dual2.engine.callbacks import SHIP, call_python
from dual2.engine.packed_args import borrowed
from dual2.engine.threads import EXCHANGE, meet, own_rows

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
    """(3, rows, p): workspace of the polynomial, and ``STAGE``."""


@inline
def reweighted(links, weights):
    """The same edges with other weights."""
    return borrowed(Links(links.nptr, links.nidx, weights, links.recurrence, links.buffers))


@forceinline
def differences(links, first, last, source, target):
    """target_i = Σ_j w_ij (source_i - source_j) for the rows first … last-1.

    Neighbours are taken two at a time, from left to right: fewer passes over the target row.
    """
    nidx, nw, p = links.nidx, links.weights, target.shape[1]
    for i in range(first, last):
        e, end = links.nptr[i], links.nptr[i + 1]
        own, out = source[i], target[i]
        if e == end:
            for k in range(p):
                out[k] = 0.0
        # The first step writes instead of adding, so that no pass clears the row. It takes one
        # neighbour or two, whichever leaves an even number.
        elif (end - e) % 2 == 1:
            j, w = source[nidx[e]], nw[e]
            for k in range(p):
                out[k] = w * (own[k] - j[k])
            e += 1
        else:
            j, w, h, u = source[nidx[e]], nw[e], source[nidx[e + 1]], nw[e + 1]
            for k in range(p):
                out[k] = w * (own[k] - j[k]) + u * (own[k] - h[k])
            e += 2
        while e < end:
            j, w, h, u = source[nidx[e]], nw[e], source[nidx[e + 1]], nw[e + 1]
            for k in range(p):
                out[k] = out[k] + w * (own[k] - j[k]) + u * (own[k] - h[k])
            e += 2


@inline
def refresh(member):
    """Wait for the other threads, and for the rows of neighbours in other processes.

    If that fails the callbacks keep the error and answer no more; whoever called the kernel raises
    it.
    """
    meet(member)
    if member.barrier[EXCHANGE] != 0:
        # One thread calls for the team: callbacks take Python's lock. The others wait for the rows.
        if member.thread == 0:
            call_python(member.barrier[EXCHANGE], SHIP, 0)
        meet(member)


@inline
def is_plain(links, member):
    """Whether 𝐂 itself is meant and all rows are here."""
    recurrence = links.recurrence
    plain = recurrence.shape[0] == 1 and recurrence[0, 0] * recurrence[0, 2] == 1.0
    return plain and member.barrier[EXCHANGE] == 0


@inline
def mix_plain(links, source, target, member):
    """:func:`mix` where :func:`is_plain`; a call would cost short rows more than the work."""
    first, last = own_rows(member, links.nptr.shape[0] - 1)
    if member.threads > 1:
        meet(member)
    differences(links, first, last, source, target)
    if member.threads > 1:
        meet(member)


@inline
def mix_in_line(links, source, target, member):
    """The same as :func:`mix`, the network's own 𝐂 without a call."""
    if is_plain(links, member):
        mix_plain(links, source, target, member)
    else:
        mix(links, source, target, member)


@inline
def apply_polynomial(links, source, target, member):
    """What :func:`mix` does, as part of a kernel. Differences are formed in one place only."""
    recurrence, buffers, p = links.recurrence, links.buffers, source.shape[1]
    old, now, stage, deep = buffers[0], buffers[1], buffers[STAGE], recurrence.shape[0] > 1
    staged = deep or member.barrier[EXCHANGE] != 0
    shown, scale = stage if staged else source, 1.0
    first, last = own_rows(member, links.nptr.shape[0] - 1)
    if deep:
        for i in range(first, last):
            for k in range(p):
                old[i, k], now[i, k] = 0.0, 0.0
    else:
        scale = recurrence[0, 0] * recurrence[0, 2]
    for step in range(recurrence.shape[0]):
        if staged:
            for i in range(first, last):
                for k in range(p):
                    # The difference V - r_k travels, so one exchange per step is enough.
                    stage[i, k] = source[i, k] - now[i, k] if deep else source[i, k]
        refresh(member)
        differences(links, first, last, shown, target)
        if deep:
            a, b, c = recurrence[step, 0], recurrence[step, 1], recurrence[step, 2]
            for i in range(first, last):
                for k in range(p):
                    old[i, k] = a * (now[i, k] + c * target[i, k]) - b * old[i, k]
            old, now = now, old
            # Others may still read staged rows of this thread, which the next step overwrites.
            meet(member)
    if deep or scale != 1.0:
        for i in range(first, last):
            for k in range(p):
                target[i, k] = now[i, k] if deep else scale * target[i, k]
    # Until here others may read source rows of this thread; the caller will change them.
    meet(member)


@compiled
def mix(links, source, target, member):
    """target = P_K(𝐂) source on this thread's rows of both (n, p), K the rows of ``recurrence``.

    With r₀ = 0 and rows (a_k, b_k, c_k) of ``recurrence``:
    r_{k+1} = a_k (r_k + c_k 𝐂(V - r_k)) - b_k r_{k-1};  P_K(𝐂)V = r_K.
    For the network itself K = 1 and the row is (1, 0, 1).
    """
    links, source, target, member = borrowed((links, source, target, member))
    apply_polynomial(links, source, target, member)


@compiled
def mix_rows(links, source, target, member):
    """:func:`mix` for callers in Python, and for kernels that call it by its address; 0."""
    links, source, target, member = borrowed((links, source, target, member))
    apply_polynomial(links, source, target, member)
    return 0


@compiled
def climb(total, children, parents):
    """Add the row of each child, in this order, to that of its parent."""
    for e in range(children.shape[0]):
        for k in range(total.shape[1]):
            total[parents[e], k] += total[children[e], k]


@compiled
def walk_down(rows, depths, stack, top, member):
    """Take the rows of consecutive agents of a walk; returns how deep the last one is.

    ``stack`` has the partial sums of the agents from the root to the last one, ``top`` the depth
    of the one before the first row (-1: none). Each agent's own row comes first, then the sums of
    its children in their order: what :func:`climb` computes, with less memory. Every thread takes
    its own columns.
    """
    member = borrowed(member)
    first, last = own_rows(member, stack.shape[1])
    for e in range(depths.shape[0]):
        fold(stack, top, depths[e], first, last)
        top = depths[e]
        for k in range(first, last):
            stack[top, k] = rows[e, k]
    return top


@compiled
def fold(stack, top, depth, first, last):
    """Add the partial sums from depth ``top`` up to ``depth`` to those above them."""
    while top >= depth and top > 0:
        for k in range(first, last):
            stack[top - 1, k] += stack[top, k]
        top -= 1
    return top
