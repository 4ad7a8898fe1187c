"""Ten thousand agents: elastic net over a random regular graph, in one process.

Agent i holds d columns of a standardised design matrix X (zero mean, unit variance). Together
they minimise, over θ = (x_1, …, x_n),

    |Xθ - y|²/(2p) + l1|θ|₁ + (l2/2)|θ|²,

y = X θ_true + noise with a sparse θ_true, y standardised. l1 is a fraction of the smallest value
at which θ = 0. A centralised coordinate descent gives the answer to compare with.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from typing import Any

import networkx as nx
import numpy as np

import dual2 as d2
from common.report import Report, parse

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
    solved = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
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
        "peak memory GB (aim ≤ 2)": peak * (1 if sys.platform == "darwin" else 1024) / 1e9,
        "KKT residual": result.certificate.kkt,
        DISTANCE: float(np.linalg.norm(theta - reference)) / size,
        "nonzeros found": int(np.count_nonzero(theta)),
        "nonzeros of the reference": int(np.count_nonzero(reference)),
        "different support": int(np.sum((theta != 0) != (reference != 0))),
        "κ_C": network.kappa,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
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
    options = parse(parser, agents=200, rows=20, tol=1e-8)
    if options.here:
        print(json.dumps(run(options)))
        return
    report = Report(options)
    child = [sys.executable, __file__, *sys.argv[1:], "--here"]
    done = subprocess.run(child, check=True, stdout=subprocess.PIPE, text=True)
    found = json.loads(done.stdout.splitlines()[-1])
    title = (
        f"{options.method}, {options.agents} agents, p = {options.rows}, d = {options.dim}, "
        f"random {options.degree}-regular graph, tol {options.tol:g}"
    )
    report.table(title, ["what", "number"], found.items())
    fine = found["status"] == "CONVERGED" and found[DISTANCE] <= 1000 * options.tol
    report.expect(
        fine, f"the run ends as {found['status']}, {found[DISTANCE]:.1e} from the answer."
    )
    report.end()


if __name__ == "__main__":
    main()
