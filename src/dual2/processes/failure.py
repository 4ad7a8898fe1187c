"""When one process fails, all end: with one message per cause, and a non-zero exit code."""

import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import numpy as np

from dual2.errors import Dual2Error, PeerError
from dual2.files import digest
from dual2.runtime import Transport
from dual2.runtime.waiting import NeighbourTimeout

GRACE = 1.0
"""Seconds for the others to fail with the same cause before this process speaks for itself."""


@contextmanager
def ending_together(transport: Transport) -> Iterator[list[int]]:
    """Run one process's part; an exception in it ends every process within seconds.

    If all processes fail within ``GRACE``, those of equal cause speak once and each exits by
    itself. If only some do, they say which rank, which agents and why, and abort the others, which
    cannot go on. Exit code 2 for bad input, 4 for a process that is missing or at fault,
    130 for an interrupt, 1 for anything else.

    Yields a list, to be filled with the agents that this process owns, for the message.
    """
    owned: list[int] = []
    try:
        yield owned
    except SystemExit:
        raise
    except BaseException as error:
        raise SystemExit(_fail(transport, owned, error)) from None


def _fail(transport: Transport, owned: list[int], error: BaseException) -> int:
    code, text = _exit_code(error), _cause(error)
    together: list[bytes] = []  # a hash of every process's message, if all fail in time
    with suppress(NeighbourTimeout):
        every = transport.allgather(np.frombuffer(digest(text), np.uint8), "failure", GRACE)
        together = [row.tobytes() for row in every]
    own = f"dual2: rank {transport.rank}{agents_in_words(owned)}: {text}"
    if not together:
        print(own, file=sys.stderr, flush=True)
        transport.abort(code)
    elif together.index(mine := together[transport.rank]) == transport.rank:
        own = own if together.count(mine) == 1 else f"dual2: {text}"
        print(own, file=sys.stderr, flush=True)
    return code


def _exit_code(error: BaseException) -> int:
    if isinstance(error, KeyboardInterrupt):
        return 130
    if isinstance(error, PeerError):
        return 4
    return 2 if isinstance(error, Dual2Error) else 1


def _cause(error: BaseException) -> str:
    """The message of an expected error; for an unexpected one also where it was raised."""
    if isinstance(error, Dual2Error):
        return str(error)
    if isinstance(error, KeyboardInterrupt):
        return "interrupted before there was an answer to keep"
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
