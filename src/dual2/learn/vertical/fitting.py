"""``dual2 learn align`` and ``fit``: from a party's table to its part of the model."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from dual2.errors import Refusal
from dual2.learn.classification import choose_codes
from dual2.learn.minimum_norm import MINIMUM_NORM, dependent_columns, describe
from dual2.learn.vertical.alignment import (
    ROWS,
    Rows,
    agree_on_rows,
    load_rows,
    match_rows,
    save_rows,
)
from dual2.learn.vertical.evaluation import in_words
from dual2.learn.vertical.label_noise import keep_probability
from dual2.learn.vertical.labels import Labels, read_labels, share_labels
from dual2.learn.vertical.mixed_training import MixedFit, train_mixed
from dual2.learn.vertical.model import MODEL, PartyModel, load_model, save_model
from dual2.learn.vertical.party_file import LearnParty
from dual2.learn.vertical.preparation import Preparation, learn_preparation
from dual2.learn.vertical.prepared_columns import NUMBER, WOE, numbers_of
from dual2.learn.vertical.scale_record import record_scales, with_known_scales
from dual2.learn.vertical.session import Report, demand_consent, is_over, run_phase, summary
from dual2.learn.vertical.training import Fitted, Place, train_here
from dual2.learn.vertical.validation import Choice, search_together
from dual2.learn.vertical_model import VerticalModel
from dual2.parties.status import Board
from dual2.runtime.peers.parties import Parties

Array = np.ndarray
ALIGN, FIT = "align", "fit"
FEWEST_ROWS = 10
"""Rows below which a category enters no model with private labels: a column that is not zero in one
row tells its label, one of ten rows guesses them 0.56 of the time."""


def align(
    own: LearnParty, resume: bool = False, force: bool = False, report: Report = print
) -> Rows:
    """Find the common rows; they are kept in ``state/rows.json``."""
    if is_over(own, ALIGN, own.party.state / ROWS, resume, force):
        return load_rows(own, own.table)

    def work(transport: Parties, board: Board) -> Rows:
        rows = match_rows(own, transport, own.table)
        prepare(own, rows.index)  # a cell that fit would refuse is found here
        transport.confirm()
        save_rows(own, rows)
        return rows

    rows = run_phase(own, ALIGN, work, lambda: _readable(own), resume, report)
    report(f"{len(rows)} of {len(own.table)} rows are common to all; digest {rows.digest[:16]}…")
    return rows


def _readable(own: LearnParty) -> str:
    """Hash of what is read; an error for cells that are no numbers, before rows are matched."""
    for column in own.columns:
        if column.kind == NUMBER:
            numbers_of(own.table, column.name, np.arange(len(own.table)))
    return own.table.digest(own.used())


def fit(
    own: LearnParty, resume: bool = False, force: bool = False, report: Report = print
) -> PartyModel:
    """Train with the other parties; this party's model is kept in ``state/model.json``."""
    demand_consent(own)
    if is_over(own, FIT, own.party.state / MODEL, resume, force):
        return load_model(own)
    report(summary(own))

    def work(transport: Parties, board: Board) -> PartyModel:
        rows = load_rows(own, own.table)
        agree_on_rows(own, transport, rows)
        model = _train(own, transport, board, rows)
        transport.confirm()
        save_model(own, model)
        return model

    model = run_phase(own, FIT, work, lambda: _checked(own), resume, report)
    about = model.about
    if model.solved:
        report(f"{about['status']} after {about['sums']} sums: {own.party.state / MODEL}")
    else:
        report(f"{model.notice} {own.party.state / MODEL} keeps what there is.")
    for line in model.preparation.notes:
        report(line)
    for line in (about.get("dependent"), about.get("choice"), about.get("labels")):
        if line:
            report(f"{line}")
    for rows, figures in about.get("evaluation", {}).items():
        if rows != "calibration":
            report(f"{rows} rows: {in_words(figures)}.")
    if (table := model.inference()) is not None:
        report(f"{table}")
    return model


def _checked(own: LearnParty) -> str:
    """Hash of what is read; an error for data of this party that cannot be used."""
    own.check_label()
    mark, rows = own.table.digest(own.used()), load_rows(own, own.table)
    prepare(own, rows.index)
    if own.holds_labels and own.study.learning.private and not own.columns:
        raise Refusal(
            f"{own.party.file}: table.columns is empty. labels.private needs a column of the "
            "holder of the labels: without one the others together know every score. Add a "
            "column, or decide on epsilon or accept_leakage in the study.",
            "it holds private labels and has no columns of its own.",
        )
    if own.holds_labels:
        read_labels(own, own.table, rows.index, release=False)
    return mark


def prepare(own: LearnParty, index: Array) -> Preparation:
    """How this party's columns enter the model, from the training rows."""
    learning = own.study.learning
    least = FEWEST_ROWS if learning.private else 1
    hits = _hits(own, index)
    made = learn_preparation(own.columns, own.table, index, learning.standardize, least, hits)
    return with_known_scales(own, made) if learning.mixes else made


def _hits(own: LearnParty, index: Array) -> Array | None:
    """Rows of the second class, if a column is to have weights of evidence.

    Only the holder of private labels may have such columns: weights are made of labels, so that
    sums with them would show labels.
    """
    names = [column.name for column in own.columns if column.form == WOE]
    if not names:
        return None
    told = "a column asks for weights of evidence, which it cannot have."
    if not own.holds_labels or not own.study.learning.private:
        raise Refusal(
            f"{own.party.file}: column {names[0]!r} has woe, which is made of the labels. Only the "
            "holder of private labels can have it. Use bins instead.",
            told,
        )
    labels = read_labels(own, own.table, index, release=False)
    if labels.count != 2:
        raise Refusal(
            f"{own.party.file}: column {names[0]!r} has woe, which needs two classes; the labels "
            f"have {labels.count or 'none'}. Use bins instead.",
            told,
        )
    return labels.values


def _train(own: LearnParty, transport: Parties, board: Board, rows: Rows) -> PartyModel:
    """The model of this party, by one sum of mixed columns or by sums with everybody."""
    learning, index = own.study.learning, rows.index
    preparation = prepare(own, index)
    X = preparation.apply(own.table, index)
    mine = read_labels(own, own.table, index) if own.holds_labels else None
    work = partial(_train_together, board=board)
    if learning.mixes:
        work = _train_mixed
        record_scales(own, preparation)
    found, about = work(own, transport, X, mine)
    count = {"count": len(rows), "digest": rows.digest}
    about = {"model": learning.model, "rows": count, "sums": transport.progress.sums} | about
    about |= _dependent(learning.estimator(), X, preparation.outputs)
    names = mine.names if mine is not None else ()
    return PartyModel(preparation, found.coefficients, found.constants, names, about)


def _train_mixed(
    own: LearnParty, transport: Parties, X: Array, mine: Labels | None
) -> tuple[MixedFit, dict[str, Any]]:
    """The holder of the labels trains, and tells the others their coefficients."""
    found = train_mixed(own, transport, X, mine)
    about: dict[str, Any] = {"status": found.status, "certificate": found.certificate}
    about |= {"options": own.study.learning.options | found.changes}
    if found.inference is not None:
        about["inference"] = found.inference.as_dict()
    if found.at_holder is None or mine is None:
        return found, about
    at_holder = found.at_holder
    about |= {"versions": at_holder.model.versions} | _choice(at_holder.choice)
    about |= {"evaluation": at_holder.evaluation}
    if at_holder.model.thresholds is not None:
        about["thresholds"] = at_holder.model.thresholds.tolist()
    if at_holder.model.hazard is not None:
        about["cumulative_hazard"] = {
            str(k): {"times": at.tolist(), "hazard": hazard.tolist()}
            for k, (at, hazard) in at_holder.model.hazard.items()
        }
    if mine.true is not None:
        scores = at_holder.model.scores(at_holder.tables)
        about["labels"] = _effect(own, scores, mine, mine.true)
    return found, about


def _train_together(
    own: LearnParty, transport: Parties, X: Array, mine: Labels | None, board: Board
) -> tuple[Fitted, dict[str, Any]]:
    """All parties know the labels and work in every step."""
    learning = own.study.learning
    place = Place(own.study, own.party.me, transport, board.tell)
    labels = share_labels(own, transport, mine, len(X))
    choice, changes = None, {}
    if learning.search is not None:
        choice = search_together(place, X, labels)
        changes = {learning.search.parameter: choice.value}
    found = train_here(place, learning.estimator(**changes), X, labels)
    about = {
        "status": str(found.status),
        "certificate": _plain(vars(found.result.certificate)),
        "versions": found.result.versions,
        "options": learning.options | changes,
    }
    if labels.true is not None:
        about["labels"] = _effect(own, found.scores, labels, labels.true)
    return found, about | _choice(choice)


def _choice(choice: Choice | None) -> dict[str, Any]:
    """What cross-validation has found, for the model's file."""
    return {} if choice is None else {"choice": choice.words, "search": choice.table}


def _dependent(estimator: VerticalModel, X: Array, names: Sequence[str]) -> dict[str, str]:
    """A warning of this party's own dependent columns, where coefficients are not unique."""
    penalty = estimator._penalty()
    if penalty.ridge or penalty.l1 or not X.size:
        return {}
    found = dependent_columns(X, penalty.intercept is not None)
    said = f"WARNING: {describe(found, names)}. {MINIMUM_NORM}"
    return {"dependent": said} if found else {}


def _effect(own: LearnParty, scores: Array, labels: Labels, true: Array) -> str:
    """What randomising has changed, known to the holder of the labels alone."""
    epsilon = own.study.learning.epsilon or 0.0
    codes, flipped = choose_codes(scores), int(np.sum(labels.values != true))
    return (
        f"ε = {epsilon:g}: {flipped} of {len(true)} labels were changed (expected "
        f"{(1 - keep_probability(epsilon, labels.count)) * len(true):.0f}); training accuracy "
        f"{np.mean(codes == true):.3f} on the true labels, {np.mean(codes == labels.values):.3f} "
        "on those that entered training."
    )


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    """Numbers and words of a certificate; what concerns single agents and rows is left out."""
    return {k: v for k, v in fields.items() if isinstance(v, str | float | int | None)}
