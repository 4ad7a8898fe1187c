"""Threads: the same bits as one thread, chosen by size."""

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

import dual2 as d2
from dual2.runtime import Runtime
from dual2.runtime.rows import WORTH, Team, choose_threads
from zoo import COMPILED, problem


def answer(threads, monkeypatch, names, **wishes):
    monkeypatch.setenv("DUAL2_THREADS", threads)
    here = problem(names=names)
    network = d2.Network(nx.cycle_graph(here.n) if here.n > 2 else nx.path_graph(here.n))
    wishes = {"method": "iD2A", "record": False} | wishes
    return d2.solve(here, network, tol=1e-15, max_rounds=150, **wishes)


@pytest.mark.parametrize(
    "wishes",
    [{}, {"method": "MiD2A", "degree": 3}, {"rho": 0}, {"mapping": "smooth"}],
    ids=["iD2A", "MiD2A", "rho=0", "smooth"],
)
@pytest.mark.parametrize("names", [COMPILED, COMPILED[:1], COMPILED[:2]], ids=["10", "1", "2"])
def test_threads_give_the_same_bits(names, wishes, monkeypatch):
    one, two, three = (answer(k, monkeypatch, names, **wishes) for k in "123")
    for other in (two, three):
        assert other.counts == one.counts
        np.testing.assert_array_equal(other.duals, one.duals)
        np.testing.assert_array_equal(other.state["inner_lam"], one.state["inner_lam"])
        np.testing.assert_array_equal(np.concatenate(other.x), np.concatenate(one.x))


@pytest.mark.parametrize("room", [600, 500_000], ids=["some at a time", "all at once"])
def test_threads_give_the_same_sums(room, monkeypatch):
    monkeypatch.setattr("dual2.runtime.transport.ROOM", room)
    rng, unit = np.random.default_rng(5), sp.csc_array(sp.eye_array(8))
    agents = [
        d2.Agent(unit, d2.SquaredNorm(w), d2.IndicatorBox(0.0, most))
        for w, most in zip(rng.uniform(0.5, 2.0, 50), rng.uniform(1, 5, (50, 8)), strict=True)
    ]
    here, found = d2.Problem(agents, d2.IndicatorPoint(np.linspace(20, 90, 8))), []
    for threads in "123":
        monkeypatch.setenv("DUAL2_THREADS", threads)
        found.append(d2.solve(here, d2.Network(nx.balanced_tree(7, 2).subgraph(range(50)))))
    one = found[0]
    assert one.status == "CONVERGED" and one.parameters["method"][0] == "Newton"
    for other in found[1:]:
        assert other.counts == one.counts
        np.testing.assert_array_equal(other.state["G"], one.state["G"])
        np.testing.assert_array_equal(np.concatenate(other.x), np.concatenate(one.x))


def test_user_functions_stay_on_one_thread(monkeypatch):
    monkeypatch.setenv("DUAL2_THREADS", "2")
    here = problem()
    assert Runtime(here, d2.Network(nx.path_graph(here.n))).team.threads == 1


def test_small_work_takes_one_thread(monkeypatch):
    monkeypatch.delenv("DUAL2_THREADS", raising=False)
    assert choose_threads(0.5 * WORTH) == 1
    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(3), raising=False)
    assert choose_threads(100 * WORTH) == 3
    monkeypatch.setenv("DUAL2_THREADS", "5")
    assert choose_threads(1.0) == 5


def test_a_team_runs_everyone():
    seen = []
    Team(3).run(lambda member: seen.append((member.thread, member.threads)))
    assert sorted(seen) == [(0, 3), (1, 3), (2, 3)]
