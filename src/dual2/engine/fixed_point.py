"""Sums in fixed point modulo 2¹²⁸: the same bits in any order, exact over 21 decades.

An entry x with |x| ≤ 2^e becomes the whole number round(x·2^s), s = 126 - ⌈log₂ n⌉ - e, in two's
complement of 128 bits: word 0 is the lower half, word 1 the upper. The sum of n of them cannot
overflow, and addition of whole numbers has no order.
"""

import math

import numpy as np

from dual2.compiled import compiled, inlined

Array = np.ndarray
STEP, LOWEST = 8, -1074
"""Sizes are told in steps of so many bits; exponent of the smallest double."""
INFINITE, UNKNOWN = 510, 511
"""Levels of columns with +∞, and with NaN or -∞."""


@compiled
def find_levels(rows, block, out):
    """Size of each block of ``block`` columns: 0 where all is zero, else in steps of 2⁸."""
    for k in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            x = rows[k, j]
            if x == np.inf:
                level = INFINITE
            elif not abs(x) < np.inf:
                level = UNKNOWN
            elif x == 0.0:
                level = 0
            else:
                level = (math.frexp(x)[1] - LOWEST - 1) // STEP + 1
            if level > out[j // block]:
                out[j // block] = level


@inlined
def _magnitude(x, places):
    """round(|x|·2^places), halves to even, as (low, high); the caller knows that it fits."""
    one, zero = np.uint64(1), np.uint64(0)
    mantissa, exponent = math.frexp(abs(x))
    a = np.uint64(np.int64(mantissa * 9007199254740992.0))
    shift = exponent - 53 + places
    if shift >= 64:
        return zero, a << np.uint64(shift - 64)
    if shift > 0:
        return a << np.uint64(shift), a >> np.uint64(64 - shift)
    if shift == 0:
        return a, zero
    if shift < -54:
        return zero, zero
    drop = np.uint64(-shift)
    kept, rest, half = a >> drop, a & ((one << drop) - one), one << (drop - one)
    if rest > half or (rest == half and (kept & one) == one):
        kept = kept + one
    return kept, zero


@compiled
def encode_rows(rows, places, block, words):
    """Add the rows to ``words`` (width, 2); whether all entries fit.

    ``places`` has for each block s, whether it has finite numbers at all, and e.
    """
    one, zero = np.uint64(1), np.uint64(0)
    for k in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            x, b = rows[k, j], j // block
            if x == 0.0 or places[b, 1] == 0:
                continue
            if not abs(x) < np.inf or math.frexp(x)[1] > places[b, 2]:
                return False
            low, high = _magnitude(x, places[b, 0])
            if x < 0.0:
                low, high = ~low + one, ~high + (one if low == zero else zero)
            before = words[j, 0]
            words[j, 0] = before + low
            words[j, 1] = words[j, 1] + high + (one if words[j, 0] < before else zero)
    return True


@compiled
def add_words(total, other):
    """total += other, both (width, limbs): each row is a number, its lowest word first."""
    one, zero = np.uint64(1), np.uint64(0)
    for j in range(total.shape[0]):
        carry = zero
        for k in range(total.shape[1]):
            after = total[j, k] + other[j, k]
            full = after < other[j, k]
            total[j, k] = after + carry
            carry = one if (full or total[j, k] < after) else zero


@compiled
def subtract_words(total, other):
    """total -= other, as in ``add_words``."""
    one, zero = np.uint64(1), np.uint64(0)
    for j in range(total.shape[0]):
        borrow = zero
        for k in range(total.shape[1]):
            after = total[j, k] - other[j, k]
            below = total[j, k] < other[j, k]
            total[j, k] = after - borrow
            borrow = one if (below or after < borrow) else zero


@inlined
def head_of(high, low, rest):
    """The 53 highest bits of the number (high, low), high ≠ 0, rounded halves to even.

    ``rest`` says whether there is anything below. Beside it the leading zeros of ``high``.
    """
    one, zero = np.uint64(1), np.uint64(0)
    lead, below, step = 0, low, 32
    while step > 0:
        if (high >> np.uint64(64 - lead - step)) == zero:
            lead += step
        step //= 2
    if lead > 0:
        high = (high << np.uint64(lead)) | (low >> np.uint64(64 - lead))
        below = low << np.uint64(lead)
    kept, tail, half = high >> np.uint64(11), high & np.uint64(2047), np.uint64(1024)
    more = rest or below != zero
    if tail > half or (tail == half and (more or (kept & one) == one)):
        kept = kept + one
    return kept, lead


@compiled
def decode_words(words, places, block, out):
    """The doubles nearest to the numbers in ``words``; each is rounded once, halves to even."""
    one, zero = np.uint64(1), np.uint64(0)
    for j in range(words.shape[0]):
        low, high = words[j, 0], words[j, 1]
        negative = high >= one << np.uint64(63)
        if negative:
            low, high = ~low + one, ~high + (one if low == zero else zero)
        scale = 128
        if high == zero:
            low, high, scale = zero, low, 64
        if high == zero:
            out[j] = 0.0
            continue
        kept, lead = head_of(high, low, False)
        value = math.ldexp(np.float64(kept), scale - lead - 53 - places[j // block, 0])
        out[j] = -value if negative else value
