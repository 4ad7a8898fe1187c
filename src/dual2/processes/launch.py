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

SIZE_VARIABLES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
"""Set by Open MPI and by MPICH in the processes that they start."""

PROGRESS = "DUAL2_PROGRESS"
"""Set for the processes if the launcher's standard error is a terminal."""

INSTALL = "Install it from wheels: pip install 'dual2[mpi]' (mpi4py and Open MPI)."

_RULE = re.compile(rb"^-{20,}\s*$")
_KILLED = re.compile(rb"process rank (\d+)[^.]*exited\s+on\s+signal (\d+)", re.DOTALL)


class End(NamedTuple):
    """How the processes ended: exit code, the rank of a killed one, the signal that killed it."""

    code: int
    killed: int | None = None
    signal: str = ""


def started_by_mpi() -> bool:
    """Whether an ``mpiexec`` started this process."""
    return any(name in os.environ for name in SIZE_VARIABLES)


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
    watched = {PROGRESS: "1"} if sys.stderr.isatty() else {}
    return own | dict(os.environ) | watched


def launch(ranks: int, program: Sequence[str]) -> End:
    """Run a program in ``ranks`` processes.

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
        line, env=environment(), stderr=subprocess.PIPE, start_new_session=True
    )
    assert process.stderr is not None
    said: list[bytes] = []
    reader = threading.Thread(target=_relay, args=(process.stderr, said), daemon=True)
    reader.start()
    code = _wait(process)
    reader.join(5.0)
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


def _relay(source: IO[bytes], said: list[bytes]) -> None:
    """Pass standard error on, except the framed notices of ``mpiexec``, which are kept."""
    framed = False
    with source:
        while line := _piece(source):
            if _RULE.match(line):
                framed = not framed
            elif framed:
                said.append(line)
            else:
                sys.stderr.buffer.write(line)
                sys.stderr.buffer.flush()


def _piece(source: IO[bytes]) -> bytes:
    """The next line, or what there is of it: a progress bar has no line ends."""
    head = source.peek(1)[:4096] if hasattr(source, "peek") else b""  # type: ignore[attr-defined]
    if not head or head.startswith(b"-") or b"\n" in head:
        return source.readline()
    return source.read(len(head))
