"""Waiting for neighbours with a deadline: one that is gone is an error with its name."""

import os
import time
from collections.abc import Iterable, Sequence
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
    requests: Sequence[Any], others: Sequence[Iterable[int]], seconds: float, what: str
) -> None:
    """Wait until all requests are complete; poll, so that nobody waits for ever.

    Parameters
    ----------
    requests : sequence of MPI.Request
        Sends and receives of one exchange, persistent or not; at least one.
    others : sequence of iterables of int
        The ranks that each request needs.
    seconds : float
        Longest time to wait; ``inf`` waits for ever.
    what : str
        What is exchanged, for the message.
    """
    complete = requests[0].Testall
    for _ in range(_SPINS):
        if complete(requests):
            return
    begun = time.monotonic()
    while time.monotonic() - begun < seconds:
        for _ in range(_YIELDS):
            if complete(requests):
                return
            _yield()
    late = zip(others, requests, strict=True)
    silent = sorted({rank for ranks, request in late if not request.Test() for rank in ranks})
    names = ", ".join(map(str, silent))
    raise NeighbourTimeout(
        f"rank{'' if len(silent) == 1 else 's'} {names} did not answer for {seconds:g} s ({what}). "
        "A process may have stopped, be overloaded or out of reach; allow more time with "
        "--timeout (in Python timeout=) if it is only slow."
    )
