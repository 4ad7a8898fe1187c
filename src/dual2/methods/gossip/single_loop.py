"""Single-loop methods: one base owns the loop, the counts, saving and restoring.

A method gives its parameters (:class:`~dual2.methods.parameters.Parameter`), its state (a
NamedTuple of arrays), how it begins and its step, which runs a compiled kernel.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

import numpy as np

from dual2.errors import counted
from dual2.methods.method import Method, Plan
from dual2.methods.parameters import Parameter, Settings, Sources, Values
from dual2.network import AnyNetwork
from dual2.problem import Problem
from dual2.runtime import Runtime
from dual2.theory.conditions import Needs

Array = np.ndarray
Prepare = Callable[[AnyNetwork], AnyNetwork]


class SingleLoop(ABC):
    """The loop of a method that repeats one iteration, on the rows of a runtime.

    ``current`` is the state, a NamedTuple of arrays: what is saved and restored. ``layout`` is its
    type, allocated by name: ``x`` is flat, ``tried`` counts inner gradients agent by agent, all
    others are rows (n, p); a method that leaves it out sets ``current`` itself. ``stride`` and
    ``sent`` are the rounds of one iteration and the p-vectors sent to each neighbour, at first
    those of one product with C; ``calls`` has the calls of each oracle in one iteration,
    ``conserved`` names the part of the state whose rows sum to zero for ever, if there is one.
    """

    layout: Any = None
    current: Any
    calls: Mapping[str, int] = {}
    conserved: ClassVar[str] = ""

    def __init__(self, runtime: Runtime, values: Values) -> None:
        self.runtime, self.values = runtime, values
        self.stride = self.sent = runtime.network.rounds
        self.iterations = self.rounds = self.vectors = 0
        self._seconds = 1e-5
        if self.layout is not None:
            own = {"x": np.zeros(runtime.packed.size), "tried": np.zeros(runtime.n, np.int64)}
            rows = (runtime.n, runtime.p)
            parts = (own[name] if name in own else np.zeros(rows) for name in self.layout._fields)
            self.current = self.layout._make(parts)

    # -- what a method gives ---------------------------------------------------------------------
    def begin(self, x: Array, lam: Array) -> None:
        """Fill the state, which is zero, from x (flat) and λ (n, p)."""
        self.current.x[:], self.current.lam[:] = x, lam

    @abstractmethod
    def step(self, steps: int) -> None:
        """Advance by that many iterations; by none it only compiles."""

    def explain(self) -> str:
        """What to say about this run beside the method's summary, in whole sentences."""
        return ""

    # -- start, save, restore --------------------------------------------------------------------
    def start(self, x: Array, lam: Array) -> None:
        """Begin from x (flat) and λ (n, p), both zero if nothing better is known."""
        self.iterations = self.rounds = self.vectors = 0
        for part in self.current:
            part[...] = 0
        self.begin(x, lam)
        self.step(0)

    def state(self) -> dict[str, Any]:
        """Everything needed to continue bit for bit."""
        counts = {name: getattr(self, name) for name in ("iterations", "rounds", "vectors")}
        return {name: part.copy() for name, part in self.current._asdict().items()} | counts

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a saved :meth:`state`."""
        for name, part in self.current._asdict().items():
            part[...] = state[name]
        for name in ("iterations", "rounds", "vectors"):
            setattr(self, name, int(state[name]))
        self.step(0)

    # -- what others read ------------------------------------------------------------------------
    @property
    def x(self) -> Array:
        """Flat primal iterate."""
        return self.current.x

    @property
    def duals(self) -> Array:
        """λ, one row per agent."""
        return self.current.lam

    def oracle_calls(self) -> dict[str, int]:
        """Calls so far, by the names of :class:`dual2.Counts`."""
        each = dict.fromkeys(("grad_f", "prox_g", "A", "AT", "prox_h"), 0) | dict(self.calls)
        calls = {name: self.iterations * count for name, count in each.items()}
        if "tried" in self.current._fields:  # inner work: that of the busiest agent
            calls |= dict.fromkeys(("grad_f", "prox_g"), int(self.current.tried.max()))
        return calls | {"iterations": self.iterations}

    # -- the loop --------------------------------------------------------------------------------
    def advance(self, rounds: int, seconds: float) -> None:
        """Continue until ``rounds`` exchanges or for about ``seconds``, whatever comes first."""
        end = time.perf_counter() + seconds
        while self.rounds < rounds and (begun := time.perf_counter()) < end:
            wanted = -(-(rounds - self.rounds) // self.stride)
            steps = min(wanted, max(1, int((end - begun) / self._seconds)))
            self.step(steps)
            self.iterations += steps
            self.rounds += steps * self.stride
            self.vectors += steps * self.sent
            self._seconds = max((time.perf_counter() - begun) / steps, 1e-8)


def single_loop_method(
    name: str,
    make: Callable[[Runtime, Values], SingleLoop],
    summary: str,
    needs: Needs,
    declared: tuple[Parameter, ...],
    prepare: Prepare | None = None,
    **more: Any,
) -> Method:
    """The row of a single-loop method in the table of methods; most arguments as there.

    ``make`` is the algorithm's class, or what makes one from runtime and values; ``prepare`` turns
    the network that is given into the one to run on.
    """
    plan = partial(_plan, make, summary, declared, prepare)
    return Method(name, plan, summary, needs, declared=declared, **more)


def _plan(
    make: Callable[[Runtime, Values], SingleLoop],
    summary: str,
    declared: tuple[Parameter, ...],
    prepare: Prepare | None,
    problem: Problem,
    network: AnyNetwork,
    settings: Settings,
) -> Plan:
    """The algorithm with its parameters, and what is said about them."""
    name = settings.method
    values = Values(declared, problem, prepare(network) if prepare else network, settings)
    told = values.table()
    runtime = Runtime(problem, values.network)
    algorithm = make(runtime, values)
    rounds, vectors = algorithm.stride, algorithm.sent
    messages: Sources = {
        "rounds_per_iteration": (rounds, "exchanges with the neighbours"),
        "vectors_per_iteration": (vectors, "p-vectors sent to each neighbour"),
    }
    sends = f"{counted(rounds, 'round')} and {counted(vectors, 'p-vector')} per neighbour"
    lines = (f"{name}: {summary}.", algorithm.explain(), f"{sends} in each iteration.")
    parameters: Sources = {"method": (name, "given")} | told | messages
    return Plan(algorithm, runtime, parameters, "\n".join(filter(None, lines)))
