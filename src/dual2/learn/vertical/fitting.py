"""``dual2 learn align`` and ``fit``: from a party's table to its part of the model."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dual2.learn.base import VerticalModel
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
from dual2.learn.vertical.label_noise import keep_probability
from dual2.learn.vertical.labels import Labels, read_labels, share_labels
from dual2.learn.vertical.model import MODEL, PartyModel, load_model, save_model
from dual2.learn.vertical.party_file import LearnParty
from dual2.learn.vertical.preparation import learn_preparation
from dual2.learn.vertical.session import Report, demand_consent, is_over, run_phase, summary
from dual2.learn.vertical.training import Fitted, Place, train_here
from dual2.learn.vertical.validation import Choice, choose_value
from dual2.parties.status import Board
from dual2.runtime.peers.parties import Parties

Array = np.ndarray
ALIGN, FIT = "align", "fit"


def align(
    own: LearnParty, resume: bool = False, force: bool = False, report: Report = print
) -> Rows:
    """Find the common rows; they are kept in ``state/rows.json``."""
    if is_over(own, ALIGN, own.party.state / ROWS, resume, force):
        return load_rows(own, own.table)

    def work(transport: Parties, board: Board) -> Rows:
        rows = match_rows(own, transport, own.table)
        transport.confirm()
        save_rows(own, rows)
        return rows

    rows = run_phase(own, ALIGN, work, lambda: own.table.digest(own.used()), resume, report)
    report(f"{len(rows)} of {len(own.table)} rows are common to all; digest {rows.digest[:16]}…")
    return rows


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
    for line in (about.get("dependent"), about.get("choice"), about.get("labels")):
        if line:
            report(f"{line}")
    return model


def _checked(own: LearnParty) -> str:
    """Hash of what is read; an error for data of this party that cannot be used."""
    own.check_label()
    mark, rows = own.table.digest(own.used()), load_rows(own, own.table)
    learn_preparation(own.columns, own.table, rows.index, own.study.learning.standardize)
    if own.holds_labels:
        read_labels(own, own.table, rows.index, release=False)
    return mark


def _train(own: LearnParty, transport: Parties, board: Board, rows: Rows) -> PartyModel:
    learning, index = own.study.learning, rows.index
    place = Place(own.study, own.party.me, transport, board.tell)
    mine = read_labels(own, own.table, index) if own.holds_labels else None
    labels = share_labels(own, transport, mine, len(index))
    prepare = lambda some: learn_preparation(  # noqa: E731
        own.columns, own.table, some, learning.standardize
    )
    choice: Choice | None = None
    changes: dict[str, Any] = {}
    if learning.search is not None:
        choice = choose_value(place, own.table, index, labels, prepare)
        changes = {learning.search.parameter: choice.value}
    preparation = prepare(index)
    estimator = learning.estimator(**changes)
    X = preparation.apply(own.table, index)
    found = train_here(place, estimator, X, labels)
    about = _about(own, found, labels, rows, transport)
    about |= _dependent(estimator, X, preparation.outputs)
    about |= {"options": learning.options | changes}
    if choice is not None:
        about |= {"choice": choice.words, "search": choice.table}
    return PartyModel(preparation, found.coefficients, found.constants, labels.names, about)


def _about(
    own: LearnParty, found: Fitted, labels: Labels, rows: Rows, transport: Parties
) -> dict[str, Any]:
    result = found.result
    about: dict[str, Any] = {
        "model": own.study.learning.model,
        "status": str(result.status),
        "rows": {"count": len(rows), "digest": rows.digest},
        "sums": transport.progress.sums,
        "certificate": _plain(vars(result.certificate)),
        "versions": result.versions,
    }
    if labels.true is not None:
        about["labels"] = _effect(own, found, labels, labels.true)
    return about


def _dependent(estimator: VerticalModel, X: Array, names: Sequence[str]) -> dict[str, str]:
    """A warning of this party's own dependent columns, where coefficients are not unique."""
    penalty = estimator._penalty()
    if penalty.ridge or penalty.l1 or not X.size:
        return {}
    found = dependent_columns(X, penalty.intercept is not None)
    said = f"WARNING: {describe(found, names)}. {MINIMUM_NORM}"
    return {"dependent": said} if found else {}


def _effect(own: LearnParty, found: Fitted, labels: Labels, true: Array) -> str:
    """What randomising has changed, known to the holder of the labels alone."""
    epsilon = own.study.learning.epsilon or 0.0
    codes, flipped = choose_codes(found.scores), int(np.sum(labels.values != true))
    return (
        f"ε = {epsilon:g}: {flipped} of {len(true)} labels were changed (expected "
        f"{(1 - keep_probability(epsilon, labels.count)) * len(true):.0f}); training accuracy "
        f"{np.mean(codes == true):.3f} on the true labels, {np.mean(codes == labels.values):.3f} "
        "on those that entered training."
    )


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    """Numbers and words of a certificate; what concerns single agents and rows is left out."""
    return {k: v for k, v in fields.items() if isinstance(v, str | float | int | None)}
