"""Parameters of single-loop methods: what was given, checked, and where the rest comes from."""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from dual2.algorithms.method import Settings
from dual2.errors import CapabilityError, unknown_name

SOLVE_ARGUMENTS = (
    "method", "subsolver", "rho", "tol", "atol", "max_rounds", "time_limit", "constants",
    "accuracy", "start", "reference", "record", "progress", "callback", "seed", "runtime",
    "reduce", "throw", "checkpoints",
)  # fmt: skip
"""Keywords of ``solve`` that are no parameters of a method."""


def given_parameters(settings: Settings, known: Iterable[str]) -> dict[str, Any]:
    """The caller's parameters, refused if the method has none of that name.

    ``subsolver``, ``rho``, ``constants`` and ``accuracy`` belong to iD2A and MiD2A.
    """
    default = Settings()
    for name in ("subsolver", "rho", "constants", "accuracy"):
        value = getattr(settings, name)
        if value != getattr(default, name):
            raise CapabilityError(
                f"{name} = {value!r} found; {settings.method} has no subproblem to solve. Leave "
                f"it out, or use iD2A or MiD2A."
            )
    given, names = dict(settings.parameters or {}), list(known)
    for name in given:
        if name not in names:
            raise unknown_parameter(settings.method, name, names)
    return given


def unknown_parameter(method: str, name: str, known: Iterable[str]) -> CapabilityError:
    """The error for a name that is no parameter of a method; perhaps it is one of ``solve``.

    Examples
    --------
    >>> print(unknown_parameter("DCPA", "max_round", ["alpha", "beta"]))
    Unknown parameter of DCPA 'max_round'. Did you mean 'max_rounds'? Known: alpha, beta.
    """
    return CapabilityError(unknown_name(f"parameter of {method}", name, known, SOLVE_ARGUMENTS))


def positive(name: str, value: Any) -> float:
    """A finite number above zero.

    Examples
    --------
    >>> positive("alpha", 2)
    2.0
    """
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not number or not 0 < value < math.inf:
        raise CapabilityError(f"{name} = {value!r} found; expected a finite number > 0.")
    return float(value)
