"""Loops over exact sums: their counts, saved states and ends; what all know in the dual modes."""

import time
from abc import abstractmethod
from collections.abc import Collection
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np

from dual2.methods.method import Algorithm, Judging, Plan, Verdict
from dual2.methods.parameters import Settings, Sources
from dual2.runtime import Runtime

Array = np.ndarray
T = TypeVar("T")
SURVEY, FIRST, TRIALS, JACOBIAN = range(4)
"""What the next sum is for: as the second but with the agents' sizes too, from which the r_i follow
if some need them; the answers at λ and M; trials; the Jacobian at λ."""
ENDS = ("", "CONVERGED", "STALLED", "DIVERGED", "INFEASIBLE", "UNBOUNDED")
"""How a run may end; saved as a number."""


@dataclass
class Shared:
    """What everybody knows, the same in every process; saved and restored.

    ``around`` is the last regularisation that was needed, ``best`` the least |r| since the anchors
    moved, ``widest`` the largest scale of each row and ``largest`` the largest objective seen,
    ``longest`` the longest scaled price, ``share`` how much of a move may be left of the inner
    problem before the anchors are moved, ``spare`` and ``fall`` what an agent may leave out of a
    ray, ``flat`` how many agents lack strong convexity and
    ``variables`` how many there are in all; ``reached`` are the S of the last trials, ``M``
    bounds the dual function's curvature, and ``ways`` are prices made row by row, to be tried if
    rows stand ``apart``; ``near`` says that the run began near its end, and has not moved yet.
    """

    lam: Array
    S: Array
    load: Array
    numbers: Array
    G: Array
    M: Array
    step: Array
    widest: Array
    separator: Array
    reached: Array
    ways: Array
    phase: int = SURVEY
    sums: int = 0
    outers: int = 0
    steps: int = 0
    taken: int = 0
    idle: int = 0
    retreats: int = 0
    claims: int = 0
    flat: int = 0
    apart: int = 0
    near: int = 0
    variables: float = 0.0
    best: float = np.inf
    around: float = 0.0
    largest: float = 0.0
    longest: float = 0.0
    share: float = 0.1
    spare: float = 0.0
    fall: float = 0.0
    kkt: float = np.inf
    end: str = ""


def packed(known: Any, kept: Collection[str] = ()) -> dict[str, Array]:
    """What everybody knows as arrays, to be saved; those ``kept`` as they are stay the same."""
    found = {f.name: getattr(known, f.name) for f in fields(known)}
    own = {k: np.asarray(v) if k in kept else np.copy(v) for k, v in found.items()}
    return own | {"end": np.array(ENDS.index(known.end))}


def unpacked(kind: type[T], state: dict[str, Any]) -> T:
    """The ``kind`` of knowledge that :func:`packed` made these arrays of."""
    known: dict[str, Any] = {f.name: np.asarray(state[f.name]) for f in fields(kind)}  # pyright: ignore[reportArgumentType]
    known = {k: v.item() if v.ndim == 0 else v.copy() for k, v in known.items()}
    return kind(**known | {"end": ENDS[known["end"]]})


def plan_over_sums(
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


class OverSums(Judging):
    """A loop of exact sums on one block of agents; each call of ``advance`` is at least one sum.

    Subclasses make one sum in ``_sum`` and keep in ``now`` what everybody knows: at least the price
    ``lam``, the number of ``sums``, the residual ``kkt`` and the ``end``, empty before it.

    Parameters
    ----------
    runtime : Runtime
        Where the agents are.
    max_sums : int
        Most sums.
    """

    conserved = ""
    vectors = 0
    now: Any

    def __init__(self, runtime: Runtime, max_sums: int) -> None:
        self.runtime, self.max_sums, h = runtime, max_sums, runtime.problem.h
        self.h = h if h.form is None else h.form.broadcast(runtime.p)  # one prox for all rows
        self.height = runtime.network.tree.height
        self.stride = max(2 * self.height, 1)
        self._asked = 0

    @property
    def duals(self) -> Array:
        """λ, the same row for every agent."""
        return np.broadcast_to(self.now.lam, (self.runtime.n, self.runtime.p))

    @property
    def rounds(self) -> int:
        """Exchanges so far: 2·height for each sum."""
        return 2 * self.height * self.now.sums

    def advance(self, rounds: int, seconds: float) -> None:
        """Sums until ``rounds`` exchanges, the end, or for about ``seconds``; at least one."""
        end, first = time.perf_counter() + seconds, True
        while not self.now.end and self.rounds < max(rounds, 1):
            if not first and time.perf_counter() >= end:
                break
            first = False
            self._sum()
        self.verdict = self._verdict()

    def _verdict(self) -> Verdict:
        return Verdict(self.now.kkt, self.now.lam, self.now.end, self._asked)

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
