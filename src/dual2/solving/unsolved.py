"""How applications show an answer that is none: first of all, with what it violates."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dual2.errors import ProblemError
from dual2.solving.result import Result, Status

ACCEPT = "unsolved"
"""What a caller says who wants to use an answer that has not converged."""
NOT_SOLVED = "NOT SOLVED"
"""First words of an answer that is none, and first column of its tables."""
MOST_NAMED = 6
"""Violations that a table names."""
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


def ending(status: Status) -> str:
    """How a run ended, in words.

    Examples
    --------
    >>> ending(Status.TIME_LIMIT)
    'time limit'
    """
    return str(status).replace("_", " ").lower()


def mark_unsolved(rows: list[dict[str, Any]], status: Status) -> list[dict[str, Any]]:
    """The rows of a table; if they are of no solution, each says so first.

    Examples
    --------
    >>> mark_unsolved([{"unit": "coal"}], Status.TIME_LIMIT)
    [{'NOT SOLVED': 'time limit', 'unit': 'coal'}]
    >>> mark_unsolved([{"unit": "coal"}], Status.CONVERGED)
    [{'unit': 'coal'}]
    """
    if status == Status.CONVERGED:
        return rows
    return [{NOT_SOLVED: ending(status)} | row for row in rows]


def list_violations(violations: Sequence[Violation]) -> str:
    """The worst violations in one line, each in its unit.

    Examples
    --------
    >>> list_violations([Violation("Balance", 12.4, "MW", 18), Violation("coal: p_max", 3.0, "MW")])
    'violated: Balance is off by 12.4 MW in period 18; coal: p_max is off by 3 MW'
    """
    named = "; ".join(map(str, violations[:MOST_NAMED]))
    more = len(violations) - MOST_NAMED
    return f"violated: {named}" + (f"; and {more} more" if more > 0 else "")


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
    begin = f"{NOT_SOLVED} ({ending(status)})."
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
