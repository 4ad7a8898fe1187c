"""Speed of the NPGA loop against C, and iterations of the family beside published-rule counts.

Times are minima over repeats that take turns, as in ``engine.py``; what counts are the ratios.
"""

import argparse
import time
from collections.abc import Callable, Sequence

import networkx as nx
import numpy as np

import dual2 as d2
from common.loops import Loop
from common.report import Report, parse
from common.yardstick import SIMD_DOT, SIZES, SMOKE, CLoop, Instance, report_against_c, size
from dual2.paper.problems.elastic_net_regression import experiment1

VARIANTS = {"C": [], "C SIMD dot": SIMD_DOT}
COUNTS = {
    "NPGA-EXTRA": (780, 1170, 1095, 1110),
    "NPGA-DIGing": (3545, 9990, 10215, 3085),
    "NPGA-DLM": (825, 1385, 1235, 1105),
    "NPGA-ED": (780, 1170, 1095, 1115),
    "NPGA-P2D2": (735, 775, 755, 1115),
    "NPGA-ATC": (3480, 9750, 9975, 3035),
    "NPGA-AugDGM": (3415, 9520, 9745, 2985),
    "NPGA-II": (735, 645, 450, 1110),
}
"""Iterations to |x - x*| <= 1e-8|x*| of an independent implementation: θ = 0, κ_f = 10, a path of
eight agents, problems A to D of :func:`family`; other random data, so only the order compares."""
ORDER = 4.0
"""Other data change the counts by less than this factor."""


def both(case: Instance) -> tuple[Loop, Callable[[Callable[..., None]], CLoop]]:
    """The library's loop, and the C loop with the same parameters: (I-W)/2 = (scale/2)C."""
    own, n, p = Loop(case.problem, case.network, "NPGA-ED"), case.problem.n, case.problem.p
    steps = [own.parameters["alpha"], own.parameters["beta"], own.parameters["mixing_scale"] / 2]

    def make(function: Callable[..., None]) -> CLoop:
        x, lam = np.zeros(case.x.size), np.zeros((n, p))
        rest = [np.zeros((n, p)) for _ in range(3)]
        return CLoop(function, [*case.arrays(), x, lam, *rest, *steps], x, lam)

    return own, make


# -- Experiment I ----------------------------------------------------------------------------


def report_experiment(report: Report, iterations: int) -> None:
    problem, network, reference = experiment1()
    best, rows = np.concatenate(reference), []
    for name in ("NPGA-ED", "NPGA-EXTRA", "NPGA-ATC"):
        own = Loop(problem, network, name)
        own.run(1000)
        begun = time.perf_counter()
        own.run(iterations)
        took = time.perf_counter() - begun
        gap = float(np.linalg.norm(own.x - best) / np.linalg.norm(best))
        report.expect(gap <= 1e-8, f"{name} is at a gap of {gap:.1e} after all iterations.")
        rows.append([name, took, 1e6 * took / iterations, f"{gap:.1e}"])
    head = ["method", "seconds", "µs per iteration", "|x-x*|/|x*|"]
    report.table(f"Experiment I, {iterations} iterations", head, rows)


# -- counts ----------------------------------------------------------------------------------


def family(kind: str) -> tuple[d2.Problem, d2.Network]:
    """Eight agents on a path, κ_f = 10.

    A: h quadratic, g l1; B: h a point, g = 0; C: h quadratic on z ≥ 0, g = 0; D: h a point, g l1.
    """
    rng = np.random.default_rng(3)
    n, p, d = 8, 6, 3
    g = d2.L1Norm(0.1) if kind in "AD" else d2.Zero()
    agents = []
    for _ in range(n):
        curvatures = np.concatenate([[1.0, 10.0], rng.uniform(1.0, 10.0, d - 2)])
        basis = np.linalg.qr(rng.standard_normal((d, d)))[0]
        P = basis @ np.diag(curvatures) @ basis.T
        f = d2.Quadratic((P + P.T) / 2, rng.standard_normal(d))
        agents.append(d2.Agent(rng.standard_normal((p, d)), f, g))
    y = rng.standard_normal(p)
    h = {"A": d2.SquaredLoss(y), "C": d2.NonnegativeSquaredLoss(y)}.get(kind, d2.IndicatorPoint(y))
    return d2.Problem(agents, h), d2.Network(nx.path_graph(n))


def count(problem: d2.Problem, network: d2.Network, name: str, best: np.ndarray) -> int:
    """Iterations, in steps of five, until |x - x*| <= 1e-8|x*|."""
    own, target = Loop(problem, network, name), 1e-8 * np.linalg.norm(best)
    while np.linalg.norm(own.x - best) > target and own.count("iterations") < 200_000:
        own.run(5)
    return own.count("iterations")


def report_counts(report: Report, kinds: Sequence[str]) -> None:
    rows = []
    problems = {kind: family(kind) for kind in kinds}
    best = {
        kind: np.concatenate(d2.solve(*pair, tol=1e-13, atol=1e-14, record=False).x)
        for kind, pair in problems.items()
    }
    for name, published in COUNTS.items():
        known = dict(zip("ABCD", published, strict=True))
        found = {kind: count(*problems[kind], name, best[kind]) for kind in kinds}
        rows.append([name, *(f"{found[kind]} ({known[kind]})" for kind in kinds)])
        far = [kind for kind in kinds if not 1 / ORDER < found[kind] / known[kind] < ORDER]
        report.expect(not far, f"{name} takes another number of iterations on {', '.join(far)}.")
    title = "Iterations to 1e-8, θ = 0, n = 8 path, κ_f = 10 (in brackets: other data, same rule)"
    report.table(title, ["method", *kinds], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=size, nargs="+", default=SIZES, help="n,p,Σd")
    parser.add_argument("--repeats", type=int, default=60, help="runs of each contestant")
    parser.add_argument("--iterations", type=int, default=2_000_000, help="on Experiment I")
    parser.add_argument("--kinds", nargs="+", default=list("ABCD"), help="problems of the counts")
    parser.add_argument("--seconds", type=float, default=0.04, help="of one timing")
    small = {"sizes": SMOKE, "repeats": 2, "seconds": 0.004}
    options = parse(parser, iterations=100_000, kinds=["A"], **small)
    report = Report(options)
    report_against_c(report, "One iteration of NPGA-ED", "npga", VARIANTS, both, options)
    report_experiment(report, options.iterations)
    report_counts(report, options.kinds)
    report.end()


if __name__ == "__main__":
    main()
