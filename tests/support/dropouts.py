"""Eight parties of which some are lost for good: their offices, deaths, and what is right."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

import dual2 as d2
from dual2.parties import session
from dual2.parties.party import read_party
from dual2.parties.session import run_party
from dual2.runtime.peers import crash_points
from dual2.runtime.peers.aborts import Failure, Reason
from party_offices import Offices

N, THRESHOLD = 8, 6
GRAPH = nx.circulant_graph(N, [1, 2])
"""Connected without any three of its nodes."""
OPTIONS = {"method": "Newton", "mode": "primal", "tol": 1e-9}
QUICK = "dead = 3.0\npatience = 6.0\n"
LIMIT = 120.0


def make_problem() -> d2.Problem:
    draw = np.random.default_rng(8)
    agents = [
        d2.Agent(draw.standard_normal((5, 3)), d2.SquaredNorm(1.0), d2.L1Norm(0.1))
        for _ in range(N)
    ]
    return d2.Problem(agents, d2.SquaredLoss(draw.standard_normal(5)))


def answer_without(lost: Sequence[int]) -> dict[int, Any]:
    """The answer of one process to the problem of the others, by number of the party."""
    whole = make_problem()
    kept = [i for i in range(N) if i not in lost]
    problem = d2.Problem([whole.agents[i] for i in kept], whole.h)
    graph = nx.convert_node_labels_to_integers(GRAPH.subgraph(kept), ordering="sorted")
    found = d2.solve(problem, d2.Network(graph), sums="exact", record=False, **OPTIONS)
    assert found.status == d2.Status.CONVERGED
    return {i: (found.x[k].tolist(), found.dual.tolist()) for k, i in enumerate(kept)}


class Killed(BaseException):
    """The program of a lost party."""


class Deaths:
    """Kills programs where they pass some point: {number: (beginning of the point, passage)}."""

    def __init__(self, offices: Offices, where: dict[int, tuple[str, int]], monkeypatch) -> None:
        self.where = {f"program {offices.names[i]}": place for i, place in where.items()}
        self.passed = dict.fromkeys(self.where, 0)
        self.managers: dict[str, Any] = {}
        opened = session.open_manager

        def note(party, audit, p):
            self.managers[f"program {party.name}"] = made = opened(party, audit, p)
            return made

        monkeypatch.setattr(session, "open_manager", note)
        crash_points.listen(self)

    def __call__(self, point: str) -> None:
        name = threading.current_thread().name
        begin, passage = self.where.get(name, ("", 0))
        if not begin or not point.startswith(begin):
            return
        self.passed[name] += 1
        if self.passed[name] == passage:
            self.managers[name].end(Failure("", "killed", Reason.LEFT))
            raise Killed


def make_offices(folder: Path, threshold: int | None = THRESHOLD) -> Offices:
    network = d2.Network(GRAPH)
    made = Offices(folder, make_problem(), network, OPTIONS, "{ masked = true }", extra=QUICK)
    if threshold is not None:
        for name in made.names:
            study = folder / name / "study.toml"
            study.write_text(f"threshold = {threshold}\n" + study.read_text())
    return made


def run_all(
    offices: Offices, numbers: Sequence[int], resume: bool = False, work: Callable = run_party
) -> dict[int, Any]:
    """The status or the error that each party ends with, in threads."""
    found: dict[int, Any] = {}

    def live(i: int) -> None:
        try:
            found[i] = work(read_party(offices.file(i)), resume, lambda text: None)
        except BaseException as error:
            found[i] = error

    threads = [threading.Thread(target=live, args=(i,), daemon=True) for i in numbers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    assert not any(thread.is_alive() for thread in threads), "a party hangs"
    return found


def demand_answers(offices: Offices, found: dict[int, Any], lost: Sequence[int]) -> None:
    """All others have the bits of the problem without the lost ones."""
    right = answer_without(lost)
    for i, (x, dual) in right.items():
        assert found[i] == d2.Status.CONVERGED, found[i]
        answer = offices.answer(i)
        assert (answer["x"], answer["dual"]) == (x, dual)
        assert answer.get("missing", []) == [offices.names[j] for j in lost]
