"""Results in the names of a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dual2.errors import ProblemError
from dual2.models.private_duals import private_duals
from dual2.solving.result import Result, Status

if TYPE_CHECKING:
    from dual2.models.partition import OwnedModel

Array = np.ndarray
NEGLIGIBLE = 1e-6
"""Weights below this share of the largest are not named in a conflict."""


@dataclass(frozen=True, eq=False, repr=False)
class ModelAnswer:
    """An answer in the names and the sense of the model.

    Attributes
    ----------
    status : Status
        How the run ended.
    objective : float
        In the sense of the model, with its constant.
    x : ndarray
        The variables in the order of the model.
    variables : dict of str to float
        Value of each variable.
    duals : dict of str to float
        For each constraint the derivative of the optimal objective with respect to its right-hand
        side, as most solvers give it. Private constraints have theirs, found by their owner; nan
        where there is none.
    conflict : dict of str to float
        Of an infeasible model: constraints with the largest weights in the certificate.
    result : Result
        The whole result.
    """

    status: Status
    objective: float
    x: Array
    variables: dict[str, float]
    duals: dict[str, float]
    conflict: dict[str, float]
    result: Result

    def __repr__(self) -> str:
        return f"<ModelAnswer: {self}>"

    def __str__(self) -> str:
        if self.conflict:
            return (
                f"{self.status}: these constraints exclude each other: {', '.join(self.conflict)}"
            )
        return f"{self.status}, objective {self.objective:.10g}"


def read_answer(owned: OwnedModel, result: Result) -> ModelAnswer:
    """The work of :meth:`OwnedModel.answer`."""
    if len(result.x) != len(owned.owners):
        raise ProblemError(
            f"The result has answers of {len(result.x)} agents; expected {len(owned.owners)}. Over "
            "MPI use dual2.solve_for_all, which gives every process all of them."
        )
    model = owned.model
    x = np.empty(len(model.variables))
    for mine, part in zip(owned.columns, result.x, strict=True):
        x[mine] = part
    separator = result.certificate.separator
    infeasible = result.status == Status.INFEASIBLE and separator is not None
    duals = _duals(owned, result, x)
    return ModelAnswer(
        status=result.status,
        objective=model.objective(x),
        x=x,
        variables=dict(zip(model.variables, x.tolist(), strict=True)),
        duals=dict(zip(model.constraints, duals.tolist(), strict=True)),
        conflict=conflict_of(owned, separator) if infeasible else {},
        result=result,
    )


def _duals(owned: OwnedModel, result: Result, x: Array) -> Array:
    """∂ objective / ∂ right-hand side of every constraint; 0 for those without bounds."""
    duals = np.zeros(len(owned.model.constraints))
    duals[owned.coupling] = -np.asarray(result.dual)[: len(owned.coupling)]
    for k, rows in enumerate(owned.private):
        if len(rows):
            duals[rows] = private_duals(owned, k, x, np.asarray(result.dual))
    return (-duals if owned.model.maximise else duals) + 0.0


def conflict_of(owned: OwnedModel, weights: Any, most: int = 10) -> dict[str, float]:
    """The work of :meth:`OwnedModel.conflict`."""
    weights = np.asarray(weights, float)[: len(owned.coupling)]
    sizes = np.sqrt((owned.model.A[owned.coupling] ** 2).sum(axis=1))
    shares = np.abs(weights) * np.where(sizes > 0, sizes, 1.0)
    order = np.argsort(-shares, kind="stable")[:most]
    largest = shares.max(initial=0.0)
    return {
        owned.model.constraints[owned.coupling[k]]: float(weights[k])
        for k in order
        if shares[k] > NEGLIGIBLE * largest
    }
