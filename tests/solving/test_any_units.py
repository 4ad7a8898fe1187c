"""CONVERGED means the same in all units: answers that once were wrong, and rows in balance."""

import numpy as np
import pytest

import dual2 as d2
from dual2.solving.planning import in_balance

PAIR = d2.Network([(0, 1)])
MAIN = ["iD2A", "MiD2A", "NPGA-ED", "DC-ADMM"]


def twice(A, f, g, h):
    return d2.Problem([d2.Agent(A, f, g)] * 2, h)


@pytest.mark.parametrize("method", MAIN)
def test_a_row_in_small_units_counts_as_much(method):
    problem = twice(
        np.diag([1.0, 1e-4]), d2.SquaredNorm(1.0), d2.Zero(), d2.IndicatorPoint([1e4, 1e-4])
    )
    result = d2.solve(problem, PAIR, method=method)
    assert result.status == "CONVERGED" and result.certificate.kkt <= 1e-8
    for x in result.x:
        np.testing.assert_allclose(x, [5000.0, 0.5], rtol=1e-7)
    np.testing.assert_allclose(result.dual, [-5000.0, -5000.0], rtol=1e-7)
    blind = d2.solve(problem, PAIR, method=method, scale="none", max_rounds=2000)
    assert blind.status != "CONVERGED" and blind.certificate.row == 1


@pytest.mark.parametrize(
    "g, h",
    [(d2.Zero(), d2.IndicatorAtMost([1e3])), (d2.IndicatorBox(-1e3, 1e3), d2.Zero())],
    ids=["idle coupling", "no coupling"],
)
def test_forces_that_vanish_are_no_stall(g, h):
    rng = np.random.default_rng(0)
    M, right = rng.standard_normal((8, 3)), rng.standard_normal(3)
    problem = twice(rng.standard_normal((1, 3)), d2.LeastSquares(M, M @ right), g, h)
    result = d2.solve(problem, PAIR)
    assert result.status == "CONVERGED"
    for x in result.x:
        np.testing.assert_allclose(x, right, atol=1e-7)


def test_right_hand_side_zero():
    agents = [
        d2.Agent([[1.0]], d2.SquaredNorm(1.0, center=3.0)),
        d2.Agent([[-1.0]], d2.SquaredNorm(2.0, center=1.0)),
    ]
    result = d2.solve(d2.Problem(agents, d2.IndicatorPoint([0.0])), PAIR)
    assert result.status == "CONVERGED" and result.counts.rounds < 500
    np.testing.assert_allclose(np.concatenate(result.x), [5 / 3, 5 / 3], rtol=1e-7)


@pytest.mark.parametrize("method", ["auto", d2.METHODS["Newton"](mode="primal")])
@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_where_only_zero_is_allowed_it_is_found(unit, method):
    """No prediction may be negative, most of the targets are: x = 0, at the end of a cone."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_normal((30, 2)), np.ones(30)])
    own = [(X[:, :1], d2.SquaredNorm(1.0)), (X[:, 1:], d2.Quadratic([1.0, 0.0]))]
    h = d2.NonnegativeSquaredLoss(unit * (rng.standard_normal(30) - 1.0))
    problem = d2.Problem([d2.Agent(*pair) for pair in own], h)
    result = d2.solve(problem, PAIR, method=method)
    assert result.status == "CONVERGED" and not np.concatenate(result.x).any()
    assert np.abs(X.T @ result.dual).max() <= 1e-8 * np.abs(result.dual).max()
    assert np.abs(h.prox(result.dual, 1.0)).max() <= 1e-12 * np.abs(result.dual).max()


@pytest.mark.parametrize("demand", [1e-12, 1e-9, 1.0, 1e9])
def test_a_demand_of_any_size(demand):
    agents = [d2.Agent([[1.0]], d2.SquaredNorm(1.0)), d2.Agent([[1.0]], d2.SquaredNorm(2.0))]
    result = d2.solve(d2.Problem(agents, d2.IndicatorPoint([demand])), PAIR)
    assert result.status == "CONVERGED" and result.certificate.kkt <= 1e-8
    np.testing.assert_allclose(np.concatenate(result.x), [2 / 3 * demand, demand / 3], rtol=1e-7)


@pytest.mark.parametrize("method", ["iD2A", "MiD2A", "NPGA-ED"])
def test_a_price_on_its_way_is_no_stall(method):
    """The second variable is needed to its bound, at a price a thousand times the first one's."""
    problem = twice(
        [[1.0, 1e-3]], d2.SquaredNorm(10.0), d2.IndicatorBox(0.0, 1.0), d2.IndicatorPoint([2.002])
    )
    result = d2.solve(problem, PAIR, method=method, max_rounds=40_000, record=False)
    assert result.status in ("MAX_ROUNDS", "CONVERGED")
    if result.status == "CONVERGED":
        np.testing.assert_allclose(np.concatenate(result.x), 1.0, atol=1e-4)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("method", ["MiD2A", "NPGA-ED"])
def test_a_demand_that_equals_the_capacity_can_be_met(method, seed):
    rng = np.random.default_rng(seed)
    agents = [
        d2.Agent(rng.uniform(0.1, 1.0, (1, 3)), d2.SquaredNorm(1.0), d2.IndicatorBox(0.0, 1.0))
        for _ in range(4)
    ]
    most = sum(agent.A.sum() for agent in agents)
    network = d2.Network([(0, 1), (1, 2), (2, 3)])
    problem = d2.Problem(agents, d2.IndicatorPoint([most]))
    result = d2.solve(problem, network, method=method, max_rounds=20_000, record=False)
    assert result.status != "INFEASIBLE"
    over = d2.Problem(agents, d2.IndicatorPoint([most * 1.001]))
    assert d2.solve(over, network, method=method, record=False).status == "INFEASIBLE"


# -- rows in balance -----------------------------------------------------------------------------
def rows_in(units, h_of):
    """A problem whose rows are in other units, with h to match."""
    rng = np.random.default_rng(5)
    agents = [
        d2.Agent(units[:, None] * rng.standard_normal((4, 3)), d2.SquaredNorm(2.0), d2.L1Norm(0.1))
        for _ in range(2)
    ]
    return d2.Problem(agents, h_of(units))


COUPLINGS = {
    "at most": lambda u: d2.IndicatorAtMost(u * [1.0, -0.2, 0.5, 0.1]),
    "point": lambda u: d2.IndicatorPoint(u * [0.1, 0.2, -0.3, 0.1]),
    "absolute": lambda u: d2.Stacked(
        [
            d2.AbsoluteLoss(u[:2] * [1.0, 2.0], scale=1 / u[:2]).tilt(0.1 / u[:2]),
            d2.IndicatorBox(-u[2:], u[2:]),
        ],
        [2, 2],
    ),
}


@pytest.mark.parametrize("name", COUPLINGS)
@pytest.mark.parametrize("method", ["iD2A", "NPGA-EXTRA"])
def test_units_of_rows_change_nothing(name, method):
    """Powers of two, so that the balanced problems are the same bit for bit."""
    h_of, found = COUPLINGS[name], []
    if name == "absolute" and method == "iD2A":
        h_of = COUPLINGS["at most"]
    for exponents in ([0, 20, -13, 4], [7, -11, 2, 30]):
        units = 2.0 ** np.array(exponents)
        problem = rows_in(units, h_of)
        result = d2.solve(problem, PAIR, method=method)
        assert result.status == "CONVERGED" and "scale" in result.parameters
        assert "powers of two" in result.explain()
        found.append((result, units))
    (one, u), (two, v) = found
    assert one.counts.rounds == two.counts.rounds
    for x, y in zip(one.x, two.x, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12)
    np.testing.assert_allclose(one.dual * u, two.dual * v, rtol=1e-12)
    np.testing.assert_allclose(one.y / u, two.y / v, rtol=1e-12, atol=1e-15)


def test_rows_that_h_does_not_separate_have_one_factor():
    problem = rows_in(np.array([1.0, 1e6, 1e6, 1e6]), lambda u: d2.IndicatorPoint(np.zeros(4)))
    h = d2.Stacked([d2.IndicatorPoint([0.0, 0.0]), d2.L2Norm(1.0)], [2, 2])
    units = in_balance(d2.Problem(problem.agents, h)).units
    assert units[2] == units[3] and units[0] > 1e3 * units[1]
    logistic = d2.LogisticLoss([1.0, -1.0, 1.0, -1.0])
    assert np.all(in_balance(d2.Problem(problem.agents, logistic)).units == 1.0)


def test_warm_starts_and_callbacks_are_in_the_users_units():
    units = 2.0 ** np.array([0, 20, -13, 4])
    problem = rows_in(units, COUPLINGS["point"])
    seen = []
    seeing = {"callback": lambda info: seen.append(info["duals"].copy())}
    first = d2.solve(problem, PAIR, method="iD2A", **seeing)
    np.testing.assert_allclose(seen[-1].mean(axis=0), first.dual, rtol=1e-3)
    again = d2.solve(problem, PAIR, method="iD2A", start=(first.x, first.dual))
    assert again.counts.rounds < first.counts.rounds
    np.testing.assert_allclose(again.dual, first.dual, rtol=1e-6)


def test_unknown_scale():
    with pytest.raises(d2.CapabilityError, match="scale = 'rows' found; expected 'auto' or 'none'"):
        d2.solve(rows_in(np.ones(4), COUPLINGS["point"]), PAIR, scale="rows")


@pytest.mark.parametrize("method", ["iD2A", "NPGA-ED", "Tracking-ADMM"])
def test_units_of_variables_change_nothing(method):
    """Agents who write their variables in units twelve decades apart; start, gap and answer too."""
    rng, found = np.random.default_rng(6), []
    matrices = [rng.standard_normal((2, 3)) for _ in range(2)]
    P = np.eye(3) + 0.5
    for sizes in ([1.0, 1.0], [2.0**20, 2.0**-20]):
        agents = [
            d2.Agent(A / e, d2.Quadratic(P / e**2, np.ones(3) / e), d2.L1Norm(0.1 / e))
            for A, e in zip(matrices, sizes, strict=True)
        ]
        problem = d2.Problem(agents, d2.IndicatorPoint([0.5, -0.5]))
        result = d2.solve(problem, PAIR, method=method)
        assert result.status == "CONVERGED"
        assert ("curvatures differ" in result.explain()) == (sizes[0] > 1)
        again = d2.solve(problem, PAIR, method=method, start=(result.x, result.dual))
        assert again.counts.rounds < result.counts.rounds
        traced = d2.solve(problem, PAIR, method=method, reference=result.x, max_rounds=100)
        found.append((result, sizes, traced.trace["gap"][-1] < 0.1))
    (one, _, _), (two, sizes, near) = found
    for x, y, e in zip(one.x, two.x, sizes, strict=True):
        np.testing.assert_allclose(x, y / e, rtol=1e-6, atol=1e-7)
    assert near
