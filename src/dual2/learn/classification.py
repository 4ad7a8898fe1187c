"""Classification: logistic regression and linear support vector machine, binary or one-vs-rest."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets

from dual2.errors import ProblemError
from dual2.functions import HingeLoss, LogisticLoss, SquaredHingeLoss
from dual2.learn.base import Array, Penalty, VerticalModel, check_number
from dual2.learn.training import Loss


@dataclass(eq=False, repr=False, kw_only=True)
class VerticalClassifier(ClassifierMixin, VerticalModel):
    """A linear decision function per class against the rest; one for two classes."""

    C: float = 1.0
    class_weight: Any = None

    def _store(self, answers: list[tuple[Array, float]]) -> None:
        self.coef_, self.intercept_ = (np.array(part) for part in zip(*answers, strict=True))
        self.n_iter_ = np.array([max(1, model.counts["rounds"]) for model in self._models])

    def decision_function(self, X: Any) -> Array:
        """Signed margins: (n_samples,) for two classes, else (n_samples, n_classes)."""
        margins = self._rows(X) @ self.coef_.T + self.intercept_
        return margins[:, 0] if len(self.classes_) == 2 else margins

    def predict(self, X: Any) -> Array:
        """The class with the largest margin."""
        margins = self.decision_function(X)
        best = (margins > 0).astype(int) if margins.ndim == 1 else margins.argmax(axis=1)
        return self.classes_[best]

    def _rules(self) -> dict[str, Any]:
        return {"dtype": np.float64}

    def _targets(self, y: Array) -> list[Array]:
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise ProblemError(
                f"y holds one class only, {self.classes_[0]}: a classifier needs samples of at "
                "least 2 classes."
            )
        positive = self.classes_[1:] if len(self.classes_) == 2 else self.classes_
        return [np.where(y == label, 1.0, -1.0) for label in positive]

    def _weights(self, sample_weight: Any, X: Array, y: Array) -> Array:
        weight = super()._weights(sample_weight, X, y)
        weight = weight * compute_sample_weight(self.class_weight, y)
        lost = [label for label in self.classes_ if not np.any(weight[y == label])]
        if lost and weight.any():
            raise ProblemError(
                f"All samples of class {lost[0]} have weight 0. Remove that class from y, or "
                "raise a weight."
            )
        return weight

    def _inverse_C(self) -> float:
        check_number("C", self.C, lambda v: v > 0, "a number greater than 0")
        return 1.0 / self.C


@dataclass(eq=False, repr=False, kw_only=True)
class VerticalLogisticRegression(VerticalClassifier):
    """Logistic regression whose columns belong to several parties.

    Minimises, as scikit-learn's ``LogisticRegression`` for two classes,

        C·Σ_j s_j·log(1 + exp(-y_j(x_jᵀw + b))) + ½(1 - l1_ratio)·|w|² + l1_ratio·|w|₁.

    More than two classes are treated one against the rest, as ``OneVsRestClassifier`` does. The
    intercept is not penalised: it is a coefficient of the last party, for a column of ones.

    Parameters
    ----------
    C : float
        Inverse strength of the penalty; inf for none.
    l1_ratio : float
        Mix of the penalty.
    class_weight : dict, "balanced" or None
        Weights of the classes.

    The other parameters and the attributes are those of :class:`VerticalElasticNet`; ``coef_`` and
    ``intercept_`` have one row per decision function, ``n_iter_`` one entry.

    Examples
    --------
    >>> X, y = [[0.0, 1.0], [1.0, 1.0], [2.0, 0.0], [3.0, 1.0]], ["no", "no", "yes", "yes"]
    >>> model = VerticalLogisticRegression().fit(X, y)
    >>> model.predict([[2.5, 0.5]]), model.predict_proba([[2.5, 0.5]]).round(2)
    (array(['yes'], dtype='<U3'), array([[0.27, 0.73]]))
    """

    l1_ratio: float = 0.0

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes, (n_samples, n_classes), normalised for one-vs-rest."""
        margins = self.decision_function(X)
        if margins.ndim == 1:
            return np.column_stack([expit(-margins), expit(margins)])
        rates = expit(margins)
        return rates / rates.sum(axis=1, keepdims=True)

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithm of :meth:`predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def _penalty(self) -> Penalty:
        return self._mixed(self._inverse_C(), self.l1_ratio, "free")

    def _loss(self, target: Array, weight: Array) -> Loss:
        size = float(np.sqrt(len(target)))
        return Loss(lambda c: LogisticLoss(target, c * weight), 0.25 * float(weight.max()), size)


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
