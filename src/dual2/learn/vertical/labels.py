"""The labels: who holds them, what others learn of them, and randomised response before the run.

With K classes a label is kept with probability e^ε/(e^ε + K - 1), else it becomes one of the others
at random: ε-differential privacy of each label (Warner 1965; K classes: Kairouz, Oh & Viswanath
2014). Whatever is computed from such labels, over any number of sums, is post-processing. The noise
of a row belongs to the table (:mod:`dual2.learn.vertical.label_noise`), so that repeated runs show
no more than one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dual2.errors import ProblemError, Refusal
from dual2.learn.vertical.label_noise import (
    LabelKey,
    keep_probability,
    randomise,
    row_name,
    walks_of,
)
from dual2.learn.vertical.learning_terms import COX, ORDINAL, Learning
from dual2.learn.vertical.party_file import LearnParty
from dual2.learn.vertical.tables import Table, number_of, word_of
from dual2.runtime.peers.parties import Parties

Array = np.ndarray


@dataclass(frozen=True)
class Labels:
    """What enters training, the same at every party: numbers, or codes of ``count`` classes.

    ``names`` and ``true`` are known to the holder alone: the classes, and its own labels where
    those that enter training are randomised.
    """

    values: Array  # with Cox regression one row of time, event and perhaps stratum each
    count: int = 0
    names: tuple[str, ...] = ()
    true: Array | None = None
    weights: Array | None = None  # sample weights, at the holder alone

    def some(self, rows: Array) -> "Labels":
        """Those of some rows."""
        weights = None if self.weights is None else self.weights[rows]
        return Labels(self.values[rows], self.count, self.names, None, weights)


def what_labels_show(learning: Learning) -> str:
    """What the parties can learn about labels, in words, before anything runs."""
    if learning.private:
        return (
            "Labels: they stay at their holder, and nobody else gets scores or dual values of "
            "rows. What remains inferable: a partner can guess labels from its own coefficients "
            "and columns, about as well as its columns predict them (breast cancer data, three "
            "parties, 0.627 by guessing the majority: 0.82 and 0.95 of the labels). A column that "
            "is not zero in one row only tells the label of that row (150 of 150), in two rows "
            "0.75, in ten 0.56: categories with fewer than ten rows are left out. On tables with "
            "few rows promise nothing."
        )
    if learning.epsilon is not None:
        sure = keep_probability(learning.epsilon, 2)
        return (
            f"Labels: randomised before the run, ε = {learning.epsilon:g}. Of two classes a "
            f"randomised label is the true one with probability {sure:.3f}. All that is computed "
            "changes the odds of a row's true label by at most "
            f"a factor {math.exp(learning.epsilon):.3g}, whatever else is known. What the model "
            "predicts for a row from its features is not hidden: that is its purpose."
        )
    if learning.mixes and not learning.accepted:
        return (
            "Labels: undecided. Set labels.private = true (recommended), for classes "
            "labels.epsilon = 2, or labels.accept_leakage = true."
        )
    if learning.mixes:
        return (
            "Labels: accept_leakage, without the measures of labels.private. Labels are not sent, "
            "but every partner that receives scores of training rows can reconstruct every "
            "training label, and rare categories tell labels. Prefer labels.private = true."
        )
    return (
        "Labels: every partner can reconstruct every training label, by the sign of the dual value "
        "of a row for classes and from score and dual value for numbers. Masks do not hide it. "
        "Accept it with labels.accept_leakage = true. Alternatives: labels.private = true with a "
        "penalty of squares, or (for classes) randomised labels: labels.epsilon = 2."
    )


def read_labels(own: LearnParty, table: Table, index: Array, release: bool = True) -> Labels:
    """The holder's labels of some rows, as they enter training.

    With ``release`` the ledger of the table counts them as shown; without it they stay here.
    """
    assert own.label is not None, "checked before"
    found = _read(own, table, index, release)
    if own.beside.weight is None:
        return found
    weights = _label_numbers(own, table, own.beside.weight, index)
    if np.any(weights < 0) or not weights.any():
        raise Refusal(
            f"{table.where}: the weights {own.beside.weight!r} have values below 0, or are all 0. "
            "Expected numbers of at least 0.",
            "its sample weights cannot be used.",
        )
    if not own.study.learning.mixes:
        raise Refusal(
            f"{own.party.file}: table.weight needs a penalty of squares and no learn.method, so "
            "that the holder of the labels trains alone. Remove it.",
            "its sample weights do not suit the model.",
        )
    return replace(found, weights=weights)


def plain_labels(own: LearnParty, table: Table, index: Array) -> Labels:
    """Labels of new rows that are no classes: nothing is randomised, nothing counted."""
    return _read(own, table, index, release=False)


def _label_values(own: LearnParty, table: Table, name: str, index: Array) -> list[Any]:
    """The values of a column that belongs to the label, none missing."""
    column = table.column(name)
    values = [column[k] for k in index]
    missing = sum(value is None for value in values)
    if missing:
        raise Refusal(
            f"{table.where}: the label {name!r} lacks {missing} of {len(values)} values in "
            "the common rows. Remove those rows from the table and align again.",
            "some labels are missing.",
        )
    return values


def _label_numbers(own: LearnParty, table: Table, name: str, index: Array) -> Array:
    """The same as finite numbers."""
    numbers = _numbers(_label_values(own, table, name, index), table.decimal)
    if numbers is None:
        raise Refusal(
            f"{table.where}: the label {name!r} has values that are no finite numbers, "
            f"which {own.study.learning.model} needs.",
            "its labels are no numbers.",
        )
    return numbers


def _survival(own: LearnParty, table: Table, index: Array) -> Labels:
    """Times, events and strata of Cox regression."""
    assert own.label is not None, "checked before"
    if own.beside.event is None:
        raise Refusal(
            f"{own.party.file} lacks table.event: the column with 1 where the event was seen, 0 "
            "where the row is censored.",
            "its own file does not name the column of events.",
        )
    columns = [_label_numbers(own, table, name, index) for name in (own.label, own.beside.event)]
    if own.beside.strata is not None:
        words = [word_of(v) for v in _label_values(own, table, own.beside.strata, index)]
        columns.append(np.unique(words, return_inverse=True)[1].astype(np.float64))
    values = np.column_stack(columns)
    _demand_targets(own, table, values)
    return Labels(values)


def _read(own: LearnParty, table: Table, index: Array, release: bool) -> Labels:
    """The labels without their weights."""
    assert own.label is not None, "checked before"
    learning = own.study.learning
    if learning.model == COX:
        return _survival(own, table, index)
    values = _label_values(own, table, own.label, index)
    numbers = _numbers(values, table.decimal)
    if not learning.classifier:
        if numbers is None:
            raise Refusal(
                f"{table.where}: the label {own.label!r} has values that are no finite numbers, "
                f"which {learning.model} needs.",
                "its labels are no numbers.",
            )
        _demand_targets(own, table, numbers)
        return Labels(numbers)
    found = np.array([str(value) for value in values]) if numbers is None else numbers
    names, codes = np.unique(found, return_inverse=True)
    if learning.model == ORDINAL or own.beside.classes:
        names, codes = _in_order(own, table, names, codes, numbers is not None)
    if len(names) < 2:
        raise Refusal(
            f"{table.where}: the label {own.label!r} has one class only in the common rows.",
            "its labels are all the same.",
        )
    words = tuple(word_of(name) for name in names.tolist())
    if learning.epsilon is None:
        return Labels(codes.astype(np.float64), len(words), words)
    noisy = _randomised(own, table, index, codes, words, release)
    gone = len(words) - len(np.unique(noisy))
    if gone:
        raise Refusal(
            f"{table.where}: the label {own.label!r} has {gone} of {len(words)} classes so rare "
            "that none of its rows is left when labels are randomised. Merge classes.",
            "a class of its labels is too rare to be randomised.",
        )
    return Labels(noisy.astype(np.float64), len(words), words, codes.astype(np.float64))


def _in_order(
    own: LearnParty, table: Table, names: Array, codes: Array, sorted_numbers: bool
) -> tuple[Array, Array]:
    """Classes in the order of the party's file, or of their numbers."""
    order = list(own.beside.classes)
    if not order and sorted_numbers:
        return names, codes
    words = [word_of(name) for name in names.tolist()]
    if sorted(order) != sorted(words):
        listed = ", ".join(f'"{word}"' for word in words)
        raise Refusal(
            f"{table.where}: the label {own.label!r} has the classes {listed}; table.classes has "
            f"{order or 'nothing'}. Name them all in their order: classes = [{listed}].",
            "the order of its classes is not known.",
        )
    place = np.array([order.index(word) for word in words])
    return np.array(order), place[codes]


def _randomised(
    own: LearnParty, table: Table, index: Array, codes: Array, words: tuple[str, ...], release: bool
) -> Array:
    """Randomised response by the noise of each row, if the budget of the study allows it."""
    learning = own.study.learning
    assert learning.epsilon is not None and own.label_key is not None
    if own.id not in table.columns:
        raise Refusal(
            f"{table.where} has no column {own.id!r}. labels.epsilon needs the ids of the rows, so "
            "that every row keeps its noise. Add the column, or name it in table.id.",
            "its table has no ids, which randomised labels need.",
        )
    rows = [row_name(table.column(own.id)[k]) for k in index]
    if len(set(rows)) < len(rows):
        raise Refusal(
            f"{table.where}: {len(rows) - len(set(rows))} of {len(rows)} ids in the column "
            f"{own.id!r} repeat another one (written differently, as 07 and 7, or not). Ids must "
            "be unique where labels are randomised.",
            "its ids are not unique.",
        )
    keeper = LabelKey(own.label_key)
    key = keeper.read()
    walks = walks_of(codes, rows, words, key)
    keeper.spend(walks, learning.epsilon, learning.budget or learning.epsilon, release)
    return randomise(codes, rows, words, learning.epsilon, key)


def _demand_targets(own: LearnParty, table: Table, numbers: Array) -> None:
    """Refuse numbers that the model does not take, as counts below 0."""
    try:
        own.study.learning.estimator()._targets(numbers)
    except ProblemError as error:
        raise Refusal(
            f"{table.where}: the label {own.label!r}: {error}", "its labels do not suit the model."
        ) from error


def share_labels(own: LearnParty, transport: Parties, labels: Labels | None, rows: int) -> Labels:
    """Everybody's labels for training: the holder adds them to a sum, the others add zeros."""
    part = np.zeros((1, rows + 1))
    if labels is not None:
        part[0, 0], part[0, 1:] = labels.count, labels.values
    total = transport.sum(part, own.study.network)
    if labels is None:
        return Labels(total[1:], int(total[0]))
    return labels


def _numbers(values: Sequence[object], decimal: str) -> Array | None:
    found = np.array([number_of(value, decimal) for value in values])
    return found if np.isfinite(found).all() else None
