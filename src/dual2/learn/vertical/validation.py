"""Cross-validation over rows, with folds from a public seed.

Columns are prepared once, on all training rows, and not again in every fold: two preparations of
the same columns would give these away. Where the holder of the labels trains alone it searches
alone. Where all train together, labels and the joint scores of held-out rows are known to all, so
that every party computes the same mean score and chooses the same value.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import d2_pinball_score, d2_tweedie_score, r2_score
from sklearn.model_selection import KFold, StratifiedKFold

from dual2.errors import Refusal
from dual2.learn.classification import choose_codes
from dual2.learn.vertical.holder import trained
from dual2.learn.vertical.labels import Labels
from dual2.learn.vertical.learning_terms import Learning
from dual2.learn.vertical.training import Place, train_here
from dual2.solving.result import Status

Array = np.ndarray


@dataclass(frozen=True)
class Choice:
    """The chosen value, and the mean score of each."""

    value: float
    place: int  # among the values of the study
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


def search_here(learning: Learning, tables: Sequence[Array], labels: Labels) -> Choice:
    """The best value, found by the holder of the labels alone."""

    def held_scores(rest: Array, fold: Array, changes: dict[str, float]) -> Array | None:
        part = [table[rest] for table in tables]
        found = trained(learning, part, _some(labels, rest), **changes)
        fine = found.status == Status.CONVERGED
        return found.scores([table[fold] for table in tables]) if fine else None

    return _choose(learning, labels, held_scores)


def search_together(place: Place, X: Array, labels: Labels) -> Choice:
    """The best value, found by all parties with their own columns of the training rows."""
    learning = place.study.learning

    def held_scores(rest: Array, fold: Array, changes: dict[str, float]) -> Array | None:
        found = train_here(place, learning.estimator(**changes), X[rest], _some(labels, rest))
        own = X[fold] @ found.coefficients.T + found.constants
        total = place.total(own.ravel()).reshape(own.shape)
        return total if found.status == Status.CONVERGED else None

    return _choose(learning, labels, held_scores)


HeldScores = Callable[[Array, Array, dict[str, float]], Array | None]
"""Scores of a fold by the model of the other rows, None if that has not converged."""


def _choose(learning: Learning, labels: Labels, held_scores: HeldScores) -> Choice:
    """The value of the study's parameter with the best mean score; of several, the first."""
    search = learning.search
    assert search is not None, "asked for by the study"
    folds, means = folds_of(labels, search.folds, search.seed), []
    for value in search.values:
        scores = []
        for fold in folds:
            rest = np.setdiff1d(np.arange(len(labels.values)), fold)
            total = held_scores(rest, fold, {search.parameter: value})
            known = total is not None
            scores.append(score(learning, _some(labels, fold), total) if known else -np.inf)
        means.append(float(np.mean(scores)))
    best = int(np.argmax(means))
    rows = [{"value": float(v), "score": m} for v, m in zip(search.values, means, strict=True)]
    words = (
        f"{search.parameter} = {search.values[best]:g} of {len(rows)} values has the best mean "
        f"score over {search.folds} folds, {means[best]:.4f}."
    )
    return Choice(search.values[best], best, rows, words)


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
