"""One neighbour, over any number of connections: every frame is consumed exactly once, in order.

No input or output here. The program makes frames and consumes them; a connection writes what is
pending and hands over what comes. A frame is kept until the peer says that it will never ask for it
again: it has consumed the frame and its journal is on disk.
"""

from collections import deque

from dual2.errors import PeerError
from dual2.runtime.peers.frames import HEADER_SIZE, NUMBERED, Frame, Kind, check_of

KEEP = 256 * 2**20
"""Most bytes that are kept for a peer: then the program waits for it. A peer that sends more than
that, and one frame, ahead of what was consumed does not keep to it."""
_COMPARED = 4096
"""So many of the last frames are compared with what comes again."""


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
    known : int
        What the peer has heard of ``durable``, as far as it says so: at the end.
    parting : bool
        Whether the last frame was made.
    unconfirmed : int
        Bytes that are kept for the peer.
    fresh : bool
        Whether the state of this party began with this process: then the peer can only have what
        was made since.
    key : bytes
        Under which what came is known again.
    """

    def __init__(self, peer: int, name: str) -> None:
        self.peer, self.name, self.fresh, self.key = peer, name, False, b""
        self.next_out = self.next_in = self.durable = self.forgotten = 1
        self.out: deque[Frame] = deque()
        self.inbox: deque[Frame] = deque()
        self.from_journal = 0
        self.consumed = 1
        self.acknowledged = self.known = 1
        self.parting = False
        self.unconfirmed = self._unconsumed = 0
        self._cursor = 1
        self._contents: deque[tuple[object, ...]] = deque(maxlen=_COMPARED)

    # -- the program ---------------------------------------------------------------------------
    def make(self, frame: Frame) -> None:
        """Number a frame and keep it, to be written now or whenever the peer is there."""
        frame = frame.numbered(self.next_out)
        self.next_out += 1
        if frame.seq >= self.forgotten:
            self.out.append(frame)
            self.unconfirmed += _size(frame)

    def consume(self) -> tuple[Frame, bool]:
        """The next frame for the program, and whether it came from the journal."""
        frame = self.inbox.popleft()
        self._unconsumed -= _size(frame)
        self.consumed += 1
        old = self.from_journal > 0
        self.from_journal -= old
        return frame, old

    def refill(self, frames: list[Frame]) -> None:
        """Begin again with the frames that the journal has: they are consumed once more."""
        for frame in frames:
            self.hear(frame.ack, frame.stable)
            self._check(frame)
            self._add(frame)
        self.from_journal = len(frames)
        self.durable = self.next_in

    def settle(self) -> None:
        """The journal is on disk: what was consumed will not be asked for again."""
        self.durable = max(self.durable, self.consumed)

    @property
    def over(self) -> bool:
        """Whether the peer has all there ever is: it is told that this is known."""
        return self.parting and self.forgotten >= self.next_out

    # -- a connection --------------------------------------------------------------------------
    def greet(self, want: int, stable: int) -> int:
        """A new connection, whose peer wants the frames from ``want`` on; how many are resent."""
        if want < self.forgotten or stable < self.forgotten:
            raise PeerError(
                f"{self.name} asks for frame {want}, but had confirmed all up to "
                f"{self.forgotten - 1}: its state was lost or replaced by an older one."
            )
        if self.fresh and want > self.next_out:
            raise PeerError(
                f"{self.name} has {want - 1} frames of an earlier attempt of its neighbour, whose "
                "state is new: it was lost or deleted. Restore it; a new attempt needs new state "
                "folders at all parties."
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
            self.unconfirmed -= _size(self.out.popleft())

    def first(self) -> Frame | None:
        """The next frame to be written on this connection, if there is one."""
        at = self._cursor - self.out[0].seq if self.out else 0
        return self.out[max(at, 0)] if self.out and at < len(self.out) else None

    def written(self, frame: Frame) -> None:
        """It counts as written on this connection."""
        self._cursor = max(self._cursor, frame.seq + 1)

    def pending(self) -> list[Frame]:
        """Frames to be written now, in order; they count as written on this connection."""
        found = [frame for frame in self.out if frame.seq >= self._cursor]
        self._cursor = max(self._cursor, self.next_out)
        return found

    def accept(self, frame: Frame, most: int = 0) -> bool:
        """Take a frame that came; whether it is news for the program.

        ``most`` are the bytes of the longest frame.
        """
        if frame.stable > frame.ack:
            raise PeerError(
                f"{self.name} calls frames below {frame.stable} stable, but has received those "
                f"below {frame.ack} only."
            )
        self.hear(frame.ack, frame.stable)
        if frame.kind == Kind.ACK:
            self.known = max(self.known, frame.tag)
        if frame.kind == Kind.PING and frame.tag > self.next_in:
            raise Gap(f"frame {self.next_in} of {self.name} did not arrive")
        if frame.kind not in NUMBERED or not self._check(frame):
            return False
        if self._unconsumed > KEEP + most:
            raise PeerError(
                f"{self.name} sent {self._unconsumed} bytes ahead; expected at most {KEEP + most}."
            )
        self._add(frame)
        return True

    def _check(self, frame: Frame) -> bool:
        """Whether a frame is the next one; an error if it cannot be."""
        frame.mark = frame.mark or check_of(self.key, frame.payload)
        if frame.seq > self.next_in:
            raise Gap(f"frame {self.next_in} of {self.name} is missing before {frame.seq}")
        back = self.next_in - frame.seq
        if 0 < back <= len(self._contents) and self._contents[-back] != frame.content():
            raise PeerError(
                f"{self.name} sent frame {frame.seq} again with another content: its run is "
                "not reproducible. State is kept; look at its data and versions."
            )
        return back == 0

    def _add(self, frame: Frame) -> None:
        self._contents.append(frame.content())
        self._unconsumed += _size(frame)
        self.next_in += 1
        self.inbox.append(frame)


def _size(frame: Frame) -> int:
    return HEADER_SIZE + frame.length
