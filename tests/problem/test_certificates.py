"""Programs that fool certificates: nothing that is wrong may be called solved.

The residual is recomputed in extended precision from its definition alone, see ``plain_kkt``.
"""

import numpy as np
import pytest

import dual2 as d2
from dual2.problem.impossible import proves_infeasible, proves_unbounded
from dual2.problem.separators import near_separators
from plain_kkt import Program, plain_kkt

PAIR = d2.Network([(0, 1)])


def linear(A, q, lower, upper, low, high, parts):
    """A linear program, agents' variables side by side."""
    A = np.atleast_2d(np.asarray(A, dtype=float))
    n, p = A.shape[1], A.shape[0]
    own = (np.broadcast_to(np.asarray(v, float), n).copy() for v in (q, lower, upper))
    rows = (np.broadcast_to(np.asarray(v, float), p).copy() for v in (low, high))
    return Program(A, np.zeros((n, n)), *own, *rows, parts)


def judged(program, x, lam):
    found = program.problem().kkt(np.split(np.asarray(x, float), program.cuts), lam)
    expected = plain_kkt(program, x, lam)
    parts = found.stationarity, found.coupling, found.objective
    np.testing.assert_allclose(parts, expected, rtol=1e-6, atol=1e-12)
    return found


def near_parallel(e):
    """x1 - x2 = 1, -x1 + (1 + e) x2 = 0, x >= 0: solved by x2 = 1/e alone."""
    return linear([[1, -1], [-1, 1 + e]], [1, 1], 0, np.inf, [1, 0], [1, 0], (1, 1))


def big_cost(M):
    """Minimum -1.333 whatever M is."""
    A, q = [[3, 2, -1, 1]], [-2, -1, M, 0.5]
    return linear(A, q, 0, [1, 1, 10, 1], -np.inf, 2.0, (3, 1))


# -- the definition -----------------------------------------------------------------------------


def random_program(rng):
    parts = tuple(int(d) for d in rng.integers(1, 4, size=3))
    n, p, P = sum(parts), int(rng.integers(1, 4)), np.zeros((sum(parts),) * 2)
    units = 10.0 ** rng.uniform(-3, 3, (p, 1)) * 10.0 ** rng.uniform(-3, 3, (1, n))
    first = 0
    for d in parts:
        own, M = slice(first, first + d), rng.standard_normal((2, d))
        P[own, own] = [M.T @ M, np.diag(rng.random(d)), np.zeros((d, d))][rng.integers(3)]
        first += d
    lower = np.where(rng.random(n) < 0.5, -rng.random(n), -np.inf)
    upper = np.where(rng.random(n) < 0.5, rng.random(n), np.inf)
    b = rng.standard_normal(p)
    high = np.where(rng.random(p) < 0.5, b, np.inf)
    A, q = rng.standard_normal((p, n)) * units, rng.standard_normal(n)
    return Program(A, P, q, lower, upper, b, high, parts)


@pytest.mark.parametrize("seed", range(40))
def test_the_residual_is_that_of_the_definition_in_extended_precision(seed):
    rng = np.random.default_rng(seed)
    program = random_program(rng)
    x = rng.standard_normal(len(program.q)) * (rng.random(len(program.q)) < 0.8)
    x = np.clip(x * (seed % 5 > 0), program.lower, program.upper)
    lam = rng.standard_normal(len(program.low)) * 10.0 ** rng.uniform(-13, 13)
    judged(program, x, lam * (rng.random(len(lam)) < 0.8))


def test_a_price_that_nothing_justifies_excuses_no_row():
    found = judged(near_parallel(1e-7), [0.0, 0.0], np.array([1.5e15, 1.5e15]))
    assert found.coupling == 1.0
    found = judged(near_parallel(1e-7), [0.0, 0.0], np.array([1e18, 1e18]))
    assert found.coupling == 1.0


def test_variables_that_nothing_justifies_excuse_no_row():
    """x = 1e15 and -1e15 cancel up to 0.1: not every digit of a row of size 1 is there."""
    program = linear([[1, 1]], 0, -np.inf, np.inf, 1.0, 1.0, (1, 1))
    assert judged(program, [1e15, -1e15 + 1.125], np.zeros(1)).coupling > 1e-4
    assert judged(program, [1e3, -1e3 + 1], np.zeros(1)).kkt == 0.0
    assert judged(program, [0.5, 0.5], np.zeros(1)).kkt == 0.0


def test_rows_that_must_cancel_are_measured_by_what_cancels():
    """A consensus x1 = x2 has no size but that of x, which the agents' costs justify."""
    P, q = np.eye(2), np.array([-5.0, -7.0])
    none = np.full(2, np.inf)
    program = Program(np.array([[1.0, -1.0]]), P, q, -none, none, *np.zeros((2, 1)), (1, 1))
    assert judged(program, [6.0, 6.0], np.array([-1.0])).kkt == 0.0
    assert judged(program, [6.0, 6.0 * (1 + 1e-10)], np.array([-1.0])).kkt <= 1e-8
    assert judged(program, [6.0, 6.0 * (1 + 1e-6)], np.array([-1.0])).kkt > 1e-8


def test_forces_that_must_cancel_are_measured_by_what_cancels():
    """A line without cost or limit joins two prices, each made by a supplier on its side."""
    A = [[1, 0, -1], [0, 1, 1]]
    line = linear(A, [20, 20, 0], 0, [9, 9, 5], [2, 3], [2, 3], (1, 1, 1))
    assert judged(line, [3.0, 2.0, 1.0], np.array([-20.0, -20.0])).kkt == 0.0
    assert judged(line, [3.0, 2.0, 1.0], np.array([-20.0, -20.0 - 1e-8])).kkt <= 1e-8
    assert judged(line, [3.0, 2.0, 1.0], np.array([-20.0, -20.0 - 1e-5])).kkt > 1e-8


@pytest.mark.parametrize("M", [1e4, 1e9, 1e12])
def test_a_huge_cost_excuses_no_other_variable(M):
    assert judged(big_cost(M), [0.0, 0.0, 0.0, 0.0], np.zeros(1)).stationarity == 1.0
    right = [2 / 3, 0.0, 0.0, 0.0]
    assert judged(big_cost(M), right, np.array([2 / 3])).kkt <= 1e-12


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_a_bound_in_small_units_is_not_met_by_zero(unit):
    """x = 0 where the bound, tiny in these units, is the solution."""
    program = linear([[1 / unit, 1]], [-1 / unit, 1], 0, [unit, 10], 3.0, np.inf, (1, 1))
    assert judged(program, [0.0, 3.0], np.array([-1.0])).stationarity > 0.1
    assert judged(program, [unit, 2.0], np.array([-1.0])).kkt <= 1e-15


def test_a_slope_that_is_slight_in_its_units_is_a_slope():
    """-1e-9 x1 falls for ever; the other agents' costs are 1."""
    program = linear([[1, -1, 0], [0, 1, 1]], [-1e-9, 0, 1], 0, np.inf, [-np.inf, 2], [0, np.inf],
                     (1, 1, 1))  # fmt: skip
    assert judged(program, [1.0, 2.0, 0.0], np.zeros(2)).kkt == 1.0
    assert judged(program, [1e6, 1e6, 0.0], np.zeros(2)).kkt == 1.0
    assert d2.solve(program.problem(), d2.Network([(0, 1), (1, 2)])).status != "CONVERGED"


# -- answers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("e", [1e-7, 1e-9])
def test_rows_that_are_nearly_parallel(e):
    result = d2.solve(near_parallel(e).problem(), PAIR)
    assert result.status not in ("INFEASIBLE", "UNBOUNDED")
    if result.status == "CONVERGED":
        np.testing.assert_allclose(np.concatenate(result.x), [1 + 1 / e, 1 / e], rtol=1e-6)


@pytest.mark.parametrize("M", [1e4, 1e6, 1e8, 1e9, 1e12])
def test_a_huge_cost_beside_ordinary_ones(M):
    result = d2.solve(big_cost(M).problem(), PAIR)
    if result.status == "CONVERGED":
        assert result.objective == pytest.approx(-4 / 3, rel=1e-6)
    assert result.status in ("CONVERGED", "STALLED")


@pytest.mark.parametrize("dust", [1e-15, 1e-12, 1e-9])
@pytest.mark.parametrize("seed", range(3))
def test_right_hand_sides_that_are_dust(dust, seed):
    """Balances that came out as 1e-15 instead of 0 set no scale."""
    rng = np.random.default_rng(seed)
    A = np.round(rng.standard_normal((5, 9)), 1)
    x = rng.uniform(1, 3, 9)
    b = np.concatenate([(A[:3] @ x), dust * rng.standard_normal(2)])
    A[3:, 6:] = -(A[3:, :6] @ x[:6] / x[6:].sum())[:, None]  # so that the last rows give 0
    program = linear(A, rng.uniform(1, 2, 9), 0, 10, b, b, (3, 3, 3))
    result = d2.solve(program.problem(), d2.Network([(0, 1), (1, 2)]))
    if result.status == "CONVERGED":
        best = reference(program)
        assert result.objective == pytest.approx(best, rel=1e-6)
        assert max(plain_kkt(program, np.concatenate(result.x), result.dual)) <= 1.1e-8


def reference(program):
    """The minimum by HiGHS."""
    from scipy.optimize import linprog

    kept = np.isfinite(program.high), np.isfinite(program.low)
    rows = np.vstack([program.A[kept[0]], -program.A[kept[1]]])
    right = np.concatenate([program.high[kept[0]], -program.low[kept[1]]])
    bounds = np.column_stack([program.lower, program.upper])
    found = linprog(program.q, rows, right, bounds=bounds, method="highs")
    assert found.status == 0
    return found.fun


@pytest.mark.parametrize("limit", [{"max_rounds": 0}, {"time_limit": 0.0}])
def test_an_answer_is_converged_however_the_run_ended(limit):
    """A run that begins at the solution has found it, though it may not take a step."""
    program = big_cost(1.0)
    problem = program.problem()
    best = d2.solve(problem, PAIR)
    again = d2.solve(problem, PAIR, method="L-BFGS", start=(best.x, best.dual), **limit)
    assert best.status == again.status == "CONVERGED"
    assert d2.solve(problem, PAIR, **limit).status != "CONVERGED"


# -- no solution --------------------------------------------------------------------------------


def test_only_a_direction_that_separates_up_to_rounding_proves_that_nothing_is_feasible():
    u = np.array([-1.0, -1.0])
    assert not proves_infeasible(near_parallel(1e-9).problem(), u)
    assert proves_infeasible(near_parallel(-1e-9).problem(), u)
    assert proves_infeasible(near_parallel(0.0).problem(), u)
    assert not proves_infeasible(near_parallel(0.0).problem(), -u)


@pytest.mark.parametrize("off", [0.0, 1e-9, -1e-7, 1e-4])
@pytest.mark.parametrize(("e", "proven"), [(1e-5, 0), (1e-9, 0), (1e-11, 0), (0.0, 1), (-1e-9, 1)])
def test_a_corrected_separator_proves_nothing_of_a_feasible_program(e, proven, off):
    problem = near_parallel(e).problem()
    near = near_separators(problem, np.array([-1.0, -1.0 + off]))
    assert any(proves_infeasible(problem, u) for u in near) == bool(proven)


@pytest.mark.parametrize("seed", range(4))
def test_a_separator_is_put_right_where_columns_are_free(seed):
    """Every column is orthogonal to u, as half of them must be; u comes with an error."""
    rng = np.random.default_rng(seed)
    u = np.concatenate([rng.uniform(0.1, 1, 6), [0.0]])
    A = rng.standard_normal((7, 8))
    A -= np.outer(u, u @ A) / (u @ u)
    A[:, 4:] += np.abs(rng.standard_normal((7, 4)))  # not below 0 along u
    lower = np.repeat([-np.inf, 0.0], 4)
    program = linear(A, np.zeros(8), lower, np.inf, -u, -u, (3, 5))
    rough = u * (1 + 1e-7 * rng.standard_normal(7)) + 1e-10 * rng.standard_normal(7)
    problem = program.problem()
    assert not proves_infeasible(problem, rough)
    found = next(v for v in near_separators(problem, rough) if proves_infeasible(problem, v))
    pull = -found @ A
    assert np.abs(pull[:4]).max() < 1e-12 and pull[4:].max() < 1e-12 and found @ u > 0


def test_only_a_direction_that_keeps_every_row_proves_that_the_objective_falls():
    ray = [np.array([1.0]), np.array([1.0])]
    for e, proven in ((0.0, True), (1e-11, False)):
        rows = [[1 + e, -1.0]]
        program = linear(rows, [-1, 0], 0, np.inf, -np.inf, 1.0, (1, 1))
        assert proves_unbounded(program.problem(), ray) is proven
    assert not proves_unbounded(near_parallel(0.1).problem(), ray)


# -- no minimum ---------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["auto", "interior-point", "L-BFGS"])
@pytest.mark.parametrize(("penalty", "attained"), [(0.0, False), (1e-3, True)])
def test_an_infimum_that_is_not_attained_is_told(method, penalty, attained):
    """Two samples that a logistic loss separates: the objective falls for ever."""
    f = d2.SquaredNorm(penalty) if penalty else d2.Zero()
    agents = [d2.Agent([[1.0], [2.0]], f), d2.Agent([[1.0], [-0.5]], f)]
    result = d2.solve(d2.Problem(agents, d2.LogisticLoss([1.0, 1.0])), PAIR, method=method)
    assert result.status == ("CONVERGED" if attained else "STALLED")
    assert ("may have no minimum" in result.explain()) is not attained
