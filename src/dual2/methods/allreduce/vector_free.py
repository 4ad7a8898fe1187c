"""Vector-free L-BFGS over exact sums: no agent sees more than its own part of any vector.

For min Σ f_i(x_i) + h(Σ A_i x_i) with smooth f_i and h and no g_i. The gradient of agent i is
∇f_i(x_i) + A_iᵀ∇h(s). The direction is a combination of the last m steps, m changes of the gradient
and the gradient, whose coefficients follow from their inner products alone: the new ones are one
sum of scalars. One sum of A_i d_i brings what the line search needs of h, along with the slopes
<∇f_i(x_i + td_i), d_i> at t = 0 and 1, which for quadratic f_i give them for all t; for other f_i
at nine t, between which they are interpolated. Every process then finds the root of the slope
alike.

Chen, Wang & Zhou, "Large-scale L-BFGS using MapReduce", *NeurIPS* 2014, Algorithm 3. The paper
leaves the line search open; this one needs no further sums.
"""

import math
from collections.abc import Callable

import numpy as np

from dual2.functions.hessians import is_quadratic
from dual2.methods.allreduce.sum_loop import SumLoop, SumPhase, combined, sum_loop_method
from dual2.methods.parameters import Parameter, number
from dual2.methods.run_status import RunStatus
from dual2.theory.conditions import LIPSCHITZ_F, SMOOTH_H, ZERO_G, Needs

Array = np.ndarray
_LINEAR = (0.0, 1.0)
_LENGTHS = (0.0, 0.125, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0)
"""Where slopes of f are told, if all f_i are quadratic and if not."""
_CURVED = 1e-14
"""Least cosine of a step and the change of the gradient along it."""
_DOUBLINGS, _SECANTS = 60, 80


class VectorFree(SumLoop):
    """The iteration on one block of agents; see the module's text.

    ``basis`` (2m + 1, flat) has the steps, the changes of the gradient and the gradient, ``gram``
    their inner products, which every process knows; the last ``count`` pairs are in use.
    """

    kept = ("basis", "gram", "count")

    def _prepare(self) -> None:
        curved = [not is_quadratic(agent.f) for agent in self.runtime.problem.agents]
        self.plain = self.runtime.problem.first(curved) is None
        self.lengths = np.array(_LINEAR if self.plain else _LENGTHS)
        self.memory, facts = int(self.values.memory), self.values.facts
        self.steep = float(facts.L_f + self.runtime.problem.h.L * facts.sigma2_max)

    def _place(self, products: Array) -> None:
        rows = 2 * self.memory + 1
        self.basis, self.gram = np.zeros((rows, self.x.size)), np.zeros((rows, rows))
        self.basis[-1], self.count = self._gradient(), 0

    def _gradient(self) -> Array:
        rt = self.runtime
        rows = np.ascontiguousarray(np.broadcast_to(self.current.lam, (rt.n, rt.p)))
        return self.local.gradient(self.x) + rt.adjoints(rows)

    def _inner(self, products: Array) -> Array:
        """Of products entry by entry (k, flat) the parts of each agent: (n, k)."""
        return np.add.reduceat(products, self.runtime.block.xptr[:-1], axis=1).T

    # -- the two sums -----------------------------------------------------------------------------
    def _sum(self) -> None:
        """A sum of scalars, by which all know the direction, and one of its products."""
        if self.current.phase == SumPhase.POINT:
            super()._sum()
        elif not self._learn():
            self._update(sums=self.current.sums + 1)
            total = self._add(self._offer())
            if np.isfinite(total).all():
                self._unpack(total)
                self._judge_progress()
            else:
                self._update(status=RunStatus.DIVERGED)

    def _learn(self) -> bool:
        """Sum the inner products with what is new; whether the run ends here."""
        m = self.memory
        new = [m - 1, 2 * m - 1, 2 * m] if self.count else [2 * m]
        products = self._inner(np.vstack([self.basis * self.basis[k] for k in new]))
        total = self.runtime.allreduce_sum(np.hstack([products, self._message()]))
        if not np.isfinite(total).all():
            self._update(status=RunStatus.DIVERGED)
        elif self._met(total[-2:]):
            self._update(status=RunStatus.CONVERGED)
        for k, row in zip(new, total[:-2].reshape(len(new), -1), strict=True):
            self.gram[k], self.gram[:, k] = row, row
        s2, y2, along = self.gram[m - 1, m - 1], self.gram[-2, -2], self.gram[m - 1, -2]
        if self.count and not along > _CURVED * math.sqrt(s2 * y2):
            self.count = 0
        return bool(self.current.status)

    def _offer(self) -> Array:
        self.coefficients = combine(self.gram, self.count)
        if not self.count:
            self.coefficients /= self._steepness()
        self.direction = d = combined(self.coefficients, self.basis)
        slopes = [self.local.gradient(self.x + t * d) * d for t in self.lengths]
        return np.hstack([self.runtime.products(d), self._inner(np.array(slopes))])

    def _steepness(self) -> float:
        """A bound of the curvature, or the length of the gradient where there is none."""
        if 0 < self.steep < math.inf:
            return self.steep
        return math.sqrt(self.gram[-1, -1]) or 1.0

    def _unpack(self, total: Array) -> None:
        p, m = self.runtime.p, self.memory
        product, slopes = total[:p], total[p:]

        def slope(t: float) -> float:
            own = float(np.interp(t, self.lengths, slopes))
            if self.plain:
                own = float(slopes[0] + t * (slopes[1] - slopes[0]))
            return own + float(self.h.grad(self.current.s + t * product) @ product)

        t = find_root(slope, math.inf if self.plain else float(self.lengths[-1]))
        if t == 0.0:  # no descent, but for rounding: begin again
            self.count = 0
            return
        move, before = t * self.direction, self.basis[-1].copy()
        self.next = self.x + move
        self._step_to(self.current.s + t * product)
        order = [*range(1, m), m - 1, *range(m + 1, 2 * m), 2 * m - 1, 2 * m]
        self.basis, self.gram = self.basis[order], self.gram[np.ix_(order, order)]
        self.basis[-1] = self._gradient()
        self.basis[m - 1], self.basis[-2] = move, self.basis[-1] - before
        self.count = min(self.count + 1, m)

    def oracle_calls(self) -> dict[str, int]:
        """Calls so far; the gradients along the line are those of the line search."""
        calls, sums = super().oracle_calls(), self.current.sums
        return calls | {"grad_f": (2 + len(self.lengths)) * sums, "prox_g": 0, "AT": 2 * sums}


def combine(gram: Array, count: int) -> Array:
    """Coefficients of the direction -Hg in a basis of m steps, m changes and g, from its Gram.

    The two-loop recursion; the last ``count`` pairs are used.

    Examples
    --------
    >>> basis = np.array([[1.0, 0.0], [4.0, 0.0], [4.0, 4.0]])  # a step, its change, g
    >>> (combine(basis @ basis.T, 1) @ basis).tolist()
    [-1.0, -1.0]
    """
    m = len(gram) // 2
    found, pairs = np.zeros(2 * m + 1), range(m - count, m)
    found[-1] = -1.0
    weights = {}
    for j in reversed(pairs):
        weights[j] = float(gram[j] @ found) / gram[j, m + j]
        found[m + j] -= weights[j]
    if count:
        found *= gram[m - 1, 2 * m - 1] / gram[2 * m - 1, 2 * m - 1]
    for j in pairs:
        found[j] += weights[j] - float(gram[m + j] @ found) / gram[j, m + j]
    return found


def find_root(slope: Callable[[float], float], most: float) -> float:
    """The t in [0, most] where a function that grows is 0; most if it is below, 0 if above.

    Doubling, then the Illinois variant of the secant rule.

    Examples
    --------
    >>> round(find_root(lambda t: t**3 - 8.0, math.inf), 9), find_root(lambda t: t - 8.0, 4.0)
    (2.0, 4.0)
    """
    low, at_low = 0.0, slope(0.0)
    if not at_low < 0:
        return 0.0
    high = min(1.0, most)
    at_high, doublings = slope(high), 0
    while at_high < 0 and high < most and doublings < _DOUBLINGS:
        low, at_low, high = high, at_high, min(2.0 * high, most)
        at_high, doublings = slope(high), doublings + 1
    if at_high <= 0:
        return high
    for _ in range(_SECANTS):
        t = (low * at_high - high * at_low) / (at_high - at_low)
        value = slope(t)
        if value == 0 or high - low <= 1e-12 * high:
            return t
        if value > 0:
            high, at_high, at_low = t, value, 0.5 * at_low
        else:
            low, at_low, at_high = t, value, 0.5 * at_high
    return high


VECTOR_FREE = sum_loop_method(
    "VF-L-BFGS", VectorFree, "vector-free L-BFGS on the primal problem, over exact sums",
    Needs(LIPSCHITZ_F, ZERO_G, SMOOTH_H),
    (
        Parameter("memory", "10 (Chen, Wang & Zhou, 2014)", 10,
                  number("a whole number from 1 to 1000",
                         lambda m: 1 <= m <= 1000 and m == int(m))),
    ),
    reveals="sums over subtrees of A_i d_i, of inner products and slopes",
)  # fmt: skip
"""The method and its conditions."""
