"""One neighbour, over any number of connections: every frame is consumed exactly once, in order.

No input or output here. The program makes frames and consumes them; a connection writes what is
pending and hands over what comes. A frame is kept until the peer says that it will never ask for it
again: it has consumed the frame and its journal is on disk.
"""

from collections import deque
from dataclasses import replace

from dual2.errors import PeerError
from dual2.runtime.peers.frames import NUMBERED, Frame, Kind


class Gap(Exception):
    """A frame is missing on this connection: make a new one."""


class Link:
    """The state of a link; all calls under one lock.

    Attributes
    ----------
    next_out, next_in : int
        Number of the next frame to be made, and to be received.
    durable : int
        Below it all received frames are consumed and in the journal on disk: ``stable`` of the
        frames that are sent.
    forgotten : int
        What the peer says of ours: frames below it are not kept.
    unconfirmed : int
        Bytes that are kept for the peer.
    """

    def __init__(self, peer: int, name: str) -> None:
        self.peer, self.name = peer, name
        self.next_out = self.next_in = self.durable = self.forgotten = 1
        self.out: deque[Frame] = deque()
        self.inbox: deque[Frame] = deque()
        self.from_journal = 0
        self.consumed = 1
        self.acknowledged = 1
        self.unconfirmed = 0
        self._cursor = 1
        self._digests: dict[int, bytes] = {}

    # -- the program ---------------------------------------------------------------------------
    def make(self, frame: Frame) -> None:
        """Number a frame and keep it, to be written now or whenever the peer is there."""
        frame = replace(frame, seq=self.next_out)
        self.next_out += 1
        if frame.seq >= self.forgotten:
            self.out.append(frame)
            self.unconfirmed += frame.length

    def consume(self) -> tuple[Frame, bool]:
        """The next frame for the program, and whether it came from the journal."""
        frame = self.inbox.popleft()
        self.consumed += 1
        old = self.from_journal > 0
        self.from_journal -= old
        return frame, old

    def refill(self, frames: list[Frame]) -> None:
        """Begin again with the frames that the journal has: they are consumed once more."""
        for frame in frames:
            self.accept(frame)
        self.from_journal = len(frames)
        self.durable = self.next_in

    def settle(self) -> None:
        """The journal is on disk: what was consumed will not be asked for again."""
        self.durable = max(self.durable, self.consumed)

    # -- a connection --------------------------------------------------------------------------
    def greet(self, want: int, stable: int) -> int:
        """A new connection, whose peer wants the frames from ``want`` on; how many are resent."""
        if want < self.forgotten or stable < self.forgotten:
            raise PeerError(
                f"{self.name} asks for frame {want}, but had confirmed all up to "
                f"{self.forgotten - 1}: its state was lost or replaced by an older one."
            )
        self.hear(want, stable)
        resent = sum(want <= frame.seq < self._cursor for frame in self.out)
        self._cursor = want
        return resent

    def hear(self, ack: int, stable: int) -> None:
        """The peer expects ``ack`` next and will not ask for what is below ``stable``."""
        self.acknowledged = max(self.acknowledged, ack)
        self.forgotten = max(self.forgotten, stable)
        while self.out and self.out[0].seq < self.forgotten:
            self.unconfirmed -= self.out.popleft().length

    def pending(self) -> list[Frame]:
        """Frames to be written now, in order; they count as written on this connection."""
        found = [frame for frame in self.out if frame.seq >= self._cursor]
        self._cursor = max(self._cursor, self.next_out)
        return found

    def accept(self, frame: Frame) -> bool:
        """Take a frame that came; whether it is news for the program."""
        self.hear(frame.ack, frame.stable)
        if frame.kind == Kind.PING and frame.tag > self.next_in:
            raise Gap(f"frame {self.next_in} of {self.name} did not arrive")
        if frame.kind not in NUMBERED:
            return False
        if frame.seq > self.next_in:
            raise Gap(f"frame {self.next_in} of {self.name} is missing before {frame.seq}")
        digest = frame.digest()
        if frame.seq < self.next_in:
            if self._digests[frame.seq] != digest:
                raise PeerError(
                    f"{self.name} sent frame {frame.seq} again with another content: its run is "
                    "not reproducible. State is kept; look at its data and versions."
                )
            return False
        self._digests[frame.seq] = digest
        self.next_in += 1
        self.inbox.append(frame)
        return True
