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
from sklearn.model_selection import (
    KFold,
    ShuffleSplit,
    StratifiedKFold,
    StratifiedShuffleSplit,
)

from dual2.errors import Refusal
from dual2.learn.vertical.evaluation import calibration, metrics, outcome_of, score
from dual2.learn.vertical.holder import HolderModel, trained
from dual2.learn.vertical.labels import Labels
from dual2.learn.vertical.learning_terms import COX, Learning
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

    def quality(rest: Array, fold: Array, changes: dict[str, float]) -> float:
        found = trained(learning, [table[rest] for table in tables], labels.some(rest), changes)
        if found.status != Status.CONVERGED:
            return -np.inf
        scores = found.scores([table[fold] for table in tables])
        return score(learning, labels.some(fold), scores, found.thresholds)

    return _choose(learning, labels, quality)


def search_together(place: Place, X: Array, labels: Labels) -> Choice:
    """The best value, found by all parties with their own columns of the training rows."""
    learning = place.study.learning

    def quality(rest: Array, fold: Array, changes: dict[str, float]) -> float:
        found = train_here(place, learning.estimator(**changes), X[rest], labels.some(rest))
        own = X[fold] @ found.coefficients.T + found.constants
        total = place.total(own.ravel()).reshape(own.shape)
        fine = found.status == Status.CONVERGED
        return score(learning, labels.some(fold), total) if fine else -np.inf

    return _choose(learning, labels, quality)


Quality = Callable[[Array, Array, dict[str, float]], float]
"""Score of a fold by the model of the other rows, -inf if that has not converged."""


def _choose(learning: Learning, labels: Labels, quality: Quality) -> Choice:
    """The value of the study's parameter with the best mean score; of several, the first."""
    search = learning.search
    assert search is not None, "asked for by the study"
    folds, means = folds_of(labels, search.folds, search.seed), []
    for value in search.values:
        scores = []
        for fold in folds:
            rest = np.setdiff1d(np.arange(len(labels.values)), fold)
            scores.append(quality(rest, fold, {search.parameter: value}))
        means.append(float(np.mean(scores)))
    best = int(np.argmax(means))
    rows = [{"value": float(v), "score": m} for v, m in zip(search.values, means, strict=True)]
    words = (
        f"{search.parameter} = {search.values[best]:g} of {len(rows)} values has the best mean "
        f"score over {search.folds} folds, {means[best]:.4f}."
    )
    return Choice(search.values[best], best, rows, words)


def evaluate(
    learning: Learning,
    model: HolderModel,
    tables: Sequence[Array],
    labels: Labels,
    changes: dict[str, float],
) -> dict[str, Any]:
    """Figures of the training rows, and of rows that a second fit has not seen.

    They are for the holder of the labels alone. Columns were prepared on all training rows.
    """
    plan, scores = learning.evaluation, model.scores(tables)
    found: dict[str, Any] = {"training": metrics(learning, labels, scores, model.thresholds)}
    cuts = []
    if plan.folds:
        cuts = folds_of(labels, plan.folds, plan.seed)
    elif plan.held_out:
        cuts = [held_of(labels, plan.held_out, plan.seed)]
    figures, chances, rows = [], [], []
    for cut in cuts:
        rest = np.setdiff1d(np.arange(len(labels.values)), cut)
        part = trained(learning, [table[rest] for table in tables], labels.some(rest), changes)
        held = part.scores([table[cut] for table in tables])
        figures.append(metrics(learning, labels.some(cut), held, part.thresholds))
        if learning.model != COX:
            chances.append(outcome_of(learning, held, part.thresholds).chances)
            rows.append(cut)
    if figures:
        common = [name for name in figures[0] if all(name in one for one in figures)]
        mean = {name: float(np.mean([one[name] for one in figures])) for name in common}
        found["held out"] = mean
    if chances and chances[0] is not None:
        part = labels.some(np.concatenate(rows))
        found["calibration"] = calibration(part, np.vstack(chances))
    return found


def held_of(labels: Labels, share: float, seed: int) -> Array:
    """Rows that are held out, a share of each class, by a public seed.

    Examples
    --------
    >>> len(held_of(Labels(np.zeros(50)), 0.2, 0))
    10
    """
    kind = StratifiedShuffleSplit if labels.count else ShuffleSplit
    cut = kind(n_splits=1, test_size=share, random_state=seed)
    try:
        [(_, held)] = cut.split(np.zeros((len(labels.values), 1)), labels.values)
    except ValueError as error:
        told = "its rows are too few to hold some out."
        raise Refusal(f"evaluation.held_out = {share:g}: {error}", told) from error
    return held
