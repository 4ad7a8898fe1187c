"""What carries frames between two parties: three calls, whatever the protocol below.

``send``, ``receive`` and ``close`` of a :class:`Connection`, the first also for whoever does not
wait (``put``), the second for all that comes (``listen``). A :class:`WireTransport` makes
connections: it dials, and it hands over each accepted one as a :class:`PendingConnection`.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

from dual2.runtime.peers.frames import Bytes, Frame

HANDSHAKE_SECONDS = 5.0
"""Seconds for the TLS handshake, and again for the first frame."""
BUFFER_BYTES = 1 << 20
"""Bytes that wait to be written, or to be read, before the other side has to wait."""
PARTING_SECONDS = 0.3
"""Seconds for the other end to close as well."""

Reading = tuple[int, Callable[[], None]]
"""The descriptor of a file, and what reads from it."""


@dataclass(frozen=True)
class Neighbour:
    """A party at the other end of a link; ``address`` is where this party dials it."""

    number: int
    name: str
    fingerprints: tuple[str, ...]
    address: tuple[str, int] | None = None


class Connection(Protocol):
    """One connection to a party that has shown a certificate.

    Attributes
    ----------
    heard : float
        When the last whole frame came, by the clock of the loop.
    fingerprint, address : str
        SHA-256 of the other end's certificate, and where it is.
    reading : Reading or None
        How to read when something has come, where there is a file.
    """

    heard: float
    fingerprint: str
    address: str
    reading: Reading | None

    @property
    def idle(self) -> bool:
        """Whether all that was put is on its way."""
        ...

    def put(self, head: bytes, payload: Bytes = b"") -> bool:
        """Write a frame if that needs no waiting; whether it was written."""
        ...

    async def send(self, head: bytes, payload: Bytes = b"") -> None:
        """Write a frame; an error if the other end takes none of it for too long."""
        ...

    async def receive(self) -> Frame | None:
        """The next frame, None at the end of the stream."""
        ...

    async def listen(self, hear: Callable[[Frame], None]) -> None:
        """Hand over each frame that comes, to the end of the stream."""
        ...

    def close(self) -> None:
        """End the connection at once."""
        ...

    async def finish(self) -> None:
        """Write what is left, then end it."""
        ...


class PendingConnection(Protocol):
    """An accepted connection that has not authenticated yet; its data must not be trusted."""

    address: str

    async def secure(self) -> Connection:
        """Shake hands; ``ssl.SSLError`` says what was refused."""
        ...

    def leave(self) -> None:
        """End it, also if it has ended."""
        ...


AcceptHandler = Callable[[PendingConnection], Coroutine[Any, Any, None]]
"""Deals with an accepted connection to its end."""


class WireTransport(Protocol):
    """Makes connections; used in one event loop.

    Attributes
    ----------
    limit : int
        Most bytes of the payload of a frame.
    """

    limit: int

    async def listen(self, address: tuple[str, int], accepted: AcceptHandler) -> int:
        """Hand over who connects from now on; the port."""
        ...

    async def dial(self, neighbour: Neighbour) -> Connection:
        """Connect to a party that listens, whose certificate is one of the neighbour's."""
        ...

    async def stop(self) -> None:
        """Accept nobody any more."""
        ...
