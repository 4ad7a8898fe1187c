"""Sums of any doubles without agreement on their sizes: whole numbers of 2112 bits.

Every finite double is a multiple of 2⁻¹⁰⁷⁴ below 2¹⁰²⁴, so in units of 2⁻¹⁰⁷⁴ it is a whole number
of at most 2098 bits, and sums of up to 2¹³ of them fit into 33 words in two's complement (Kulisch
and Miranker, *Computer Arithmetic in Theory and Practice*, 1981). Nothing is rounded on the way:
the total, rounded once, equals :func:`math.fsum`.
"""

import math

import numpy as np

from dual2.compiled import compiled, forceinline
from dual2.engine.fixed_point import LOWEST, head_of

LIMBS = 33
"""Words of 64 bits of one number, the lowest first."""
MOST_AGENTS = 1 << 13
"""So many doubles of the same sign cannot overflow."""


@forceinline
def _shift_in(words, limb, low, high, negative):
    """Add or subtract (low, high) from ``limb`` on, with carries."""
    one, zero = np.uint64(1), np.uint64(0)
    carry = zero
    for k in range(limb, words.shape[0]):
        part = low if k == limb else (high if k == limb + 1 else zero)
        # Beyond the number's own two words only a carry travels on.
        if k > limb + 1 and carry == zero:
            break
        before = words[k]
        if negative:
            after = before - part
            words[k] = after - carry
            carry = one if (after > before or words[k] > after) else zero
        else:
            after = before + part
            words[k] = after + carry
            carry = one if (after < before or words[k] < after) else zero


@compiled
def accumulate_rows(rows, words):
    """Add the rows to ``words`` (width, LIMBS); False if an entry is not finite."""
    zero = np.uint64(0)
    for k in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            x = rows[k, j]
            if x == 0.0:
                continue
            if not abs(x) < np.inf:
                return False
            mantissa, exponent = math.frexp(abs(x))
            a = np.uint64(np.int64(mantissa * 9007199254740992.0))
            place = exponent - 53 - LOWEST
            if place < 0:  # a subnormal number: the bits below are zero
                a, place = a >> np.uint64(-place), 0
            shift = np.uint64(place % 64)
            high = a >> (np.uint64(64) - shift) if shift > zero else zero
            _shift_in(words[j], place // 64, a << shift, high, x < 0.0)
    return True


@compiled
def round_words(words, out):
    """The doubles nearest to the numbers in ``words``, halves to even; ∞ where none is."""
    one, zero = np.uint64(1), np.uint64(0)
    size = np.empty(words.shape[1], np.uint64)
    for j in range(words.shape[0]):
        negative = words[j, -1] >= one << np.uint64(63)
        carry, top = one, -1
        for k in range(words.shape[1]):
            size[k] = words[j, k]
            # Two's complement: the magnitude is the flipped words plus 1, carried upwards.
            if negative:
                size[k] = ~size[k] + carry
                carry = one if carry == one and size[k] == zero else zero
            if size[k] != zero:
                top = k
        if top < 0:
            out[j] = 0.0
            continue
        rest = False
        # Only whether anything is below the two highest words matters, to break ties.
        for k in range(top - 1):
            rest = rest or size[k] != zero
        below = size[top - 1] if top > 0 else zero
        kept, lead = head_of(size[top], below, rest)
        value = math.ldexp(np.float64(kept), 64 * top - lead + 11 + LOWEST)
        out[j] = -value if negative else value
