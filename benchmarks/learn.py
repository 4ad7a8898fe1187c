"""Vertical estimators beside scikit-learn's on the data bundled with it.

``models``: for every model coefficients (largest difference over largest coefficient), predictions
that differ, sums, latency (all rounds), numbers sent over numbers in the table, processor seconds;
by the default method or ``--method``, with two parties and, with ``--splits``, other splits of the
columns and networks. The answers of scikit-learn are asked for with tight tolerances; for the Huber
regression, where they do not suffice, its objective is minimised once more by Newton's method
(``huber``). ``scales``: rounds with and without
``standardize``. ``sums``: Newton over exact sums of p-vectors on fixed problems: sums to a KKT
residual of 1e-8, numbers sent over numbers in the table, processor seconds beside scikit-learn's.
``paths``: sums of falling penalties, each fit from the one before or from nothing. Parts:
``models``, ``huber``, ``scales``, ``sums``, ``paths``.
"""

import argparse
import time
import warnings
from collections.abc import Iterator
from itertools import product
from typing import Any

import networkx as nx
import numpy as np
from scipy.optimize import root
from sklearn import linear_model as lm
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

import dual2 as d2
import dual2.learn as dl
from common.report import Report, parse, report_parts

MANY = 10**6
CLOSE = 1e-4
"""Largest relative difference of coefficients; scikit-learn's own with Huber's loss included."""
HEAD = (
    "model", "data", "parties, network", "coefficients", "predictions", "sums", "latency",
    "solves", "sent/table", "CPU s", "CPU s scikit-learn", "ratio",
)  # fmt: skip
SPLITS = {
    "2, path": {"parties": 2, "network": "path"},
    "5, star": {"parties": 5, "network": "star"},
    "10, random": {"parties": 10, "network": nx.random_regular_graph(3, 10, seed=0)},
}


def scaled(data: Any, every: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Columns of spread 1; grey levels of the digits, some of which are constant, from 0 to 1."""
    X, y = read(data, every)
    return (X / 16.0 if data is load_digits else StandardScaler().fit_transform(X)), y


def read(data: Any, every: int) -> tuple[np.ndarray, np.ndarray]:
    """Every k-th row."""
    X, y = data(return_X_y=True)
    return X[::every], y[::every]


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
        "QuantileRegressor",
        dl.VerticalQuantileRegressor(**quantile),
        lm.QuantileRegressor(**quantile),
    )


def classifications() -> Iterator[tuple[str, Any, Any]]:
    newton = lm.LogisticRegression(solver="newton-cholesky", tol=1e-12, max_iter=1000)
    yield "LogisticRegression", dl.VerticalLogisticRegression(), newton
    svc = LinearSVC(dual=False, tol=1e-12, max_iter=MANY)
    yield "LinearSVC", dl.VerticalLinearSVC(), OneVsRestClassifier(svc)


def compare(
    name: str, data: str, split: str, vertical: Any, reference: Any, X: Any, y: Any
) -> list[Any]:
    vertical.set_params(**SPLITS[split])
    begin = time.process_time()
    reference.fit(X, y)
    theirs = time.process_time() - begin
    begin = time.process_time()
    vertical.fit(X, y)
    ours = time.process_time() - begin
    models = getattr(reference, "estimators_", None)
    coef = reference.coef_ if models is None else np.vstack([m.coef_ for m in models])
    error = np.abs(vertical.coef_ - coef).max() / np.abs(coef).max()
    found, expected = vertical.predict(X), reference.predict(X)
    if not hasattr(vertical, "classes_"):
        differ = f"{np.abs(found - expected).max() / np.abs(expected).max():.1e}"
    else:
        differ = f"{int((found != expected).sum())} of {len(y)}"
    told = vertical.communication_
    counts = [told[key] for key in ("sums", "latency", "solves")]
    sent = told["floats"] / told["table"]
    row = [name, data, split, f"{error:.1e}", differ, *counts, sent, ours, theirs, ours / theirs]
    print(*row, sep=", ", flush=True)
    return row


def data_sets(options: argparse.Namespace) -> Iterator[tuple[str, Any, Any, Any]]:
    """Name, table, target, pairs of models; those of a large table only where asked for all."""
    short = 2 if options.smoke else None
    yield "diabetes", *scaled(load_diabetes, options.every), list(regressions())[:short]
    sets = {"breast cancer": load_breast_cancer, "wine": load_wine, "digits": load_digits}
    few = short or (2 if options.method != "auto" else None)  # ten classes by gossip take hours
    for name, source in list(sets.items())[:few]:
        yield name, *scaled(source, options.every), list(classifications())
    if not options.smoke and options.method == "auto":
        X, labels = labelled(20_000, 60, False)
        score = X @ np.arange(60.0) + np.random.default_rng(1).standard_normal(20_000)
        some = [row for row in regressions() if row[0] in ("Ridge", "ElasticNet", "Lasso")]
        yield "20 000 × 60", X, score, some
        yield "20 000 × 60", X, labels, list(classifications())


def report_models(report: Report, options: argparse.Namespace) -> None:
    splits = list(SPLITS)[: None if options.splits else 1]
    rows = [
        compare(name, data, split, ours.set_params(method=options.method), theirs, X, y)
        for data, X, y, pairs in data_sets(options)
        for name, ours, theirs in pairs
        for split in splits
    ]
    report.table(f"Estimators beside scikit-learn's, method={options.method!r}", HEAD, rows)
    more = [row for row in rows if " of " in str(row[4])]
    far = [row[:4] for row in rows if not float(row[3]) <= CLOSE]
    report.expect(not far, f"coefficients are not scikit-learn's: {far}.")
    other = [row[:5] for row in more if not row[4].startswith("0 of")]
    report.expect(not other, f"predicted classes are not scikit-learn's: {other}.")


# -- Huber's loss ---------------------------------------------------------------------------------


def huber_slope(point: np.ndarray, X: np.ndarray, y: np.ndarray, theirs: Any) -> np.ndarray:
    """Gradient of Σ σ + σ H((Xw + b - y)/σ) + alpha|w|² at (w, b, σ), H as in scikit-learn."""
    w, b, sigma = point[:-2], point[-2], point[-1]
    t = (X @ w + b - y) / sigma
    inside = np.abs(t) <= theirs.epsilon
    slope = np.where(inside, 2 * t, 2 * theirs.epsilon * np.sign(t))
    height = np.where(inside, t**2, 2 * theirs.epsilon * np.abs(t) - theirs.epsilon**2)
    change = np.sum(1 + height - slope * t)
    return np.concatenate([X.T @ slope + 2 * theirs.alpha * w, [slope.sum(), change]])


def report_huber(report: Report, options: argparse.Namespace) -> None:
    X, y = scaled(load_diabetes, options.every)
    theirs = lm.HuberRegressor(tol=1e-13, max_iter=MANY).fit(X, y)
    ours = dl.VerticalHuberRegressor(**SPLITS["2, path"]).fit(X, y)
    begin = np.array([*theirs.coef_, theirs.intercept_, theirs.scale_])
    found = root(huber_slope, begin, args=(X, y, theirs), tol=1e-13)
    best = found.x[:-2]
    rows = [
        [name, float(np.abs(model.coef_ - best).max() / np.abs(best).max())]
        for name, model in (("dual2", ours), ("scikit-learn", theirs))
    ]
    title = f"Huber regression: distance to a root of the gradient ({np.abs(found.fun).max():.0e})"
    report.table(title, ["model", "coefficients"], rows)
    report.expect(rows[0][1] <= 1e-6, "the coefficients are not those of the objective.")


# -- scales of the columns ------------------------------------------------------------------------


def report_scales(report: Report, options: argparse.Namespace) -> None:
    logistic, svc = dl.VerticalLogisticRegression, dl.VerticalLinearSVC
    sets = {
        "wine, first class": (load_wine, 0, [logistic, svc]),
        "digits, the eights": (load_digits, 8, [logistic, svc]),
        "breast cancer": (load_breast_cancer, 1, [dl.VerticalRidge, logistic, svc]),
    }
    rows = []
    for name, (source, label, models) in list(sets.items())[: 1 if options.smoke else None]:
        X, y = read(source, options.every)
        for model in models:
            rounds = [
                model(parties=2, standardize=wanted, method="iD2A")
                .fit(X, y == label)
                .communication_["rounds"]
                for wanted in (False, True)
            ]
            rows.append([name, X.std(axis=0).max(), model.__name__, *rounds])
            report.expect(rounds[1] < rounds[0], f"{name}: scaled columns cost more rounds.")
    head = ["data", "largest spread", "model", "rounds as they are", "rounds standardised"]
    report.table("Rounds of iD2A with the default parameters and two parties", head, rows)


# -- sums of p-vectors ----------------------------------------------------------------------------

RIDGE, L1 = 1.0, 1.0


def labelled(samples: int, columns: int, mixed: bool) -> tuple[np.ndarray, np.ndarray]:
    """A random table, its columns ``mixed`` or independent, and labels that it explains in part."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((samples, columns))
    if mixed:
        X = X @ rng.standard_normal((columns, columns))
    X /= X.std(axis=0)
    score = X @ rng.standard_normal(columns)
    return X, np.sign(score / score.std() + rng.standard_normal(samples))


def logistic_of(C: float = 1.0 / RIDGE) -> Any:
    return lm.LogisticRegression(C=C, solver="newton-cholesky", tol=1e-8, fit_intercept=False)


def sum_cases(smoke: bool) -> Iterator[tuple[str, np.ndarray, Any, Any, int, int, Any]]:
    """Name, table, h, g, parties, sums aimed at (0: only reported), scikit-learn's model."""
    X, y = scaled(load_breast_cancer)
    labels = 2.0 * y - 1.0
    hinge = LinearSVC(loss="hinge", dual=True, tol=1e-8, max_iter=MANY, fit_intercept=False)
    logistic, l1 = d2.LogisticLoss(labels), d2.L1Norm(L1)
    sparse = lm.LogisticRegression(
        C=1.0, l1_ratio=1.0, solver="liblinear", tol=1e-8, max_iter=MANY, fit_intercept=False
    )
    yield "breast cancer logistic", X, logistic, d2.Zero(), 5, 45, logistic_of()
    yield "breast cancer hinge", X, d2.HingeLoss(labels), d2.Zero(), 5, 45, hinge
    yield "breast cancer logistic + l1", X, logistic, l1, 5, 0, sparse
    yield "breast cancer hinge + l1", X, d2.HingeLoss(labels), l1, 5, 0, None
    X, y = scaled(load_diabetes)
    y = (y - y.mean()) / y.std()
    yield "diabetes quantile 0.7", X, d2.QuantileLoss(y, 0.7), d2.Zero(), 5, 15, None
    if smoke:
        return
    X, y = scaled(load_digits)
    labels = np.where(y == 8, 1.0, -1.0)
    yield "digits, the eights, hinge", X, d2.HingeLoss(labels), d2.Zero(), 4, 65, hinge
    yield "digits, the eights, logistic + l1", X, d2.LogisticLoss(labels), l1, 4, 0, sparse
    tables = [(20_000, 60, 35), (100_000, 40, 45)]
    for (samples, columns, most), mixed in product(tables, (False, True)):
        X, labels = labelled(samples, columns, mixed)
        name = f"logistic {samples} × {columns}, {'mixed' if mixed else 'independent'} columns"
        yield name, X, d2.LogisticLoss(labels), d2.Zero(), 4, most, logistic_of()


def report_sums(report: Report, options: argparse.Namespace) -> None:
    rows = []
    for name, X, h, g, parties, most, theirs in sum_cases(options.smoke):
        agents = [d2.Agent(A, d2.SquaredNorm(RIDGE), g) for A in np.array_split(X, parties, axis=1)]
        problem, network = d2.Problem(agents, h), d2.Network(nx.star_graph(parties - 1))
        how = {"method": "Newton", "mode": "primal", "record": False, "progress": False}
        d2.solve(problem, network, **how, max_rounds=2)  # compile before the clock runs
        begin = time.process_time()
        result = d2.solve(problem, network, **how)
        ours = time.process_time() - begin
        sent = result.counts.floats / X.size
        begin, seconds = time.process_time(), float("nan")
        if theirs is not None:
            theirs.fit(X, h.labels)
            seconds = time.process_time() - begin
        told = [str(result.status), result.counts.sums, most or "", sent, ours, seconds]
        rows.append([name, *told, ours / seconds])
        print(*rows[-1], sep=", ", flush=True)
        report.expect(result.status == "CONVERGED", f"{name}: {result.status}.")
        report.expect(not most or result.counts.sums <= most, f"{name}: too many sums.")
    head = [
        "problem",
        "status",
        "sums",
        "aim",
        "numbers sent/table",
        "s",
        "s scikit-learn",
        "ratio",
    ]
    report.table("Sums of p-vectors to a KKT residual of 1e-8", head, rows)


# -- paths ----------------------------------------------------------------------------------------


def report_paths(report: Report, options: argparse.Namespace) -> None:
    strengths, rows = np.geomspace(1e-3, 1.0, 4 if options.smoke else 12), []
    X, y = scaled(load_diabetes, options.every)
    Z, labels = scaled(load_breast_cancer, options.every)
    cases = [
        ("lasso", dl.VerticalLasso(), X, y, 45.0 * strengths),
        ("elastic net", dl.VerticalElasticNet(), X, y, 90.0 * strengths),
        ("logistic", dl.VerticalLogisticRegression(), Z, labels, strengths),
    ]
    for name, model, table, target, values in cases:
        model.set_params(method=options.method)
        path = dl.regularisation_path(model, table, target, values)
        key, cold = ("C" if hasattr(model, "C") else "alpha"), []
        for value in path.strengths:
            fitted = model.set_params(**{key: value}).fit(table, target)
            cold.append((fitted.communication_["sums"], fitted.coef_))
        gap = max(np.abs(a - b[1]).max() for a, b in zip(path.coefs, cold, strict=True))
        error = gap / np.abs(path.coefs).max()
        rows.append([name, len(values), int(path.sums.sum()), sum(c[0] for c in cold), error])
        report.expect(error <= CLOSE, f"{name}: warm and cold coefficients differ by {error:.1e}.")
    head = ["model", "penalties", "sums, warm", "sums, cold", "coefficients differ by"]
    report.table("Paths of falling penalties", head, rows)


PARTS = {
    "models": report_models,
    "huber": report_huber,
    "scales": report_scales,
    "sums": report_sums,
    "paths": report_paths,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="take only every k-th row")
    parser.add_argument("--method", default="auto", help="of the estimators; default auto")
    parser.add_argument("--splits", action="store_true", help="other splits of the columns too")
    options = parse(parser, PARTS, every=6)
    warnings.simplefilter("ignore")
    dl.VerticalRidge().fit(np.eye(3), np.arange(3.0))  # compile before the clock runs
    with threadpool_limits(1):  # theirs as ours: processor seconds of idle threads count, too
        report_parts(PARTS, options)


if __name__ == "__main__":
    main()
