"""Solvers of the subproblem: iterations, rates and growth beside what is known or proved.

Parts: ``families`` (iterations to 1e-10 beside those of independent programs), ``rates`` (worst
cases over commuting quadratics), ``outer`` (rate of the outer loop against the theorem),
``growth`` (exponents of measured counts against the complexity table), ``exact`` (Experiment I with
ρ = 0: exact local solutions against iDAPG).
"""

import argparse
import itertools
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

import dual2 as d2
from common.loops import Loop
from common.report import Report, parse, report_parts
from dual2.paper.problems.elastic_net_regression import experiment1
from dual2.reference import solve_reference
from dual2.theory import complexities

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))
from saddles import FAMILIES, commuting  # pyright: ignore[reportMissingImports]

KAPPAS = (100, 400, 1600)


# -- families -----------------------------------------------------------------------------------
def report_families(report: Report, options: argparse.Namespace) -> None:
    rows = []
    for family, (make, known) in list(FAMILIES.items())[:: 4 if options.smoke else 1]:
        for method, counts in known.items():
            counts = counts[: len(options.kappas)]
            found = [make(float(k)).solve(method).iterations for k in KAPPAS[: len(counts)]]
            cells = [f"{a} ({b})" for a, b in zip(found, counts, strict=True)]
            ratios = [a / b for a, b in zip(found, counts, strict=True)]
            blank = [""] * (len(options.kappas) - len(cells))
            rows.append([family, method, *cells, *blank, max(ratios)])
    head = ["family", "method", *(f"κ = {k}" for k in options.kappas), "largest ratio"]
    report.table("Iterations to 1e-10 (in brackets: independent programs)", head, rows)
    worst = max(rows, key=lambda row: row[-1])
    report.say(f"Largest ratio {worst[-1]:.2f} ({worst[0]}, {worst[1]}).")
    report.expect(worst[-1] <= 2, "some solver takes more than twice the known iterations.")


# -- worst cases over commuting quadratics --------------------------------------------------------
WORST = {
    "LPD": (701, 1392, 2774),
    "ABPD-PGS": (472, 932, 1854),
    "APDG": (909, 1831, 3673),
    "PDPG": (4594, 18409, 73671),
}
"""ln(1e10)/(-ln ρ) from spectral radii maximised over commuting quadratics, κ_x = κ_y = κ_xy."""

EQUATIONS = (
    (100, 4, 475, 1610),
    (400, 4, 960, 3241),
    (1600, 4, 1927, 6499),
    (100, 16, 475, 3556),
    (100, 64, 475, 8435),
)
"""The same with equations: κ_x, κ_B, Salim, APDG."""


def asymptotic(instance: Any, method: str) -> float:
    """Iterations that gain a factor 1e10, from the rate between 1e-4 and 1e-10."""
    early, late = (instance.solve(method, tol=tol, every=3) for tol in (1e-4, 1e-10))
    assert late.converged
    return (late.iterations - early.iterations) * 10 / 6


def rate_bound(method: str, k: float) -> float:
    """Iterations for 1e10 by the stated factor of |(x,y)-(x*,y*)|²."""
    root = math.sqrt(k)
    factors = {
        "LPD": 1 / (1 + 1 / (2 * math.sqrt(k - 1) + 2 * root)),
        "ABPD-PGS": 1 / (1 + 1 / (2 * root)),
        "APDG": 1 - 1 / (4 + 16 * root),
        "PDPG": (1 - 1 / (2 * k)) ** 2,
        "iDAPG": 1 - 1 / math.sqrt(2 * k),
    }
    return math.log(1e20) / -math.log(factors[method])


def report_rates(report: Report, options: argparse.Namespace) -> None:
    rows = []
    for method in ("LPD", "ABPD-PGS", "APDG", "PDPG", "iDAPG"):
        found = [asymptotic(commuting(k, k, k), method) for k in options.kappas]
        growth = [b / a for a, b in itertools.pairwise(found)]
        for j, k in enumerate(options.kappas):
            known = WORST[method][j] if method in WORST else ""
            grown, bound = growth[j - 1] if j else "", rate_bound(method, k)
            rows.append([method, k, found[j], known, bound, grown])
            report.expect(found[j] <= 1.02 * bound, f"{method} is above its bound at κ = {k}.")
    head = ["method", "κ", "its for 1e10", "exact worst case", "bound", "growth per κ×4"]
    report.table("Commuting quadratics, κ_x = κ_y = κ_xy (outer iterations of iDAPG)", head, rows)
    rows = []
    for kx, kB, salim, apdg in EQUATIONS[:: 2 if options.smoke else 1]:
        if kx not in options.kappas:
            continue
        instance = commuting(kx, 1, 1.0, 1 / math.sqrt(kB), linear=True)
        bound = math.log(1e20) / -math.log(1 - 1 / (4 + 8 * max(math.sqrt(kx * kB), kB)))
        counts = [asymptotic(instance, name) for name in ("Salim", "APDG")]
        rows.append([kx, kB, counts[0], salim, counts[1], apdg, bound])
    head = ["κ_x", "κ_B", "Salim", "worst case", "APDG", "worst case", "bound of APDG"]
    report.table("Commuting quadratics with equations", head, rows)


# -- the outer loop -------------------------------------------------------------------------------
def random_case(seed: int) -> tuple[d2.Problem, d2.Network]:
    """Case 1 (with l1, box or nothing) or Case 2 (equations, or a smooth h*), small."""
    rng = np.random.default_rng([seed, 50])
    n, p, kind = int(rng.integers(3, 9)), int(rng.integers(2, 5)), seed % 5
    agents, s = [], np.zeros(p)
    g = [d2.L1Norm(0.2), d2.IndicatorBox(-0.5, 0.5), d2.Zero(), d2.Zero(), d2.Zero()][kind]
    for _ in range(n):
        d = p + 1 if kind >= 3 else int(rng.integers(1, 5))
        A, M = rng.standard_normal((p, d)), rng.standard_normal((d, d))
        agents.append(d2.Agent(A, d2.Quadratic(M @ M.T + np.eye(d), rng.standard_normal(d)), g))
        s += A @ rng.uniform(-0.4, 0.4, d)
    h = d2.SquaredLoss(s + 1, float(10 ** rng.uniform(-1, 1)))
    h = [h, h, h, d2.IndicatorPoint(s), d2.NonnegativeSquaredLoss(s + 0.5)][kind]
    graph = [nx.path_graph, nx.cycle_graph, lambda m: nx.star_graph(m - 1)][seed % 3](n)
    return d2.Problem(agents, h), d2.Network(graph)


def outer_slope(seed: int, method: str, rho: Any, subsolver: str) -> tuple[float, float] | None:
    """Fitted slope of log|x-x*|² per outer iteration and log(1-1/√κ_F); None if too short."""
    problem, network = random_case(seed)
    x = np.concatenate(solve_reference(problem).x)
    loop = Loop(problem, network, method, subsolver=subsolver, rho=rho, eta=1e-4)
    kappa = loop.parameters["L_F"] / max(loop.parameters["mu_F"], 1e-300)
    errors: list[float] = []
    while len(errors) < 3000 and (len(errors) < 2 or errors[-1] > 1e-9 * errors[0]):
        before = loop.count("outer")
        loop.run(1)
        if loop.count("outer") > before:
            errors.append(float(np.linalg.norm(loop.x - x)))
    errors = [e for e in errors if e > 1e-10 * errors[0]]
    start = len(errors) // 4
    if len(errors) - start < 6 or kappa <= 1 + 1e-9:
        return None
    window = np.arange(start, len(errors))
    slope = np.polyfit(window, 2 * np.log(np.maximum(errors, 1e-300)[start:]), 1)[0]
    return float(slope), math.log(1 - 1 / math.sqrt(kappa))


def report_outer(report: Report, options: argparse.Namespace) -> None:
    runs = [("iD2A", "auto", "iDAPG"), ("iD2A", 0, "iDAPG"), ("MiD2A", "auto", "LPD")]
    rows = []
    for method, rho, subsolver in runs:
        found = [outer_slope(seed, method, rho, subsolver) for seed in range(options.problems)]
        ratios = [slope / bound for slope, bound in filter(None, found)]
        obeyed = sum(ratio >= 0.98 for ratio in ratios)
        low, middle, high = np.quantile(ratios, [0, 0.5, 1])
        short = len(found) - len(ratios)
        label = f"{method}-{subsolver}, ρ = {'ρ*' if rho == 'auto' else 0}"
        rows.append([label, len(ratios), short, obeyed, low, middle, high])
        report.expect(obeyed == len(ratios), f"{label} is slower than the theorem allows.")
    head = ["method", "problems", "too fast to fit", "obey the theorem", "least", "median", "most"]
    title = "Outer loop: fitted slope of log|x-x*|² over log(1-1/√κ_F); at least 1 by the theorem"
    report.table(title, head, rows)


# -- growth ---------------------------------------------------------------------------------------
def weighted_path(kappa: float, n: int = 6) -> d2.Network:
    """A path whose middle edge is as weak as κ_C demands."""
    low, high = 1e-6, 1.0
    for _ in range(60):
        weight = math.sqrt(low * high)
        graph = nx.path_graph(n)
        nx.set_edge_attributes(graph, 1.0, "weight")
        graph.edges[n // 2 - 1, n // 2]["weight"] = weight
        network = d2.Network(graph, weights="weight")
        low, high = (low, weight) if network.kappa < kappa else (weight, high)
    return network


def controlled(
    kind: str, kappa_f: float, kappa_pd: float, kappa_A: float, n: int = 6, p: int = 6
) -> d2.Problem:
    """Problems with the given condition numbers; log-uniform spectra in random bases."""
    rng = np.random.default_rng(60)
    basis = lambda k: np.linalg.qr(rng.standard_normal((k, k)))[0]  # noqa: E731
    d, agents, s = 8, [], np.zeros(p)
    for _ in range(n):
        Q = basis(d)
        P = (Q * np.geomspace(1.0, kappa_f, d)) @ Q.T
        values = np.geomspace(1 / math.sqrt(kappa_A), 1.0, p)
        A = (basis(p) * values) @ basis(d)[:p]
        g = d2.L1Norm(0.02) if kind == "1" else d2.Zero()
        agents.append(d2.Agent(A, d2.Quadratic((P + P.T) / 2, rng.standard_normal(d)), g))
        s += A @ rng.standard_normal(d)
    h = d2.SquaredLoss(s, kappa_pd / n) if kind == "1" else d2.IndicatorPoint(s)
    return d2.Problem(agents, h)


BASE = {"κ_f": 4.0, "κ_pd": 60.0, "κ_C": 16.0, "κ_A": 4.0}
COUNTED = ("outer", "rounds", "grad_f", "A")
GROWTH = {
    "1": ("κ_f", "κ_pd", "κ_C"),
    "2": ("κ_f", "κ_A", "κ_C"),
}
COMBINATIONS = [
    ("1", method, subsolver, rho)
    for method in ("iD2A", "MiD2A")
    for subsolver in ("iDAPG", "LPD")
    for rho in ("auto", 0)
] + [
    ("2", "MiD2A", "iDAPG", "auto"),
    ("2", "MiD2A", "APDG", "auto"),
    ("2", "MiD2A", "iDAPG", 0),
    ("2", "MiD2A", "Salim", 0),
]


def measured(case: str, numbers: dict[str, float], method: str, subsolver: str, rho: Any) -> Any:
    """Counts at |x-x*| ≤ 1e-6|x*|, the table's row, and the logarithms that Õ(·) hides in it.

    Each subproblem is solved to an accuracy that depends on κ_F, and each local problem of iDAPG to
    one that depends on κ_f: factors ln κ_F, and ln κ_f for its gradients.
    """
    problem = controlled(case, numbers["κ_f"], numbers["κ_pd"], numbers["κ_A"])
    network = weighted_path(numbers["κ_C"])
    result = d2.solve(
        problem,
        network,
        method=method,
        subsolver=subsolver,
        rho=rho,
        tol=1e-10,
        reference=solve_reference(problem).x,
        max_rounds=3_000_000,
        time_limit=60.0,
    )
    row = int(np.argmax(result.trace["gap"] <= 1e-6))
    assert result.trace["gap"][row] <= 1e-6
    counts = [float(result.trace[name][row]) for name in COUNTED]
    kappa_F = result.parameters["L_F"][0] / result.parameters["mu_F"][0]
    outer, inner = math.log(kappa_F), math.log(numbers["κ_f"]) if subsolver == "iDAPG" else 1.0
    for entry in complexities(problem, network, eps=1e-12):
        same = entry.method == method and entry.subsolver == subsolver and entry.applies
        if same and (entry.rho == 0) == (rho == 0):
            table = [math.sqrt(kappa_F), entry.rounds, entry.oracle_a, entry.oracle_b]
            logs = [1.0, outer if rho != 0 else 1.0, outer * inner, outer]
            return counts, table, [f * log for f, log in zip(table, logs, strict=True)]
    raise LookupError(f"no row for {method}-{subsolver}, ρ = {rho}, Case {case}")


def exponents(case: str, name: str, run: tuple[str, str, Any]) -> Any:
    """Exponents of each count over ×1, ×4, ×16: measured, of the table, and with its logarithm."""
    scales = np.array([1.0, 4.0, 16.0])
    found = np.log([measured(case, BASE | {name: BASE[name] * s}, *run) for s in scales])
    return np.polyfit(np.log(scales), found.reshape(3, -1), 1)[0].reshape(3, -1).T


def report_growth(report: Report, options: argparse.Namespace) -> None:
    rows, faster = [], []
    for case, method, subsolver, rho in COMBINATIONS[:: 9 if options.smoke else 1]:
        label = f"{method}-{subsolver}, ρ = {'ρ*' if rho == 'auto' else 0}"
        for name in GROWTH[case][: 1 if options.smoke else None]:
            found = exponents(case, name, (method, subsolver, rho))
            cells = [f"{ours:.2f} ({table:.2f}, {log:.2f})" for ours, table, log in found]
            rows.append([case, label, name, *cells])
            faster += [
                f"{label}, {what} in {name}: {ours:.2f} > {log:.2f}"
                for what, (ours, _, log) in zip(COUNTED, found, strict=True)
                if ours > log + 0.1
            ]
    head = ["case", "method", "scaled ×4, ×16", *COUNTED]
    title = "Exponents of measured counts (of the table's formula, of it with the hidden logarithm)"
    report.table(title, head, rows)
    report.say("Above the table by more than 0.1: " + ("; ".join(faster) or "none") + ".")


# -- exact local solutions ------------------------------------------------------------------------
def report_exact(report: Report, options: argparse.Namespace) -> None:
    problem, network, reference = experiment1()
    wishes = {"rho": 0, "tol": options.tol, "record": False}
    d2.solve(problem, network, subsolver="exact", max_rounds=10, **wishes)
    d2.solve(problem, network, subsolver="iDAPG", max_rounds=10, **wishes)
    times: dict[str, list[float]] = {"exact": [], "iDAPG": []}
    results = {}
    for name in ("exact", "iDAPG", "exact"):
        begun = time.perf_counter()
        results[name] = d2.solve(problem, network, subsolver=name, **wishes)
        times[name].append(time.perf_counter() - begun)
    best = np.concatenate(reference)
    rows = []
    for name, result in results.items():
        gap = np.linalg.norm(np.concatenate(result.x) - best) / np.linalg.norm(best)
        c = result.counts
        fine = result.status == "CONVERGED" and gap <= 100 * options.tol
        report.expect(fine, f"{name} ends as {result.status} at a gap of {gap:.1e}.")
        rows.append([name, str(result.status), c.rounds, c.grad_f, gap, min(times[name])])
    head = ["subsolver", "status", "rounds", "grad_f", "|x-x*|/|x*|", "seconds"]
    report.table(f"Experiment I, iD2A, ρ = 0, tol {options.tol:g}", head, rows)
    ratio = min(times["iDAPG"]) / min(times["exact"])
    report.say(f"exact is {ratio:.0f} times faster (aim: at least 20).")


PARTS: dict[str, Callable[[Report, argparse.Namespace], None]] = {
    "families": report_families,
    "rates": report_rates,
    "outer": report_outer,
    "growth": report_growth,
    "exact": report_exact,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", type=int, default=100, help="random problems of 'outer'")
    parser.add_argument("--tol", type=float, default=1e-8, help="tolerance of 'exact'")
    options = parse(parser, PARTS, problems=1, tol=1e-3)
    options.kappas = KAPPAS[: 1 if options.smoke else None]
    report_parts(PARTS, options)


if __name__ == "__main__":
    main()
