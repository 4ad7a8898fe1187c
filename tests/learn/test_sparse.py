"""Sparse tables give the models of the same dense ones, and stay sparse."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.linear_model import Lasso, LogisticRegression

import dual2 as d2
import dual2.learn as dl

RNG = np.random.default_rng(4)
TABLE = sp.random_array((120, 12), density=0.2, rng=RNG, format="csr")
DENSE = TABLE.toarray()
TARGET = DENSE @ RNG.standard_normal(12) + 0.3 * RNG.standard_normal(120) + 2.0
CLASSES = np.digitize(TARGET, [1.5, 2.5])
MODELS = [
    (dl.VerticalRidge(0.5), TARGET),
    (dl.VerticalLasso(0.01, standardize=True), TARGET),
    (dl.VerticalHuberRegressor(alpha=0.01), TARGET),
    (dl.VerticalPoissonRegressor(0.1), np.round(np.abs(TARGET))),
    (dl.VerticalQuantileRegressor(alpha=0.05, quantile=0.7), TARGET),
    (dl.VerticalLogisticRegression(), CLASSES),
    (dl.VerticalLinearSVC(C=0.5, standardize=True), CLASSES > 0),
]


@pytest.mark.parametrize(("model", "y"), MODELS, ids=lambda value: type(value).__name__)
def test_same_as_dense(model, y):
    thin, thick = clone(model).fit(TABLE, y), clone(model).fit(DENSE, y)
    assert np.abs(thin.coef_ - thick.coef_).max() <= 1e-6 * np.abs(thick.coef_).max()
    assert np.abs(thin.intercept_ - thick.intercept_).max() <= 1e-6
    assert np.allclose(thin.predict(TABLE[:9]), thick.predict(DENSE[:9]), rtol=1e-6)
    assert thin.communication_["table"] < thick.communication_["table"]
    if hasattr(thin, "dual_gap_"):
        assert 0 <= thin.dual_gap_ <= 1e-6 and thick.dual_gap_ <= 1e-6


def test_many_columns_against_scikit_learn():
    """Word counts: a thousand columns, of which a party holds its share, never made dense."""
    table = sp.random_array((400, 1000), density=0.01, rng=RNG, format="csc")
    labels = (table @ RNG.standard_normal(1000) > 0).astype(int)
    found = dl.VerticalLogisticRegression(C=2.0, parties=4).fit(table, labels)
    exact = LogisticRegression(C=2.0, solver="newton-cholesky", tol=1e-12).fit(table, labels)
    assert np.abs(found.coef_ - exact.coef_).max() <= 1e-5 * np.abs(exact.coef_).max()
    problem, _ = found.problem(table, labels)
    assert all(sp.issparse(agent.A) for agent in problem.agents)


def test_one_sparse_matrix_per_party():
    parts = [TABLE[:, :5], DENSE[:, 5:8], TABLE[:, 8:]]
    found = dl.VerticalLasso(0.02).fit(parts, TARGET)
    exact = Lasso(0.02, tol=1e-13, max_iter=10**6).fit(DENSE, TARGET)
    assert np.abs(found.coef_ - exact.coef_).max() <= 1e-5 * np.abs(exact.coef_).max()
    assert np.allclose(found.predict(parts), exact.predict(DENSE), rtol=1e-6)
    with pytest.raises(d2.ProblemError, match=r"different numbers of rows: \[120, 119\]"):
        dl.VerticalLasso().fit([TABLE, DENSE[:-1]], TARGET)


def test_path_of_a_sparse_table():
    thin, thick = (dl.lasso_path(X, TARGET, n_alphas=4, eps=0.1) for X in (TABLE, DENSE))
    assert np.allclose(thin.alphas, thick.alphas, rtol=1e-12)
    assert np.abs(thin.coefs - thick.coefs).max() <= 1e-6
