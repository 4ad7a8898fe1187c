"""Estimators that the holder of the labels fits by Newton's method in the coefficients."""

import warnings
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import d2_tweedie_score

from dual2.errors import ProblemError
from dual2.learn.design import Design
from dual2.learn.inference import Summary
from dual2.learn.regression import PenalisedRegressor
from dual2.learn.smooth_newton import (
    Evaluation,
    NewtonEnd,
    Objective,
    minimise_smooth,
    with_ridge,
)
from dual2.learn.training import Loss
from dual2.learn.vertical_model import Array, VerticalModel, check_number
from dual2.solving.result import Status


class NewtonModel(VerticalModel):
    """A model whose loss is no function of one number per row, or has parameters of its own.

    In one process it computes what the holder of the labels computes between organisations: the
    loss in all columns at once. ``end_`` says how that ended.
    """

    @abstractmethod
    def _objective(self, table: Array, target: Array, weight: Array) -> Objective:
        """The negative log-likelihood, of the coefficients and the model's own parameters."""

    def _start(self, table: Array, target: Array, weight: Array) -> Array:
        """Where the method begins: zero, and the model's own parameters."""
        return np.zeros(table.shape[1])

    def _loss(self, target: Array, weight: Array) -> Loss:
        raise ProblemError(
            f"{type(self).__name__} has no loss that splits by rows, so that there is no problem "
            "for dual2.solve. Its fit is computed by Newton's method in the coefficients."
        )

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> list[tuple[Array, Any]]:
        settings = self._settings()
        design, [target], weight, _ = self._prepare(X, y, sample_weight)
        parts = [block.X for block in design.blocks]
        table = np.hstack([p.toarray() if sp.issparse(p) else p for p in parts])
        ridge = np.concatenate([block.ridge for block in design.blocks])
        plain, start = self._objective(table, target, weight), self._start(table, target, weight)
        ridge = np.append(ridge, np.zeros(len(start) - len(ridge)))
        end = minimise_smooth(lambda w: with_ridge(plain(w), w, ridge), start, settings.tol)
        self._design, self._data, self.party_columns_ = (
            design,
            (table, target, weight),
            design.groups,
        )
        self._finish(end, design)
        cuts = np.cumsum([part.shape[1] for part in parts])[:-1]
        coef, intercept = design.coefficients(np.split(end.parameters[: table.shape[1]], cuts))
        return [(coef, intercept)]

    def _finish(self, end: NewtonEnd, design: Design) -> None:
        """What is known of the end, and what the parties would have sent."""
        self.end_, self.converged_ = end, end.status == Status.CONVERGED
        rows, parties = design.rows, len(design.blocks)
        mixed = sum(block.X.shape[1] for block in design.blocks[:-1])
        floats = 2 * (parties - 1) * (rows * mixed + mixed * (mixed + 1) // 2 + mixed)
        self.communication_ = {"sums": 3, "floats": floats, "table": design.size, "rounds": 0}
        self.ridge_effect_ = 0.0
        if not self.converged_:
            advice = (
                "There is no finite solution: classes or events can be separated. Penalise."
                if end.status == Status.DIVERGED
                else "Loosen tol, penalise more, or scale the columns."
            )
            warnings.warn(
                f"Training ended with {end.status} after {end.steps} steps: KKT residual "
                f"{end.kkt:.1e}, tol = {self.tol:g}. {advice}",
                ConvergenceWarning,
                stacklevel=5,
            )

    def explain(self) -> str:
        """The fit in words."""
        end = self.end_
        return (
            f"{type(self).__name__}: {end.status} after {end.steps} Newton steps, KKT residual "
            f"{end.kkt:.1e}. Between organisations: one masked sum of mixed columns and one of a "
            "matrix to the holder of the labels, one sum with the coefficients."
        )

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the table."""
        return {k: v for k, v in super().__getstate__().items() if k not in ("_data", "_design")}

    # -- inference --------------------------------------------------------------------------------
    def summary(self) -> Summary:
        """Standard errors, t or z values, p values and 95 % intervals of the coefficients."""
        self._check_newton_inference()
        covariance, kind, freedom = self._covariance()
        back, names = self._reported()
        values = np.append(np.ravel(self.coef_), self._own_values())
        return Summary(names, values, back @ covariance @ back.T, kind, freedom, {"sums": 0})

    def _covariance(self) -> tuple[Array, str, float]:
        """Inverse information in the parameters, the law of the statistics."""
        return np.linalg.inv(self.end_.hessian), "z", np.inf

    def _reported(self) -> tuple[Array, list[str]]:
        """What turns the parameters into those of the answer, and the names of these."""
        design, size = self._design, len(self.end_.parameters)
        count = len(design.means)
        back = np.eye(size)
        order = np.concatenate(design.groups)
        back[:count, :count] = 0.0
        back[order, np.arange(count)] = 1.0 / design.scales[order]
        if design.penalty.column is not None:
            back[count, :count] = -(design.means / design.scales)[order]
        return back, [*self._names(design), *self._own_names()]

    def _own_values(self) -> Array:
        """Reported parameters beyond the coefficients."""
        return np.atleast_1d(self.intercept_) if self.fit_intercept else np.zeros(0)

    def _own_names(self) -> list[str]:
        return ["intercept"] if self.fit_intercept else []

    def _has_standard_errors(self) -> bool:
        return True

    def _check_newton_inference(self) -> None:
        penalty, name = self._penalty(), type(self).__name__
        if penalty.ridge:
            raise ProblemError(
                f"{name}: a penalty biases the coefficients, so that standard errors say little. "
                "Fit with alpha = 0."
            )
        if not hasattr(self, "_data"):
            raise ProblemError(
                f"{name}: the table is not stored with a model. Call fit again before summary."
            )


@dataclass(eq=False, repr=False, kw_only=True)
class VerticalTweedieRegressor(NewtonModel, PenalisedRegressor):
    """Tweedie regression with a log link whose columns belong to several parties.

    Minimises, as scikit-learn's ``TweedieRegressor(link="log")``, half the mean unit deviance of
    exp(Xw + b) plus ½·alpha·|w|². The powers between 1 (Poisson) and 2 (Gamma) are those of claims:
    many zeros, positive amounts else.

    Parameters
    ----------
    power : float
        From 1 to 2: the variance grows like this power of the mean.
    alpha : float
        Weight of ½|w|².

    The other parameters and the attributes are those of :class:`VerticalElasticNet`; ``end_`` says
    how training ended.

    Examples
    --------
    >>> X = [[0.0], [1.0], [2.0], [3.0]]
    >>> model = VerticalTweedieRegressor(alpha=0.0, parties=1).fit(X, [0.0, 2.0, 3.0, 9.0])
    >>> model.predict([[2.5]]).round(2)
    array([5.58])
    """

    power: float = 1.5

    def __sklearn_tags__(self) -> Any:
        """The target is not negative."""
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags

    def _check_power(self) -> None:
        wanted = "a number from 1 to 2 (1 is Poisson, 2 is Gamma)"
        check_number("power", self.power, lambda v: 1 <= v <= 2, wanted)

    def _targets(self, y: Array) -> list[Array]:
        self._check_power()
        least = 0.0 if self.power < 2 else np.finfo(float).tiny
        if np.any(y < least):
            j = int(np.flatnonzero(y < least)[0])
            raise ProblemError(
                f"y[{j}] = {y[j]:g} found. Some value(s) of y are out of the valid range: power "
                f"{self.power:g} needs values {'above' if least else 'of at least'} 0."
            )
        return [np.asarray(y, dtype=np.float64)]

    def _objective(self, table: Array, target: Array, weight: Array) -> Objective:
        p, share = self.power, weight / weight.sum()

        def evaluate(w: Array) -> Evaluation:
            z = table @ w
            with np.errstate(over="ignore", invalid="ignore"):
                up = np.exp((2.0 - p) * z)
                down = target * np.exp((1.0 - p) * z)
                high = z if p == 2 else up / (2.0 - p)
                low = target * z if p == 1 else down / (1.0 - p)
                value = float(share @ (high - low))
                slope, bend = share * (up - down), share * ((2.0 - p) * up - (1.0 - p) * down)
            if not np.isfinite(value) or not np.all(np.isfinite(bend)):
                none = np.zeros(len(w))
                return Evaluation(np.inf, none, np.eye(len(w)), none)
            hessian = table.T @ (table * bend[:, None])
            sizes = np.abs(table).T @ (share * (up + down))
            return Evaluation(value, table.T @ slope, hessian, sizes)

        return evaluate

    def _start(self, table: Array, target: Array, weight: Array) -> Array:
        start = np.zeros(table.shape[1])
        if self.fit_intercept:
            start[-1] = np.log(max(float(np.average(target, weights=weight)), 1e-12))
        return start

    def _covariance(self) -> tuple[Array, str, float]:
        """From the expected information and Pearson's estimate of the dispersion, as in R."""
        table, target, weight = self._data
        mean = np.exp(table @ self.end_.parameters)
        freedom = float(len(target) - table.shape[1])
        if freedom <= 0:
            raise ProblemError(
                f"{len(target)} samples and {table.shape[1]} coefficients found: no standard "
                "errors without more samples than coefficients. Add samples, or drop columns."
            )
        dispersion = float(weight @ ((target - mean) ** 2 / mean**self.power)) / freedom
        information = table.T @ (table * (weight * mean ** (2.0 - self.power))[:, None])
        return dispersion * np.linalg.inv(information), "t", freedom

    def predict(self, X: Any) -> Array:
        """Expected values exp(X·coef + intercept)."""
        return np.exp(super().predict(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """D², the fraction of the deviance explained."""
        mean = self.predict(X)
        return float(d2_tweedie_score(y, mean, sample_weight=sample_weight, power=self.power))

    def _store(self, answers: list[tuple[Array, Any]]) -> None:
        [(self.coef_, self.intercept_)] = answers
        self.n_iter_ = max(1, self.end_.steps)


@dataclass(eq=False, repr=False, kw_only=True)
class VerticalGammaRegressor(VerticalTweedieRegressor):
    """Gamma regression with a log link whose columns belong to several parties.

    Minimises, as scikit-learn's ``GammaRegressor``, the mean of z_j + y_j·exp(-z_j) for z = Xw + b,
    plus ½·alpha·|w|².

    Parameters and attributes are those of :class:`VerticalTweedieRegressor` without ``power``.

    Examples
    --------
    >>> X = [[0.0], [1.0], [2.0], [3.0]]
    >>> VerticalGammaRegressor(alpha=0.0, parties=1).fit(X, [1, 2, 4, 8]).coef_.round(4)
    array([0.6931])
    """

    power: float = 2.0
