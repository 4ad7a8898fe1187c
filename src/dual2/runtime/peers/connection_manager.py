"""All links of a party in one event loop: listening, dialling, writing, reading.

The program makes and consumes frames under the manager's lock. While it writes or waits, it runs
the loop itself (:mod:`dual2.runtime.peers.shared_event_loop`).
"""

import asyncio
import math
import random
import ssl
import threading
import time
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any

from dual2.errors import Dual2Error, PeerError
from dual2.runtime.peers import wire_transport
from dual2.runtime.peers.aborts import Failure, Reason, parse_abort
from dual2.runtime.peers.conversation import BROKEN, Conversation, turn_away
from dual2.runtime.peers.frames import Kind
from dual2.runtime.peers.hello import (
    CHECKING,
    GoesOnWithout,
    Mismatch,
    PhaseMismatch,
    SessionIdentity,
)
from dual2.runtime.peers.incarnations import Incarnations
from dual2.runtime.peers.link_faults import reason_of, unreached
from dual2.runtime.peers.link_settings import Place, Timing
from dual2.runtime.peers.pending_connections import PendingLimit, RateLimitedLog
from dual2.runtime.peers.reliable_channel import ReliableChannel
from dual2.runtime.peers.shared_event_loop import Ready, SharedEventLoop
from dual2.runtime.peers.wire_transport import (
    Connection,
    Neighbour,
    PendingConnection,
)

_FAREWELL_SECONDS = 3.0
"""Seconds for the news of a failure to reach the neighbours."""


class ConnectionManager:
    """Connects a party with its neighbours.

    Parameters
    ----------
    me : int
        Number of this party.
    neighbours : list of Neighbour
        The others.
    session, place, timing
        See there.
    audit : callable
        Told of every event.

    Attributes
    ----------
    connections : dict
        The greeted connection to each peer that is there.
    lock, changed
        Who makes, consumes or writes frames holds the lock; who waits for a change asks for it.
    came : callable
        To be called within the loop when a frame has come.
    refusals : dict
        Why there is none, as far as known; the peers in ``strange`` mean something else.
    """

    def __init__(
        self,
        me: int,
        neighbours: list[Neighbour],
        session: SessionIdentity,
        place: Place,
        timing: Timing,
        audit: Callable[..., None],
    ) -> None:
        self.me, self.session, self.place, self.timing = me, session, place, timing
        self.neighbours = {one.number: one for one in neighbours}
        self.links = {one.number: ReliableChannel(one.number, one.name) for one in neighbours}
        self.audit = audit
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.failure: Failure | None = None
        self.connections: dict[int, Connection] = {}
        self.down_since = dict.fromkeys(self.links, time.monotonic())
        self.refusals: dict[int, str] = {}
        self.strange: set[int] = set()
        self.port: int | None = None
        self._talks: dict[int, Conversation] = {}
        self._incarnations = {peer: Incarnations() for peer in self.links}
        self._greetings = 0
        self._seen: dict[int, float] = {}
        self._uninformed = set(self.links)
        self._pending = PendingLimit(audit)
        self._channel_logs = {peer: RateLimitedLog(audit) for peer in self.links}
        self._tasks: set[asyncio.Task[None]] = set()
        self._ready = threading.Event()
        self._error: OSError | None = None
        self._turns = SharedEventLoop(f"links {me}", self._main)
        self.came = self._turns.notice

    # -- called by the program -----------------------------------------------------------------
    def start(self) -> None:
        """Listen and dial from now on."""
        self._turns.start()
        self._ready.wait()
        if self._error is not None:
            raise Dual2Error(f"Cannot listen at {self.place.listen}: {self._error}.")

    def flush(self, peers: Iterable[int]) -> None:
        """Write what there is for some peers, as far as they take it now."""
        with self._turns:
            left = False
            for peer in peers:
                talk = self._talks.get(peer)
                if talk is not None and not talk.flush():
                    left = True
        if left:
            self._turns.nudge()

    def wait(self, ready: Ready, seconds: float) -> bool:
        """Let the links work until ``ready`` or a failure, at most so long; whether it is."""
        with self._turns:
            return bool(self._turns.run(ready, seconds))

    def notice(self, anyway: bool = False) -> None:
        """Something has changed; for whoever waits, in whichever way. Within the loop."""
        with self.changed:
            self.changed.notify_all()
        self._turns.notice(anyway)

    def fail(self, origin: str, text: str, reason: Reason = Reason.FAULT) -> None:
        """End the run here and, unless this process only leaves, at all that can be reached."""
        self.end(Failure(origin, text, reason))

    def end(self, failure: Failure) -> None:
        """End the run for the first reason that there is."""
        with self.changed:
            if self.failure is None:
                self.failure = failure
                more = {"sender": failure.sender} if failure.sender else {}
                event = "leave" if failure.quiet else "abort"
                self.audit(event, origin=failure.origin, reason=str(failure.reason), **more)
            self.changed.notify_all()
        with suppress(RuntimeError):  # the loop has ended
            self._turns.loop.call_soon_threadsafe(self._fail_all)
            self._turns.nudge()

    def _fail_all(self) -> None:
        for talk in self._talks.values():
            talk.flush()
        self.notice(anyway=True)

    def note(self, peer: int, event: str, **details: Any) -> None:
        """Log what happened on the link to a peer, but not each time if it happens all the time."""
        self._channel_logs[peer](event, peer=self.links[peer].name, **details)

    def informed(self, peer: int) -> None:
        """A peer knows that the run has failed."""
        self._uninformed.discard(peer)
        self.notice()

    def stop(self) -> None:
        """Write what is left, the news of a failure above all, and end all connections."""
        end = time.monotonic() + _FAREWELL_SECONDS
        with self.changed:
            while self.failure and self._has_to_tell(self.failure) and self._alive:
                if not self.changed.wait(max(0.0, end - time.monotonic())):
                    break
        if self._alive:
            self._turns.loop.call_soon_threadsafe(self._stopping.set)
            self._turns.join(10.0)

    def _has_to_tell(self, failure: Failure) -> bool:
        """Whether a neighbour does not know yet; who is missing is not told that it is."""
        missing = failure.reason is Reason.MISSING
        waiting = self._uninformed & self.connections.keys() if missing else self._uninformed
        return bool(waiting) and not failure.quiet

    @property
    def _alive(self) -> bool:
        return self._turns.alive

    # -- within the loop -------------------------------------------------------------------------
    async def _main(self) -> None:
        self._stopping = asyncio.Event()
        try:
            if self.place.listen is not None:
                self.port = await self.place.carrier.listen(self.place.listen, self._receive)
        except OSError as error:
            self._error = error
            return
        finally:
            self._ready.set()
        for peer, neighbour in self.neighbours.items():
            if neighbour.address is not None:
                self._begin(self._keep_dialling(peer))
        await self._stopping.wait()
        last = [connection.finish() for connection in self.connections.values()]
        await asyncio.gather(*last, return_exceptions=True)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.place.carrier.stop()

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._turns.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _receive(self, pending: PendingConnection) -> None:
        log, address = self._pending.log, pending.address
        try:
            with self._pending.inside(address):
                connection = await pending.secure()
                if connection.fingerprint in self.session.excluded:
                    await turn_away(connection, self.session)
                peer = self._find(connection, address)
                said = None if peer is None else await self._greet(peer, connection)
            if peer is not None:
                self._pending.know(address)
            if peer is not None and said is not None:
                await self._serve(peer, connection, said)
        except ssl.SSLError as error:
            log("handshake_failed", address=address, why=reason_of(error))
        except Exception as error:
            log("refused", address=address, why=str(error) or type(error).__name__)
        finally:
            pending.leave()

    def _find(self, connection: Connection, address: str) -> int | None:
        """The neighbour that shows this certificate, if one may dial."""
        found = connection.fingerprint
        for peer, neighbour in self.neighbours.items():
            if found in neighbour.fingerprints and neighbour.address is None:
                return peer
        self._pending.log("stranger", address=address, fingerprint=found)
        return None

    async def _keep_dialling(self, peer: int) -> None:
        neighbour, pause = self.neighbours[peer], self.timing.shortest
        assert neighbour.address is not None
        while not self._stopping.is_set():
            connection = None
            try:
                connection = await self._dial(neighbour)
                if connection.fingerprint not in neighbour.fingerprints:
                    raise Mismatch(
                        f"{neighbour.name} presents {connection.fingerprint[:8]}…, the study says "
                        f"{neighbour.fingerprints[0][:8]}…: not connecting. If it renewed its "
                        "certificate, all parties need the new study file."
                    )
                said = await self._greet(peer, connection)
                pause = self.timing.shortest
                await self._serve(peer, connection, said)
            except BROKEN:
                pass  # the next attempt finds out why
            except Exception as error:  # whatever it was, the next attempt may succeed
                known = isinstance(error, PeerError)
                self._refused(peer, str(error) if known else f"{type(error).__name__}: {error}.")
            finally:
                if connection is not None:
                    connection.close()
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, self.timing.longest)

    async def _dial(self, neighbour: Neighbour) -> Connection:
        """A connection; an error that says why there is none."""
        assert neighbour.address is not None
        try:
            return await self.place.carrier.dial(neighbour)
        except (OSError, EOFError) as error:
            raise unreached(error, neighbour.name, neighbour.address) from error

    def _refused(self, peer: int, why: str) -> None:
        with self.changed:
            # Files that differ are the reason to end with; a later failure to dial is not.
            if self.refusals.get(peer) != why and peer not in self.strange:
                self.audit("refused", peer=self.neighbours[peer].name, why=why)
                self.refusals[peer] = why
        self.notice(anyway=True)

    def why_down(self, peer: int) -> str:
        """Why there is no connection to a peer, as far as this party can tell."""
        if (known := self.refusals.get(peer)) or self.neighbours[peer].address is not None:
            return known or "dialling"
        if peer in self._seen:
            return "its connection ended; it has not dialled again"
        host, port = self.place.listen or ("?", 0)
        return f"not started, or it cannot reach {host}:{self.port or port}, where it has to dial"

    async def _greet(self, peer: int, connection: Connection) -> dict[str, Any]:
        """Say hello and hear it; an error that names what differs."""
        link, name = self.links[peer], self.neighbours[peer].name
        with self.changed:
            self._greetings += 1
            hello = self.session.hello(self.me, link.next_in, link.durable, self._greetings)
        async with asyncio.timeout(wire_transport.HANDSHAKE_SECONDS):
            await connection.send(hello.packed())
            frame = await connection.receive()
        if frame is None:
            raise PeerError(
                f"{name} closed the connection right after the handshake: it does not accept this "
                "certificate, has another study, or too many others knock at its door. Its audit "
                "log says why."
            )
        if frame.kind is Kind.ABORT:
            self.end(parse_abort(frame, name))
            raise PeerError(f"{name} has ended the run.")
        try:
            return self.session.demand_same(frame, peer, name)
        except GoesOnWithout as error:
            self.end(Failure(name, str(error), Reason.MISSING, name, error.claims))
            raise
        except Mismatch as error:
            self._refused(peer, str(error))
            with self.changed:
                if not (self._incarnations[peer].met or isinstance(error, PhaseMismatch)):
                    self.strange.add(peer)  # never met: one of both has the wrong files
            self.notice(anyway=True)
            raise

    async def _serve(self, peer: int, connection: Connection, said: dict[str, Any]) -> None:
        """Write and read on a greeted connection until it ends; it replaces an older one."""
        link, name = self.links[peer], self.neighbours[peer].name
        if said["incarnation"] == CHECKING:
            self.note(peer, "checked")
            return
        incarnations = self._incarnations[peer]
        if (event := incarnations.objection(said, self._present(peer, said))) is not None:
            self.note(peer, event)
            if event == "duplicate":
                self._refused(peer, f"Two processes of {name} are running. Stop one of them.")
            return
        begun, before = time.monotonic(), link.next_in
        with self.changed:
            try:
                resent = link.on_connect(said["want"], said["stable"])
            except PeerError as error:
                self.fail(name, str(error))
                raise
            older = self.connections.get(peer)
            self.connections[peer] = connection
            self.refusals.pop(peer, None)
            self.strange.discard(peer)
        self.notice()
        if older is not None:
            older.close()
        if incarnations.note(said):
            self.note(peer, "peer_restarted")
        shown = connection.fingerprint
        self.note(peer, "link_up", fingerprint=shown, want=said["want"], resent=resent)
        try:
            await self._listen(peer, connection)
        finally:
            with self.changed:
                if self.connections.get(peer) is connection:
                    del self.connections[peer]
                    now = self._seen[peer] = time.monotonic()
                    if link.next_in > before or now - begun > self.timing.dead:
                        self.down_since[peer] = now  # else it was never more than a greeting
                    else:
                        self.refusals.setdefault(
                            peer,
                            f"{name} closes the connection after the greeting. Is another process "
                            "of this party running, perhaps on another machine?",
                        )
                    self.note(peer, "link_down")
            self.notice()

    def _present(self, peer: int, said: dict[str, Any]) -> bool:
        """Whether a peer's process is there, or was a moment ago and is ahead of a new one."""
        link = self.links[peer]
        behind = said["want"] < link.forgotten or said["stable"] < link.forgotten
        left = time.monotonic() - self._seen.get(peer, -math.inf)
        return peer in self.connections or (behind and left < self.timing.dead)

    async def _listen(self, peer: int, connection: Connection) -> None:
        """Write and read until the connection ends."""
        self._talks[peer] = talk = Conversation(self, peer, connection)
        writing = self._turns.loop.create_task(talk.write())
        readers, reading = self._turns.readers, connection.reading
        if reading is not None:
            readers[reading[0]] = reading[1]
        try:
            await connection.listen(talk.on_frame)
        except PeerError as error:  # a known party sent what it must not
            self.fail(self.neighbours[peer].name, str(error))
        finally:
            writing.cancel()
            await asyncio.wait([writing])
            connection.close()
            if reading is not None and readers.get(reading[0]) == reading[1]:
                del readers[reading[0]]
