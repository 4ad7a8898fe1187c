"""Waiting for neighbours with a deadline: one that is gone is an error with its name."""

import os
import time
from collections.abc import Sequence
from typing import Any

from dual2.errors import Dual2Error

TIMEOUT = 60.0
"""Seconds after which a neighbour that does not answer is given up, unless told otherwise."""
_SPINS, _YIELDS = 50, 1000
"""Polls before the processor is offered to others, and before the clock is looked at again."""

_yield = getattr(os, "sched_yield", lambda: time.sleep(0))


class NeighbourTimeout(Dual2Error, TimeoutError):
    """A neighbour did not answer in time."""


def wait_all(
    request_type: Any, requests: Sequence[Any], others: Sequence[int | str], seconds: float,
    what: str,
) -> None:  # fmt: skip
    """Wait until all requests are complete; poll, so that nobody waits for ever.

    Parameters
    ----------
    request_type : type
        ``MPI.Request``.
    requests : sequence of MPI.Request
        Sends and receives of one exchange, persistent or not.
    others : sequence of int or str
        The other end of each request: its rank, or words for it.
    seconds : float
        Longest time to wait; ``inf`` waits for ever.
    what : str
        What is exchanged, for the message.
    """
    complete = request_type.Testall
    for _ in range(_SPINS):
        if complete(requests):
            return
    begun = time.monotonic()
    while time.monotonic() - begun < seconds:
        for _ in range(_YIELDS):
            if complete(requests):
                return
            _yield()
    late = [other for other, r in zip(others, requests, strict=True) if not r.Test()]
    if not late:
        return
    names = ", ".join(f"rank {who}" if isinstance(who, int) else who for who in dict.fromkeys(late))
    raise NeighbourTimeout(
        f"{names} did not answer for {seconds:g} s ({what}). A process may have stopped, be "
        "overloaded or out of reach; allow more time with --timeout (in Python Mpi(timeout=...)) "
        "if it is only slow."
    )
