"""IDEA and Proj-IDEA: the flow, its counts, and what they refuse."""

import networkx as nx
import numpy as np
import pytest

import dual2 as d2
from dual2.methods import find_method
from dual2.methods.parameters import Settings
from dual2.reference import solve_reference
from path_family import distance, path_network, path_problem

CASES = [("IDEA", "zero", True), ("Proj-IDEA", "box", True), ("Proj-IDEA", "box", False)]


@pytest.mark.parametrize("name, g, strong", CASES)
def test_the_path_family_is_solved(name, g, strong):
    """Also where f is not strongly convex; rounds are evaluations of the right-hand side."""
    problem = path_problem(g, strong)
    result = d2.solve(problem, path_network(), method=name, tol=1e-10)
    assert result.status == "CONVERGED"
    assert distance(result.x, solve_reference(problem).x) <= 1e-8
    counts = result.counts
    assert counts.rounds == counts.vectors == counts.iterations


@pytest.mark.parametrize("integrator", ["RK45", "LSODA", "BDF"])
def test_integrators_agree_and_their_evaluations_are_all_counted(integrator, monkeypatch):
    problem, calls = path_problem("zero"), []
    best = solve_reference(problem).x
    from dual2.methods.gossip.idea import IDEA

    slope = IDEA.slope
    monkeypatch.setattr(IDEA, "slope", lambda self, v: (calls.append(1), slope(self, v))[1])
    result = d2.solve(problem, path_network(), method="IDEA", integrator=integrator, tol=1e-8)
    assert result.status == "CONVERGED"
    assert distance(result.x, best) <= 1e-6
    assert result.counts.rounds == len(calls) - 1, "all but the one at the start"


def test_the_flow_is_the_printed_one():
    problem, network = path_problem("box"), path_network()
    published = {"gamma": 1.0, "kappa": 1.0, "tau": 0.01}
    settings = Settings("Proj-IDEA", parameters=published | {"omega": 12.0})
    algorithm = find_method("Proj-IDEA").plan(problem, network, settings).algorithm
    algorithm.start(np.zeros(24), np.zeros((8, 5)))
    rng = np.random.default_rng(0)
    x, y, lam = rng.uniform(-1, 1, 24), rng.standard_normal((8, 5)), rng.standard_normal((8, 5))
    slope = algorithm.slope(np.concatenate([x, y.ravel(), lam.ravel()]))
    parts = np.split(x, 8)
    d = np.array([a.apply(v) for a, v in zip(problem.agents, parts, strict=True)])
    d -= problem.h.b / 8 + y
    moved = [
        (a.g.prox(v - 0.01 * (a.f.grad(v) + a.adjoint(u)), 1.0) - v) / 0.01
        for a, v, u in zip(problem.agents, parts, lam + d, strict=True)
    ]
    laplacian = nx.laplacian_matrix(nx.path_graph(8)).toarray()  # = 12 C
    expected = np.concatenate([*moved, (laplacian @ (lam + d)).ravel(), d.ravel()])
    np.testing.assert_allclose(slope, expected, rtol=0, atol=1e-11)


def test_refusals():
    with pytest.raises(d2.CapabilityError, match=r"IDEA cannot.*g must be zero.*Proj-IDEA"):
        d2.solve(path_problem("box"), path_network(), method="IDEA")
    with pytest.raises(d2.CapabilityError, match="closed convex set"):
        d2.solve(path_problem("l1"), path_network(), method="Proj-IDEA")
    with pytest.raises(d2.CapabilityError, match="Unknown integrator 'Euler'"):
        d2.solve(path_problem(), path_network(), method="IDEA", integrator="Euler")
    with pytest.raises(d2.CapabilityError, match="rtol"):
        d2.solve(path_problem(), path_network(), method="IDEA", rtol=-1.0)
