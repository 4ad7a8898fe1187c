"""Reading graphs, edge weights, gossip products, spanning tree."""

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

from dual2.errors import NetworkError
from dual2.network import Network
from rounding import EPS, eigenvalue_rounding, product_rounding

GRAPHS = {
    "path": nx.path_graph(8),
    "star": nx.star_graph(6),
    "complete": nx.complete_graph(5),
    "random": nx.connected_watts_strogatz_graph(20, 4, 0.5, seed=1),
    "pair": nx.path_graph(2),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_laplacian_weights_are_the_papers(name):
    graph = GRAPHS[name]
    network = Network(graph)
    L = nx.laplacian_matrix(graph, nodelist=range(len(graph))).toarray()
    expected = L / (4 * (max(d for _, d in graph.degree) + 1))
    few = len(graph) * EPS  # a diagonal entry is a sum of at most n - 1 weights, all below 1
    np.testing.assert_allclose(network.matrix.toarray(), expected, rtol=few)
    np.testing.assert_allclose(network.W.toarray(), np.eye(len(graph)) - 2 * expected, atol=few)


def test_metropolis_weights_by_definition():
    graph = GRAPHS["random"]
    degree = dict(graph.degree)
    W = np.zeros((20, 20))
    for i, j in graph.edges:
        W[i, j] = W[j, i] = 1 / (1 + max(degree[i], degree[j]))
    W += np.diag(1 - W.sum(axis=1))
    C = (np.eye(20) - (np.eye(20) + W) / 2) / 2
    np.testing.assert_allclose(Network(graph, "metropolis").matrix.toarray(), C, atol=20 * EPS)


def test_edge_attributes_are_used_only_on_request():
    graph = nx.Graph()
    graph.add_edge(0, 1, weight=2.0)
    graph.add_edge(1, 2, weight=6.0)
    np.testing.assert_allclose(Network(graph).weights, [1 / 12, 1 / 12])
    np.testing.assert_allclose(Network(graph, "weight").weights, np.array([2, 6]) / (4 * (8 + 6)))
    equal = nx.path_graph(4)
    nx.set_edge_attributes(equal, 3.7, "weight")
    np.testing.assert_allclose(Network(equal, "weight").weights, Network(equal).weights)


def test_integer_labels_name_the_agent_whatever_their_order():
    graph = nx.Graph([(2, 0), (0, 1), (1, 3)])
    assert list(graph) != [0, 1, 2, 3]
    network = Network(graph)
    assert network.nodes == (0, 1, 2, 3)
    assert network.edges.tolist() == [[0, 1], [0, 2], [1, 3]]


def test_other_labels_keep_iteration_order():
    network = Network(nx.Graph([("c", "a"), ("a", "b")]))
    assert network.nodes == ("c", "a", "b")
    assert network.edges.tolist() == [[0, 1], [1, 2]]
    assert Network([(5, 1), (1, 7)]).nodes == (5, 1, 7)


def test_edge_lists_and_arrays_of_pairs():
    expected = Network(nx.cycle_graph(4)).matrix.toarray()
    pairs = [(0, 1), (1, 2), (3, 2), (0, 3), (1, 0)]
    for graph in (pairs, iter(pairs), np.array(pairs), [list(p) for p in pairs]):
        np.testing.assert_array_equal(Network(graph).matrix.toarray(), expected)


def test_two_by_two_integers_are_edges_unless_some_are_negative():
    assert Network(np.array([[0, 1], [1, 2]])).n == 3
    np.testing.assert_array_equal(Network(np.array([[1, -1], [-1, 1]])).weights, [1.0])


def test_vector_of_weights_follows_the_order_given():
    network = Network([(2, 1), (0, 1)], [5.0, 7.0])
    assert network.edges.tolist() == [[0, 1], [1, 2]]
    assert network.weights.tolist() == [7.0, 5.0]


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix, sp.coo_array])
def test_gossip_matrix_is_taken_as_it_is(form):
    C = Network(GRAPHS["random"], "metropolis").matrix.toarray()
    network = Network(form(C))
    np.testing.assert_allclose(network.matrix.toarray(), C, rtol=network.n * EPS)
    again = Network(GRAPHS["random"], form(C))
    np.testing.assert_array_equal(again.weights, network.weights)


def test_negative_edge_weights_are_legal_while_semidefinite():
    C = np.array([[2.0, -2.2, 0.2], [-2.2, 4.4, -2.2], [0.2, -2.2, 2.0]])
    network = Network(C)
    assert network.weights.min() < 0
    np.testing.assert_allclose(network.lambda_min, np.linalg.eigvalsh(C)[1], rtol=1e-12)


@pytest.mark.parametrize("name", GRAPHS)
def test_the_majorant_is_one(name):
    """C ≤ diag(m), also for the Chebyshev polynomial; tight if the graph is bipartite."""
    network = Network(GRAPHS[name], "metropolis")
    least = lambda m, C: np.linalg.eigvalsh(np.diag(m) - C).min()  # noqa: E731
    few = eigenvalue_rounding(network.matrix.toarray())
    assert least(network.majorant, network.matrix.toarray()) >= -few
    fast = network.chebyshev()
    assert least(fast.majorant, fast.mix(np.eye(network.n))) >= -few * fast.rounds
    if nx.is_bipartite(GRAPHS[name]):
        assert least(network.majorant, network.matrix.toarray()) <= few


def test_the_majorant_of_a_complete_graph_is_its_eigenvalue():
    network = Network(nx.complete_graph(9))
    np.testing.assert_array_equal(network.majorant, np.full(9, network.lambda_max))


def test_the_majorant_leaves_out_negative_weights():
    network = Network(np.array([[2.0, -2.2, 0.2], [-2.2, 4.4, -2.2], [0.2, -2.2, 2.0]]))
    np.testing.assert_allclose(network.majorant, [4.4, 8.8, 4.4], rtol=4 * EPS)
    above = np.diag(network.majorant) - network.matrix.toarray()
    assert np.linalg.eigvalsh(above).min() >= -eigenvalue_rounding(above)


def test_neighbours_are_sorted_rows_of_weights():
    network = Network(GRAPHS["random"], "metropolis")
    indptr, indices, data = network.neighbours
    assert (indptr.dtype, indices.dtype, data.dtype) == (np.int64, np.int64, np.float64)
    C = network.matrix.toarray()
    for i in range(network.n):
        row = slice(indptr[i], indptr[i + 1])
        assert indices[row].tolist() == [j for j in range(20) if j != i and C[i, j] != 0]
        np.testing.assert_array_equal(data[row], -C[i, indices[row]])


@pytest.mark.parametrize("shape", [(20,), (20, 1), (20, 7)])
def test_mix_is_the_product(shape):
    network = Network(GRAPHS["random"], "metropolis")
    V = np.random.default_rng(0).standard_normal(shape)
    assert network.mix(V).shape == shape
    few = product_rounding(network.matrix.toarray(), V)
    np.testing.assert_allclose(network.mix(V), network.matrix @ V, rtol=0, atol=few)


def test_mix_conserves_column_sums_over_many_accumulations():
    network = Network(nx.path_graph(8))
    rng = np.random.default_rng(3)
    z = np.zeros((8, 4))
    blocks = [1e6 + rng.standard_normal((8, 4)) for _ in range(50)]
    for k in range(100_000):
        z += network.mix(blocks[k % 50])
    assert np.abs(z.sum(axis=0)).max() <= 1e-12 * np.abs(z).max()
    assert np.abs(network.mix(np.full((8, 3), np.pi))).max() == 0.0


def test_single_agent():
    network = Network(nx.empty_graph(1))
    assert (network.n, network.lambda_min, network.lambda_max, network.kappa) == (1, 0.0, 0.0, 1.0)
    assert network.mix([[3.0, 4.0]]).tolist() == [[0.0, 0.0]]
    assert network.tree.height == 0 and network.tree.levels == []
    assert network.tree.parent.tolist() == [-1]
    assert network.chebyshev().mix([2.0]).tolist() == [0.0]
    assert Network(np.zeros((1, 1))).n == 1
    assert Network(nx.empty_graph(1), "weight").n == 1


@pytest.mark.parametrize("graph", [*GRAPHS.values(), nx.grid_2d_graph(6, 9)])
def test_tree_spans_and_its_root_is_central(graph):
    network = Network(graph)
    tree = network.tree
    edges = {tuple(e) for e in network.edges.tolist()}
    children = np.concatenate(tree.levels)
    assert sorted([*children.tolist(), tree.root]) == list(range(network.n))
    depth = {tree.root: 0}
    for level, d in zip(reversed(tree.levels), range(1, tree.height + 1), strict=True):
        for node in level.tolist():
            parent = int(tree.parent[node])
            assert tuple(sorted((node, parent))) in edges
            depth[node] = depth[parent] + 1
            assert depth[node] == d
    assert tree.height <= nx.radius(graph) + 1


def not_simple():
    graph = nx.path_graph(3)
    graph.add_edge(1, 1)
    return graph


BAD = {
    "directed": (nx.DiGraph([(0, 1)]), "laplacian", "directed.*to_undirected"),
    "multigraph": (nx.MultiGraph([(0, 1), (0, 1)]), "laplacian", "multigraph"),
    "loops": (not_simple(), "laplacian", r"Self-loops at \{1\}"),
    "empty": (nx.Graph(), "laplacian", "no nodes"),
    "empty list": ([], "laplacian", "empty"),
    "triple": ([(0, 1, 2)], "laplacian", "Entry 0 .* pair"),
    "nested": (np.eye(3).tolist(), "laplacian", "Entry 0 .* gossip matrix as an array"),
    "lists as labels": ([([0], [1])], "laplacian", "Entry 0 .* labels of nodes"),
    "number": (5, "laplacian", "int: expected a networkx graph"),
    "text": ("ring", "laplacian", "str: expected"),
    "unknown rule": (nx.path_graph(3), "laplacien", "Did you mean 'laplacian'.*metropolis"),
    "no attribute": (nx.path_graph(3), "weight", r"Edge \(0, 1\).*None"),
    "list attribute": ([(0, 1)], "weight", "edge list has none"),
    "zero weight": (nx.path_graph(3), [1.0, 0.0], r"Edge \(1, 2\).*0.0"),
    "nan weight": (nx.path_graph(3), [np.nan, 1.0], r"Edge \(0, 1\).*nan"),
    "count": (nx.path_graph(3), [1.0], r"shape \(1,\).*2 edges"),
    "negative": (nx.path_graph(3), [1.0, -1.0], "positive semidefinite"),
    "asymmetric": (np.array([[1.0, -1.0], [-2.0, 2.0]]), "laplacian", r"\(0, 1\) is -1 but.* -2"),
    "row sums": (np.array([[1.0, -0.5], [-0.5, 1.0]]), "laplacian", "sums to 0.5"),
    "mixing": (np.full((2, 2), 0.5), "laplacian", r"pass \(I - W\)/2"),
    "not square": (np.zeros((3, 4)), "laplacian", r"\(3, 4\)"),
    "nan matrix": (np.full((2, 2), np.nan), "laplacian", r"Entry \(0, 0\).*nan"),
    "indefinite": (-Network(nx.path_graph(3)).matrix.toarray(), "laplacian", "semidefinite"),
    "off graph": (nx.path_graph(3), nx.laplacian_matrix(nx.complete_graph(3)), "nonzero off"),
    "on graph": (nx.complete_graph(3), nx.laplacian_matrix(nx.path_graph(3)), "zero on"),
    "size": (nx.path_graph(3), np.eye(2), "3 nodes"),
    "twice": (np.array([[1.0, -1.0], [-1.0, 1.0]]), "metropolis", "its own weights"),
    "matrix parts": (np.zeros((2, 2)), "laplacian", r"\{0\} cannot reach \{1\}"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_explained(case):
    graph, weights, pattern = BAD[case]
    with pytest.raises(NetworkError, match=pattern):
        Network(graph, weights)


@pytest.mark.parametrize("value", [0.0, -1.0, np.inf, "heavy"])
def test_bad_edge_attribute(value):
    graph = nx.path_graph(3)
    nx.set_edge_attributes(graph, {(0, 1): 1.0, (1, 2): value}, "weight")
    with pytest.raises(NetworkError, match=r"Edge \(1, 2\)"):
        Network(graph, "weight")


def test_disconnected_graph_names_its_parts():
    with pytest.raises(NetworkError) as error:
        Network([(0, 1), (2, 3), (3, 4)])
    assert str(error.value) == (
        "The graph is not connected: agents {0, 1} cannot reach {2, 3, 4}. "
        "Add an edge or solve the parts separately."
    )
    with pytest.raises(NetworkError, match=r"… \(50 in all\)\}.* and 47 more parts"):
        Network(nx.disjoint_union(nx.path_graph(50), nx.empty_graph(50)))


def test_mix_checks_rows():
    with pytest.raises(NetworkError, match=r"\(3, 2\).*8 agents"):
        Network(nx.path_graph(8)).mix(np.zeros((3, 2)))
