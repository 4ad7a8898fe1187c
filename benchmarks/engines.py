"""One problem on several engines: one process, threads, MPI, Ray, Dask.

Each engine has two workers on this machine. In the second run workers are there, kernels are
compiled and data is placed; the first run has all of that in it. The answers must be those of one
process, and are the same bits where the table says so. Messages and bytes are those that leave
workers during one run; they are the same on every engine.

``newton``, ``gossip``: Experiment I of the paper by Newton's method and by iD2A. ``dispatch``:
units with quadratic costs on a grid meet 24 demands. ``logistic``: a logistic regression with as
many rows as samples. ``blocks``: zones over hours, a linear program with private rows.

``lost``: one worker is killed in the middle of a run; seconds until the driver has the error.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import dual2 as d2
from common import interpreter
from common.growth import dispatch, grid
from common.report import Report, parse
from dual2.clusters import Dask, Ray, Threads
from dual2.clusters.thread_cluster import ThreadMailbox
from dual2.paper.problems.elastic_net_regression import experiment1
from dual2.processes.launch import command, environment, find_mpiexec
from dual2.runtime import Inbox, RemoteProblem
from dual2.runtime.cluster import WorkerLost
from dual2.runtime.mpi import Mpi
from zone_models import zone_model

Array = np.ndarray
JOBS = ("newton", "gossip", "dispatch", "logistic", "blocks")
ENGINES: dict[str, tuple[str, Callable[[int], AbstractContextManager[Any]]]] = {
    "threads": ("numpy", Threads), "Ray": ("ray", Ray), "Dask": ("distributed", Dask)
}  # fmt: skip
CLOSE = 1e-9


def problem_of(job: str, options: argparse.Namespace) -> tuple[d2.Problem, d2.Network, str]:
    """Problem, network and method of a job."""
    if job in ("newton", "gossip"):
        problem, network, _ = experiment1()
        return problem, network, "Newton" if job == "newton" else "iD2A"
    if job == "dispatch":
        return dispatch(options.agents, 0), d2.Network(grid(options.agents)), "Newton"
    if job == "logistic":
        rng = np.random.default_rng(0)
        X = rng.standard_normal((options.samples, options.columns))
        labels = np.where(X[:, :3].sum(axis=1) + rng.logistic(size=len(X)) > 0, 1.0, -1.0)
        agents = [d2.Agent(part, d2.SquaredNorm(1.0)) for part in np.array_split(X, 4, axis=1)]
        return d2.Problem(agents, d2.LogisticLoss(labels)), path(4), "Newton"
    model = zone_model(*map(int, options.zones.split("x")))
    problem, owned = model.to_problem(lambda name: name.split("_")[0])
    return problem, owned.network(), "interior-point"


def path(n: int) -> d2.Network:
    """A path of n agents."""
    return d2.Network([(i, i + 1) for i in range(n - 1)])


def timed(solve: Callable[[], d2.Result]) -> tuple[d2.Result, float]:
    """The result and the seconds it took."""
    begun = time.perf_counter()
    return solve(), time.perf_counter() - begun


def traffic(problem: d2.Problem, network: d2.Network, method: str) -> tuple[int, int]:
    """Messages and bytes that leave two workers in one run."""
    seen: list[int] = []
    inboxes = [Inbox(), Inbox()]

    def work(rank: int) -> None:
        box = ThreadMailbox(rank, inboxes, observer=lambda *message: seen.append(message[3].nbytes))
        d2.solve(problem, network, method=method, runtime=box, record=False)

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(seen), sum(seen)


def by_mpi(job: str, options: argparse.Namespace) -> tuple[Array, float, float]:
    """The answer in two processes of MPI, seconds of the first run and of the second."""
    with tempfile.TemporaryDirectory() as folder:
        sizes = ["--agents", options.agents, "--samples", options.samples]
        sizes += ["--columns", options.columns, "--zones", options.zones]
        line = [*interpreter.PYTHON, __file__, "--rank", folder, *map(str, sizes), job]
        done = subprocess.run(
            command(find_mpiexec(), 2, line), env=environment(), capture_output=True, text=True
        )
        if done.returncode:
            raise SystemExit(done.stderr)
        parts = [np.load(Path(folder) / f"{rank}.npz") for rank in range(2)]
        by_agent = {int(name): part[name] for part in parts for name in part if name.isdigit()}
        seconds = parts[0]["seconds"]
    x = np.concatenate([by_agent[i] for i in sorted(by_agent)])
    return x, float(seconds[0]), float(seconds[1])


def take_rank(job: str, options: argparse.Namespace) -> None:
    """One process of MPI."""
    problem, network, method = problem_of(job, options)
    mpi, seconds = Mpi(), []
    for _ in range(2):
        result, taken = timed(
            lambda: d2.solve(problem, network, method=method, runtime=mpi, record=False)
        )
        seconds.append(taken)
    found = {str(i): x for i, x in zip(result.owned, result.x, strict=True)}
    np.savez(Path(options.rank) / f"{mpi.rank}.npz", seconds=seconds, **found)


def rows_of(report: Report, job: str, options: argparse.Namespace) -> list[list[Any]]:
    """One job on every engine."""
    problem, network, method = problem_of(job, options)
    solve = {"method": method, "record": False}
    here, first = timed(lambda: d2.solve(problem, network, **solve))
    x = np.concatenate(here.x)
    report.expect(here.status == "CONVERGED", f"{job} in one process: {here.status}.")
    rows = [[job, "one process", "", first, timed(lambda: d2.solve(problem, network, **solve))[1]]]
    for name in options.engines:
        package, make = ENGINES[name]
        if find_spec(package) is None:
            report.leave_out(f"{name}: {package} is not installed.")
            continue
        with make(2) as cluster:
            runs = [
                timed(lambda engine=cluster: d2.solve(problem, network, runtime=engine, **solve))
                for _ in range(2)
            ]
        rows.append([job, name, *compared(report, f"{job} on {name}", x, runs)])
    there, *seconds = by_mpi(job, options)
    rows.append([job, "MPI", same(report, f"{job} by MPI", x, there), *seconds])
    messages, size = traffic(problem, network, method)
    for row in rows:
        row += ["", ""] if row[1] == "one process" else [messages, size / 1e6]
    return rows


def compared(report: Report, what: str, x: Array, runs: list[Any]) -> list[Any]:
    """Whether the bits are those of one process, and the seconds of both runs."""
    (_, first), (result, second) = runs
    return [same(report, what, x, np.concatenate(result.x)), first, second]


def same(report: Report, what: str, x: Array, there: Array) -> str:
    """Whether two answers are the same bits, or how far apart they are."""
    apart = float(np.abs(x - there).max() / max(np.abs(x).max(), 1e-300))
    report.expect(apart <= CLOSE, f"{what}: the answer is off by {apart:.0e}.")
    return "same bits" if np.array_equal(x, there) else f"{apart:.0e}"


class Slow:
    """Agents whose gradients take a while, and which note the process that loads them."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, i: int) -> d2.Agent:
        """Agent i."""
        (Path(self.folder) / f"{i}.pid").write_text(str(os.getpid()))

        def grad(x: Array) -> Array:
            time.sleep(0.002)
            return x - 1.0

        return d2.Agent(np.eye(2), d2.Smooth(grad, 1.0, 1.0))


def lost(report: Report, name: str) -> list[Any]:
    """Kill a worker in the middle of a run; seconds until the driver says so."""
    package, make = ENGINES[name]
    if find_spec(package) is None:
        return [name, "not installed", ""]
    with tempfile.TemporaryDirectory() as folder, make(2) as cluster:
        problem = RemoteProblem(Slow(folder), d2.IndicatorPoint([1.0, 2.0]), n=6)
        killed: list[float] = []

        def kill() -> None:
            while len(list(Path(folder).glob("*.pid"))) < 6:
                time.sleep(0.05)
            time.sleep(2.0)
            killed.append(time.perf_counter())
            os.kill(int((Path(folder) / "5.pid").read_text()), signal.SIGKILL)

        threading.Thread(target=kill, daemon=True).start()
        said = ""
        try:
            options = {"method": "iD2A", "tol": 1e-300, "time_limit": 60.0}
            d2.solve(problem, path(6), runtime=cluster, **options)
        except WorkerLost as error:
            said = str(error).partition(".")[0]
        report.expect(said, f"{name}: a lost worker was not noticed.")
        return [name, said, time.perf_counter() - killed[0]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, default=100_000, help="of dispatch")
    parser.add_argument("--samples", type=int, default=100_000, help="of logistic")
    parser.add_argument("--columns", type=int, default=40, help="of logistic")
    parser.add_argument("--zones", default="10x168x9", help="zones x hours x units of blocks")
    parser.add_argument("--engines", nargs="*", default=list(ENGINES), choices=list(ENGINES))
    parser.add_argument("--rank", help=argparse.SUPPRESS)
    smoke = {"agents": 60, "samples": 200, "columns": 8, "zones": "2x6x2"}
    smoke |= {"parts": ["newton"], "engines": ["threads"]}
    options = parse(parser, [*JOBS, "lost"], **smoke)
    if options.rank:
        take_rank(options.parts[0], options)
        return
    report = Report(options)
    rows = [row for job in JOBS if job in options.parts for row in rows_of(report, job, options)]
    head = ["job", "engine", "answer", "s, first run", "s, second run", "messages", "MB"]
    report.table("Two workers on this machine", head, rows)
    if "lost" in options.parts:
        found = [lost(report, name) for name in options.engines if name != "threads"]
        report.table("A worker is killed", ["engine", "error", "s until it is raised"], found)
    report.end()


if __name__ == "__main__":
    sys.exit(main())
