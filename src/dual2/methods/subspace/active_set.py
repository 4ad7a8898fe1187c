"""The primal mode with kinks and bounds in the g_i: l1 norms, boxes, elastic nets.

On the face where an iterate lies, g_i is linear, and the problem is that of :mod:`.smooth` with the
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

from dual2.functions.derivatives import prox_jacobian
from dual2.functions.piecewise import PiecewiseQuadratic
from dual2.methods.message import REQUESTS, read_request, symmetric, triangle_size
from dual2.methods.run_status import RunStatus
from dual2.methods.subspace.penalty import penalised_value, subgradient_at
from dual2.methods.subspace.quadratic_agent import QuadraticAgent
from dual2.methods.subspace.subspace_method import SubspaceMethod, SubspacePhase, SubspaceState
from dual2.methods.subspace.subspace_pmm import solve_with_fallbacks
from dual2.methods.subspace.subspace_problem import EPS
from dual2.problem import Agent
from dual2.problem.screening import RowSums, judge_rows

Array = np.ndarray
VALUE, MAGNITUDE, POINT_STATIONARITY, POINT_VIOLATIONS = range(4)
"""Numbers of the present point: Σ f_i + g_i, the magnitudes of its terms, the sum of the agents'
stationarity ratios, how many of them exceed the tolerance."""
POINT_SCALARS = 4
MAX_WORSE_POINTS = 6
"""Points without a new lowest objective before the run goes back."""
STEP_FRACTIONS = (0.5, 0.2, 0.05, 0.01, 1e-3, 1e-4)
"""Parts of a step that are tried in guarded mode."""
KAPPA_DECREASE, KAPPA_INCREASE, KAPPA_STALL, MAX_KAPPA = 3.0, 10.0, 3.0, 1e12
"""κ is divided by the first after a new lowest objective, multiplied by the second on a return, by
the third where a step changes nothing; beyond the last a run has stalled."""
DAMPING_KAPPA = 10.0
"""κ above which it damps the steps as well."""


class FaceAgent(QuadraticAgent):
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

    def restore_face(self, free: Array) -> None:
        """The coordinates that moved last, of a saved run."""
        self.free = free

    def aim(self, lam: Array) -> None:
        """The next direction, on the face."""
        self.z = self.solve_on(self.free, self.base_gradient() + self.ATy(lam))

    def base_gradient(self) -> Array:
        """The gradient of f + g at the base, on the linear piece of g."""
        return self.hess_product(self.base) + self.q + self.slope

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

    def max_fraction(self, x: Array, d: Array) -> float:
        """The largest t <= 1 for which x + td does not leave the face, where x lies in it."""
        moving = self.free & (d != 0) & (self.low <= x) & (x <= self.high)
        room = np.where(d > 0, self.high - x, self.low - x)[moving] / d[moving]
        return float(room.min(initial=1.0))

    def objective(self, x: Array) -> tuple[float, float]:
        """f + g at x, up to a constant, and the magnitudes of its terms."""
        kinks = float(self.kinks.value(x))
        parts = 0.5 * float(x @ self.hess_product(x)), float(self.q @ x), kinks
        return sum(parts), sum(map(abs, parts))


@dataclass(frozen=True)
class ActiveSetState(SubspaceState):
    """Also the present and the lowest objective, and the products of both points.

    ``kappa`` shortens proximal steps, ``worse_points`` counts points without a new lowest
    objective.
    """

    at: Array = field(default_factory=lambda: np.zeros(0))
    best_at: Array = field(default_factory=lambda: np.zeros(0))
    best_lam: Array = field(default_factory=lambda: np.zeros(0))
    lowest: float = np.inf
    least: float = np.inf
    kappa: float = 1.0
    worse_points: int = 0
    guarded: bool = False
    returned: bool = False


K = TypeVar("K", bound=ActiveSetState)


class ActiveSetSubspace(SubspaceMethod[K, FaceAgent], Generic[K]):
    """The method on one block of agents some of which have kinks or bounds."""

    state_type: type[Any] = ActiveSetState
    part = FaceAgent
    _changed = False

    # -- start, save, restore ---------------------------------------------------------------------
    def start(self, x: Array, lam: Array) -> None:
        """Begin from the point of the domain that is nearest to x (flat), and λ (n, p)."""
        zero = np.zeros(self.runtime.p)
        super().start(x, lam)
        self._update(phase=SubspacePhase.DIRECTION)
        self._update(at=zero, best_at=zero, best_lam=self.current.lam)
        parts = zip(self.parts, self._split(x), strict=True)
        self.x = np.concatenate([part.kinks.prox(own, 1.0) for part, own in parts])
        self.best, self.raw = self.x.copy(), self.x.copy()
        for part in self.parts:
            part.restore_face(np.zeros(len(part.q), dtype=bool))

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
            part.restore_face(free > 0)

    def on_certificate_rejected(self) -> None:
        """Go on after an end to which the definitions did not consent."""
        self._update(status=RunStatus.RUNNING, restarts=self.current.restarts + 1)

    # -- the loop ---------------------------------------------------------------------------------
    def _sum(self) -> None:
        """One sum, and what follows from it."""
        self._update(sums=self.current.sums + 1)
        total = self._sum_point()
        self._asked = read_request(total[-REQUESTS:])
        if not np.isfinite(total).all():
            self._update(status=RunStatus.DIVERGED)
            return
        numbers, base = self._read_sum(total)
        if self._is_met(numbers):
            self._update(status=RunStatus.CONVERGED)
        elif self._watchdog(numbers):
            self._step(base)
        if not self.current.status and (
            self.current.sums >= self.max_sums or self.current.kappa > MAX_KAPPA
        ):
            self._update(status=RunStatus.STALLED)

    def _choose(self) -> list[bool]:
        """Every process chooses its face; whose has changed."""
        parts = zip(self.parts, self._split(self.x), strict=True)
        return [part.choose(x, self.current.lam, self.current.kappa) for part, x in parts]

    def _sum_point(self) -> Array:
        """One sum: whether a face has changed costs an agreement."""
        rows = np.array(self._choose(), dtype=float)[:, None]
        self._changed = bool(len(self.current.products) and self.runtime.allreduce_sum(rows)[0] > 0)
        for part in self.parts:
            part.aim(self.current.lam)
        return self._sum_faces(self._changed)

    def _sum_faces(self, changed: bool) -> Array:
        """Products of point, base and new direction, of the others if a face has changed."""
        rt, xs = self.runtime, self._split(self.x)
        p, count, ratios = rt.p, len(self.current.products), self._ratios()
        columns, damped = count * p if changed else 0, self.current.kappa > DAMPING_KAPPA
        width = 3 * p + POINT_SCALARS + columns + triangle_size(count + 1) + count + 1 + REQUESTS
        lower = np.tril_indices(count + 1)

        def fill(rows: Array, out: Array) -> None:
            out[:] = 0.0
            for e, i in enumerate(rows):
                part, x = self.parts[i], xs[i]
                Q = part.restricted()
                bent = Q * part.P if part.P.ndim == 1 else Q @ part.P
                if damped:
                    bent = bent + (self.current.kappa / DAMPING_KAPPA - 1.0) * (Q * part.diagonal)
                parts_of = [part.A @ x, part.A @ part.base, part.A @ part.z]
                parts_of += [np.array([*part.objective(x), ratios[i], float(ratios[i] > self.tol)])]
                parts_of += [(part.A @ Q[:-1].T).T.ravel()] if changed else []
                parts_of += [(bent @ Q.T)[lower], Q @ part.base_gradient()]
                out[e, :-REQUESTS] = np.concatenate(parts_of)
                if i == 0 and self.request:
                    out[e, -REQUESTS + self.request - 1] = 1.0

        self.products += 3 + (count if changed else 0)
        return rt.allreduce_filled(width, fill)

    def _read_sum(self, total: Array) -> tuple[Array, Array]:
        """Numbers of the point, product of the base; products and quadratic part on the faces."""
        p, count = self.runtime.p, len(self.current.products)
        start = 3 * p + POINT_SCALARS
        self._update(at=total[:p].copy())
        numbers = total[3 * p : start]
        if self._changed:
            self._update(products=total[start : start + count * p].reshape(count, p).copy())
            start += count * p
            self.gram.reset()
        self._update(products=np.vstack([self.current.products, total[2 * p : 3 * p]]))
        stop = start + triangle_size(count + 1)
        self._update(H=symmetric(total[start:stop], count + 1), b=total[stop:-REQUESTS].copy())
        for part in self.parts:
            part.keep(part.z)
        return numbers, total[p : 2 * p]

    def _step(self, base: Array) -> None:
        """Solve the problem on the faces, move, and forget old directions where there are many."""
        problem, self._base = self._problem(self._bend(), base), base
        zero = np.zeros(len(self.current.b))
        found = solve_with_fallbacks(
            self.h, problem, self.gram, zero, self.current.lam, self.current.sigma, self._accuracy()
        )
        self._adopt(found)
        moved = [part.move(found.c) for part in self.parts]
        self.raw = np.concatenate(moved)
        parts = zip(self.parts, moved, strict=True)
        self.x = np.concatenate([part.clip(x) for part, x in parts])
        self._check_unbounded(found.c)
        if len(self.current.products) > self.memory and not self.current.status:
            kept = slice(len(self.current.products) // 2, None)
            self._update(
                products=self.current.products[kept],
                b=self.current.b[kept],
                H=self.current.H[kept, kept],
            )
            self.gram.reset()
            for part in self.parts:
                part.replace_directions(part.directions[kept])

    def _bend(self) -> Array:
        """The quadratic part of the problem on the faces."""
        return self.current.H

    # -- decisions --------------------------------------------------------------------------------
    def _is_met(self, numbers: Array) -> bool:
        """Whether agents and rows meet the tolerance at the present point."""
        sums = RowSums(
            self.current.at,
            np.abs(self.current.at),
            np.abs(self.current.lam),
            np.ones_like(self.current.lam),
        )
        self._update(rows=judge_rows(self.h, self.current.lam, sums, self.atol)[0])
        self._update(kkt=max(float(numbers[POINT_STATIONARITY]), self.current.rows))
        return bool(numbers[POINT_VIOLATIONS] == 0 and self.current.rows <= self.tol)

    def _watchdog(self, numbers: Array) -> bool:
        """Judge the present point; whether the run goes on from it and not from another."""
        if self.current.returned:  # it has been judged before
            self._update(returned=False)
            return True
        value = float(numbers[VALUE]) + penalised_value(self.h, self.current.at, self.current.lam)
        slack = 8.0 * EPS * (float(numbers[MAGNITUDE]) + abs(value))
        lower = value < self.current.lowest - slack
        if lower or (
            value <= self.current.lowest + slack and self.current.kkt < 0.9 * self.current.least
        ):
            self._update(
                lowest=min(value, self.current.lowest),
                least=min(self.current.kkt, self.current.least),
            )
            self.best = self.x.copy()
            self._update(best_at=self.current.at, best_lam=self.current.lam)
            self._update(kappa=max(self.current.kappa / KAPPA_DECREASE, 1.0))
            self._update(worse_points=0, guarded=False)
            self._on_new_best()
            return True
        self._update(worse_points=self.current.worse_points + 1)
        return self._tolerate_worse(value, slack)

    def _on_new_best(self) -> None:
        """A new lowest objective."""

    def _tolerate_worse(self, value: float, slack: float) -> bool:
        """Whether the run goes on from a point that is no better than the best."""
        if self.current.guarded:
            self._shorten(value, slack)
            return False
        if self.current.worse_points >= MAX_WORSE_POINTS:
            self._update(guarded=True, kappa=KAPPA_INCREASE * self.current.kappa)
            self._go_back()
            return False
        return True

    def _go_back(self) -> None:
        """To the best point, whose product is known: with a multiplier that belongs to it."""
        self.x = self.best.copy()
        self._update(at=self.current.best_at)
        self._update(
            lam=subgradient_at(self.h, self.current.at, self.current.best_lam), returned=True
        )

    def _shorten(self, value: float, slack: float) -> None:
        """The lowest of some points between the best one and the last step, if it is lower still.

        They lie on the ways to the present point and, as far as the faces reach, to what was
        clipped to it; their products are known.
        """
        rt = self.runtime
        segments = [(self.x - self.best, self.current.at - self.current.best_at)]
        segments += [(self.raw - self.best, self.current.s - self.current.best_at)]
        best = self._split(self.best)
        parts = list(zip(self.parts, best, self._split(segments[1][0]), strict=True))
        max_fraction = -float(
            rt.allreduce_max(np.array([[-part.max_fraction(*own)] for part, *own in parts]))[0]
        )
        trials = [(t, *segments[0]) for t in STEP_FRACTIONS] + [
            (t * max_fraction, *segments[1]) for t in (1.0, *STEP_FRACTIONS)
        ]
        steps = [self._split(t * d) for t, d, _ in trials]
        rows = [
            [part.objective(best[i] + step[i])[0] for step in steps]
            for i, part in enumerate(self.parts)
        ]
        objective = rt.allreduce_sum(np.array(rows))
        merits = [
            float(w) + penalised_value(self.h, self.current.best_at + t * along, self.current.lam)
            for (t, _, along), w in zip(trials, objective, strict=True)
        ]
        chosen = int(np.argmin(merits))
        if merits[chosen] < self.current.lowest - slack:
            t, d, along = trials[chosen]
            self._update(lowest=merits[chosen], worse_points=0, least=np.inf)
            self.best = self.best + t * d
            self._update(best_at=self.current.best_at + t * along, best_lam=self.current.lam)
        else:
            self._update(
                kappa=self.current.kappa
                * (KAPPA_STALL if value <= self.current.lowest + slack else KAPPA_INCREASE)
            )
        self._go_back()
