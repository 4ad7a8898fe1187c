"""The progress bar: rounds, residual, time left."""

import math
import time
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from dual2.compiling import is_compiling

_EVERY = 0.2


class StageColumn(ProgressColumn):
    """What the run is doing: kernels compile, it starts, or its rounds and residual."""

    def render(self, task: Task) -> Text:
        """The text of the present stage."""
        rounds, kkt = task.fields["rounds"], task.fields["kkt"]
        if is_compiling():
            return Text("compiling kernels")
        return Text(f"{rounds} rounds, residual {kkt}" if kkt else "starting")


class Bar:
    """Shows how far log(residual) has come from its first value to the tolerance.

    Parameters
    ----------
    label : str
        What is running.
    tol : float
        Where the bar ends.
    """

    def __init__(self, label: str, tol: float) -> None:
        self._tol, self._first, self._last = max(tol, 1e-300), 0.0, 0.0
        self._begun = time.monotonic()
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            StageColumn(),
            TimeElapsedColumn(),
            TextColumn("left {task.fields[left]}"),
        )
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._progress.add_task(label, total=1.0, rounds=0, kkt="", left="?")

    def __enter__(self) -> "Bar":
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def update(self, rounds: int, kkt: float) -> None:
        """Redraw, at most a few times a second."""
        now = time.monotonic()
        if now - self._last < _EVERY:
            return
        self._last = now
        done = 0.0
        if math.isfinite(kkt) and kkt > 0:
            self._first = max(self._first, kkt, 2 * self._tol)
            done = math.log(self._first / kkt) / math.log(self._first / self._tol)
        done = min(max(done, 0.0), 1.0)
        elapsed = now - self._begun
        left = f"{elapsed * (1 - done) / done:.0f} s" if done > 0.02 else "?"
        self._progress.update(
            self._task, completed=done, rounds=rounds, kkt=f"{kkt:.2e}", left=left
        )
