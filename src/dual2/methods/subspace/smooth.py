"""Newton's method over exact sums of p-vectors alone, for many coupling rows.

Where f_i is quadratic, one sum brings the product Σ A_i z_i of one direction z = (z_1, …, z_n), and
it is kept. Every process then solves the problem in the known directions alone, whatever h is (see
:mod:`.subspace_problem`), and sees the multiplier λ. Agents turn the gradient P_i x_i + q_i + A_iᵀλ
into the next direction by their own blocks of the second derivative. Every direction is independent
of the others, so that without rounding D + 1 of them suffice, D the number of all variables. Where
the residual falls so slowly that many more sums would be needed, or where they are cheap, a sum
carries several: beside the one of the gradient some at random, each as private as that.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from dual2.methods.message import REQUESTS, read_request, split_at, symmetric, triangle_size
from dual2.methods.run_status import RunStatus
from dual2.methods.subspace.cholesky import independent
from dual2.methods.subspace.quadratic_agent import QuadraticAgent
from dual2.methods.subspace.subspace_method import (
    SUBSPACE_RTOL,
    SubspaceMethod,
    SubspacePhase,
    SubspaceState,
)
from dual2.methods.subspace.subspace_problem import EPS, weigh

Array = np.ndarray
POINT_STATIONARITY, POINT_VIOLATIONS, VARIABLES = range(3)
"""Numbers of the present point: the sum of the agents' stationarity ratios, how many of them exceed
the tolerance; and how many variables there are."""
POINT_SCALARS = 3
PLAIN_SUMS, TRAIL_LENGTH, MAX_SUMS_AHEAD, WIDTH_GROWTH, MAX_WIDTH = 5, 3, 12, 4, 64
"""Sums that carry one direction each before the fall of the residual is judged, by so many of its
last values; where that promises more sums than the third, the next carries so many times as many
directions, up to the last."""
CHEAP_NUMBERS = 20_000
"""Numbers of a message that take no longer than its way: so many are always sent."""
VANISHING = 1e-18
"""Squared length of a product, where the direction has length one in the metric of the first second
derivatives, below which it is rounding."""
_MAX_IDLE, _MAX_RESTARTS = 2, 4
"""Directions in a row that may be nothing new; how often the run restarts at the present point."""


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
    return bool(np.log(last / tol) > MAX_SUMS_AHEAD * fall)


def _sizes(p: int, some: int, count: int) -> list[int]:
    """Lengths of a message's parts but the last, for some directions beside ``count`` known ones.

    Numbers of the point; of the directions the products, qᵀz, zᵀPz and lengths in the metric, both
    for each pair; zᵀPQ and the same in the metric.
    """
    return [POINT_SCALARS, some * p, some, *2 * [triangle_size(some)], *2 * [some * count]]


class Primal(SubspaceMethod[SubspaceState, QuadraticAgent]):
    """The mode without kinks and bounds."""

    state_type = SubspaceState
    part = QuadraticAgent
    _spanned = False
    """Whether one of the last directions was nothing new."""
    _buffer = np.empty((0, 0))
    """Where the products are, with room behind them."""

    def _accuracy(self) -> float:
        symmetric = self._spanned or len(self.current.c) >= self.current.variables
        return max(SUBSPACE_RTOL * self.tol, 1e-14) if symmetric else super()._accuracy()

    def on_certificate_rejected(self) -> None:
        """Go on after an end to which the definitions did not consent: from the point itself."""
        self._update(status=RunStatus.RUNNING)
        self._restart()

    def _sum(self) -> None:
        """One sum, and what follows from it."""
        self._update(sums=self.current.sums + 1)
        if self.current.phase == SubspacePhase.RECALL:
            self._sum_recalled()
            return
        z, total = self._sum_directions()
        self._asked = read_request(total[-REQUESTS:])
        if not np.isfinite(total).all():
            self._update(status=RunStatus.DIVERGED)
            return
        self._update(variables=round(float(total[VARIABLES])))
        if self.current.phase == SubspacePhase.POINT:
            self._forget_directions()
        elif self._is_met(total[:POINT_SCALARS]):
            self._update(status=RunStatus.CONVERGED)
            return
        self._update(phase=SubspacePhase.DIRECTION)
        self._append(z, total)
        self._solve_subspace()
        if not self.current.status and self._spanned and self.current.rows > self.tol:
            self._check_infeasible()
        if not self.current.status and self.current.sums >= self.max_sums:
            self._update(status=RunStatus.STALLED)

    # -- directions of an earlier run -------------------------------------------------------------
    def recall(self, state: Mapping[str, Any]) -> bool:
        """Begin with the directions of an earlier run with the same A_i, whose products are known.

        Those of :mod:`.active_set` are no such pairs: there, products are of what is free of them.
        """
        products, directions = (np.array(state[name]) for name in ("products", "directions"))
        fits = len(directions) == len(products) <= self.memory and "free" not in state
        if fits:
            self._update(products=products, phase=SubspacePhase.RECALL)
            self._split_directions(directions)
        return fits

    def _sum_recalled(self) -> None:
        """One sum: lengths of the known directions, the quadratic part in them, and x along them.

        They are made orthonormal in the metric; if they no longer are independent in it, all begins
        again at x.
        """
        rt, xs = self.runtime, self._split(self.x)
        count, half = len(self.current.products), triangle_size(len(self.current.products))
        cuts, lower = np.cumsum([POINT_SCALARS, count, count, half, half]), np.tril_indices(count)

        def fill(rows: Array, out: Array) -> None:
            out[:] = 0.0
            for e, i in enumerate(rows):
                part, Q = self.parts[i], self.parts[i].directions
                head, tilts, along, bends, lengths, asked = split_at(out[e], cuts)
                long = part.metric_product(Q)
                head[VARIABLES], tilts[:], along[:] = part.rank, Q @ part.q, long @ xs[i]
                bends[:], lengths[:] = (Q @ part.hess_product(Q).T)[lower], (Q @ long.T)[lower]
                if i == 0 and self.request:
                    asked[self.request - 1] = 1.0

        total = rt.allreduce_filled(int(cuts[-1]) + REQUESTS, fill, least=1)
        head, tilts, along, bends, lengths, asked = split_at(total, cuts)
        self._asked = read_request(asked)
        self._update(variables=round(float(head[VARIABLES])))
        kept, factor = independent(symmetric(lengths, count), np.zeros((count, 0)))
        self._update(phase=SubspacePhase.DIRECTION)
        if len(kept) < count or not np.isfinite(total).all():
            self._update(
                phase=SubspacePhase.POINT if rt.anywhere(self.x) else SubspacePhase.DIRECTION
            )
            self._forget_directions()
            return
        turn = np.linalg.inv(factor)
        self._update(H=turn @ symmetric(bends, count) @ turn.T, b=turn @ tilts, c=turn @ along)
        self._update(products=turn @ self.current.products)
        for part in self.parts:
            part.replace_directions(turn @ part.directions)
        self._solve_subspace()

    # -- the sum ----------------------------------------------------------------------------------
    def _sum_directions(self) -> tuple[Array, Array]:
        """The next directions (or the point itself), and the sum of what agents tell about them."""
        rt, xptr = self.runtime, self.runtime.block.xptr
        fresh = self.current.phase == SubspacePhase.POINT
        count, some = (0, 1) if fresh else (len(self.current.c), self._width())
        z, ratios = np.empty((some, len(self.x))), np.zeros(rt.n) if fresh else self._ratios()
        cuts, lower = np.cumsum(_sizes(rt.p, some, count)), np.tril_indices(some)

        def fill(rows: Array, out: Array) -> None:
            for e, i in enumerate(rows):
                part, own = self.parts[i], slice(xptr[i], xptr[i + 1])
                z[:, own] = self.x[own] if fresh else self._directions(i, self.x[own], some)
                Z, Q = z[:, own], part.directions[:count]
                bent, long = part.hess_product(Z), part.metric_product(Z)
                head, products, tilts, bends, lengths, across, along, asked = split_at(out[e], cuts)
                head[:] = ratios[i], ratios[i] > self.tol, part.rank
                part.products(Z, products.reshape(some, -1))
                np.matmul(Z, part.q, out=tilts)
                bends[:], lengths[:] = (Z @ bent.T)[lower], (Z @ long.T)[lower]
                np.matmul(bent, Q.T, out=across.reshape(some, count))
                np.matmul(long, Q.T, out=along.reshape(some, count))
                asked[:] = 0.0
                if i == 0 and self.request:
                    asked[self.request - 1] = 1.0

        total = rt.allreduce_filled(int(cuts[-1]) + REQUESTS, fill, least=1)
        self.products += some
        return z, total

    def _width(self) -> int:
        """Directions of the next sum: random ones are of use only if all can be had."""
        if self.current.variables > self.memory:
            return 1
        if self.current.sums > PLAIN_SUMS and is_slow(self.current.trail, self.tol):
            self._update(wide=min(WIDTH_GROWTH * self.current.wide, MAX_WIDTH))
        wide = max(self.current.wide, CHEAP_NUMBERS // self.runtime.p)
        return max(1, min(wide, self.current.variables - len(self.current.c)))

    def _directions(self, i: int, x: Array, some: int) -> Array:
        """An agent's parts of the next directions: of the gradient, then random ones."""
        part = self.parts[i]
        found = part.solve(part.gradient(x, self.current.lam))[None]
        if some == 1:
            return found
        return np.vstack([found, part.sample(part.generator(self.current.sums), some - 1)])

    def _is_met(self, numbers: Array) -> bool:
        """Whether agents and rows meet the tolerance at the present point."""
        self._update(kkt=max(float(numbers[POINT_STATIONARITY]), self.current.rows))
        self._update(trail=np.append(self.current.trail, self.current.kkt)[-TRAIL_LENGTH:])
        return bool(numbers[POINT_VIOLATIONS] == 0 and self.current.rows <= self.tol)

    # -- directions -------------------------------------------------------------------------------
    def _forget_directions(self) -> None:
        none = np.zeros(0)
        self._update(c=none, b=none, H=np.zeros((0, 0)), products=self.current.products[:0])
        self._buffer = self.current.products  # a saved state may have what was there
        self._split_directions(np.zeros((0, len(self.x))))
        self.gram.reset()

    def _append(self, z: Array, total: Array) -> None:
        """Keep what is new in the directions: orthogonal to the others, of length one.

        With T their products with the known directions Q in the metric and L the factor of their
        products with each other less TTᵀ, the new ones are L⁻¹(z - TQ).
        """
        some = len(z)
        cuts = np.cumsum(_sizes(self.runtime.p, some, len(self.current.c)))
        _, products, tilts, bends, lengths, across, along, _ = split_at(total, cuts)
        along = along.reshape(some, -1)
        kept, factor = independent(symmetric(lengths, some), along)
        self._spanned = len(kept) < some
        if not len(kept) or kept[0] > 0:
            self._on_dependent()
        if len(kept):
            self._update(idle=self.current.idle if kept[0] > 0 else 0)
            turn, T, bends = np.linalg.inv(factor), along[kept], symmetric(bends, some)
            bends, products = bends[np.ix_(kept, kept)], products.reshape(some, -1)[kept]
            moves = self._moves(turn, T, (products, tilts[kept], bends))
            self._spanned |= not moves.all()
            turn = turn[moves]
            back = turn @ T
            self._extend_hessian(turn, T, bends, across.reshape(some, -1)[kept])
            self._update(b=np.append(self.current.b, turn @ tilts[kept] - back @ self.current.b))
            self._update(c=np.append(self.current.c, np.zeros(len(turn))))
            self._extend_products(products, turn, back)
            for part, own in zip(self.parts, self._split(z[kept]), strict=True):
                part.keep(turn @ own - back @ part.directions)
        if len(self.current.c) > self.memory:
            self._merge()

    def _moves(self, turn: Array, T: Array, new: tuple[Array, Array, Array]) -> Array:
        """Which of the new directions change the objective by more than rounding.

        Columns of several agents may depend on one another: their combinations have no products,
        and a coefficient along rounding could have any size. A loss with kinks may not bend at all
        in the metric: there all directions are kept.
        """
        if not self.gram.is_smooth(self.h, self.runtime.p):
            return np.ones(len(turn), dtype=bool)
        (products, tilts, bends) = new
        back = turn @ T
        S = turn @ products - back @ self.current.products
        lengths = np.einsum("kj,kj->k", weigh(S, self.current.metric), S)
        slopes = turn @ tilts - back @ self.current.b
        curvatures = np.einsum("kj,kj->k", turn @ bends, turn)
        return (lengths > VANISHING) | (slopes != 0.0) | (curvatures > VANISHING)

    def _extend_hessian(self, turn: Array, T: Array, bends: Array, across: Array) -> None:
        """The quadratic part in L⁻¹(z - TQ): zᵀPz and zᵀPQ are known, ``turn`` is L⁻¹."""
        H, old = self.current.H, len(self.current.H)
        side = across @ T.T
        own = turn @ (bends - side - side.T + T @ H @ T.T) @ turn.T
        new = np.empty((old + len(turn), old + len(turn)))
        new[:old, :old], new[old:, old:] = H, 0.5 * (own + own.T)
        new[old:, :old] = turn @ (across - T @ H)
        new[:old, old:] = new[old:, :old].T
        self._update(H=new)

    def _extend_products(self, products: Array, turn: Array, back: Array) -> None:
        """Products of ``turn`` times directions less ``back`` times the known ones, beside these.

        They stay in their place while there is room behind them.
        """
        count = len(self.current.products)
        need = count + len(turn)
        if self.current.products.base is not self._buffer or len(self._buffer) < need:
            most = min(self.current.variables, self.memory + 1)
            self._buffer = np.empty((max(need, most), self.runtime.p))
            self._buffer[:count] = self.current.products
        np.matmul(turn, products, out=self._buffer[count:need])
        if count:
            self._buffer[count:need] -= back @ self.current.products
        self._update(products=self._buffer[:need])

    def _merge(self) -> None:
        """The older half of the directions becomes one: their part of the present point."""
        half = len(self.current.c) // 2
        share = float(np.linalg.norm(self.current.c[:half]))
        first = self.current.c[:half] / share if share > 0 else np.eye(half)[0]
        join = np.zeros((len(self.current.c) - half + 1, len(self.current.c)))
        join[0, :half], join[1:, half:] = first, np.eye(len(self.current.c) - half)
        self._update(
            c=join @ self.current.c, b=join @ self.current.b, H=join @ self.current.H @ join.T
        )
        self._update(products=join @ self.current.products)
        for part in self.parts:
            part.replace_directions(join @ part.directions)
        self.gram.reset()

    def _on_dependent(self) -> None:
        """A direction is nothing new; too many are the end, or a beginning at the point itself."""
        self._update(idle=self.current.idle + 1)
        if self.current.idle >= _MAX_IDLE:
            self._restart()

    def _restart(self) -> None:
        self._update(idle=0, restarts=self.current.restarts + 1, phase=SubspacePhase.POINT)
        if self.current.restarts > _MAX_RESTARTS or not self.runtime.anywhere(self.x):
            self._update(status=RunStatus.STALLED)
