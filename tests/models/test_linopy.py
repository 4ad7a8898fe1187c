"""linopy models with owners: against linopy's own solution by HiGHS, and errors."""

import linopy
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import dual2 as d2
from dual2.models import from_linopy

ZONES = pd.Index(["north", "south", "east"], name="zone")
HOURS = pd.RangeIndex(3, name="snapshot")
LINES = pd.Index(["ns", "se"], name="line")


def zone_model(*, curvature=0.05, sense="min"):
    """Three zones, a plant and a store each, two lines, a budget of energy for each zone."""
    rng = np.random.default_rng(3)
    model = linopy.Model()
    build = {"coords": [ZONES, HOURS]}
    power = model.add_variables(0, 9, name="power", **build)
    peak = model.add_variables(0, 5, name="peak", **build)
    store = model.add_variables(0, 4, name="store", **build)
    flow = model.add_variables(-2, 2, coords=[LINES, HOURS], name="flow")
    demand = xr.DataArray(rng.uniform(4, 9, (3, 3)).round(2), coords=[ZONES, HOURS])
    price = xr.DataArray([10.0, 20.0, 35.0], coords=[ZONES])
    incidence = xr.DataArray([[-1.0, 1, 0], [0, -1, 1]], coords=[LINES, ZONES])
    drawn = store.roll(snapshot=1) - store
    balance = power + peak + drawn + (incidence * flow).sum("line")
    model.add_constraints(balance == demand, name="balance")
    model.add_constraints(power.sum("snapshot") <= 22, name="budget")
    cost = (price * power).sum() + 60 * peak.sum()
    if curvature:
        cost = cost + curvature * (power * power).sum() + curvature * (peak * peak).sum()
    model.add_objective(cost if sense == "min" else -1 * cost, sense=sense)
    return model


def centrally(model):
    """The same model by HiGHS: objective and duals."""
    model.solve(solver_name="highs", io_api="direct", output_flag=False)
    duals = {name: constraint.dual.values for name, constraint in model.constraints.items()}
    return model.objective.value, duals


@pytest.mark.parametrize("sense", ["min", "max"])
@pytest.mark.parametrize("blocks", ["zone", "snapshot"])
def test_objective_and_duals_are_those_of_linopy(blocks, sense):
    objective, duals = centrally(zone_model(sense=sense))
    model = zone_model(sense=sense)
    problem = from_linopy(model, blocks, rest="grid")
    answer = problem.assign(d2.solve(problem))
    assert answer.status == "CONVERGED"
    assert (model.status, model.termination_condition) == ("ok", "optimal")
    assert model.objective.value == pytest.approx(objective, rel=1e-6)
    for name, expected in duals.items():
        np.testing.assert_allclose(model.constraints[name].dual.values, expected, atol=1e-3)
    solution = model.solution
    assert float((solution["power"].sum("snapshot") - 22).max()) < 1e-6
    assert answer.variables["power[north, 0]"] == float(solution["power"][0, 0])


@pytest.mark.parametrize("curvature", [0.0, 0.05])
def test_the_interior_point_method_keeps_private_rows(curvature):
    model = zone_model(curvature=curvature)
    objective, _ = centrally(zone_model(curvature=curvature))
    problem = from_linopy(model, "zone", rest="grid")
    answer = problem.assign(d2.solve(problem, method="interior-point"))
    assert answer.status == "CONVERGED"
    assert model.objective.value == pytest.approx(objective, rel=1e-7)


def test_what_is_private_and_what_is_linking():
    problem = from_linopy(zone_model(), "zone", rest="grid")
    assert problem.names == ["north", "south", "east", "grid"]
    linking = {
        problem.ownership.model.constraints[k].split("[")[0] for k in problem.ownership.coupling
    }
    assert linking == {"balance"} and problem.p == 9
    assert "north: 9 variables, 1 private constraint" in problem.summary
    assert "grid: 6 variables, 0 private constraints" in problem.summary
    by_hour = from_linopy(zone_model(), "snapshot")
    assert by_hour.names == ["0", "1", "2"] and by_hour.p == 12  # stores join the hours


def test_owners_by_mappings_tables_and_blocks_of_the_model():
    companies = pd.Series({"north": "A", "south": "A", "east": "B"})
    lines = xr.DataArray(["A", "B"], coords=[LINES])
    blocks = {"power": companies, "peak": dict(companies), "store": "zone", "flow": lines}
    problem = from_linopy(zone_model(), blocks)
    assert problem.names == ["A", "B", "north", "south", "east"]
    assert from_linopy(zone_model(), {"flow": "grid"}).names == ["shared", "grid"]
    model = zone_model()
    model.blocks = xr.DataArray([0, 1, 1], coords=[ZONES])
    assert from_linopy(model, rest="grid").names == ["0", "1", "grid"]


def test_masked_variables_and_constraints():
    model = linopy.Model()
    there = xr.DataArray([True, False, True], coords=[ZONES])
    x = model.add_variables(lower=0, coords=[ZONES], name="x", mask=there)
    model.add_constraints(x.fillna(0).sum() >= 3, name="total")
    model.add_constraints(x.fillna(0) <= 2, name="cap", mask=there)
    model.add_objective((xr.DataArray([1.0, 9.0, 2.0], coords=[ZONES]) * x.fillna(0)).sum())
    problem = from_linopy(model, "zone")
    assert problem.names == ["north", "east"]
    problem.assign(d2.solve(problem))
    np.testing.assert_allclose(model.solution["x"].values, [2, np.nan, 1], atol=1e-6)
    np.testing.assert_allclose(model.constraints["cap"].dual.values, [-1, np.nan, 0], atol=1e-6)


def test_an_infeasible_model_keeps_its_solution_and_names_the_conflict():
    model = zone_model()
    model.add_constraints(model.variables["power"].sum() >= 70, name="quota")
    problem = from_linopy(model, "zone")
    answer = problem.assign(d2.solve(problem))
    assert answer.status == "INFEASIBLE" and "quota" in answer.conflict
    assert (model.status, model.termination_condition) == ("warning", "infeasible")
    assert "solution" not in model.variables["power"].data


def test_errors():
    model = zone_model()
    with pytest.raises(d2.ProblemError, match=r"No variable has the dimension 'region'; .*zone"):
        from_linopy(model, "region")
    with pytest.raises(d2.ProblemError, match="The model has no blocks"):
        from_linopy(model)
    with pytest.raises(d2.ProblemError, match=r"no variable 'powr'\. Did you mean 'power'"):
        from_linopy(model, {"powr": "zone"})
    with pytest.raises(d2.ProblemError, match=r"blocks\['power'\] is a int"):
        from_linopy(model, {"power": 3})
    with pytest.raises(d2.ProblemError, match="No owner for 'east' of the variable 'power'"):
        from_linopy(model, {"power": {"north": "A", "south": "B"}})
    with pytest.raises(d2.ProblemError, match="blocks is a list"):
        from_linopy(model, ["zone"])
    with pytest.raises(d2.ProblemError, match=r"needs a linopy\.Model; found dict"):
        from_linopy({}, "zone")
    with pytest.raises(d2.ProblemError, match=r"multiplies 'power\[south, 0\]' of south with"):
        power = model.variables["power"]
        product = power.sel(zone="north", drop=True) * power.sel(zone="south", drop=True)
        model.add_objective(product.sum() + (power * power).sum(), overwrite=True)
        from_linopy(model, "zone")
    model.add_variables(binary=True, name="switch")
    with pytest.raises(d2.ProblemError, match=r"1 variables must be whole \(switch\).*relax"):
        from_linopy(model, "zone")
