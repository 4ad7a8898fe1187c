"""Newton's method over exact sums of p-vectors alone, for many coupling rows.

Where f_i is quadratic, one sum brings the product Σ A_i z_i of one direction z = (z_1, …, z_n), and
it is kept. Everybody then solves the problem in the known directions alone, whatever h is (see
:mod:`.reduced`), and sees the price λ. Agents turn the gradient P_i x_i + q_i + A_iᵀλ into the
next direction by their own blocks of the second derivative. Every direction is independent of the
others, so that without rounding D + 1 of them suffice, D the number of all variables. Where the
residual falls so slowly that many more sums would be needed, or where they are cheap, a sum carries
several: beside the one of the gradient some at random, each as private as that.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from dual2.methods.newton.directions import DIRECTION, POINT, RECALL, REDUCED, Directions, Known
from dual2.methods.newton.factors import independent
from dual2.methods.newton.message import REQUESTS, cut, half_size, read_request, whole
from dual2.methods.newton.quadratics import Quadratics
from dual2.methods.newton.reduced import EPS

Array = np.ndarray
RATIO, FAILS, VARIABLES = range(3)
"""Numbers of the present point: the sum of the agents' stationarity ratios, how many of them exceed
the tolerance; and how many variables there are."""
SCALARS = 3
PLAIN, TRAIL, AHEAD, WIDER, WIDEST = 5, 3, 12, 4, 64
"""Sums that carry one direction each before the fall of the residual is judged, by so many of its
last values; where that promises more sums than the third, the next carries so many times as many
directions, up to the last."""
CHEAP = 20_000
"""Numbers of a message that take no longer than its way: so many are always sent."""
_IDLE, _RESTARTS = 2, 4
"""Directions in a row that may be nothing new; how often all begins anew at the present point."""


def is_slow(trail: Array, tol: float) -> bool:
    """Whether residuals fall so slowly that many more sums are ahead.

    Examples
    --------
    >>> is_slow(np.array([1e-2, 1e-4, 1e-6]), 1e-8), is_slow(np.array([3.0, 2.0, 1.0]), 1e-8)
    (False, True)
    """
    tol = max(tol, EPS)
    last = max(float(trail[-1]), tol)
    fall = np.log(max(float(trail[0]), tol) / last) / max(len(trail) - 1, 1)
    return bool(np.log(last / tol) > AHEAD * fall)


def _sizes(p: int, some: int, count: int) -> list[int]:
    """Lengths of a message's parts but the last, for some directions beside ``count`` known ones.

    Numbers of the point; of the directions the products, qᵀz, zᵀPz and lengths in the metric, both
    for each pair; zᵀPQ and the same in the metric.
    """
    return [SCALARS, some * p, some, *2 * [half_size(some)], *2 * [some * count]]


class Primal(Directions[Known, Quadratics]):
    """The mode without kinks and bounds."""

    known = Known
    part = Quadratics
    _spanned = False
    """Whether one of the last directions was nothing new."""
    _room = np.empty((0, 0))
    """Where the products are, with room behind them."""

    def _accuracy(self) -> float:
        whole = self._spanned or len(self.now.c) >= self.now.variables
        return max(REDUCED * self.tol, 1e-14) if whole else super()._accuracy()

    def reconsider(self) -> None:
        """Go on after an end to which the definitions did not consent: from the point itself."""
        self.now.end = ""
        self._restart()

    def _sum(self) -> None:
        """One sum, and what follows from it."""
        now = self.now
        now.sums += 1
        if now.phase == RECALL:
            self._remember()
            return
        z, total = self._ask()
        self._asked = read_request(total[-REQUESTS:])
        if not np.isfinite(total).all():
            now.end = "DIVERGED"
            return
        now.variables = round(float(total[VARIABLES]))
        if now.phase == POINT:
            self._forget_directions()
        elif self._met(total[:SCALARS]):
            now.end = "CONVERGED"
            return
        now.phase = DIRECTION
        self._append(z, total)
        self._resolve()
        if not now.end and self._spanned and now.rows > self.tol:
            self._examine()
        if not now.end and now.sums >= self.max_sums:
            now.end = "STALLED"

    # -- directions of an earlier run -------------------------------------------------------------
    def recall(self, state: Mapping[str, Any]) -> bool:
        """Begin with the directions of an earlier run with the same A_i, whose products are known.

        Those of :mod:`.faces` are no such pairs: there, products are of what is free of them.
        """
        products, directions = (np.array(state[name]) for name in ("products", "directions"))
        fits = len(directions) == len(products) <= self.memory and "free" not in state
        if fits:
            self.now.products, self.now.phase = products, RECALL
            self._spread(directions)
        return fits

    def _remember(self) -> None:
        """One sum: lengths of the known directions, the quadratic part in them, and x along them.

        They are made orthonormal in the metric; if they no longer are independent in it, all begins
        anew at x.
        """
        now, rt, xs = self.now, self.runtime, self._split(self.x)
        count, half = len(now.products), half_size(len(now.products))
        cuts, lower = np.cumsum([SCALARS, count, count, half, half]), np.tril_indices(count)

        def fill(rows: Array, out: Array) -> None:
            out[:] = 0.0
            for e, i in enumerate(rows):
                part, Q = self.parts[i], self.parts[i].directions
                head, tilts, along, bends, lengths, asked = cut(out[e], cuts)
                long = part.measure(Q)
                head[VARIABLES], tilts[:], along[:] = part.rank, Q @ part.q, long @ xs[i]
                bends[:], lengths[:] = (Q @ part.bend(Q).T)[lower], (Q @ long.T)[lower]
                if i == 0 and self.request:
                    asked[self.request - 1] = 1.0

        total = rt.total_of(int(cuts[-1]) + REQUESTS, fill, least=1)
        head, tilts, along, bends, lengths, asked = cut(total, cuts)
        self._asked, now.variables = read_request(asked), round(float(head[VARIABLES]))
        kept, factor = independent(whole(lengths, count), np.zeros((count, 0)))
        now.phase = DIRECTION
        if len(kept) < count or not np.isfinite(total).all():
            now.phase = POINT if rt.anywhere(self.x) else DIRECTION
            self._forget_directions()
            return
        turn = np.linalg.inv(factor)
        now.H, now.b, now.c = turn @ whole(bends, count) @ turn.T, turn @ tilts, turn @ along
        now.products = turn @ now.products
        for part in self.parts:
            part.directions = turn @ part.directions
        self._resolve()

    # -- the sum ----------------------------------------------------------------------------------
    def _ask(self) -> tuple[Array, Array]:
        """The next directions (or the point itself), and the sum of what agents tell about them."""
        now, rt, xptr = self.now, self.runtime, self.runtime.block.xptr
        fresh = now.phase == POINT
        count, some = (0, 1) if fresh else (len(now.c), self._some())
        z, ratios = np.empty((some, len(self.x))), np.zeros(rt.n) if fresh else self._ratios()
        cuts, lower = np.cumsum(_sizes(rt.p, some, count)), np.tril_indices(some)

        def fill(rows: Array, out: Array) -> None:
            for e, i in enumerate(rows):
                part, own = self.parts[i], slice(xptr[i], xptr[i + 1])
                z[:, own] = self.x[own] if fresh else self._directions(i, self.x[own], some)
                Z, Q = z[:, own], part.directions[:count]
                bent, long = part.bend(Z), part.measure(Z)
                head, products, tilts, bends, lengths, across, along, asked = cut(out[e], cuts)
                head[:] = ratios[i], ratios[i] > self.tol, part.rank
                part.products(Z, products.reshape(some, -1))
                np.matmul(Z, part.q, out=tilts)
                bends[:], lengths[:] = (Z @ bent.T)[lower], (Z @ long.T)[lower]
                np.matmul(bent, Q.T, out=across.reshape(some, count))
                np.matmul(long, Q.T, out=along.reshape(some, count))
                asked[:] = 0.0
                if i == 0 and self.request:
                    asked[self.request - 1] = 1.0

        total = rt.total_of(int(cuts[-1]) + REQUESTS, fill, least=1)
        self.products += some
        return z, total

    def _some(self) -> int:
        """Directions of the next sum: random ones are of use only if all can be had."""
        now = self.now
        if now.variables > self.memory:
            return 1
        if now.sums > PLAIN and is_slow(now.trail, self.tol):
            now.wide = min(WIDER * now.wide, WIDEST)
        wide = max(now.wide, CHEAP // self.runtime.p)
        return max(1, min(wide, now.variables - len(now.c)))

    def _directions(self, i: int, x: Array, some: int) -> Array:
        """An agent's parts of the next directions: of the gradient, then random ones."""
        now, part = self.now, self.parts[i]
        found = part.solve(part.gradient(x, now.lam))[None]
        if some == 1:
            return found
        return np.vstack([found, part.sample(part.draws(now.sums), some - 1)])

    def _met(self, numbers: Array) -> bool:
        """Whether agents and rows meet the tolerance at the present point."""
        now = self.now
        now.kkt = max(float(numbers[RATIO]), now.rows)
        now.trail = np.append(now.trail, now.kkt)[-TRAIL:]
        return bool(numbers[FAILS] == 0 and now.rows <= self.tol)

    # -- directions -------------------------------------------------------------------------------
    def _forget_directions(self) -> None:
        now, none = self.now, np.zeros(0)
        now.c, now.b, now.H, now.products = none, none, np.zeros((0, 0)), now.products[:0]
        self._room = now.products  # a saved state may have what was there
        self._spread(np.zeros((0, len(self.x))))
        self.gram.forget()

    def _append(self, z: Array, total: Array) -> None:
        """Keep what is new in the directions: orthogonal to the others, of length one.

        With T their products with the known directions Q in the metric and L the factor of their
        products with each other less TTᵀ, the new ones are L⁻¹(z - TQ).
        """
        now, some = self.now, len(z)
        cuts = np.cumsum(_sizes(self.runtime.p, some, len(now.c)))
        _, products, tilts, bends, lengths, across, along, _ = cut(total, cuts)
        along = along.reshape(some, -1)
        kept, factor = independent(whole(lengths, some), along)
        self._spanned = len(kept) < some
        if not len(kept) or kept[0] > 0:
            self._idle()
        if len(kept):
            now.idle = now.idle if kept[0] > 0 else 0
            turn, T, bends = np.linalg.inv(factor), along[kept], whole(bends, some)
            back = turn @ T
            self._extend(turn, T, bends[np.ix_(kept, kept)], across.reshape(some, -1)[kept])
            now.b = np.append(now.b, turn @ tilts[kept] - back @ now.b)
            now.c = np.append(now.c, np.zeros(len(kept)))
            products = products.reshape(some, -1)
            self._keep(products if len(kept) == some else products[kept], turn, back)
            for part, own in zip(self.parts, self._split(z[kept]), strict=True):
                part.keep(turn @ own - back @ part.directions)
        if len(now.c) > self.memory:
            self._merge()

    def _extend(self, turn: Array, T: Array, bends: Array, across: Array) -> None:
        """The quadratic part in L⁻¹(z - TQ): zᵀPz and zᵀPQ are known, ``turn`` is L⁻¹."""
        H, old = self.now.H, len(self.now.H)
        side = across @ T.T
        own = turn @ (bends - side - side.T + T @ H @ T.T) @ turn.T
        new = np.empty((old + len(T), old + len(T)))
        new[:old, :old], new[old:, old:] = H, 0.5 * (own + own.T)
        new[old:, :old] = turn @ (across - T @ H)
        new[:old, old:] = new[old:, :old].T
        self.now.H = new

    def _keep(self, products: Array, turn: Array, back: Array) -> None:
        """Products of ``turn`` times directions less ``back`` times the known ones, beside these.

        They stay in their place while there is room behind them.
        """
        now, count = self.now, len(self.now.products)
        need = count + len(products)
        if now.products.base is not self._room or len(self._room) < need:
            most = min(now.variables, self.memory + 1)
            self._room = np.empty((max(need, most), self.runtime.p))
            self._room[:count] = now.products
        np.matmul(turn, products, out=self._room[count:need])
        if count:
            self._room[count:need] -= back @ now.products
        now.products = self._room[:need]

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
