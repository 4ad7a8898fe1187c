"""The comparison with rivals: its problems, its arithmetic, its tables, and the command."""

import json
import math

import numpy as np
import pytest

import dual2 as d2
from dual2.bench import peers
from dual2.bench.builders import BUILDERS, build_setting
from dual2.bench.case import Case
from dual2.bench.peer_report import (
    CURRENCIES,
    LINKS,
    Standing,
    behind,
    firsts,
    peers_csv,
    peers_json,
    peers_markdown,
    predicted_seconds,
    standing,
)
from dual2.bench.store import SKIPPED, StoredRun
from dual2.cli import main
from dual2.methods import METHODS

COUNTS = {"rounds": 90, "agree_rounds": 10, "floats": 1_250_000, "sums": 9}
COUNTS |= {"grad_f": 1, "prox_g": 2, "A": 3, "AT": 4, "prox_h": 5}


def run(method, status="CONVERGED", **counts):
    notes = {"problem": "LP", "network": "ring", "side": "ours" if method == "Newton" else "rival"}
    case = Case("LP on ring", method, "lp", {}, {"method": method}, notes=notes)
    found, proof = COUNTS | counts, {"kkt": 1e-3 if status != "CONVERGED" else 1e-9}
    machine = {"processor": 0.5}
    return StoredRun(case, status, "It cannot. At all.", 9.0, found, proof, machine=machine)


# -- problems --------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", peers.PROBLEMS)
def test_every_problem_is_built_and_has_a_solution(name):
    case = peers.peer_cases(problems=[name], networks=["geometric"], methods=["Newton"])[0]
    setting = build_setting(case)
    assert setting.network.n == setting.problem.n == setting.facts["n"]
    if name != "MPC":  # whose kernels take a minute to compile; test_mpc solves it
        assert d2.solve(setting.problem, setting.network, record=False).status == "CONVERGED"


def test_seeds_make_other_problems():
    options = {"network": {"build": "ring"}}
    for name in ("dispatch", "classifier", "lp", "mpc"):
        first, again, other = (
            build_setting(Case("x", "y", name, options, seed=seed)).facts["data"]
            for seed in (0, 0, 1)
        )
        assert first == again != other


def test_the_papers_experiments_keep_their_agents():
    with pytest.raises(d2.ProblemError, match="Experiment 3 has 20 agents"):
        BUILDERS["paper"](0, {"build": "path"}, n=8, experiment=3)


def test_a_linear_program_has_a_coupling_that_binds():
    setting = build_setting(Case("x", "y", "lp", {"network": {"build": "ring"}}))
    found = d2.solve(setting.problem, setting.network, record=False)
    assert found.dual.max() > 0.01 and all(a.f.mu == 0 for a in setting.problem.agents)


def test_geometric_networks_are_connected_or_refused():
    from dual2.bench.topologies import build_network

    assert build_network(12, "geometric", radius=0.4, seed=3).n == 12
    with pytest.raises(d2.NetworkError, match="raise radius"):
        build_network(12, "geometric", radius=0.01)


# -- which runs ------------------------------------------------------------------------------------
def test_every_rival_takes_part_and_says_where_its_parameters_come_from():
    for peer in peers.PEERS:
        sources = METHODS[peer.method].sources
        assert sources and (not peer.tuned or "tune" in " ".join(sources.values()))
    assert {peer.method for peer in peers.PEERS if peer.side == "ours"} == {"Newton", "L-BFGS"}


def test_labels_are_unique():
    for quick in (False, True):
        cases = peers.peer_cases(quick)
        assert len({(case.group, case.label) for case in cases}) == len(cases)
        assert len({case.key for case in cases}) == len(cases)


def test_penalties_of_methods_over_sums_are_searched_for_where_sums_are_short():
    cases = peers.peer_cases(problems=["LP"], networks=["path"])
    where = {
        case.solve["method"]: case.notes["tune"].get("network")
        for case in cases
        if "tune" in case.notes
    }
    assert where["Sharing-ADMM"] == where["Sharing-ADMM-AA"] == "complete"
    assert where["DPMM"] is where["Tracking-ADMM"] is where["DC-ADMM"] is None


def test_the_table_says_what_a_run_may_take():
    assert "2000 rounds (MPC: 1000)" in peers.budgets() and "500 rounds" in peers.budgets(True)
    text = peers_markdown([standing(run("Newton"))], "A title", peers.budgets())
    assert text.startswith("# A title\n\nEach run ends at a KKT residual of 1e-08")


# -- arithmetic ------------------------------------------------------------------------------------
def test_seconds_are_waiting_sending_and_computing():
    assert predicted_seconds(0.04, 100, 1_250_000, 0.5) == pytest.approx(4.0 + 0.8 + 0.5)
    costs = standing(run("Newton")).costs
    assert list(costs) == list(CURRENCIES)
    assert costs["latency"] == 100 and costs["calls"] == 15 and costs["seconds"] == 0.5
    for link, latency in LINKS.items():
        assert costs[link] == pytest.approx(latency * 100 + 0.8 + 0.5)


def test_what_did_not_converge_costs_nothing_that_counts():
    cut, refused = standing(run("DPMM", "MAX_ROUNDS")), standing(run("DPMM", SKIPPED))
    assert cut.word == "cut" and cut.reason == "residual 1.0e-03 after 90 rounds"
    assert refused.word == "cannot" and refused.reason == "It cannot"
    assert all(math.isinf(value) for value in (*cut.costs.values(), *refused.costs.values()))


def test_a_rival_that_is_first_is_shown_so():
    found = [standing(run("Newton")), standing(run("DPMM", floats=1000))]
    found.append(standing(run("CoLA", "STALLED")))
    won = firsts(found)
    assert won["floats"] == {"DPMM": 1} and won["latency"] == {"Newton": 1}
    lost = {currency: (method, factor) for _, _, currency, method, factor in behind(found)}
    assert lost["floats"] == ("DPMM", 1250.0) and "latency" not in lost
    text = peers_markdown(found, "A title")
    assert (
        "None of ours is first here" in text and "| LP | floats | DPMM | ring 1.25e+03× |" in text
    )
    assert "- CoLA, LP: stalled (ring: It cannot)" in text


def test_ours_that_fail_are_shown_so():
    found = [standing(run("Newton", "STALLED")), standing(run("DPMM"))]
    assert "ring (ours did not converge)" in peers_markdown(found, "A title")


def test_tables_tell_the_same():
    found = [standing(run("Newton")), standing(run("DPMM", "DIVERGED"))]
    rows = [line.split(",") for line in peers_csv(found).splitlines()]
    assert rows[0][5:12] == list(CURRENCIES) and rows[2][5:12] == [""] * 7
    stored = json.loads(peers_json(found))
    assert stored["runs"][0]["costs"]["latency"] == 100
    assert stored["runs"][1]["costs"]["WAN"] is None and stored["model"]["latency"] == LINKS


def test_ties_go_to_the_first_method():
    costs = dict.fromkeys(CURRENCIES, 1.0)
    same = [Standing("LP", "ring", m, "", "CONVERGED", costs, "", "") for m in ("a", "b")]
    assert firsts(same)["calls"] == {"a": 1}


# -- the command -----------------------------------------------------------------------------------
def bench(arguments):
    with pytest.raises(SystemExit) as end:
        main(["bench", *arguments])
    return end.value.code


def test_the_command_writes_everything_and_continues(tmp_path, monkeypatch, capsys):
    some = peers.peer_cases(True, ["elastic net"], ["complete"], ["Newton", "FISTA", "DC-ADMM"])
    some = [case for case in some if "tune" not in case.notes]
    monkeypatch.setattr(peers, "peer_cases", lambda quick: some)
    arguments = ["peers", "--quick", "--workers", "1", "--out", str(tmp_path / "it")]
    assert bench(arguments) == 0
    printed = capsys.readouterr().out
    assert "First of all on so many of 1 problems" in printed and "2 runs made, 0 kept" in printed
    for suffix in ("md", "csv", "json", "png"):
        assert (tmp_path / "it" / f"peers.{suffix}").stat().st_size > 100
    assert bench(arguments) == 0
    again = capsys.readouterr().out
    assert "0 runs made, 2 kept" in again
    assert printed.partition("##")[0] == again.partition("##")[0]


def test_files_of_others_are_not_replaced(tmp_path):
    (tmp_path / "peers.csv").write_text("mine")
    assert bench(["peers", "--out", str(tmp_path)]) == 2
    assert (tmp_path / "peers.csv").read_text() == "mine"


def test_quick_is_of_peers_alone():
    assert bench(["scaling", "--quick"]) == 2


def test_predictions_are_finite_where_runs_converge():
    found = standing(run("Newton"))
    assert np.isfinite(list(found.costs.values())).all()
