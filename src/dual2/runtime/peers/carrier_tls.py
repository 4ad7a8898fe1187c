"""Connections over TLS 1.3 with certificates at both ends, exactly those of the study.

Who comes is accepted plainly and then secured, so that a refused handshake has a reason that can be
logged. Nothing is read before: what somebody on the way puts in front of a handshake is part of it,
and refused.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any, cast

from dual2.runtime.peers import carrier
from dual2.runtime.peers.carrier import BUFFER, PARTING, Neighbour, Welcome
from dual2.runtime.peers.crash_points import passing
from dual2.runtime.peers.frames import HEADER_SIZE, Frame, filled, parse_header
from dual2.runtime.peers.identity import fingerprint


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


class Connection(asyncio.Protocol):
    """One connection to a party whose certificate is known.

    Bytes become frames as they come. Those that nobody has asked for yet are few: beyond
    ``BUFFER`` bytes nothing more is read.
    """

    def __init__(self, limit: int, dead: float) -> None:
        self._limit, self._dead, self._loop = limit, dead, asyncio.get_running_loop()
        self.heard = self._loop.time()
        self._transport: asyncio.Transport | None = None
        self._data, self._head = bytearray(), None
        self._frames: deque[Frame] = deque()
        self._waiting = 0
        self._over, self._wrong = False, None
        self._news: asyncio.Future[None] | None = None
        self._room, self._ended = asyncio.Event(), asyncio.Event()
        self._room.set()

    _head: Frame | None
    _hear: Callable[[Frame], None] | None = None
    _wrong: Exception | None

    def begin(self, transport: asyncio.BaseTransport | None) -> "Connection":
        """Use a secured transport; None is one that was lost meanwhile."""
        if transport is None or transport.is_closing() or self._over:
            raise ConnectionResetError("the connection was lost in the handshake")
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=BUFFER)
        return self

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the other end's certificate."""
        secured = self._transport and self._transport.get_extra_info("ssl_object")
        return fingerprint((secured and secured.getpeercert(True)) or b"")

    @property
    def address(self) -> str:
        """Where the other end is."""
        found = self._transport and self._transport.get_extra_info("peername")
        return f"{found[0]}:{found[1]}" if found else "?"

    # -- three calls ---------------------------------------------------------------------------
    def put(self, *parts: bytes) -> bool:
        """Write a frame if there is room; whether it was written."""
        if self._transport is None or self._over or self._transport.is_closing():
            raise ConnectionResetError("the connection is lost")
        if not self._room.is_set():
            return False
        passing("before send")
        self._transport.writelines(parts)
        passing("after send")
        return True

    async def send(self, *parts: bytes) -> None:
        """Write a frame; an error if the other end takes none of it for too long."""
        while not self.put(*parts):
            async with asyncio.timeout(self._dead):
                await self._room.wait()

    async def receive(self) -> Frame | None:
        """The next frame, None at the end of the stream."""
        while not self._frames:
            if self._wrong is not None:
                raise self._wrong
            if self._over:
                return None
            self._news = self._loop.create_future()
            await self._news
        frame = self._frames.popleft()
        before, self._waiting = self._waiting, self._waiting - HEADER_SIZE - frame.length
        if before > BUFFER >= self._waiting and self._transport is not None:
            self._transport.resume_reading()
        passing("after receive")
        return frame

    async def listen(self, hear: Callable[[Frame], None]) -> None:
        """Hand over each frame as soon as it is there, to the end of the stream."""
        while self._frames:
            frame = await self.receive()
            assert frame is not None
            hear(frame)
        self._hear = hear
        while await self.receive() is not None:
            raise AssertionError("frames are handed over")

    def close(self) -> None:
        """End the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    async def finish(self) -> None:
        """Write what is left, then end it."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.close()
            async with asyncio.timeout(PARTING):
                await self._ended.wait()

    # -- called by the transport -----------------------------------------------------------------
    def data_received(self, data: bytes) -> None:
        """Some bytes came."""
        if self._wrong is not None:
            return
        self._data += data
        try:
            while self._wrong is None and self._cut():
                pass
        except Exception as error:  # for whoever receives or listens
            self._wrong = error
            self._data.clear()
        if self._wrong is not None or self._frames:
            self._tell()

    def _cut(self) -> bool:
        """Take a frame off the front of the bytes; whether there was one."""
        if self._head is None:
            if len(self._data) < HEADER_SIZE:
                return False
            self._head = parse_header(bytes(self._data[:HEADER_SIZE]), self._limit)
        end = HEADER_SIZE + self._head.length
        if len(self._data) < end:
            return False
        with memoryview(self._data) as view:
            frame = filled(self._head, bytes(view[HEADER_SIZE:end]))
        del self._data[:end]
        self._head, self.heard = None, self._loop.time()
        if self._hear is not None:
            passing("after receive")
            self._hear(frame)
            return True
        self._frames.append(frame)
        before, self._waiting = self._waiting, self._waiting + end
        if before <= BUFFER < self._waiting and self._transport is not None:
            self._transport.pause_reading()
        return True

    def _tell(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def pause_writing(self) -> None:
        """The other end is slow."""
        self._room.clear()

    def resume_writing(self) -> None:
        """There is room again."""
        self._room.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        self._over = True
        self._room.set()
        self._ended.set()
        self._tell()


class _Door(asyncio.Protocol):
    """A plain connection that is not read from before it is secured."""

    def __init__(self, owner: "TlsCarrier", welcome: Welcome) -> None:
        self._owner, self._welcome = owner, welcome

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        plain = cast(asyncio.Transport, transport)
        plain.pause_reading()
        self._owner.begin(self._welcome(_Caller(plain, self._owner)))


class _Caller:
    """Who has just connected."""

    def __init__(self, plain: asyncio.Transport, owner: "TlsCarrier") -> None:
        self._plain, self._owner = plain, owner
        self._connection: Connection | None = None
        self.address = str((plain.get_extra_info("peername") or "?")[0])

    async def secure(self) -> Connection:
        """Shake hands; ``ssl.SSLError`` says what was refused."""
        self._connection = self._owner.connection()
        secured = await asyncio.get_running_loop().start_tls(
            self._plain,
            self._connection,
            self._owner.server,
            server_side=True,
            ssl_handshake_timeout=carrier.HANDSHAKE,
        )
        return self._connection.begin(secured)

    def leave(self) -> None:
        """End it, also if it has ended."""
        if self._connection is not None:
            self._connection.close()
        self._plain.abort()


class TlsCarrier:
    """Connections over TLS 1.3.

    Parameters
    ----------
    server, client : ssl.SSLContext
        For who comes, and for dialling.
    limit : int
        Most bytes of the payload of a frame.
    dead : float
        Seconds in which the other end has to take what is written.
    """

    def __init__(
        self, server: ssl.SSLContext, client: ssl.SSLContext, limit: int, dead: float
    ) -> None:
        self.server, self.client, self.limit, self.dead = server, client, limit, dead
        self._listening: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def connection(self) -> Connection:
        """A connection that has yet to begin."""
        return Connection(self.limit, self.dead)

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something beside."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def listen(self, address: tuple[str, int], welcome: Welcome) -> int:
        """Welcome visitors from now on; the port."""
        loop = asyncio.get_running_loop()
        self._listening = await loop.create_server(lambda: _Door(self, welcome), *address)
        return self._listening.sockets[0].getsockname()[1]

    async def dial(self, neighbour: Neighbour) -> Connection:
        """Connect to a listening party."""
        assert neighbour.address is not None
        return await dial(neighbour.address, self.client, self.limit, self.dead)

    async def stop(self) -> None:
        """Welcome nobody any more."""
        if self._listening is not None:
            self._listening.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0.01)  # what was aborted closes its socket in the next turns


async def dial(
    address: tuple[str, int], context: ssl.SSLContext, limit: int, dead: float
) -> Connection:
    """Connect to a listening party; ``ssl.SSLError`` says why it cannot be trusted."""
    loop, most = asyncio.get_running_loop(), carrier.HANDSHAKE
    async with asyncio.timeout(2 * most):
        transport, connection = await loop.create_connection(
            lambda: Connection(limit, dead), *address, ssl=context, ssl_handshake_timeout=most
        )
    try:
        return connection.begin(transport)
    except OSError:
        transport.abort()
        raise
