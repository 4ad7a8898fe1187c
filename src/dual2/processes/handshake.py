"""What the processes tell each other before iteration 0: that they mean the same run."""

from collections import Counter
from collections.abc import Mapping

import numpy as np

from dual2.errors import Dual2Error
from dual2.files import DIGEST_SIZE
from dual2.runtime import Transport

NONE = -1
"""Newest checkpoint of a process that has none."""


def shake_hands(transport: Transport, means: Mapping[str, bytes], newest: int) -> int:
    """Compare hashes with all processes; the newest checkpoint that everyone may have.

    Each process sends ``16·len(means) + 8`` bytes to every other, once: for what must be the same
    everywhere (``means``: in words) its :func:`dual2.files.digest`, and the round of its ``newest``
    checkpoint, ``NONE`` without one. The smallest round of all processes is returned.

    Examples
    --------
    >>> from dual2.runtime import find_transport
    >>> shake_hands(find_transport("stacked"), {"partition": bytes(16)}, 700)
    700
    """
    own = np.frombuffer(b"".join(means.values()) + newest.to_bytes(8, "little", signed=True), "u1")
    every = transport.allgather(own, "greeting")
    for k, what in enumerate(means):
        part = slice(DIGEST_SIZE * k, DIGEST_SIZE * (k + 1))
        _demand_equal(what, [row[part].tobytes() for row in every])
    return min(int.from_bytes(row[-8:].tobytes(), "little", signed=True) for row in every)


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
