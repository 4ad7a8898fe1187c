"""Spectra of gossip matrices and of their Chebyshev polynomials."""

import networkx as nx
import numpy as np
import pytest

from dual2.errors import NetworkError
from dual2.network import Network
from dual2.network.gossip import DENSE_LIMIT
from rounding import eigenvalue_rounding, product_rounding

pytestmark = pytest.mark.numerics


def test_path_of_eight_has_the_known_spectrum():
    network = Network(nx.path_graph(8))
    assert network.lambda_max == pytest.approx(0.32064659, abs=5e-9)
    assert network.lambda_min == pytest.approx(0.01268674, abs=5e-9)
    few = eigenvalue_rounding(network.matrix.toarray()) / network.lambda_min
    assert network.kappa == pytest.approx(25.27414236908820, rel=few)
    fast = network.chebyshev()
    assert (fast.degree, fast.rounds, fast.recurrence.shape) == (5, 5, (4, 2))
    assert fast.kappa == pytest.approx(1.70904, abs=5e-6)


LARGE = {
    "expander": nx.random_regular_graph(4, 400, seed=1),
    "path": nx.path_graph(400),
    "cycle": nx.cycle_graph(401),
    "star": nx.star_graph(399),
    "grid": nx.grid_2d_graph(20, 20),
    "complete": nx.complete_graph(350),
    "barbell": nx.barbell_graph(150, 100),
    "bipartite": nx.complete_bipartite_graph(150, 250),
}


@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("weights", ["laplacian", "metropolis"])
def test_sparse_eigenvalues_agree_with_dense(name, weights):
    network = Network(LARGE[name], weights)
    assert network.n > DENSE_LIMIT and network.eigenvalues is None
    exact = np.linalg.eigvalsh(network.matrix.toarray())
    assert network.lambda_max == pytest.approx(exact[-1], rel=1e-9)
    assert network.lambda_min == pytest.approx(exact[1], rel=1e-9)


@pytest.mark.parametrize("n", [100, 2000, 10_000])
def test_long_paths_against_the_closed_form(n):
    network = Network(nx.path_graph(n))
    assert network.kappa == pytest.approx(np.tan(np.pi / (2 * n)) ** -2, rel=1e-8)
    assert network.lambda_max == pytest.approx(np.cos(np.pi / (2 * n)) ** 2 / 3, rel=1e-10)


def test_ten_thousand_agents_on_an_expander():
    network = Network(nx.random_regular_graph(4, 10_000, seed=1))
    # Alon-Boppana: the second adjacency eigenvalue is about 2*sqrt(3)
    assert network.lambda_min * 20 == pytest.approx(4 - 2 * np.sqrt(3), rel=0.01)
    assert network.lambda_max * 20 == pytest.approx(4 + 2 * np.sqrt(3), rel=0.01)


def matrix_polynomial(network, degree):
    """P_K(C) from the eigenvectors and the definition of T_K."""
    values, vectors = np.linalg.eigh(network.matrix.toarray())
    c2 = (network.kappa + 1) / (network.kappa - 1)
    c3 = 2 / ((1 + 1 / network.kappa) * network.lambda_max)
    T = np.polynomial.chebyshev.Chebyshev.basis(degree)
    return vectors @ np.diag(1 - T(c2 * (1 - c3 * values)) / T(c2)) @ vectors.T


@pytest.mark.parametrize("graph", [nx.path_graph(8), nx.star_graph(9), nx.cycle_graph(12)])
@pytest.mark.parametrize("degree", [None, 1, 2, 3, 4, 9])
def test_chebyshev_is_its_polynomial(graph, degree):
    network = Network(graph)
    fast = network.chebyshev(degree)
    assert fast.degree == (degree or int(np.sqrt(network.kappa)))
    P = matrix_polynomial(network, fast.degree)
    np.testing.assert_allclose(fast.mix(np.eye(network.n)), P, atol=1e-12)
    values = np.linalg.eigvalsh(P)
    assert fast.lambda_max == pytest.approx(values[-1], rel=1e-12)
    assert fast.lambda_min == pytest.approx(values[1], rel=1e-12)
    assert fast.spectrum == "exact"
    bound = network.chebyshev(degree, spectrum="bounded")
    c1 = (np.sqrt(network.kappa) - 1) / (np.sqrt(network.kappa) + 1)
    ripple = 2 * c1**fast.degree / (1 + c1 ** (2 * fast.degree))
    assert bound.lambda_max == pytest.approx(1 + ripple, rel=1e-12) and bound.spectrum == "bounded"
    assert bound.lambda_min == pytest.approx(1 - ripple, rel=1e-12)
    assert fast.lambda_max <= bound.lambda_max * (1 + 1e-12)


def test_default_degree_makes_the_condition_number_at_most_four():
    for n in (3, 10, 50, 200):
        assert Network(nx.path_graph(n)).chebyshev().kappa <= 4


def test_chebyshev_of_a_complete_graph_is_one_exact_round():
    network = Network(nx.complete_graph(6))
    fast = network.chebyshev(degree=3)
    assert (fast.rounds, fast.kappa, fast.lambda_max) == (1, 1.0, 1.0)
    projection = np.eye(6) - np.full((6, 6), 1 / 6)
    few = product_rounding(projection, np.eye(6))
    np.testing.assert_allclose(fast.mix(np.eye(6)), projection, rtol=0, atol=few)


def test_chebyshev_of_a_large_network_uses_bounds_for_even_degree():
    network = Network(nx.random_regular_graph(4, 400, seed=2))
    even, odd = network.chebyshev(2), network.chebyshev(3)
    assert (even.spectrum, odd.spectrum) == ("bounded", "exact")
    for fast in (even, odd):
        values = np.linalg.eigvalsh(fast.mix(np.eye(400)))
        assert values[-1] <= fast.lambda_max * (1 + 1e-12)
        assert values[1] >= fast.lambda_min * (1 - 1e-9)
    assert odd.lambda_max == pytest.approx(values[-1], rel=1e-9)


def test_chebyshev_of_high_degree_does_not_overflow():
    fast = Network(nx.path_graph(30)).chebyshev(3000)
    V = np.random.default_rng(0).standard_normal((30, 2))
    np.testing.assert_allclose(fast.mix(V), V - V.mean(axis=0), atol=1e-9)


def test_chebyshev_conserves_column_sums():
    fast = Network(nx.path_graph(8)).chebyshev()
    rng = np.random.default_rng(5)
    z = np.zeros((8, 3))
    blocks = [1e6 + rng.standard_normal((8, 3)) for _ in range(20)]
    for k in range(10_000):
        z += fast.mix(blocks[k % 20])
    assert np.abs(z.sum(axis=0)).max() <= 1e-12 * np.abs(z).max()


def test_chebyshev_refuses_nonsense():
    network = Network(nx.path_graph(4))
    for degree in (0, -1, 2.5):
        with pytest.raises(NetworkError, match="integer ≥ 1"):
            network.chebyshev(degree)
    with pytest.raises(NetworkError, match="'exact' or 'bounded'"):
        network.chebyshev(spectrum="approximate")
