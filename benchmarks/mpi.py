"""Agents as processes: what an exchange costs, and from what size on two processes pay.

Two processes. First one round of a path of eight agents (four in each process) beside the same in
one process, the same with one process's agents alone, mpi4py's bare exchange of the same row and,
if it is installed, disropt's. Then one iteration of 64 agents on a ring, in one process and in two,
for growing local problems. Contestants take turns; the smallest time of each counts.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import networkx as nx
import numpy as np

import dual2 as d2
from common.loops import ONE_SUBPROBLEM, Loop
from common.report import Report, parse
from dual2.processes.launch import command, environment, find_mpiexec

DIMS = (1, 2, 5, 20, 50, 100, 200, 500)
METHODS: dict[str, dict[str, Any]] = {
    "iD2A": {"subsolver": "iDAPG", **ONE_SUBPROBLEM},
    "NPGA-ED": {},
}
RAW = "raw: neighbourhood collective"
STEPS = 50
"""Iterations after which two processes must be where one is."""


def make_loop(method: str, graph: nx.Graph, p: int, d: int, runtime: str) -> Loop:
    """f = 45|x|², g = 10|x|₁, random A, h = |z-y|²/(2p)."""
    draws = [np.random.default_rng(i).standard_normal((p, d)) for i in range(len(graph))]
    agents = [d2.Agent(10 * A, d2.SquaredNorm(90.0), d2.L1Norm(10.0)) for A in draws]
    h = d2.SquaredLoss(np.random.default_rng(7).standard_normal(p), scale=1 / p)
    problem = d2.Problem(agents, h)
    return Loop(problem, d2.Network(graph), method, runtime=runtime, **METHODS[method])


def difference(spread: Loop, alone: Loop) -> float:
    """Largest difference of λ between the agents of this process and those of a run in one."""
    for loop in (spread, alone):
        loop.run(STEPS)
    return float(np.abs(spread.duals - alone.duals[spread.owned]).max())


# -- in the processes ---------------------------------------------------------------------------


def turns(
    comm: Any, contestants: dict[str, Callable[[int], Any]], steps: int, repeats: int
) -> dict[str, float]:
    """Smallest seconds per step of each; all processes run the same contestant at a time."""
    best = dict.fromkeys(contestants, np.inf)
    for _ in range(repeats):
        for name, run in contestants.items():
            comm.Barrier()
            best[name] = min(best[name], _seconds(run, steps))
    return {name: comm.allreduce(value, op=max) for name, value in best.items()}


def repeated(function: Callable[[], Any]) -> Callable[[int], None]:
    def run(steps: int) -> None:
        for _ in range(steps):
            function()

    return run


def bare_exchanges(comm: Any, p: int) -> dict[str, Callable[[], Any]]:
    """One row of p numbers to the other process and one back, by mpi4py alone."""
    from mpi4py import MPI

    other = 1 - comm.rank
    out, back = np.zeros(p), np.zeros(p)
    graph = comm.Create_dist_graph_adjacent([other], [other], reorder=False)
    requests = [comm.Recv_init(back, other), comm.Send_init(out, other)]

    def persistent() -> None:
        MPI.Prequest.Startall(requests)
        MPI.Request.Waitall(requests)

    return {
        RAW: lambda: graph.Neighbor_alltoall(out, back),
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


def one_round(comm: Any, options: argparse.Namespace) -> dict[str, Any]:
    """Seconds per round of path-8, p = 20, four agents in each process."""
    p, path, half = 20, nx.path_graph(8), nx.path_graph(4)
    bare = bare_exchanges(comm, p) | disropt_exchange(comm, p)
    contestants = {name: repeated(function) for name, function in bare.items()}
    worst = 0.0
    for method in METHODS:
        spread, alone = (make_loop(method, path, p, 2, where) for where in ("mpi", "stacked"))
        worst = max(worst, comm.allreduce(difference(spread, alone), op=max))
        contestants[f"{method}: loop"] = spread.run
        contestants[f"{method}: loop in one process"] = alone.run
        contestants[f"{method}: half the agents"] = make_loop(method, half, p, 2, "stacked").run
    return turns(comm, contestants, options.steps, options.repeats) | {"differ": worst}


def scaling(comm: Any, options: argparse.Namespace) -> dict[str, Any]:
    """Seconds per iteration of a ring of agents: one process and two."""
    ring, p, dims = nx.cycle_graph(options.agents), options.rows, options.dims
    two = {d: make_loop("iD2A", ring, p, d, "mpi") for d in dims}
    one = {d: make_loop("iD2A", ring, p, d, "stacked") for d in dims if comm.rank == 0}
    best = {str(d): [np.inf, np.inf] for d in dims}
    for _ in range(5 * options.repeats):
        for d in dims:
            own, steps = best[str(d)], max(1, 200 // d)
            comm.Barrier()
            own[1] = min(own[1], _seconds(two[d].run, steps))
            if comm.rank == 0:
                own[0] = min(own[0], _seconds(one[d].run, steps))
            _rest(comm)
    return best


def _seconds(run: Callable[[int], Any], steps: int) -> float:
    begun = time.perf_counter()
    run(steps)
    return (time.perf_counter() - begun) / steps


def _rest(comm: Any) -> None:
    """Wait for the other process asleep, so that it has the machine for itself."""
    request = comm.Ibarrier()
    while not request.Test():
        time.sleep(1e-3)


def work_in_process(options: argparse.Namespace) -> None:
    """Run the parts in this process, one of two; the first prints what was found."""
    from mpi4py import MPI

    comm, parts = MPI.COMM_WORLD, {"round": one_round, "scaling": scaling}
    found = {part: parts[part](comm, options) for part in options.parts}
    if comm.rank == 0:
        print(json.dumps(found))


# -- reporting --------------------------------------------------------------------------------


def in_processes(parts: Sequence[str], options: argparse.Namespace, rows: int) -> dict[str, Any]:
    """Run parts of this file in two processes; what the first of them found."""
    own = [sys.executable, __file__, "--parts", *parts, "--rows", str(rows)]
    for name in ("steps", "repeats", "agents"):
        own += [f"--{name}", str(getattr(options, name))]
    own += ["--dims", *map(str, options.dims)]
    own += ["--path", options.path] if options.path else []
    done = subprocess.run(
        command(find_mpiexec(), 2, own),
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))


def report_round(report: Report, answer: dict[str, float]) -> None:
    worst = answer.pop("differ")
    report.expect(worst == 0.0, f"two processes and one differ by {worst:.1e} in λ.")
    found = {name: 1e6 * value for name, value in answer.items()}
    raw = found[RAW]
    report.table(
        "One exchange of a row of 20 numbers between two processes",
        ["what", "µs per exchange", "over raw"],
        [(name, value, value / raw) for name, value in found.items() if ": " not in name[4:]],
    )
    rows = []
    for method in METHODS:
        kinds = ("loop in one process", "loop", "half the agents")
        alone, loop, half = (found[f"{method}: {kind}"] for kind in kinds)
        rows.append((method, alone, loop, half, raw, loop - half - raw, (loop - alone) / raw))
    names = ["method", "one process", "two processes", "half the agents", "exchange (raw)"]
    report.table(
        "One round of path-8, p = 20, four agents in each process (µs)",
        [*names, "overhead", "(two processes - one)/raw"],
        rows,
    )
    if "disropt" not in found:
        report.say("disropt is not installed; pip install disropt, or --path its site-packages.")


def report_scaling(report: Report, found: dict[str, Any], agents: int, p: int) -> None:
    rows = [(int(d), 1e3 * one, 1e3 * two, one / two) for d, (one, two) in found.items()]
    report.table(
        f"{agents} agents on a ring, p = {p}: milliseconds per iteration of iD2A",
        ["d_i", "one process", "two processes", "ratio"],
        rows,
    )
    faster = [str(d) for d, *_, ratio in rows if ratio > 1]
    report.say(f"p = {p}: two processes are faster for d_i = {', '.join(faster) or 'none'}.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=500, help="rounds of one timing")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--agents", type=int, default=64, help="on the ring")
    parser.add_argument("--dims", type=int, nargs="+", default=list(DIMS))
    parser.add_argument("--path", help="folder with further packages, disropt for instance")
    parser.add_argument("--rows", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--parts", nargs="+", help=argparse.SUPPRESS)
    options = parse(parser, steps=20, repeats=1, agents=8, dims=[2])
    if options.path:
        sys.path.append(options.path)
    if options.parts:
        work_in_process(options)
        return
    report = Report(options)
    found = in_processes(["round", "scaling"], options, 20)
    report_round(report, found["round"])
    report_scaling(report, found["scaling"], options.agents, 20)
    if not options.smoke:
        found = in_processes(["scaling"], options, 200)
        report_scaling(report, found["scaling"], options.agents, 200)
    report.end()


if __name__ == "__main__":
    main()
