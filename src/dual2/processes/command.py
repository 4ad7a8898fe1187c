"""``dual2 solve --mpi N``: start the processes and say how they ended."""

import sys

import numpy as np

from dual2.algorithms.registry import find_method
from dual2.errors import Dual2Error
from dual2.folder import load_public
from dual2.processes.failure import agents_in_words
from dual2.processes.launch import End, launch, started_by_mpi
from dual2.processes.orders import Orders
from dual2.runtime.partition import Assignment


def solve_in_processes(orders: Orders, ranks: int) -> int:
    """Start ``ranks`` processes of ``dual2 solve``; the exit code."""
    if started_by_mpi():
        raise Dual2Error("--mpi starts processes itself; under mpiexec leave it out.")
    public = load_public(orders.folder)
    find_method((public.options | dict(orders.chosen)).get("method", "auto"))
    owners = orders.owners(public.network, ranks)
    end = launch(ranks, [sys.executable, "-m", "dual2.cli", *orders.arguments()])
    if end.signal:
        print(f"dual2: {_last_words(orders, owners, end)}", file=sys.stderr)
    return end.code


def _last_words(orders: Orders, owners: Assignment, end: End) -> str:
    """Who was killed and how to go on; the processes can no longer say it themselves."""
    if end.interrupted:
        text = "interrupted before there was an answer to keep."
    else:
        who = "mpiexec"
        if end.killed is not None:
            who = f"rank {end.killed}"
            who += agents_in_words(np.flatnonzero(owners == end.killed).tolist())
        text = f"{who} was killed by signal {end.signal}."
    saved = orders.own_folder is not None and any(orders.own_folder.glob("rank-*.npz"))
    return text + (" Go on from the last checkpoints with --resume." if saved else "")
