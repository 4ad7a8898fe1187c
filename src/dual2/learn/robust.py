"""Regression with other losses: Huber, Poisson, quantile."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.metrics import d2_tweedie_score

from dual2.errors import ProblemError
from dual2.functions import Function, HuberLoss, PoissonLoss, QuantileLoss
from dual2.learn.design import Penalty
from dual2.learn.regression import PenalisedRegressor
from dual2.learn.training import Loss
from dual2.learn.vertical_model import Array, check_number


@dataclass(eq=False, repr=False, kw_only=True)
class VerticalHuberRegressor(PenalisedRegressor):
    """Huber regression whose columns belong to several parties.

    Minimises, as scikit-learn's ``HuberRegressor``, over w, b and the scale σ > 0

        Σ_j σ + σ·H((x_jᵀw + b - y_j)/σ) + alpha·|w|²,

    H(t) = t² for |t| ≤ epsilon and 2·epsilon·|t| - epsilon² beyond. Given the predictions, which
    the stopping test makes known, σ is the root of Σ min(|residual|/σ, epsilon)² = n; it is
    updated between two problems, which minimises the joint convex function alternately.

    Parameters
    ----------
    epsilon : float
        At least 1; residuals beyond epsilon·σ count as outliers.
    alpha : float
        Weight of |w|².

    The other parameters and the attributes are those of :class:`VerticalElasticNet`; ``scale_``
    is σ, ``outliers_`` marks the outliers.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((40, 4))
    >>> y = X @ [1.0, 0.5, 0.5, 2.0] + np.sin(np.arange(40.0)) / 9
    >>> y[::10] += 50.0
    >>> model = VerticalHuberRegressor(epsilon=2.0).fit(X, y)
    >>> model.coef_.round(1), np.flatnonzero(model.outliers_)
    (array([1. , 0.5, 0.5, 2. ]), array([ 0, 10, 20, 30]))
    """

    epsilon: float = 1.35
    alpha: float = 1e-4

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model; see :meth:`VerticalModel.fit`."""
        super().fit(X, y, sample_weight)
        residuals = np.abs(np.asarray(y, dtype=np.float64).ravel() - self.predict(X))
        weight = self._weights(sample_weight, residuals[:, None], residuals)
        self.scale_ = huber_scale(residuals, weight, self.epsilon)
        self.outliers_ = residuals > self.epsilon * self.scale_
        return self

    def _penalty(self) -> Penalty:
        check_number("epsilon", self.epsilon, lambda v: v >= 1, "a number at least 1")
        penalty = super()._penalty()
        return replace(penalty, ridge=2.0 * penalty.ridge)

    def _loss(self, target: Array, weight: Array) -> Loss:
        size = max(float(np.linalg.norm(target)), 1e-12)
        least = 1e-10 * size / np.sqrt(len(target))

        def at(z: Array) -> Loss:
            sigma = max(huber_scale(np.abs(target - z), weight, self.epsilon), least)
            scale = 2.0 * weight / sigma
            h = lambda c: HuberLoss(target, self.epsilon * sigma, c * scale)  # noqa: E731
            return Loss(h, float(scale.max()), size, at)

        return at(np.zeros(len(target)))


class VerticalPoissonRegressor(PenalisedRegressor):
    """Poisson regression whose columns belong to several parties.

    Minimises, as scikit-learn's ``PoissonRegressor``, the mean of exp(z_j) - y_j·z_j for
    z = Xw + b, plus ½·alpha·|w|²; predictions are exp(z).

    Parameters and attributes are those of :class:`VerticalElasticNet` without ``l1_ratio``.

    Examples
    --------
    >>> model = VerticalPoissonRegressor(alpha=0.1).fit([[0.0], [1.0], [2.0], [3.0]], [1, 1, 4, 8])
    >>> model.predict([[2.5]]).round(2)
    array([5.37])
    """

    def __sklearn_tags__(self) -> Any:
        """The target is not negative."""
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags

    def predict(self, X: Any) -> Array:
        """Expected counts exp(X·coef + intercept)."""
        return np.exp(super().predict(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """D², the fraction of the Poisson deviance explained."""
        return float(d2_tweedie_score(y, self.predict(X), sample_weight=sample_weight, power=1))

    def _targets(self, y: Array) -> list[Array]:
        if np.any(y < 0):
            j = int(np.flatnonzero(y < 0)[0])
            raise ProblemError(
                f"y[{j}] = {y[j]:g} found. Some value(s) of y are out of the valid range: a "
                "Poisson model needs counts of at least 0."
            )
        return super()._targets(y)

    def _loss(self, target: Array, weight: Array) -> Loss:
        share = weight / weight.sum()
        mean = max(float(share @ target), 1e-6)
        size = np.sqrt(len(target)) * max(1.0, abs(np.log(mean)))
        return Loss(lambda c: PoissonLoss(target, c * share), mean * float(share.max()), size)

    def _likelihood(self, target: Array, weight: Array) -> Function:
        return PoissonLoss(target, weight)


@dataclass(eq=False, repr=False, kw_only=True)
class VerticalQuantileRegressor(PenalisedRegressor):
    """Quantile regression whose columns belong to several parties.

    Minimises, as scikit-learn's ``QuantileRegressor``, the mean of the pinball loss
    max(q·t_j, (q - 1)·t_j), t = y - Xw - b, plus alpha·|w|₁. Where the solution
    is not unique, any may be returned.

    Parameters
    ----------
    quantile : float
        Level q, strictly between 0 and 1.
    alpha : float
        Weight of |w|₁.

    The other parameters and the attributes are those of :class:`VerticalElasticNet`.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.arange(9.0)[:, None]
    >>> model = VerticalQuantileRegressor(alpha=0.0).fit(x, x[:, 0] + [0, 0, 0, 9, 0, 0, 0, 0, 0])
    >>> model.coef_.round(4), round(model.intercept_, 4) + 0.0
    (array([1.]), 0.0)
    """

    _gain, _patient = 0.003, True

    quantile: float = 0.5
    alpha: float = 1.0
    tol: float = 1e-8

    def _penalty(self) -> Penalty:
        level = "strictly between 0 and 1"
        check_number("quantile", self.quantile, lambda v: 0 < v < 1, level)
        return self._mixed(self._checked_alpha(), 1.0, "free")

    def _loss(self, target: Array, weight: Array) -> Loss:
        share = weight / weight.sum()
        size = max(float(np.linalg.norm(target)), 1e-12)
        spread = max(float(np.std(target)), 1e-9 * size)
        return Loss(
            lambda c: QuantileLoss(target, self.quantile, c * share),
            0.5 * float(share.max()) / spread,
            size,
        )


def huber_scale(residuals: Array, weight: Array, epsilon: float) -> float:
    """The σ that minimises Σ_j weight_j(σ + σH(r_j/σ)).

    It solves Σ_j weight_j·min(|r_j|/σ, epsilon)² = Σ_j weight_j. With the
    outliers known it is an equation in 1/σ²; they are found by going through the residuals in
    order.

    Examples
    --------
    >>> huber_scale(np.array([1.0, 1.0, 1.0, 1.0]), np.ones(4), 1.35)
    1.0
    """
    order = np.argsort(residuals)
    r, s = residuals[order], weight[order]
    inside = np.concatenate([[0.0], np.cumsum(s * r**2)])
    outside = s.sum() - np.concatenate([[0.0], np.cumsum(s)])
    room = s.sum() - epsilon**2 * outside
    with np.errstate(divide="ignore", invalid="ignore"):
        sigma = np.sqrt(np.where(room > 0, inside / np.where(room > 0, room, 1.0), np.inf))
    lower = np.concatenate([[0.0], r]) <= epsilon * sigma * (1 + 1e-12)
    upper = np.concatenate([r, [np.inf]]) >= epsilon * sigma * (1 - 1e-12)
    found = sigma[lower & upper & np.isfinite(sigma)]
    return float(found[0]) if found.size else 0.0
