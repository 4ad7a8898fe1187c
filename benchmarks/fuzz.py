"""A campaign of solves over classes of problems that fool solvers, each answer checked.

``python benchmarks/fuzz.py --methods auto --first 7000 --seeds 100`` is a campaign of the default.
Solutions are known by construction (``planted.py``, classes in ``hard_problems.py``, both in
``tests/support``). A CONVERGED answer is false if a row is violated by more than 1e-6, or the
objective or the energy is off by more than 1e-6, each relative to its own terms; INFEASIBLE and
UNBOUNDED are false unless the problem is, and unless its own definitions confirm the certificate.
The script fails if any answer is false, any solve crashes, or less than 99 % of a class with a
Slater point is solved by ``auto``.
"""

import argparse
import sys
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

import dual2 as d2
from common.report import Report, parse
from hard_problems import CLASSES
from planted import Planted, errors

SMOKE = ["benign", "rows over 12 decades", "degenerate", "infeasible by 10-1e-6"]
"""A few classes for a first look."""
ENOUGH, WITHOUT = 0.99, ("no Slater point",)
"""The share of a class that must be solved, and classes of which nothing is asked but the truth."""


def is_infeasible(planted: Planted, result: d2.Result) -> bool:
    """Whether the problem has no feasible point, and the separator separates by the definitions."""
    u = np.array(result.certificate.separator)
    return planted.x is None and "ray" not in planted.notes and planted.problem.separates(u) < 0


def is_unbounded(planted: Planted, result: d2.Result) -> bool:
    """Whether the problem is unbounded, and its linear costs fall along the ray for ever."""
    agents, ray = planted.problem.agents, [np.array(d) for d in result.certificate.ray or []]
    if "ray" not in planted.notes or any((d < 0).any() for d in ray):
        return False
    pairs = list(zip(agents, ray, strict=True))
    s, load = sum(a.A @ d for a, d in pairs), sum(abs(a.A) @ np.abs(d) for a, d in pairs)
    off = s if isinstance(planted.problem.h, d2.IndicatorAtMost) else np.abs(s)
    return bool((off <= 1e-9 * load).all()) and sum(float(a.f.value(d)) for a, d in pairs) < 0


PROVEN = {"INFEASIBLE": is_infeasible, "UNBOUNDED": is_unbounded}
SOLVED = {"converged", "infeasible", "unbounded", "refused"}


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
    if result.status in PROVEN:
        fine = PROVEN[result.status](planted, result)
        return (str(result.status).lower(), "") if fine else (f"FALSE {result.status}", "")
    if result.status != "CONVERGED":
        return str(result.status).lower(), f"kkt {result.certificate.kkt:.1e}"
    if planted.x is None:
        return "FALSE CONVERGED", "the problem has no solution"
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
            share = sum(counts[word] for word in SOLVED) / counts.total()
            told = ", ".join(f"{n} {word}" for word, n in counts.items())
            rows.append([name, method, told, f"{100 * share:.4g} %"])
            fine = share >= ENOUGH or method != "auto" or name in WITHOUT
            report.expect(fine, f"{name}, {method}: {100 * share:.4g} % solved.")
            total += counts
    head = ["class", "method", "outcomes", "solved"]
    report.table(f"{total.total()} solves", head, rows)
    bad = sum(number for word, number in total.items() if word.isupper())
    report.expect(bad == 0, f"{bad} false answers or crashes")
    report.end()


if __name__ == "__main__":
    main()
