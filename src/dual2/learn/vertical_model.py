"""What all vertical estimators share: reading data, splitting columns, training, reporting."""

import warnings
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from threadpoolctl import ThreadpoolController

from dual2.errors import ProblemError
from dual2.functions import Function
from dual2.learn.column_owners import (
    check_same_rows,
    column_groups,
    is_matrix_per_party,
    join_matrices,
    read_network,
)
from dual2.learn.design import Design, Penalty, make_design
from dual2.learn.inference import Summary, summarise
from dual2.learn.minimum_norm import MINIMUM_NORM, dependence_of, with_minimum_norm
from dual2.learn.reporting import communicated, explanation, warning
from dual2.learn.training import (
    Loss,
    TrainingSettings,
    TrainingState,
    plain_problem,
    predictions,
    train,
)
from dual2.learn.training_methods import sums_matter
from dual2.network import Network
from dual2.problem import Problem

Array = np.ndarray

MANY = 1_000_000
"""Default of ``max_iter``."""


@dataclass(eq=False, repr=False, kw_only=True)
class VerticalModel(BaseEstimator):
    """Base of the estimators: parameters ``parties``, ``network``, ``method`` and the like.

    Subclasses say what the loss and the penalty are, and how predictions follow.
    """

    _gain: ClassVar[float] = 0.1
    _patient: ClassVar[bool] = False

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
        X : array or sparse matrix of shape (n_samples, n_features), or list of such
            All columns, shared out by ``parties``; or one matrix per party. Sparse columns are
            never centred: they stay sparse, and the intercept is a coefficient of its own.
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

    def explain(self) -> str:
        """The whole fit in words: what was solved and sent, how it ended, and why that way."""
        check_is_fitted(self)
        return explanation(type(self).__name__, self._models, self.communication_)

    def summary(self) -> Summary:
        """Standard errors, t or z values, p values and 95 % intervals of the coefficients.

        For models without a penalty whose loss is a likelihood: least squares (t), logistic and
        multinomial and Poisson regression (z). Weights count repetitions (of a squared loss:
        precisions). It takes one more sum over the parties, of as many vectors as there are
        coefficients. The table is kept for it in the fitted estimator, not in its pickles.

        Returns
        -------
        Summary
            Printable, with the columns as arrays.
        """
        check_is_fitted(self)
        self._check_inference()
        design, target, weight = self._kept
        loss = self._likelihood(target, weight)
        assert loss is not None, "_check_inference has asked for it"
        values, names = np.atleast_2d(self.coef_), self._names(design)
        if design.penalty.intercept is not None:
            values, names = np.column_stack([values, self.intercept_]), [*names, "intercept"]
        if design.outputs > 1:
            names = [f"{label}: {name}" for label in self.classes_ for name in names]
        return summarise(design, loss, self._models[0].w, values.ravel(), names)

    def _has_standard_errors(self) -> bool:
        """Whether the loss is a likelihood."""
        return type(self)._likelihood is not VerticalModel._likelihood

    def _check_inference(self) -> None:
        """Refuse a summary where there are no standard errors, or the table is gone."""
        penalty, name = self._penalty(), type(self).__name__
        if not self._has_standard_errors():
            raise ProblemError(
                f"{name}: its loss is no likelihood, so that there are no standard errors. Use "
                "VerticalRidge(0), VerticalLogisticRegression(C=np.inf) or "
                "VerticalPoissonRegressor(0), or bootstrap the fit."
            )
        if penalty.ridge or penalty.l1:
            raise ProblemError(
                f"{name}: a penalty biases the coefficients, so that standard errors say little. "
                "Fit without one: alpha=0, or C=np.inf."
            )
        if not hasattr(self, "_kept"):
            raise ProblemError(
                f"{name}: the table is not stored with a model. Call fit again before summary."
            )

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the table."""
        return {k: v for k, v in super().__getstate__().items() if k != "_kept"}

    # -- what a subclass says -----------------------------------------------------------------
    @abstractmethod
    def _penalty(self) -> Penalty: ...

    @abstractmethod
    def _loss(self, target: Array, weight: Array) -> Loss: ...

    @abstractmethod
    def _targets(self, y: Array) -> list[Array]: ...

    coef_: Array = field(init=False)

    @abstractmethod
    def _store(self, answers: list[tuple[Array, Any]]) -> None: ...

    intercept_: Any = field(init=False)

    @property
    def _outputs(self) -> int:
        """Margins of each sample that one problem has."""
        return 1

    def _likelihood(self, target: Array, weight: Array) -> Function | None:
        """The negative log-likelihood in the margins; None if the loss is none."""
        return None

    def _certify(self, design: Design, target: Array, weight: Array, model: TrainingState) -> None:
        """What else can be said about a model; nothing unless a subclass knows."""

    def __sklearn_tags__(self) -> Any:
        """Sparse tables are taken."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

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
        return {"dtype": np.float64, "accept_sparse": "csr", "y_numeric": True}

    def _rows(self, X: Any) -> Array:
        """X for a prediction, checked against the X of fit."""
        check_is_fitted(self)
        if is_matrix_per_party(X):
            X = join_matrices(X, [len(group) for group in self.party_columns_])
            order = np.empty(X.shape[1], dtype=int)
            order[np.concatenate(self.party_columns_)] = np.arange(X.shape[1])
            X = X.iloc[:, order] if hasattr(X, "iloc") else X[:, order]
        return validate_data(self, X, dtype=np.float64, accept_sparse="csr", reset=False)

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
        how = self._penalty(), self.standardize, self._outputs
        if not used.all():
            X, weight, targets = X[used], weight[used], [target[used] for target in targets]
        return make_design(X, groups, weight, *how), targets, weight, network

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
            Which class of a one-vs-rest model (``VerticalLinearSVC``).

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
            zero = TrainingState([np.zeros(block.X.shape[1]) for block in design.blocks])
            start = _usable(fitted, target, len(targets), zero, network.n, design.rows)
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
            method=self.method,
            runtime=self.runtime,
            gain=self._gain,
            patient=self._patient,
        )

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> list[tuple[Array, Any]]:
        """Train one model per target; coefficients and intercept of each."""
        earlier = getattr(self, "_models", None) if self.warm_start else None
        settings = self._settings()
        design, targets, weight, network = self._prepare(X, y, sample_weight)
        zero = TrainingState([np.zeros(block.X.shape[1]) for block in design.blocks])
        unpenalised = not (design.penalty.ridge or design.penalty.l1)
        self._dependence = dependence_of(design, self._names(design)) if unpenalised else []
        models, answers = [], []
        for k, target in enumerate(targets):
            own, mean = self._centre(target, weight, design)
            start = _usable(earlier, k, len(targets), zero, network.n, design.rows)
            if models:  # what its problem has summed is of use to the next one
                start = replace(start, result=models[-1].result)
            with _threads().limit(limits=1, user_api="blas"):  # small products: no threads
                model = train(design.blocks, self._loss(own, weight), network, settings, start)
            if unpenalised and sums_matter(self.method) and model.result is not None:
                model = with_minimum_norm(model, design, self._loss(own, weight).h(1.0), network)
            self._certify(design, own, weight, model)
            models.append(model)
            coef, intercept = design.coefficients(model.w)
            answers.append((coef, intercept + mean))
        self._models, self.party_columns_ = models, design.groups
        self._kept = design, self._centre(targets[0], weight, design)[0], weight
        self._report(models, design)
        return answers

    def _report(self, models: list[TrainingState], design: Design) -> None:
        """What was communicated, and a warning if a model is not there yet, or took long."""
        self.communication_ = communicated(models, design)
        self.ridge_effect_ = max(model.remaining for model in models)
        self.converged_ = all(m.converged or m.result is None for m in models)
        results = [model.result for model in models if model.result is not None]
        self.result_ = results[0] if len(results) == 1 else results
        message, late = warning(models, design, self.tol)
        if message:
            kind = ConvergenceWarning if late else UserWarning
            warnings.warn(message, kind, stacklevel=4)
        for sentence in self._dependence:
            warnings.warn(f"{sentence}. {MINIMUM_NORM}", UserWarning, stacklevel=4)

    def _names(self, design: Design) -> list[str]:
        """Names of the columns; x0, x1, … where there are none."""
        names = list(getattr(self, "feature_names_in_", []))
        return names or [f"x{k}" for k in range(len(design.means))]

    def _mixed(self, strength: float, l1_ratio: float, intercept: str) -> Penalty:
        """A penalty of some strength, shared out between squares and absolute values."""
        check_number("l1_ratio", l1_ratio, lambda v: 0 <= v <= 1, "between 0 and 1")
        ridge, l1 = strength * (1.0 - l1_ratio), strength * l1_ratio
        return Penalty(ridge, l1, intercept if self.fit_intercept else None)


def check_number(name: str, value: Any, holds: Callable[[Any], bool], expected: str) -> None:
    """Refuse a parameter that is not a real number (as bool) or not what it must be."""
    if isinstance(value, bool) or not isinstance(value, Real) or not holds(value):
        raise ProblemError(f"{name} = {value!r} found; expected {expected}.")


@cache
def _threads() -> ThreadpoolController:
    """The thread pools of this process; finding them takes milliseconds."""
    return ThreadpoolController()


def _usable(
    earlier: list[TrainingState] | None, k: int, count: int, zero: TrainingState, n: int, rows: int
) -> TrainingState:
    """The earlier model of the same shape, else zero."""
    if earlier is None or len(earlier) != count:
        return zero
    old = earlier[k]
    same = [len(w) for w in old.w] == [len(w) for w in zero.w]
    if not same or old.duals is None or old.duals.shape != (n, rows):
        return zero
    return old
