"""What cannot be is said at every party, in words that show no value, and can be repaired."""

import os

import pytest

from dual2.errors import Dual2Error, PeerError, Refusal
from dual2.learn.federated.fitting import align, fit
from dual2.learn.federated.prediction import predict
from learning_offices import Offices, done, make_world

quiet = {"say": lambda text: None}


@pytest.fixture
def make(tmp_path):
    def build(world=None, **more) -> Offices:
        return Offices(tmp_path / "all", world or make_world(30, 5), **more)

    return build


def said(found, name: str) -> str:
    assert isinstance(found[name], Dual2Error), found[name]
    return str(found[name])


def test_a_wrong_study_is_named_at_both_ends(make):
    offices = make()
    offices.change("lab", "study.toml", "options = {}", "options = { C = 2.0 }")
    found = offices.everyone(lambda own: fit(own, **quiet))
    assert "hospital has another study file" in said(found, "lab")
    assert "lab has another study file" in said(found, "hospital")
    assert isinstance(found["insurer"], PeerError)


WRONG = {
    "columns": ('x3 = "number"', 'x33 = "number"', "has no column 'x33'", "lacks a column"),
    "label": ("[table.col", 'label = "y"\n[table.col', "hospital holds the labels", "label too"),
    "gap": ('missing = "median"', 'missing = "refuse"', "lacks 1 value", "values are missing"),
    "type": ('ward = "category"', 'ward = "number"', "no finite number", "cannot be used"),
}


@pytest.mark.parametrize("name", WRONG)
def test_data_that_one_party_refuses(make, name):
    """The party is told what, the others that; when it is repaired the same command works."""
    old, new, own, others = WRONG[name]
    offices = make(make_world(30, 0, mixed=False))
    offices.change("lab", "party.toml", old, new)
    found = offices.everyone(lambda one: fit(one, **quiet))
    assert own in said(found, "lab") and isinstance(found["lab"], Refusal)
    for other in ("hospital", "insurer"):
        text = said(found, other)
        assert "lab had to stop:" in text and others in text and "x33" not in text
    if name == "columns":
        offices.change("lab", "party.toml", new, old)
        done(offices.everyone(lambda one: fit(one, **quiet)))


def test_a_holder_without_labels(make):
    offices = make(make_world(30, 0, mixed=False))
    offices.change("hospital", "party.toml", 'label = "stroke"\n', "")
    found = offices.everyone(lambda own: fit(own, **quiet))
    assert "lacks table.label" in said(found, "hospital")
    assert "does not say in which column" in said(found, "insurer")


def test_tables_of_different_lengths(make):
    world = make_world(30, 0, mixed=False)
    for column in world.tables["lab"].values():
        column.pop()
    offices = make(world)
    answers = offices.everyone(lambda own: fit(own, **quiet))
    for name in offices.names:
        assert "from 29 to 30 rows" in said(answers, name)


@pytest.mark.parametrize("policy", ["psi", "keyed hashes"])
def test_nothing_in_common(make, tmp_path, policy):
    world = make_world(30, 5)
    world.tables["lab"]["patient"] = [f"q{k}" for k in range(35)]
    key = tmp_path / "rows.key"
    key.write_text("5" * 64)
    os.chmod(key, 0o600)
    offices = make(world, policy=policy, extra=f'row_key = "{key}"\n')
    found = offices.everyone(lambda own: align(own, **quiet))
    for name in offices.names:
        assert "0 rows are common to all parties" in said(found, name)


def test_ids_that_cannot_be_used(make):
    world = make_world(30, 5)
    world.tables["lab"]["patient"][4] = world.tables["lab"]["patient"][5]
    offices = make(world, policy="psi")
    found = offices.everyone(lambda own: align(own, **quiet))
    assert "1 of 35 values in the column 'patient' is there before" in said(found, "lab")
    for name in ("hospital", "insurer"):
        assert "1 of its ids is there before" in said(found, name)
        assert world.tables["lab"]["patient"][4] not in said(found, name)
    for name in offices.names:
        offices.change(name, "study.toml", 'id = "patient"', 'id = "patient"\ntype = "integer"')
    found = offices.everyone(lambda own: align(own, **quiet))
    assert all("of another type" in said(found, name) for name in offices.names)


def test_hashes_of_another_key(make, tmp_path):
    """... are refused; with the same key the rows are those that all have."""
    world = make_world(30, 5)
    offices = make(world, policy="keyed hashes", extra='row_key = "rows.key"\n')
    for name in offices.names:
        key = offices.folder / name / "rows.key"
        key.write_text(("6" if name == "lab" else "5") * 64)
        os.chmod(key, 0o600)
    found = offices.everyone(lambda own: align(own, **quiet))
    assert all("lab has another row key" in said(found, name) for name in offices.names)
    (offices.folder / "lab" / "rows.key").write_text("5" * 64)
    rows = done(offices.everyone(lambda own: align(own, **quiet)))
    ids = {n: [world.tables[n]["patient"][k] for k in rows[n].index] for n in offices.names}
    assert ids["hospital"] == ids["lab"] == ids["insurer"] and len(ids["lab"]) == 30


def test_predictions_that_cannot_be_made(make):
    """With a model of another study, with a missing party, before there is a model."""
    offices = make(make_world(30, 0, mixed=False))
    found = offices.everyone(lambda own: predict(own, own.table, **quiet))
    assert all("First: dual2 learn fit" in said(found, name) for name in offices.names)
    done(offices.everyone(lambda own: fit(own, **quiet)))
    lab = offices.state("lab") / "model.json"
    text = lab.read_text()
    mark = text.index('"study": "') + 10
    lab.write_text(text[:mark] + "00" + text[mark + 2 :])
    found = offices.everyone(lambda own: predict(own, own.table, **quiet))
    assert "in another study" in said(found, "lab")
    for name in ("hospital", "insurer"):
        assert "lab had to stop: its model is that of another study" in said(found, name)
    lab.write_text(text)
    offices.change("hospital", "party.toml", "patience = 60.0", "patience = 2.0")
    offices.names.remove("lab")
    found = offices.everyone(lambda own: predict(own, own.table, **quiet))
    assert "lab was unreachable for 2 s" in said(found, "hospital")
    assert isinstance(found["insurer"], PeerError)
