"""Progress from one process to the launcher's terminal: a line of text now and then.

``mpiexec`` passes on whole lines only, and no terminal; so the bar is drawn by the launcher.
"""

import json
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from dual2.solving.progress import Bar

WATCHED = "DUAL2_WATCHED"
"""Set for the processes if the launcher's standard error is a terminal."""
MARK = "@dual2 "
"""Begins a line that is meant for the launcher."""
_EVERY = 0.2


def progress_writer(method: str, tol: float) -> Callable[[dict[str, Any]], None]:
    """A callback of ``solve`` that tells the launcher how far it is, a few times a second."""
    last = 0.0

    def tell(info: dict[str, Any]) -> None:
        nonlocal last
        if time.monotonic() - last >= _EVERY:
            last = time.monotonic()
            text = json.dumps([method, tol, info["rounds"], info["kkt"]])
            print(MARK + text, file=sys.stderr, flush=True)

    return tell


class ProgressReader(ExitStack):
    """Draws the bar from the lines of :func:`progress_writer`.

    Examples
    --------
    >>> with ProgressReader() as reader:
    ...     reader.take("@dual2 half a line"), reader.take("a message")
    (True, False)
    """

    _bar: Bar | None = None

    def take(self, line: str) -> bool:
        """Whether a line was meant for the launcher; the bar then shows what it says."""
        if not line.startswith(MARK):
            return False
        try:
            method, tol, rounds, kkt = json.loads(line.removeprefix(MARK))
        except (ValueError, TypeError, RecursionError):
            return True
        self._bar = self._bar or self.enter_context(Bar(method, tol))
        self._bar.update(rounds, kkt)
        return True
