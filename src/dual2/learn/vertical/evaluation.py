"""How good a model is: figures that the holder of the labels computes for itself."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import (
    d2_pinball_score,
    d2_tweedie_score,
    log_loss,
    mean_absolute_error,
    r2_score,
    roc_auc_score,
)

from dual2.learn.classification import choose_codes, probabilities
from dual2.learn.ordinal import ordinal_probabilities
from dual2.learn.partial_likelihood import concordance, read_survival
from dual2.learn.vertical.labels import Labels
from dual2.learn.vertical.learning_terms import COX, ORDINAL, POWERS, Learning

Array = np.ndarray
CALIBRATION_BINS = 10
"""Bins of a calibration table: tenths of the rows, by predicted probability."""


@dataclass(frozen=True)
class Outcome:
    """What scores say: numbers or codes of classes, and probabilities where the model has them."""

    values: Array
    chances: Array | None = None


def outcome_of(learning: Learning, scores: Array, thresholds: Array | None = None) -> Outcome:
    """Predictions from the joint scores of some rows, (rows, decision functions)."""
    if learning.model == ORDINAL:
        assert thresholds is not None, "kept with the model"
        chances = ordinal_probabilities(scores[:, 0], thresholds)
        return Outcome(chances.argmax(axis=1), chances)
    if learning.classifier:
        chances = probabilities(scores) if learning.model == "LogisticRegression" else None
        return Outcome(choose_codes(scores), chances)
    if learning.model in POWERS:
        return Outcome(np.exp(scores[:, 0]))
    return Outcome(scores[:, 0])


def score(
    learning: Learning, labels: Labels, scores: Array, thresholds: Array | None = None
) -> float:
    """Accuracy, Harrell's C, or what the estimator's own ``score`` is: R², D²."""
    found: Any = outcome_of(learning, scores, thresholds).values
    if labels.count:
        return float(np.average(found == labels.values, weights=labels.weights))
    if learning.model == COX:
        return concordance(read_survival(labels.values), found)
    how = {"sample_weight": labels.weights}
    if learning.model in POWERS:
        power = POWERS[learning.model] or learning.options.get("power", 1.5)
        return float(d2_tweedie_score(labels.values, found, power=power, **how))
    if learning.model == "QuantileRegressor":
        level = learning.options.get("quantile", 0.5)
        return float(d2_pinball_score(labels.values, found, alpha=level, **how))
    return float(r2_score(labels.values, found, **how))


def metrics(
    learning: Learning, labels: Labels, scores: Array, thresholds: Array | None = None
) -> dict[str, float]:
    """Figures of some rows by their names."""
    quality = score(learning, labels, scores, thresholds) if len(labels.values) > 1 else np.nan
    if learning.model == COX:
        return {"concordance": quality}
    found = outcome_of(learning, scores, thresholds)
    how = {"sample_weight": labels.weights}
    if not labels.count:
        error = np.asarray(found.values) - labels.values
        square = float(np.sqrt(np.average(error**2, weights=labels.weights)))
        absolute = float(mean_absolute_error(labels.values, found.values, **how))
        name = "D²" if learning.model in POWERS or learning.model == "QuantileRegressor" else "R²"
        return {name: quality, "root mean squared error": square, "mean absolute error": absolute}
    told = {"accuracy": quality}
    if (area := _area(labels, found, scores)) is not None:
        told["AUC"] = area
    if found.chances is not None:
        known = list(range(labels.count))
        told["log loss"] = float(log_loss(labels.values, found.chances, labels=known, **how))
        marks = labels.values[:, None] == np.arange(labels.count)
        brier = np.sum((found.chances - marks) ** 2, axis=1)
        told["Brier score"] = float(np.average(brier, weights=labels.weights)) / 2.0
    return told


def _area(labels: Labels, found: Outcome, scores: Array) -> float | None:
    """Area under the ROC curve, of several classes the mean of one against the rest."""
    if len(np.unique(labels.values)) < labels.count:
        return None  # a class does not occur among these rows
    if labels.count == 2:
        return float(roc_auc_score(labels.values, scores[:, 0], sample_weight=labels.weights))
    if found.chances is None:
        return None
    return float(
        roc_auc_score(labels.values, found.chances, multi_class="ovr", sample_weight=labels.weights)
    )


def calibration(labels: Labels, chances: Array | None) -> list[dict[str, float]]:
    """For tenths of the rows, by predicted probability: mean of it, share observed, rows.

    Of two classes it is the probability of the second, else that of each row's likeliest class.

    Examples
    --------
    >>> labels = Labels(np.array([0.0, 0.0, 1.0, 1.0]), 2)
    >>> chances = np.array([[0.9, 0.1], [0.8, 0.2], [0.2, 0.8], [0.1, 0.9]])
    >>> [round(row["predicted"], 1) for row in calibration(labels, chances)]
    [0.1, 0.2, 0.8, 0.9]
    """
    if chances is None:
        return []
    if labels.count == 2:
        predicted, hit = chances[:, 1], labels.values == 1
    else:
        predicted, hit = chances.max(axis=1), labels.values == chances.argmax(axis=1)
    parts = np.array_split(np.argsort(predicted, kind="stable"), CALIBRATION_BINS)
    return [
        {
            "predicted": float(predicted[part].mean()),
            "observed": float(hit[part].mean()),
            "rows": float(len(part)),
        }
        for part in parts
        if len(part)
    ]


def in_words(figures: dict[str, float]) -> str:
    """Figures in one line."""
    return ", ".join(f"{name} {value:.4f}" for name, value in figures.items())
