"""Dispatch: against an independent model in cvxpy, on cases people know."""

import json

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import dual2 as d2
import nets
from dual2 import power as dispatch
from dual2.solving.storage import load_problem

HOURS = np.arange(24)
PROFILE = 1.1 + 0.35 * np.sin((HOURS - 9) * np.pi / 12) + 0.1 * np.sin((HOURS - 6) * np.pi / 6)


class Reference:
    """The dispatch as anybody would write it down in cvxpy."""

    def __init__(self, case: dispatch.Dispatch) -> None:
        T, units = case.periods, case.units
        self.x = [cp.Variable(T) for _ in units]
        self.r = [cp.Variable(T, nonneg=True) for _ in units]
        cost, limits, fed = 0, [], []
        for unit, x, r in zip(units, self.x, self.r, strict=True):
            c2, c1, c0 = unit.cost
            cost += c2 * cp.sum_squares(x) + c1 * cp.sum(x) + T * c0
            limits += [x >= unit.p_min, x + r <= unit.p_max]
            fed.append(x if isinstance(unit, dispatch.Generator) else -x)
            limits += self.generator(unit, x, r) if fed[-1] is x else self.storage(unit, x, r)
            if getattr(unit, "reserve_max", 0) > 0:
                cost += unit.reserve_cost[0] * cp.sum_squares(r) + unit.reserve_cost[1] * cp.sum(r)
        total = sum(fed)
        equal = case.coupling == "equal"
        self.balance = total == case.total_demand if equal else total >= case.total_demand
        limits.append(self.balance)
        self.reserve = None if case.reserve is None else sum(self.r) >= case.reserve
        limits += [] if self.reserve is None else [self.reserve]
        for i in case.interfaces:
            made = sum(i.weights.get(u.bus, 0.0) * p for u, p in zip(units, fed, strict=True))
            flow = made - sum(w * case.demand.get(b, 0.0) for b, w in i.weights.items())
            limits += [flow <= i.upper, flow >= i.lower]
        accuracy = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-11)
        self.cost = cp.Problem(cp.Minimize(cost), limits).solve(solver="CLARABEL", **accuracy)

    @staticmethod
    def generator(unit, x, r):
        limits = [r <= unit.reserve_max]
        if unit.ramp is not None:
            limits += [cp.diff(x) <= unit.ramp[0], cp.diff(x) >= -unit.ramp[1]]
            if unit.initial is not None:
                change = x[0] - unit.initial
                limits += [change <= unit.ramp[0], change >= -unit.ramp[1]]
        return limits

    @staticmethod
    def storage(unit, x, r):
        energy = unit.initial + cp.cumsum(x)
        finite = [energy >= unit.energy[0], energy <= unit.energy[1], r == 0]
        return finite + ([energy[-1] >= unit.final] if unit.final is not None else [])

    @property
    def price(self):
        return np.abs(self.balance.dual_value)


def compare(case: dispatch.Dispatch, **options) -> dispatch.Answer:
    """Cost within 1e-7, prices within 1e-5, as promised."""
    answer, reference = case.solve(**options), Reference(case)
    assert answer.status == "CONVERGED"
    assert answer.cost == pytest.approx(reference.cost, rel=1e-7)
    np.testing.assert_allclose(answer.price, reference.price, rtol=1e-5)
    if reference.reserve is not None:
        np.testing.assert_allclose(
            answer.reserve_price, reference.reserve.dual_value, rtol=1e-5, atol=1e-5
        )
    return answer


@pytest.mark.parametrize("name", ["case14", "case30", "case57", "case118", "case300"])
def test_cases_of_pandapower(name):
    answer = compare(dispatch.from_pandapower(nets.net(name), line_limits=False))
    assert answer.result.counts.rounds < 5000
    assert sum(answer.power[:, 0]) == pytest.approx(answer.case.total_demand[0], rel=1e-7)


def test_a_day_with_ramps_on_case118():
    net = nets.net("case118")
    answer = compare(dispatch.from_pandapower(net, profile=PROFILE, ramp=0.08), method="MiD2A")
    binding = [name for i in range(54) for name, _ in answer.limits(i)]
    assert binding.count("ramp up") > 50 and binding.count("ramp down") > 20
    assert np.ptp(answer.price) > 1


def test_linear_costs_with_ramps_and_reserve():
    """A linear program: its cost is unique, who produces need not be."""
    slow, fast = (
        dispatch.Generator(n, (0.0, c), 80.0, ramp=r, reserve_max=30.0, reserve_cost=k)
        for n, c, r, k in (("slow", 20.0, 9.0, (0.0, 1.0)), ("fast", 35.0, 60.0, None))
    )
    mixed = dispatch.Generator("mixed", (0.01, 25.0), 40.0, reserve_max=5.0)
    demand = 80.0 + 30.0 * np.sin(np.arange(8))
    case = dispatch.Dispatch([slow, fast, mixed], demand, graph=[(0, 1), (1, 2)], reserve=20.0)
    answer = case.solve()
    assert answer.status == "CONVERGED"
    assert answer.result.parameters["method"] == ("interior-point", "auto")
    assert answer.cost == pytest.approx(Reference(case).cost, rel=1e-7)


def test_pandapower_agrees_on_line_limits():
    import pandapower

    net = nets.net("case30")
    net.line.max_loading_percent = 72.0
    case = dispatch.from_pandapower(net)
    answer = case.solve()
    flows = [abs(line["flow"][0] / line["limit"][0]) for line in answer.lines]
    assert max(flows) == pytest.approx(1.0, abs=1e-6)
    with np.errstate(all="ignore"):
        pandapower.rundcopp(net)
    assert answer.cost == pytest.approx(net.res_cost, rel=1e-5)
    own = [answer.bus_price(bus)[0] for bus in net.bus.index]
    assert np.ptp(own) > 30
    np.testing.assert_allclose(own, net.res_bus.lam_p, rtol=1e-4)


def test_storage_and_fixed_feeds_of_a_net():
    import pandapower

    net = nets.net("case14")
    pandapower.create_sgen(net, 3, p_mw=20.0, controllable=False)
    pandapower.create_storage(net, 5, p_mw=0.0, max_e_mwh=50.0, min_e_mwh=5.0, soc_percent=40.0,
                              min_p_mw=-15.0, max_p_mw=10.0, controllable=True)  # fmt: skip
    pandapower.create_poly_cost(net, 0, "storage", cp1_eur_per_mw=0.0, cp2_eur_per_mw2=0.05)
    case = dispatch.from_pandapower(net, profile=[0.8, 1.0, 1.3], line_limits=False)
    battery = case.units[-1]
    assert (battery.name, battery.initial, battery.energy) == ("storage 0", 20.0, (5.0, 50.0))
    np.testing.assert_allclose(case.total_demand, [0.8 * 259, 259, 1.3 * 259] - np.full(3, 20.0))
    answer = compare(case)
    assert ("e_min", 2) in answer.limits(len(case.units) - 1)


def small(**changes) -> dispatch.Dispatch:
    units = [
        dispatch.Generator("coal", (0.01, 20.0, 5.0), p_min=50.0, p_max=300.0, bus="a",
                           ramp=(30.0, 40.0), initial=120.0, reserve_max=40.0,
                           reserve_cost=(0.02, 1.0)),
        dispatch.Generator("gas", (0.05, 35.0), p_max=200.0, bus="b", reserve_max=100.0,
                           reserve_cost=(0.001, 2.0)),
        dispatch.Generator("wind", (0.001, 1.0), p_max=[40, 90, 120, 60, 20, 80.0], bus="b"),
        dispatch.Storage("battery", (0.02, 0.0), p_min=-40.0, p_max=40.0, bus="c",
                         energy=(0.0, 100.0), initial=30.0, final=30.0),
    ]  # fmt: skip
    demand = {"a": np.array([80, 90, 150, 160, 120, 90.0]), "c": 100.0}
    given = {"lines": [("a", "b"), ("b", "c")]} | changes
    return dispatch.Dispatch(units, given.pop("demand", demand), **given)


@pytest.mark.parametrize("coupling", ["equal", "at least"])
def test_ramps_reserves_storage_and_a_zone_together(coupling):
    zone = dispatch.Interface.export("south", ["b", "c"], 60.0)
    answer = compare(small(reserve=60.0, interfaces=[zone], coupling=coupling))
    binding = {name for i in range(4) for name, _ in answer.limits(i)}
    assert {"ramp up", "p_max", "final"} <= binding
    assert np.abs(answer.flows["south"]).max() == pytest.approx(60.0, abs=1e-5)
    assert answer.reserve.sum(axis=0).min() > 60.0 - 1e-5
    assert np.abs(answer.bus_price("a") - answer.bus_price("c")).max() > 0.1
    for i, (row, bus) in enumerate(zip(answer.rows, "abbc", strict=True)):
        assert row["price"] == answer.bus_price(bus).tolist()
        assert row["reserve"] == answer.reserve[i].tolist()
    assert "mean marginal  mean reserve  mean price  limits" in str(answer)


def test_the_reserving_node_of_the_paper():
    units = [
        dispatch.Generator("one", (0.5, 0.0), p_max=10.0),
        dispatch.Generator("two", (1.0, 0.0), p_max=10.0),
        dispatch.Storage("reserve", (0.25, -4.0), p_max=3.0),
    ]
    answer = compare(dispatch.Dispatch(units, 4.0, graph=nx.path_graph(3)))
    assert answer.rows[2]["limits"] == []
    assert answer.price[0] == pytest.approx(2 * 0.5 * answer.power[0, 0], rel=1e-6)


def test_the_table_says_what_binds():
    answer = small().solve()
    rows = {row["unit"]: row for row in answer.rows}
    assert ("p_max", 4) in rows["wind"]["limits"]
    text = str(answer)
    assert "limits (periods)" in text and "wind" in text and "CONVERGED" in text
    assert answer.communication["rounds"] == answer.result.counts.rounds > 0


def test_a_matpower_case_equals_the_pandapower_net():
    net = nets.net("case30")
    bus = np.zeros((30, 13))
    bus[:, 0], bus[:, 1] = np.arange(30) + 1, 1
    np.add.at(bus[:, 2], net.load.bus.to_numpy(), net.load.p_mw.to_numpy())
    machines = [*net.ext_grid.itertuples(), *net.gen.itertuples()]
    gen = np.zeros((7, 21))
    gen[:6, 0] = [m.bus + 1 for m in machines]
    gen[:6, 8] = [m.max_p_mw for m in machines]
    gen[:6, 7] = 1
    cost = [
        [2, 0, 0, 3, c.cp2_eur_per_mw2, c.cp1_eur_per_mw, c.cp0_eur]
        for c in net.poly_cost.itertuples()
    ]
    branch = np.zeros((41, 13))
    branch[:, 0], branch[:, 1] = net.line.from_bus + 1, net.line.to_bus + 1
    branch[:, 3], branch[:, 10] = 0.1, 1
    case = {"bus": bus, "gen": gen, "gencost": [*cost, [1, 0, 0, 1, 0, 0, 0]], "branch": branch}
    ours = dispatch.from_matpower(case)
    theirs = dispatch.from_pandapower(net, line_limits=False)
    assert len(ours.units) == 6
    assert ours.solve().cost == pytest.approx(theirs.solve().cost, rel=1e-7)
    assert {tuple(e) for e in ours.network.edges} == {tuple(e) for e in theirs.network.edges}


def test_the_folder_gives_the_same_answer(tmp_path):
    case = small(reserve=60.0)
    found = load_problem(case.save(tmp_path / "day", tol=1e-7))
    result = d2.solve(found.problem, found.network, **found.options)
    assert case.answer(result).cost == pytest.approx(case.solve().cost, rel=1e-6)
    document = json.loads(json.dumps(result.as_dict()))
    assert str(case.answer(document)) == str(case.answer(result))


def test_an_answer_warms_the_next_solve():
    cold = small().solve()
    warm = small(demand=small().total_demand * 1.001).solve(start=cold)
    assert warm.result.counts.rounds < cold.result.counts.rounds


def test_units_without_generators_between_them_talk():
    graph = dispatch.agent_graph(["a", "d", "d", "e"], ["ab", "bc", "cd", "de"])
    assert sorted(graph.edges) == [(0, 1), (1, 2), (1, 3)]


def test_figures(tmp_path):
    small(reserve=60.0).solve().plot(tmp_path / "day.png")
    net = nets.net("case14")
    figure = dispatch.from_pandapower(net).solve().plot(tmp_path / "hour.svg")
    assert [axis.get_ylabel() for axis in figure.axes] == ["power, MW", "marginal cost per MWh"]
    assert (tmp_path / "day.png").stat().st_size > 10_000
