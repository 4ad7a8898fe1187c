"""What cannot be is said at every party, in words that show no value, and can be repaired."""

import json
import os

import pytest

from dual2.errors import Dual2Error, PeerError, Refusal
from dual2.learn.vertical import intersection
from dual2.learn.vertical.alignment import load_rows
from dual2.learn.vertical.fitting import align, fit
from dual2.learn.vertical.intersection import Cipher
from dual2.learn.vertical.model import load_model
from dual2.learn.vertical.party_file import read_learn_party
from dual2.learn.vertical.prediction import predict
from learning_offices import Offices, done, make_world

quiet = {"report": lambda text: None}


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
    for name in offices.names:
        assert "of another type" in said(found, name)


def test_hashes_of_another_key(make, tmp_path):
    """... are refused; with the same key the rows are those that all have."""
    world = make_world(30, 5)
    offices = make(world, policy="keyed hashes", extra='row_key = "rows.key"\n')
    for name in offices.names:
        key = offices.folder / name / "rows.key"
        key.write_text(("6" if name == "lab" else "5") * 64)
        os.chmod(key, 0o600)
    found = offices.everyone(lambda own: align(own, **quiet))
    for name in offices.names:
        assert "lab has another row key" in said(found, name)
    (offices.folder / "lab" / "rows.key").write_text("5" * 64)
    rows = done(offices.everyone(lambda own: align(own, **quiet)))
    ids = {n: [world.tables[n]["patient"][k] for k in rows[n].index] for n in offices.names}
    assert ids["hospital"] == ids["lab"] == ids["insurer"] and len(ids["lab"]) == 30


def test_predictions_that_cannot_be_made(make):
    """With a model of another study, with a missing party, before there is a model."""
    offices = make(make_world(30, 0, mixed=False))
    found = offices.everyone(lambda own: predict(own, own.table, **quiet))
    for name in offices.names:
        assert "First: dual2 learn fit" in said(found, name)
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


WRONG_FILES = {
    "no table": ("table.csv", None, "There is no file", "its table cannot be read"),
    "no CSV": ("table.csv", b"patient\n\xff\n", "is no CSV in UTF-8", "its table cannot be read"),
}


@pytest.mark.parametrize("name", WRONG_FILES)
def test_a_table_that_cannot_be_read_is_told(make, name):
    """... to the others too, at once, and nothing is written."""
    file, content, own, others = WRONG_FILES[name]
    offices, told = make(make_world(30, 0, mixed=False)), []
    path = offices.folder / "lab" / file
    path.unlink() if content is None else path.write_bytes(content)
    found = offices.everyone(lambda one: fit(one, report=told.append))
    assert own in said(found, "lab") and any(own in text for text in told)
    assert all(others in said(found, other) for other in ("hospital", "insurer"))
    assert not any(list(offices.state(one).glob("model.json")) for one in offices.names)


def test_a_refusal_with_nobody_to_be_told(make):
    """The party's own data are still what is wrong, not the others that are not there."""
    offices, told = make(make_world(30, 0, mixed=False)), []
    offices.change("lab", "party.toml", 'x3 = "number"', 'x33 = "number"')
    offices.change("lab", "party.toml", "patience = 60.0", "patience = 0.2")
    with pytest.raises(Refusal, match="has no column 'x33'"):
        fit(read_learn_party(offices.file("lab")), report=told.append)
    assert any("x33" in text and "as soon as they are there" in text for text in told)


def test_labels_that_the_model_does_not_take(make):
    world = make_world(30, 0, mixed=False)
    world.tables["hospital"]["stroke"][3] = -1
    offices = make(world, model="PoissonRegressor")
    found = offices.everyone(lambda one: fit(one, **quiet))
    assert "counts of at least 0" in said(found, "hospital")
    for other in ("lab", "insurer"):
        assert "its labels do not suit the model" in said(found, other)


DAMAGE = {
    "entries": lambda model: model.pop("constants"),
    "shape": lambda model: model["coefficients"][0].append(1.0),
    "number": lambda model: model["coefficients"][0].__setitem__(0, float("inf")),
    "scale": lambda model: model["preparation"][0].__setitem__("scale", 0.0),
    "kind": lambda model: model["preparation"][0].__setitem__("kind", "word"),
    "mean": lambda model: model["preparation"][0].__setitem__("mean", "1"),
    "classes": lambda model: model.__setitem__("classes", ["a"]),
    "preparation": lambda model: model.__setitem__("preparation", 5),
}


@pytest.fixture(scope="module")
def fitted(tmp_path_factory) -> Offices:
    offices = Offices(tmp_path_factory.mktemp("fitted") / "all", make_world(30, 5), policy="psi")
    done(offices.everyone(lambda one: align(one, **quiet)))
    done(offices.everyone(lambda one: fit(one, **quiet)))
    return offices


@pytest.mark.parametrize("name", DAMAGE)
def test_a_model_that_somebody_has_edited(fitted, name):
    file = fitted.state("lab") / "model.json"
    text = file.read_text()
    model = json.loads(text)
    DAMAGE[name](model)
    file.write_text(json.dumps(model))
    try:
        with pytest.raises(Refusal, match="is damaged") as found:
            load_model(read_learn_party(fitted.file("lab")))
    finally:
        file.write_text(text)
    assert found.value.public_message == "its model cannot be read."


@pytest.mark.parametrize("index", [None, [], [0, 0], [10**6], ["0"], [True], {"0": 1}])
def test_common_rows_that_somebody_has_edited(fitted, index):
    own, file = read_learn_party(fitted.file("lab")), fitted.state("lab") / "rows.json"
    text = file.read_text()
    try:
        file.write_text(json.dumps(json.loads(text) | {"index": index}))
        with pytest.raises(Refusal, match=r"rows\.json is damaged"):
            load_rows(own, own.table)
        file.write_text("[]")
        with pytest.raises(Refusal, match="another study"):
            load_rows(own, own.table)
    finally:
        file.write_text(text)


def test_labels_of_new_rows_that_say_nothing(fitted):
    """Predictions are made all the same; why there are no metrics is said."""

    def tell(own):
        table = dict(own.table.columns)
        if own.holds_labels:
            here = load_rows(own, own.table).index[:2]
            odd = dict(zip(here.tolist(), (None, "9"), strict=True))
            table["stroke"] = [odd.get(k, v) for k, v in enumerate(table["stroke"])]
        return predict(own, table, "odd", **quiet)

    made = done(fitted.everyone(tell))["hospital"]
    assert len(made.values) == 30 and not made.metrics
    assert "No metrics: 2 of 30 labels" in made.note


class Liar(Cipher):
    """Sends elements that are no points."""

    def encrypt(self, ids):
        nonsense = [b"nonsense %d" % k for k in range(len(ids))]
        return self._request(nonsense, True).SerializeToString()


class Shouter(Cipher):
    """Sends what is no message."""

    def encrypt(self, ids):
        return b"\xff" * 99


@pytest.mark.parametrize(("liar", "kind"), [("hospital", Liar), ("lab", Liar), ("lab", Shouter)])
def test_ids_that_are_no_points_of_the_curve(make, monkeypatch, liar, kind):
    """A party that sends nonsense while rows are matched is named at every other one."""
    offices = make(policy="psi")
    names = offices.names
    honest = intersection.Cipher
    monkeypatch.setattr(
        intersection,
        "Cipher",
        lambda transport: (kind if names[transport.rank] == liar else honest)(transport),
    )
    found = offices.everyone(lambda own: align(own, **quiet))
    for name in offices.names:
        assert isinstance(found[name], PeerError) and liar in said(found, name)
    words = "cannot be read" if kind is Shouter else "no points of the curve"
    assert any(words in said(found, name) for name in offices.names)
    assert not any(list(offices.state(one).glob("rows.json")) for one in offices.names)
