"""FISTA over exact sums: the accelerated proximal gradient method, with backtracking and restarts.

For min Σ f_i(x_i) + g_i(x_i) + h(Σ A_i x_i) with smooth f_i and h, agent by agent,

    u  = x + β(x - x⁻),        λ = ∇h(Σ A_j u_j)
    x⁺ = prox_{g/L}( u - (∇f(u) + 𝐀ᵀλ)/L )
    t⁺ = ½(1 - qt² + √((1 - qt²)² + 4t²)),   β⁺ = (t - 1)/t⁺ · (1 - qt⁺)/(1 - q),   q = μ/L.

One sum per iteration, of A_i x_i⁺: Σ A_j u_j follows from the last two. With μ = 0 this is Beck &
Teboulle (*SIAM J. Imaging Sci.* 2009), with μ > 0 Algorithm 5 of Chambolle & Pock (*Acta Numerica*
2016). L begins at L_f + L_h max σ̄²(A_i) and is raised where <∇h(s⁺) - λ, s⁺ - s> exceeds
(L - L_f)Σ|x_i⁺ - u_i|² (backtracking: the sum is spent, x stays); momentum is dropped where it
points uphill (O'Donoghue & Candès, *Found. Comput. Math.* 2015). Both scalars travel with the sum.
"""

import math

import numpy as np

from dual2.methods.allreduce.sum_loop import SumLoop, sum_loop_method
from dual2.methods.parameters import Parameter, Values, number, positive
from dual2.theory.conditions import LIPSCHITZ_F, LIPSCHITZ_H, PROX_G, Needs

Array = np.ndarray
_SAFE = 1.1
"""What L is raised to, relative to the least that the last step would have allowed."""
_NOISE = 1e-9
"""Changes of s, relative to s, that are too much rounding to judge L by."""


class Fista(SumLoop):
    """The iteration on one block of agents; see the module's text."""

    kept = ("before", "s_before", "t", "beta", "L")

    def _place(self, products: Array) -> None:
        self.before, self.s_before = self.x.copy(), self.current.s.copy()
        self.t, self.beta, self.L = 1.0, 0.0, float(self.values.L)

    def _offer(self) -> Array:
        rt, current, beta, L = self.runtime, self.current, self.beta, self.L
        u = self.x + beta * (self.x - self.before)
        self.s_ahead = current.s + beta * (current.s - self.s_before)
        self.price = self.h.grad(self.s_ahead)
        rows = np.broadcast_to(self.price, (rt.n, rt.p))
        slope = self.local.gradient(u) + rt.adjoints(np.ascontiguousarray(rows))
        self.next = self.local.prox(u - slope / L, 1.0 / L)
        back, move = u - self.next, self.next - self.x
        scalars = np.array([back * move, back * back])
        starts = rt.block.xptr[:-1]
        return np.hstack([rt.products(self.next), np.add.reduceat(scalars, starts, axis=1).T])

    def _unpack(self, total: Array) -> None:
        s, (uphill, moved) = total[:-2], total[-2:]
        change = s - self.s_ahead
        bend = float((self.h.grad(s) - self.price) @ change)
        plain = self.L - float(self.values.facts.L_f)
        clear = float(np.abs(change).max()) > _NOISE * float(np.abs(s).max())
        if clear and bend > plain * moved * (1.0 + 1e-9):
            self.L += _SAFE * bend / moved - plain
            return
        self.before, self.s_before = self.x, self.current.s
        self._step_to(s)
        if uphill > 0:
            self.t, self.beta = 1.0, 0.0
            return
        q = min(float(self.values.mu) / self.L, 1.0 - 1e-12)
        rest = 1.0 - q * self.t**2
        t = 0.5 * (rest + math.sqrt(rest**2 + 4.0 * self.t**2))
        self.beta, self.t = (self.t - 1.0) / t * (1.0 - q * t) / (1.0 - q), t

    def explain(self) -> str:
        """Where L stands."""
        return f"L begins at {self.values.L:.4g} and is raised where a step asks for it."


def _first_L(v: Values) -> float:
    """L_f + L_h max σ̄²(A_i), a lower bound of what a step may need."""
    return float(v.facts.L_f + v.problem.h.L * v.facts.sigma2_max) or 1.0


FISTA = sum_loop_method(
    "FISTA", Fista, "accelerated proximal gradient method over exact sums",
    Needs(LIPSCHITZ_F, PROX_G, LIPSCHITZ_H),
    (
        Parameter("L", "L_f + L_h max σ̄²(A_i), then backtracking (Beck & Teboulle, 2009)",
                  _first_L, positive),
        Parameter("mu", "min μ_i (Chambolle & Pock, 2016)", lambda v: v.facts.mu_f,
                  number("a finite number ≥ 0", lambda mu: 0 <= mu < math.inf)),
    ),
)  # fmt: skip
"""The method and its conditions."""
