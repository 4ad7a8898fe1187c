"""What a plan is given beside the states: disturbances, references, the inputs before."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dual2.errors import ProblemError
from dual2.functions.arguments import Array
from dual2.mpc.subsystem import Subsystem

if TYPE_CHECKING:
    from dual2.mpc.controller import Controller


class Target(NamedTuple):
    """Where a subsystem should be: states (K + 1, n_x), and inputs (K, n_u) if not ``u_ref``."""

    x: Array
    u: Array | None = None


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


def read_target(system: Subsystem, horizon: int, target: Target | None) -> tuple[Array, Array]:
    """States (K + 1, n_x) and inputs as one vector where a subsystem should be."""
    x = np.tile(system.x_ref, (horizon + 1, 1)) if target is None else target.x
    u = np.tile(system.u_ref, (horizon, 1)) if target is None or target.u is None else target.u
    return x, u.ravel()


def read_references(controller: "Controller", given: Any) -> list[Target | None]:
    """Where each subsystem should be; None if nothing is given."""
    if given is None:
        return [None] * len(controller.subsystems)
    if hasattr(given, "__len__") and any(isinstance(one, Target) for one in given):
        return list(given)
    shapes = [(controller.horizon + 1, s.n_x) for s in controller.subsystems]
    return [Target(x) for x in _read_each(controller, "reference", given, shapes)]


def read_schedule(
    controller: "Controller", name: str, given: Any, rows: int
) -> Callable[[int], Any] | None:
    """A function of the step that returns ``rows`` rows from that step on.

    Arrays (steps, n_x) have one row for each step, and their last row holds on.
    """
    if given is None or callable(given):
        return given
    if not isinstance(given, Sequence | np.ndarray) or len(given) != len(controller.subsystems):
        raise ProblemError(
            f"simulate: {name} is {type(given).__name__}; expected a function of the step, for "
            f"instance {name}=lambda t: values, or an array (steps, states) for each of the "
            f"{len(controller.subsystems)} subsystems."
        )
    series = []
    for s, value in zip(controller.subsystems, given, strict=True):
        own = np.atleast_2d(read_numbers(f"{s!s}: its {name}", value))
        if own.ndim != 2 or own.shape[1] != s.n_x or not len(own) or not np.isfinite(own).all():
            raise ProblemError(
                f"{s!s}: its {name} has shape {own.shape}; expected (steps, {s.n_x}), finite."
            )
        series.append(own)

    def at(t: int) -> list[Array]:
        return [own[np.minimum(np.arange(t, t + rows), len(own) - 1)] for own in series]

    return at


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
