"""What the holder of the labels computes alone: the model on its own and the mixed columns."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from dual2.errors import Dual2Error, Refusal
from dual2.learn.base import VerticalModel
from dual2.learn.vertical.labels import Labels
from dual2.learn.vertical.learning_terms import Learning
from dual2.solving.result import Result, Status

Array = np.ndarray


@dataclass(frozen=True)
class HolderModel:
    """The model in the holder's coordinates: coefficients of the mixed columns, then its own."""

    coefficients: Array  # one row per decision function
    constants: Array
    status: str
    certificate: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    def scores(self, tables: Sequence[Array]) -> Array:
        """Joint scores of some rows, (rows, decision functions)."""
        return np.hstack(list(tables)) @ self.coefficients.T + self.constants


def fit_estimator(estimator: VerticalModel, tables: Sequence[Array], labels: Labels) -> HolderModel:
    """Fit an estimator to the rows of some tables, and say how that ended."""
    if not sum(table.shape[1] for table in tables):
        told = "no party has a column with values that differ."
        raise Refusal(f"{told} Add columns.", told)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the status says it
        warnings.simplefilter("ignore", UserWarning)  # names of mixed columns mean nothing
        try:
            estimator.fit([table for table in tables if table.shape[1]], labels.values)
        except Dual2Error as error:
            raise Refusal(
                f"The model cannot be fitted: {error}", "its labels or rows do not suit the model."
            ) from error
    results = estimator.result_ if isinstance(estimator.result_, list) else [estimator.result_]
    worst = max(results, key=lambda one: (one.status != Status.CONVERGED, one.counts.sums))
    return HolderModel(
        np.atleast_2d(estimator.coef_),
        np.atleast_1d(np.asarray(estimator.intercept_, dtype=np.float64)),
        _status(estimator, worst),
        {k: v for k, v in vars(worst.certificate).items() if isinstance(v, str | float | int)},
        worst.versions,
    )


def _status(estimator: VerticalModel, worst: Result) -> str:
    """CONVERGED only if the estimator says so; DIVERGED if there is no finite solution."""
    if worst.status == Status.CONVERGED and not estimator.converged_:
        return str(Status.DIVERGED)
    return str(worst.status)


def trained(
    learning: Learning, tables: Sequence[Array], labels: Labels, **changes: Any
) -> HolderModel:
    """The study's model on some rows."""
    return fit_estimator(learning.estimator(**changes), tables, labels)
