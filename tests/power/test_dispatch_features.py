"""Storage with losses, profiles by element, zones as agents, results written into a net."""

from pathlib import Path

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import dual2 as d2
import nets
from dual2 import power as dispatch

FOLDER = Path(__file__).resolve().parents[1] / "data" / "grids"
EXACT = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-11)
DEMAND = np.array([80.0, 60.0, 150.0, 170.0, 90.0])
GENERATORS = [
    dispatch.Generator("coal", cost=(0.02, 20.0), p_max=120.0),
    dispatch.Generator("gas", cost=(0.1, 35.0), p_max=200.0),
]
CHAIN = [("coal", "gas"), ("gas", "battery")]


def battery(efficiency, **more):
    limits = {"p_min": -30.0, "p_max": 25.0, "energy": (5.0, 60.0), "initial": 10.0, "final": 10.0}
    return dispatch.Storage("battery", (0.005, 0.1), efficiency=efficiency, **limits | more)


@pytest.mark.parametrize("efficiency", [1.0, 0.9, (0.95, 0.8)])
def test_storage_with_losses(efficiency):
    """Against a quadratic program with charging and discharging apart."""
    case = dispatch.Dispatch([*GENERATORS, battery(efficiency)], DEMAND, graph=CHAIN)
    answer = case.solve(tol=1e-9)
    into, out = np.broadcast_to(efficiency, (2,))
    p, c, d = cp.Variable((2, 5)), cp.Variable(5), cp.Variable(5)
    energy = 10.0 + cp.cumsum(into * c - d / out)
    cost = 0.02 * cp.sum_squares(p[0]) + 20 * cp.sum(p[0])
    cost += 0.1 * cp.sum_squares(p[1]) + 35 * cp.sum(p[1])
    cost += 0.005 * cp.sum_squares(c) + 0.005 * cp.sum_squares(d) + 0.1 * cp.sum(c - d)
    limits = [p >= 0, p[0] <= 120, p[1] <= 200, c >= 0, c <= 25, d >= 0, d <= 30]
    balance = cp.sum(p, axis=0) + d - c == DEMAND
    limits += [energy >= 5, energy <= 60, energy[4] >= 10, balance]
    cp.Problem(cp.Minimize(cost), limits).solve(solver="CLARABEL", **EXACT)
    assert answer.status == "CONVERGED"
    assert answer.cost == pytest.approx(cost.value, rel=1e-7)
    assert answer.energy["battery"] == pytest.approx(energy.value, abs=1e-4)
    assert answer.price == pytest.approx(-balance.dual_value, rel=1e-5)
    assert answer.rows[2]["energy"] == answer.energy["battery"].tolist()
    assert ("final", 4) in answer.limits(2)
    if efficiency != 1.0:  # what is lost is never given back
        assert answer.power[2].sum() > 1.0


def test_state_of_charge_in_the_figure(tmp_path):
    case = dispatch.Dispatch([*GENERATORS, battery(0.9)], DEMAND, graph=CHAIN)
    answer = case.solve()
    figure = answer.plot(tmp_path / "day.png")
    labels = [axes.get_ylabel() for axes in figure.axes]
    assert labels == ["power, MW", "stored, MWh", "price per MWh"]
    line, *_ = figure.axes[1].get_lines()
    assert line.get_ydata() == pytest.approx([10.0, *answer.energy["battery"]])
    assert len(dispatch.Dispatch(GENERATORS, DEMAND, graph=CHAIN[:1]).solve().plot().axes) == 2


def test_storage_errors():
    for wrong in (0.0, 1.1, (0.9, 0.9, 0.9), -1.0):
        with pytest.raises(d2.ProblemError, match=r"'battery': efficiency = .* in \(0, 1\]"):
            battery(wrong)


def day():
    """A net with a house, a factory, a solar field, and a wind park that may be turned down."""
    import pandapower

    net = pandapower.create_empty_network()
    a, b = (pandapower.create_bus(net, 110.0, zone=zone) for zone in ("north", "south"))
    pandapower.create_line(net, a, b, 10.0, "149-AL1/24-ST1A 110.0", max_loading_percent=100.0)
    pandapower.create_ext_grid(net, a, min_p_mw=-100.0, max_p_mw=100.0)
    pandapower.create_load(net, b, 20.0, name="house")
    pandapower.create_load(net, b, 10.0, name="factory")
    pandapower.create_sgen(net, b, 8.0, type="PV")
    pandapower.create_sgen(net, a, 12.0, type="WP", controllable=True, min_p_mw=0.0, max_p_mw=12.0)
    pandapower.create_poly_cost(net, 0, "ext_grid", cp1_eur_per_mw=50.0)
    return net


def test_profiles_by_element():
    sun, wind, house = [0.0, 1.0, 0.5], [1.0, 0.2, 0.0], [1.0, 1.5, 2.0]
    profile = {"PV": sun, "sgen 1": wind, "load 0": house}
    answer = dispatch.from_pandapower(day(), profile=profile).solve()
    rest = 20.0 * np.array(house) + 10.0 - 8.0 * np.array(sun)
    assert answer.case.total_demand == pytest.approx(rest)
    powers = dict(zip(answer.case.names, answer.power, strict=True))
    assert powers["sgen 1"] == pytest.approx(12.0 * np.array(wind), abs=1e-6)
    assert answer.cost == pytest.approx(50.0 * (rest - 12.0 * np.array(wind)).sum(), rel=1e-8)
    both = dispatch.from_pandapower(day(), profile={"load": house})
    assert both.total_demand == pytest.approx(30.0 * np.array(house) - 8.0)
    assert both.total_demand == pytest.approx(
        dispatch.from_pandapower(day(), profile=house).total_demand
    )
    case = dispatch.from_matpower(
        FOLDER / "five_buses.m", profile={2: [1.0, 0.5], "gen 3": [1.0, 0.1]}
    )
    assert case.demand[2].tolist() == [210.0, 105.0] and case.demand[3].tolist() == [150.0, 150.0]
    assert case.units[3].p_max.tolist() == [240.0, 24.0]


def test_profile_errors():
    with pytest.raises(d2.ProblemError, match="element in profile 'WindPark'"):
        dispatch.from_pandapower(day(), profile={"WindPark": [1.0, 2.0]})
    with pytest.raises(d2.ProblemError, match=r"profiles have lengths \[2, 3\]"):
        dispatch.from_pandapower(day(), profile={"PV": [1.0, 2.0], "load": [1.0, 2.0, 3.0]})


def test_zones_have_the_answer_of_their_units():
    """Areas of thirty buses: three agents instead of ten."""
    path, model = FOLDER / "thirty_buses.m", "powermodels"
    by_unit = dispatch.from_matpower(path, model=model).solve()
    by_zone = dispatch.from_matpower(path, model=model, zones="area").solve()
    assert by_zone.case.network.n == 3 == by_zone.case.problem.n
    assert by_zone.cost == pytest.approx(by_unit.cost, rel=1e-9)
    ours, theirs = (np.array(list(a.bus_prices().values())) for a in (by_zone, by_unit))
    assert ours == pytest.approx(theirs, rel=1e-6)
    assert by_zone.power == pytest.approx(by_unit.power, abs=1e-4)
    table = {row["zone"]: row for row in by_zone.zones}
    assert sum(row["export"][0] for row in table.values()) == pytest.approx(0.0, abs=1e-6)
    assert sum(row["demand"][0] for row in table.values()) == pytest.approx(
        by_zone.case.total_demand[0]
    )
    again = by_zone.case.answer(d2.solve(by_zone.case.problem, by_zone.case.network))
    assert again.cost == pytest.approx(by_unit.cost, rel=1e-8)


def test_zones_with_ramps_storage_and_a_graph_of_their_own():
    units = [
        dispatch.Generator("coal", (0.02, 20.0), 120.0, bus=1, ramp=30.0),
        dispatch.Generator("gas", (0.1, 35.0), 200.0, bus=2),
        battery(0.9, bus=1),
    ]
    demand = {1: 0.4 * DEMAND, 2: 0.6 * DEMAND}
    lone = dispatch.Dispatch(units, demand, lines=[(1, 2)]).solve()
    zones = {1: "west", 2: "east"}
    joint = dispatch.Dispatch(units, demand, graph=[("west", "east")], zones=zones).solve()
    assert joint.cost == pytest.approx(lone.cost, rel=1e-8)
    assert joint.energy["battery"] == pytest.approx(lone.energy["battery"], abs=1e-4)
    assert nx.number_of_nodes(nx.Graph(joint.case.network.edges.tolist())) == 2
    with pytest.raises(d2.ProblemError, match="zones has no entry for bus 2, where 'gas' is"):
        dispatch.Dispatch(units, demand, lines=[(1, 2)], zones={1: "west"})
    with pytest.raises(d2.ProblemError, match="'country' with 13 columns of bus"):
        dispatch.from_matpower(FOLDER / "five_buses.m", zones="country")


def test_results_as_pandapower_writes_them():
    """The tables of rundcopp, wherever both have a column."""
    import pandapower

    net = nets.net("case30")
    dispatch.write_results(dispatch.from_pandapower(net).solve(), net)
    ours = {
        k: net[k].copy() for k in ("res_bus", "res_gen", "res_ext_grid", "res_line", "res_load")
    }
    cost = net.res_cost
    pandapower.rundcopp(net)
    assert cost == pytest.approx(net.res_cost, rel=1e-6)
    for name, table in ours.items():
        shared = [column for column in table if column in net[name]]
        assert {"p_mw", "p_from_mw"} & set(shared), name
        for column in shared:
            found, expected = table[column].to_numpy(float), net[name][column].to_numpy(float)
            room = 2e-3 * max(1.0, np.nanmax(np.abs(expected)))
            np.testing.assert_allclose(found, expected, atol=room, err_msg=f"{name}.{column}")


def test_results_of_a_net_whose_source_is_a_generator():
    net = nets.net("case4gs")
    net.ext_grid.in_service, net.gen.slack = False, True
    net.gen[["min_p_mw", "max_p_mw"]] = 0.0, 600.0
    dispatch.write_results(dispatch.from_pandapower(net).solve(), net)
    assert net.res_bus.va_degree[net.gen.bus[0]] == 0.0
    assert net.res_gen.p_mw[0] == pytest.approx(net.load.p_mw.sum(), rel=1e-6)


def test_results_with_what_is_out_of_service():
    import pandapower

    net = day()
    lone = pandapower.create_bus(net, 110.0)
    pandapower.create_load(net, lone, 5.0)
    pandapower.create_load(net, 1, 3.0, in_service=False)
    answer = dispatch.from_pandapower(net, profile={"PV": [0.0, 1.0]}).solve()
    dispatch.write_results(answer, net, period=1)
    assert net.res_load.p_mw[:2].tolist() == [20.0, 10.0] and net.res_load.p_mw[2:].isna().all()
    assert net.res_sgen.p_mw.tolist() == pytest.approx([8.0, 12.0], abs=1e-6)
    assert net.res_ext_grid.p_mw[0] == pytest.approx(10.0, abs=1e-5)
    assert net.res_bus.lam_p[:2].tolist() == pytest.approx([50.0, 50.0], rel=1e-6)
    assert np.isnan(net.res_bus.lam_p[lone])
    with pytest.raises(d2.ProblemError, match="period = 2; the answer has 2 periods"):
        dispatch.write_results(answer, net, period=2)
    plain = dispatch.Dispatch(GENERATORS, DEMAND, graph=CHAIN[:1]).solve()
    with pytest.raises(d2.ProblemError, match="has no lines"):
        dispatch.write_results(plain, net)
    with pytest.raises(d2.ProblemError, match="other buses than the net"):
        dispatch.write_results(answer, nets.net("case4gs"))


def test_no_limits_of_reactive_power_are_needed():
    """Nor is the net changed by reading it."""
    import pandapower

    net = nets.net("case9")
    pandapower.create_sgen(net, 6, 30.0, controllable=True, min_p_mw=0.0, max_p_mw=30.0)
    limits = {"min_p_mw": -20.0, "max_p_mw": 20.0, "min_e_mwh": 0.0, "max_e_mwh": 50.0}
    pandapower.create_storage(net, 5, 0.0, soc_percent=50.0, controllable=True, **limits)
    before = {kind: list(net[kind].columns) for kind in ("gen", "sgen", "storage")}
    answer = dispatch.from_pandapower(net, profile=[0.8, 1.2]).solve()
    assert answer.status == "CONVERGED"
    assert answer.energy["storage 0"][-1] == pytest.approx(0.0, abs=1e-4)
    assert before == {kind: list(net[kind].columns) for kind in before}
