"""The dual of the dual as an inexact oracle: asked at z, it answers 𝐂λ.

The gradient of F_ρ(y) = H*(-√𝐂y) needs the saddle point

    (x⁺, λ⁺) = saddle point of f + g + λᵀ𝐀x - (h*(λ) + (ρ/2)λᵀ𝐂λ + λᵀz),   z = √𝐂y,

which a subsolver finds as accurately as the rule in use asks: all agents together (ρ > 0, or one
agent), each agent alone (ρ = 0), or exactly, whole outer iterations in one compiled call.
"""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from dual2.methods.gossip.accuracy import Options, PrintedLinear, accuracy_rule
from dual2.methods.subsolvers import Subsolver
from dual2.runtime import Runtime
from dual2.theory import initial_value_gap

Array = np.ndarray
Sums = TypeVar("Sums", bound=tuple[float, ...])
_EPS = np.finfo(float).eps
ROUNDING = 4 * _EPS
"""Residuals below this multiple of their terms are rounding errors."""


@dataclass
class NesterovIterate:
    """Where the outer loop is.

    ``past`` is z of the subproblem before, ``k`` counts steps, ``since`` those since the last
    restart, ``beta`` is the momentum of the last one.
    """

    w: Array
    z: Array
    past: Array
    k: int = 0
    since: int = 0
    beta: float = 0.0


@dataclass(frozen=True)
class Nesterov:
    """Accelerated gradient descent on F_ρ, in the variables w = √𝐂y and z = √𝐂v.

    Attributes
    ----------
    length : float
        1/L_F.
    momentum : float or None
        (√κ_F-1)/(√κ_F+1); None is k/(k+3), k counted from the last restart.
    restarts : bool
        Whether the momentum is left out for one step where it points uphill.
    """

    length: float
    momentum: float | None
    restarts: bool

    def init(self, z: Array) -> NesterovIterate:
        """Begin at w = z."""
        return NesterovIterate(w=z.copy(), z=z, past=z.copy())

    def descend(self, at: NesterovIterate, mixed: Array) -> Array:
        """w⁺ = z + 𝐂λ/L_F, from the oracle's answer ``mixed`` = 𝐂λ."""
        return at.z + self.length * mixed

    def step(self, at: NesterovIterate, mixed: Array, ascent: float) -> NesterovIterate:
        """z⁺ = w⁺ + β(w⁺ - w), with w⁺ of :meth:`descend`.

        ``ascent`` is <λ, w⁺ - w>: where it is negative the momentum points uphill.
        """
        uphill = self.restarts and at.since > 0 and ascent < 0
        since, beta = (0 if uphill else at.since), self.momentum
        if uphill or beta is None:
            beta = since / (since + 3.0)
        w = self.descend(at, mixed)
        return NesterovIterate(w, w + beta * (w - at.w), at.z, at.k + 1, since + 1, beta)


class OracleOutput(NamedTuple):
    """What an oracle tells."""

    mixed: Array  # 𝐂λ
    ascent: float  # <λ, w⁺ - w>, negative where the momentum points uphill


class Tested(NamedTuple):
    """What a test of a subproblem agrees on; Δ is the last change of z, w⁺ the next w."""

    residual2: float
    uphill: float
    size2: float  # |λ|²
    consensus2: float  # |𝐂λ|²
    primal2: float
    ascent: float  # <λ, w⁺ - w>
    along: float  # <Δ, 𝐂λ>
    forward: float  # <Δ, w⁺ - w>
    turn2: float  # |Δ|²
    z2: float


class FirstGap(NamedTuple):
    """Squares of what Remark 13 asks of the starting point."""

    consensus2: float
    dual2: float
    primal2: float


class Ascent(NamedTuple):
    """<λ, w⁺ - w> alone."""

    ascent: float


def agreed(runtime: Runtime, kind: Callable[..., Sums], **columns: Array) -> Sums:
    """Sums over all agents of named scalars, in one agreement.

    Examples
    --------
    >>> import numpy as np, dual2 as d2
    >>> problem = d2.Problem([d2.Agent([[1.0]], d2.SquaredNorm(1.0))] * 2, d2.Zero())
    >>> agreed(Runtime(problem, d2.Network([(0, 1)])), Ascent, ascent=np.array([1.0, 2.0]))
    Ascent(ascent=3.0)
    """
    total = runtime.allreduce_sum(np.array(list(columns.values())).T)
    return kind(**dict(zip(columns, total.tolist(), strict=True)))


def inner(a: Array, b: Array) -> Array:
    """<a_i, b_i> of each agent."""
    return np.einsum("ij,ij->i", a, b)


class InexactOracle(ABC):
    """The oracle: ``init``, then ``advance`` and ``measure`` until it answers, then ``next``."""

    memory: ClassVar[tuple[str, ...]] = ()
    """Attributes that are the state, as solver and rule have theirs."""

    def __init__(self, options: Options, solver: Subsolver) -> None:
        self.options, self.solver, self.runtime = options, solver, solver.runtime
        self.facts, self.constants = facts, constants = solver.facts, solver.constants
        self.per_mix, top = self.runtime.network.rounds, self.runtime.network.spectral.lambda_max
        length, beta = 1.0 / constants.L_F if constants.L_F > 0 else 0.0, constants.outer_momentum
        self.rule = accuracy_rule(options, constants, facts, top, length)
        self.nesterov = Nesterov(
            length, beta, restarts=(self.rule.adaptive or beta is None) and not options.literal
        )
        self.inner = 0  # iterations on the present subproblem

    def init(self, x: Array, lam: Array, z: Array, priced: bool) -> int:
        """Begin the first subproblem at x and λ, ``priced`` where some λ is not 0: rounds made."""
        self.solver.start(x, lam)
        if isinstance(self.rule, PrintedLinear):  # the others know no residual yet
            self.rule.value_gap = self._value_gap(z)
            self.aim(0)
        return self.per_mix if priced else 0

    @abstractmethod
    def advance(self, at: NesterovIterate, rounds: int, seconds: float) -> int:
        """Work for at most so many rounds and about so many seconds; returns the rounds made."""

    @abstractmethod
    def measure(self, at: NesterovIterate) -> OracleOutput | None:
        """The answer, if it is accurate enough."""

    def next(self, at: NesterovIterate) -> None:
        """Begin the next subproblem, at the iterate to which the answer has led."""
        self.inner = 0
        self.solver.begin(0.0)
        self.aim(at.k)

    def aim(self, k: int) -> None:
        """Tell the solver how inaccurate its own inner iterations may be at most."""
        target = self.rule.target(k)
        if self.facts.n == 1:  # one agent: its subproblem is the last
            target = None
        self.solver.floor = 0.0 if target is None else 0.1 * target / math.sqrt(self.facts.n)

    def state(self) -> dict[str, Any]:
        """Everything needed to continue, by name; what is not known yet is left out."""
        sub, rule = self.solver, self.rule
        own = {f"oracle_{name}": getattr(self, name) for name in self.memory}
        own |= {f"oracle_rule_{name}": getattr(rule, name) for name in rule.memory}
        inner = {f"inner_{name}": value for name, value in sub.state._asdict().items()}
        inner |= {f"inner_{name}": getattr(sub, name) for name in sub.memory}
        return {name: value for name, value in own.items() if value is not None} | inner

    def restore(self, state: dict[str, Any], inner: dict[str, Any]) -> None:
        """Continue from the two parts of a saved :meth:`state`, ``inner`` the solver's."""
        self.solver.restore(inner)
        for name in self.memory:
            setattr(self, name, state.get(name))
        for name in self.rule.memory:
            setattr(self.rule, name, state.get(f"rule_{name}"))

    def _value_gap(self, z: Array) -> float:
        """Remark 13 (computable e₁) at the starting point: a bound of F_ρ(y⁰) - F_ρ(y*)."""
        rt, sub, n = self.runtime, self.solver, self.facts.n
        smooth = np.array([rt.problem.h.conjugate.grad(row) for row in sub.lam]) / n
        dual = rt.products(sub.x) - smooth - z - self.constants.rho * sub.mixed
        local = rt.stationarity(sub.x, sub.lam).residual
        columns = {"consensus2": inner(sub.lam, sub.mixed), "dual2": inner(dual, dual)}
        sums = agreed(rt, FirstGap, **columns, primal2=local**2)
        sizes = [math.sqrt(max(value, 0.0)) for value in sums]
        return initial_value_gap(self.constants, self.facts, rt.network.lambda_max, *sizes)


class JointOracle(InexactOracle):
    """All agents iterate together, an exchange each time, until an agreed test is passed.

    ``check`` is where the next test is, ``tested`` where the last one was, which found
    ``residual``, ``restarted`` where the inner momentum was last restarted.
    """

    memory = ("inner", "check", "tested", "restarted", "residual")
    check, tested, restarted = 1, 0, 0
    residual: float | None = None
    _seconds = 1e-6  # of one inner iteration, as far as is known
    SOONEST, SHARE = 4, 0.75
    """Where tests are foretold: fewest inner iterations between two, and how much of the last
    subproblem's iterations the first test of the next one waits: subproblems take about equally
    long, and a test costs as much as a few iterations."""

    def advance(self, at: NesterovIterate, rounds: int, seconds: float) -> int:
        """Inner iterations up to the next test."""
        allowed = max(1, rounds // self.per_mix)
        steps = min(self.check - self.inner, allowed, max(1, int(seconds / self._seconds)))
        begun = time.perf_counter()
        self.solver.advance(at.z, steps)
        if steps >= 10:
            self._seconds = max((time.perf_counter() - begun) / steps, 1e-8)
        self.inner += steps
        return steps * self.per_mix

    def measure(self, at: NesterovIterate) -> OracleOutput | None:
        """Agree on the residual; end the subproblem, restart its momentum, or go on."""
        if self.inner < self.check:
            return None
        sub, rule, sums = self.solver, self.rule, self._agree(at)
        self._sums, residual, size = sums, math.sqrt(sums.residual2), math.sqrt(sums.size2)
        rule.observe(residual)
        accurate = rule.accepts(at.k, residual, math.sqrt(sums.primal2))
        self.aim(at.k)
        done = accurate or residual <= ROUNDING * self.constants.L_phi * size
        if (done or self.inner >= sub.cap) and self.facts.n > 1:
            if not accurate:
                rule.missed()
            noise = ROUNDING * size * math.sqrt(sums.z2)
            return OracleOutput(sub.mixed, sums.ascent if sums.ascent < -noise else 0.0)
        if sub.restarts and sums.uphill > 0:
            sub.restart()
            self.restarted = self.inner
        self.check = self.inner + self.pause(at.k, residual)
        self.tested, self.residual = self.inner, residual
        return None

    def _agree(self, at: NesterovIterate) -> Tested:
        sub = self.solver
        primal, dual = sub.residuals(at.z, with_primal=self.rule.by_parts)
        uphill = sub.uphill()
        rows = dual if self.rule.by_parts else dual + sub.weight * primal
        step, turn = self.nesterov.descend(at, sub.mixed) - at.w, at.z - at.past
        return agreed(
            self.runtime,
            Tested,
            residual2=rows**2,
            uphill=uphill,
            size2=inner(sub.lam, sub.lam),
            consensus2=inner(sub.mixed, sub.mixed),
            primal2=primal**2,
            ascent=inner(sub.lam, step),
            along=inner(turn, sub.mixed),
            forward=inner(turn, step),
            turn2=inner(turn, turn),
            z2=inner(at.z, at.z),
        )

    def pause(self, k: int, residual: float) -> int:
        """Inner iterations until the next test, at most as many as the residual should need."""
        most = max(self.options.check, (self.inner - self.restarted) // 8)
        target, before = self.rule.target(k), self.residual
        if not self.rule.adaptive or target is None or before is None:
            return most
        if not 0 < target < residual < before < math.inf:
            return most
        rate = math.log(before / residual) / (self.inner - self.tested)
        return int(min(max(math.log(residual / target) / rate, self.SOONEST), most))

    def next(self, at: NesterovIterate) -> None:
        """Begin ahead of the last λ by as much as z⁺-z repeats the last change of z.

        With subproblems that change alike, λ moves on as it did: along Δ, by <Δ, z⁺-z>/|Δ|².
        """
        sums, ahead = self._sums, 0.0
        self.check = self.options.check
        if self.rule.adaptive:
            self.check = max(self.SOONEST, int(self.SHARE * self.inner))
            if sums.turn2 > 0:
                repeated = self.nesterov.length * sums.along + at.beta * sums.forward
                ahead = min(max(repeated / sums.turn2, 0.0), 1.0)
        self.inner = self.tested = self.restarted = 0
        self.residual = None
        self.rule.moved(math.sqrt(sums.consensus2), at.since, at.beta)
        self.solver.begin(ahead)
        self.aim(at.k)
