"""A problem without a network is solved on the complete graph, which the answer says."""

import networkx as nx
import numpy as np
import pytest

import dual2 as d2
from dual2.solving.solve import solve_for_all

AGENTS = [d2.Agent([[1.0]], d2.SquaredNorm(weight)) for weight in (1.0, 2.0, 4.0)]
PROBLEM = d2.Problem(AGENTS, d2.IndicatorPoint([3.5]))
SENTENCE = "No network was given: every agent talks to every other one."


@pytest.mark.parametrize("solver", [d2.solve, solve_for_all])
def test_the_complete_graph_is_taken_and_named(solver):
    result = solver(PROBLEM)
    same = solver(PROBLEM, d2.Network(nx.complete_graph(3)))
    assert result.status == same.status == "CONVERGED"
    assert result.setting["edges"] == [[0, 1], [0, 2], [1, 2]]
    np.testing.assert_array_equal(np.concatenate(result.x), np.concatenate(same.x))
    np.testing.assert_allclose(np.concatenate(result.x), [2.0, 1.0, 0.5], rtol=1e-7)
    assert SENTENCE in result.explain()
    assert SENTENCE not in same.explain()


def test_too_many_agents_need_a_network():
    many = d2.Problem(AGENTS[:1] * 1001, d2.IndicatorPoint([1.0]))
    with pytest.raises(d2.NetworkError, match=r"1001 agents has 500500 edges\. Give one"):
        d2.solve(many)
