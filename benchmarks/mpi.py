"""Agents as processes: what an exchange costs, and from what size on two processes pay.

Two processes. First one round of a path of eight agents (four in each process) beside the same in
one process, the same with one process's agents alone, mpi4py's bare exchange of the same row and,
if it is installed, disropt's. Then one iteration of 64 agents on a ring, in one process and in two,
for growing local problems. Then sums: of one array from each process, beside ``MPI_Allreduce`` of
the same array; and one sum of Newton's method for a dispatch (20 prices and their Jacobians at
once), as many agents in two processes as in one (strong scaling) or twice as many (weak).
Contestants take turns; the smallest time of each counts.
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
from common import interpreter
from common.growth import many
from common.loops import ONE_SUBPROBLEM, Loop, OneSum
from common.report import Report, parse
from dual2.processes.launch import command, environment, find_mpiexec
from dual2.runtime import Communicator
from dual2.runtime.mpi import Mpi

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


def sums(comm: Any, options: argparse.Namespace) -> dict[str, Any]:
    """Seconds of ``MPI_Allreduce`` and of the library's sums, for arrays of some widths."""
    pair, found = d2.Network([(0, 1)]), {}
    agreements = {how: Communicator(pair, Mpi(comm, reduce=how)) for how in ("mpi", "tree")}
    for width in options.widths:
        own, answer = np.ones(width), np.empty(width)
        contestants = {"raw": repeated(lambda a=own, b=answer: comm.Allreduce(a, b))}
        for how, ours in agreements.items():
            ask = lambda a=ours, w=width: a.allreduce_filled(w, lambda _, out: out.fill(1.0))  # noqa: E731
            contestants[how] = repeated(ask)
        steps = max(2, min(options.steps, 10**6 // width))
        found[str(width)] = turns(comm, contestants, steps, options.repeats)
    return found


def growth(comm: Any, options: argparse.Namespace) -> dict[str, Any]:
    """Seconds of one sum of Newton's method: wall clock, and processor time of a process."""
    n, transport = options.units, Mpi(comm, reduce="mpi")
    loops = {"strong": OneSum(*many(n), 20, 20, runtime=transport)}
    loops["weak"] = OneSum(*many(2 * n), 20, 20, runtime=transport)
    alone = OneSum(*many(n), 20, 20)
    best = {name: [np.inf, np.inf] for name in ("alone", *loops)}
    for _ in range(options.repeats):
        for name, loop in loops.items():
            comm.Barrier()
            _note(best[name], loop)
        if comm.rank == 0:
            _note(best["alone"], alone)
        _rest(comm)
    return best


def _note(best: list[float], loop: OneSum) -> None:
    wall, used = time.perf_counter(), time.process_time()
    loop.run()
    ended = time.perf_counter() - wall, time.process_time() - used
    best[:] = [min(old, new) for old, new in zip(best, ended, strict=True)]


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

    comm, parts = (
        MPI.COMM_WORLD,
        {
            "round": one_round,
            "scaling": scaling,
            "sums": sums,
            "growth": growth,
        },
    )
    found = {part: parts[part](comm, options) for part in options.parts}
    if comm.rank == 0:
        print(json.dumps(found))


# -- reporting --------------------------------------------------------------------------------


def in_processes(parts: Sequence[str], options: argparse.Namespace, rows: int) -> dict[str, Any]:
    """Run parts of this file in two processes; what the first of them found."""
    own = [*interpreter.PYTHON, __file__, "--parts", *parts, "--rows", str(rows)]
    for name in ("steps", "repeats", "agents", "units"):
        own += [f"--{name}", str(getattr(options, name))]
    own += ["--dims", *map(str, options.dims), "--widths", *map(str, options.widths)]
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


def report_sums(report: Report, found: dict[str, Any]) -> None:
    kinds = ("raw", "mpi", "tree")
    rows = []
    for width, times in found.items():
        numbers = [1e6 * times[kind] for kind in kinds]
        rows.append([int(width), *numbers, numbers[1] / numbers[0], numbers[2] / numbers[0]])
    head = ["numbers", "MPI_Allreduce", "reduce='mpi'", "reduce='tree'", "mpi/raw", "tree/raw"]
    report.table("One sum of an array from each of two processes (µs)", head, rows)


def report_growth(report: Report, found: dict[str, Any], units: int) -> None:
    alone, rows = found["alone"], []
    for name, agents in (("alone", units), ("strong", units), ("weak", 2 * units)):
        wall, used = found[name]
        done = agents / units
        ratio = [done * mine / other for mine, other in zip(alone, (wall, used), strict=True)]
        processes = 1 if name == "alone" else 2
        rows.append([name, processes, agents, 1e3 * wall, 1e3 * used, *ratio])
    head = ["scaling", "processes", "agents", "wall ms", "CPU ms of a process"]
    head += ["speed-up by the wall clock", "by CPU time of a process"]
    report.table("One sum of Newton's method, dispatch over 24 periods", head, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=500, help="rounds of one timing")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--agents", type=int, default=64, help="on the ring")
    parser.add_argument("--dims", type=int, nargs="+", default=list(DIMS))
    widths = [24, 324, 5000, 125_250]
    parser.add_argument("--widths", type=int, nargs="+", default=widths, help="of summed arrays")
    parser.add_argument("--units", type=int, default=8000, help="agents of the dispatch")
    parser.add_argument("--path", help="folder with further packages, disropt for instance")
    parser.add_argument("--rows", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--parts", nargs="+", help=argparse.SUPPRESS)
    small: dict[str, Any] = {"steps": 20, "repeats": 1, "agents": 8, "dims": [2]}
    options = parse(parser, **small, widths=[24], units=16)
    if options.path:
        sys.path.append(options.path)
    if options.parts:
        work_in_process(options)
        return
    report = Report(options)
    found = in_processes(["round", "scaling", "sums", "growth"], options, 20)
    report_round(report, found["round"])
    report_scaling(report, found["scaling"], options.agents, 20)
    report_sums(report, found["sums"])
    report_growth(report, found["growth"], options.units)
    if not options.smoke:
        found = in_processes(["scaling"], options, 200)
        report_scaling(report, found["scaling"], options.agents, 200)
    report.end()


if __name__ == "__main__":
    main()
