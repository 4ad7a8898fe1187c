"""Exact sums: the same bits whoever adds first, in one process, in several, and between parties.

A sum of up to 8192 numbers has room for any double (:mod:`dual2.engine.accumulators`): one message,
nothing to agree on. During the iterations what it finds tells the sizes of the next message of the
same length, which then is 16 times shorter (:mod:`dual2.engine.fixed_point`): 20 bits of slack, and
where somebody's number does not fit for the second time, all agree on sizes. In longer messages
they do so at first; one that is longer by a few numbers takes the sizes of the last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from dual2.engine.accumulators import LIMBS, MOST_AGENTS, accumulate_rows, round_words
from dual2.engine.fixed_point import (
    INFINITE,
    LOWEST,
    STEP,
    UNKNOWN,
    add_words,
    decode_words,
    encode_rows,
    find_levels,
)
from dual2.errors import PeerError
from dual2.network import AnyNetwork
from dual2.runtime.comm_mode import SETUP, CommMode, ExactRanges, NanPolicy
from dual2.runtime.tree import Route, SendRecv, combine

Array = np.ndarray
Encode = Callable[[Array], bool]
"""Adds a process's numbers to words (width, limbs), and says whether they fit."""
Decode = Callable[[Array, Array, int], None]
"""Writes the doubles nearest to some words into an array; from which column on they are."""
MOST_LEVELS = 4096
"""Most sizes that are told for one message; in a longer one neighbouring columns share one."""
SLACK = 20
"""Bits of a range above what it was agreed for, if later sums are to use it too."""
LONGEST = 8192
"""Most columns whose sum is formed without knowing their sizes."""
_NEAR = 16
"""Of so many sizes the largest is taken for those that do not show."""
_MORE = 64
"""A long message may be longer than another by so many numbers and have its sizes."""
_BITS = 126
"""Bits of a word below its sign and one bit of room."""


class Adder(Protocol):
    """What exact sums ask of the processes."""

    def add_encoded(
        self, shape: tuple[int, int], encode: Encode, decode: Decode, network: AnyNetwork
    ) -> tuple[Array, bool]:
        """Sum of numbers of some words over the processes, decoded, and whether all fitted."""
        ...

    def max_levels(self, levels: Array, network: AnyNetwork) -> Array:
        """Largest levels over the processes."""
        ...


class ExactSums:
    """Sums of doubles over all agents, each rounded once.

    Sums that have room for any double equal :func:`math.fsum`. Where sizes are known the error is
    below n·2⁻¹²³ of the range 2^e: with n = 8 agents a sum equals it if no entry but 0 is below
    2^(e-70), 21 decades.

    Examples
    --------
    >>> from dual2.network import Network
    >>> from dual2.runtime import Transport
    >>> pair = Network([(0, 1)])
    >>> ExactSums(Transport()).sum(np.array([[1e20, 0.1], [1.0, 0.2]]), pair).tolist()
    [1e+20, 0.30000000000000004]
    """

    def __init__(self, adder: Adder) -> None:
        self.adder = adder
        self._known: dict[int, Array] = {}
        self._places: dict[int, tuple[Any, ...]] = {}
        self._missed: set[int] = set()

    def sum(self, rows: Array, network: AnyNetwork, mode: CommMode = SETUP) -> Array:
        """Column sums over the agents of all processes; ``rows`` are those of here."""
        rows = np.ascontiguousarray(rows, dtype=np.float64)
        width = rows.shape[1]
        block = max(1, -(-width // MOST_LEVELS))
        reuse = mode.exact_ranges is ExactRanges.REUSE
        known = self._sizes(width, block) if reuse else None
        if known is not None:
            total, fits = self._add(rows, block, known, network, mode)
            if fits:
                return total
        if known is None or width not in self._missed:
            total, fits = self._add_any(rows, block, known, network, reuse)
            if fits:
                return total
        levels = np.zeros(-(-width // block), np.int64)
        find_levels(rows, block, levels)
        levels = self.adder.max_levels(levels, network)
        finite = np.where(levels < INFINITE, levels, 0)
        if known is not None:
            finite = np.maximum(finite, known)
        if reuse:
            self._known[width] = finite
        sizes = np.where(levels < INFINITE, finite, levels)
        total, fits = self._add(rows, block, sizes, network, mode)
        if not fits:
            raise PeerError(
                "Numbers of a sum do not fit into the range that all have just agreed on. Another "
                "process computes differently, or is at fault."
            )
        return total

    def _sizes(self, width: int, block: int) -> Array | None:
        """Sizes of the numbers of a message, by the last one of that length or a little less."""
        known = self._known.get(width)
        if known is not None or width <= LONGEST:
            return known
        count = -(-width // block)
        for last, known in reversed(self._known.items()):
            if 0 < width - last <= _MORE and -(-last // MOST_LEVELS) == block:
                return np.append(known, np.full(count - len(known), known[-_NEAR:].max()))
        return None

    def _add_any(
        self, rows: Array, block: int, known: Array | None, network: AnyNetwork, reuse: bool
    ) -> tuple[Array, bool]:
        """The sum of any doubles, unless there are too many; whether all are finite."""
        width = rows.shape[1]
        if width > LONGEST or network.n > MOST_AGENTS:
            return np.empty(width), False
        encode = lambda words: bool(accumulate_rows(rows, words))  # noqa: E731
        decode = lambda words, out, _: round_words(words, out)  # noqa: E731
        total, fits = self.adder.add_encoded((width, LIMBS), encode, decode, network)
        if fits and reuse:
            guess = guess_levels(total, block)
            self._known[width] = guess if known is None else np.maximum(known, guess)
            self._missed |= {width} if known is not None else set()
        return total, fits

    def _add(
        self, rows: Array, block: int, levels: Array, network: AnyNetwork, mode: CommMode
    ) -> tuple[Array, bool]:
        width = rows.shape[1]
        slack = SLACK if mode.exact_ranges is ExactRanges.REUSE else 0
        places, finite = self._places_of(levels, network.n, slack)
        encode = lambda words: encode_rows(rows, places, block, words)  # noqa: E731
        decode = lambda words, out, first: decode_words(words, places, block, out, first)  # noqa: E731
        total, fits = self.adder.add_encoded((width, 2), encode, decode, network)
        if not finite:
            kinds = np.repeat(levels, block)[:width]
            total[kinds == INFINITE] = np.inf
            total[kinds == UNKNOWN] = np.inf if mode.nan_policy is NanPolicy.RAISE else np.nan
        return total, fits

    def _places_of(self, levels: Array, n: int, slack: int) -> tuple[Array, bool]:
        """``places_of`` the levels, usually those of the last sum; whether all are finite."""
        known = self._places.get(len(levels))
        if known is None or known[0] is not levels or known[1] != (n, slack):
            places = places_of(levels, n, slack)
            known = levels, (n, slack), (places, bool(places[:, 1].all()))
            self._places[len(levels)] = known
        return known[2]


def guess_levels(total: Array, block: int) -> Array:
    """Sizes of the next parts, by a total; where it is 0, they are taken for those around.

    Examples
    --------
    >>> guess_levels(np.array([1.0, 0.0, 1e-30]), 1).tolist()
    [135, 135, 122]
    """
    levels = np.zeros(-(-len(total) // block), np.int64)
    find_levels(total[None], block, levels)
    levels[levels >= INFINITE] = 0
    near = np.maximum.reduceat(levels, np.arange(0, len(levels), _NEAR))
    return np.where(levels > 0, levels, np.repeat(near, _NEAR)[: len(levels)])


def places_of(levels: Array, n: int, slack: int = 0) -> Array:
    """s of each block, whether it has finite numbers at all, and e; as ``encode_rows`` takes them.

    Examples
    --------
    >>> places_of(np.array([135, INFINITE]), 8, SLACK).tolist()
    [[97, 1, 26], [0, 0, 0]]
    """
    limit = STEP * levels.astype(np.int64) + LOWEST + slack
    table = np.column_stack([_BITS - (n - 1).bit_length() - limit, levels < INFINITE, limit])
    table[levels >= INFINITE] = 0
    return np.ascontiguousarray(table, dtype=np.int64)


class _WordSum:
    """Addition of whole numbers in the place of a NumPy operation; rows are words as doubles."""

    def __init__(self, limbs: int) -> None:
        self.limbs = limbs

    def at(self, total: Array, parents: Array, rows: Array) -> None:
        """total[parents] += rows."""
        for parent, row in zip(parents, rows, strict=True):
            add_words(_words_of(total[parent], self.limbs), _words_of(row, self.limbs))


def add_on_route(
    route: Route, sendrecv: SendRecv, own: int, words: Array, fits: bool
) -> tuple[Array, bool]:
    """Sum of words along the tree, for a process with ``own`` agents; whether all fitted."""
    limbs = words.shape[1]
    rows = np.zeros((own, words.size + limbs))
    _words_of(rows[0], limbs)[:-1] = words
    _words_of(rows[0], limbs)[-1, 0] = not fits
    total = _words_of(combine(route, _WordSum(limbs), rows, sendrecv), limbs)
    return total[:-1], not total[-1].any()


def _words_of(row: Array, limbs: int) -> Array:
    """The words (width, limbs) in a row of doubles that only carries their bits."""
    return row.view(np.uint64).reshape(-1, limbs)
