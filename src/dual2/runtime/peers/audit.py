"""A log of who connected and what was sent, in kind and size: no values, no keys, no data.

JSON lines, each with the hash of the one before: a line that is changed or removed later shows.
"""

import hashlib
import io
import json
import os
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from dual2.errors import Dual2Error
from dual2.files import parse_json
from dual2.files.reading import open_regular
from dual2.runtime.peers.journal import make_private

_FIRST = "0" * 32
_TEXT = 1000
"""Most characters of a text in a line."""
_LONGEST = 2**16
"""More bytes than a line has."""


class Audit:
    """The log of one party; events may come from any thread."""

    def __init__(self, file: Path, run: str) -> None:
        self._run, self._lock = run, threading.Lock()
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
        return _link(whole.rpartition(b"\n")[2].decode(errors="replace")) if end else _FIRST

    def __call__(self, event: str, **details: Any) -> None:
        """Log an event."""
        with self._lock:
            line = {"t": round(time.time(), 3), "run": self._run, "event": event}
            details = {k: v[:_TEXT] if isinstance(v, str) else v for k, v in details.items()}
            text = json.dumps(line | details | {"prev": self._last})
            if self._descriptor >= 0:
                os.write(self._descriptor, f"{text}\n".encode())
                self._last = _link(text)

    def close(self) -> None:
        """No more events."""
        with self._lock:
            os.close(self._descriptor)
            self._descriptor = -1


def _link(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def verify(file: Path) -> Counter[str]:
    """Check the chain of a log; how many events of each kind it has."""
    last, found = _FIRST, Counter[str]()
    with open_regular(file) as raw, io.BufferedReader(raw) as stream:
        for number, data in enumerate(iter(lambda: stream.readline(_LONGEST), b""), 1):
            line = data.decode(errors="replace").rstrip("\n")
            entry = parse_json(line, f"{file}, line {number}")
            if not isinstance(entry, dict) or entry.get("prev") != last:
                raise Dual2Error(
                    f"{file}, line {number}: the chain is broken here. A line before it was "
                    "changed, removed or added."
                )
            last = _link(line)
            found[str(entry.get("event"))] += 1
    return found
