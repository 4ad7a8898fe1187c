"""What a plan is given beside the states: disturbances, references, the inputs before."""

from typing import TYPE_CHECKING, Any

import numpy as np

from dual2.errors import ProblemError
from dual2.functions.arguments import Array

if TYPE_CHECKING:
    from dual2.mpc.controller import Controller


def read_numbers(what: str, value: Any) -> Array:
    """An array of numbers, or an error that says what is none."""
    try:
        return np.asarray(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise ProblemError(f"{what} = {value!r} is not made of numbers.") from error


def read_disturbances(controller: "Controller", given: Any) -> list[Array]:
    """Known disturbances of each subsystem, (K, n_x); zero if none are given."""
    K = controller.horizon
    if given is None:
        return [np.zeros((K, s.n_x)) for s in controller.subsystems]
    shapes = [(K, s.n_x) for s in controller.subsystems]
    return _read_each(controller, "disturbance", given, shapes)


def read_references(controller: "Controller", given: Any) -> list[Array | None]:
    """Where the states of each subsystem should be, (K + 1, n_x); None if nothing is given."""
    if given is None:
        return [None] * len(controller.subsystems)
    shapes = [(controller.horizon + 1, s.n_x) for s in controller.subsystems]
    return [*_read_each(controller, "reference", given, shapes)]


def read_previous(controller: "Controller", given: Any) -> list[Array | None]:
    """The inputs of the step before, (n_u,) each; None if they are not known."""
    if given is None:
        return [None] * len(controller.subsystems)
    shapes = [(1, s.n_u) for s in controller.subsystems]
    return [value[0] for value in _read_each(controller, "previous input", given, shapes)]


def _read_each(
    controller: "Controller", what: str, given: Any, shapes: list[tuple[int, int]]
) -> list[Array]:
    """One array of its shape for each subsystem; one row of it, or a number, holds for all."""
    count = len(given) if hasattr(given, "__len__") else 0
    if count != len(shapes):
        raise ProblemError(
            f"Controller: {what}s of {count} subsystems were given; there are {len(shapes)}."
        )
    found = []
    for s, value, shape in zip(controller.subsystems, given, shapes, strict=True):
        own = read_numbers(f"{s!s}: its {what}", value)
        if own.shape not in ((), shape[1:], shape) or not np.isfinite(own).all():
            raise ProblemError(
                f"{s!s}: its {what} has shape {own.shape}; expected ({shape[1]},) or {shape}, "
                "finite."
            )
        found.append(np.array(np.broadcast_to(own, shape)))
    return found
