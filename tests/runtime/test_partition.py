"""Partitions of agents to processes: balanced, connected where it matters, checked."""

import networkx as nx
import numpy as np
import pytest

from dual2.errors import NetworkError
from dual2.network import Network
from dual2.runtime.assignment import cut_edges, given_partition, partition

GRAPHS = {
    "path": nx.path_graph(17),
    "cycle": nx.cycle_graph(24),
    "grid": nx.convert_node_labels_to_integers(nx.grid_2d_graph(6, 7)),
    "star": nx.star_graph(12),
    "tree": nx.balanced_tree(2, 4),
    "regular": nx.random_regular_graph(4, 60, seed=1),
    "complete": nx.complete_graph(9),
}


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 9])
def test_balanced_and_every_rank_has_agents(name, ranks):
    network = Network(GRAPHS[name])
    found = partition(network, ranks)
    sizes = np.bincount(found, minlength=ranks)
    assert sizes.sum() == network.n and len(sizes) == ranks
    assert sizes.max() - sizes.min() <= 1
    assert np.array_equal(found, partition(network, ranks))


def test_few_edges_are_cut():
    assert cut_edges(Network(nx.path_graph(64)), partition(Network(nx.path_graph(64)), 4)) == 3
    cycle = Network(nx.cycle_graph(24))
    assert cut_edges(cycle, partition(cycle, 4)) == 4
    grid = Network(GRAPHS["grid"])
    assert cut_edges(grid, partition(grid, 2)) <= 7


def test_labels_do_not_hide_the_clusters():
    """Two cliques joined by one edge, their nodes interleaved and shuffled."""
    order = np.random.default_rng(0).permutation(20)
    graph = nx.relabel_nodes(nx.barbell_graph(10, 0), dict(enumerate(order.tolist())))
    network = Network(graph)
    found = partition(network, 2)
    assert cut_edges(network, found) == 1


def test_random_graphs_are_cut_less_than_by_chance():
    network = Network(GRAPHS["regular"])
    found = partition(network, 2)
    rng = np.random.default_rng(0)
    chance = [cut_edges(network, rng.permutation(found)) for _ in range(200)]
    assert cut_edges(network, found) < min(chance)


def test_ten_thousand_agents():
    network = Network(nx.random_regular_graph(4, 10_000, seed=0))
    sizes = np.bincount(partition(network, 8))
    assert sizes.tolist() == [1250] * 8


@pytest.mark.parametrize("ranks", [0, 4, -1])
def test_more_ranks_than_agents(ranks):
    with pytest.raises(NetworkError, match=rf"{ranks} processes for 3 agents.*between 1 and 3"):
        partition(Network(nx.path_graph(3)), ranks)


def test_users_own(tmp_path):
    file = tmp_path / "partition.txt"
    file.write_text("0 1\n# the third agent\n1 0\n")
    assert given_partition(file, 4, 2).tolist() == [0, 1, 1, 0]
    assert given_partition(np.array([1, 0]), 2, 2).tolist() == [1, 0]


@pytest.mark.parametrize(
    "given, message",
    [
        ([0, 1], "expected 3 whole"),
        ([0.5, 1, 0], "whole"),
        ([0, 1, 2], "agent 2 to rank 2"),
        ([0, 0, 0], "rank 1 without an agent"),
    ],
)
def test_wrong_partitions(given, message):
    with pytest.raises(NetworkError, match=message):
        given_partition(given, 3, 2)


def test_wrong_file(tmp_path):
    (tmp_path / "words.txt").write_text("first second")
    for name in ("words.txt", "missing.txt"):
        with pytest.raises(NetworkError, match=f"{name} is not a partition"):
            given_partition(tmp_path / name, 2, 2)
