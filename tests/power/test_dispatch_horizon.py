"""Rolling horizon, relaxed unit commitment, and answers as tidy tables."""

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest

import dual2 as d2
from dual2 import power

T = 12
SHAPE = 60 + 30 * np.sin(2 * np.pi * (np.arange(T) - 3) / T)


def day(**more):
    units = [
        power.Generator("coal", (0.01, 20.0), p_max=70.0, bus="a", ramp=15.0, emissions=0.9),
        power.Generator("gas", (0.02, 45.0), p_max=np.full(T, 60.0), bus="b"),
        power.Storage("battery", (0.0, 0.0), p_min=-10.0, p_max=10.0, bus="b", energy=(0.0, 30.0),
                      initial=10.0, efficiency=0.95, final=10.0),
    ]  # fmt: skip
    grid = power.Grid([power.Line("a", "b", 100.0, rating=np.linspace(60.0, 50.0, T), name="tie")])
    demand = {"a": 0.4 * SHAPE, "b": 0.6 * SHAPE}
    return power.Dispatch(units, demand, grid=grid, **more)


# -- rolling horizon ------------------------------------------------------------------------------


def test_one_window_is_the_whole_dispatch_and_shorter_ones_cost_more():
    whole = day().solve()
    once = power.roll(day(), window=T)
    assert len(once.windows) == 1 and once.cost == pytest.approx(whole.cost, rel=1e-9)
    costs = [power.roll(day(), window, 2).cost for window in (8, 4)]
    assert whole.cost <= costs[0] + 1e-6 and costs[0] <= costs[1] + 1e-6


def test_states_are_carried_from_window_to_window():
    answer = power.roll(day(), window=5, step=3)
    assert answer.power.shape == (3, T) and answer.price.shape == (T,)
    np.testing.assert_allclose(
        answer.power[0] + answer.power[1] - answer.power[2], SHAPE, atol=1e-5
    )
    assert np.abs(np.diff(answer.power[0])).max() <= 15.0 + 1e-6
    taken = answer.power[2]
    kept = 10.0 + np.cumsum(0.95 * np.maximum(taken, 0) + np.minimum(taken, 0) / 0.95)
    np.testing.assert_allclose(answer.energy["battery"], kept, atol=1e-5)
    assert kept[-1] >= 10.0 - 1e-5, "the last window sees the final energy"
    assert "windows, cost" in repr(answer)


def test_unserved_energy_rolls_as_a_unit():
    unit = power.Generator("g", (0.0, 10.0), 50.0, bus="a")
    demand = {"a": [40.0, 60.0, 0.0, 55.0]}
    case = power.Dispatch([unit], demand, lines=[("a", "b")], shed=500.0)
    answer = power.roll(case, window=2, step=1)
    assert answer.names == ("g", "shed a")
    np.testing.assert_allclose(answer.power[1], [0.0, 10.0, 0.0, 5.0], atol=1e-6)


def test_what_couples_all_periods_cannot_roll():
    with pytest.raises(d2.ProblemError, match="a CO₂ cap couples all periods"):
        power.roll(day(co2_cap=500.0), window=4)
    with pytest.raises(d2.ProblemError, match="window = 3 and step = 4"):
        power.roll(day(), 3, 4)
    cyclic = power.Storage("s", (0.0, 0.0), 5.0, -5.0, energy=(0.0, 9.0), cyclic=True)
    rest = power.Generator("g", (0.0, 1.0), 50.0)
    with pytest.raises(d2.ProblemError, match="the cyclic Storage 's'"):
        power.roll(power.Dispatch([cyclic, rest], [9.0, 9.0], graph=[("s", "g")]), 1)


# -- relaxed unit commitment ----------------------------------------------------------------------


def committed(rules, **more):
    block = power.Generator("block", (0.005, 18.0, 120.0), p_min=35.0, p_max=80.0,
                            commitment=rules, **more)  # fmt: skip
    return [block, power.Generator("peak", (0.01, 60.0), p_max=100.0)]


def written_out(rules, ramp=None, hours=1.0):
    """Cost and prices of the same units in cvxpy."""
    p, q = cp.Variable(T, nonneg=True), cp.Variable(T, nonneg=True)
    u = cp.Variable(T)
    v, w = cp.Variable(T, nonneg=True), cp.Variable(T, nonneg=True)
    rows = [u >= 0, u <= 1, p <= 80 * u, p >= 35 * u, q <= 100, v <= 1, w <= 1]
    rows.append(u[1:] - u[:-1] == v[1:] - w[1:])
    if rules.initial_on is None:
        rows += [v[0] == 0, w[0] == 0]
    else:
        rows.append(u[0] - rules.initial_on == v[0] - w[0])
    for t in range(T):
        rows.append(cp.sum(v[max(0, t - rules.min_up + 1) : t + 1]) <= u[t])
        rows.append(cp.sum(w[max(0, t - rules.min_down + 1) : t + 1]) <= 1 - u[t])
    if ramp is not None:
        rows.append(cp.abs(cp.diff(p)) <= ramp)
    balance = p + q == SHAPE
    hourly = 0.005 * cp.sum_squares(p) + 18 * cp.sum(p) + 120 * cp.sum(u)
    hourly += 0.01 * cp.sum_squares(q) + 60 * cp.sum(q)
    cost = hours * hourly + rules.start_cost * cp.sum(v)
    model = cp.Problem(cp.Minimize(cost), [balance, *rows])
    model.solve(solver=cp.CLARABEL, tol_gap_rel=1e-11, tol_gap_abs=1e-11, tol_feas=1e-11)
    return model.value, np.abs(balance.dual_value) / hours


RULES = [
    power.Commitment(start_cost=800.0, initial_on=0.0),
    power.Commitment(start_cost=300.0, min_up=4, min_down=3, initial_on=1.0),
    power.Commitment(start_cost=300.0, min_up=2),
]


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize(("ramp", "hours"), [(None, 1.0), (20.0, 0.5)])
def test_relaxed_commitment_is_that_of_the_model_written_out(rules, ramp, hours):
    cost, prices = written_out(rules, ramp=ramp, hours=hours)
    case = power.Dispatch(
        committed(rules, ramp=ramp), SHAPE, graph=[("block", "peak")], hours=hours
    )
    answer = case.solve()
    assert answer.solved and answer.cost == pytest.approx(cost, rel=1e-7)
    np.testing.assert_allclose(answer.price, prices, atol=1e-3)
    on = answer.on["block"]
    assert (on >= -1e-7).all() and (on <= 1 + 1e-7).all()
    assert (answer.power[0] >= 35 * on - 1e-5).all() and (answer.power[0] <= 80 * on + 1e-5).all()
    assert "prices are of the relaxation" in str(answer)


def test_commitments_that_are_refused():
    with pytest.raises(d2.ProblemError, match="min_up = 0; expected whole periods"):
        power.Commitment(min_up=0)
    with pytest.raises(d2.ProblemError, match="start_cost = -1"):
        power.Commitment(start_cost=-1)
    with pytest.raises(d2.ProblemError, match="initial_on = 2"):
        power.Commitment(initial_on=2)
    with pytest.raises(d2.ProblemError, match="found reserve_max"):
        committed(RULES[0], reserve_max=5.0)
    with pytest.raises(d2.ProblemError, match="found a piecewise linear cost"):
        curve = power.PiecewiseLinearCost([0.0, 1.0], [0.0, 1.0])
        power.Generator("g", curve, 5.0, commitment=RULES[0])


# -- tables ---------------------------------------------------------------------------------------


def test_tables_have_a_row_for_each_thing_and_period():
    answer = day(hours=0.5, zones={"a": "north", "b": "south"}).solve()
    units = answer.frame()
    assert len(units) == 3 * T and list(units.columns[:4]) == ["unit", "bus", "period", "hour"]
    assert units.hour.max() == pytest.approx(0.5 * (T - 1))
    assert units.cost.sum() == pytest.approx(answer.cost)
    coal = units[units.unit == "coal"]
    np.testing.assert_allclose(coal.power, answer.power[0])
    assert coal.limits.map(lambda text: isinstance(text, str)).all()
    assert set(answer.frame("lines").line) == {"tie"} and len(answer.frame("lines")) == T
    assert answer.frame("buses").groupby("period").demand.sum().to_numpy() == pytest.approx(SHAPE)
    stores = answer.frame("storage")
    np.testing.assert_allclose(stores["energy before"].iloc[1:], stores.energy.iloc[:-1])
    assert stores["energy before"].iloc[0] == 10.0
    assert set(answer.frame("zones").zone) == {"north", "south"}
    with pytest.raises(d2.ProblemError, match=r"'unit'.*Did you mean 'units'"):
        answer.frame("unit")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_tables_are_written_and_read_back(kind, tmp_path):
    answer = day().solve()
    written = answer.export(tmp_path / "day", kind)
    assert [path.stem for path in written] == ["units", "buses", "lines", "storage"]
    read = {"csv": pd.read_csv, "parquet": pd.read_parquet}[kind]
    lines = read(tmp_path / "day" / f"lines.{kind}")
    np.testing.assert_allclose(lines.flow, answer.line_flows[0])
    with pytest.raises(d2.ProblemError, match="format 'xlsx'"):
        answer.export(tmp_path, "xlsx")


def test_an_unsolved_answer_is_not_exported_unseen(tmp_path):
    with pytest.warns(UserWarning, match="NOT SOLVED"):
        answer = day().solve(max_rounds=2)
    with pytest.raises(d2.ProblemError, match="Nothing is written"):
        answer.export(tmp_path)
    assert answer.frame().columns[0] == "NOT SOLVED"
    assert answer.export(tmp_path, accept="unsolved")
