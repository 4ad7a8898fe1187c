"""Sums that one party alone can read.

Everybody adds its own part in fixed point modulo a power of two, with a public range. The receiver
also adds random words of its own, so that the total is uniformly random to everybody else, and
takes them off again.
"""

import numpy as np

from dual2.engine.fixed_point import add_words, decode_words, encode_rows, subtract_words
from dual2.errors import Refusal
from dual2.learn.vertical.party_file import LearnParty
from dual2.runtime.peers.parties import Parties

Array = np.ndarray
RANGE = 40
"""Parts of a score are below 2^40 in magnitude, for all models: a public range tells nothing."""
TABLE_BITS = 44
"""Binary places after the point of a number of a table: 6e-14, and 2^19 before it less the bits for
the number of parties. Standardised columns times normal numbers stay far below that."""
BLOCK_NUMBERS = 1 << 21
"""Numbers of a table that are summed at a time: 16 MB."""
_NOISE_STREAM, _TABLE_STREAM = 2**62 + 16, 2**62 + 2**20
"""Numbers of the receiver's own random words, apart from those of ordinary sums."""


def sum_for(own: LearnParty, transport: Parties, part: Array, receiver: int, number: int) -> Array:
    """Sum over the parties that only ``receiver`` can read; to others it is random.

    ``number`` tells apart the sums of one run.
    """
    network = own.study.network
    if not np.all(np.abs(part) < 2.0**RANGE):
        raise Refusal(
            f"A part of a sum exceeds 2^{RANGE} in magnitude. Standardise the columns.",
            "its part of a sum is too large.",
        )
    bits = 126 - (network.n - 1).bit_length() - RANGE
    places, words = np.array([[bits, 1, RANGE]]), np.zeros((len(part), 2), np.uint64)
    encode_rows(np.ascontiguousarray(part[None]), places, max(1, len(part)), words)
    noise = transport.own.words(_NOISE_STREAM + number, words.size).reshape(words.shape)
    if receiver == own.party.me:
        add_words(words, noise)
    total, _ = transport.add_words(words, True, network)
    if receiver == own.party.me:
        subtract_words(total, noise)
    answer = np.empty(len(part))
    decode_words(np.ascontiguousarray(total), places, max(1, len(part)), answer, 0)
    return answer


def sum_table_for(own: LearnParty, transport: Parties, table: Array, receiver: int) -> Array:
    """The sum of one table per party, in blocks of rows, for ``receiver`` alone.

    Words have 64 bits. Others get words that are random to them, as numbers of no meaning.
    """
    limit = 2.0 ** (62 - TABLE_BITS - (own.study.network.n - 1).bit_length())
    if not np.all(np.abs(table) < limit):
        raise Refusal(
            f"A prepared column has values so far from its mean that its mixture exceeds {limit:g}."
            " Remove outliers, or merge categories that occur in few rows.",
            "its columns have values that are too far from their means.",
        )
    total, rows = np.empty(table.shape), max(1, BLOCK_NUMBERS // max(1, table.shape[1]))
    for number, first in enumerate(range(0, len(table), rows)):
        part = table[first : first + rows]
        words = np.rint(part * 2.0**TABLE_BITS).astype(np.int64).view(np.uint64).reshape(-1, 1)
        noise = 0
        if receiver == own.party.me:
            noise = transport.own.words(_TABLE_STREAM + number, words.size)[:, None]
        told, _ = transport.add_words(words + noise, True, own.study.network)
        whole = np.ascontiguousarray(told - noise).view(np.int64)
        total[first : first + rows] = (whole * 2.0**-TABLE_BITS).reshape(part.shape)
    return total
