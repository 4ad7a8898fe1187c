"""Gamma, Tweedie, Cox and ordinal models beside scikit-learn and statsmodels."""

import numpy as np
import pytest
import statsmodels.api as sm
from sklearn import linear_model as lm
from sklearn.exceptions import ConvergenceWarning
from statsmodels.miscmodels.ordinal_model import OrderedModel

from dual2.errors import ProblemError
from dual2.learn import (
    VerticalCoxRegression,
    VerticalGammaRegressor,
    VerticalOrdinalRegression,
    VerticalRidge,
    VerticalTweedieRegressor,
)
from dual2.learn.partial_likelihood import concordance, read_survival


@pytest.fixture(scope="module")
def table():
    draw = np.random.default_rng(0)
    X = draw.standard_normal((300, 4)) * [1.0, 3.0, 0.5, 1.0] + [0.0, 1.0, 2.0, 3.0]
    return draw, X


@pytest.mark.parametrize("power", [1.0, 1.3, 1.7, 2.0])
@pytest.mark.parametrize("alpha", [0.0, 0.2])
def test_tweedie_is_that_of_scikit_learn(table, power, alpha):
    _, X = table
    y = np.random.default_rng(1).gamma(2.0, np.exp(X @ [0.3, -0.1, 0.2, 0.0]) / 2.0)
    weight = np.random.default_rng(2).uniform(0.5, 2.0, len(y))
    truth = lm.TweedieRegressor(
        alpha=alpha, power=power, link="log", solver="newton-cholesky", tol=1e-12
    ).fit(X, y, weight)
    found = VerticalTweedieRegressor(alpha=alpha, power=power, parties=3).fit(X, y, weight)
    np.testing.assert_allclose(found.coef_, truth.coef_, atol=1e-9)
    assert found.intercept_ == pytest.approx(truth.intercept_, abs=1e-9)
    assert found.score(X, y) == pytest.approx(truth.score(X, y))
    assert str(found.end_.status) == "CONVERGED" and found.end_.kkt <= 1e-8


def test_gamma_has_the_standard_errors_of_statsmodels(table):
    _, X = table
    y = np.random.default_rng(1).gamma(2.0, np.exp(X @ [0.3, -0.1, 0.2, 0.0]) / 2.0)
    family = sm.families.Gamma(sm.families.links.Log())
    truth = sm.GLM(y, sm.add_constant(X), family=family).fit(tol=1e-14)
    told = VerticalGammaRegressor(alpha=0.0, standardize=True).fit(X, y).summary()
    np.testing.assert_allclose(told.coef, np.roll(truth.params, -1), rtol=1e-8)
    np.testing.assert_allclose(told.std_err, np.roll(truth.bse, -1), rtol=1e-8)
    frame = told.to_frame()
    assert list(frame.index) == ["x0", "x1", "x2", "x3", "intercept"] and told.kind == "t"
    assert frame["std_err"].to_numpy() == pytest.approx(told.std_err)


def survival_data(X: np.ndarray) -> np.ndarray:
    """Times with many ties, a third of them censored, in three strata."""
    draw = np.random.default_rng(3)
    time = np.ceil(5.0 * draw.exponential(np.exp(-X @ [0.5, -0.2, 0.0, 0.2])))
    event = draw.random(len(X)) < 0.7
    return np.column_stack([time, event, draw.integers(0, 3, len(X))])


@pytest.mark.parametrize("ties", ["efron", "breslow"])
@pytest.mark.parametrize("strata", [False, True])
def test_cox_is_that_of_statsmodels(table, ties, strata):
    _, X = table
    y = survival_data(X)
    groups = y[:, 2] if strata else None
    truth = sm.PHReg(y[:, 0], X, status=y[:, 1], ties=ties, strata=groups).fit()
    found = VerticalCoxRegression(ties=ties, standardize=True).fit(X, y if strata else y[:, :2])
    np.testing.assert_allclose(found.coef_, truth.params, atol=1e-9)
    np.testing.assert_allclose(found.summary().std_err, truth.bse, rtol=1e-8)
    assert len(found.baseline_cumulative_hazard_) == (3 if strata else 1)


def test_the_baseline_hazard_is_breslows_estimate(table):
    """Written down directly: deaths over the sum of risks, time by time."""
    _, X = table
    y = survival_data(X)[:, :2]
    found = VerticalCoxRegression(ties="breslow").fit(X, y)
    risk, total, expected = np.exp(X @ found.coef_), 0.0, []
    for time in np.unique(y[y[:, 1] == 1, 0]):
        dead = np.sum((y[:, 0] == time) & (y[:, 1] == 1))
        total += dead / risk[y[:, 0] >= time].sum()
        expected.append(total)
    at, hazard = found.baseline_cumulative_hazard_[0]
    np.testing.assert_allclose(hazard, expected, rtol=1e-10)
    chance = found.predict_survival(X[:2], [0.5, at[-1]])
    np.testing.assert_allclose(chance[:, 0], 1.0)
    np.testing.assert_allclose(chance[:, 1], np.exp(-risk[:2] * expected[-1]), rtol=1e-10)


def test_concordance_counts_pairs_one_by_one(table):
    draw = np.random.default_rng(4)
    data = read_survival(survival_data(table[1])[:60])
    risk = np.round(draw.standard_normal(60), 1)
    right = pairs = 0.0
    for i in range(60):
        for j in range(60):
            later = data.time[j] > data.time[i] or (
                data.time[j] == data.time[i] and not data.event[j]
            )
            if data.event[i] and later and data.strata[i] == data.strata[j]:
                pairs += 1
                right += float(risk[i] > risk[j]) + 0.5 * float(risk[i] == risk[j])
    assert concordance(data, risk) == pytest.approx(right / pairs)


def test_ordinal_is_that_of_statsmodels(table):
    _, X = table
    noise = np.random.default_rng(5).logistic(size=len(X))
    y = np.digitize(X @ [1.0, -0.2, 0.2, 0.0] + noise, [-0.5, 0.5, 1.5])
    centred = X - X.mean(axis=0)
    truth = OrderedModel(y, centred, distr="logit").fit(method="bfgs", disp=0)
    found = VerticalOrdinalRegression(parties=2).fit(X, y)
    np.testing.assert_allclose(found.coef_, truth.params[:4], atol=1e-4)
    cuts = truth.model.transform_threshold_params(truth.params)[1:-1]
    np.testing.assert_allclose(found.thresholds_ - X.mean(axis=0) @ found.coef_, cuts, atol=1e-4)
    told = found.summary()
    np.testing.assert_allclose(told.std_err[:4], truth.bse[:4], rtol=1e-4)
    assert told.names[-3:] == ["0/1", "1/2", "2/3"]
    np.testing.assert_allclose(found.predict_proba(X), truth.predict(centred), atol=1e-4)


def test_without_a_finite_solution_nothing_converges():
    x, order = np.arange(6.0)[:, None], [0, 0, 1, 1, 2, 2]
    with pytest.warns(ConvergenceWarning, match="DIVERGED"):
        assert not VerticalOrdinalRegression(parties=1).fit(x, order).converged_
    y = np.column_stack([6.0 - x[:, 0], np.ones(6)])
    with pytest.warns(ConvergenceWarning, match="no finite solution"):
        assert not VerticalCoxRegression(parties=1).fit(x, y).converged_
    assert VerticalCoxRegression(alpha=0.1, parties=1).fit(x, y).converged_


WRONG = {
    "shape": (np.ones(4), "two columns, time and event"),
    "event": (np.column_stack([np.ones(4), [0, 1, 2, 1]]), "1 .event. or 0"),
    "time": (np.column_stack([[0.0, 1, 2, 3], np.ones(4)]), "above 0"),
    "none": (np.column_stack([np.ones(4), np.zeros(4)]), "no row has an event"),
}


@pytest.mark.parametrize("name", WRONG)
def test_survival_data_that_cannot_be_used(name):
    y, words = WRONG[name]
    with pytest.raises(ProblemError, match=words):
        VerticalCoxRegression(parties=1).fit(np.arange(4.0)[:, None], y)


def test_values_outside_the_family_are_refused():
    x = np.arange(4.0)[:, None]
    with pytest.raises(ProblemError, match=r"y\[1\] = 0 found.*above 0"):
        VerticalGammaRegressor(parties=1).fit(x, [1.0, 0.0, 1.0, 1.0])
    with pytest.raises(ProblemError, match=r"power = 3.*1 is Poisson, 2 is Gamma"):
        VerticalTweedieRegressor(power=3.0, parties=1).fit(x, np.ones(4))
    with pytest.raises(ProblemError, match="alpha = 0"):
        VerticalGammaRegressor(alpha=0.1, parties=1).fit(x, np.arange(1.0, 5.0)).summary()


def test_ridge_takes_several_targets(table):
    _, X = table
    Y = X @ np.arange(12.0).reshape(4, 3) + np.random.default_rng(6).standard_normal((300, 3))
    truth, found = lm.Ridge(2.0).fit(X, Y), VerticalRidge(2.0, parties=3).fit(X, Y)
    np.testing.assert_allclose(found.coef_, truth.coef_, atol=1e-8)
    np.testing.assert_allclose(found.predict(X), truth.predict(X), atol=1e-7)
    assert [part.shape for part in found.party_coef_] == [(3, 2), (3, 1), (3, 1)]
    assert found.score(X, Y) == pytest.approx(truth.score(X, Y))
    with pytest.raises(ProblemError, match="for one target"):
        VerticalRidge(0.0, parties=3).fit(X, Y).summary()
