"""The one loop around every algorithm: clock, trace, stopping test, interrupts.

What is decided depends on the iterates and on the number of rounds only; time decides merely where
the loop pauses. So a run that was cut and continued equals one that was not.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from dual2.algorithms.method import Plan
from dual2.interrupts import on_interrupt
from dual2.judge import Judge, Verdict, Wish
from dual2.progress import Bar
from dual2.result import Counts, Status

Array = np.ndarray
CHUNK = 0.1
"""Seconds of compiled work between two looks at the clock."""
_TEST_RATIO, _TRACE_RATIO = 1.04, 1.03
_MILESTONE, _PATIENCE = 1000, 5
"""At rounds 1000, 2000, 4000, … feasibility and progress are judged; this many without any
progress of the KKT residual are a stall."""
_TESTS = ("tests", "sums", "again")
_ENDS = {Wish.TIME: Status.TIME_LIMIT, Wish.INTERRUPT: Status.INTERRUPTED}


@dataclass
class Schedule:
    """Where the next stopping test, trace row and milestone are, in rounds; the best residual.

    ``idle`` counts milestones without progress, ``anchor`` is the price at the last one,
    ``forced`` is 1 if the last row of the trace is there only because the run ended.
    """

    test: int
    milestone: int
    trace: int = 0
    best: float = math.inf
    judged: float = math.inf
    idle: int = 0
    forced: int = 0
    tests: int = 0
    sums: int = 0
    again: int = 0
    agree_rounds: int = 0
    agree_floats: int = 0
    seconds: float = 0.0
    anchor: Array = field(default_factory=lambda: np.zeros(0))


class Checkpoints(Protocol):
    """Where the state of a run is kept from time to time."""

    @property
    def due(self) -> bool:
        """Whether it is time to save, by the clock of this process."""
        ...

    def save(self, rounds: int, state: dict[str, Any]) -> None:
        """Keep the state after so many rounds."""
        ...


class Driver:
    """Runs a planned algorithm to its end.

    Parameters
    ----------
    plan : Plan
        The algorithm, ready to start.
    tol, atol : float
        Tolerances of the KKT residual.
    max_rounds, time_limit
        Limits; None is no limit.
    reference : ndarray or None
        Flat x*; makes the trace record |x - x*|/|x*|.
    record : bool
        Whether to keep a trace.
    callback : callable or None
        Called with a dict after each stopping test; a true answer stops the run.
    checkpoints : Checkpoints or None
        Asked at each stopping test; where one process finds that it is time, all save.

    Attributes
    ----------
    mark : str
        Fingerprint of the run, kept with its state.
    """

    mark = ""

    def __init__(
        self, plan: Plan, tol: float, atol: float, max_rounds: int, time_limit: float | None,
        reference: Array | None, record: bool, callback: Callable[[dict[str, Any]], Any] | None,
        checkpoints: Checkpoints | None = None,
    ) -> None:  # fmt: skip
        self.checkpoints = checkpoints
        self.plan, self.algorithm, self.runtime = plan, plan.algorithm, plan.runtime
        self.judge = Judge(plan.runtime, tol, atol)
        self.max_rounds = max_rounds - max_rounds % plan.algorithm.stride
        self.time_limit = time_limit
        self.reference, self.record, self.callback = reference, record, callback
        stride = plan.algorithm.stride
        self.schedule = Schedule(test=10 * stride, milestone=_MILESTONE * stride)
        self.schedule.anchor = np.zeros(plan.runtime.p)
        self.rows: list[dict[str, float]] = []
        self.separator: Array | None = None
        self.kkt = math.inf
        self._alone = plan.runtime.agreement.size == 1
        self.best: tuple[Array, Array] | None = None
        self.origin: tuple[Array, Array] | None = None
        self.priceless = False
        self._interrupted = False

    # -- counting -------------------------------------------------------------------------
    def counts(self) -> Counts:
        """Calls and messages so far."""
        calls = self.algorithm.oracle_calls()
        most = self.runtime.most(np.array(list(calls.values()), dtype=float))
        calls = {name: int(value) for name, value in zip(calls, most, strict=True)}
        tests, sums, again = self._tests()
        for name in ("grad_f", "prox_g", "AT"):
            calls[name] += tests
        calls["A"] += sums
        calls["prox_h"] += sums + again
        network = self.runtime.network
        rounds, vectors = self.algorithm.rounds, self.algorithm.vectors
        agreement = self.runtime.agreement
        agreed = self.schedule.agree_floats + agreement.agree_floats
        return Counts(
            rounds=rounds,
            vectors=vectors,
            agree_rounds=self.schedule.agree_rounds + agreement.agree_rounds,
            floats=2 * len(network.edges) * self.runtime.p * vectors + agreed,
            **calls,
        )

    def _tests(self) -> list[int]:
        """What the stopping tests have evaluated so far, see :class:`Judge`."""
        return [getattr(self.judge, name) + getattr(self.schedule, name) for name in _TESTS]

    # -- the loop -------------------------------------------------------------------------
    def run(self, bar: Bar) -> Status:
        """Advance until a limit, a verdict or an interrupt; returns the status."""
        status = self._loop(bar)
        last = self.rows[-1]["rounds"] if self.rows else -1
        if self.record and self.algorithm.rounds > last and self._finite():
            self._record(self.schedule.seconds)
            self.schedule.forced = 1
        return status

    def _loop(self, bar: Bar) -> Status:
        s = self.schedule
        clock = Clock(s.seconds)
        self.kkt = self.judge.observe(self.algorithm.x, self.algorithm.duals).kkt
        self.runtime.agreement.begin()
        self._trace(clock)
        self.origin = (self.algorithm.x.copy(), self.algorithm.duals.copy())
        with on_interrupt(self.interrupt), np.errstate(over="ignore", invalid="ignore"):
            while True:
                status = self._limit(clock)
                if status is not None:
                    return status
                target = min(s.test, self.max_rounds, s.trace if self.record else s.test)
                with clock:
                    self.algorithm.advance(target, CHUNK)
                    verdict = self._test(clock) if self.algorithm.rounds >= s.test else None
                s.seconds = clock.seconds
                self._trace(clock)
                bar.update(self.algorithm.rounds, self.kkt)
                if verdict is not None:
                    status = self._decide(verdict)
                    if status is not None:
                        return status
                    if verdict.wish == Wish.SAVE and self.checkpoints is not None:
                        self.checkpoints.save(self.algorithm.rounds, self.state())

    def _limit(self, clock: "Clock") -> Status | None:
        """Whether to end here. Several processes end together: their wishes wait for a test."""
        wish = self._wish(clock.seconds) if self._alone else Wish.NONE
        if wish == Wish.INTERRUPT:
            return Status.INTERRUPTED
        if self.algorithm.rounds >= self.max_rounds:
            return Status.MAX_ROUNDS
        return Status.TIME_LIMIT if wish == Wish.TIME else None

    def _wish(self, seconds: float) -> Wish:
        if self._interrupted:
            return Wish.INTERRUPT
        if self.time_limit is not None and seconds >= self.time_limit:
            return Wish.TIME
        due = self.checkpoints is not None and self.checkpoints.due
        return Wish.SAVE if due else Wish.NONE

    def _test(self, clock: "Clock") -> Verdict:
        rounds, s = self.algorithm.rounds, self.schedule
        wish = self._wish(clock.now) if self._own_finite() else Wish.BROKEN
        verdict = self.judge.test(
            self.algorithm.x, self.algorithm.duals, rounds >= s.milestone, wish
        )
        gap = 5 * self.algorithm.stride
        s.test = max(int(rounds * _TEST_RATIO), rounds + gap)
        return verdict

    def _decide(self, verdict: Verdict) -> Status | None:
        s = self.schedule
        self.kkt = verdict.kkt
        if verdict.wish == Wish.BROKEN:
            return Status.DIVERGED
        if verdict.full and verdict.kkt < s.best:
            s.best = verdict.kkt
            self.best = (self.algorithm.x.copy(), self.algorithm.duals.copy())
        if verdict.met:
            assert verdict.dual is not None
            self.priceless = not verdict.dual.any()
            return Status.CONVERGED
        if self.callback is not None:
            info = {"rounds": self.algorithm.rounds, "kkt": verdict.kkt, "full": verdict.full}
            info["seconds"] = s.seconds
            if self.callback(info | {"x": self.algorithm.x, "duals": self.algorithm.duals}):
                self.interrupt()
        if self._interrupted and self._alone:
            return Status.INTERRUPTED
        if verdict.wish in _ENDS and not self._alone:
            return _ENDS[verdict.wish]
        return self._milestone(verdict) if self.algorithm.rounds >= s.milestone else None

    def _milestone(self, verdict: Verdict) -> Status | None:
        """Judge, each time the rounds have doubled, whether there is hope."""
        s = self.schedule
        s.milestone = 2 * self.algorithm.rounds
        assert verdict.dual is not None
        if self._separated(verdict.dual):
            return Status.INFEASIBLE
        s.idle = 0 if s.best < 0.9 * s.judged else s.idle + 1
        s.judged = s.best
        return Status.STALLED if s.idle >= _PATIENCE else None

    def _own_finite(self) -> bool:
        """Whether the iterates of this process are finite."""
        return bool(
            np.all(np.isfinite(self.algorithm.duals)) and np.all(np.isfinite(self.algorithm.x))
        )

    def _finite(self) -> bool:
        """Whether those of all processes are."""
        return not self.runtime.anywhere(np.array([not self._own_finite()]))

    def best_point(self) -> tuple[Array, Array]:
        """The best iterate whose residual is known, the present one, or where the run began."""
        x, duals = self.algorithm.x.copy(), self.algorithm.duals.copy()
        if self._finite():
            if self.best is None or self.judge.observe(x, duals).kkt <= self.schedule.best:
                return x, duals
        point = self.best or self.origin
        assert point is not None
        return point

    def _separated(self, price: Array) -> bool:
        """Whether the direction in which the price grows proves the coupling infeasible."""
        s, rt = self.schedule, self.runtime
        change, s.anchor = price - s.anchor, price
        size = float(np.linalg.norm(change))
        if not 0 < 0.2 * float(np.linalg.norm(price)) <= size:
            return False
        direction = change / size
        if rt.problem.separates(direction) < 0:
            self.separator = direction
            return True
        return False

    # -- trace ------------------------------------------------------------------------------
    def _trace(self, clock: "Clock") -> None:
        s, rounds = self.schedule, self.algorithm.rounds
        if not self.record or rounds < s.trace:
            return
        s.trace = max(rounds + 1, int(rounds * _TRACE_RATIO))
        self._record(clock.seconds)

    def _record(self, seconds: float) -> None:
        verdict = self.judge.observe(self.algorithm.x, self.algorithm.duals)
        row: dict[str, float] = {"seconds": seconds, "kkt": verdict.kkt}
        if self.reference is not None:
            row["gap"] = self._distance(self.reference)
        counts = self.counts()
        for name in Counts.__dataclass_fields__:
            row[name] = getattr(counts, name)
        self.rows.append(row)

    def _distance(self, reference: Array) -> float:
        """|x - x*|/|x*|, or |x| where x* = 0."""
        rt = self.runtime
        squares = [float(v @ v) for v in (self.algorithm.x - reference, reference)]
        rows = np.zeros((rt.n, 2))
        rows[0] = squares
        with rt.agreement.uncounted():
            distance, size = np.sqrt(rt.total(rows))
        return float(distance / size) if size > 0 else float(distance)

    def trace(self) -> dict[str, Array]:
        """The recorded rows as columns."""
        names = self.rows[0] if self.rows else []
        return {name: np.array([row[name] for row in self.rows]) for name in names}

    def adopt(self, trace: dict[str, Array]) -> None:
        """Begin with the rows of an earlier part of the same run."""
        columns = [name for name in trace if name != "gap" or self.reference is not None]
        rows = range(len(trace["rounds"]) if columns else 0)
        self.rows = [{name: trace[name][k] for name in columns} for k in rows]
        self.rows = self.rows[: len(self.rows) - self.schedule.forced]
        self.schedule.forced = 0
        if self.reference is not None and "gap" not in trace:
            self.rows = []

    # -- save and continue ---------------------------------------------------------------------
    def state(self) -> dict[str, Any]:
        """Everything needed to continue as if nothing had happened."""
        s, agreement = self.schedule, self.runtime.agreement
        s.tests, s.sums, s.again = self._tests()
        s.agree_rounds += agreement.agree_rounds
        s.agree_floats += agreement.agree_floats
        self.judge.tests = self.judge.sums = self.judge.again = 0
        agreement.agree_rounds = agreement.agree_floats = 0
        own = {f"driver_{name}": getattr(s, name) for name in Schedule.__dataclass_fields__}
        if self.best is not None:
            own |= {"best_x": self.best[0], "best_duals": self.best[1]}
        return self.algorithm.state() | own | {"mark": self.mark}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a saved :meth:`state`."""
        self.algorithm.restore(state)
        for name in Schedule.__dataclass_fields__:
            value = np.asarray(state[f"driver_{name}"])
            setattr(self.schedule, name, value.item() if value.ndim == 0 else value.copy())
        if "best_x" in state:
            self.best = (state["best_x"].copy(), state["best_duals"].copy())
        agreement = self.runtime.agreement  # the set-up was counted when the run began
        agreement.agree_rounds = agreement.agree_floats = 0

    def interrupt(self) -> None:
        """Ask the loop to end at its next pause."""
        self._interrupted = True


class Clock:
    """Adds up the seconds spent inside ``with`` blocks."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __enter__(self) -> "Clock":
        self._begun = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = self.now

    @property
    def now(self) -> float:
        """Seconds up to now, inside a ``with`` block."""
        return self.seconds + time.perf_counter() - self._begun
