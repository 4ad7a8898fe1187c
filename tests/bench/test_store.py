"""Runs come back as they were saved; half-written ones do not count; plans say what belongs."""

import os

import numpy as np
import pytest

from dual2.bench.store import Case, Store, StoredRun
from dual2.errors import Dual2Error
from dual2.files.writing import _machine


def case(label="iD2A, ρ = ρ*", group="exp1", **changes):
    return Case(group, label, "exp1", {"sizes": (1, 2)}, {"method": "iD2A", "rho": 0.5}, **changes)


def run(of, status="CONVERGED"):
    trace = {
        "rounds": np.array([0, 3, 10**7]),
        "kkt": np.array([np.inf, 0.1, 1 / 3]),
        "gap": np.array([1.0, 2.0, 5e-324]),
    }
    return StoredRun(
        of, status, "why", 1.5, {"rounds": 7}, {"kkt": np.inf, "gap": None, "reason": "inf"},
        {"rho": (np.float64(0.1), "theory")}, {"dual2": "0"}, {"n": np.int64(8)},
        {"workers": 2}, {}, {}, trace,
    )  # fmt: skip


def test_identical_cases_have_identical_keys_and_any_difference_shows():
    assert case().key == case().key == Case(**case().as_dict()).key
    others = [case(seed=1), case(notes={"ours": True}), case(group="exp2"), case("iD2A, ρ = 0")]
    others.append(Case("exp1", "iD2A, ρ = ρ*", "exp1", {}, {"method": "iD2A", "rho": 0.5}))
    assert len({other.key for other in [case(), *others]}) == 6
    assert case().key.startswith("exp1-id2a-rho-rho-") and case().key.isascii()


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "taken").touch()
    with pytest.raises(Dual2Error, match="taken is a file; expected a folder"):
        Store(tmp_path / "taken")


def test_what_a_killed_writer_left_goes_when_the_run_is_saved(tmp_path):
    store, mine, other = Store(tmp_path), case(), case(seed=1)
    store.save(run(other))
    rest = [tmp_path / "runs" / f".{of.key}.csv.{_machine()}.99999999.abc" for of in (mine, other)]
    for file in rest:
        file.touch()
    store.save(run(mine))
    assert [file.exists() for file in rest] == [False, True]


def test_what_json_cannot_hold_is_refused_when_the_case_is_made():
    with pytest.raises(Dual2Error, match="problem_options of the case 'x' cannot be stored"):
        Case("a", "x", "exp1", {"A": np.zeros(2)})
    with pytest.raises(Dual2Error, match="finite numbers"):
        Case("a", "x", "exp1", {}, {"tol": float("nan")})


def test_a_run_comes_back_exactly(tmp_path):
    store, saved = Store(tmp_path), run(case())
    store.save(saved)
    found = store.load(case())
    assert found.case == case() and found.status == "CONVERGED" and found.seconds == 1.5
    assert found.certificate["kkt"] == np.inf and found.certificate["gap"] is None
    assert found.parameters == {"rho": [0.1, "theory"]} and found.facts == {"n": 8}
    assert found.machine == {"workers": 2}
    for name, column in saved.trace.items():
        assert found.trace[name].dtype == column.dtype
        np.testing.assert_array_equal(found.trace[name], column)


def test_a_run_without_trace_and_a_stale_trace_beside_it(tmp_path):
    store = Store(tmp_path)
    store.save(run(case()))
    store.save(StoredRun(case(), "SKIPPED", "needs g = 0"))
    assert store.load(case()).trace == {} and store.load(case()).reason == "needs g = 0"


def test_a_trace_alone_does_not_count(tmp_path, monkeypatch):
    store, replace = Store(tmp_path), os.replace

    def dies(source, target):
        if str(target).endswith(".json"):
            raise KeyboardInterrupt
        replace(source, target)

    monkeypatch.setattr(os, "replace", dies)
    with pytest.raises(KeyboardInterrupt):
        store.save(run(case()))
    assert [file.suffix for file in (tmp_path / "runs").iterdir()] == [".csv"]
    assert not store.has(case()) and store.runs() == []


def test_a_plan_gives_the_order_and_leaves_out_what_no_longer_belongs(tmp_path):
    store = Store(tmp_path)
    order = [case("z"), case("a"), case("m")]
    for one in [*order, case("b", group="exp2"), case("a", group="exp2")]:
        store.save(run(one))
    assert [r.case.label for r in store.runs("exp1")] == ["a", "m", "z"]
    store.plan([order[0], order[2], case("never run")])
    assert [r.case.label for r in store.runs("exp1")] == ["z", "m"]
    assert [r.case.label for r in store.runs()] == ["z", "m", "a", "b"]
    assert store.groups() == ["exp1", "exp2"] and len(store.runs("exp2")) == 2
    store.plan([case("b", group="exp2")])
    assert [r.case.label for r in store.runs()] == ["z", "m", "b"]


def test_damage_is_named(tmp_path):
    store = Store(tmp_path)
    with pytest.raises(Dual2Error, match="no finished run exp1-"):
        store.load(case())
    store.save(run(case()))
    trace = tmp_path / "runs" / f"{case().key}.csv"
    trace.write_text("\n".join(trace.read_text().splitlines()[:-1]))
    with pytest.raises(Dual2Error, match=r"not the trace .* Remove it and run again"):
        store.load(case())
    with pytest.raises(Dual2Error, match="equally long"):
        store.save(StoredRun(case(), "X", trace={"a": np.zeros(1), "b": np.zeros(2)}))
