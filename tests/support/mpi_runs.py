"""Running small programs in several processes, with a time limit so that nothing can hang."""

import os
import signal
import subprocess
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dual2.processes.launch import command, environment, find_mpiexec
from dual2.processes.progress_pipe import WATCHED
from ready import PASSED_ON, PYTHON

LIMIT = 600
"""Seconds after which a run counts as hanging; far more than it takes beside other jobs."""


def run_script(ranks: int, text: str, *arguments: object) -> "subprocess.CompletedProcess[str]":
    """Run the text of a Python program in ``ranks`` processes."""
    program = [*PYTHON, "-c", textwrap.dedent(text), *map(str, arguments)]
    return run(command(find_mpiexec(), ranks, program))


def run_cli(*arguments: object) -> "subprocess.CompletedProcess[str]":
    """Run the command ``dual2`` in a process of its own."""
    return run([*PYTHON, "-m", "dual2.cli", *map(str, arguments)])


def run(
    line: list[str], cwd: Path | None = None, **more: str
) -> "subprocess.CompletedProcess[str]":
    """Run a command with the processes' environment and ``more``; both outputs as text."""
    return subprocess.run(
        line, capture_output=True, text=True, timeout=LIMIT, env=variables() | more, cwd=cwd
    )


@contextmanager
def ignoring(*ignored: signal.Signals) -> Iterator[None]:
    """Processes started meanwhile ignore these signals and no other, whatever is inherited.

    A function between fork and exec would do, but gRPC, where it is loaded, has words of its own
    to say there.
    """
    wanted = {one: signal.SIG_IGN if one in ignored else signal.SIG_DFL for one in PASSED_ON}
    before = {one: signal.signal(one, handler) for one, handler in wanted.items()}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def variables() -> dict[str, str]:
    """The environment of the processes, with the package that is tested; nobody watches them."""
    import dual2

    known = {name: value for name, value in environment().items() if name != WATCHED}
    source, path = str(Path(dual2.__file__).parents[1]), known.get("PYTHONPATH", "")
    others = [folder for folder in path.split(os.pathsep) if folder not in ("", source)]
    return known | {"PYTHONPATH": os.pathsep.join([source, *others])}
