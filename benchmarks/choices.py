"""What the choices rest on that neither the paper nor a theorem makes.

Parts: ``schedules`` (c and δ of the printed accuracy schedules on the paper's experiments),
``modes`` (c and how often the inner test is made, literal mode among them; Experiment I),
``accuracy`` (the relative rule for several η, and the printed schedule, for each subsolver on 24
problems), ``penalty`` (Tracking-ADMM's rule against the best of eight penalties; Experiment III),
``plain`` (NPGA-ED on Experiment I as a loop of NumPy that shares no code with the package).
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

import dual2 as d2
from common.loops import Loop
from common.report import Report, parse, report_parts
from dual2.bench.styles import print_styles
from dual2.methods.gossip.id2a import ID2A, plan_id2a
from dual2.methods.parameters import Settings
from dual2.paper.problems.constrained_regression import experiment2
from dual2.paper.problems.elastic_net_regression import experiment1
from dual2.paper.problems.resource_allocation import experiment3
from dual2.solving.plotting import new_panels, write_figure

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))
from problems import random_problem  # pyright: ignore[reportMissingImports]

C = (1.01, 1.05, 1.1, 1.2, 1.5, 2.0, 3.0, 4.0, 8.0)
DELTA = (0.1, 0.5, 1.0, 2.0, 4.0, 6.0, 8.0, 12.0)
FACTORS = 10.0 ** np.linspace(-1.75, 1.75, 8)
CUT = 100_000
ACCURACY_CUT = 300_000
L1, L2 = 10.0, 90.0
"""Weights of Experiment I."""


# -- schedules --------------------------------------------------------------------------------
def rounds_for_good(experiment: Any, target: float, most: int, **wishes: Any) -> int | str:
    """Rounds from which on the gap stays below the target."""
    problem, network, reference = experiment
    result = d2.solve(
        problem, network, reference=reference, tol=target / 3, max_rounds=most, **wishes
    )
    met = result.trace["gap"] <= target
    row = int(np.flatnonzero(~met).max(initial=-1)) + 1
    return int(result.trace["rounds"][row]) if row < len(met) else f"> {most}"


def report_schedules(report: Report, options: argparse.Namespace) -> None:
    printed = {"constants": "paper", "accuracy": "paper", "method": "iD2A", "subsolver": "iDAPG"}
    sweeps = [
        ("Experiment I", "c", C, experiment1()),
        ("Experiment II", "delta", DELTA, experiment2()),
        ("Experiment III, active", "delta", DELTA, experiment3(active=True)),
    ]
    for title, name, values, experiment in sweeps[: 1 if options.smoke else None]:
        values = values[:: 4 if options.smoke else 1]
        rows = [
            [
                value,
                rounds_for_good(experiment, options.gap, options.cut, **printed, **{name: value}),
            ]
            for value in values
        ]
        what = f"{title}: rounds of iD2A until the gap stays below {options.gap:g}"
        report.table(what, [name, "rounds"], rows)
        some = any(isinstance(row[1], int) for row in rows)
        report.expect(some, f"{title}: no value of {name} is good enough.")


# -- the accuracy of subproblems ------------------------------------------------------------------
RULES: dict[str, dict[str, Any]] = {
    **{f"relative, η = {eta:g}": {"eta": eta} for eta in (0.03, 0.1, 0.3, 0.9)},
    "printed schedule": {"accuracy": "paper", "constants": "paper"},
}
SUBSOLVERS = ("iDAPG", "PDPG", "LPD", "APDG")


def full_rank_problem(kappa_f: float, seed: int) -> d2.Problem:
    """Eight agents that share three resources exactly; A_i random, square or with a column more."""
    rng = np.random.default_rng(seed)
    d = 3 + seed % 2
    f = d2.Quadratic(np.geomspace(1.0, kappa_f, d))
    agents = [d2.Agent(rng.standard_normal((3, d)), f) for _ in range(8)]
    return d2.Problem(agents, d2.IndicatorPoint(np.ones(3)))


def report_accuracy(report: Report, options: argparse.Namespace) -> None:
    cases = [(kappa, seed) for kappa in (20.0, 50.0, 100.0) for seed in range(8)]
    problems = [full_rank_problem(*case) for case in cases[: options.problems]]
    network = d2.Network(nx.path_graph(8))
    rows: list[list[Any]] = []
    for rule, wishes in RULES.items():
        row: list[Any] = [rule]
        for subsolver in SUBSOLVERS:
            chosen: dict[str, Any] = {"method": "iD2A", "subsolver": subsolver, **wishes}
            results = [
                d2.solve(problem, network, tol=1e-7, max_rounds=ACCURACY_CUT, **chosen)
                for problem in problems
            ]
            solved = sum(result.status == d2.Status.CONVERGED for result in results)
            rounds = float(np.median([result.counts.latency for result in results]))
            row.append(f"{solved} of {len(problems)}, {rounds:.0f}")
        rows.append(row)
    title = "iD2A to a KKT residual of 1e-7: converged, exchanges in the median"
    report.table(title, ["accuracy", *SUBSOLVERS], rows)
    usual = rows[list(RULES).index("relative, η = 0.1")]
    whole = f"{len(problems)} of {len(problems)},"
    report.expect(all(cell.startswith(whole) for cell in usual[1:]), "the default rule failed.")


# -- literal mode and the inner test --------------------------------------------------------------
MODES: dict[str, dict[str, Any]] = {
    "literal": {"accuracy": "literal"},
    **{f"check = {k}": {"accuracy": "paper", "check": k} for k in (1, 5, 10, 20)},
}


def settled_rounds(
    experiment: Any, target: float, most: int, method: str, c: float, mode: str
) -> int | str:
    """As :func:`rounds_for_good`, at every round: a trace can miss a late rise of the gap."""
    problem, network, reference = experiment
    wishes = MODES[mode]
    more = {"c": c} | {name: value for name, value in wishes.items() if name != "accuracy"}
    settings = Settings(method, "iDAPG", "auto", "paper", wishes["accuracy"], more)
    algorithm = plan_id2a(problem, network, settings).algorithm
    assert isinstance(algorithm, ID2A)
    solution = np.concatenate([np.ravel(part) for part in reference])
    algorithm.start(np.zeros(solution.size), np.zeros((problem.n, problem.p)))
    settled = 0
    while algorithm.rounds < most:
        algorithm.advance(algorithm.rounds + 1, 10.0)
        if np.linalg.norm(algorithm.x - solution) > target * np.linalg.norm(solution):
            settled = 0
        elif not settled:
            settled = algorithm.rounds
    return settled or f"> {most}"


def report_modes(report: Report, options: argparse.Namespace) -> None:
    problem = experiment1()
    values = (1.2, 1.5, 2.0, 3.0)[: 1 if options.smoke else None]
    found: dict[str, list[int | str]] = {}
    for method in ("iD2A", "MiD2A"):
        for mode in MODES:
            found[f"{method}, {mode}"] = [
                settled_rounds(problem, options.gap, options.cut, method, c, mode) for c in values
            ]
    title = f"Experiment I, ρ = ρ*: rounds until the gap stays below {options.gap:g}"
    rows = [[name, *rounds] for name, rounds in found.items()]
    report.table(title, ["method", *(f"c = {c:g}" for c in values)], rows)
    some = any(isinstance(rounds, int) for row in found.values() for rounds in row)
    report.expect(some, "Experiment I: no run is good enough.")
    if options.figure:
        draw_modes(found, values, options.figure)


def draw_modes(found: dict[str, list[int | str]], values: tuple[float, ...], file: Path) -> None:
    """Rounds over c, one line for each way to make the inner test; without runs that were cut."""
    figure = new_panels(1, 2, (9, 3.4), sharey=True)
    for panel, method in zip(figure.axes, ("iD2A", "MiD2A"), strict=True):
        for mode, look in print_styles(MODES).items():
            rounds = found[f"{method}, {mode}"]
            points = [(c, r) for c, r in zip(values, rounds, strict=True) if isinstance(r, int)]
            line: Any = {"color": look.colour, "linestyle": look.dash, "marker": look.marker}
            panel.plot(*zip(*points, strict=True), label=mode, **line)
        panel.set(title=f"{method}, Experiment I", xlabel="c", yscale="log")
        panel.set_xticks(values, [f"{c:g}" for c in values])
    figure.axes[0].set_ylabel("rounds to a gap of 1e-8")
    handles, names = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=5, frameon=False)
    write_figure(figure, file)


# -- the penalty of Tracking-ADMM ----------------------------------------------------------------
def report_penalty(report: Report, options: argparse.Namespace) -> None:
    ratios = []
    for seed in range(options.problems):
        problem, network = random_problem(seed, h="point")
        wishes = {"method": "Tracking-ADMM", "record": False, "tol": 1e-6}
        ruled = d2.solve(problem, network, max_rounds=options.cut, **wishes)
        best, value = ruled.counts.rounds, ruled.parameters["c"][0]
        for factor in FACTORS:
            tried = d2.solve(problem, network, c=factor * value, max_rounds=best, **wishes)
            if tried.status == "CONVERGED":
                best = min(best, tried.counts.rounds)
        ratios.append((ruled.counts.rounds / best, str(ruled.status)))
    values = np.array([ratio for ratio, _ in ratios])
    ends = sum(status == "CONVERGED" for _, status in ratios)
    row = [len(values), ends, float(np.exp(np.log(values).mean())), float(values.max())]
    title = f"Tracking-ADMM: rounds by the rule over those of the best of {len(FACTORS)} penalties"
    report.table(title, ["problems", "converged", "geometric mean", "largest"], [row])
    report.expect(ends > 0, "the rule solves none of the problems.")
    rows = [
        [c, rounds_for_good(experiment3(), options.gap, 30_000, method="Tracking-ADMM", c=c)]
        for c in (1e-3, 3e-6)
    ]
    title = f"Experiment III: rounds until the gap stays below {options.gap:g}"
    report.table(title, ["c of Tracking-ADMM", "rounds"], rows)


# -- NPGA-ED in NumPy ------------------------------------------------------------------------------
class Plain:
    """NPGA-ED on the elastic net of Experiment I; agents 0 … 6 own a column, agent 7 two."""

    def __init__(self, problem: d2.Problem, l1: float) -> None:
        self.X, self.y = np.hstack([agent.A for agent in problem.agents]), problem.h.y
        owner = np.minimum(np.arange(9), 7)
        self.owners, self.owner = (np.arange(8)[:, None] == owner).astype(float), owner
        self.edges = np.eye(7, 8) - np.eye(7, 8, k=1)
        norms = [np.linalg.norm(self.X[:, owner == i], 2) for i in range(8)]
        self.alpha, self.beta, self.l1 = 1 / L2, L2 / max(norms) ** 2, l1
        self.x, self.lam, self.s = np.zeros(9), np.zeros((8, 20)), np.zeros((8, 20))

    def step(self) -> None:
        """One iteration; (I-W)/2 = C = BᵀB/12, B the differences along the edges of the path."""
        pull = (self.X.T * self.lam[self.owner]).sum(axis=1)
        u = self.x - self.alpha * (L2 * self.x + pull)
        self.x = u - np.clip(u, -self.alpha * self.l1, self.alpha * self.l1)
        v = self.lam - self.s + self.beta * (self.owners * self.x) @ self.X.T
        mixed = self.edges.T @ (self.edges @ v / 12)
        self.s += mixed
        t = self.beta / 8
        self.lam = (v - mixed - t * self.y) / (1 + 20 * t)

    def errors(self, theta: np.ndarray) -> tuple[float, float]:
        """Relative distances of x and of the mean price to the solution."""
        price = (self.X @ theta - self.y) / 20
        wrong = self.lam.mean(axis=0) - price
        gap = np.linalg.norm(self.x - theta) / np.linalg.norm(theta)
        return float(gap), float(np.linalg.norm(wrong) / np.linalg.norm(price))


def report_plain(report: Report, options: argparse.Namespace) -> None:
    problem, network, reference = experiment1()
    compare_with_package(report, problem, network, options.same)
    rows = []
    for l1 in (L1, 0.0)[: 1 if options.smoke else None]:
        own = Plain(problem, l1)
        ridge = np.linalg.solve(own.X.T @ own.X / 20 + L2 * np.eye(9), own.X.T @ own.y / 20)
        theta = np.concatenate(reference) if l1 else ridge
        met: dict[str, Any] = {"x": "", "price then": "", "price": ""}
        for k in range(options.iterations):
            own.step()
            if k % 8:
                continue
            gap, wrong = own.errors(theta)
            if gap <= options.gap and met["x"] == "":
                met |= {"x": k + 1, "price then": wrong}
            if gap <= options.gap and wrong <= options.gap:
                met["price"] = k + 1
                break
        rows.append([l1, *met.values()])
    head = ["l1", "rounds: x", "error of the price then", "rounds: x and price"]
    report.table(f"NPGA-ED in NumPy on Experiment I, relative errors {options.gap:g}", head, rows)
    report.expect(rows[0][1] != "", "x is not reached.")


def compare_with_package(
    report: Report, problem: d2.Problem, network: d2.Network, iterations: int
) -> None:
    """The loop of NumPy and the package's after some iterations."""
    own, loop = Plain(problem, L1), Loop(problem, network, "NPGA-ED")
    loop.run(iterations)
    for _ in range(iterations):
        own.step()
    error = float(np.abs(loop.duals - own.lam).max() / np.abs(own.lam).max())
    report.say(f"After {iterations} iterations NumPy and the package differ by {error:.1e} in λ.")
    report.expect(error <= 1e-9, "the package does not follow the formulas.")


PARTS = {
    "schedules": report_schedules,
    "modes": report_modes,
    "accuracy": report_accuracy,
    "penalty": report_penalty,
    "plain": report_plain,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gap", type=float, default=1e-8, help="relative distance to reach")
    parser.add_argument("--cut", type=int, default=CUT, help="most rounds of a run")
    parser.add_argument("--figure", type=Path, help="where 'modes' draws its figure")
    parser.add_argument(
        "--problems", type=int, default=24, help="problems of 'accuracy', 'penalty'"
    )
    parser.add_argument("--iterations", type=int, default=3_000_000, help="most of 'plain'")
    parser.add_argument("--same", type=int, default=50_000, help="iterations of both in 'plain'")
    options = parse(parser, PARTS, gap=1e-2, problems=2, cut=20_000, iterations=30_000, same=1_000)
    report_parts(PARTS, options)


if __name__ == "__main__":
    main()
