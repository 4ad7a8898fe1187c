"""Tables whose columns depend on one another: without a penalty, the answer of minimum norm."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import QuantileRegressor

import dual2.learn as dl
from dual2.learn import training
from dual2.learn.minimum_norm import dependent_columns
from dual2.methods.registry import METHODS

N = 120


def columns(rng):
    X = rng.standard_normal((N, 3))
    hot = [np.eye(k)[rng.integers(k, size=N)] for k in (3, 4)]
    return X, hot


def one_hot(rng):
    X, hot = columns(rng)
    return np.hstack([X, *hot])


def between_parties(rng):
    """No party has dependent columns of its own; together they have."""
    X, hot = columns(rng)
    return np.hstack([X, hot[0][:, :2], X[:, ::-1], hot[0][:, 2:]])


def wide(rng):
    return rng.standard_normal((20, 33))


def constants(rng):
    X, _ = columns(rng)
    return np.hstack([X, np.full((N, 1), 3.3), np.zeros((N, 1)), 1e3 + 1e2 * X[:, :1]])


def units(rng):
    X, hot = columns(rng)
    return np.hstack([X * [1e4, 1.0, 1e-3], hot[0], 2e4 * X[:, :1]])


TABLES = [one_hot, between_parties, wide, constants, units]


def least_norm(X, y):
    """Coefficients and predictions by plain NumPy; scikit-learn drops columns of small units."""
    middle = X.mean(axis=0)
    coef = np.linalg.lstsq(X - middle, y - y.mean(), rcond=1e-13)[0]
    return coef, y.mean() + (X - middle) @ coef


def quietly(model, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("error", ConvergenceWarning)
        return model.fit(X, y)


@pytest.mark.parametrize("parties", [1, 2, 3])
@pytest.mark.parametrize("make", TABLES)
def test_least_squares_are_those_of_minimum_norm(make, parties):
    rng = np.random.default_rng(parties)
    X = make(rng)
    y = X @ rng.standard_normal(X.shape[1]) + rng.standard_normal(len(X))
    coef, predicted = least_norm(X, y)
    found = quietly(dl.VerticalRidge(0.0, parties=parties), X, y)
    assert found.converged_ and "minimum norm" in found.explain()
    size = np.abs(coef).max()
    np.testing.assert_allclose(found.coef_, coef, rtol=1e-6, atol=1e-8 * size)
    np.testing.assert_allclose(found.predict(X), predicted, atol=1e-8 * np.abs(y).max())


def test_sparse_tables_and_intercepts_that_stay_columns():
    rng = np.random.default_rng(7)
    X = one_hot(rng)
    y = X[:, 0] + rng.standard_normal(N)
    found = quietly(dl.VerticalRidge(0.0, parties=3), sp.csr_array(X), y)
    np.testing.assert_allclose(found.coef_, least_norm(X, y)[0], atol=1e-8)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("make", [one_hot, between_parties])
def test_classes_have_coefficients_in_the_span_of_the_rows(make, classes):
    rng = np.random.default_rng(classes)
    X = make(rng)
    codes = np.digitize(X[:, 0] + 2.0 * rng.standard_normal(N), [0.0, 1.0][: classes - 1])
    found = quietly(dl.VerticalLogisticRegression(C=np.inf, parties=2), X, codes)
    independent = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    basis = independent[2][independent[1] > 1e-9 * independent[1][0]]
    np.testing.assert_allclose(found.coef_ @ basis.T @ basis, found.coef_, atol=1e-8)
    kept = quietly(dl.VerticalLogisticRegression(C=np.inf), X @ basis.T, codes)
    np.testing.assert_allclose(found.predict_proba(X), kept.predict_proba(X @ basis.T), atol=1e-7)


def test_an_earlier_model_starts_the_next_one():
    rng = np.random.default_rng(5)
    X = one_hot(rng)
    model = dl.VerticalRidge(0.0, warm_start=True)
    for _ in range(2):
        y = X[:, 0] + rng.standard_normal(N)
        quietly(model, X, y)
        np.testing.assert_allclose(model.coef_, least_norm(X, y)[0], atol=1e-8)


def test_a_warning_names_the_partys_own_columns():
    X, hot = columns(np.random.default_rng(3))
    pandas = pytest.importorskip("pandas")
    names = ["age", "size", "dose", "north", "south", "west", "unit"]
    frame = pandas.DataFrame(np.hstack([X, hot[0], np.full((N, 1), 0.1)]), columns=names)
    parties = [["age", "size", "dose"], ["north", "south", "west", "unit"]]
    with pytest.warns(UserWarning) as caught:
        dl.VerticalRidge(0.0, parties=parties).fit(frame, X[:, 0])
    [told] = [str(one.message) for one in caught]
    assert told.startswith("Party 1: column ") and "'unit' is constant" in told
    assert "a combination of" in told and "'age'" not in told
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dl.VerticalRidge(1.0, parties=parties).fit(frame, X[:, 0])


def test_independent_columns_are_not_named():
    rng = np.random.default_rng(4)
    assert dependent_columns(rng.standard_normal((30, 6)) * 10.0 ** np.arange(-3, 3)) == []


def test_a_count_of_zero_that_is_expected_with_certainty_is_no_solution():
    """More columns than rows: counts of 0 drive their scores to minus infinity."""
    rng = np.random.default_rng(6)
    X = rng.standard_normal((12, 20))
    y = np.array([0.0, 0.0, 3.0, 1.0, 2.0, 0.0, 4.0, 1.0, 0.0, 2.0, 1.0, 5.0])
    with pytest.warns(UserWarning) as caught:
        model = dl.VerticalPoissonRegressor(0.0).fit(X, y)
    assert any(issubclass(one.category, ConvergenceWarning) for one in caught)
    assert not model.converged_


def quantile_table():
    """Columns, two groups in one-hot columns and a copy; Newton's method stalls at 1e7 there."""
    rng = np.random.default_rng(27)
    X = rng.standard_normal((60, 3)) * [1.0, 10.0, 0.1]
    hot = [np.eye(k)[rng.integers(k, size=60)] for k in (3, 4)]
    y = X / X.std(axis=0) @ [0.5, -0.3, 0.8] + rng.standard_normal(60)
    return np.hstack([X, *hot, X[:, :1]]), y


def pinball(model, X, y):
    t = y - X @ model.coef_ - model.intercept_
    return np.maximum(0.6 * t, -0.4 * t).mean() + model.alpha * np.abs(model.coef_).sum()


@pytest.mark.parametrize("alpha", [0.0, 1e-10, 1e-6])
@pytest.mark.parametrize("parties", [2, 3])
def test_quantiles_are_those_of_a_central_solver(alpha, parties):
    X, y = quantile_table()
    model = quietly(dl.VerticalQuantileRegressor(quantile=0.6, alpha=alpha, parties=parties), X, y)
    central = QuantileRegressor(quantile=0.6, alpha=alpha, solver="highs").fit(X, y)
    assert model.converged_
    assert pinball(model, X, y) <= pinball(central, X, y) * (1 + 1e-8)
    assert np.abs(model.coef_).max() < 100


def test_a_method_that_follows_a_stall_begins_anew(monkeypatch):
    """Newton's coefficients of 1e7 must not be where another method starts."""
    X, y = quantile_table()
    starts, solve_once = [], training._solve_once

    def recorded(scaled, *rest):
        starts.append(max(np.abs(own).max() for own in scaled.old))
        return solve_once(scaled, *rest)

    monkeypatch.setattr(training, "_solve_once", recorded)
    stalling = [METHODS["Newton"](mode="primal", max_sums=2), METHODS["interior-point"]]
    monkeypatch.setattr(training, "training_methods", lambda *_, **__: stalling)
    quietly(dl.VerticalQuantileRegressor(quantile=0.6, alpha=1e-6, parties=2), X, y)
    assert starts == [0.0, 0.0]


def test_centres_that_rest_far_away_are_no_solution():
    """A ridge around coefficients of 1e4 that cancel hardly moves them, and they cost 3e-6."""
    X, y = quantile_table()
    model = dl.VerticalQuantileRegressor(quantile=0.6, alpha=1e-10, parties=2, method="iD2A")
    central = QuantileRegressor(quantile=0.6, alpha=1e-10, solver="highs").fit(X, y)
    design, (target,), weight, network = model._prepare(X, y, None)
    far = central.coef_ + 1e4 * np.isin(np.arange(X.shape[1]), [3, 4, 5])
    parts = [far[group] * design.scales[group] for group in design.groups]
    middle = float(design.means @ far)
    parts[-1] = np.append(parts[-1], central.intercept_ - 1e4 + middle)
    start, loss = training.TrainingState(parts), model._loss(target, weight)
    found = training.train(design.blocks, loss, network, model._settings(), start)
    assert np.abs(np.concatenate(found.w)).max() > 1e3 and found.result.status == "CONVERGED"
    assert not found.converged
