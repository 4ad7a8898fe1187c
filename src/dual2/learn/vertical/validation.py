"""Cross-validation over rows: the same folds at every party, by a public seed.

The labels that enter training and the joint scores of held-out rows are known to all, so that every
party computes the same mean score and chooses the same value; nothing else is said.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import d2_pinball_score, d2_tweedie_score, r2_score
from sklearn.model_selection import KFold, StratifiedKFold

from dual2.errors import Refusal
from dual2.learn.classification import choose_codes
from dual2.learn.vertical.labels import Labels
from dual2.learn.vertical.preparation import Preparation
from dual2.learn.vertical.study import Learning
from dual2.learn.vertical.tables import Table
from dual2.learn.vertical.training import Place, train_here
from dual2.solving.result import Status

Array = np.ndarray


@dataclass(frozen=True)
class Choice:
    """The chosen value, and the mean score of each."""

    value: float
    table: list[dict[str, float]]
    words: str


def folds_of(labels: Labels, folds: int, seed: int) -> list[Array]:
    """Rows of each fold, shuffled by the seed: those of scikit-learn's ``KFold``.

    Classes are shared out evenly, by its ``StratifiedKFold``.

    Examples
    --------
    >>> [len(fold) for fold in folds_of(Labels(np.zeros(10)), 3, 0)]
    [4, 3, 3]
    """
    count = len(labels.values)
    fewest = int(np.bincount(labels.values.astype(int)).min()) if labels.count else count
    if fewest < folds:
        what = f"{count} common rows are" if not labels.count else f"a class of {fewest} rows is"
        told = f"{what} too few for {folds} folds."
        raise Refusal(f"{told} Use fewer, or merge classes.", told)
    kind = StratifiedKFold if labels.count else KFold
    cuts = kind(folds, shuffle=True, random_state=seed)
    return [held for _, held in cuts.split(labels.values, labels.values)]


def choose_value(
    place: Place,
    table: Table,
    index: Array,
    labels: Labels,
    prepare: Callable[[Array], Preparation],
) -> Choice:
    """The value of the study's parameter with the best mean score; of several, the first."""
    learning = place.study.learning
    search = learning.search
    assert search is not None, "asked for by the study"
    folds, means = folds_of(labels, search.folds, search.seed), []
    for value in search.values:
        estimator = learning.estimator(**{search.parameter: value})
        scores = []
        for fold in folds:
            rest = np.setdiff1d(np.arange(len(index)), fold)
            made = prepare(index[rest])
            part = _some(labels, rest)
            found = train_here(place, estimator, made.apply(table, index[rest]), part)
            own = made.apply(table, index[fold]) @ found.coefficients.T + found.constants
            total = place.total(own.ravel()).reshape(own.shape)
            fine = found.status == Status.CONVERGED
            scores.append(score(learning, _some(labels, fold), total) if fine else -np.inf)
        means.append(float(np.mean(scores)))
    best = int(np.argmax(means))
    rows = [{"value": float(v), "score": m} for v, m in zip(search.values, means, strict=True)]
    words = (
        f"{search.parameter} = {search.values[best]:g} of {len(rows)} values has the best mean "
        f"score over {search.folds} folds, {means[best]:.4f}."
    )
    return Choice(search.values[best], rows, words)


def _some(labels: Labels, rows: Array) -> Labels:
    return Labels(labels.values[rows], labels.count)


def score(learning: Learning, labels: Labels, scores: Array) -> float:
    """Accuracy of classes; of numbers what the estimator's own ``score`` is: R², D²."""
    if labels.count:
        return float(np.mean(choose_codes(scores) == labels.values))
    found: Any = scores[:, 0]
    if learning.model == "PoissonRegressor":
        return float(d2_tweedie_score(labels.values, np.exp(found), power=1))
    if learning.model == "QuantileRegressor":
        level = learning.options.get("quantile", 0.5)
        return float(d2_pinball_score(labels.values, found, alpha=level))
    return float(r2_score(labels.values, found))
