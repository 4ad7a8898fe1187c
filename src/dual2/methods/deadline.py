"""The end of a run's time, looked for between a few agents of one sum."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dual2.compiling import working_clock

Array = np.ndarray
BETWEEN_LOOKS = 4
"""Agents of each thread between two looks at the clock."""


class OutOfTime(Exception):
    """Time ended within a sum, which is then left out."""


@dataclass(frozen=True)
class Deadline:
    """When time ends, by :func:`dual2.compiling.working_clock`.

    Examples
    --------
    >>> rows, out = np.arange(10), np.zeros((10, 2))
    >>> [len(some) for some, _ in Deadline().pieces(rows, out, threads=1)]
    [10]
    >>> [len(some) for some, _ in Deadline(working_clock() + 60).pieces(rows, out, threads=1)]
    [4, 4, 2]
    """

    end: float = math.inf

    def look(self) -> None:
        """Raise OutOfTime if time has ended."""
        if self.end < math.inf and working_clock() >= self.end:
            raise OutOfTime

    def pieces(self, rows: Array, out: Array, threads: int) -> Iterator[tuple[Array, Array]]:
        """A few agents at a time and their messages; all at once where time has no end."""
        step = max(BETWEEN_LOOKS * threads if self.end < math.inf else len(rows), 1)
        for first in range(0, len(rows), step):
            self.look()
            yield rows[first : first + step], out[first : first + step]
