"""Tables of several organisations in, scikit-learn's model of the joined table out."""

import csv
import json
import time

import numpy as np
import pandas as pd
import pytest
from sklearn import linear_model as lm
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.svm import LinearSVC

from dual2.errors import Dual2Error, Refusal
from dual2.learn import Party, VerticalHuberRegressor, VerticalLinearSVC
from dual2.learn.vertical.alignment import load_rows
from dual2.learn.vertical.fitting import align, fit
from dual2.learn.vertical.model import load_model
from dual2.learn.vertical.party_file import LearnParty
from dual2.learn.vertical.prediction import Predictions, predict
from dual2.runtime.peers.connection_manager import ConnectionManager
from learning_offices import Offices, World, done, joined, make_world, preparation

quiet = {"report": lambda text: None}


def parts(found, offices: Offices) -> np.ndarray:
    return np.hstack([found[name].coefficients for name in offices.names])


def constants(found) -> np.ndarray:
    return sum(model.constants for model in found.values())


def close(found, expected) -> None:
    assert np.shape(found) == np.shape(expected)
    assert np.max(np.abs(found - expected)) <= 1e-6 * max(1.0, float(np.max(np.abs(expected))))


def intercept_of(model, X: np.ndarray) -> np.ndarray:
    """The constant of scores of the prepared columns."""
    return model.decision_function(np.zeros((1, X.shape[1])))


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    """Three CSV files in different orders with ids that others lack, aligned and fitted."""
    offices = Offices(tmp_path_factory.mktemp("clinic") / "all", make_world(), policy="psi")
    rows = done(offices.everyone(lambda own: align(own, **quiet)))
    models = done(offices.everyone(lambda own: fit(own, **quiet)))
    return offices, rows, models


def test_coefficients_are_those_of_the_joined_table(clinic):
    offices, rows, models = clinic
    ids, features, label = joined(offices.world)
    assert {len(found) for found in rows.values()} == {len(ids)} == {80}
    assert len({found.digest for found in rows.values()}) == 1
    X = preparation(features).fit_transform(features)
    truth = lm.LogisticRegression(tol=1e-12, max_iter=10_000).fit(X, label)
    close(parts(models, offices), truth.coef_)
    close(constants(models), truth.intercept_)
    assert {model.about["status"] for model in models.values()} == {"CONVERGED"}


def test_predictions_go_to_whom_the_study_names(clinic):
    offices, _, _ = clinic
    ids, features, label = joined(offices.world)
    prepare = preparation(features)
    truth = lm.LogisticRegression(tol=1e-12, max_iter=10_000)
    truth.fit(prepare.fit_transform(features), label)
    found = done(offices.everyone(lambda own: predict(own, own.table, **quiet)))
    assert found["lab"].scores is None and not list(offices.state("lab").glob("*.csv"))
    with (offices.state("hospital") / "predictions-1.csv").open() as file:
        told = {row["patient"]: row for row in csv.DictReader(file)}
    assert sorted(told) == sorted(ids)
    expected = truth.predict_proba(prepare.transform(features))
    close(np.array([float(told[one]["p(1)"]) for one in ids]), expected[:, 1])
    classes = [int(told[one]["prediction"]) for one in ids]
    assert classes == truth.predict(prepare.transform(features)).tolist()
    assert found["hospital"].metrics["accuracy"] == pytest.approx(accuracy_score(label, classes))


def test_a_model_file_has_nothing_of_the_others(clinic):
    """Neither names nor numbers of another party's columns, and readable by its owner only."""
    offices, _, _ = clinic
    texts = {name: (offices.state(name) / "model.json").read_text() for name in offices.names}
    for name, text in texts.items():
        found = json.loads(text)
        assert (offices.state(name) / "model.json").stat().st_mode & 0o077 == 0
        for other in set(offices.names) - {name}:
            theirs = json.loads(texts[other])
            numbers = np.ravel(
                [theirs["coefficients"], *[[c["mean"]] for c in theirs["preparation"] if 0]]
            )
            assert not [v for v in numbers if repr(float(v)) in text]
            assert not [c for c in theirs["columns"] if f'"{c}"' in text]
        assert found["rows"]["count"] == 80 and found["certificate"]["kkt"] <= 1e-8


def test_the_same_in_python(clinic):
    offices, _, models = clinic
    lab = Party(offices.file("lab"))
    assert lab.name == "lab" and "Prefer labels.private = true" in lab.summary()
    assert lab.columns_ == ["x2", "x3", "ward=north", "ward=south"]
    assert np.array_equal(lab.coef_, models["lab"].coefficients)
    assert Party(offices.file("hospital")).classes_ == ("0", "1")
    assert len(lab.align(resume=True)) == 80 and lab.fit(resume=True) is lab


TIGHT = {"tol": 1e-12, "max_iter": 10**6}
GIVEN = {  # scikit-learn's Huber and hinge are right to 1e-5 only: see docs/learn.md
    "lasso": ("Lasso", "{ alpha = 0.1 }", lm.Lasso(alpha=0.1, **TIGHT), "days"),
    "elastic net": (
        "ElasticNet",
        "{ alpha = 0.1, l1_ratio = 0.3, fit_intercept = false }",
        lm.ElasticNet(alpha=0.1, l1_ratio=0.3, fit_intercept=False, **TIGHT),
        "days",
    ),
    "huber": (
        "HuberRegressor",
        "{ epsilon = 2.0, alpha = 0.01 }",
        VerticalHuberRegressor(epsilon=2.0, alpha=0.01),
        "days",
    ),
    "poisson": (
        "PoissonRegressor",
        "{ alpha = 0.1 }",
        lm.PoissonRegressor(alpha=0.1, **TIGHT),
        "stroke",
    ),
    "logistic, l1": (
        "LogisticRegression",
        '{ C = 0.5, l1_ratio = 1.0, class_weight = "balanced" }',
        lm.LogisticRegression(C=0.5, l1_ratio=1.0, class_weight="balanced", solver="saga", **TIGHT),
        "stroke",
    ),
    "support vectors": ("LinearSVC", "{ C = 0.5 }", LinearSVC(C=0.5, **TIGHT), "stroke"),
    "hinge": (
        "LinearSVC",
        '{ C = 0.5, loss = "hinge" }',
        VerticalLinearSVC(C=0.5, loss="hinge"),
        "stroke",
    ),
}


@pytest.mark.parametrize("name", GIVEN)
def test_rows_as_they_are_given(tmp_path, name):
    """Every model, without a column of ids: scores are scikit-learn's, and so are predictions."""
    model, options, truth, target = GIVEN[name]
    world = make_world(40, 0, mixed=False)
    world.label = target
    world.columns["lab"].pop("ward")  # beside an intercept its coefficients are not unique
    sums = "sums = { matrices = true }" if name in ("lasso", "elastic net", "logistic, l1") else ""
    offices = Offices(tmp_path / "all", world, model, options=options, sums=sums)
    found = done(offices.everyone(lambda own: fit(own, **quiet)))
    _, features, label = joined(world, target)
    X = preparation(features).fit_transform(features)
    truth.fit(X, label)
    close(parts(found, offices)[0], np.ravel(truth.coef_))
    close(constants(found), np.atleast_1d(truth.intercept_))
    if name in ("poisson", "hinge"):
        made = done(offices.everyone(lambda own: predict(own, own.table, **quiet)))["hospital"]
        close(np.array([float(v) for v in made.values]), truth.predict(X))
        assert made.metrics


def test_five_parties_with_parquet(tmp_path):
    names = ["hospital", "lab", "insurer", "bank", "shop"]
    world = make_world(40, 0, names=names, mixed=False)
    world.label = "days"
    offices = Offices(tmp_path / "all", world, "Ridge")
    for name in names:
        frame = pd.DataFrame(world.tables[name])
        frame.to_parquet(offices.folder / name / "table.parquet")
        offices.change(name, "party.toml", "table.csv", "table.parquet")
    found = done(offices.everyone(lambda own: fit(own, **quiet)))
    _, features, label = joined(world, "days")
    X = preparation(features).fit_transform(features)
    close(parts(found, offices)[0], lm.Ridge().fit(X, label).coef_)


def test_cross_validation_chooses_what_a_grid_search_chooses(tmp_path):
    world, values = make_world(40, 0, mixed=False), [0.3, 300.0]
    world.label = "days"
    search = f'[search]\nparameter = "alpha"\nvalues = {values}\nfolds = 2\nseed = 4\n'
    offices = Offices(tmp_path / "all", world, "Ridge", more=search)
    found = done(offices.everyone(lambda own: fit(own, **quiet)))
    _, features, label = joined(world, "days")
    X = preparation(features).fit_transform(features)  # once, and not again in every fold
    cuts = KFold(2, shuffle=True, random_state=4)
    grid = GridSearchCV(lm.Ridge(), {"alpha": values}, cv=cuts, scoring="r2").fit(X, label)
    about = [model.about for model in found.values()]
    assert {one["options"]["alpha"] for one in about} == {grid.best_params_["alpha"]}
    scores = grid.cv_results_["mean_test_score"]
    close([row["score"] for row in found["hospital"].about["search"]], scores)
    assert "search" not in found["lab"].about  # scores of folds say something about labels
    assert scores[0] > scores[1] + 0.1  # there is something to choose
    close(X @ parts(found, offices)[0] + constants(found)[0], grid.predict(X))


def test_three_classes_two_receivers_and_unmasked_pairs(tmp_path):
    """Two parties (masks are worth nothing there), the multinomial model."""
    world = make_world(70, 5, classes=3, names=["hospital", "lab"])
    offices = Offices(
        tmp_path / "all",
        world,
        policy="psi",
        sums="sums = { masked = false }",
        more='[predictions]\nto = ["lab", "hospital"]\n',
    )
    done(offices.everyone(lambda own: align(own, **quiet)))
    done(offices.everyone(lambda own: fit(own, **quiet)))
    found = done(offices.everyone(lambda own: predict(own, own.table, "new", **quiet)))
    ids, features, label = joined(world)
    X = preparation(features).fit_transform(features)
    truth = lm.LogisticRegression(tol=1e-12, max_iter=10_000).fit(X, label)
    order = {one: k for k, one in enumerate(ids)}
    for name in offices.names:
        table = world.tables[name]["patient"]
        mine = [order[table[k]] for k in found[name].rows.index]
        close(found[name].scores, truth.decision_function(X)[mine])
    close(found["hospital"].chances.sum(axis=1), np.ones(70))
    assert set(found["lab"].values) <= {0, 1, 2}  # names of classes are the holder's
    assert set(found["hospital"].values) <= {"0", "1", "2"}


def test_a_party_with_labels_only(tmp_path):
    world = make_world(40, 0, mixed=False)
    world.columns["hospital"], world.label = {}, "days"
    offices = Offices(tmp_path / "all", world, "Ridge")
    found = done(offices.everyone(lambda own: fit(own, **quiet)))
    _, features, label = joined(world, "days", drop=["x0", "x1"])
    X = preparation(features).fit_transform(features)
    close(parts(found, offices)[0], lm.Ridge().fit(X, label).coef_)


def test_what_is_done_is_not_done_again_unasked(clinic):
    offices, _, _ = clinic
    found = offices.everyone(lambda own: fit(own, **quiet))
    assert all("Pass --force at all parties" in str(error) for error in found.values())
    again = offices.everyone(load_model)
    assert all(model.about["status"] == "CONVERGED" for model in again.values())
    rows = offices.everyone(lambda own: load_rows(own, own.table))
    assert all(len(found) == 80 for found in rows.values())


def test_worlds_differ_in_order_and_in_rows():
    """The tables of these tests are what they claim to be."""
    world: World = make_world()
    ids = [table["patient"] for table in world.tables.values()]
    assert ids[0][:5] != ids[1][:5] and all(set(one) - set(ids[0]) for one in ids[1:])


def test_one_run_after_the_other_though_somebody_dawdles(tmp_path, monkeypatch):
    """Who is quick finds a neighbour that has not left the run before, and waits for it."""
    offices = Offices(tmp_path / "all", make_world(40, 6), policy="psi")
    stop, met = ConnectionManager.stop, []

    def dawdle(manager: ConnectionManager) -> None:
        """Party 0 leaves its first run when another has knocked from the next one."""
        end = time.monotonic() + 60.0
        while manager.me == 0 and not met and time.monotonic() < end:
            met.extend(why for why in manager.refusals.values() if "another run" in why)
            time.sleep(0.01)
        stop(manager)

    def work(own: LearnParty) -> int:
        align(own, **quiet)
        return len(fit(own, **quiet).coefficients)

    monkeypatch.setattr(ConnectionManager, "stop", dawdle)
    done(offices.everyone(work))
    assert met


def test_frames_of_a_notebook(tmp_path):
    """``Party`` with pandas frames in the place of files, and what it says of wrong ones."""
    world = make_world(40, 6)
    offices = Offices(tmp_path / "all", world, policy="psi")
    frames = {name: pd.DataFrame(table).convert_dtypes() for name, table in world.tables.items()}
    for name in offices.names:
        (offices.folder / name / "table.csv").unlink()

    def work(own: LearnParty) -> tuple[Party, Predictions]:
        party = Party(own.party.file, frames[own.party.name])
        assert len(party.align()) == 40
        return party.fit(), party.predict(frames[own.party.name], name="again")

    found = done(offices.everyone(work))
    ids, features, label = joined(world)
    X = preparation(features).fit_transform(features)
    truth = lm.LogisticRegression(tol=1e-12, max_iter=10_000).fit(X, label)
    close(np.hstack([found[name][0].coef_ for name in offices.names]), truth.coef_)
    close(sum(party.constant_ for party, _ in found.values()), truth.intercept_)
    party, made = found["hospital"]
    right = dict(zip(ids, truth.predict(X), strict=True))
    told = [right[frames["hospital"]["patient"][k]] for k in made.rows.index]
    assert party.classes_ == ("0", "1") and [int(value) for value in made.values] == told
    with pytest.raises(Refusal, match="two columns are called 'x'"):
        Party(offices.file("lab"), pd.DataFrame([[1, 2]], columns=["x", "x"]))
    with pytest.raises(Dual2Error, match="would be replaced"):
        party.fit()
