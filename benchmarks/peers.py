"""Ours beside rivals: problems × networks × methods in every currency, as ``dual2 bench peers``.

The same runs, kept in the same kind of folder, as tables of this folder's form; parts of the
comparison by ``--problems``, ``--networks`` and ``--methods``. Whoever calls a problem solved must
have met its optimality conditions to 1e-8, by the certificate; and no run may end with an error.

With ``--path DIR``, a folder with disropt (or none, where it is installed), disropt's two methods
for coupled constraints run beside, where they take the problem: its code, its solvers of local
problems, its results; the step length searched for, ``--rounds`` of them, as far as seconds allow.
"""

import argparse
import math
import tempfile
from collections.abc import Iterable
from pathlib import Path

from common import disropt_runs as disropt
from common.report import Report, parse
from dual2.bench.builders import build_setting
from dual2.bench.case import Case
from dual2.bench.harness import run_cases
from dual2.bench.peer_report import (
    CURRENCIES,
    LINKS,
    Standing,
    firsts,
    places_of,
    predicted_seconds,
    standing,
)
from dual2.bench.peers import TOL, peer_cases
from dual2.bench.store import Store

SMALL = ("Newton", "iD2A", "CoLA", "CoCoA+", "Sharing-ADMM-AA", "FISTA", "VF-L-BFGS")

SECONDS = 60.0
"""Most seconds of a run of disropt, whose local problems are solved by OSQP or GLPK anew."""


def beside(cases: Iterable[Case], rounds: int) -> list[Standing]:
    """disropt where it takes the problem, once for each problem and network of the cases."""
    found = []
    for case in {case.group: case for case in cases}.values():
        setting = build_setting(case)
        for name in disropt.ALGORITHMS:
            try:
                run = disropt.best_run(name, setting.problem, setting.network, rounds, SECONDS)
            except disropt.Unfit:
                continue
            found.append(_standing(case, f"disropt's {name}, tuned", run))
    return found


def _standing(case: Case, name: str, run: disropt.Found) -> Standing:
    """A run of disropt as those of ours; oracle calls of its solvers are not counted."""
    met, costs = run.kkt <= TOL, dict.fromkeys(CURRENCIES, math.inf)
    if met:
        costs |= {"latency": run.rounds, "floats": run.floats, "seconds": run.seconds}
        for link, delay in LINKS.items():
            costs[link] = predicted_seconds(delay, run.rounds, run.floats, run.seconds)
    told = "" if met else f"residual {run.kkt:.1e} after {run.rounds} rounds"
    where = str(case.notes["problem"]), str(case.notes["network"])
    status = "CONVERGED" if met else "MAX_ROUNDS"
    return Standing(*where, name, "rival", status, costs, told, "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--path", nargs="?", const="", help="disropt, from this folder")
    parser.add_argument("--rounds", type=int, default=300, help="of disropt")
    parser.add_argument("--quick", action="store_true", help="fewer problems, shorter runs")
    parser.add_argument("--workers", type=int, help="processes; as many as cores")
    parser.add_argument("--folder", help="keep the runs here, and continue what is there")
    for name in ("problems", "networks", "methods"):
        parser.add_argument(f"--{name}", nargs="+")
    small = {"problems": ["logistic"], "networks": ["complete"], "methods": list(SMALL)}
    options = parse(parser, quick=True, workers=1, **small)
    report = Report(options)
    chosen = options.problems, options.networks, options.methods
    cases = peer_cases(options.quick, *chosen)
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(options.folder or folder))
        outcome = run_cases(cases, store, workers=options.workers, progress=False)
        runs = [store.load(case) for case in cases if store.has(case)]
    report.expect(not outcome.failed, f"{len(outcome.failed)} runs ended with an error")
    for run in runs:
        wrong = run.status == "CONVERGED" and not run.certificate["kkt"] <= TOL
        report.expect(not wrong, f"{run.case.label} on {run.case.group} is not solved")
    found = [standing(run) for run in runs]
    if options.path is not None:
        report.expect(disropt.load(options.path), "disropt and cvxopt cannot be imported")
        found += beside(cases, options.rounds)
    for (problem, network), members in places_of(found).items():
        rows = [
            [one.method, one.side, one.word or "converged"]
            + [value if math.isfinite(value) else "-" for value in one.costs.values()]
            for one in members
        ]
        report.table(f"{problem} on {network}", ["method", "side", "ended", *CURRENCIES], rows)
    for one in found:
        if one.word == "cut":
            report.say(f"{one.method} on {one.problem}, {one.network}: {one.reason}.")
    for currency, won in firsts(found).items():
        report.say(f"First in {currency}: " + ", ".join(f"{k} {v}" for k, v in won.items()))
    report.end()


if __name__ == "__main__":
    main()
