"""Tables that are not what one expects, beside scikit-learn's answers."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import linear_model as lm
from sklearn.svm import LinearSVC

import dual2.learn as dl

RNG = np.random.default_rng(11)
X = RNG.standard_normal((40, 6))
Y = X @ [1.0, 0.0, -2.0, 0.0, 0.5, 0.0] + 0.3 * RNG.standard_normal(40)
LABELS = (Y + 0.5 * RNG.standard_normal(40) > 0).astype(int)
WEIGHTS = RNG.integers(1, 4, 40).astype(float)


def with_column(column):
    return np.column_stack([X[:, :5], column])


TABLES = {
    "a constant column": with_column(np.full(40, 3.0)),
    "a column of zeros": with_column(np.zeros(40)),
    "a column twice": with_column(X[:, 0]),
    "one column": X[:, :1],
    "more columns than rows": RNG.standard_normal((40, 70)),
    "huge and tiny units": X * [1e4, 1.0, 1e-3, 1.0, 1e2, 1.0],
    "far from zero": X + 1e3,
    "sparse": sp.csr_array(X * (np.abs(X) > 0.8)),
    "integers": np.round(3 * X).astype(int),
    "few rows": X[:3],
}
REGRESSIONS = {
    "ridge": (dl.VerticalRidge(0.5), lm.Ridge(0.5, solver="svd")),
    "lasso": (dl.VerticalLasso(0.05), lm.Lasso(0.05, tol=1e-13, max_iter=10**6)),
    "elastic net": (dl.VerticalElasticNet(0.1), lm.ElasticNet(0.1, tol=1e-13, max_iter=10**6)),
    "quantile": (
        dl.VerticalQuantileRegressor(quantile=0.7, alpha=0.02),
        lm.QuantileRegressor(quantile=0.7, alpha=0.02),
    ),
}
NEWTON = {"solver": "newton-cholesky", "tol": 1e-13, "max_iter": 1000}
CLASSIFIERS = {
    "logistic": (dl.VerticalLogisticRegression(), lm.LogisticRegression(**NEWTON)),
    "svc": (dl.VerticalLinearSVC(), LinearSVC(dual=False, tol=1e-12, max_iter=10**6)),
}


def objective(model, A, y):
    """Of the quantile regression, whose coefficients need not be unique."""
    t = y - model.predict(A)
    return np.maximum(0.7 * t, -0.3 * t).mean() + 0.02 * np.abs(model.coef_).sum()


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("model", REGRESSIONS)
def test_regressions(model, table):
    ours, theirs = REGRESSIONS[model]
    A, y = TABLES[table], Y[: TABLES[table].shape[0]]
    if model == "ridge" and sp.issparse(A):
        theirs = lm.Ridge(0.5, solver="sparse_cg", tol=1e-14)
    ours.fit(A, y)
    theirs.fit(A if model != "quantile" or not sp.issparse(A) else A.toarray(), y)
    if model == "quantile":
        dense = A.toarray() if sp.issparse(A) else A
        assert objective(ours, dense, y) <= objective(theirs, dense, y) * (1 + 1e-7) + 1e-9
        return
    np.testing.assert_allclose(ours.predict(A), theirs.predict(A), atol=1e-6 * np.abs(y).max())
    if table not in ("a column twice", "more columns than rows"):  # else a lasso has many
        size = np.abs(theirs.coef_).max()
        np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-6 * size)


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("model", CLASSIFIERS)
def test_classifiers(model, table):
    ours, theirs = CLASSIFIERS[model]
    A = TABLES[table]
    labels = LABELS[: A.shape[0]] if A.shape[0] > 3 else np.array([0, 1, 1])
    ours.fit(A, labels)
    if model == "logistic" and sp.issparse(A):
        theirs = lm.LogisticRegression(solver="lbfgs", tol=1e-13, max_iter=10**5)
    theirs.fit(A, labels)
    size = np.abs(theirs.coef_).max()
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5 * size)
    np.testing.assert_allclose(ours.decision_function(A), theirs.decision_function(A), atol=1e-4)


@pytest.mark.parametrize("C", [0.01, 100.0])
def test_classes_that_are_rare_and_weighted(C):
    rare = np.zeros(40, dtype=int)
    rare[[3, 17]] = 1
    sums = [WEIGHTS[rare == label].sum() for label in (0, 1)]
    even = {label: WEIGHTS.sum() / (2 * sums[label]) for label in (0, 1)}
    for balance, same in ((None, None), ("balanced", even), ({0: 2.0, 1: 3.0}, {0: 2.0, 1: 3.0})):
        ours = dl.VerticalLogisticRegression(C=C, class_weight=balance)
        theirs = lm.LogisticRegression(C=C, class_weight=same, **NEWTON)
        for model in (ours, theirs):
            model.fit(X, rare, sample_weight=WEIGHTS)
        size = np.abs(theirs.coef_).max()
        np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5 * size)


def test_a_frame_with_an_odd_index():
    pd = pytest.importorskip("pandas")
    index = pd.MultiIndex.from_arrays([list("ab") * 20, np.arange(40)[::-1]])
    frame = pd.DataFrame(X, index=index, columns=[0, "b", 2.5, ("c", 1), "e", "f"])
    target = pd.Series(Y, index=index)
    plain = dl.VerticalRidge().fit(X, Y)
    frame.columns = [str(name) for name in frame.columns]
    np.testing.assert_array_equal(dl.VerticalRidge().fit(frame, target).coef_, plain.coef_)


def test_one_row():
    for model in (dl.VerticalRidge(), dl.VerticalLasso(), dl.VerticalQuantileRegressor()):
        assert model.fit(X[:1], [2.0]).predict(X[:1]) == pytest.approx([2.0], abs=1e-6)
