"""What the operator asks of all processes: the options of ``dual2 solve`` in one record."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dual2.errors import Dual2Error
from dual2.processes.checkpoints import INTERVAL
from dual2.runtime.waiting import TIMEOUT

REDUCTIONS = ("tree", "mpi")
"""How maxima and sums are formed: along a tree of the graph, or by MPI's own reductions."""
_FOR_SEVERAL = ("partition", "reduce", "timeout", "log_dir")
_WITH_VALUE = (*_FOR_SEVERAL, "checkpoint")


@dataclass(frozen=True)
class ProcessOptions:
    """One run of ``dual2 solve`` in several processes; the names are those of the options.

    Answers go to ``OUT.d/<agent>.json``, with ``gather`` all of them to OUT as well.
    """

    folder: Path
    """Problem folder; a process needs the public files and those of its own agents."""
    chosen: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of ``solve`` that override those of ``problem.toml``."""
    out: Path | None = None
    gather: bool = False
    resume: bool = False
    force: bool = False
    partition: Path | None = None
    reduce: str = "tree"
    checkpoint: float = INTERVAL
    """Seconds between checkpoints; 0 is after every stopping test."""
    timeout: float = TIMEOUT
    log_dir: Path | None = None

    def __post_init__(self) -> None:
        if self.out is None and (self.gather or self.resume):
            name = "--gather" if self.gather else "--resume"
            raise Dual2Error(f"{name} needs --out FILE, which the files of a run are named after.")
        if self.out is not None and self.out.is_dir():
            raise Dual2Error(f"--out {self.out} is a folder; expected the name of a file.")
        if self.reduce not in REDUCTIONS:
            raise Dual2Error(f"--reduce {self.reduce!r} found; expected {' or '.join(REDUCTIONS)}.")
        if not self.checkpoint >= 0:
            raise Dual2Error(f"--checkpoint {self.checkpoint} found; expected seconds >= 0.")
        if not self.timeout > 0:
            raise Dual2Error(f"--timeout {self.timeout} found; expected seconds > 0.")

    def refuse_alone(self) -> None:
        """An error if an option for several processes was given to one."""
        plain, names = ProcessOptions(self.folder), ("gather", *_FOR_SEVERAL)
        given = [_flag(name) for name in names if getattr(self, name) != getattr(plain, name)]
        if given:
            raise Dual2Error(
                f"{', '.join(given)}: for runs in several processes only. Add --mpi N, or start "
                "the command with mpiexec."
            )

    @property
    def own_folder(self) -> Path | None:
        """``OUT.d``: the answers and checkpoints of the processes."""
        return None if self.out is None else self.out.with_name(self.out.name + ".d")

    def shared(self) -> tuple[object, ...]:
        """What must be the same in every process besides folder, partition and options."""
        return self.gather, self.resume, self.reduce, self.out is None

    def arguments(self) -> list[str]:
        """The command line that says the same, without ``--mpi``."""
        line = ["solve", str(self.folder)]
        values = dict(self.chosen) | {name: getattr(self, name) for name in ("out", *_WITH_VALUE)}
        for name, value in values.items():
            line += [] if value is None else [_flag(name), str(value)]
        return line + [_flag(name) for name in ("gather", "resume", "force") if getattr(self, name)]


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
