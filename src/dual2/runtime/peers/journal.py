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
import stat
import struct
from collections.abc import Iterator
from pathlib import Path

from dual2.errors import Dual2Error, PeerError
from dual2.files import parse_json, read_bytes
from dual2.runtime.peers.crash_points import passing
from dual2.runtime.peers.frames import (
    HEADER_SIZE,
    Bytes,
    Frame,
    check_of,
    filled,
    mark_of,
    parse_header,
)

START, FRAMES, SAID = 1, 2, 3
KEPT = "way of keeping what was said"
_RECORD = struct.Struct("<IB16s")
_HEAD = 4 + HEADER_SIZE
"""Bytes of a record before what may be long: of a frame its peer and header."""
_MOST = 2**31
QUOTA = 16 * 2**30
"""Most bytes of a log."""
KEY_FILE = "mask.key"
"""Where a party keeps its keys of a run, in its state folder."""
_OWN = os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
"""Files of a state folder are its own, never links to others."""
_TOGETHER, _AT_MOST = 2**15, 2**22
"""A longer frame has a record of its own; consumed frames of so many bytes are written at once."""
_MOST_SAID = 64
"""More bytes than a record of what was said has: only the last one can be torn."""
_KEY = 32
"""Bytes of a log's own key."""
_AHEAD = 2**16
"""Zeros that are written ahead of what is said: a sync then need not tell the disk a new size."""


def start_of_machine() -> str:
    """What the system calls its present start; another one after each restart."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError as error:
        raise Dual2Error(
            "sync = false found, but this system does not tell when it was started: a state could "
            "not be told from one that lost its last records. Remove it."
        ) from error


class Log:
    """Records in a file, each with its hash; what follows the last whole one does not count.

    A record is checked under a key of its log (:func:`~dual2.runtime.peers.frames.check_of`), which
    begins with it: whoever may read the one may read the other, and nobody else sees either.

    Parameters
    ----------
    file : Path
        Where they are.
    about : bytes
        The first record of a new file.
    ahead : int
        So many zeros are written before the records that will take their place.
    sync : bool
        Whether what is kept is on the disk, or with the system only: then it outlives the process,
        not the machine.

    Attributes
    ----------
    size, durable : int
        Bytes of the records, and how many of them are on the disk.
    key : bytes
        Drawn when the file is made.
    """

    key = b""

    def __init__(self, file: Path, about: bytes, ahead: int = 0, sync: bool = True) -> None:
        self.file, self._ahead, self._sync = file, ahead, sync
        if not file.exists():
            about = os.urandom(_KEY) + about
            create(file, _record(b"", START, about[:_HEAD], about[_HEAD:]) + about[_HEAD:])
        self._data = read_bytes(file, QUOTA)
        self.size = self.durable = self._filled = 0
        self._descriptor = os.open(file, os.O_RDWR | _OWN)

    def records(self) -> Iterator[tuple[int, bytes]]:
        """Kind and content of all whole records, read once; then new ones follow them."""
        data, self._data = self._data, b""
        while self.size + _RECORD.size <= len(data):
            length, kind, digest = _RECORD.unpack_from(data, self.size)
            begin = self.size + _RECORD.size
            body = data[begin : begin + length]
            known = _digest(self.key, kind, body[:_HEAD], body[_HEAD:])
            if len(body) != length or digest != known:
                break  # written when the process was killed, or zeros
            if (self.size == 0) != (kind == START):
                break
            if kind == START:
                self.key, body = body[:_KEY], body[_KEY:]
            self.size = begin + length
            yield kind, body
        if self.size == 0:
            raise Dual2Error(f"{self.file} is no journal of a party.")
        if self._ahead and data[self.size + _MOST_SAID :].strip(b"\0"):
            raise Dual2Error(
                f"{self.file} is damaged at byte {self.size}: what was said in later sums cannot "
                "be known. Restore it; a new attempt needs a new name of the run and another state "
                "folder."
            )
        os.ftruncate(self._descriptor, self.size)
        os.lseek(self._descriptor, self.size, os.SEEK_SET)
        os.fsync(self._descriptor)  # what is read counts as kept from now on
        self.durable = self._filled = self.size

    def append(
        self, kind: int, what: str, head: bytes, rest: Bytes = b"", mark: bytes = b""
    ) -> None:
        """Write a record; ``mark`` is ``check_of`` its ``rest``, if it is known."""
        head = _record(self.key, kind, head, rest, mark)
        length = len(head) + len(rest)
        if self.size + length > QUOTA:
            raise Dual2Error(f"{self.file} would exceed {QUOTA} bytes; the run cannot be kept.")
        if self.size + length > self._filled and length < self._ahead:
            self._filled = self.size + self._ahead
            os.pwrite(self._descriptor, bytes(self._ahead), self.size)
        passing(f"before write {what}")
        _write(self._descriptor, head)
        passing(f"within write {what}")
        _write(self._descriptor, rest)
        self.size += length
        passing(f"after write {what}")

    def sync(self) -> None:
        """Bring the records to the disk."""
        if self._sync:
            os.fdatasync(self._descriptor)
        self.durable = self.size

    def close(self) -> None:
        """No more records."""
        os.close(self._descriptor)


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
        Consumed frames by peer, as the log has them.
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
        self._waiting: list[tuple[int, Frame]] = []
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
    def consume(self, peer: int, frame: Frame) -> None:
        """Log a frame that the program has consumed, at the next sync if not before."""
        self._waiting.append((peer, frame))
        self._bytes += _HEAD + frame.length
        self.unsynced += 1
        if self._bytes > _AT_MOST:
            self._write()

    def catch_up(self) -> None:
        """Write long frames that wait for it, where there is nothing else to do."""
        if self._bytes > _TOGETHER:
            self._write()

    def _write(self) -> None:
        """Write the frames that wait for it, short ones that follow each other as one record."""
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        short: list[Bytes] = []
        for peer, frame in waiting:
            head = struct.pack("<I", peer) + frame.header(frame.ack, frame.stable)
            if frame.length <= _TOGETHER:
                short += [head, frame.payload]
                continue
            self._append(short)
            short = []
            self.consumed.append(FRAMES, "frame", head, frame.payload, frame.mark)
        self._append(short)

    def _append(self, parts: list[Bytes]) -> None:
        if parts:
            self.consumed.append(FRAMES, "frame", bytes(parts[0]), b"".join(parts[1:]))

    def say(self, index: int, words: Bytes) -> bool:
        """Log what is about to be said in sum ``index``, on the disk; whether it is new."""
        digest = check_of(self.said.key, words)
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
        self.said.append(SAID, "said", struct.pack("<Q", index) + digest)
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
                header = parse_header(body[at + 4 : at + _HEAD], _MOST)
                at += _HEAD + header.length
                frame = filled(header, body[at - header.length : at])
                self.frames.setdefault(peer, []).append(frame)
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


def _digest(key: bytes, kind: int, head: bytes, rest: Bytes, mark: bytes = b"") -> bytes:
    """Hash of a record whose body has more than ``_HEAD`` bytes only if there is a ``rest``."""
    parts = (bytes([kind]), head)
    return mark_of(*parts, mark or check_of(key, rest)) if rest else mark_of(*parts)


def _record(key: bytes, kind: int, head: bytes, rest: Bytes = b"", mark: bytes = b"") -> bytes:
    """A record up to its ``rest``, which follows."""
    digest = _digest(key, kind, head, rest, mark)
    return _RECORD.pack(len(head) + len(rest), kind, digest) + head


def _write(descriptor: int, content: Bytes) -> None:
    """Write all of it; the system may take a part at a time."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def make_private(folder: Path) -> None:
    """Make a folder, and those above it that are missing, each open to its owner alone."""
    for one in reversed((folder, *folder.parents)):
        if not one.exists():
            one.mkdir(mode=0o700, exist_ok=True)


def lock(folder: Path) -> int:
    """Lock a state folder for this process, or say that another has it."""
    import fcntl  # where there is none, all else of the package works

    make_private(folder)
    found = os.stat(folder)
    if found.st_mode & 0o022 or found.st_uid != os.getuid():
        raise Dual2Error(
            f"Others may write in {folder} (rights {stat.S_IMODE(found.st_mode):04o}, owner "
            f"{found.st_uid}). Expected a folder of your own: chmod 700 {folder}"
        )
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | _OWN, 0o600)
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
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _OWN, mode)
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
