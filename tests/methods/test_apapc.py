"""APAPC with and without Chebyshev acceleration, and Nedić's method for A_i = I."""

import math

import networkx as nx
import numpy as np
import pytest

import dual2 as d2
from dual2.methods import Settings, find_method
from dual2.methods.gossip.apapc import smallest_coupling
from dual2.testing import known_problem

PATH = d2.Network(nx.path_graph(8))
CHEBYSHEV = "APAPC-Chebyshev"


def coupled(kappa=10.0, rank=None, seed=3, n=8, p=6, d=3):
    """Eight agents, dense quadratics; with ``rank`` all A_i share a column space of that rank."""
    rng, agents = np.random.default_rng(seed), []
    span = np.eye(p) if rank is None else rng.standard_normal((p, rank))
    x0 = rng.standard_normal((n, d))
    b = np.zeros(p)
    for i in range(n):
        basis = np.linalg.qr(rng.standard_normal((d, d)))[0]
        P = basis @ np.diag([1.0, kappa, *rng.uniform(1, kappa, d - 2)]) @ basis.T
        A = span @ rng.standard_normal((span.shape[1], d))
        agents.append(d2.Agent(A, d2.Quadratic((P + P.T) / 2, rng.standard_normal(d))))
        b += A @ x0[i]
    return d2.Problem(agents, d2.IndicatorPoint(b))


def sharing(kappa, n=8, p=5, seed=0):
    """Σ x_i = b with diagonal quadratics."""
    rng, agents = np.random.default_rng(seed), []
    for _ in range(n):
        curvature = np.concatenate([[1.0, kappa], rng.uniform(1, kappa, p - 2)])
        agents.append(d2.Agent(np.eye(p), d2.Quadratic(curvature, rng.standard_normal(p))))
    return d2.Problem(agents, d2.IndicatorPoint(rng.standard_normal(p)))


def solution(problem):
    """By the KKT system."""
    P = [a.f.grad(np.eye(a.dim)) - a.f.grad(np.zeros(a.dim)) for a in problem.agents]
    q = np.concatenate([a.f.grad(np.zeros(a.dim)) for a in problem.agents])
    A = np.hstack([a.A for a in problem.agents])
    size, p = len(q), problem.p
    H = np.zeros((size, size))
    at = 0
    for block in P:
        H[at : at + len(block), at : at + len(block)] = block
        at += len(block)
    K = np.block([[H, A.T], [A, np.zeros((p, p))]])
    b = problem.h.conjugate.grad(np.zeros(p))
    return np.linalg.lstsq(K, np.concatenate([-q, b]), rcond=None)[0][:size]


def iterations(result):
    return int(result.trace["iterations"][np.argmax(result.trace["gap"] <= 1e-8)])


@pytest.mark.parametrize(
    "name, kappa, rank, published",
    [(CHEBYSHEV, 10.0, None, 205), (CHEBYSHEV, 10.0, 3, 210), ("APAPC", 10.0, None, 52525)],
)
def test_apapc_solves_with_and_without_rank(name, kappa, rank, published):
    problem = coupled(kappa, rank)
    best = solution(problem)
    result = d2.solve(problem, PATH, method=name, tol=1e-10, reference=best)
    assert result.status == "CONVERGED"
    np.testing.assert_allclose(np.concatenate(result.x), best, rtol=0, atol=1e-8)
    assert published / 3 <= iterations(result) <= 3 * published
    assert result.certificate.kkt <= 1e-10


def test_chebyshev_pays_the_square_root_of_the_condition_of_f():
    counts = []
    for kappa in (10.0, 1000.0):
        problem = coupled(kappa)
        best = solution(problem)
        counts.append(iterations(d2.solve(problem, PATH, method=CHEBYSHEV, reference=best)))
    assert counts[1] <= 1.5 * math.sqrt(100.0) * counts[0]


def test_messages_of_apapc():
    """4 rounds plain; 2K(1+N) with K = ⌈√κ_C⌉, not ⌈κ_C⌉, and N = ⌈√(L_B/μ_B)⌉."""
    problem = coupled()
    for name in ("APAPC", CHEBYSHEV):
        result = d2.solve(problem, PATH, method=name, tol=0.0, atol=1e-300, max_rounds=2000)
        K, N = (result.parameters[k][0] for k in ("rounds_per_mix", "semi_iteration"))
        each = 2 * K * (1 + N) if name == CHEBYSHEV else 4
        counts = result.counts
        assert (K, N) == (6, N) if name == CHEBYSHEV else (K, N) == (1, 0)
        assert counts.iterations == 2000 // each
        assert counts.rounds == counts.vectors == each * counts.iterations
        assert result.parameters["rounds_per_iteration"][0] == each


def test_the_semi_iteration_is_the_one_of_the_definition():
    """One iteration of APAPC-Chebyshev against its formulas with dense matrices."""
    problem = coupled()
    n, p = problem.n, problem.p
    plan = find_method(CHEBYSHEV).plan(problem, PATH, Settings(CHEBYSHEV))
    algorithm = plan.algorithm
    algorithm.start(np.zeros(24), np.zeros((n, p)))
    algorithm.advance(3 * algorithm.stride, 60.0)
    tau, eta, a, r, gamma, theta, nu, q, degree, _ = algorithm.rule
    blocks = np.zeros((n * p, 24))
    for i, agent in enumerate(problem.agents):
        blocks[i * p : (i + 1) * p, 3 * i : 3 * i + 3] = agent.A
    W = np.kron(plan.runtime.network.mix(np.eye(n)), np.eye(p))
    B = np.hstack([blocks, gamma * W])
    b = np.tile(problem.h.conjugate.grad(np.zeros(p)) / n, n)
    normal = lambda u: B.T @ (B @ u - b)  # noqa: E731

    def residual(u):
        v, g, step = u.copy(), -nu / 2, -normal(u) / nu
        v += step
        for _ in range(degree - 1):
            bt = q / g
            g = -(nu + bt)
            step = (normal(v) + bt * step) / g
            v += step
        return u - v

    def gradient(u):
        smooth = [agent.f.grad(u[3 * i : 3 * i + 3]) for i, agent in enumerate(problem.agents)]
        return np.concatenate([*smooth, np.zeros(n * p)]) + r * normal(u)

    u = uf = z = np.zeros(24 + n * p)
    for _ in range(3):
        ug = tau * u + (1 - tau) * uf
        slope = gradient(ug) - a * ug
        uh = (u - eta * (slope + z)) / (1 + eta * a)
        z = z + theta * residual(uh)
        new = (u - eta * (slope + z)) / (1 + eta * a)
        uf, u = ug + 2 * tau / (2 - tau) * (new - u), new
    np.testing.assert_allclose(algorithm.x, u[:24], rtol=0, atol=1e-10 * np.abs(u).max())
    zeta = algorithm.duals.ravel()
    np.testing.assert_allclose(B.T @ zeta, z, rtol=0, atol=1e-9 * np.abs(z).max())


def test_apapc_of_one_agent_and_of_a_warm_start():
    problem = coupled()
    cold = d2.solve(problem, PATH, method=CHEBYSHEV, tol=1e-9)
    warm = d2.solve(problem, PATH, method=CHEBYSHEV, tol=1e-9, start=(cold.x, cold.dual))
    assert cold.status == warm.status == "CONVERGED"
    alone = d2.Problem([d2.Agent(np.eye(2), d2.SquaredNorm(1.0))], d2.IndicatorPoint([1.0, 2.0]))
    result = d2.solve(alone, d2.Network(nx.path_graph(1)), method=CHEBYSHEV)
    np.testing.assert_allclose(result.x[0], [1.0, 2.0], atol=1e-7)


def test_smallest_coupling_ignores_directions_that_nobody_reaches():
    problem = coupled(rank=3)
    S = sum(agent.A @ agent.A.T for agent in problem.agents) / problem.n
    assert smallest_coupling(problem) == pytest.approx(np.linalg.eigvalsh(S)[-3])


# -- Nedić -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("kappa, published", [(1.0, 91), (10.0, 250), (1000.0, 2695)])
def test_nedic(kappa, published):
    problem = sharing(kappa)
    best = solution(problem)
    result = d2.solve(problem, PATH, method="Nedic", tol=1e-10, reference=best)
    assert result.status == "CONVERGED"
    np.testing.assert_allclose(np.concatenate(result.x), best, rtol=0, atol=1e-7)
    assert published / 2 <= iterations(result) <= 2 * published
    assert result.counts.rounds == result.counts.vectors == result.counts.iterations
    assert result.counts.A > 0, "the stopping test forms A_i x_i"


def test_nedic_solves_problems_of_the_user_and_logistic_ones():
    rng = np.random.default_rng(0)
    functions = [
        d2.LogisticRegression(rng.standard_normal((4, 3)), np.ones(4), ridge=1.0),
        d2.Smooth(lambda x: 3.0 * x + np.tanh(x), 3.0, 4.0),
        d2.Quadratic(np.diag([1.0, 2.0, 3.0]) + 0.1, np.ones(3)),
    ]
    problem = d2.Problem([d2.Agent(np.eye(3), f) for f in functions], d2.IndicatorPoint(np.ones(3)))
    network = d2.Network([(0, 1), (1, 2)])
    result = d2.solve(problem, network, method="Nedic", tol=1e-11)
    other = d2.solve(problem, network, tol=1e-11)
    np.testing.assert_allclose(np.concatenate(result.x), np.concatenate(other.x), atol=1e-8)


def test_every_iterate_of_nedic_is_feasible():
    problem = sharing(10.0)
    algorithm = find_method("Nedic").plan(problem, PATH, Settings("Nedic")).algorithm
    b = problem.h.conjugate.grad(np.zeros(5))
    for x in (np.zeros(40), np.linspace(-1, 1, 40)):
        algorithm.start(x, np.zeros((8, 5)))
        algorithm.advance(100_000, 60.0)
        assert algorithm.iterations == 100_000
        np.testing.assert_allclose(algorithm.x.reshape(8, 5).sum(axis=0), b, rtol=0, atol=1e-12)


def test_nedic_declares_that_it_sends_gradients():
    assert "gradient" in find_method("Nedic").reveals


@pytest.mark.parametrize(
    "name, parameters, message",
    [
        ("Nedic", {"momentum": 1.0}, "momentum = 1.0 found"),
        ("Nedic", {"step": 0.0}, "step = 0.0 found"),
        ("APAPC", {"tau": -1.0}, "tau = -1.0 found"),
        ("APAPC", {"beta": 1.0}, "Unknown parameter of APAPC"),
    ],
)
def test_wrong_parameters_are_refused(name, parameters, message):
    with pytest.raises(d2.CapabilityError, match=message):
        d2.solve(sharing(2.0), PATH, method=name, **parameters)


@pytest.mark.parametrize("name", ["APAPC", CHEBYSHEV])
def test_prices_of_apapc(name):
    problem, _, price = known_problem(d2.Zero(), d2.IndicatorPoint(0.0))
    result = d2.solve(problem, d2.Network(nx.cycle_graph(5)), method=name, tol=1e-10)
    np.testing.assert_allclose(result.dual, price, rtol=0, atol=1e-7)
