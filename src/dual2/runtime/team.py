"""Threads for the work of one process."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from dual2.engine.threads import EXCHANGE, Member

WORTH = 1.0e5
"""Multiply-adds per iteration (about 100 µs) from which a second thread pays."""


def choose_threads(work: float) -> int:
    """Threads for an iteration of ``work`` multiply-adds: one below ``WORTH``.

    ``DUAL2_THREADS`` overrides it; the default never takes more threads than cores.

    Examples
    --------
    >>> choose_threads(100.0)
    1
    """
    asked = os.environ.get("DUAL2_THREADS")
    if asked:
        return max(1, int(asked))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    return int(max(1, min(cores, 8, work // WORTH + 1 if work >= WORTH else 1)))


class Team:
    """Runs ``kernel(..., member)`` on a number of threads.

    Parameters
    ----------
    threads : int
        How many.
    exchange : int
        Address of the callbacks by which the first of them exchanges rows with other processes.

    Examples
    --------
    >>> Team(1).run(lambda x, member: x + member.threads, 4)
    5
    """

    def __init__(self, threads: int, exchange: int = 0) -> None:
        self.threads = threads
        barrier = np.zeros(24, dtype=np.int64)
        barrier[EXCHANGE] = exchange
        self._members = [Member(thread, threads, barrier) for thread in range(threads)]
        self._pool = ThreadPoolExecutor(threads - 1) if threads > 1 else None

    def run(self, kernel: Callable[..., Any], *args: Any) -> Any:
        """Run the kernel on all threads and return the first thread's answer."""
        first, *rest = self._members
        if self._pool is None:
            return kernel(*args, first)
        others = [self._pool.submit(kernel, *args, member) for member in rest]
        answer = kernel(*args, first)
        for other in others:
            other.result()
        return answer
