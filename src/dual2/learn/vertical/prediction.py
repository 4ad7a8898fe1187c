"""``dual2 learn predict``: scores of new rows by one masked sum, told only to whom the study names.

The sum is one of :mod:`dual2.learn.vertical.receiver_sums`. With several receivers there is one
such sum for each.
"""

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import log_loss, mean_squared_error

from dual2.errors import Dual2Error, Refusal, counted
from dual2.files import to_csv
from dual2.learn.classification import choose_codes, probabilities
from dual2.learn.vertical.alignment import Rows, match_rows
from dual2.learn.vertical.labels import Labels
from dual2.learn.vertical.learning_terms import GIVEN, Learning
from dual2.learn.vertical.model import PartyModel, load_model
from dual2.learn.vertical.party_file import LearnParty
from dual2.learn.vertical.receiver_sums import sum_for
from dual2.learn.vertical.session import Report, is_over, run_phase
from dual2.learn.vertical.tables import Table, number_of, read_new, word_of
from dual2.learn.vertical.validation import score
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
        Rows of the party's new table, in the common order.
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
    own = replace(own, read=lambda: read_new(new))
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
        made = _predictions(own, model, table, rows, found)
        _write(output, own, table, made)
        return made

    made = run_phase(own, phase, work, lambda: _checked(own), resume, report)
    if own.party.me in own.study.learning.receivers:
        figures = ", ".join(f"{k} {v:.4f}" for k, v in made.metrics.items())
        report(f"{len(made.rows)} predictions: {output}{'. ' + figures if figures else ''}")
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
    if not learning.classifier:
        found = np.exp(scores[:, 0]) if learning.model == "PoissonRegressor" else scores[:, 0]
        made = Predictions(rows, scores, found.tolist())
    else:
        codes = choose_codes(scores).tolist()
        chances = probabilities(scores) if learning.model == "LogisticRegression" else None
        values = [model.classes[k] for k in codes] if model.classes else codes
        made = Predictions(rows, scores, values, chances)
    if own.label is None or own.label not in table.columns:
        return made
    column = table.column(own.label)
    true = [column[k] for k in rows.index]
    codes = _codes(true, model) if learning.classifier else [number_of(value) for value in true]
    odd = sum(not math.isfinite(code) for code in codes)
    if odd:
        what = "of no class that was met in training" if learning.classifier else "no numbers"
        note = f"No metrics: {odd} of {len(codes)} labels in the new table are missing or {what}."
        return replace(made, note=note)
    return replace(made, metrics=_metrics(learning, made, np.array(codes, dtype=np.float64)))


def _metrics(learning: Learning, made: Predictions, true: Array) -> dict[str, float]:
    """How the predictions agree with numbers, or with codes of classes."""
    assert made.scores is not None
    if not learning.classifier:
        error = float(np.sqrt(mean_squared_error(true, made.values)))
        quality = score(learning, Labels(true), made.scores) if len(true) > 1 else math.nan
        return {"score": quality, "root mean squared error": error}
    count = max(2, made.scores.shape[1])
    found = {"accuracy": score(learning, Labels(true, count), made.scores)}
    if made.chances is not None:
        found["log loss"] = float(log_loss(true, made.chances, labels=list(range(count))))
    return found


def _codes(values: list[Any], model: PartyModel) -> list[float]:
    """Codes of classes, infinite where a value is none of them."""
    codes = {name: float(k) for k, name in enumerate(model.classes)}
    found = []
    for value in values:
        number = number_of(value)
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
