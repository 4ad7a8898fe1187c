"""Loops over exact sums: their counts, saved states and ends; what all know in the dual modes."""

import time
from abc import abstractmethod
from collections.abc import Collection
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np

from dual2.methods.method import Algorithm, Plan, SelfTerminating, TerminationReport
from dual2.methods.parameters import Settings, Sources
from dual2.runtime import Runtime

Array = np.ndarray
T = TypeVar("T")
SETUP, FIRST, TRIALS, JACOBIAN = range(4)
"""What the next sum is for: as the second but with the agents' sizes too, from which the r_i follow
if some need them; the answers at λ and M; trials; the Jacobian at λ."""
STATUS_NAMES = ("", "CONVERGED", "STALLED", "DIVERGED", "INFEASIBLE", "UNBOUNDED")
"""How a run may end; saved as a number."""


@dataclass
class DualState:
    """What every process knows, the same in every process; saved and restored.

    ``damping`` is the last regularisation that was needed, ``best_residual`` the least |r| since
    the prox centers moved, ``max_row_scale`` the largest scale of each row and ``max_objective``
    the largest objective seen, ``max_dual_norm`` the longest scaled multiplier, ``inner_rtol`` how
    much of a move may be left of the inner problem before the prox centers are moved, ``row_slack``
    and ``descent_rate`` what an agent may leave out of a ray, ``not_strongly_convex`` how many
    agents lack strong convexity and ``variables`` how many there are in all; ``trial_products`` are
    the S of the last trials, ``M`` bounds the dual function's curvature, and ``candidates`` are
    multipliers made row by row, to be tried if rows stand ``diagonally_dominant``; ``warm_phase``
    says that the run began near its end, and has not moved yet.
    """

    lam: Array
    S: Array
    abs_products: Array
    scalars: Array
    G: Array
    M: Array
    step: Array
    max_row_scale: Array
    separator: Array
    trial_products: Array
    candidates: Array
    phase: int = SETUP
    sums: int = 0
    outer_iterations: int = 0
    steps: int = 0
    idle: int = 0
    retreats: int = 0
    claims: int = 0
    not_strongly_convex: int = 0
    diagonally_dominant: int = 0
    warm_phase: int = 0
    variables: float = 0.0
    best_residual: float = np.inf
    damping: float = 0.0
    max_objective: float = 0.0
    max_dual_norm: float = 0.0
    inner_rtol: float = 0.1
    row_slack: float = 0.0
    descent_rate: float = 0.0
    kkt: float = np.inf
    status: str = ""


def dump_state(known: Any, kept: Collection[str] = ()) -> dict[str, Array]:
    """What every process knows as arrays, to be saved; those ``kept`` as they are stay the same."""
    found = {f.name: getattr(known, f.name) for f in fields(known)}
    own = {k: np.asarray(v) if k in kept else np.copy(v) for k, v in found.items()}
    return own | {"status": np.array(STATUS_NAMES.index(known.status))}


def load_state(kind: type[T], state: dict[str, Any]) -> T:
    """The ``kind`` of knowledge that :func:`dump_state` made these arrays of."""
    known: dict[str, Any] = {f.name: np.asarray(state[f.name]) for f in fields(kind)}  # pyright: ignore[reportArgumentType]
    known = {k: v.item() if v.ndim == 0 else v.copy() for k, v in known.items()}
    return kind(**known | {"status": STATUS_NAMES[known["status"]]})


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
        end, first = min(time.perf_counter() + seconds, self.deadline.end), True
        while not self.current.status and self.rounds < max(rounds, 1):
            if not first and time.perf_counter() >= end:
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
