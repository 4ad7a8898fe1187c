"""Coefficients and predictions against scikit-learn on its bundled data."""

import networkx as nx
import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn import linear_model as lm
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import dual2.learn as dl

MANY = 10**6
POISSON = {"tol": 1e-12, "max_iter": 1000, "solver": "newton-cholesky"}


def scaled(load):
    X, y = load(return_X_y=True)
    return StandardScaler().fit_transform(X), y


DIABETES = load_diabetes(return_X_y=True)
SCALED = scaled(load_diabetes)
CANCER = scaled(load_breast_cancer)

REGRESSION = {
    "ridge": (dl.VerticalRidge(0.7), lm.Ridge(0.7), DIABETES),
    "ridge, no intercept": (
        dl.VerticalRidge(fit_intercept=False),
        lm.Ridge(fit_intercept=False),
        SCALED,
    ),
    "elastic net": (
        dl.VerticalElasticNet(0.3, l1_ratio=0.8),
        lm.ElasticNet(0.3, l1_ratio=0.8, tol=1e-12, max_iter=MANY),
        SCALED,
    ),
    "elastic net, weak": (
        dl.VerticalElasticNet(1e-4),
        lm.ElasticNet(1e-4, tol=1e-13, max_iter=MANY),
        DIABETES,
    ),
    "lasso": (dl.VerticalLasso(), lm.Lasso(tol=1e-12, max_iter=MANY), SCALED),
    "poisson": (dl.VerticalPoissonRegressor(), lm.PoissonRegressor(**POISSON), SCALED),
    "quantile": (
        dl.VerticalQuantileRegressor(alpha=0.1, quantile=0.3),
        lm.QuantileRegressor(alpha=0.1, quantile=0.3),
        SCALED,
    ),
}
SPLITS = [
    {"parties": 2},
    {"parties": 5, "network": "star"},
    {"parties": [[9, 0, 4], [1], [8, 2], [3, 5, 6, 7]], "network": nx.cycle_graph(4)},
]


def close(found, expected, relative):
    return np.abs(found - expected).max() <= relative * np.abs(expected).max()


CASES = [(name, i) for name in REGRESSION for i in range(3) if i == 2 or name[0] in "erl"]


@pytest.mark.parametrize(("name", "which"), CASES)
def test_regression(name, which):
    vertical, reference, (X, y) = REGRESSION[name]
    split = SPLITS[which]
    found = vertical.set_params(**split).fit(X, y)
    reference.fit(X, y)
    assert close(found.coef_, reference.coef_, 1e-5)
    assert found.intercept_ == pytest.approx(reference.intercept_, rel=1e-5)
    assert close(found.predict(X), reference.predict(X), 1e-5)
    assert found.score(X, y) == pytest.approx(reference.score(X, y), abs=1e-6)


def test_huber():
    """The reference is scikit-learn's objective, minimised further from its own answer."""
    X, y = SCALED
    found = dl.VerticalHuberRegressor(parties=3).fit(X, y)
    reference = lm.HuberRegressor(tol=1e-10, max_iter=MANY).fit(X, y)
    start = np.r_[reference.coef_, reference.intercept_, reference.scale_]

    def gradient(v):
        t = (X @ v[:10] + v[10] - y) / v[11]
        slope = 2 * np.clip(t, -1.35, 1.35)
        rest = np.where(np.abs(t) < 1.35, t**2, 2.7 * np.abs(t) - 1.35**2) - slope * t
        return np.r_[X.T @ slope + 2e-4 * v[:10], slope.sum(), len(y) + rest.sum()]

    def value(v):
        t = np.abs(X @ v[:10] + v[10] - y) / v[11]
        loss = np.where(t < 1.35, t**2, 2.7 * t - 1.35**2).sum()
        return v[11] * (len(y) + loss) + 1e-4 * v[:10] @ v[:10]

    exact = minimize(value, start, jac=gradient, method="BFGS", options={"gtol": 1e-7}).x
    assert np.abs(gradient(exact)).max() < 1e-2 * np.abs(gradient(start)).max()
    assert close(found.coef_, exact[:10], 1e-5)
    assert close(found.coef_, reference.coef_, 1e-4)
    assert found.scale_ == pytest.approx(exact[11], rel=1e-6)
    assert np.array_equal(found.outliers_, reference.outliers_)


TWO, RING = {"parties": 2}, {"parties": 5, "network": "cycle"}


@pytest.mark.parametrize(
    ("name", "split"),
    [("logistic", TWO), ("elastic logistic", RING), ("svc", TWO), ("svc", RING), ("hinge", TWO)],
)
def test_binary(name, split):
    X, y = CANCER
    exact = {"tol": 1e-12, "max_iter": MANY}
    vertical, reference = {
        "logistic": (
            dl.VerticalLogisticRegression(),
            lm.LogisticRegression(solver="newton-cholesky", **exact),
        ),
        "elastic logistic": (
            dl.VerticalLogisticRegression(C=0.1, l1_ratio=0.4),
            lm.LogisticRegression(C=0.1, l1_ratio=0.4, solver="saga", tol=1e-8, max_iter=MANY),
        ),
        "svc": (dl.VerticalLinearSVC(C=0.1), LinearSVC(C=0.1, dual=False, **exact)),
        "hinge": (
            dl.VerticalLinearSVC(C=0.1, loss="hinge"),
            LinearSVC(C=0.1, loss="hinge", tol=1e-9, max_iter=MANY, random_state=0),
        ),
    }[name]
    found = vertical.set_params(**split).fit(X, y)
    reference.fit(X, y)
    assert close(found.coef_, reference.coef_, 1e-4)
    assert close(found.intercept_, reference.intercept_, 1e-4)
    assert np.array_equal(found.predict(X), reference.predict(X))
    if hasattr(reference, "predict_proba"):
        assert np.abs(found.predict_proba(X) - reference.predict_proba(X)).max() < 1e-4


def test_one_against_the_rest():
    X, y = scaled(load_wine)
    inner = lm.LogisticRegression(solver="newton-cholesky", tol=1e-12)
    reference = OneVsRestClassifier(inner).fit(X, y)
    found = OneVsRestClassifier(dl.VerticalLogisticRegression(parties=4)).fit(X, y)
    assert np.abs(found.predict_proba(X) - reference.predict_proba(X)).max() < 1e-5
    svc = {"C": 0.1, "tol": 1e-12}
    reference = OneVsRestClassifier(LinearSVC(dual=False, **svc)).fit(X, y)
    found = dl.VerticalLinearSVC(C=0.1, parties=4).fit(X, y)
    coef = np.vstack([model.coef_ for model in reference.estimators_])
    assert close(found.coef_, coef, 1e-5)
    assert np.array_equal(found.predict(X), reference.predict(X))


def test_digits():
    X, y = load_digits(return_X_y=True)
    X, y = X[::4] / 16, y[::4] % 2
    found = dl.VerticalLinearSVC(parties=4, C=0.1).fit(X, y)
    reference = LinearSVC(C=0.1, dual=False, tol=1e-12).fit(X, y)
    assert close(found.coef_, reference.coef_, 1e-4)
    assert np.array_equal(found.predict(X), reference.predict(X))


def test_sample_weights_as_in_sklearn():
    X, y = SCALED
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    pairs = [
        (dl.VerticalRidge(2.0), lm.Ridge(2.0), 1e-5),
        (dl.VerticalElasticNet(0.5), lm.ElasticNet(0.5, tol=1e-12), 1e-5),
        (dl.VerticalPoissonRegressor(), lm.PoissonRegressor(**POISSON), 1e-5),
    ]
    for vertical, reference, accuracy in pairs:
        vertical.fit(X, y, weight)
        reference.fit(X, y, sample_weight=weight)
        assert close(vertical.coef_, reference.coef_, accuracy)
        assert vertical.intercept_ == pytest.approx(reference.intercept_, rel=1e-5)


@pytest.mark.parametrize("binding", [0.0, 140.0])
def test_nonnegative_predictions(binding):
    """Against a quadratic program; the constraint binds once the target is shifted down."""
    cp = pytest.importorskip("cvxpy")
    X, y = SCALED[0], SCALED[1] - binding
    with pytest.warns(FutureWarning, match="alpha now counts as in Ridge"):
        found = dl.VerticalNonnegativeRegression(0.1 * len(y), parties=3).fit(X, y)
    w, b = cp.Variable(10), cp.Variable()
    cost = cp.sum_squares(X @ w + b - y) / (2 * len(y)) + 0.05 * cp.sum_squares(w)
    exact = {"tol_gap_rel": 1e-12, "tol_gap_abs": 1e-12, "tol_feas": 1e-12}
    cp.Problem(cp.Minimize(cost), [X @ w + b >= 0]).solve(solver="CLARABEL", **exact)
    assert close(found.coef_, w.value, 1e-5)
    assert found.predict(X).min() > -1e-3
    assert (found.predict(X) < 1e-3).sum() > (3 if binding else -1)
