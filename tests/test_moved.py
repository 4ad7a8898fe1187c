"""Old import paths lead to the present modules, and say so."""

import importlib
import sys
import warnings

import pytest

from dual2.moved import MOVED


@pytest.mark.parametrize("old", sorted(MOVED))
def test_an_old_path_gives_the_present_module_and_a_warning(old):
    sys.modules.pop(old, None)
    with warnings.catch_warnings(action="ignore"):  # the package of an old path may be old itself
        importlib.import_module(old.rpartition(".")[0])
    present = importlib.import_module(MOVED[old])
    name = present.__spec__.name
    with pytest.warns(DeprecationWarning, match=f"has moved to {MOVED[old]}"):
        found = importlib.import_module(old)
    assert found is present and present.__spec__.name == name == MOVED[old]
    del sys.modules[old]


def test_old_names_of_the_applications_lead_to_the_present_packages():
    import dual2.applications
    import dual2.mpc
    import dual2.power

    for name in ("dispatch", "mpc"):  # which an import by the old path has set
        vars(dual2.applications).pop(name, None)
    with pytest.warns(DeprecationWarning, match=r"dual2\.power"):
        assert dual2.applications.dispatch is dual2.power
    with pytest.warns(DeprecationWarning, match=r"dual2\.mpc"):
        assert dual2.applications.mpc is dual2.mpc
    with pytest.raises(AttributeError):
        dual2.applications.nothing_like_this  # noqa: B018


def test_the_old_package_of_experiments_leads_to_bench_and_paper():
    import dual2.bench
    import dual2.experiments
    import dual2.paper

    old = dual2.experiments
    for name in ("benchmark", "reproduce"):  # which imports of old modules have set
        vars(old).pop(name, None)
    with pytest.warns(DeprecationWarning, match=r"moved to dual2\.bench"):
        assert old.benchmark is dual2.bench.benchmark
    with pytest.warns(DeprecationWarning, match=r"moved to dual2\.paper"):
        assert old.experiment1 is dual2.paper.experiment1
        assert old.Experiment is dual2.paper.Experiment
    with pytest.warns(DeprecationWarning, match=r"moved to dual2\.paper\.reproduction"):
        assert old.reproduce is dual2.paper.reproduction.reproduce
    with pytest.raises(AttributeError):
        old.nothing_like_this  # noqa: B018


def test_a_name_that_never_was_is_an_import_error():
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("dual2.methods.nothing_like_this")


@pytest.mark.parametrize(
    ("old", "new"),
    [("Agreement", "Communicator"), ("Share", "LocalProblem"), ("share_of", "local_problem")],
)
def test_an_old_name_of_the_runtime_gives_the_present_one_and_a_warning(old, new):
    import dual2.runtime

    with pytest.warns(DeprecationWarning, match=new):
        assert getattr(dual2.runtime, old) is getattr(dual2.runtime, new)


def test_the_old_name_of_a_cost_curve_gives_the_present_one_and_a_warning():
    from dual2 import power

    with pytest.warns(DeprecationWarning, match="PiecewiseLinearCost"):
        assert power.PiecewiseLinear is power.PiecewiseLinearCost
    with pytest.raises(AttributeError):
        power.nothing_like_this  # noqa: B018
