"""PyPSA networks by region, against PyPSA's own solution by HiGHS."""

import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pypsa", reason="PyPSA is not installed (extra pypsa)")

import dual2 as d2
import pypsa_grids
from dual2.models import from_pypsa

GRIDS = {"meshed": "country", "stored": "region", "wide": "zone"}
DEGENERATE = 1e-3
"""Prices that HiGHS finds by an active set for quadratic costs are right to this, in euros."""
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")


def by_highs(network):
    """The network as PyPSA solves it."""
    network.optimize(
        solver_name="highs",
        log_to_console=False,
        include_objective_constant=False,
        assign_all_duals=True,
    )
    return network


@pytest.mark.parametrize(
    ("name", "ties"), [(name, None) for name in GRIDS] + [("stored", "operator")]
)
def test_objective_prices_and_series_are_those_of_pypsa(name, ties):
    expected = by_highs(getattr(pypsa_grids, name)())
    network = getattr(pypsa_grids, name)()
    problem = from_pypsa(network, GRIDS[name], ties=ties)
    answer = problem.assign(d2.solve(problem, record=False), all_duals=True)
    assert answer.status == "CONVERGED"
    assert network.objective == pytest.approx(expected.objective, rel=1e-7)
    prices = network.buses_t.marginal_price
    np.testing.assert_allclose(prices, expected.buses_t.marginal_price, atol=DEGENERATE)
    fed = network.generators_t.p.sum(axis=1) + network.storage_units_t.p.sum(axis=1)
    assert list(fed.index) == list(network.snapshots) and network.loads_t.p_set.shape[0] == len(fed)
    assert set(network.lines_t.p0) == set(network.lines.index)
    if len(network.global_constraints):
        assert network.global_constraints.mu["co2"] == pytest.approx(
            expected.global_constraints.mu["co2"], rel=1e-6
        )
        assert abs(network.global_constraints.mu["co2"]) > 1.0


def test_balances_inside_a_region_are_private():
    problem = from_pypsa(pypsa_grids.stored(), "region")
    assert problem.names == ["north", "south", "east"]
    linking = [problem.ownership.model.constraints[k] for k in problem.ownership.coupling]
    assert {name.split(", ")[-1] for name in linking} == {"b2]", "b4]"}  # ends of hvdc1 and hvdc3
    assert "linking: 48 constraints: Bus-nodal_balance (48)" in problem.summary
    table = {row["owner"]: row for row in problem.ownership.table}
    assert table["north"]["linking constraints"] == 24
    assert table["south"]["linking constraints"] == 48
    operated = from_pypsa(pypsa_grids.stored(), "region", ties="operator")
    assert operated.names[-1] == "operator" and operated.p == 96


def test_a_changed_model_and_regions_by_mapping():
    network = pypsa_grids.stored()
    model = network.optimize.create_model(include_objective_constant=False)
    fuel = model.variables["Generator-p"].sel(name="gas0").sum()
    model.add_constraints(fuel <= 300.0, name="fuel")
    regions = {bus: f"region {k % 2}" for k, bus in enumerate(network.buses.index)}
    problem = from_pypsa(network, regions, model=model)
    problem.assign(d2.solve(problem, record=False))
    assert float(network.generators_t.p["gas0"].sum()) <= 300.0 + 1e-5
    with pytest.raises(d2.ProblemError, match="Both model= and options"):
        from_pypsa(network, regions, model=model, snapshots=network.snapshots[:2])


def test_an_infeasible_network_keeps_its_series_and_names_the_constraints():
    network = pypsa_grids.wide(buses=6, hours=2, regions=2)
    network.generators.loc[network.generators.index.str.startswith("shed"), "p_nom"] = 0.0
    network.loads_t.p_set["load3"] = 1000.0
    problem = from_pypsa(network, "zone")
    answer = problem.assign(d2.solve(problem, record=False))
    assert answer.status == "INFEASIBLE" and network.generators_t.p.empty
    assert any(name.startswith("Bus-nodal_balance[2030-01-01") for name in answer.conflict)


def test_a_region_that_contradicts_itself_is_named_before_anything_is_sent():
    network = pypsa_grids.stored()
    network.generators.loc["gas0", ["p_min_pu", "p_nom"]] = [1.0, 60.0]
    network.generators.loc["gas0", "p_max_pu"] = 0.5
    with pytest.raises(d2.ProblemError, match=r"constraints of north contradict.*gas0"):
        from_pypsa(network, "region")


def test_errors_of_regions():
    network = pypsa_grids.wide(buses=6, hours=2, regions=2)
    with pytest.raises(d2.ProblemError, match=r"no column 'zones'\. Did you mean 'zone'"):
        from_pypsa(network, "zones")
    with pytest.raises(d2.ProblemError, match="1 buses have no region, such as 'b5'"):
        from_pypsa(network, {f"b{k}": "a" for k in range(5)})
    with pytest.raises(d2.ProblemError, match="regions is a list"):
        from_pypsa(network, ["zone"])
    with pytest.raises(d2.ProblemError, match=r"needs a pypsa\.Network; found dict"):
        from_pypsa({}, "zone")


def test_the_example_of_the_page(capsys):
    page = (Path(__file__).parents[2] / "docs/models.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n(import dual2 as d2\nimport pypsa.*?)```", page, re.DOTALL)
    assert code is not None
    names = {}
    exec(code[1], names)
    said = capsys.readouterr().out
    assert "CONVERGED" in said and "linking: 4 constraints: Bus-nodal_balance" in said
    expected = by_highs(names["network"].copy())
    assert names["network"].objective == pytest.approx(expected.objective, rel=1e-9)
