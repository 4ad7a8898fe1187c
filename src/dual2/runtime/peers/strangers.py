"""Who knocks: few at once that are not known yet, and few lines about anybody in the log."""

import asyncio
import time
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

MOST_STRANGERS = 64
"""Most connections at once whose other end is not known yet."""
_LINES, _PER_SECOND = 100, 1.0
"""Lines that may be written about somebody at once, and how soon there is room for more."""


class Sparing:
    """Tells an audit log of events, but not of each: nobody who knocks must fill the disk.

    Parameters
    ----------
    audit : callable
        Told of the events for which there is room; how many were left out comes with the next.

    Examples
    --------
    >>> lines = []
    >>> log = Sparing(lambda event, **details: lines.append(event))
    >>> for _ in range(1000):
    ...     log("link_up")
    >>> 100 <= len(lines) < 200
    True
    """

    def __init__(self, audit: Callable[..., None]) -> None:
        self._audit = audit
        self._room, self._seen, self._left_out = float(_LINES), time.monotonic(), 0

    def __call__(self, event: str, **details: Any) -> None:
        """Log an event, unless there were many of late."""
        now = time.monotonic()
        self._room = min(_LINES, self._room + _PER_SECOND * (now - self._seen))
        self._seen = now
        if self._room < 1.0:
            self._left_out += 1
            return
        self._room -= 1.0
        more = {"left_out": self._left_out} if self._left_out else {}
        self._left_out = 0
        self._audit(event, **details, **more)


class Strangers:
    """Those whose identity is not known yet.

    Where there are too many, the one that has taken longest goes: whoever floods the door cannot
    keep those out that are known within milliseconds.

    Parameters
    ----------
    audit : callable
        Told of events, sparingly.
    """

    def __init__(self, audit: Callable[..., None]) -> None:
        self.log = Sparing(audit)
        self._inside: dict[asyncio.Task[Any], str] = {}

    @contextmanager
    def inside(self, address: str):
        """The present task, as long as it deals with a stranger."""
        task = asyncio.current_task()
        assert task is not None
        self._inside[task] = address
        if len(self._inside) > MOST_STRANGERS:
            oldest = next(iter(self._inside))
            self.log("refused", address=self._inside.pop(oldest), why="too many strangers")
            oldest.cancel()
        try:
            yield
        finally:
            self._inside.pop(task, None)
