"""Speed of the NPGA loop against C, and iterations of the family beside published-rule counts.

Times are minima over repeats that take turns, as in ``engine.py``; what counts are the ratios.
"""

import argparse
import ctypes
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import networkx as nx
import numpy as np
from report import Report, load

import dual2 as d2
from dual2.algorithms import NPGA, Settings, find_method
from dual2.algorithms.npga_kernel import LAM, LV, S, V
from dual2.engine.threads import Team
from dual2.experiments.exp1 import experiment1
from engine import CURVATURE, L1, SIZES, WEIGHT, best_times

FOR_EVER = 1e9
AIM = 3.0
VARIANTS = {"C": [], "C SIMD dot": ["-DSIMD_DOT", "-fopenmp-simd"]}
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


def algorithm(problem: d2.Problem, network: d2.Network, name: str) -> NPGA:
    """The method, started from zero, on one thread."""
    plan = find_method(name).plan(problem, network, Settings(name))
    assert isinstance(plan.algorithm, NPGA)
    plan.runtime.team = Team(1)
    plan.algorithm.start(np.zeros(plan.runtime.packed.size), np.zeros((problem.n, problem.p)))
    return plan.algorithm


def build(n: int, p: int, total: int) -> tuple[NPGA, np.ndarray]:
    """f = 45|x|², g = 10|x|₁, h = |z-y|²/40 on a path (n = 8) or a random 4-regular graph."""
    rng = np.random.default_rng(0)
    dims = np.full(n, total // n)
    dims[-1] += total - dims.sum()
    f, g = d2.SquaredNorm(WEIGHT), d2.L1Norm(L1)
    agents = [d2.Agent(10 * rng.standard_normal((p, d)), f, g) for d in dims]
    y = rng.standard_normal(p)
    problem = d2.Problem(agents, d2.SquaredLoss(y, scale=1 / CURVATURE))
    graph = nx.path_graph(n) if n == 8 else nx.random_regular_graph(4, n, seed=0)
    return algorithm(problem, d2.Network(graph), "NPGA-ED"), y


# -- against C -------------------------------------------------------------------------------------


def compile_c(folder: str) -> list[Callable[..., None]]:
    """The variants of the C loop, with gcc -O3 -march=native."""
    source, loops = Path(__file__).with_name("npga.c"), []
    for k, options in enumerate(VARIANTS.values()):
        target = str(Path(folder, f"npga{k}.so"))
        command = ["gcc", "-O3", "-march=native", "-fPIC", "-shared", *options]
        subprocess.run([*command, "-o", target, str(source)], check=True)
        loops.append(ctypes.CDLL(target).npga)
    return loops


def c_runner(function: Callable[..., None], own: NPGA, y: np.ndarray) -> Callable[[int], None]:
    """The C loop on arrays of its own that start where the library's are."""
    rt, steps = own.runtime, own.values
    x, Y = own.x.copy(), own.Y.copy()
    word, real = ctypes.c_int64, ctypes.c_double
    at = lambda array: ctypes.c_void_p(array.ctypes.data)  # noqa: E731

    def run(count: int) -> None:
        function(
            word(rt.n), word(rt.p), at(rt.block.xptr), at(rt.block.cols), real(WEIGHT),
            real(L1), at(y), real(CURVATURE), *map(at, rt.links[:3]),
            at(x), at(Y[LAM]), at(Y[S]), at(Y[V]), at(Y[LV]),
            real(steps.alpha), real(steps.beta), real(own.matrices.powers[0, 0]), word(count),
        )  # fmt: skip

    run.state = (x, Y)  # pyright: ignore[reportFunctionMemberAccess]
    return run


def iterate(own: NPGA, count: int) -> None:
    """That many iterations of the library's loop."""
    own.advance(own.rounds + count * own.stride, FOR_EVER)


def report_c(report: Report, repeats: int) -> None:
    if shutil.which("gcc") is None:
        report.say("gcc was not found: the comparison with C is left out.")
        return
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        functions = compile_c(folder)
        for size in SIZES:
            own, y = build(*size)
            runs = [c_runner(function, own, y) for function in functions]
            iterate(own, 20)
            error = 0.0
            for run in runs:
                run(20)
                x, Y = run.state  # pyright: ignore[reportFunctionMemberAccess]
                for mine, other in ((own.x, x), (own.duals, Y[LAM]), (own.Y[S], Y[S])):
                    largest = max(float(np.abs(other).max()), 1e-300)
                    error = max(error, float(np.abs(mine - other).max()) / largest)
            if not error < 1e-11:
                raise SystemExit(f"The C loop and the library differ by {error:.1e}.")
            count = max(2, int(5e6 / (own.runtime.packed.work + 1)))
            loops = [lambda c, o=own: iterate(o, c), *runs]
            times = best_times([lambda f=f, c=count: f(c) for f in loops], repeats)
            micro = [1e6 * t / count for t in times]
            ratios = [f"{times[0] / t:.2f}" for t in times[1:]]
            rows.append([size, *micro, *ratios, f"≤ {AIM:g}", f"{error:.0e}"])
    over = [f"over {name}" for name in VARIANTS]
    head = ["(n, p, Σd)", "dual2 µs", *(f"{name} µs" for name in VARIANTS), *over, "aim", "differ"]
    title = "One iteration of NPGA-ED against C (gcc -O3 -march=native), one thread"
    report.table(title, head, rows)


# -- Experiment I ----------------------------------------------------------------------------


def report_experiment(report: Report, iterations: int) -> None:
    problem, network, reference = experiment1()
    best, rows = np.concatenate(reference), []
    for name in ("NPGA-ED", "NPGA-EXTRA", "NPGA-ATC"):
        own = algorithm(problem, network, name)
        iterate(own, 1000)
        begun = time.perf_counter()
        iterate(own, iterations)
        took = time.perf_counter() - begun
        gap = float(np.linalg.norm(own.x - best) / np.linalg.norm(best))
        sums = float(np.abs(own.Y[S].sum(axis=0)).max() / np.abs(own.Y[S]).max())
        rows.append([name, took, 1e6 * took / iterations, f"{gap:.1e}", f"{sums:.0e}"])
    head = ["method", "seconds", "µs per iteration", "|x-x*|/|x*|", "Σs/max|s|"]
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
    own, target = algorithm(problem, network, name), 1e-8 * np.linalg.norm(best)
    while np.linalg.norm(own.x - best) > target and own.iterations < 200_000:
        iterate(own, 5)
    return own.iterations


def report_counts(report: Report) -> None:
    kinds, rows = "ABCD", []
    problems = {kind: family(kind) for kind in kinds}
    best = {
        kind: np.concatenate(d2.solve(*pair, tol=1e-13, atol=1e-14, record=False).x)
        for kind, pair in problems.items()
    }
    for name, published in COUNTS.items():
        found = [count(*problems[kind], name, best[kind]) for kind in kinds]
        rows.append([name, *(f"{a} ({b})" for a, b in zip(found, published, strict=True))])
    title = "Iterations to 1e-8, θ = 0, n = 8 path, κ_f = 10 (in brackets: other data, same rule)"
    report.table(title, ["method", *kinds], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=60, help="runs of each contestant")
    parser.add_argument("--iterations", type=int, default=2_000_000, help="on Experiment I")
    parser.add_argument("--out", help="write the tables to this Markdown file")
    options = parser.parse_args()
    report = Report(options.out)
    report.say(load())
    report_c(report, options.repeats)
    report_experiment(report, options.iterations)
    report_counts(report)
    report.save()


if __name__ == "__main__":
    main()
