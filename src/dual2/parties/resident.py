"""``dual2 party serve``: one process for all studies of a party, which starts once.

It watches a folder. Each folder in it with a ``party.toml`` is a study: a problem is solved, a
model is trained, and every table in its folder ``predict`` gets predictions. What is done stays
done, and what was interrupted goes on, as with ``--resume``.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dual2.errors import Dual2Error, PeerError, PeerRefused
from dual2.parties.json_log import JsonLog
from dual2.parties.party import Party
from dual2.runtime.peers.shared_port import SharedPort

Report = Callable[[str], None]
Job = Callable[[Callable[[Party], Party], Report], None]
"""Does what is left to do of a study; its party listens where the first argument says."""
LOOK_SECONDS, RETRY_SECONDS = 0.5, 10.0
"""Seconds between two looks at the folder, and until a run without its peers is begun again."""


@dataclass
class StudyTask:
    """One study: which of its files were read, what was wrong, and the thread that works on it."""

    stamp: tuple[float, ...]
    thread: threading.Thread | None = None
    error: str = ""
    again: float = 0.0


class Resident:
    """Serves the studies of a folder.

    Parameters
    ----------
    folder : Path
        Has a folder for each study.
    find_job : callable
        The job of a study by its folder, and a mark of what it is to do: another mark, another job.
    report : callable
        Told how it goes; a :class:`JsonLog` gets events.

    Attributes
    ----------
    ports : dict
        The open port of each address at which parties listen.
    """

    def __init__(
        self,
        folder: Path,
        find_job: Callable[[Path], tuple[Job, tuple[float, ...]]],
        report: Report = print,
    ) -> None:
        self._folder, self._find, self._report = folder, find_job, report
        self.ports: dict[tuple[str, int], SharedPort] = {}
        self._tasks: dict[str, StudyTask] = {}
        self._lock, self._over = threading.Lock(), threading.Event()
        if not folder.is_dir():
            raise Dual2Error(f"{folder} is no folder; expected one with a folder for each study.")

    def run(self) -> None:
        """Look at the folder again and again, until :meth:`stop`."""
        self._report(f"Serving the studies in {self._folder}.")
        try:
            while not self._over.is_set():
                self.look()
                self._over.wait(LOOK_SECONDS)
        finally:
            for port in self.ports.values():
                port.close()

    def stop(self) -> None:
        """No new work; what is under way is left as by a kill, and goes on after the next start."""
        self._over.set()

    def look(self) -> None:
        """Begin what is to be done and is not under way."""
        for file in sorted(self._folder.glob("[!.]*/party.toml")):  # hidden: not ready yet
            task = self._tasks.setdefault(file.parent.name, StudyTask(()))
            if task.thread is not None and task.thread.is_alive():
                continue
            try:
                job, stamp = self._find(file.parent)
            except (Dual2Error, OSError) as error:
                self._tell_once(file.parent.name, task, str(error))
                continue
            late = task.again > 0 and time.monotonic() >= task.again
            if stamp != task.stamp or late:
                task.stamp, task.again = stamp, 0.0
                work = (file.parent.name, task, job)
                task.thread = threading.Thread(target=self._work, args=work, daemon=True)
                task.thread.start()

    def _work(self, name: str, task: StudyTask, job: Job) -> None:
        """One attempt at what is left to do of a study."""
        try:
            job(self.at_port, self._named(name))
            task.error = ""
        except PeerRefused as error:
            self._tell_once(name, task, str(error))
        except PeerError as error:
            task.again = time.monotonic() + RETRY_SECONDS
            self._tell_once(name, task, f"{error} Trying again in {RETRY_SECONDS:g} s.")
        except Exception as error:  # one study must not end the others
            kind = "" if isinstance(error, Dual2Error | OSError) else f"{type(error).__name__}: "
            self._tell_once(name, task, f"{kind}{error}")

    def _tell_once(self, name: str, task: StudyTask, text: str) -> None:
        """Say what is wrong with a study, unless it was said last time."""
        if text != task.error:
            task.error = text
            self._named(name)(text)

    def _named(self, name: str) -> Report:
        """The report of a study, whose lines name it."""
        report = self._report
        if isinstance(report, JsonLog):
            return report.of(study=name)
        return lambda text: report(f"{name}: {text}")

    def at_port(self, party: Party) -> Party:
        """A party that listens at the port that all studies of this process share."""
        if party.study.carrier != "tls":
            raise Dual2Error(
                f"{party.study.file}: carrier is {party.study.carrier!r}; one process for several "
                "studies needs 'tls'. Run this study alone: dual2 party run."
            )
        if party.listen is None:
            return party
        with self._lock:
            if party.listen not in self.ports:
                self.ports[party.listen] = SharedPort(party.listen, self._refused).open()
        return replace(party, port=self.ports[party.listen])

    def _refused(self, event: str, **details: Any) -> None:
        """A connection that no study takes."""
        if isinstance(self._report, JsonLog):
            self._report.write(event, **details)
        else:
            self._report(f"{event}: " + ", ".join(f"{k} {v}" for k, v in details.items()))
