"""When one process fails, all end: with one message per cause, and a non-zero exit code."""

import hashlib
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from dual2.errors import Dual2Error
from dual2.runtime.mpi import Mpi
from dual2.runtime.waiting import NeighbourTimeout

GRACE = 1.0
"""Seconds for the others to fail with the same cause before this process speaks for itself."""


@contextmanager
def ending_together(place: Mpi) -> Iterator[list[int]]:
    """Run one process's part; an exception in it ends every process within seconds.

    If all processes fail within ``GRACE``, those of equal cause speak once and each exits by
    itself. If only some do, they say which rank, which agents and why, and abort the others, which
    cannot go on. Exit code 2 for bad input, 130 for an interrupt, 1 for anything else.

    Parameters
    ----------
    place : Mpi
        All processes.

    Returns
    -------
    context of list of int
        To be filled with the agents that this process owns, for the message.
    """
    owned: list[int] = []
    try:
        yield owned
    except SystemExit:
        raise
    except BaseException as error:
        raise SystemExit(_fail(place, owned, error)) from None


def _fail(place: Mpi, owned: list[int], error: BaseException) -> int:
    code = _exit_code(error)
    text = _cause(error)
    together = _digests(place, text)
    own = f"dual2: rank {place.rank}{agents_in_words(owned)}: {text}"
    if together is None:
        _say(own)
        place.abort(code)
    elif together.index(together[place.rank]) == place.rank:
        _say(own if together.count(together[place.rank]) == 1 else f"dual2: {text}")
    return code


def _exit_code(error: BaseException) -> int:
    if isinstance(error, KeyboardInterrupt):
        return 130
    expected = isinstance(error, Dual2Error) and not isinstance(error, NeighbourTimeout)
    return 2 if expected else 1


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


def _digests(place: Mpi, text: str) -> list[bytes] | None:
    """A hash of every process's message, or None unless all fail within the grace time."""
    own = np.frombuffer(hashlib.blake2b(text.encode(), digest_size=16).digest(), np.uint8)
    try:
        return [row.tobytes() for row in place.last_words(own, GRACE)]
    except NeighbourTimeout:
        return None


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
