"""Who knocks: few at once that are not known yet, and few lines about anybody in the log."""

import asyncio
import ipaddress
import time
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

MAX_PENDING, MAX_PENDING_PER_ADDRESS = 64, 8
"""Most connections at once whose other end is not known yet, in all and from one address."""
RESERVED_PENDING = 16
"""How many of them are kept for addresses from which a party has come before."""
MAX_KNOWN_ADDRESSES = 256
_BURST_LINES, _LINES_PER_SECOND = 100, 1.0
"""Lines that may be written about somebody at once, and how soon there is room for more."""


class RateLimitedLog:
    """Tells an audit log of events, but not of each: nobody who knocks must fill the disk.

    Parameters
    ----------
    audit : callable
        Told of the events for which there is room; how many were left out comes with the next.

    Examples
    --------
    >>> lines = []
    >>> log = RateLimitedLog(lambda event, **details: lines.append(event))
    >>> for _ in range(1000):
    ...     log("link_up")
    >>> 100 <= len(lines) < 200
    True
    """

    def __init__(self, audit: Callable[..., None]) -> None:
        self._audit = audit
        self._room, self._seen, self._left_out = float(_BURST_LINES), time.monotonic(), 0

    def __call__(self, event: str, **details: Any) -> None:
        """Log an event, unless there were many of late."""
        now = time.monotonic()
        self._room = min(_BURST_LINES, self._room + _LINES_PER_SECOND * (now - self._seen))
        self._seen = now
        if self._room < 1.0:
            self._left_out += 1
            return
        self._room -= 1.0
        more = {"left_out": self._left_out} if self._left_out else {}
        self._left_out = 0
        self._audit(event, **details, **more)


class PendingLimit:
    """Connections whose other end is not known yet: few at once, and few from one address.

    An address has a quota. Where it is used up, the oldest connection of that address goes. Some
    places are kept for addresses from which a party of the study has come before. So neither a
    flood from one address nor one from many keeps a known party out, whose handshake takes a while.

    Parameters
    ----------
    audit : callable
        Told of events, sparingly.
    """

    def __init__(self, audit: Callable[..., None]) -> None:
        self.log = RateLimitedLog(audit)
        self._known: dict[str, None] = {}
        self._inside: dict[asyncio.Task[Any], str] = {}

    def know(self, address: str) -> None:
        """A party of the study has come from this address."""
        self._known.pop(_network(address), None)
        self._known[_network(address)] = None
        if len(self._known) > MAX_KNOWN_ADDRESSES:
            del self._known[next(iter(self._known))]

    @contextmanager
    def inside(self, address: str):
        """The present task, as long as it deals with a stranger."""
        task = asyncio.current_task()
        assert task is not None
        self._inside[task] = _network(address)
        self._make_room(_network(address))
        try:
            yield
        finally:
            self._inside.pop(task, None)

    def _make_room(self, network: str) -> None:
        """End the oldest connection of those that are too many."""
        same = [task for task, one in self._inside.items() if one == network]
        if len(same) > MAX_PENDING_PER_ADDRESS:
            self._end(same[0], "too many strangers from one address")
        unknown = [task for task, one in self._inside.items() if one not in self._known]
        if len(unknown) > MAX_PENDING - RESERVED_PENDING:
            self._end(unknown[0], "too many strangers")
        elif len(self._inside) > MAX_PENDING:
            self._end(next(iter(self._inside)), "too many strangers")

    def _end(self, task: asyncio.Task[Any], why: str) -> None:
        self.log("refused", address=self._inside.pop(task), why=why)
        task.cancel()


def _network(address: str) -> str:
    """An address, of IPv6 the first 64 bits: what one host may choose from counts as one.

    Examples
    --------
    >>> _network("203.0.113.9"), _network("2001:db8::7%eth0"), _network("?")
    ('203.0.113.9', '2001:db8::', '?')
    """
    try:
        found = ipaddress.ip_address(address.strip("[]").partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_address(int(found) >> 64 << 64)) if found.version == 6 else str(found)
