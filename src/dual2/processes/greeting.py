"""What the processes tell each other before iteration 0: that they mean the same run."""

import hashlib
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from dual2.errors import Dual2Error
from dual2.runtime.mpi import Mpi

_SIZE = 16
NONE = -1
"""Newest checkpoint of a process that has none."""


def digest(*parts: Any) -> bytes:
    """16 bytes that differ if the parts do."""
    total = hashlib.blake2b(digest_size=_SIZE)
    for part in parts:
        data = part if isinstance(part, bytes) else repr(part).encode()
        total.update(len(data).to_bytes(8, "little") + data)
    return total.digest()


def greet(place: Mpi, means: Mapping[str, bytes], newest: int) -> int:
    """Compare hashes with all processes; the newest checkpoint that everyone may have.

    Each process sends ``16·len(means) + 8`` bytes to every other, once.

    Parameters
    ----------
    place : Mpi
        All processes.
    means : mapping of str to bytes
        What must be the same everywhere, in words, and its :func:`digest`.
    newest : int
        Round of this process's newest checkpoint, ``NONE`` without one.

    Returns
    -------
    int
        Smallest ``newest`` of all processes.
    """
    own = np.frombuffer(b"".join(means.values()) + newest.to_bytes(8, "little", signed=True), "u1")
    every = place.everyone(own, "greeting")
    for k, what in enumerate(means):
        hashes = [row[_SIZE * k : _SIZE * (k + 1)].tobytes() for row in every]
        _demand_equal(what, hashes)
    rounds = [int.from_bytes(row[-8:].tobytes(), "little", signed=True) for row in every]
    return min(rounds)


def _demand_equal(what: str, hashes: list[bytes]) -> None:
    usual = Counter(hashes).most_common(1)[0][0]
    odd = [str(rank) for rank, found in enumerate(hashes) if found != usual]
    if odd:
        one = len(odd) == 1
        raise Dual2Error(
            f"rank{'' if one else 's'} {', '.join(odd)} {'has' if one else 'have'} another {what} "
            f"than the other{'' if len(hashes) - len(odd) == 1 else 's'}: nothing was computed. "
            "Give every process the same."
        )
