"""Experiment I: the constants the paper prints, and the solution by independent means."""

import numpy as np
import pytest
from sklearn.linear_model import ElasticNet as SklearnElasticNet

from dual2.paper.problems.elastic_net_regression import (
    ALPHA,
    FEATURES,
    L1_RATIO,
    elastic_net,
    experiment1,
    housing,
)

pytestmark = pytest.mark.numerics


def test_constants_of_the_paper():
    problem, network, _ = experiment1()
    sigma2 = max(np.linalg.norm(agent.A, 2) ** 2 for agent in problem.agents)
    mu_f = min(agent.f.mu for agent in problem.agents)
    kappa_pd = sigma2 * problem.n * problem.h.L / mu_f
    assert kappa_pd == pytest.approx(98602.8, abs=0.05)
    assert network.kappa == pytest.approx(25.27414236908820, rel=1e-12)
    assert (problem.n, problem.p, sum(problem.dims)) == (8, 20, 9)
    assert [agent.A.shape[1] for agent in problem.agents] == [1] * 7 + [2]


def test_features_are_raw_and_in_order():
    X, y = housing()
    first = dict(zip(FEATURES, X[0], strict=True))
    assert first["MedInc"] == 8.3252
    assert first["AveRooms"] == 880 / 126
    assert first["AveOccup"] == 322 / 126
    assert first["Longitude"] == -122.23
    assert np.all(X[:, -1] == 1)
    assert y[-1] == 1.629


def test_solution_agrees_with_scikit_learn():
    X, y = housing()
    theta = np.concatenate(experiment1().reference)
    other = SklearnElasticNet(
        alpha=ALPHA, l1_ratio=L1_RATIO, fit_intercept=False, tol=1e-14, max_iter=100_000
    ).fit(X, y)
    # It promises a duality gap of tol·|y|²; the objective, 20 times ours, has this curvature.
    curvature = len(y) * ALPHA * (1 - L1_RATIO)
    assert np.linalg.norm(theta - other.coef_) <= np.sqrt(2 * 1e-14 * (y @ y) / curvature)
    found = {name: value for name, value in zip(FEATURES, theta, strict=True) if value}
    assert found == {
        "Population": pytest.approx(3.2437e-4, rel=1e-4),
        "Longitude": pytest.approx(-1.720876e-2, rel=1e-6),
    }


def test_solution_is_optimal_for_the_problem():
    problem, _, reference = experiment1()
    price = problem.h.grad(problem.coupling(reference))
    for agent, x in zip(problem.agents, reference, strict=True):
        slope = agent.f.grad(x) + agent.A.T @ price
        assert np.allclose(x, agent.g.prox(x - slope, 1.0), rtol=0, atol=1e-12)


def test_elastic_net_says_when_it_failed():
    X, y = housing()
    with pytest.raises(ArithmeticError, match="0 sweeps"):
        elastic_net(X, y, 10.0, 90.0, sweeps=0)
