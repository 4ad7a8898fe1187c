"""What ``method="auto"`` does where the method that it chose stalls: the next one takes over."""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import numpy as np

from dual2.functions import Function
from dual2.methods.method import Method
from dual2.solving.choice import MethodChoice
from dual2.solving.planning import Start
from dual2.solving.result import Counts, Result, Status

Attempt = Callable[[MethodChoice, Start, int, float | None], Result]
"""Runs a choice from a start with so many rounds and seconds."""
_STUCK = (Status.STALLED, Status.DIVERGED)
_FINAL = (Status.CONVERGED, Status.INFEASIBLE, Status.UNBOUNDED)
_SHARE, _LEAST_SECONDS = 0.5, 10.0
"""Part of the remaining time that a method has which is not the last candidate: the others need
some too. Shares below so many seconds are not made: most runs are shorter than that."""
_NEAR = 1e-100
"""Step of the prox that finds the nearest point which h accepts."""


@dataclass(frozen=True)
class Candidates:
    """The methods of an automatic choice, one after the other.

    ``h`` is that of the problem; ``slowest`` turns the seconds of this process into those of the
    slowest, so that all processes decide alike.
    """

    choice: MethodChoice
    attempt: Attempt
    h: Function
    slowest: Callable[[float], float]
    max_rounds: int
    time_limit: float | None

    def run(self, start: Start) -> Result:
        """The result of the first method that solves the problem, or the best of all.

        A method that takes over starts from zero. Counts and seconds are those of all runs
        together, and the explanation mentions each run that did not solve the problem. A first
        method that was only interrupted by its ``patience`` goes on where all others stall.
        """
        choice, methods = self.choice, list(self.choice.others)
        most = self._most_rounds(start)
        first = best = result = self.attempt(choice, start, most, self._time(0.0, methods))
        waits = result.status == Status.MAX_ROUNDS and most < self.max_rounds
        spent = _Spent(result.counts, result.seconds)
        said = [_ended(choice, result)]
        while methods and (self._gives_way(result) or (waits and result is first)):
            if not self._is_left(spent):
                break
            method = methods.pop(0)
            choice = MethodChoice(method, f"{method.name}, since {'; '.join(said)}", able=True)
            rounds, seconds = self.max_rounds - spent.counts.rounds, self.slowest(spent.seconds)
            result = self.attempt(choice, None, rounds, self._time(seconds, methods))
            spent = spent.plus(result)
            said.append(_ended(choice, result))
            best = self._better(best, result)
        if waits and self._gives_way(result) and self._is_left(spent):
            result = self._go_on(first, spent)
            spent = spent.plus(result).minus(first)
            said.append(f"it went on; {_ended(self.choice, result)}")
            best = result if best is first else self._better(best, result)
        if len(said) == 1:
            return result
        if best.status not in _FINAL:
            best = _best_of_all(best, result, said)
        return replace(best, counts=spent.counts, seconds=spent.seconds)

    def _most_rounds(self, start: Start) -> int:
        """Rounds of the first method; its patience counts from a cold start."""
        patience = self.choice.patience
        return min(self.max_rounds, patience) if patience and start is None else self.max_rounds

    def _is_left(self, spent: "_Spent") -> bool:
        """Whether there are rounds and seconds for another run."""
        if spent.counts.rounds >= self.max_rounds:
            return False
        return self.time_limit is None or self.slowest(spent.seconds) < self.time_limit

    def _go_on(self, first: Result, spent: "_Spent") -> Result:
        """Continue the first method where its patience had ended."""
        rounds = self.max_rounds - spent.counts.rounds + first.counts.rounds
        limit = self._time(self.slowest(spent.seconds), [])
        limit = None if limit is None else limit + first.seconds
        return self.attempt(self.choice, first, rounds, limit)

    def _time(self, spent: float, later: list[Method]) -> float | None:
        """Seconds of the next method: half of what is left, or all if there is little."""
        if self.time_limit is None:
            return None
        left = self.time_limit - spent
        return left if not later or _SHARE * left < _LEAST_SECONDS else _SHARE * left

    def _gives_way(self, result: Result) -> bool:
        """Whether another method is tried after this end."""
        return result.status in (*_STUCK, Status.TIME_LIMIT)

    def _better(self, first: Result, second: Result) -> Result:
        """The answer that is shown: one that is proven, else the one that is nearer to a proof."""
        if second.status in _FINAL:
            return second
        return second if self._shortfall(second) < self._shortfall(first) else first

    def _shortfall(self, result: Result) -> float:
        """How far an answer is from feasible and optimal, all rows and coordinates together.

        The KKT residual is that of the worst coordinate: 1 for good answers and for useless ones.
        """
        s = result.y
        with np.errstate(all="ignore"):
            accepted = self.h.prox(s, _NEAR) if self.h.proximable else s
            missed = float(np.linalg.norm(s - accepted))
            size = max(float(np.linalg.norm(s)), float(np.linalg.norm(accepted)))
        found = max(missed / size if size > 0 else missed, result.certificate.objective)
        return found if math.isfinite(found) else math.inf


@dataclass(frozen=True)
class _Spent:
    """Counts and seconds of all runs so far."""

    counts: Counts
    seconds: float

    def plus(self, result: Result, sign: int = 1) -> "_Spent":
        """Those of another run added."""
        names = [part.name for part in fields(Counts)]
        both = {k: getattr(self.counts, k) + sign * getattr(result.counts, k) for k in names}
        return _Spent(Counts(**both), self.seconds + sign * result.seconds)

    def minus(self, result: Result) -> "_Spent":
        """Those of a run left out, since its continuation has them too."""
        return self.plus(result, -1)


def _best_of_all(best: Result, last: Result, said: list[str]) -> Result:
    """The best answer where no method solved the problem; a limit or an interrupt is the end.

    What can be continued then is the last run, which only was cut short.
    """
    explanation = f"{best.explanation}\nNo method solved it: {'; '.join(said)}."
    best = replace(best, explanation=explanation)
    return best if last.status in _STUCK else replace(best, status=last.status, state=last.state)


def _ended(choice: MethodChoice, result: Result) -> str:
    ended = str(result.status).replace("_", " ").lower()
    if result.status == Status.MAX_ROUNDS:
        ended = "had not converged"
    if result.status == Status.TIME_LIMIT:
        ended = "reached its time limit"
    return (
        f"{choice.method.name} {ended} after {result.counts.rounds} rounds at a residual of "
        f"{result.certificate.kkt:.1e}"
    )
