"""What the holder of the labels computes alone: the model on its own and the mixed columns."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from dual2.errors import Dual2Error, Refusal
from dual2.learn.inference import Summary
from dual2.learn.newton_models import NewtonModel
from dual2.learn.vertical.labels import Labels
from dual2.learn.vertical.learning_terms import Learning
from dual2.learn.vertical_model import VerticalModel
from dual2.solving.result import Status
from dual2.solving.solve import versions

Array = np.ndarray


@dataclass(frozen=True)
class HolderModel:
    """The model in the holder's coordinates: coefficients of the mixed columns, then its own."""

    coefficients: Array  # one row per decision function
    constants: Array
    status: str
    certificate: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    thresholds: Array | None = None  # of an ordinal model
    hazard: dict[int, tuple[Array, Array]] | None = None  # of Cox regression
    inference: Summary | None = None  # if the study asks for standard errors

    def scores(self, tables: Sequence[Array]) -> Array:
        """Joint scores of some rows, (rows, decision functions)."""
        return np.hstack(list(tables)) @ self.coefficients.T + self.constants


def trained(
    learning: Learning,
    tables: Sequence[Array],
    labels: Labels,
    changes: Mapping[str, Any],
    infer: bool = False,
) -> HolderModel:
    """Fit the study's model to the rows of some tables, and say how that ended."""
    estimator = learning.estimator(**dict(changes) | _class_weight(learning, labels))
    used = [table for table in tables if table.shape[1]]
    if not used:
        told = "no party has a column."
        raise Refusal(f"{told} Add columns.", told)
    try:
        with warnings.catch_warnings():
            for kind in (ConvergenceWarning, UserWarning, FutureWarning):
                warnings.simplefilter("ignore", kind)  # the status says it
            estimator.fit(used, labels.values, labels.weights)
            inference = estimator.summary() if infer else None
    except Dual2Error as error:
        told = "its labels or rows do not suit the model."
        raise Refusal(f"The model cannot be fitted: {error}", told) from error
    status, certificate = _ending(estimator)
    return HolderModel(
        np.atleast_2d(estimator.coef_),
        np.atleast_1d(np.asarray(estimator.intercept_, dtype=np.float64)),
        status,
        certificate,
        versions(),
        getattr(estimator, "thresholds_", None),
        getattr(estimator, "baseline_cumulative_hazard_", None),
        inference,
    )


def _class_weight(learning: Learning, labels: Labels) -> dict[str, Any]:
    """Weights of classes by their codes, if the study names the classes."""
    weight = learning.options.get("class_weight")
    if not isinstance(weight, dict):
        return {}
    unknown = sorted(set(weight) - set(labels.names))
    if unknown:
        told = "the study gives a weight to a class that does not occur."
        raise Refusal(
            f"learn.options.class_weight has {unknown[0]!r}; the classes are "
            f"{', '.join(labels.names)}.",
            told,
        )
    codes = {float(k): float(weight.get(name, 1.0)) for k, name in enumerate(labels.names)}
    return {"class_weight": codes}


def _ending(estimator: VerticalModel) -> tuple[str, dict[str, Any]]:
    """CONVERGED only if the estimator says so; DIVERGED if there is no finite solution."""
    if isinstance(estimator, NewtonModel):
        return str(estimator.end_.status), {"kkt": estimator.end_.kkt}
    results = estimator.result_ if isinstance(estimator.result_, list) else [estimator.result_]
    worst = max(results, key=lambda one: (one.status != Status.CONVERGED, one.counts.sums))
    found = {k: v for k, v in vars(worst.certificate).items() if isinstance(v, str | float | int)}
    if worst.status == Status.CONVERGED and not estimator.converged_:
        return str(Status.DIVERGED), found
    return str(worst.status), found
