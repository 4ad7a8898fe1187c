"""What the two primal modes share: known directions, their products, the price, the state."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Generic, TypeVar

import numpy as np

from dual2.engine.local import DENSE_A
from dual2.engine.pack import Block
from dual2.methods.method import Verdict
from dual2.methods.newton.contradiction import fall_of, find_fall, find_separator
from dual2.methods.newton.quadratics import Quadratics
from dual2.methods.newton.reduced import Answer, Gram, Reduced, curvature, moved
from dual2.methods.newton.reduced_flat import solve_known
from dual2.methods.newton.shared import OverSums, packed, unpacked
from dual2.problem.residual import Local, judge_agents
from dual2.runtime import Runtime

Array = np.ndarray
POINT, DIRECTION, RECALL = range(3)
"""What the next sum is for: the product of the present point, which replaces all directions; the
product of a new direction; the quadratic part in directions whose products an earlier run knew."""
MEMORY, ROOM, LEAST = 300, 30_000_000, 50
"""Most directions that are kept: this many, or as many as have so many numbers, but not fewer than
the last."""
MOVED = 0.1
"""Relative change of h's second derivatives up to which a preconditioner stays."""
REDUCED, AHEAD = 0.1, 1e-3
"""Accuracy of the problem in the known directions relative to the tolerance, and to the present
residual while that is larger."""
BACK = 125.0
"""The next problem in the known directions begins with the last σ over this."""
GROWING = {name: (0,) for name in ("c", "b", "products", "directions", "gram_weights", "trail")}
GROWING |= {name: (0, 1) for name in ("H", "gram_matrix")}
"""Axes of the state that have one place for each direction."""


@dataclass
class Known:
    """What everybody knows, the same in every process; saved and restored.

    ``products`` are those of the directions, row by row, ``H`` and ``b`` the quadratic part in
    their coefficients ``c``; ``metric`` and ``weights`` are the second derivatives of h behind the
    agents' metric and preconditioners; the two after them belong to :class:`.reduced.Gram`.
    ``trail`` are the last residuals, ``wide`` is how many directions a sum carries at least, and
    ``variables`` how many all agents have.
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
    phase: int = DIRECTION
    sums: int = 0
    idle: int = 0
    restarts: int = 0
    sigma: float = 0.0
    rows: float = np.inf
    kkt: float = np.inf
    end: str = ""


K = TypeVar("K", bound=Known)
Q = TypeVar("Q", bound=Quadratics)


def columns_of(block: Block) -> list[Array | None]:
    """Columns of the dense A_i, row by row; None for the others."""
    first, dims = block.xptr[:-1], np.diff(block.xptr)
    begin = block.place[np.minimum(first, len(block.place) - 1), 0]
    return [
        block.cols[a : a + d] if kind == DENSE_A else None
        for a, d, kind in zip(begin, dims, block.akind, strict=True)
    ]


class Directions(OverSums, Generic[K, Q]):
    """A primal mode on one block of agents; each call of ``advance`` is at least one sum.

    Parameters
    ----------
    runtime : Runtime
        Where the agents are.
    max_sums : int
        Most sums.
    """

    now: K
    growing = GROWING
    known: type[K]
    part: type[Q]

    def __init__(self, runtime: Runtime, max_sums: int) -> None:
        super().__init__(runtime, max_sums)
        known = zip(runtime.problem.agents, columns_of(runtime.block), strict=True)
        self.parts = [self.part(agent, columns) for agent, columns in known]
        self.norms = runtime.problem.sizes.rows
        self.memory = int(min(MEMORY, max(LEAST, ROOM // runtime.p)))
        self._base = np.zeros(runtime.p)
        self._separator: Array | None = None
        self._ray: Array | None = None

    # -- start, save, restore ---------------------------------------------------------------------
    def _start(self, x: Array, lam: Array, priced: bool, warm: bool) -> None:
        """Begin, where all know whether some λ or some x is not 0."""
        rt, zero = self.runtime, np.zeros(self.runtime.p)
        price = rt.total(lam) / rt.problem.n if priced else zero
        no, none, square = zero[:0], np.zeros((0, rt.p)), np.zeros((0, 0))
        self.now = self.known(price, zero, zero, no, no, square, none, zero, zero, no, square, no)
        self.x, self.gram = x.copy(), Gram()
        self._spread(np.zeros((0, len(x))))
        self.products = 0
        if warm:
            self.now.phase = POINT
        self._resolve()
        self.now.metric = self.now.weights.copy()
        self._precondition(self.now.metric, metric=True)
        self.x = x.copy()

    def state(self) -> dict[str, Any]:
        """Everything needed to continue bit for bit."""
        now = self.now
        now.gram_weights, now.gram_matrix = self.gram.weights, self.gram.matrix
        directions = np.hstack([part.directions for part in self.parts])
        calls = {"calls_A": self.products, "looks": self.gram.looks}
        return (
            packed(now, ("products", "span"))
            | {"x": self.x.copy(), "directions": directions}
            | calls
        )

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a saved :meth:`state`."""
        self.now = now = unpacked(self.known, state)
        self.gram = Gram(now.gram_weights, now.gram_matrix)
        self.x, directions = np.array(state["x"]), np.array(state["directions"])
        self._spread(directions)
        counts = {len(now.b), *now.H.shape, self._count(), len(directions)}
        if len(counts) > 1 or len(now.c) not in (0, *counts):
            raise ValueError(f"numbers of directions differ: {sorted(counts)}")
        self.products, self.gram.looks = int(state["calls_A"]), int(state["looks"])
        self._precondition(now.metric, metric=True)
        self._precondition(now.weights, metric=False)

    # -- what others read -------------------------------------------------------------------------
    def oracle_calls(self) -> dict[str, int]:
        """Calls so far, by the names of :class:`dual2.Counts`."""
        sums = self.now.sums
        local = {"grad_f": 2 * sums, "prox_g": sums, "A": self.products, "AT": 2 * sums}
        local["prox_h"] = self.gram.looks
        return local | {"iterations": sums, "outer": self.now.restarts, "sums": sums}

    # -- the end ----------------------------------------------------------------------------------
    def advance(self, rounds: int, seconds: float) -> None:
        """As others; where it has ended in vain, look for a proof that nothing was possible."""
        before = self.now.sums
        super().advance(rounds, seconds)
        vain = self.now.end == "STALLED" and self.now.sums > before
        if vain or (self.now.end == "INFEASIBLE" and self._separator is None):
            self._examine()
        if self.now.end == "UNBOUNDED" and self._ray is None:
            self._follow(self.now.c)
        self.verdict = self._verdict()

    def _verdict(self) -> Verdict:
        now = self.now
        return Verdict(now.kkt, now.lam, now.end, self._asked, self._separator, self._ray)

    def _follow(self, c: Array) -> None:
        """Look for a proof that the objective falls for ever along c: the end, if there is one."""
        now = self.now
        u = fall_of(self.h, self._problem(now.H, self._base), c, self._squares())
        if u is None:
            return
        way = np.concatenate([part.along(u) for part in self.parts])
        self._ray = find_fall(self.runtime, self.h, way, now.lam)
        if self._ray is not None:
            now.end, now.c = "UNBOUNDED", c

    def _examine(self) -> None:
        """Look for a proof that no point meets what h demands: the end, if there is one."""
        now = self.now
        c = now.c if len(now.c) == self._count() else np.zeros(self._count())
        problem = self._problem(now.H, self._base)
        self._separator = find_separator(self.runtime, self.h, problem, (self.x, c, now.lam))
        if self._separator is not None:
            now.end = "INFEASIBLE"

    def _ratios(self) -> Array:
        """Stationarity of each agent at (x, λ), as the certificate judges it."""
        lam = self.now.lam
        parts = zip(self.parts, self._split(self.x), strict=True)
        known = Local(*np.array([part.local(x, lam) for part, x in parts]).T)
        pulls = self.norms @ np.abs(lam)
        ratios = judge_agents(known, self.runtime.block.mu, pulls, self.atol)[0]
        return np.where(np.isfinite(ratios), ratios, 1e300)

    def _split(self, flat: Array) -> list[Array]:
        """The agents' own parts of vectors, or of rows."""
        ends = pairwise(self.runtime.block.xptr.tolist())
        return [flat[..., first:last] for first, last in ends]

    def _spread(self, directions: Array) -> None:
        """Give every agent its own part of the directions.

        As a copy, also of a single row: some BLAS round by where an array begins.
        """
        cuts = self.runtime.block.xptr[1:-1]
        for part, own in zip(self.parts, np.split(directions, cuts, axis=1), strict=True):
            part.directions = own.copy()

    # -- the reduced problem ----------------------------------------------------------------------
    def _problem(self, H: Array, base: Array) -> Reduced:
        """The problem in the known directions, with a quadratic part and from a base."""
        return Reduced(H, self.now.b, self.now.products, base)

    def _count(self) -> int:
        """Known directions."""
        return len(self.now.products)

    def _squares(self) -> Array | None:
        """Squared lengths of the products, where they are at hand."""

    def _resolve(self) -> None:
        """Solve the problem in the known directions; agents follow with x and preconditioners."""
        now = self.now
        problem, tol = self._problem(now.H, np.zeros(self.runtime.p)), self._accuracy()
        found = solve_known(self.h, problem, self.gram, now.c, now.lam, now.sigma, tol)
        self._adopt(found)
        now.c = found.c
        self.x = np.concatenate([part.along(now.c) for part in self.parts])
        self._follow(found.c)

    def _accuracy(self) -> float:
        """How well the problem in the known directions is to be solved."""
        return max(REDUCED * self.tol, AHEAD * min(self.now.kkt, 0.1), 1e-14)

    def _adopt(self, found: Answer) -> None:
        """Take price and residual, and second derivatives for the preconditioners."""
        now = self.now
        now.lam, now.s, now.y, now.rows = found.lam, found.s, found.y, found.rows
        now.sigma = found.sigma / BACK
        weights = found.weights
        if weights is None:
            weights = curvature(self.h, now.s, now.lam)
        if moved(weights, now.weights, MOVED):
            now.weights = weights
            self._precondition(weights, metric=False)

    def _precondition(self, weights: Array, metric: bool) -> None:
        for part in self.parts:
            part.precondition(weights, metric)
