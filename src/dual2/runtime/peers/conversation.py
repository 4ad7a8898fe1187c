"""What is written and read on one greeted connection, until it ends or is replaced."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

from dual2.errors import PeerError
from dual2.runtime.peers.aborts import Failure, Reason, parse_abort
from dual2.runtime.peers.crash_points import passing
from dual2.runtime.peers.frames import Frame, Kind, frame_of
from dual2.runtime.peers.hello import SessionIdentity
from dual2.runtime.peers.reliable_channel import Gap, ReliableChannel
from dual2.runtime.peers.wire_transport import HANDSHAKE_SECONDS, Connection

if TYPE_CHECKING:
    from dual2.runtime.peers.connection_manager import ConnectionManager

BROKEN = (OSError, EOFError, TimeoutError, Gap)
"""How a connection ends; there will be another one."""
_SENDING = {kind: f"before send {kind.name}" for kind in Kind}


MAX_UNREAD_BYTES = 2**30
"""Most bytes of frames of all neighbours together that the program has not consumed."""
_NOTABLE_BYTES = 2**20
"""A neighbour with fewer unread bytes is not the one that fills the memory."""


def demand_memory(links: Iterable[ReliableChannel]) -> None:
    """An error that names who has sent most, if all have sent too much ahead."""
    unread = {link.name: link.unread for link in links}
    if sum(unread.values()) > MAX_UNREAD_BYTES:
        name = max(unread, key=lambda one: unread[one])
        raise PeerError(
            f"{sum(unread.values())} bytes of frames are unread, {unread[name]} of them from "
            f"{name}; expected at most {MAX_UNREAD_BYTES} of all neighbours together."
        )


async def turn_away(connection: Connection, session: SessionIdentity) -> None:
    """Tell a party without which this one goes on that it came too late."""
    claims, text = session.claims, "the run goes on without it: it was missing for too long"
    failure = Failure(claims[0].claimer, text, Reason.MISSING, claims=claims)
    async with asyncio.timeout(HANDSHAKE_SECONDS):
        await connection.receive()  # its greeting
        await connection.send(failure.abort(session.run).packed())
    await connection.finish()


class Conversation:
    """A connection with one neighbour, in the loop of the manager.

    Frames are written at once where the connection has room. A task writes all else: what had to
    wait, acknowledgements, the news of a failure, and a sign of life.
    """

    def __init__(self, manager: ConnectionManager, peer: int, connection: Connection) -> None:
        self._hub, self._peer, self.connection = manager, peer, connection
        self._link, self._limit = manager.links[peer], manager.place.carrier.limit
        self._run, self._wake = manager.session.run, asyncio.Event()
        self._busy, self._told, self._parted = True, 0, False

    @property
    def _current(self) -> bool:
        """Whether no other connection has replaced this one; asked under the lock."""
        return self._hub.connections.get(self._peer) is self.connection

    # -- writing -----------------------------------------------------------------------------------
    def flush(self) -> bool:
        """Write what the program has made, as far as there is room; leave the rest to the task.

        Whether nothing is left.
        """
        manager, link, connection = self._hub, self._link, self.connection
        if not self._busy and manager.failure is None:
            with manager.lock:
                ours = manager.connections.get(self._peer) is connection
                frame = link.first() if ours else None
                ack, stable = link.next_in, link.durable
            try:
                while frame is not None:
                    passing(_SENDING[frame.kind])
                    if not connection.put(frame.header(ack, stable), frame.payload):
                        break
                    self._told = stable
                    with manager.lock:
                        frame = link.written(frame)
                    if frame is None:
                        return connection.idle
            except BROKEN:
                connection.close()
        self._wake.set()
        return False

    async def write(self) -> None:
        """Write whatever is to be written until the connection ends."""
        timing = self._hub.timing
        try:
            while True:
                self._busy = True
                self._wake.clear()
                if not await self._write_all():
                    break
                self._busy = False
                try:
                    async with asyncio.timeout(timing.dead / 3):
                        await self._wake.wait()
                except TimeoutError:
                    self._busy = True
                    await self._ping()
                if asyncio.get_running_loop().time() - self.connection.heard > timing.dead:
                    self._hub.note(self._peer, "silent")
                    break
        except BROKEN:
            return
        finally:
            self.connection.close()

    async def _write_all(self) -> bool:
        """Frames, an acknowledgement, the news of a failure; whether there may be more later."""
        manager, link, run, send = (
            self._hub,
            self._link,
            self._hub.session.run,
            self.connection.send,
        )
        with manager.lock:
            if not self._current:
                return False  # what is to be written belongs to the one that replaced it
            frames, ack, stable = link.pending(), link.next_in, link.durable
            heard = link.forgotten if link.drained and not self._parted else 0
        for frame in frames:
            passing(_SENDING[frame.kind])
            await send(frame.header(ack, stable), frame.payload)
        if not frames and (stable > self._told or heard):
            await send(frame_of(Kind.ACK, run, tag=heard).header(ack, stable))
            self._parted = self._parted or heard > 0
        self._told = stable
        failure = manager.failure
        if failure is not None and not failure.quiet:
            await send(failure.abort(run).packed())
            manager.informed(self._peer)
        return True

    async def _ping(self) -> None:
        with self._hub.lock:
            ack, stable, tag = self._link.next_in, self._link.durable, self._link.next_out
            if self._link.first() is not None:
                return  # it is written next
        ping = frame_of(Kind.PING, self._hub.session.run, tag=tag)
        await self.connection.send(ping.header(ack, stable))

    # -- reading -----------------------------------------------------------------------------------
    def on_frame(self, frame: Frame) -> None:
        """Take a frame that came."""
        manager, link, kind = self._hub, self._link, frame.kind
        if frame.run != self._run:
            raise PeerError(f"{link.name} sent a frame of another run.")
        if kind is Kind.ABORT:
            manager.informed(self._peer)
            manager.end(parse_abort(frame, link.name))
            return
        try:
            with manager.lock:
                link.accept(frame, self._limit)
                if link.unread > _NOTABLE_BYTES:
                    demand_memory(manager.links.values())
                if link.parting and link.drained and not self._parted:
                    self._wake.set()
        except Gap as gap:
            manager.note(self._peer, "gap", why=str(gap))
            raise
        manager.came()
