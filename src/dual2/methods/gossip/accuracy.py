"""The options of iD2A, and how accurately they ask subproblems to be solved."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dual2.errors import CapabilityError
from dual2.theory import Constants, Facts, convex_error, linear_schedule, subproblem_errors

Array = np.ndarray


RULES = ("relative", "paper", "literal")


@dataclass(frozen=True)
class Options:
    """Parameters of iD2A that are not constants of the problem.

    Attributes
    ----------
    accuracy : str
        ``"relative"``: the subproblem's residual is at most ``eta`` times the last outer step.
        ``"paper"``: the schedules of Theorem 3 (complexity; μ_F, μ_H > 0) or of Theorem 1
        (convergence, general convex).
        ``"literal"``: the same schedules, and everything else as printed too: the inner stopping
        rule is tested at every inner iteration (``check`` is 1), no momentum is restarted, and the
        exchange of λ after each subproblem is made and counted.
    eta : float
        η of the relative rule, below 1.
    c, delta : float
        Constants of the printed schedules.
    slack : float
        δ of the subsolver's own inner accuracy.
    mapping : str
        ``"auto"``, ``"prox"`` or ``"smooth"``: how h* enters the subproblem.
    restart : bool
        Adaptive restart of the inner momentum also where μ_φ > 0 is known.
    check : int
        Inner iterations between two agreed tests, while these are few. With the relative rule
        the next test is earlier if the residual's fall foretells it.
    """

    accuracy: str = "relative"
    eta: float = 0.1
    c: float = 2.0
    delta: float = 1.0
    slack: float = 0.3
    mapping: str = "auto"
    restart: bool = False
    check: int = 10

    def __post_init__(self) -> None:
        if self.accuracy not in RULES:
            raise CapabilityError(
                f"accuracy={self.accuracy!r} is unknown; use 'auto', 'relative', 'paper' or "
                "'literal'."
            )
        if self.literal:
            object.__setattr__(self, "check", 1)
        ranges = {"eta": (0, 1), "c": (1, math.inf), "delta": (0, math.inf)}
        ranges |= {"slack": (0, 1), "check": (0, 10**9)}
        for name, (low, high) in ranges.items():
            value = getattr(self, name)
            if not isinstance(value, int | float) or not low < value < high:
                raise CapabilityError(
                    f"{name} = {value!r} found; expected {low} < {name} < {high}."
                )

    @property
    def literal(self) -> bool:
        """Whether the loops run exactly as the paper prints them."""
        return self.accuracy == "literal"


class AccuracyRule:
    """When the solution of a subproblem is good enough."""

    adaptive: ClassVar[bool] = False
    """Whether the run follows what it sees: restarts, foretold tests, starts ahead."""
    by_parts: ClassVar[bool] = False
    """Whether the residuals of x and λ are judged one by one, not combined."""
    memory: ClassVar[tuple[str, ...]] = ()
    """What the rule remembers."""

    @abstractmethod
    def target(self, k: int) -> float | None:
        """Residual to aim at in outer iteration k; None before any residual is known."""

    @abstractmethod
    def local_target(self, k: int, scale: Array) -> Array | float:
        """The same for agents on their own, ``scale`` being the last outer step of each."""

    def observe(self, residual: float) -> None:
        """Look at the residual that a test has found."""

    def accepts(self, k: int, residual: float, primal: float) -> bool:
        """Whether these residuals (``primal`` of x where judged by parts) are small enough."""
        target = self.target(k)
        return target is not None and residual <= target

    def missed(self) -> None:
        """Take note that a subproblem ended at the limit of rounding or of iterations."""

    def moved(self, consensus: float, since: int, beta: float) -> None:
        """Take note of an outer step with |𝐂λ| = ``consensus``, see :class:`NesterovIterate`."""


@dataclass
class Relative(AccuracyRule):
    """The residual is at most η times the last outer step |𝐂λ|/L_F; at first, times its own start.

    The size it is compared with, ``reference``, follows the steps down, never up: a step that
    happens to be long needs no worse subproblem. ``idle`` counts outer steps since |𝐂λ| was
    smallest, ``least``.
    """

    eta: float
    length: float
    reference: float | None = None
    least: float = math.inf
    idle: int = 0
    adaptive: ClassVar[bool] = True
    memory: ClassVar[tuple[str, ...]] = ("reference", "least", "idle")
    GROWTH: ClassVar[float] = 2.0
    """Only where a target could not be reached it grows, by this factor: rounding is in its way."""
    PATIENCE: ClassVar[float] = 2.0
    TIGHTER: ClassVar[float] = 0.25
    """The target shrinks by this factor where |𝐂λ| finds no new minimum for PATIENCE times the
    memory 1/(1-β) of the outer steps: with exact subproblems it would have fallen, so the errors
    drive the steps round in a cycle."""

    def target(self, k: int) -> float | None:
        """η times the reference."""
        return None if self.reference is None else self.eta * self.reference

    def local_target(self, k: int, scale: Array) -> Array:
        """η times one's own last step."""
        return self.eta * scale

    def observe(self, residual: float) -> None:
        """Compare with the first residual while there was no step."""
        if self.reference is None:
            self.reference = residual

    def missed(self) -> None:
        """Ask for less from now on."""
        if self.reference is not None:
            self.reference *= self.GROWTH

    def moved(self, consensus: float, since: int, beta: float) -> None:
        """Compare with the present step, and with less where steps no longer shrink."""
        if self.reference is None:
            return
        if not consensus > 0:
            # Agents agree exactly, as alike ones do: the outer loop has nothing left to do, and
            # only a more accurate subproblem brings the solution nearer.
            self.reference *= self.TIGHTER
            return
        self.reference = min(self.length * consensus, self.reference)
        self.idle = 0 if consensus < self.least or since == 1 else self.idle + 1
        self.least = min(consensus, self.least)
        if self.idle * (1.0 - beta) >= self.PATIENCE:
            self.idle, self.reference = 0, self.TIGHTER * self.reference


@dataclass
class PrintedConvex(AccuracyRule):
    """ε_{k+1} = ε₁/(k+1)^{2+δ} of Theorem 1 (convergence, general convex), ε₁ the first residual.

    Only a sum over the agents would tell ε₁, so agents on their own compare with ``eta`` times
    their last step.
    """

    delta: float
    eta: float
    reference: float | None = None
    memory: ClassVar[tuple[str, ...]] = ("reference",)

    def target(self, k: int) -> float | None:
        """ε_{k+1}."""
        return None if self.reference is None else convex_error(self.reference, k, self.delta)

    def local_target(self, k: int, scale: Array) -> Array:
        """η times one's own last step."""
        return self.eta * scale

    def observe(self, residual: float) -> None:
        """Take the first residual as ε₁."""
        if self.reference is None:
            self.reference = residual


@dataclass
class PrintedLinear(AccuracyRule):
    """e_{λ,k} and e_{x,k} of Theorem 3 (complexity), by the bounds of Lemma 13.

    ``value_gap`` bounds F_ρ(y⁰) - F_ρ(y*) at the start: e₁ follows from it by Remark 13.
    """

    constants: Constants
    facts: Facts
    lambda_max: float
    c: float
    value_gap: float | None = None
    by_parts: ClassVar[bool] = True
    memory: ClassVar[tuple[str, ...]] = ("value_gap",)

    def _errors(self, k: int) -> tuple[float, float]:
        """√e_{x,k+1} and √e_{λ,k+1}."""
        assert self.value_gap is not None, "known since the start"
        schedule = linear_schedule(
            self.constants, self.facts, self.lambda_max, self.value_gap, self.c
        )
        return schedule.primal_error(k), schedule.dual_error(k)

    def target(self, k: int) -> float:
        """μ_H √e_{λ,k+1}: a residual that is certainly small enough in λ."""
        return self.constants.mu_H * self._errors(k)[1]

    def local_target(self, k: int, scale: Array) -> float:
        """Half of every agent's part of that."""
        return 0.5 * self.constants.mu_H * (self._errors(k)[1] / math.sqrt(self.facts.n))

    def accepts(self, k: int, residual: float, primal: float) -> bool:
        """Whether both errors are certainly within the schedule."""
        x_error, dual_error = subproblem_errors(self.constants, self.facts, primal, residual)
        most_x, most_dual = self._errors(k)
        return x_error <= most_x and dual_error <= most_dual


def accuracy_rule(
    options: Options, constants: Constants, facts: Facts, lambda_max: float, length: float
) -> AccuracyRule:
    """The rule that the options ask for; ``length`` is 1/L_F."""
    if options.accuracy == "relative":
        return Relative(options.eta, length)
    if math.isfinite(constants.kappa_F) and constants.mu_H > 0:
        return PrintedLinear(constants, facts, lambda_max, options.c)
    return PrintedConvex(options.delta, options.eta)
