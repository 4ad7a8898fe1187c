"""What leaves a process is what the table of docs/privacy.md lists, and nothing else."""

import json
import re
from collections import Counter
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

import dual2 as d2
from dual2.processes.launch import command, find_mpiexec
from dual2.solving.storage import save_problem
from mpi_runs import run
from ready import PYTHON

WIRETAP = str(Path(__file__).parents[1] / "support" / "wiretap.py")
MONITORED = {"OMPI_MCA_pml_monitoring_enable": "2", "OMPI_MCA_pml_monitoring_enable_output": "2"}
SENT = r"^E\t(\d)\t(\d)\t(\d+) bytes\t(\d+) msgs"
"""Open MPI counts messages itself, except those of persistent requests, which the rows are."""

METHODS = ("iD2A", "MiD2A", "NPGA-ED")
N, P = 6, 4
SET_UP = {
    ("solving.solve.solve", 3): "the coupling length, and whether there is a starting point",
    ("solving.planning.in_balance", P): "lengths of the rows",
    ("solving.planning.in_balance", 2): "largest and smallest curvature",
    ("solving.stopping.StoppingTest._weigh", P): "lengths of the rows",
    ("theory.conditions.Needs.lack", 1): "conditions of the method",
    ("theory.constants.gather_facts", 7): "constants",
    ("methods.gossip.id2a._choose", 1): "conditions of the subsolver",
    ("methods.subsolvers.idapg.IDAPG.__init__", 1): "the steepest agent",
    ("methods.gossip.id2a.ID2A.start", 1): "whether the start is warm",
    ("methods.gossip.second_dual.InexactOracle.init", 1): "whether the start is warm",
    ("methods.gossip.npga.NPGA.begin", 1): "whether the start is warm",
}
LOOP = {
    ("methods.gossip.second_dual.agreed", 10): "accuracy of the subproblem, restarts, next start",
    ("solving.stopping.StoppingTest._agree", 2): "stopping test, local",
    ("solving.stopping.StoppingTest._measure", 4 * P): "stopping test, sums",
    ("solving.stopping.StoppingTest._prices", 1): "whether the price matters",
    ("problem.error_bounds.separates", 2): "infeasibility",
    ("problem.residual.kkt", 1): "the worst agent, its worst variable",
    ("problem.residual.kkt", 2): "certificate",
    ("problem.scales.justified", 2): "certificate, what the data justify",
    ("problem.scales.with_threshold_prices", P): "certificate, least prices",
    ("problem.residual.kkt", 3 * P + 1): "certificate",
}
END = {
    ("solving.solve._judge", P): "the price",
    ("problem.error_bounds.gather_evidence", P + 1): "certificate",
    ("problem.error_bounds.gather_evidence", 10): "certificate, consensus, counts",
    ("problem.error_bounds.gather_evidence", 11): "certificate, objective",
}
"""The agreements: function in the source, numbers, row of the table."""
JUDGED = {
    "problem.residual.kkt",
    "problem.scales.justified",
    "problem.scales.with_threshold_prices",
}


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """What both processes saw, for each method: {method: [rank 0, rank 1]}."""
    folder, out = tmp_path_factory.mktemp("wire") / "problem", tmp_path_factory.mktemp("seen")
    rng = np.random.default_rng(3)
    agents = []
    for i in range(N):
        M = rng.standard_normal((5 if i % 2 else 100, 3))
        f = d2.LeastSquares(M, rng.standard_normal(len(M)), ridge=0.1 + i)
        agents.append(d2.Agent(rng.standard_normal((P, 3)), f, d2.L1Norm(0.3)))
    problem = d2.Problem(agents, d2.SquaredLoss(rng.standard_normal(P)))
    save_problem(folder, problem, d2.Network(nx.path_graph(N)))
    program = [*PYTHON, WIRETAP, str(folder), str(out), *METHODS]
    done = run(command(find_mpiexec(), 2, program), **MONITORED)
    assert done.returncode == 0, done.stderr
    read = lambda name, rank: json.loads((out / f"{name}.{rank}").read_text())  # noqa: E731
    found = {name: [read(name, rank) for rank in range(2)] for name in METHODS}
    return found | {"mpi": re.findall(SENT, done.stderr, re.MULTILINE)}


@pytest.mark.parametrize("method", METHODS)
def test_a_process_opens_its_own_files_only(reports, method):
    for report in reports[method]:
        own = [f"{i}.{'toml' if i % 2 else 'npz'}" for i in report["owned"]]
        assert report["opened"] == sorted([*own, "problem.toml"])
    assert sorted(reports[method][0]["owned"] + reports[method][1]["owned"]) == list(range(N))


@pytest.mark.parametrize("method", METHODS)
def test_every_message_is_in_the_table(reports, method):
    """Rows by the counts, agreements by their list, one greeting, one end, what was asked for."""
    for rank, report in enumerate(reports[method]):
        other = 1 - rank
        wanted = Counter({f"greeting -1 {4 * 16 + 8}": 1, "end -1 1": 1, "gather 0 8": 2})
        wanted[f"gather 0 {16 * 3}"] += 1
        wanted[f"gather 0 {8 * 9}"] += 1
        silent = {"iD2A": 1, "MiD2A": 3}.get(method, 0)
        wanted[f"rows {other} {8 * P}"] = report["counts"]["vectors"] + silent
        for _, _, width, _ in report["agreed"]:
            for level in report["ups"]:
                for to, rows in level.items():
                    wanted[f"agree up {to} {8 * rows * width}"] += 1
            for to in report["downs"]:
                wanted[f"agree down {to} {8 * width}"] += 1
        assert report["messages"] == wanted


@pytest.mark.parametrize("method", METHODS)
def test_every_agreement_is_in_the_table(reports, method):
    one, two = (report["agreed"] for report in reports[method])
    assert one == two
    assert {(place, width) for place, _, width, _ in one} <= (SET_UP | LOOP | END).keys()
    judged = [
        (place, width) in END or (place in JUDGED and counting) for place, _, width, counting in one
    ]
    ends = judged.index(True)
    before, counts = one[:ends], reports[method][0]["counts"]
    assert not {(place, width) for place, _, width, _ in before} & END.keys()
    counted = [width for *_, width, counting in before if counting]
    assert counts["agree_rounds"] == 2 * reports[method][0]["height"] * len(counted)
    rows = 2 * (N - 1) * P * counts["vectors"]
    assert counts["floats"] == rows + 2 * (N - 1) * sum(counted)


@pytest.mark.parametrize("method", METHODS)
def test_private_numbers_stay(reports, method):
    """No double of A_i, x_i, ∇f_i(x_i) or the data of f_i, at any place of any message."""
    for report in reports[method]:
        assert report["status"] == "CONVERGED"
        assert min(report["private"].values()) >= 36
        assert report["seen in"] == {"A": [], "data": [], "gradient": [], "x": ["gather"]}


def test_nothing_passes_the_observer(reports):
    """What MPI itself has sent is what the observer saw."""
    for rank in range(2):
        seen = Counter()
        for method in METHODS:
            for message, times in reports[method][rank]["messages"].items():
                kind, size = message.split()[0], int(message.split()[-1])
                if kind == "agree":
                    seen += {"bytes": size * times, "messages": times}
        found = [line for line in reports["mpi"] if line[0] == str(rank)]
        assert found == [(str(rank), str(1 - rank), str(seen["bytes"]), str(seen["messages"]))]
