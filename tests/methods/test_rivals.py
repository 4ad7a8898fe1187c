"""CoLA, CoCoA+, ADMM for sharing, FISTA and vector-free L-BFGS: identities and plain texts."""

import networkx as nx
import numpy as np
import pytest
from scipy.sparse.linalg import aslinearoperator

import dual2 as d2
from dual2.methods import find_method
from dual2.methods.allreduce.vector_free import combine, find_root
from dual2.methods.parameters import Settings
from methods_table import BOXED, COMPLETE, EQUATION, LASSO, LOGISTIC, NETWORK, SMOOTH

SUMS = ("CoCoA+", "Sharing-ADMM", "Sharing-ADMM-AA", "FISTA")


def iterate(method, problem, network, steps, **parameters):
    plan = find_method(method).plan(problem, network, Settings(method, parameters=parameters))
    x = np.zeros(sum(problem.dims))
    plan.algorithm.start(x, np.zeros((problem.n, problem.p)))
    plan.algorithm.advance(steps * plan.algorithm.stride, 3600.0)
    return plan.algorithm


@pytest.mark.parametrize("problem", [LASSO, SMOOTH, LOGISTIC], ids=["l1", "smooth", "logistic"])
@pytest.mark.parametrize("gamma", [1.0, 0.4])
def test_cocoa_is_cola_where_all_talk_to_all(problem, gamma):
    """Metropolis' matrix of a complete graph is 11ᵀ/n: every v_i is the exact sum."""
    gossip = iterate("CoLA", problem, COMPLETE, 40, gamma=gamma)
    sums = iterate("CoCoA+", problem, COMPLETE, 40, gamma=gamma)
    assert np.abs(sums.x).max() > 1e-3
    np.testing.assert_allclose(gossip.x, sums.x, rtol=0, atol=1e-11 * np.abs(sums.x).max())


def test_cola_is_not_cocoa_on_other_graphs():
    assert np.abs(iterate("CoLA", LASSO, NETWORK, 40).x).max() > 1e-3
    apart = iterate("CoLA", LASSO, NETWORK, 40).x - iterate("CoCoA+", LASSO, NETWORK, 40).x
    assert np.abs(apart).max() > 1e-6


def smooth_problem():
    """Quadratic f without g, whose local problems have a closed form."""
    rng = np.random.default_rng(3)
    A = rng.standard_normal((4, 5, 3))
    P = [np.diag(rng.uniform(1.0, 4.0, 3)) for _ in A]
    q = rng.standard_normal((4, 3))
    agents = [d2.Agent(a, d2.Quadratic(p, b)) for a, p, b in zip(A, P, q, strict=True)]
    y = rng.standard_normal(5)
    return d2.Problem(agents, d2.SquaredLoss(y, scale=0.7)), A, P, q, y


def test_sharing_is_the_iteration_of_the_book():
    """x, z̄ and u as printed (section 7.3), by closed forms."""
    problem, A, P, q, y = smooth_problem()
    n, rho, scale = 4, 0.3, 0.7
    x, z, u = np.zeros((4, 3)), np.zeros(5), np.zeros(5)
    # q = 0 has the mean t = 0, of which z̄ and u are the book's after one z-step
    z = scale * y / (rho / n + scale) / n
    u = -z
    for _ in range(25):
        products = np.einsum("ijk,ik->ij", A, x)
        targets = products + z - products.mean(axis=0) - u
        x = np.array([
            np.linalg.solve(p + rho * a.T @ a, rho * a.T @ t - b)
            for a, p, b, t in zip(A, P, q, targets, strict=True)
        ])  # fmt: skip
        m = np.einsum("ijk,ik->ij", A, x).mean(axis=0)
        z = (scale * y + rho * (m + u)) / (rho / n + scale) / n
        u = u + m - z
    found = iterate("Sharing-ADMM", problem, d2.Network(nx.path_graph(4)), 25, rho=rho)
    np.testing.assert_allclose(found.x, x.ravel(), rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.duals[0], rho * u, rtol=0, atol=1e-12)


def test_no_memory_is_no_acceleration():
    plain = iterate("Sharing-ADMM", BOXED, NETWORK, 50)
    without = iterate("Sharing-ADMM-AA", BOXED, NETWORK, 50, memory=0)
    np.testing.assert_array_equal(plain.x, without.x)


@pytest.mark.parametrize("seed", range(2))
def test_anderson_is_gmres_on_linear_problems(seed):
    """With memory for all, an affine iteration in a space of D dimensions ends after D + 1 steps.

    Only what lies in the ranges of the A_i and in span(1) ever moves.
    """
    rng = np.random.default_rng(seed)
    agents = [
        d2.Agent(rng.standard_normal((6, 2)), d2.SquaredNorm(rng.uniform(1.0, 9.0)))
        for _ in range(3)
    ]
    problem = d2.Problem(agents, d2.IndicatorPoint(rng.standard_normal((6, 6)) @ np.ones(6)))
    network = d2.Network(nx.path_graph(3))
    plain = d2.solve(problem, network, method="Sharing-ADMM", tol=1e-10, max_rounds=80)
    fast = d2.solve(problem, network, method="Sharing-ADMM-AA", tol=1e-10, memory=40)
    assert fast.status == "CONVERGED"
    assert fast.counts.sums <= 6 + 6 + 8 < plain.counts.sums and plain.status == "MAX_ROUNDS"


def test_fista_is_its_text():
    """Without restarts or backtracking on a problem that asks for neither."""
    problem, A, P, q, y = smooth_problem()
    whole = np.hstack(list(A))
    L = max(np.diag(p).max() for p in P) + 0.7 * np.linalg.norm(whole, 2) ** 2
    mu = min(np.diag(p).min() for p in P)
    x = before = np.zeros(12)
    t, beta, c = 1.0, 0.0, mu / L
    for _ in range(12):
        u = x + beta * (x - before)
        slope = np.concatenate([p @ v + b for p, b, v in zip(P, q, u.reshape(4, 3), strict=True)])
        new = u - (slope + whole.T @ (0.7 * (whole @ u - y))) / L
        uphill = (u - new) @ (new - x) > 0
        before, x = x, new
        rest = 1 - c * t * t
        new_t = (rest + np.sqrt(rest**2 + 4 * t * t)) / 2
        beta, t = (t - 1) / new_t * (1 - c * new_t) / (1 - c), new_t
        if uphill:
            t, beta = 1.0, 0.0
    found = iterate("FISTA", problem, d2.Network(nx.path_graph(4)), 12, L=L)
    np.testing.assert_allclose(found.x, x, rtol=0, atol=1e-12)


def test_fista_raises_L_where_it_begins_too_low():
    low = d2.solve(SMOOTH, NETWORK, method="FISTA", L=1e-3, tol=1e-10)
    assert low.status == "CONVERGED" and low.certificate.kkt <= 1e-10


def test_vector_free_is_the_two_loop_recursion():
    """Coefficients from inner products alone give -Hg of the plain recursion."""
    rng = np.random.default_rng(0)
    curve = np.diag(rng.uniform(1.0, 9.0, 12))
    steps = rng.standard_normal((5, 12))
    basis = np.vstack([steps, steps @ curve, rng.standard_normal((1, 12))])
    H, g = (
        np.eye(12) * (steps[-1] @ curve @ steps[-1]) / np.sum((curve @ steps[-1]) ** 2),
        basis[-1],
    )
    for s, y in zip(steps, steps @ curve, strict=True):
        V = np.eye(12) - np.outer(y, s) / (s @ y)
        H = V.T @ H @ V + np.outer(s, s) / (s @ y)
    np.testing.assert_allclose(combine(basis @ basis.T, 5) @ basis, -H @ g, rtol=1e-10, atol=1e-10)


def test_the_line_search_finds_roots_and_ends():
    assert find_root(lambda t: t + 1.0, np.inf) == 0.0
    assert find_root(lambda t: np.expm1(t - 3.0), np.inf) == pytest.approx(3.0, abs=1e-9)
    assert find_root(lambda t: np.arctan(t - 700.0), np.inf) == pytest.approx(700.0, rel=1e-9)


def test_vector_free_takes_losses_of_every_kind():
    """Local logistic f, whose slopes are interpolated, and Poisson's h without an L."""
    rng = np.random.default_rng(7)

    def agent():
        M = rng.standard_normal((20, 3))
        f = d2.LogisticRegression(M, np.sign(M @ [1.0, -1.0, 0.5] + 0.1), ridge=0.1)
        return d2.Agent(rng.standard_normal((6, 3)), f)

    agents = [agent() for _ in range(4)]
    for h in (d2.PoissonLoss(rng.integers(0, 4, 6).astype(float)), d2.LogisticLoss(np.ones(6))):
        problem = d2.Problem(agents, h)
        found = d2.solve(problem, d2.Network(nx.path_graph(4)), method="VF-L-BFGS", tol=1e-9)
        best = d2.solve(problem, d2.Network(nx.path_graph(4)), method="Newton", tol=1e-11)
        assert found.status == best.status == "CONVERGED"
        np.testing.assert_allclose(np.concatenate(found.x), np.concatenate(best.x), atol=1e-7)


@pytest.mark.parametrize("method", ["CoLA", "CoCoA+", "FISTA", "VF-L-BFGS"])
def test_a_coupling_with_kinks_is_refused(method):
    with pytest.raises(d2.CapabilityError, match="h must be smooth"):
        d2.solve(EQUATION, NETWORK, method=method, reduce=False)


def test_vector_free_refuses_g():
    with pytest.raises(d2.CapabilityError, match="g must be zero"):
        d2.solve(LASSO, NETWORK, method="VF-L-BFGS", reduce=False)


def test_cola_refuses_a_polynomial_of_the_network():
    with pytest.raises(d2.CapabilityError, match="attribute base"):
        d2.solve(LASSO, NETWORK.chebyshev(), method="CoLA")


@pytest.mark.parametrize("method", SUMS)
def test_sums_are_what_is_counted(method):
    """Each iteration is one sum of 2·height rounds; no stopping test comes on top."""
    result = d2.solve(LASSO, NETWORK, method=method, tol=1e-9)
    counts, height = result.counts, NETWORK.tree.height
    assert result.status == "CONVERGED" and counts.sums == counts.iterations
    assert counts.rounds == 2 * height * counts.sums and counts.vectors == 0
    setup = d2.solve(LASSO, NETWORK, method=method, tol=1e-2).counts.agree_rounds
    assert counts.agree_rounds == setup


def test_an_infeasible_coupling_is_never_solved():
    agents = [d2.Agent([[1.0]], d2.SquaredNorm(1.0), d2.IndicatorBox(0.0, 1.0)) for _ in range(3)]
    problem = d2.Problem(agents, d2.IndicatorPoint([5.0]))
    for method in ("Sharing-ADMM", "Sharing-ADMM-AA"):
        result = d2.solve(problem, d2.Network(nx.path_graph(3)), method=method, max_rounds=800)
        assert result.status in ("STALLED", "MAX_ROUNDS", "DIVERGED", "INFEASIBLE")


@pytest.mark.parametrize("method", ["CoLA", "VF-L-BFGS", *SUMS])
@pytest.mark.parametrize("kind", ["alone", "operator", "python"])
def test_any_agent_takes_part(method, kind):
    """One agent alone, an A that is an operator, an f that is Python code without values."""
    rng = np.random.default_rng(11)
    agents = []
    for w in (1.0,) if kind == "alone" else (1.0, 2.0, 3.0):
        A = rng.standard_normal((4, 3))
        f = d2.Smooth(lambda x, w=w: w * x, mu=w, L=w) if kind == "python" else d2.SquaredNorm(w)
        agents.append(d2.Agent(aslinearoperator(A) if kind == "operator" else A, f))
    problem = d2.Problem(agents, d2.SquaredLoss(rng.standard_normal(4)))
    network = d2.Network(nx.path_graph(len(agents)))
    result = d2.solve(problem, network, method=method, tol=1e-9, record=False)
    assert result.status == "CONVERGED" and result.certificate.kkt <= 1e-9
