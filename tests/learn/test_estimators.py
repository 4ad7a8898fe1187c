"""The estimators as scikit-learn expects them: checks, pipelines, searches, clones, pickles."""

import pickle
import subprocess
import sys

import networkx as nx
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso
from sklearn.linear_model import enet_path as sklearn_path
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import dual2 as d2
import dual2.learn as dl
from dual2.solving.storage import load_problem, save_problem

pytestmark = pytest.mark.filterwarnings("ignore:VerticalNonnegativeRegression:FutureWarning")
KINDS = [
    dl.VerticalElasticNet,
    dl.VerticalHuberRegressor,
    dl.VerticalLasso,
    dl.VerticalLinearSVC,
    dl.VerticalLogisticRegression,
    dl.VerticalNonnegativeRegression,
    dl.VerticalPoissonRegressor,
    dl.VerticalQuantileRegressor,
    dl.VerticalRidge,
]
ALL = [kind(tol=1e-9) for kind in KINDS]
NEWTON = [
    dl.VerticalGammaRegressor(tol=1e-9),
    dl.VerticalOrdinalRegression(alpha=1.0, tol=1e-9),
    dl.VerticalTweedieRegressor(tol=1e-9),
]
"""Models that the holder of the labels fits by Newton's method in the coefficients."""
"""With a tolerance to match the 1e-7 to which scikit-learn compares two solutions."""
X, Y = load_diabetes(return_X_y=True)
X = X / X.std(axis=0)


@pytest.mark.parametrize("estimator", ALL + NEWTON, ids=lambda e: type(e).__name__)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scikit_learn_checks(estimator):
    """Without one exception."""
    done = check_estimator(estimator, on_skip=None)
    assert {check["status"] for check in done} <= {"passed", "skipped"}


@pytest.mark.parametrize("kind", ALL, ids=lambda e: type(e).__name__)
def test_sample_weight(kind):
    """Integer weights are repetitions, weight 0 leaves a row out."""
    rng = np.random.default_rng(1)
    rows, weight = rng.standard_normal((24, 3)), rng.integers(0, 4, 24)
    target = np.round(np.exp(rows @ [0.5, 0.2, -0.5] + 0.3 * rng.standard_normal(24)))
    if hasattr(kind, "decision_function"):
        target = (target > 1).astype(int)
    model = clone(kind).set_params(tol=1e-9)
    once = clone(model).fit(np.repeat(rows, weight, axis=0), np.repeat(target, weight))
    model.fit(rows, target, sample_weight=weight)
    assert np.abs(model.coef_ - once.coef_).max() <= 1e-5 * np.abs(once.coef_).max()


def test_one_matrix_per_party():
    whole = dl.VerticalRidge(parties=[[0, 1, 2], [3], [4, 5, 6, 7, 8, 9]]).fit(X, Y)
    parts = [X[:, :3], X[:, 3:4], X[:, 4:]]
    model = dl.VerticalRidge(network=nx.path_graph(3)).fit(parts, Y)
    assert np.array_equal(model.coef_, whole.coef_)
    assert np.allclose(model.predict(parts), whole.predict(X), rtol=1e-12)
    assert [part.shape for part in model.party_coef_] == [(3,), (1,), (6,)]
    permuted = dl.VerticalRidge(parties=[[9, 0], [1, 2, 3, 4, 5, 6, 7, 8]]).fit(X, Y)
    split = [X[:, [9, 0]], X[:, 1:9]]
    assert np.allclose(permuted.predict(split), permuted.predict(X), rtol=1e-12)
    assert np.array_equal(permuted.party_coef_[0], permuted.coef_[[9, 0]])


def test_columns_by_name():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X[:, :3], columns=["age", "sex", "bmi"])
    model = dl.VerticalRidge(parties=[["bmi"], ["age", "sex"]]).fit(frame, Y)
    plain = dl.VerticalRidge(parties=[[2], [0, 1]]).fit(X[:, :3], Y)
    assert np.array_equal(model.coef_, plain.coef_)
    with pytest.raises(d2.ProblemError, match=r"\['weight'\] are not in X"):
        dl.VerticalRidge(parties=[["weight"], ["age", "sex"]]).fit(frame, Y)


def test_pipeline_search_clone_and_pickle():
    pipe = make_pipeline(StandardScaler(), dl.VerticalElasticNet(parties=3, network="complete"))
    search = GridSearchCV(pipe, {"verticalelasticnet__alpha": [0.1, 10.0]}, cv=3).fit(X, Y)
    assert search.best_params_ == {"verticalelasticnet__alpha": 0.1}
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    assert np.array_equal(again.predict(X), search.predict(X))
    copy = clone(search.best_estimator_)[-1]
    assert copy.get_params()["network"] == "complete" and not hasattr(copy, "coef_")


def test_standardize_is_a_scaler_inside_each_party():
    raw = X * np.logspace(0, 3, 10)
    inside = dl.VerticalLasso(2.0, standardize=True, parties=4).fit(raw, Y)
    outside = make_pipeline(StandardScaler(), Lasso(2.0, tol=1e-12)).fit(raw, Y)
    assert np.allclose(inside.predict(raw), outside.predict(raw), rtol=1e-5)


def test_what_the_lasso_says_about_its_ridge():
    model = dl.VerticalLasso(1.0, parties=3).fit(X, Y)
    reference = Lasso(1.0, tol=1e-13, max_iter=10**6).fit(X, Y)
    objective = lambda m: (  # noqa: E731
        np.sum((Y - m.predict(X)) ** 2) / (2 * len(Y)) + np.abs(m.coef_).sum()
    )
    excess = objective(model) - objective(reference)
    assert excess <= model.dual_gap_ + 1e-9 and model.dual_gap_ <= 1e-5 * objective(reference)
    error = np.linalg.norm(model.coef_ - reference.coef_) / np.linalg.norm(reference.coef_)
    assert error <= 10 * max(model.ridge_effect_, model.tol)


def test_path_with_warm_starts():
    found = dl.enet_path(X, Y, n_alphas=12, eps=1e-2, parties=3)
    centred, y = X - X.mean(axis=0), Y - Y.mean()
    top = 2 * np.abs(centred.T @ y).max() / len(y)
    alphas, coefs, _ = sklearn_path(centred, y, alphas=np.geomspace(top, top / 100, 12), tol=1e-12)
    assert np.allclose(found.alphas, alphas)
    assert np.abs(found.coefs - coefs).max() <= 1e-5 * np.abs(coefs).max()
    gossip = dl.enet_path(X, Y, alphas=[alphas[3]] * 2, parties=3, method="iD2A")
    assert gossip.rounds[1] < gossip.rounds[0] / 2
    lasso = dl.lasso_path(X, Y, alphas=[1.0, 30.0], parties=2)
    assert np.array_equal(lasso.alphas, [30.0, 1.0])
    with pytest.raises(d2.ProblemError, match="Give alphas yourself"):
        dl.enet_path(X, Y, l1_ratio=0)


@pytest.mark.parametrize(("method", "share"), [("auto", 1.0), ("iD2A", 1 / 3)])
def test_warm_start_needs_fewer_rounds(method, share):
    model = dl.VerticalRidge(warm_start=True, parties=4, method=method).fit(X, Y)
    first = model.n_iter_
    assert model.fit(X, Y).n_iter_ < first * share


def test_methods_by_gossip_approach_the_same_model():
    model, other = (dl.VerticalLasso(2.0, method=how).fit(X, Y) for how in ("auto", "iD2A"))
    assert np.abs(model.coef_ - other.coef_).max() <= 1e-6 * np.abs(model.coef_).max()
    assert model.communication_["solves"] == 1 < other.communication_["solves"]
    assert model.ridge_effect_ == 0 < other.ridge_effect_ and other.communication_["vectors"] > 0


def test_the_problem_is_the_model():
    """Nothing is added: no ridge on the intercept or on the coefficients of a lasso."""
    problem, _ = dl.VerticalLogisticRegression(C=0.5).fit(X, Y > 150).problem(X, Y > 150)
    curvatures = np.concatenate([agent.f.grad(np.ones(agent.dim)) for agent in problem.agents])
    np.testing.assert_array_equal(curvatures, [2.0] * 10 + [0.0])
    problem, _ = dl.VerticalLasso().problem(X, Y)
    assert not any(agent.f.grad(np.ones(agent.dim)).any() for agent in problem.agents)


def test_problem_folder(tmp_path):
    model = dl.VerticalLasso(1.0, parties=4).fit(X, Y)
    problem, network = model.problem(X, Y)
    save_problem(tmp_path / "lasso", problem, network)
    again = load_problem(tmp_path / "lasso")
    result = d2.solve(again.problem, again.network)
    found = np.concatenate(result.x)
    assert np.abs(found - model.coef_).max() <= 1e-5 * np.abs(model.coef_).max()


def test_what_was_communicated():
    model = dl.VerticalRidge(parties=4).fit(X, Y)
    told = model.communication_
    assert told["solves"] == 1 and told["rounds"] == model.result_.counts.rounds == model.n_iter_
    assert told["table"] == X.size and told["rounds"] == 2 * model.result_.counts.sums * 2
    assert told["floats"] >= told["sums"] * len(Y) * 2 * 3  # both ways along three edges
    assert model.result_.certificate.kkt <= 1e-7


def test_too_few_rounds_warn():
    with pytest.warns(ConvergenceWarning, match="MAX_ROUNDS after .* rounds"):
        dl.VerticalLasso(max_iter=4).fit(X, Y)


def test_importing_dual2_does_not_import_scikit_learn():
    code = (
        "import sys, dual2; assert 'sklearn' not in sys.modules; sys.modules['sklearn'] = None\n"
        "try:\n    dual2.learn\nexcept ImportError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'dual2[learn]'" in done.stdout
