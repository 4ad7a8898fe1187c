"""The end of a run's time, looked for between a few agents of one sum."""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

Array = np.ndarray
BETWEEN_LOOKS = 4
"""Agents of each thread between two looks at the clock."""


class OutOfTime(Exception):
    """Time ended within a sum, which is then left out."""


@dataclass(frozen=True)
class Deadline:
    """When time ends, by ``time.perf_counter``.

    Examples
    --------
    >>> rows, out = np.arange(10), np.zeros((10, 2))
    >>> [len(some) for some, _ in Deadline().pieces(rows, out, threads=1)]
    [10]
    >>> [len(some) for some, _ in Deadline(time.perf_counter() + 60).pieces(rows, out, threads=1)]
    [4, 4, 2]
    """

    end: float = math.inf

    def look(self) -> None:
        """Raise OutOfTime if time has ended."""
        if self.end < math.inf and time.perf_counter() >= self.end:
            raise OutOfTime

    def pieces(self, rows: Array, out: Array, threads: int) -> Iterator[tuple[Array, Array]]:
        """A few agents at a time and their messages; all at once where time has no end."""
        step = max(BETWEEN_LOOKS * threads if self.end < math.inf else len(rows), 1)
        for first in range(0, len(rows), step):
            self.look()
            yield rows[first : first + step], out[first : first + step]
