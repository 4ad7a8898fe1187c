"""A log of who connected and what was sent, in kind and size: no values, no keys, no data.

JSON lines, each with the hash of the one before: a line that is changed or removed later shows.
"""

import hashlib
import json
import os
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from dual2.errors import Dual2Error
from dual2.files import parse_json, read_text

_FIRST = "0" * 32
MOST = 512 * 2**20


class Audit:
    """The log of one party; events may come from any thread."""

    def __init__(self, file: Path, run: str) -> None:
        self._run, self._lock = run, threading.Lock()
        self._last = _FIRST
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if file.exists():
            lines = read_text(file, MOST).splitlines(keepends=True)
            if lines and not lines[-1].endswith("\n"):  # written when the process was killed
                os.truncate(file, sum(len(line.encode()) for line in lines[:-1]))
                lines.pop()
            self._last = _link(lines[-1].rstrip("\n")) if lines else _FIRST
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._descriptor = os.open(file, flags, 0o600)

    def __call__(self, event: str, **details: Any) -> None:
        """Log an event."""
        with self._lock:
            line = {"t": round(time.time(), 3), "run": self._run, "event": event}
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
    for number, line in enumerate(read_text(file, MOST).splitlines(), 1):
        entry = parse_json(line, f"{file}, line {number}")
        if not isinstance(entry, dict) or entry.get("prev") != last:
            raise Dual2Error(
                f"{file}, line {number}: the chain is broken here. A line before it was changed, "
                "removed or added."
            )
        last = _link(line)
        found[str(entry.get("event"))] += 1
    return found
