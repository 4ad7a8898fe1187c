"""When one process fails, all end: with one message per cause, and a non-zero exit code."""

import hashlib
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from dual2.errors import Dual2Error

GRACE = 1.0
"""Seconds for the others to fail with the same cause before this process speaks for itself."""


@contextmanager
def ending_together(comm: Any, agents: Sequence[int] = ()) -> Iterator[list[int]]:
    """Run one process's part; an exception in it ends every process within seconds.

    If all processes fail within ``GRACE``, those of equal cause speak once and each exits by
    itself. If only some do, they say which rank, which agents and why, and abort the others, which
    cannot go on. Exit code 2 for bad input, 130 for an interrupt, 1 for anything else.

    Parameters
    ----------
    comm : MPI.Comm
        All processes; used for nothing else.
    agents : sequence of int
        Agents that this process owns, for the message; the list that the context gives may be
        filled later.
    """
    owned = list(agents)
    try:
        yield owned
    except SystemExit:
        raise
    except BaseException as error:
        raise SystemExit(_fail(comm, owned, error)) from None


def _fail(comm: Any, owned: list[int], error: BaseException) -> int:
    code = _exit_code(error)
    text = _cause(error)
    together = _gather_digests(comm, text)
    own = f"dual2: rank {comm.rank}{agents_in_words(owned)}: {text}"
    if together is None:
        _say(own)
        comm.Abort(code)
    elif together.index(together[comm.rank]) == comm.rank:
        _say(own if together.count(together[comm.rank]) == 1 else f"dual2: {text}")
    return code


def _exit_code(error: BaseException) -> int:
    if isinstance(error, KeyboardInterrupt):
        return 130
    return 2 if isinstance(error, Dual2Error) else 1


def _cause(error: BaseException) -> str:
    """The message of an expected error; for any other also where it was raised."""
    if isinstance(error, Dual2Error):
        return str(error)
    last = traceback.extract_tb(error.__traceback__)[-1:]
    where = f" ({last[0].filename}, line {last[0].lineno})" if last else ""
    return f"{type(error).__name__}: {error}{where}"


def agents_in_words(owned: Sequence[int]) -> str:
    """The agents of a process, to be put behind its rank.

    Examples
    --------
    >>> agents_in_words([2, 3])
    ' (agents 2, 3)'
    """
    if not owned:
        return ""
    shown = ", ".join(map(str, owned[:8])) + (", …" if len(owned) > 8 else "")
    return f" (agent{'s' if len(owned) > 1 else ''} {shown})"


def _gather_digests(comm: Any, text: str) -> list[bytes] | None:
    """A hash of every process's message, or None unless all fail within the grace time."""
    own = np.frombuffer(hashlib.blake2b(text.encode(), digest_size=16).digest(), np.uint8)
    every = np.zeros((comm.size, own.size), np.uint8)
    request = comm.Iallgather(own.copy(), every)
    end = time.monotonic() + GRACE
    while not request.Test():
        if time.monotonic() > end:
            return None
        time.sleep(0.005)
    return [row.tobytes() for row in every]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
