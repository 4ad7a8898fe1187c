"""Agents as processes: what an exchange costs, and from what size on two processes pay.

Two processes. First one round of a path of eight agents (four in each process), split into
compute, exchange and overhead, beside mpi4py's bare exchange of the same row and, if it is
installed, disropt's. Then one iteration of 64 agents on a ring, in one process and in two, for
growing local problems. Contestants take turns; the smallest time of each counts.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
from report import Report, load

import dual2 as d2
from dual2.algorithms import Settings, find_method
from dual2.engine.callbacks import SHIP
from dual2.engine.threads import Team
from dual2.problem import Problem
from dual2.processes.launch import command, environment, find_mpiexec
from dual2.runtime import Share
from dual2.runtime.mpi import Mpi, load_mpi

AIM_ROUND, AIM_SCALE = 3.0, 1.5
DIMS = (1, 2, 5, 20, 50, 100, 200, 500)
METHODS = ("iD2A", "NPGA-ED")


# -- building ---------------------------------------------------------------------------------


def agent(number: int, p: int, d: int) -> d2.Agent:
    """f = 45|x|², g = 10|x|₁, random A."""
    A = 10 * np.random.default_rng(number).standard_normal((p, d))
    return d2.Agent(A, d2.SquaredNorm(90.0), d2.L1Norm(10.0))


def coupling(p: int) -> d2.Function:
    return d2.SquaredLoss(np.random.default_rng(7).standard_normal(p), scale=1 / p)


def stepper(method: str, problem: Problem, network: d2.Network) -> tuple[Any, Callable[[int], Any]]:
    """The runtime and a function that makes so many iterations of one round each."""
    plan = find_method(method).plan(problem, network, Settings(method))
    rt, algorithm = plan.runtime, plan.algorithm
    algorithm.start(np.zeros(rt.packed.size), np.zeros((rt.n, rt.p)))
    if method == "iD2A":
        z = np.zeros((rt.n, rt.p))
        return rt, lambda steps: algorithm.subsolver.advance(z, steps, 1e9)
    return rt, algorithm.step


def shared(
    method: str, place: Mpi, n: int, p: int, d: int, network: d2.Network
) -> tuple[Any, Callable[[int], Any]]:
    """The part of this process only."""
    agents = {int(i): agent(int(i), p, d) for i in place.owned(network)}
    share = place.share(Share(agents, coupling(p), n), network)
    return stepper(method, share, network)


def whole(
    method: str, n: int, p: int, d: int, network: d2.Network
) -> tuple[Any, Callable[[int], Any]]:
    """All agents in this process, on one thread."""
    problem = Problem([agent(i, p, d) for i in range(n)], coupling(p))
    rt, run = stepper(method, problem, network)
    rt.team = Team(1)
    return rt, run


# -- timing -----------------------------------------------------------------------------------


def turns(
    comm: Any, contestants: dict[str, Callable[[int], Any]], steps: int, repeats: int
) -> dict[str, float]:
    """Smallest seconds per step of each; all processes run the same contestant at a time."""
    best = dict.fromkeys(contestants, np.inf)
    for _ in range(repeats):
        for name, run in contestants.items():
            comm.Barrier()
            begun = time.perf_counter()
            run(steps)
            best[name] = min(best[name], (time.perf_counter() - begun) / steps)
    values = np.array(list(best.values()))
    comm.Allreduce(load_mpi().IN_PLACE, values, load_mpi().MAX)
    return dict(zip(best, values.tolist(), strict=True))


def repeated(function: Callable[[], Any]) -> Callable[[int], None]:
    def run(steps: int) -> None:
        for _ in range(steps):
            function()

    return run


def bare_exchanges(comm: Any, p: int) -> dict[str, Callable[[], Any]]:
    """One row of p numbers to the other process and one back, by mpi4py alone."""
    MPI = load_mpi()
    other = 1 - comm.rank
    out, back = np.zeros(p), np.zeros(p)
    graph = comm.Create_dist_graph_adjacent([other], [other], reorder=False)
    requests = [comm.Recv_init(back, other), comm.Send_init(out, other)]

    def persistent() -> None:
        MPI.Prequest.Startall(requests)
        MPI.Request.Waitall(requests)

    return {
        "raw: neighbourhood collective": lambda: graph.Neighbor_alltoall(out, back),
        "raw: persistent requests": persistent,
    }


def disropt_exchange(comm: Any, p: int) -> dict[str, Callable[[], Any]]:
    """The same row by disropt's communicator, if it is installed."""
    try:
        from disropt.communicators import MPICommunicator
    except ImportError:
        return {}
    communicator, row, other = MPICommunicator(), np.zeros(p), [1 - comm.rank]
    return {"disropt": lambda: communicator.neighbors_exchange(row, other, other)}


def one_round(options: argparse.Namespace) -> dict[str, Any]:
    """Seconds per round of path-8, p = 20, four agents in each process."""
    place = Mpi()
    comm, p, network = place.comm, 20, d2.Network(nx.path_graph(8))
    found: dict[str, Any] = {}
    bare = bare_exchanges(comm, p) | disropt_exchange(comm, p)
    contestants = {name: repeated(function) for name, function in bare.items()}
    for method in METHODS:
        rt, run = shared(method, place, 8, p, 2, network)
        _, alone = whole(method, 8, p, 2, network)
        handlers = rt.packed.callbacks.handlers
        ship = handlers[SHIP, 0]

        def without(steps: int, run=run, handlers=handlers, ship=ship) -> None:
            handlers[SHIP, 0] = lambda: None
            run(steps)
            handlers[SHIP, 0] = ship

        contestants[f"{method}: loop"] = run
        contestants[f"{method}: loop without messages"] = without
        contestants[f"{method}: stacked loop"] = alone
        if method == METHODS[0]:
            contestants["dual2: exchange"] = repeated(ship)
    found = turns(comm, contestants, options.steps, options.repeats)
    return found if comm.rank == 0 else {}


def scaling(options: argparse.Namespace) -> dict[str, Any]:
    """Seconds per iteration of 64 agents on a ring: one process and two."""
    place = Mpi()
    comm, n, p = place.comm, 64, options.rows
    network = d2.Network(nx.cycle_graph(64))
    two = {d: shared("iD2A", place, n, p, d, network)[1] for d in options.dims}
    one = {d: whole("iD2A", n, p, d, network)[1] for d in options.dims if comm.rank == 0}
    best = {str(d): [np.inf, np.inf] for d in options.dims}
    for _ in range(5 * options.repeats):
        for d in options.dims:
            own, steps = best[str(d)], max(1, 200 // d)
            comm.Barrier()
            own[1] = min(own[1], _seconds(two[d], steps))
            if comm.rank == 0:
                own[0] = min(own[0], _seconds(one[d], steps))
            _rest(comm)
    return best if comm.rank == 0 else {}


def _seconds(run: Callable[[int], Any], steps: int) -> float:
    begun = time.perf_counter()
    run(steps)
    return (time.perf_counter() - begun) / steps


def _rest(comm: Any) -> None:
    """Wait for the other process asleep, so that it has the machine for itself."""
    request = comm.Ibarrier()
    while not request.Test():
        time.sleep(1e-3)


# -- reporting --------------------------------------------------------------------------------


def in_processes(part: str, options: argparse.Namespace, rows: int = 20) -> dict[str, Any]:
    """Run one part of this file in two processes; what the first of them found."""
    own = [sys.executable, __file__, "--part", part, "--steps", str(options.steps)]
    own += ["--repeats", str(options.repeats), "--dims", *map(str, options.dims)]
    own += ["--rows", str(rows)]
    own += ["--path", options.path] if options.path else []
    done = subprocess.run(
        command(find_mpiexec(), 2, own), env=environment(), stdout=subprocess.PIPE, text=True,
        check=True,
    )  # fmt: skip
    return json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))


def report_round(report: Report, options: argparse.Namespace) -> None:
    found = {name: 1e6 * value for name, value in in_processes("round", options).items()}
    raw = found["raw: neighbourhood collective"]
    head = ["what", "µs per round", "over raw"]
    report.table(
        "One exchange of a row of 20 numbers between two processes", head,
        [(name, value, value / raw) for name, value in found.items() if "loop" not in name],
    )  # fmt: skip
    rows = []
    for method in METHODS:
        loop, compute = found[f"{method}: loop"], found[f"{method}: loop without messages"]
        stacked = found[f"{method}: stacked loop"]
        rest = loop - compute - raw
        rows.append((method, stacked, loop, compute, raw, rest, (loop - stacked) / raw, AIM_ROUND))
    names = ["method", "stacked", "two processes", "compute", "exchange (raw)", "overhead"]
    report.table(
        "One round of path-8, p = 20, four agents in each process (µs)",
        [*names, "(two processes - stacked)/raw", "aim ≤"], rows,
    )  # fmt: skip
    if "disropt" not in found:
        report.say("disropt is not installed; pip install disropt, or --path its site-packages.")


def report_scaling(report: Report, options: argparse.Namespace, p: int) -> None:
    found = in_processes("scaling", options, p)
    rows = [(d, 1e3 * one, 1e3 * two, one / two) for d, (one, two) in found.items()]
    report.table(
        f"64 agents on a ring, p = {p}: milliseconds per iteration of iD2A",
        ["d_i", "one process", "two processes", f"ratio (aim ≥ {AIM_SCALE} at p 200, d_i 500)"],
        rows,
    )  # fmt: skip
    slow = [int(d) for d, *_, ratio in rows if ratio <= 1]
    where = f"for d_i > {max(slow)}" if slow else "for every d_i of the table"
    report.say(f"p = {p}: two processes are faster {where}.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=500, help="rounds of one timing")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--dims", type=int, nargs="+", default=list(DIMS))
    parser.add_argument("--path", help="folder with further packages, disropt for instance")
    parser.add_argument("--rows", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--part", choices=("round", "scaling"), help=argparse.SUPPRESS)
    parser.add_argument("--out", help="write the tables to this Markdown file")
    options = parser.parse_args()
    if options.path:
        sys.path.append(options.path)
    if options.part:
        found = {"round": one_round, "scaling": scaling}[options.part](options)
        if found:
            print(json.dumps(found))
        return
    report = Report(options.out)
    report.say(load())
    report_round(report, options)
    for p in (20, 200):
        report_scaling(report, options, p)
    report.say(load())
    report.save()


if __name__ == "__main__":
    main()
