"""A run of the interior-point method: start, saved state, answers, and the finish on a face."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from dual2.conic.block import Direction, Point, dump_points, load_points
from dual2.conic.face import RHO as FACE_RHO
from dual2.conic.face import (
    changes_of_face,
    exact_prices,
    face_of,
    linearise_face,
    objective_of,
    take_face_step,
    without_dust,
)
from dual2.methods.exact_sums import ExactSumMethod, dump_state, load_state
from dual2.methods.interior_point.exchanges import Exchanges
from dual2.methods.interior_point.residuals import LEAST_OBJECTIVE
from dual2.methods.interior_point.state import Phase, State
from dual2.methods.interior_point.units import ROUNDS
from dual2.methods.method import TerminationReport
from dual2.methods.run_status import RunStatus
from dual2.problem.impossible import proves_infeasible, proves_unbounded
from dual2.problem.residual import KKT
from dual2.problem.residual import kkt as evaluate_kkt
from dual2.runtime import Runtime

Array = np.ndarray
NEARLY = 1e-5
"""Residual of a best point that is worth a polish."""
MOST_POLISHED, FEW_POLISHED, MOST_IDLE = 8, 2, 3
"""Newton steps on the face: most; enough where the tolerance is met; in a row without progress."""
PROGRESS = 0.5
"""Part to which the residual must fall in a step that counts as progress."""
ENOUGH = 1e-3
"""Part of the tolerance below which no further step is tried."""
PART, FINEST, LOOSEST = 0.1, 1e-10, 1e-6
"""Part of the tolerance that iterates must meet, and its limits."""
SHARPER, SHARPEST = 1e-2, 1e-4
"""After a wrong face the iterations go on to so much of their residual; and the least part: near
1e-14 rounding leaves nothing to gain."""
DUST = 1e-14, 1e-11
"""Variables below this part of their agent's largest are none, and multipliers below ten times it:
rounding, and what an ill-conditioned system may leave. The certificate decides."""
REST = 1e-8
"""Part of a ray below which a coordinate counts as at rest: the accuracy of the iterates."""
SAME = 1e-8
"""How far the objective may move from the iterate to its face, relative to its size."""


class Run(ExactSumMethod):
    """What is not the loop itself; see :class:`.algorithm.InteriorPoint`."""

    current: State
    _proof: KKT | None
    growing: ClassVar[Mapping[str, tuple[int, ...]]] = {"entries": (0,)}

    def __init__(self, runtime: Runtime, max_iterations: int) -> None:
        super().__init__(runtime, 2**62)
        self.max_iterations, self.agents = max_iterations, Exchanges(runtime)
        self._start_cold()

    def _set_up(self) -> None:
        """Agree on units and on what kind of problem it is."""
        units = self.agents.set_up()
        self._best = self._before = self.agents.points
        self.current = replace(
            self.current, phase=Phase.ITERATE, factors=units.factors, cost_scale=units.cost_scale,
            b=units.b, entries=units.entries, count=units.pairs, curved=units.curved,
            cones=units.cones, kappa=0.0 if units.curved else 1.0,
        )  # fmt: skip

    # -- the finish -------------------------------------------------------------------------------
    def _end_iterations(self) -> None:
        """From the best point to its face, or a stall."""
        now = self.current
        if not now.best < NEARLY:
            self._publish([p.v / now.best_tau for p in self._best], now.best_dual / now.best_tau)
            self.current = replace(self.current, status=RunStatus.STALLED)
            return
        agents = self.agents
        iterates = zip(agents.blocks, self._best, self._best_before, strict=True)
        agents.points = [face_of(*iterate, now.best_tau) for iterate in iterates]
        dual = now.best_dual / now.best_tau
        self.current = replace(
            now, phase=Phase.POLISH, dual=dual, kkt=now.answer_kkt, polished=0, idle=0
        )
        if not np.isfinite(now.answer_kkt):
            self._publish([point.v / now.best_tau for point in self._best], dual)

    def _stop_early(self) -> None:
        """What an iteration or a polishing step without factors leaves: the best point so far."""
        if self.current.phase == Phase.ITERATE:
            self._end_iterations()
        else:
            self._end_polish()

    def _resume(self) -> None:
        """Continue the iterations from the best point, to a smaller residual."""
        now, self.agents.points = self.current, self._best
        self.current = replace(
            now, phase=Phase.ITERATE, dual=now.best_dual, tau=now.best_tau, kappa=now.best_kappa,
            answer_kkt=now.kkt, target=SHARPER * now.target, resumed=True,
        )  # fmt: skip

    def _polish(self) -> None:
        """One Newton step on the face: one exchange, and the test of its answer."""
        now, agents = self.current, self.agents
        points = zip(agents.blocks, agents.points, strict=True)
        steps = [linearise_face(block, point, now.dual) for block, point in points]
        S, left = agents.exchange_face(steps)
        solve = agents.schur.solver(S, FACE_RHO)
        if solve is None:
            self._end_polish()
            return
        change = solve(left - now.b)
        dual = now.dual + change
        pairs = zip(agents.blocks, steps, strict=True)
        agents.points = [take_face_step(block, step, change, dual) for block, step in pairs]
        now = replace(now, dual=dual, polished=now.polished + 1)
        self.current = replace(now, idle=now.idle + 1)
        last = now.polished >= MOST_POLISHED or self.current.idle >= MOST_IDLE
        if now.polished > 1 and not last and self._faces_moved([step.point for step in steps]):
            return  # an answer whose bounds still change is not worth the test
        self._try_face(now.idle)

    def _try_face(self, idle: int) -> None:
        """Keep the answer on the present face if it is better; end if it is good enough."""
        agents = self.agents
        dual = exact_prices(agents.blocks[-1], agents.points[-1], self.current.dual)
        before = self.current.kkt
        for part in DUST if self.current.polished > 1 else DUST[:1]:
            cleaned = [without_dust(point.v, part) for point in agents.points]
            self._compare(agents.x(cleaned), without_dust(dual, 10.0 * part), True)
            if self.current.kkt <= self.tol:
                break
        now = self.current
        self.current = now = replace(now, idle=0 if now.kkt < PROGRESS * before else idle + 1)
        met = now.kkt <= self.tol
        if now.kkt <= ENOUGH * self.tol or (met and now.polished >= FEW_POLISHED):
            self._end_polish()
        elif now.polished >= MOST_POLISHED or now.idle >= MOST_IDLE:
            self._end_polish()

    def _faces_moved(self, before: list[Point]) -> bool:
        """Whether some agent's variables have met or left bounds in the last step."""
        agents, moved = self.agents, np.zeros((self.runtime.n, 1))
        for block, old, new in zip(agents.blocks[:-1], before, agents.points, strict=False):
            moved[block.places, 0] = changes_of_face(old, new)
        own = changes_of_face(before[-1], agents.points[-1]).sum()
        return float(self.runtime.allreduce_sum(moved)[0]) + own > 0

    def _end_polish(self) -> None:
        """What the best answer is: one on a face, or the iterate itself."""
        now = self.current
        if now.kkt > self.tol and now.best_tau > 0:
            if self._can_sharpen():
                self._resume()
                return
            iterate = [point.v / now.best_tau for point in self._best]
            self._compare(self.agents.x(iterate), now.best_dual / now.best_tau)
        met = self.current.kkt <= self.tol
        end = RunStatus.CONVERGED if met else RunStatus.STALLED
        self.current = replace(self.current, status=end)

    def _can_sharpen(self) -> bool:
        """Whether the iterations ended because they had met their target, which can be smaller."""
        now = self.current
        return now.best < self._wanted() and now.target > SHARPEST and not now.curved

    def _wanted(self) -> float:
        """Residual at which the iterations end."""
        return min(max(PART * self.tol, FINEST), LOOSEST) * self.current.target

    def _compare(self, x: Array, dual: Array, moved: bool = False) -> None:
        """Keep an answer if its KKT residual is the least so far.

        One that has ``moved`` to a face must have the objective of the iterate too.
        """
        problem, lam = self.runtime.problem, self._user_dual(dual)
        proof = evaluate_kkt(problem, problem.split(x), lam, self.atol, self.atol)
        kkt = proof.kkt
        if not kkt < self.current.kkt or (moved and kkt <= self.tol and not self._same_objective()):
            return
        self._x, self._proof = x, proof
        self.current = replace(self.current, lam=lam, kkt=float(kkt))

    def _same_objective(self) -> bool:
        """Whether the face has the objective of the iterate from which it was guessed."""
        agents, now = self.agents, self.current
        rows = np.zeros((self.runtime.n, 1))
        for block, point in zip(agents.blocks[:-1], agents.points, strict=False):
            rows[block.places, 0] = objective_of(block, point)
        value = float(self.runtime.allreduce_sum(rows)[0])
        value += float(objective_of(agents.blocks[-1], agents.points[-1])[0])
        size = max(abs(now.objective), LEAST_OBJECTIVE * now.magnitude)
        return now.curved or abs(value - now.objective) <= SAME * max(size, 1e-300)

    def _check_separator(self) -> bool:
        """Whether λ, as a direction, proves by the definitions that there is no feasible point."""
        direction = self._user_dual(self.current.dual)
        if not proves_infeasible(self.runtime.problem, direction):
            return False
        self.current = replace(self.current, status=RunStatus.INFEASIBLE, separator=direction)
        return True

    def _check_ray(self) -> bool:
        """Whether x, as a direction, proves by the definitions that the objective is unbounded."""
        agents, problem = self.agents, self.runtime.problem
        origin = agents.x([np.zeros_like(point.v) for point in agents.points])
        ray = agents.x([point.v for point in agents.points]) - origin
        size = float(
            problem.largest(np.full((len(problem.agents), 1), np.abs(ray).max(initial=0.0)))[0]
        )
        for near in near_rays(problem.split(ray), size) if size > 0 else ():
            if proves_unbounded(problem, near):
                self._ray = np.concatenate(near)
                self.current = replace(self.current, status=RunStatus.UNBOUNDED)
                return True
        return False

    # -- answers ----------------------------------------------------------------------------------
    def _user_dual(self, dual: Array) -> Array:
        """λ in the user's units, all rows."""
        lam = np.zeros(self.runtime.p)
        dual = without_dust(dual, 10.0 * DUST[0])
        lam[self.agents.active] = dual * self.current.factors.prod(axis=0) / self.current.cost_scale
        return lam

    def _publish(self, v: list[Array], dual: Array) -> None:
        """Make a point the answer."""
        self._x, self._proof = self.agents.x(v), None
        self.current = replace(self.current, lam=self._user_dual(dual))

    @property
    def x(self) -> Array:
        """Flat primal iterate."""
        return self._x

    def _report(self) -> TerminationReport:
        now = self.current
        proof = now.separator if now.status == RunStatus.INFEASIBLE else None
        ray = self._ray if now.status == RunStatus.UNBOUNDED else None
        known = self._proof if now.status == RunStatus.CONVERGED else None
        return TerminationReport(now.kkt, now.lam, now.status, self._asked, proof, ray, known)

    def on_certificate_rejected(self) -> None:
        """Go on after an end to which the definitions did not consent."""
        self.current = replace(self.current, status=RunStatus.RUNNING, kkt=np.inf)

    def oracle_calls(self) -> dict[str, int]:
        """Calls so far, by the names of :class:`dual2.Counts`."""
        sums = self.current.sums
        each = {"grad_f": sums, "prox_g": 0, "A": sums, "AT": sums, "prox_h": 0}
        return each | {"iterations": sums, "sums": sums}

    # -- start, save, restore ---------------------------------------------------------------------
    def _start(self, x: Array, lam: Array, priced: bool, warm: bool) -> None:
        """Begin from the same interior point whatever the start."""
        rows, agents = np.zeros(self.agents.p), self.agents
        agents.begin()
        agents.sums = 0
        self.current = State(
            lam=np.zeros(self.runtime.p), factors=np.ones((ROUNDS, len(rows))), b=rows, dual=rows,
            d_dual=rows, best_dual=rows, entries=np.zeros(0, np.int64),
            separator=np.zeros(self.runtime.p),
        )  # fmt: skip
        self._best = self._best_before = self._before = agents.points
        self._x, self._ray, self._proof = x.copy(), np.zeros_like(x), None

    def state(self) -> dict[str, Any]:
        """Everything needed to continue bit for bit."""
        found = {"x": self._x.copy()} | dump_state(self.current)
        for label, points in self._saved().items():
            found |= dump_points(label, points)
        return found

    def _snapshot(self) -> tuple[Any, ...]:
        return self.current, self._best, self._best_before, self._before, self.agents.snapshot()

    def _go_back(self, to: tuple[Any, ...]) -> None:
        """Leave out an iteration within which time has ended."""
        self.current, self._best, self._best_before, self._before, points = to
        self.agents.go_back(points)

    def _saved(self) -> dict[str, list[Any]]:
        agents = self.agents
        return {
            "point": agents.points, "step": agents.steps, "best": self._best,
            "best_before": self._best_before, "before": self._before,
        }  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a saved :meth:`state`."""
        self._proof = None
        agents, self.current = self.agents, load_state(State, state)
        self._x, agents.sums = np.array(state["x"], dtype=float), self.current.sums
        if self.current.phase != Phase.SETUP:
            agents.rescale(self.current.factors, self.current.cost_scale, self.current.entries)
        own = {
            k: load_points(k, state, agents.points, Direction if k == "step" else Point)
            for k in self._saved()
        }
        agents.points, agents.steps = own["point"], own["step"]
        self._best, self._best_before, self._before = own["best"], own["best_before"], own["before"]


def near_rays(ray: list[Array], size: float) -> list[list[Array]]:
    """The ray over its ``size``, without the rounding of coordinates that are at rest.

    In a row that others do not touch, such rounding has nothing to cancel with. First goes what is
    rounding within an agent, then what is small beside all agents.

    Examples
    --------
    >>> near_rays([np.array([2.0, 1e-14]), np.array([1e-10])], 2.0)[0]
    [array([1., 0.]), array([5.e-11])]
    """
    units = [own / size for own in ray]
    own_dust = [without_dust(d, 10.0 * DUST[0]) for d in units]
    return [own_dust, [np.where(np.abs(d) > REST, d, 0.0) for d in units]]
