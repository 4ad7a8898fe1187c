"""Exact sums: the same bits whoever adds first, in one process, in several, and between parties.

Before numbers become whole ones (:mod:`dual2.engine.fixed_point`) all agree on their sizes, column
by column: once for each length of message during the iterations, with 20 bits of slack, and again
when somebody's number does not fit. Outside the iterations every sum agrees anew.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

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
from dual2.runtime.tree import Route, Swap, combine

Array = np.ndarray
MOST_LEVELS = 4096
"""Most sizes that are told for one message; in a longer one neighbouring columns share one."""
SLACK = 20
"""Bits of a range above what it was agreed for, if later sums are to use it too."""
_BITS = 126
"""Bits of a word below its sign and one bit of room."""


class Adder(Protocol):
    """What exact sums ask of the processes."""

    strict: bool

    def add_words(self, words: Array, fits: bool, network: AnyNetwork) -> tuple[Array, bool]:
        """Sum modulo 2¹²⁸ over the processes, and whether the numbers of all fitted."""
        ...

    def max_levels(self, levels: Array, network: AnyNetwork) -> Array:
        """Largest levels over the processes."""
        ...


class ExactSums:
    """Sums of doubles over all agents, each rounded once.

    The error is below n·2⁻¹²³ of the range 2^e that was agreed on. With n = 8 agents a sum equals
    :func:`math.fsum` if no entry but 0 is below 2^(e-70): 21 decades. The largest entry is above
    2^(e-8), during the iterations above 2^(e-28) at first.

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

    def sum(self, rows: Array, network: AnyNetwork) -> Array:
        """Column sums over the agents of all processes; ``rows`` are those of here."""
        rows = np.ascontiguousarray(rows, dtype=np.float64)
        width = rows.shape[1]
        block = max(1, -(-width // MOST_LEVELS))
        known = self._known.get(width) if self.adder.strict else None
        if known is not None:
            total, fits = self._add(rows, block, known, network)
            if fits:
                return total
        levels = np.zeros(-(-width // block), np.int64)
        find_levels(rows, block, levels)
        levels = self.adder.max_levels(levels, network)
        finite = np.where(levels < INFINITE, levels, 0)
        if known is not None:
            finite = np.maximum(finite, known)
        if self.adder.strict:
            self._known[width] = finite
        total, fits = self._add(rows, block, np.where(levels < INFINITE, finite, levels), network)
        if not fits:
            raise PeerError(
                "Numbers of a sum do not fit into the range that all have just agreed on. Another "
                "process computes differently, or is at fault."
            )
        return total

    def _add(
        self, rows: Array, block: int, levels: Array, network: AnyNetwork
    ) -> tuple[Array, bool]:
        width, slack = rows.shape[1], SLACK if self.adder.strict else 0
        places = places_of(levels, network.n, slack)
        words, total = np.zeros((width, 2), np.uint64), np.empty(width)
        fits = bool(encode_rows(rows, places, block, words))
        words, fits = self.adder.add_words(words, fits, network)
        decode_words(words, places, block, total)
        if (levels >= INFINITE).any():
            kinds = np.repeat(levels, block)[:width]
            total[kinds == INFINITE] = np.inf
            total[kinds == UNKNOWN] = np.inf if self.adder.strict else np.nan
        return total, fits


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
    """Addition modulo 2¹²⁸ in the place of a NumPy operation; rows are words seen as doubles."""

    @staticmethod
    def at(total: Array, parents: Array, rows: Array) -> None:
        """total[parents] += rows."""
        for parent, row in zip(parents, rows, strict=True):
            add_words(_words_of(total[parent]), _words_of(row))


def add_on_route(
    route: Route, swap: Swap, own: int, words: Array, fits: bool
) -> tuple[Array, bool]:
    """Sum of words along the tree, for a process with ``own`` agents; whether all fitted."""
    rows = np.zeros((own, 2 * len(words) + 2))
    _words_of(rows[0])[:-1] = words
    _words_of(rows[0])[-1] = (not fits, 0)
    total = _words_of(combine(route, _WordSum, rows, swap))
    return total[:-1], not total[-1].any()


def _words_of(row: Array) -> Array:
    """The words (width, 2) in a row of doubles that only carries their bits."""
    return row.view(np.uint64).reshape(-1, 2)
