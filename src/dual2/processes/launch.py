"""Starting the processes: find ``mpiexec``, give it the right flags, say how it ended."""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO, NamedTuple

from dual2.errors import Dual2Error
from dual2.processes.watching import WATCHED, Watcher

SIZE_VARIABLES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
"""Set by Open MPI and by MPICH in the processes that they start."""

INSTALL = "Install it from wheels: pip install 'dual2[mpi]' (mpi4py and Open MPI)."

_RESET = "\x1b[0m"
"""What Python processes may print at their end, because mpiexec gives them a terminal."""
_RULE = re.compile(rb"^-{20,}\s*$")
_KILLED = re.compile(rb"process rank (\d+)[^.]*exited\s+on\s+signal (\d+)", re.DOTALL)


class End(NamedTuple):
    """How the processes ended: exit code, the rank of a killed one, the signal that killed it."""

    code: int
    killed: int | None = None
    signal: str = ""


def started_by_mpi() -> bool:
    """Whether an ``mpiexec`` started this process."""
    return started_processes() > 0


def started_processes() -> int:
    """How many processes ``mpiexec`` started, 0 if none did."""
    return next((int(os.environ[k]) for k in SIZE_VARIABLES if k in os.environ), 0)


def find_mpiexec() -> str:
    """The ``mpiexec`` beside this Python (the wheel's), else the first one on the path."""
    beside = Path(sys.executable).parent
    found = shutil.which("mpiexec", path=str(beside)) or shutil.which("mpiexec")
    if found is None:
        raise Dual2Error(f"There is no mpiexec beside {sys.executable} or on the path. {INSTALL}")
    return found


def command(mpiexec: str, ranks: int, program: Sequence[str]) -> list[str]:
    """The command line; Open MPI also learns to share cores and, for root, to run at all."""
    asked = subprocess.run([mpiexec, "--version"], capture_output=True, text=True, timeout=60)
    flags: list[str] = []
    if "Open MPI" in asked.stdout:
        flags = ["--map-by", ":OVERSUBSCRIBE", "--bind-to", "none"]
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            flags.append("--allow-run-as-root")
    return [mpiexec, *flags, "-n", str(ranks), *program]


def environment() -> dict[str, str]:
    """The environment of the processes: idle ones yield, linear algebra takes one thread each."""
    own = {"OMPI_MCA_mpi_yield_when_idle": "1"}
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        own[name] = "1"
    watched = {WATCHED: "1"} if sys.stderr.isatty() else {}
    return own | dict(os.environ) | watched


def launch(ranks: int, program: Sequence[str]) -> End:
    """Run a program in ``ranks`` processes.

    Their standard error is passed on line by line, their standard output when all have ended.
    Ctrl-C is passed on as a request (SIGUSR1, which every process receives) to end with the best
    answer so far; a second one ends the processes at once.

    Parameters
    ----------
    ranks : int
        Number of processes.
    program : sequence of str
        Command of each of them.

    Returns
    -------
    End
        Exit code, and which process was killed, if one was.
    """
    line = command(find_mpiexec(), ranks, program)
    process = subprocess.Popen(
        line, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None and process.stderr is not None
    said: list[bytes] = []
    printed: list[bytes] = []
    readers = [
        threading.Thread(target=_relay, args=(process.stderr, said), daemon=True),
        threading.Thread(target=_keep, args=(process.stdout, printed), daemon=True),
    ]
    for reader in readers:
        reader.start()
    code = _wait(process)
    for reader in readers:
        reader.join(5.0)
    print(b"".join(printed).decode(errors="replace").replace(_RESET, ""), end="", flush=True)
    killed = _KILLED.search(b"".join(said))
    if killed is None:
        return End(code)
    return End(code, int(killed[1]), _name(int(killed[2])))


def _name(number: int) -> str:
    try:
        return f"{number} ({signal.Signals(number).name})"
    except ValueError:
        return str(number)


def _wait(process: "subprocess.Popen[bytes]") -> int:
    """Wait for the end; Ctrl-C asks the processes to end, a second one ends them."""
    asked = False
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            process.send_signal(signal.SIGTERM if asked else signal.SIGUSR1)
            asked = True


def _keep(source: IO[bytes], printed: list[bytes]) -> None:
    """Read to the end."""
    with source:
        printed.append(source.read())


def _relay(source: IO[bytes], said: list[bytes]) -> None:
    """Pass standard error on, except what is meant for the launcher.

    That are lines about the progress, and the framed notices of ``mpiexec``, which are kept.
    """
    framed = False
    with source, Watcher() as watcher:
        for line in source:
            if _RULE.match(line):
                framed = not framed
            elif framed:
                said.append(line)
            elif not watcher.take(line.decode(errors="replace")):
                sys.stderr.buffer.write(line)
                sys.stderr.buffer.flush()
