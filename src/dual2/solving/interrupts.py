"""What Ctrl-C means, whatever the process inherited.

Scripts start background jobs with SIGINT ignored, service managers stop them with SIGTERM, a closed
terminal sends SIGHUP. To every command of ``dual2`` the three are one request: end now, keep what
is finished, exit with 130.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

ENDING = tuple(
    signal.Signals[name] for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
"""The signals that ask a command to end."""
LOOK = 0.5
"""Seconds after which who waits looks up: a signal that came just before the waiting began, or to
another thread, is heard only then."""


@contextmanager
def ending_on_request() -> Iterator[None]:
    """Let each of :data:`ENDING` raise ``KeyboardInterrupt`` inside the block.

    One exception: an inherited ignored SIGHUP stays ignored, since that is what ``nohup`` is for.
    """
    nohup = {n for n in ENDING if n.name == "SIGHUP" and signal.getsignal(n) == signal.SIG_IGN}
    heard = set(ENDING) - nohup
    with _handled(dict.fromkeys(heard, signal.default_int_handler)):
        if hasattr(signal, "pthread_sigmask"):
            signal.pthread_sigmask(signal.SIG_UNBLOCK, heard)
        yield


@contextmanager
def on_interrupt(request: Callable[[], None]) -> Iterator[None]:
    """Turn Ctrl-C inside the block into a call of ``request``; a second one interrupts at once.

    Signals that mean the same to the program (their handler raises ``KeyboardInterrupt``, as in
    :func:`ending_on_request`) are treated alike.
    """

    def handler(number: int, frame: Any) -> None:
        request()
        for other, previous in before.items():
            signal.signal(other, signal.SIG_DFL if previous is None else previous)

    alike = {n for n in ENDING if signal.getsignal(n) is signal.default_int_handler}
    # Known before the first handler is there: a signal may come while they are installed.
    before = {n: signal.getsignal(n) for n in {signal.SIGINT, *alike}}
    with _handled(dict.fromkeys(before, handler)):
        yield


@contextmanager
def _handled(handlers: dict[signal.Signals, Any]) -> Iterator[None]:
    """Install handlers, and the previous ones again in the end; only the main thread may."""
    may = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in handlers} if may else {}
    try:
        for number in before:
            signal.signal(number, handlers[number])
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, signal.SIG_DFL if previous is None else previous)
