"""Dispatch with lines: cases of ours against a textbook formulation, prices, tables, errors."""

import warnings
from pathlib import Path

import numpy as np
import pytest

import dual2 as d2
import nets
from dcopf_reference import angle_solution
from dual2 import power as dispatch
from dual2.power.case_file import parse_case, read_case

FOLDER = Path(__file__).resolve().parents[1] / "data" / "grids"


def path(name: str) -> Path:
    return FOLDER / f"{name}.m"


@pytest.mark.parametrize("model", ["matpower", "powermodels"])
@pytest.mark.parametrize("name", ["three_buses", "five_buses", "thirty_buses"])
def test_cost_prices_and_rent_are_those_of_a_central_solver(name, model):
    """Mixed costs, taps, shifts, a double circuit, tight angles; by HiGHS and Clarabel."""
    reference = angle_solution(path(name), model)
    answer = dispatch.from_matpower(path(name), model=model).solve()
    assert answer.status == "CONVERGED"
    assert answer.cost == pytest.approx(reference.cost, rel=1e-8)
    prices = answer.bus_prices()
    assert list(prices) == list(reference.prices)
    np.testing.assert_allclose(
        np.concatenate(list(prices.values())), list(reference.prices.values()), rtol=1e-6
    )
    np.testing.assert_allclose(answer.power[:, 0], reference.power, atol=1e-4)
    assert answer.congestion_rent[0] == pytest.approx(reference.rent, rel=1e-6)
    assert sum(row["price"][0] > 0 for row in answer.lines) == reference.binding


def test_limits_of_angles():
    answer = dispatch.from_matpower(path("thirty_buses"), model="powermodels").solve()
    reference = angle_solution(path("thirty_buses"), "powermodels")
    binding = [line for line in answer.lines if line["price"][0] > 0]
    assert [line["limited by"] for line in binding].count(["angle"]) == 3
    assert len(binding) == 6 and "binding: line" in str(answer)
    rent = sum(line["rent"][0] for line in binding)
    assert rent == pytest.approx(reference.rent, rel=1e-5)
    parts = [answer.bus_prices(part) for part in ("total", "energy", "congestion")]
    assert all(parts[0][b] == pytest.approx(parts[1][b] + parts[2][b]) for b in parts[0])
    paid = sum(parts[2][bus] * demand for bus, demand in answer.case.demand.items())
    assert abs(paid[0]) < 1e-6 * rent


def stub() -> dict:
    """Five buses, and a sixth whose line is too small for its load."""
    case = read_case(path("five_buses"))
    bus = [6, 1, 25.0, 8.0, 0, 0, 2, 1, 0, 220, 2, 1.1, 0.9]
    line = [5, 6, 0.01, 0.1, 0, 20.0, 20.0, 20.0, 0, 0, 1, -30, 30]
    return case | {
        "bus": np.vstack([case["bus"], bus]), "branch": np.vstack([case["branch"], line])
    }  # fmt: skip


def test_a_line_that_no_dispatch_relieves_and_unserved_energy():
    with pytest.raises(d2.ProblemError, match=r"'line 5-6' carries at least 25\.0000 MW .* 20\.00"):
        dispatch.from_matpower(stub())
    answer = dispatch.from_matpower(stub(), shed=1000.0).solve()
    reference = angle_solution(stub(), "matpower", shed=1000.0)
    assert answer.cost == pytest.approx(reference.cost, rel=1e-8)
    missing = {bus: round(p[0], 4) for bus, p in answer.unserved.items() if p[0] > 1e-6}
    assert missing == {6: 5.0}
    assert str(answer).startswith("UNSERVED 5 MWh (bus 6: 5)")


def test_limits_that_contradict_each_other_are_named():
    """Bus 3 needs 100 and its two lines carry 90 together; each alone could be relieved."""
    case = {
        "baseMVA": 100.0,
        "bus": [[1, 3, 0, 0, 0], [2, 2, 0, 0, 0], [3, 1, 100.0, 0, 0]],
        "gen": [[b, 0, 0, 0, 0, 1, 100, 1, 150.0, 0.0] for b in (1, 2)],
        "gencost": [[2, 0, 0, 3, 0.02, 15.0, 0.0], [2, 0, 0, 3, 0.01, 18.0, 0.0]],
        "branch": [[b, 3, 0, 0.1, 0, rate, 0, 0, 0, 0, 1] for b, rate in ((1, 40.0), (2, 50.0))],
    }
    with pytest.raises(d2.ProblemError, match=r"infeasible: .*line [12]-3 in period 0"):
        dispatch.from_matpower(case).solve()


def pieces() -> dict:
    """Five buses with every slope half as steep again above p_max/2."""
    case = read_case(path("five_buses"))
    rows = []
    for slope, top in zip(case["gencost"][:, 5], case["gen"][:, 8], strict=True):
        half = slope * top / 2
        rows.append([1, 0, 0, 3, 0, 0, top / 2, half, top, 2.5 * half])
    return case | {"gencost": np.array(rows)}


def test_piecewise_linear_costs():
    answer = dispatch.from_matpower(pieces()).solve()
    reference = angle_solution(pieces(), "matpower")
    assert answer.cost == pytest.approx(reference.cost, rel=1e-8)
    np.testing.assert_allclose(answer.power[:, 0], reference.power, atol=1e-4)
    prices = np.concatenate(list(answer.bus_prices().values()))
    np.testing.assert_allclose(prices, list(reference.prices.values()), rtol=1e-6)
    rows = {row["unit"]: row for row in answer.rows}
    kinks = [row for row in rows.values() if np.ptp(row["slopes"][0]) > 0]
    assert kinks and all(row["limits"] == [] for row in kinks)
    for row in kinks:  # at p_max/2 the price lies between the slopes
        low, high = row["slopes"][0]
        assert high == pytest.approx(1.5 * low) and low < row["marginal"][0] < high
    hours = dispatch.from_matpower(pieces(), profile=[0.5, 1.0], ramp=0.5).solve()
    lone = dispatch.from_matpower(pieces(), profile=0.5).solve()
    assert hours.cost >= answer.cost + lone.cost - 1e-4


def test_a_start_brings_its_rows():
    case = dispatch.from_matpower(path("five_buses"))
    cold = case.solve()
    warm = case.solve(start=cold)
    assert len(cold.active) == 1 and warm.active == cold.active
    assert warm.cost == pytest.approx(cold.cost, rel=1e-8)
    assert warm.communication["latency"] < cold.communication["latency"]
    whole = d2.solve(case.problem, case.network)
    assert case.answer(whole).cost == pytest.approx(cold.cost, rel=1e-8)
    with pytest.raises(d2.ProblemError, match="start has 9 prices; expected 1, or 3"):
        case.solve(start=(cold.result.x, np.zeros(9)))


def test_hours_with_lines():
    """Each hour by itself is what the hours are together where no ramp joins them."""
    both = dispatch.from_matpower(path("five_buses"), profile=[0.9, 1.0]).solve()
    for t, factor in enumerate((0.9, 1.0)):
        one = dispatch.from_matpower(path("five_buses"), profile=factor).solve()
        for bus, price in one.bus_prices().items():
            assert both.bus_price(bus)[t] == pytest.approx(price[0], rel=1e-6)


def test_tables_of_lines_and_buses():
    answer = dispatch.from_matpower(path("three_buses"), model="powermodels").solve()
    (full,) = [line for line in answer.lines if line["price"][0] > 0]
    assert full["loading"][0] == pytest.approx(100.0, abs=1e-5)
    assert full["rent"][0] == pytest.approx(full["price"][0] * abs(full["limit"][0]))
    angle = {row["bus"]: np.radians(row["angle"][0]) for row in answer.buses}
    for line, row in zip(answer.case.grid.lines, answer.lines, strict=True):
        flow = line.susceptance * (angle[line.start] - angle[line.end])
        assert row["flow"][0] == pytest.approx(flow, abs=1e-6)
    assert sum(row["generation"][0] for row in answer.buses) == pytest.approx(290.0)


def test_pandapower_has_piecewise_costs_shifts_and_isolated_buses():
    import pandapower

    net = nets.net("case14")
    net.poly_cost = net.poly_cost.iloc[:0]
    for kind, element, slope in (("ext_grid", 0, 20.0), ("gen", 0, 25.0), ("gen", 1, 40.0)):
        points = [[0.0, 60.0, slope], [60.0, 400.0, 1.3 * slope]]
        pandapower.create_pwl_cost(net, element, kind, points)
    net.trafo.loc[0, "shift_degree"] = 2.0
    net.line["max_loading_percent"] = 100.0
    net.line.loc[net.line.index[:3], "max_i_ka"] = 0.25
    net.line.loc[3, "in_service"] = False
    net.gen.loc[2, ["controllable", "p_mw"]] = [False, 10.0]
    lonely = pandapower.create_bus(net, 135.0)
    pandapower.create_load(net, lonely, 50.0)
    case = dispatch.from_pandapower(net)
    answer = case.solve()
    assert "gen 2" not in case.names and case.total_demand == pytest.approx([249.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pandapower.rundcopp(net)
    assert answer.cost == pytest.approx(net.res_cost, rel=1e-6)
    assert len(answer.active) > 0
    prices = answer.bus_prices()
    ours = [prices[bus][0] for bus in prices]
    np.testing.assert_allclose(ours, net.res_bus.lam_p[list(prices)], rtol=1e-4)


def test_a_net_without_costs_costs_one_per_mwh():
    net = nets.net("case14")
    net.poly_cost = net.poly_cost.iloc[:0]
    assert dispatch.from_pandapower(net).solve().cost == pytest.approx(259.0)


TEXT = "function mpc = c\nmpc.version = '2';\nmpc.baseMVA = 100; % remark\n"


def test_a_case_file_is_read_not_executed():
    found = parse_case(
        TEXT + "mpc.bus = [1 3, 0\n 2 1 Inf ... and so on\n ];\nmpc.n = {'a%]'};", "c"
    )
    assert found["version"] == "2" and found["baseMVA"] == 100.0
    assert found["bus"].tolist() == [[1, 3, 0], [2, 1, np.inf]] and "n" not in found


def test_remarks_of_a_case_file_are_in_any_encoding(tmp_path):
    path = tmp_path / "c.m"
    path.write_bytes((TEXT + "mpc.bus = [1 3 0]; % Z\xfcrich").encode("latin-1"))
    assert read_case(path)["bus"].tolist() == [[1, 3, 0]]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("mpc.bus(:, 3) = 2 * mpc.bus(:, 3);", r"line 4 \('mpc.bus\(:, 3\).*no plain assignment"),
        ("mpc.bus = [1 2; 3];", "in 'bus' rows of 1 and of 2 numbers"),
        ("mpc.bus = [1 2/3];", "in 'bus' '2/3', which is no number"),
        ("mpc.bus = [1 2]';", "no plain assignment"),
        ("mpc.bus = [1 2", "no plain assignment"),
        ("system('ls');", "no plain assignment"),
        ("other.bus = [1];", "no plain assignment"),
        ("mpc.x = 1_0;", "in 'x' '1_0'"),
    ],
)
def test_what_a_case_file_may_not_contain(line, message):
    with pytest.raises(d2.ProblemError, match=message):
        parse_case(TEXT + line, "c.m")


CASE = {
    "bus": [[1, 3, 10.0, 0, 0], [2, 1, 5.0, 0, 0], [3, 4, 99.0, 0, 0]],
    "gen": [[1, 0, 0, 0, 0, 1, 100, 1, 80.0, 0.0]],
    "gencost": [[2, 0, 0, 3, 0.02, 15.0, 0.0]],
    "branch": [[1, 2, 0.0, 0.1, 0, 50.0, 0, 0, 0, 0, 1]],
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": "1"}, "format version 1; expected 2"),
        ({"dcline": [[1, 2, 1, 10.0]]}, "1 HVDC lines in service"),
        ({"branch": [[1, 2, 0.1, 0.0, 0, 50, 0, 0, 0, 0, 1]]}, "'line 1-2' has no reactance"),
        ({"branch": [[1, 2, 0.1, 0.1, 0, 50, 0, 0, 0, 9.0, 1]]}, "no 'baseMVA'"),
        ({"branch": [[1, 2, 0.1, 0.1, 0, 4.0, 0, 0, 0, 0, 1]]}, "at least 5.0000 MW"),
        ({"branch": [[1, 2, 0.1, 0.1, 0, 50, 0, 0, 0, 0, 0]]}, "at bus 2 cannot be served"),
        ({"bus": [[1, 3, np.nan, 0, 0]]}, "NaN in row 0, column 2"),
        ({"bus": [[1, 3, 10.0, 0, 0], [2, 1]]}, "'bus' is no table of numbers .*equal length"),
        ({"gen": "1 0 0"}, "'gen' is no table of numbers"),
        ({"branch": np.zeros((1, 1, 11))}, r"'branch' has shape \(1, 1, 11\); expected a table"),
        ({"gencost": [[1, 0, 0, 3, 0, 0, 1, 9, 2, 10]]}, r"not convex: the slopes \[9.0, 1.0\]"),
        ({"gencost": [[1, 0, 0, 4, 0, 0, 1, 9, 2, 10]]}, "announces 4 points"),
        ({"gencost": [[3, 0, 0, 1, 0, 0]]}, "cost model 3"),
    ],
)
def test_cases_that_are_refused(changes, message):
    assert dispatch.from_matpower(CASE).total_demand == pytest.approx([15.0])
    with pytest.raises(d2.ProblemError, match=message):
        dispatch.from_matpower(CASE | changes)


def test_other_refusals():
    with pytest.raises(d2.ProblemError, match=r"model 'matpowr'.*matpower"):
        dispatch.from_matpower(CASE, model="matpowr")
    with pytest.raises(d2.ProblemError, match=r"There is no file no_such_case\.m"):
        dispatch.from_matpower("no_such_case.m")
    with pytest.raises(d2.ProblemError, match="of type int; expected the path of a case file"):
        dispatch.from_matpower(14)
    with pytest.raises(d2.ProblemError, match="where the surplus goes"):
        dispatch.from_matpower(CASE, coupling="at least")
    with pytest.raises(d2.ProblemError, match="susceptance is 0"):
        dispatch.Line("a", "b", 0.0)
    with pytest.raises(d2.ProblemError, match="allow no flow"):
        dispatch.Line("a", "b", 10.0, rating=1.0, angles=(0.5, 1.0))
    with pytest.raises(d2.ProblemError, match="used twice among the lines"):
        dispatch.Grid([dispatch.Line("a", "b", 1.0), dispatch.Line("a", "b", 2.0)])
    one = dispatch.Generator("one", (0.0, 1.0), 5.0, bus="c")
    grid = dispatch.Grid([dispatch.Line("a", "b", 1.0)])
    with pytest.raises(d2.ProblemError, match="no line of the grid leads to bus 'c'"):
        dispatch.Dispatch([one], {"a": 1.0}, grid=grid)
