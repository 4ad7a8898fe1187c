"""Connections over TLS 1.3 with certificates at both ends, exactly those of the study.

Who comes is accepted plainly and then secured, so that a refused handshake has a reason that can be
logged. Nothing is read before: what somebody on the way puts in front of a handshake is part of it,
and refused.
"""

import asyncio
import socket
import ssl
from collections.abc import Coroutine, Iterable
from pathlib import Path
from typing import Any

from dual2.runtime.peers import wire_transport
from dual2.runtime.peers.secured import Secured
from dual2.runtime.peers.shared_port import SharedPort
from dual2.runtime.peers.stream_tls import Connection, name_of_peer
from dual2.runtime.peers.wire_transport import AcceptHandler, Neighbour

_QUEUE, _PAUSE = 100, 0.1
"""Connections that wait to be accepted; seconds to wait where none can be."""


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


class _Caller:
    """Who has just connected."""

    def __init__(self, plain: socket.socket, owner: "TlsTransport") -> None:
        self._plain, self._owner = plain, owner
        self._connection: Connection | None = None
        self.address = name_of_peer(plain).rpartition(":")[0] or "?"

    async def secure(self) -> Connection:
        """Shake hands; ``ssl.SSLError`` says what was refused."""
        owner = self._owner
        secured = await shake_hands(self._plain, owner.server, True)
        self._connection = Connection(secured, owner.limit, owner.dead)
        if owner.port is not None:
            owner.port.know(self.address)
        return self._connection

    def leave(self) -> None:
        """End it, also if it has ended."""
        if self._connection is not None:
            self._connection.close()
        self._plain.close()


async def shake_hands(
    plain: socket.socket, context: ssl.SSLContext, server: bool, name: str | None = None
) -> Secured:
    """A socket after the handshake, which takes the place of ``plain``."""
    secured = Secured(plain, context, server, name)
    try:
        async with asyncio.timeout(wire_transport.HANDSHAKE_SECONDS):
            await secured.shake_hands()
    except BaseException as error:
        secured.close()
        if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError | ssl.SSLSyscallError):
            raise ConnectionResetError("the connection was lost in the handshake") from error
        raise
    return secured


class TlsTransport:
    """Connections over TLS 1.3.

    Parameters
    ----------
    server, client : ssl.SSLContext
        For who comes, and for dialling.
    limit : int
        Most bytes of the payload of a frame.
    dead : float
        Seconds in which the other end has to take what is written.
    name : str, optional
        What callers name in their handshake: for which run they come.
    port : SharedPort, optional
        Accepts for this run among others; otherwise it listens alone.
    """

    def __init__(
        self,
        server: ssl.SSLContext,
        client: ssl.SSLContext,
        limit: int,
        dead: float,
        name: str | None = None,
        port: SharedPort | None = None,
    ) -> None:
        self.server, self.client, self.limit, self.dead = server, client, limit, dead
        self.name, self.port = name, port
        self._listening: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a coroutine until :meth:`stop`."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def listen(self, address: tuple[str, int], accepted: AcceptHandler) -> int:
        """Hand over who connects from now on; the port."""
        if self.port is not None and self.name is not None:
            return self._share(self.port, self.name, accepted)
        host, port = address
        found = await asyncio.get_running_loop().getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        try:
            for family, kind, protocol, _, where in dict.fromkeys(found):
                one = socket.socket(family, kind, protocol)
                self._listening.append(one)
                one.setblocking(False)
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                one.bind(where)
                one.listen(_QUEUE)
        except OSError:
            await self.stop()
            raise
        for one in self._listening:
            self.begin(self._accept(one, accepted))
        return self._listening[0].getsockname()[1]

    def _share(self, port: SharedPort, name: str, accepted: AcceptHandler) -> int:
        """Take over those that name this run at a port that several share."""
        loop = asyncio.get_running_loop()

        def take(plain: socket.socket) -> None:
            loop.call_soon_threadsafe(self._receive, plain, accepted)

        port.register(name, take)
        return port.port

    def _receive(self, plain: socket.socket, accepted: AcceptHandler) -> None:
        """Let somebody in who has just connected."""
        _prepare(plain)
        caller = _Caller(plain, self)
        # A task that is cancelled before its first step never reaches its own cleanup.
        self.begin(accepted(caller)).add_done_callback(lambda _, one=caller: one.leave())

    async def _accept(self, listening: socket.socket, accepted: AcceptHandler) -> None:
        loop = asyncio.get_running_loop()
        while True:
            # Not ``sock_accept``: a cancellation just after it has accepted would lose the socket.
            readable = loop.create_future()
            loop.add_reader(listening, _set_once, readable)
            try:
                await readable
            finally:
                loop.remove_reader(listening)
            try:
                plain, _ = listening.accept()
            except BlockingIOError:
                continue
            except OSError:  # the caller has gone, or there are too many files
                await asyncio.sleep(_PAUSE)
                continue
            self._receive(plain, accepted)

    async def dial(self, neighbour: Neighbour) -> Connection:
        """Connect to a listening party."""
        assert neighbour.address is not None
        return await dial(neighbour.address, self.client, self.limit, self.dead, self.name)

    async def stop(self) -> None:
        """Accept nobody any more."""
        if self.port is not None and self.name is not None:
            self.port.unregister(self.name)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for one in self._listening:
            one.close()


def _set_once(readable: asyncio.Future[None]) -> None:
    if not readable.done():
        readable.set_result(None)


async def dial(
    address: tuple[str, int],
    context: ssl.SSLContext,
    limit: int,
    dead: float,
    name: str | None = None,
) -> Connection:
    """Connect to a listening party; ``ssl.SSLError`` says why it cannot be trusted."""
    async with asyncio.timeout(wire_transport.HANDSHAKE_SECONDS):
        plain = await _connect(*address)
    return Connection(await shake_hands(plain, context, False, name), limit, dead)


async def _connect(host: str, port: int) -> socket.socket:
    """A plain connection to the first of the addresses of a name that answers."""
    loop = asyncio.get_running_loop()
    last = OSError(f"{host} has no address")
    for family, kind, protocol, _, where in await loop.getaddrinfo(
        host, port, type=socket.SOCK_STREAM
    ):
        plain = socket.socket(family, kind, protocol)
        try:
            _prepare(plain)
            await loop.sock_connect(plain, where)
            return plain
        except OSError as error:
            last = error
            plain.close()
        except BaseException:
            plain.close()
            raise
    raise last


def _prepare(plain: socket.socket) -> None:
    """No call waits, and small frames leave at once."""
    plain.setblocking(False)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
