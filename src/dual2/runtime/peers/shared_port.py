"""One port for several runs of one process: who comes names the run, and is passed on to it.

The name is the server name of the TLS handshake (SNI). It is looked at, not read: the run that the
connection is passed to makes the whole handshake, with its own certificates. So a wrong name leads
to another run, whose handshake refuses the caller.
"""

import asyncio
import socket
import threading
from collections.abc import Callable
from hashlib import sha256

from dual2.errors import Dual2Error
from dual2.runtime.peers.pending_connections import PendingLimit
from dual2.runtime.peers.wire_transport import HANDSHAKE_SECONDS

_QUEUE, _PAUSE = 100, 0.02
"""Connections that wait to be accepted; seconds until a part of a greeting is looked at again."""
_HELLO_BYTES = 16384 + 5
"""Most bytes of the first record of a handshake."""
_RECORD, _CLIENT_HELLO, _HOST_NAME = 22, 1, 0
Taker = Callable[[socket.socket], None]
"""Takes a plain connection over; called in the thread of the port."""


def server_name(study: bytes, run: bytes) -> str:
    """What a caller names in its handshake: a run of a study. Hashes, which everybody may see.

    Examples
    --------
    >>> server_name(bytes(32), bytes(16))
    'run-374708fff7719dd5979ec875d56cd228.study-66687aadf862bd776c8fc18b8e9f8e20.dual2.invalid'
    """
    marks = (sha256(one).hexdigest()[:32] for one in (run, study))
    return "run-{}.study-{}.dual2.invalid".format(*marks)


class SharedPort:
    """Accepts for all runs of a process at one address.

    Parameters
    ----------
    address : tuple
        Host and port.
    audit : callable
        Told of connections that no run takes.

    Attributes
    ----------
    port : int
        The port, once it is open.
    """

    def __init__(self, address: tuple[str, int], audit: Callable[..., None]) -> None:
        self.address, self.port = address, address[1]
        self._takers: dict[str, Taker] = {}
        self._limit = PendingLimit(audit)
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._listening: list[socket.socket] = []
        self._thread = threading.Thread(target=self._work, name="shared port", daemon=True)

    # -- called by the runs --------------------------------------------------------------------
    def register(self, name: str, taker: Taker) -> None:
        """Pass callers that name a run to it from now on.

        Those that name another run of the same study come as well, unless it is here too: they
        learn that they are too early or too late.
        """
        self._takers[name] = taker

    def unregister(self, name: str) -> None:
        """Pass nobody on to a run any more."""
        self._takers.pop(name, None)

    def know(self, address: str) -> None:
        """A party of some run has come from an address: places are kept for it."""
        self._loop.call_soon_threadsafe(self._limit.know, address)

    # -- called by the process -------------------------------------------------------------------
    def open(self) -> "SharedPort":
        """Listen from now on."""
        host, port = self.address
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            for family, kind, protocol, _, where in dict.fromkeys(found):
                one = socket.socket(family, kind, protocol)
                self._listening.append(one)
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                one.bind(where)
                one.listen(_QUEUE)
                one.setblocking(False)
        except OSError as error:
            for one in self._listening:
                one.close()
            raise Dual2Error(f"Cannot listen at {host}:{port}: {error}.") from error
        self.port = self._listening[0].getsockname()[1]
        self._thread.start()
        return self

    def close(self) -> None:
        """Accept nobody any more."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10.0)

    # -- within the thread -----------------------------------------------------------------------
    def _work(self) -> None:
        asyncio.set_event_loop(self._loop)
        for one in self._listening:
            self._loop.add_reader(one, self._accept, one)
        self._loop.run_forever()
        for task in self._tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*self._tasks, return_exceptions=True))
        for one in self._listening:
            self._loop.remove_reader(one)
            one.close()
        self._loop.close()

    def _accept(self, listening: socket.socket) -> None:
        try:
            plain, where = listening.accept()
        except OSError:  # the caller has gone, or there are too many files
            return
        plain.setblocking(False)
        task = self._loop.create_task(self._pass_on(plain, str(where[0])))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # A task that is cancelled before its first step never reaches its own cleanup.
        task.add_done_callback(lambda done, one=plain: one.close() if done.cancelled() else None)

    async def _pass_on(self, plain: socket.socket, address: str) -> None:
        """Find out for which run somebody comes; the run deals with the connection."""
        why = "the connection was lost before it named a run"
        try:
            with self._limit.inside(address):
                async with asyncio.timeout(HANDSHAKE_SECONDS):
                    name = await self._peek_name(plain)
            taker = self._find(name)
            if taker is not None:
                taker(plain)
                return
            why = "no run of that name is here now"
        except TimeoutError:
            why = "it named no run in time"
        except (
            OSError,
            ValueError,
            RuntimeError,
        ) as error:  # RuntimeError: that run has just ended
            why = str(error) or why
        self._limit.log("refused", address=address, why=why)
        plain.close()

    def _find(self, name: str) -> Taker | None:
        """The run of a name, or another one of the same study."""
        takers = dict(self._takers)
        study = name.partition(".")[2]
        alike = (taker for other, taker in takers.items() if other.partition(".")[2] == study)
        return takers.get(name) or next(alike, None)

    async def _peek_name(self, plain: socket.socket) -> str:
        """The server name of a handshake, which stays unread."""
        while True:
            readable = asyncio.Event()
            self._loop.add_reader(plain, readable.set)
            try:
                await readable.wait()
            finally:
                self._loop.remove_reader(plain)
            found = plain.recv(_HELLO_BYTES, socket.MSG_PEEK)
            if not found:
                raise ConnectionResetError("the connection was lost before it named a run")
            if (name := parse_server_name(found)) is not None:
                return name
            await asyncio.sleep(_PAUSE)


def parse_server_name(data: bytes) -> str | None:
    """The server name of the first record of a handshake; None if more bytes are needed.

    Raises
    ------
    ValueError
        If it is no such record, or has no server name.

    Examples
    --------
    >>> parse_server_name(b"GET / HTTP/1.1")
    Traceback (most recent call last):
    ValueError: it begins with no TLS handshake
    """
    if data[:1] != bytes([_RECORD]) or (len(data) > 5 and data[5] != _CLIENT_HELLO):
        raise ValueError("it begins with no TLS handshake")
    length = int.from_bytes(data[3:5], "big")
    if length > _HELLO_BYTES - 5:
        raise ValueError("its first record is too long")
    if len(data) < 5 + length:
        return None
    hello = _Reader(data[9 : 5 + length])  # after the headers of the record and of the message
    hello.take(2 + 32)  # version, random
    for width in (1, 2, 1):  # session, ciphers, compressions
        hello.take_sized(width)
    extensions = _Reader(hello.take_sized(2))
    while extensions.left:
        kind, body = int.from_bytes(extensions.take(2), "big"), extensions.take_sized(2)
        if kind == _HOST_NAME:
            names = _Reader(_Reader(body).take_sized(2))
            if names.take(1) != bytes([_HOST_NAME]):
                break
            return names.take_sized(2).decode("ascii", "replace")
    raise ValueError("it names no run")


class _Reader:
    """Cuts bytes from the front; an error if there are too few."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, count: int) -> bytes:
        if self.left < count:
            raise ValueError("its handshake cannot be read")
        self._at += count
        return self._data[self._at - count : self._at]

    def take_sized(self, width: int) -> bytes:
        return self.take(int.from_bytes(self.take(width), "big"))
