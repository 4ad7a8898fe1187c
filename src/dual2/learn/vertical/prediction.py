"""``dual2 learn predict``: scores of new rows by one masked sum, told only to whom the study names.

The sum is one of :mod:`dual2.learn.vertical.receiver_sums`. With several receivers there is one
such sum for each.
"""

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from dual2.errors import Dual2Error, Refusal, counted
from dual2.files import to_csv
from dual2.learn.vertical.alignment import Rows, match_rows
from dual2.learn.vertical.evaluation import in_words, metrics, outcome_of
from dual2.learn.vertical.labels import Labels, plain_labels
from dual2.learn.vertical.learning_terms import GIVEN
from dual2.learn.vertical.model import PartyModel, load_model
from dual2.learn.vertical.party_file import LearnParty
from dual2.learn.vertical.receiver_sums import sum_for
from dual2.learn.vertical.session import Report, is_over, run_phase
from dual2.learn.vertical.tables import Table, number_of, read_new, word_of
from dual2.parties.names import demand_name
from dual2.parties.status import Board
from dual2.runtime.peers.folder import create
from dual2.runtime.peers.parties import Parties

Array = np.ndarray


@dataclass(frozen=True)
class Predictions:
    """What a receiver gets; for the others ``scores`` is None.

    Attributes
    ----------
    rows : Rows
        Rows of the party's new table; at a receiver in the order of that table.
    scores : ndarray
        (rows, decision functions).
    values : list
        Predicted numbers, or classes (their numbers where only the holder knows their names).
    chances : ndarray
        Probabilities of the classes of a logistic regression.
    metrics : dict
        How good they are, at the holder of the labels if its table has them.
    note : str
        Why there are none, although it has labels.
    """

    rows: Rows
    scores: Array | None = None
    values: list[Any] = field(default_factory=list)
    chances: Array | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    note: str = ""


def predict(
    own: LearnParty,
    new: Any,
    name: str = "1",
    resume: bool = False,
    force: bool = False,
    report: Report = print,
    accept: str | None = None,
) -> Predictions:
    """Predict for the rows of a new table (a file, a frame or columns) that all parties have.

    ``name`` is that of this set of predictions, the same at all parties. Who receives them keeps
    them in ``state/predictions-NAME.csv``. A model whose training has not converged is refused
    unless ``accept="unsolved"``; then the notice stands first.
    """
    try:
        notice = "" if (model := load_model(own)).solved else model.notice
    except Refusal:
        notice = ""  # the run begins, and the others are told that this model cannot be used
    if notice and accept is None:
        raise Dual2Error(
            f"{notice} Nothing is predicted; --accept-unsolved "
            '(accept="unsolved" in Python) predicts all the same.'
        )
    if notice:
        report(notice)
    csv = own.csv
    own = replace(own, read=lambda: read_new(new, csv))
    demand_name(name, "--name")
    phase, output = f"predict-{name}", own.party.state / f"predictions-{name}.csv"
    if is_over(own, phase, output, resume, force):
        raise Dual2Error(f"{output} is there: these predictions are made. Nothing is to be done.")

    def work(transport: Parties, board: Board) -> Predictions:
        model, table = load_model(own), own.table
        rows = match_rows(own, transport, table)
        for column, count in model.preparation.unknown(table, rows.index).items():
            report(f"{column}: {counted(count, 'value')} not met in training, counted as none.")
        found = _tell_scores(own, transport, model.scores(table, rows.index))
        transport.confirm()
        if found is None:
            return Predictions(rows)
        order = np.argsort(rows.index, kind="stable")
        rows = replace(rows, index=rows.index[order])
        made = _predictions(own, model, table, rows, found[order])
        _write(output, own, table, made)
        return made

    made = run_phase(own, phase, work, lambda: _checked(own), resume, report)
    if own.party.me in own.study.learning.receivers:
        figures = in_words(made.metrics)
        report(f"{len(made.rows)} predictions: {output}{'. ' + figures if figures else ''}")
        if left := len(own.table) - len(made.rows):
            report(f"{counted(left, 'row')} of the table not known to all parties: no prediction.")
        if made.note:
            report(made.note)
    else:
        report(f"{len(made.rows)} rows were predicted; this study tells others the result.")
    return made


def _checked(own: LearnParty) -> str:
    """Hash of what is read; an error for data of this party that cannot be used."""
    model, table = load_model(own), own.table
    model.preparation.apply(table, np.arange(len(table)))
    return table.digest(own.used(labelled=False)) + str(model.about.get("rows"))


# -- the sum ---------------------------------------------------------------------------------------
def _tell_scores(own: LearnParty, transport: Parties, part: Array) -> Array | None:
    """The scores, if this party is to receive them."""
    found = None
    for k, receiver in enumerate(own.study.learning.receivers):
        total = sum_for(own, transport, part.ravel(), receiver, k)
        found = total.reshape(part.shape) if receiver == own.party.me else found
    return found


# -- at the receiver -------------------------------------------------------------------------------
def _predictions(
    own: LearnParty, model: PartyModel, table: Table, rows: Rows, scores: Array
) -> Predictions:
    learning = own.study.learning
    found = outcome_of(learning, scores, _thresholds(model))
    values = found.values.tolist()
    if learning.classifier and model.classes:
        values = [model.classes[k] for k in values]
    made = Predictions(rows, scores, values, found.chances)
    if own.label is None or own.label not in table.columns:
        return made
    wanted = [own.label, *own.beside.names]
    lacking = [name for name in wanted if name not in table.columns]
    if lacking:
        return replace(made, note=f"No metrics: the new table has no column {lacking[0]!r}.")
    try:
        true = _true_labels(own, model, table, rows)
    except Refusal as error:
        return replace(made, note=f"No metrics: {error}")
    return replace(made, metrics=metrics(learning, true, scores, model.thresholds))


def _thresholds(model: PartyModel) -> Array:
    """Those of an ordinal model, which the holder has; others number the classes by sign."""
    return np.zeros(1) if model.thresholds is None else model.thresholds


def _true_labels(own: LearnParty, model: PartyModel, table: Table, rows: Rows) -> Labels:
    """The labels of the new rows, codes of the classes that were met in training."""
    assert own.label is not None, "asked before"
    if not own.study.learning.classifier:
        return plain_labels(own, table, rows.index)
    column = table.column(own.label)
    codes = _codes([column[k] for k in rows.index], model, table.decimal)
    odd = sum(not math.isfinite(code) for code in codes)
    if odd:
        told = "some labels are of no class that was met in training."
        raise Refusal(
            f"{odd} of {len(codes)} labels in the new table are missing or of no class that was "
            "met in training.",
            told,
        )
    return Labels(np.array(codes, dtype=np.float64), len(model.classes), model.classes)


def _codes(values: list[Any], model: PartyModel, decimal: str) -> list[float]:
    """Codes of classes, infinite where a value is none of them."""
    codes = {name: float(k) for k, name in enumerate(model.classes)}
    found = []
    for value in values:
        number = number_of(value, decimal)
        words = (word_of(value), word_of(number) if math.isfinite(number) else "")
        found.append(next((codes[word] for word in words if word in codes), math.inf))
    return found


def _write(output: Path, own: LearnParty, table: Table, made: Predictions) -> None:
    """Predictions as CSV with ids where there are some; readable by their owner only."""
    assert made.scores is not None
    keyed = own.study.learning.rows.policy != GIVEN
    names = table.column(own.id) if keyed else range(1, len(table) + 1)
    first = [names[k] for k in made.rows.index]
    columns: list[tuple[str, Any]] = [(own.id if keyed else "row", first)]
    columns.append(("prediction", made.values))
    for k in range(made.scores.shape[1]):
        columns.append((f"score {k}" if made.scores.shape[1] > 1 else "score", made.scores[:, k]))
    if made.chances is not None:
        classes = load_model(own).classes or tuple(str(k) for k in range(made.chances.shape[1]))
        columns += [(f"p({c})", made.chances[:, k]) for k, c in enumerate(classes)]
    rows = zip(*(_texts(values) for _, values in columns), strict=True)
    create(output, to_csv([name for name, _ in columns], rows).encode())


def _texts(values: Any) -> list[str]:
    return [repr(float(v)) if isinstance(v, float) else str(v) for v in values]
