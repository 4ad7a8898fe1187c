"""``dual2 solve --mpi N``: find ``mpiexec``, start the processes, say how they ended."""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from dual2.errors import Dual2Error
from dual2.methods.registry import AUTO, find_method
from dual2.processes.failure import agents_in_words
from dual2.processes.options import ProcessOptions
from dual2.processes.progress_pipe import WATCHED, ProgressReader
from dual2.runtime.assignment import Assignment, assign
from dual2.solving.interrupts import ENDING, LOOK
from dual2.solving.storage import load_public

PROGRAM = (sys.executable, "-m", "dual2.cli")
"""What each process runs."""
SIZE_VARIABLES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
"""Set by Open MPI and by MPICH in the processes that they start."""

_RESET = "\x1b[0m"
"""What Python processes may print at their end, because mpiexec gives them a terminal."""
_RULE = re.compile(rb"^-{20,}\s*$")
_NOISE = b"PMIX ERROR: PMIX_ERR_UNREACH"
"""What Open MPI may say beside our own message when a process ends early."""
_KILLED = re.compile(rb"process rank (\d+)[^.]*exited\s+on\s+signal (\d+)", re.DOTALL)


class End(NamedTuple):
    """How the processes ended: exit code, and what to say about it unless they said it.

    ``killed`` is the rank of a killed one (None: ``mpiexec`` itself, or nobody), ``signal`` what
    killed it, ``interrupted`` whether that was the operator's wish.
    """

    code: int
    killed: int | None = None
    signal: str = ""
    interrupted: bool = False


def solve_in_processes(asked: ProcessOptions, ranks: int) -> int:
    """Start ``ranks`` processes of ``dual2 solve``; the exit code."""
    if started_processes():
        raise Dual2Error("--mpi starts processes itself; under mpiexec leave it out.")
    public = load_public(asked.folder)
    method = (public.options | dict(asked.chosen)).get("method", AUTO)
    if method != AUTO:
        find_method(method)  # a typing error is told once, not by every process
    owners = assign(public.network, ranks, asked.partition)
    end = launch(ranks, [*PROGRAM, *asked.arguments()])
    if end.signal:
        print(f"dual2: {_last_words(asked, owners, end)}", file=sys.stderr)
    return end.code


def _last_words(asked: ProcessOptions, owners: Assignment, end: End) -> str:
    """Who was killed and how to go on; the processes can no longer say it themselves."""
    if end.interrupted:
        text = "interrupted before there was an answer to keep."
    else:
        who = "mpiexec"
        if end.killed is not None:
            who = f"rank {end.killed}"
            who += agents_in_words(np.flatnonzero(owners == end.killed).tolist())
        text = f"{who} was killed by signal {end.signal}."
    saved = asked.own_folder is not None and any(asked.own_folder.glob("rank-*.npz"))
    return text + (" Go on from the last checkpoints with --resume." if saved else "")


def started_processes() -> int:
    """How many processes ``mpiexec`` started, 0 if none did."""
    return next((int(os.environ[k]) for k in SIZE_VARIABLES if k in os.environ), 0)


def find_mpiexec() -> str:
    """The ``mpiexec`` beside this Python (the wheel's), else the first one on the path."""
    beside = Path(sys.executable).parent
    found = shutil.which("mpiexec", path=str(beside)) or shutil.which("mpiexec")
    if found is None:
        raise Dual2Error(
            f"There is no mpiexec beside {sys.executable} or on the path. Install it from wheels: "
            "pip install 'dual2[mpi]' (mpi4py and Open MPI)."
        )
    return found


def command(mpiexec: str, ranks: int, program: Sequence[str]) -> list[str]:
    """The command line; Open MPI also learns to share cores and, for root, to run at all.

    As many slots as processes: otherwise Open MPI itself offers the processor to others at every
    poll, see :mod:`dual2.runtime.waiting`.
    """
    asked = subprocess.run([mpiexec, "--version"], capture_output=True, text=True, timeout=60)
    flags: list[str] = []
    if "Open MPI" in asked.stdout:
        flags = ["--host", f"localhost:{ranks}", "--bind-to", "none"]
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            flags.append("--allow-run-as-root")
    return [mpiexec, *flags, "-n", str(ranks), *program]


def environment() -> dict[str, str]:
    """The environment of the processes: linear algebra takes one thread each."""
    own = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    watched = {WATCHED: "1"} if sys.stderr.isatty() else {}
    return own | dict(os.environ) | watched


def launch(ranks: int, program: Sequence[str]) -> End:
    """Run a program in ``ranks`` processes; how they ended.

    Their standard error is passed on line by line, their standard output when all have ended.
    Ctrl-C is passed on as a request (SIGUSR1, which every process receives) to end with the best
    answer so far; a second one, SIGTERM or SIGHUP ends the processes at once. If ``mpiexec`` fails
    and no process says why, its own notices are printed.
    """
    line = command(find_mpiexec(), ranks, program)
    process = subprocess.Popen(
        line,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None and process.stderr is not None
    said, notices, printed = bytearray(), bytearray(), bytearray()
    readers = [
        threading.Thread(target=_relay, args=(process.stderr, said, notices), daemon=True),
        threading.Thread(target=_keep, args=(process.stdout, printed), daemon=True),
    ]
    with _passing_on(process) as asked:
        for reader in readers:
            reader.start()
        while process.poll() is None:
            if readers[0].is_alive():
                readers[0].join(LOOK)
            else:
                time.sleep(0.01)
        for reader in readers:
            reader.join(5.0)
    print(printed.decode(errors="replace").replace(_RESET, ""), end="", flush=True)
    end = _end(process.returncode, asked, notices)
    if end.code != 0 and not (end.signal or said.strip() or printed.strip()):
        print(notices.decode(errors="replace"), end="", file=sys.stderr)
    return end


def _end(code: int, asked: Sequence[int], notices: bytes | bytearray) -> End:
    """How it ended, by the exit code of ``mpiexec``, the signals passed on to it and its notices.

    Processes that do not listen yet are killed by the request to end with the best answer.

    Examples
    --------
    >>> _end(137, [], b"process rank 1 with PID 5 on node a exited on signal 9")
    End(code=137, killed=1, signal='9 (SIGKILL)', interrupted=False)
    """
    found = _KILLED.search(notices)
    number = int(found[2]) if found else max(0, -code)
    killed = int(found[1]) if found else None
    if len(asked) > 1 or (asked and number == signal.SIGUSR1):
        return End(128 + asked[-1], killed, _name(number or asked[-1]), interrupted=True)
    if number == 0:
        return End(code)
    return End(128 + number if code < 0 else code, killed, _name(number))


def _name(number: int) -> str:
    try:
        return f"{number} ({signal.Signals(number).name})"
    except ValueError:
        return str(number)


@contextmanager
def _passing_on(process: "subprocess.Popen[bytes]") -> Iterator[list[int]]:
    """Pass signals on to ``mpiexec``, the first as a request. Yields those that came."""
    came: list[int] = []

    def pass_on(number: int, frame: object) -> None:
        process.send_signal(signal.SIGTERM if came else signal.SIGUSR1)
        came.append(int(number))

    before = {number: signal.signal(number, pass_on) for number in ENDING}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _keep(source: IO[bytes], printed: bytearray) -> None:
    """Read to the end."""
    with source:
        printed += source.read()


def _relay(source: IO[bytes], said: bytearray, notices: bytearray) -> None:
    """Pass standard error on (``said``), except what is meant for the launcher.

    That are lines about the progress, and the framed ``notices`` of ``mpiexec``, which are kept.
    """
    framed = False
    with source, ProgressReader() as reader:
        for line in source:
            if _RULE.match(line):
                framed = not framed
            elif framed or _NOISE in line:
                notices += line
            elif not reader.take(line.decode(errors="replace")):
                said += line
                sys.stderr.buffer.write(line)
                sys.stderr.buffer.flush()
