"""Many agents, many rows, in one process: how time and memory grow, and with how many threads.

``dispatch``: n units with quadratic costs and limits of their own on a square grid meet a demand in
each of 24 periods, KKT residual 1e-8; processor time and memory (beyond those of a process that has
solved such a problem of 400 units), and how both grow with n. What the operating system takes of a
solve, mostly to provide memory, is shown beside it.

``elastic``: agent i holds d columns of a standardised design matrix X (zero mean, unit variance).
Together they minimise, over θ = (x_1, …, x_n),

    |Xθ - y|²/(2p) + l1|θ|₁ + (l2/2)|θ|²,

y = X θ_true + noise with a sparse θ_true, y standardised. l1 is a fraction of the smallest value
at which θ = 0. A centralised coordinate descent gives the answer to compare with.

``exponents``: processor time of one sum and memory of what it needs, against n, p and d, each alone
over a factor of eight or more; slopes of the logarithms beside the predicted ones. Memory is what
Python allocates from the problem's data on (the interpreter and its libraries are not in it).

``rows``: p = 10 000 rows to the end, by Newton's primal mode and by L-BFGS.

``model``: seconds of nine sums among 10³ to 10⁶ processes, by a formula; nothing is measured.

``threads``: one sum by two threads and by one, in turns: wall clock, and the processor time of the
first thread. Beside them one thread while another process makes the same sums, which tells what two
cores of this machine give to two who share nothing.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import networkx as nx
import numpy as np
from scipy.stats import linregress

import dual2 as d2
from common import interpreter
from common.elastic import coordinate_descent, elastic_net_data
from common.growth import (
    DELAYS,
    FITS,
    dense,
    dispatch,
    grid,
    many,
    measure,
    message,
    seconds_of_a_sum,
    trees,
)
from common.loops import OneSum
from common.report import Report, parse

Array = np.ndarray
DISTANCE = "|x - x_ref|/|x_ref|"
WARM = 400
"""Agents of a first solve: enough for all kernels that many need."""


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Build, solve and compare, in this process."""
    n, p, d = options.agents, options.rows, options.dim
    X, y, l1, l2 = elastic_net_data(n, p, d, options.share, options.seed)
    begun = time.perf_counter()
    f, g = d2.SquaredNorm(l2), d2.L1Norm(l1)
    agents = [d2.Agent(X[:, i * d : (i + 1) * d], f, g) for i in range(n)]
    problem = d2.Problem(agents, d2.SquaredLoss(y, scale=1 / p))
    built = time.perf_counter()
    network = d2.Network(nx.random_regular_graph(options.degree, n, seed=options.seed))
    wired = time.perf_counter()
    result = d2.solve(
        problem,
        network,
        method=options.method,
        tol=options.tol,
        time_limit=options.time_limit,
        record=options.trace,
    )
    solved, peak = time.perf_counter(), peak_memory()
    theta = np.concatenate(result.x)
    reference = coordinate_descent(X, y, l1, l2)
    size = float(np.linalg.norm(reference))
    return {
        "status": str(result.status),
        "rounds": result.counts.rounds,
        "agree_rounds": result.counts.agree_rounds,
        "outer iterations": result.counts.outer,
        "seconds: problem": built - begun,
        "seconds: network": wired - built,
        "seconds: solve, all": solved - wired,
        "seconds: solve, loop": result.seconds,
        "peak memory GB (aim ≤ 2)": peak,
        "KKT residual": result.certificate.kkt,
        DISTANCE: float(np.linalg.norm(theta - reference)) / size,
        "nonzeros found": int(np.count_nonzero(theta)),
        "nonzeros of the reference": int(np.count_nonzero(reference)),
        "different support": int(np.sum((theta != 0) != (reference != 0))),
        "κ_C": network.kappa,
    }


def report_elastic(report: Report, options: argparse.Namespace) -> None:
    found = in_child(options, "elastic")
    title = (
        f"{options.method}, {options.agents} agents, p = {options.rows}, d = {options.dim}, "
        f"random {options.degree}-regular graph, tol {options.tol:g}"
    )
    report.table(title, ["what", "number"], found.items())
    fine = found["status"] == "CONVERGED" and found[DISTANCE] <= 1000 * options.tol
    report.expect(
        fine, f"the run ends as {found['status']}, {found[DISTANCE]:.1e} from the answer."
    )


# -- dispatch by exact sums ------------------------------------------------------------------------


def run_dispatch(options: argparse.Namespace) -> dict[str, Any]:
    """Build and solve the first of the sizes with the first number of threads."""
    n = options.sizes[0]
    os.environ["DUAL2_THREADS"] = str(options.threads[0])
    quiet = {"method": "Newton", "tol": 1e-8, "record": False, "progress": False}
    d2.solve(dispatch(WARM, 0), grid(WARM), **quiet)  # kernels are compiled, or read
    base, begun = peak_memory(), time.process_time()
    problem = dispatch(n, options.seed)
    built = time.process_time()
    network = grid(n)
    height, wired, first = network.tree.height, time.process_time(), time.thread_time()
    before = os.times().system
    result = d2.solve(problem, network, **quiet)
    ended, peak, system = time.process_time(), peak_memory(), os.times().system - before
    return {
        "agents": n,
        "threads": options.threads[0],
        "status": str(result.status),
        "height": height,
        "sums": result.counts.sums,
        "KKT": result.certificate.kkt,
        "CPU s: problem": built - begun,
        "network": wired - built,
        "solve": ended - wired,
        "of it system": system,
        "first thread": time.thread_time() - first,
        "µs per agent": 1e6 * (ended - wired) / n,
        "GB": peak,
        "KB per agent": 1e6 * (peak - base) / n,
    }


def report_dispatch(report: Report, options: argparse.Namespace) -> None:
    runs = [(n, t) for n in options.sizes for t in options.threads]
    found = [in_child(options, "dispatch", sizes=[n], threads=[t]) for n, t in runs]
    for run in found:
        report.expect(run["status"] == "CONVERGED", f"{run['agents']} agents: {run['status']}.")
    report.table("Dispatch over 24 periods on a grid", list(found[0]), [r.values() for r in found])
    rows = []
    for (n, threads), run in zip(runs, found, strict=True):
        first = next(r for r in found if r["threads"] == threads)
        one = next(r for r in found if r["agents"] == n)
        grown = [run[w] / (first[w] or np.nan) for w in ("µs per agent", "KB per agent")]
        rows.append([n, threads, *grown, one["first thread"] / run["first thread"]])
        fine = options.smoke or max(abs(ratio - 1) for ratio in grown) <= 0.2
        report.expect(fine, f"{n} agents: time or memory is not linear within 20 %.")
    head = ["agents", "threads", "CPU per agent", "memory per agent", "solve over first thread's"]
    report.table("Over the first size, and over one thread", head, rows)


# -- exponents -------------------------------------------------------------------------------------


def report_exponents(report: Report, options: argparse.Namespace) -> None:
    rows, slopes = [], []
    OneSum(*dense(4, 3, 2), 1, 1).run()  # kernels are compiled, or read
    for fit in (FITS[k] for k in options.fits):
        sizes = [max(4, size // options.shrink) for size in fit.sizes]
        found = np.array([measure(fit, size, options.repeats) for size in sizes])
        rows += [[fit.name, size, 1e3 * t, m] for size, (t, m) in zip(sizes, found, strict=True)]
        for what, column, told in zip(("time", "memory"), found.T, fit[3:], strict=True):
            line = linregress(np.log(sizes), np.log(column))
            slopes.append([fit.name, what, line.slope, line.stderr, told])
            off = abs(line.slope - told)
            fine = off <= 0.1 or options.smoke
            report.expect(fine, f"{fit.name}: {what} grows as {line.slope:.2f}, expected {told}.")
    report.table("One sum", ["what grows", "size", "CPU ms", "MB"], rows)
    head = ["what grows", "of", "exponent", "standard error", "predicted"]
    report.table("Exponents", head, slopes)


def report_rows(report: Report, options: argparse.Namespace) -> None:
    rows = []
    for method in ("Newton", "L-BFGS"):
        problem, network = dense(20, options.many, 10)
        begun = time.process_time()
        result = d2.solve(problem, network, method=method, record=False, progress=False)
        used = time.process_time() - begun
        status, mode = str(result.status), result.parameters.get("mode", ("dual", ""))[0]
        report.expect(status == "CONVERGED", f"{method}, p = {options.many}: {status}.")
        sums, kkt = result.counts.sums, result.certificate.kkt
        rows.append([method, mode, problem.p, sums, kkt, used, result.counts.floats])
    head = ["method", "mode", "p", "sums", "KKT", "CPU s", "floats sent"]
    report.table("20 agents of 10 variables and many rows, to 1e-8", head, rows)


def report_model(report: Report, options: argparse.Namespace) -> None:
    rows = []
    for p, jacobians, kind in ((24, 20, "Newton"), (1000, 1, "Newton"), (1000, 0, "L-BFGS")):
        numbers = message(p, jacobians)
        for count in (10**3, 10**4, 10**5, 10**6):
            for tree, (height, children) in trees(count).items():
                sent = 8 * numbers * (1 + children) / 1e6
                times = [
                    9 * seconds_of_a_sum(height, children, numbers, t) for t in DELAYS.values()
                ]
                rows.append([f"{kind}, p = {p}", count, tree, height, sent, *times])
    head = ["message", "processes", "tree", "height", "MB sent by one, at most"]
    report.table("Seconds of nine sums at 100 Mbit/s, by 2h(α + c·8w/β)", [*head, *DELAYS], rows)


def report_threads(report: Report, options: argparse.Namespace) -> None:
    problem, network = many(options.team)
    teams = {threads: OneSum(problem, network, 20, 20, threads) for threads in (1, 2)}
    best = {threads: [np.inf, np.inf] for threads in teams}
    for _ in range(5 * options.repeats):
        for threads, one in teams.items():
            best[threads] = np.minimum(best[threads], timed(one))
    same = np.array_equal(*(one.run() for one in teams.values()))
    report.expect(same, "two threads and one differ.")
    with another(options):
        beside = np.median([timed(teams[1]) for _ in range(3 * options.repeats)], axis=0)
    rows = [[t, *(1e3 * own), *(best[1] / own)] for t, own in best.items()]
    rows.append(["1, beside another process", *(1e3 * beside), *(2.0 * best[1] / beside)])
    head = ["threads", "wall ms", "CPU ms of the first thread", "speed-up, wall", "CPU"]
    report.table(f"One sum of {options.team} agents, smallest times", head, rows)
    report.say("The last row is what two processes gain that share nothing.")


def timed(one: OneSum) -> Array:
    """Seconds of a sum by the clock, and of this thread."""
    begun = time.perf_counter(), time.thread_time()
    one.run()
    return np.subtract((time.perf_counter(), time.thread_time()), begun)


@contextmanager
def another(options: argparse.Namespace) -> Iterator[None]:
    """While another process makes the same sums."""
    line = [*interpreter.PYTHON, __file__, "threads", "--here", "--team", str(options.team)]
    child = subprocess.Popen(line, stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None and child.stdout.readline(), "it did not begin"
        yield
    finally:
        child.kill()
        child.communicate()


def keep_summing(options: argparse.Namespace) -> dict[str, Any]:
    """One sum after the other, for two minutes at most; a line tells that the first is made."""
    one, end = OneSum(*many(options.team), 20, 20, 1), time.monotonic() + 120.0
    one.run()
    print("begun", flush=True)
    while time.monotonic() < end:
        one.run()
    return {}


# -- processes -------------------------------------------------------------------------------------


def peak_memory() -> float:
    """GB of this process at most."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if sys.platform == "darwin" else 1024) / 1e9


def in_child(options: argparse.Namespace, part: str, **wishes: list[int]) -> dict[str, Any]:
    """What a run of its own process finds: memory is that of this run alone.

    A smoke test, which looks at no memory, runs here.
    """
    if options.smoke:
        with patch.dict(os.environ):
            return RUNS[part](argparse.Namespace(**vars(options) | wishes))
    given = [word for word in sys.argv[1:] if word not in PARTS]
    wanted = [str(w) for name, own in wishes.items() for w in (f"--{name}", *own)]
    child = [*interpreter.PYTHON, __file__, part, *given, "--here", *wanted]
    done = subprocess.run(child, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


PARTS = {
    "dispatch": report_dispatch,
    "elastic": report_elastic,
    "exponents": report_exponents,
    "model": report_model,
    "rows": report_rows,
    "threads": report_threads,
}
RUNS = {"dispatch": run_dispatch, "elastic": run, "threads": keep_summing}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    sizes = parser.add_argument_group("dispatch")
    sizes.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    sizes.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--agents", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=50, help="p, the number of samples")
    parser.add_argument("--dim", type=int, default=2, help="d, columns per agent")
    parser.add_argument("--degree", type=int, default=4, help="of the random regular graph")
    parser.add_argument("--share", type=float, default=0.3, help="l1 over the l1 that gives θ = 0")
    parser.add_argument("--tol", type=float, default=1e-6)
    parser.add_argument("--method", default="iD2A")
    parser.add_argument("--time-limit", type=float, default=None)
    parser.add_argument("--trace", action="store_true", help="record a trace while solving")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--repeats", type=int, default=5, help="of a measured sum")
    every = list(range(len(FITS)))
    parser.add_argument("--fits", type=int, nargs="+", default=every, help="some of the fits")
    parser.add_argument("--shrink", type=int, default=1, help="sizes of the fits over this")
    parser.add_argument("--many", type=int, default=10_000, help="p of the part rows")
    parser.add_argument("--team", type=int, default=20_000, help="agents of the part threads")
    smoke = {"agents": 200, "rows": 20, "tol": 1e-8, "sizes": [100, 400], "threads": [1]}
    smoke |= {"repeats": 1, "shrink": 32, "many": 40, "team": 400}
    options = parse(parser, PARTS, **smoke)
    if options.here:
        print(json.dumps(RUNS[options.parts[0]](options)))
        return
    report = Report(options)
    for name in options.parts:
        PARTS[name](report, options)
    report.end()


if __name__ == "__main__":
    main()
