"""A structured log for programs: one line of JSON for each thing that happens, no values.

It has what the audit log has but the sums, and on the way the progress of the run.
"""

import json
import threading
import time
from typing import Any, TextIO

_PROGRESS = ("state", "sums", "rounds", "kkt", "target", "time_left", "waiting", "waited", "links")
"""Entries of the status that a line of progress has."""
_TOO_MANY = frozenset({"sum"})
"""Events that come with every sum: progress counts them."""


class JsonLog:
    r"""Writes lines of JSON to a stream; called with a text, it writes a message.

    Parameters
    ----------
    stream : text stream
        Usually standard error.
    about : dict, optional
        Entries that every line has: party, run and phase, as soon as they are known.

    Examples
    --------
    >>> import sys
    >>> log = JsonLog(sys.stdout, {"time": 0, "party": "lab"})
    >>> log("Going on.")
    {"time": 0, "party": "lab", "event": "message", "text": "Going on."}
    >>> log.write("link_down", peer="east")
    {"time": 0, "party": "lab", "event": "link_down", "peer": "east"}
    """

    def __init__(self, stream: TextIO, about: dict[str, Any] | None = None) -> None:
        self._stream, self._about, self._lock = stream, about or {}, threading.Lock()

    def of(self, **about: str) -> "JsonLog":
        """The same log, whose lines have more entries; a run's have party, run and phase."""
        return JsonLog(self._stream, self._about | about)

    def __call__(self, text: str) -> None:
        """Write a message."""
        self.write("message", text=text)

    def write(self, event: str, **details: Any) -> None:
        """Write an event."""
        if event in _TOO_MANY:
            return
        line = {"time": round(time.time(), 3)} | self._about | {"event": event} | details
        with self._lock:
            print(json.dumps(line, default=str), file=self._stream, flush=True)

    def progress(self, now: dict[str, Any]) -> None:
        """Write how the run goes."""
        self.write("progress", **{name: now[name] for name in _PROGRESS if name in now})
