"""What ``method="auto"`` does where the method that it chose stalls: the next one goes on."""

from collections.abc import Callable
from dataclasses import fields, replace

from dual2.solving.choice import Choice
from dual2.solving.planning import Start
from dual2.solving.result import Counts, Result, Status

Attempt = Callable[[Choice, Start, int, float | None], Result]
"""Runs a choice from a start with so many rounds and seconds."""
_STUCK = (Status.STALLED, Status.DIVERGED)


def continue_after_stall(
    result: Result, choice: Choice, attempt: Attempt, max_rounds: int, time_limit: float | None
) -> Result:
    """The result of the first method that does not stall, or the best of all that do.

    Every method begins anew, within what is left of the limits. Counts and seconds are those of
    all runs together, and the explanation tells each stall.
    """
    best, said = result, [] if result.status not in _STUCK else [_told(choice, result)]
    counts, seconds = result.counts, result.seconds
    for method in choice.others:
        if result.status not in _STUCK:
            break
        rounds = max_rounds - counts.rounds
        left = None if time_limit is None else time_limit - seconds
        if rounds <= 0 or (left is not None and left <= 0):
            break
        following = Choice(method, f"{method.name}, since {_told(choice, result)}", able=True)
        result, choice = attempt(following, None, rounds, left), following
        counts, seconds = _together(counts, result.counts), seconds + result.seconds
        if result.status in _STUCK:
            said.append(_told(choice, result))
        if result.status not in _STUCK or result.certificate.kkt < best.certificate.kkt:
            best = result
    if best is result and not choice.others and not said:
        return result
    if best.status in _STUCK and len(said) > 1:
        more = f"{best.explanation}\nNo method got further: {'; '.join(said)}."
        best = replace(best, explanation=more)
    return replace(best, counts=counts, seconds=seconds)


def _told(choice: Choice, result: Result) -> str:
    ended = str(result.status).lower()
    return (
        f"{choice.method.name} {ended} after {result.counts.rounds} rounds at a residual of "
        f"{result.certificate.kkt:.1e}"
    )


def _together(first: Counts, second: Counts) -> Counts:
    """The counts of two runs, one after the other."""
    own = {
        part.name: getattr(first, part.name) + getattr(second, part.name) for part in fields(Counts)
    }
    return Counts(**own)
