"""How a sum or maximum is formed: what a :class:`Communicator` passes along with each call."""

from dataclasses import dataclass
from enum import Enum


class NanPolicy(Enum):
    """What NaN in a reduction does."""

    PROPAGATE = "propagate"
    RAISE = "raise"
    """An error that names who sent it; where sums are exact, NaN travels as infinity."""


class ExactRanges(Enum):
    """Where exact sums take the sizes of their numbers from."""

    FRESH = "fresh"
    REUSE = "reuse"
    """From the last sum of that length, with slack; for sums that are repeated."""


@dataclass(frozen=True)
class CommMode:
    """How a reduction is formed and counted.

    Attributes
    ----------
    nan_policy : NanPolicy
        What NaN does.
    exact_ranges : ExactRanges
        Where exact sums take the sizes of their numbers from.
    exact : bool or None
        Whether sums are formed in fixed point, whose bits do not depend on the order; None is as
        the transport was made.
    counted : bool
        Whether the call belongs to the method; else it serves an observer.
    from_zero : bool
        Whether all processes know that all begin from zero.
    """

    nan_policy: NanPolicy = NanPolicy.PROPAGATE
    exact_ranges: ExactRanges = ExactRanges.FRESH
    exact: bool | None = None
    counted: bool = True
    from_zero: bool = False


SETUP = CommMode()
"""Before and after the iterations."""
ITERATING = CommMode(NanPolicy.RAISE, ExactRanges.REUSE)
"""During the iterations: errors name their sender, sums are repeated."""
