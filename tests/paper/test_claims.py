"""Claims: every one can come out either way, decided by the stored runs alone."""

import math

import numpy as np
import pytest

from dual2.bench.case import Case
from dual2.bench.store import Store, StoredRun
from dual2.paper.captions import ABOUT
from dual2.paper.claims import AIMS, ORDERS, claims
from dual2.paper.planned_runs import LITERAL
from dual2.paper.verdicts import Cost, Order, judge, less

COLUMNS = ("rounds", "agree_rounds", "grad_f", "prox_g", "A", "AT", "prox_h")
FACTS = {
    "exp1": {
        "n": 8, "p": 20, "mu_h*": 20.0, "L_h*": 20.0, "kappa_C": 25.27, "kappa_f": 1.0,
        "kappa_pd": 98602.8,
    },
    "exp2": {
        "n": 8, "p": 9, "mu_h*": 0.0, "L_h*": 9.0, "rank_A": 9, "kappa_C": 25.27, "kappa_f": 1.0,
        "kappa_A_rho_at_least": 5.5e18, "kappa_A_joint": 7e17,
    },
    "exp3": {"n": 20, "p": 10, "kappa_C": 99.49, "kappa_f": 1000.0, "kappa_A_joint": 7.6},
}  # fmt: skip


def trace(scale, last=1e-9):
    """A run that spends ``scale`` of everything for each decade of the gap, down to ``last``."""
    decades = np.arange(0, round(-np.log10(last)) + 1)
    columns = {name: (scale * decades).astype(float) for name in COLUMNS}
    return columns | {"gap": 10.0**-decades, "kkt": 10.0**-decades, "seconds": 0.1 * decades}


def stored(group, label, scale, last=1e-9, facts=None):
    case = Case(group, label, group.partition("-")[0], {}, {"method": "iD2A"})
    known = FACTS[group.partition("-")[0]] if facts is None else facts
    return StoredRun(case, "CONVERGED", facts=known, trace=trace(scale, last))


def runs_for(order, lower, higher, last=1e-9):
    both = {name: higher for name in order.higher} | {name: lower for name in order.lower}
    return {name: stored("exp1", name, scale, last) for name, scale in both.items()}


EVERY = [
    pytest.param(order, id=f"{group}-{k}")
    for group, orders in ORDERS.items()
    for k, order in enumerate((*orders, *AIMS.get(group, ())))
]


@pytest.mark.parametrize("order", EVERY)
def test_every_claim_can_come_out_either_way(order):
    if set(order.lower) == set(order.higher):  # the spread between solvers
        labels = list(order.lower)
        same = {name: stored("exp3", name, 10) for name in labels}
        apart = same | {labels[0]: stored("exp3", labels[0], 1000)}
        assert judge(order, "exp3", "", apart).verdict == "reproduced"
        assert judge(order, "exp3", "", same).verdict == "not reproduced"
        return
    ratio = 1.5 if np.isfinite(order.at_most) else 1.5 * order.factor
    holds = judge(order, "exp1", "", runs_for(order, 1000, 1000 * ratio))
    assert holds.verdict == "reproduced", holds
    fails = judge(order, "exp1", "", runs_for(order, 1000 * ratio, 1000))
    assert fails.verdict == "not reproduced", fails
    assert "gap" in holds.measured or "KKT" in holds.measured
    assert holds.reason and fails.reason


def test_slightly_has_an_upper_end():
    order = next(order for order in ORDERS["exp3"] if np.isfinite(order.at_most))
    much = judge(order, "exp3", "", runs_for(order, 10, 100))
    assert much.verdict == "not reproduced"


@pytest.mark.parametrize("b", [1000, 1100, 900])
def test_close_costs_are_not_told_apart(b):
    order = Order("a < b", ("a",), ("b",), ("rounds",))
    claim = judge(order, "exp1", "", runs_for(order, 1000, b))
    assert claim.verdict == "cannot be decided" and "within 15%" in claim.reason


@pytest.mark.parametrize(
    "a, b, factor, expected",
    [
        (Cost(10, 10), Cost(30, 30), 2, True),
        (Cost(10, 10), Cost(15, 15), 2, False),
        (Cost(10, 10), Cost(30), 2, True),
        (Cost(10, 10), Cost(15), 2, None),
        (Cost(30), Cost(10, 10), 1, False),
        (Cost(5), Cost(10, 10), 1, None),
        (Cost(5), Cost(10), 1, None),
    ],
)
def test_costs_that_are_known_from_below_only(a, b, factor, expected):
    assert less(a, b, factor) is expected


def test_verdict_is_taken_where_the_runs_decide():
    """Cut at 1e-5, the runs speak about 1e-4; cut at 0.1 they say nothing."""
    order = Order("a < b", ("a",), ("b",), ("rounds",))
    short = judge(order, "exp1", "", runs_for(order, 10, 100, last=1e-5))
    assert short.verdict == "reproduced" and short.measured.startswith("gap ≤ 0.0001")
    none = judge(order, "exp1", "", runs_for(order, 10, 100, last=1e-1))
    assert none.verdict == "cannot be decided"


def test_another_verdict_at_another_gap_is_told():
    order = Order("a < b", ("a",), ("b",), ("rounds",))
    runs = runs_for(order, 10, 10)
    runs["a"].trace["rounds"][:] = [0, 1, 2, 3, 4, 50, 60, 100, 200, 300]
    claim = judge(order, "exp1", "", runs)
    assert claim.verdict == "not reproduced"
    assert "At a gap of 0.0001, 0.01: reproduced." in claim.reason


def test_costs_are_those_from_which_on_the_gap_stays():
    order = Order("a < b", ("a",), ("b",), ("rounds",))
    runs = runs_for(order, 10, 20)
    runs["a"].trace["gap"][-2:] = [1e-9, 1e-7]  # rises again at the end
    claim = judge(order, "exp1", "", runs)
    assert claim.measured.startswith("gap ≤ 1e-06")


def test_missing_and_skipped_runs_leave_it_open():
    order = Order("a < b", ("a",), ("b",), ("rounds",))
    skipped = StoredRun(Case("exp1", "b", "exp1"), "SKIPPED", reason="h must be a point")
    claim = judge(order, "exp1", "", {"a": stored("exp1", "a", 1), "b": skipped})
    assert claim.verdict == "cannot be decided" and "h must be a point" in claim.reason
    assert "not run" in judge(order, "exp1", "", {}).reason


def fill(folder, change=None):
    store = Store(folder)
    for group in ABOUT:
        facts = FACTS[group.partition("-")[0]] | (change or {})
        labels = {name for order in ORDERS[group] for name in (*order.lower, *order.higher)}
        for label in sorted(labels):
            store.save(stored(group, label, 10, facts=facts))
    return store


def test_claims_of_a_store(tmp_path):
    store = fill(tmp_path)
    found = claims(store)
    assert found == claims(Store(tmp_path))
    assert len(found) > 35
    assert {claim.group for claim in found} == {*ABOUT, "theory"}
    assert all(claim.text and claim.where and claim.reason for claim in found)
    captions = {claim.text: claim for claim in found if claim.where.endswith("caption")}
    assert captions["κ_pd = 98603"].verdict == "reproduced"
    assert captions["κ_Aρ = 8.24e+15"].verdict == "not reproduced"
    assert captions["κ_A = 8"].verdict == "cannot be decided", "the seed was chosen to meet it"
    ours = {claim.where for claim in found if not claim.printed}
    assert ours == {where for where in (c.where for c in found) if "not in the paper" in where}


@pytest.mark.parametrize(
    "change, text",
    [
        ({"kappa_pd": 98604.0}, "κ_pd = 98603"),
        ({"kappa_C": 26.0}, "κ_C = 25"),
        ({"kappa_f": 2.0}, "κ_f = 1"),
        ({"kappa_A_joint": 9.0}, "κ_A = 8"),
        ({"rank_A": 8}, "The feature matrix X has full row rank."),
        ({"mu_h*": 0.0}, "h* is strongly convex and smooth."),
        ({"mu_h*": 1.0}, "h* is p-smooth but not strongly convex."),
        ({"L_h*": math.inf}, "h* is p-smooth but not strongly convex."),
    ],
)
def test_constants_can_fail(tmp_path, change, text):
    before = {c.text: c.verdict for c in claims(fill(tmp_path / "right"))}
    after = {c.text: c.verdict for c in claims(fill(tmp_path / "wrong", change))}
    chosen = text in ("κ_C = 25", "κ_A = 8")
    assert before[text] == ("cannot be decided" if chosen else "reproduced")
    assert after[text] == "not reproduced"


def _exp1_store(tmp_path, scales):
    store = Store(tmp_path)
    for label, scale in scales.items():
        store.save(stored("exp1", label, scale))
    return [claim for claim in claims(store) if "more communication than iD2A" in claim.text]


def test_both_verdicts_are_told_where_the_literal_mode_decides_otherwise(tmp_path):
    order = next(order for order in ORDERS["exp1"] if "more communication" in order.text)
    (iD2A,), (MiD2A,) = order.lower, order.higher
    scales = {iD2A: 10, MiD2A: 100, iD2A + LITERAL: 100, MiD2A + LITERAL: 10}
    literal, sparse = _exp1_store(tmp_path, scales)
    assert (literal.verdict, sparse.verdict) == ("not reproduced", "reproduced")
    assert literal.where.endswith("literal mode") and "every tenth iteration" in sparse.where
    assert literal.printed and not sparse.printed, "a claim counts once"
    assert (literal.sparse, sparse.sparse) == ("reproduced", "")
    assert LITERAL in literal.measured and LITERAL not in sparse.measured


def test_one_row_where_both_modes_agree(tmp_path):
    order = next(order for order in ORDERS["exp1"] if "more communication" in order.text)
    (iD2A,), (MiD2A,) = order.lower, order.higher
    (claim,) = _exp1_store(
        tmp_path, {iD2A: 10, MiD2A: 100, iD2A + LITERAL: 20, MiD2A + LITERAL: 90}
    )
    assert claim.verdict == claim.sparse == "reproduced" and "the same verdict" in claim.reason
    (claim,) = _exp1_store(tmp_path / "2", {iD2A: 10, MiD2A: 100})
    assert "literal" not in claim.where + claim.reason
