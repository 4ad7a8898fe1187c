"""What the two primal modes share: known directions, their products, the multiplier, the state."""

from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import pairwise
from typing import Any, Generic, TypeVar

import numpy as np

from dual2.engine.local import DENSE_A
from dual2.engine.pack import PackedBlock
from dual2.methods.exact_sums import ExactSumMethod, dump_state, load_state
from dual2.methods.method import TerminationReport
from dual2.methods.run_status import RunStatus
from dual2.methods.subspace.certificates import find_descent, prove_infeasible, prove_unbounded
from dual2.methods.subspace.quadratic_agent import QuadraticAgent
from dual2.methods.subspace.subspace_pmm import solve_with_fallbacks
from dual2.methods.subspace.subspace_problem import (
    Gram,
    SubspaceProblem,
    SubspaceSolution,
    curvature,
    weights_changed,
)
from dual2.problem.screening import Local, judge_agents
from dual2.runtime import Runtime

Array = np.ndarray
MAX_DIRECTIONS, MAX_DIRECTION_NUMBERS, MIN_DIRECTIONS = 300, 30_000_000, 50
"""Most directions that are kept: this many, or as many as have so many numbers, but not fewer than
the last."""
WEIGHT_RTOL = 0.1
"""Relative change of h's second derivatives up to which a preconditioner stays."""
SUBSPACE_RTOL, RESIDUAL_RTOL = 0.1, 1e-3
"""Accuracy of the problem in the known directions relative to the tolerance, and to the present
residual while that is larger."""
SIGMA_BACK = 125.0
"""The next problem in the known directions begins with the last σ over this."""
GROWING = {name: (0,) for name in ("c", "b", "products", "directions", "gram_weights", "trail")}
GROWING |= {name: (0, 1) for name in ("H", "gram_matrix")}
"""Axes of the state that have one place for each direction."""


class SubspacePhase(IntEnum):
    """What the next sum is for."""

    POINT = 0
    """The product of the present point, which replaces all directions."""
    DIRECTION = 1
    """The product of a new direction."""
    RECALL = 2
    """The quadratic part in directions whose products an earlier run knew."""
    REORTHONORMALISE = 3
    """Make all directions orthonormal once more: the first time has enlarged rounding."""


@dataclass(frozen=True)
class SubspaceState:
    """What every process knows, the same in every process; saved and restored.

    ``products`` are those of the directions, row by row, ``H`` and ``b`` the quadratic part in
    their coefficients ``c``; ``metric`` and ``weights`` are the second derivatives of h behind the
    agents' metric and preconditioners; the two after them belong to
    :class:`.subspace_problem.Gram`. ``trail`` are the last residuals, ``wide`` is how many
    directions a sum carries at least, and ``variables`` how many all agents have.
    """

    lam: Array
    s: Array
    y: Array
    c: Array
    b: Array
    H: Array
    products: Array
    metric: Array
    weights: Array
    gram_weights: Array
    gram_matrix: Array
    trail: Array
    wide: int = 1
    variables: int = 0
    phase: SubspacePhase = SubspacePhase.DIRECTION
    sums: int = 0
    idle: int = 0
    restarts: int = 0
    sigma: float = 0.0
    rows: float = np.inf
    kkt: float = np.inf
    status: RunStatus = RunStatus.RUNNING


K = TypeVar("K", bound=SubspaceState)
Q = TypeVar("Q", bound=QuadraticAgent)


def dense_columns(block: PackedBlock) -> list[Array | None]:
    """Columns of the dense A_i, row by row; None for the others."""
    first, dims = block.xptr[:-1], np.diff(block.xptr)
    begin = block.place[np.minimum(first, len(block.place) - 1), 0]
    return [
        block.cols[a : a + d] if kind == DENSE_A else None
        for a, d, kind in zip(begin, dims, block.akind, strict=True)
    ]


class SubspaceMethod(ExactSumMethod, Generic[K, Q]):
    """A primal mode on one block of agents; each call of ``advance`` is at least one sum.

    Parameters
    ----------
    runtime : Runtime
        Where the agents are.
    max_sums : int
        Most sums.
    """

    current: K
    growing = GROWING
    state_type: type[K]
    part: type[Q]

    def __init__(self, runtime: Runtime, max_sums: int) -> None:
        super().__init__(runtime, max_sums)
        known = zip(runtime.problem.agents, dense_columns(runtime.block), strict=True)
        self.parts = [self.part(agent, columns) for agent, columns in known]
        self.norms = runtime.problem.sizes.rows
        self.memory = int(
            min(MAX_DIRECTIONS, max(MIN_DIRECTIONS, MAX_DIRECTION_NUMBERS // runtime.p))
        )
        self._base = np.zeros(runtime.p)
        self._separator: Array | None = None
        self._ray: Array | None = None

    # -- start, save, restore ---------------------------------------------------------------------
    def _start(self, x: Array, lam: Array, priced: bool, warm: bool) -> None:
        """Begin, where all know whether some λ or some x is not 0."""
        rt, zero = self.runtime, np.zeros(self.runtime.p)
        multiplier = rt.allreduce_sum(lam) / rt.problem.n if priced else zero
        no, none, square = zero[:0], np.zeros((0, rt.p)), np.zeros((0, 0))
        self.current = self.state_type(
            multiplier, zero, zero, no, no, square, none, zero, zero, no, square, no
        )
        self.x, self.gram = x.copy(), Gram()
        self._split_directions(np.zeros((0, len(x))))
        self.products = 0
        if warm:
            self._update(phase=SubspacePhase.POINT)
        self._solve_subspace()
        self._update(metric=self.current.weights.copy())
        self._precondition(self.current.metric, metric=True)
        self.x = x.copy()

    def state(self) -> dict[str, Any]:
        """Everything needed to continue bit for bit."""
        gram = {"gram_weights": self.gram.weights, "gram_matrix": self.gram.matrix}
        directions = np.hstack([part.directions for part in self.parts])
        calls = {"calls_A": self.products, "looks": self.gram.evaluations}
        return (
            dump_state(replace(self.current, **gram), ("products", "span"))
            | {"x": self.x.copy(), "directions": directions}
            | calls
        )

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a saved :meth:`state`."""
        self.current = load_state(self.state_type, state)
        self.gram = Gram(self.current.gram_weights, self.current.gram_matrix)
        self.gram.count_evaluations(int(state["looks"]))
        self.x, directions = np.array(state["x"]), np.array(state["directions"])
        self._split_directions(directions)
        counts = {len(self.current.b), *self.current.H.shape, self._count(), len(directions)}
        if len(counts) > 1 or len(self.current.c) not in (0, *counts):
            raise ValueError(f"numbers of directions differ: {sorted(counts)}")
        self.products = int(state["calls_A"])
        self._precondition(self.current.metric, metric=True)
        self._precondition(self.current.weights, metric=False)

    # -- what others read -------------------------------------------------------------------------
    def oracle_calls(self) -> dict[str, int]:
        """Calls so far, by the names of :class:`dual2.Counts`."""
        sums = self.current.sums
        local = {"grad_f": 2 * sums, "prox_g": sums, "A": self.products, "AT": 2 * sums}
        local["prox_h"] = self.gram.evaluations
        return local | {"iterations": sums, "outer": self.current.restarts, "sums": sums}

    # -- the end ----------------------------------------------------------------------------------
    def advance(self, rounds: int, seconds: float) -> None:
        """As others; where it has ended in vain, look for a proof that nothing was possible."""
        before = self.current.sums
        super().advance(rounds, seconds)
        stalled = self.current.status == RunStatus.STALLED and self.current.sums > before
        if stalled or (self.current.status == RunStatus.INFEASIBLE and self._separator is None):
            self._check_infeasible()
        if self.current.status == RunStatus.UNBOUNDED and self._ray is None:
            self._check_unbounded(self.current.c)
        self.report = self._report()

    def _report(self) -> TerminationReport:
        return TerminationReport(
            self.current.kkt,
            self.current.lam,
            self.current.status,
            self._asked,
            self._separator,
            self._ray,
        )

    def _check_unbounded(self, c: Array) -> None:
        """End the run if the objective is proven to be unbounded below along c."""
        u = find_descent(self.h, self._problem(self.current.H, self._base), c, self._squares())
        if u is None:
            return
        direction = np.concatenate([part.along(u) for part in self.parts])
        self._ray = prove_unbounded(self.runtime, self.h, direction, self.current.lam)
        if self._ray is not None:
            self._update(status=RunStatus.UNBOUNDED, c=c)

    def _check_infeasible(self) -> None:
        """Look for a proof that no point meets what h demands: the end, if there is one."""
        c = self.current.c if len(self.current.c) == self._count() else np.zeros(self._count())
        problem = self._problem(self.current.H, self._base)
        self._separator = prove_infeasible(
            self.runtime, self.h, problem, (self.x, c, self.current.lam)
        )
        if self._separator is not None:
            self._update(status=RunStatus.INFEASIBLE)

    def _ratios(self) -> Array:
        """Stationarity of each agent at (x, λ), as the certificate judges it."""
        lam = self.current.lam
        parts = zip(self.parts, self._split(self.x), strict=True)
        known = Local(*np.array([part.local(x, lam) for part, x in parts]).T)
        adjoints = self.norms @ np.abs(lam)
        ratios = judge_agents(known, self.runtime.block.mu, adjoints, self.atol)[0]
        return np.where(np.isfinite(ratios), ratios, 1e300)

    def _split(self, flat: Array) -> list[Array]:
        """The agents' own parts of vectors, or of rows."""
        ends = pairwise(self.runtime.block.xptr.tolist())
        return [flat[..., first:last] for first, last in ends]

    def _split_directions(self, directions: Array) -> None:
        """Give every agent its own part of the directions.

        As a copy, also of a single row: some BLAS round by where an array begins.
        """
        cuts = self.runtime.block.xptr[1:-1]
        for part, own in zip(self.parts, np.split(directions, cuts, axis=1), strict=True):
            part.replace_directions(own.copy())

    # -- the reduced problem ----------------------------------------------------------------------
    def _problem(self, H: Array, base: Array) -> SubspaceProblem:
        """The problem in the known directions, with a quadratic part and from a base."""
        return SubspaceProblem(H, self.current.b, self.current.products, base)

    def _count(self) -> int:
        """Known directions."""
        return len(self.current.products)

    def _squares(self) -> Array | None:
        """Squared lengths of the products, where they are at hand."""

    def _solve_subspace(self) -> None:
        """Solve the problem in the known directions; agents follow with x and preconditioners."""
        problem, tol = self._problem(self.current.H, np.zeros(self.runtime.p)), self._accuracy()
        found = solve_with_fallbacks(
            self.h, problem, self.gram, self.current.c, self.current.lam, self.current.sigma, tol
        )
        self._adopt(found)
        self._update(c=found.c)
        self.x = np.concatenate([part.along(self.current.c) for part in self.parts])
        self._check_unbounded(found.c)

    def _accuracy(self) -> float:
        """How well the problem in the known directions is to be solved."""
        return max(SUBSPACE_RTOL * self.tol, RESIDUAL_RTOL * min(self.current.kkt, 0.1), 1e-14)

    def _adopt(self, found: SubspaceSolution) -> None:
        """Take multiplier and residual, and second derivatives for the preconditioners."""
        self._update(lam=found.lam, s=found.s, y=found.y, rows=found.rows)
        self._update(sigma=found.sigma / SIGMA_BACK)
        weights = found.weights
        if weights is None:
            weights = curvature(self.h, self.current.s, self.current.lam)
        if weights_changed(weights, self.current.weights, WEIGHT_RTOL):
            self._update(weights=weights)
            self._precondition(weights, metric=False)

    def _precondition(self, weights: Array, metric: bool) -> None:
        for part in self.parts:
            part.precondition(weights, metric)
