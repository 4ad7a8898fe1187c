"""An event loop that is run by whoever waits for it, and by a thread of its own meanwhile.

A program that waits for a message runs the loop itself: no other thread has to be woken up, neither
to write nor to read. While it computes, a keeper runs the loop, but only after a pause: between one
message and the next there is no change of hands. What it waits for usually comes soon, and is read
without the machinery of the loop, which has a turn as soon as there is anything else to do.
"""

import asyncio
import selectors
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

_PAUSE = 0.05
"""Seconds for which the loop may rest before the keeper, or whoever waits, runs it."""
_READ = selectors.EVENT_READ
Ready = Callable[[], bool | int]
"""Whether what somebody waits for is there."""
_MOMENT = 0.01
"""Seconds to wait for what is read without the loop."""


class SharedEventLoop:
    """One thread at a time has the loop, and may do what else is safe only within it.

    Parameters
    ----------
    name : str
        Of the keeper's thread.
    main : callable
        The coroutine after whose end everything in the loop is cancelled and the loop closed.

    Attributes
    ----------
    loop : asyncio.AbstractEventLoop
        The loop.
    readers : dict
        What reads from a file, by its descriptor, and may do so while the loop does not run.

    Examples
    --------
    >>> async def main():
    ...     await over.wait()
    >>> over = asyncio.Event()
    >>> turns = SharedEventLoop("keeper", main)
    >>> turns.start()
    >>> with turns:
    ...     turns.run(lambda: turns.loop.time() > 0, 1.0)
    ...     over.set()
    True
    >>> turns.join(10.0)
    """

    def __init__(self, name: str, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._runner = asyncio.Runner(loop_factory=self._make_loop)
        self.readers: dict[int, Callable[[], None]] = {}
        self._ran, self._left = 0.0, True
        self._main, self._ready = main, None
        self._lock, self._nudge = threading.RLock(), threading.Event()
        self._free = threading.Condition(self._lock)
        self._held = self._kept = True
        self._used = self._ended = False
        self._asked = 0
        self._thread = threading.Thread(target=self._keep, name=name, daemon=True)

    _ready: Ready | None

    def _make_loop(self) -> asyncio.AbstractEventLoop:
        self._selector = selectors.DefaultSelector()
        return asyncio.SelectorEventLoop(self._selector)

    def start(self) -> None:
        """Begin with the main coroutine, in the keeper's thread."""
        self.loop = self._runner.get_loop()
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether there is a loop."""
        return self._thread.is_alive()

    def join(self, seconds: float) -> None:
        """Wait for the end of the main coroutine."""
        self.nudge()
        self._thread.join(seconds)

    # -- whoever has something to do -----------------------------------------------------------
    def __enter__(self) -> None:
        """Have the loop, which does not run meanwhile."""
        with self._lock:
            if self._held:
                self._ask()
            self._held = self._used = True

    def _ask(self) -> None:
        """Wait until nobody has the loop."""
        self._asked += 1
        if self._kept:
            self.loop.call_soon_threadsafe(self.loop.stop)
        while self._held:
            self._free.wait()
        self._asked -= 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._held = False
            if self._asked:
                self._free.notify_all()

    def run(self, ready: Ready, seconds: float) -> bool | int:
        """Run the loop until ``ready`` or so many seconds; whether it is. Within a turn."""
        if ready():
            return True
        if self._ended or self._read(ready):
            return ready()
        end = self.loop.call_later(seconds, self.loop.stop)
        self._ready, self._left = ready, False
        try:
            self.loop.run_forever()
        finally:
            self._ready, self._ran = None, time.monotonic()
            end.cancel()
        return ready()

    def _read(self, ready: Ready) -> bool | int:
        """Read what comes until ``ready``, or until the loop has something to do; whether it is."""
        readers, rested = self.readers, self._ran + _PAUSE
        while readers and not self._left and time.monotonic() < rested:
            events = self._selector.select(_MOMENT)
            if not events:
                break
            for key, mask in events:
                read = readers.get(key.fd)
                if read is None or mask != _READ:
                    return ready()  # the loop finds it again
                read()
            if ready():
                return True
        return False

    def nudge(self) -> None:
        """Let whoever comes first run the loop at once: something is left to do."""
        self._left = True
        self._nudge.set()

    # -- within the loop -------------------------------------------------------------------------
    def notice(self, anyway: bool = False) -> None:
        """Something has changed: whoever runs the loop looks whether it is what it waits for."""
        if self._ready is not None and (anyway or self._ready()):
            self.loop.stop()

    # -- the keeper's thread -----------------------------------------------------------------------
    def _keep(self) -> None:
        task = self.loop.create_task(self._main())
        task.add_done_callback(lambda _: self._end())
        while not self._ended:
            self._left = False
            self.loop.run_forever()
            self._ran = time.monotonic()
            if not self._ended:
                self._rest()
        self._runner.close()
        self._give()
        task.result()

    def _rest(self) -> None:
        """Leave the loop to others until it has rested for a while."""
        self._give()
        nudged = False
        while not self._take(nudged):
            nudged = self._nudge.wait(_PAUSE)
            self._nudge.clear()

    def _give(self) -> None:
        with self._lock:
            self._held = self._kept = False
            self._free.notify_all()

    def _take(self, nudged: bool) -> bool:
        """Have the loop if nobody has or wants it, and nobody had it of late."""
        with self._lock:
            free = not (self._held or self._asked) and (nudged or not self._used)
            self._used = False
            if free:
                self._held = self._kept = True
            return free

    def _end(self) -> None:
        """The main coroutine is over, whoever runs the loop: the keeper closes it."""
        self._ended = True
        self.loop.stop()
