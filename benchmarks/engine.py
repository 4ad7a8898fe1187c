"""Speed of the compiled loop: against C, with users' functions, on two threads, from the start.

All times are minima over repeats that take turns, so that other work on the machine hits every
contestant alike; what counts are the ratios.
"""

import argparse
import copy
import ctypes
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import networkx as nx
import numpy as np
from report import Report, load
from startup import report_startup

import dual2 as d2
from dual2.engine.threads import Team
from dual2.runtime import Stacked
from dual2.subsolvers.idapg import IDAPG
from dual2.theory import constants_for, gather_facts, optimal_rho

SIZES = ((8, 20, 9), (100, 50, 500), (1000, 100, 5000), (10000, 50, 20000))
LIMITS = (2.0, 1.2, 1.2, 1.2)
WEIGHT, L1, CURVATURE = 90.0, 10.0, 20.0
FOR_EVER = 1e9


@dataclass
class Case:
    """One problem, ready to iterate, in the library's own arrays."""

    solver: IDAPG
    z: np.ndarray
    y: np.ndarray

    def run(self, steps: int) -> None:
        """``steps`` iterations of the library's loop."""
        self.solver.advance(self.z, steps, FOR_EVER)


def build(
    n: int, p: int, total: int, f: d2.Function | None = None, g: d2.Function | None = None
) -> Case:
    """f = 45|x|², g = 10|x|₁, h = |z-y|²/40 on a path (n = 8) or a random 4-regular graph."""
    rng = np.random.default_rng(0)
    dims = np.full(n, total // n)
    dims[-1] += total - dims.sum()
    f, g = f or d2.SquaredNorm(WEIGHT), g or d2.L1Norm(L1)
    agents = [d2.Agent(10 * rng.standard_normal((p, d)), f, g) for d in dims]
    y = rng.standard_normal(p)
    problem = d2.Problem(agents, d2.SquaredLoss(y, scale=1 / CURVATURE))
    graph = nx.path_graph(n) if n == 8 else nx.random_regular_graph(4, n, seed=0)
    network = d2.Network(graph)
    facts = gather_facts(problem)
    rho = optimal_rho(facts, network.lambda_max)
    runtime = Stacked(problem, network)
    runtime.team = Team(1)
    constants = constants_for(facts, network.lambda_max, network.lambda_min, rho)
    solver = IDAPG(runtime, facts, constants)
    solver.start(np.zeros(runtime.packed.size), np.zeros((n, p)))
    z = rng.standard_normal((n, p))
    return Case(solver, z - z.mean(axis=0), y)


def best_times(contestants: Sequence[Callable[[], object]], repeats: int) -> list[float]:
    """Smallest seconds of each; they take turns."""
    best = [np.inf] * len(contestants)
    for _ in range(repeats):
        for k, run in enumerate(contestants):
            begun = time.perf_counter()
            run()
            best[k] = min(best[k], time.perf_counter() - begun)
    return best


def steps_for(case: Case, seconds: float = 0.04) -> int:
    """An even number of iterations that takes about ``seconds``."""
    case.run(2)
    count = 2
    while True:
        (took,) = best_times([lambda c=count: case.run(c)], 1)
        if took > seconds / 4:
            return max(2, 2 * round(count * seconds / took / 2))
        count *= 4


# -- against C -----------------------------------------------------------------------------------


VARIANTS = {"C": [], "C zeroed": ["-DZEROED"], "C SIMD dot": ["-DSIMD_DOT", "-fopenmp-simd"]}


def compile_c(folder: str) -> list[Callable[..., None]]:
    """The variants of the C loop, with gcc -O3 -march=native."""
    source, loops = Path(__file__).with_name("idapg.c"), []
    for k, options in enumerate(VARIANTS.values()):
        target = str(Path(folder, f"idapg{k}.so"))
        command = ["gcc", "-O3", "-march=native", "-fPIC", "-shared", *options]
        subprocess.run([*command, "-o", target, str(source)], check=True)
        loops.append(ctypes.CDLL(target).idapg)
    return loops


def c_runner(function: Callable[..., None], case: Case) -> Callable[[int], None]:
    """The C loop on the arrays of the case; an even number of steps leaves λ where it was."""
    solver, s, c = case.solver, case.solver.state, case.solver.constants
    rt, n, p = solver.runtime, solver.runtime.n, solver.runtime.p
    word, real = ctypes.c_int64, ctypes.c_double
    at = lambda array: ctypes.c_void_p(array.ctypes.data)  # noqa: E731
    scratch = np.zeros((2, p))
    now, old = s.now, 1 - s.now

    def run(steps: int) -> None:
        function(
            word(n), word(p), at(rt.block.xptr), at(rt.block.cols), real(WEIGHT), real(L1),
            at(case.y), real(CURVATURE), *map(at, rt.links[:3]),
            at(s.x), at(s.lam[now]), at(s.lam[old]), at(s.mixed[now]), at(s.mixed[old]), at(case.z),
            real(1 / c.L_phi), real(c.inner_momentum), real(c.rho), word(steps),
            at(scratch[0]), at(scratch[1]),
        )  # fmt: skip

    return run


def check_agreement(function: Callable[..., None], case: Case, steps: int = 20) -> float:
    """Largest relative difference of x and λ after some iterations of both loops."""
    mine, other = case, copy.copy(case)
    other.solver = copy.copy(case.solver)
    other.solver.state = copy.deepcopy(case.solver.state)
    c_runner(function, other)(steps)
    mine.run(steps)
    pairs = [(getattr(c.solver.state, k) for c in (mine, other)) for k in ("x", "lam")]
    error = max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in pairs)
    if not error < 1e-11:
        raise SystemExit(f"The C loop and the library differ by {error:.1e}: no comparison.")
    return error


def report_c(report: Report, cases: Sequence[Case], repeats: int) -> None:
    if shutil.which("gcc") is None:
        report.say("gcc was not found: the comparison with C is left out.")
        return
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        functions = compile_c(folder)
        for case, size, limit in zip(cases, SIZES, LIMITS, strict=True):
            error = max(check_agreement(function, case) for function in functions)
            steps = steps_for(case)
            loops = [case.run, *(c_runner(function, case) for function in functions)]
            times = best_times([lambda f=f, s=steps: f(s) for f in loops], repeats)
            micro = [1e6 * t / steps for t in times]
            ratios = [f"{times[0] / t:.2f}" for t in times[1:]]
            rows.append([size, *micro, ratios[0], f"≤ {limit}", *ratios[1:], f"{error:.0e}"])
    over = [f"over {name}" for name in VARIANTS]
    head = ["(n, p, Σd)", "dual2 µs", *(f"{name} µs" for name in VARIANTS), over[0], "aim"]
    title = "One iteration of iDAPG against C (gcc -O3 -march=native), one thread"
    report.table(title, [*head, *over[1:], "differ"], rows)


# -- users' functions and threads ------------------------------------------------------------------


def user_gradient(x: np.ndarray) -> np.ndarray:
    return WEIGHT * x


def user_prox(v: np.ndarray, step: float) -> np.ndarray:
    return v - np.clip(v, -step * L1, step * L1)


def report_callbacks(report: Report, size: tuple[int, int, int], repeats: int) -> None:
    smooth, proximable = d2.Smooth(user_gradient, WEIGHT, WEIGHT), d2.Proximable(user_prox)
    cases = [build(*size), build(*size, f=smooth), build(*size, g=proximable)]
    before = [int(case.solver.state.calls[0].sum()) for case in cases]
    for case in cases:
        case.run(10)
    calls = [
        (int(case.solver.state.calls[0].sum()) - b) / 10
        for case, b in zip(cases, before, strict=True)
    ]
    steps = [steps_for(case) for case in cases]
    runs = [lambda c=c, s=s: c.run(s) for c, s in zip(cases, steps, strict=True)]
    times = [t / s for t, s in zip(best_times(runs, repeats), steps, strict=True)]
    x = np.zeros(size[2] // size[0])
    alone = best_times(
        [
            lambda: [user_gradient(x) for _ in range(1000)],
            lambda: [user_prox(x, 0.1) for _ in range(1000)],
        ],
        repeats,
    )
    rows = [
        [name, 1e6 * times[k], calls[k], 1e6 * (times[k] - times[0]) / calls[k],
         1e3 * alone[k - 1], "≤ 10"]
        for k, name in ((1, "Smooth as f"), (2, "Proximable as g"))
    ]  # fmt: skip
    head = ["function", "µs per iteration", "calls", "extra µs per call", "of it its own", "aim"]
    title = f"A user's Python function in the loop, {size}; built-in: {1e6 * times[0]:.1f} µs"
    report.table(title, head, rows)


def report_threads(report: Report, cases: Sequence[Case], repeats: int, patience: float) -> None:
    """Two threads need two idle cores: repeat until they had them, or patience ends."""
    rows = []
    for case, size in zip(cases[2:], SIZES[2:], strict=True):
        two = copy.copy(case)
        two.solver = copy.copy(case.solver)
        two.solver.runtime = copy.copy(case.solver.runtime)
        two.solver.runtime.team = Team(2)
        steps, best, cores = steps_for(case), [np.inf, np.inf], 0.0
        end = time.perf_counter() + patience
        while cores == 0.0 or (cores < 1.8 and time.perf_counter() < end):
            runs = [lambda c=c, s=steps: c.run(s) for c in (case, two)]
            best = np.minimum(best, best_times(runs, repeats)).tolist()
            wall, cpu = time.perf_counter(), time.process_time()
            two.run(steps)
            cores = max(cores, (time.process_time() - cpu) / (time.perf_counter() - wall))
        micro = [1e6 * t / steps for t in best]
        rows.append([size, *micro, f"{best[1] / best[0]:.2f}", "≤ 0.75", f"{cores:.2f}"])
    head = ["(n, p, Σd)", "one µs", "two µs", "two over one", "aim", "cores that two had"]
    report.table("Two threads against one", head, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=15, help="runs of each contestant")
    parser.add_argument("--patience", type=float, default=30.0, help="seconds to wait for a core")
    parser.add_argument("--no-startup", action="store_true", help="leave the new processes out")
    parser.add_argument("--out", help="write the tables to this Markdown file")
    options = parser.parse_args()
    report = Report(options.out)
    report.say(load())
    cases = [build(*size) for size in SIZES]
    report_c(report, cases, options.repeats)
    report_threads(report, cases, options.repeats, options.patience)
    report_callbacks(report, SIZES[1], options.repeats)
    if not options.no_startup:
        report_startup(report)
    report.say(load())
    report.save()


if __name__ == "__main__":
    main()
