"""Bins, splines, dropped categories, columns of missing values: as scikit-learn makes them."""

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn import linear_model as lm
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder, SplineTransformer

from dual2.errors import Dual2Error, Refusal
from dual2.learn.vertical.fitting import align, fit
from dual2.learn.vertical.party_file import read_learn_party
from dual2.learn.vertical.prediction import predict
from dual2.learn.vertical.preparation import learn_preparation, read_preparation
from dual2.learn.vertical.prepared_columns import (
    BINS,
    CATEGORY,
    MEDIAN,
    OWN,
    SPLINES,
    WOE,
    Column,
)
from dual2.learn.vertical.tables import CsvFormat, as_table, read_file
from learning_offices import Offices, done, joined, make_world, write_csv

quiet = {"report": lambda text: None}
DRAW = np.random.default_rng(5)
AGE = DRAW.gamma(4.0, 12.0, 120)
TABLE = as_table({"age": AGE.tolist(), "ward": DRAW.choice(["a", "b", "c"], 120).tolist()})
ALL = np.arange(120)


def learned(column: Column, table: Any = TABLE, **more: Any) -> Any:
    rows = np.arange(len(table))
    made = learn_preparation([column], table, rows, True, **more)
    assert read_preparation(json.loads(json.dumps(made.as_list()))).columns == made.columns
    return made


def test_bins_are_those_of_scikit_learn():
    made = learned(Column("age", form=BINS, size=4))
    truth = KBinsDiscretizer(
        4, encode="onehot-dense", strategy="quantile", quantile_method="linear"
    ).fit_transform(AGE[:, None])
    np.testing.assert_array_equal(made.apply(TABLE, ALL), truth)
    assert made.outputs[0].startswith("age < ") and made.outputs[3].startswith("age >= ")
    fewer = learned(Column("age", form=BINS, size=4, drop=True))
    np.testing.assert_array_equal(fewer.apply(TABLE, ALL), truth[:, 1:])
    assert fewer.outputs == made.outputs[1:]


def test_splines_are_those_of_scikit_learn_also_beyond_the_training_rows():
    made = learned(Column("age", form=SPLINES, size=5))
    truth = SplineTransformer(5, knots="quantile", include_bias=False).fit(AGE[:, None])
    new = np.linspace(-10.0, 300.0, 40)
    found = made.apply(as_table({"age": new.tolist()}), np.arange(40))
    np.testing.assert_allclose(found, truth.transform(new[:, None]), atol=1e-12)
    assert len(made.outputs) == found.shape[1] and made.outputs[0].startswith("age spline [")


def test_the_first_category_can_be_left_out():
    made = learned(Column("ward", CATEGORY, drop=True))
    words = np.array(TABLE.column("ward"))[:, None]
    truth = OneHotEncoder(drop="first", sparse_output=False).fit_transform(words)
    np.testing.assert_array_equal(made.apply(TABLE, ALL), truth)
    assert made.outputs == ["ward=b", "ward=c"]
    assert made.unknown(as_table({"ward": ["a", "z"]}), [0, 1]) == {"ward": 1}


def test_missing_numbers_can_have_a_column_or_a_bin():
    holes = [None if k % 8 == 0 else v for k, v in enumerate(AGE.tolist())]
    table, gaps = as_table({"age": holes}), ALL % 8 == 0
    made = learned(Column("age", missing=MEDIAN, indicator=True), table)
    assert made.outputs == ["age", "age missing"]
    np.testing.assert_array_equal(made.apply(table, ALL)[:, 1], gaps)
    bins = learned(Column("age", missing=OWN, form=BINS, size=3), table)
    assert len(bins.outputs) == 4
    np.testing.assert_array_equal(bins.apply(table, ALL)[:, 3], gaps)
    rare = as_table({"age": [None, None, *AGE.tolist()]})
    few = learned(Column("age", missing=MEDIAN, indicator=True), rare, least=10)
    assert few.outputs == ["age"] and "2 missing values, fewer than 10" in few.notes[0]
    whole = learned(Column("age", missing=OWN, form=BINS, size=3))  # missing in new rows only
    median = whole.apply(as_table({"age": [float(np.median(AGE)), None]}), [0, 1])
    np.testing.assert_array_equal(median[0], median[1])


def test_weights_of_evidence_order_the_bins():
    hits = (np.random.default_rng(1).random(120) < AGE / AGE.max()).astype(float)
    made = learned(Column("age", form=WOE, size=4), hits=hits)
    bins = pd.qcut(AGE, 4, labels=False)
    good, bad = (np.bincount(bins, w, 4) + 0.5 for w in (hits, 1 - hits))
    truth = np.log(good / good.sum() / (bad / bad.sum()))
    np.testing.assert_allclose(made.columns[0].codes, truth, rtol=1e-12)
    assert "information value" in made.notes[0] and made.outputs == ["age woe"]
    found = made.apply(TABLE, ALL)[:, 0]
    np.testing.assert_allclose(found, (truth[bins] - found_mean(truth[bins])) / truth[bins].std())


def found_mean(values: np.ndarray) -> float:
    return float(values.mean())


def test_columns_that_would_tell_labels_are_refused():
    with pytest.raises(Refusal, match=r"bins that is not zero in 3 rows.*Use fewer than 40"):
        learned(Column("age", form=BINS, size=40), least=10)
    with pytest.raises(Refusal, match=r"not zero in \d rows?, which would tell labels"):
        learned(Column("age", form=SPLINES, size=60), least=10)
    flat = as_table({"age": [3.0] * 20})
    for form in (BINS, SPLINES):
        with pytest.raises(Refusal, match="has one value only"):
            learned(Column("age", form=form, size=4), flat)


WRONG = {
    "two forms": ('{ type = "number", bins = 3, splines = 3 }', "has bins and splines; expected"),
    "words": ('{ type = "category", bins = 3 }', "of a column of numbers"),
    "size": ('{ type = "number", bins = 1 }', "bins = 1; expected a number of at least 2"),
    "drop": ('{ type = "category", drop = "last" }', "Unknown drop 'last'"),
    "no category": ('{ type = "number", drop = "first" }', "this column has none"),
    "indicator": ('{ type = "number", indicator = true }', "beside what fills them"),
    "own bin": ('{ type = "number", missing = "own category" }', "Unknown policy 'own category'"),
}


@pytest.fixture(scope="module")
def offices(tmp_path_factory) -> Offices:
    return Offices(tmp_path_factory.mktemp("forms") / "all", make_world())


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_with_a_column_is_said_before_the_run(offices, name):
    entry, words = WRONG[name]
    path = offices.folder / "lab" / "party.toml"
    before = path.read_text()
    offices.change("lab", "party.toml", 'x3 = "number"', f"x3 = {entry}")
    with pytest.raises(Dual2Error) as found:
        read_learn_party(path)
    path.write_text(before)
    assert words in str(found.value) and "table.columns.x3" in str(found.value)


def test_a_csv_of_another_country(tmp_path):
    file, how = tmp_path / "t.csv", CsvFormat("cp1252", ",", ";")
    file.write_bytes('Größe;Ort\n"1,5";Köln\n2;"a,b"\n'.encode("cp1252"))
    table = read_file(file, how)
    assert table.numbers("Größe").tolist() == [1.5, 2.0] and table.column("Ort")[1] == "a,b"
    with pytest.raises(Refusal, match='encoding = "latin-1"'):
        read_file(file)
    file.write_text("a;b\n1;2,5,3\n")
    with pytest.raises(Refusal, match="delimiter = ';'"):
        read_file(file)
    commas = as_table({"x": ["1,5", "2"]})
    with pytest.raises(Refusal, match=r"first in row 1\)\. If the file has numbers like 1,5, set"):
        learned(Column("x"), commas)


def test_a_study_with_all_of_it_is_scikit_learns(tmp_path):
    """Between three parties, one with a CSV of another country; predictions in the file's order."""
    world = make_world(400, 10)
    world.columns["hospital"]["x0"] = '{ type = "number", woe = 4 }'
    world.columns["lab"] |= {"ward": '{ type = "category", drop = "first" }'}
    world.columns["lab"]["x3"] = '{ type = "number", bins = 4 }'
    world.columns["insurer"]["x4"] = '{ type = "number", splines = 4 }'
    offices = Offices(tmp_path / "all", world, policy="psi", labels="private = true")
    told = 'file = "table.csv"\n'
    offices.change("lab", "party.toml", told, f'{told}decimal = ","\ndelimiter = ";"\n')
    to_commas(offices.folder / "lab" / "table.csv")
    done(offices.everyone(lambda own: align(own, **quiet)))
    found = done(offices.everyone(lambda own: fit(own, **quiet)))
    ids, features, target = joined(world)
    X, parts = [], [found[name].preparation for name in offices.names]
    for made, names in zip(parts, world.columns.values(), strict=True):
        X.append(made.apply(as_table(features[list(names)]), np.arange(len(ids))))
    truth = lm.LogisticRegression(solver="newton-cholesky", tol=1e-12).fit(np.hstack(X), target)
    own = np.hstack([found[name].coefficients for name in offices.names])
    np.testing.assert_allclose(own, truth.coef_, atol=1e-6)

    def new(own: Any) -> Any:
        return predict(own, own.party.file.parent / "table.csv", **quiet)

    rows = done(offices.everyone(new))["hospital"]
    assert np.all(np.diff(rows.rows.index) > 0)
    written = pd.read_csv(offices.state("hospital") / "predictions-1.csv")
    order = [one for one in world.tables["hospital"]["patient"] if one in set(ids)]
    assert written["patient"].tolist() == order
    expected = pd.Series(truth.decision_function(np.hstack(X)), ids)[order]
    np.testing.assert_allclose(written["score"], expected, atol=1e-5)


def to_commas(file: Any) -> None:
    """Write a table again with semicolons and decimal commas."""
    table = pd.read_csv(file, dtype=str, keep_default_na=False)
    table = table.map(lambda text: text.replace(".", ","))
    table.to_csv(file, sep=";", index=False)


def test_weights_of_evidence_belong_to_the_holder_of_private_labels(tmp_path):
    world = make_world()
    world.columns["lab"]["x3"] = '{ type = "number", woe = 3 }'
    offices = Offices(tmp_path / "all", world, labels="private = true")
    found = offices.everyone(lambda own: fit(own, **quiet))
    assert "Only the holder of private labels can have it" in str(found["lab"])
    assert "weights of evidence" in str(found["insurer"])


def test_a_bad_cell_is_found_when_rows_are_aligned(tmp_path):
    world = make_world()
    offices = Offices(tmp_path / "all", world, policy="psi", labels="private = true")
    world.tables["insurer"]["x5"][7] = "many"
    write_csv(offices.folder / "insurer" / "table.csv", world.tables["insurer"])
    found = offices.everyone(lambda own: align(own, **quiet))
    assert "column 'x5' has 1 value" in str(found["insurer"])
    assert "first in row 8" in str(found["insurer"])
    assert "some of its values cannot be used" in str(found["lab"])


def test_a_missing_value_is_found_when_rows_are_aligned(tmp_path):
    world = make_world()
    world.columns["lab"]["x2"] = '"number"'
    offices = Offices(tmp_path / "all", world, policy="psi", labels="private = true")
    found = offices.everyone(lambda own: align(own, **quiet))
    assert "lacks 1 value" in str(found["lab"]) and isinstance(found["hospital"], Dual2Error)
