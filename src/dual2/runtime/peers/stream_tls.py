"""Frames on one secured connection: bytes of the socket become frames without a stop between.

The socket never waits. Whoever has the event loop reads and writes here, one thread at a time.
"""

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Callable

from dual2.runtime.peers.crash_points import passing
from dual2.runtime.peers.frames import HEADER_BYTES, Bytes, Frame, filled, parse_header
from dual2.runtime.peers.identity import fingerprint
from dual2.runtime.peers.secured import Secured
from dual2.runtime.peers.wire_transport import BUFFER_BYTES, PARTING_SECONDS, Reading

_SMALL_BYTES = 1 << 14
"""Bytes of a frame up to which it is written in one piece: what TLS encrypts at once."""
_LATER = (ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Connection:
    """One connection to a party whose certificate is known.

    A frame that came as a whole is cut from what was read; the payload of a longer one is read into
    its place, which is made when its header has been checked. Frames that nobody has asked for yet
    are few: beyond ``BUFFER_BYTES`` bytes nothing more is read.

    Parameters
    ----------
    secured : Secured
        After the handshake.
    limit : int
        Most bytes of the payload of a frame.
    dead : float
        Seconds in which the other end has to take what is written.
    """

    def __init__(self, secured: Secured, limit: int, dead: float) -> None:
        self._socket, self._limit, self._dead = secured, limit, dead
        self._loop = asyncio.get_running_loop()
        self._time = self._loop.time
        self.heard, self.address = self._time(), name_of_peer(secured)
        self.fingerprint = fingerprint(secured.getpeercert(True) or b"")
        self._head: Frame | None = None
        self._payload, self._place, self._filled = bytearray(), memoryview(b""), 0
        self._room, self._got = memoryview(bytearray(_SMALL_BYTES)), 0
        self._frames: deque[Frame] = deque()
        self._waiting = self._unwritten = 0
        self._out: deque[memoryview] = deque()
        self._over, self._reading, self._writing = False, True, False
        self._wrong: Exception | None = None
        self._hear: Callable[[Frame], None] | None = None
        self._news: asyncio.Future[None] | None = None
        self._taken, self._ended = asyncio.Event(), asyncio.Event()
        self.reading: Reading | None = (secured.fileno(), self._read)
        self._loop.add_reader(secured, self._read)
        self._loop.call_soon(self._read)  # what came with the handshake makes no event

    # -- three calls ---------------------------------------------------------------------------
    def put(self, head: bytes, payload: Bytes = b"") -> bool:
        """Write a frame if there is room; whether it was written."""
        if self._over:
            raise ConnectionResetError("the connection is lost")
        if self._unwritten > BUFFER_BYTES:
            return False
        passing("before send")
        if len(payload) > _SMALL_BYTES:
            self._append(head, payload)
        else:
            whole = head + payload
            try:
                if self._out or not self._socket.send_whole(whole):
                    self._append(whole)
            except OSError:
                self._lose()
        passing("after send")
        return True

    def _append(self, *parts: Bytes) -> None:
        """Write what the socket takes now; the rest follows."""
        idle = not self._out
        self._out.extend(map(memoryview, parts))
        self._unwritten += sum(map(len, parts))
        if idle:
            self._write()

    @property
    def idle(self) -> bool:
        """Whether all that was put is on its way."""
        return not self._out

    async def send(self, head: bytes, payload: Bytes = b"") -> None:
        """Write a frame; an error if the other end takes none of it for too long."""
        while not self.put(head, payload):
            self._taken.clear()
            async with asyncio.timeout(self._dead):
                await self._taken.wait()

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
        self._waiting -= HEADER_BYTES + frame.length
        if not self._reading and self._waiting <= BUFFER_BYTES and not self._over:
            self._reading = True
            self._loop.add_reader(self._socket, self._read)
            self._loop.call_soon(self._read)  # what is decrypted already makes no event
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
        if self._over:
            return
        self._over = True
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()
        self._out.clear()
        self._taken.set()
        self._ended.set()
        self._tell()

    async def finish(self) -> None:
        """Write what is left, then end it when the other end does so too."""
        try:
            async with asyncio.timeout(PARTING_SECONDS):
                while self._out and not self._over:
                    self._taken.clear()
                    await self._taken.wait()
                if not self._over:
                    self._socket.shutdown(socket.SHUT_WR)
                    await self._ended.wait()
        finally:
            self.close()

    # -- called by the loop ----------------------------------------------------------------------
    def _write(self) -> None:
        """Write as much as the socket takes; the loop calls again where something is left."""
        try:
            while self._out:
                sent = self._socket.send(self._out)
                self._unwritten -= sent
                while self._out and sent >= len(self._out[0]):
                    sent -= len(self._out.popleft())
                if sent:
                    self._out[0] = self._out[0][sent:]
            if self._writing:
                self._loop.remove_writer(self._socket)
                self._writing = False
        except _LATER:
            self._loop.add_writer(self._socket, self._write)
            self._writing = True
        except OSError:
            self._lose()
        if not self._out or self._unwritten <= BUFFER_BYTES // 4:
            self._taken.set()

    def _lose(self) -> None:
        """Nothing can be written any more; what came before is read first: it may say why."""
        self._read()
        self.close()

    def _read(self) -> None:
        """Read what has come, frame by frame."""
        try:
            while self._reading and not self._over and self._fill():
                pass
        except _LATER:
            return
        except OSError:
            self.close()
        except Exception as error:  # for whoever receives or listens
            self._wrong, self._reading = error, False
            self._loop.remove_reader(self._socket)
            self._tell()

    def _fill(self) -> bool:
        """Read on in the frame at hand; whether there may be more."""
        if self._head is not None:
            return self._fill_payload(self._head)
        if self._got < HEADER_BYTES:
            got = self._socket.recv_into(self._room[self._got :])
            if not got:
                self.close()
                return False
            self._got += got
            if self._got < HEADER_BYTES:
                return True
        head, room, got = parse_header(self._room, self._limit), self._room, self._got
        end = HEADER_BYTES + head.length
        if got < end:
            self._head, self._payload = head, bytearray(head.length)
            self._place = memoryview(self._payload)
            self._filled, self._got = got - HEADER_BYTES, 0
            self._place[: self._filled] = room[HEADER_BYTES:got]
            return True
        self._got = got - end
        frame = filled(head, bytes(room[HEADER_BYTES:end]))
        if got > end:  # it came with the beginning of the next one
            room[: got - end] = bytes(room[end:got])
        return self._take(frame)

    def _fill_payload(self, head: Frame) -> bool:
        """Read on in a payload that has a place of its own; whether there may be more."""
        got = self._socket.recv_into(self._place[self._filled :])
        if not got:
            self.close()
            return False
        self._filled += got
        if self._filled < head.length:
            return True
        self._head = None
        return self._take(filled(head, self._payload))

    def _take(self, frame: Frame) -> bool:
        """Hand over a whole frame, or keep it for whoever asks; whether there may be more."""
        self.heard = self._time()
        if self._hear is not None:
            passing("after receive")
            self._hear(frame)
        else:
            self._keep(frame)
        return not self._over and (self._got > 0 or self._socket.pending() > 0)

    def _keep(self, frame: Frame) -> None:
        self._frames.append(frame)
        self._waiting += HEADER_BYTES + frame.length
        if self._waiting > BUFFER_BYTES:
            self._reading = False
            self._loop.remove_reader(self._socket)
        self._tell()

    def _tell(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)


def name_of_peer(one: socket.socket | Secured) -> str:
    """Where the other end of a socket is; ? if it has gone."""
    try:
        found = one.getpeername()
    except OSError:
        return "?"
    return f"{found[0]}:{found[1]}"
