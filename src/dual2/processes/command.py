"""``dual2 solve --mpi N``: start the processes and say how they ended."""

import sys

import numpy as np

from dual2.errors import Dual2Error
from dual2.folder import load_public
from dual2.processes.failure import agents_in_words
from dual2.processes.launch import launch, started_by_mpi
from dual2.processes.orders import Orders


def solve_in_processes(orders: Orders, ranks: int) -> int:
    """Start ``ranks`` processes of ``dual2 solve``; the exit code."""
    if started_by_mpi():
        raise Dual2Error("--mpi starts processes itself; under mpiexec leave it out.")
    owners = orders.owners(load_public(orders.folder).network, ranks)
    end = launch(ranks, [sys.executable, "-m", "dual2.cli", *orders.arguments()])
    if end.killed is not None:
        agents = agents_in_words(np.flatnonzero(owners == end.killed).tolist())
        advice = "" if orders.out is None else " Go on from the last checkpoints with --resume."
        print(
            f"dual2: rank {end.killed}{agents} was killed by signal {end.signal}.{advice}",
            file=sys.stderr,
        )
    return end.code
