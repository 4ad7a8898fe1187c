"""Ordinal logistic regression: classes in an order, one set of coefficients for all."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from dual2.errors import ProblemError
from dual2.learn.design import Penalty
from dual2.learn.newton_models import NewtonModel
from dual2.learn.smooth_newton import Evaluation, Objective
from dual2.learn.vertical_model import Array, check_number


@dataclass(eq=False, repr=False, kw_only=True)
class VerticalOrdinalRegression(ClassifierMixin, NewtonModel):
    """Ordinal logistic regression (proportional odds) whose columns belong to several parties.

    P(class ≤ k) = 1/(1 + exp(x·w - θ_k)) with rising thresholds θ. Minimises the negative
    log-likelihood plus ½·alpha·|w|². Without a penalty that is ``OrderedModel(distr="logit")`` of
    statsmodels and ``polr`` of R. Classes are in the order of their sorted values.

    Parameters
    ----------
    alpha : float
        Weight of ½|w|².

    The other parameters are those of :class:`VerticalElasticNet`; thresholds take the place of the
    intercept.

    Attributes
    ----------
    coef_, thresholds_ : ndarray
        The model: a larger x·w means a higher class.
    classes_ : ndarray
        In their order.
    end_ : NewtonEnd
        How training ended.

    Examples
    --------
    >>> X, y = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]], [0, 1, 0, 1, 2, 2]
    >>> model = VerticalOrdinalRegression(alpha=0.1, parties=1).fit(X, y)
    >>> model.predict([[0.0], [5.0]]), bool(np.all(np.diff(model.thresholds_) > 0))
    (array([0, 2]), True)
    """

    alpha: float = field(default=0.0, kw_only=False)
    fit_intercept: bool = field(default=False, init=False)

    def _penalty(self) -> Penalty:
        wanted = "a finite number at least 0"
        check_number("alpha", self.alpha, lambda v: 0 <= v < np.inf, wanted)
        return Penalty(float(self.alpha), 0.0, None)

    def _rules(self) -> dict[str, Any]:
        return {"dtype": np.float64, "accept_sparse": "csr"}

    def _targets(self, y: Array) -> list[Array]:
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ProblemError(
                f"y holds one class only, {self.classes_[0]}: an ordinal model needs samples of at "
                "least 2 classes."
            )
        return [codes.ravel().astype(np.float64)]

    def _weights(self, sample_weight: Any, X: Array, y: Array) -> Array:
        weight = super()._weights(sample_weight, X, y)
        lost = [label for label in self.classes_ if not np.any(weight[y == label])]
        if lost and weight.any():
            raise ProblemError(
                f"All samples of class {lost[0]} have weight 0. Remove that class from y, or "
                "raise a weight."
            )
        return weight

    def _start(self, table: Array, target: Array, weight: Array) -> Array:
        mass = np.cumsum(np.bincount(target.astype(int), weight))
        share = mass[:-1] / mass[-1]
        return np.append(np.zeros(table.shape[1]), np.log(share / (1.0 - share)))

    def _objective(self, table: Array, target: Array, weight: Array) -> Objective:
        codes, top = target.astype(int), len(self.classes_) - 1
        middle, columns = table - table.mean(axis=0), table.shape[1]
        rows = np.arange(len(codes))
        upper = np.hstack([-middle, np.zeros((len(codes), top))])
        lower = upper.copy()
        has_upper, has_lower = codes < top, codes > 0
        upper[rows[has_upper], columns + codes[has_upper]] = 1.0
        lower[rows[has_lower], columns + codes[has_lower] - 1] = 1.0
        upper[~has_upper], lower[~has_lower] = 0.0, 0.0
        sizes = np.abs(upper).T @ weight + np.abs(lower).T @ weight  # a slope is 1 at most

        def evaluate(w: Array) -> Evaluation:
            u = np.where(has_upper, upper @ w, np.inf)
            v = np.where(has_lower, lower @ w, -np.inf)
            with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
                gap = np.where(has_upper & has_lower, -np.expm1(v - u), 1.0)
                chance = expit(u) * expit(-v) * gap
            if not np.all(chance > 0) or not np.all(np.diff(w[columns:]) > 0):
                none = np.zeros(len(w))
                return Evaluation(np.inf, none, np.eye(len(w)), none)
            value = -float(weight @ np.log(chance))
            at_u, at_v = expit(u) * expit(-u) / chance, expit(v) * expit(-v) / chance
            uu = at_u**2 - at_u * (1.0 - 2.0 * expit(u))
            vv = at_v**2 + at_v * (1.0 - 2.0 * expit(v))
            cross = (upper * (weight * -at_u * at_v)[:, None]).T @ lower
            hessian = upper.T @ (upper * (weight * uu)[:, None])
            hessian += lower.T @ (lower * (weight * vv)[:, None]) + cross + cross.T
            gradient = -upper.T @ (weight * at_u) + lower.T @ (weight * at_v)
            return Evaluation(value, gradient, hessian, sizes)

        return evaluate

    def _store(self, answers: list[tuple[Array, Any]]) -> None:
        [(self.coef_, _)] = answers
        self.intercept_, self.n_iter_ = 0.0, max(1, self.end_.steps)
        own = self.end_.parameters[len(self.coef_) :]
        table, _, _ = self._data  # the objective has centred columns
        self.thresholds_ = own + float(table.mean(axis=0) @ self.end_.parameters[: len(self.coef_)])

    def _reported(self) -> tuple[Array, list[str]]:
        back, names = super()._reported()
        table, count = self._data[0], len(self.coef_)
        back[count:, :count] = table.mean(axis=0)
        return back, names

    def _own_values(self) -> Array:
        return self.thresholds_

    def _own_names(self) -> list[str]:
        return [f"{a}/{b}" for a, b in zip(self.classes_[:-1], self.classes_[1:], strict=True)]

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes, (n_samples, n_classes)."""
        return ordinal_probabilities(self._rows(X) @ self.coef_, self.thresholds_)

    def predict(self, X: Any) -> Array:
        """The most probable class."""
        places = self.predict_proba(X).argmax(axis=1)
        return self.classes_[places]

    def __sklearn_tags__(self) -> Any:
        """Classes without an order are beyond it."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags


def ordinal_probabilities(scores: Array, thresholds: Array) -> Array:
    """Probabilities of the classes from x·w and the thresholds.

    Examples
    --------
    >>> ordinal_probabilities(np.zeros(1), np.array([0.0])).tolist()
    [[0.5, 0.5]]
    """
    below = expit(thresholds - np.asarray(scores)[:, None])
    ends = np.hstack([np.zeros((len(below), 1)), below, np.ones((len(below), 1))])
    return np.diff(ends, axis=1)
