"""Several classes at once, against scikit-learn."""

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

import dual2 as d2
import dual2.learn as dl

WINE = load_wine(return_X_y=True)
WINE = StandardScaler().fit_transform(WINE[0]), WINE[1]
EXACT = {"solver": "newton-cholesky", "tol": 1e-12, "max_iter": 1000}


def same(found, reference, X, relative=1e-5):
    assert np.abs(found.coef_ - reference.coef_).max() <= relative * np.abs(reference.coef_).max()
    assert np.abs(found.intercept_ - reference.intercept_).max() <= relative
    assert np.abs(found.predict_proba(X) - reference.predict_proba(X)).max() < relative
    assert np.array_equal(found.predict(X), reference.predict(X))


@pytest.mark.parametrize("split", [{"parties": 2}, {"parties": 5, "network": "star"}])
def test_wine(split):
    X, y = WINE
    names = np.array(["red", "white", "rosé"])[y]
    weight = np.random.default_rng(0).integers(0, 3, len(y))
    found = dl.VerticalLogisticRegression(C=0.7, **split).fit(X, names, weight)
    reference = LogisticRegression(C=0.7, **EXACT).fit(X, names, sample_weight=weight)
    same(found, reference, X)
    assert found.coef_.shape == (3, 13) and found.n_iter_.shape == (1,)
    assert abs(found.intercept_.sum()) < 1e-12 and np.abs(found.coef_.sum(axis=0)).max() < 1e-9
    assert [part.shape[0] for part in found.party_coef_] == [3] * split["parties"]


def test_digits():
    X, y = load_digits(return_X_y=True)
    X, y = X[y < 4][::3] / 16.0, y[y < 4][::3]
    found = dl.VerticalLogisticRegression(C=0.1, parties=4, class_weight="balanced").fit(X, y)
    reference = LogisticRegression(C=0.1, class_weight="balanced", **EXACT).fit(X, y)
    same(found, reference, X)


def test_elastic_net_and_no_intercept():
    X, y = WINE
    options = {"C": 0.3, "l1_ratio": 0.6, "fit_intercept": False}
    found = dl.VerticalLogisticRegression(**options, parties=3).fit(X, y)
    reference = LogisticRegression(**options, solver="saga", tol=1e-9, max_iter=10**5).fit(X, y)
    same(found, reference, X)
    assert np.array_equal(found.coef_ == 0, reference.coef_ == 0) and (found.coef_ == 0).any()


def test_without_penalty():
    """Coefficients that no penalty centres are centred."""
    X, y = load_iris(return_X_y=True)
    X, y = X[:, :2], y  # all four columns would separate the first class
    keep = np.r_[0:40, 50:150]
    X, y = X[keep], y[keep].copy()
    y[:40:7] = 1
    found = dl.VerticalLogisticRegression(C=np.inf).fit(X, y)
    reference = LogisticRegression(C=np.inf, **EXACT).fit(X, y)
    assert np.abs(found.predict_proba(X) - reference.predict_proba(X)).max() < 1e-6
    centred = reference.coef_ - reference.coef_.mean(axis=0)
    assert np.abs(found.coef_ - centred).max() <= 1e-5 * np.abs(centred).max()


def test_gossip_and_folder_approach_the_same_model():
    X, y = WINE
    model = dl.VerticalLogisticRegression(C=0.01, parties=2).fit(X, y)
    other = dl.VerticalLogisticRegression(C=0.01, parties=2, method="iD2A", tol=1e-5).fit(X, y)
    assert np.abs(model.coef_ - other.coef_).max() <= 1e-3 * np.abs(model.coef_).max()
    problem, network = model.problem(X, y)
    result = d2.solve(problem, network, tol=1e-7)
    margins = result.y.reshape(-1, 3)
    own = model.decision_function(X)
    moved = margins - margins.mean(axis=1, keepdims=True) - own + own.mean(axis=1, keepdims=True)
    assert np.abs(moved).max() <= 1e-5 * np.abs(own).max()
