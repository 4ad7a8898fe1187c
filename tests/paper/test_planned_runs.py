"""The catalogue: every curve of the paper's figures, the same limits, words for each group."""

import pytest

from dual2.errors import Dual2Error
from dual2.methods import find_method
from dual2.paper.captions import ABOUT
from dual2.paper.claims import AIMS, ORDERS
from dual2.paper.planned_runs import EXPERIMENTS, LITERAL, cases, groups

DUAL = {"iD2A-iDAPG, ρ = ρ*", "MiD2A-iDAPG, ρ = ρ*"}
OURS = {"iD2A, our defaults", "MiD2A, our defaults", "Newton, our method", "L-BFGS, our method"}
OTHERS = {"APAPC-Chebyshev"} | OURS
PDPG = {"iD2A-PDPG, ρ = ρ*", "MiD2A-PDPG, ρ = ρ*"}
CURVES = {
    "exp1": {"iD2A-iDAPG, ρ = 0", "MiD2A-iDAPG, ρ = 0", "DCPA", "NPGA-EXTRA", "NPGA-ED"},
    "exp2": PDPG | {"DCPA", "NPGA-EXTRA", "NPGA-ATC", "NPGA-II"},
    "exp3": PDPG
    | {"iD2A-LPD, ρ = ρ*", "MiD2A-LPD, ρ = ρ*", "Tracking-ADMM, tuned", "NECPD, tuned"},
}


@pytest.mark.parametrize("group", ABOUT)
@pytest.mark.parametrize("quick", [False, True])
def test_every_curve_is_there_once(group, quick):
    found = [case for case in cases(["all"], quick) if case.group == group]
    labels = [case.label for case in found]
    assert len(labels) == len(set(labels))
    assert set(labels) == DUAL | OTHERS | CURVES[group.partition("-")[0]]


@pytest.mark.parametrize("quick", [False, True])
def test_labels_tell_what_is_run(quick):
    for case in cases(["all"], quick):
        solve, notes = case.solve, case.notes
        assert case.label.startswith(solve["method"])
        assert case.problem_options == ({"active": True} if "-active" in case.group else {})
        assert bool(notes.get("ours")) == ("ours" in case.label or "our " in case.label)
        assert bool(notes.get("reconstructed")) == find_method(solve["method"]).reconstructed
        if "ρ = 0" in case.label:
            assert solve["rho"] == 0
        if "subsolver" in solve:
            assert f"-{solve['subsolver']}," in case.label
            assert solve["constants"] == solve["accuracy"] == "paper"
        if "tuned" in case.label:
            assert "tune" in notes or {"c", "rho"} & set(solve)
    aliases = {tuple(case.notes.get("aliases", ())) for case in cases(["all"], quick)}
    assert aliases == {(), ("NPGA-I",)}


def test_limits():
    full, quick = ({c.label + c.group: c for c in cases(["all"], q)} for q in (False, True))
    assert full.keys() == quick.keys()
    for name, case in full.items():
        small = quick[name].solve
        assert small["max_rounds"] <= case.solve["max_rounds"] <= 3_000_000
        assert small["tol"] > case.solve["tol"]
        assert case.key != quick[name].key
    rules = [c for c in full.values() if "NPGA" in c.solve["method"] or c.label == "DCPA"]
    assert {case.solve["max_rounds"] for case in rules} == {3_000_000}
    assert all(set(case.solve) == {"method", "tol", "max_rounds"} for case in rules)


def test_names():
    assert groups(["exp2"]) == ["exp2", "exp2-active"]
    assert groups(["exp3", "exp1"]) == ["exp1", "exp3", "exp3-active"]
    assert groups(["all"]) == [group for members in EXPERIMENTS.values() for group in members]
    with pytest.raises(Dual2Error, match=r"exp9.*exp1"):
        cases(["exp9"])


def test_claims_speak_of_runs_that_are_made():
    made = {(case.group, case.label) for case in cases(["all"])}
    for group, orders in ORDERS.items():
        for order in (*orders, *AIMS.get(group, ())):
            assert {(group, name) for name in (*order.lower, *order.higher)} <= made


def test_every_group_has_its_words():
    assert list(ABOUT) == groups(["all"])
    for group, about in ABOUT.items():
        assert about.title and about.words and about.formula
        assert ("active" in about.title) == ("active" in group)


def test_the_printed_runs_have_twins_in_literal_mode():
    """They differ in label and accuracy alone; without being asked for they are not made."""
    plain, both = cases(["all"]), cases(["all"], literal=True)
    assert both[: len(plain)] == plain
    twins = both[len(plain) :]
    printed = [case for case in plain if case.solve.get("accuracy") == "paper"]
    assert [case.label for case in twins] == [case.label + LITERAL for case in printed]
    for one, other in zip(printed, twins, strict=True):
        assert other.solve == one.solve | {"accuracy": "literal"}
        assert (one.group, one.notes) == (other.group, other.notes)
