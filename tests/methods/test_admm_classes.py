"""Methods with exact local solves on every class of g_i and f_i that they claim."""

import functools

import networkx as nx
import numpy as np
import pytest

import dual2 as d2
from dual2.methods.gossip.admm import ADMM_METHODS
from dual2.reference import solve_reference
from dual2.testing import known_problem
from path_family import distance
from problems import random_problem
from zoo import AGENTS, network

POINT = d2.IndicatorPoint(0.0)
KINDS = [method.name for method in ADMM_METHODS]
# A fifth of the f_i are logistic.
RANDOM = [
    ("box", 11),
    ("l1", 156),
    ("simplex", 156),
    ("ball", 156),
    ("l2", 156),
    ("halfspace", 7),
    ("affine", 7),
]


@functools.cache
def posed(g, seed):
    problem, network = random_problem(seed, g=g, h="point")
    return problem, network, solve_reference(problem).x


@pytest.mark.parametrize("g, seed", RANDOM)
@pytest.mark.parametrize("name", KINDS)
def test_random_problems_with_default_parameters(name, g, seed):
    problem, network, best = posed(g, seed)
    result = d2.solve(problem, network, method=name, tol=1e-10, max_rounds=30_000, record=False)
    assert result.status == "CONVERGED"
    assert distance(result.x, best) <= 1e-8
    assert result.counts.grad_f <= 4 * result.counts.iterations + 200, "Newton steps, not gradients"


@pytest.mark.parametrize("g", ["zero", "box", "simplex", "l2"])
@pytest.mark.parametrize("name", KINDS)
def test_logistic_costs(name, g):
    rng, agents = np.random.default_rng(3), []
    part = {"zero": d2.Zero(), "box": d2.IndicatorBox(-0.3, 0.3), "l2": d2.L2Norm(0.3)}
    for _ in range(5):
        f = d2.LogisticRegression(
            rng.standard_normal((8, 4)), rng.choice([-1.0, 1.0], 8), ridge=0.2
        )
        agents.append(d2.Agent(rng.standard_normal((2, 4)), f, part.get(g, d2.IndicatorSimplex())))
    inside = sum((agent.A.sum(axis=1) / 4 for agent in agents), np.zeros(2))
    problem = d2.Problem(agents, d2.IndicatorPoint(inside if g == "simplex" else [0.2, -0.1]))
    network = d2.Network(nx.cycle_graph(5))
    result = d2.solve(problem, network, method=name, tol=1e-10, max_rounds=30_000, record=False)
    assert result.status == "CONVERGED"
    assert distance(result.x, solve_reference(problem).x) <= 1e-8
    assert result.counts.grad_f <= 4 * result.counts.iterations + 200


PENALTIES = {
    "Tracking-ADMM": {"c": 30.0},
    "NECPD": {"rho": 30.0},
    "DC-ADMM": {"c": 8e-3},
    "IDC-ADMM": {"c": 8e-3},
    "DPMM": {"gamma": 60.0},
}


@pytest.mark.parametrize("name", KINDS)
def test_a_nearly_degenerate_face_needs_its_own_penalty(name):
    """On the active faces of these simplices Σ A_i x_i has singular values 1.7, 1.1 and 0.03.

    The default penalties, made for the first, need 10⁶ iterations; a hundredfold one a few 10⁴.
    """
    problem, x, _ = known_problem(d2.IndicatorSimplex(1.0), POINT)
    network = d2.Network([(0, 1), (1, 2), (2, 3), (3, 4), (0, 2)])
    limits = {"tol": 1e-10, "max_rounds": 60_000, "record": False}
    result = d2.solve(problem, network, method=name, **limits, **PENALTIES[name])
    assert result.status == "CONVERGED"
    assert distance(result.x, x) <= 1e-8


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_agent(name):
    """Sparse matrices, operators, blocks, functions of the user: all that the engine knows."""
    agents = list(AGENTS.values())
    b = sum(agent.apply(agent.g.prox(np.full(agent.dim, 0.2), 1.0)) for agent in agents)
    problem, where = d2.Problem(agents, d2.IndicatorPoint(b)), network(len(agents))
    result = d2.solve(problem, where, method=name, tol=1e-10, max_rounds=20_000, record=False)
    assert result.status == "CONVERGED"
    assert distance(result.x, d2.solve(problem, where, tol=1e-11, record=False).x) <= 1e-8


@pytest.mark.parametrize("g", ["simplex", "ball", "l2", "halfspace", "affine"])
def test_inequalities_of_dpmm(g):
    problem, where = random_problem(7, g=g, h="at most")
    result = d2.solve(problem, where, method="DPMM", tol=1e-10, max_rounds=30_000, record=False)
    assert result.status == "CONVERGED"
    assert distance(result.x, solve_reference(problem).x) <= 1e-8
