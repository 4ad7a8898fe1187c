"""What a controller is given, checked: limits, subsystems, measured states."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dual2.errors import ProblemError, counted
from dual2.functions.arguments import Array, entries
from dual2.mpc.plan_inputs import read_numbers
from dual2.mpc.subsystem import Subsystem


def read_states(subsystems: Sequence[Subsystem], states: Sequence[Any]) -> list[Array]:
    """The measured states, one checked vector for each subsystem."""
    count = len(subsystems)
    if not hasattr(states, "__len__"):
        raise ProblemError(
            f"Controller: states = {states!r}; expected one vector for each of the {count} "
            "subsystems."
        )
    if len(states) != count:
        raise ProblemError(f"Controller: {len(states)} states were given for {count} subsystems.")
    found = []
    for s, x in zip(subsystems, states, strict=True):
        value = np.atleast_1d(np.asarray(entries(str(s), "state", x), dtype=float))
        if value.shape != (s.n_x,):
            raise ProblemError(f"{s!s}: its state has {value.size} entries; A has {s.n_x} rows.")
        found.append(value)
    return found


def read_limit(limit: Any) -> Array:
    """The limit of the resources, as (steps, resources) or one row for all steps."""
    value = read_numbers("Controller: limit", limit)
    if value.ndim > 2 or value.size == 0 or not np.isfinite(value).all():
        raise ProblemError(
            f"Controller: limit = {limit!r}; expected a finite number, a vector (one entry per "
            "resource) or a matrix (steps × resources)."
        )
    return np.atleast_2d(value)


def read_subsystems(given: Sequence[Subsystem], count: int) -> tuple[Subsystem, ...]:
    """Subsystems that agree with the number of resources; those that take none get zeros."""
    systems = tuple(given)
    for s in systems:
        if len(s.resource) not in (0, count):
            raise ProblemError(
                f"{s!s}: resource has {len(s.resource)} rows; limit has {count} entries, one per "
                "shared resource. A limit for each step is a matrix (steps × resources)."
            )
    if systems and not any(len(s.resource) for s in systems):
        raise ProblemError(
            f"Controller: limit is of {counted(count, 'resource')}, but no subsystem says what it "
            f"takes of them. Give those that do their resource, a matrix ({count} × inputs)."
        )
    return tuple(
        s if len(s.resource) else replace(s, resource=np.zeros((count, s.n_u))) for s in systems
    )
