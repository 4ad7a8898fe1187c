"""One process's part of ``dual2 solve``: its own agents' files in, their answers out."""

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from dual2.errors import Dual2Error
from dual2.files import digest
from dual2.processes.failure import ending_together
from dual2.processes.launch import started_processes
from dual2.processes.options import ProcessOptions
from dual2.processes.persistence import demand_writable, keep, open_store, state_to_resume
from dual2.processes.progress_pipe import WATCHED, progress_writer
from dual2.runtime import LocalProblem, Transport
from dual2.runtime.mpi import Mpi
from dual2.solving.result import Result
from dual2.solving.solve import solve
from dual2.solving.storage import load_agents, load_public, public_digest
from dual2.solving.version import __version__

_log = logging.getLogger("dual2")


def take_part(asked: ProcessOptions) -> tuple[Result, bool, bool]:
    """Run this process's part; its result, whether all is written, whether another reports it."""
    transport = Mpi(partition=asked.partition, reduce=asked.reduce, timeout=asked.timeout)
    if hasattr(signal, "SIGUSR1"):  # the launcher's request; mpiexec's own SIGTERM ends at once
        signal.signal(signal.SIGUSR1, lambda *_: signal.raise_signal(signal.SIGINT))
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _demand(started_processes(), transport.size)
    with ending_together(transport) as owned, _logged(asked.log_dir, transport.rank):
        return *_run(transport, asked, owned), transport.rank != 0


def _demand(started: int, found: int) -> None:
    """Refuse to run as strangers: processes of one MPI that find themselves alone by another."""
    if started != found:
        raise Dual2Error(
            f"mpiexec started {started} processes, but mpi4py finds {found}: they use different "
            "MPI libraries. Use the mpiexec of the MPI that mpi4py loads (python -m mpi4py "
            "--mpi-library tells which), or install one only: openmpi or mpich."
        )


def _run(transport: Transport, asked: ProcessOptions, owned: list[int]) -> tuple[Result, bool]:
    h, network, options = load_public(asked.folder)
    options |= asked.chosen
    owners, rank = transport.owners(network), transport.rank
    owned[:] = np.flatnonzero(owners == rank).tolist()
    store = open_store(transport, asked, owned)
    means = {
        "public part (problem.toml, problem.npz)": public_digest(asked.folder),
        "partition": digest(owners.tobytes()),
        "set of options": digest(sorted(options.items()), asked.shared()),
        "version of dual2": digest(__version__),
    }
    state = state_to_resume(transport, asked, means, store)
    share = LocalProblem(load_agents(asked.folder, owned), h, network.n)
    _log.info("rank %d of %d, process %d, agents %s", rank, transport.size, os.getpid(), owned)
    tells, method = rank == 0 and WATCHED in os.environ, options.get("method", "auto")
    callback = progress_writer(method, options.get("tol", 1e-8)) if tells else None
    options |= {"record": False, "progress": False, "throw": False, "callback": callback}
    result = solve(share, network, runtime=transport, start=state, checkpoints=store, **options)
    return result, keep(transport, asked, owned, store, result, network.n)


@contextmanager
def _logged(folder: Path | None, rank: int) -> Iterator[None]:
    """Write what the library says to ``FOLDER/rank-<rank>.log``."""
    if folder is None:
        yield
        return
    demand_writable(folder)
    folder.mkdir(parents=True, exist_ok=True)
    handler = logging.FileHandler(folder / f"rank-{rank}.log", mode="w", encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    before = _log.level
    _log.addHandler(handler)
    _log.setLevel(logging.INFO)
    try:
        yield
    except BaseException:
        _log.exception("failed")
        raise
    finally:
        _log.setLevel(before)
        _log.removeHandler(handler)
        handler.close()
