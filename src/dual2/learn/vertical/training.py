"""Training at one party: its own columns, and sums with the others.

The model is that of the estimator, minimised as it is (see :mod:`dual2.learn.training`):

    loss(Σ_i X_i w_i) + Σ_i Σ_j (ridge_ij/2)·w_ij² + l1_ij·|w_ij|.

The intercept belongs to the holder of the labels. Every party centres its own columns where there
is one and it is not penalised, so that a party's part of a score is (X_i - means_i)w_i. A
multinomial model has one w_i for each class.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dual2.learn.design import Design, make_design
from dual2.learn.minimum_norm import MAX_COLUMNS, shorten
from dual2.learn.separable_classes import is_endless
from dual2.learn.training import Loss, PartyColumns
from dual2.learn.training_methods import sums_matter
from dual2.learn.vertical.labels import Labels
from dual2.learn.vertical.study import LearnStudy
from dual2.learn.vertical_model import VerticalModel
from dual2.runtime import LocalProblem
from dual2.runtime.peers.parties import Parties
from dual2.solving.result import Result, Status
from dual2.solving.solve import solve

Array = np.ndarray
_FIRST, _GAIN, _MOST = 1e-3, 0.1, 100
"""For a loss with a parameter of its own: tolerance of the first problem, of the next ones relative
to the last step, and most of them."""


@dataclass(frozen=True)
class Place:
    """Where a party trains: with whom, over what, and who is told of residuals."""

    study: LearnStudy
    me: int
    transport: Parties
    tell: Any = None

    @property
    def holder(self) -> bool:
        """Whether the intercept is here."""
        return self.me == self.study.learning.holder

    def total(self, numbers: Array) -> Array:
        """Sum over the parties."""
        return self.transport.sum(np.atleast_2d(numbers), self.study.network)


@dataclass(frozen=True)
class Fitted:
    """A party's part of a model: its coefficients, and what it adds to every score."""

    coefficients: Array  # one row per decision function
    constants: Array  # one number likewise
    scores: Array  # of all parties together, for each training row; known to everybody
    result: Result  # of the problem that ended worst

    @property
    def status(self) -> Status:
        """How training ended."""
        return self.result.status


def train_here(place: Place, estimator: VerticalModel, X: Array, labels: Labels) -> Fitted:
    """Train with the other parties, on this party's columns of the training rows."""
    targets = estimator._targets(labels.values)
    weight = estimator._weights(None, X, labels.values)
    parts = [_train_one(place, estimator, X, target, weight) for target in targets]
    worst = max(parts, key=lambda part: (part.status != Status.CONVERGED, part.result.counts.sums))
    return Fitted(
        np.vstack([part.coefficients for part in parts]),
        np.concatenate([part.constants for part in parts]),
        np.hstack([part.scores for part in parts]),
        worst.result,
    )


def _train_one(
    place: Place, estimator: VerticalModel, X: Array, target: Array, weight: Array
) -> Fitted:
    """One problem: a decision function, or those of all classes of a multinomial model."""
    design, outputs = _design(place, estimator, X, weight), estimator._outputs
    centred = estimator._penalty().intercept == "centred"
    middle = float(np.average(target, weights=weight)) if centred else 0.0
    w, result = _solve(place, design.blocks[0], estimator._loss(target - middle, weight))
    if not (design.penalty.ridge or design.penalty.l1):
        w = _of_minimum_norm(place, design, w)
    coef, constant = design.coefficients([w])
    coef, constant = np.atleast_2d(coef)[:, : X.shape[1]], np.atleast_1d(constant)
    if outputs > 1:  # what all classes share changes no probability: none is kept
        constant = constant - constant.mean()
        coef = coef if design.penalty.l1 else coef - coef.mean(axis=0)
    if place.holder:
        constant = constant + middle
    return Fitted(coef, constant, result.y.reshape(-1, outputs) + middle, result)


def _of_minimum_norm(place: Place, design: Design, w: Array) -> Array:
    """The coefficients of minimum norm with the same predictions; see :mod:`.minimum_norm`."""
    if not sums_matter(place.study.public.options["method"]):
        return w
    block, outputs = design.blocks[0], design.outputs
    columns = round(float(place.total(np.array([block.X.shape[1] / outputs]))[0]))
    if columns > MAX_COLUMNS:
        return w

    def total(parts: Sequence[Array]) -> Array:
        return place.total(parts[0])

    free = [int(design.penalty.column is not None)]
    return shorten([block], [w], total, columns, outputs, free).w[0]


def _design(place: Place, estimator: VerticalModel, X: Array, weight: Array) -> Design:
    """The party's columns, centred where the intercept is free; its column is at the holder."""
    penalty = estimator._penalty()
    if not place.holder and penalty.column is not None:
        penalty = replace(penalty, intercept="centred" if penalty.intercept == "free" else None)
    if not X.shape[1]:  # a party with labels only: a coefficient that does nothing
        X = np.zeros((len(X), 1))
    return make_design(X, [np.arange(X.shape[1])], weight, penalty, False, estimator._outputs)


def _solve(place: Place, block: PartyColumns, loss: Loss) -> tuple[Array, Result]:
    """The coefficients; a loss with a parameter of its own is solved until they rest."""
    tol = place.study.learning.tol
    if loss.follow is None:
        w, result = _solve_once(place, block, loss, tol)
    else:
        w, result = _follow(place, block, loss, tol)
    if result.status == Status.CONVERGED:
        if is_endless(loss.h(1.0), result.y, place.total(block.penalties(w))):
            result = replace(result, status=Status.DIVERGED)
    return w, result


def _follow(place: Place, block: PartyColumns, loss: Loss, tol: float) -> tuple[Array, Result]:
    """Problem after problem, each with the parameter that suits the scores of the one before."""
    assert loss.follow is not None
    old, now = np.zeros(block.X.shape[1]), max(tol, _FIRST)
    w, result = _solve_once(place, block, loss.follow(np.zeros(block.X.shape[0])), now)
    for _ in range(_MOST):
        if result.status != Status.CONVERGED:
            return w, result
        moved = block.lengths * (w - old), block.lengths * w
        step, size = place.total(np.array([float(v @ v) for v in moved]))
        share = float(np.sqrt(step / size)) if size > 0 else 0.0
        if now <= tol and share <= 5.0 * tol:
            return w, result
        old, now = w, max(tol, min(now, _GAIN * share))
        w, result = _solve_once(place, block, loss.follow(result.y), now)
    return w, replace(result, status=Status.STALLED)


def _solve_once(place: Place, block: PartyColumns, loss: Loss, tol: float) -> tuple[Array, Result]:
    """One problem in columns of length one, with a loss of curvature about one."""
    network, factor = place.study.network, 1.0 / loss.curvature
    share = LocalProblem({place.me: block.agent(factor)}, loss.h(factor), network.n)
    options: dict[str, Any] = place.study.public.options | {"tol": tol, "atol": 1e-12}
    options |= {"record": False, "progress": False, "callback": place.tell}
    result = solve(share, network, runtime=place.transport, **options)
    return block.coefficients(result.x[0]), replace(result, dual=result.dual / factor)
