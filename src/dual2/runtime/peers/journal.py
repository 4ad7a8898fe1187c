"""What a party must not forget: the frames it consumed, and what it said under each mask.

Two logs that only grow. A party that was killed runs its program again from the beginning; the
frames come from here instead of the network until the log ends, and the program goes on with live
ones. Since its own frames follow from those, it makes them again, bit for bit. What it says under a
mask is logged and synced before it is said; other words under the same mask are refused. Fresh
masks would not do instead: in the sum under way the others have used theirs of the same pairs.
Consumed frames are written and synced many at a time: until then the peers keep them.
"""

import json
import os
import struct
from pathlib import Path

from dual2.errors import Dual2Error
from dual2.files import parse_json
from dual2.runtime.peers.crash_points import passing
from dual2.runtime.peers.folder import lock
from dual2.runtime.peers.frames import MARK, Bytes, Frame, check_of, filled, parse_header
from dual2.runtime.peers.log import FRAMES, RECORD_HEAD_BYTES, SAID, START, Log

KEPT = "way of keeping what was said"
_MOST = 2**31
KEY_FILE = "mask.key"
"""Where a party keeps its keys of a run, in its state folder."""
_TOGETHER, _MANY, _AT_MOST = 2**15, 2**18, 2**22
"""A longer frame has a record of its own; consumed frames of more bytes than that are written where
there is nothing else to do; of more than that in any case."""
_AHEAD = 2**16
"""Zeros that are written ahead of what is said: a sync then need not tell the disk a new size."""


_BARE = 1 << 31
"""Bit beside the number of a peer: what follows is the mark of a payload, not the payload."""


def _entry(peer: int, frame: Frame) -> tuple[Bytes, Bytes]:
    """Head and body of a frame in a record."""
    whole = frame.head or frame.header(frame.ack, frame.stable)
    if frame.length and not frame.payload:
        return (peer | _BARE).to_bytes(4, "little") + whole, frame.mark
    return peer.to_bytes(4, "little") + whole, frame.payload


def start_of_machine() -> str:
    """What the system calls its present start; another one after each restart."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError as error:
        raise Dual2Error(
            "sync = false found, but this system does not tell when it was started: a state could "
            "not be told from one that lost its last records. Remove it."
        ) from error


class Journal:
    """The logs in a folder of one party, opened by one process at a time.

    Parameters
    ----------
    folder : Path
        Where the state of the party is.
    about : dict
        What the run is about (run, study, data, versions); a log about anything else is refused.
    resume : bool
        Whether a log is expected to be there; otherwise none may be.
    sync : bool
        As of :class:`Log`. Without it a state cannot be resumed after a restart of the machine:
        what was said last might be forgotten, and its mask used twice.

    Attributes
    ----------
    frames : dict
        Consumed frames by peer, as the log has them; totals by the number of the party itself.
    consumed, said : Log
        The logs.
    unsynced : int
        Consumed frames that may still be lost.
    new : bool
        Whether the state begins here.
    """

    consumed: Log
    said: Log

    def __init__(
        self, folder: Path, about: dict[str, str], resume: bool, sync: bool = True
    ) -> None:
        self.folder, self.file, self._sync = folder, folder / "journal", sync
        about = about | {KEPT: "on disk" if sync else f"since the start {start_of_machine()}"}
        self.frames: dict[int, list[Frame]] = {}
        self._said: dict[int, bytes] = {}
        self._waiting: list[list[tuple[int, Frame]]] = []
        self._bytes = self.unsynced = 0
        self._logs: list[Log] = []
        self._lock = lock(folder)
        try:
            self._open(about, resume)
        except BaseException:
            self.close()
            raise

    def _open(self, about: dict[str, str], resume: bool) -> None:
        if self.file.exists() and not resume:
            raise Dual2Error(
                f"{self.folder} has the state of a run that did not end. Go on with --resume; "
                "a new attempt needs a new name of the run (run = …) in the study and another "
                "state folder, since masks must never be used twice."
            )
        said, keys = self.folder / "said", self.folder / KEY_FILE
        self.new = not self.file.exists()
        if self.new and not keys.exists():
            said.unlink(missing_ok=True)  # new keys have masks of their own
        if not self.new and not said.exists():
            raise Dual2Error(
                f"{said} is missing, beside {self.file}: what was said under which mask cannot be "
                "known. Restore it; a new attempt needs a new name of the run and another state "
                "folder."
            )
        if self.new and not said.exists():
            keys.unlink(missing_ok=True)  # of a state that was deleted: never use a mask twice
        self.said = self._read("said", about, _AHEAD)
        if self._said and self.new:
            raise Dual2Error(
                f"{self.file} is missing, but {self.said.file} has what was said. Restore it; a "
                "new attempt needs a new name of the run and another state folder."
            )
        self.consumed = self._read("journal", about)

    # -- writing -------------------------------------------------------------------------------
    def consume(self, frames: list[tuple[int, Frame]]) -> None:
        """Log frames that the program has consumed, together, at the next sync if not before.

        Of bare ones only that they came.
        """
        self._waiting.append(frames)
        self.unsynced += len(frames)
        self._bytes += sum(RECORD_HEAD_BYTES + len(frame.payload) for _, frame in frames)
        if self._bytes > _AT_MOST:
            self._write()

    def catch_up(self) -> None:
        """Write frames that wait for it if they are long, where there is nothing else to do."""
        if self._bytes > _MANY:
            self._write()

    def _write(self) -> None:
        """Write the frames that wait for it, short ones that follow each other as one record."""
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        short: list[Bytes] = []
        for frames in waiting:
            parts = [part for peer, frame in frames for part in _entry(peer, frame)]
            if sum(map(len, parts)) <= _TOGETHER:
                short += parts
                continue
            self._append(short)
            short = []
            self._append(parts, frames[0][1].mark)
        self._append(short)

    def _append(self, parts: list[Bytes], mark: bytes = b"") -> None:
        """One record; ``mark`` is ``check_of`` the last of two parts, if it is known."""
        if len(parts) == 2:
            self.consumed.append(FRAMES, "frame", bytes(parts[0]), parts[1], mark)
        elif parts:
            self.consumed.append(FRAMES, "frame", bytes(parts[0]), b"".join(parts[1:]))

    def append_said(self, index: int, words: Bytes) -> bool:
        """Log what is about to be said in sum ``index``, on the disk; whether it is new."""
        digest, known = check_of(self.said.key, words), self._said.get(index)
        if known is not None:
            if known != digest:
                raise Dual2Error(
                    f"Sum {index} was computed again with another value, which must not be sent: "
                    "with the first one it would show their difference. Were data, versions or "
                    "the number of threads changed? The state is kept; a new attempt needs a new "
                    "name of the run."
                )
            return False
        self._said[index] = digest
        self.said.append(SAID, "said", index.to_bytes(8, "little") + digest)
        passing("before sync said")
        self.said.sync()
        passing("after sync said")
        return True

    @property
    def has_spoken(self) -> bool:
        """Whether anything was said under a mask."""
        return bool(self._said)

    def sync(self) -> None:
        """Bring the consumed frames to the disk."""
        self._write()
        passing("before sync")
        self.consumed.sync()
        self.unsynced = 0
        passing("after sync")

    # -- reading -------------------------------------------------------------------------------
    def _read(self, name: str, about: dict[str, str], ahead: int = 0) -> Log:
        log = Log(self.folder / name, json.dumps(about, sort_keys=True).encode(), ahead, self._sync)
        self._logs.append(log)
        for kind, body in log.records():
            self._take(kind, body, about, log.file)
        return log

    def _take(self, kind: int, body: bytes, about: dict[str, str], file: Path) -> None:
        if kind == START:
            self._compare(about, body, file)
        elif kind == FRAMES:
            at = 0
            while at < len(body):
                (peer,) = struct.unpack_from("<I", body, at)
                frame = parse_header(body[at + 4 : at + RECORD_HEAD_BYTES], _MOST)
                begin, bare = at + RECORD_HEAD_BYTES, peer & _BARE
                at = begin + (MARK if bare else frame.length)
                if bare:
                    frame.mark = body[begin:at]
                else:
                    frame = filled(frame, body[begin:at])
                self.frames.setdefault(peer & ~_BARE, []).append(frame)
        else:
            (index,) = struct.unpack_from("<Q", body)
            self._said[index] = body[8:]

    def _compare(self, about: dict[str, str], body: bytes, file: Path) -> None:
        known = parse_json(body.decode(), file)
        for name, value in about.items():
            if known.get(name) != value:
                raise Dual2Error(
                    f"{self.folder} belongs to a run with another {name} ({known.get(name)}) than "
                    f"now ({value}). Restore it, or start anew under a new name of the run."
                )

    def erase(self) -> None:
        """The run is over, whatever happens from here on."""
        self.file.unlink()
        self.said.file.unlink()

    def close(self) -> None:
        """Give the folder free."""
        for log in self._logs:
            log.close()
        self._logs.clear()
        os.close(self._lock)
