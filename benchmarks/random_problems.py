"""The random problems: how many are solved, how exactly, in how many rounds and sums.

Each seed gives a strictly feasible problem (``tests/support/problems.py``), a decentralised
solution and a polished centralised reference that must meet the KKT conditions itself. An answer
counts as exact if |x - x_ref|/(1 + |x_ref|) ≤ 1e-5; CONVERGED but not exact is falsely converged.
``--method auto --beside iD2A`` compares the latencies of two methods, problem by problem; other
seeds than those of the tests are ``--first 300 --seeds 120``.
"""

import argparse
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import dual2 as d2
from common.report import Report, parse

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))
from problems import pair, random_problem  # pyright: ignore[reportMissingImports]

EXACT, REFERENCE = 1e-5, 1e-11
COUNTS = ("rounds", "agree_rounds", "sums", "latency")
RULES: dict[str, dict[str, Any]] = {
    "relative, η = 0.03": {"accuracy": "relative", "eta": 0.03},
    "relative, η = 0.1": {"accuracy": "relative", "eta": 0.1},
    "relative, η = 0.3": {"accuracy": "relative", "eta": 0.3},
    "paper's rule, tight constants": {"accuracy": "paper", "constants": "tight"},
    "paper's rule and constants": {"accuracy": "paper", "constants": "paper"},
}


@dataclass(frozen=True)
class Outcome:
    """How one problem went; ``error`` is None without a reference."""

    seed: int
    g: str
    h: str
    status: str
    counts: d2.Counts
    kkt: float
    seconds: float
    error: float | None = None
    reference_kkt: float | None = None

    @property
    def exact(self) -> bool:
        """Whether x is within the tolerance of the reference."""
        return self.error is not None and self.error <= EXACT


def attempt(seed: int, check: bool, options: dict[str, Any]) -> Outcome:
    """Solve one problem and compare it with its reference."""
    problem, network = random_problem(seed)
    g, h = pair(seed)
    begun = time.perf_counter()
    try:
        result = d2.solve(problem, network, record=False, **options)
    except d2.CapabilityError:
        return Outcome(seed, g, h, "refused by the method", d2.Counts(), np.inf, 0.0)
    seconds = time.perf_counter() - begun
    error = kkt = None
    if check:
        from dual2.reference import solve_reference

        reference = solve_reference(problem)
        x, best = np.concatenate(result.x), np.concatenate(reference.x)
        error = float(np.linalg.norm(x - best) / (1 + np.linalg.norm(best)))
        kkt = reference.kkt
    return Outcome(
        seed,
        g,
        h,
        str(result.status),
        result.counts,
        result.certificate.kkt,
        seconds,
        error,
        kkt,
    )


def campaign(
    seeds: Sequence[int], check: bool, jobs: int, options: dict[str, Any]
) -> list[Outcome]:
    """All outcomes, in the order of the seeds."""
    work = partial(attempt, check=check, options=options)
    if jobs == 1:
        return [work(seed) for seed in seeds]
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        return pool.map(work, seeds, chunksize=4)


def spread(values: Sequence[float]) -> list[int]:
    """Median, 90 % and largest."""
    return [round(float(q)) for q in np.quantile(values, [0.5, 0.9, 1])] if values else [0] * 3


def report_outcomes(report: Report, outcomes: Sequence[Outcome]) -> None:
    statuses = Counter(o.status for o in outcomes)
    converged = [o for o in outcomes if o.status == "CONVERGED"]
    errors = [o.error for o in outcomes if o.error is not None]
    false = [o.seed for o in converged if o.error is not None and not o.exact]
    bad = [o.seed for o in outcomes if o.reference_kkt is not None and o.reference_kkt > REFERENCE]
    rows: list[list[Any]] = [["problems", len(outcomes)]]
    rows += [[f"status {name}", count] for name, count in statuses.most_common()]
    if errors:
        rows += [
            [f"|x - x_ref|/(1+|x_ref|) ≤ {EXACT:g}", sum(o.exact for o in outcomes)],
            ["falsely converged", f"{len(false)} {false or ''}"],
            ["largest error of x", max(errors)],
            [f"references with KKT > {REFERENCE:g}", f"{len(bad)} {bad or ''}"],
            ["largest KKT of a reference", max(o.reference_kkt or 0.0 for o in outcomes)],
        ]
        report.expect(not false and not bad, "answers or references are not what they claim.")
    solved = len(converged) + statuses["refused by the method"] == len(outcomes)
    report.expect(solved, "some problems were not solved.")
    rows.append(["seconds, all solves", sum(o.seconds for o in outcomes)])
    report.table("Answers", ["what", "number"], rows)
    report_counts(report, "Converged runs", converged, lambda o: "all")
    report_counts(report, "By h", converged, lambda o: o.h)
    report_counts(report, "By g", converged, lambda o: o.g)
    failed = [
        o
        for o in outcomes
        if o.seed in {*false, *bad} or o.status not in ("CONVERGED", "refused by the method")
    ]
    if failed:
        fields = ["seed", "g", "h", "status", "kkt", "error", "reference_kkt", "seconds"]
        rows = [[getattr(o, name) for name in fields] for o in failed]
        report.table("Not converged, not exact, or without a good reference", fields, rows)


def report_counts(
    report: Report, title: str, outcomes: Sequence[Outcome], group: Callable[[Outcome], str]
) -> None:
    head = ["", "problems", *(f"{name}, {q}" for name in COUNTS for q in ("median", "90 %", "max"))]
    rows = []
    for name in dict.fromkeys(map(group, outcomes)):
        own = [o.counts for o in outcomes if group(o) == name]
        found = (spread([getattr(counts, what) for counts in own]) for what in COUNTS)
        rows.append([name, len(own), *(q for three in found for q in three)])
    report.table(title, head, rows)


def report_beside(
    report: Report, outcomes: Sequence[Outcome], others: Sequence[Outcome], name: str
) -> None:
    """Latency of another method over ours, where both converge."""
    pairs = [
        (b.counts.latency / max(a.counts.latency, 1), a.seed)
        for a, b in zip(outcomes, others, strict=True)
        if a.status == b.status == "CONVERGED"
    ]
    ratios = [ratio for ratio, _ in pairs]
    above = [seed for ratio, seed in pairs if ratio < 1]
    mean = float(np.exp(np.mean(np.log(ratios)))) if ratios else np.nan
    rows = [[len(pairs), mean, *np.quantile(ratios or [np.nan], [0, 0.5, 1]), len(above)]]
    head = ["problems", "geometric mean", "least", "median", "most", "above it"]
    report.table(f"Latency of {name} over ours", head, rows)
    report.expect(not above, f"slower than {name} on seeds {above}.")


def report_rules(
    report: Report, seeds: Sequence[int], jobs: int, common: dict[str, Any], limits: dict[str, Any]
) -> None:
    """The accuracy rules on the same problems; rounds over those that every rule solves."""
    runs = {
        name: campaign(seeds, False, jobs, common | limits | rule) for name, rule in RULES.items()
    }
    solved = {name: {o.seed for o in run if o.status == "CONVERGED"} for name, run in runs.items()}
    shared = set.intersection(*solved.values())
    rows = []
    for name, run in runs.items():
        own = [o.counts.rounds for o in run if o.seed in solved[name]]
        both = [o.counts.rounds for o in run if o.seed in shared]
        agreed = [o.counts.agree_rounds for o in run if o.seed in shared]
        means = [float(np.exp(np.mean(np.log(v)))) for v in (both, agreed)] if both else ["", ""]
        seconds = sum(o.seconds for o in run)
        rows.append([name, f"{len(own)}/{len(run)}", *means, max(own, default=0), seconds])
    head = ["rule", "converged", "rounds (geom. mean)", "agree_rounds", "max rounds", "seconds"]
    title = f"Accuracy rules; means over the {len(shared)} problems that all of them solve"
    report.table(f"{title}, limits {limits}", head, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=300, help="how many seeds")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--every", type=int, default=1, help="take only every k-th seed")
    parser.add_argument("--method", default="iD2A")
    parser.add_argument("--beside", help="another method, with its latency over ours")
    parser.add_argument("--rho", default="auto", help="auto or a number")
    parser.add_argument("--tol", type=float, default=1e-8)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--no-reference", action="store_true", help="do not compute references")
    parser.add_argument("--rules", action="store_true", help="compare the accuracy rules instead")
    parser.add_argument("--max-rounds", type=int, default=2_000_000, help="limit with --rules")
    parser.add_argument("--time-limit", type=float, default=20.0, help="seconds with --rules")
    options = parse(parser, every=100)
    report = Report(options)
    seeds = range(options.first, options.first + options.seeds, options.every)
    rho = options.rho if options.rho == "auto" else float(options.rho)
    common = {"method": options.method, "rho": rho, "tol": options.tol}
    if options.rules or options.smoke:
        limits = {"max_rounds": options.max_rounds, "time_limit": options.time_limit}
        report_rules(report, seeds, options.jobs, common, limits)
    if not options.rules:
        outcomes = campaign(seeds, not options.no_reference, options.jobs, common)
        report_outcomes(report, outcomes)
        if options.beside:
            others = campaign(seeds, False, options.jobs, common | {"method": options.beside})
            report_beside(report, outcomes, others, options.beside)
    report.end()


if __name__ == "__main__":
    main()
