"""Other ways to ask the dual of the dual: as printed, each agent alone, or in one compiled call.

Agents that iterate together with everything spared that can be is
:class:`~dual2.methods.gossip.second_dual.JointOracle`.
"""

import math
from typing import NamedTuple

import numpy as np

from dual2.methods.gossip.accuracy import Options
from dual2.methods.gossip.second_dual import (
    ROUNDING,
    Array,
    Ascent,
    InexactOracle,
    JointOracle,
    NesterovIterate,
    OracleOutput,
    agreed,
    inner,
)
from dual2.methods.subsolvers import Exact, Subsolver
from dual2.methods.subsolvers.subsolver import LOCAL_STEPS


class PrintedSums(NamedTuple):
    """What the printed stopping rule of a subproblem needs, squared."""

    dual2: float
    primal2: float
    size2: float  # |λ|²


class LiteralOracle(InexactOracle):
    """All agents iterate together, and test the printed rule after every iteration.

    Nothing is foretold, restarted or begun ahead, so that the test sums three numbers only.
    """

    memory = ("inner",)

    def advance(self, at: NesterovIterate, rounds: int, seconds: float) -> int:
        """One inner iteration."""
        self.solver.advance(at.z, 1)
        self.inner += 1
        return self.per_mix

    def measure(self, at: NesterovIterate) -> OracleOutput | None:
        """End the subproblem if its residuals are small enough, or only rounding is left."""
        sub, rule = self.solver, self.rule
        primal, dual = sub.residuals(at.z, with_primal=rule.by_parts)
        rows = dual if rule.by_parts else dual + sub.weight * primal
        columns = {"dual2": rows**2, "primal2": primal**2, "size2": inner(sub.lam, sub.lam)}
        sums = agreed(self.runtime, PrintedSums, **columns)
        residual = math.sqrt(sums.dual2)
        rule.observe(residual)
        floor = ROUNDING * self.constants.L_phi * math.sqrt(sums.size2)
        done = residual <= floor or self.inner >= sub.cap
        if rule.accepts(at.k, residual, math.sqrt(sums.primal2)) or done:
            return OracleOutput(sub.mixed, 0.0) if self.facts.n > 1 else None
        return None

    def aim(self, k: int) -> None:
        """Nothing: the local minimisations of the printed text are exact."""


class LocalOracle(InexactOracle):
    """ρ = 0: each agent iterates on its own until it is satisfied; one exchange at the end.

    ``scale`` is the last outer step of each agent, at first the residual after one iteration.
    """

    memory = ("inner", "scale")
    scale: Array | None = None
    FADING = 0.5
    """The scale of an agent falls by this factor per outer step at most: one short step of its
    own does not mean that all are near the end."""

    def advance(self, at: NesterovIterate, rounds: int, seconds: float) -> int:
        """Local iterations, and the exchange of λ where they are done."""
        sub, z = self.solver, at.z
        if self.scale is None:
            sub.advance_local(z, np.zeros(self.runtime.n), steps=1)
            self.scale = np.maximum(sub.local_size(), 1e-300)
        floor = ROUNDING / sub.dual_step * np.sqrt(inner(sub.lam, sub.lam))
        stop = np.maximum(self.rule.local_target(at.k, self.scale), floor)
        converged = sub.advance_local(z, stop)
        self.inner += LOCAL_STEPS
        self._done = converged or self.inner >= sub.cap
        if self._done:
            sub.settle()
        return self.per_mix if self._done else 0

    def measure(self, at: NesterovIterate) -> OracleOutput | None:
        """What the exchange has brought."""
        if not self._done or self.scale is None:
            return None
        sub, ascent = self.solver, 0.0
        own = self.nesterov.length * np.sqrt(inner(sub.mixed, sub.mixed))
        self.scale = np.maximum(own, self.FADING * self.scale)
        if self.nesterov.restarts and self.constants.outer_momentum is None and at.since > 0:
            step = self.nesterov.descend(at, sub.mixed) - at.w
            ascent = agreed(self.runtime, Ascent, ascent=inner(sub.lam, step)).ascent
        return OracleOutput(sub.mixed, ascent)


class FusedOracle(InexactOracle):
    """ρ = 0 and exact local solutions: the compiled loop makes the outer steps itself."""

    solver: Exact
    BURST = 1000
    """Outer iterations in one compiled call where each takes microseconds; with restarts
    ``options.check``, after which the agents agree on whether the momentum points uphill."""

    def advance(self, at: NesterovIterate, rounds: int, seconds: float) -> int:
        """Outer iterations up to the next multiple of the burst; w and z are updated in place."""
        beta = self.constants.outer_momentum
        restarts = beta is None and self.nesterov.restarts
        burst = self.options.check if restarts else self.BURST
        steps = max(1, min(rounds // self.per_mix, burst - at.k % burst))
        length = self.nesterov.length
        ascent = self.solver.iterate(at.w, at.z, steps, length, beta, at.since)
        at.k += steps
        at.since += steps
        if restarts and at.k % burst == 0:
            if agreed(self.runtime, Ascent, ascent=ascent).ascent < 0:
                at.since = 0
        return steps * self.per_mix

    def measure(self, at: NesterovIterate) -> OracleOutput | None:
        """Nothing: the steps are made."""
        return None


def oracle_of(options: Options, solver: Subsolver) -> InexactOracle:
    """The oracle for the way in which a subsolver works."""
    if solver.exact:
        return FusedOracle(options, solver)
    if solver.constants.alone:
        return LocalOracle(options, solver)
    return (LiteralOracle if options.literal else JointOracle)(options, solver)
