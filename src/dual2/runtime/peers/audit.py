"""A log of who connected and what was sent, in kind and size: no values, no keys, no data.

JSON lines, each with the hash of the one before: a line that is changed or removed later shows.
"""

import functools
import hashlib
import io
import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dual2.errors import Dual2Error
from dual2.files import parse_json
from dual2.files.reading import open_regular
from dual2.runtime.peers.folder import make_private, write

HEAD_BYTES = 16
"""Bytes of the hash of a line."""
_FIRST = "0" * 2 * HEAD_BYTES
_TEXT = 1000
"""Most characters of a text in a line."""
_OF_SUMS = {"index", "shape", "masked"}
_LONGEST = 2**16
"""More bytes than a line has."""


class Audit:
    """The log of one party; events may come from any thread.

    Parameters
    ----------
    file : Path
        Where the log is; an earlier one is continued.
    run : str
        Name of the run, in every line.
    listener : callable, optional
        Called with every event as well, after it was logged.

    Attributes
    ----------
    file : Path
        See above.
    lost : int
        Lines that a full disk has not taken; the next one that is written says so.
    """

    def __init__(self, file: Path, run: str, listener: Callable[..., None] | None = None) -> None:
        self._run, self._lock, self.lost = json.dumps(run), threading.Lock(), 0
        self.file, self._listener = file, listener
        make_private(file.parent)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
        self._descriptor = os.open(file, flags, 0o600)
        self._last = self._continue(file)

    def _continue(self, file: Path) -> str:
        """Remove a line that was being written when the process was killed; hash of the last."""
        size = os.fstat(self._descriptor).st_size
        begin = max(0, size - _LONGEST)
        whole, end, _ = os.pread(self._descriptor, _LONGEST, begin).rpartition(b"\n")
        if size and not end and begin:
            raise Dual2Error(f"{file} is no audit log of a party.")
        os.ftruncate(self._descriptor, begin + len(whole) + len(end))
        last = whole.rpartition(b"\n")[2].decode(errors="replace")
        return _link(last.encode()) if end else _FIRST

    def _write(self, line: bytes) -> None:
        """A line, or none of it: a full disk must end neither the run nor the chain.

        How many were lost is the first thing that is written when there is room again.
        """
        end = os.fstat(self._descriptor).st_size
        try:
            write(self._descriptor, line + b"\n")
        except OSError:
            os.ftruncate(self._descriptor, end)
            self.lost += 1
            return
        self._last = _link(line)

    def __call__(self, event: str, **details: Any) -> None:
        """Log an event."""
        if details.keys() == _OF_SUMS:  # what comes most often
            shown = f', "index": {details["index"]}{_looks(details["shape"], details["masked"])}'
        else:
            shown = "".join(f', "{name}": {_shown(value)}' for name, value in details.items())
        with self._lock:
            lost = self.lost
            shown += f', "lost": {lost}' if lost else ""
            data = (
                f'{{"t": {time.time():.3f}, "run": {self._run}, "event": "{event}"{shown}, '
                f'"prev": "{self._last}"}}'
            ).encode()
            if self._descriptor >= 0:
                self._write(data)
                self.lost -= lost if self.lost == lost else 0
        if self._listener is not None:
            self._listener(event, **details)

    @property
    def head(self) -> bytes:
        """The hash of the last line, and so of all before."""
        with self._lock:
            return bytes.fromhex(self._last)

    def close(self) -> None:
        """No more events."""
        with self._lock:
            os.close(self._descriptor)
            self._descriptor = -1


def _link(line: bytes) -> str:
    return hashlib.blake2b(line, digest_size=HEAD_BYTES).hexdigest()


def _shown(value: Any) -> str:
    return json.dumps(value[:_TEXT] if isinstance(value, str) else value)


@functools.lru_cache(maxsize=64)
def _looks(shape: tuple[int, ...], masked: bool) -> str:
    """What many sums have in common."""
    return f', "shape": {json.dumps(shape)}, "masked": {json.dumps(masked)}'


def verify(file: Path, head: str = "") -> Counter[str]:
    """Check the chain of a log; how many events of each kind it has.

    Parameters
    ----------
    file : Path
        The log.
    head : str, optional
        A head that its party has signed once: an error unless the log has that line.
    """
    last, found, heads = _FIRST, Counter[str](), set[str]()
    with open_regular(file) as raw, io.BufferedReader(raw) as stream:
        for number, data in enumerate(iter(lambda: stream.readline(_LONGEST), b""), 1):
            line = data.decode(errors="replace").rstrip("\n")
            entry = parse_json(line, f"{file}, line {number}")
            if not isinstance(entry, dict) or entry.get("prev") != last:
                raise Dual2Error(
                    f"{file}, line {number}: the chain is broken here. A line before it was "
                    "changed, removed or added."
                )
            last = _link(line.encode())
            heads |= {last} if last == head else set()
            found[str(entry.get("event"))] += 1
    if head and not heads:
        raise Dual2Error(
            f"{file} has no line with the hash {head}: it is not the log whose head was signed."
        )
    return found
