"""Networks that lose, delay and repeat messages."""

from pathlib import Path

import networkx as nx
import numpy as np
import pytest

import dual2 as d2
from dual2.errors import CapabilityError, NetworkError
from dual2.runtime import Faults, SimulatedNetwork
from dual2.runtime.faults import Wires

METHODS = ("Newton", "iD2A", "MiD2A", "NPGA-ED")


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(5)
    agents = [
        d2.Agent(rng.standard_normal((3, 2)), d2.SquaredNorm(1 + rng.random()), d2.L1Norm(0.1))
        for _ in range(8)
    ]
    network = d2.Network(nx.circulant_graph(8, [1, 2]))
    return d2.Problem(agents, d2.SquaredLoss(rng.standard_normal(3))), network


def solve(case, method, **options):
    return d2.solve(*case, method=method, record=False, **options)


def same(a, b):
    return all(np.array_equal(u, v) for u, v in zip(a.x, b.x, strict=True))


@pytest.mark.parametrize("sums", ["tree", "exact"])
@pytest.mark.parametrize("method", METHODS)
def test_without_faults_it_is_the_plain_run(case, method, sums):
    plain, network = solve(case, method, sums=sums), SimulatedNetwork()
    found = solve(case, method, runtime=network, sums=sums)
    assert same(plain, found)
    assert plain.counts == found.counts
    seen = network.traffic
    assert (seen.lost, seen.resent, seen.missed, seen.gone) == (0, 0, 0, [])
    assert seen.exchanges >= found.counts.rounds if method != "Newton" else seen.exchanges == 0
    assert found.counts.rounds <= network.time
    if sums == "tree":  # exact sums agree on sizes too
        assert network.time <= found.counts.latency + 1


@pytest.mark.parametrize("policy", ["skip", "stale"])
def test_without_faults_no_policy_matters(case, policy):
    plain = solve(case, "NPGA-ED")
    assert same(plain, solve(case, "NPGA-ED", runtime=SimulatedNetwork(policy=policy)))


@pytest.mark.parametrize(
    "faults",
    [
        Faults(loss=0.3, seed=1),
        Faults(loss=0.2, burst=4.0, seed=2),
        Faults(loss=0.2, burst=3.0, both=True, seed=3),
        Faults(jitter=2.0, straggle=0.1, seed=4),
    ],
    ids=["loss", "spells", "links", "late"],
)
@pytest.mark.parametrize("method", METHODS)
def test_who_waits_gets_the_same_answer_later(case, method, faults):
    plain, network = solve(case, method), SimulatedNetwork(faults)
    found = solve(case, method, runtime=network)
    assert same(plain, found)
    assert plain.counts == found.counts
    seen = network.traffic
    assert network.time > found.counts.latency
    assert seen.resent == seen.lost and seen.missed == 0
    assert (seen.lost > 0) == (faults.loss > 0)


def test_counts_of_a_sum(case):
    network = SimulatedNetwork()
    result = solve(case, "Newton", runtime=network)
    tree, n = case[1].tree, case[1].n
    assert network.traffic.messages == network.traffic.sums * 2 * (n - 1)
    assert network.time == network.traffic.sums * 2 * tree.height == result.counts.latency


def test_the_share_of_losses_is_as_asked():
    graph = d2.Network(nx.complete_graph(20))
    used, now = np.arange(380), np.zeros(380)
    for faults in (Faults(loss=0.2, seed=7), Faults(loss=0.2, burst=5.0, seed=7)):
        wires = Wires(graph, faults)
        lost = np.array([wires.lost(used, now) for _ in range(400)])
        assert abs(lost.mean() - 0.2) < 0.01
        runs = lost.sum() / (lost[1:] & ~lost[:-1]).sum()
        assert abs(runs - (1.25 if faults.burst == 1 else 5.0)) < 0.2
    wires = Wires(graph, Faults(loss=0.2, both=True))
    lost = wires.lost(used, now)
    assert np.array_equal(lost, lost[wires.back])


def test_links_that_are_down_for_both_ends_keep_the_answer(case):
    plain = solve(case, "NPGA-ED")
    network = SimulatedNetwork(Faults(loss=0.1, both=True, seed=1), policy="skip")
    found = solve(case, "NPGA-ED", runtime=network)
    assert str(found.status) == "CONVERGED"
    assert network.traffic.missed > 0
    distance = max(np.abs(u - v).max() for u, v in zip(plain.x, found.x, strict=True))
    assert distance < 1e-6


def test_one_sided_losses_are_never_called_solved(case):
    network = SimulatedNetwork(Faults(loss=0.1, seed=1), policy="skip")
    found = solve(case, "NPGA-ED", runtime=network, max_rounds=2000)
    assert str(found.status) == "MAX_ROUNDS"
    assert found.certificate.kkt > 1e-5


def test_differences_cancel_unless_one_end_alone_misses(case):
    rng, sums = np.random.default_rng(0), {}
    for both in (True, False):
        network = SimulatedNetwork(Faults(loss=0.3, both=both, seed=2), policy="skip")
        network.owners(case[1])
        pointers, ends, weights = case[1].neighbours
        stage = np.vstack([rng.standard_normal((8, 3)), np.zeros((len(ends), 3))])
        network.exchange(stage, {}, {})()
        own = np.repeat(np.arange(8), np.diff(pointers))
        sums[both] = np.abs((weights[:, None] * (stage[own] - stage[8:])).sum(axis=0)).max()
    assert sums[True] < 1e-15 < 1e-3 < sums[False]


@pytest.mark.parametrize("sums", ["tree", "exact"])
def test_a_sum_goes_round_a_link_that_is_gone(case, sums):
    tree = case[1].tree
    child = int(tree.levels[-1][0])
    link = child, tree.root
    plain = solve(case, "Newton", sums=sums)
    network = SimulatedNetwork(Faults(cut={link: 6.0}), patience=3)
    found = solve(case, "Newton", runtime=network, sums=sums)
    assert network.traffic.gone == [tuple(sorted(link))]
    assert network.traffic.repairs == 1
    assert network.wires.tree.parent[child] != tree.root or network.wires.tree.root != tree.root
    assert str(found.status) == "CONVERGED"
    assert same(plain, found) or sums == "tree"
    assert np.allclose(np.concatenate(plain.x), np.concatenate(found.x), rtol=0, atol=1e-7)


def test_gossip_leaves_a_link_out_that_is_gone(case):
    network = SimulatedNetwork(Faults(cut={(0, 1): 100.0}), patience=4)
    found = solve(case, "NPGA-ED", runtime=network)
    assert str(found.status) == "CONVERGED"
    assert network.traffic.gone == [(0, 1)]


@pytest.mark.parametrize("method", ["Newton", "NPGA-ED"])
def test_a_network_that_falls_apart_is_an_error(case, method):
    cut = {(0, j): 5.0 for j in (1, 2, 6, 7)}
    with pytest.raises(NetworkError, match="fallen apart: 4 links gone"):
        solve(case, method, runtime=SimulatedNetwork(Faults(cut=cut), patience=3))


def test_late_rows_come_in_the_end(case):
    faults = Faults(straggle=0.2, lateness=5.0, seed=1)
    network = SimulatedNetwork(faults, policy="stale")
    solve(case, "NPGA-ED", runtime=network, max_rounds=200)
    seen = network.traffic
    assert 0 < seen.late == seen.missed
    assert seen.lost == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"loss": 1.0},
        {"loss": "much"},
        {"burst": 0.5},
        {"jitter": -1.0},
        {"straggle": 2.0},
        {"loss": 0.9, "burst": 2.0},
        {"cut": {(1, 1): 0.0}},
        {"cut": {(0, 1): -1.0}},
    ],
    ids=str,
)
def test_faults_that_cannot_be(wrong):
    with pytest.raises(NetworkError):
        Faults(**wrong)


@pytest.mark.parametrize("wrong", [{"policy": "hope"}, {"timeout": 0.5}, {"patience": 0}], ids=str)
def test_networks_that_cannot_be(wrong):
    with pytest.raises(CapabilityError):
        SimulatedNetwork(**wrong)


def test_cutting_a_link_that_is_none(case):
    with pytest.raises(NetworkError, match=r"\(0, 4\)"):
        solve(case, "Newton", runtime=SimulatedNetwork(Faults(cut={(0, 4): 1.0})))


def test_the_same_seed_is_the_same_network(case):
    times = set()
    for _ in range(2):
        network = SimulatedNetwork(Faults(loss=0.2, jitter=0.5, seed=9))
        solve(case, "Newton", runtime=network)
        times.add(network.time)
    assert len(times) == 1


def test_what_repetitions_cost_on_average():
    """Of two agents: 1 + timeout·q/(1-q) for each way."""
    pair = d2.Network([(0, 1)])
    network = SimulatedNetwork(Faults(loss=0.3, seed=3), timeout=3.0)
    for _ in range(2000):
        network.travel(pair)
    expected = 2 * (1 + 3 * 0.3 / 0.7)  # with a standard error of 2 %
    assert abs(network.time / 2000 / expected - 1) < 0.06


def test_the_example_of_the_documents(capsys):
    text = (Path(__file__).resolve().parents[2] / "docs" / "losses.md").read_text()
    exec(text.split("```python\n")[1].split("```")[0], {})
    assert capsys.readouterr().out.strip() == text.split("prints `")[1].split("`")[0]
