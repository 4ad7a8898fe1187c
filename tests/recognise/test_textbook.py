"""Models as textbooks state them, nothing added: solved as they are, or refused with the reason."""

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import dual2 as d2
from dual2.reference.central import solve_conic

RNG = np.random.default_rng(3)
A, B, Y = RNG.standard_normal((12, 4)), RNG.standard_normal((12, 3)), RNG.standard_normal(12)
LABELS = np.sign(A[:, 0] + 0.5 * B[:, 0] + 0.3)
COSTS = RNG.uniform(1.0, 5.0, (3, 4))
FACTORS = RNG.standard_normal((7, 7))
COVARIANCE = FACTORS @ FACTORS.T + 0.1 * np.eye(7)
RETURNS = RNG.uniform(0.0, 1.0, 7)
MOMENTS = RNG.uniform(0.0, 1.0, (2, 6))
SHARES = np.array([0.2, 0.5, 0.3])


def pair(first=4, second=3, **marks):
    return cp.Variable(first, name="u", **marks), cp.Variable(second, name="v", **marks)


def residual(u, v):
    return A @ u + B @ v - Y


def lasso():
    u, v = pair()
    cost = cp.sum_squares(residual(u, v)) + 2 * cp.norm1(u) + 2 * cp.norm1(v)
    return cp.Minimize(cost), [], [u, v]


def ridge():
    u, v = pair()
    return (
        cp.Minimize(cp.sum_squares(residual(u, v)) + cp.sum_squares(u) + cp.norm(v) ** 2),
        [],
        [u, v],
    )


def portfolio():
    """Full covariance over the holdings of two owners."""
    u, v = pair()
    w = cp.hstack([u, v])
    return cp.Maximize(RETURNS @ w - cp.quad_form(w, COVARIANCE)), [cp.sum(w) == 1, w >= 0], [u, v]


def flow():
    """Cheapest flow of two units through a network whose arcs have two owners."""
    u, v = pair(3, 3, nonneg=True)
    mine = np.array([[1, 1, 0], [-1, 0, 1], [0, -1, -1], [0, 0, 0]])
    theirs = np.array([[0, 0, 1], [1, 0, -1], [-1, 1, 0], [0, -1, 0]])
    limits = [mine @ u + theirs @ v == [2, 0, 0, -2], u <= 1.5, v <= 2.5]
    return cp.Minimize([1, 3, 1] @ u + [2, 1, 4] @ v), limits, [u, v]


def transport():
    plants = [cp.Variable(4, name=f"plant{i}", nonneg=True) for i in range(3)]
    cost = sum(COSTS[i] @ x for i, x in enumerate(plants))
    limits = [sum(plants) == [1, 2, 1, 1], *[cp.sum(x) <= 2 for x in plants]]
    return cp.Minimize(cost), limits, plants


def svm():
    """With a bias that nothing regularises."""
    (u, v), bias = pair(), cp.Variable(name="bias")
    margins = cp.multiply(LABELS, A @ u + B @ v + bias)
    cost = 0.5 * cp.sum_squares(u) + 0.5 * cp.sum_squares(v) + cp.sum(cp.pos(1 - margins))
    return cp.Minimize(cost), [], [u, [v, bias]]


def minimax():
    u, v = pair()
    cost = cp.max(residual(u, v)) + 0.1 * cp.sum_squares(u) + 0.05 * cp.sum_squares(v)
    return cp.Minimize(cost), [], [u, v]


def chebyshev():
    u, v = pair()
    return cp.Minimize(cp.norm_inf(residual(u, v))), [], [u, v]


def utilities():
    u, v, w = (cp.Variable(2, name=name) for name in "uvw")
    joy = cp.sum(cp.log(u)) + 2 * cp.sum(cp.log(v)) + cp.sum(cp.log1p(w))
    return cp.Maximize(joy), [u + v + w <= [3, 4], u >= 0, w >= 0], [u, v, w]


def entropy():
    u, v = pair(3, 3)
    limits = [cp.sum(u) + cp.sum(v) == 1, MOMENTS @ cp.hstack([u, v]) <= 0.9 * MOMENTS.mean(axis=1)]
    return cp.Maximize(cp.sum(cp.entr(u)) + cp.sum(cp.entr(v))), limits, [u, v]


def divergence():
    u, v = pair(3, 3)
    cost = cp.sum(cp.kl_div(u, SHARES)) + cp.sum(cp.rel_entr(v, SHARES)) + cp.sum(cp.exp(v - u))
    return cp.Minimize(cost), [cp.sum(u) + cp.sum(v) == 1], [u, v]


def group_lasso():
    u, v = pair()
    cost = 0.5 * cp.sum_squares(residual(u, v)) + 1.5 * cp.norm(u) + 1.5 * cp.norm(v)
    return cp.Minimize(cost), [], [u, v]


def group_lasso_of_rows():
    X, v = cp.Variable((2, 2), name="X"), cp.Variable(3, name="v")
    fit = 0.5 * cp.sum_squares(residual(cp.vec(X, order="F"), v))
    return cp.Minimize(fit + cp.mixed_norm(X, 2, 1) + cp.norm(v, 1)), [], [X, v]


def water_filling():
    u, v = pair(3, 3, nonneg=True)
    noise = np.array([0.5, 1.0, 0.2])
    cost = -cp.sum(cp.log(noise + u)) - cp.sum(cp.log(0.5 * noise + v))
    return cp.Minimize(cost), [cp.sum(u) + cp.sum(v) == 1], [u, v]


def quantiles():
    u, v = pair()
    gap = -residual(u, v)
    return cp.Minimize(cp.sum(cp.maximum(0.8 * gap, -0.2 * gap))), [], [u, v]


def huber():
    u, v = pair()
    return cp.Minimize(cp.sum(cp.huber(residual(u, v), 0.5))), [], [u, v]


def logistic():
    u, v = pair()
    loss = cp.sum(cp.logistic(-cp.multiply(np.roll(LABELS, 3), A @ u + B @ v)))
    return cp.Minimize(loss + 0.5 * cp.norm1(u) + 0.5 * cp.norm1(v)), [], [u, v]


def tail_risk():
    u, v = pair(nonneg=True)
    cost = cp.sum_largest(-(A @ u + B @ v), 3) / 3 + 0.2 * cp.sum_squares(u)
    return cp.Minimize(cost), [cp.sum(u) + cp.sum(v) == 1], [u, v]


def soft_maximum():
    u, v = pair()
    cost = cp.log_sum_exp(residual(u, v)) + 0.1 * cp.sum_squares(u) + 0.1 * cp.sum_squares(v)
    return cp.Minimize(cost), [], [u, v]


def ratio():
    u, t = cp.Variable(3, name="u"), cp.Variable(name="t")
    return cp.Minimize(cp.quad_over_lin(u - 1, t) + t + cp.norm1(u)), [cp.sum(u) + t == 2], [u, t]


def robust_program():
    u, v = pair(3, 2)
    limits = [np.array([1, 2, 1]) @ u + 0.3 * cp.norm(u) + cp.sum(v) <= 4, u >= 0, v >= 0, v <= 1]
    return cp.Maximize(cp.sum(u) + cp.sum(v)), limits, [u, v]


def delays():
    u, v = pair(2, 2)
    return cp.Minimize(cp.sum(cp.inv_pos(u)) + cp.sum(cp.inv_pos(v))), [u + v <= [1, 2]], [u, v]


def fairness():
    u, v = pair(3, 3, nonneg=True)
    least = cp.minimum(cp.sum(u), cp.sum(v), 2 * u[0] + v[0])
    return cp.Maximize(least + 0.1 * cp.sum(u)), [u + v <= [1, 2, 3]], [u, v]


def budget():
    u, v = pair()
    limits = [cp.norm1(u) + cp.norm1(v) <= 0.7]
    return cp.Minimize(cp.sum_squares(residual(u, v))), limits, [u, v]


def targets():
    """Nothing but kinks away from zero: no price is felt at the start."""
    u, v = pair(2, 2)
    cost = cp.norm1(u - 1) + 2 * cp.norm1(v - 3)
    return cp.Minimize(cost), [cp.sum(u) + cp.sum(v) == 3], [u, v]


def broadcasting():
    u, v = cp.Variable(name="u"), cp.Variable(5, name="v")
    cost = cp.sum_squares(v - u) + cp.sum_squares(v - np.arange(5.0)) + u
    return cp.Minimize(cost), [v + u <= 3], [u, v]


def matrices():
    """Matrix variables, one of them symmetric, and parameters."""
    X, Y = cp.Variable((2, 2), name="X", symmetric=True), cp.Variable((2, 2), name="Y")
    weight, wanted = cp.Parameter(nonneg=True, value=0.3), cp.Parameter((2, 2))
    wanted.value = np.array([[1.0, 2.0], [4.0, -3.0]])
    cost = cp.sum_squares(X - wanted) + weight * cp.norm1(Y) + cp.sum_squares(X @ [1, 2] + Y[0])
    return cp.Minimize(cost), [cp.sum(X, axis=0) == cp.sum(Y, axis=1)], [X, Y]


def tube():
    """Support vector regression: no loss within a distance of 0.3."""
    (u, v), bias = pair(), cp.Variable(name="bias")
    loss = cp.sum(cp.pos(cp.abs(residual(u, v) + bias) - 0.3))
    cost = 0.5 * cp.sum_squares(u) + 0.5 * cp.sum_squares(v) + 2 * loss
    return cp.Minimize(cost), [], [u, [v, bias]]


def trend():
    """A piecewise linear part and one of few entries, of a series that is their sum."""
    u, v = pair(12, 12)
    cost = 0.5 * cp.sum_squares(Y - u - v) + cp.norm1(cp.diff(u, k=2)) + 0.5 * cp.norm1(v)
    return cp.Minimize(cost), [], [u, v]


def stock():
    u, v = pair(4, 4, nonneg=True)
    limits = [cp.cumsum(u + v) >= [1, 1.5, 3, 5], v <= 1]
    return cp.Minimize(cp.sum_squares(u) + 2 * cp.sum(v)), limits, [u, v]


def places():
    """Distances to given points and to each other."""
    u, v = pair(2, 2)
    near = sum(cp.norm(u - point) + cp.norm(v - 2 * point) for point in B[:4, :2])
    return cp.Minimize(near + cp.norm(u - v)), [], [u, v]


def piles():
    """Sums that run up to a bound, most of which is never reached."""
    u, v = pair(6, 6)
    limits = [cp.cumsum(u) + v <= 2, cp.cumsum(v) >= -3, cp.max(u) <= 1.5]
    return cp.Minimize(cp.sum_squares(u - 1) + cp.norm1(v)), limits, [u, v]


def sorted_costs():
    """Weights of the largest first; the best is not to buy at all."""
    u, v = pair(3, 3)
    return cp.Minimize(cp.dotsort(u, [3.0, 2.0, 1.0]) + cp.sum_squares(v)), [u + v == 1], [u, v]


def noise_and_groups():
    """A matrix as the sum of one with few rows and one with few entries."""
    u, v = cp.Variable((4, 3), name="u"), cp.Variable((4, 3), name="v")
    loss = cp.norm(u + v - A[:4, :3], "fro")
    return cp.Minimize(loss + 0.2 * cp.sum(cp.abs(v)) + 0.4 * cp.mixed_norm(u, 2, 1)), [], [u, v]


MODELS = [
    piles,
    sorted_costs,
    noise_and_groups,
    broadcasting,
    matrices,
    tube,
    trend,
    stock,
    places,
    targets,
    lasso,
    ridge,
    portfolio,
    flow,
    transport,
    svm,
    minimax,
    chebyshev,
    utilities,
    entropy,
    divergence,
    group_lasso,
    group_lasso_of_rows,
    water_filling,
    quantiles,
    huber,
    logistic,
    tail_risk,
    soft_maximum,
    ratio,
    robust_program,
    delays,
    fairness,
    budget,
]


@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_it_is_solved_as_it_is(make):
    objective, limits, agents = make()
    model = cp.Problem(objective, limits)
    solve_conic(model)
    expected = model.value
    problem = d2.from_cvxpy(model, agents)
    result = d2.solve(problem, d2.Network(nx.path_graph(len(agents))), tol=1e-8)
    value = problem.assign(result)
    assert (result.status, model.status) == (d2.Status.CONVERGED, cp.OPTIMAL)
    assert value == model.value == pytest.approx(expected, rel=1e-6, abs=1e-6)
    for limit in limits:
        assert np.max(limit.violation()) <= 1e-6


def test_whole_numbers_are_refused():
    u, v = cp.Variable(2, name="u"), cp.Variable(2, name="open", boolean=True)
    model = cp.Problem(cp.Minimize(cp.sum_squares(u) + cp.sum(v)), [u + v >= 1])
    with pytest.raises(d2.ProblemError, match="Variable open is declared boolean"):
        d2.from_cvxpy(model, {"plant": u, "site": v})


def test_variables_without_an_owner_are_refused():
    objective, limits, (u, _) = lasso()
    with pytest.raises(d2.ProblemError, match="variables without an agent: v"):
        d2.from_cvxpy(cp.Problem(objective, limits), {"one": u})
