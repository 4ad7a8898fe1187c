"""Nets with gaps, as ``rundcopp`` takes them: limits, states of charge, islands."""

import copy

import numpy as np
import pandapower
import pytest

from dual2 import power
from nets import net


def without_limits(case):
    case.line["max_loading_percent"] = np.nan


def one_line_without_limit(case):
    case.line["max_loading_percent"] = 100.0
    case.line.loc[2, "max_loading_percent"] = np.nan


def no_column(case):
    case.line = case.line.drop(columns="max_loading_percent", errors="ignore")


def unknown_charge(case):
    pandapower.create_storage(
        case, 4, p_mw=0, max_e_mwh=10, min_p_mw=-5, max_p_mw=5, controllable=True
    )


def no_charge_column(case):
    unknown_charge(case)
    case.storage = case.storage.drop(columns="soc_percent")


def island(case):
    a, b = pandapower.create_buses(case, 2, 345)
    pandapower.create_ext_grid(case, a, min_p_mw=0, max_p_mw=100, va_degree=5.0)
    pandapower.create_load(case, b, 30)
    pandapower.create_line_from_parameters(case, a, b, 1, 0.1, 1, 0, 1, max_loading_percent=100)
    pandapower.create_poly_cost(case, 1, "ext_grid", cp1_eur_per_mw=7)


CHANGES = [
    without_limits,
    one_line_without_limit,
    no_column,
    unknown_charge,
    no_charge_column,
    island,
]


@pytest.mark.parametrize("change", CHANGES)
def test_gaps_are_read_as_pandapower_does(change):
    case = net("case9")
    change(case)
    expected = copy.deepcopy(case)
    pandapower.rundcopp(expected)
    answer = power.from_pandapower(case).solve()
    power.write_results(answer, case)
    assert answer.cost == pytest.approx(expected.res_cost, rel=1e-7)
    for table, column in (("res_bus", "va_degree"), ("res_line", "loading_percent"),
                          ("res_gen", "p_mw")):  # fmt: skip
        np.testing.assert_allclose(case[table][column], expected[table][column], atol=1e-4)


def test_over_several_periods_an_unknown_charge_is_the_same_in_the_end():
    case = net("case9")
    unknown_charge(case)
    dispatch = power.from_pandapower(case, profile=[0.8, 1.2, 0.9, 1.1])
    store = dispatch.units[-1]
    assert store.cyclic and store.energy == (0.0, 10.0)
    answer = dispatch.solve()
    assert answer.solved and abs(answer.power[-1].sum()) < 1e-5
    assert np.ptp(answer.energy["storage 0"]) > 1.0, "it is used"
