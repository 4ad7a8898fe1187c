"""Newton's method over exact sums of p-vectors alone, for many coupling rows.

Where f_i is quadratic, one sum brings the product Σ A_i z_i of one direction z = (z_1, …, z_n), and
it is kept. Everybody then solves the problem in the known directions alone, whatever h is (see
:mod:`.reduced`), and sees the price λ. Agents turn the gradient P_i x_i + q_i + A_iᵀλ into the
next direction by their own blocks of the second derivative. Every direction is independent of the
others, so that without rounding D + 1 sums suffice, D the number of all variables.
"""

import numpy as np

from dual2.methods.newton.directions import DIRECTION, POINT, Directions, Known
from dual2.methods.newton.message import REQUESTS, read_request
from dual2.methods.newton.quadratics import Quadratics

Array = np.ndarray
BEND, LENGTH, TILT, RATIO, FAILS = range(5)
"""Numbers of a direction: zᵀPz, its squared length in the agents' metric, qᵀz; and of the present
point: the sum of the agents' stationarity ratios, how many of them exceed the tolerance."""
SCALARS = 5
DEPENDENT = 1e-13
"""Squared length of what is new in a direction, relative to its own, below which it is rounding."""
_IDLE, _RESTARTS = 2, 4
"""Directions in a row that may be nothing new; how often all begins anew at the present point."""


class Primal(Directions[Known, Quadratics]):
    """The mode without kinks and bounds."""

    known = Known
    part = Quadratics

    def reconsider(self) -> None:
        """Go on after an end to which the definitions did not consent: from the point itself."""
        self.now.end = ""
        self._restart()

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
        self.products += 1
        return z, total

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
