"""What all vertical estimators share: reading data, splitting columns, training, reporting."""

import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from threadpoolctl import ThreadpoolController

from dual2.errors import ProblemError
from dual2.learn.parties import (
    check_same_rows,
    column_groups,
    is_matrix_per_party,
    join_matrices,
    read_network,
)
from dual2.learn.training import (
    Block,
    Loss,
    Model,
    TrainingSettings,
    plain_problem,
    predictions,
    train,
)
from dual2.network import Network
from dual2.problem import Problem
from dual2.solving.result import Status

Array = np.ndarray

MANY = 1_000_000
"""Default of ``max_iter``."""

MANY_ROUNDS, WIDE = 10_000, 3.0
"""Rounds of a model, and largest spread of its columns, beyond which fit advises to scale."""


@dataclass(frozen=True)
class Penalty:
    """Weights of ½w² and |w| for every coefficient, and what becomes of the intercept.

    ``intercept`` is None (there is none), ``"centred"`` (columns and target are centred: exact
    for a squared loss), ``"free"`` (a column of ones, no penalty) or the number in a column that
    is penalised like the others.
    """

    ridge: float
    l1: float = 0.0
    intercept: str | float | None = None


@dataclass(frozen=True)
class Design:
    """The parties' columns as they enter training."""

    groups: list[Array]
    blocks: list[Block]
    means: Array
    scales: Array
    spread: float
    penalty: Penalty

    @property
    def size(self) -> int:
        """Numbers in the parties' columns."""
        return sum(block.X.size for block in self.blocks)

    def coefficients(self, w: Sequence[Array]) -> tuple[Array, float]:
        """Coefficients in the order and the units of X, and the intercept."""
        parts = list(w)
        last = parts[-1]
        column = self.penalty.intercept not in (None, "centred")
        constant = 0.0
        if column:
            parts[-1] = last[:-1]
            number = self.penalty.intercept if isinstance(self.penalty.intercept, float) else 1.0
            constant = float(last[-1]) * number
        coef = np.empty(len(self.means))
        coef[np.concatenate(self.groups)] = np.concatenate(parts)
        coef /= self.scales
        return coef, constant - float(self.means @ coef)


@dataclass(eq=False, repr=False, kw_only=True)
class VerticalModel(BaseEstimator):
    """Base of the estimators: parameters ``parties``, ``network``, ``method`` and the like.

    Subclasses say what the loss and the penalty are, and how predictions follow.
    """

    _gain: ClassVar[float] = 0.1
    _patient: ClassVar[bool] = False
    _auto: ClassVar[str] = "auto"

    fit_intercept: bool = True
    max_iter: int = MANY
    tol: float = 1e-8
    warm_start: bool = False
    standardize: bool = False
    parties: Any = None
    network: Any = None
    method: Any = "auto"
    runtime: str = "stacked"

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), or list of arrays
            All columns, shared out by ``parties``; or one matrix per party.
        y : array of shape (n_samples,)
            Target or classes, known to all parties.
        sample_weight : array of shape (n_samples,), optional
            Weights, known to all parties.

        Returns
        -------
        self : estimator
        """
        self._store(self._fit(X, y, sample_weight))
        self.party_coef_ = [self.coef_[..., group] for group in self.party_columns_]
        return self

    # -- what a subclass says -----------------------------------------------------------------
    @abstractmethod
    def _penalty(self) -> Penalty: ...

    @abstractmethod
    def _loss(self, target: Array, weight: Array) -> Loss: ...

    @abstractmethod
    def _targets(self, y: Array) -> list[Array]: ...

    coef_: Array = field(init=False)

    @abstractmethod
    def _store(self, answers: list[tuple[Array, float]]) -> None: ...

    def _certify(self, design: Design, target: Array, weight: Array, model: Model) -> None:
        """What else can be said about a model; nothing unless a subclass knows."""

    # -- data ---------------------------------------------------------------------------------
    def _read(self, X: Any, y: Any) -> tuple[Array, Array, list[Array]]:
        """X and y checked, and the columns of each party."""
        if is_matrix_per_party(X):
            joined = join_matrices(X)
            widths = [np.shape(part)[1] for part in X]
            own = np.split(np.arange(sum(widths)), np.cumsum(widths)[:-1])
            if isinstance(self.parties, int | np.integer) and self.parties != len(X):
                raise ProblemError(
                    f"Found {len(X)} matrices, but parties = {self.parties}. Pass one matrix per "
                    "party."
                )
            X, y = validate_data(self, joined, y, **self._rules())
            return X, y, own
        X, y = validate_data(self, X, y, **self._rules())
        names = getattr(self, "feature_names_in_", None)
        return X, y, column_groups(self.parties, X.shape[1], None if names is None else list(names))

    def _rules(self) -> dict[str, Any]:
        return {"dtype": np.float64, "y_numeric": True}

    def _rows(self, X: Any) -> Array:
        """X for a prediction, checked against the X of fit."""
        check_is_fitted(self)
        if is_matrix_per_party(X):
            X = join_matrices(X, [len(group) for group in self.party_columns_])
            order = np.empty(X.shape[1], dtype=int)
            order[np.concatenate(self.party_columns_)] = np.arange(X.shape[1])
            X = X[:, order] if isinstance(X, np.ndarray) else X.iloc[:, order]
        return validate_data(self, X, dtype=np.float64, reset=False)

    def _weights(self, sample_weight: Any, X: Array, y: Array) -> Array:
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
        if np.any(weight < 0):
            j = int(np.flatnonzero(weight < 0)[0])
            raise ProblemError(
                f"sample_weight[{j}] = {weight[j]:g} found. Negative values in data passed to "
                "`sample_weight`: expected numbers of at least 0."
            )
        return weight

    # -- the problem --------------------------------------------------------------------------
    def _design(self, X: Array, groups: list[Array], weight: Array) -> Design:
        """What each party does with its own columns: centre, scale, attach penalties."""
        penalty = self._penalty()
        centred = penalty.intercept in ("centred", "free")
        means = np.average(X, axis=0, weights=weight) if centred else np.zeros(X.shape[1])
        spread = np.sqrt(np.average((X - means) ** 2, axis=0, weights=weight))
        scales = np.where(spread > 0, spread, 1.0) if self.standardize else np.ones(X.shape[1])
        blocks = []
        for i, group in enumerate(groups):
            part = (X[:, group] - means[group]) / scales[group]
            ridge, l1 = np.full(len(group), penalty.ridge), np.full(len(group), penalty.l1)
            if i == len(groups) - 1 and penalty.intercept not in (None, "centred"):
                free = penalty.intercept == "free"
                number = 1.0 if free else float(penalty.intercept)  # type: ignore[arg-type]
                part = np.column_stack([part, np.full(len(X), number)])
                ridge, l1 = np.append(ridge, 0.0 if free else penalty.ridge), np.append(l1, 0.0)
            blocks.append(Block(np.ascontiguousarray(part), ridge, l1))
        return Design(groups, blocks, means, scales, float((spread / scales).max()), penalty)

    def _prepare(
        self, X: Any, y: Any, sample_weight: Any
    ) -> tuple[Design, list[Array], Array, Network]:
        """The design, the target of each problem, the weights and the network."""
        check_same_rows(X, y, "y")
        check_same_rows(X, sample_weight, "sample_weight")
        X, y, groups = self._read(X, y)
        network = read_network(self.network, len(groups), self.parties)
        targets = self._targets(y)
        weight = self._weights(sample_weight, X, y)
        used = weight > 0
        if not used.any():
            raise ProblemError("All sample weights are zero: there is nothing to fit.")
        design = self._design(X[used], groups, weight[used])
        return design, [target[used] for target in targets], weight[used], network

    def problem(
        self, X: Any, y: Any, sample_weight: Any = None, target: int = 0
    ) -> tuple[Problem, Network]:
        """The decentralised problem behind ``fit``, to look at, solve otherwise, or store.

        Its variables are the coefficients of each party's columns (centred, and divided by their
        spread with ``standardize``), the intercept last at the last party unless centring took
        care of it. It is the model's objective and nothing else; a loss with a parameter of its
        own (Huber's scale) has the one that suits the fitted coefficients, or 0 before fit.

        Parameters
        ----------
        X, y, sample_weight
            As for ``fit``.
        target : int
            Which class of a one-vs-rest model.

        Returns
        -------
        problem, network : Problem, Network
            Ready for :func:`dual2.solve` and :func:`dual2.save_problem`.
        """
        fitted = getattr(self, "_models", None)
        design, targets, weight, network = self._prepare(X, y, sample_weight)
        if not 0 <= target < len(targets):
            raise ProblemError(
                f"target = {target} found; the model has {len(targets)} decision functions: "
                f"expected 0 … {len(targets) - 1}."
            )
        loss = self._loss(self._centre(targets[target], weight, design)[0], weight)
        if loss.follow is not None:
            zero = Model([np.zeros(block.X.shape[1]) for block in design.blocks])
            start = _usable(fitted, target, len(targets), zero, network.n, len(weight))
            loss = loss.follow(predictions(design.blocks, start.w))
        return plain_problem(design.blocks, loss), network

    def _centre(self, target: Array, weight: Array, design: Design) -> tuple[Array, float]:
        """The target without its mean, and the mean, where centring replaces the intercept."""
        if design.penalty.intercept != "centred":
            return target, 0.0
        mean = float(np.average(target, weights=weight))
        return target - mean, mean

    # -- fitting ------------------------------------------------------------------------------
    def _settings(self) -> TrainingSettings:
        """How to train, from the parameters."""
        for name, value in (("tol", self.tol), ("max_iter", self.max_iter)):
            check_number(name, value, lambda v: 0 <= v < np.inf, "a finite number at least 0")
        return TrainingSettings(
            tol=float(self.tol),
            max_rounds=int(self.max_iter),
            method=self._auto if self.method == "auto" else self.method,
            runtime=self.runtime,
            gain=self._gain,
            patient=self._patient,
        )

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> list[tuple[Array, float]]:
        """Train one model per target; coefficients and intercept of each."""
        earlier = getattr(self, "_models", None) if self.warm_start else None
        settings = self._settings()
        design, targets, weight, network = self._prepare(X, y, sample_weight)
        zero = Model([np.zeros(block.X.shape[1]) for block in design.blocks])
        models, answers = [], []
        for k, target in enumerate(targets):
            own, mean = self._centre(target, weight, design)
            start = _usable(earlier, k, len(targets), zero, network.n, len(weight))
            with _threads().limit(limits=1, user_api="blas"):  # small products: no threads
                model = train(design.blocks, self._loss(own, weight), network, settings, start)
            self._certify(design, own, weight, model)
            models.append(model)
            coef, intercept = design.coefficients(model.w)
            answers.append((coef, intercept + mean))
        self._models, self.party_columns_ = models, design.groups
        self._report(models, design)
        return answers

    def _report(self, models: list[Model], design: Design) -> None:
        """What was communicated, and a warning if a model is not there yet, or took long."""
        names = ("sums", "rounds", "vectors", "agree_rounds", "floats", "solves")
        self.communication_ = {name: sum(m.counts[name] for m in models) for name in names}
        self.communication_["table"] = design.size
        self.ridge_effect_ = max(model.remaining for model in models)
        results = [model.result for model in models if model.result is not None]
        self.result_ = results[0] if len(results) == 1 else results
        late = [m for m in models if not m.converged and m.result is not None]
        rounds = max(model.counts["rounds"] for model in models)
        advice = "" if design.spread < WIDE else _advice(design.spread)
        if late:
            message = _shortfall(late[0], self.tol) + advice
            warnings.warn(message, ConvergenceWarning, stacklevel=4)
        elif advice and rounds > MANY_ROUNDS:
            warnings.warn(f"Training took {rounds} rounds.{advice}", UserWarning, stacklevel=4)

    def _mixed(self, strength: float, l1_ratio: float, intercept: str) -> Penalty:
        """A penalty of some strength, shared out between squares and absolute values."""
        check_number("l1_ratio", l1_ratio, lambda v: 0 <= v <= 1, "between 0 and 1")
        ridge, l1 = strength * (1.0 - l1_ratio), strength * l1_ratio
        return Penalty(ridge, l1, intercept if self.fit_intercept else None)


def check_number(name: str, value: Any, holds: Callable[[Any], bool], expected: str) -> None:
    """Refuse a parameter that is not a real number (as bool) or not what it must be."""
    if isinstance(value, bool) or not isinstance(value, Real) or not holds(value):
        raise ProblemError(f"{name} = {value!r} found; expected {expected}.")


def _advice(spread: float) -> str:
    """What to do about large columns, against which the penalty is weak."""
    return (
        f" The spread of the columns is large (up to {spread:.2g}): scale them (standardize=True, "
        "or a StandardScaler) to need fewer rounds. The penalty then applies to the scaled columns."
    )


def _shortfall(model: Model, tol: float) -> str:
    """How far a model is that has not converged, and what to do."""
    assert model.result is not None
    rest = f", coefficients still to move by about {model.remaining:.1e} of their length"
    where = (
        f"after {model.counts['rounds']} rounds: KKT residual {model.result.certificate.kkt:.1e}"
        f"{rest if model.remaining > 0 else ''}, tol = {tol:g}."
    )
    if model.result.status == Status.CONVERGED:
        return (
            f"Training still moves {where} There may be no finite solution (classes that can be "
            "separated, or counts that are all 0, without a penalty): penalise more, or loosen tol."
        )
    return (
        f"Training ended with {model.result.status} {where} Increase max_iter, loosen tol, or "
        "penalise more."
    )


@cache
def _threads() -> ThreadpoolController:
    """The thread pools of this process; finding them takes milliseconds."""
    return ThreadpoolController()


def _usable(
    earlier: list[Model] | None, k: int, count: int, zero: Model, n: int, rows: int
) -> Model:
    """The earlier model of the same shape, else zero."""
    if earlier is None or len(earlier) != count:
        return zero
    old = earlier[k]
    same = [len(w) for w in old.w] == [len(w) for w in zero.w]
    if not same or old.duals is None or old.duals.shape != (n, rows):
        return zero
    return old
