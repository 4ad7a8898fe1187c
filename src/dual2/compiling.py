"""What happens while kernels compile: the garbage collector pauses, and whoever waits is told why.

Numba makes millions of objects that live as long as a compilation. The cyclic collector would walk
them again and again, for a sixth of the time, and find nothing.
"""

import gc
import logging
import os
import sys
import threading
import time
from typing import Any

from numba.core import event

from dual2.kernel_cache import cache_directory, cache_root

SOON = 0.3
"""Seconds of compiling that are not worth a word."""
_log = logging.getLogger("dual2")


class Watcher(event.Listener):
    """Listens to Numba's compiler, to what it does for kernels of this package."""

    def __init__(self) -> None:
        self.shown: bool | None = None
        self._lock, self._depth, self._since = threading.RLock(), 0, 0.0
        self._spent, self._collecting, self._text = 0.0, False, ""
        self._announced = False

    @property
    def busy(self) -> bool:
        """Whether a kernel compiles at this moment."""
        return self._depth > 0

    @property
    def spent(self) -> float:
        """Seconds of compiling so far."""
        with self._lock:
            return self._spent + (time.monotonic() - self._since if self._depth else 0.0)

    def on_start(self, event: Any) -> None:
        """A kernel begins to compile, perhaps one that another one calls."""
        with self._lock:
            if not self._is_ours(event):
                return
            self._depth += 1
            if self._depth == 1:
                self._since, self._collecting = time.monotonic(), gc.isenabled()
                gc.disable()
                self._text = self._text or announcement()
            self._announce()

    def on_end(self, event: Any) -> None:
        """A kernel has been compiled, or could not be."""
        with self._lock:
            if not self._is_ours(event):
                return
            self._announce()
            self._depth -= 1
            if self._depth == 0:
                self._spent += time.monotonic() - self._since
                if self._collecting:
                    gc.enable()

    def _is_ours(self, event: Any) -> bool:
        """Whether the kernel, or one that calls it, belongs to this package."""
        module = event.data["dispatcher"].py_func.__module__ or ""
        return self._depth > 0 or module.partition(".")[0] == "dual2"

    def _announce(self) -> None:
        """Say once per process that kernels compile, when that takes more than a moment."""
        if self._announced or self._spent + time.monotonic() - self._since < SOON:
            return
        self._announced = True
        _log.info("%s", self._text)
        if sys.stderr.isatty() if self.shown is None else self.shown:
            print(self._text, file=sys.stderr, flush=True)


def announcement() -> str:
    """What is said while kernels compile.

    Examples
    --------
    >>> announcement().startswith("Compiling")
    True
    """
    folder = cache_directory()
    if folder is None:
        return "Compiling kernels for this machine (about 8 s; no folder to keep them in)."
    place = str(cache_root()).replace(os.path.expanduser("~"), "~", 1)
    if any(folder.glob("*.nbc")):
        return f"Compiling more kernels for this machine (once, some seconds; kept in {place})."
    return f"Compiling kernels for this machine (once, about 8 s; kept in {place})."


WATCHER = Watcher()
"""The one of this process."""


def watch_compiler() -> None:
    """Begin to listen; at import of the first kernel."""
    event.register("numba:compile", WATCHER)


def show_compiling(wanted: bool | None) -> None:
    """Whether the announcement goes to stderr; None: only if that is a terminal."""
    WATCHER.shown = wanted


def is_compiling() -> bool:
    """Whether a kernel of this package compiles at this moment, in any thread.

    Examples
    --------
    >>> is_compiling()
    False
    """
    return WATCHER.busy


def working_clock() -> float:
    """Seconds of a clock that stands still while kernels compile: limits of time are of the rest.

    Examples
    --------
    >>> before = working_clock()
    >>> working_clock() >= before
    True
    """
    return time.perf_counter() - WATCHER.spent
