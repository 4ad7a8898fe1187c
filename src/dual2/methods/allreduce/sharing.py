"""ADMM for sharing over exact sums, plain and with Anderson acceleration.

For min Σ f_i(x_i) + g_i(x_i) + h(Σ A_i x_i), with the means m of A_i x_i and z̄ of its copies,

    x_i ← argmin f_i + g_i + (ρ/2)|A_i x - (A_i x_i + z̄ - m - u)|²
    z̄  ← argmin h(nz) + (nρ/2)|z - m - u|² = prox_{(n/ρ)h}(n(m + u))/n,      u ← u + m - z̄,

one sum of A_i x_i in each iteration (Boyd, Parikh, Chu, Peleato & Eckstein, 2011, §7.3). The
multiplier is λ = ρu. In terms of q_i = A_i x_i + u, whose mean is t, this is Douglas-Rachford's
iteration

    z̄ = prox_{(n/ρ)h}(nt)/n,   u = t - z̄,   x_i = argmin f_i + g_i + (ρ/2)|A_i x - (q_i - 2u)|²,
    q_i⁺ = A_i x_i + u,

which is firmly nonexpansive: |q⁺ - q| never grows. Anderson acceleration of type II extrapolates q
from the last pairs of differences by the least squares solution (Walker & Ni, *SIAM J. Numer.
Anal.* 2011; of Douglas-Rachford: Fu, Zhang & Boyd, *SIAM J. Sci. Comput.* 2020); its inner products
are scalars of the same sum. Where |q⁺ - q| at an extrapolated q is larger than at the last point
the plain step is taken instead and the memory is emptied: that sum is lost.
"""

import math

import numpy as np

from dual2.methods.allreduce.sum_loop import SumLoop, combined, sum_loop_method
from dual2.methods.coupling import ProblemScales
from dual2.methods.parameters import Parameter, number
from dual2.problem import Problem
from dual2.theory.conditions import LIPSCHITZ_F, PROX_G, PROX_H, Needs

Array = np.ndarray
_REGULAR = 1e-13
"""What is added to the Gram matrix of differences, relative to its largest diagonal entry."""


class SharingADMM(SumLoop):
    """The iteration on one block of agents; see the module's text."""

    kept = ("q", "mean")
    priced = False

    def _prepare(self) -> None:
        self.rho, self.n = float(self.values.rho), self.runtime.problem.n
        self.local.penalise(self.rho)

    def _place(self, products: Array) -> None:
        u = self.current.lam / self.rho
        self.q, self.mean = products + u, self.current.s / self.n + u

    def _multiplier(self) -> Array:
        """u at the mean of q."""
        return self.mean - self.h.prox(self.n * self.mean, self.n / self.rho) / self.n

    def _offer(self) -> Array:
        self.u = self._multiplier()
        self.next, self.ax = self.x.copy(), np.empty_like(self.q)
        self.local.argmin(self.next, self.q - 2.0 * self.u, self.ax)
        return self.ax

    def _unpack(self, total: Array) -> None:
        self.q, self.mean = self.ax + self.u, total / self.n + self.u
        self._arrive(total)

    def _arrive(self, s: Array) -> None:
        """The answers and the multiplier at the new mean are the next point."""
        self._step_to(s)
        self._update(lam=self.rho * self._multiplier())

    def explain(self) -> str:
        """What decides the speed."""
        return "The penalty ρ decides the speed; dual2.tune searches for a good one."


class AndersonADMM(SharingADMM):
    """The same with Anderson acceleration.

    ``changes`` (2, memory, n, p) are the last differences of q⁺ - q and of q⁺, ``means`` those of
    the mean of q⁺, ``gram`` the inner products of the first; ``plain`` is the last q⁺, ``residual``
    the last q⁺ - q, ``size`` its squared length.
    """

    kept = (
        *SharingADMM.kept,
        *("changes", "means", "gram", "count", "plain", "plain_mean", "residual", "size"),
    )

    def _place(self, products: Array) -> None:
        super()._place(products)
        memory, (n, p) = int(self.values.memory), self.q.shape
        self.changes, self.means = np.zeros((2, memory, n, p)), np.zeros((memory, p))
        self.gram, self.count = np.zeros((memory, memory)), 0
        self.plain, self.plain_mean = self.q.copy(), self.mean.copy()
        self.residual, self.size = np.zeros_like(self.q), np.inf

    def _offer(self) -> Array:
        ax = super()._offer()
        self.now_residual = ax + self.u - self.q
        change = self.now_residual - self.residual
        known = [change, *self.changes[0]]
        inner = [(self.now_residual * v).sum(axis=1) for v in (self.now_residual, *known)]
        inner += [(change * v).sum(axis=1) for v in known]
        return np.column_stack([ax, *inner])

    def _unpack(self, total: Array) -> None:
        p, memory = self.runtime.p, len(self.gram)
        s, size = total[:p], float(total[p])
        right, column = np.split(total[p + 1 :], [memory + 1])
        if size > self.size:  # extrapolation has failed
            self.q, self.mean = self.plain.copy(), self.plain_mean.copy()
            self.count, self.size = 0, np.inf
            self._arrive(s)
            return
        plain, mean = self.ax + self.u, s / self.n + self.u
        if np.isfinite(self.size) and memory:
            right = self._remember(plain, mean, right, column)
        self.plain, self.plain_mean = plain, mean
        self.residual, self.size = self.now_residual, size
        self.q, self.mean = plain.copy(), mean.copy()
        if self.count:
            weights = self._weights(right)
            self.q -= combined(weights, self.changes[1, : self.count])
            self.mean -= combined(weights, self.means[: self.count])
        self._arrive(s)

    def _remember(self, plain: Array, mean: Array, right: Array, column: Array) -> Array:
        """Keep the newest differences, at the end; their inner products with the residual."""
        drop = int(self.count == len(self.gram))
        kept = np.arange(drop, self.count)
        last = len(kept)
        for part in (self.changes[0], self.changes[1], self.means):
            part[:last] = part[kept]
        self.gram[:last, :last] = self.gram[np.ix_(kept, kept)]
        self.changes[0, last] = self.now_residual - self.residual
        self.changes[1, last], self.means[last] = plain - self.plain, mean - self.plain_mean
        inner = np.append(column[1 + kept], column[0])
        self.gram[last, : last + 1] = self.gram[: last + 1, last] = inner
        self.count = last + 1
        return np.append(right[1 + kept], right[0])

    def _weights(self, right: Array) -> Array:
        """The least squares solution."""
        gram = self.gram[: self.count, : self.count]
        scale = np.sqrt(np.maximum(np.diag(gram), 1e-300))
        matrix = gram / np.outer(scale, scale) + _REGULAR * np.eye(self.count)
        found = np.linalg.lstsq(matrix, right / scale, rcond=None)[0] / scale
        return found if np.isfinite(found).all() else np.zeros(self.count)


def middle_curvature(problem: Problem, flattest: ProblemScales) -> float:
    """√(min m_i · max M_i), m_i = μ_i/σ̄²(A_i) and M_i = L_i/σ̄²(A_i): one agreement.

    These bound the curvature of min {f_i : A_i x = w} in w where A_i has one column; the geometric
    mean of its bounds is the best penalty of Douglas-Rachford's iteration (Giselsson & Boyd, *IEEE
    Trans. Autom. Control* 2017). L_i/100 takes the place of a smaller μ_i, the largest L_i that of
    L_i = 0.

    Examples
    --------
    >>> import dual2 as d2
    >>> agents = [d2.Agent([[a]], d2.SquaredNorm(1.0)) for a in (1.0, 100.0)]
    >>> middle_curvature(d2.Problem(agents, d2.IndicatorPoint([1.0])), ProblemScales(1.0, 1.0, 1e4))
    0.01
    """
    rows = np.full((len(problem.agents), 2), -np.inf)
    for row, agent, top in zip(rows, problem.agents, problem.sigma.max2, strict=True):
        L = float(agent.f.L) or flattest.L
        if top > 0:
            row[:] = top / max(float(agent.f.mu), 0.01 * L), L / top
    flat, steep = problem.largest(rows)
    return math.sqrt(steep / flat) if flat > 0 else 1.0


_NEEDS = Needs(LIPSCHITZ_F, PROX_G, PROX_H)
_RHO = Parameter(
    "rho",
    "√(min μ_i/σ̄²(A_i) · max L_i/σ̄²(A_i)) (Giselsson & Boyd, 2017); tune() for better",
    lambda v: middle_curvature(v.problem, v.scales),
)
_MEMORY = Parameter(
    "memory",
    "10 (Fu, Zhang & Boyd, 2020)",
    10,
    number("a whole number from 0 to 100", lambda m: 0 <= m <= 100 and m == int(m)),
)
SHARING_METHODS = [
    sum_loop_method(
        "Sharing-ADMM",
        SharingADMM,
        "ADMM for sharing over exact sums, exact local solves",
        _NEEDS,
        (_RHO,),
    ),
    sum_loop_method(
        "Sharing-ADMM-AA",
        AndersonADMM,
        "ADMM for sharing over exact sums with Anderson acceleration",
        _NEEDS,
        (_RHO, _MEMORY),
    ),
]
"""Rows of the table of methods."""
