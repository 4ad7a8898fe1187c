"""One process's part of ``dual2 solve``: its own agents' files in, their answers out."""

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from dual2.errors import Dual2Error
from dual2.files import digest, write_atomically
from dual2.processes.answers import demand_writable, refuse_answers, write_own
from dual2.processes.checkpoints import Checkpoints
from dual2.processes.failure import ending_together
from dual2.processes.handshake import NONE, shake_hands
from dual2.processes.launch import started_processes
from dual2.processes.options import ProcessOptions
from dual2.processes.progress_pipe import WATCHED, progress_writer
from dual2.runtime import Share, Transport
from dual2.runtime.gathering import gather_at_first
from dual2.runtime.mpi import Mpi
from dual2.solving.result import Result, Status
from dual2.solving.solve import solve
from dual2.solving.storage import load_agents, load_public, public_digest, to_json
from dual2.solving.version import __version__

_log = logging.getLogger("dual2")


def take_part(asked: ProcessOptions) -> tuple[Result, bool]:
    """Run this process's part; its result, and whether another process reports it."""
    transport = Mpi(partition=asked.partition, reduce=asked.reduce, timeout=asked.timeout)
    if hasattr(signal, "SIGUSR1"):  # the launcher's request; mpiexec's own SIGTERM ends at once
        signal.signal(signal.SIGUSR1, lambda *_: signal.raise_signal(signal.SIGINT))
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _demand(started_processes(), transport.size)
    with ending_together(transport) as owned, _logged(asked.log_dir, transport.rank):
        return _run(transport, asked, owned), transport.rank != 0


def _demand(started: int, found: int) -> None:
    """Refuse to run as strangers: processes of one MPI that find themselves alone by another."""
    if started != found:
        raise Dual2Error(
            f"mpiexec started {started} processes, but mpi4py finds {found}: they use different "
            "MPI libraries. Use the mpiexec of the MPI that mpi4py loads (python -m mpi4py "
            "--mpi-library tells which), or install one only: openmpi or mpich."
        )


def _run(transport: Transport, asked: ProcessOptions, owned: list[int]) -> Result:
    h, network, options = load_public(asked.folder)
    options |= asked.chosen
    owners, rank = transport.owners(network), transport.rank
    owned[:] = np.flatnonzero(owners == rank).tolist()
    store = _store(transport, asked, owned)
    means = {
        "public part (problem.toml, problem.npz)": public_digest(asked.folder),
        "partition": digest(owners.tobytes()),
        "set of options": digest(sorted(options.items()), asked.shared()),
        "version of dual2": digest(__version__),
    }
    state = _agree(transport, asked, means, store)
    share = Share(load_agents(asked.folder, owned), h, network.n)
    _log.info("rank %d of %d, process %d, agents %s", rank, transport.size, os.getpid(), owned)
    tells, method = rank == 0 and WATCHED in os.environ, options.get("method", "auto")
    kept: dict[str, Any] = {"runtime": transport, "start": state, "checkpoints": store}
    kept |= {"callback": progress_writer(method, options.get("tol", 1e-8))} if tells else {}
    result = solve(share, network, record=False, progress=False, **kept, **options)
    _keep(transport, asked, owned, store, result, network.n)
    return result


def _store(transport: Transport, asked: ProcessOptions, owned: list[int]) -> Checkpoints | None:
    folder = asked.own_folder
    if folder is None:
        return None
    demand_writable(folder)
    store = Checkpoints(folder, transport.rank, transport.size, owned, asked.checkpoint)
    if asked.resume:
        return store
    refuse_answers(folder, asked.out if asked.gather else None, owned, asked.force)
    if store.rounds() and not asked.force:
        raise Dual2Error(
            f"{folder} has checkpoints of a run that did not end. Go on with --resume, or pass "
            "--force to start afresh."
        )
    return store


def _agree(
    transport: Transport, asked: ProcessOptions, means: dict[str, bytes], store: Checkpoints | None
) -> dict[str, Any] | None:
    """Make sure that all processes mean the same run; the state to resume from, if any."""
    if store is None or not asked.resume:
        shake_hands(transport, means, NONE)
        return None
    saved = store.rounds()
    if saved:
        store.load(saved[-1])  # of other agents or another number of processes: say so first
    agreed = shake_hands(transport, means, saved[-1] if saved else NONE)
    if not saved:
        raise Dual2Error(f"There is nothing to resume: {asked.own_folder} has no checkpoint.")
    if agreed == NONE:
        raise Dual2Error("There is nothing to resume: another process has no checkpoint.")
    if agreed not in saved:
        raise Dual2Error(
            f"The newest checkpoint of some process is of round {agreed}; here are only "
            f"{', '.join(map(str, saved))}. The checkpoints are not of one run: start afresh."
        )
    return store.load(agreed)


def _keep(
    transport: Transport,
    asked: ProcessOptions,
    owned: list[int],
    store: Checkpoints | None,
    result: Result,
    n: int,
) -> None:
    """Write the answers; a run that may be resumed keeps its state, a finished one does not."""
    if store is None or asked.out is None:
        return
    write_own(store.folder, owned, result)
    if asked.gather:
        x = gather_at_first(transport, owned, result.x, n)
        if x is not None:
            document = result.as_dict() | {"x": [part.tolist() for part in x]}
            write_atomically(asked.out, to_json(document))
    if result.status == Status.CONVERGED:
        transport.everyone(np.zeros(1, np.uint8), "end")
        store.clear()
    else:
        store.save(result.counts.rounds, result.state)


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
