"""The compiled exchange: 𝐂V and P_K(𝐂)V by definition, conservation, threads."""

import networkx as nx
import numpy as np
import pytest

import dual2 as d2
from dual2.runtime import Runtime
from rounding import EPS, product_rounding
from zoo import network, problem

ROWS = np.random.default_rng(1).standard_normal((7, 12))


def runtime(where, n=7):
    agents = problem().agents[:n]
    return Runtime(d2.Problem(agents, d2.Zero()), where)


@pytest.mark.parametrize("weights", ["laplacian", "metropolis"])
def test_one_round_is_the_gossip_matrix(weights):
    where = d2.Network(nx.cycle_graph(7), weights)
    found = runtime(where).mix(ROWS)
    C = where.matrix.toarray()
    np.testing.assert_allclose(found, C @ ROWS, rtol=0, atol=product_rounding(C, ROWS))
    np.testing.assert_allclose(found, where.mix(ROWS), rtol=0, atol=product_rounding(C, ROWS))


@pytest.mark.parametrize("degree", [None, 1, 2, 3, 6])
def test_chebyshev_is_the_polynomial_of_the_matrix(degree):
    """P_K(C) = 1 - T_K(c₂(1 - c₃C))/T_K(c₂) on the eigenvectors of C."""
    base = d2.Network(nx.path_graph(7))
    fast = base.chebyshev(degree)
    values, vectors = np.linalg.eigh(base.matrix.toarray())
    K, kappa = fast.rounds, base.kappa
    c2, c3 = (kappa + 1) / (kappa - 1), 2 / (base.lambda_max + base.lambda_min)
    T = np.polynomial.chebyshev.Chebyshev.basis(K)
    polynomial = 1 - T(c2 * (1 - c3 * values)) / T(c2)
    expected = vectors @ (polynomial[:, None] * (vectors.T @ ROWS))
    np.testing.assert_allclose(runtime(fast).mix(ROWS), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("fast", [False, True])
def test_columns_sum_to_zero_even_for_large_consensus(fast):
    where = d2.Network(nx.random_labeled_tree(7, seed=0))
    where = where.chebyshev() if fast else where
    rows = ROWS + 1e8
    out = runtime(where).mix(rows)
    assert np.abs(out.sum(axis=0)).max() <= EPS * np.abs(rows).max(), "not even their last place"


@pytest.mark.parametrize("threads", ["2", "3", "9"])
def test_threads_change_nothing(threads, monkeypatch):
    for where in (network(7), network(7).chebyshev(3)):
        monkeypatch.setenv("DUAL2_THREADS", "1")
        alone = runtime(where).mix(ROWS)
        monkeypatch.setenv("DUAL2_THREADS", threads)
        team = Runtime(problem(names=["separable"] * 7), where)
        assert team.team.threads == int(threads)
        np.testing.assert_array_equal(team.mix(ROWS), alone)


def test_a_single_agent_exchanges_nothing():
    alone = d2.Network(nx.path_graph(1))
    assert not runtime(alone, 1).mix(ROWS[:1]).any()
    assert not runtime(alone.chebyshev(), 1).mix(ROWS[:1]).any()
