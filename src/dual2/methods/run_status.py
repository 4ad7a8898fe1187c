"""How a loop over sums ends: one enum for every place that sets, saves or reads it."""

from enum import StrEnum


class RunStatus(StrEnum):
    """How a run has ended; empty, and so false, while it goes on.

    The names are those of :class:`dual2.Status`, which the driver makes of them.

    Examples
    --------
    >>> bool(RunStatus.RUNNING), RunStatus.from_code(RunStatus.STALLED.code).value
    (False, 'STALLED')
    """

    RUNNING = ""
    CONVERGED = "CONVERGED"
    STALLED = "STALLED"
    DIVERGED = "DIVERGED"
    INFEASIBLE = "INFEASIBLE"
    UNBOUNDED = "UNBOUNDED"

    @property
    def code(self) -> int:
        """The number under which a state saves it."""
        return _CODES[self]

    @classmethod
    def from_code(cls, code: int) -> "RunStatus":
        """The status that was saved under a number."""
        return next(status for status, own in _CODES.items() if own == code)


# Written out, so that saved states do not depend on the order above.
_CODES = {
    RunStatus.RUNNING: 0,
    RunStatus.CONVERGED: 1,
    RunStatus.STALLED: 2,
    RunStatus.DIVERGED: 3,
    RunStatus.INFEASIBLE: 4,
    RunStatus.UNBOUNDED: 5,
}
