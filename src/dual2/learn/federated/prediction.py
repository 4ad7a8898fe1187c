"""``dual2 learn predict``: scores of new rows by one masked sum, told only to whom the study names.

Everybody adds its own part of the scores in fixed point modulo 2¹²⁸ with a public range. Who is to
receive the scores adds random words of its own as well, so that the total is uniformly random to
everybody else, and takes them off again. With several receivers there is one such sum for each.
"""

import csv
import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import log_loss, mean_squared_error

from dual2.engine.fixed_point import add_words, decode_words, encode_rows, subtract_words
from dual2.errors import Dual2Error, Refusal, counted, unknown_name
from dual2.learn.federated.alignment import Rows, match_rows
from dual2.learn.federated.labels import Labels
from dual2.learn.federated.model import PartyModel, choose_codes, load_model, probabilities
from dual2.learn.federated.party_file import LearnParty
from dual2.learn.federated.session import Say, is_over, run_phase
from dual2.learn.federated.study import GIVEN
from dual2.learn.federated.tables import Table
from dual2.learn.federated.validation import score
from dual2.processes.parties.status import Board
from dual2.processes.parties.study import NAME
from dual2.runtime.peers.journal import create
from dual2.runtime.peers.parties import Parties

Array = np.ndarray
RANGE = 40
"""Parts of a score are below 2^40 in magnitude, for all models: a public range tells nothing."""
_MASK = 2**62 + 16
"""Number of the receiver's own random words, apart from those of sums."""


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
    """

    rows: Rows
    scores: Array | None = None
    values: list[Any] = field(default_factory=list)
    chances: Array | None = None
    metrics: dict[str, float] = field(default_factory=dict)


def predict(
    own: LearnParty,
    table: Table,
    name: str = "1",
    resume: bool = False,
    force: bool = False,
    say: Say = print,
) -> Predictions:
    """Predict for the rows of a new table that all parties have.

    ``name`` is that of this set of predictions, the same at all parties. Who receives them keeps
    them in ``state/predictions-NAME.csv``.
    """
    if not NAME.fullmatch(name):
        raise Dual2Error(f"--name {name!r} found; expected letters, digits, - _ and dots.")
    phase, output = f"predict-{name}", own.party.state / f"predictions-{name}.csv"
    if is_over(own, phase, output, resume, force):
        raise Dual2Error(f"{output} is there: these predictions are made. Nothing is to be done.")

    def work(transport: Parties, board: Board) -> Predictions:
        model = load_model(own)
        rows = match_rows(own, transport, table)
        for column, count in model.preparation.unknown(table, rows.index).items():
            say(f"{column}: {counted(count, 'value')} not met in training, counted as none.")
        found = _tell_scores(own, transport, model.scores(table, rows.index))
        transport.confirm()
        if found is None:
            return Predictions(rows)
        made = _predictions(own, model, table, rows, found)
        _write(output, own, table, made)
        return made

    made = run_phase(own, phase, work, lambda: _checked(own, table), resume, say)
    if own.party.me in own.study.learning.receivers:
        figures = ", ".join(f"{k} {v:.4f}" for k, v in made.metrics.items())
        say(f"{len(made.rows)} predictions: {output}{'. ' + figures if figures else ''}")
    else:
        say(f"{len(made.rows)} rows were predicted; this study tells others the result.")
    return made


def _checked(own: LearnParty, table: Table) -> str:
    """Hash of what is read; an error for data of this party that cannot be used."""
    model = load_model(own)
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


def sum_for(own: LearnParty, transport: Parties, part: Array, receiver: int, number: int) -> Array:
    """Sum over the parties that only ``receiver`` can read; to others it is random.

    ``number`` tells apart the sums of one run.
    """
    network = own.study.network
    if not np.all(np.abs(part) < 2.0**RANGE):
        raise Refusal(
            f"A part of a score exceeds 2^{RANGE} in magnitude. Standardise the columns.",
            "its part of the scores is too large.",
        )
    bits = 126 - (network.n - 1).bit_length() - RANGE
    places, words = np.array([[bits, 1, RANGE]]), np.zeros((len(part), 2), np.uint64)
    encode_rows(np.ascontiguousarray(part[None]), places, max(1, len(part)), words)
    noise = transport.own.words(_MASK + number, words.size).reshape(words.shape)
    if receiver == own.party.me:
        add_words(words, noise)
    total, _ = transport.add_words(words, True, network)
    if receiver == own.party.me:
        subtract_words(total, noise)
    answer = np.empty(len(part))
    decode_words(np.ascontiguousarray(total), places, max(1, len(part)), answer)
    return answer


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
    if own.label is not None and own.label in table.columns:
        made.metrics.update(_metrics(own, model, table, made))
    return made


def _metrics(
    own: LearnParty, model: PartyModel, table: Table, made: Predictions
) -> dict[str, float]:
    """How the predictions agree with the labels of the new table, if all are there."""
    assert own.label is not None and made.scores is not None
    column = table.column(own.label)
    true = [column[k] for k in made.rows.index]
    if any(value is None for value in true):
        return {}
    learning = own.study.learning
    if not learning.classifier:
        labels = Labels(np.array([float(value) for value in true]))
        error = float(np.sqrt(mean_squared_error(labels.values, made.values)))
        return {"score": score(learning, labels, made.scores), "root mean squared error": error}
    codes = np.array([_code(value, model.classes) for value in true])
    found = {"accuracy": score(learning, Labels(codes, len(model.classes)), made.scores)}
    if made.chances is not None:
        known = list(range(len(model.classes)))
        found["log loss"] = float(log_loss(codes, made.chances, labels=known))
    return found


def _code(value: Any, classes: tuple[str, ...]) -> int:
    words = [str(value)]
    try:
        words.append(f"{float(value):g}")
    except (TypeError, ValueError):
        pass
    for word in words:
        if word in classes:
            return classes.index(word)
    raise Refusal(
        f"A label of the new table: {unknown_name('class', str(value), classes)}",
        "a label of its new table is of no known class.",
    )


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
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([name for name, _ in columns])
    writer.writerows(zip(*(_texts(values) for _, values in columns), strict=True))
    create(output, text.getvalue().encode())


def _texts(values: Any) -> list[str]:
    return [repr(float(v)) if isinstance(v, float) else str(v) for v in values]
