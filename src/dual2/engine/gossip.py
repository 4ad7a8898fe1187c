"""The compiled exchange with neighbours: 𝐂V by differences, and Chebyshev polynomials of it.

Each row sums c_ij (v_i - v_j) over its neighbours. The two ends of an edge compute the same
difference up to its sign, so Σ_i (𝐂V)_i stays at rounding level for ever, which a product with the
matrix C does not guarantee.
"""

from dual2.compiled import compiled, inlined
from dual2.engine.threads import meet


@inlined
def set_difference(target, i, weight, source, j):
    """target_i = weight (source_i - source_j)."""
    for k in range(target.shape[1]):
        target[i, k] = weight * (source[i, k] - source[j, k])


@inlined
def add_difference(target, i, weight, source, j):
    """target_i += weight (source_i - source_j)."""
    for k in range(target.shape[1]):
        target[i, k] += weight * (source[i, k] - source[j, k])


@compiled
def differences(first, last, nptr, nidx, nw, source, target):
    """target_i = Σ_j w_ij (source_i - source_j) for the rows first … last-1."""
    for i in range(first, last):
        begin, end = nptr[i], nptr[i + 1]
        if begin == end:
            for k in range(target.shape[1]):
                target[i, k] = 0.0
        else:
            set_difference(target, i, nw[begin], source, nidx[begin])
        for e in range(begin + 1, end):
            add_difference(target, i, nw[e], source, nidx[e])


@compiled
def mix(first, last, nptr, nidx, nw, recurrence, source, target, buffers, thread, threads, barrier):
    """target = P_K(𝐂) source on the rows first … last-1, K = number of rows of ``recurrence``.

    With r₀ = 0 and rows (a_k, b_k, c_k) of ``recurrence``:
    r_{k+1} = a_k (r_k + c_k 𝐂(V - r_k)) - b_k r_{k-1};  P_K(𝐂)V = r_K.
    For the network itself K = 1 and the row is (1, 0, 1). ``buffers`` has shape (3, n, p).
    """
    p = source.shape[1]
    degree = recurrence.shape[0]
    if degree == 1:
        meet(barrier, threads)
        differences(first, last, nptr, nidx, nw, source, target)
        scale = recurrence[0, 0] * recurrence[0, 2]
        if scale != 1.0:
            for i in range(first, last):
                for k in range(p):
                    target[i, k] *= scale
        meet(barrier, threads)
        return
    old, now, rest = 0, 1, 2
    for i in range(first, last):
        for k in range(p):
            buffers[old, i, k] = 0.0
            buffers[now, i, k] = 0.0
    for step in range(degree):
        a, b, c = recurrence[step, 0], recurrence[step, 1], recurrence[step, 2]
        for i in range(first, last):
            for k in range(p):
                buffers[rest, i, k] = source[i, k] - buffers[now, i, k]
        meet(barrier, threads)
        differences(first, last, nptr, nidx, nw, buffers[rest], target)
        for i in range(first, last):
            for k in range(p):
                fresh = a * (buffers[now, i, k] + c * target[i, k]) - b * buffers[old, i, k]
                buffers[old, i, k] = fresh
        old, now = now, old
        meet(barrier, threads)
    for i in range(first, last):
        for k in range(p):
            target[i, k] = buffers[now, i, k]
    meet(barrier, threads)
