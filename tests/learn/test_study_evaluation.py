"""Figures at the holder, standard errors at every party, weights, survival and ordinal studies."""

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from sklearn import linear_model as lm
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_validate

from dual2.errors import Dual2Error
from dual2.learn import Party
from dual2.learn.vertical.fitting import fit
from dual2.learn.vertical.prediction import predict
from dual2.learn.vertical.study import read_learn_study
from learning_offices import Offices, World, done, joined, make_world, preparation

quiet = {"report": lambda text: None}
PRIVATE = {"labels": "private = true"}


def world_without_category(rows: int = 80, **more: Any) -> World:
    world = make_world(rows, 0, mixed=False, **more)
    world.columns["lab"].pop("ward")  # beside an intercept its coefficients are not unique
    return world


def prepared(world: World, label: str) -> tuple[np.ndarray, Any]:
    _, features, target = joined(world, label)
    return preparation(features).fit_transform(features), target


def test_cross_validated_figures_are_those_of_scikit_learn(tmp_path):
    world = world_without_category()
    plan = "[evaluation]\nfolds = 4\nseed = 3\n"
    offices, said = Offices(tmp_path / "all", world, more=plan, **PRIVATE), {}

    def train(own: Any) -> Any:
        lines = said.setdefault(own.party.name, [])
        return fit(own, report=lines.append)

    found = done(offices.everyone(train))
    X, y = prepared(world, "stroke")
    truth = lm.LogisticRegression(tol=1e-12, max_iter=10_000)
    cuts = StratifiedKFold(4, shuffle=True, random_state=3)
    scores = ["accuracy", "roc_auc", "neg_log_loss"]
    expected = cross_validate(truth, X, y, cv=cuts, scoring=scores)
    told = found["hospital"].about["evaluation"]
    assert told["held out"]["accuracy"] == pytest.approx(expected["test_accuracy"].mean())
    assert told["held out"]["AUC"] == pytest.approx(expected["test_roc_auc"].mean())
    assert told["held out"]["log loss"] == pytest.approx(-expected["test_neg_log_loss"].mean())
    chances = truth.fit(X, y).predict_proba(X)
    assert told["training"]["AUC"] == pytest.approx(roc_auc_score(y, chances[:, 1]))
    assert told["training"]["log loss"] == pytest.approx(log_loss(y, chances))
    assert sum(row["rows"] for row in told["calibration"]) == 80
    predicted = [row["predicted"] for row in told["calibration"]]
    assert predicted == sorted(predicted)
    assert any(line.startswith("held out rows: accuracy") for line in said["hospital"])
    for name in ("lab", "insurer"):  # figures say something about labels
        assert "evaluation" not in found[name].about
        assert not any("accuracy" in line for line in said[name])
    assert Party(offices.file("hospital")).evaluation_ == told


ERRORS = {
    "least squares": ("Ridge", "{ alpha = 0.0 }", "days", 2),
    "logistic": ("LogisticRegression", "{ C = inf }", "stroke", 2),
    "poisson": ("PoissonRegressor", "{ alpha = 0.0 }", "stroke", 4),
}


@pytest.mark.parametrize("name", ERRORS)
def test_standard_errors_are_those_of_statsmodels(tmp_path, name):
    model, options, label, classes = ERRORS[name]
    world = make_world(200, 0, mixed=False, classes=classes, seed=1)
    world.columns["lab"].pop("ward")
    draw = np.random.default_rng(0)
    if name == "logistic":  # not separable
        world.tables["hospital"]["stroke"] = draw.integers(0, 2, 200).tolist()
    world.label = label
    plan = "[evaluation]\nstandard_errors = true\n"
    offices = Offices(tmp_path / "all", world, model, options=options, more=plan, **PRIVATE)
    done(offices.everyone(lambda own: fit(own, **quiet)))
    X, y = prepared(world, label)
    exog = sm.add_constant(X)
    if name == "least squares":
        truth = sm.OLS(y, exog).fit()
    elif name == "logistic":
        truth = sm.Logit(y, exog).fit(disp=0, tol=1e-12)
    else:
        truth = sm.Poisson(y, exog).fit(disp=0, tol=1e-12)
    tables = [Party(offices.file(one)).inference_ for one in offices.names]
    frames = [table.to_frame() for table in tables if table is not None]
    frame = pd.concat(frames)
    order = [*(f"x{j}" for j in range(6))]
    np.testing.assert_allclose(frame.loc[order, "coef"], truth.params[1:], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(frame.loc[order, "std_err"], truth.bse[1:], rtol=1e-6)
    np.testing.assert_allclose(frame.loc[order, "p_value"], truth.pvalues[1:], atol=1e-6)
    assert frame.loc["intercept", "std_err"] == pytest.approx(np.asarray(truth.bse)[0], rel=1e-6)
    assert [len(one) for one in frames] == [3, 2, 2]
    own = json.loads((offices.state("lab") / "model.json").read_text())
    assert len(own["inference"]["covariance"]) == 2


def test_sample_weights_and_weights_of_classes(tmp_path):
    world = world_without_category()
    weight = np.random.default_rng(2).integers(1, 4, 80).astype(float)
    world.tables["hospital"]["copies"] = weight.tolist()
    options = '{ C = 0.5, class_weight = { "0" = 2.0, "1" = 0.5 } }'
    offices = Offices(
        tmp_path / "all", world, options=options, extra='weight = "copies"\n', **PRIVATE
    )
    for name in ("lab", "insurer"):
        offices.change(name, "party.toml", 'weight = "copies"\n', "")
    found = done(offices.everyone(lambda own: fit(own, **quiet)))
    X, y = prepared(world, "stroke")
    truth = lm.LogisticRegression(
        C=0.5, class_weight={0: 2.0, 1: 0.5}, tol=1e-12, max_iter=10_000
    ).fit(X, y, weight)
    own = np.hstack([found[name].coefficients for name in offices.names])
    np.testing.assert_allclose(own, truth.coef_, atol=1e-6)
    told = found["hospital"].about["evaluation"]["training"]
    assert told["accuracy"] == pytest.approx(truth.score(X, y, weight))


def test_cox_regression_between_parties(tmp_path):
    world = world_without_category(150)
    X, _ = prepared(world, "stroke")
    draw = np.random.default_rng(3)
    hospital = world.tables["hospital"]
    hospital["weeks"] = np.ceil(9 * draw.exponential(np.exp(-0.5 * X[:, 0]))).tolist()
    hospital["died"] = (draw.random(150) < 0.7).astype(int).tolist()
    hospital["site"] = [("a", "b")[k] for k in draw.integers(0, 2, 150)]
    world.label = "weeks"
    plan = "[evaluation]\nfolds = 3\nseed = 0\nstandard_errors = true\n"
    offices = Offices(tmp_path / "all", world, "CoxRegression", more=plan, **PRIVATE)
    offices.change(
        "hospital", "party.toml", "[table.c", 'event = "died"\nstrata = "site"\n[table.c'
    )
    found = done(offices.everyone(lambda own: fit(own, **quiet)))
    truth = sm.PHReg(
        np.array(hospital["weeks"]),
        X,
        status=np.array(hospital["died"]),
        ties="efron",
        strata=np.array(hospital["site"]),
    ).fit()
    own = np.hstack([found[name].coefficients for name in offices.names])[0]
    np.testing.assert_allclose(own, truth.params, atol=1e-8)
    tables = [Party(offices.file(one)).inference_ for one in offices.names]
    errors = np.concatenate([one.std_err for one in tables if one is not None])
    np.testing.assert_allclose(errors, truth.bse, rtol=1e-6)
    about = found["hospital"].about
    assert 0.5 < about["evaluation"]["training"]["concordance"] < 1.0
    assert set(about["cumulative_hazard"]) == {"0", "1"}
    made = done(offices.everyone(lambda own: predict(own, own.table, **quiet)))["hospital"]
    assert made.metrics["concordance"] == pytest.approx(
        about["evaluation"]["training"]["concordance"]
    )


def test_an_ordinal_model_needs_an_order_of_words(tmp_path):
    world = world_without_category(120, classes=3)
    codes = world.tables["hospital"]["stroke"]
    world.tables["hospital"]["stroke"] = [("low", "middle", "high")[k] for k in codes]
    offices = Offices(
        tmp_path / "all", world, "OrdinalRegression", options="{ alpha = 1.0 }", **PRIVATE
    )
    found = offices.everyone(lambda own: fit(own, **quiet))
    assert "Name them all in their order" in str(found["hospital"])
    order = 'classes = ["low", "middle", "high"]\n[table.c'
    offices.change("hospital", "party.toml", "[table.c", order)
    found = done(offices.everyone(lambda own: fit(own, **quiet)))
    made = done(offices.everyone(lambda own: predict(own, own.table, **quiet)))["hospital"]
    assert set(made.values) <= {"low", "middle", "high"}
    assert made.metrics["accuracy"] > 0.6
    told = found["hospital"].about["evaluation"]["training"]["accuracy"]
    assert made.metrics["accuracy"] == pytest.approx(told)


MORE = {
    "GammaRegressor": ("{ alpha = 0.1 }", lm.GammaRegressor(alpha=0.1, tol=1e-12, max_iter=9999)),
    "TweedieRegressor": (
        "{ alpha = 0.1, power = 1.5 }",
        lm.TweedieRegressor(alpha=0.1, power=1.5, tol=1e-12, max_iter=9999),
    ),
    "NonnegativeRegression": ("{ alpha = 0.5 }", lm.Ridge(0.5)),
}


@pytest.mark.parametrize("name", MORE)
def test_further_models_of_a_study(tmp_path, name):
    options, truth = MORE[name]
    world = world_without_category()
    days = np.array(world.tables["hospital"]["days"])
    world.tables["hospital"]["days"] = (days - days.min() + 20.0).tolist()
    world.label = "days"
    offices = Offices(tmp_path / "all", world, name, options=options, **PRIVATE)
    found = done(offices.everyone(lambda own: fit(own, **quiet)))
    X, y = prepared(world, "days")
    truth.fit(X, y)
    own = np.hstack([found[one].coefficients for one in offices.names])[0]
    np.testing.assert_allclose(own, truth.coef_, atol=1e-5 * np.abs(truth.coef_).max())
    told = found["hospital"].about["evaluation"]["training"]
    assert next(iter(told.values())) == pytest.approx(truth.score(X, y), abs=1e-6)


REFUSED = {
    "penalty": ("[evaluation]\nstandard_errors = true\n", "a penalty biases"),
    "both": ("[evaluation]\nfolds = 3\nheld_out = 0.1\n", "one of the two"),
    "share": ("[evaluation]\nheld_out = 1.0\n", "below 1"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_evaluations_that_cannot_be(tmp_path, name):
    more, words = REFUSED[name]
    offices = Offices(tmp_path / "all", make_world(30, 0, mixed=False), more=more, **PRIVATE)
    with pytest.raises(Dual2Error, match=words):
        read_learn_study(offices.folder / "lab" / "study.toml")
