"""Vertical estimators beside scikit-learn's on the data bundled with it.

For every model: several splits of the columns and networks; coefficients (largest difference over
largest coefficient), predictions that differ, rounds, rounds of agreement, seconds. The answers
of scikit-learn are asked for with tight tolerances.

    python benchmarks/learn.py [--quick] [--out FILE]
"""

import argparse
import time
import warnings
from collections.abc import Iterator
from typing import Any

import networkx as nx
import numpy as np
from report import Report, load
from sklearn import linear_model as lm
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import dual2.learn as dl

MANY = 10**6
HEAD = (
    "model", "data", "parties, network", "coefficients", "predictions", "rounds", "agree rounds",
    "solves", "s", "s scikit-learn",
)  # fmt: skip
SPLITS = {
    "2, path": {"parties": 2, "network": "path"},
    "5, star": {"parties": 5, "network": "star"},
    "10, random": {"parties": 10, "network": nx.random_regular_graph(3, 10, seed=0)},
}


def scaled(data: Any) -> tuple[np.ndarray, np.ndarray]:
    """Columns of spread 1; grey levels of the digits, some of which are constant, from 0 to 1."""
    X, y = data(return_X_y=True)
    return (X / 16.0 if data is load_digits else StandardScaler().fit_transform(X)), y


def regressions() -> Iterator[tuple[str, Any, Any]]:
    yield "Ridge", dl.VerticalRidge(), lm.Ridge()
    exact = {"tol": 1e-13, "max_iter": MANY}
    yield "ElasticNet", dl.VerticalElasticNet(), lm.ElasticNet(**exact)
    yield "Lasso", dl.VerticalLasso(), lm.Lasso(**exact)
    yield "HuberRegressor", dl.VerticalHuberRegressor(), lm.HuberRegressor(**exact)
    newton = lm.PoissonRegressor(solver="newton-cholesky", tol=1e-12, max_iter=1000)
    yield "PoissonRegressor", dl.VerticalPoissonRegressor(), newton
    quantile = {"alpha": 0.1, "quantile": 0.8}
    yield (
        "QuantileRegressor", dl.VerticalQuantileRegressor(**quantile),
        lm.QuantileRegressor(**quantile),
    )  # fmt: skip


def classifications() -> Iterator[tuple[str, Any, Any]]:
    newton = lm.LogisticRegression(solver="newton-cholesky", tol=1e-12)
    yield "LogisticRegression", dl.VerticalLogisticRegression(), OneVsRestClassifier(newton)
    svc = LinearSVC(dual=False, tol=1e-12, max_iter=MANY)
    yield "LinearSVC", dl.VerticalLinearSVC(), OneVsRestClassifier(svc)


def compare(
    name: str, data: str, split: str, vertical: Any, reference: Any, X: Any, y: Any
) -> list[Any]:
    vertical.set_params(**SPLITS[split])
    begin = time.perf_counter()
    reference.fit(X, y)
    theirs = time.perf_counter() - begin
    begin = time.perf_counter()
    vertical.fit(X, y)
    ours = time.perf_counter() - begin
    models = getattr(reference, "estimators_", None)
    coef = reference.coef_ if models is None else np.vstack([m.coef_ for m in models])
    error = np.abs(vertical.coef_ - coef).max() / np.abs(coef).max()
    found, expected = vertical.predict(X), reference.predict(X)
    if models is None:
        differ = f"{np.abs(found - expected).max() / np.abs(expected).max():.1e}"
    else:
        differ = f"{int((found != expected).sum())} of {len(y)}"
    told = vertical.communication_
    counts = [told[key] for key in ("rounds", "agree_rounds", "solves")]
    return [name, data, split, f"{error:.1e}", differ, *counts, ours, theirs]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one split, no digits")
    parser.add_argument("--out", help="write the tables to this file, as Markdown")
    options = parser.parse_args()
    report, splits = Report(options.out), list(SPLITS)[: 1 if options.quick else None]
    warnings.simplefilter("ignore")
    dl.VerticalRidge().fit(np.eye(3), np.arange(3.0))  # compile before the clock runs
    sets = {"breast cancer": load_breast_cancer, "wine": load_wine, "digits": load_digits}
    rows = [
        compare(name, "diabetes", split, ours, theirs, *scaled(load_diabetes))
        for name, ours, theirs in regressions()
        for split in splits
    ]
    report.table("Regression: relative differences, rounds, seconds", HEAD, rows)
    rows = []
    for data, source in sets.items():
        if data == "digits" and options.quick:
            continue
        X, y = scaled(source)
        for name, ours, theirs in classifications():
            for split in splits[:1] if data == "digits" else splits:
                rows.append(compare(name, data, split, ours, theirs, X, y))
                print(rows[-1], flush=True)
    report.table("Classification (one against the rest): the same", HEAD, rows)
    report.say(load())
    report.save()


if __name__ == "__main__":
    main()
