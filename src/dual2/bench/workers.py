"""Processes that make one run each at a time and save it themselves.

A worker takes a case, runs it, writes it to the store and says so; the parent never holds a result
that is not on disk. A worker that dies takes only its own run with it, and ends when its parent
does, however that ends.
"""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from dual2.bench.case import Case
from dual2.bench.run_case import machine_of, run_case
from dual2.bench.store import FAILED, Store, StoredRun
from dual2.solving.interrupts import ENDING, LOOK

ONE_THREAD = ("DUAL2_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Set to 1 in workers that share the machine, unless the caller has set them."""

EVERY = 0.2
"""Seconds between two messages about a run that goes on."""


@dataclass(frozen=True)
class News:
    """What a worker has to say about its case: where it is, or that it is stored."""

    case: Case
    rounds: int = 0
    kkt: float = float("nan")
    finished: bool = False


class Watch:
    """Callback of ``solve`` that passes news on, at most a few times a second."""

    def __init__(self, case: Case, tell: Any) -> None:
        self.case, self.tell, self.last = case, tell, 0.0

    def __call__(self, info: dict[str, Any]) -> None:
        """Tell where the run is."""
        if time.monotonic() - self.last >= EVERY:
            self.last = time.monotonic()
            self.tell(News(self.case, int(info["rounds"]), float(info["kkt"])))


class Worker:
    """A process and the case that it is at."""

    def __init__(self, folder: Path, workers: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.line, other = context.Pipe()
        self.process = context.Process(target=_work, args=(other, folder, workers), daemon=True)
        with _one_thread(), _unheard():
            self.process.start()
        other.close()
        self.case: Case | None = None

    def give(self, case: Case) -> None:
        """Hand a case over; that a worker has died shows when it is listened to."""
        self.case = case
        with suppress(OSError):
            self.line.send(case)

    def stop(self) -> None:
        """End the process now; what it has stored stays."""
        self.process.kill()
        self.process.join()
        self.line.close()


class Crew:
    """Workers that take cases from a list, replaced when they die.

    ``store``: where runs go; ``workers``: how many.
    """

    def __init__(self, store: Store, workers: int) -> None:
        self.store, self.size = store, workers
        self.team: list[Worker] = []

    def __enter__(self) -> "Crew":
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.team:
            worker.stop()

    def run(self, cases: list[Case]) -> Iterator[News]:
        """Run all cases; yields news of each, the last one ``finished``."""
        waiting = list(reversed(cases))
        while waiting or self.team:
            while waiting and len(self.team) < self.size:
                self.team.append(Worker(self.store.folder, self.size))
                self.team[-1].give(waiting.pop())
            ready = wait([worker.line for worker in self.team], LOOK)
            for worker in [worker for worker in self.team if worker.line in ready]:
                news = self._hear(worker)
                yield news
                if news.finished and worker in self.team:
                    self._next(worker, waiting)

    def _next(self, worker: Worker, waiting: list[Case]) -> None:
        if waiting:
            worker.give(waiting.pop())
        else:
            self.team.remove(worker)
            worker.stop()

    def _hear(self, worker: Worker) -> News:
        """What a worker says; if it has died, its run has failed."""
        try:
            return worker.line.recv()
        except (EOFError, OSError):
            self.team.remove(worker)
            worker.process.join()
            assert worker.case is not None
            reason = f"The process that ran it died (exit code {worker.process.exitcode})."
            self.store.save(StoredRun(worker.case, FAILED, reason, machine=machine_of(self.size)))
            return News(worker.case, finished=True)


def _work(line: Connection, folder: Path, workers: int) -> None:
    """Body of a worker."""
    for number in ENDING:  # they reach the whole group of processes; the parent decides
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    store, machine = Store(folder), machine_of(workers)
    while True:
        try:
            case = line.recv()
        except (EOFError, OSError):
            return
        line.send(News(case))
        store.save(run_case(case, machine, Watch(case, line.send)))
        line.send(News(case, finished=True))


def _leave_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Environment for processes started meanwhile: each keeps to one core."""
    added = [name for name in ONE_THREAD if name not in os.environ]
    os.environ.update(dict.fromkeys(added, "1"))
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


@contextmanager
def _unheard() -> Iterator[None]:
    """Processes started meanwhile never hear Ctrl-C: the parent does, and kills them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
