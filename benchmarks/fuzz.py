"""A campaign of solves over classes of problems that fool solvers, each answer checked.

``python benchmarks/fuzz.py --seeds 60 --methods iD2A MiD2A NPGA-ED --time-limit 20`` is a long one.
Solutions are known by construction (``tests/planted.py``, classes in ``tests/hard_problems.py``).
A CONVERGED answer is false if a row is violated by more than 1e-6, or the objective or the energy
is off by more than 1e-6, each relative to its own terms; INFEASIBLE is false if a solution exists.
The script fails if any answer is false or any solve crashes.
"""

import argparse
import sys
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import dual2 as d2
from common.report import Report, parse
from hard_problems import CLASSES
from planted import Planted, errors

SMOKE = ["benign", "rows over 12 decades", "degenerate", "infeasible by 10-1e-6"]
"""A few classes for a first look."""


def judge(planted: Planted, method: str, limit: float) -> tuple[str, str]:
    """Word for one solve, and what to say about it if it is a bad one."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = d2.solve(
                planted.problem,
                planted.network,
                method=method,
                time_limit=limit,
                max_rounds=400_000,
                record=False,
                progress=False,
            )
    except d2.CapabilityError:
        return "refused", ""
    except Exception as error:
        return "CRASH", f"{type(error).__name__}: {error}"
    if result.status == "INFEASIBLE":
        return ("infeasible", "") if planted.x is None else ("FALSE INFEASIBLE", "")
    if result.status != "CONVERGED":
        return str(result.status).lower(), f"kkt {result.certificate.kkt:.1e}"
    if planted.x is None:
        return "FALSE CONVERGED", "the problem is infeasible"
    found = errors(planted, result.x)
    if found.false or result.certificate.kkt > 1e-8:
        return "FALSE CONVERGED", f"{found} kkt {result.certificate.kkt:.1e}"
    return "converged", ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--methods", nargs="+", default=["iD2A", "MiD2A"])
    parser.add_argument("--classes", nargs="+", default=list(CLASSES))
    parser.add_argument("--time-limit", type=float, default=10.0)
    options = parse(parser, seeds=1, methods=["iD2A"], classes=SMOKE)
    report, rows, total = Report(options), [], Counter()
    for name in options.classes:
        for method in options.methods:
            counts = Counter()
            for seed in range(options.first, options.first + options.seeds):
                planted = CLASSES[name](np.random.default_rng([seed, 7919, *name.encode()]))
                word, detail = judge(planted, method, options.time_limit)
                counts[word] += 1
                if detail:
                    report.say(f"{name}, {method}, seed {seed}: {word} {detail} {planted.notes}")
            rows.append([name, method, ", ".join(f"{n} {word}" for word, n in counts.items())])
            total += counts
    report.table(f"{total.total()} solves", ["class", "method", "outcomes"], rows)
    bad = sum(number for word, number in total.items() if word.isupper())
    report.expect(bad == 0, f"{bad} false answers or crashes")
    report.end()


if __name__ == "__main__":
    main()
