"""The accelerated weighted gradient method of Nedić, Olshevsky and Shi for Σ x_i = b.

Problem: min Σ f_i(x_i) subject to Σ x_i = b (A_i = I, no g_i). From a feasible x = y,

    x⁺ = y - C ∇f(y)/(L_f λ_max(C)),      y⁺ = x⁺ + q (x⁺ - x),
    q = (√κ - 1)/(√κ + 1),  κ = κ_f κ_C:

computed as δ⁺ = qδ - step·C∇f(x + qδ), x⁺ = x + δ⁺, so that rounding leaves Σx alone once δ is
small. This is Nesterov's method on z ↦ f(x⁰ + √C z): the error falls like (1 - 1/√κ)^k, and every
iterate is feasible. What travels is the **gradient** ∇f_i(y_i). Reconstructed from eq. (80) of
"Improved convergence rates for distributed resource allocation", 2018. The price of agent i is
-∇f_i(y_i).
"""

from typing import NamedTuple

import numpy as np

from dual2.compiled import compiled, inline
from dual2.engine.gossip_kernel import mix
from dual2.engine.local import FAILED, SIMPLE_F, grad_f
from dual2.engine.packed_args import borrowed
from dual2.engine.threads import own_rows
from dual2.methods.gossip.single_loop import SingleLoop, single_loop_method
from dual2.methods.parameters import Parameter, Values, number
from dual2.theory import momentum
from dual2.theory.conditions import IDENTITY_A, POINT_H, STRONG_F, ZERO_G, Needs

Array = np.ndarray


class NedicState(NamedTuple):
    """x, and rows: its last move δ, y = x + qδ, ∇f(y) and 𝐂∇f(y)."""

    x: Array
    move: Array
    y: Array
    gradient: Array
    mixed: Array


@inline
def gradients(block, current, member):
    """∇f_i(y_i) on the rows of this thread; 0 on success."""
    first, last = own_rows(member, current.y.shape[0])
    for i in range(first, last):
        if block.fkind[i] == SIMPLE_F:
            for k in range(current.y.shape[1]):
                j = block.xptr[i] + k
                current.gradient[i, k] = block.fcoef[0, j] * current.y[i, k] + block.fcoef[1, j]
        elif grad_f(block, i, current.y[i], current.gradient[i]):
            return FAILED
    return 0


@compiled
def set_gradients(block, current, member):
    """:func:`gradients` for callers in Python."""
    block, current, member = borrowed((block, current, member))
    return gradients(block, current, member)


@compiled
def nedic_steps(block, links, current, step, q, steps, member):
    """Advance the rows of this thread by ``steps`` iterations; returns 0, or FAILED."""
    block, links, current, member = borrowed((block, links, current, member))
    first, last = own_rows(member, current.y.shape[0])
    for _ in range(steps):
        mix(links, current.gradient, current.mixed, member)
        for i in range(first, last):
            for k in range(current.y.shape[1]):
                j, move = block.xptr[i] + k, q * current.move[i, k] - step * current.mixed[i, k]
                current.x[j] += move
                current.move[i, k] = move
                current.y[i, k] = current.x[j] + q * move
        if gradients(block, current, member):
            return FAILED
    return 0


class Nedic(SingleLoop):
    """The iteration on one block of agents; see the module's text."""

    layout = NedicState

    def begin(self, x: Array, lam: Array) -> None:
        """From the feasible point nearest to x; λ is not used."""
        rt, current = self.runtime, self.current
        rows, n = x.reshape(rt.n, rt.p), rt.problem.n
        share = rt.problem.h.conjugate.grad(np.zeros(rt.p)) / n
        current.y[:] = rows + share - (rt.allreduce_sum(rows) / n if rt.anywhere(x) else 0.0)
        current.x[:] = current.y.ravel()
        rt.run(set_gradients, rt.block, current)

    def step(self, steps: int) -> None:
        """Run the compiled loop."""
        rt, v = self.runtime, self.values
        rt.run(nedic_steps, rt.block, rt.links, self.current, v.step, v.momentum, steps)

    @property
    def duals(self) -> Array:
        """-∇f_i(y_i), one row per agent."""
        return -self.current.gradient

    def oracle_calls(self) -> dict[str, int]:
        """Gradients only, one of them at the start."""
        return super().oracle_calls() | {"grad_f": self.iterations + 1}

    def explain(self) -> str:
        """The condition number that decides."""
        return (
            f"Nesterov's method with κ_f κ_C = {_kappa(self.values):.4g}. Agents send their "
            "gradients; every iterate is feasible."
        )


def _kappa(values: Values) -> float:
    return values.facts.kappa_f * values.network.kappa


def _step(values: Values) -> float:
    network = values.network
    return 1.0 / (values.facts.L_f * network.lambda_max) if network.n > 1 else 1.0


_below_one = number("0 ≤ {name} < 1", lambda q: 0 <= q < 1)


def _momentum(values: Values) -> float:
    return _below_one("momentum", momentum(_kappa(values)))


NEDIC = single_loop_method(
    "Nedic",
    Nedic,
    "accelerated weighted gradient descent, eq. (80)",
    Needs(STRONG_F, ZERO_G, POINT_H, IDENTITY_A),
    (
        Parameter("step", "1/(L_f λ_max) (theorem)", _step),
        Parameter("momentum", "(√κ-1)/(√κ+1), κ = κ_f κ_C (theorem)", _momentum, _below_one),
    ),
    reconstructed=True,
    reveals="gradients ∇f_i",
)
"""The method and its conditions."""
