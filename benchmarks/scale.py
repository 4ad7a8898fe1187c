"""Many agents in one process: a dispatch by sums, an elastic net by gossip.

``dispatch``: n units with quadratic costs and limits of their own on a square grid meet a demand in
each of 24 periods, KKT residual 1e-8; seconds, memory, and how both grow with n and with threads.

``elastic``: agent i holds d columns of a standardised design matrix X (zero mean, unit variance).
Together they minimise, over θ = (x_1, …, x_n),

    |Xθ - y|²/(2p) + l1|θ|₁ + (l2/2)|θ|²,

y = X θ_true + noise with a sparse θ_true, y standardised. l1 is a fraction of the smallest value
at which θ = 0. A centralised coordinate descent gives the answer to compare with.
"""

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import time
from typing import Any

import networkx as nx
import numpy as np
import scipy.sparse as sp

import dual2 as d2
from common.report import Report, parse

PERIODS = 24
DISTANCE = "|x - x_ref|/|x_ref|"


def elastic_net_data(
    agents: int, rows: int, dim: int, share: float, seed: int
) -> tuple[np.ndarray, np.ndarray, float, float]:
    """X (rows × agents·dim), y, l1, l2."""
    rng = np.random.default_rng(seed)
    columns = agents * dim
    X = rng.standard_normal((rows, columns))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    truth = np.zeros(columns)
    chosen = rng.choice(columns, min(20, columns // 2 or 1), replace=False)
    truth[chosen] = rng.choice([-1.0, 1.0], len(chosen)) * rng.uniform(0.5, 2.0, len(chosen))
    signal = X @ truth
    y = signal + 0.1 * signal.std() * rng.standard_normal(rows)
    y = (y - y.mean()) / y.std()
    l1 = share * float(np.abs(X.T @ y).max()) / rows
    return X, y, l1, l1


def coordinate_descent(
    X: np.ndarray, y: np.ndarray, l1: float, l2: float, tol: float = 1e-13
) -> np.ndarray:
    """Cyclic coordinate descent for |Xθ-y|²/(2p) + l1|θ|₁ + (l2/2)|θ|², on an active set."""
    p, columns = X.shape
    theta, residual = np.zeros(columns), y.copy()
    X = np.asfortranarray(X)
    curvature = np.einsum("ij,ij->j", X, X) / p
    while True:
        slopes = X.T @ residual / p
        active = np.flatnonzero((theta != 0) | (np.abs(slopes) > l1))
        before = theta[active].copy()
        for _ in range(10_000):
            change = 0.0
            for j in active:
                old, column = theta[j], X[:, j]
                u = column @ residual / p + curvature[j] * old
                theta[j] = np.sign(u) * max(abs(u) - l1, 0.0) / (curvature[j] + l2)
                residual += (old - theta[j]) * column
                change = max(change, abs(theta[j] - old))
            if change <= tol:
                break
        if np.abs(theta[active] - before).max(initial=0.0) <= 10 * tol:
            return theta


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
    found = in_child("elastic")
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


def dispatch(n: int, seed: int) -> d2.Problem:
    """n units with quadratic costs and hourly limits of their own, a demand for each period."""
    rng = np.random.default_rng(seed)
    upper, unit = rng.uniform(1, 5, (n, PERIODS)), sp.csc_array(sp.eye_array(PERIODS))
    curves, slopes = rng.uniform(0.5, 2, n).tolist(), rng.uniform(1, 9, n).tolist()
    agents = [
        d2.Agent(unit, d2.PiecewiseQuadratic(curvature=a, slope=b), d2.IndicatorBox(0.0, most))
        for a, b, most in zip(curves, slopes, upper, strict=True)
    ]
    share = 0.45 + 0.25 * np.sin(2 * np.pi * np.arange(PERIODS) / PERIODS)
    return d2.Problem(agents, d2.IndicatorPoint(share * upper.sum(axis=0)))


def grid(n: int) -> d2.Network:
    """n agents row by row on a square grid."""
    side, places = math.isqrt(n - 1) + 1, np.arange(n)
    right, below = places[(places % side < side - 1) & (places + 1 < n)], places[places + side < n]
    ends = np.concatenate([right, below]), np.concatenate([right + 1, below + side])
    return d2.Network(np.column_stack(ends))


def run_dispatch(options: argparse.Namespace) -> dict[str, Any]:
    """Build and solve the first of the sizes with the first number of threads."""
    n = options.sizes[0]
    os.environ["DUAL2_THREADS"] = str(options.threads[0])
    quiet = {"method": "Newton", "tol": 1e-8, "record": False, "progress": False}
    d2.solve(dispatch(9, 0), grid(9), **quiet)  # kernels are compiled, or read
    begun, spent = time.perf_counter(), time.process_time()
    problem = dispatch(n, options.seed)
    built = time.perf_counter()
    network = grid(n)
    height, wired, used = network.tree.height, time.perf_counter(), time.process_time()
    result = d2.solve(problem, network, **quiet)
    solved, ended = time.perf_counter(), time.process_time()
    return {
        "agents": n,
        "threads": options.threads[0],
        "status": str(result.status),
        "height": height,
        "sums": result.counts.sums,
        "KKT": result.certificate.kkt,
        "s problem": built - begun,
        "s network": wired - built,
        "s loop": result.seconds,
        "s solve": solved - wired,
        "CPU s, all": ended - spent,
        "CPU µs per agent, solve": 1e6 * (ended - used) / n,
        "GB": peak_memory(),
    }


def report_dispatch(report: Report, options: argparse.Namespace) -> None:
    runs = [(n, t) for n in options.sizes for t in options.threads]
    found = [in_child("dispatch", "--sizes", str(n), "--threads", str(t)) for n, t in runs]
    for run in found:
        report.expect(run["status"] == "CONVERGED", f"{run['agents']} agents: {run['status']}.")
    report.table("Dispatch over 24 periods on a grid", list(found[0]), [r.values() for r in found])
    rows = []
    for (n, threads), run in zip(runs, found, strict=True):
        first = next(r for r in found if r["threads"] == threads)
        one = next(r for r in found if r["agents"] == n)
        work = [r["CPU µs per agent, solve"] / r["sums"] for r in (run, first)]
        rows.append([n, threads, work[0] / work[1], one["s loop"] / run["s loop"]])
    head = [
        "agents",
        "threads",
        "CPU per agent and sum over the first size",
        "speed-up of the loop",
    ]
    report.table("How it grows", head, rows)


# -- processes -------------------------------------------------------------------------------------


def peak_memory() -> float:
    """GB of this process at most."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if sys.platform == "darwin" else 1024) / 1e9


def in_child(part: str, *arguments: str) -> dict[str, Any]:
    """What a run of its own process finds: memory is that of this run alone."""
    given = [word for word in sys.argv[1:] if word not in PARTS]
    child = [sys.executable, __file__, part, *given, "--here", *arguments]
    done = subprocess.run(child, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


PARTS = {"dispatch": report_dispatch, "elastic": report_elastic}
RUNS = {"dispatch": run_dispatch, "elastic": run}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    sizes = parser.add_argument_group("dispatch")
    sizes.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    sizes.add_argument("--threads", type=int, nargs="+", default=[1, 2])
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
    options = parse(parser, PARTS, agents=200, rows=20, tol=1e-8, sizes=[100, 400], threads=[1])
    if options.here:
        print(json.dumps(RUNS[options.parts[0]](options)))
        return
    report = Report(options)
    for name in options.parts:
        PARTS[name](report, options)
    report.end()


if __name__ == "__main__":
    main()
