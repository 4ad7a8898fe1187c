"""Methods over exact sums: the paper's experiments by Newton, linear programs by interior point.

``experiments``: sums and latency to a KKT residual of 1e-8. ``programs``: linear costs, boxes, and
an equality or inequality coupling, in four kinds (random, the same with inequalities, transport,
dispatch over periods); the cost must agree with HiGHS to 1e-8.
"""

import argparse
from typing import Any

import networkx as nx
import numpy as np
from scipy.optimize import linprog

import dual2 as d2
from common.report import Report, parse, report_parts
from dual2.paper.problems.constrained_regression import experiment2
from dual2.paper.problems.elastic_net_regression import experiment1
from dual2.paper.problems.resource_allocation import experiment3

EXACT = 1e-8


def newton(problem: d2.Problem, network: d2.Network, **options: Any) -> d2.Result:
    return d2.solve(problem, network, method="Newton", record=False, progress=False, **options)


def report_experiments(report: Report, _: argparse.Namespace) -> None:
    cases = {
        "I": experiment1(),
        "II": experiment2(),
        "II, active": experiment2(active=True),
        "III": experiment3(),
        "III, active": experiment3(active=True),
    }
    rows = []
    for name, case in cases.items():
        result = newton(case.problem, case.network)
        best = np.concatenate(case.reference)
        gap = float(np.linalg.norm(np.concatenate(result.x) - best) / np.linalg.norm(best))
        counts = result.counts
        rows.append([name, str(result.status), counts.sums, counts.latency, counts.floats, gap])
        report.expect(gap <= 1e-6, f"Experiment {name} is off by {gap:.1e}.")
    head = ["experiment", "status", "sums", "latency", "floats", "|x - x*|/|x*|"]
    report.table("The paper's experiments", head, rows)


# -- linear programs -----------------------------------------------------------------------------


def program(seed: int) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray], Any]:
    """A_i, costs, upper bounds and right-hand side; its kind is seed modulo 4."""
    rng, kind = np.random.default_rng([seed, 99]), seed % 4
    n = int(rng.integers(3, 12))
    p = int(rng.integers(1, 8)) if kind < 2 else int(rng.integers(4, 13))
    d = int(rng.integers(1, 6)) if kind < 2 else p
    A = [rng.standard_normal((p, d)) if kind < 2 else np.eye(p) for _ in range(n)]
    if kind == 3:
        q = [np.full(p, cost) for cost in rng.uniform(10, 60, n).round(1)]
        upper = [np.full(p, size) for size in rng.uniform(20, 200, n)]
    else:
        q = [rng.standard_normal(d) if kind < 2 else rng.uniform(1, 10, d) for _ in range(n)]
        upper = [rng.uniform(0.5, 3, d) for _ in range(n)]
    parts = zip(A, upper, strict=True)
    return A, q, upper, sum(a @ (u * rng.uniform(0, 1, d)) for a, u in parts)


def report_programs(report: Report, options: argparse.Namespace) -> None:
    seeds, sums, errors, bad = options.seeds, [], [], []
    for seed in range(seeds):
        A, q, upper, b = program(seed)
        h = d2.IndicatorAtMost(b) if seed % 4 == 1 else d2.IndicatorPoint(b)
        agents = [
            d2.Agent(a, d2.Quadratic(np.zeros(len(c)), c), d2.IndicatorBox(0.0, u))
            for a, c, u in zip(A, q, upper, strict=True)
        ]
        problem, network = d2.Problem(agents, h), d2.Network(nx.path_graph(len(agents)))
        result = d2.solve(problem, network, method="interior-point", record=False, progress=False)
        rows = ("A_ub", "b_ub") if seed % 4 == 1 else ("A_eq", "b_eq")
        cost, top = np.concatenate(q), np.concatenate(upper)
        sides = dict(zip(rows, (np.hstack(A), b), strict=True))
        best = linprog(cost, bounds=np.column_stack([0 * top, top]), **sides).fun
        error = abs(cost @ np.concatenate(result.x) - best) / abs(best)
        sums.append(result.counts.sums)
        errors.append(error)
        if result.status != "CONVERGED" or error > EXACT:
            bad.append(seed)
    table = [[seeds, seeds - len(bad), *np.quantile(sums, [0.5, 0.9, 1.0]), max(errors)]]
    head = ["programs", "right", "sums, median", "90 %", "most", "largest error of the cost"]
    report.table("Linear programs against HiGHS", head, table)
    report.expect(not bad, f"seeds {bad} are not solved.")


PARTS = {"experiments": report_experiments, "programs": report_programs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="linear programs")
    options = parse(parser, PARTS, seeds=4)
    report_parts(PARTS, options)


if __name__ == "__main__":
    main()
