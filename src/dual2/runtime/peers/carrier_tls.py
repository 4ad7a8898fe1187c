"""Connections: asyncio streams over TLS 1.3, certificates at both ends, exactly those of the study.

Three calls: ``send``, ``receive``, ``close``. A connection is accepted plainly and then secured, so
that a refused handshake has a reason that can be logged.
"""

import asyncio
import socket
import ssl
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from dual2.runtime.peers.crash_points import passing
from dual2.runtime.peers.frames import HEADER_SIZE, Frame, filled, parse_header
from dual2.runtime.peers.identity import fingerprint

HANDSHAKE = 5.0
"""Seconds for the TLS handshake, and again for the first frame."""
BUFFER = 1 << 20
"""Bytes that wait to be written, or to be read, before the other side has to wait."""
_PARTING = 0.3
"""Seconds for the other end to close as well."""


def make_context(
    key: Path, certificate: Path, trusted: Iterable[bytes], server: bool
) -> ssl.SSLContext:
    """TLS 1.3 with both certificates, no resumption; only the ``trusted`` certificates (DER)."""
    side = ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT
    context = ssl.SSLContext(side)
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # the certificate itself is pinned
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_cert_chain(certificate, key)
    context.load_verify_locations(cadata="".join(map(ssl.DER_cert_to_PEM_cert, trusted)))
    if server:
        context.num_tickets = 0
    return context


def abort(writer: asyncio.StreamWriter) -> None:
    """End a connection at once, also one that has ended."""
    with suppress(AttributeError):  # of early Pythons 3.11, if the secured connection is lost
        writer.transport.abort()


class Connection:
    """One connection to a party whose certificate is known."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limit: int, dead: float
    ) -> None:
        self._reader, self._writer, self._limit, self._dead = reader, writer, limit, dead
        self.heard = asyncio.get_running_loop().time()
        plain = writer.get_extra_info("socket")
        if plain is not None:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the other end's certificate."""
        secured = self._writer.get_extra_info("ssl_object")
        return fingerprint(secured.getpeercert(True) or b"")

    @property
    def address(self) -> str:
        """Where the other end is."""
        found = self._writer.get_extra_info("peername")
        return f"{found[0]}:{found[1]}" if found else "?"

    async def send(self, *parts: bytes) -> None:
        """Write a frame; an error if the other end takes none of it for too long."""
        passing("before send")
        try:
            self._writer.writelines(parts)
            waiting = self._writer.transport.get_write_buffer_size()
        except AttributeError as error:  # as in ``abort``
            raise ConnectionResetError("the connection is lost") from error
        if waiting > BUFFER:
            async with asyncio.timeout(self._dead):
                await self._writer.drain()
        passing("after send")

    async def receive(self) -> Frame | None:
        """The next frame, None at the end of the stream."""
        try:
            data = await self._reader.readexactly(HEADER_SIZE)
        except asyncio.IncompleteReadError:
            return None
        header = parse_header(data, self._limit)
        payload = await self._reader.readexactly(header.length) if header.length else b""
        self.heard = asyncio.get_running_loop().time()
        passing("after receive")
        return filled(header, payload)

    def close(self) -> None:
        """End the connection at once."""
        abort(self._writer)

    async def finish(self) -> None:
        """Write what is left, then end it."""
        self._writer.close()
        async with asyncio.timeout(_PARTING):
            await self._writer.wait_closed()


async def secure(
    streams: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    context: ssl.SSLContext,
    limit: int,
    dead: float,
) -> Connection:
    """Shake hands on a plain connection; ``ssl.SSLError`` says what was refused."""
    reader, writer = streams
    await writer.start_tls(context, server_hostname=None, ssl_handshake_timeout=HANDSHAKE)
    return Connection(reader, writer, limit, dead)


async def dial(
    address: tuple[str, int], context: ssl.SSLContext, limit: int, dead: float
) -> Connection:
    """Connect to a listening party."""
    async with asyncio.timeout(HANDSHAKE):
        streams = await asyncio.open_connection(*address, limit=BUFFER)
    try:
        return await secure(streams, context, limit, dead)
    except BaseException:
        abort(streams[1])
        raise
