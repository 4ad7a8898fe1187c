"""Loops over exact sums: their counts, saved states and ends."""

from abc import abstractmethod
from collections.abc import Collection
from dataclasses import fields, replace
from enum import IntEnum
from typing import Any, TypeVar

import numpy as np

from dual2.compiling import working_clock
from dual2.methods.method import Algorithm, Plan, SelfTerminating, TerminationReport
from dual2.methods.parameters import Settings, Sources
from dual2.methods.run_status import RunStatus
from dual2.runtime import Runtime

Array = np.ndarray
T = TypeVar("T")


def dump_state(state: Any, kept: Collection[str] = ()) -> dict[str, Array]:
    """The fields of a replicated state as arrays, to be saved; those in ``kept`` are not copied."""
    values = {f.name: getattr(state, f.name) for f in fields(state) if f.name != "status"}
    arrays = {k: np.asarray(v) if k in kept else np.copy(v) for k, v in values.items()}
    return arrays | {"status": np.array(state.status.code)}


def load_state(kind: type[T], saved: dict[str, Any]) -> T:
    """The state of this ``kind`` of which :func:`dump_state` made these arrays."""
    return kind(**{f.name: _load(f.type, saved[f.name]) for f in fields(kind)})  # pyright: ignore[reportArgumentType]


def _load(kind: Any, saved: Any) -> Any:
    """One field: an array, or a number of the type that the field declares."""
    array = np.asarray(saved)
    if array.ndim:
        return array.copy()
    if kind is RunStatus:
        return RunStatus.from_code(int(array))
    typed = isinstance(kind, type) and issubclass(kind, bool | IntEnum)
    return kind(array.item()) if typed else array.item()


def plan_exact_sum_method(
    algorithm: Algorithm,
    runtime: Runtime,
    settings: Settings,
    told: Sources,
    summary: str,
    says: str,
) -> Plan:
    """A ready loop over sums with its parameters, and what there is to say about it."""
    height = runtime.network.tree.height
    stride = (algorithm.stride, "2·height of the spanning tree for each sum")
    parameters = {"method": (settings.method, "given")} | told | {"rounds_per_iteration": stride}
    lines = (
        f"{settings.method}: {summary}.",
        says,
        f"A sum takes {2 * height} rounds along the spanning tree.",
    )
    return Plan(algorithm, runtime, parameters, "\n".join(filter(None, lines)))


class ExactSumMethod(SelfTerminating):
    """A loop of exact sums on one block of agents; each call of ``advance`` is at least one sum.

    Subclasses make one sum in ``_sum`` and keep in ``current`` what every process knows: at least
    the multiplier ``lam``, the number of ``sums``, the residual ``kkt`` and the ``status``, empty
    before it.

    Parameters
    ----------
    runtime : Runtime
        Where the agents are.
    max_sums : int
        Most sums.
    """

    conserved = ""
    vectors = 0
    current: Any

    def __init__(self, runtime: Runtime, max_sums: int) -> None:
        self.runtime, self.max_sums, h = runtime, max_sums, runtime.problem.h
        self.h = h if h.form is None else h.form.broadcast(runtime.p)  # one prox for all rows
        self.height = runtime.network.tree.height
        self.stride = max(2 * self.height, 1)
        self._asked = 0

    def _update(self, **changes: Any) -> None:
        """Replace fields of the frozen state."""
        self.current = replace(self.current, **changes)

    @property
    def duals(self) -> Array:
        """λ, the same row for every agent."""
        return np.broadcast_to(self.current.lam, (self.runtime.n, self.runtime.p))

    @property
    def rounds(self) -> int:
        """Exchanges so far: 2·height for each sum."""
        return 2 * self.height * self.current.sums

    def advance(self, rounds: int, seconds: float) -> None:
        """Sums until ``rounds`` exchanges, the end, or for about ``seconds``; at least one."""
        end, first = min(working_clock() + seconds, self.deadline.end), True
        while not self.current.status and self.rounds < max(rounds, 1):
            if not first and working_clock() >= end:
                break
            first = False
            self._sum()
        self.report = self._report()

    def _report(self) -> TerminationReport:
        return TerminationReport(
            self.current.kkt, self.current.lam, self.current.status, self._asked
        )

    @abstractmethod
    def _sum(self) -> None:
        """One sum, and what follows from it."""

    def start(self, x: Array, lam: Array) -> None:
        """Begin from x (flat) and λ (n, p)."""
        self._start(x, lam, *self.runtime.which(lam, x))

    def _start_cold(self) -> None:
        """Begin from nothing, which needs no exchange."""
        rt = self.runtime
        self._start(np.zeros(rt.packed.size), np.zeros((rt.n, rt.p)), priced=False, warm=False)

    @abstractmethod
    def _start(self, x: Array, lam: Array, priced: bool, warm: bool) -> None:
        """Begin, where all know whether some λ or some x is not 0."""
