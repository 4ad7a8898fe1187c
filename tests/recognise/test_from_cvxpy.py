"""Models of cvxpy against cvxpy's own solution of them."""

from dataclasses import replace

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import dual2 as d2
from dual2.functions.piecewise import PiecewiseQuadratic
from dual2.reference.central import solve_conic

RNG = np.random.default_rng(7)
M, N = RNG.standard_normal((4, 3)), RNG.standard_normal((4, 2))
Y = RNG.standard_normal(4)


def variables():
    return cp.Variable(3, name="x"), cp.Variable(2, name="y")


def regular(x, y):
    return cp.sum_squares(x) + cp.quad_form(y - 1, np.array([[2.0, 0.5], [0.5, 1.0]]))


def meet(x, y):
    return M @ x + N @ y - Y


MODELS = {
    "equation": lambda x, y: (regular(x, y), [meet(x, y)[:2] == 0]),
    "inequality": lambda x, y: (regular(x, y) - 3 * cp.sum(x), [cp.sum(x) + cp.sum(y) <= 1]),
    "least squares": lambda x, y: (regular(x, y) + 2 * cp.sum_squares(meet(x, y)) / 3, []),
    "squares": lambda x, y: (regular(x, y) + np.arange(4) @ cp.square(meet(x, y)), []),
    "absolute": lambda x, y: (regular(x, y) + cp.norm1(meet(x, y)), []),
    "weights": lambda x, y: (
        regular(x, y) + cp.sum(cp.multiply([1, 2, 0, 4], cp.abs(meet(x, y)))),
        [],
    ),
    "norm": lambda x, y: (regular(x, y) + 0.5 * cp.norm(meet(x, y), 2), []),
    "huber": lambda x, y: (regular(x, y) + cp.sum(cp.huber(meet(x, y), 0.3)), []),
    "logistic": lambda x, y: (regular(x, y) + cp.sum(cp.logistic(-meet(x, y))), []),
    "uneven logistic": lambda x, y: (regular(x, y) + [1, 1, 2, 3] @ cp.logistic(meet(x, y)), []),
    "poisson": lambda x, y: (regular(x, y) + cp.sum(cp.exp(meet(x, y)) - 2 * meet(x, y)), []),
    "hinge": lambda x, y: (regular(x, y) + cp.sum(cp.pos(1 - meet(x, y))), []),
    "squared hinge": lambda x, y: (
        regular(x, y) + cp.sum_squares(cp.pos(meet(x, y))) + 2 * cp.sum(cp.neg(y - 2) ** 2), []
    ),
    "pinball": lambda x, y: (
        regular(x, y) + cp.sum(cp.maximum(0.8 * meet(x, y), -0.2 * meet(x, y)))
        - cp.sum(cp.minimum(2 * x, cp.sum(y))), []
    ),
    "weights that are zero": lambda x, y: (
        regular(x, y) + [0, 1, 0, 2] @ (cp.logistic(meet(x, y)) + cp.huber(meet(x, y)))
        + [1, 0, 0, 2] @ cp.exp(meet(x, y)) + 0 * cp.sum(cp.exp(x)), []
    ),
    "stacked variables": lambda x, y: (
        cp.sum_squares(cp.hstack([x, y, x[0] + y[1]]) - 1) + cp.norm1(cp.hstack([x, y])), []
    ),
    "negative part": lambda x, y: (regular(x, y) + 3 * cp.sum(cp.neg(meet(x, y) - 2)), []),
    "ball": lambda x, y: (regular(x, y), [cp.norm(meet(x, y)) <= 0.5]),
    "squared ball": lambda x, y: (regular(x, y), [cp.sum_squares(meet(x, y)) <= 0.25]),
    "box": lambda x, y: (regular(x, y), [cp.abs(meet(x, y)) <= 0.4]),
    "norm_inf": lambda x, y: (regular(x, y), [cp.norm_inf(meet(x, y)) <= 0.4]),
    "cone": lambda x, y: (regular(x, y), [cp.SOC(cp.Constant(0.5), meet(x, y))]),
    "own bounds": lambda x, y: (
        regular(x, y) - 4 * cp.sum(x),
        [meet(x, y)[0] == 0, x <= 0.5, -2 * y <= -1, y[0] <= 3],
    ),
    "own l1": lambda x, y: (
        regular(x, y) + 0.5 * cp.norm1(x) + cp.pos(y[1] - 1), [meet(x, y)[0] == 0]
    ),
    "own simplex": lambda x, y: (
        regular(x, y), [x >= 0, 2 * cp.sum(x) == 3, meet(x, y)[0] <= 0.1]
    ),
    "own ball": lambda x, y: (regular(x, y), [cp.norm(2 * x - 1) <= 0.5, meet(x, y)[0] == 0]),
    "own norm": lambda x, y: (regular(x, y) + 3 * cp.norm(-2 * x + 1), [meet(x, y)[0] == 0]),
    "own equations": lambda x, y: (
        regular(x, y),
        [x[0] + x[1] == 1, x[1] - x[2] == 2, y[0] + 2 * y[1] <= 0, meet(x, y)[0] == 0],
    ),
    "own rows": lambda x, y: (
        regular(x, y) + cp.tv(x), [x[0] + x[1] <= 1, x <= 2, meet(x, y)[0] == 0]
    ),
    "two kinks": lambda x, y: (
        regular(x, y) + cp.norm1(x) + 2 * cp.norm1(x - 0.5), [meet(x, y)[0] == 0]
    ),
    "no coupling": lambda x, y: (regular(x, y) + cp.norm1(x), [y >= 2]),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_the_solution_is_cvxpy_s(name):
    x, y = variables()
    cost, constraints = MODELS[name](x, y)
    model = cp.Problem(cp.Minimize(cost + 1.5), constraints)
    solve_conic(model)
    expected = [x.value.copy(), y.value.copy(), model.value]
    duals = [np.copy(c.dual_value) for c in constraints if not isinstance(c, cp.SOC)]
    problem = d2.from_cvxpy(model, {"one": x, "two": [y]})
    result = d2.solve(problem, d2.Network([(0, 1)]), tol=1e-10)
    assert result.status == d2.Status.CONVERGED
    value = problem.assign(result)
    np.testing.assert_allclose(x.value, expected[0], atol=2e-5)
    np.testing.assert_allclose(y.value, expected[1], atol=2e-5)
    assert value == pytest.approx(expected[2], rel=1e-6)
    if name in ("equation", "inequality"):
        np.testing.assert_allclose(constraints[0].dual_value, duals[0], atol=1e-5)


def test_pieces_find_their_place():
    x, y = variables()
    model = cp.Problem(
        cp.Minimize(cp.sum_squares(x) + cp.sum_squares(y) + cp.norm1(x)),
        [x <= 1, cp.sum(y) == 1, y >= 0, M[0] @ x + N[0] @ y == Y[0]],
    )
    first, second = d2.from_cvxpy(model, [x, y]).agents
    assert isinstance(first.g, PiecewiseQuadratic)
    assert isinstance(second.g, d2.IndicatorSimplex)
    assert first.p == 1
    np.testing.assert_allclose(first.A, M[:1])
    np.testing.assert_allclose(first.f.grad(np.ones(3)), 2.0)


def test_stacked_variables_are_told_apart():
    x, y = variables()
    both = cp.hstack([x, y, x[0] + y[0]])
    problem = d2.from_cvxpy(cp.Problem(cp.Minimize(cp.sum_squares(both))), [x, y])
    assert problem.p == 1 and [agent.f.mu for agent in problem.agents] == [2.0, 2.0]


def test_a_maximum_is_solved_in_its_own_sense():
    x, y = cp.Variable(name="x"), cp.Variable(name="y", bounds=[0, 0.25])
    model = cp.Problem(cp.Maximize(4 * x + 4 * y - x**2 - y**2), [x + y <= 1])
    problem = d2.from_cvxpy(model, [x, y])
    value = problem.assign(d2.solve(problem, d2.Network([(0, 1)]), tol=1e-10))
    assert (x.value, y.value) == pytest.approx((0.75, 0.25), abs=1e-7)
    assert value == pytest.approx(4 - 0.5625 - 0.0625, abs=1e-7)


def test_matrices_and_many_agents():
    """Matrix variables column by column, sparse A, values restored that the model held."""
    X = [cp.Variable((2, 3), name=f"X{i}") for i in range(5)]
    X[0].value = np.ones((2, 3))
    demand = RNG.standard_normal((2, 3))
    cost = sum((i + 1) * cp.sum_squares(part - i) for i, part in enumerate(X))
    model = cp.Problem(cp.Minimize(cost), [sum(X) == demand])
    problem = d2.from_cvxpy(model, X)
    np.testing.assert_array_equal(X[0].value, np.ones((2, 3)))
    problem.assign(d2.solve(problem, d2.Network(nx.path_graph(5)), tol=1e-10))
    weights = 1 / np.arange(1, 6)
    gap = demand - sum(range(5))
    for i, part in enumerate(X):
        np.testing.assert_allclose(part.value, i + gap * weights[i] / weights.sum(), atol=1e-7)


def test_what_is_not_recognised_is_named_with_the_reason():
    x, y = variables()
    cost = cp.sum_squares(x) + cp.sum(cp.rel_entr(x[:2], y))
    limits = [cp.log_sum_exp(2 * x - 1) <= 1, x <= [1, np.inf, 2]]
    with pytest.raises(d2.CapabilityError) as error:
        d2.from_cvxpy(cp.Problem(cp.Minimize(cost), [*limits, *limits]), {"one": x, "two": y})
    parts = (
        "rel_entr(x[0:2], y) of agents one, two (its second argument is not constant, and to",
        "log_sum_exp(2.0 * x - 1.0) <= 1.0 of agent one (a bound on log_sum_exp is not known",
        "x <= [ 1. inf 2.] of agent one (some of its numbers are not finite",
    )
    for part in parts:
        assert str(error.value).count(part) == 1, str(error.value)
    assert "Promote" not in str(error.value)
    with pytest.raises(d2.CapabilityError, match=r"recognised: lambda_max\(diag\(x\)\) of agent"):
        d2.from_cvxpy(cp.Problem(cp.Minimize(cp.lambda_max(cp.diag(x)))), [x])


def broken(wish):
    x, y = variables()
    whole = cp.Variable(2, integer=True, name="k")
    unset = cp.Parameter(name="price")
    cost = cp.sum_squares(x) + cp.sum_squares(y)
    model = cp.Problem(cp.Minimize(cost), [cp.sum(x) == cp.sum(y)])
    return {
        "missing": (model, [x]),
        "twice": (model, [[x, y], [y]]),
        "empty": (model, [[x, y], []]),
        "integer": (cp.Problem(cp.Minimize(cp.sum_squares(whole))), [whole]),
        "number": (model, [x, 3.0]),
        "string": ("model", [x, y]),
        "concave": (cp.Problem(cp.Minimize(cp.sqrt(x[0]) + cost)), [x, y]),
        "outside": (cp.Problem(cp.Minimize(cost), [x >= 0, cp.norm(y) >= 1]), [x, y]),
        "parameter": (cp.Problem(cp.Minimize(cost + unset * x[0])), [x, y]),
        "bounds": (cp.Problem(cp.Minimize(cost), [x >= 2, x <= 1]), [x, y]),
        "constant": (cp.Problem(cp.Minimize(cost), [cp.Constant(2) <= 1]), [x, y]),
    }[wish]


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ("missing", "without an agent: y"),
        ("twice", "y belongs to agent 0 and to agent 1"),
        ("empty", "an empty agent"),
        ("integer", "k is declared integer"),
        ("number", "Agent 1 owns a .*expected"),
        ("string", "needs a cvxpy.Problem; found str"),
        ("concave", r"not convex by cvxpy's rules: [pP]ower\w*\(x\[0\], 0.5\). State"),
        ("outside", r"not convex by cvxpy's rules: 1.0 <= P?p?norm\w*\(y, 2\). State"),
        ("parameter", "without a value: price"),
        ("bounds", "Agent 0: entry 0 of x must be at least 2 and at most 1"),
        ("constant", "no variables and is violated"),
    ],
)
def test_bad_models_are_refused(wish, message):
    model, agents = broken(wish)
    with pytest.raises(d2.ProblemError, match=message):
        d2.from_cvxpy(model, agents)


def test_a_model_without_solution_gets_no_values():
    x, y = cp.Variable(name="x", nonneg=True), cp.Variable(name="y", nonneg=True)
    x.value, network = 1.0, d2.Network([(0, 1)])
    for objective, limit, status, value in (
        (cp.Minimize(x + 2 * y), x + y == -1, "infeasible", np.inf),
        (cp.Maximize(x + 2 * y), x + y == -1, "infeasible", -np.inf),
        (cp.Maximize(x + 2 * y), x - y == 1, "unbounded", np.inf),
    ):
        model = cp.Problem(objective, [limit])
        problem = d2.from_cvxpy(model, [x, y])
        assert problem.assign(d2.solve(problem, network)) == value == model.value
        assert model.status == status
        assert x.value is None and y.value is None and limit.dual_value is None


def test_a_quadratic_form_is_split_among_its_owners():
    x, y = variables()
    blocks = np.zeros((5, 5))
    blocks[:3, :3], blocks[3:, 3:] = M[:3].T @ M[:3], np.diag([1.0, 2.0])
    model = cp.Problem(cp.Minimize(cp.quad_form(cp.hstack([x, y]), blocks)), [cp.sum(y) == 1])
    first, second = d2.from_cvxpy(model, [x, y]).agents
    np.testing.assert_allclose(first.f.P, 2 * blocks[:3, :3], atol=1e-12)
    np.testing.assert_allclose(second.f.grad(np.ones(2)), [2.0, 4.0])
    assert first.p == 1
    coupled = cp.Problem(cp.Minimize(cp.quad_form(cp.hstack([x, y]), np.eye(5) + 1.0)))
    problem = d2.from_cvxpy(coupled, [x, y])
    assert problem.p == 1 and [agent.f.mu for agent in problem.agents] == pytest.approx([2.0, 2.0])


def test_new_variables_stay_with_their_owner():
    x, y = variables()
    cost = cp.sum_squares(x) + cp.sum(cp.power(y - 1, 4))
    problem = d2.from_cvxpy(cp.Problem(cp.Minimize(cost)), {"one": x, "two": y})
    assert problem.dims[0] == 3 and problem.dims[1] > 2
    assert set(problem.summary) == {"power(y - 1.0, 4.0): rows of the coupling of agent two alone"}


def test_geometric_means_of_which_one_vanishes():
    """Nothing is left for y: its rows are judged although they have no size of their own."""
    x, y = (cp.Variable(2, nonneg=True, name=name) for name in "xy")
    model = cp.Problem(
        cp.Maximize(cp.geo_mean(x) + cp.geo_mean(y)), [cp.sum(x) + 2 * cp.sum(y) <= 6]
    )
    problem = d2.from_cvxpy(model, [x, y])
    result = d2.solve(problem, d2.Network([(0, 1)]))
    assert result.status == "CONVERGED" and problem.assign(result) == pytest.approx(3.0, abs=1e-7)
    np.testing.assert_allclose(np.append(x.value, y.value), [3.0, 3.0, 0.0, 0.0], atol=1e-7)


def test_a_norm_of_which_nothing_is_left():
    """The p-norm of a residual that vanishes: its epigraph ends at the apex, where sizes are 0."""
    rng = np.random.default_rng(0)
    (x, y), A, b = variables(), rng.standard_normal((3, 3)), rng.standard_normal(3)
    cost = cp.pnorm(A @ x - b, 4) + cp.sum_squares(y - 1)
    problem = d2.from_cvxpy(cp.Problem(cp.Minimize(cost), [cp.sum(x) + cp.sum(y) <= 10]), [x, y])
    result = d2.solve(problem, d2.Network([(0, 1)]), record=False)
    assert result.status == "CONVERGED"
    problem.assign(result)
    np.testing.assert_allclose(x.value, np.linalg.solve(A, b), rtol=1e-8)


def test_a_run_that_diverged_claims_nothing():
    x, y = cp.Variable(), cp.Variable()
    model = cp.Problem(cp.Minimize(x**2 + y**2), [x + y == 1])
    problem = d2.from_cvxpy(model, [x, y])
    result = d2.solve(problem, d2.Network([(0, 1)]))
    problem.assign(result)
    assert np.isnan(problem.assign(replace(result, status=d2.Status.DIVERGED)))
    assert model.status == "solver_error"
    assert model.value is x.value is model.constraints[0].dual_value is None


def test_the_answers_of_some_agents_are_not_assigned():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    problem = d2.from_cvxpy(cp.Problem(cp.Minimize(x**2 + y**2), [x + y == 1]), [x, y])
    result = d2.solve(problem, d2.Network([(0, 1)]))
    with pytest.raises(d2.ProblemError, match="answers of 1 agents; expected 2"):
        problem.assign(replace(result, x=result.x[:1]))
