"""Models of learn beside statsmodels and lifelines on real tables that packages carry.

For every model: largest difference of the coefficients and of their standard errors over the
largest one, in one process with two parties, and p values. References: statsmodels' OLS, Logit,
Poisson, GLM and PHReg on its own data sets, scikit-learn's on those bundled with it, and lifelines'
Cox regression (both ways with ties, strata) where that package is installed.
"""

import argparse
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import statsmodels.api as sm
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.linear_model import LogisticRegression, Ridge

import dual2.learn as dl
from common.report import Report, parse

CLOSE = 1e-5
"""Largest relative difference: tolerances of the references included."""


class Comparison(NamedTuple):
    """Coefficients and standard errors, ours and theirs; no errors where a penalty biases them."""

    model: str
    table: str
    size: tuple[int, ...]
    reference: str
    ours: tuple[np.ndarray, np.ndarray | None]
    theirs: tuple[np.ndarray, np.ndarray | None]


def halves(frame: pd.DataFrame) -> dict[str, list[str]]:
    """Two parties with half of the columns each."""
    names, half = list(frame), frame.shape[1] // 2
    return {"one": names[:half], "two": names[half:]}


def standard(frame: pd.DataFrame) -> pd.DataFrame:
    """Columns of mean 0 and spread 1."""
    return (frame - frame.mean()) / frame.std(ddof=0)


def fitted(model: Any, frame: pd.DataFrame, target: Any) -> tuple[np.ndarray, np.ndarray]:
    """Our coefficients and standard errors by column."""
    table = model.set_params(parties=halves(frame)).fit(frame, target).summary().to_frame()
    found = table.loc[list(frame)]
    return found["coef"].to_numpy(), found["std_err"].to_numpy()


def of_statsmodels(found: Any) -> tuple[np.ndarray, np.ndarray]:
    """The same of a fit with the constant first."""
    return np.asarray(found.params)[1:], np.asarray(found.bse)[1:]


def generalised() -> Iterator[Comparison]:
    """Least squares, logistic, Poisson and Gamma models of statsmodels' tables."""
    longley = sm.datasets.longley.load_pandas()
    X, y = standard(longley.exog), longley.endog
    theirs = of_statsmodels(sm.OLS(y, sm.add_constant(X)).fit())
    ours = fitted(dl.VerticalRidge(alpha=0.0), X, y)
    yield Comparison("least squares", "longley", X.shape, "statsmodels OLS", ours, theirs)
    spector = sm.datasets.spector.load_pandas()
    X, y = standard(spector.exog), spector.endog
    theirs = of_statsmodels(sm.Logit(y, sm.add_constant(X)).fit(disp=0, tol=1e-12))
    ours = fitted(dl.VerticalLogisticRegression(C=np.inf), X, y)
    yield Comparison("logistic", "spector", X.shape, "statsmodels Logit", ours, theirs)
    fair = sm.datasets.fair.load_pandas()
    X, y = standard(fair.exog), (fair.endog > 0).astype(int)
    theirs = of_statsmodels(sm.Logit(y, sm.add_constant(X)).fit(disp=0, tol=1e-12))
    ours = fitted(dl.VerticalLogisticRegression(C=np.inf), X, y)
    yield Comparison("logistic", "fair", X.shape, "statsmodels Logit", ours, theirs)
    rand = sm.datasets.randhie.load_pandas()
    X, y = standard(rand.exog), rand.endog
    theirs = of_statsmodels(sm.Poisson(y, sm.add_constant(X)).fit(disp=0, tol=1e-12))
    ours = fitted(dl.VerticalPoissonRegressor(alpha=0.0), X, y)
    yield Comparison("Poisson", "randhie", X.shape, "statsmodels Poisson", ours, theirs)
    scotland = sm.datasets.scotland.load_pandas()
    X, y = standard(scotland.exog), scotland.endog
    family = sm.families.Gamma(sm.families.links.Log())
    glm = sm.GLM(y, sm.add_constant(X), family).fit(tol=1e-13, maxiter=500)
    ours = fitted(dl.VerticalGammaRegressor(alpha=0.0), X, y)
    theirs = of_statsmodels(glm)
    yield Comparison("Gamma", "scotvote", X.shape, "statsmodels GLM", ours, theirs)


def penalised() -> Iterator[Comparison]:
    """With penalties, and scikit-learn's tables and answers."""
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    X = standard(X)
    model = dl.VerticalRidge(alpha=10.0, parties=halves(X)).fit(X, y)
    answer = Ridge(alpha=10.0, solver="svd").fit(X, y)
    yield Comparison(
        "ridge",
        "diabetes",
        X.shape,
        "scikit-learn",
        (model.coef_, None),
        (answer.coef_, None),
    )
    for load, name in ((load_breast_cancer, "breast cancer"), (load_wine, "wine")):
        X, y = load(return_X_y=True, as_frame=True)
        X = standard(X)
        model = dl.VerticalLogisticRegression(C=0.5, parties=halves(X)).fit(X, y)
        theirs = LogisticRegression(C=0.5, solver="newton-cg", tol=1e-11, max_iter=10_000)
        coefs = theirs.fit(X, y).coef_
        yield Comparison(
            "logistic, C = 0.5",
            name,
            X.shape,
            "scikit-learn",
            (model.coef_, None),
            (coefs, None),
        )


def survival() -> Iterator[Comparison]:
    """Cox regression, beside statsmodels on its table of heart transplants."""
    frame = sm.datasets.heart.load_pandas().data
    X = standard(frame[["age"]].assign(square=frame["age"] ** 2))
    times, events = frame["survival"].to_numpy(), frame["censors"].to_numpy()
    for ties in ("breslow", "efron"):
        model = dl.VerticalCoxRegression(ties=ties)
        ours = fitted(model, X, np.column_stack([times, events]))
        found = sm.PHReg(times, X, events, ties=ties).fit(disp=0)
        theirs = np.asarray(found.params), np.asarray(found.bse)
        yield Comparison(f"Cox, {ties}", "heart", X.shape, "statsmodels PHReg", ours, theirs)


def lifelines_tables() -> Iterator[Comparison]:
    """Cox regression, beside lifelines on its tables."""
    lifelines, tables = import_module("lifelines"), import_module("lifelines.datasets")
    rossi = tables.load_rossi().astype(float)
    cases = [("rossi", rossi, "week", "arrest", None)]
    cases += [("rossi, strata of wexp", rossi, "week", "arrest", "wexp")]
    gbsg = tables.load_gbsg2()
    words = [name for name in gbsg if gbsg[name].dtype == object]
    gbsg = pd.get_dummies(gbsg, columns=words, drop_first=True).astype(float)
    cases += [("gbsg2", gbsg, "time", "cens", None)]
    for name, frame, time, event, strata in cases:
        X = standard(frame.drop(columns=[time, event] + ([strata] if strata else [])))
        target = np.column_stack([frame[time], frame[event]])
        whole = X.assign(time=frame[time], event=frame[event])
        if strata:
            target, whole = np.column_stack([target, frame[strata]]), whole.assign(s=frame[strata])
        ours = fitted(dl.VerticalCoxRegression(ties="efron"), X, target)
        options = {"precision": 1e-12, "r_precision": 1e-14}
        fit = lifelines.CoxPHFitter(strata=["s"] if strata else None)
        fit.fit(whole, "time", "event", fit_options=options)
        theirs = fit.params_.to_numpy(), fit.standard_errors_.to_numpy()
        yield Comparison("Cox, efron", name, X.shape, "lifelines", ours, theirs)


def away(a: np.ndarray | None, b: np.ndarray | None) -> float | None:
    """Largest difference over the largest value, None if there is nothing to compare."""
    return None if a is None or b is None else float(np.abs(a - b).max() / np.abs(b).max())


def main() -> None:
    """Print the table; differences beyond ``CLOSE`` make the script fail."""
    report = Report(options := parse(argparse.ArgumentParser(description=__doc__)))
    parts: list[Callable[[], Iterator[Comparison]]] = [generalised, penalised, survival]
    if options.smoke:
        parts = [penalised]
    elif find_spec("lifelines") is None:
        report.leave_out("Cox regression beside lifelines: the package is not installed.")
    else:
        parts.append(lifelines_tables)
    head = ("model", "table", "rows", "columns", "reference", "coefficients", "standard errors")
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the references, about their own data
        for one in (one for part in parts for one in part()):
            found = [away(a, b) for a, b in zip(one.ours, one.theirs, strict=True)]
            rows.append(
                (
                    *one[:2],
                    *one.size,
                    one.reference,
                    *("" if value is None else value for value in found),
                )
            )
            close = all(value is None or value <= CLOSE for value in found)
            report.expect(close, f"{one.model} on {one.table}")
    report.table("Relative differences from other packages", head, rows)
    report.end()


if __name__ == "__main__":
    main()
