"""Homogeneous primal–dual predictor–corrector method over exact sums.

Every agent factorises its own block. Sums of matrices, vectors and numbers cross the network, and
everybody solves the system in the rows of the coupling alike. Two exchanges per iteration: the
first brings residuals and the Schur complement at the longest of a few steps that all agents can
take, the second what the predictor did. Mehrotra (*SIAM J. Optim.* 1992); Andersen and Ye (*Math.
Program.* 1999); Nesterov and Todd (*SIAM J. Optim.* 1998).

With smooth terms τ is 1: then this is the infeasible method with a line search.
"""

from dataclasses import replace

import numpy as np

from dual2.conic.linearisation import Outer
from dual2.conic.sparse_system import NoFactors
from dual2.methods.deadline import OutOfTime
from dual2.methods.interior_point.embedding import Embedding
from dual2.methods.interior_point.residuals import Residuals, find_residuals
from dual2.methods.interior_point.run import NEARLY, PROGRESS, Run
from dual2.methods.interior_point.schema import Fields
from dual2.methods.interior_point.state import Phase, State

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
BEYOND_BEST, MOST_IDLE = 6, 25
"""Iterations without a better point after which rounding has taken over; far from a solution."""
DIFFERENCE = 0.01
"""Relative difference of both forms of the divisor that asks for another predictor."""
SMALLEST_SIGMA, CONE_SIGMA, CAREFUL_SIGMA = 1e-8, 0.1, 0.5
"""Least centring; with second-order cones, whose angles need it; after a step was cut short."""
SHORTEST = 1e-9
"""A shorter step means that the numbers fail."""
SHORTEST_TAU = 1e-100
"""A shorter τ says that no proof will be found, a longer one than the inverse that numbers fail:
squares would soon be 0 or infinite."""
SUFFICIENT, LEAST_MERIT = 0.1, 1e-10
"""Part of the predicted fall of the merit that a step must bring; where it need not fall."""
SHORTER = 0.6 ** np.arange(17)
"""Parts of a step that are tried where the merit does not fall."""
CUT, CAREFUL = 0.4, 2
"""A step cut to less than this part is followed by so many careful iterations."""


class InteriorPoint(Run):
    """The method on one block of agents; each call of ``advance`` is at least one iteration.

    Parameters
    ----------
    runtime : Runtime
        Where the agents are.
    max_iterations : int
        Most iterations.
    """

    def _sum(self) -> None:
        """What follows next: units, an iteration, or a polishing step; nothing if time ends."""
        agents, before = self.agents, self._snapshot()
        agents.request, agents.deadline = self.request, self.deadline
        work = {Phase.SETUP: self._set_up, Phase.ITERATE: self._iterate}
        try:
            with self.runtime.comm.counted_if_finished():
                work.get(Phase(self.current.phase), self._polish)()
        except OutOfTime:
            self._go_back(before)
        except NoFactors:  # beyond the accuracy of the numbers; between processes an error
            if self.runtime.comm.size > 1:
                raise
            self._go_back(before)
            self._stop_early()
        self._asked = agents.asked
        self.current = replace(self.current, sums=agents.sums)

    def _iterate(self) -> None:
        """One predictor–corrector iteration: two exchanges, three if no step of the grid fits."""
        agents = self.agents

        # Exchange 1: step; residuals and Schur complement at the new point.
        length, told = self._step()
        if self.current.curved:
            length, told = self._search(length, told)
        stuck = length < SHORTEST and self.current.iterations and not self.current.resumed
        if stuck or not SHORTEST_TAU < self.current.tau < 1.0 / SHORTEST_TAU:
            self._end_iterations()
            return
        self.current = replace(self.current, resumed=False)

        # Residuals and termination.
        residuals = find_residuals(self.current, told)
        self._keep_best(residuals)
        if self._terminate(residuals):
            return
        now = self.current

        # Factorisation of the replicated system.
        embedding = self._embed(told, residuals)
        if embedding is None:
            self._end_iterations()
            return

        # Predictor: how far would a pure Newton step go? Exchange 2, again if that was far off.
        AM, scalar, target = told["AM_affine"], told.number("scalar_affine"), -now.tau * now.kappa
        second = 0.0 if now.careful else 1.0
        predictor = embedding.step(AM, scalar, 1.0, target, embedding.rough)
        around, mu = embedding.around, residuals.mu
        affine, sums = agents.exchange_corrections(predictor, around, mu, second)
        divisor = self._divisor(embedding, sums)
        if abs(embedding.rough - divisor) > DIFFERENCE * divisor:
            predictor = embedding.step(AM, scalar, 1.0, target, divisor)
            affine, sums = agents.exchange_corrections(predictor, around, mu, second)
        affine = min(1.0, affine, now.limit(predictor.d_tau, predictor.d_kappa))

        # Corrector: centring and the second-order term, which entered exchange 2 linearly.
        sigma = min(max((1.0 - affine) ** 3, self._least_sigma()), 1.0)
        target = sigma * mu + target - predictor.d_tau * predictor.d_kappa
        AM = sums["AM_target"] + sigma * sums["AM_centre"]
        scalar = sums.number("scalar_target") + sigma * sums.number("scalar_centre")
        final = embedding.step(AM, scalar, 1.0 - sigma, target, divisor)
        agents.combine(final, sigma)
        self.current = replace(
            now, d_dual=final.d_dual, d_tau=final.d_tau, d_kappa=final.d_kappa, sigma=sigma,
            affine=affine, mu=mu, balance=residuals.balance, careful=max(now.careful - 1, 0),
            iterations=now.iterations + 1,
        )  # fmt: skip

    def _least_sigma(self) -> float:
        if self.current.careful:
            return CAREFUL_SIGMA
        return CONE_SIGMA if self.current.cones else SMALLEST_SIGMA

    def _step(self) -> tuple[float, Fields]:
        """Move by the longest step of the grid that all can take."""
        now, lengths = self.current, [0.0]
        if now.iterations and not now.resumed:
            limit = DAMPING * now.limit(now.d_tau, now.d_kappa)
            limit = min(1.0, limit, self.agents.public_limit(DAMPING))
            lengths = self._lengths(limit)
        self._before = self.agents.points
        length, told = self.agents.exchange_point(lengths, self._outer_at, DAMPING)
        self._move_to(now, length)
        return length, told

    def _move_to(self, now: State, length: float) -> None:
        """The replicated part of a step."""
        self.current = replace(
            now, dual=now.dual + length * now.d_dual, tau=now.tau + length * now.d_tau,
            kappa=now.kappa + length * now.d_kappa,
        )  # fmt: skip

    def _search(self, length: float, told: Fields) -> tuple[float, Fields]:
        """Accept the step if the merit falls, else the best of shorter ones: two exchanges more."""
        now, found = self.current, find_residuals(self.current, told)
        if not now.iterations:
            weight = found.norm / max(found.mu, 1e-12) if now.count > 1 else 0.0
            merit = found.norm + weight * found.mu
            self.current = replace(now, weight=weight, merit=merit, first_merit=merit)
            return length, told
        merit = found.norm + now.weight * found.mu
        wanted = (1.0 - SUFFICIENT * (1.0 - now.sigma) * length) * now.merit
        if not merit <= max(wanted, LEAST_MERIT * now.first_merit):
            before = replace(now, dual=now.dual - length * now.d_dual)
            self.current, lengths = before, length * SHORTER
            merits = self._merits(lengths)
            best = int(np.argmin(merits))
            careful = CAREFUL if SHORTER[best] < CUT else 0
            length, merit = float(lengths[best]), float(merits[best])
            length, told = self.agents.step_back(length, self._outer_at)
            self._move_to(replace(before, careful=careful), length)
        self.current = replace(self.current, merit=merit)
        return length, told

    def _merits(self, lengths: Array) -> Array:
        """The merit of each step from the present point."""
        now, outer_at = self.current, self._outer_at
        products, squares, pairs = self.agents.exchange_merits(lengths.tolist(), outer_at)
        r_p = products - now.b
        norms = np.sqrt(squares + np.einsum("kj,kj->k", r_p, r_p))
        merits = norms + now.weight * pairs / max(now.count - 1.0, 1.0)
        return np.where(np.isfinite(merits), merits, np.inf)

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
        near = kappa <= FAR * tau and not now.curved
        return Outer(now.dual + length * now.d_dual, tau, rho, near, not now.curved)

    def _embed(self, told: Fields, residuals: Residuals) -> Embedding | None:
        """Factorise S; None if it has no factors."""
        now, near = self.current, self.current.kappa <= FAR * self.current.tau
        solve = self.agents.schur.solver(told["schur"], DELTA)
        if solve is None:
            return None
        if now.curved:
            none = np.zeros(self.agents.p)
            return Embedding(
                solve, residuals, now.dual, 1.0, 0.0, none, none, none, 0.0, False, embedded=False
            )
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
        if not embedding.embedded:
            return 0.0
        own = embedding.tau * embedding.kappa + DELTA * float(around @ around)
        return own + sums.number("divisor")

    # -- termination ------------------------------------------------------------------------------
    def _keep_best(self, residuals: Residuals) -> None:
        """Keep the best point, and note when the iterations have last got on."""
        now, found = self.current, residuals.relative
        clear = found < PROGRESS * now.mark_residual
        # The whole iterate may shrink towards 0, which is no progress: μ is that of size 1.
        mu = residuals.mu / max(now.tau, now.kappa) ** 2
        if now.best >= NEARLY:  # far from a solution gaps say little, complementarity more
            clear = clear or mu < PROGRESS * now.mark_mu
        if clear:
            now = replace(
                now,
                progress_at=now.iterations,
                mark_residual=min(found, now.mark_residual),
                mark_mu=mu,
            )
        # A residual of 1 is that of any point. Where the minimum of smooth terms is far away, no
        # relative residual falls, but the merit does.
        if found < now.best or now.best >= (NEARLY if now.curved else 1.0):
            self._best, self._best_before = self.agents.points, self._before
            now = replace(
                now, best=found, kkt=found, best_dual=now.dual, best_tau=now.tau,
                best_kappa=now.kappa, objective=residuals.objective, magnitude=residuals.magnitude,
            )  # fmt: skip
            self.current = now
            if not np.isfinite(now.answer_kkt):  # else an earlier answer stays until a better one
                self._publish([point.v / now.tau for point in self._best], now.dual / now.tau)
            return
        self.current = now

    def _terminate(self, residuals: Residuals) -> bool:
        """Whether the iterations end here."""
        now = self.current
        if residuals.relative < self._wanted():
            self._end_iterations()
        elif (residuals.infeasible and self._check_separator()) or (
            residuals.unbounded and self._check_ray()
        ):
            return True
        elif now.iterations - now.progress_at > (BEYOND_BEST if now.best < NEARLY else MOST_IDLE):
            self._end_iterations()
        elif now.iterations >= self.max_iterations:
            self._end_iterations()
        else:
            return False
        return True
