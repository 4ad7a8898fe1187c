"""Period length, storage with losses and inflow, emissions, prices and limits by period."""

from itertools import pairwise

import cvxpy as cp
import numpy as np
import pytest

import dual2 as d2
from dual2 import power

T = 12
SHAPE = 60 + 25 * np.sin(2 * np.pi * (np.arange(T) - 3) / T)


def plants(**coal):
    return [
        power.Generator("coal", (0.01, 20.0), p_max=70.0, bus="a", emissions=0.9, **coal),
        power.Generator("gas", (0.02, 45.0), p_max=60.0, bus="a", emissions=0.4),
    ]


def path(*names):
    return list(pairwise(names))


def central(storage=None, hours=1.0, cap=None, demand=SHAPE):
    """Cost, price and energy of the two plants with a storage, written out in cvxpy."""
    p, c, d, e, s = (cp.Variable((2, T)) if k == 0 else cp.Variable(T) for k in range(5))
    rows = [p >= 0, p[0] <= 70, p[1] <= 60, c >= 0, d >= 0, s >= 0]
    if storage is None:
        rows += [c == 0, d == 0, e == 0, s == 0]
    else:
        rows += [c <= storage.p_max, d <= -storage.p_min]
        rows += [e >= storage.energy[0], e <= storage.energy[1]]
        keeps, inflow = (1 - storage.standing_loss) ** hours, storage.inflow
        rows += [s == 0] if inflow is None else []
        added = hours * (storage.efficiency[0] * c - d / storage.efficiency[1] - s)
        added = added if inflow is None else added + hours * inflow
        first = e[T - 1] if storage.cyclic else storage.initial
        rows += [e[0] == keeps * first + added[0], e[1:] == keeps * e[:-1] + added[1:]]
        rows += [e[T - 1] >= storage.final] if storage.final is not None else []
    balance = cp.sum(p, axis=0) - c + d == demand
    cost = cp.sum(0.01 * p[0] ** 2 + 20 * p[0] + 0.02 * p[1] ** 2 + 45 * p[1])
    rows += [] if cap is None else [hours * cp.sum(0.9 * p[0] + 0.4 * p[1]) <= cap]
    model = cp.Problem(cp.Minimize(hours * cost), [balance, *rows])
    model.solve(solver=cp.CLARABEL, tol_gap_rel=1e-11, tol_feas=1e-11, tol_gap_abs=1e-11)
    co2 = 0.0 if cap is None else float(rows[-1].dual_value)
    return model.value, np.abs(balance.dual_value) / hours, e.value, co2


def store(**changes):
    given = {"p_min": -20.0, "p_max": 20.0, "energy": (5.0, 60.0), "initial": 30.0, "bus": "a"}
    return power.Storage("store", (0.0, 0.0), **(given | changes))


STORES = {
    "losses": {"efficiency": (0.95, 0.9)},
    "final": {"efficiency": 0.9, "final": 50.0},
    "standing loss": {"standing_loss": 0.02},
    "cyclic": {"efficiency": 0.92, "cyclic": True},
    "cyclic without losses": {"cyclic": True},
    "inflow": {"inflow": 3.0 + np.arange(T) % 4, "efficiency": (0.9, 0.85), "final": 30.0},
    "reservoir": {"p_max": 0.0, "inflow": 4.0, "cyclic": True},
    "spilt": {"p_min": -1.0, "p_max": 0.0, "inflow": 6.0},
}


@pytest.mark.parametrize("hours", [1.0, 0.25])
@pytest.mark.parametrize("name", STORES)
def test_storage_is_that_of_the_model_written_out(name, hours):
    unit = store(**STORES[name])
    cost, price, energy, _ = central(unit, hours)
    case = power.Dispatch([*plants(), unit], {"a": SHAPE}, hours=hours,
                          graph=path("coal", "gas", "store"))  # fmt: skip
    answer = case.solve()
    assert answer.solved and not answer.violations
    assert answer.cost == pytest.approx(cost, rel=1e-7)
    np.testing.assert_allclose(answer.price, price, atol=2e-4)
    if not (unit.cyclic or name == "spilt"):  # else many levels are best
        np.testing.assert_allclose(answer.energy["store"], energy, atol=0.05)


def test_more_than_two_days_use_variables_for_the_levels():
    demand = np.tile(SHAPE, 6)
    unit = store(efficiency=(0.95, 0.9), final=30.0)
    strong = power.Storage("store", (0.001, 0.0), p_min=-20.0, p_max=20.0, bus="a",
                           energy=(5.0, 60.0), initial=30.0, efficiency=0.9)  # fmt: skip
    assert strong.model(24).power.shape[1] == 48, "a strongly convex cost, few periods: sums"
    assert strong.model(72).power.shape[1] == 216
    case = power.Dispatch([*plants(), unit], {"a": demand}, graph=path("coal", "gas", "store"))
    answer = case.solve()
    assert answer.solved
    kept = 0.95 * np.maximum(answer.power[2], 0) + np.minimum(answer.power[2], 0) / 0.9
    np.testing.assert_allclose(30.0 + np.cumsum(kept), answer.energy["store"], atol=1e-4)


def test_a_cap_of_emissions_has_a_price():
    free = power.Dispatch(plants(), {"a": SHAPE}, hours=0.5, graph=path("coal", "gas")).solve()
    cap = 0.9 * float(free.emissions.sum())
    cost, price, _, co2 = central(None, 0.5, cap)
    capped = power.Dispatch(plants(), {"a": SHAPE}, hours=0.5, co2_cap=cap,
                            graph=path("coal", "gas")).solve()  # fmt: skip
    assert capped.emissions.sum() == pytest.approx(cap, rel=1e-7)
    assert capped.cost == pytest.approx(cost, rel=1e-8)
    assert capped.co2_price == pytest.approx(co2, rel=1e-5) and co2 > 1.0
    np.testing.assert_allclose(capped.price, price, atol=1e-4)
    with pytest.raises(d2.ProblemError, match=r"demand in periods 0-11, CO2 cap cannot"):
        power.Dispatch(plants(), {"a": SHAPE}, co2_cap=1.0, graph=path("coal", "gas")).solve()


def test_costs_and_prices_of_unserved_energy_by_period():
    rates = np.array([30.0, 80.0, 500.0])
    units = [
        power.Generator("own", (0.0, 50.0), p_max=40.0, bus="a"),
        power.Generator("import", (0.0, rates), p_max=40.0, bus="a"),
    ]
    case = power.Dispatch(units, {"a": [60.0, 60.0, 60.0]}, graph=path("own", "import"))
    assert case.solve().power[1].round(4).tolist() == [40.0, 20.0, 20.0]
    short = {"a": [60.0, 60.0, 60.0], "b": 10.0}
    lines = [("a", "b")]
    answer = power.Dispatch(
        units, short, lines=lines, shed={"a": [1e3, 70.0, 60.0], "b": 1e3}
    ).solve()
    assert answer.unserved["a"].round(4).tolist() == [0.0, 30.0, 30.0]
    assert answer.unserved["b"].round(4).tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(d2.ProblemError, match="shed has a price for bus 'c'"):
        power.Dispatch(units, short, lines=lines, shed={"c": 1e3})
    with pytest.raises(d2.ProblemError, match="expected prices > 0"):
        power.Dispatch(units, short, lines=lines, shed=[1.0, -1.0, 1.0])
    with pytest.raises(d2.ProblemError, match="cost has 2 entries; the demand has 3"):
        odd = power.Generator("odd", (0.0, [1.0, 2.0]), 5.0, bus="a")
        power.Dispatch([odd], short, lines=lines, shed=1e3)


def test_ratings_and_interfaces_by_period():
    units = [
        power.Generator("cheap", (0.0, 10.0), p_max=200.0, bus="a"),
        power.Generator("dear", (0.0, 40.0), p_max=200.0, bus="b"),
    ]
    demand = {"b": [100.0, 100.0]}
    line = power.Line("a", "b", 10.0, rating=[80.0, 30.0], name="tie")
    rated = power.Dispatch(units, demand, grid=power.Grid([line])).solve()
    assert rated.power.round(5).tolist() == [[80.0, 30.0], [20.0, 70.0]]
    assert rated.lines[0]["limit"] == [80.0, 30.0] and rated.lines[0]["loading"] == pytest.approx(
        [100, 100]
    )
    both = power.Interface.export("tie", ["a"], [80.0, 30.0])
    limited = power.Dispatch(units, demand, lines=[("a", "b")], interfaces=[both]).solve()
    np.testing.assert_allclose(limited.power, rated.power, atol=1e-4)
    np.testing.assert_allclose(limited.flow_prices["tie"], [30.0, 30.0], atol=1e-4)
    with pytest.raises(d2.ProblemError, match="'tie': a rating has 2 entries; the demand has 3"):
        power.Dispatch(units, {"b": [1.0, 1.0, 1.0]}, grid=power.Grid([line]))
    with pytest.raises(d2.ProblemError, match="Interface 'tie': a limit has 2 entries"):
        power.Dispatch(units, {"b": [1.0] * 3}, lines=[("a", "b")], interfaces=[both])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"standing_loss": 1.5}, "expected a share in"),
        ({"cyclic": True, "final": 3.0}, "expected one of them"),
        ({"inflow": -1.0}, "inflow"),
        ({"energy": (40.0, 60.0)}, "starts with 30 MWh"),
    ],
)
def test_storage_that_is_refused(changes, message):
    with pytest.raises(d2.ProblemError, match=message):
        store(**changes)


def test_a_store_that_cannot_reach_its_end_is_named():
    unit = store(standing_loss=0.5, energy=(25.0, 60.0), p_max=1.0)
    with pytest.raises(d2.ProblemError, match=r"'store': no schedule .*e_min in period"):
        power.Dispatch([*plants(), unit], {"a": SHAPE}, graph=path("coal", "gas", "store"))
