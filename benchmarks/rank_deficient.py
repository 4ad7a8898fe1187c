"""Fits of tables with dependent columns, without a penalty or with a tiny one, counted.

Least squares, logistic, Poisson and quantile regression between parties, each on tables with
duplicate columns, full one-hot columns beside an intercept, more columns than rows, constant
columns and columns that two parties share. References: ``numpy.linalg.lstsq`` on centred columns,
scikit-learn's solvers, Newton's method in a basis of the columns, and HiGHS for quantiles.
A fit is wrong if it is CONVERGED and its objective, its predictions or the norm of its coefficients
is not that of the reference.

    python benchmarks/rank_deficient.py [--fits 2000] [--seed 0] [--smoke]
"""

import argparse
import time
import warnings
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.linear_model import QuantileRegressor

import dual2.learn as dl
from common.report import Report, parse

Array = np.ndarray
TABLES = ("one-hot", "duplicates", "wide", "constant", "shared", "everything")
MODELS = ("least squares", "logistic", "poisson", "quantile")
PENALTIES = (0.0, 1e-10, 0.0, 1e-6)
TOLERANCE = 1e-6
"""Largest error of a prediction (relative to the target's size), of the objective, of the norm."""


@dataclass(frozen=True)
class Fit:
    """One fit: what was asked, how it ended, and what is wrong with it."""

    name: str
    status: str
    finite: bool  # whether the reference says that there is a finite solution
    wrong: str = ""


def table(kind: str, rng: np.random.Generator) -> tuple[Array, int, Array]:
    """Columns, the number of parties, and the part of them that bears information."""
    n = int(rng.integers(60, 200)) if kind != "wide" else int(rng.integers(12, 30))
    X = rng.standard_normal((n, 3)) * 10.0 ** rng.integers(-1, 2, 3)
    codes = [rng.integers(k, size=n) for k in (3, 4)]
    hot = [np.eye(k)[code] for k, code in zip((3, 4), codes, strict=True)]
    pieces = {
        "one-hot": [X, *hot],
        "duplicates": [X, X[:, :2], (X[:, 0] - 2.0 * X[:, 2])[:, None]],
        "wide": [rng.standard_normal((n, n + int(rng.integers(1, 20))))],
        "constant": [X, np.full((n, 1), 3.3), np.zeros((n, 1)), 1e3 + X[:, :1]],
        "shared": [X, hot[0][:, :2], X[:, ::-1], hot[0][:, :2]],
        "everything": [X, hot[0], X[:, :1], np.full((n, 1), 0.1), hot[1], X[:, 1:2] + X[:, :1]],
    }
    Z = np.hstack(pieces[kind])
    return Z, int(rng.integers(2, 5)), X if kind != "wide" else Z[:, :3]


def target(model: str, X: Array, rng: np.random.Generator) -> Array:
    """Something that the columns explain in part."""
    score = X / X.std(axis=0) @ rng.standard_normal(3) * 0.5
    if model == "logistic":
        return (score + rng.logistic(size=len(X)) * 1.5 > 0).astype(int)
    if model == "poisson":
        return rng.poisson(np.exp(np.clip(score, -2.0, 2.0)) + 0.5).astype(float)
    return score + rng.standard_normal(len(X))


def estimator(model: str, alpha: float, parties: int) -> Any:
    """Ours."""
    if model == "least squares":
        return dl.VerticalRidge(alpha, parties=parties)
    if model == "logistic":
        return dl.VerticalLogisticRegression(C=1.0 / alpha if alpha else np.inf, parties=parties)
    if model == "poisson":
        return dl.VerticalPoissonRegressor(alpha, parties=parties)
    return dl.VerticalQuantileRegressor(quantile=0.6, alpha=alpha, parties=parties)


def reference(model: str, alpha: float, Z: Array, y: Array) -> tuple[Array | None, Array]:
    """Scores of the reference (None: no finite solution), and coefficients of minimum norm.

    With a penalty there is always one.
    """
    if model == "quantile":
        found = QuantileRegressor(quantile=0.6, alpha=alpha, solver="highs").fit(Z, y)
        scores = found.predict(Z)
        return scores, shortest(Z, scores)
    centred = Z - Z.mean(axis=0)
    U, values, V = np.linalg.svd(centred, full_matrices=False)
    kept = values > 1e-11 * values[0]
    basis, spread = U[:, kept], values[kept]
    ones = np.ones((len(y), 1))
    design = np.hstack([basis, ones])
    ridge = np.append(alpha * _weight(model, len(y)) / spread**2, 0.0)
    c = newton(model, design, y, ridge)
    scores = design @ c
    if alpha == 0.0 and model != "least squares" and _runs_away(model, scores, y):
        return None, np.zeros(0)
    return scores, V[kept].T @ (c[:-1] / spread)


def _runs_away(model: str, scores: Array, y: Array) -> bool:
    """Whether a class is certain, or a count of 0 expected with certainty."""
    if model == "logistic":
        return bool(np.abs(scores).max() > 20.0)
    return bool(np.any(scores[y == 0] < -20.0))


def _weight(model: str, n: int) -> float:
    """By which the penalty ½α|w|² counts beside Σ losses."""
    return {"least squares": 1.0, "logistic": 1.0, "poisson": float(n)}[model]


def newton(model: str, D: Array, y: Array, ridge: Array) -> Array:
    """Minimise Σ loss(Dc) + ½Σ ridge·c² by damped Newton steps."""
    c = np.zeros(D.shape[1])
    value = _value(model, D @ c, y)
    for _ in range(200):
        slope, bend = _derivatives(model, D @ c, y)
        gradient = D.T @ slope + ridge * c
        hessian = D.T @ (bend[:, None] * D) + np.diag(ridge)
        step = np.linalg.lstsq(hessian, -gradient, rcond=1e-14)[0]
        t, old = 1.0, value + 0.5 * ridge @ c**2
        while t > 1e-10:
            new = c + t * step
            value = _value(model, D @ new, y)
            if value + 0.5 * ridge @ new**2 <= old + 1e-14 * abs(old):
                break
            t *= 0.5
        c = c + t * step
        if np.abs(D @ step).max() <= 1e-11 * max(1.0, np.abs(D @ c).max()):
            break
    return c


def expected(model: str, scores: Array) -> Array:
    """Predictions: probabilities, expected counts, or the scores themselves."""
    if model == "logistic":
        return 1.0 / (1.0 + np.exp(-scores))
    return np.exp(scores) if model == "poisson" else scores


def _value(model: str, z: Array, y: Array) -> float:
    if model == "logistic":
        return float(np.logaddexp(0.0, -np.where(y > 0, z, -z)).sum())
    if model == "poisson":
        with np.errstate(over="ignore"):
            return float((np.exp(z) - y * z).sum())
    return float(0.5 * ((z - y) ** 2).sum())


def _derivatives(model: str, z: Array, y: Array) -> tuple[Array, Array]:
    if model == "logistic":
        p = 1.0 / (1.0 + np.exp(-z))
        return p - y, p * (1.0 - p)
    if model == "poisson":
        return np.exp(z) - y, np.exp(z)
    return z - y, np.ones(len(y))


def shortest(Z: Array, scores: Array) -> Array:
    """Coefficients of minimum norm with these scores; the intercept does not count."""
    centred = Z - Z.mean(axis=0)
    return np.linalg.lstsq(centred, scores - scores.mean(), rcond=1e-11)[0]


def run(model: str, kind: str, alpha: float, seed: int) -> Fit:
    """One fit, compared."""
    rng = np.random.default_rng(seed)
    Z, parties, X = table(kind, rng)
    y = target(model, X, rng)
    name = f"{model}, {kind}, alpha {alpha:g}, seed {seed}"
    wanted, coef = reference(model, alpha, Z, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = estimator(model, alpha, parties).fit(Z, y)
    done = found.converged_
    status = str(found.result_.status)
    if status == "CONVERGED" and not done:
        status = "STILL MOVING"
    scores, own = (Z @ found.coef_.ravel() + np.ravel(found.intercept_)[0]), found.coef_.ravel()
    wrong = ""
    if done and wanted is None:
        wrong = "converged where coefficients have no finite limit"
    elif done and wanted is not None:
        wrong = compare(model, alpha, (Z, y), (scores, own), (wanted, coef))
    return Fit(name, status, wanted is not None, wrong)


def compare(
    model: str,
    alpha: float,
    data: tuple[Array, Array],
    ours: tuple[Array, Array],
    theirs: tuple[Array, Array],
) -> str:
    """What is wrong, empty if nothing."""
    (Z, y), (scores, own), (wanted, coef) = data, ours, theirs
    off = np.abs(expected(model, scores) - expected(model, wanted)).max()
    size = max(1.0, float(np.abs(expected(model, wanted)).max()))
    if model == "quantile":  # predictions need not be unique: the objective is
        losses = [_pinball(y - z, alpha, w) for z, w in ((scores, own), (wanted, coef))]
        limit = losses[1] + TOLERANCE * max(abs(losses[1]), 1e-3 * float(np.abs(y).mean()))
        if losses[0] > limit:
            return f"objective {losses[0]:.9g} for {losses[1]:.9g}"
        coef = shortest(Z, scores)
    elif off > TOLERANCE * size:
        return f"predictions differ by {off:.1e}"
    if alpha == 0.0 and np.abs(own - coef).max() > TOLERANCE * max(1.0, np.abs(coef).max()):
        return f"coefficients differ by {np.abs(own - coef).max():.1e} from those of minimum norm"
    if np.abs(own).max() > 1e3 * max(1.0, float(np.abs(coef).max())):
        return f"coefficients of {np.abs(own).max():.1e}"
    return ""


def _pinball(t: Array, alpha: float, w: Array) -> float:
    return float(np.maximum(0.6 * t, -0.4 * t).mean() + alpha * np.abs(w).sum())


def campaign(fits: int, seed: int) -> list[Fit]:
    """So many fits, models, tables and penalties in turn."""
    found = []
    for k in range(fits):
        model, kind = MODELS[k % 4], TABLES[(k // 4) % 6]
        found.append(run(model, kind, PENALTIES[(k // 24) % 4], seed + k))
    return found


def main() -> None:
    """Print the counts, and everything that is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--fits", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parse(parser, fits=48)
    begin = time.perf_counter()
    found = campaign(asked.fits, asked.seed)
    rows = []
    for model in MODELS:
        own = [fit for fit in found if fit.name.startswith(model)]
        told = ", ".join(f"{n} {word}" for word, n in Counter(fit.status for fit in own).items())
        rows.append([model, len(own), sum(bool(fit.wrong) for fit in own), told])
    report = Report(asked)
    report.table("fits", ["model", "fits", "wrong", "outcomes"], rows)
    report.say(f"without a finite solution: {sum(not fit.finite for fit in found)}")
    for fit in found:
        if fit.finite and fit.status != "CONVERGED" and not fit.wrong:
            report.say(f"{fit.status}: {fit.name}")
        report.expect(not fit.wrong, f"{fit.name} {fit.wrong}")
    report.say(f"{time.perf_counter() - begin:.0f} s")
    report.end()


if __name__ == "__main__":
    main()
