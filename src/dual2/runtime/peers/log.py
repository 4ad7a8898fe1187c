"""A log that only grows: records with their hashes, in one file of a state folder."""

import os
import struct
from collections.abc import Iterator
from pathlib import Path

from dual2.errors import Dual2Error
from dual2.files import read_bytes
from dual2.runtime.peers.crash_points import passing
from dual2.runtime.peers.folder import OWN, create, keeping, write
from dual2.runtime.peers.frames import HEADER_BYTES, Bytes, check_of, mark_of

START, FRAMES, SAID = 1, 2, 3
_KINDS = tuple(bytes((kind,)) for kind in range(256))
_POINTS = {
    what: tuple(f"{when} write {what}" for when in ("before", "within", "after"))
    for what in ("frame", "said")
}
_RECORD = struct.Struct("<IB16s")
RECORD_HEAD_BYTES = 4 + HEADER_BYTES
"""Bytes of a record before what may be long: of a frame its peer and header."""
MAX_LOG_BYTES = 16 * 2**30
"""Most bytes of a log."""
_MAX_SAID_BYTES = 64
"""More bytes than a record of what was said has: only the last one can be torn."""
_KEY = 32
"""Bytes of a log's own key."""


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
            create(
                file,
                _record(b"", START, about[:RECORD_HEAD_BYTES], about[RECORD_HEAD_BYTES:])
                + about[RECORD_HEAD_BYTES:],
            )
        self._data = read_bytes(file, MAX_LOG_BYTES)
        self.size = self.durable = self._filled = 0
        self._descriptor = os.open(file, os.O_RDWR | OWN)

    def records(self) -> Iterator[tuple[int, bytes]]:
        """Kind and content of all whole records, read once; then new ones follow them."""
        data, self._data = self._data, b""
        while self.size + _RECORD.size <= len(data):
            length, kind, digest = _RECORD.unpack_from(data, self.size)
            begin = self.size + _RECORD.size
            body = data[begin : begin + length]
            known = _digest(self.key, kind, body[:RECORD_HEAD_BYTES], body[RECORD_HEAD_BYTES:])
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
        if self._ahead and data[self.size + _MAX_SAID_BYTES :].strip(b"\0"):
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
        before, within, after = _POINTS[what]
        record = _record(self.key, kind, head, rest, mark)
        end = self.size + len(record) + len(rest)
        if end > self._filled:
            self._make_room(end)
        passing(before)
        with keeping(self.file):
            write(self._descriptor, record)
            passing(within)
            if rest:
                write(self._descriptor, rest)
        self.size = end
        passing(after)

    def _make_room(self, end: int) -> None:
        """Let the log grow to ``end``, and by some zeros more if it is to have them."""
        if end > MAX_LOG_BYTES:
            raise Dual2Error(
                f"{self.file} would exceed {MAX_LOG_BYTES} bytes; the run cannot be kept."
            )
        if end < self.size + self._ahead:
            self._filled = self.size + self._ahead
            with keeping(self.file):
                os.pwrite(self._descriptor, bytes(self._ahead), self.size)

    def sync(self) -> None:
        """Bring the records to the disk."""
        if self._sync:
            with keeping(self.file):
                os.fdatasync(self._descriptor)
        self.durable = self.size

    def close(self) -> None:
        """No more records."""
        os.close(self._descriptor)


def _digest(key: bytes, kind: int, head: bytes, rest: Bytes, mark: bytes = b"") -> bytes:
    """Hash of a record; its body is longer than ``RECORD_HEAD_BYTES`` only with a ``rest``."""
    if not rest:
        return mark_of(_KINDS[kind], head)
    return mark_of(_KINDS[kind], head, mark or check_of(key, rest))


def _record(key: bytes, kind: int, head: bytes, rest: Bytes = b"", mark: bytes = b"") -> bytes:
    """A record up to its ``rest``, which follows."""
    digest = _digest(key, kind, head, rest, mark)
    return _RECORD.pack(len(head) + len(rest), kind, digest) + head
