"""The primal mode with kinks and bounds in the g_i: l1 norms, boxes, elastic nets.

On the face where an iterate lies, g_i is linear, and the problem is that of :mod:`.primal` with the
coordinates at kinks and bounds held. A proximal step with the diagonal κ·diag(B_i) of the agents'
preconditioners chooses the face; the problem in the known directions, restricted to it, gives the
point on it, which is then clipped to the face. A large κ damps that problem too. Directions are
kept unrestricted; their products travel again when a face has changed. What a point is worth is
known one sum later. Points may become worse for a while; after some without a new lowest objective
the run goes back to the best one with a larger κ and asks every step to pay, if need be shortened
(a watchdog, as in Chamberlain, Powell, Lemarechal & Pedersen, 1982).
"""

from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np

from dual2.functions import Function
from dual2.functions.derivatives import prox_jacobian
from dual2.functions.domains import inside_value
from dual2.functions.piecewise import PiecewiseQuadratic
from dual2.methods.newton.directions import DIRECTION, Directions, Known
from dual2.methods.newton.message import REQUESTS, half_size, read_request, whole
from dual2.methods.newton.quadratics import Quadratics
from dual2.methods.newton.reduced import EPS, is_smooth
from dual2.methods.newton.reduced_flat import solve_known
from dual2.problem import Agent
from dual2.problem.residual import RowSums, coupling_step, judge_rows

Array = np.ndarray
VALUE, MAGNITUDE, RATIO, FAILS = range(4)
"""Numbers of the present point: Σ f_i + g_i, the magnitudes of its terms, the sum of the agents'
stationarity ratios, how many of them exceed the tolerance."""
SCALARS = 4
PATIENCE = 6
"""Points without a new lowest objective before the run goes back."""
SHARES = (0.5, 0.2, 0.05, 0.01, 1e-3, 1e-4)
"""Parts of a step that are tried in guarded mode."""
LESS, MORE, SAME, STEEPEST = 3.0, 10.0, 3.0, 1e12
"""κ is divided by the first after a new lowest objective, multiplied by the second on a return, by
the third where a step changes nothing; beyond the last a run has stalled."""
FIRM = 10.0
"""κ above which it damps the steps as well."""


class Face(Quadratics):
    """One agent: its quadratics, and the face of its g on which it moves.

    ``base`` is the point from which it moves, ``free`` the coordinates that do, ``low`` and
    ``high`` where their linear pieces end, ``slope`` those of g there, ``z`` the new direction.
    """

    def __init__(self, agent: Agent, columns: Array | None = None) -> None:
        super().__init__(agent, columns)
        form, d = agent.g.form, agent.dim
        assert form is not None, "the plan has asked for it"
        form = form.broadcast(d)
        self.kinks = PiecewiseQuadratic(
            slope_left=form.slope_left,
            slope_right=form.slope_right,
            kink=form.kink,
            lower=form.lower,
            upper=form.upper,
        ).broadcast(d)
        self.free, self.z = np.zeros(d, dtype=bool), np.zeros(d)
        self.base, self.slope, self.low, self.high = (np.zeros(d) for _ in range(4))

    def choose(self, x: Array, lam: Array, kappa: float) -> bool:
        """The face of a proximal step from x; whether it has changed."""
        steepness = kappa * self.diagonal
        v = x - self.gradient(x, lam) / steepness
        u, kinks = self.kinks.prox(v, 1.0 / steepness), self.kinks
        jac = prox_jacobian(kinks, v, 1.0 / steepness)
        assert jac is not None
        old, self.free = self.free, (jac > 0) & (kinks.lower < kinks.upper)
        bent = np.not_equal(kinks.slope_left, kinks.slope_right)
        right = ~bent | (u > kinks.kink)
        self.low = np.where(bent & right, np.maximum(kinks.kink, kinks.lower), kinks.lower)
        self.high = np.where(bent & ~right, np.minimum(kinks.kink, kinks.upper), kinks.upper)
        self.slope = np.where(right, kinks.slope_right, kinks.slope_left) * self.free
        self.base = np.where(self.free, np.clip(x, self.low, self.high), u)
        return bool(np.any(old != self.free))

    def aim(self, lam: Array) -> None:
        """The next direction, on the face."""
        self.z = self.solve_on(self.free, self.force() + self.pull(lam))

    def force(self) -> Array:
        """The gradient of f + g at the base, on the linear piece of g."""
        return self.bend(self.base) + self.q + self.slope

    def restricted(self) -> Array:
        """The known directions and the new one, on the face."""
        return np.vstack([self.directions, self.z]) * self.free

    def move(self, c: Array) -> Array:
        """base + Σ c_k q_k on the face; the new direction is among the known."""
        return self.base + self.along(c)

    def along(self, c: Array) -> Array:
        """Σ c_k q_k on the face."""
        return (c @ self.directions) * self.free

    def clip(self, x: Array) -> Array:
        """The nearest point of the face."""
        return np.where(self.free, np.clip(x, self.low, self.high), x)

    def reach(self, x: Array, d: Array) -> float:
        """The largest t <= 1 for which x + td does not leave the face, where x lies in it."""
        moving = self.free & (d != 0) & (self.low <= x) & (x <= self.high)
        room = np.where(d > 0, self.high - x, self.low - x)[moving] / d[moving]
        return float(room.min(initial=1.0))

    def worth(self, x: Array) -> tuple[float, float]:
        """f + g at x, up to a constant, and the magnitudes of its terms."""
        kinks = float(self.kinks.value(x))
        parts = 0.5 * float(x @ self.bend(x)), float(self.q @ x), kinks
        return sum(parts), sum(map(abs, parts))


@dataclass
class KnownFaces(Known):
    """What everybody knows beside: the present and the lowest objective, products of both points.

    ``kappa`` shortens proximal steps, ``waited`` counts points without a new lowest objective.
    """

    at: Array = field(default_factory=lambda: np.zeros(0))
    best_at: Array = field(default_factory=lambda: np.zeros(0))
    best_lam: Array = field(default_factory=lambda: np.zeros(0))
    lowest: float = np.inf
    least: float = np.inf
    kappa: float = 1.0
    waited: int = 0
    guarded: int = 0
    returned: int = 0


K = TypeVar("K", bound=KnownFaces)


class Faces(Directions[K, Face], Generic[K]):
    """The method on one block of agents some of which have kinks or bounds."""

    known: type[Any] = KnownFaces
    part = Face
    _changed = False

    # -- start, save, restore ---------------------------------------------------------------------
    def start(self, x: Array, lam: Array) -> None:
        """Begin from the point of the domain that is nearest to x (flat), and λ (n, p)."""
        zero = np.zeros(self.runtime.p)
        super().start(x, lam)
        self.now.phase = DIRECTION
        self.now.at, self.now.best_at, self.now.best_lam = zero, zero, self.now.lam
        parts = zip(self.parts, self._split(x), strict=True)
        self.x = np.concatenate([part.kinks.prox(own, 1.0) for part, own in parts])
        self.best, self.raw = self.x.copy(), self.x.copy()
        for part in self.parts:
            part.free = np.zeros(len(part.q), dtype=bool)

    def state(self) -> dict[str, Any]:
        """Everything needed to continue bit for bit."""
        free = np.concatenate([part.free for part in self.parts]).astype(np.int64)
        own = {"lowest_x": self.best.copy(), "raw": self.raw.copy(), "free": free}
        return super().state() | own

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a saved :meth:`state`."""
        super().restore(state)
        self.best, self.raw = np.array(state["lowest_x"]), np.array(state["raw"])
        for part, free in zip(self.parts, self._split(np.array(state["free"])), strict=True):
            part.free = free > 0

    def reconsider(self) -> None:
        """Go on after an end to which the definitions did not consent."""
        self.now.end, self.now.restarts = "", self.now.restarts + 1

    # -- the loop ---------------------------------------------------------------------------------
    def _sum(self) -> None:
        """One sum, and what follows from it."""
        now = self.now
        now.sums += 1
        total = self._ask()
        self._asked = read_request(total[-REQUESTS:])
        if not np.isfinite(total).all():
            now.end = "DIVERGED"
            return
        numbers, base = self._take(total)
        if self._met(numbers):
            now.end = "CONVERGED"
        elif self._watch(numbers):
            self._step(base)
        if not now.end and (now.sums >= self.max_sums or now.kappa > STEEPEST):
            now.end = "STALLED"

    def _choose(self) -> list[bool]:
        """Everybody chooses its face; whose has changed."""
        now, parts = self.now, zip(self.parts, self._split(self.x), strict=True)
        return [part.choose(x, now.lam, now.kappa) for part, x in parts]

    def _ask(self) -> Array:
        """One sum: whether a face has changed costs an agreement."""
        rows = np.array(self._choose(), dtype=float)[:, None]
        self._changed = bool(len(self.now.products) and self.runtime.total(rows)[0] > 0)
        for part in self.parts:
            part.aim(self.now.lam)
        return self._tell(self._changed)

    def _tell(self, changed: bool) -> Array:
        """Products of point, base and new direction, of the others if a face has changed."""
        now, rt, xs = self.now, self.runtime, self._split(self.x)
        p, count, ratios = rt.p, len(now.products), self._ratios()
        columns, damped = count * p if changed else 0, now.kappa > FIRM
        width = 3 * p + SCALARS + columns + half_size(count + 1) + count + 1 + REQUESTS
        lower = np.tril_indices(count + 1)

        def fill(rows: Array, out: Array) -> None:
            out[:] = 0.0
            for e, i in enumerate(rows):
                part, x = self.parts[i], xs[i]
                Q = part.restricted()
                bent = Q * part.P if part.P.ndim == 1 else Q @ part.P
                if damped:
                    bent = bent + (now.kappa / FIRM - 1.0) * (Q * part.diagonal)
                told = [part.A @ x, part.A @ part.base, part.A @ part.z]
                told += [np.array([*part.worth(x), ratios[i], float(ratios[i] > self.tol)])]
                told += [(part.A @ Q[:-1].T).T.ravel()] if changed else []
                told += [(bent @ Q.T)[lower], Q @ part.force()]
                out[e, :-REQUESTS] = np.concatenate(told)
                if i == 0 and self.request:
                    out[e, -REQUESTS + self.request - 1] = 1.0

        self.products += 3 + (count if changed else 0)
        return rt.total_of(width, fill)

    def _take(self, total: Array) -> tuple[Array, Array]:
        """Numbers of the point, product of the base; products and quadratic part on the faces."""
        now, p, count = self.now, self.runtime.p, len(self.now.products)
        start, now.at = 3 * p + SCALARS, total[:p].copy()
        numbers = total[3 * p : start]
        if self._changed:
            now.products = total[start : start + count * p].reshape(count, p).copy()
            start += count * p
            self.gram.forget()
        now.products = np.vstack([now.products, total[2 * p : 3 * p]])
        stop = start + half_size(count + 1)
        now.H, now.b = whole(total[start:stop], count + 1), total[stop:-REQUESTS].copy()
        for part in self.parts:
            part.directions = np.vstack([part.directions, part.z])
        return numbers, total[p : 2 * p]

    def _step(self, base: Array) -> None:
        """Solve the problem on the faces, move, and forget old directions where there are many."""
        now = self.now
        problem, self._base = self._problem(self._bend(), base), base
        zero = np.zeros(len(now.b))
        found = solve_known(self.h, problem, self.gram, zero, now.lam, now.sigma, self._accuracy())
        self._adopt(found)
        moved = [part.move(found.c) for part in self.parts]
        self.raw = np.concatenate(moved)
        parts = zip(self.parts, moved, strict=True)
        self.x = np.concatenate([part.clip(x) for part, x in parts])
        self._follow(found.c)
        if len(now.products) > self.memory and not now.end:
            kept = slice(len(now.products) // 2, None)
            now.products, now.b, now.H = now.products[kept], now.b[kept], now.H[kept, kept]
            self.gram.forget()
            for part in self.parts:
                part.directions = part.directions[kept]

    def _bend(self) -> Array:
        """The quadratic part of the problem on the faces."""
        return self.now.H

    # -- decisions --------------------------------------------------------------------------------
    def _met(self, numbers: Array) -> bool:
        """Whether agents and rows meet the tolerance at the present point."""
        now = self.now
        sums = RowSums(now.at, np.abs(now.at), np.abs(now.lam), np.ones_like(now.lam))
        now.rows = judge_rows(self.h, now.lam, sums, self.atol)[0]
        now.kkt = max(float(numbers[RATIO]), now.rows)
        return bool(numbers[FAILS] == 0 and now.rows <= self.tol)

    def _watch(self, numbers: Array) -> bool:
        """Judge the present point; whether the run goes on from it and not from another."""
        now = self.now
        if now.returned:  # it has been judged before
            now.returned = 0
            return True
        value = float(numbers[VALUE]) + price_of(self.h, now.at, now.lam)
        slack = 8.0 * EPS * (float(numbers[MAGNITUDE]) + abs(value))
        lower = value < now.lowest - slack
        if lower or (value <= now.lowest + slack and now.kkt < 0.9 * now.least):
            now.lowest, now.least = min(value, now.lowest), min(now.kkt, now.least)
            now.best_at, now.best_lam, self.best = now.at, now.lam, self.x.copy()
            now.kappa = max(now.kappa / LESS, 1.0)
            now.waited = now.guarded = 0
            self._gained()
            return True
        now.waited += 1
        return self._wait(value, slack)

    def _gained(self) -> None:
        """A new lowest objective."""

    def _wait(self, value: float, slack: float) -> bool:
        """Whether the run goes on from a point that is no better than the best."""
        now = self.now
        if now.guarded:
            self._shorten(value, slack)
            return False
        if now.waited >= PATIENCE:
            now.guarded, now.kappa = 1, MORE * now.kappa
            self._go_back()
            return False
        return True

    def _go_back(self) -> None:
        """To the best point, whose product is known: with a price that belongs to it."""
        now = self.now
        self.x, now.at = self.best.copy(), now.best_at
        now.lam, now.returned = slope_at(self.h, now.at, now.best_lam), 1

    def _shorten(self, value: float, slack: float) -> None:
        """The lowest of some points between the best one and the last step, if it is lower still.

        They lie on the ways to the present point and, as far as the faces reach, to what was
        clipped to it; their products are known.
        """
        now, rt = self.now, self.runtime
        ways = [(self.x - self.best, now.at - now.best_at)]
        ways += [(self.raw - self.best, now.s - now.best_at)]
        best = self._split(self.best)
        parts = list(zip(self.parts, best, self._split(ways[1][0]), strict=True))
        reach = -float(rt.largest(np.array([[-part.reach(*own)] for part, *own in parts]))[0])
        trials = [(t, *ways[0]) for t in SHARES] + [(t * reach, *ways[1]) for t in (1.0, *SHARES)]
        steps = [self._split(t * d) for t, d, _ in trials]
        rows = [
            [part.worth(best[i] + step[i])[0] for step in steps]
            for i, part in enumerate(self.parts)
        ]
        worth = rt.total(np.array(rows))
        merits = [
            float(w) + price_of(self.h, now.best_at + t * along, now.lam)
            for (t, _, along), w in zip(trials, worth, strict=True)
        ]
        chosen = int(np.argmin(merits))
        if merits[chosen] < now.lowest - slack:
            t, d, along = trials[chosen]
            now.lowest, now.waited, now.least = merits[chosen], 0, np.inf
            self.best, now.best_at, now.best_lam = (
                self.best + t * d,
                now.best_at + t * along,
                now.lam,
            )
        else:
            now.kappa *= SAME if value <= now.lowest + slack else MORE
        self._go_back()


def slope_at(h: Function, s: Array, lam: Array) -> Array:
    """∇h(s), or where h has kinks a subgradient near λ at a point near s.

    Examples
    --------
    >>> from dual2.functions import AbsoluteLoss
    >>> slope_at(AbsoluteLoss([0.0, 0.0]), np.array([2.0, 0.0]), np.array([0.5, 0.3])).tolist()
    [1.0, 0.3]
    """
    if is_smooth(h, len(s)):
        return h.grad(s)
    t = np.full(len(s), coupling_step(s, lam))
    v = s + t * lam
    return (v - h.prox(v, t)) / t


def price_of(h: Function, s: Array, lam: Array) -> float:
    """h(s); outside its domain h at the nearest point, and twice the price of the way.

    Examples
    --------
    >>> from dual2.functions import IndicatorAtMost
    >>> price_of(IndicatorAtMost([1.0]), np.array([3.0]), np.array([0.5]))
    2.0
    """
    if h.form is None:
        return float(h.value(s))
    y = np.clip(s, h.form.lower, h.form.upper)
    return inside_value(h, y) + 2.0 * float(np.abs(lam) @ np.abs(s - y))
