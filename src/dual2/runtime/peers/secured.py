"""A socket after its handshake: TLS in memory, many records to one call of the system.

It takes the place of ``ssl.SSLSocket``, which asks the system twice for each record of 16 kB.
"""

import asyncio
import socket
import ssl
from collections.abc import Iterable

from dual2.runtime.peers.frames import Bytes

_READ_BYTES = 1 << 17
"""Bytes that are encrypted before they are written."""
_ROOM_BYTES = 1 << 18
"""Most bytes that are read before they are decrypted."""


class Secured:
    """TLS over a socket that never waits: ``SSLWantReadError`` and ``SSLWantWriteError`` instead.

    Parameters
    ----------
    plain : socket.socket
        Its connection.
    context : ssl.SSLContext
        What is accepted.
    server : bool
        Whether the other end has dialled.
    name : str, optional
        What is named to the other end (SNI): for which run this is.
    """

    def __init__(
        self, plain: socket.socket, context: ssl.SSLContext, server: bool, name: str | None = None
    ) -> None:
        self._plain, self._incoming, self._outgoing = plain, ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server, name)
        self._room = bytearray(_ROOM_BYTES)
        self._received = memoryview(self._room)
        self._unsent = memoryview(b"")
        self._accepted, self._left = 0, True
        self.fileno, self.getpeername = plain.fileno, plain.getpeername
        self.getpeercert, self.shutdown = self._tls.getpeercert, plain.shutdown

    async def shake_hands(self) -> None:
        """The handshake; ``ssl.SSLError`` says what was refused, the other end is told so too."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                self._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                await loop.sock_sendall(self._plain, self._outgoing.read())
                found = await loop.sock_recv(self._plain, _READ_BYTES)
                self._incoming.write(found) if found else self._incoming.write_eof()
            except ssl.SSLError:
                await loop.sock_sendall(self._plain, self._outgoing.read())
                raise
        await loop.sock_sendall(self._plain, self._outgoing.read())

    def pending(self) -> bool:
        """Whether there may be bytes that have come and were not read, encrypted or not."""
        return self._left

    def recv_into(self, place: memoryview) -> int:
        """Read as many bytes as have come; 0 at the end of the stream."""
        got, size, read = 0, len(place), self._tls.read
        try:
            if not self._left:
                self._receive()
            while True:
                try:
                    count = int(read(size - got, place[got:]))  # type: ignore[arg-type]
                except ssl.SSLWantReadError:
                    self._left = False
                    self._receive()
                    continue
                got += count
                self._left = got == size or self._incoming.pending > 0
                if not count or got == size or not self._left:
                    return got
        except OSError:  # nothing more for now, or the end: the next call says which
            if not got:
                raise
        return got

    def _receive(self) -> None:
        try:
            count = self._plain.recv_into(self._room)
        except (BlockingIOError, InterruptedError):
            raise ssl.SSLWantReadError from None
        if count:
            self._incoming.write(self._received[:count])
        else:
            self._incoming.write_eof()

    def send_whole(self, data: Bytes) -> bool:
        """Write a short piece; whether it has left, else ``send`` is to be called with it."""
        self._tls.write(data)
        unsent = self._outgoing.read()
        try:
            sent = self._plain.send(unsent)
        except (BlockingIOError, InterruptedError):
            sent = 0
        if sent == len(unsent):
            return True
        self._unsent, self._accepted = memoryview(unsent)[sent:], len(data)
        return False

    def send(self, pieces: Iterable[memoryview]) -> int:
        """Write some bytes, and say how many; where it cannot, it is to be called with the same.

        Pieces that follow each other leave together, a header with what it announces.
        """
        if not self._accepted:
            for piece in pieces:
                self._accepted += self._tls.write(piece[: _READ_BYTES - self._accepted])
                if self._accepted == _READ_BYTES:
                    break
            self._unsent = memoryview(self._outgoing.read())
        try:
            while self._unsent:
                self._unsent = self._unsent[self._plain.send(self._unsent) :]
        except (BlockingIOError, InterruptedError):
            raise ssl.SSLWantWriteError from None
        accepted, self._accepted = self._accepted, 0
        return accepted

    def close(self) -> None:
        """End the connection at once."""
        self._plain.close()
