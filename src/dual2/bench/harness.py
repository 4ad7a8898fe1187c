"""Run cases into a store: in parallel, resumable, nothing finished is lost or made twice."""

import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from dual2.bench.case import Case
from dual2.bench.run_case import cores, machine_of, run_case
from dual2.bench.store import FAILED, SKIPPED, Store, StoredRun
from dual2.bench.workers import Crew, News, Watch
from dual2.errors import Dual2Error, counted

LINES = "lines"
"""Progress as lines where there is no terminal to draw on."""

PATIENCE = "Kernels are compiled on first use, which takes most of a minute."


@dataclass
class Outcome:
    """What became of the cases."""

    kept: int = 0  # runs that were finished already and stayed untouched
    ran: int = 0  # runs made and stored now
    missing: int = 0  # runs not made, because of an interrupt
    # skipped, failed: among all runs, those that ended so
    skipped: list[StoredRun] = field(default_factory=list)
    failed: list[StoredRun] = field(default_factory=list)
    interrupted: bool = False  # whether Ctrl-C ended it

    def __str__(self) -> str:
        made = f"{self.ran} run{'' if self.ran == 1 else 's'} made, {self.kept} kept"
        return made + (f", {self.missing} missing" if self.missing else "")

    @property
    def exit_code(self) -> int:
        """130 if interrupted, 3 if a run failed, else 0."""
        return 130 if self.interrupted else 3 if self.failed else 0


def run_cases(
    cases: Iterable[Case],
    store: Store,
    *,
    workers: int | None = None,
    force: bool = False,
    progress: bool | str | None = None,
) -> Outcome:
    """Run what is not in the store yet.

    A finished run stays as it is; one that failed is tried again; one that was cut off in the
    middle left nothing and starts anew. A store takes runs from one process at a time. Each run is
    preceded by a short one that loads the compiled kernels, and its clock stands still while the
    trace is recorded. With several workers each keeps to one thread, and seconds are noisy: the
    record tells how many there were.

    Parameters
    ----------
    cases : iterable of Case
        What to run; labels must be unique within a group and seed.
    store : Store
        Where runs go. The cases become its plan for their groups.
    workers : int, optional
        Processes, by default as many as cores; with 1 everything happens in this process.
    force : bool
        Make finished runs again; the old ones are replaced one by one.
    progress : bool or "lines", optional
        Progress bar; None shows it on a terminal only; ``"lines"`` does, too, and elsewhere prints
        a line for each run that is finished.

    Examples
    --------
    >>> import tempfile
    >>> case = Case("demo", "iD2A", "random", {"n": 4, "network": {"build": "ring"}})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first = run_cases([case], Store(folder), workers=1)
    ...     again = run_cases([case], Store(folder), workers=1)
    >>> first.ran, again.ran, again.kept
    (1, 0, 1)
    """
    cases = _unique(cases)
    workers = cores() if workers is None else workers
    if workers < 1:
        raise Dual2Error(f"workers = {workers} found; expected a number ≥ 1.")
    with store.claimed():
        store.plan(cases)
        todo = [case for case in cases if force or not _finished(store, case)]
        outcome = Outcome(kept=len(cases) - len(todo), missing=len(todo))
        _run(todo, store, workers, outcome, progress)
    present = [store.load(case) for case in cases if store.has(case)]
    outcome.skipped = [run for run in present if run.status == SKIPPED]
    outcome.failed = [run for run in present if run.status == FAILED]
    return outcome


def _run(
    todo: list[Case], store: Store, workers: int, outcome: Outcome, progress: bool | str | None
) -> None:
    """Make runs and keep count of them, until all are made or Ctrl-C is heard."""
    total = outcome.kept + outcome.missing
    try:
        with (
            _Bar(total, outcome.kept, progress) as bar,
            closing(_news(todo, store, min(workers, len(todo)), bar.show)) as stream,
        ):
            for news in stream:
                bar.show(news)
                outcome.ran += news.finished
                outcome.missing -= news.finished
    except KeyboardInterrupt:
        outcome.interrupted = True


def _unique(cases: Iterable[Case]) -> list[Case]:
    """The cases, each once; two different ones may not look the same in a figure."""
    found = {case.key: case for case in cases}
    seen: dict[Any, Case] = {}
    for case in found.values():
        other = seen.setdefault((case.group, case.label, case.seed), case)
        if other is not case:
            raise Dual2Error(
                f"Two different runs of {case.group!r} have the label {case.label!r} (seed "
                f"{case.seed}): {other.solve} and {case.solve}. Give them labels of their own."
            )
    return list(found.values())


def _finished(store: Store, case: Case) -> bool:
    return store.has(case) and store.load(case).status != FAILED


def _news(
    cases: list[Case], store: Store, workers: int, tell: Callable[[News], None]
) -> Generator[News, None, None]:
    if workers > 1:
        with Crew(store, workers) as crew:
            yield from crew.run(cases)
        return
    for case in cases:
        yield News(case)
        store.save(run_case(case, machine_of(1), Watch(case, tell)))
        yield News(case, finished=True)


class _Bar:
    """All runs, and under it the ones at work; silent unless someone watches or asked for lines."""

    def __init__(self, total: int, done: int, visible: bool | str | None) -> None:
        terminal = sys.stderr.isatty()
        self.visible = terminal if visible in (None, LINES) else bool(visible)
        self.lines = visible == LINES and not terminal
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[state]}"),
            TimeElapsedColumn(),
        )
        self.progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self.total, self.done = total, done
        self.all = self.progress.add_task("runs", total=total, completed=done, state="")
        self.rows: dict[str, Any] = {}

    def __enter__(self) -> "_Bar":
        if self.visible:
            self.progress.start()
        if self.lines and self.done < self.total:
            print(f"{counted(self.total - self.done, 'run')} to make. {PATIENCE}", file=sys.stderr)
        return self

    def __exit__(self, *_: object) -> None:
        if self.visible:
            self.progress.stop()

    def show(self, news: News) -> None:
        """Update the row of a run, or take it away when the run is finished."""
        case = news.case
        name = f"{case.group}: {case.label}" + (f", seed {case.seed}" if case.seed else "")
        if news.finished:
            if case.key in self.rows:
                self.progress.remove_task(self.rows.pop(case.key))
            self.done += 1
            state = f"{self.done} of {self.total}"
            self.progress.update(self.all, completed=self.done, state=state)
            if self.lines:
                print(f"{state}: {name}", file=sys.stderr, flush=True)
            return
        if case.key not in self.rows:
            self.rows[case.key] = self.progress.add_task(name, total=None, state="")
        state = f"{news.rounds} rounds, residual {news.kkt:.1e}" if news.rounds else ""
        self.progress.update(self.rows[case.key], state=state)
