"""Results: saving, resuming bit for bit, limits, interrupts, statuses and their words."""

import json
import os
import signal
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from functools import partial

import networkx as nx
import numpy as np
import pytest
from scipy.sparse.linalg import LinearOperator

import dual2 as d2
from dual2.paper.problems.elastic_net_regression import experiment1
from dual2.solving.result import ADVICE
from dual2.testing import PAIRS, known_problem
from problems import random_problem

PROBLEM, NETWORK, REFERENCE = experiment1()
solve = partial(d2.solve, method="iD2A")
ENDLESS = {"tol": 0.0, "atol": 1e-300}


def same(one, two):
    """Bit for bit the same point, state and counts."""
    np.testing.assert_array_equal(one.duals, two.duals)
    np.testing.assert_array_equal(np.concatenate(one.x), np.concatenate(two.x))
    assert one.counts == two.counts
    assert one.state.keys() == two.state.keys()
    for name in one.state.keys() - {"driver_seconds"}:
        np.testing.assert_array_equal(one.state[name], two.state[name], err_msg=name)


# -- resuming ---------------------------------------------------------------------------------
RUNS = {
    "rho > 0": {"max_rounds": 997},
    "rho = 0": {"max_rounds": 61, "rho": 0},
    "MiD2A": {"max_rounds": 2995, "method": "MiD2A"},
    "MiD2A rho = 0": {"max_rounds": 85, "method": "MiD2A", "rho": 0},
    "printed rules": {"max_rounds": 997, "accuracy": "paper", "constants": "paper"},
    "restarts": {"max_rounds": 997, "restart": True},
}


@pytest.mark.parametrize("name", RUNS)
def test_cut_by_rounds_and_resumed(name, tmp_path):
    wishes = RUNS[name] | ENDLESS
    whole = solve(PROBLEM, NETWORK, **wishes)
    part = None
    for cut in (0, 1, 7, 23, 60, 333, 334):
        if cut < wishes["max_rounds"]:
            part = solve(PROBLEM, NETWORK, start=part, **wishes | {"max_rounds": cut})
            assert part.status == "MAX_ROUNDS"
            part.save(tmp_path / "part")
            part = d2.Result.load(tmp_path / "part")
    same(solve(PROBLEM, NETWORK, start=part, **wishes), whole)


@pytest.mark.parametrize("seed", [38, 122, 5, 141])
@pytest.mark.parametrize("method", ["iD2A", "MiD2A"])
def test_cut_anywhere_and_resumed(seed, method):
    """Problems with inexact local solves, nonsmooth h and restarts, cut at every early round."""
    problem, network = random_problem(seed)
    wishes = ENDLESS | {"method": method}
    whole = solve(problem, network, max_rounds=300, **wishes)
    part = None
    for cut in (*range(1, 40, 3), 77, 150, 300):
        part = solve(problem, network, start=part, max_rounds=cut, **wishes)
    same(part, whole)


@pytest.mark.parametrize("name", ["rho > 0", "rho = 0", "MiD2A"])
def test_cut_by_time_and_resumed(name, monkeypatch):
    """Pauses fall where the clock wills; the path does not depend on them."""
    wishes = RUNS[name] | ENDLESS
    whole = solve(PROBLEM, NETWORK, **wishes)
    monkeypatch.setattr("dual2.solving.driver.CHUNK_SECONDS", 1e-5)
    part = solve(PROBLEM, NETWORK, time_limit=0.0, **wishes)
    assert part.status == "TIME_LIMIT" and part.counts.rounds == 0
    cuts = 0
    while part.status == "TIME_LIMIT" and cuts < 40:
        limit = part.seconds + 2e-4
        part = solve(PROBLEM, NETWORK, start=part, time_limit=limit, **wishes)
        cuts += 1
    same(solve(PROBLEM, NETWORK, start=part, **wishes), whole)


def test_a_converged_run_continues_to_a_smaller_tolerance():
    rough = solve(PROBLEM, NETWORK, tol=1e-4)
    fine, whole = (solve(PROBLEM, NETWORK, tol=1e-8, start=start) for start in (rough, None))
    assert fine.status == "CONVERGED"
    assert fine.counts.rounds == whole.counts.rounds > rough.counts.rounds
    np.testing.assert_array_equal(fine.duals, whole.duals)


def test_the_trace_continues_too():
    part = solve(PROBLEM, NETWORK, max_rounds=500, reference=REFERENCE)
    rest = solve(PROBLEM, NETWORK, start=part, max_rounds=2000, reference=REFERENCE)
    rounds = rest.trace["rounds"]
    assert rounds[0] == 0 and rounds[-1] == 2000 and np.all(np.diff(rounds) > 0)
    assert np.all(np.diff(rest.trace["seconds"]) >= 0)


def test_another_problem_is_warm_started_not_continued():
    """A result that does not fit bit for bit still serves as a start."""
    problem, _, _ = known_problem(*PAIRS[1])
    network = d2.Network(nx.path_graph(5))
    first = solve(problem, network)
    moved = d2.Problem(problem.agents, problem.h.tilt(1e-4))
    cold, warm = (solve(moved, network, start=start) for start in (None, first))
    assert warm.status == cold.status == "CONVERGED"
    assert warm.counts.rounds < cold.counts.rounds
    np.testing.assert_allclose(np.concatenate(warm.x), np.concatenate(cold.x), atol=1e-6)
    for lam in (first.dual, first.duals):
        again = solve(moved, network, start=(first.x, lam))
        assert again.counts.rounds < cold.counts.rounds
    other = solve(problem, network, method="MiD2A", start=first)
    assert other.counts.rounds <= 100 and other.status == "CONVERGED"


def test_a_start_is_not_changed():
    x, lam = np.ones(9), np.ones((8, 20))
    first = solve(PROBLEM, NETWORK, max_rounds=200)
    before = {k: np.copy(v) for k, v in first.state.items()}
    solve(PROBLEM, NETWORK, start=(x, lam), max_rounds=100)
    solve(PROBLEM, NETWORK, start=first, max_rounds=400)
    assert np.all(x == 1) and np.all(lam == 1)
    for name, value in first.state.items():
        np.testing.assert_array_equal(value, before[name])


# -- saving -----------------------------------------------------------------------------------
def test_save_and_load(tmp_path):
    result = solve(PROBLEM, NETWORK, tol=1e-6, reference=REFERENCE)
    target = tmp_path / "run.result"
    result.save(target)
    assert os.listdir(tmp_path) == ["run.result"]
    again = d2.Result.load(target)
    same(again, result)
    for name in ("objective", "status", "counts", "certificate", "seconds", "versions"):
        assert getattr(again, name) == getattr(result, name)
    assert again.explain() == result.explain()
    np.testing.assert_array_equal(again.y, result.y)
    np.testing.assert_array_equal(again.dual, result.dual)
    assert again.trace.keys() == result.trace.keys()
    for name, column in result.trace.items():
        np.testing.assert_array_equal(again.trace[name], column)


def test_saving_over_a_file_replaces_it(tmp_path):
    target = tmp_path / "run"
    solve(PROBLEM, NETWORK, max_rounds=10).save(target)
    solve(PROBLEM, NETWORK, max_rounds=20).save(target)
    assert d2.Result.load(target).counts.rounds == 20


@pytest.mark.parametrize("kind", ["empty", "text", "missing", "cut", "foreign"])
def test_loading_what_is_no_result(tmp_path, kind):
    target = tmp_path / "file"
    if kind == "cut":
        solve(PROBLEM, NETWORK, max_rounds=10).save(target)
        target.write_bytes(target.read_bytes()[:500])
    elif kind == "foreign":
        with target.open("wb") as stream:
            np.savez(stream, x=np.ones(3))
    elif kind != "missing":
        target.write_bytes(b"" if kind == "empty" else b"not a result")
    with pytest.raises(d2.Dual2Error, match="not a saved result"):
        d2.Result.load(target)


def test_infeasible_results_survive_saving(tmp_path):
    agents = [d2.Agent([[1.0]], d2.SquaredNorm(1.0), d2.IndicatorBox(0.0, 1.0))] * 2
    problem = d2.Problem(agents, d2.IndicatorPoint([5.0]))
    result = solve(problem, d2.Network([(0, 1)]))
    result.save(tmp_path / "run")
    again = d2.Result.load(tmp_path / "run")
    assert again.status == "INFEASIBLE" and again.objective == np.inf
    assert again.certificate == result.certificate


def test_as_dict_is_json():
    result = solve(PROBLEM, NETWORK, tol=1e-4)
    content = json.loads(json.dumps(result.as_dict(), allow_nan=False))
    assert set(content) >= {
        "format",
        "status",
        "x",
        "y",
        "dual",
        "objective",
        "counts",
        "certificate",
        "parameters",
        "versions",
    }
    assert content["status"] == "CONVERGED"
    assert content["counts"] == asdict(result.counts)
    np.testing.assert_array_equal(np.concatenate(content["x"]), np.concatenate(result.x))


# -- limits and interrupts ---------------------------------------------------------------------
def test_max_rounds_is_kept():
    for cut in (0, 1, 13, 250):
        result = solve(PROBLEM, NETWORK, max_rounds=cut)
        assert (result.status, result.counts.rounds) == ("MAX_ROUNDS", cut)
        for degree in (4, 5):
            result = solve(PROBLEM, NETWORK, method="MiD2A", degree=degree, max_rounds=cut)
            assert cut - degree < result.counts.rounds <= cut
            assert result.status == "MAX_ROUNDS"


def test_callback():
    seen = []
    solve(PROBLEM, NETWORK, tol=1e-3, callback=seen.append)
    rounds = [info["rounds"] for info in seen]
    assert rounds == sorted(set(rounds)) and len(rounds) > 5
    assert seen[-1]["x"].shape == (9,) and seen[-1]["duals"].shape == (8, 20)
    assert all(info["kkt"] >= 0 and info["seconds"] >= 0 for info in seen)
    result = solve(PROBLEM, NETWORK, callback=lambda info: info["rounds"] >= rounds[3])
    assert (result.status, result.counts.rounds) == ("INTERRUPTED", rounds[3])
    whole = solve(PROBLEM, NETWORK, tol=1e-8)
    same(solve(PROBLEM, NETWORK, tol=1e-8, start=result), whole)


def test_a_callbacks_exception_surfaces():
    with pytest.raises(ZeroDivisionError):
        solve(PROBLEM, NETWORK, callback=lambda info: 1 / 0)


def test_interrupt_returns_the_best_so_far():
    """Another thread sends SIGINT in the middle of the run."""
    running = threading.Event()

    def send():
        running.wait(60)
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=send)
    thread.start()

    def callback(info):
        if info["rounds"] > 1000:
            running.set()

    result = solve(PROBLEM, NETWORK, callback=callback, max_rounds=10**9, **ENDLESS)
    thread.join()
    assert result.status == "INTERRUPTED"
    assert result.counts.rounds > 1000
    assert result.certificate.kkt < 1
    assert signal.getsignal(signal.SIGINT) is before
    rest = solve(PROBLEM, NETWORK, start=result)
    assert rest.status == "CONVERGED"


def test_interrupt_inside_a_users_function():
    """The signal arrives while the compiled loop is out for a callback."""
    calls = 0

    def grad(x):
        nonlocal calls
        calls += 1
        if calls == 500:
            os.kill(os.getpid(), signal.SIGINT)
        return 2 * x

    agents = [d2.Agent(np.eye(2), d2.Smooth(grad, 1.0, 2.0, lambda x: x @ x)) for _ in range(3)]
    problem = d2.Problem(agents, d2.IndicatorPoint([1.0, 1.0]))
    result = solve(problem, d2.Network(nx.path_graph(3)), max_rounds=10**7, **ENDLESS)
    assert result.status == "INTERRUPTED"
    assert np.all(np.isfinite(np.concatenate(result.x)))


def test_solve_works_outside_the_main_thread():
    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(solve, PROBLEM, NETWORK, tol=1e-3).result()
    same(result, solve(PROBLEM, NETWORK, tol=1e-3))


def test_runs_in_parallel_do_not_disturb_each_other():
    alone = solve(PROBLEM, NETWORK, tol=1e-6)
    with ThreadPoolExecutor(3) as pool:
        jobs = [pool.submit(solve, PROBLEM, NETWORK, tol=1e-6) for _ in range(3)]
        for job in jobs:
            same(job.result(), alone)


def test_throw():
    with pytest.raises(d2.NotSolved, match=r"MAX_ROUNDS: .*max_rounds") as caught:
        solve(PROBLEM, NETWORK, max_rounds=50, throw=True)
    assert caught.value.result.counts.rounds == 50
    assert isinstance(caught.value, d2.Dual2Error)
    assert solve(PROBLEM, NETWORK, tol=1e-2, throw=True).status == "CONVERGED"


def test_a_stall_is_a_status():
    """A tolerance below rounding level: told after some doublings, not after max_rounds."""
    problem, x, _ = known_problem(*PAIRS[1])
    limits = {"max_rounds": 10**8, "record": False, **ENDLESS}
    result = d2.solve(problem, d2.Network(nx.path_graph(5)), method="NPGA-ED", **limits)
    assert result.status == "STALLED"
    np.testing.assert_allclose(np.concatenate(result.x), np.concatenate(x), atol=1e-9)


# -- words and numbers ---------------------------------------------------------------------------
def test_every_status_has_advice():
    assert set(ADVICE) == set(d2.Status)
    assert all(len(text) > 10 for text in ADVICE.values())
    assert d2.Status("CONVERGED") is d2.Status.CONVERGED and d2.Status.STALLED == "STALLED"


def test_explain():
    result = solve(PROBLEM, NETWORK)
    text = result.explain()
    assert "iD2A with iDAPG. Case 1: h* is 20-strongly convex and 20-smooth" in text
    assert "rho = 768789" in text and "Remark 10 (choice of ρ)" in text
    assert "CONVERGED after" in text and "KKT residual" in text and "|x - x*| ≤" in text
    for name in result.parameters:
        assert f"  {name} = " in text
    other = solve(PROBLEM, NETWORK, method="mid2a", rho=5.0, eta=0.2, max_rounds=10).explain()
    assert "MiD2A" in other and "rho = 5  [given]" in other and "eta = 0.2  [given]" in other
    assert "5 rounds of" in other and ADVICE[d2.Status.MAX_ROUNDS] in other


def test_the_certificate_is_said_in_sentences():
    """With a bound of the error and without; one full stop after the reason."""
    bounded = solve(PROBLEM, NETWORK, max_rounds=50)
    c = bounded.certificate
    said = f", |x - x*| ≤ {c.x_error:.3g}. {c.reason}"
    assert c.reason.startswith("The bound follows from")
    assert bounded.explain().endswith(said)
    missing = replace(c, gap=None, x_error=None, reason="The coupling lies outside.")
    said = replace(bounded, certificate=missing).explain()
    assert said.endswith(", duality gap infinite. The coupling lies outside.")


def test_parameters_have_values_and_sources():
    result = solve(PROBLEM, NETWORK, max_rounds=10)
    assert result.parameters["rho"][0] == pytest.approx(768788.85, abs=0.01)
    assert all(isinstance(source, str) and source for _, source in result.parameters.values())


def test_certificate_is_the_plain_definition():
    result = solve(PROBLEM, NETWORK, max_rounds=3000)
    kkt, c = PROBLEM.kkt(result.x, result.dual), result.certificate
    assert (c.kkt, c.stationarity, c.coupling) == (kkt.kkt, kkt.stationarity, kkt.coupling)
    assert c.gap == PROBLEM.gap(result.x, result.dual)
    spread = np.linalg.norm(result.duals - result.dual, axis=1).max()
    assert c.consensus == pytest.approx(spread)
    np.testing.assert_allclose(result.dual, result.duals.mean(axis=0))
    np.testing.assert_allclose(result.y, PROBLEM.coupling(result.x))
    assert result.objective == PROBLEM.objective(result.x)
    truth = np.linalg.norm(np.concatenate(result.x) - np.concatenate(REFERENCE))
    assert truth <= c.x_error
    best = PROBLEM.objective(REFERENCE)
    assert result.objective - best <= c.gap + 1e-9 * abs(best)


def test_trace():
    result = solve(PROBLEM, NETWORK, reference=REFERENCE, tol=1e-6)
    trace, length = result.trace, len(result.trace["rounds"])
    assert set(trace) >= {"rounds", "iterations", "seconds", "kkt", "gap", "grad_f", "prox_h", "A"}
    assert all(len(column) == length for column in trace.values())
    assert trace["rounds"][0] == 0 and trace["gap"][0] == 1.0
    assert np.all(np.diff(trace["rounds"]) > 0)
    assert trace["rounds"][-1] == result.counts.rounds
    assert trace["kkt"][-1] == pytest.approx(result.certificate.kkt, rel=1e-6)
    assert length < 400
    bare = solve(PROBLEM, NETWORK, tol=1e-6, record=False)
    assert bare.trace == {}
    np.testing.assert_array_equal(bare.duals, result.duals)
    assert bare.counts == result.counts


def counting_agent(A, calls):
    """½|x|² + 0.1|x|₁ with its calls counted by hand."""

    def call(name, function):
        def counted(*arguments):
            calls[name] += 1
            return function(*arguments)

        return counted

    soft = d2.L1Norm(0.1).prox
    return d2.Agent(
        LinearOperator(
            A.shape, dtype=float, matvec=call("A", A.__matmul__), rmatvec=call("AT", A.T.__matmul__)
        ),
        d2.Smooth(call("grad_f", np.copy), 1.0, 1.0),
        d2.Proximable(call("prox_g", soft)),
    )


@pytest.mark.parametrize("wishes", [{}, {"subsolver": "LPD"}, {"method": "NPGA-ED"}], ids=str)
def test_counts_are_the_calls(wishes):
    """Nothing is counted that was not called; only the certificate comes on top, tried twice."""
    rng, calls = np.random.default_rng(0), [Counter() for _ in range(3)]
    agents = [counting_agent(rng.standard_normal((4, 3)), own) for own in calls]
    problem = d2.Problem(agents, d2.SquaredLoss(rng.standard_normal(4)))
    network = d2.Network(nx.path_graph(3))
    counts = solve(problem, network, tol=1e-6, record=False, **wishes).counts
    for name in ("grad_f", "prox_g", "A", "AT"):
        most = max(own[name] for own in calls)
        assert 0 <= most - getattr(counts, name) <= 20, name


def test_counts():
    result = solve(PROBLEM, NETWORK, tol=1e-4)
    c = result.counts
    assert c.vectors == c.rounds == c.iterations and c.matvec == c.A + c.AT
    assert c.grad_f >= c.iterations and c.prox_g == c.grad_f and c.prox_h >= c.iterations
    agreed = c.floats - 2 * 7 * 20 * c.rounds
    assert agreed > 0 and c.agree_rounds > 0
    height = NETWORK.tree.height
    assert c.agree_rounds % (2 * height) == 0 and agreed % (2 * 7) == 0


def test_a_result_is_shown_in_one_paragraph_however_many_agents_it_has():
    result = solve(PROBLEM, NETWORK, max_rounds=3)
    assert repr(result) == f"<Result: {result.summary}>"
    assert len(repr(result)) < 500
