"""One neighbour, over any number of connections: every frame is consumed exactly once, in order.

No input or output here. The program makes frames and consumes them; a connection writes what is
pending and hands over what comes. A frame is kept until the peer says that it will never ask for it
again: it has consumed the frame and its journal is on disk.
"""

from collections import deque

from dual2.errors import PeerError
from dual2.runtime.peers.frames import NUMBERED, SHORT_BYTES, Frame, Kind, check_of

MAX_KEPT_BYTES = 256 * 2**20
"""Most bytes that are kept for a peer: then the program waits for it. A peer that sends more than
that, and one frame, ahead of what was consumed does not keep to it."""
FRAME_OVERHEAD_BYTES = 1024
"""What a frame counts for beyond its payload: many small ones must not fill the memory."""
_COMPARED_FRAMES = 4096
"""So many of the last frames are compared with what comes again."""


class Gap(Exception):
    """A frame is missing on this connection: make a new one."""


class ReliableChannel:
    """The state of a link; all calls under one lock.

    Attributes
    ----------
    next_out, next_in : int
        Number of the next frame to be made, and to be received.
    durable : int
        Below it all received frames are consumed and in the journal on disk: ``stable`` of the
        frames that are sent.
    consumed, logged : int
        Below it all received frames are consumed, and given to the journal.
    forgotten : int
        What the peer says of ours: frames below it are not kept.
    known : int
        What the peer has heard of ``durable``, as far as it says so: at the end.
    parting : bool
        Whether the last frame was made.
    unconfirmed, unread : int
        Bytes that are kept for the peer, and that came from it and are not consumed.
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
        self.consumed = self.logged = 1
        self.acknowledged = self.known = 1
        self.parting = False
        self.unconfirmed = self.unread = 0
        self._cursor = self._settled = 1
        self._contents: deque[Frame | bytes] = deque(maxlen=_COMPARED_FRAMES)
        self._whole = 0

    # -- the program ---------------------------------------------------------------------------
    def enqueue(self, frame: Frame) -> None:
        """Number a frame and keep it, to be written now or whenever the peer is there.

        One that is made again and that the peer will not ask for is numbered only.
        """
        seq = self.next_out
        self.next_out, frame = seq + 1, frame.numbered(seq)
        if seq >= self.forgotten:
            self.out.append(frame)
            self.unconfirmed += FRAME_OVERHEAD_BYTES + frame.length

    def consume(self) -> tuple[Frame, bool]:
        """The next frame for the program, and whether it came from the journal."""
        frame, old = self.inbox.popleft(), self.from_journal > 0
        self.consumed += 1
        if old:
            self.from_journal -= 1
        else:
            self.unread -= FRAME_OVERHEAD_BYTES + frame.length
        return frame, old

    def log(self) -> None:
        """All that was consumed is given to the journal, which may not be on disk yet."""
        self.logged = self.consumed

    def refill(self, frames: list[Frame]) -> None:
        """Begin again with the frames that the journal has: they are consumed once more."""
        for frame in frames:
            self.on_ack(frame.ack, frame.stable)
            self._check(frame)
            self._add(frame)
        self.from_journal, self.unread = len(frames), 0  # the peer did not send them ahead
        self.durable = self.next_in

    def settle(self) -> bool:
        """The journal is on disk: what was given to it will not be asked for again.

        Whether the peer should be told at once: no frame was made for it since the last time, and
        the next one may be long in coming.
        """
        self.durable = max(self.durable, self.logged)
        self._reduce()
        before, self._settled = self._settled, self.next_out
        return before == self.next_out

    @property
    def drained(self) -> bool:
        """Whether the peer has all there ever is: it is told that this is known."""
        return self.parting and self.forgotten >= self.next_out

    # -- a connection --------------------------------------------------------------------------
    def on_connect(self, want: int, stable: int) -> int:
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
        self.on_ack(want, stable)
        resent = sum(want <= frame.seq < self._cursor for frame in self.out)
        self._cursor = want
        return resent

    def on_ack(self, ack: int, stable: int) -> None:
        """The peer expects ``ack`` next and will not ask for what is below ``stable``.

        A party whose state began with this process knows all that it ever sent.
        """
        if self.fresh and max(ack, stable) > self.next_out:
            raise PeerError(
                f"{self.name} says that it has frame {max(ack, stable) - 1}; "
                f"{self.next_out - 1} were sent."
            )
        if ack > self.acknowledged:
            self.acknowledged = ack
        if stable > self.forgotten:
            self.forgotten, out = stable, self.out
            while out and out[0].seq < stable:
                self.unconfirmed -= FRAME_OVERHEAD_BYTES + out.popleft().length

    def first(self) -> Frame | None:
        """The next frame to be written on this connection, if there is one."""
        if self._cursor >= self.next_out or not self.out:
            return None
        return self.out[max(self._cursor - self.out[0].seq, 0)]

    def written(self, frame: Frame) -> Frame | None:
        """It counts as written on this connection; the next one."""
        after = frame.seq + 1
        if after > self._cursor:
            self._cursor = after
        return self.first() if self._cursor < self.next_out else None

    def pending(self) -> list[Frame]:
        """Frames to be written now, in order; they count as written on this connection."""
        found = [frame for frame in self.out if frame.seq >= self._cursor]
        self._cursor = max(self._cursor, self.next_out)
        return found

    def accept(self, frame: Frame, most: int = 0) -> bool:
        """Take a frame that came; whether it is news for the program.

        ``most`` are the bytes of the longest frame.
        """
        ack, stable = frame.ack, frame.stable
        if stable > ack:
            raise PeerError(
                f"{self.name} calls frames below {stable} stable, but has received those below "
                f"{ack} only."
            )
        self.on_ack(ack, stable)
        if frame.kind not in NUMBERED:
            if frame.kind == Kind.ACK:
                if frame.tag > self.durable:
                    raise PeerError(
                        f"{self.name} was never told that its frames below {frame.tag} are kept; "
                        f"expected at most {self.durable}."
                    )
                self.known = max(self.known, frame.tag)
            if frame.kind == Kind.PING and frame.tag > self.next_in:
                raise Gap(f"frame {self.next_in} of {self.name} did not arrive")
            return False
        if not self._check(frame):
            return False
        if self.unread > MAX_KEPT_BYTES + most:
            raise PeerError(
                f"{self.name} sent {self.unread} bytes ahead; expected at most "
                f"{MAX_KEPT_BYTES + most}."
            )
        self._add(frame)
        return True

    def _check(self, frame: Frame) -> bool:
        """Whether a frame is the next one; an error if it cannot be."""
        back = self.next_in - frame.seq
        if frame.length > SHORT_BYTES and not frame.mark:
            frame.mark = check_of(self.key, frame.payload)
        if not back:
            return True
        if back < 0:
            raise Gap(f"frame {self.next_in} of {self.name} is missing before {frame.seq}")
        if back <= len(self._contents) and self._content(back) != frame.content():
            raise PeerError(
                f"{self.name} sent frame {frame.seq} again with another content: its run is "
                "not reproducible. State is kept; look at its data and versions."
            )
        return False

    def _content(self, back: int) -> bytes:
        """What the frame so many before the next one had in it."""
        found = self._contents[-back]
        return found.content() if isinstance(found, Frame) else found

    def _add(self, frame: Frame) -> None:
        """The next frame; a short one is hashed when the journal is on disk, for comparisons."""
        length = frame.length
        if length > SHORT_BYTES:
            self._reduce()
            self._contents.append(frame.content())
        else:
            self._contents.append(frame)
            self._whole += 1
        self.unread += FRAME_OVERHEAD_BYTES + length
        self.next_in += 1
        self.inbox.append(frame)

    def _reduce(self) -> None:
        """Of all frames that came only their hashes are kept."""
        for k in range(1, min(self._whole, len(self._contents)) + 1):
            self._contents[-k] = self._content(k)
        self._whole = 0
