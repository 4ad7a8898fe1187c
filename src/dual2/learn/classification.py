"""Classification: logistic regression, multinomial or binary, and linear support vectors."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets

from dual2.errors import ProblemError
from dual2.functions import Function, HingeLoss, LogisticLoss, SoftmaxLoss, SquaredHingeLoss
from dual2.learn.design import Penalty
from dual2.learn.training import Loss
from dual2.learn.vertical_model import Array, VerticalModel, check_number


@dataclass(eq=False, repr=False, kw_only=True)
class VerticalClassifier(ClassifierMixin, VerticalModel):
    """A linear decision function per class; one for two classes."""

    C: float = 1.0
    class_weight: Any = None

    def _store(self, answers: list[tuple[Array, Any]]) -> None:
        self.coef_ = np.vstack([coef for coef, _ in answers])
        self.intercept_ = np.concatenate([np.atleast_1d(number) for _, number in answers])
        self.n_iter_ = np.array([max(1, model.counts["rounds"]) for model in self._models])

    def decision_function(self, X: Any) -> Array:
        """Signed margins: (n_samples,) for two classes, else (n_samples, n_classes)."""
        margins = self._margins(X)
        return margins[:, 0] if len(self.classes_) == 2 else margins

    def _margins(self, X: Any) -> Array:
        return self._rows(X) @ self.coef_.T + self.intercept_

    def predict(self, X: Any) -> Array:
        """The class with the largest margin."""
        codes = choose_codes(self._margins(X))
        return self.classes_[codes]

    def _rules(self) -> dict[str, Any]:
        return {"dtype": np.float64, "accept_sparse": "csr"}

    def _targets(self, y: Array) -> list[Array]:
        self._read_classes(y)
        positive = self.classes_[1:] if len(self.classes_) == 2 else self.classes_
        return [np.where(y == label, 1.0, -1.0) for label in positive]

    def _read_classes(self, y: Array) -> None:
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise ProblemError(
                f"y holds one class only, {self.classes_[0]}: a classifier needs samples of at "
                "least 2 classes."
            )

    def _weights(self, sample_weight: Any, X: Array, y: Array) -> Array:
        weight = super()._weights(sample_weight, X, y)
        weight = weight * self._class_factors(weight, y)
        lost = [label for label in self.classes_ if not np.any(weight[y == label])]
        if lost and weight.any():
            raise ProblemError(
                f"All samples of class {lost[0]} have weight 0. Remove that class from y, or "
                "raise a weight."
            )
        return weight

    def _class_factors(self, weight: Array, y: Array) -> Array:
        """Each sample's factor by its class."""
        return compute_sample_weight(self.class_weight, y)

    def _inverse_C(self) -> float:
        check_number("C", self.C, lambda v: v > 0, "a number greater than 0")
        return 1.0 / self.C


@dataclass(eq=False, repr=False, kw_only=True)
class VerticalLogisticRegression(VerticalClassifier):
    """Logistic regression whose columns belong to several parties.

    Minimises, as scikit-learn's ``LogisticRegression``, for two classes

        C·Σ_j s_j·log(1 + exp(-y_j(x_jᵀw + b))) + ½(1 - l1_ratio)·|w|² + l1_ratio·|w|₁

    and for K > 2 classes the multinomial loss, with one w_k and b_k for each,

        C·Σ_j s_j·(log Σ_k exp(x_jᵀw_k + b_k) - x_jᵀw_y - b_y), y = y_j, and the same penalty.

    The intercepts are not penalised: they are coefficients of the last party, for a column of
    ones. What all classes share changes no probability; the answer's intercepts sum to zero and,
    without l1, so do the coefficients of a column. One against the rest is scikit-learn's
    ``OneVsRestClassifier`` of this estimator.

    Parameters
    ----------
    C : float
        Inverse strength of the penalty; inf for none.
    l1_ratio : float
        Mix of the penalty.
    class_weight : dict, "balanced" or None
        Weights of the classes.

    The other parameters and the attributes are those of :class:`VerticalElasticNet`; ``coef_`` and
    ``intercept_`` have one row per decision function, ``n_iter_`` has one entry.

    Examples
    --------
    >>> X, y = [[0.0, 1.0], [1.0, 1.0], [2.0, 0.0], [3.0, 1.0]], ["no", "no", "yes", "yes"]
    >>> model = VerticalLogisticRegression().fit(X, y)
    >>> model.predict([[2.5, 0.5]]), model.predict_proba([[2.5, 0.5]]).round(2)
    (array(['yes'], dtype='<U3'), array([[0.27, 0.73]]))
    """

    l1_ratio: float = 0.0

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes, (n_samples, n_classes)."""
        return probabilities(self._margins(X))

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithm of :meth:`predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def _penalty(self) -> Penalty:
        return self._mixed(self._inverse_C(), self.l1_ratio, "free")

    def _class_factors(self, weight: Array, y: Array) -> Array:
        """As others; balanced classes have the same sum of weights, as in scikit-learn."""
        if not (isinstance(self.class_weight, str) and self.class_weight == "balanced"):
            return super()._class_factors(weight, y)
        place = np.searchsorted(self.classes_, y)
        sums = np.bincount(place, weight)
        share = np.divide(weight.sum(), len(sums) * sums, out=np.zeros_like(sums), where=sums > 0)
        return share[place]

    @property
    def _outputs(self) -> int:
        return len(self.classes_) if len(self.classes_) > 2 else 1

    def _targets(self, y: Array) -> list[Array]:
        self._read_classes(y)
        if self._outputs > 1:
            return [np.searchsorted(self.classes_, y).astype(float)]
        return [np.where(y == self.classes_[1], 1.0, -1.0)]

    def _store(self, answers: list[tuple[Array, Any]]) -> None:
        super()._store(answers)
        if self._outputs > 1:
            self.intercept_ = self.intercept_ - self.intercept_.mean()
            if self._penalty().l1 == 0:
                self.coef_ = self.coef_ - self.coef_.mean(axis=0)

    def _likelihood(self, target: Array, weight: Array) -> Function:
        if self._outputs > 1:
            return SoftmaxLoss(target, self._outputs, weight)
        return LogisticLoss(target, weight)

    def _loss(self, target: Array, weight: Array) -> Loss:
        steep = 0.25 * float(weight.max()) * min(self._outputs, 2)
        size = float(np.sqrt(len(target) * self._outputs))
        return Loss(lambda c: self._likelihood(target, c * weight), steep, size)


@dataclass(eq=False, repr=False, kw_only=True)
class VerticalLinearSVC(VerticalClassifier):
    """Linear support vector classification whose columns belong to several parties.

    Minimises, as scikit-learn's ``LinearSVC``,

        ½|w|² + ½(b/intercept_scaling)² + C·Σ_j s_j·max(0, 1 - y_j(x_jᵀw + b))²,

    without the square for ``loss="hinge"``. The intercept is penalised, as there: it is the
    coefficient of a column with the constant ``intercept_scaling`` at the last party; a larger
    one penalises it less. More than two classes are treated one against the rest.

    Parameters
    ----------
    C : float
        Inverse strength of the penalty.
    loss : {"squared_hinge", "hinge"}
        Which loss.
    intercept_scaling : float
        Positive constant of the intercept's column.
    class_weight : dict, "balanced" or None
        Weights of the classes.

    The other parameters and the attributes are those of :class:`VerticalElasticNet`; ``coef_`` and
    ``intercept_`` have one row per decision function, ``n_iter_`` one entry.

    Examples
    --------
    >>> X, y = [[0.0, 1.0], [1.0, 1.0], [2.0, 0.0], [3.0, 1.0]], [0, 0, 1, 1]
    >>> VerticalLinearSVC().fit(X, y).predict([[2.5, 0.5]])
    array([1])
    """

    loss: str = "squared_hinge"
    intercept_scaling: float = 1.0

    def _penalty(self) -> Penalty:
        scaling = self.intercept_scaling
        check_number("intercept_scaling", scaling, lambda v: v > 0, "a positive number")
        column = float(scaling) if self.fit_intercept else None
        return Penalty(self._inverse_C(), 0.0, column)

    def _loss(self, target: Array, weight: Array) -> Loss:
        size, top = float(np.sqrt(len(target))), float(weight.max())
        if self.loss == "squared_hinge":
            return Loss(lambda c: SquaredHingeLoss(target, c * weight), 2.0 * top, size)
        if self.loss == "hinge":
            return Loss(lambda c: HingeLoss(target, c * weight), top, size)
        raise ProblemError(f"loss = {self.loss!r} found; expected 'squared_hinge' or 'hinge'.")


def choose_codes(scores: Array) -> Array:
    """Codes of the classes with the largest scores.

    Examples
    --------
    >>> choose_codes(np.array([[-0.5], [2.0]])), choose_codes(np.array([[1.0, 3.0, 2.0]]))
    (array([0, 1]), array([1]))
    """
    return (scores[:, 0] > 0).astype(int) if scores.shape[1] == 1 else scores.argmax(axis=1)


def probabilities(scores: Array) -> Array:
    """Of logistic scores: one column per class, their rates divided by the sum of all.

    Examples
    --------
    >>> probabilities(np.array([[0.0]])), probabilities(np.zeros((1, 4)))
    (array([[0.5, 0.5]]), array([[0.25, 0.25, 0.25, 0.25]]))
    """
    if scores.shape[1] == 1:
        return np.column_stack([expit(-scores[:, 0]), expit(scores[:, 0])])
    return softmax(scores, axis=1)
