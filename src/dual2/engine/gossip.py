"""The compiled exchange with neighbours: 𝐂V by differences, and Chebyshev polynomials of it.

Each row sums c_ij (v_i - v_j) over its neighbours. The two ends of an edge compute the same
difference up to its sign, so Σ_i (𝐂V)_i stays at rounding level for ever, which a product with the
matrix C does not guarantee.
"""

from dual2.compiled import compiled, inlined
from dual2.engine.door import SHIP, knock
from dual2.engine.threads import EXCHANGE, meet

STAGE = 2
"""The matrix of ``buffers`` from which rows travel to other processes. Behind the owned rows it has
those of their neighbours elsewhere, which every exchange refreshes."""


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
def differences(first, last, nptr, nidx, nw, source, s, target, t):
    """target[t]_i = Σ_j w_ij (source[s]_i - source[s]_j) for the rows first … last-1.

    Neighbours are taken two at a time: fewer passes over the target row.
    """
    for i in range(first, last):
        e, end = nptr[i], nptr[i + 1]
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
def refresh(thread, threads, barrier):
    """Wait for the other threads, and for the rows of neighbours in other processes.

    If that fails the door keeps the error and answers no more; whoever called the kernel raises it.
    """
    meet(barrier, threads)
    if barrier[EXCHANGE] != 0:
        if thread == 0:
            knock(barrier[EXCHANGE], SHIP, 0)
        meet(barrier, threads)


@compiled
def mix(
    first, last, nptr, nidx, nw, recurrence, source, s, target, t, buffers,
    thread, threads, barrier,
):  # fmt: skip
    """target[t] = P_K(𝐂) source[s] on the rows first … last-1, K the rows of ``recurrence``.

    With r₀ = 0 and rows (a_k, b_k, c_k) of ``recurrence``:
    r_{k+1} = a_k (r_k + c_k 𝐂(V - r_k)) - b_k r_{k-1};  P_K(𝐂)V = r_K.
    For the network itself K = 1 and the row is (1, 0, 1). ``source`` and ``target`` are stacks of
    matrices (·, n, p) with the index of the one meant; ``buffers`` has shape (3, n, p), or more
    rows (``STAGE``) where some neighbours live in other processes.
    """
    p = source.shape[2]
    degree = recurrence.shape[0]
    if degree == 1:
        if barrier[EXCHANGE] == 0:
            meet(barrier, threads)
            differences(first, last, nptr, nidx, nw, source, s, target, t)
        else:
            for i in range(first, last):
                for k in range(p):
                    buffers[STAGE, i, k] = source[s, i, k]
            refresh(thread, threads, barrier)
            differences(first, last, nptr, nidx, nw, buffers, STAGE, target, t)
        scale = recurrence[0, 0] * recurrence[0, 2]
        if scale != 1.0:
            for i in range(first, last):
                for k in range(p):
                    target[t, i, k] *= scale
        meet(barrier, threads)
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
        refresh(thread, threads, barrier)
        differences(first, last, nptr, nidx, nw, buffers, STAGE, target, t)
        for i in range(first, last):
            for k in range(p):
                fresh = a * (buffers[now, i, k] + c * target[t, i, k]) - b * buffers[old, i, k]
                buffers[old, i, k] = fresh
        old, now = now, old
        meet(barrier, threads)
    for i in range(first, last):
        for k in range(p):
            target[t, i, k] = buffers[now, i, k]
    meet(barrier, threads)
