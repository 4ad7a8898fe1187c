"""Experiments II and III: the captions' constants, and the solutions by independent means."""

import numpy as np
import pytest
from mpmath import mp

from dual2.paper import experiment2, experiment3
from dual2.paper.problems.constrained_regression import ALPHA, SHIFT
from dual2.paper.problems.elastic_net_regression import experiment1, housing
from dual2.paper.problems.exact_linear import solve_exactly
from dual2.paper.problems.quadratic_program import solve_quadratic
from dual2.paper.problems.resource_allocation import COUPLING, draw
from dual2.reference import solve_reference
from rounding import EPS, kkt_rounding

pytestmark = pytest.mark.numerics

ALL = {
    "exp1": experiment1,
    "exp2": experiment2,
    "exp2-active": lambda: experiment2(active=True),
    "exp3": experiment3,
    "exp3-active": lambda: experiment3(active=True),
}


@pytest.mark.parametrize("name", ALL)
def test_reference_is_a_solution(name):
    """It meets the optimality conditions, and another solver finds the same point.

    Strong convexity turns a residual r in forces of size φ into a distance of at most φr/μ.
    """
    found = ALL[name]()
    problem, rounding = found.problem, kkt_rounding(found.problem, found.reference, found.price)
    assert rounding <= 1e-11, "otherwise this test says nothing"
    assert found.facts["reference_kkt"] <= rounding
    other = solve_reference(problem)
    assert other.kkt <= 10 * rounding
    x, y = np.concatenate(found.reference), np.concatenate(other.x)
    force = max(np.linalg.norm(a.f.grad(v)) for a, v in zip(problem.agents, other.x, strict=True))
    mu = min(agent.f.mu for agent in problem.agents)
    assert np.linalg.norm(x - y) <= 20 * rounding * force / mu


def test_references_have_the_same_bits_everywhere():
    """Solved in rational arithmetic and rounded once: the order of a BLAS does not matter."""
    rng = np.random.default_rng(1)
    M = rng.standard_normal((7, 7)) * 10.0 ** rng.uniform(-4, 4, (7, 1))
    b, order = rng.standard_normal(7), rng.permutation(7)
    with mp.workdps(60):
        exact = [float(v) for v in mp.lu_solve(mp.matrix(M.tolist()), mp.matrix(b.tolist()))]
    assert solve_exactly(M, b).tolist() == exact
    assert solve_exactly(M[order], b[order]).tolist() == exact
    with pytest.raises((ArithmeticError, np.linalg.LinAlgError)):
        solve_exactly(np.ones((2, 2)), np.ones(2))


@pytest.mark.parametrize(
    "name, rows", [("exp1", 0), ("exp2", 0), ("exp2-active", 2), ("exp3", 0), ("exp3-active", 4)]
)
def test_active_rows(name, rows):
    found = ALL[name]()
    assert found.active_rows == rows
    s = found.problem.coupling(found.reference)
    if name.startswith("exp2"):
        assert int(np.sum(s < 1e-12)) == rows
    if name.startswith("exp3"):
        assert int(np.sum(s > found.problem.h.b - 1e-12)) == rows
        assert int(np.sum(found.price > 1e-6)) == rows


def test_constants_of_experiment_two():
    problem, network, reference = experiment2()
    assert (problem.n, problem.p, sum(problem.dims)) == (8, 9, 9)
    assert network.kappa == pytest.approx(25.274142, rel=1e-7)
    assert {agent.f.mu for agent in problem.agents} == {agent.f.L for agent in problem.agents}
    assert problem.coupling(reference).min() == pytest.approx(3.0175, abs=1e-4)
    facts = experiment2().facts
    assert facts["rank_A"] == 9
    assert (facts["mu_h*"], facts["L_h*"]) == (0.0, 9.0)
    assert facts["kappa_A_rho_at_least"] == pytest.approx(5.51e18, rel=1e-3)


def test_bound_on_the_augmented_condition_number():
    """λ_min(𝐀𝐀ᵀ + ρL𝐂) ≤ σ_min²(A)/n, where double precision can tell."""
    problem, network, _ = experiment3()
    n, p = problem.n, problem.p
    blocks = [np.asarray(agent.A) for agent in problem.agents]
    sigma2 = max(np.linalg.norm(A, 2) ** 2 for A in blocks)
    stacked = np.zeros((n * p, n * p))
    for i, A in enumerate(blocks):
        stacked[i * p : (i + 1) * p, i * p : (i + 1) * p] = A @ A.T
    for rho in (0.1, 10.0, 1e4):
        stacked_rho = stacked + rho * np.kron(network.mix(np.eye(n)), np.eye(p))
        kappa = sigma2 / np.linalg.eigvalsh(stacked_rho)[0]
        assert kappa >= experiment3().facts["kappa_A_rho_at_least"] * (1 - 1e-9)


def test_plain_ridge_regression_solves_experiment_two_as_printed():
    X, y = housing()
    X, y = X[:9], y[:9]
    theta = np.linalg.solve(X.T @ X / 9 + ALPHA * np.eye(9), X.T @ y / 9)
    assert np.concatenate(experiment2().reference) == pytest.approx(theta, rel=1e-9)
    shifted = experiment2(active=True).problem.h.y
    assert np.allclose(shifted, y - SHIFT, rtol=0, atol=EPS * np.abs(y).max())


def test_constants_of_experiment_three():
    found = experiment3()
    problem, network, _ = found
    assert (problem.n, problem.p, sum(problem.dims)) == (20, 10, 40)
    assert round(network.kappa) == 99
    assert round(found.facts["kappa_A_joint"]) == 8
    L, mu = max(a.f.L for a in problem.agents), min(a.f.mu for a in problem.agents)
    assert L / mu == pytest.approx(1000, rel=1e-9)
    eigenvalues = np.concatenate([np.linalg.eigvalsh(a.f.P) for a in problem.agents])
    assert eigenvalues.min() >= 1 - 1e-9 and eigenvalues.max() <= 1000 + 1e-6
    assert np.all(problem.h.b > 0)


def test_the_active_variant_changes_only_b():
    plain, active = experiment3().problem, experiment3(active=True).problem
    assert active.h.b == pytest.approx(0.01 * plain.h.b, rel=1e-12)
    for one, two in zip(plain.agents, active.agents, strict=True):
        assert np.array_equal(one.A, two.A) and np.array_equal(one.f.P, two.f.P)


def test_recipe_is_the_same_for_the_same_seed():
    one, two = (draw(np.random.default_rng(7)) for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))
    assert one[2].shape == (20, COUPLING, 2)


@pytest.mark.parametrize("seed", range(6))
def test_quadratic_programs(seed):
    """Random programs: feasible, prices of the right sign, complementary, stationary."""
    rng = np.random.default_rng(seed)
    m, k = 6, 9
    M = rng.standard_normal((m, m))
    P, q = M @ M.T + 0.1 * np.eye(m), rng.standard_normal(m)
    G, d = rng.standard_normal((k, m)), np.abs(rng.standard_normal(k)) * 0.3
    found = solve_quadratic(P, q, G, d)
    assert np.all(G @ found.x <= d + 1e-12)
    assert np.all(found.price >= 0) and np.array_equal(found.price > 0, found.active)
    assert np.abs(P @ found.x + q + G.T @ found.price).max() <= 1e-12
    assert np.abs(found.price * (G @ found.x - d)).max() <= 1e-12


def test_infeasible_program_is_refused():
    with pytest.raises((ArithmeticError, np.linalg.LinAlgError)):
        solve_quadratic(np.eye(1), np.zeros(1), np.array([[1.0], [-1.0]]), np.array([-1.0, -1.0]))
