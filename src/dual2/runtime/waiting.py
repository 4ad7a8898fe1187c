"""Waiting for neighbours with a deadline: one that is gone is an error with its name.

Who waits polls, and offers the processor to others between two polls. Where it is free that costs
nothing. Where other programs keep it busy, each offer costs a time slice of theirs, thousands of
exchanges long; so after a few such losses this process sleeps between polls instead: a sleeper
that wakes up comes first.
"""

import os
from collections.abc import Callable, Sequence
from time import monotonic, sleep
from typing import Any

from dual2.errors import PeerError

TIMEOUT = 60.0
"""Seconds after which a neighbour that does not answer is given up, unless told otherwise."""
_POLLING = 1e-3
"""Seconds after which polling ends and sleeping begins, whatever the machine does."""
_OFFER = 1e-4
"""Seconds from which an offer of the processor counts as lost time."""
_CROWDED, _WAITS, _REMEMBERED = 1e-3, 50, 0.5
"""Lost seconds per wait, averaged over about so many, that show a crowded machine; and the seconds
for which that is remembered."""
_PART, _SHORTEST, _LONGEST = 0.1, 1e-6, 1e-3
"""A nap takes this part of the time waited so far, within bounds."""

_STOPPED = 1.0
"""Seconds between two looks at a clock beyond which this process itself has been stopped."""

_yield = getattr(os, "sched_yield", lambda: sleep(0))


class Machine:
    """What waiting has shown about this machine: whether others keep its processors busy."""

    crowded_until = 0.0
    _lost = 0.0

    def poll(self, complete: Callable[[Any], bool], requests: Sequence[Any], now: float) -> bool:
        """Poll for a short time; whether the requests are complete."""
        end, lost = now + _POLLING, 0.0
        while not (done := complete(requests)) and now < end:
            _yield()
            before, now = now, monotonic()
            lost += now - before if now - before > _OFFER else 0.0
        self._lost += (lost - self._lost) / _WAITS
        if self._lost > _CROWDED:
            self._lost, self.crowded_until = _CROWDED, now + _REMEMBERED
        return done


_machine = Machine()


class Awake:
    """A clock for deadlines that stands still while this process is stopped.

    Someone may suspend a run (Ctrl-Z, a debugger, a paused machine) and let it go on an hour later:
    that hour is nobody's fault. It must be read more often than once a second.

    Examples
    --------
    >>> times = iter([10.0, 10.5, 3600.0, 3600.5])
    >>> clock = Awake(lambda: next(times))
    >>> clock(), clock(), clock()
    (10.5, 11.5, 12.0)
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now, self._last, self._stopped = now, now(), 0.0

    def __call__(self) -> float:
        """The monotonic clock, less the seconds for which this process has been stopped."""
        before, self._last = self._last, self._now()
        self._stopped += max(0.0, self._last - before - _STOPPED)
        return self._last - self._stopped


class NeighbourTimeout(PeerError, TimeoutError):
    """A neighbour did not answer in time."""


def wait_all(
    request_type: Any,
    requests: Sequence[Any],
    others: Sequence[int | str],
    seconds: float,
    what: str,
    statuses: Sequence[Any] | None = None,
) -> None:
    """Wait until all requests (of ``MPI.Request``) are complete; poll, for so many seconds at most.

    ``others`` are the other ends of the requests, ranks or words, and ``what`` is exchanged: both
    for the message. ``statuses`` (of ``MPI.Status``) are filled, one for each request.
    """
    complete = request_type.Testall
    if statuses is not None:
        complete = lambda requests: request_type.Testall(requests, statuses)  # noqa: E731
    begun = monotonic()
    if begun >= _machine.crowded_until and _machine.poll(complete, requests, begun):
        return
    clock = Awake(monotonic)
    while (waited := clock() - begun) < seconds:
        sleep(min(max(_PART * waited, _SHORTEST), _LONGEST))
        if complete(requests):
            return
    late = [other for other, r in zip(others, requests, strict=True) if not r.Test()]
    if not late:
        return
    names = ", ".join(f"rank {who}" if isinstance(who, int) else who for who in dict.fromkeys(late))
    raise NeighbourTimeout(
        f"{names} did not answer for {seconds:g} s ({what}). A process may have stopped, be "
        "overloaded or out of reach; allow more time with --timeout (in Python Mpi(timeout=...)) "
        "if it is only slow."
    )
