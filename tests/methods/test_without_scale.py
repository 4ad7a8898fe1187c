"""Where a relative test has nothing to compare with: no price, no force, no bound."""

import networkx as nx
import numpy as np
import pytest

import dual2 as d2


def default(problem, **options):
    graph = nx.path_graph(problem.n) if problem.n > 1 else nx.empty_graph(1)
    options = {"record": False, "progress": False} | options
    return d2.solve(problem, d2.Network(graph), **options)


def linear(q):
    return d2.Quadratic(np.zeros(len(q)), q)


def falls(problem, result, x):
    """The objective from x along the ray of the certificate, at steps of 1, 10, …"""
    ray = [np.array(part) for part in result.certificate.ray]
    values = []
    for t in 10.0 ** np.arange(4):
        point = [a + t * d for a, d in zip(x, ray, strict=True)]
        values.append(problem.objective(point, problem.coupling(point)))
    size = max(np.abs(part).max() for part in ray)
    rates = np.diff(values) / np.diff(10.0 ** np.arange(4))
    return np.isfinite(values).all() and np.all(rates < -1e-6 * size)


@pytest.mark.parametrize("seed", range(3))
def test_a_price_of_nothing_is_none(seed):
    """Agents without costs: the only price is 0, and no price near it would do."""
    rng = np.random.default_rng([seed, 31])
    agents = [d2.Agent(rng.standard_normal((5, 2)), linear(np.zeros(2))) for _ in range(4)]
    h = d2.PiecewiseLinear([-1.0, 0.5, 2.0], [-2.0, -0.5, 1.0, 3.0], 0.7)
    problem = d2.Problem(agents, h.shift(rng.standard_normal(5)))
    result = default(problem)
    assert result.status == "CONVERGED" and not result.dual.any()
    lowest = 5 * float(h.value([0.5]))
    assert result.objective == pytest.approx(lowest, abs=1e-12)


def test_costs_in_other_coordinates_than_the_fall():
    """Two coordinates without curvature cancel in the coupling; the others stay."""
    f = d2.Quadratic(np.array([1.0, 0.0, 0.0]), np.array([0.3, -1.0, 0.6]))
    A = np.array([[0.8, 0.07, -0.12]])
    agents = [d2.Agent(A, f, d2.L1Norm(0.1)), d2.Agent([[-0.1]], d2.SquaredNorm(2.0))]
    problem = d2.Problem(agents, d2.IndicatorBox([0.2], [0.4]))
    result = default(problem)
    assert result.status == "UNBOUNDED"
    start = [np.array([0.375, 0.0, 0.0]), np.zeros(1)]
    assert falls(problem, result, start)


def test_one_agent_falls_for_itself_while_others_settle():
    rng = np.random.default_rng(5)
    M = rng.standard_normal((1, 3))
    agents = [
        d2.Agent(rng.standard_normal((4, 3)), linear(np.zeros(3)), d2.IndicatorAffine(M, [1.0])),
        d2.Agent(rng.standard_normal((4, 2)), d2.SquaredNorm(1.0)),
        d2.Agent(np.zeros((4, 2)), linear(np.array([1.0, -0.5]))),
    ]
    problem = d2.Problem(agents, d2.SquaredLoss(np.ones(4)))
    result = default(problem)
    assert result.status == "UNBOUNDED"
    x = [agents[0].g.prox(np.zeros(3), 1.0), np.zeros(2), np.zeros(2)]
    assert falls(problem, result, x)


def test_unbounded_and_empty_polyhedra():
    wedge = d2.IndicatorPolyhedron(np.array([[1.0, 1.0], [1.0, -1.0]]), np.zeros(2), np.inf)
    other = d2.Agent([[1.0]], d2.SquaredNorm(1.0), d2.IndicatorBox(0.0, 1.0))
    along = d2.Agent([[1.0, -1.0]], linear(np.array([-0.1, -0.1])), wedge)
    problem = d2.Problem([along, other], d2.IndicatorAtMost([5.0]))
    result = default(problem)
    assert result.status == "UNBOUNDED" and falls(problem, result, [np.zeros(2), np.zeros(1)])
    inside = d2.Agent([[1.0, 0.0]], linear(np.array([0.1, 0.1])), wedge)
    result = default(d2.Problem([inside, other], d2.IndicatorAtMost([-5.0])))
    assert result.status == "INFEASIBLE" and result.certificate.separator[0] > 0


def test_far_away_nothing_is_known():
    """Rounding of L|x| hides the force on a coordinate without curvature: no solution for that."""
    f = d2.Quadratic(np.array([1.0, 0.0]), np.array([-1.0, -1.0]))
    problem = d2.Problem([d2.Agent([[0.0, 0.0]], f)], d2.Zero())
    for far in (1e3, 1e12, 1e15, 1e17, 1e20):
        assert problem.kkt([np.array([1.0, far])], np.zeros(1)).stationarity > 0.1
    bounded = d2.Agent([[0.0, 0.0]], f, d2.IndicatorBox(-1e20, [1.0, 1e20]))
    problem = d2.Problem([bounded], d2.Zero())
    assert problem.kkt([np.array([1.0, 1e20])], np.zeros(1)).kkt == 0.0


@pytest.mark.parametrize("seed", range(3))
def test_sizes_are_guessed_in_the_units_of_the_rows(seed):
    """A loss in rows over twelve decades, agents with nothing to tell about their own size.

    Some of them can be met without any loss: then prices and objective tend to 0, residuals are
    relative to ever less, and rounding decides whether they fall to 1e-8 of it.
    """
    rng, tol = np.random.default_rng([seed, 32]), 1e-6
    units = 10.0 ** rng.permutation(np.linspace(-6, 6, 5))
    agents, plain = [], []
    for _ in range(3):
        A, M, a = (rng.standard_normal(shape) for shape in ((5, 4), (2, 4), 4))
        f, g = d2.LeastSquares(M, rng.standard_normal(2)), d2.IndicatorHalfspace(a, 0.3)
        agents.append(d2.Agent(units[:, None] * A, f, g))
        plain.append(d2.Agent(A, f, g))
    y = rng.standard_normal(5)
    result = default(d2.Problem(agents, d2.SquaredLoss(units * y, 0.5 / units**2)), tol=tol)
    problem = d2.Problem(plain, d2.SquaredLoss(y, 0.5))
    expected, most = default(problem, tol=tol), problem.objective([np.zeros(4)] * 3)
    assert result.status == expected.status == "CONVERGED"
    assert result.objective == pytest.approx(expected.objective, rel=10 * tol, abs=tol**1.5 * most)


def test_fixed_variables_of_a_cost_without_curvature():
    """The coordinates without curvature are fixed: no proximal term, and no division by 0."""
    f = d2.Quadratic(np.array([1.0, 0.0]), np.array([1.0, 1.0]))
    fixed = d2.Agent(np.ones((1, 2)), f, d2.IndicatorBox([-1.0, 2.0], [1.0, 2.0]))
    flat = d2.Smooth(lambda x: x - 1.0, 0.0, 1.0, lambda x: 0.5 * float((x - 1.0) @ (x - 1.0)))
    problem = d2.Problem([fixed, d2.Agent([[1.0]], flat)], d2.IndicatorPoint([3.0]))
    result = default(problem, method="L-BFGS")
    assert result.status == "CONVERGED"
    np.testing.assert_allclose(result.x[0], [-0.5, 2.0], atol=1e-7)
    np.testing.assert_allclose(result.x[1], [1.5], atol=1e-7)


def met(rng, n, p, unit=1.0):
    """Agents whose costs and rows can all be met at once, by points of this unit; the rows."""
    agents, s = [], np.zeros(p)
    for _ in range(n):
        x = unit * rng.standard_normal(4)
        A, M = (rng.standard_normal((rows, 4)) / unit for rows in (p, 2))
        agents.append((A, d2.LeastSquares(M, M @ x)))
        s += A @ x
    return agents, s


@pytest.mark.parametrize("h", [d2.SquaredLoss, d2.AbsoluteLoss, lambda s: d2.HuberLoss(s, 0.5)])
@pytest.mark.parametrize("unit", [1e-7, 1e-3, 1e4])
def test_the_objective_has_units_of_its_own(h, unit):
    """How far agents without a known size may go does not depend on the unit of the objective."""
    rng = np.random.default_rng(33)
    agents, s = met(rng, 2, 3, 1e5)
    sums = []
    for factor in (1.0, unit):
        whole = [d2.Agent(A, factor * f) for A, f in agents]
        result = default(d2.Problem(whole, factor * h(s)))
        assert result.status == "CONVERGED"
        sums.append(result.counts.sums)
    assert max(sums) <= 3 * min(sums)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("loss", ["squared", "hinge"])
def test_who_has_no_costs_feels_no_rounding(seed, loss):
    """Nothing but the price pulls at one agent: at its optimum the price is 0, not rounding."""
    rng = np.random.default_rng([seed, 34])
    p, unit = 5, 1e4
    rows = 10.0 ** rng.permutation(np.linspace(-6, 6, p)) if loss == "squared" else np.ones(p)
    x = [rng.standard_normal(3) for _ in range(2)]
    A = [rng.standard_normal((p, 3)) for _ in range(2)]
    s = A[0] @ x[0] + A[1] @ x[1]
    if loss == "hinge":
        A, h = [B / np.abs(s)[:, None] for B in A], d2.HingeLoss(np.sign(s))
    else:
        A, h = [rows[:, None] * B for B in A], d2.SquaredLoss(rows * s, 1.0 / rows**2)
    M = rng.standard_normal((5, 3))
    costs = [unit * d2.LeastSquares(M, M @ x[0]), linear(np.zeros(3))]
    problem = d2.Problem([d2.Agent(B, f) for B, f in zip(A, costs, strict=True)], unit * h)
    result = default(problem)
    assert result.status == "CONVERGED"
    assert result.objective <= 1e-10 * unit


@pytest.mark.parametrize("seed", range(6))
def test_rows_without_a_price_beside_one_that_has(seed):
    """An agent without costs meets all its rows; the only row that has a price is not its own."""
    rng = np.random.default_rng([seed, 35])
    A, B, x = rng.standard_normal((4, 3)), rng.standard_normal((4, 4)), rng.random(4)
    A[2], M = 0.0, rng.standard_normal((2, 4))
    y = A @ rng.standard_normal(3) + B @ x
    y[2] += 5.0
    costs = d2.LeastSquares(M, M @ x, 0.1)
    agents = [d2.Agent(B, costs, d2.IndicatorNonnegative()), d2.Agent(A, linear(np.zeros(3)))]
    result = default(d2.Problem(agents, d2.AbsoluteLoss(y)))
    assert result.status == "CONVERGED"
    assert not (A.T @ result.dual).any()


@pytest.mark.parametrize("free", [False, True])
def test_a_minimum_of_h_at_zero_says_nothing_of_units(free):
    """h falls by 1e-12 from 0 to its minimum beside it: neither who has costs in g, nor who has
    none, may take that for the size of the objective."""
    near = d2.NegativeLog().shift(-1.0).tilt(1.0 - 1e-6)
    h = d2.Stacked([d2.IndicatorAtMost([3.0, 4.0]), near], [2, 2])
    A = [np.vstack([np.eye(2), np.zeros((2, 2))]) for _ in range(3)]
    A[2][2:] = np.eye(2)
    costs = linear(np.zeros(2)), linear(np.zeros(2)), linear(np.full(2, 1e-6 - 1.0))
    parts = d2.NegativeLog(), d2.NegativeLog(scale=2.0), d2.IndicatorNonnegative()
    agents = [d2.Agent(*one) for one in zip(A, costs, parts, strict=True)]
    if free:
        agents.append(d2.Agent(A[0], linear(np.zeros(2)), d2.IndicatorBox(0.1, np.inf)))
    result = default(d2.Problem(agents, h))
    assert result.status == "CONVERGED"
    left = 3.0 if not free else 2.9
    np.testing.assert_allclose(result.x[0], [left / 3.0, 1.25 if not free else 1.225], atol=1e-6)
