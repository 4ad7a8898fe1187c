"""One process's part of ``dual2 solve``: its own agents' files in, their answers out."""

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from dual2.documents import to_json
from dual2.errors import Dual2Error
from dual2.files import write_atomically
from dual2.folder import load_agents, load_public, public_digest
from dual2.processes.answers import demand_writable, gathered, refuse_answers, write_own
from dual2.processes.checkpoints import Checkpoints
from dual2.processes.failure import ending_together
from dual2.processes.greeting import NONE, digest, greet
from dual2.processes.launch import started_processes
from dual2.processes.orders import Orders
from dual2.processes.watching import WATCHED, teller
from dual2.result import Result, Status
from dual2.runtime import Share
from dual2.runtime.mpi import Mpi
from dual2.runtime.partition import Assignment
from dual2.solve import solve
from dual2.version import __version__

_log = logging.getLogger("dual2")


def take_part(orders: Orders) -> tuple[Result, bool]:
    """Run this process's part; its result, and whether another process reports it."""
    place = Mpi(partition=orders.partition, reduce=orders.reduce, timeout=orders.timeout)
    if hasattr(signal, "SIGUSR1"):  # the launcher's request; mpiexec's own SIGTERM ends at once
        signal.signal(signal.SIGUSR1, lambda *_: signal.raise_signal(signal.SIGINT))
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _demand(started_processes(), place.size)
    with ending_together(place) as owned, _logged(orders.log_dir, place.rank):
        return _run(place, orders, owned), place.rank != 0


def _demand(started: int, found: int) -> None:
    """Refuse to run as strangers: processes of one MPI that find themselves alone by another."""
    if started != found:
        raise Dual2Error(
            f"mpiexec started {started} processes, but mpi4py finds {found}: they use different "
            "MPI libraries. Use the mpiexec of the MPI that mpi4py loads (python -m mpi4py "
            "--mpi-library tells which), or install one only: openmpi or mpich."
        )


def _run(place: Mpi, orders: Orders, owned: list[int]) -> Result:
    h, network, options = load_public(orders.folder)
    options |= orders.chosen
    owned[:] = place.owned(network).tolist()
    store = _store(place, orders, owned)
    rounds = _agree(place, orders, options, place.assignment(network), store)
    share = Share(load_agents(orders.folder, owned), h, network.n)
    _log.info("rank %d of %d, process %d, agents %s", place.rank, place.size, os.getpid(), owned)
    state = None
    if store is not None and rounds is not None:
        state = store.load(rounds)
    tells = place.rank == 0 and WATCHED in os.environ
    callback = teller(options.get("method", "auto"), options.get("tol", 1e-8)) if tells else None
    result = solve(
        share, network, runtime=place, start=state, checkpoints=store, record=False,
        progress=False, callback=callback, **options,
    )  # fmt: skip
    _keep(place, orders, owned, store, result, network.n)
    return result


def _store(place: Mpi, orders: Orders, owned: list[int]) -> Checkpoints | None:
    if orders.own_folder is None:
        return None
    demand_writable(orders.own_folder)
    store = Checkpoints(orders.own_folder, place.rank, place.size, owned, orders.checkpoint)
    if orders.resume:
        return store
    refuse_answers(orders.own_folder, orders.out if orders.gather else None, owned, orders.force)
    if store.rounds() and not orders.force:
        raise Dual2Error(
            f"{orders.own_folder} has checkpoints of a run that did not end. Go on with --resume, "
            "or pass --force to start afresh."
        )
    return store


def _agree(
    place: Mpi, orders: Orders, options: dict[str, Any], owners: Assignment,
    store: Checkpoints | None,
) -> int | None:  # fmt: skip
    """Make sure that all processes mean the same run; the round to resume from, if any."""
    means = {
        "public part (problem.toml, problem.npz)": public_digest(orders.folder),
        "partition": digest(owners.tobytes()),
        "set of options": digest(sorted(options.items()), orders.shared()),
        "version of dual2": digest(__version__),
    }
    saved = store.rounds() if store is not None and orders.resume else []
    if store is not None and saved:
        store.load(saved[-1])  # of other agents or another number of processes: say so first
    agreed = greet(place, means, saved[-1] if saved else NONE)
    if not orders.resume:
        return None
    if not saved:
        raise Dual2Error(f"There is nothing to resume: {orders.own_folder} has no checkpoint.")
    if agreed == NONE:
        raise Dual2Error("There is nothing to resume: another process has no checkpoint.")
    if agreed not in saved:
        raise Dual2Error(
            f"The newest checkpoint of some process is of round {agreed}; here are only "
            f"{', '.join(map(str, saved))}. The checkpoints are not of one run: start afresh."
        )
    return agreed


def _keep(
    place: Mpi, orders: Orders, owned: list[int], store: Checkpoints | None, result: Result, n: int
) -> None:
    """Write the answers; a run that may be resumed keeps its state, a finished one does not."""
    if store is None or orders.own_folder is None or orders.out is None:
        return
    write_own(orders.own_folder, owned, result)
    if orders.gather:
        x = gathered(place, owned, result.x, n)
        if x is not None:
            document = result.as_dict() | {"x": [part.tolist() for part in x]}
            write_atomically(orders.out, to_json(document))
    if result.status == Status.CONVERGED:
        place.everyone(np.zeros(1, np.uint8), "end")
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
