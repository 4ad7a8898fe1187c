"""Frames of the program to and from its neighbours: made, waited for, consumed, logged.

Every one is numbered by its link, so that a party that was killed repeats what it did and falls in
with the others where it was. At the end all say goodbye.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from dual2.errors import PeerError, PeerMissing
from dual2.runtime.peers.connection_manager import ConnectionManager
from dual2.runtime.peers.frames import CHAIN_BYTES, MARK, Frame, Kind, frame_of
from dual2.runtime.peers.journal import Journal
from dual2.runtime.peers.reliable_channel import MAX_KEPT_BYTES, ReliableChannel
from dual2.runtime.peers.shared_event_loop import Ready
from dual2.runtime.transport import Transport
from dual2.runtime.waiting import Awake

Array = np.ndarray
_SYNC_FRAMES = 64
"""Consumed frames after which their log is brought to the disk where the program waits anyway;
after twice as many it is, whatever else there is to do."""
_TICK_SECONDS = 0.5
_NAMES = ("nothing", "doubles", "words", "bytes")
"""What the payload of a frame is, by its type."""
_COURTESY_FACTOR = 2.0
"""How long to wait for a neighbour that needs nothing any more, as a multiple of ``dead``."""


@dataclass
class Progress:
    """What an observer may know: sums begun and ended, and on whom the program waits since when."""

    sums: int = 0
    totals: int = 0
    rounds: int = 0
    waiting: str = ""
    since: float = 0.0


class Exchange(Transport):
    """A party among its neighbours.

    Parameters
    ----------
    manager : ConnectionManager
        The links to the neighbours, not started yet.
    journal : Journal
        What was consumed and said so far.
    names : list of str
        Of all parties.

    Attributes
    ----------
    progress : Progress
        For an observer.
    """

    def __init__(self, manager: ConnectionManager, journal: Journal, names: list[str]) -> None:
        super().__init__()
        self.manager, self.journal, self.names, self.rank = manager, journal, names, manager.me
        self.progress, self._index, self._chain = Progress(), 0, bytes(CHAIN_BYTES)
        for link in manager.links.values():
            link.fresh, link.key = journal.new, journal.consumed.key
        for peer in list(journal.frames):
            if peer not in manager.links:
                raise PeerError(f"The journal has frames of party {peer}, which is no neighbour.")
            manager.links[peer].refill(journal.frames.pop(peer))

    # -- there and back -----------------------------------------------------------------------
    def _send(self, peer: int, kind: Kind, values: Array | bytes | None, tag: int) -> None:
        self._send_all((peer,), kind, values, tag)

    def _send_all(
        self, peers: Sequence[int], kind: Kind, values: Array | bytes | None, tag: int
    ) -> Frame:
        """The same frame to some peers; it, as the first of them gets it."""
        manager = self.manager
        frame = frame_of(kind, manager.session.run, values, tag, self._chain[:MARK])
        for peer in peers:
            link = manager.links[peer]
            if link.unconfirmed > MAX_KEPT_BYTES:
                self._await_room(link)
            with manager.lock:
                link.enqueue(frame)
        manager.flush(peers)
        return frame

    def _await_room(self, link: ReliableChannel) -> None:
        """Wait until a peer has what was sent before."""
        if self.journal.unsynced:
            self.sync()  # both may be waiting for each other's word
        self._wait(lambda: link.unconfirmed <= MAX_KEPT_BYTES, link.peer)

    def _take(self, peer: int, kind: Kind, tag: int) -> Frame:
        """The next frame of a peer, which must be what the program expects; logged."""
        frame, old = self._next(peer, kind, tag)
        if not old:
            self._log([(peer, frame)])
        return frame

    def _next(self, peer: int, kind: Kind, tag: int) -> tuple[Frame, bool]:
        """The next frame of a peer, and whether the journal has it; if not, it is to be logged."""
        manager = self.manager
        link = manager.links[peer]
        if not link.inbox:
            self._wait(link.inbox.__len__, peer)
        with manager.lock:
            frame, old = link.consume()
        if frame.tag != tag or frame.kind != kind:
            self._blame(peer, f"sent {frame.kind.name} {frame.tag}; {kind.name} {tag} expected")
        return frame, old

    def _log(self, frames: list[tuple[int, Frame]]) -> None:
        """Log what was consumed: all of these frames or, if this process is killed, none."""
        journal, links = self.journal, self.manager.links
        journal.consume(frames)
        for peer, _ in frames:
            if peer != self.rank:
                links[peer].log()
        if journal.unsynced >= 2 * _SYNC_FRAMES:
            self._settle()

    def _numbers(self, peer: int, kind: Kind, tag: int, like: Array) -> tuple[Frame, bool]:
        """As ``_next``; the frame must have numbers like these."""
        frame, old = self._next(peer, kind, tag)
        dtype = 1 if like.dtype.kind == "f" else 2
        if frame.shape != like.shape or frame.dtype != dtype:
            found, right = f"{_NAMES[frame.dtype]} of shape {frame.shape}", _NAMES[dtype]
            self._blame(peer, f"sent {found}; {right} of shape {like.shape} expected")
        if frame.chain != self._chain[:MARK] and kind in (Kind.UP, Kind.DOWN):
            self._blame(
                peer, "has seen other totals than this party: somebody on the way changes them"
            )
        return frame, old

    def _wait(self, ready: Ready, *peers: int, patience: float | None = None) -> None:
        """Wait for some peers; one whose link is down has the study's patience, or another one."""
        if ready():
            return
        self._catch_up()
        if self.manager.failure is None and self.manager.wait(ready, _TICK_SECONDS):
            return  # as usual
        if self.journal.unsynced:
            self.sync()  # a peer may be waiting for room
        manager, begun, clock = self.manager, time.monotonic(), Awake(time.monotonic)
        patience = manager.timing.patience if patience is None else patience
        state, since = None, clock()
        while not ready():
            peer = next((one for one in peers if not manager.links[one].inbox), peers[0])
            if manager.failure is not None:
                raise manager.failure.error(self.progress.totals)
            down = peer not in manager.connections
            if down and peer in manager.strange:
                self._lost(manager.refusals[peer])
            waited = clock() - max(manager.down_since[peer], begun)  # read in every turn
            if down and waited > patience:
                raise PeerMissing(self._unreachable(peer), self._missing(peer, patience))
            if state != (state := (peer, down, manager.links[peer].next_in)):
                since = clock()
            if not down and clock() - since > manager.timing.progress:
                self._lost(self._idle(peer))
            self.progress.waiting, self.progress.since = self.names[peer], begun
            manager.wait(ready, _TICK_SECONDS)
        self.progress.waiting = ""

    def _catch_up(self) -> None:
        """Write what is to be written some time, while the others are at work."""
        if self.journal.unsynced >= _SYNC_FRAMES:
            self._settle()
        else:
            self.journal.catch_up()

    def _first_of(self, peers: Sequence[int]) -> int:
        """The first of some peers from whom something has come; if there is none, the first."""
        links = self.manager.links
        for peer in peers:
            if links[peer].inbox:
                return peer
        return peers[0]

    def _missing(self, peer: int, patience: float) -> tuple[str, ...]:
        """A peer that was waited for in vain, and the others that have been gone for as long."""
        manager, now = self.manager, time.monotonic()
        gone = {one for one in manager.links if one not in manager.connections}
        late = {one for one in gone if now - manager.down_since[one] > patience}
        return tuple(self.names[one] for one in sorted(late | {peer}))

    def _unreachable(self, peer: int) -> str:
        address = self.manager.neighbours[peer].address
        where = f" ({address[0]}:{address[1]})" if address else ""
        why = self.manager.why_down(peer).rstrip(".")
        return (
            f"{self.names[peer]}{where} was unreachable for {self.manager.timing.patience:g} s "
            f"(sum {self._index}): {why}. State is kept: start it again, then --resume."
        )

    def _idle(self, peer: int) -> str:
        return (
            f"{self.names[peer]} is connected but has sent nothing new for "
            f"{self.manager.timing.progress:g} s (sum {self._index}, progress_patience). Does it "
            "still compute, or wait for a missing party? State is kept: start it again, then "
            "--resume."
        )

    def _lost(self, text: str) -> NoReturn:
        raise PeerError(text)

    def _blame(self, peer: int, what: str) -> NoReturn:
        text = f"{self.names[peer]} {what}. Its program or its data are at fault; state is kept."
        self.manager.fail(self.names[self.rank], text)
        raise PeerError(text)

    def sync(self) -> None:
        """Bring the journal to the disk and tell the peers what they may forget."""
        self._settle()
        self.manager.flush(self.manager.links)

    def _settle(self) -> None:
        """Bring the journal to the disk; peers hear of it by the next frame if one is likely."""
        self.journal.sync()
        with self.manager.lock:
            silent = [peer for peer, link in self.manager.links.items() if link.settle()]
        if silent:
            self.manager.flush(silent)

    # -- the end --------------------------------------------------------------------------------
    def leave(self) -> list[str]:
        """Say goodbye and wait for the others' goodbyes; the names of those that never came.

        A goodbye says that all before it is on the disk: its sender wants nothing any more but the
        other's goodbye. Nobody leaves before that is on the other's disk too, so whoever comes back
        to find a neighbour's goodbye in its journal may find the neighbour gone, and waits for it
        for a while only.
        """
        self.sync()
        old = [peer for peer, link in self.manager.links.items() if link.from_journal]
        for peer in self.manager.links:
            self._send(peer, Kind.BYE, None, 0)
            self.manager.links[peer].parting = True
        missing = self._hear_goodbyes()
        while_gone = _COURTESY_FACTOR * self.manager.timing.dead
        for peer in set(self.manager.links) - set(missing):
            link, patience = self.manager.links[peer], while_gone if peer in old else None
            try:
                self._wait(lambda link=link: link.drained, peer, patience=patience)
            except PeerError:
                missing += [peer] if patience is None else []
        self._part(while_gone)
        return [self.names[peer] for peer in missing]

    def _hear_goodbyes(self) -> list[int]:
        """Consume the others' goodbyes as they come; the peers that never said it."""
        waiting, missing, links = list(self.manager.links), [], self.manager.links
        while waiting:
            try:
                self._wait(lambda: any(links[peer].inbox for peer in waiting), *waiting)
                peer = next(peer for peer in waiting if links[peer].inbox)
                self._take(peer, Kind.BYE, 0)
                self.sync()
                waiting.remove(peer)
            except PeerError:
                missing.append(waiting.pop(0))
        return missing

    def _part(self, seconds: float) -> None:
        """Wait a while for a sign that the neighbours know that they may leave.

        Where it was lost with a connection, they ask for it by the next one.
        """
        links, end = self.manager.links.values(), time.monotonic() + seconds
        told = lambda: all(link.known >= link.durable for link in links)  # noqa: E731
        while not told() and self.manager.failure is None and time.monotonic() < end:
            self.manager.wait(told, min(_TICK_SECONDS, seconds))
