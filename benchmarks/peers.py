"""Ours beside rivals: problems × networks × methods in every currency, as ``dual2 bench peers``.

The same runs, kept in the same kind of folder, as tables of this folder's form; parts of the
comparison by ``--problems``, ``--networks`` and ``--methods``. Whoever calls a problem solved must
have met its optimality conditions to 1e-8, by the certificate; and no run may end with an error.
"""

import argparse
import math
import tempfile
from pathlib import Path

from common.report import Report, parse
from dual2.experiments.harness import run_cases
from dual2.experiments.peer_report import CURRENCIES, firsts, places_of, standing
from dual2.experiments.peers import TOL, peer_cases
from dual2.experiments.store import Store

SMALL = ("Newton", "iD2A", "CoLA", "CoCoA+", "Sharing-ADMM-AA", "FISTA", "VF-L-BFGS")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
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
    for (problem, network), members in places_of(found).items():
        rows = [
            [one.method, one.side, one.word or "converged"]
            + [value if math.isfinite(value) else "-" for value in one.costs.values()]
            for one in members
        ]
        report.table(f"{problem} on {network}", ["method", "side", "ended", *CURRENCIES], rows)
    for currency, won in firsts(found).items():
        report.say(f"First in {currency}: " + ", ".join(f"{k} {v}" for k, v in won.items()))
    report.end()


if __name__ == "__main__":
    main()
