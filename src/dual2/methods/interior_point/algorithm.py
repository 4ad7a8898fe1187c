"""Homogeneous primal–dual predictor–corrector method over exact sums.

Every agent factorises its own block. Sums of matrices, vectors and numbers cross the network, and
everybody solves the system in the rows of the coupling alike. Two exchanges per iteration: the
first brings residuals and the Schur complement at the longest of a few steps that all agents can
take, the second what the predictor did. Mehrotra (*SIAM J. Optim.* 1992); Andersen and Ye (*Math.
Program.* 1999); Nesterov and Todd (*SIAM J. Optim.* 1998).
"""

from dataclasses import replace
from typing import Any

import numpy as np

from dual2.methods.exact_sums import ExactSumMethod, dump_state, load_state
from dual2.methods.interior_point.agents import Agents
from dual2.methods.interior_point.block import Direction, Point
from dual2.methods.interior_point.embedding import Embedding
from dual2.methods.interior_point.finish import (
    RHO as FACE_RHO,
)
from dual2.methods.interior_point.finish import (
    exact_prices,
    face_of,
    linearise_face,
    objective_of,
    take_face_step,
)
from dual2.methods.interior_point.linearisation import Outer
from dual2.methods.interior_point.residuals import LEAST_OBJECTIVE, Residuals, find_residuals
from dual2.methods.interior_point.schema import Fields
from dual2.methods.interior_point.schur import solver
from dual2.methods.interior_point.state import Phase, State
from dual2.methods.interior_point.units import ROUNDS
from dual2.methods.message import symmetric
from dual2.methods.method import TerminationReport
from dual2.problem.residual import kkt as evaluate_kkt
from dual2.runtime import Runtime

Array = np.ndarray
DAMPING = 0.99
"""Part of the longest step that is taken."""
GRID = (1.0, 0.99, 0.97, 0.93, 0.87, 0.8, 0.7, 0.6, 0.5, 0.35, 0.2, 0.1, 0.03)
"""Step lengths that the first exchange may try."""
FAR = 0.01
"""κ/τ up to which the column of τ is written around the iterate."""
SMALLEST_RHO, RHO_PER_MU = 1e-10, 1e-3
"""The proximal weight follows μ down to a floor."""
DELTA = 1e-10
"""Regularisation of S."""
BEYOND_BEST = 6
"""Iterations without a better point after which rounding has taken over."""
NEARLY = 1e-5
"""Residual of a best point that is worth a polish."""
DIFFERENCE = 0.01
"""Relative difference of both forms of the divisor that asks for another predictor."""
SMALLEST_SIGMA, CONE_SIGMA = 1e-8, 0.1
"""Least centring, and with second-order cones, whose angles need it."""
SHORTEST = 1e-9
"""A shorter step means that the numbers fail."""
MOST_POLISHED, FEW_POLISHED = 8, 2
"""Newton steps on the face: most, and enough where the tolerance is met."""
ENOUGH = 1e-3
"""Part of the tolerance below which no further step is tried."""
DUST = 1e-13
"""Multipliers below this part of the largest, in scaled units, are none."""
SAME = 1e-8
"""How far the objective may move from the iterate to its face, relative to its size."""
PART, FINEST, LOOSEST = 0.1, 1e-10, 1e-6
"""Part of the tolerance that iterates must meet, and its limits."""


class InteriorPoint(ExactSumMethod):
    """The method on one block of agents; each call of ``advance`` is at least one iteration.

    Parameters
    ----------
    runtime : Runtime
        Where the agents are.
    max_iterations : int
        Most iterations.
    """

    now: State

    def __init__(self, runtime: Runtime, max_iterations: int) -> None:
        super().__init__(runtime, 2**62)
        self.max_iterations, self.agents = max_iterations, Agents(runtime)
        self._start_cold()

    # -- the loop ---------------------------------------------------------------------------------
    def _sum(self) -> None:
        """What follows next: units, an iteration, or a polishing step."""
        self.agents.request = self.request
        if self.current.phase == Phase.SETUP:
            self._set_up()
        elif self.current.phase == Phase.ITERATE:
            self._iterate()
        else:
            self._polish()
        self._asked = self.agents.asked
        self.current = replace(self.current, sums=self.agents.sums)

    def _set_up(self) -> None:
        units = self.agents.set_up()
        self._best = self._before = self.agents.points
        self.current = replace(
            self.current, phase=Phase.ITERATE, factors=units.factors, cost_scale=units.cost_scale,
            b=units.b, count=units.pairs,
        )  # fmt: skip

    def _iterate(self) -> None:
        """One predictor–corrector iteration: two exchanges, three if no step of the grid fits."""
        agents = self.agents

        # Exchange 1: step; residuals and Schur complement at the new point.
        length, told = self._step()
        if length < SHORTEST and self.current.iterations:
            self._end_iterations()
            return

        # Residuals and termination.
        now, residuals = self.current, find_residuals(self.current, told)
        self._keep_best(residuals)
        if self._terminate(residuals):
            return

        # Factorisation of the replicated system.
        embedding = self._embed(told, residuals)
        if embedding is None:
            self._end_iterations()
            return

        # Predictor: how far would a pure Newton step go? Exchange 2, again if that was far off.
        AM, scalar, target = told["AM_affine"], told.number("scalar_affine"), -now.tau * now.kappa
        predictor = embedding.step(AM, scalar, 1.0, target, embedding.rough)
        affine, sums = agents.exchange_corrections(predictor, embedding.around, residuals.mu)
        divisor = self._divisor(embedding, sums)
        if abs(embedding.rough - divisor) > DIFFERENCE * divisor:
            predictor = embedding.step(AM, scalar, 1.0, target, divisor)
            affine, sums = agents.exchange_corrections(predictor, embedding.around, residuals.mu)
        affine = min(1.0, affine, now.limit(predictor.d_tau, predictor.d_kappa))

        # Corrector: centring and the second-order term, which entered exchange 2 linearly.
        least = CONE_SIGMA if agents.has_cones else SMALLEST_SIGMA
        sigma = min(max((1.0 - affine) ** 3, least), 1.0)
        target = sigma * residuals.mu + target - predictor.d_tau * predictor.d_kappa
        AM = sums["AM_target"] + sigma * sums["AM_centre"]
        scalar = sums.number("scalar_target") + sigma * sums.number("scalar_centre")
        final = embedding.step(AM, scalar, 1.0 - sigma, target, divisor)
        agents.combine(final, sigma)
        self.current = replace(
            now, d_dual=final.d_dual, d_tau=final.d_tau, d_kappa=final.d_kappa, sigma=sigma,
            affine=affine, mu=residuals.mu, balance=residuals.balance,
            iterations=now.iterations + 1,
        )  # fmt: skip

    def _step(self) -> tuple[float, Fields]:
        """Move by the longest step of the grid that all can take."""
        now, lengths = self.current, [0.0]
        if now.iterations:
            limit = DAMPING * now.limit(now.d_tau, now.d_kappa)
            limit = min(1.0, limit, self.agents.public_limit(DAMPING))
            lengths = self._lengths(limit)
        self._before = self.agents.points
        length, told = self.agents.exchange_point(lengths, self._outer_at, DAMPING)
        self.current = replace(
            now, dual=now.dual + length * now.d_dual, tau=now.tau + length * now.d_tau,
            kappa=now.kappa + length * now.d_kappa,
        )  # fmt: skip
        return length, told

    def _lengths(self, limit: float) -> list[float]:
        """Steps to try at once, the longest first: the grid, or a few around the predictor's."""
        tries = self.agents.tries
        if tries >= len(GRID):
            return [a for a in GRID if a <= limit] or [limit]
        affine = self.current.affine
        guesses = (DAMPING, 0.985 - 0.5 * (1.0 - affine), 0.97 * affine, 0.7 * affine)
        fitting = sorted((a for a in guesses if a <= limit), reverse=True) or [limit]
        return fitting[-tries:] if tries > 1 else [limit]

    def _outer_at(self, length: float) -> Outer:
        """What everybody knows after a step of this length."""
        now = self.current
        tau, kappa = now.tau + length * now.d_tau, now.kappa + length * now.d_kappa
        ahead = RHO_PER_MU * min(1.0, now.mu * (1.0 - length * (1.0 - now.sigma)))
        rho = max(SMALLEST_RHO * now.balance, ahead)
        return Outer(now.dual + length * now.d_dual, tau, rho, kappa <= FAR * tau)

    def _embed(self, told: Fields, residuals: Residuals) -> Embedding | None:
        """Factorise S; None if it has no factors."""
        now, near = self.current, self.current.kappa <= FAR * self.current.tau
        S = symmetric(told["schur"], self.agents.p)
        S[np.diag_indices(len(S))] += DELTA
        solve = solver(S)
        if solve is None:
            return None
        side = -residuals.r_p if near else now.b * now.tau
        around, complement = solve(told["AMu"] + side), now.kappa * now.tau
        rough = complement + told.number("first") + float((side - told["AMt"]) @ around)
        return Embedding(
            solve, residuals, now.dual, now.tau, now.kappa, around, side, told["AMt"],
            max(rough, complement), near,
        )  # fmt: skip

    def _divisor(self, embedding: Embedding, sums: Fields) -> float:
        """The divisor of Δτ as a sum of squares, which never cancels."""
        around = embedding.around
        own = embedding.tau * embedding.kappa + DELTA * float(around @ around)
        return own + sums.number("divisor")

    # -- termination ------------------------------------------------------------------------------
    def _keep_best(self, residuals: Residuals) -> None:
        now = self.current
        if now.iterations and not residuals.relative < now.best:
            return
        self._best, self._best_before = self.agents.points, self._before
        self.current = replace(
            now, best=residuals.relative, best_at=now.iterations, best_dual=now.dual,
            best_tau=now.tau, objective=residuals.objective, magnitude=residuals.magnitude,
            kkt=residuals.relative,
        )  # fmt: skip

    def _terminate(self, residuals: Residuals) -> bool:
        """Whether the iterations end here."""
        now = self.current
        wanted = min(max(PART * self.tol, FINEST), LOOSEST)
        if residuals.relative < wanted:
            self._end_iterations()
        elif residuals.infeasible:
            self.current = replace(now, status="INFEASIBLE", separator=self._user_dual(now.dual))
        elif residuals.unbounded and self._is_ray():
            self.current = replace(now, status="UNBOUNDED")
        elif now.best < NEARLY and now.iterations - now.best_at > BEYOND_BEST:
            self._end_iterations()
        elif now.iterations >= self.max_iterations:
            self._end_iterations()
        else:
            return False
        return True

    def _end_iterations(self) -> None:
        """From the best point to its face, or a stall."""
        now = self.current
        if not now.best < NEARLY:
            self._publish([p.v / now.best_tau for p in self._best], now.best_dual / now.best_tau)
            self.current = replace(self.current, status="STALLED")
            return
        agents = self.agents
        iterates = zip(agents.blocks, self._best, self._best_before, strict=True)
        agents.points = [face_of(*iterate, now.best_tau) for iterate in iterates]
        dual = now.best_dual / now.best_tau
        self.current = replace(now, phase=Phase.POLISH, dual=dual, kkt=np.inf)
        self._compare(agents.x([point.v / now.best_tau for point in self._best]), dual)
        self._try_face()

    def _polish(self) -> None:
        """One Newton step on the face: one exchange, and the test of its answer."""
        now, agents = self.current, self.agents
        points = zip(agents.blocks, agents.points, strict=True)
        steps = [linearise_face(block, point, now.dual) for block, point in points]
        S, left = agents.exchange_face(steps)
        S[np.diag_indices(len(S))] += FACE_RHO
        solve = solver(S)
        if solve is None:
            self._end_polish()
            return
        change = solve(left - now.b)
        dual = now.dual + change
        pairs = zip(agents.blocks, steps, strict=True)
        agents.points = [take_face_step(block, step, change, dual) for block, step in pairs]
        self.current = replace(now, dual=dual, polished=now.polished + 1)
        self._try_face()

    def _try_face(self) -> None:
        """Keep the answer on the present face if it is better; end if it is good enough."""
        agents = self.agents
        dual = exact_prices(agents.blocks[-1], agents.points[-1], self.current.dual)
        self._compare(agents.x([point.v for point in agents.points]), dual, moved=True)
        now = self.current
        met = now.kkt <= self.tol
        if now.kkt <= ENOUGH * self.tol or (met and now.polished >= FEW_POLISHED):
            self._end_polish()
        elif now.polished >= MOST_POLISHED:
            self._end_polish()

    def _end_polish(self) -> None:
        """What the best answer is."""
        end = "CONVERGED" if self.current.kkt <= self.tol else "STALLED"
        self.current = replace(self.current, status=end)

    def _compare(self, x: Array, dual: Array, moved: bool = False) -> None:
        """Keep an answer if its KKT residual is the least so far.

        One that has ``moved`` to a face must have the objective of the iterate too.
        """
        problem, lam = self.runtime.problem, self._user_dual(dual)
        kkt = evaluate_kkt(problem, problem.split(x), lam, self.atol, self.atol).kkt
        if not kkt < self.current.kkt or (moved and kkt <= self.tol and not self._same_objective()):
            return
        self._x, self.current = x, replace(self.current, lam=lam, kkt=float(kkt))

    def _same_objective(self) -> bool:
        """Whether the face has the objective of the iterate from which it was guessed."""
        agents, now = self.agents, self.current
        rows = np.zeros((self.runtime.n, 1))
        for block, point in zip(agents.blocks[:-1], agents.points, strict=False):
            rows[block.places, 0] = objective_of(block, point)
        value = float(self.runtime.total(rows)[0])
        value += float(objective_of(agents.blocks[-1], agents.points[-1])[0])
        size = max(abs(now.objective), LEAST_OBJECTIVE * now.magnitude)
        return abs(value - now.objective) <= SAME * max(size, 1e-300)

    def _is_ray(self) -> bool:
        """Whether the iterate, as a direction, is one of unboundedness by the definitions."""
        return False

    # -- answers ----------------------------------------------------------------------------------
    def _user_dual(self, dual: Array) -> Array:
        """λ in the user's units, all rows."""
        lam = np.zeros(self.runtime.p)
        dual = np.where(np.abs(dual) > DUST * np.abs(dual).max(initial=0.0), dual, 0.0)
        lam[self.agents.active] = dual * self.current.factors.prod(axis=0) / self.current.cost_scale
        return lam

    def _publish(self, v: list[Array], dual: Array) -> None:
        """Make a point the answer."""
        self._x = self.agents.x(v)
        self.current = replace(self.current, lam=self._user_dual(dual))

    @property
    def x(self) -> Array:
        """Flat primal iterate."""
        return self._x

    def _report(self) -> TerminationReport:
        proof = self.current.separator if self.current.status == "INFEASIBLE" else None
        now = self.current
        return TerminationReport(now.kkt, now.lam, now.status, self._asked, proof)

    def on_certificate_rejected(self) -> None:
        """Go on after an end to which the definitions did not consent."""
        self.current = replace(self.current, status="", kkt=np.inf)

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
            d_dual=rows, best_dual=rows, separator=np.zeros(self.runtime.p),
        )  # fmt: skip
        self._best = self._best_before = self._before = agents.points
        self._x = x.copy()

    def state(self) -> dict[str, Any]:
        """Everything needed to continue bit for bit."""
        agents, found = self.agents, {"x": self._x.copy()} | dump_state(self.current)
        for label, points in self._saved().items():
            found |= agents.to_arrays(label, points)
        return found

    def _saved(self) -> dict[str, list[Any]]:
        agents = self.agents
        return {
            "point": agents.points, "step": agents.steps, "best": self._best,
            "best_before": self._best_before, "before": self._before,
        }  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a saved :meth:`state`."""
        agents, self.current = self.agents, load_state(State, state)
        self._x, agents.sums = np.array(state["x"], dtype=float), self.current.sums
        if self.current.phase != Phase.SETUP:
            agents.rescale(self.current.factors, self.current.cost_scale)
        own = {
            k: agents.from_arrays(k, state, Direction if k == "step" else Point)
            for k in self._saved()
        }
        agents.points, agents.steps = own["point"], own["step"]
        self._best, self._best_before, self._before = own["best"], own["best_before"], own["before"]
