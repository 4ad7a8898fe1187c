"""Sums in fixed point modulo 2¹²⁸: the same bits in any order, exact over 21 decades.

An entry x with |x| ≤ 2^e becomes the whole number round(x·2^s), s = 126 - ⌈log₂ n⌉ - e, in two's
complement of 128 bits: word 0 is the lower half, word 1 the upper. The sum of n of them cannot
overflow, and addition of whole numbers has no order.
"""

import math

import numpy as np
from numba.cpython.unsafe.numbers import leading_zeros

from dual2.compiled import compiled, forceinline

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
            # Not ``>=``: the comparison is also false for NaN.
            elif not abs(x) < np.inf:
                level = UNKNOWN
            elif x == 0.0:
                level = 0
            else:
                level = (math.frexp(x)[1] - LOWEST - 1) // STEP + 1
            if level > out[j // block]:
                out[j // block] = level


@forceinline
def _magnitude(a, shift):
    """round(a·2^shift), a < 2⁵³, halves to even, as (low, high); the caller knows that it fits."""
    one, zero = np.uint64(1), np.uint64(0)
    if shift >= 64:
        return zero, a << np.uint64(shift - 64)
    if shift > 0:
        return a << np.uint64(shift), a >> np.uint64(64 - shift)
    if shift == 0:
        return a, zero
    if shift < -54:
        return zero, zero
    # Bits below the unit are cut off; they decide about rounding, halves to even.
    drop = np.uint64(-shift)
    kept, rest, half = a >> drop, a & ((one << drop) - one), one << (drop - one)
    if rest > half or (rest == half and (kept & one) == one):
        kept = kept + one
    return kept, zero


@compiled
def encode_rows(rows, places, block, words):
    """Add the rows, in the order of C, to ``words`` (width, 2); whether all entries fit.

    ``places`` has for each block s, whether it has finite numbers at all, and e. A double is read
    by its bits: sign, exponent, and a mantissa a < 2⁵³ with |x| = a·2^(exponent - 1075).
    """
    one, zero = np.uint64(1), np.uint64(0)
    first, width = rows.view(np.uint64), rows.shape[1]
    for k in range(rows.shape[0]):
        for b in range((width + block - 1) // block):
            places_here, limit = places[b, 0], places[b, 2]
            if places[b, 1] == 0:
                continue
            for j in range(b * block, min(width, (b + 1) * block)):
                bits = first[k, j]
                exponent = np.int64((bits >> np.uint64(52)) & np.uint64(2047))
                a = bits & np.uint64(4503599627370495)
                size = exponent - 1022
                # A subnormal number has no hidden bit; its size is that of its first bit.
                if exponent == 0:
                    if a == zero:
                        continue
                    exponent, size = 1, math.frexp(rows[k, j])[1]
                else:
                    a |= np.uint64(4503599627370496)
                # Beyond the agreed range, or not finite: the caller sums once more with a wider
                # one.
                if size > limit or exponent == 2047:
                    return False
                low, high = _magnitude(a, exponent - 1075 + places_here)
                sign = bits >> np.uint64(63)
                flip = zero - sign
                # Two's complement without a branch: flip all bits and add 1 if the number is
                # negative.
                low, high = (low ^ flip) + sign, high ^ flip
                high += sign if low == zero else zero
                # The low word has wrapped if it is smaller than before; then 1 is carried.
                before = words[j, 0]
                words[j, 0] = before + low
                words[j, 1] += high + (one if words[j, 0] < before else zero)
    return True


@compiled
def add_words(total, other):
    """total += other, both (width, limbs): each row is a number, its lowest word first."""
    one, zero = np.uint64(1), np.uint64(0)
    for j in range(total.shape[0]):
        carry = zero
        for k in range(total.shape[1]):
            after = total[j, k] + other[j, k]
            # A word wraps by the addition or by the carry, never by both.
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


@forceinline
def head_of(high, low, rest):
    """The 53 highest bits of the number (high, low), high ≠ 0, rounded halves to even.

    ``rest`` says whether there is anything below. Beside it the leading zeros of ``high``.
    """
    one = np.uint64(1)
    lead = np.uint64(leading_zeros(high))  # type: ignore[call-arg]
    high = (high << lead) | ((low >> one) >> (np.uint64(63) - lead))
    kept, tail = high >> np.uint64(11), (high & np.uint64(2047)) << one
    # ``tail`` is what was cut off, doubled; its lowest bit says whether anything is below that. So
    # 2048 is exactly one half, and the parity of ``kept`` decides.
    tail |= np.uint64(rest | ((low << lead) != np.uint64(0)))
    kept += np.uint64(tail + (kept & one) > np.uint64(2048))  # no branch: it would be a coin toss
    return kept, np.int64(lead)


@compiled
def decode_words(words, places, block, out, first):
    """The doubles nearest to the numbers in ``words``; each is rounded once, halves to even.

    They are the columns from ``first`` on of those that ``places`` is for.
    """
    zero, top = np.uint64(0), np.uint64(63)
    found, end = out.view(np.uint64), first + words.shape[0]
    for b in range(first // block, (end + block - 1) // block):
        whole = 128 - places[b, 0]
        for j in range(max(0, b * block - first), min(end, (b + 1) * block) - first):
            low, high, scale = words[j, 0], words[j, 1], whole
            sign = high >> top
            flip = zero - sign
            low = (low ^ flip) + sign
            high = (high ^ flip) + (sign & np.uint64(low == zero))
            if high == zero:
                low, high, scale = zero, low, scale - 64
            if high == zero:
                out[j] = 0.0
                continue
            kept, lead = head_of(high, low, False)
            exponent = scale - lead + 1022
            # ``kept`` has the hidden bit, which adds 1 to the exponent field below: hence exponent
            # - 1.
            if 0 < exponent < 2046:  # a normal number, also where rounding made it longer
                found[j] = ((np.uint64(exponent - 1) << np.uint64(52)) + kept) | (sign << top)
            else:
                value = math.ldexp(np.float64(kept), scale - lead - 53)
                out[j] = -value if sign != zero else value
