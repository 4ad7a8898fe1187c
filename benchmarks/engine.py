"""Speed of iDAPG's compiled loop: against C, on two threads, with users' functions.

All times are minima over repeats that take turns, so that other work on the machine hits every
contestant alike; what counts are the ratios.
"""

import argparse
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import dual2 as d2
from common.loops import ONE_SUBPROBLEM, Loop, best_times, steps_for
from common.report import Report, parse
from common.yardstick import (
    L1,
    SIMD_DOT,
    SIZES,
    SMOKE,
    WEIGHT,
    CLoop,
    Instance,
    Size,
    instance,
    report_against_c,
    size,
)

VARIANTS = {"C": [], "C zeroed": ["-DZEROED"], "C SIMD dot": SIMD_DOT}


def library(case: Instance, threads: int = 1) -> Loop:
    """iD2A at its first subproblem, which iDAPG solves."""
    wishes = {"subsolver": "iDAPG", **ONE_SUBPROBLEM}
    return Loop(case.problem, case.network, "iD2A", x=case.x, threads=threads, **wishes)


def both(case: Instance) -> tuple[Loop, Callable[[Callable[..., None]], CLoop]]:
    """The library's loop, and the C loop with the same parameters.

    The dual step of agent i is 1/(σ̄²(A_i)/μ + ρ m_i), where C ≤ diag(m); z is what iD2A makes of
    the start, A_i x_i less the mean over the agents.
    """
    own, n, p = library(case), case.problem.n, case.problem.p
    rho, momentum = own.parameters["rho"], own.parameters["inner_momentum"]
    sigma = np.array([np.linalg.norm(A, 2) for A in case.blocks])
    step = 1.0 / (sigma**2 / WEIGHT + rho * case.network.majorant)
    parts = np.split(case.x, np.cumsum([A.shape[1] for A in case.blocks])[:-1])
    z = np.array([A @ x for A, x in zip(case.blocks, parts, strict=True)])
    z -= z.mean(axis=0)

    def make(function: Callable[..., None]) -> CLoop:
        x, lam = case.x.copy(), np.zeros((n, p))
        state = [x, lam, *(np.zeros((n, p)) for _ in range(3)), z]
        scratch = [np.zeros(p), np.zeros(p)]
        return CLoop(function, [*case.arrays(), *state, step, momentum, rho, *scratch], x, lam)

    return own, make


# -- users' functions and threads ------------------------------------------------------------------
called = Counter()


def user_gradient(x: np.ndarray) -> np.ndarray:
    called["Smooth as f"] += 1
    return WEIGHT * x


def user_prox(v: np.ndarray, step: float) -> np.ndarray:
    called["Proximable as g"] += 1
    return v - np.clip(v, -step * L1, step * L1)


def report_callbacks(report: Report, one: Size, repeats: int, seconds: float) -> None:
    x = np.zeros(one[2] // one[0])
    users: dict[str, tuple[dict[str, Any], Callable[[], object]]] = {
        "Smooth as f": ({"f": d2.Smooth(user_gradient, WEIGHT, WEIGHT)}, lambda: user_gradient(x)),
        "Proximable as g": ({"g": d2.Proximable(user_prox)}, lambda: user_prox(x, 0.1)),
    }
    plain = library(instance(*one))
    steps = steps_for(plain.run, seconds)
    rows = []
    for name, (function, alone) in users.items():
        case = library(instance(*one, **function))
        case.run(10)
        before = called[name]
        case.run(10)
        calls = (called[name] - before) / 10
        few = steps_for(case.run, seconds)
        many = [lambda s=steps: plain.run(s), lambda c=case, s=few: c.run(s)]
        own = [lambda a=alone: [a() for _ in range(1000)]]
        built_in, user, itself = best_times([*many, *own], repeats)
        extra = (user / few - built_in / steps) / calls
        rows.append([name, 1e6 * user / few, calls, 1e6 * extra, 1e3 * itself, "≤ 10"])
        ours, theirs = settled(plain), settled(case)
        error = float(np.abs(ours - theirs).max() / np.abs(ours).max())
        report.expect(error <= 1e-6, f"{name}: the answers differ by {error:.1e}.")
    head = ["function", "µs per iteration", "calls", "extra µs per call", "of it its own", "aim"]
    title = f"A user's Python function in the loop, {one}"
    report.table(f"{title}; built-in: {1e6 * built_in / steps:.1f} µs", head, rows)


def settled(loop: Loop) -> np.ndarray:
    """λ after enough iterations to have solved the subproblem."""
    loop.run(2000)
    return loop.duals


def report_threads(report: Report, sizes: Sequence[Size], options: argparse.Namespace) -> None:
    """Two threads need two idle cores: repeat until they had them, or patience ends."""
    rows = []
    for one in sizes:
        case = instance(*one)
        loops = [library(case, threads) for threads in (1, 2)]
        for loop in loops:
            loop.run(20)
        same = np.array_equal(loops[0].duals, loops[1].duals)
        report.expect(same, f"at {one} two threads give other iterates than one.")
        steps = 20 if options.smoke else steps_for(loops[0].run, options.seconds)
        best, cores = [np.inf, np.inf], 0.0
        end = time.perf_counter() + options.patience
        while cores == 0.0 or (cores < 1.8 and time.perf_counter() < end):
            runs = [lambda c=c, s=steps: c.run(s) for c in loops]
            best = np.minimum(best, best_times(runs, options.repeats)).tolist()
            wall, cpu = time.perf_counter(), time.process_time()
            loops[1].run(steps)
            cores = max(cores, (time.process_time() - cpu) / (time.perf_counter() - wall))
        micro = [1e6 * t / steps for t in best]
        rows.append([one, *micro, f"{best[1] / best[0]:.2f}", "≤ 0.75", f"{cores:.2f}"])
    head = ["(n, p, Σd)", "one µs", "two µs", "two over one", "aim", "cores that two had"]
    report.table("Two threads against one", head, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=size, nargs="+", default=SIZES, help="n,p,Σd")
    parser.add_argument("--repeats", type=int, default=15, help="runs of each contestant")
    parser.add_argument("--patience", type=float, default=30.0, help="seconds to wait for a core")
    parser.add_argument("--seconds", type=float, default=0.04, help="of one timing")
    options = parse(parser, sizes=SMOKE, repeats=2, patience=0.0, seconds=0.004)
    report = Report(options)
    report_against_c(report, "One iteration of iDAPG", "idapg", VARIANTS, both, options)
    report_threads(report, options.sizes[-2:], options)
    report_callbacks(report, options.sizes[1], options.repeats, options.seconds)
    report.end()


if __name__ == "__main__":
    main()
