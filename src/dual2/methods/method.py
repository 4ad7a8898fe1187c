"""What a method is: the algorithm that the driver runs, its plan, and its row in the table."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, ClassVar, Protocol

import numpy as np

from dual2.methods.deadline import Deadline
from dual2.methods.parameters import Parameter, Sources
from dual2.methods.run_status import RunStatus
from dual2.problem import Problem
from dual2.problem.residual import KKT
from dual2.runtime import Runtime
from dual2.theory.conditions import Needs


class Algorithm(Protocol):
    """What the driver asks of an algorithm."""

    @property
    def x(self) -> np.ndarray:
        """Flat primal iterate."""
        ...

    @property
    def duals(self) -> np.ndarray:
        """λ, one row per agent."""
        ...

    @property
    def rounds(self) -> int:
        """Exchanges of p-vectors so far."""
        ...

    @property
    def vectors(self) -> int:
        """p-vectors sent to each neighbour so far."""
        ...

    @property
    def stride(self) -> int:
        """Rounds of one iteration: the loop pauses at multiples of it."""
        ...

    def start(self, x: np.ndarray, lam: np.ndarray) -> None:
        """Begin from x (flat) and λ (n, p), and compile what will be needed."""
        ...

    def advance(self, rounds: int, seconds: float) -> None:
        """Continue until ``rounds`` exchanges or for about ``seconds``."""
        ...

    def oracle_calls(self) -> dict[str, int]:
        """Calls so far, by the names of :class:`dual2.Counts`."""
        ...

    def state(self) -> dict[str, Any]:
        """Everything needed to continue bit for bit."""
        ...

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a saved :meth:`state`."""
        ...


@dataclass(frozen=True)
class TerminationReport:
    """What an algorithm knows about its iterate after a sum; the same in every process.

    ``request`` is the largest of all processes' requests, ``separator`` and ``ray`` (of the agents
    of this process, flat) prove that a problem is infeasible or unbounded. ``proof`` is the KKT
    residual of the answer by its definition, if the algorithm has evaluated that.
    """

    kkt: float
    dual: np.ndarray
    status: RunStatus = RunStatus.RUNNING
    request: int = 0
    separator: np.ndarray | None = None
    ray: np.ndarray | None = None
    proof: KKT | None = None


class SelfTerminating(ABC):
    """Base of algorithms that test their own iterates, with the numbers their sums bring anyway.

    The driver sets ``tol``, ``atol`` and, before each ``advance``, the ``request`` of this process;
    it reads ``report``. No stopping test of its own costs further rounds; the certificate is
    evaluated at the end as for every method.
    """

    tol, atol = 0.0, 0.0
    request = 0
    deadline = Deadline()
    """Set where all agents are in one process and time is limited."""
    report: TerminationReport
    growing: ClassVar[Mapping[str, tuple[int, ...]]] = {}
    """Axes of entries of the state whose length changes during a run."""

    @abstractmethod
    def on_certificate_rejected(self) -> None:
        """Go on after an end to which the definitions did not consent."""

    def recall(self, state: Mapping[str, Any]) -> bool:
        """Use what the last state of a run with the same A_i has; whether there is anything."""
        return False


@dataclass(frozen=True)
class Plan:
    """A ready algorithm with its runtime, its parameters and the reasons for them.

    The caller's price is ``units`` times the price of what is solved, the caller's flat x is
    ``lengths`` times its x.
    """

    algorithm: Algorithm
    runtime: Runtime
    parameters: Sources
    explanation: str
    units: np.ndarray | float = 1.0
    lengths: np.ndarray | float = 1.0


def _nothing(problem: Problem, parameters: Mapping[str, Any]) -> str:
    """No further condition."""
    return ""


@dataclass(frozen=True)
class Method:
    """One row of the table of methods.

    ``plan(problem, network, settings)`` makes a :class:`Plan`; ``rounds`` and ``vectors`` are the
    exchanges of an iteration and the p-vectors sent to each neighbour in it, ``declared`` the
    parameters, ``parameters`` what the caller chose of them. ``reconstructed`` says that the update
    was rebuilt from its family, not read from the authors' listing; ``aliases`` are other methods
    that, as they are known here, are the same iteration; ``reveals`` is what leaves an agent;
    ``scale_free`` methods need no balance of rows and variables beforehand; ``further_lack`` says
    what a problem lacks that agent by agent conditions cannot say.
    """

    name: str
    plan: Callable[..., Plan]
    summary: str
    needs: Needs
    rounds: str = "1"
    vectors: str = "1"
    declared: tuple[Parameter, ...] = ()
    reconstructed: bool = False
    aliases: tuple[str, ...] = ()
    reveals: str = "dual vectors"
    scale_free: bool = False
    parameters: Mapping[str, Any] = field(default_factory=dict)
    further_lack: Callable[[Problem, Mapping[str, Any]], str] = _nothing

    @property
    def remark(self) -> str:
        """What every list says beside the name: aliases, and whether it is reconstructed."""
        remarks = [f"= {', '.join(self.aliases)}"] if self.aliases else []
        remarks += ["reconstructed"] if self.reconstructed else []
        return "; ".join(remarks)

    def __call__(self, **parameters: Any) -> "Method":
        """The same method with parameters of the caller's choice."""
        return replace(self, parameters=parameters)

    def lack(self, problem: Problem) -> str:
        """What the problem lacks for this method, empty if nothing."""
        return self.needs.lack(problem) or self.further_lack(problem, self.parameters)

    @property
    def options(self) -> tuple[str, ...]:
        """Names of the parameters that may be given."""
        return tuple(parameter.name for parameter in self.declared if parameter.free)

    @property
    def sources(self) -> dict[str, str]:
        """Where the parameters that may be given come from otherwise, those alike together."""
        groups = groupby((p for p in self.declared if p.free), lambda p: p.source)
        return {", ".join(p.name for p in same): source for source, same in groups}
