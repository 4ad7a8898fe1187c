"""References: every function has its expression, and the polish reaches rounding level."""

from collections import Counter

import networkx as nx
import numpy as np
import pytest
from scipy.sparse.linalg import aslinearoperator

import dual2 as d2
from dual2.errors import CapabilityError
from dual2.reference import solve_reference
from dual2.reference.cvxpy_atoms import atom
from problems import G, H, pair, random_problem

pytestmark = pytest.mark.numerics


def test_seeds_go_through_all_pairs_evenly():
    counts = Counter(pair(seed) for seed in range(300))
    assert len(counts) == len(G) * len(H) and set(counts.values()) <= {1, 2}


@pytest.mark.parametrize("seed", range(0, 300, 13))
def test_random_problems_are_what_they_say(seed):
    problem, network = random_problem(seed)
    again, _ = random_problem(seed)
    assert 2 <= problem.n <= 30 and problem.p <= 15 and max(problem.dims) <= 8
    assert network.n == problem.n
    np.testing.assert_array_equal(problem.agents[-1].A, again.agents[-1].A)
    assert min(a.f.mu for a in problem.agents) >= 1 - 1e-9
    assert max(a.f.L for a in problem.agents) <= 1002
    assert nx.is_connected(nx.Graph(network.edges.tolist()))


@pytest.mark.parametrize("h", H)
@pytest.mark.parametrize("g", ["l1", "ball"])
def test_references_reach_rounding_level(g, h):
    problem, _ = random_problem(1000, g, h)
    rough, fine = solve_reference(problem, polish=False), solve_reference(problem)
    assert fine.kkt <= 1e-11
    assert fine.kkt <= rough.kkt
    assert problem.kkt(fine.x, fine.dual, atol=1e-14).kkt == fine.kkt
    for a, b in zip(fine.x, rough.x, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-3)


FUNCTIONS = [
    d2.SquaredNorm(2.0, 1.0),
    d2.Quadratic([1.0, 2.0, 0.0], 1.0),
    d2.Quadratic([[2.0, 1.0, 0.0], [1.0, 2.0, 0.0], [0.0, 0.0, 0.0]], [1.0, 0.0, -1.0]),
    d2.LeastSquares([[1.0, 2.0, 3.0]], [0.5], ridge=0.3),
    d2.LogisticRegression([[1.0, 2.0, 3.0], [0.0, 1.0, 0.0]], [1.0, -1.0], ridge=0.1),
    d2.Zero(),
    d2.L1Norm([1.0, 2.0, 0.5]),
    d2.L2Norm(2.0),
    d2.ElasticNet(1.0, 2.0),
    d2.SquaredLoss([1.0, 2.0, 3.0], 0.5),
    d2.NonnegativeSquaredLoss([1.0, -2.0, 3.0], 0.5),
    d2.HuberLoss([1.0, 0.2, 3.0], 0.7, 2.0),
    d2.HuberNormLoss([1.0, 0.2, 3.0], 0.7, 2.0),
    d2.AbsoluteLoss([1.0, 2.0, 3.0], 0.5),
    d2.QuantileLoss([1.0, 0.0, 3.0], 0.3, 0.5),
    d2.LogisticLoss([1.0, -1.0, 1.0], 2.0),
    d2.HingeLoss([1.0, -1.0, 1.0], 2.0),
    d2.PoissonLoss([1.0, 0.0, 3.0], 2.0),
    d2.Max(2.0),
    d2.SumLargest(2, 0.5),
    d2.LInfNorm(3.0),
    d2.NegativeLog([1.0, 2.0, 0.5]),
    d2.Entropy([1.0, 0.2, 3.0], 2.0),
    d2.PiecewiseLinear([0.3, 1.0], [-1.0, 0.5, 2.0], 0.7),
    d2.PiecewiseLinear([0.0, 0.3, 1.0], [-np.inf, -1.0, 0.5, 2.0], 0.7),
    2.0 * d2.L2Norm(1.0).shift([1.0, 0.0, 2.0]).tilt([1.0, 2.0, 3.0]).plus_quadratic(0.5),
    3.0 * d2.L1Norm(1.0).shift(1.0).tilt(0.5),
    d2.Stacked([d2.L2Norm(1.0), d2.PoissonLoss([2.0])], [2, 1]),
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: type(f).__name__)
def test_expressions_have_the_functions_values(function):
    import cvxpy as cp

    x = cp.Variable(3)
    expression, constraints = atom(function, x, 3)
    for seed in range(5):
        x.value = np.abs(np.random.default_rng(seed).standard_normal(3))
        assert float(cp.sum(expression).value) == pytest.approx(function.value(x.value), rel=1e-12)
        assert all(c.value() for c in constraints)


SETS = [
    d2.IndicatorBox([0.0, -np.inf, 0.5], [1.0, 0.0, 0.5]),
    d2.IndicatorNonnegative(),
    d2.IndicatorSimplex(2.0),
    d2.IndicatorCappedSimplex(2.0, 0.8),
    d2.IndicatorL1Ball(0.7),
    d2.IndicatorSecondOrderCone(),
    d2.IndicatorBall(0.7, [1.0, 0.0, 0.0]),
    d2.IndicatorHalfspace([1.0, 2.0, 3.0], 0.5),
    d2.IndicatorAffine([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]], [1.0, 2.0]),
    d2.IndicatorPoint([1.0, 2.0, 3.0]),
    d2.IndicatorAtMost([1.0, -2.0, 3.0]),
    d2.IndicatorBall(0.5).shift([1.0, 1.0, 0.0]),
]


@pytest.mark.parametrize("function", SETS, ids=lambda f: type(f).__name__)
def test_expressions_have_the_sets_points(function):
    import cvxpy as cp

    x = cp.Variable(3)
    _, constraints = atom(function, x, 3)
    rng = np.random.default_rng(0)
    for _ in range(5):
        outside = 3 * rng.standard_normal(3)
        inside = function.prox(outside, 1.0)
        x.value = inside
        assert all(c.value(1e-9) for c in constraints)
        if function.value(outside) == np.inf:
            x.value = outside
            assert not all(c.value(1e-9) for c in constraints)


def test_what_has_no_expression_is_refused():
    user = d2.Problem([d2.Agent([[1.0]], d2.Smooth(lambda x: x, 1.0, 1.0))], d2.Zero())
    with pytest.raises(CapabilityError, match="no expression"):
        solve_reference(user)
    operator = aslinearoperator(np.ones((1, 1)))
    with pytest.raises(CapabilityError, match="Agent 0: A is a linear operator"):
        solve_reference(d2.Problem([d2.Agent(operator, d2.SquaredNorm(1.0))], d2.Zero()))
