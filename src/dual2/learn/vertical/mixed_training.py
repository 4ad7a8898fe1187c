"""Training with one sum of mixed columns: the holder solves, and tells the others their share."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dual2.learn.vertical.holder import HolderModel, trained
from dual2.learn.vertical.inference_shares import Inference, from_summary, share_inference
from dual2.learn.vertical.labels import Labels
from dual2.learn.vertical.mixed_columns import (
    MixedColumns,
    count_mixed,
    draw_mixing,
    mix_columns,
)
from dual2.learn.vertical.party_file import LearnParty
from dual2.learn.vertical.validation import Choice, evaluate, search_here
from dual2.runtime.peers.parties import Parties
from dual2.solving.result import Status

Array = np.ndarray
_STATUSES = tuple(str(status) for status in Status)
_HEAD = 4
"""Numbers before the coefficients in what the holder tells: how many decision functions there are,
the place of the status, the KKT residual, the place of the chosen value."""


@dataclass(frozen=True)
class MixedFit:
    """A party's part of a model, and what it knows of the end."""

    coefficients: Array  # one row per decision function, of this party's columns
    constants: Array
    status: str
    certificate: dict[str, Any]
    changes: dict[str, float]  # the chosen value of the study's search
    inference: Inference | None = None  # of this party's coefficients, if the study asks for it
    at_holder: "HolderFit | None" = None


@dataclass(frozen=True)
class HolderFit:
    """What the holder alone knows: the whole model, the tables that it saw, and the choice."""

    model: HolderModel
    mixed: MixedColumns
    tables: tuple[Array, Array]
    choice: Choice | None
    evaluation: dict[str, Any]


def train_mixed(own: LearnParty, transport: Parties, X: Array, labels: Labels | None) -> MixedFit:
    """Train with the other parties; ``labels`` are None but at their holder."""
    learning = own.study.learning
    centred = learning.estimator()._penalty().intercept in ("centred", "free")
    means = X.mean(axis=0) if centred and not own.holds_labels else np.zeros(X.shape[1])
    count = count_mixed(own, transport, X.shape[1], len(X))
    columns = 0 if own.holds_labels else X.shape[1]
    Z = draw_mixing(transport, columns, count)
    found = mix_columns(own, transport, (X - means)[:, :columns], Z)
    at_holder = None
    if found is not None:
        assert labels is not None, "the holder of the labels reads them"
        at_holder = _at_holder(own, found, X, labels)
    told = _tell(own, transport, at_holder)
    outputs, status, kkt, place = int(told[0]), _STATUSES[int(told[1])], told[2], int(told[3])
    changes = {}
    if learning.search is not None:
        changes = {learning.search.parameter: float(learning.search.values[place])}
    inference = None
    if learning.evaluation.standard_errors and status == Status.CONVERGED:
        known = None
        if at_holder is not None and at_holder.model.inference is not None:
            known = from_summary(at_holder.model.inference, outputs, count)
            inference = known.of_holder(count)
        shared = share_inference(own, transport, known, None if found is None else found.back)
        inference = inference or shared.through(Z, outputs)
    if at_holder is not None:
        model = at_holder.model
        part, certificate = model.coefficients[:, count:], model.certificate
        return MixedFit(part, model.constants, status, certificate, changes, inference, at_holder)
    w = (Z @ told[_HEAD:].reshape(count, outputs)).T
    certificate = {"kkt": float(kkt), "checked_by": own.study.names[learning.holder]}
    return MixedFit(w, -w @ means, status, certificate, changes, inference)


def _at_holder(own: LearnParty, mixed: MixedColumns, X: Array, labels: Labels) -> HolderFit:
    """The model for the best value of the search, if there is one."""
    learning, tables = own.study.learning, (mixed.rotated, X)
    choice = search_here(learning, tables, labels) if learning.search is not None else None
    changes = {}
    if choice is not None and learning.search is not None:
        changes = {learning.search.parameter: choice.value}
    model = trained(learning, tables, labels, changes, learning.evaluation.standard_errors)
    figures: dict[str, Any] = {}
    if model.status == Status.CONVERGED:
        figures = evaluate(learning, model, tables, labels, changes)
    return HolderFit(model, mixed, tables, choice, figures)


def _tell(own: LearnParty, transport: Parties, found: HolderFit | None) -> Array:
    """What the holder tells all: the head, and c = L⁻ᵀv; the others add zeros."""
    message = np.zeros(0) if found is None else _message(found)
    length = transport.sum(np.array([[float(message.size)]]), own.study.network)
    part = message if message.size else np.zeros(int(length[0]))
    return transport.sum(part[None], own.study.network)


def _message(found: HolderFit) -> Array:
    """See :data:`_HEAD`; a residual of -1 says that there is none."""
    c = found.mixed.directions(found.model.coefficients[:, : len(found.mixed.back)].T)
    kkt = float(found.model.certificate.get("kkt", -1.0))
    status = _STATUSES.index(found.model.status)
    head = [c.shape[1], status, kkt if np.isfinite(kkt) else -1.0]
    return np.concatenate([head, [0 if found.choice is None else found.choice.place], c.ravel()])
