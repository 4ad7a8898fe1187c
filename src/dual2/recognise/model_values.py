"""Values that a cvxpy model has: its parameters, its objective at an apex, what it violates."""

from typing import Any

import numpy as np

from dual2.recognise.affine import dense
from dual2.recognise.terms import short
from dual2.solving.unsolved import SHOWN, Violation

Array = np.ndarray
_APEX = 1e-6
"""Length up to which both arguments of quad_over_lin are at its apex, where its value is 0."""


def parameter_values(model: Any) -> list[Array]:
    """The present values of a model's parameters, copied."""
    known = sorted(model.parameters(), key=lambda parameter: parameter.id)
    return [np.array(dense(parameter.value), dtype=float) for parameter in known]


def closed_value(expression: Any) -> float:
    """The value of an expression where quad_over_lin(0, 0) is 0, its limit along the cone."""
    return float(np.asarray(_closed(expression)).item())


def _closed(expression: Any) -> Any:
    if not expression.args:
        return expression.value
    parts = [_closed(part) for part in expression.args]
    if type(expression).__name__ == "quad_over_lin":
        top, bottom = (float(np.linalg.norm(np.asarray(dense(part)))) for part in parts)
        if top <= _APEX and bottom <= _APEX:
            return np.zeros(expression.shape)
    return expression.numeric(parts)


def violations_of(model: Any) -> list[Violation]:
    """Which constraints the values of the variables violate, by how much."""
    found = []
    for constraint in model.constraints:
        off = float(np.max(np.abs(np.asarray(dense(constraint.violation()))), initial=0.0))
        if off > SHOWN:
            found.append(Violation(short(constraint), off))
    return sorted(found, key=lambda one: -one.amount)
