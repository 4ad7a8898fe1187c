"""How applications show an answer that is none: first of all, with what it violates."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from dual2.errors import ProblemError
from dual2.solving.result import Result, Status

ACCEPT = "unsolved"
"""What a caller says who wants to use an answer that has not converged."""
SHOWN = 1e-6
"""Violations up to this fraction of max(1, |limit|) are not named."""


@dataclass(frozen=True)
class Violation:
    """A constraint that an answer does not meet, and by how much.

    Attributes
    ----------
    what : str
        Name of the constraint, as in "Balance" or "coal: p_max".
    amount : float
        By how much it is violated, greater than 0.
    unit : str
        Unit of the amount, "" if there is none.
    period : int or None
        When, where there are periods.
    """

    what: str
    amount: float
    unit: str = ""
    period: int | None = None

    def __str__(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        when = "" if self.period is None else f" in period {self.period}"
        return f"{self.what} is off by {self.amount:.3g}{unit}{when}"


def check_accept(where: str, accept: str | None) -> None:
    """Refuse anything but None and "unsolved"."""
    if accept not in (None, ACCEPT):
        raise ProblemError(f'{where}: accept = {accept!r}; expected None or "{ACCEPT}".')


def is_solved(result: Result) -> bool:
    """Whether an answer may be used without further ado."""
    return result.status == Status.CONVERGED


def not_solved(
    status: Status, violations: Sequence[Violation], whose: str, what: str = "point"
) -> str:
    """The sentences that stand first: how the run ended and what is violated most.

    ``whose`` is the number that must not be believed, ``what`` the answer that it is of.

    Examples
    --------
    >>> not_solved(Status.TIME_LIMIT, [Violation("Balance", 12.4, "MW", 18)], "cost", "plan")
    'NOT SOLVED (time limit). Balance is off by 12.4 MW in period 18; the cost is of an infeasible \
plan.'
    """
    begin = f"NOT SOLVED ({str(status).replace('_', ' ').lower()})."
    if not violations:
        return f"{begin} Every constraint is met, but nothing proves that the {whose} is least."
    worst = max(violations, key=lambda one: one.amount)
    more = len(violations) - 1
    others = f" ({more} more violated)" if more else ""
    return f"{begin} {worst}{others}; the {whose} is of an infeasible {what}."


def warn_unsolved(text: str, accept: str | None, stacklevel: int = 3) -> None:
    """Warn of an answer that has not converged, unless the caller accepts it."""
    if accept is None:
        warnings.warn(
            f'{text} Continue with a larger limit (start=answer), or pass accept="{ACCEPT}".',
            stacklevel=stacklevel + 1,
        )
