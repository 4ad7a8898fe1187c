"""Where runs are kept: one JSON record and one CSV trace each, written once, whole or not at all.

::

    DIR/plan.json           which runs belong to each group, in order
    DIR/runs/KEY.csv        the trace of a run
    DIR/runs/KEY.json       everything else; it is written last, so where it is the run is finished

Figures, tables and reports are drawn from a store alone. ``KEY`` is made from the case itself: the
same case has the same key everywhere, and a case that differs in any argument has another.
"""

import csv
import io
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from dual2.bench.case import FORMAT, Case, Setting
from dual2.errors import Dual2Error
from dual2.files import (
    locked,
    read_json,
    read_text,
    remove_leftovers,
    to_csv,
    write_atomically,
)
from dual2.solving.storage.documents import numbers_of_words, to_json

__all__ = ["FAILED", "FORMAT", "SKIPPED", "Case", "Setting", "Store", "StoredRun"]

SKIPPED, FAILED = "SKIPPED", "FAILED"
"""Besides the members of :class:`dual2.Status`: the method cannot do it; an error ended the run."""


@dataclass(frozen=True, eq=False)
class StoredRun:
    """One finished run."""

    case: Case  # what was run
    status: str  # a dual2.Status, "SKIPPED" or "FAILED"
    reason: str = ""  # why it was skipped or failed; else what the status means
    # time of the iterations and stopping tests; recording and compilation are not in it
    seconds: float = 0.0
    # counts, certificate: those of the result
    counts: dict[str, int] = field(default_factory=dict)
    certificate: dict[str, Any] = field(default_factory=dict)
    parameters: dict[str, list[Any]] = field(default_factory=dict)  # name → [value, source]
    # versions, facts: of the packages; of the setting
    versions: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    # workers that ran at the same time, threads of each, cores; processor: seconds that the solve
    # kept the processor busy. With more than one worker the other seconds are noisy.
    machine: dict[str, Any] = field(default_factory=dict)
    # if parameters were searched for: summary, budget, tol and every trial
    tuning: dict[str, Any] = field(default_factory=dict)
    # rounds, oracle_a, oracle_b of the complexity table, constants taken as 1, with its
    # row and formulas; without them if the table has no row for the run
    predicted: dict[str, Any] = field(default_factory=dict)
    # columns on a geometric grid of rounds: rounds, agree_rounds, iterations, seconds, kkt, gap =
    # |x - x*|/|x⁰ - x*| (x⁰ = 0; only with a reference), grad_f, prox_g, A, AT, prox_h …
    trace: dict[str, np.ndarray] = field(default_factory=dict)


_RECORD = [f.name for f in fields(StoredRun) if f.name not in ("case", "trace")]


class Store:
    """A folder of finished runs.

    ``folder``: made when the first run is saved.

    Examples
    --------
    >>> import tempfile
    >>> case = Case("exp1", "iD2A", "exp1")
    >>> trace = {"rounds": np.array([0, 10]), "kkt": np.array([np.inf, 0.1])}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = Store(folder)
    ...     store.save(StoredRun(case, "CONVERGED", trace=trace))
    ...     print(store.has(case), store.groups(), store.load(case).trace["kkt"])
    True ['exp1'] [inf 0.1]
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise Dual2Error(
                f"{folder} is a file; expected a folder for stored runs. Name another."
            )

    def _file(self, key: str, suffix: str) -> Path:
        return self.folder / "runs" / f"{key}{suffix}"

    def has(self, case: Case) -> bool:
        """Whether the run is finished."""
        return self._file(case.key, ".json").is_file()

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Be the only process that makes runs here, until the end of the block or of the process.

        On systems without ``fcntl`` nobody is kept out.
        """
        try:
            (self.folder / "runs").mkdir(parents=True, exist_ok=True)
            lock = self.folder / "runs" / ".lock"
            lock.touch()
        except OSError as error:
            raise Dual2Error(
                f"{self.folder} cannot hold stored runs: {error}. Name another folder."
            ) from error
        taken = (
            f"Another process is making runs in {self.folder}. Let it finish (or end it), then run "
            "the same command; or name another folder."
        )
        with locked(lock, taken):
            yield

    def save(self, run: StoredRun) -> None:
        """Write a run, trace first; until its JSON file is there nothing counts as written."""
        columns = {name: np.asarray(column) for name, column in run.trace.items()}
        rows = {name: len(column) for name, column in columns.items()}
        if len(set(rows.values())) > 1:
            raise Dual2Error(f"The columns of a trace must be equally long; found {rows}.")
        record = {"format": FORMAT, "case": run.case.as_dict()}
        record |= {name: getattr(run, name) for name in _RECORD}
        record["trace"] = {"columns": list(columns), "rows": next(iter(rows.values()), 0)}
        remove_leftovers(self.folder / "runs", f"{run.case.key}.")
        if columns:
            table = zip(*(column.tolist() for column in columns.values()), strict=True)
            write_atomically(self._file(run.case.key, ".csv"), to_csv(columns, table))
        write_atomically(self._file(run.case.key, ".json"), to_json(record))

    def load(self, wanted: Case | str) -> StoredRun:
        """Read a run by its case or key."""
        key = wanted.key if isinstance(wanted, Case) else wanted
        file = self._file(key, ".json")
        if not file.exists():
            raise Dual2Error(f"There is no finished run {key} in {self.folder}.")
        try:
            record = read_json(file)
            if record["format"] != FORMAT:
                raise ValueError(f"its format is {record['format']}, not {FORMAT}")
            trace = _read_trace(file.with_suffix(".csv"), **record["trace"])
            details = {name: numbers_of_words(record[name]) for name in _RECORD}
            return StoredRun(case=Case(**record["case"]), trace=trace, **details)
        except (OSError, LookupError, TypeError, ValueError, csv.Error) as error:
            raise Dual2Error(
                f"{file} cannot be read as a stored run: {error}. Remove it and run again."
            ) from error

    # -- which runs belong together -------------------------------------------------------------

    def plan(self, cases: Iterable[Case]) -> None:
        """Say which runs make up each group, in order; groups not mentioned stay as they are."""
        groups: dict[str, list[str]] = {}
        for case in cases:
            groups.setdefault(case.group, []).append(case.key)
        groups = self._planned() | groups
        write_atomically(self.folder / "plan.json", to_json({"format": FORMAT, "groups": groups}))

    def _planned(self) -> dict[str, list[str]]:
        file = self.folder / "plan.json"
        if not os.path.lexists(file):
            return {}
        try:
            groups = read_json(file)["groups"]
            known = {str(name): [_demand_key(key) for key in keys] for name, keys in groups.items()}
        except (LookupError, ValueError, TypeError, AttributeError) as error:
            raise Dual2Error(f"{file} is not a plan of runs: {error}. Remove it.") from error
        return known

    def groups(self) -> list[str]:
        """Groups that have a finished run: planned ones in their order, then others by name."""
        return list(dict.fromkeys(run.case.group for run in self.runs()))

    def runs(self, group: str | None = None) -> list[StoredRun]:
        """Finished runs in a stable order.

        Those of a planned group are the planned ones in their order (earlier runs with other
        arguments stay on disk but do not belong any more); then groups without a plan, by name.
        """
        planned = self._planned()
        wanted = planned if group is None else {group: planned.get(group, [])}
        keys = [key for members in wanted.values() for key in members]
        found = [self.load(key) for key in keys if self._file(key, ".json").is_file()]
        if group is None or group not in planned:
            known = {key for members in planned.values() for key in members}
            files = sorted((self.folder / "runs").glob("*.json"))
            others = [self.load(file.stem) for file in files if file.stem not in known]
            free = [run for run in others if run.case.group not in planned]
            found += [run for run in free if group in (None, run.case.group)]
        return found


def _demand_key(key: Any) -> str:
    """A key as cases have them; with anything else another folder could be meant."""
    if not isinstance(key, str) or not re.fullmatch("[a-z0-9-]+", key):
        raise ValueError(f"{key!r} is no key of a run")
    return key


def _read_trace(file: Path, columns: list[str], rows: int) -> dict[str, np.ndarray]:
    if not columns:
        return {}
    header, *lines = csv.reader(io.StringIO(read_text(file)))
    if header != columns or len(lines) != rows:
        raise ValueError(f"{file.name} is not the trace that belongs to it")
    cells = zip(*lines, strict=True) if lines else [()] * len(header)
    return {name: _column(column) for name, column in zip(header, cells, strict=True)}


def _column(cells: Iterable[str]) -> np.ndarray:
    cells = list(cells)
    whole = all(cell.lstrip("-").isdigit() for cell in cells)
    column = np.array([(int if whole else float)(cell) for cell in cells])
    if column.dtype.kind not in "if":
        raise ValueError("a number of its trace has too many digits")
    return column
