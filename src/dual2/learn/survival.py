"""Cox proportional hazards, for columns of several parties."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dual2.errors import ProblemError, unknown_name
from dual2.learn.design import Penalty
from dual2.learn.newton_models import NewtonModel
from dual2.learn.partial_likelihood import (
    EFRON,
    TIES,
    baseline_hazard,
    concordance,
    cox_evaluation,
    read_survival,
    risk_sets,
)
from dual2.learn.smooth_newton import Objective
from dual2.learn.vertical_model import Array, check_number


@dataclass(eq=False, repr=False, kw_only=True)
class VerticalCoxRegression(NewtonModel):
    """Cox proportional hazards whose columns belong to several parties.

    Minimises the negative log partial likelihood plus ½·alpha·|w|². Without a penalty that is the
    model of R's ``coxph``, of lifelines and of ``statsmodels.PHReg``.

    Parameters
    ----------
    alpha : float
        Weight of ½|w|².
    ties : {"efron", "breslow"}
        How deaths at one time count.

    The other parameters are those of :class:`VerticalElasticNet`; there is no intercept. ``fit``
    takes y with two columns, time and event (1 or 0), or three, the last being the stratum.

    Attributes
    ----------
    coef_ : ndarray
        Log hazard ratios.
    baseline_cumulative_hazard_ : dict
        For each stratum, as a number, the times of events and the cumulative hazard of a row whose
        columns are all zero.
    concordance_ : float
        Harrell's C on the training rows.
    end_ : NewtonEnd
        How training ended.

    Examples
    --------
    >>> X = [[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 1.0], [1.5, 0.0]]
    >>> y = [[9, 1], [7, 1], [4, 0], [6, 1], [5, 1]]
    >>> model = VerticalCoxRegression(alpha=0.1).fit(X, y)
    >>> model.coef_.round(3), round(model.concordance_, 2)
    (array([ 1.331, -1.832]), 0.83)
    """

    alpha: float = field(default=0.0, kw_only=False)
    ties: str = EFRON
    fit_intercept: bool = field(default=False, init=False)

    def _penalty(self) -> Penalty:
        wanted = "a finite number at least 0"
        check_number("alpha", self.alpha, lambda v: 0 <= v < np.inf, wanted)
        if self.ties not in TIES:
            raise ProblemError(unknown_name("ties", str(self.ties), TIES))
        return Penalty(float(self.alpha), 0.0, None)

    def _rules(self) -> dict[str, Any]:
        return {"dtype": np.float64, "accept_sparse": "csr", "multi_output": True}

    def _targets(self, y: Array) -> list[Array]:
        read_survival(y)
        return [np.asarray(y, dtype=np.float64)]

    def _objective(self, table: Array, target: Array, weight: Array) -> Objective:
        sets = risk_sets(read_survival(target), weight, self.ties)
        ordered = np.ascontiguousarray((table - table.mean(axis=0))[sets.order])
        return lambda w: cox_evaluation(ordered, sets, w)

    def _store(self, answers: list[tuple[Array, Any]]) -> None:
        [(self.coef_, _)] = answers
        self.intercept_, self.n_iter_ = 0.0, max(1, self.end_.steps)
        table, target, weight = self._data
        data = read_survival(target)
        sets = risk_sets(data, weight, self.ties)
        w = self.end_.parameters
        self.baseline_cumulative_hazard_ = baseline_hazard(sets, table[sets.order], w)
        self.concordance_ = concordance(data, table @ w)

    def predict(self, X: Any) -> Array:
        """Log relative hazards X·coef."""
        return self._rows(X) @ self.coef_

    def predict_survival(self, X: Any, times: Any, stratum: int = 0) -> Array:
        """Probabilities of no event up to each of the times, (n_samples, n_times)."""
        known = self.baseline_cumulative_hazard_
        if stratum not in known:
            raise ProblemError(f"stratum = {stratum} found; expected one of {sorted(known)}.")
        at, hazard = known[stratum]
        steps = np.append(0.0, hazard)[np.searchsorted(at, np.asarray(times), side="right")]
        return np.exp(-np.exp(self.predict(X))[:, None] * steps)

    def score(self, X: Any, y: Any) -> float:
        """Harrell's C."""
        return concordance(read_survival(np.asarray(y)), self.predict(X))
