"""Reductions: the lifted problem has the same x and λ, and methods solve through it."""

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator

import dual2 as d2
from dual2.reference import solve_reference
from dual2.solving.reductions import Lifting, Slack, reductions_of
from path_family import distance, path_network, path_problem

TARGET = np.array([1.0, -2.0, 0.5, 3.0, -1.0])
COUPLINGS = {
    "at most": d2.IndicatorAtMost(TARGET),
    "box": d2.IndicatorBox(TARGET - 0.5, TARGET + 0.5),
    "half open": d2.IndicatorBox(TARGET, np.array([np.inf, -1.0, np.inf, 5.0, np.inf])),
    "squared": d2.SquaredLoss(TARGET, scale=0.7),
    "nonnegative squared": d2.NonnegativeSquaredLoss(TARGET),
    "huber": d2.HuberLoss(TARGET, delta=0.4),
    "absolute": d2.AbsoluteLoss(TARGET),
    "logistic": d2.LogisticLoss(np.sign(TARGET)),
    "l2": d2.L2Norm(0.8),
    "stacked": d2.Stacked([d2.IndicatorPoint(TARGET[:2]), d2.L2Norm(1.0)], [2, 3]),
}


def problem_with(h, g="box"):
    return d2.Problem(path_problem(g).agents, h)


# -- identities ----------------------------------------------------------------------------------
@pytest.mark.parametrize("h", COUPLINGS)
def test_the_lifted_problem_has_the_same_solution(h):
    """x* to 1e-9, λ*, and y* as the reduction says."""
    problem = problem_with(COUPLINGS[h], "l1")
    best = solve_reference(problem)
    found = reductions_of(problem)
    assert found
    for reduction in found:
        lifted = reduction.apply(problem)
        answer = solve_reference(lifted)
        x = reduction.invert(problem, np.concatenate(answer.x))
        assert distance(problem.split(x), best.x) <= 1e-9
        y = np.concatenate(answer.x)[-problem.p :]
        s = problem.coupling(best.x)
        np.testing.assert_allclose(y, reduction.lift(problem, s), atol=1e-8)
        assert problem.kkt(problem.split(x), answer.dual).kkt <= 1e-8


def test_points_need_no_reduction():
    assert reductions_of(path_problem()) == []


def test_order_of_the_reductions():
    names = {
        h: [(r.name, getattr(r, "smooth", None)) for r in reductions_of(problem_with(f))]
        for h, f in COUPLINGS.items()
    }
    assert names["at most"] == [("slack", None), ("lifting", False)]
    assert names["squared"] == [("lifting", True), ("lifting", False)]
    assert names["huber"] == [("lifting", False), ("lifting", True)]
    assert names["l2"] == [("lifting", False)]


def test_slacks_of_compact_sets_are_bounded_and_never_cut_the_solution_off():
    problem = problem_with(d2.IndicatorAtMost(np.full(5, 1e-3)))
    upper = Slack().apply(problem).agents[-1].g.functions[1].upper
    reach = sum(np.abs(agent.A).sum(axis=1) for agent in problem.agents)
    np.testing.assert_allclose(upper, 1e-3 + reach)
    wide = Slack().apply(problem_with(d2.IndicatorAtMost(np.full(5, 1e3))))
    np.testing.assert_allclose(wide.agents[-1].g.functions[1].upper, 1e5)
    free = Slack().apply(problem_with(d2.IndicatorAtMost(TARGET), "l1"))
    assert np.all(np.isinf(free.agents[-1].g.functions[1].upper))


def test_every_kind_of_matrix_gets_its_identity():
    A = np.array([[1.0, 2.0], [0.0, 1.0]])
    for kind in (np.asarray, sp.csc_array, aslinearoperator):
        problem = d2.Problem([d2.Agent(kind(A), d2.SquaredNorm(1.0))], d2.L2Norm(1.0))
        keeper = Lifting(smooth=False).apply(problem).agents[-1]
        x, v = np.array([1.0, 2.0, 3.0, 4.0]), np.array([5.0, 6.0])
        np.testing.assert_allclose(keeper.apply(x), A @ x[:2] - x[2:])
        np.testing.assert_allclose(keeper.adjoint(v), np.concatenate([A.T @ v, -v]))


# -- through solve ---------------------------------------------------------------------------------
@pytest.mark.parametrize("h", COUPLINGS)
@pytest.mark.parametrize("name", ["NECPD", "DC-ADMM", "IDC-ADMM", "DPMM"])
def test_methods_for_equations_solve_every_coupling(name, h):
    problem = problem_with(COUPLINGS[h], "l1")
    best = solve_reference(problem)
    result = d2.solve(
        problem, path_network(), method=name, tol=1e-10, reference=best.x, max_rounds=100_000
    )
    assert result.status == "CONVERGED"
    assert distance(result.x, best.x) <= 1e-8
    assert [part.size for part in result.x] == list(problem.dims)
    assert result.trace["gap"][-1] == pytest.approx(distance(result.x, best.x), abs=1e-12)
    own = problem.kkt(result.x, result.dual).kkt  # the run's own is summed along the tree
    assert result.certificate.kkt == pytest.approx(own, abs=8 * problem.n * np.finfo(float).eps)
    direct = name == "DPMM" and h == "at most"
    assert ("reduction" in result.parameters) is not direct
    assert ("Reduction: " in result.explain()) is not direct


def test_tracking_admm_with_a_slack():
    problem = problem_with(d2.IndicatorAtMost(TARGET))
    result = d2.solve(problem, path_network(), method="Tracking-ADMM", tol=1e-10)
    assert result.status == "CONVERGED"
    assert distance(result.x, solve_reference(problem).x) <= 1e-8
    assert "published conditions hold" in result.explain(), "boxes and a bounded slack"


def test_reduced_runs_continue_bit_for_bit_and_start_at_the_solution():
    problem, network = problem_with(COUPLINGS["squared"]), path_network()
    wish = {"method": "NECPD", "tol": 1e-14}
    whole = part = d2.solve(problem, network, max_rounds=300, **wish)
    for cut in (1, 50, 300):
        part = d2.solve(problem, network, max_rounds=cut, start=part if cut > 1 else None, **wish)
    np.testing.assert_array_equal(part.duals, whole.duals)
    np.testing.assert_array_equal(np.concatenate(part.x), np.concatenate(whole.x))
    best = solve_reference(problem)
    warm = d2.solve(problem, network, method="NECPD", start=(best.x, best.dual), max_rounds=50)
    assert warm.status == "CONVERGED" and warm.counts.rounds <= 20


@pytest.mark.parametrize("name", ["Tracking-ADMM", "NECPD", "DC-ADMM", "IDC-ADMM", "DPMM"])
def test_a_coupling_that_nobody_feels_ends_too(name):
    """λ* = 0, which these methods approach but never reach: the answer's price is 0, or nearly."""
    problem = problem_with(d2.IndicatorBox(-20.0, 20.0), "l1")
    result = d2.solve(problem, path_network(), method=name, max_rounds=50_000)
    assert result.status == "CONVERGED" and "reduction" in result.parameters
    assert np.abs(result.dual).max() <= 1e-8
    assert problem.kkt(result.x, result.dual).kkt <= 1e-8
    assert distance(result.x, solve_reference(problem).x) <= 1e-7


def test_no_reduction_without_permission():
    problem = problem_with(COUPLINGS["at most"])
    with pytest.raises(
        d2.CapabilityError, match=r"DC-ADMM cannot.*point.*DPMM.*reduce=True.*slack"
    ):
        d2.solve(problem, path_network(), method="DC-ADMM", reduce=False)


def test_where_no_reduction_helps_the_error_names_other_methods():
    """DCDA needs strongly convex f; a slack has none."""
    problem = problem_with(COUPLINGS["at most"])
    with pytest.raises(d2.CapabilityError, match=r"DCDA cannot.*iD2A") as caught:
        d2.solve(problem, path_network(), method="DCDA")
    assert "reduce=True" not in str(caught.value)


@pytest.mark.parametrize("name", ["IDEA", "APAPC-Chebyshev", "DCDA", "iD2GT"])
def test_a_smooth_and_strongly_convex_h_joins_f_where_g_must_be_zero(name):
    problem = problem_with(COUPLINGS["squared"], "zero")
    result = d2.solve(problem, path_network(), method=name, tol=1e-9)
    assert result.status == "CONVERGED"
    assert distance(result.x, solve_reference(problem).x) <= 1e-7
    assert "moved into f of agent 7" in result.explain()


# -- the third experiment in small -----------------------------------------------------------------
def test_the_third_experiment_in_small():
    """Box-constrained quadratics with κ up to 1000 and an active inequality coupling."""
    rng, n, p = np.random.default_rng(11), 8, 4
    agents = []
    for _ in range(n):
        Q = np.linalg.qr(rng.standard_normal((2, 2)))[0]
        P = Q @ np.diag(rng.uniform(1, 1000, 2)) @ Q.T
        f = d2.Quadratic((P + P.T) / 2, 30 * rng.standard_normal(2))
        box = d2.IndicatorBox(0.0, np.abs(rng.standard_normal(2)))
        agents.append(d2.Agent(rng.standard_normal((p, 2)), f, box))
    b = 0.01 * np.abs(rng.standard_normal(p))
    problem = d2.Problem(agents, d2.IndicatorAtMost(b))
    best = solve_reference(problem)
    assert np.count_nonzero(best.dual > 1e-6) >= 1, "the coupling is active"
    network = d2.Network(nx.gnp_random_graph(n, 0.5, seed=1))
    for name in ("DC-ADMM", "DPMM", "NECPD", "Tracking-ADMM"):
        result = d2.solve(problem, network, method=name, tol=1e-9, max_rounds=100_000)
        assert result.status == "CONVERGED", name
        assert distance(result.x, best.x) <= 1e-8, name
