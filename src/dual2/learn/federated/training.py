"""Training at one party: its own columns, and sums with the others.

The model is that of the estimator, minimised as it is (see :mod:`dual2.learn.training`):

    loss(Σ_i X_i w_i) + Σ_i Σ_j (ridge_ij/2)·w_ij² + l1_ij·|w_ij|.

The intercept belongs to the holder of the labels. Every party centres its own columns where there
is one and it is not penalised, so that a party's part of a score is (X_i - means_i)w_i.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils.class_weight import compute_sample_weight

from dual2.functions import Function, L1Norm, Quadratic, Zero
from dual2.learn.base import Penalty, VerticalModel
from dual2.learn.federated.labels import Labels
from dual2.learn.federated.study import LearnStudy
from dual2.learn.training import Block, Loss
from dual2.problem import Agent
from dual2.runtime import Share
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
    """A party's part of a model: its coefficients, and what it adds to every score.

    Attributes
    ----------
    coefficients, constants : ndarray
        One row, and one number, per decision function.
    scores : ndarray
        Of all parties together, for each training row; known to everybody.
    result : Result
        Of the problem that ended worst.
    """

    coefficients: Array
    constants: Array
    scores: Array
    result: Result

    @property
    def status(self) -> Status:
        """How training ended."""
        return self.result.status


def train_here(place: Place, estimator: VerticalModel, X: Array, labels: Labels) -> Fitted:
    """Train with the other parties, on this party's columns of the training rows."""
    targets, weight = targets_of(labels), _weights(estimator, labels)
    if labels.count:  # of each decision function: a class against the rest
        estimator.classes_ = np.array([-1.0, 1.0])
    parts = [_train_one(place, estimator, X, target, weight) for target in targets]
    worst = max(parts, key=lambda part: (part[3].status != Status.CONVERGED, part[3].counts.sums))
    coefficients, constants, scores, _ = zip(*parts, strict=True)
    return Fitted(np.array(coefficients), np.array(constants), np.array(scores).T, worst[3])


def targets_of(labels: Labels) -> list[Array]:
    """One target per decision function: the numbers, or ±1 for a class against the rest."""
    if not labels.count:
        return [labels.values]
    positive = [1] if labels.count == 2 else range(labels.count)
    return [np.where(labels.values == k, 1.0, -1.0) for k in positive]


def _weights(estimator: VerticalModel, labels: Labels) -> Array:
    kind = getattr(estimator, "class_weight", None)
    if kind is None:
        return np.ones(len(labels.values))
    return compute_sample_weight(kind, labels.values)


def _train_one(
    place: Place, estimator: VerticalModel, X: Array, target: Array, weight: Array
) -> tuple[Array, float, Array, Result]:
    """Coefficients, the constant of this party, scores of all, and the result."""
    penalty = estimator._penalty()
    centred = penalty.intercept in ("centred", "free")
    means = np.average(X, axis=0, weights=weight) if centred else np.zeros(X.shape[1])
    block = _block(place, X - means, penalty)
    middle = float(np.average(target, weights=weight)) if penalty.intercept == "centred" else 0.0
    w, result = _solve(place, block, estimator._loss(target - middle, weight))
    coef, constant = w[: X.shape[1]], -float(means @ w[: X.shape[1]])
    if place.holder:
        number = penalty.intercept if isinstance(penalty.intercept, float) else 1.0
        column = penalty.intercept not in (None, "centred")
        constant += middle + (float(w[-1]) * number if column else 0.0)
    return coef, constant, result.y + middle, result


def _block(place: Place, X: Array, penalty: Penalty) -> Block:
    """The party's columns; the intercept's is at the holder of the labels."""
    ridge, l1 = np.full(X.shape[1], penalty.ridge), np.full(X.shape[1], penalty.l1)
    if place.holder and penalty.intercept not in (None, "centred"):
        free = penalty.intercept == "free"
        number = 1.0 if free else float(penalty.intercept)  # type: ignore[arg-type]
        X = np.column_stack([X, np.full(len(X), number)])
        ridge, l1 = np.append(ridge, 0.0 if free else penalty.ridge), np.append(l1, 0.0)
    if not X.shape[1]:  # a party with labels only: a coefficient that does nothing
        X, ridge, l1 = np.zeros((len(X), 1)), np.ones(1), np.zeros(1)
    return Block(np.ascontiguousarray(X), ridge, l1)


def _solve(place: Place, block: Block, loss: Loss) -> tuple[Array, Result]:
    """The coefficients; a loss with a parameter of its own is solved until they rest."""
    tol = place.study.learning.tol
    if loss.follow is None:
        w, result = _solve_once(place, block, loss, tol)
    else:
        w, result = _follow(place, block, loss, tol)
    if result.status == Status.CONVERGED and _is_endless(place, block, loss, w, result.y):
        result = replace(result, status=Status.DIVERGED)
    return w, result


def _follow(place: Place, block: Block, loss: Loss, tol: float) -> tuple[Array, Result]:
    """Problem after problem, each with the parameter that suits the scores of the one before."""
    assert loss.follow is not None
    old, now = np.zeros(block.X.shape[1]), max(tol, _FIRST)
    w, result = _solve_once(place, block, loss.follow(np.zeros(len(block.X))), now)
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


def _solve_once(place: Place, block: Block, loss: Loss, tol: float) -> tuple[Array, Result]:
    """One problem in columns of length one, with a loss of curvature about one."""
    root, factor = block.lengths, 1.0 / loss.curvature
    g: Function = L1Norm(factor * block.l1 / root) if block.l1.any() else Zero()
    agent = Agent(block.X / root, Quadratic(factor * block.ridge / root**2), g)
    network = place.study.network
    share = Share({place.me: agent}, loss.h(factor), network.n)
    options: dict[str, Any] = place.study.public.options | {"tol": tol, "atol": 1e-12}
    options |= {"record": False, "progress": False, "callback": place.tell}
    result = solve(share, network, runtime=place.transport, **options)
    return result.x[0] / root, replace(result, dual=result.dual / factor)


def _is_endless(place: Place, block: Block, loss: Loss, w: Array, scores: Array) -> bool:
    """Whether the objective falls from w to 2w: the coefficients have no finite limit."""
    penalties = np.array([float(block.ridge @ w**2), float(block.l1 @ np.abs(w))])
    square, size = place.total(penalties)
    h = loss.h(1.0)
    with np.errstate(over="ignore"):
        return bool(h.value(2.0 * scores) + 1.5 * square + size < h.value(scores))
