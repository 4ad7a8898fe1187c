"""What a plan violates: shared limits, and the bounds of each subsystem."""

from collections.abc import Sequence

import numpy as np

from dual2.functions.arguments import Array
from dual2.mpc.subsystem import Subsystem
from dual2.solving.unsolved import SHOWN, Violation


def plan_violations(
    subsystems: Sequence[Subsystem], inputs: list[Array], states: list[Array], over: Array
) -> tuple[Violation, ...]:
    """The worst first; ``over`` is what the shared resources are exceeded by, step by step."""
    found = _above("resource", over)
    for s, u, x in zip(subsystems, inputs, states, strict=True):
        found += _above(f"{s.name}: u_max", u - s.u_max) + _above(f"{s.name}: u_min", s.u_min - u)
        if s.soft is None:
            later = x[1:]
            found += _above(f"{s.name}: x_max", later - s.x_max)
            found += _above(f"{s.name}: x_min", s.x_min - later)
    return tuple(sorted(found, key=lambda one: -one.amount))


def _above(name: str, over: Array) -> list[Violation]:
    steps, entries = np.nonzero(over > SHOWN)
    return [
        Violation(f"{name}[{k}]", float(over[t, k]), "", int(t))
        for t, k in zip(steps, entries, strict=True)
    ]
