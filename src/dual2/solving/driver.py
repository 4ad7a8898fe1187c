"""The one loop around every algorithm: clock, trace, stopping test, interrupts.

What is decided depends on the iterates and on the number of rounds only; time decides merely where
the loop pauses. So a run that was cut and continued equals one that was not.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from dual2.compiling import working_clock
from dual2.methods.deadline import Deadline
from dual2.methods.method import Plan, SelfTerminating
from dual2.solving.interrupts import on_interrupt
from dual2.solving.result import CALLS, Counts, Status
from dual2.solving.run_schedule import MILESTONE, Schedule, StateKeeper
from dual2.solving.stopping import Request, Residual, StoppingTest

Array = np.ndarray
Point = tuple[Array, Array]
"""Flat x and the λ_i."""
CHUNK_SECONDS = 0.1
"""Seconds of compiled work between two looks at the clock."""
_TEST_RATIO, _TRACE_RATIO = 1.04, 1.03
_TESTS = ("tests", "sums")
_MAX_REJECTIONS = 20
"""How often an algorithm that judges itself may be wrong before that is a stall."""
_ENDS = {Request.TIME: Status.TIME_LIMIT, Request.INTERRUPT: Status.INTERRUPTED}


class Outcome(NamedTuple):
    """What a run leaves, in the units of what was solved."""

    status: Status
    counts: Counts
    """Calls of this process."""
    trace: dict[str, Array]
    state: dict[str, Any]
    x: Array
    duals: Array


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
    checkpoints : StateKeeper or None
        Asked at each stopping test; where one process finds that it is time, all save.

    Attributes
    ----------
    mark : str
        Fingerprint of the run, kept with its state.
    """

    mark = ""

    def __init__(
        self,
        plan: Plan,
        tol: float,
        atol: float,
        max_rounds: int,
        time_limit: float | None,
        reference: Array | None,
        record: bool,
        callback: Callable[[dict[str, Any]], Any] | None,
        checkpoints: StateKeeper | None = None,
    ) -> None:
        self.checkpoints = checkpoints
        self.algorithm, self.runtime = plan.algorithm, plan.runtime
        self.units, self.lengths = plan.units, plan.lengths
        self._self_terminating = (
            plan.algorithm if isinstance(plan.algorithm, SelfTerminating) else None
        )
        uncounted = self._self_terminating is not None
        self.stopping = StoppingTest(plan.runtime, tol, atol, self.units, self.lengths, uncounted)
        self.stride = stride = plan.algorithm.stride
        self.max_rounds, self.time_limit = max_rounds - max_rounds % stride, time_limit
        self.reference, self.record, self.callback = reference, record, callback
        milestone_dual = np.zeros(plan.runtime.p)
        self.schedule = Schedule(10 * stride, MILESTONE * stride, milestone_dual=milestone_dual)
        self.rows: list[dict[str, float]] = []
        self.separator: Array | None = None
        self.ray: Array | None = None
        self.kkt = math.inf
        self.best: Point | None = None
        self.proof: Residual | None = None
        if self._self_terminating is not None:
            self._self_terminating.tol, self._self_terminating.atol = tol, atol
        self._alone = plan.runtime.comm.size == 1
        self._interrupted, self._best_is_aliased = False, False

    @property
    def point(self) -> Point:
        """The present iterate."""
        return self.algorithm.x, self.algorithm.duals

    # -- counting -------------------------------------------------------------------------
    def counts(self) -> Counts:
        """Calls and messages so far, the most that any process has made."""
        own = self.own_counts()
        if self._alone:
            return own
        most = self.runtime.most(np.array([getattr(own, name) for name in CALLS], dtype=float))
        return replace(own, **dict(zip(CALLS, most.astype(int).tolist(), strict=True)))

    def own_counts(self) -> Counts:
        """Calls of this process and messages so far."""
        vectors, calls = self.algorithm.vectors, self.algorithm.oracle_calls()
        calls = {name: int(value) for name, value in calls.items()}
        tests, sums = self._tests()
        for name in ("grad_f", "prox_g", "AT"):
            calls[name] += tests
        calls["A"] += sums
        calls["prox_h"] += sums
        comm = self.runtime.comm
        links = 2 * len(self.runtime.network.edges) * self.runtime.p
        return Counts(
            rounds=self.algorithm.rounds,
            vectors=vectors,
            agree_rounds=self.schedule.agree_rounds + comm.agree_rounds,
            floats=links * vectors + self.schedule.agree_floats + comm.agree_floats,
            **calls,
        )

    def _tests(self) -> list[int]:
        """What the stopping tests have evaluated so far, see :class:`StoppingTest`."""
        return [getattr(self.stopping, name) + getattr(self.schedule, name) for name in _TESTS]

    # -- the loop -------------------------------------------------------------------------
    def run(self, update: Callable[[int, float], None] | None = None) -> Outcome:
        """Advance until a limit, the test or an interrupt.

        ``update(rounds, kkt)`` is told how far the run has come.
        """
        x, duals = self.point
        if self._self_terminating is None or self.record:  # else its first sum tells
            self.kkt = self.stopping.observe(x, duals).kkt
        comm, request = self.runtime.comm, on_interrupt(self.interrupt)
        with comm.iterating(), request, np.errstate(over="ignore", invalid="ignore"):
            self.origin = x.copy() if x.any() else np.broadcast_to(0.0, x.shape), copied(duals)
            self._trace()
            while (status := self._limit()) is None:
                found = self._advance()
                self._trace()
                if update is not None:
                    update(self.algorithm.rounds, self.kkt)
                if found is not None and (status := self._decide(found)) is not None:
                    break
        last = self.rows[-1]["rounds"] if self.rows else -1
        if self.record and self.algorithm.rounds > last and self._finite():
            self._record()
            self.schedule.forced = 1
        if self.rows and status == Status.CONVERGED:  # the definitions judged the last point
            self.rows[-1]["kkt"] = self.kkt
        counts, trace, state = self.own_counts(), self.trace(), self.state()
        with np.errstate(over="ignore", invalid="ignore"):
            x, duals = self.point if status == Status.CONVERGED else self.best_point()
        return Outcome(status, counts, trace, state, x, duals)

    def _advance(self) -> Residual | None:
        """Work up to the next pause, by the clock; test where a test is due."""
        s, begun = self.schedule, working_clock()
        if self._self_terminating is not None:
            return self._advance_self_terminating(self._self_terminating, begun)
        target = min(s.test, self.max_rounds, s.trace if self.record else s.test)
        self.algorithm.advance(target, CHUNK_SECONDS)
        rounds, found = self.algorithm.rounds, None
        if rounds >= s.test:
            seconds = s.seconds + working_clock() - begun
            request = self._request(seconds) if self._own_finite() else Request.BROKEN
            found = self.stopping.test(*self.point, rounds >= s.milestone, request)
            s.test = max(int(rounds * _TEST_RATIO), rounds + 5 * self.stride)
        s.seconds += working_clock() - begun
        return found

    def _advance_self_terminating(self, algorithm: SelfTerminating, begun: float) -> Residual:
        """One sum of an algorithm that tests its own iterates."""
        algorithm.request = self._request(self.schedule.seconds)
        if self._alone and self.time_limit is not None:
            algorithm.deadline = Deadline(begun + self.time_limit - self.schedule.seconds)
        self.algorithm.advance(self.algorithm.rounds + self.stride, CHUNK_SECONDS)
        self.schedule.seconds += working_clock() - begun
        found = algorithm.report
        self.separator, self.ray = found.separator, found.ray
        met = found.status == Status.CONVERGED
        proof = found.proof if self.stopping.atol == 0 else None  # its units may differ from ours
        residual = Residual(found.kkt, met, found.dual, Request(found.request), proof)
        return self.stopping.confirm(residual, self.algorithm.x) if met else residual

    def _limit(self) -> Status | None:
        """Whether to end here. Several processes end together: their requests wait for a test."""
        request = self._request(self.schedule.seconds) if self._alone else Request.NONE
        if request == Request.INTERRUPT:
            return Status.INTERRUPTED
        s = self.schedule
        if s.refused > _MAX_REJECTIONS and s.best > self.stopping.tol:  # continued after it
            return Status.STALLED
        if self.algorithm.rounds >= self.max_rounds:
            return Status.MAX_ROUNDS
        return Status.TIME_LIMIT if request == Request.TIME else None

    def _request(self, seconds: float) -> Request:
        if self._interrupted:
            return Request.INTERRUPT
        if self.time_limit is not None and seconds >= self.time_limit:
            return Request.TIME
        if self.checkpoints is None:
            return Request.NONE
        if self.checkpoints.held:
            return Request.HOLD
        return Request.SAVE if self.checkpoints.due else Request.NONE

    def _decide(self, found: Residual) -> Status | None:
        """Whether the run ends with this test; keeps the best point, calls back and saves."""
        s, (x, duals) = self.schedule, self.point
        self.kkt = found.kkt
        if found.request == Request.BROKEN:
            return Status.DIVERGED
        if found.dual is not None and self._improves(found):
            s.best, self.best = found.kkt, self._copy_of(x, duals)
        if found.dual is not None and found.met:
            self.proof = found
            return Status.CONVERGED
        if self.callback is not None:
            point = {"x": x * self.lengths, "duals": duals * self.units}
            info = {"rounds": self.algorithm.rounds, "kkt": found.kkt, "full": found.full}
            if self.callback(info | {"seconds": s.seconds} | point):
                self.interrupt()
        if self._interrupted and self._alone:
            return Status.INTERRUPTED
        if found.request in _ENDS and not self._alone:
            return _ENDS[found.request]
        if self._self_terminating is not None:
            end = self._self_terminating.report.status
            if end == Status.CONVERGED:  # the definitions did not consent
                s.refused += 1
                self._self_terminating.on_certificate_rejected()
                return Status.STALLED if s.refused > _MAX_REJECTIONS else None
            if end:
                return Status(end)
        elif self.algorithm.rounds >= s.milestone:
            assert found.dual is not None, "milestones form the sums"
            separates = self.runtime.problem.separates
            status, self.separator = s.pass_milestone(self.algorithm.rounds, found.dual, separates)
            if status is not None:
                return status
        if found.request == Request.SAVE and self.checkpoints is not None:
            self.checkpoints.save(self.algorithm.rounds, self.state())
        return None

    def _improves(self, found: Residual) -> bool:
        """Whether it is the best; what the definitions have said outweighs the screen."""
        s, judged = self.schedule, found.proof is not None
        if judged and not s.proven:
            s.proven = 1
            return True
        return found.kkt < s.best and (judged or not s.proven)

    def _copy_of(self, x: Array, duals: Array) -> Point:
        """A copy of a point, in the place of the last one unless a saved state refers to that."""
        if self.best is None or self._best_is_aliased:
            self._best_is_aliased = False
            return x.copy(), copied(duals)
        np.copyto(self.best[0], x)
        return self.best[0], copied(duals)

    def _own_finite(self) -> bool:
        """Whether the iterates of this process are finite."""
        return all(bool(np.all(np.isfinite(part))) for part in self.point)

    def _finite(self) -> bool:
        """Whether those of all processes are."""
        own = self._own_finite()
        return own if self._alone else not self.runtime.most(np.array([float(not own)])).any()

    @property
    def self_terminating(self) -> bool:
        """Whether the method tests its own answers, with one price for all."""
        return self._self_terminating is not None

    def best_point(self) -> Point:
        """The best iterate whose residual is known, the present one, or where the run began."""
        if self._finite():
            if self.best is None or (self._alone and self._is_best()):
                return self.point
            if self.stopping.observe(*self.point).kkt <= self.schedule.best:
                return self.point
        return self.best or self.origin

    def _is_best(self) -> bool:
        """Whether the present iterate is the best one, which needs no evaluation then."""
        assert self.best is not None
        return all(map(np.array_equal, self.point, self.best))

    def interrupt(self) -> None:
        """Ask the loop to end at its next pause."""
        self._interrupted = True

    # -- trace ------------------------------------------------------------------------------
    def _trace(self) -> None:
        s, rounds = self.schedule, self.algorithm.rounds
        if self.record and rounds >= s.trace:
            s.trace = max(rounds + 1, int(rounds * _TRACE_RATIO))
            self._record()

    def _record(self) -> None:
        row = {"seconds": self.schedule.seconds, "kkt": self.stopping.observe(*self.point).kkt}
        if self.reference is not None:
            row["gap"] = self._distance(self.reference)
        self.rows.append(row | vars(self.counts()))

    def _distance(self, reference: Array) -> float:
        """|x - x*|/|x*|, or |x| where x* = 0."""
        rt = self.runtime
        rows = np.zeros((rt.n, 2))
        rows[0] = [float(v @ v) for v in (self.algorithm.x * self.lengths - reference, reference)]
        with rt.comm.uncounted():
            distance, size = np.sqrt(rt.allreduce_sum(rows))
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
        s, comm = self.schedule, self.runtime.comm
        s.tests, s.sums = self._tests()
        s.agree_rounds += comm.agree_rounds
        s.agree_floats += comm.agree_floats
        self.stopping.tests = self.stopping.sums = 0
        comm.agree_rounds = comm.agree_floats = 0
        own = {f"driver_{name}": value for name, value in vars(s).items()}
        if self.best is not None:
            own |= {"best_x": self.best[0], "best_duals": self.best[1]}
            self._best_is_aliased = True
        return self.algorithm.state() | own | {"mark": self.mark}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a saved :meth:`state`."""
        self.algorithm.restore(state)
        for name in Schedule.__dataclass_fields__:
            value = np.asarray(state.get(f"driver_{name}", getattr(self.schedule, name)))
            setattr(self.schedule, name, value.item() if value.ndim == 0 else value.copy())
        if "best_x" in state:
            self.best = (state["best_x"].copy(), state["best_duals"].copy())
        comm = self.runtime.comm  # the set-up was counted when the run began
        comm.agree_rounds = comm.agree_floats = 0


def copied(rows: Array) -> Array:
    """A copy; of a row that all agents share, that row is kept once.

    Examples
    --------
    >>> copied(np.broadcast_to(np.arange(2.0), (3, 2))).strides
    (0, 8)
    """
    if len(rows) and rows.strides[0] == 0:
        return np.broadcast_to(rows[0].copy(), rows.shape)
    return rows.copy()
