"""Newton's method over exact sums of p-vectors alone, for many coupling rows.

Where f_i is quadratic, one sum brings the product Σ A_i z_i of one direction z = (z_1, …, z_n), and
it is kept. Everybody then solves the problem in the known directions alone, whatever h is (see
:mod:`.reduced`), and sees the price λ. Agents turn the gradient P_i x_i + q_i + A_iᵀλ into the
next direction by their own blocks of the second derivative. Every direction is independent of the
others, so that without rounding D + 1 sums suffice, D the number of all variables.
"""

import time
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from dual2.methods.method import Judging, Verdict
from dual2.methods.newton.algorithm import ENDS
from dual2.methods.newton.message import REQUESTS, read_request
from dual2.methods.newton.quadratics import Quadratics
from dual2.methods.newton.reduced import Gram, Reduced, curvature, solve_reduced
from dual2.problem.residual import judge_agents
from dual2.runtime import Runtime

Array = np.ndarray
POINT, DIRECTION = range(2)
"""What the next sum is for: the product of the present point, which replaces all directions; the
product of a new direction."""
BEND, LENGTH, TILT, RATIO, FAILS = range(5)
"""Numbers of a direction: zᵀPz, its squared length in the agents' metric, qᵀz; and of the present
point: the sum of the agents' stationarity ratios, how many of them exceed the tolerance."""
SCALARS = 5
MEMORY, ROOM, LEAST = 300, 30_000_000, 50
"""Most directions that are kept: this many, or as many as have so many numbers, but not fewer than
the last."""
DEPENDENT = 1e-13
"""Squared length of what is new in a direction, relative to its own, below which it is rounding."""
MOVED = 0.1
"""Relative change of h's second derivatives up to which a preconditioner stays."""
_IDLE, _RESTARTS = 2, 4
"""Directions in a row that may be nothing new; how often all begins anew at the present point."""
REDUCED, AHEAD = 0.1, 1e-3
"""Accuracy of the problem in the known directions relative to the tolerance, and to the present
residual while that is larger."""
BACK = 125.0
"""The next problem in the known directions begins with the last σ over this."""


GROWING = {name: (0,) for name in ("c", "b", "products", "directions", "gram_weights")}
GROWING |= {name: (0, 1) for name in ("H", "gram_matrix")}
"""Axes of the state that have one place for each direction."""


@dataclass
class Known:
    """What everybody knows, the same in every process; saved and restored.

    ``products`` are those of the directions, row by row, ``H`` and ``b`` the quadratic part in
    their coefficients ``c``; ``metric`` and ``weights`` are the second derivatives of h behind the
    agents' metric and preconditioners; the last two belong to :class:`.reduced.Gram`.
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
    phase: int = DIRECTION
    sums: int = 0
    idle: int = 0
    restarts: int = 0
    sigma: float = 0.0
    rows: float = np.inf
    kkt: float = np.inf
    end: str = ""


class Primal(Judging):
    """The method on one block of agents; each call of ``advance`` is at least one sum.

    Parameters
    ----------
    runtime : Runtime
        Where the agents are.
    max_sums : int
        Most sums.
    """

    conserved = ""
    vectors = 0
    growing = GROWING

    def __init__(self, runtime: Runtime, max_sums: int) -> None:
        self.runtime, self.max_sums, h = runtime, max_sums, runtime.problem.h
        self.h = h if h.form is None else h.form.broadcast(runtime.p)
        self.parts = [Quadratics(agent) for agent in runtime.problem.agents]
        self.norms = np.array([agent.row_norms for agent in runtime.problem.agents])
        self.height = runtime.network.tree.height
        self.stride = max(2 * self.height, 1)
        self.memory = int(min(MEMORY, max(LEAST, ROOM // runtime.p)))
        self._asked = 0
        self.start(np.zeros(runtime.packed.size), np.zeros((runtime.n, runtime.p)))

    # -- start, save, restore ---------------------------------------------------------------------
    def start(self, x: Array, lam: Array) -> None:
        """Begin from x (flat) and λ (n, p)."""
        rt, zero = self.runtime, np.zeros(self.runtime.p)
        price = rt.total(lam) / rt.problem.n if rt.anywhere(lam) else zero
        none = np.zeros((0, rt.p))
        self.now = Known(
            price,
            zero,
            zero,
            zero[:0],
            zero[:0],
            none[:, :0],
            none,
            zero,
            zero,
            zero[:0],
            none[:, :0],
        )
        self.x, self.gram = x.copy(), Gram()
        self._spread(np.zeros((0, len(x))))
        self.calls = 0
        if rt.anywhere(x):
            self.now.phase = POINT
        self._resolve()
        self.now.metric = self.now.weights.copy()
        self._precondition(self.now.metric, metric=True)
        self.x = x.copy()

    def state(self) -> dict[str, Any]:
        """Everything needed to continue bit for bit."""
        now = self.now
        now.gram_weights, now.gram_matrix = self.gram.weights, self.gram.matrix
        own = {f.name: np.copy(getattr(now, f.name)) for f in fields(Known)}
        own["end"] = np.array(ENDS.index(now.end))
        directions = np.hstack([part.directions for part in self.parts])
        return own | {"x": self.x.copy(), "directions": directions, "calls": self.calls}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a saved :meth:`state`."""
        known: dict[str, Any] = {f.name: np.asarray(state[f.name]) for f in fields(Known)}
        known = {k: v.item() if v.ndim == 0 else v.copy() for k, v in known.items()}
        self.now = now = Known(**known | {"end": ENDS[known["end"]]})
        self.gram = Gram(now.gram_weights, now.gram_matrix)
        self.x, directions = np.array(state["x"]), np.array(state["directions"])
        self._spread(directions)
        counts = {len(now.c), len(now.b), *now.H.shape, len(now.products), len(directions)}
        if len(counts) > 1:
            raise ValueError(f"numbers of directions differ: {sorted(counts)}")
        self.calls = int(state["calls"])
        self._precondition(now.metric, metric=True)
        self._precondition(now.weights, metric=False)

    def reconsider(self) -> None:
        """Go on after an end to which the definitions did not consent: from the point itself."""
        self.now.end = ""
        self._restart()

    # -- what others read -------------------------------------------------------------------------
    @property
    def duals(self) -> Array:
        """λ, the same row for every agent."""
        return np.broadcast_to(self.now.lam, (self.runtime.n, self.runtime.p))

    @property
    def rounds(self) -> int:
        """Exchanges so far: 2·height for each sum."""
        return 2 * self.height * self.now.sums

    def oracle_calls(self) -> dict[str, int]:
        """Calls so far, by the names of :class:`dual2.Counts`."""
        sums = self.now.sums
        local = {"grad_f": sums, "prox_g": sums, "A": sums, "AT": 2 * sums, "prox_h": self.calls}
        return local | {"iterations": sums, "outer": self.now.restarts, "sums": sums}

    # -- the loop ---------------------------------------------------------------------------------
    def advance(self, rounds: int, seconds: float) -> None:
        """Sums until ``rounds`` exchanges, the end, or for about ``seconds``; at least one."""
        end, first = time.perf_counter() + seconds, True
        while not self.now.end and self.rounds < max(rounds, 1):
            if not first and time.perf_counter() >= end:
                break
            first = False
            self._sum()
        self.verdict = Verdict(self.now.kkt, self.now.lam, self.now.end, self._asked)

    def _sum(self) -> None:
        """One sum, and what follows from it."""
        now, p = self.now, self.runtime.p
        now.sums += 1
        z, total = self._ask()
        self._asked = read_request(total[-REQUESTS:])
        if not np.isfinite(total).all():
            now.end = "DIVERGED"
            return
        if now.phase == POINT:
            self._forget_directions()
        elif self._met(total[p : p + SCALARS]):
            now.end = "CONVERGED"
            return
        now.phase = DIRECTION
        self._append(z, total)
        self._resolve()
        if not now.end and now.sums >= self.max_sums:
            now.end = "STALLED"

    def _ask(self) -> tuple[Array, Array]:
        """The next direction (or the point itself), and the sum of what agents tell about it."""
        now, rt, xptr = self.now, self.runtime, self.runtime.block.xptr
        z, count, p = np.empty_like(self.x), len(now.c), rt.p
        fresh = now.phase == POINT
        ratios = np.zeros(rt.n) if fresh else self._ratios()
        width = p + SCALARS + (0 if fresh else 2 * count) + REQUESTS

        def fill(rows: Array, out: Array) -> None:
            out[:] = 0.0
            for e, i in enumerate(rows):
                part, own = self.parts[i], slice(xptr[i], xptr[i + 1])
                x = self.x[own]
                z[own] = x if fresh else part.solve(part.gradient(x, now.lam))
                bent, long = part.bend(z[own]), part.measure(z[own])
                out[e, :p] = part.A @ z[own]
                scalars = z[own] @ bent, z[own] @ long, part.q @ z[own], ratios[i]
                out[e, p : p + SCALARS] = *scalars, float(ratios[i] > self.tol)
                if not fresh:
                    Q = part.directions
                    out[e, p + SCALARS : -REQUESTS] = np.concatenate([Q @ bent, Q @ long])
                if i == 0 and self.request:
                    out[e, -REQUESTS + self.request - 1] = 1.0

        total = rt.total_of(width, fill)
        return z, total

    def _ratios(self) -> Array:
        """Stationarity of each agent at (x, λ), as the certificate judges it."""
        known = self.runtime.stationarity(self.x, self.now.lam)
        pulls = self.norms @ np.abs(self.now.lam)
        ratios = judge_agents(known, self.runtime.block.mu, pulls, self.atol)[0]
        return np.where(np.isfinite(ratios), ratios, 1e300)

    def _met(self, numbers: Array) -> bool:
        """Whether agents and rows meet the tolerance at the present point."""
        now = self.now
        now.kkt = max(float(numbers[RATIO]), now.rows)
        return bool(numbers[FAILS] == 0 and now.rows <= self.tol)

    # -- directions -------------------------------------------------------------------------------
    def _forget_directions(self) -> None:
        now, none = self.now, np.zeros(0)
        now.c, now.b, now.H, now.products = none, none, np.zeros((0, 0)), now.products[:0]
        self._spread(np.zeros((0, len(self.x))))
        self.gram.forget()

    def _split(self, flat: Array) -> list[Array]:
        return np.split(flat, self.runtime.block.xptr[1:-1])

    def _spread(self, directions: Array) -> None:
        """Give every agent its own part of the directions."""
        cuts = self.runtime.block.xptr[1:-1]
        for part, own in zip(self.parts, np.split(directions, cuts, axis=1), strict=True):
            part.directions = np.ascontiguousarray(own)

    def _append(self, z: Array, total: Array) -> None:
        """Keep what is new in a direction: orthogonal to the others, of length one."""
        now, p, count = self.now, self.runtime.p, len(self.now.c)
        product, numbers = total[:p], total[p : p + SCALARS]
        across, t = np.split(total[p + SCALARS : p + SCALARS + 2 * count], 2)
        length = float(numbers[LENGTH]) - float(t @ t)
        if not length > DEPENDENT * float(numbers[LENGTH]):
            self._idle()
            return
        now.idle, size = 0, np.sqrt(length)
        bend = float(numbers[BEND]) - 2.0 * float(t @ across) + float(t @ now.H @ t)
        H = np.empty((count + 1, count + 1))
        H[:count, :count], H[count, count] = now.H, bend / length
        H[count, :count] = H[:count, count] = (across - now.H @ t) / size
        now.H, now.c = H, np.append(now.c, 0.0)
        now.b = np.append(now.b, (float(numbers[TILT]) - float(t @ now.b)) / size)
        now.products = np.vstack([now.products, (product - t @ now.products) / size])
        for part, own in zip(self.parts, self._split(z), strict=True):
            part.keep(own, t, float(size))
        if count + 1 > self.memory:
            self._merge()

    def _merge(self) -> None:
        """The older half of the directions becomes one: their part of the present point."""
        now, half = self.now, len(self.now.c) // 2
        share = float(np.linalg.norm(now.c[:half]))
        first = now.c[:half] / share if share > 0 else np.eye(half)[0]
        join = np.zeros((len(now.c) - half + 1, len(now.c)))
        join[0, :half], join[1:, half:] = first, np.eye(len(now.c) - half)
        now.c, now.b, now.H = join @ now.c, join @ now.b, join @ now.H @ join.T
        now.products = join @ now.products
        for part in self.parts:
            part.directions = join @ part.directions
        self.gram.forget()

    def _idle(self) -> None:
        """A direction is nothing new; too many are the end, or a beginning at the point itself."""
        self.now.idle += 1
        if self.now.idle >= _IDLE:
            self._restart()

    def _restart(self) -> None:
        now = self.now
        now.idle, now.restarts, now.phase = 0, now.restarts + 1, POINT
        if now.restarts > _RESTARTS or not self.runtime.anywhere(self.x):
            now.end = "STALLED"

    # -- the reduced problem ----------------------------------------------------------------------
    def _resolve(self) -> None:
        """Solve the problem in the known directions; agents follow with x and preconditioners."""
        now = self.now
        problem = Reduced(now.H, now.b, now.products, np.zeros(self.runtime.p))
        tol = max(REDUCED * self.tol, AHEAD * min(now.kkt, 0.1), 1e-14)
        found = solve_reduced(self.h, problem, self.gram, now.c, now.lam, now.sigma, tol)
        now.c, now.lam, now.s, now.y, now.rows = found.c, found.lam, found.s, found.y, found.rows
        now.sigma = found.sigma / BACK
        self.x = np.concatenate([part.point(now.c) for part in self.parts])
        self.calls += 1
        weights = curvature(self.h, now.s, now.lam)
        if float(np.abs(weights - now.weights).sum()) > MOVED * float(weights.sum()):
            now.weights = weights
            self._precondition(weights, metric=False)

    def _precondition(self, weights: Array, metric: bool) -> None:
        for part in self.parts:
            part.precondition(weights, metric)
