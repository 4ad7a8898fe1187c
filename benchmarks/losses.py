"""Links that lose, delay and end: what that costs gossip and sums, on a simulated network.

An elastic net over agents on a random geometric graph, KKT residual 1e-8, by iD2A, NPGA-ED and
Newton. Times are in delays of a link; a lost message is missed, or sent again, after three.

``rates``: losses, with the policies of :class:`dual2.runtime.SimulatedNetwork`: *resend* (wait for
each row), *link* (who hears nothing leaves the difference out, and a link is down for both ends at
the same time), *skip* (each direction by itself), *stale* (the last row that came). A run that has
not ended after four times the rounds of the plain one is given up.

``late``: jitter, agents that are late, losses in spells; everybody waits.

``cuts``: links that end for good at random times, the graph staying connected.
"""

import argparse
from dataclasses import dataclass, replace
from typing import Any

import networkx as nx
import numpy as np

import dual2 as d2
from common.report import Report, parse, report_parts
from dual2.runtime import Faults, SimulatedNetwork

METHODS = ("iD2A", "NPGA-ED", "Newton")
KINDS = {
    "resend": ("resend", False),
    "link": ("skip", True),
    "skip": ("skip", False),
    "stale": ("stale", False),
}
"""Policy, and whether both directions of a link fail together."""
LIMIT = 4
"""A run is given up after so many times the rounds of the plain one."""


@dataclass
class Case:
    """A problem, its network, and how the plain runs went."""

    problem: d2.Problem
    network: d2.Network
    plain: dict[str, d2.Result]

    def run(self, method: str, transport: SimulatedNetwork, **options: Any) -> d2.Result:
        """The same problem over a simulated network."""
        most = LIMIT * self.plain[method].counts.rounds
        options = {"record": False, "max_rounds": most} | options
        return d2.solve(self.problem, self.network, method=method, runtime=transport, **options)

    def error(self, method: str, found: d2.Result) -> float:
        """|x - x_plain|/|x_plain|."""
        x, plain = np.concatenate(found.x), np.concatenate(self.plain[method].x)
        return float(np.linalg.norm(x - plain) / np.linalg.norm(plain))


def make_case(n: int, seed: int = 0) -> Case:
    """f = (w_i/2)|x|², g = 0.1|x|₁, random A_i (5 × 3), h = |z - y|²/2."""
    rng = np.random.default_rng(seed)
    agents = [
        d2.Agent(rng.standard_normal((5, 3)), d2.SquaredNorm(1 + rng.random()), d2.L1Norm(0.1))
        for _ in range(n)
    ]
    problem = d2.Problem(agents, d2.SquaredLoss(10 * rng.standard_normal(5)))
    graph = next(
        graph
        for start in range(1000)
        if nx.is_connected(graph := nx.random_geometric_graph(n, 1.3 / n**0.5, seed=start))
    )
    network = d2.Network(graph)
    plain = {m: d2.solve(problem, network, method=m, record=False) for m in METHODS}
    return Case(problem, network, plain)


# -- losses -----------------------------------------------------------------------------------


def measure(case: Case, method: str, kind: str, faults: Faults, seeds: int) -> dict[str, Any]:
    """Medians over seeds; how many of them converged."""
    policy, both = KINDS[kind]
    plain, rows = case.plain[method], []
    for seed in range(seeds):
        transport = SimulatedNetwork(replace(faults, both=both, seed=seed), policy=policy)
        found = case.run(method, transport)
        rows.append(
            [
                found.status == d2.Status.CONVERGED,
                found.counts.rounds,
                transport.time,
                transport.traffic.messages,
                found.certificate.kkt,
                case.error(method, found),
            ]
        )
    rounds, time, messages, kkt, error = np.median(np.array(rows, float), axis=0)[1:]
    return {
        "method": method,
        "policy": kind if method != "Newton" else "sums",
        "loss": faults.loss,
        "solved": int(sum(row[0] for row in rows)),
        "rounds": int(rounds),
        "time": time,
        "time/latency": time / plain.counts.latency,
        "messages": int(messages),
        "KKT": kkt,
        "error": error,
        "same bits": all(row[-1] == 0.0 for row in rows),
    }


def report_rates(report: Report, options: argparse.Namespace) -> None:
    case = make_case(options.agents)
    describe(report, case)
    found = []
    for method in METHODS:
        kinds = [*KINDS] if method != "Newton" else ["resend"]
        for kind in kinds:
            for loss in options.rates:
                row = measure(case, method, kind, Faults(loss=loss), options.seeds)
                found.append(row)
                waits = kind == "resend" or loss == 0
                fine = row["solved"] == options.seeds and row["same bits"]
                report.expect(fine or not waits, f"{method}, {kind}, {loss}: not the plain answer.")
                wrong = row["solved"] and row["error"] > 1e-5
                report.expect(not wrong, f"{method}, {kind}, {loss}: a wrong answer as solved.")
    title = f"Losses: medians of {options.seeds} seeds; time in delays of a link"
    report.table(title, list(found[0]), [row.values() for row in found])
    if options.figure:
        draw(found, options)
        report.say(f"Drawn to {options.figure}.")


def describe(report: Report, case: Case) -> None:
    network = case.network
    report.say(
        f"{network.n} agents, {len(network.edges)} links, height of the tree "
        f"{network.tree.height}, κ_C {network.kappa:.0f}; without faults: "
        + ", ".join(
            f"{m} {case.plain[m].counts.rounds} rounds, latency {case.plain[m].counts.latency}"
            for m in METHODS
        )
    )


def draw(found: list[dict[str, Any]], options: argparse.Namespace) -> None:
    """Rounds and time against the loss rate; runs that were given up are crosses."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(9.5, 3.8), sharex=True)
    colours = dict(zip(METHODS, ("C0", "C1", "C2"), strict=True))
    lines = {"resend": "-", "sums": "-", "link": "--", "skip": ":"}
    for method in METHODS:
        for kind, line in lines.items():
            own = [row for row in found if row["method"] == method and row["policy"] == kind]
            done = [row for row in own if row["solved"] == options.seeds]
            lost = [row for row in own if row["solved"] < options.seeds]
            for panel, what in zip(panels, ("rounds", "time"), strict=True):
                style = {"color": colours[method], "linestyle": line, "marker": "o", "ms": 4}
                rates, numbers = ([100 * r["loss"] for r in done], [r[what] for r in done])
                if len(done) > 1:
                    panel.plot(rates, numbers, label=f"{method}, {kind}", **style)
                rates, numbers = ([100 * r["loss"] for r in lost], [r[what] for r in lost])
                if lost:
                    style = {"color": colours[method], "label": f"{method}, {kind}: given up"}
                    panel.plot(rates, numbers, "x" if kind == "link" else "+", ms=8, **style)
    for panel, name in zip(panels, ("rounds", "time, in delays of a link"), strict=True):
        panel.set(yscale="log", xlabel="messages lost, %", ylabel=name)
        panel.grid(alpha=0.3)
    panels[1].legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.tight_layout()
    figure.savefig(options.figure, dpi=110)


# -- delays and cuts --------------------------------------------------------------------------


def report_late(report: Report, options: argparse.Namespace) -> None:
    case, rows = make_case(options.agents), []
    faults = {
        "none": Faults(),
        "jitter, mean 0.5": Faults(jitter=0.5),
        "jitter, mean 2": Faults(jitter=2.0),
        "1 % of the agents late by 10": Faults(straggle=0.01),
        "10 % late by 10": Faults(straggle=0.1),
        "10 % lost": Faults(loss=0.1),
        "10 % lost in spells of 5": Faults(loss=0.1, burst=5.0),
    }
    for name, fault in faults.items():
        found = [measure(case, m, "resend", fault, options.seeds) for m in METHODS]
        report.expect(all(f["same bits"] for f in found), f"{name}: not the plain answer.")
        rows.append([name, *(f["time/latency"] for f in found)])
    title = "Time over that of a network without faults, everybody waiting"
    report.table(title, ["faults", *METHODS], rows)


def report_cuts(report: Report, options: argparse.Namespace) -> None:
    case, rows = make_case(options.agents), []
    for count in options.cuts:
        for method in METHODS:
            for seed in range(options.seeds):
                rows.append([count, method, seed, *cut_run(case, method, count, seed)])
                fine = rows[-1][3] != "CONVERGED" or rows[-1][-1] < 1e-5
                report.expect(fine, f"{method}, {count} cuts: a wrong answer as solved.")
    head = ["links cut", "method", "seed", "status", "given up", "rounds", "time", "error"]
    report.table("Links that end for good while the run lasts", head, rows)


def cut_run(case: Case, method: str, count: int, seed: int) -> list[Any]:
    """Cut random links, no bridges, at random times of the first half of the run."""
    rng = np.random.default_rng(seed)
    graph, cut = nx.Graph(case.network.edges.tolist()), {}
    latency = case.plain[method].counts.latency
    while len(cut) < count:
        bridges = {frozenset(edge) for edge in nx.bridges(graph)}
        free = [edge for edge in graph.edges if frozenset(edge) not in bridges]
        i, j = free[rng.integers(len(free))]
        graph.remove_edge(i, j)
        cut[int(i), int(j)] = float(rng.uniform(0, latency / 2))
    transport = SimulatedNetwork(Faults(cut=cut, seed=seed), patience=5)
    found = case.run(method, transport)
    gone = len(transport.traffic.gone)
    counts = found.counts.rounds, transport.time
    return [str(found.status), gone, *counts, case.error(method, found)]


PARTS = {"rates": report_rates, "late": report_late, "cuts": report_cuts}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=2)
    rates = [0.0, 0.01, 0.05, 0.1, 0.3]
    parser.add_argument("--rates", type=float, nargs="+", default=rates, help="of loss")
    parser.add_argument("--cuts", type=int, nargs="+", default=[1, 5, 10])
    parser.add_argument("--figure", help="draw the rates to this PNG")
    smoke: dict[str, Any] = {"agents": 6, "seeds": 1, "rates": [0.0, 0.1], "cuts": [1]}
    report_parts(PARTS, parse(parser, PARTS, **smoke))


if __name__ == "__main__":
    main()
