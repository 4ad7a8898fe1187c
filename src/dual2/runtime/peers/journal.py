"""What a party must not forget: the frames it consumed, and what it said under each mask.

A log that only grows. A party that was killed runs its program again from the beginning; the frames
come from here instead of the network until the log ends, and the program goes on with live ones.
Since its own frames follow from those, it makes them again, bit for bit. What it says under a mask
is logged before it is said; other words under the same mask are refused.
"""

import hashlib
import json
import os
import struct
from pathlib import Path

from dual2.errors import Dual2Error, PeerError
from dual2.files import parse_json, read_bytes
from dual2.runtime.peers.crash_points import passing
from dual2.runtime.peers.frames import HEADER_SIZE, Frame, filled, parse_header

START, FRAME, SAID = 1, 2, 3
_RECORD = struct.Struct("<IB16s")
_MOST = 2**31
QUOTA = 16 * 2**30
"""Most bytes of a journal."""


class Journal:
    """The log in a folder of one party, opened by one process at a time.

    Parameters
    ----------
    folder : Path
        Where the state of the party is.
    about : dict
        What the run is about (run, study, data, versions); a log about anything else is refused.
    resume : bool
        Whether a log is expected to be there; otherwise none may be.

    Attributes
    ----------
    frames : dict
        Consumed frames by peer, as the log has them.
    unsynced : int
        Records that may still be lost.
    size, durable : int
        Bytes of the log, and how many of them are on the disk.
    """

    def __init__(self, folder: Path, about: dict[str, str], resume: bool) -> None:
        self.folder, self.file = folder, folder / "journal"
        self.frames: dict[int, list[Frame]] = {}
        self._said: dict[int, bytes] = {}
        self.unsynced, self._descriptor = 0, -1
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = lock(folder)
        try:
            self._open(about, resume)
        except BaseException:
            self.close()
            raise

    def _open(self, about: dict[str, str], resume: bool) -> None:
        if self.file.exists():
            if not resume:
                raise Dual2Error(
                    f"{self.folder} has the state of a run that did not end. Go on with --resume; "
                    "a new attempt needs a new name of the run (run = …) in the study and another "
                    "state folder, since masks must never be used twice."
                )
            size = self._load(about)
            self._descriptor = os.open(self.file, os.O_WRONLY | os.O_CLOEXEC)
            os.ftruncate(self._descriptor, size)
            os.lseek(self._descriptor, size, os.SEEK_SET)
            os.fsync(self._descriptor)  # what is read counts as kept from now on
            self.size = self.durable = size
            return
        record = _record(START, json.dumps(about, sort_keys=True).encode())
        create(self.file, record)
        self.size = self.durable = len(record)
        self._descriptor = os.open(self.file, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)

    # -- writing -------------------------------------------------------------------------------
    def consume(self, peer: int, frame: Frame) -> None:
        """Log a frame that the program has consumed."""
        self._append(_record(FRAME, struct.pack("<I", peer) + frame.packed()), "frame")

    def say(self, index: int, words: bytes) -> bool:
        """Log what is about to be said in sum ``index``; whether it is new, and must be synced."""
        digest = hashlib.blake2b(words, digest_size=16).digest()
        if index in self._said:
            if self._said[index] != digest:
                raise Dual2Error(
                    f"Sum {index} was computed again with another value, which must not be sent: "
                    "with the first one it would show their difference. Were data, versions or "
                    "the number of threads changed? The state is kept; a new attempt needs a new "
                    "name of the run."
                )
            return False
        self._said[index] = digest
        self._append(_record(SAID, struct.pack("<Q", index) + digest), "said")
        return True

    def _append(self, record: bytes, what: str) -> None:
        if self.size + len(record) > QUOTA:
            raise Dual2Error(f"{self.file} would exceed {QUOTA} bytes; the run cannot be kept.")
        passing(f"before write {what}")
        _write(self._descriptor, record[: len(record) // 2])
        passing(f"within write {what}")
        _write(self._descriptor, record[len(record) // 2 :])
        self.size += len(record)
        self.unsynced += 1
        passing(f"after write {what}")

    def sync(self) -> None:
        """Bring the log to the disk."""
        passing("before sync")
        os.fdatasync(self._descriptor)
        self.unsynced, self.durable = 0, self.size
        passing("after sync")

    # -- reading -------------------------------------------------------------------------------
    def _load(self, about: dict[str, str]) -> int:
        """Read the log; how many bytes of it are whole."""
        data = read_bytes(self.file, QUOTA)
        at, first = 0, True
        while at + _RECORD.size <= len(data):
            length, kind, digest = _RECORD.unpack_from(data, at)
            body = data[at + _RECORD.size : at + _RECORD.size + length]
            if len(body) != length or digest != _digest(kind, body):
                break  # written when the process was killed
            if first != (kind == START):
                raise Dual2Error(f"{self.file} is no journal of a party.")
            if first:
                self._compare(about, body)
            elif kind == FRAME:
                self._take_frame(body)
            else:
                (index,) = struct.unpack_from("<Q", body)
                self._said[index] = body[8:]
            at, first = at + _RECORD.size + length, False
        if first:
            raise Dual2Error(f"{self.file} is no journal of a party.")
        return at

    def _take_frame(self, body: bytes) -> None:
        (peer,) = struct.unpack_from("<I", body)
        header = parse_header(body[4 : 4 + HEADER_SIZE], _MOST)
        self.frames.setdefault(peer, []).append(filled(header, body[4 + HEADER_SIZE :]))

    def _compare(self, about: dict[str, str], body: bytes) -> None:
        known = parse_json(body.decode(), self.file)
        for name, value in about.items():
            if known.get(name) != value:
                raise Dual2Error(
                    f"{self.folder} belongs to a run with another {name} ({known.get(name)}) than "
                    f"now ({value}). Restore it, or start anew under a new name of the run."
                )

    def close(self) -> None:
        """Give the folder free."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        os.close(self._lock)
        self._descriptor = -1


def _digest(kind: int, body: bytes) -> bytes:
    return hashlib.blake2b(bytes([kind]) + body, digest_size=16).digest()


def _record(kind: int, body: bytes) -> bytes:
    return _RECORD.pack(len(body), kind, _digest(kind, body)) + body


def _write(descriptor: int, content: bytes) -> None:
    """Write all of it; the system may take a part at a time."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def lock(folder: Path) -> int:
    """Lock a state folder for this process, or say that another has it."""
    import fcntl  # where there is none, all else of the package works

    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise PeerError(
            f"Another process uses {folder}. Two processes with one state would use masks twice."
        ) from None
    return descriptor


def create(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Write a file beside its place, sync it, rename it, sync its folder."""
    new = path.with_name(f".{path.name}.new")
    passing("before create")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        os.fchmod(descriptor, mode)
        _write(descriptor, content)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    passing("before rename")
    os.replace(new, path)
    passing("after rename")
    folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
