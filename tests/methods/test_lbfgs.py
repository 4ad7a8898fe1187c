"""L-BFGS over exact sums: functions without second derivatives, operators, many rows."""

import networkx as nx
import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse.linalg import aslinearoperator

import dual2 as d2
from dual2.bench.peer_problems import lp
from dual2.methods.dual_newton.envelope import equilibrate, evaluate_fbe_batch
from dual2.methods.message import TRIAL_SCALARS, VALUE
from dual2.methods.panoc import slopes
from dual2.paper.problems.elastic_net_regression import experiment1
from dual2.reference import solve_reference
from problems import random_problem
from rounding import EPS

PATH = d2.Network(nx.path_graph(5))


def lbfgs(problem, network=PATH, **options):
    return d2.solve(problem, network, method="L-BFGS", record=False, progress=False, **options)


def own_functions(seed=0, **missing):
    """Python functions, and the same problem in functions of the library."""
    rng = np.random.default_rng([seed, 3])
    blocks, tilts = rng.standard_normal((5, 3, 2)), rng.standard_normal((5, 2))
    own, known = [], []
    for A, q in zip(blocks, tilts, strict=True):
        value = {"value": lambda x, q=q: 1.5 * x @ x + q @ x} if "f" not in missing else {}
        f = d2.Smooth(lambda x, q=q: 3.0 * x + q, mu=3.0, L=3.0, **value)
        inside = {"value": lambda x: 0.0} if "g" not in missing else {}
        g = d2.Proximable(lambda v, step: np.clip(v, -0.3, 0.3), **inside)
        own.append(d2.Agent(A, f, g))
        known.append(d2.Agent(A, d2.SquaredNorm(3.0).tilt(q), d2.IndicatorBox(-0.3, 0.3)))
    h = d2.HuberLoss([1.0, -2.0, 0.5], 0.4)
    return d2.Problem(own, h), d2.Problem(known, h)


def test_python_functions():
    own, known = own_functions()
    one, two = lbfgs(own), lbfgs(known)
    assert one.status == two.status == "CONVERGED" and one.certificate.kkt <= 1e-8
    best = np.concatenate(solve_reference(known).x)
    for result in (one, two):
        np.testing.assert_allclose(np.concatenate(result.x), best, atol=1e-7)


@pytest.mark.parametrize("what", ["f", "g"])
def test_values_are_asked_for(what):
    own, _ = own_functions(**{what: None})
    with pytest.raises(d2.CapabilityError, match=f"agent 0: {what} must have values; .* came with"):
        lbfgs(own)


@pytest.mark.parametrize("seed", [0, 3, 6, 8, 14, 33])
def test_random_problems_against_newton(seed):
    problem, network = random_problem(seed)
    one, two = lbfgs(problem, network), d2.solve(problem, network, method="Newton", record=False)
    assert one.status == two.status == "CONVERGED"
    x = np.concatenate(two.x)
    np.testing.assert_allclose(np.concatenate(one.x), x, atol=1e-5 * max(1.0, np.abs(x).max()))


def test_only_vectors_travel():
    problem, network = random_problem(4)
    result = lbfgs(problem, network)
    c, height, links = result.counts, network.tree.height, 2 * (problem.n - 1)
    assert c.rounds == 2 * height * c.sums and c.latency == c.rounds + c.agree_rounds
    assert c.floats <= links * (c.sums + 1) * (12 * (2 * problem.p + 7) + 2 * problem.p + 40)


def test_many_rows_with_logistic_costs():
    """What neither mode of Newton takes: 2100 rows, f not quadratic."""
    rng = np.random.default_rng(9)
    f = d2.LogisticRegression(rng.standard_normal((6, 2)), 1.0, ridge=1.0)
    agents = [d2.Agent(rng.standard_normal((2100, 2)) / 40.0, f) for _ in range(5)]
    result = lbfgs(d2.Problem(agents, d2.HuberLoss(rng.standard_normal(2100), 0.5)))
    assert result.status == "CONVERGED" and result.certificate.kkt <= 1e-8


def test_operators():
    own, known = own_functions(1)
    agents = [d2.Agent(aslinearoperator(a.A), a.f, a.g) for a in own.agents]
    one, two = lbfgs(d2.Problem(agents, own.h)), lbfgs(known)
    assert one.status == "CONVERGED"
    np.testing.assert_allclose(np.concatenate(one.x), np.concatenate(two.x), atol=1e-7)


def test_a_linear_program():
    rng = np.random.default_rng([1, 55])
    A, q = rng.standard_normal((5, 3, 4)), rng.standard_normal((5, 4))
    b, box = np.einsum("npd,nd->p", A, rng.uniform(0, 1, (5, 4))), d2.IndicatorBox(0.0, 1.0)
    agents = [d2.Agent(a, d2.Quadratic(np.zeros(4), c), box) for a, c in zip(A, q, strict=True)]
    result = lbfgs(d2.Problem(agents, d2.IndicatorAtMost(b)))
    best = linprog(q.ravel(), A_ub=np.hstack(A), b_ub=b, bounds=(0, 1)).fun
    assert result.status == "CONVERGED"
    assert q.ravel() @ np.concatenate(result.x) == pytest.approx(best, rel=1e-7)


def test_python_functions_continue_bit_for_bit():
    own, _ = own_functions(2)
    whole, part = lbfgs(own), None
    for cut in range(8, 8 * whole.counts.sums, 16):
        part = lbfgs(own, start=part, max_rounds=cut)
    part = lbfgs(own, start=part)
    assert part.status == "CONVERGED" and part.counts == whole.counts
    assert all((a == b).all() for a, b in zip(part.x, whole.x, strict=True))


def test_infeasible_with_a_proof():
    agents = [d2.Agent([[1.0]], d2.SquaredNorm(1.0), d2.IndicatorBox(0.0, 1.0))] * 5
    result = lbfgs(d2.Problem(agents, d2.IndicatorBox([6.0], np.inf)))
    assert result.status == "INFEASIBLE" and result.certificate.separator is not None


def test_pairs_are_reproduced():
    """The newest pair exactly; with as many pairs as dimensions of a quadratic, all of it."""
    from dual2.methods.panoc import quasi_newton

    rng = np.random.default_rng(5)
    half = rng.standard_normal((4, 4))
    Q = half @ half.T + np.eye(4)
    steps = np.linalg.eigh(Q)[1].T
    pairs = np.stack([steps, steps @ Q], axis=1)
    v = rng.standard_normal(4)
    near = 1e4 * EPS * np.linalg.cond(Q)
    np.testing.assert_allclose(quasi_newton(pairs, Q @ v), v, atol=near)
    pairs = np.stack([half, half @ Q], axis=1)
    np.testing.assert_allclose(quasi_newton(pairs, pairs[-1, 1]), pairs[-1, 0], atol=100 * near)


def quadratic_points(M, top, h, prices):
    """What sums tell of prices where ψ(λ) = λᵀMλ/2 - <top, λ>."""
    S = top - prices @ M
    numbers = np.zeros((len(prices), TRIAL_SCALARS))
    numbers[:, VALUE] = -(0.5 * ((prices @ M) * prices).sum(axis=1) - prices @ top)
    return evaluate_fbe_batch(h, equilibrate(M, h), prices, S, np.abs(S), numbers)


@pytest.mark.parametrize(
    "h", [d2.IndicatorPoint([1.0, 2.0, -1.0]), d2.SquaredLoss([1.0, 0.0, 3.0])]
)
def test_slopes_tell_how_far_a_quadratic_envelope_falls(h):
    rng = np.random.default_rng(0)
    root = rng.standard_normal((3, 3))
    M, top, prices = root @ root.T, rng.standard_normal(3), rng.standard_normal((5, 3))
    points = quadratic_points(M, top, h, prices)
    falls, noise = slopes(equilibrate(M, h), points.select(0), points)
    np.testing.assert_allclose(falls, points.envelope - points.envelope[0], rtol=1e-9, atol=1e-12)
    assert falls[0] == 0.0 and 0 < noise.max() < 1e-13


def test_an_ill_conditioned_problem_is_solved_below_what_envelopes_resolve():
    setting = experiment1()
    found = lbfgs(setting.problem, setting.network, max_sums=600)
    assert found.status == "CONVERGED" and found.certificate.kkt <= 1e-8


@pytest.mark.parametrize("seed", [0, 6])
def test_anchors_of_linear_programs_do_not_wander(seed):
    problem = lp(seed)
    found = lbfgs(problem, d2.Network(nx.complete_graph(problem.n)), max_sums=300)
    assert found.status == "CONVERGED"
    best = d2.solve(problem, d2.Network(nx.complete_graph(problem.n)), record=False).objective
    assert found.objective == pytest.approx(best, rel=1e-6)
