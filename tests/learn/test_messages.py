"""Every mistake a user may make is named before anything is computed."""

import warnings

import networkx as nx
import numpy as np
import pandas
import pytest
from sklearn.exceptions import ConvergenceWarning

import dual2 as d2
import dual2.learn as dl

X = np.random.default_rng(0).standard_normal((12, 4))
Y = X @ [1.0, 2.0, 0.0, -1.0]
LABELS = Y > 0


@pytest.mark.parametrize(
    ("parties", "text"),
    [
        ([[0, 1], [1, 2, 3]], r"overlap: columns \[1\] .* by parties 0, 1"),
        ([[0, 1], [3]], r"Columns \[2\] belong to no party"),
        ([[0, 1], [2, 4]], r"Party 1: columns \[2, 4\] found; expected positions from 0 to 3"),
        ([[0, 1], []], "Party 1: .* at least one column"),
        ({"clinic": [0, 1], "lab": []}, "Party lab: .* at least one column"),
        ({"clinic": [0, 1], "lab": [1, 2, 3]}, "by parties clinic, lab"),
        ([["a"], [1, 2, 3]], r"Party 0: the columns \['a'\] are not in X.*set_output"),
        (5, "parties = 5 found, with n_features = 4"),
        (0, "parties = 0 found"),
        ("two", "parties = 'two' found; expected None, a number"),
    ],
)
def test_parties(parties, text):
    with pytest.raises(d2.ProblemError, match=text):
        dl.VerticalRidge(parties=parties).fit(X, Y)


@pytest.mark.parametrize(
    ("network", "text"),
    [
        (nx.path_graph(3), "network has 3 nodes but there are 2 parties"),
        ("ring", "Unknown network 'ring'.*Known: path, cycle, star, complete"),
        (nx.empty_graph(2), "not connected"),
    ],
)
def test_network(network, text):
    with pytest.raises(d2.NetworkError, match=text):
        dl.VerticalRidge(parties=2, network=network).fit(X, Y)


def test_a_network_of_other_names():
    parties = {"clinic": [0, 1], "lab": [2, 3]}
    with pytest.raises(d2.NetworkError, match=r"only one of the two: lab, leb\. Use the parties'"):
        dl.VerticalRidge(parties=parties, network=[("clinic", "leb")]).fit(X, Y)


def test_matrices():
    with pytest.raises(d2.ProblemError, match=r"different numbers of rows: \[12, 11\]"):
        dl.VerticalRidge().fit([X, X[:11]], Y)
    with pytest.raises(d2.ProblemError, match="Found 2 matrices, but parties = 3"):
        dl.VerticalRidge(parties=3).fit([X, X], Y)
    model = dl.VerticalRidge().fit([X[:, :1], X[:, 1:]], Y)
    with pytest.raises(d2.ProblemError, match=r"fitted with 2 parties with \[1, 3\] columns"):
        model.predict([X[:, :1], X[:, 1:2], X[:, 2:]])
    with pytest.raises(ValueError, match="X has 3 features, but VerticalRidge is expecting 4"):
        model.predict(X[:, :3])


def test_frames_are_compared_by_name():
    table = pandas.DataFrame(X, columns=list("abcd"))
    parts = [table[["a", "b"]], table[["c", "d"]]]
    model = dl.VerticalRidge().fit(parts, Y)
    np.testing.assert_array_equal(model.predict(parts), model.predict(table))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict([parts[0][["b", "a"]], parts[1]])


def test_frames_have_the_same_rows_and_different_columns():
    table = pandas.DataFrame(X, columns=list("abcd"), index=list("klmnopqrstuv"))
    parts = [table[["a", "b"]], table[["c", "d"]]]
    model = dl.VerticalRidge().fit(parts, Y)
    owners = {"bank": ["a", "b"], "shop": ["c", "d"]}
    named = dl.VerticalRidge(parties=owners, network=[("shop", "bank")]).fit(table, Y)
    np.testing.assert_array_equal(model.coef_, named.coef_)
    with pytest.raises(d2.ProblemError, match="parties 0 and 1 differ by their index"):
        dl.VerticalRidge().fit([parts[0], parts[1].iloc[::-1]], Y)
    with pytest.raises(d2.ProblemError, match=r"\['b'\] come from more than one party"):
        dl.VerticalRidge().fit([parts[0], table[["b", "c"]]], Y)
    with pytest.raises(d2.ProblemError, match=r"Party 1 brings an array of shape \(12,\)"):
        dl.VerticalRidge().fit([parts[0], table["c"]], Y)


def test_a_target_in_another_order_is_refused():
    table = pandas.DataFrame(X, columns=list("abcd"))
    target = pandas.Series(Y)
    expected = dl.VerticalRidge().fit(X, Y).coef_
    with pytest.raises(
        d2.ProblemError, match=r"index of y is not that of X: position 0 is 11 .*loc"
    ):
        dl.VerticalRidge().fit(table, target.iloc[::-1])
    with pytest.raises(d2.ProblemError, match="index of sample_weight is not that of X"):
        dl.VerticalRidge().fit([table[["a"]], table[["b"]]], target, target.iloc[::-1])
    named = table.set_axis(list("klmnopqrstuv"))
    with pytest.raises(d2.ProblemError, match="position 1 is 'x' there and 'l' in X"):
        dl.VerticalRidge().fit(named, target.set_axis(list("kxmnopqrstuv")))
    for rows in (table, named):  # a plain numbering says nothing about the rows
        np.testing.assert_array_equal(dl.VerticalRidge().fit(rows, target).coef_, expected)


def test_large_columns_are_named_when_training_takes_long(monkeypatch):
    monkeypatch.setattr(dl.reporting, "MANY_ROUNDS", 5)
    wide = X * [1.0, 1.0, 1.0, 5000.0]
    with pytest.warns(UserWarning, match=r"took \d+ rounds. The spread .*standardize=True"):
        dl.VerticalRidge().fit(wide, Y)
    with pytest.warns(ConvergenceWarning, match="MAX_ROUNDS .*standardize=True"):
        dl.VerticalRidge(max_iter=2).fit(wide, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dl.VerticalRidge(standardize=True).fit(wide, Y)
        dl.VerticalRidge().fit(X, Y)


def test_warnings_say_what_is_missing():
    with pytest.warns(ConvergenceWarning, match=r"MAX_ROUNDS after 2 rounds: KKT .*e-\d\d, tol"):
        dl.VerticalRidge(max_iter=2).fit(X, Y)
    with pytest.warns(ConvergenceWarning, match="still moves .* no finite solution"):
        dl.VerticalLogisticRegression(C=np.inf, parties=1).fit(X[:, :1], X[:, 0] > 0)


def test_decision_functions_are_numbered():
    with pytest.raises(d2.ProblemError, match="target = 1 found; the model has 1 decision"):
        dl.VerticalLogisticRegression().problem(X, LABELS, target=1)


@pytest.mark.parametrize(
    ("model", "y", "text"),
    [
        (dl.VerticalPoissonRegressor(), Y, r"y\[\d+\] = -.* counts of at least 0"),
        (dl.VerticalLogisticRegression(), Y, "Unknown label type: continuous"),
        (dl.VerticalLogisticRegression(), np.ones(12), "samples of at least 2 classes"),
        (dl.VerticalLogisticRegression(C=0), LABELS, "C = 0 found"),
        (dl.VerticalLogisticRegression(l1_ratio=2), LABELS, "l1_ratio = 2 found"),
        (dl.VerticalLinearSVC(loss="log"), LABELS, "loss = 'log' found"),
        (dl.VerticalLinearSVC(intercept_scaling=0), LABELS, "intercept_scaling = 0 found"),
        (dl.VerticalRidge(alpha=-1), Y, "alpha = -1 found"),
        (dl.VerticalRidge(alpha="1"), Y, "alpha = '1' found; expected a finite number"),
        (dl.VerticalRidge(alpha=np.inf), Y, "alpha = inf found; expected a finite number"),
        (dl.VerticalRidge(max_iter=-1), Y, "max_iter = -1 found"),
        (dl.VerticalRidge(tol="low"), Y, "tol = 'low' found"),
        (dl.VerticalElasticNet(l1_ratio=-1), Y, "l1_ratio = -1 found"),
        (dl.VerticalHuberRegressor(epsilon=0.5), Y, "epsilon = 0.5 found"),
        (dl.VerticalQuantileRegressor(quantile=1), Y, "quantile = 1 found"),
        (dl.VerticalRidge(method="gossip"), Y, "Unknown method 'gossip'"),
        (dl.VerticalRidge(runtime="cloud"), Y, "cloud"),
    ],
)
def test_arguments(model, y, text):
    with pytest.raises(ValueError, match=text):
        model.fit(X, y)


def test_no_weight():
    with pytest.raises(d2.ProblemError, match=r"sample_weight\[0\] = -1 found"):
        dl.VerticalRidge().fit(X, Y, -np.ones(12))
    with pytest.raises(ValueError, match="zero"):
        dl.VerticalRidge().fit(X, Y, np.zeros(12))
    with pytest.raises(d2.ProblemError, match="All samples of class True have weight 0"):
        dl.VerticalLogisticRegression().fit(X, LABELS, 1.0 - LABELS)
    with pytest.raises(d2.ProblemError, match="All sample weights are zero"):
        dl.VerticalLinearSVC(class_weight={False: 0, True: 0}).fit(X, LABELS)
