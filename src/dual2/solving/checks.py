"""Arguments of a solve that can be wrong by themselves: what was found, what was expected."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from dual2.errors import CapabilityError


def check_limits(tol: float, atol: float, max_rounds: int, time_limit: float | None) -> None:
    """Tolerances and limits are finite numbers ≥ 0, and a run can meet the tolerances."""
    limits = {"tol": tol, "atol": atol, "max_rounds": max_rounds, "time_limit": time_limit or 0}
    for name, value in limits.items():
        number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        if not number or not 0 <= value < math.inf:
            raise CapabilityError(f"{name} = {value!r} found; expected a finite number ≥ 0.")
    if max_rounds != int(max_rounds):
        raise CapabilityError(f"max_rounds = {max_rounds!r} found; expected a whole number.")
    if tol == 0 and atol == 0:
        raise CapabilityError("tol and atol are both 0; no floating-point run can meet that.")


def check_randomness(seed: Any, rng: Any) -> None:
    """``seed`` is a whole number; ``rng``, if given instead, one or a generator of NumPy."""
    _check_whole("seed", seed)
    if rng is None or isinstance(rng, np.random.Generator):
        pass
    elif isinstance(rng, int | np.integer) and not isinstance(rng, bool):
        _check_whole("rng", rng)
    else:
        raise CapabilityError(
            f"rng = {rng!r} found; expected a whole number ≥ 0 or a numpy.random.Generator."
        )
    if rng is not None and seed != 0:
        raise CapabilityError("Both seed and rng found; give one of them.")


def _check_whole(name: str, value: Any) -> None:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 0:
        raise CapabilityError(f"{name} = {value!r} found; expected a whole number ≥ 0.")


def check_requests(callback: Any, checkpoints: Any, switches: Mapping[str, Any]) -> None:
    """``callback`` can be called, ``checkpoints`` can keep a state, the others are switches."""
    if callback is not None and not callable(callback):
        raise CapabilityError(f"callback = {callback!r} found; expected a Python function or None.")
    if checkpoints is not None and not all(
        hasattr(checkpoints, k) for k in ("due", "held", "save")
    ):
        raise CapabilityError(
            f"checkpoints = {checkpoints!r} found; expected an object with due, held and save."
        )
    for name, value in switches.items():
        if not isinstance(value, bool | np.bool_):
            raise CapabilityError(f"{name} = {value!r} found; expected True or False.")
