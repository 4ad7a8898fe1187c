"""Maxima from sums alone, digit by digit from the top.

For each digit d of its number a party adds a random word in the places 1 … d and 0 beyond. Where
the total is not 0 somebody's digit is at least as large; how many or whose does not show. Who has a
smaller digit than the largest falls behind and sends zeros from then on.
"""

from collections.abc import Callable

import numpy as np

Array = np.ndarray
_PLACES = 32_768
"""Most words of one sum, of which longer digits of few numbers and shorter ones of many follow."""
_LONGEST, _FIRST = 13, 12
"""Most bits of a digit, and of the first one: a double's sign and exponent."""
_SIGN = np.uint64(1) << np.uint64(63)


def ordered(values: Array) -> Array:
    """Doubles as whole numbers of the same order, NaN the largest.

    A short number, a mark or a small whole one of either sign, ends with zeros: it is found by its
    first digits.

    Examples
    --------
    >>> found = ordered(np.array([-np.inf, -1.0, 0.0, 2.0, np.inf, np.nan]))
    >>> bool(np.all(found[:-1] < found[1:])), hex(found[1])
    (True, '0x4010000000000000')
    """
    plain = np.where(np.isnan(values), np.nan, values + 0.0)  # one NaN, one zero
    bits = np.abs(plain).view(np.uint64)
    return np.where(np.signbit(plain) & ~np.isnan(plain), _SIGN - bits, _SIGN + bits)


def unordered(numbers: Array) -> Array:
    """The doubles of :func:`ordered`.

    Examples
    --------
    >>> unordered(ordered(np.array([-1.5, 0.0, np.inf]))).tolist()
    [-1.5, 0.0, inf]
    """
    positive = numbers >= _SIGN
    bits = np.where(positive, numbers - _SIGN, _SIGN - numbers)
    values = np.ascontiguousarray(bits).view(np.float64)
    return np.where(positive, values, -values)


def find_largest(
    values: Array,
    bits: int,
    add: Callable[[Array], Array],
    draw: Callable[[int], Array],
) -> Array:
    """Largest over all parties of each of the numbers below 2^bits.

    Parameters
    ----------
    values : ndarray of uint64
        Those of this party.
    bits : int
        What they are below, as an exponent.
    add : callable
        Sum of words over all parties, modulo 2⁶⁴.
    draw : callable
        So many random words of this party, never the same.

    Examples
    --------
    >>> draw = np.random.default_rng(0).integers
    >>> words = lambda count: draw(1, 2**63, count).astype(np.uint64)
    >>> find_largest(np.array([5, 1000], np.uint64), 16, lambda own: own, words).tolist()
    [5, 1000]
    """
    width = max(len(values), 1)
    size = max(1, min(_LONGEST, (_PLACES // width + 1).bit_length() - 1))
    found, alive = np.zeros(len(values), np.uint64), np.ones(len(values), np.bool_)
    places = np.arange(1, 1 << size, dtype=np.uint64)
    left = bits
    while left > 0:
        step = min(size, left, _FIRST if left == bits else size)
        left -= step
        digits = (values >> np.uint64(left)) & np.uint64((1 << step) - 1)
        rest = values & np.uint64((1 << left) - 1)
        own = np.zeros((len(values), (1 << step)), np.bool_)
        own[:, 1:] = alive[:, None] & (digits[:, None] >= places[: (1 << step) - 1])
        own[:, 0] = alive & (rest != 0)
        total = add(np.where(own.ravel(), draw(own.size), np.uint64(0))).reshape(own.shape)
        top = np.count_nonzero(total[:, 1:], axis=1).astype(np.uint64)
        found |= top << np.uint64(left)
        alive &= digits == top
        if not total[:, 0].any():  # nobody has anything below
            break
    return found
