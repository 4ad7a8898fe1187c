"""Dispatch: what cannot be solved is said before any work, with the unit's name."""

import numpy as np
import pandas
import pytest

import dual2 as d2
import nets
from dual2 import power as dispatch

COAL = dispatch.Generator("coal", (0.01, 20.0), p_max=100.0, bus=0)
GAS = dispatch.Generator("gas", (0.02, 30.0), p_min=10.0, p_max=50.0, bus=1)
PAIR = [("coal", "gas")]


@pytest.mark.parametrize(
    ("cost", "message"),
    [
        ((-0.01, 20.0), "'old': its cost is not convex: the quadratic coefficient is -0.01"),
        ((1.0,), "1 coefficients; expected"),
        ((np.nan, 1.0), "nan"),
    ],
)
def test_costs(cost, message):
    with pytest.raises(d2.ProblemError, match=message):
        dispatch.Generator("old", cost, p_max=1.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"demand": 151.0}, "period 0 the demand is 151 MW, .* at most 150 MW"),
        ({"demand": [50.0, 5.0]}, "period 1 the demand is 5 MW, .* at least 10 MW"),
        ({"demand": 100.0, "reserve": 5.0}, "reserve is 5 MW, but .* at most 0 MW"),
        ({"demand": 100.0, "reserve": [5.0, 5.0]}, "reserve has 2 entries; .* 1 periods"),
        ({"demand": 100.0, "coupling": "roughly"}, "coupling = 'roughly'"),
        ({"demand": {0: [1.0, 2.0], 1: [1.0, 2.0, 3.0]}}, "lengths \\[2, 3\\]"),
        ({"demand": 9.0, "interfaces": [dispatch.Interface("x", {0: 1.0})]}, "demand by bus"),
        ({"demand": {}}, "names no bus"),
        ({"demand": {0: 20.0}, "interfaces": [dispatch.Interface("x", {7: 1.0})]}, "bus 7 is unkn"),
        ({"demand": {0: 20.0}, "interfaces": [dispatch.Interface("demand", {0: 1.0})]}, "is taken"),
        ({"demand": {0: 20.0}, "interfaces": 2 * [dispatch.Interface("x", {0: 1.0})]}, "is taken"),
    ],
)
def test_cases(arguments, message):
    with pytest.raises(d2.ProblemError, match=message):
        dispatch.Dispatch([COAL, GAS], graph=PAIR, **arguments)


def test_a_demand_that_rises_faster_than_the_ramps():
    slow = dispatch.Generator("slow", (0.01, 20.0), p_max=100.0, ramp=10.0, initial=20.0)
    with pytest.raises(d2.ProblemError, match=r"period 1 the demand is 60 MW, .* at most 40 MW"):
        dispatch.Dispatch([slow], [30.0, 60.0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ramp": "fast"}, "ramp is str"),
        ({"ramp": (1.0, 2.0, 3.0)}, "a rate ≥ 0 or a pair"),
        ({"ramp": -1.0}, "a rate ≥ 0 or a pair"),
        ({"initial": "full"}, "initial is str"),
    ],
)
def test_ramps(changes, message):
    with pytest.raises(d2.ProblemError, match=f"'slow': .*{message}"):
        dispatch.Generator("slow", (0.01, 20.0), p_max=100.0, **({"ramp": 1.0} | changes))


def test_readers_refuse_what_they_do_not_know():
    with pytest.raises(d2.ProblemError, match="pandapower net was expected; found str"):
        dispatch.from_pandapower("case14")
    with pytest.raises(d2.ProblemError, match="Unknown unit in ramp 'gen 9'"):
        dispatch.from_pandapower(nets.net("case14"), ramp={"gen 9": 1.0})


def test_no_reserve_needs_no_holder():
    one = dispatch.Dispatch([COAL], 50.0, reserve=0.0, graph=[]).solve()
    assert one.price == pytest.approx([21.0], abs=1e-6)


@pytest.mark.parametrize(("demand", "change"), [([40.0, 65.0], "25"), ([65.0, 40.0], "-25")])
def test_a_demand_that_changes_faster_than_all_ramps(demand, change):
    slow = [dispatch.Generator(name, (0.01, 20.0), p_max=100.0, ramp=10.0) for name in "ab"]
    with pytest.raises(d2.ProblemError, match=f"from period 0 to 1 .* by {change} MW, .* 20 MW"):
        dispatch.Dispatch(slow, demand, graph=["ab"])


def test_limits_of_one_unit_that_contradict_each_other():
    stuck = dispatch.Generator(
        "stuck", (0.01, 20.0), p_min=[0.0, 50.0], p_max=[10.0, 60.0], ramp=20.0
    )
    with pytest.raises(d2.ProblemError, match=r"'stuck': no schedule .* ramp up in period 1"):
        dispatch.Dispatch([stuck], [5.0, 55.0])


def test_an_infeasible_flow_limit_is_named():
    choke = dispatch.Interface.export("island", [1], 5.0)
    case = dispatch.Dispatch([COAL, GAS], {0: 10.0, 1: 80.0}, graph=PAIR, interfaces=[choke])
    with pytest.raises(d2.ProblemError, match="island in period 0"):
        case.solve(max_rounds=200_000, throw=True)
    with pytest.raises(d2.NotSolved, match="MAX_ROUNDS"):
        case.solve(max_rounds=1, throw=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "who talks to whom"),
        ({"lines": []}, "not connected: the units at buses .0. cannot reach those at .1."),
        ({"graph": [("coal", "oil")]}, "not the 2 units; .* gas, oil"),
        ({"graph": d2.Network([(0, 1), (1, 2)])}, "3 nodes; there are 2 units"),
    ],
)
def test_networks(arguments, message):
    with pytest.raises(d2.NetworkError, match=message):
        dispatch.Dispatch([COAL, GAS], 100.0, **arguments)


def test_a_demand_that_no_line_leads_to():
    with pytest.raises(d2.ProblemError, match="demand of 5 MW at bus 7 cannot be served"):
        dispatch.Dispatch([COAL, GAS], {0: 50.0, 7: 5.0}, lines=[(0, 1)])


def test_units():
    with pytest.raises(d2.ProblemError, match="p_min = 2 exceeds p_max = 1"):
        dispatch.Generator("x", (1.0, 1.0), p_min=2.0, p_max=1.0)
    with pytest.raises(d2.ProblemError, match="p_max has 3 entries; the demand has 2 periods"):
        dispatch.Dispatch([dispatch.Generator("x", (1.0, 1.0), p_max=[1.0, 2.0, 3.0])], [1.0, 1.0])
    with pytest.raises(d2.ProblemError, match="ramp = -1"):
        dispatch.Generator("x", (1.0, 1.0), p_max=1.0, ramp=-1.0)
    with pytest.raises(d2.ProblemError, match="reserve_cost is not convex"):
        dispatch.Generator("x", (1.0, 1.0), p_max=1.0, reserve_max=1.0, reserve_cost=(-1.0, 0.0))
    with pytest.raises(d2.ProblemError, match="starts with 9 MWh, outside"):
        dispatch.Storage("x", (1.0, 1.0), p_max=1.0, energy=(0.0, 5.0), initial=9.0)
    with pytest.raises(d2.ProblemError, match="'coal' is used twice"):
        dispatch.Dispatch([COAL, COAL], 1.0, graph=[(0, 1)])
    with pytest.raises(d2.ProblemError, match="There are no units"):
        dispatch.Dispatch([], 1.0)
    with pytest.raises(d2.ProblemError, match="lower limit 2 exceeds"):
        dispatch.Interface("x", {}, 2.0, 1.0)


def test_nets():
    net = nets.net("case14")
    net.poly_cost.loc[2, "cp2_eur_per_mw2"] = 0.0
    assert dispatch.from_pandapower(net).solve().status == "CONVERGED"
    with pytest.raises(d2.CapabilityError, match="iD2A cannot solve"):
        dispatch.from_pandapower(net).solve(method="iD2A")
    net.poly_cost = net.poly_cost.drop(index=2)
    free = dispatch.from_pandapower(net).solve()
    assert free.costs[free.case.names.index("gen 1")] == 0.0
    net.poly_cost = pandas.concat([net.poly_cost, net.poly_cost.iloc[:1]], ignore_index=True)
    with pytest.raises(d2.ProblemError, match="'ext_grid 0' has several costs"):
        dispatch.from_pandapower(net)
    net = nets.net("case14")
    net.gen.loc[0, "max_p_mw"] = np.nan
    with pytest.raises(d2.ProblemError, match="'gen 0' has no finite"):
        dispatch.from_pandapower(net)
    net = nets.net("case14")
    net.line.in_service = False
    assert dispatch.from_pandapower(net).names == ["ext_grid 0"]


CASE = {
    "bus": [[1, 3, 10.0, 0, 0]],
    "gen": [[1, 0, 0, 0, 0, 1, 100, 1, 80.0, 0.0]],
    "gencost": [[2, 0, 0, 3, 0.02, 15.0, 0.0]],
    "branch": np.zeros((0, 11)),
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gencost": [[2, 0, 0, 4, 1.0, 1.0, 1.0, 0.0]]}, "'gen 0' has a cost of degree 3"),
        ({"gencost": np.zeros((0, 7))}, "1 generators and 0 rows"),
        ({"gen": [[1, 0, 0]]}, "'gen' has 3 columns"),
        ({"bus": [[1, 3, 10.0, 0, 0], [1, 1, 5.0, 0, 0]]}, "'bus' has number 1 twice"),
        ({"bus": [[1.5, 3, 10.0, 0, 0]]}, "the number 1.5; expected a whole number"),
        ({"gen": [[7, 0, 0, 0, 0, 1, 100, 1, 80.0, 0.0]]}, "Row 0 of the case's 'gen'.*at bus 7"),
        (
            {"branch": [[1, 2, 0, 0.1, 0, 0, 0, 0, 0, 0, 1]]},
            "Row 0 of the case's 'branch' is in service at bus 2, which 'bus' does not have",
        ),
        ({"gencost": [[1, 0, 0, 2, 80, 0, 0, 9]]}, "'gen 0'.*powers .80.0, 0.0. do not rise"),
        (
            {
                "baseMVA": 0.0,
                "bus": [[1, 3, 10.0, 0, 0], [2, 1, 0.0, 0, 0]],
                "branch": [[1, 2, 0, 0.1, 0, 0, 0, 0, 0, 0, 1]],
            },
            "baseMVA = 0; expected a positive number",
        ),
    ],
)
def test_matpower_cases(changes, message):
    with pytest.raises(d2.ProblemError, match=message):
        dispatch.from_matpower(CASE | changes)
    with pytest.raises(d2.ProblemError, match="no 'bus'"):
        dispatch.from_matpower({})


def test_arguments_of_readers():
    """What was replaced is said, what is unknown is named."""
    for read, case in ((dispatch.from_matpower, CASE), (dispatch.from_pandapower, None)):
        with pytest.raises(
            d2.ProblemError, match=r"min_curvature is gone\. Costs are taken as they"
        ):
            read(case, min_curvature=1e-3)
        with pytest.raises(d2.ProblemError, match=r"Unknown argument 'reserves'.*'reserve'"):
            read(case, reserves=3.0)
        with pytest.raises(d2.ProblemError, match="Did you mean 'line_limits'"):
            read(case, line_limit=False)


def test_a_net_without_a_source():
    net = nets.net("case4gs")
    net.ext_grid.in_service = False
    with pytest.raises(d2.ProblemError, match="no ext_grid in service, nor a gen with slack"):
        dispatch.from_pandapower(net)
