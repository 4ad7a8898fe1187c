"""All links of a party, in a thread of their own: listening, dialling, writing, reading.

The program makes and consumes frames under the hub's lock and never touches a connection.
"""

import asyncio
import json
import random
import ssl
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from dual2.errors import Dual2Error, PeerError
from dual2.files import parse_json
from dual2.runtime.peers.carrier_tls import (
    BUFFER,
    HANDSHAKE,
    Connection,
    abort,
    dial,
    secure,
)
from dual2.runtime.peers.crash_points import passing
from dual2.runtime.peers.frames import Frame, Kind, frame_of
from dual2.runtime.peers.hello import CHECKING, Meaning, Mismatch
from dual2.runtime.peers.link import Gap, Link

MOST_STRANGERS = 64
"""Most connections at once whose other end is not known yet."""
_FAREWELL = 3.0
"""Seconds for the news of a failure to reach the neighbours."""
_BROKEN = (OSError, EOFError, TimeoutError, asyncio.IncompleteReadError, Gap)


@dataclass(frozen=True)
class Neighbour:
    """A party at the other end of a link; ``address`` is where this party dials it."""

    number: int
    name: str
    fingerprints: tuple[str, ...]
    address: tuple[str, int] | None = None


@dataclass(frozen=True)
class Timing:
    """Seconds: silence that ends a connection, how long to wait for a lost peer, pauses."""

    dead: float = 15.0
    patience: float = 600.0
    shortest: float = 0.05
    longest: float = 1.0


@dataclass(frozen=True)
class Place:
    """Where this party listens, and with what it shows who it is."""

    listen: tuple[str, int] | None
    server: ssl.SSLContext
    client: ssl.SSLContext
    limit: int


@dataclass(frozen=True)
class Failure:
    """Why the run cannot go on: who said so first, and what; if ``quiet`` only here, for now."""

    origin: str
    text: str
    quiet: bool = False


class Hub:
    """Connects a party with its neighbours.

    Parameters
    ----------
    me : int
        Number of this party.
    neighbours : list of Neighbour
        The others.
    meaning, place, timing
        See there.
    audit : callable
        Told of every event.

    Attributes
    ----------
    connections : dict
        The greeted connection to each peer that is there.
    refusals : dict
        Why there is none, as far as known; the peers in ``strange`` mean another run.
    """

    def __init__(
        self,
        me: int,
        neighbours: list[Neighbour],
        meaning: Meaning,
        place: Place,
        timing: Timing,
        audit: Callable[..., None],
    ) -> None:
        self.me, self.meaning, self.place, self.timing = me, meaning, place, timing
        self.neighbours = {one.number: one for one in neighbours}
        self.links = {one.number: Link(one.number, one.name) for one in neighbours}
        self.audit = audit
        self.changed = threading.Condition()
        self.failure: Failure | None = None
        self.connections: dict[int, Connection] = {}
        self.down_since = dict.fromkeys(self.links, time.monotonic())
        self.refusals: dict[int, str] = {}
        self.strange: set[int] = set()
        self.port: int | None = None
        self._wake: dict[int, asyncio.Event] = {}
        self._incarnations: dict[int, str] = {}
        self._untold = set(self.links)
        self._strangers = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._ready = threading.Event()
        self._error: OSError | None = None
        self._thread = threading.Thread(target=self._run, name=f"links {me}", daemon=True)

    # -- called by the program -----------------------------------------------------------------
    def start(self) -> None:
        """Listen and dial from now on."""
        self._thread.start()
        self._ready.wait()
        if self._error is not None:
            raise Dual2Error(f"Cannot listen at {self.place.listen}: {self._error}.")

    def wake(self, peer: int) -> None:
        """There is something to write for a peer."""
        self._loop.call_soon_threadsafe(self._wake[peer].set)

    def fail(self, origin: str, text: str, quiet: bool = False) -> None:
        """End the run here and, unless ``quiet``, at all parties that can be reached."""
        with self.changed:
            if self.failure is None:
                self.failure = Failure(origin, text, quiet)
                self.audit("leave" if quiet else "abort", origin=origin)
            self.changed.notify_all()
        for peer in self.links:
            with suppress(RuntimeError):  # the loop has ended
                self.wake(peer)

    def stop(self) -> None:
        """Write what is left, the news of a failure above all, and end all connections."""
        end = time.monotonic() + _FAREWELL
        with self.changed:
            while self.failure and not self.failure.quiet and self._untold and self._alive:
                if not self.changed.wait(max(0.0, end - time.monotonic())):
                    break
        if self._alive:
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(10.0)

    @property
    def _alive(self) -> bool:
        return self._thread.is_alive()

    # -- the thread ----------------------------------------------------------------------------
    def _run(self) -> None:
        asyncio.run(self._main())

    async def _main(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        self._wake = {peer: asyncio.Event() for peer in self.links}
        server = None
        try:
            if self.place.listen is not None:
                server = await asyncio.start_server(self._accept, *self.place.listen, limit=BUFFER)
                self.port = server.sockets[0].getsockname()[1]
        except OSError as error:
            self._error = error
            return
        finally:
            self._ready.set()
        for peer, neighbour in self.neighbours.items():
            if neighbour.address is not None:
                self._begin(self._keep_dialling(peer))
        await self._stopping.wait()
        if server is not None:
            server.close()
        last = [connection.finish() for connection in self.connections.values()]
        await asyncio.gather(*last, return_exceptions=True)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0.01)  # what was aborted closes its socket in the next turns

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._begin(self._receive(reader, writer))

    async def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        address = str((writer.get_extra_info("peername") or "?")[0])
        connection: Connection | None = None
        try:
            if self._strangers >= MOST_STRANGERS:
                self.audit("refused", address=address, why="too many strangers")
                return
            self._strangers += 1
            try:
                timing = self.place.limit, self.timing.dead
                connection = await secure((reader, writer), self.place.server, *timing)
                peer = self._find(connection, address)
                said = None if peer is None else await self._greet(peer, connection)
            finally:
                self._strangers -= 1
            if peer is not None and said is not None:
                await self._converse(peer, connection, said)
        except ssl.SSLError as error:
            why = getattr(error, "verify_message", "") or error.reason or str(error)
            self.audit("handshake_failed", address=address, why=why)
        except (PeerError, *_BROKEN) as error:
            self.audit("refused", address=address, why=str(error) or type(error).__name__)
        finally:
            abort(writer)

    def _find(self, connection: Connection, address: str) -> int | None:
        """The neighbour that shows this certificate, if one may dial."""
        found = connection.fingerprint
        for peer, neighbour in self.neighbours.items():
            if found in neighbour.fingerprints and neighbour.address is None:
                return peer
        self.audit("stranger", address=address, fingerprint=found)
        return None

    async def _keep_dialling(self, peer: int) -> None:
        neighbour, pause = self.neighbours[peer], self.timing.shortest
        assert neighbour.address is not None
        while not self._stopping.is_set():
            connection = None
            try:
                timing = self.place.limit, self.timing.dead
                connection = await dial(neighbour.address, self.place.client, *timing)
                if connection.fingerprint not in neighbour.fingerprints:
                    raise Mismatch(
                        f"{neighbour.name} presents {connection.fingerprint[:8]}…, the study says "
                        f"{neighbour.fingerprints[0][:8]}…: not connecting. If it renewed its "
                        "certificate, all parties need the new study file."
                    )
                said = await self._greet(peer, connection)
                pause = self.timing.shortest
                await self._converse(peer, connection, said)
            except ssl.SSLError as error:
                why = getattr(error, "verify_message", "") or error.reason or str(error)
                self._refused(peer, f"{neighbour.name} cannot be trusted: {why}.")
            except (PeerError, *_BROKEN) as error:
                self._refused(peer, str(error) if isinstance(error, PeerError) else "")
            finally:
                if connection is not None:
                    connection.close()
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, self.timing.longest)

    def _refused(self, peer: int, why: str) -> None:
        with self.changed:
            if why and self.refusals.get(peer) != why:
                self.audit("refused", peer=self.neighbours[peer].name, why=why)
                self.refusals[peer] = why
            self.changed.notify_all()

    async def _greet(self, peer: int, connection: Connection) -> dict[str, Any]:
        """Say hello and hear it; an error that names what differs."""
        link, name = self.links[peer], self.neighbours[peer].name
        with self.changed:
            hello = self.meaning.hello(self.me, link.next_in, link.durable)
        await connection.send(hello.packed())
        async with asyncio.timeout(HANDSHAKE):
            frame = await connection.receive()
        if frame is None:
            raise PeerError(
                f"{name} closed the connection right after the handshake: it probably does not "
                "accept this certificate, or has another study. Its audit log says why."
            )
        try:
            return self.meaning.demand_same(frame, peer, name)
        except Mismatch as error:
            with self.changed:
                if peer not in self._incarnations:  # never met: one of both has the wrong files
                    self.strange.add(peer)
            self._refused(peer, str(error))
            raise

    async def _converse(self, peer: int, connection: Connection, said: dict[str, Any]) -> None:
        """Write and read on a greeted connection until it ends; it replaces an older one."""
        link, name = self.links[peer], self.neighbours[peer].name
        if said["incarnation"] == CHECKING:
            self.audit("checked", peer=name)
            return
        with self.changed:
            try:
                resent = link.greet(said["want"], said["stable"])
            except PeerError as error:
                self.fail(name, str(error))
                raise
            older = self.connections.get(peer)
            self.connections[peer] = connection
            self.refusals.pop(peer, None)
            self.strange.discard(peer)
            self.changed.notify_all()
        if older is not None:
            older.close()
        if self._incarnations.setdefault(peer, said["incarnation"]) != said["incarnation"]:
            self._incarnations[peer] = said["incarnation"]
            self.audit("peer_restarted", peer=name)
        shown = connection.fingerprint
        self.audit("link_up", peer=name, fingerprint=shown, want=said["want"], resent=resent)
        self._wake[peer].set()
        writing = self._loop.create_task(self._write(peer, connection))
        try:
            await self._read(peer, connection)
        except PeerError as error:  # a known party sent what it must not
            self.fail(name, str(error))
        finally:
            writing.cancel()
            await asyncio.wait([writing])
            connection.close()
            with self.changed:
                if self.connections.get(peer) is connection:
                    del self.connections[peer]
                    self.down_since[peer] = time.monotonic()
                    self.audit("link_down", peer=name)
                self.changed.notify_all()

    async def _write(self, peer: int, connection: Connection) -> None:
        link, wake, pause = self.links[peer], self._wake[peer], self.timing.dead / 3
        told = 0
        try:
            while True:
                wake.clear()
                with self.changed:
                    frames, ack, stable = link.pending(), link.next_in, link.durable
                    failure, next_out = self.failure, link.next_out
                for frame in frames:
                    passing(f"before send {frame.kind.name}")
                    await connection.send(frame.header(ack, stable), frame.payload)
                if not frames and stable > told:
                    await connection.send(frame_of(Kind.ACK, self.meaning.run).header(ack, stable))
                told = stable
                if failure is not None and not failure.quiet:
                    said = json.dumps([failure.origin, failure.text])[:3000].encode()
                    await connection.send(frame_of(Kind.ABORT, self.meaning.run, said).packed())
                    with self.changed:
                        self._untold.discard(peer)
                        self.changed.notify_all()
                try:
                    async with asyncio.timeout(pause):
                        await wake.wait()
                except TimeoutError:
                    ping = frame_of(Kind.PING, self.meaning.run, tag=next_out)
                    await connection.send(ping.header(ack, stable))
                if self._loop.time() - connection.heard > self.timing.dead:
                    self.audit("silent", peer=link.name)
                    break
        except _BROKEN:
            return
        finally:
            connection.close()

    async def _read(self, peer: int, connection: Connection) -> None:
        link = self.links[peer]
        while (frame := await connection.receive()) is not None:
            if frame.run != self.meaning.run:
                raise PeerError(f"{link.name} sent a frame of another run.")
            if frame.kind == Kind.ABORT:
                with self.changed:
                    self._untold.discard(peer)
                self.fail(*_abort(frame, link.name))
                continue
            with self.changed:
                try:
                    news = link.accept(frame)
                except Gap as gap:
                    self.audit("gap", peer=link.name, why=str(gap))
                    raise
                if news or link.acknowledged:
                    self.changed.notify_all()


def _abort(frame: Frame, name: str) -> tuple[str, str]:
    """Who ended the run, and why, as the peer passes it on."""
    try:
        origin, text = parse_json(frame.payload.decode(), f"the message of {name}")
        return str(origin)[:100], str(text)[:2000]
    except (ValueError, TypeError):
        return name, f"{name} ended the run without a readable reason."
