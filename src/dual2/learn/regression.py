"""Regression with a squared loss: elastic net, ridge, lasso, and nonnegative predictions."""

import warnings
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import RegressorMixin

from dual2.errors import ProblemError
from dual2.functions import Function, NonnegativeSquaredLoss, SquaredLoss
from dual2.learn.design import Design, Penalty
from dual2.learn.training import Loss, TrainingState, predictions
from dual2.learn.vertical_model import Array, VerticalModel, check_number


class VerticalRegressor(RegressorMixin, VerticalModel):
    """A linear model of one real target."""

    def _store(self, answers: list[tuple[Array, Any]]) -> None:
        [(self.coef_, self.intercept_)] = answers
        self.n_iter_ = max(1, self.communication_["rounds"])

    def predict(self, X: Any) -> Array:
        """Predictions X·coef + intercept, for one matrix or one per party."""
        return self._rows(X) @ self.coef_ + self.intercept_

    def _targets(self, y: Array) -> list[Array]:
        return [np.asarray(y, dtype=np.float64)]


@dataclass(eq=False, repr=False, kw_only=True)
class PenalisedRegressor(VerticalRegressor):
    """A linear model with one penalty, ``alpha``: of squares unless a subclass says otherwise."""

    alpha: float = field(default=1.0, kw_only=False)
    _intercept: ClassVar[str] = "free"

    def _checked_alpha(self) -> float:
        wanted = "a finite number at least 0"
        check_number("alpha", self.alpha, lambda v: 0 <= v < np.inf, wanted)
        return self.alpha

    def _penalty(self) -> Penalty:
        return Penalty(self._checked_alpha(), 0.0, self._intercept if self.fit_intercept else None)


@dataclass(eq=False, repr=False, kw_only=True)
class VerticalElasticNet(PenalisedRegressor):
    """Elastic net whose columns belong to several parties.

    Minimises, as scikit-learn's ``ElasticNet``,

        1/(2n)·|y - Xw - b|² + alpha·l1_ratio·|w|₁ + ½·alpha·(1 - l1_ratio)·|w|²

    (with sample weights s the first term is Σ s_j(…)²/(2Σ s_j)). Party i holds columns X_i and
    coefficients w_i; vectors of length n_samples are summed over the network. The intercept
    comes from centring, which each party does alone.

    Parameters
    ----------
    alpha, l1_ratio : float
        Strength and mix of the penalty.
    fit_intercept : bool
        Whether there is an intercept, which is not penalised.
    max_iter : int
        Most rounds of communication.
    tol : float
        Relative KKT residual, and relative step of the coefficients, at which training ends.
    warm_start : bool
        Start from the coefficients of the last fit.
    standardize : bool
        Let every party divide its columns by their spread; ``coef_`` stays in the units of X, the
        penalty applies to the scaled columns. Large columns cost many rounds.
    parties : None, int, list or dict
        None: two; an int: so many, columns shared out in order; or the columns of each party, by
        position or name (a dict's keys may name the nodes of ``network``). With
        ``fit([X_1, …, X_n], y)`` the matrices decide.
    network : None, str, networkx graph or Network
        Who talks to whom: None or ``"path"``, ``"cycle"``, ``"star"``, ``"complete"``, or any
        connected graph with one node per party.
    method, runtime : str
        Passed to :func:`dual2.solve`. ``"auto"`` is Newton's method over exact sums, and iD2A from
        where that stalls. A method by gossip needs a ridge: where that of the model is weak, a
        small one is added whose centre follows the solution (see ``ridge_effect_``).

    Attributes
    ----------
    coef_, intercept_ : ndarray, float
        The model.
    party_coef_, party_columns_ : list of ndarray
        Each party's own coefficients, and which columns they belong to.
    n_iter_ : int
        Rounds of communication.
    communication_ : dict
        Of the whole fit: ``sums`` over the network, ``rounds``, ``vectors`` sent per neighbour by
        gossip, ``agree_rounds``, ``latency`` = rounds + agree_rounds, and ``floats`` sent in all,
        over ``solves`` problems; ``table`` is how many numbers the parties' columns have.
    result_ : Result
        Of the last problem: certificate, explanation.
    ridge_effect_ : float
        Estimated relative distance of the coefficients from those without added ridge; 0 where
        none was added.
    dual_gap_ : float
        Upper bound of the objective's excess over its minimum; inf where there is none.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((40, 4))
    >>> model = VerticalElasticNet(alpha=0.1, parties=[[0, 1], [2, 3]]).fit(X, X @ [1.0, 0, 0, 2])
    >>> model.coef_.round(2), [part.round(2).tolist() for part in model.party_coef_]
    (array([0.85, 0.  , 0.  , 1.85]), [[0.85, 0.0], [0.0, 1.85]])
    """

    l1_ratio: float = 0.5

    def _penalty(self) -> Penalty:
        return self._mixed(self._checked_alpha(), self.l1_ratio, "centred")

    def _loss(self, target: Array, weight: Array) -> Loss:
        return squared_loss(target, weight / weight.sum())

    def _likelihood(self, target: Array, weight: Array) -> Function:
        return SquaredLoss(target, weight)

    def _certify(self, design: Design, target: Array, weight: Array, model: TrainingState) -> None:
        self.dual_gap_ = dual_gap(design, target, weight / weight.sum(), model)


@dataclass(eq=False, repr=False, kw_only=True)
class VerticalLasso(VerticalElasticNet):
    """Lasso whose columns belong to several parties.

    Minimises 1/(2n)·|y - Xw - b|² + alpha·|w|₁ as scikit-learn's ``Lasso``. ``dual_gap_`` bounds
    the excess of the objective.

    Parameters and attributes are those of :class:`VerticalElasticNet` without ``l1_ratio``.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((40, 4))
    >>> model = VerticalLasso(alpha=0.1).fit(X, X @ [1.0, 0.0, 0.0, 2.0])
    >>> model.coef_.round(2), model.ridge_effect_ < 1e-6
    (array([0.85, 0.  , 0.  , 1.89]), True)
    """

    l1_ratio: float = field(default=1.0, init=False)


class VerticalRidge(PenalisedRegressor):
    """Ridge regression whose columns belong to several parties.

    Minimises |y - Xw - b|² + alpha·|w|² as scikit-learn's ``Ridge`` (with sample weights s the
    first term is Σ s_j(…)²). A y of two dimensions has several targets, one row of ``coef_`` each.

    Parameters and attributes are those of :class:`VerticalElasticNet` without ``l1_ratio``.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((40, 4))
    >>> VerticalRidge(network="complete", parties=4).fit(X, X @ [1.0, 0, 0, 2]).coef_.round(2)
    array([0.96, 0.01, 0.01, 1.95])
    """

    _intercept = "centred"

    def _rules(self) -> dict[str, Any]:
        return super()._rules() | {"multi_output": True}

    def __sklearn_tags__(self) -> Any:
        """Several targets are taken."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _targets(self, y: Array) -> list[Array]:
        y = np.asarray(y, dtype=np.float64)
        self._several = y.ndim == 2
        return list(np.ascontiguousarray(y.T)) if self._several else [y]

    def _store(self, answers: list[tuple[Array, Any]]) -> None:
        if not self._several:
            super()._store(answers)
            return
        self.coef_ = np.vstack([coef for coef, _ in answers])
        self.intercept_ = np.array([number for _, number in answers])
        self.n_iter_ = max(1, self.communication_["rounds"])

    def predict(self, X: Any) -> Array:
        """Predictions X·coef + intercept, one column per target if there are several."""
        return self._rows(X) @ self.coef_.T + self.intercept_

    def _check_inference(self) -> None:
        super()._check_inference()
        if self._several:
            raise ProblemError(
                "VerticalRidge: a summary is for one target; y has several. Fit one after another."
            )

    def _likelihood(self, target: Array, weight: Array) -> Function:
        return SquaredLoss(target, weight)

    def _loss(self, target: Array, weight: Array) -> Loss:
        return squared_loss(target, weight)


class VerticalNonnegativeRegression(PenalisedRegressor):
    """Ridge regression whose predictions on the training rows are nonnegative.

    Minimises |y - Xw - b|² + alpha·|w|² subject to Xw + b ≥ 0: prices, loads or counts that cannot
    be negative. ``alpha`` counts as in :class:`VerticalRidge` and scikit-learn's ``Ridge`` (with
    sample weights s the first term is Σ s_j(…)²). New rows may still be predicted below zero.

    Earlier versions divided the first term by n: a FutureWarning recalls it for one release.

    Parameters and attributes are those of :class:`VerticalElasticNet` without ``l1_ratio``.

    Examples
    --------
    >>> X = [[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 1.0]]
    >>> model = VerticalNonnegativeRegression(alpha=0).fit(X, [-1.0, 0.0, 1.0, 3.0])
    >>> bool((model.predict(X) >= -1e-6).all())
    True
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model; see :meth:`VerticalModel.fit`."""
        if self.alpha:
            warnings.warn(
                "VerticalNonnegativeRegression: alpha now counts as in Ridge, beside the sum of "
                "squares and no longer beside their mean. Multiply an earlier alpha by the number "
                "of samples for the same model.",
                FutureWarning,
                stacklevel=2,
            )
        return super().fit(X, y, sample_weight)

    def __sklearn_tags__(self) -> Any:
        """The constraint may keep the model from a target that is negative."""
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags

    def _loss(self, target: Array, weight: Array) -> Loss:
        size = max(float(np.linalg.norm(target)), 1e-12)
        return Loss(lambda c: NonnegativeSquaredLoss(target, c * weight), float(weight.max()), size)


def squared_loss(target: Array, scale: Array) -> Loss:
    """½Σ scale_j(z_j - y_j)²."""
    size = max(float(np.linalg.norm(target)), 1e-12)
    return Loss(lambda c: SquaredLoss(target, c * scale), float(scale.max()), size)


def dual_gap(design: Design, y: Array, scale: Array, model: TrainingState) -> float:
    """Objective minus dual objective at the prices, an upper bound of the excess.

    P(w) = ½Σ scale_j(z_j - y_j)² + l1·|w|₁ + ½ridge·|w|², z = Xw, has the dual
    D(λ) = -Σ λ_j²/(2·scale_j) + λ_j·y_j - Σ_k max(|Xᵀλ|_k - l1, 0)²/(2·ridge); without a ridge λ
    is shortened until |Xᵀλ|_k ≤ l1 (if both are 0 there is no bound). An intercept with a column
    of its own demands Σ λ_j = 0.
    """
    blocks, ridge, l1 = design.blocks, design.penalty.ridge, design.penalty.l1
    if model.duals is None or (ridge == 0 and l1 == 0):
        return np.inf
    lam, w = model.duals.mean(axis=0), np.concatenate(model.w)
    if design.penalty.column is not None:
        lam, w = lam - lam.mean(), w[:-1]
    pull = np.abs(np.concatenate([block.X.T @ lam for block in blocks]))[: len(w)]
    length = 1.0 if ridge > 0 else min(1.0, l1 / max(float(pull.max()), 1e-300))
    lam, pull = length * lam, length * pull
    z = predictions(blocks, model.w)
    primal = 0.5 * scale @ (z - y) ** 2 + l1 * np.abs(w).sum() + 0.5 * ridge * w @ w
    excess = np.maximum(pull - l1, 0.0)
    penalty = float(excess @ excess) / (2.0 * ridge) if ridge > 0 else 0.0
    dual = -float(lam @ (0.5 * lam / scale + y)) - penalty
    return max(0.0, float(primal) - dual)
