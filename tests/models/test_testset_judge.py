"""How the benchmark of test sets judges answers and certificates."""

import sys
from pathlib import Path

import numpy as np
import pytest

from dual2.models import Model

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def scripts(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    import testsets
    from common import testset_worker

    yield testsets, testset_worker
    for name in [name for name in sys.modules if name in ("testsets", "common.testset_worker")]:
        del sys.modules[name]


def contradiction():
    """x + y ≤ 1 and x + y ≥ 2 with x ≥ 0 and y free, and a row that has nothing to do with it."""
    return Model.from_arrays(
        [1.0, 0.0], [[1, 1], [1, 1], [1, 0]], [-np.inf, 2, 0], [1, np.inf, 5], lower=[0, -np.inf]
    )


def test_a_certificate_counts_only_if_it_proves_something(scripts):
    margin = scripts[1].certificate_margin
    model, rows = contradiction(), np.arange(3)
    assert margin(model, rows, [1.0, -1.0, 0.0]) > 0.3  # of either sign
    assert margin(model, rows, [-1.0, 1.0, 0.0]) > 0.3
    assert margin(model, rows, [-1.0, 0.9, 0.0]) <= 0  # y is free: its coefficient must vanish
    assert margin(model, rows, [0.0, 0.0, 1.0]) <= 0
    assert margin(model, rows, np.zeros(3)) <= 0


@pytest.mark.parametrize(
    ("row", "verdict"),
    [
        ({"status": "CONVERGED", "objective": 2.0, "violation": 1e-9}, "right"),
        ({"status": "CONVERGED", "objective": 2.001, "violation": 1e-9}, "WRONG"),
        ({"status": "CONVERGED", "objective": 2.0, "violation": 1e-3}, "WRONG"),
        ({"status": "INFEASIBLE", "margin": 0.1}, "WRONG"),
        ({"status": "UNBOUNDED"}, "WRONG"),
        ({"status": "TIME_LIMIT", "objective": 2.0, "violation": 0.0}, "not solved"),
    ],
)
def test_answers_to_a_feasible_model(row, verdict, scripts):
    row = {"solver": "dual2", **row}
    scripts[0].judge(row, ("CONVERGED", 2.0))
    assert row["judged"] == verdict


@pytest.mark.parametrize(
    ("row", "verdict"),
    [
        ({"status": "INFEASIBLE", "margin": 0.1}, "right"),
        ({"status": "INFEASIBLE", "margin": -0.1}, "WRONG"),
        ({"status": "INFEASIBLE"}, "WRONG"),
        ({"status": "CONVERGED", "objective": 0.0}, "WRONG"),
        ({"status": "STALLED"}, "not solved"),
    ],
)
def test_answers_to_an_infeasible_model(row, verdict, scripts):
    row = {"solver": "dual2", **row}
    scripts[0].judge(row, ("INFEASIBLE", None))
    assert row["judged"] == verdict


def test_a_killed_process_is_not_solved(scripts):
    theirs = {"solver": "HiGHS", "status": "SOLVED", "objective": 1.0, "violation": 0.0}
    rows = scripts[0].judged_model(Path("netlib/a.mps.gz"), [theirs], {"solvers": ["dual2"]})
    assert [(row["model"], row["judged"]) for row in rows] == [("a", "right"), ("a", "not solved")]


def test_rows_that_were_kept_are_judged_like_new_ones(scripts, tmp_path):
    theirs = {"solver": "CLARABEL", "status": "SOLVED", "objective": 2.5, "violation": 1e-9}
    theirs |= {"set": "qp", "model": "a", "cpu": 0.5, "iterations": 7}
    path = str(tmp_path / "kept.csv")
    scripts[0].write_csv(path, [theirs, {"solver": "dual2", "set": "qp", "model": "a"}])
    kept = scripts[0].read_references(path)["qp/a"]
    ours = {"solver": "dual2", "status": "CONVERGED", "objective": 2.5, "cpu": 1.0}
    rows = scripts[0].judged_model(Path("qp/a.mat"), [ours, *kept], {"solvers": ["dual2"]})
    assert [row["judged"] for row in rows] == ["right", "right"]
    assert scripts[0].cells(rows)[-1] == 2.0

    class Tables:
        def table(self, title, head, rows):
            self.rows = [dict(zip(head, row, strict=True)) for row in rows]

    scripts[0].totals(report := Tables(), rows)
    assert [(row["solver"], row["right"], row["CPU s"]) for row in report.rows] == [
        ("dual2", 1, 1.0),
        ("CLARABEL", 1, 0.5),
    ]
