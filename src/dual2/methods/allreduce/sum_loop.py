"""First-order methods over exact sums: one base owns the sums, the stopping test and the state.

An iteration is one sum along the spanning tree. Every agent puts A_i x_i of its next point into it
and some scalars of the method's own, and how well its present point answers the present multiplier,
so that nobody waits for a stopping test: where all agents meet the tolerance, and the rows do, the
run ends at the present point. Where λ = ∇h(s) the rows are right by themselves; else agents that
nearly meet the tolerance add |A_i||x_i|, by which rows are judged.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from dual2.engine.residual_kernel import Bounds
from dual2.methods.exact_sums import ExactSumMethod, dump_state, load_state, plan_exact_sum_method
from dual2.methods.local.prox_steps import LocalSteps
from dual2.methods.message import REQUESTS, read_request
from dual2.methods.method import Method, Plan
from dual2.methods.parameters import Parameter, Settings, Values
from dual2.methods.run_status import RunStatus
from dual2.network import AnyNetwork
from dual2.problem import Problem
from dual2.problem.ingredients import EPS, ROUNDING
from dual2.problem.screening import RowSums, judge_rows
from dual2.runtime import Runtime
from dual2.theory.conditions import Needs

Array = np.ndarray
NEARLY = 10.0
"""Agents that meet the tolerance up to this factor tell |A_i||x_i| too."""
JUDGED, PATIENCE = 500, 4
"""At so many sums, twice as many, …, progress is judged; so often none in a row is a stall."""
_BEYOND = 1e200
_ENDLESS = 2**62


class SumPhase(IntEnum):
    """What the next sum is for."""

    POINT = 0
    """The product of the point to begin at."""
    STEP = 1
    """A step."""


@dataclass(frozen=True)
class SumState:
    """What every process knows, the same in every process; saved and restored.

    ``strict`` tightens the tolerance where an end was refused; ``best`` and ``judged`` are the
    least residuals so far and at the last milestone.
    """

    lam: Array
    s: Array
    phase: SumPhase = SumPhase.STEP
    nearly_met: bool = False
    sums: int = 0
    idle: int = 0
    milestone: int = JUDGED
    strict: float = 1.0
    best: float = np.inf
    judged: float = np.inf
    kkt: float = np.inf
    status: RunStatus = RunStatus.RUNNING


class SumLoop(ExactSumMethod):
    """A method on one block of agents; each call of ``advance`` is at least one sum.

    Subclasses begin in ``_place``, say in ``_offer`` what they put into the next sum and in
    ``_unpack`` what follows from it; ``kept`` names their attributes (arrays, numbers) that make up
    the state beside x and :class:`SumState`. ``priced`` says that λ = ∇h(s) at every point.

    Parameters
    ----------
    runtime : Runtime
        Where the agents are.
    values : Values
        The parameters.
    """

    kept: ClassVar[tuple[str, ...]] = ()
    priced = True
    current: SumState

    def __init__(self, runtime: Runtime, values: Values) -> None:
        super().__init__(runtime, _ENDLESS)
        self.values, self.local = values, LocalSteps(runtime)
        self.x = np.zeros(runtime.packed.size)
        self.next = self.x
        self._prepare()
        self._start_cold()

    # -- what a method gives ----------------------------------------------------------------------
    def _prepare(self) -> None:
        """Set what never changes."""

    @abstractmethod
    def _place(self, products: Array) -> None:
        """Begin at x, whose A_i x_i are given; now.s and, unless ``priced``, now.lam are set."""

    @abstractmethod
    def _offer(self) -> Array:
        """Compute ``next``; rows of A_i x_i of it, then the method's own scalars."""

    @abstractmethod
    def _unpack(self, total: Array) -> None:
        """What follows from the sum of the offers; a step that is taken ends in ``_step_to``."""

    def explain(self) -> str:
        """What to say about this run beside the method's summary, in whole sentences."""
        return ""

    def _step_to(self, s: Array) -> None:
        """Take the next point, whose sum of products is s."""
        self.x = self.next
        self._update(s=s)
        if self.priced:
            self._update(lam=self.h.grad(s))

    # -- start, save, restore ---------------------------------------------------------------------
    def _start(self, x: Array, lam: Array, priced: bool, warm: bool) -> None:
        rt, zero = self.runtime, np.zeros(self.runtime.p)
        price = rt.allreduce_sum(lam) / rt.problem.n if priced and not self.priced else zero
        phase = SumPhase.POINT if warm else SumPhase.STEP
        self.current = SumState(price, zero, phase)
        self.x, self.local.tried[:] = x.copy(), 0
        if not warm:
            self._begin(np.zeros((rt.n, rt.p)), zero)

    def _begin(self, products: Array, s: Array) -> None:
        self._update(s=s)
        if self.priced:
            self._update(lam=self.h.grad(s))
        self._place(products)

    def state(self) -> dict[str, Any]:
        """Everything needed to continue bit for bit."""
        own = {name: np.copy(getattr(self, name)) for name in ("x", *self._own)}
        return dump_state(self.current) | own | {"tried": self.local.tried.copy()}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a saved :meth:`state`."""
        self.current = load_state(SumState, state)
        for name in ("x", *self._own):
            value = np.asarray(state[name])
            setattr(self, name, value.item() if value.ndim == 0 else value.copy())
        self.local.tried[:] = state["tried"]

    @property
    def _own(self) -> tuple[str, ...]:
        return self.kept if self.current.phase == SumPhase.STEP else ()

    def on_certificate_rejected(self) -> None:
        """Go on after an end to which the definitions did not consent, asking for more."""
        self._update(status=RunStatus.RUNNING, strict=0.5 * self.current.strict)

    def oracle_calls(self) -> dict[str, int]:
        """Calls so far, by the names of :class:`dual2.Counts`; those of the test are among them."""
        sums, inner = self.current.sums, int(self.local.tried.max(initial=0))
        each = {"grad_f": sums + inner, "prox_g": sums + inner, "A": sums + inner}
        return each | {"AT": sums + inner, "prox_h": sums, "iterations": sums, "sums": sums}

    # -- the loop ---------------------------------------------------------------------------------
    def _sum(self) -> None:
        """One sum, and what follows from it."""
        fresh = self.current.phase == SumPhase.POINT
        self._update(sums=self.current.sums + 1)
        if fresh:
            products = self.runtime.products(self.x)
            self._update(phase=SumPhase.STEP)
            self._begin(products, self._add(products))
            return
        offer = self._offer()
        total = self._add(np.hstack([offer, self._message()]))
        width = offer.shape[1]
        if not np.isfinite(total).all():
            self._update(status=RunStatus.DIVERGED)
        elif self._met(total[width:]):
            self._update(status=RunStatus.CONVERGED)
        else:
            self._unpack(total[:width])
            self._judge_progress()

    def _add(self, rows: Array) -> Array:
        """Exact sum over all agents; requests travel with it."""

        def fill(at: Array, out: Array) -> None:
            out[:, :-REQUESTS], out[:, -REQUESTS:] = rows[at], 0.0
            if self.request:
                out[at == 0, self.request - 1 - REQUESTS] = 1.0

        total = self.runtime.allreduce_filled(rows.shape[1] + REQUESTS, fill)
        self._asked = read_request(total[-REQUESTS:])
        return total[:-REQUESTS]

    def _message(self) -> Array:
        """How well the present x answers λ: ratio, whether it exceeds the tolerance, the load."""
        rt = self.runtime
        ratios = np.minimum(rt.judge(self.x, self.current.lam, self._bounds)[:, 0], _BEYOND)
        message = np.column_stack([ratios, ratios > self.current.strict * self.tol])
        if not self.current.nearly_met or self.priced:
            return message
        return np.hstack([message, rt.loads(self.x)[1]])

    @cached_property
    def _bounds(self) -> Bounds:
        rt = self.runtime
        return Bounds(rt.problem.sizes.rows, np.full(rt.n, self.atol), EPS * self._rounding)

    @property
    def _rounding(self) -> float:
        """With tol = 0 nothing passes but what atol forgives."""
        return ROUNDING if self.tol > 0 else 0.0

    def _met(self, total: Array) -> bool:
        """Whether agents and rows meet the tolerance at the present point."""
        has_load = len(total) > 2
        self._update(kkt=float(total[0]))
        close = self.current.kkt <= NEARLY * self.tol or total[1] == 0
        self._update(nearly_met=bool(self.current.nearly_met or close))
        if total[1] > 0 or not (self.priced or has_load):
            return False
        if has_load:
            none = np.zeros_like(self.current.s)
            sums = RowSums(self.current.s, total[2:], none, none)
            rows = judge_rows(self.h, self.current.lam, sums, self.atol, self._rounding)[0]
            self._update(kkt=max(self.current.kkt, rows))
            return rows <= self.current.strict * self.tol
        return True

    def _judge_progress(self) -> None:
        self._update(best=min(self.current.best, self.current.kkt))
        if self.current.sums >= self.current.milestone:
            self._update(milestone=2 * self.current.sums)
            self._update(
                idle=0 if self.current.best < 0.9 * self.current.judged else self.current.idle + 1
            )
            self._update(judged=self.current.best)
            if self.current.idle >= PATIENCE:
                self._update(status=RunStatus.STALLED)


def combined(weights: Array, arrays: Array) -> Array:
    """Σ_k weights_k arrays_k, with the same bits whatever else stands beside an entry.

    A matrix product may round otherwise in a process with fewer agents.

    Examples
    --------
    >>> combined(np.array([2.0, -1.0]), np.array([[1.0, 2.0], [3.0, 5.0]])).tolist()
    [-1.0, -1.0]
    """
    total = np.zeros(arrays.shape[1:])
    for weight, array in zip(weights, arrays, strict=True):
        total += weight * array
    return total


def sum_loop_method(
    name: str,
    make: Callable[[Runtime, Values], SumLoop],
    summary: str,
    needs: Needs,
    declared: tuple[Parameter, ...],
    **more: Any,
) -> Method:
    """The row of a method over sums in the table of methods; ``make`` is its class."""
    plan = partial(_plan, make, summary, declared)
    more = {"rounds": "2·height", "reveals": "sums over subtrees of A_i x_i and of scalars"} | more
    return Method(name, plan, summary, needs, declared=declared, **more)


def _plan(
    make: Callable[[Runtime, Values], SumLoop],
    summary: str,
    declared: tuple[Parameter, ...],
    problem: Problem,
    network: AnyNetwork,
    settings: Settings,
) -> Plan:
    """The algorithm with its parameters, and what is said about them."""
    values = Values(declared, problem, network, settings)
    table = values.table()
    runtime = Runtime(problem, network)
    algorithm = make(runtime, values)
    return plan_exact_sum_method(algorithm, runtime, settings, table, summary, algorithm.explain())
