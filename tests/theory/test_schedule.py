"""Error schedules and a-posteriori bounds: formulas, and that the bounds bound."""

import math

import numpy as np
import pytest

import dual2 as d2
from dual2.methods.gossip.id2a import Settings, plan_id2a
from dual2.paper.problems.elastic_net_regression import experiment1
from dual2.theory import (
    constants_for,
    convex_error,
    gather_facts,
    initial_value_gap,
    linear_schedule,
    optimal_rho,
    saddle_errors,
    subproblem_errors,
)

PROBLEM, NETWORK, _ = experiment1()
FACTS = gather_facts(PROBLEM)
TOP = NETWORK.lambda_max
PAPER = constants_for(FACTS, TOP, NETWORK.lambda_min, optimal_rho(FACTS, TOP), "paper")


@pytest.mark.parametrize("c", [1.02, 2.0, 4.0])
def test_linear_schedule(c):
    """Theorem 3 (complexity): e_{λ,k} = e_{λ,1}θ^{k-1}, e_x = σ̄²(𝐀)/μ_f²·e_λ."""
    schedule = linear_schedule(PAPER, FACTS, TOP, value_gap=7.0, c=c)
    root = math.sqrt(PAPER.kappa_F)
    theta = 1 - 1 / (c * root)
    first = PAPER.mu_F / TOP * (math.sqrt(theta) - math.sqrt(1 - 1 / root)) ** 2 * 7.0
    for k in (0, 1, 10):
        assert schedule.dual_error(k) ** 2 == pytest.approx(first * theta**k, rel=1e-12)
        ratio = schedule.primal_error(k) / schedule.dual_error(k)
        assert ratio == pytest.approx(math.sqrt(FACTS.sigma2.max()) / 90.0, rel=1e-12)


def test_convex_schedule():
    for k in range(5):
        assert convex_error(3.0, k, 0.5) == pytest.approx(3.0 / (k + 1) ** 2.5, rel=1e-12)
    with pytest.raises(d2.CapabilityError, match="delta = 0"):
        convex_error(1.0, 1, 0.0)


def test_schedules_refuse_what_the_theorems_exclude():
    with pytest.raises(d2.CapabilityError, match=r"c = 1.0 found.*c > 1"):
        linear_schedule(PAPER, FACTS, TOP, 1.0, c=1.0)
    problem = d2.Problem([d2.Agent(np.eye(2), d2.SquaredNorm(1.0))] * 2, d2.IndicatorAtMost([1, 1]))
    facts = gather_facts(problem)
    with pytest.raises(d2.CapabilityError, match="μ_F > 0"):
        linear_schedule(constants_for(facts, 1.0, 0.5, 1.0), facts, 1.0, 1.0)


def quadratic_saddle(seed):
    """A random quadratic problem: everything about it is linear algebra."""
    rng = np.random.default_rng(seed)
    n, p, d = 4, 2, 3
    P = [np.diag(rng.uniform(0.5, 5, d)) for _ in range(n)]
    q = [rng.standard_normal(d) for _ in range(n)]
    A = [rng.standard_normal((p, d)) for _ in range(n)]
    agents = [d2.Agent(a, d2.Quadratic(m, v)) for a, m, v in zip(A, P, q, strict=True)]
    problem = d2.Problem(agents, d2.SquaredLoss(rng.standard_normal(p), 0.7))
    network = d2.Network([(0, 1), (1, 2), (2, 3), (0, 2)])
    return problem, network, P, q, A


def exact_subproblem(problem, network, P, q, A, rho, z):
    """Saddle point (x, λ) of f + λᵀ𝐀x - h*(λ)/n - (ρ/2)λᵀ𝐂λ - λᵀz."""
    n, p = problem.n, problem.p
    C = np.kron(network.matrix.toarray(), np.eye(p))
    H = rho * C + np.eye(n * p) / (0.7 * n)
    slope = np.concatenate([z[i] + problem.h.y / n for i in range(n)])
    for i in range(n):
        rows = slice(i * p, (i + 1) * p)
        H[rows, rows] += A[i] @ np.linalg.solve(P[i], A[i].T)
        slope[rows] += A[i] @ np.linalg.solve(P[i], q[i])
    lam = -np.linalg.solve(H, slope).reshape(n, p)
    return [-np.linalg.solve(P[i], q[i] + A[i].T @ lam[i]) for i in range(n)], lam, H, slope


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("kind", ["tight", "paper"])
def test_remark_2_bounds_the_first_value_gap(seed, kind):
    """F_ρ(0) - min F_ρ, from explicit linear algebra, never exceeds the bound."""
    problem, network, P, q, A = quadratic_saddle(seed)
    facts = gather_facts(problem)
    rho = optimal_rho(facts, network.lambda_max)
    c = constants_for(facts, network.lambda_max, network.lambda_min, rho, kind)
    n, p = problem.n, problem.p
    zero = np.zeros((n, p))
    _, _, H, slope = exact_subproblem(problem, network, P, q, A, rho, zero)
    values, vectors = np.linalg.eigh(np.kron(network.matrix.toarray(), np.eye(p)))
    basis = vectors[:, p:] * np.sqrt(values[p:])  # √𝐂 restricted to its range
    conjugate = lambda y: 0.5 * (basis @ y + slope) @ np.linalg.solve(H, basis @ y + slope)  # noqa: E731
    inverse = np.linalg.inv(H)
    best = -np.linalg.solve(basis.T @ inverse @ basis, basis.T @ inverse @ slope)
    gap = conjugate(0 * best) - conjugate(best)
    rng = np.random.default_rng(seed)
    x = [rng.standard_normal(3) for _ in range(n)]
    lam = rng.standard_normal((n, p))
    primal = [P[i] @ x[i] + q[i] + A[i].T @ lam[i] for i in range(n)]
    dual = [
        A[i] @ x[i] - problem.h.conjugate.grad(lam[i]) / n - rho * network.mix(lam)[i]
        for i in range(n)
    ]
    consensus = math.sqrt(np.sum(lam * network.mix(lam)))
    norms = consensus, np.linalg.norm(dual), np.linalg.norm(np.concatenate(primal))
    bound = initial_value_gap(c, facts, network.lambda_max, *norms)
    assert 0 <= gap <= bound


@pytest.mark.parametrize("seed", range(8))
def test_lemma_13_bounds_the_errors_of_a_subproblem(seed):
    problem, network, P, q, A = quadratic_saddle(seed)
    z = np.random.default_rng(seed).standard_normal((4, 2))
    z -= z.mean(axis=0)
    for mapping in ("prox", "smooth"):
        extra = {"mapping": mapping, "slack": 1e-12}
        plan = plan_id2a(problem, network, Settings(parameters=extra))
        sub = plan.algorithm.subsolver
        facts = sub.facts
        rho = sub.constants.rho
        x, lam, _, _ = exact_subproblem(problem, network, P, q, A, rho, z)
        sub.start(np.zeros(12), np.zeros((4, 2)))
        sub.state.moved[:] = 0.0
        for _ in range(6):
            sub.advance(z, 7)
            residuals = (float(np.linalg.norm(part)) for part in sub.residuals(z))
            x_bound, bound = subproblem_errors(sub.constants, facts, *residuals)
            assert np.linalg.norm(sub.lam - lam) <= bound * (1 + 1e-9) + 1e-12
            assert np.linalg.norm(sub.state.x - np.concatenate(x)) <= x_bound * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize("seed", range(20))
def test_lemma_12_bounds_random_saddle_problems(seed):
    """½xᵀPx + qᵀx + w|x|₁ + yᵀBx - ½yᵀQy - bᵀy with a known saddle point; μ_φ = λ_min(Q)."""
    rng = np.random.default_rng(seed)
    d, p = int(rng.integers(1, 6)), int(rng.integers(1, 5))
    M, B = rng.standard_normal((p, p)), rng.standard_normal((p, d))
    P, Q, w = rng.uniform(0.3, 10, d), M @ M.T + 0.2 * np.eye(p), float(rng.uniform(0, 0.5))
    x_star, y_star = rng.standard_normal(d), rng.standard_normal(p)
    x_star[rng.random(d) < 0.3] = 0.0
    signs = np.where(x_star == 0, rng.uniform(-1, 1, d), np.sign(x_star))
    q, b = -(P * x_star + w * signs + B.T @ y_star), B @ x_star - Q @ y_star
    sigma, mu_phi = np.linalg.norm(B, 2), float(np.linalg.eigvalsh(Q)[0])
    for size in (1e-3, 0.1, 1.0, 10.0):
        x, y = x_star + size * rng.standard_normal(d), y_star + size * rng.standard_normal(p)
        residual_x = np.linalg.norm(P * x + q + w * np.sign(x) + B.T @ y)
        residual_y = np.linalg.norm(B @ x - Q @ y - b)
        error_x, error_y = saddle_errors(sigma, P.min(), mu_phi, residual_x, residual_y)
        assert np.linalg.norm(x - x_star) <= error_x * (1 + 1e-9)
        assert np.linalg.norm(y - y_star) <= error_y * (1 + 1e-9)
    assert saddle_errors(sigma, 1.0, 0.0, 1.0, 1.0) == (math.inf, math.inf)
