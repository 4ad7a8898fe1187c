"""NPGA: the nested primal-dual gradient algorithms, one text for every choice of matrices.

Problem: min Σ f_i(x_i) + g_i(x_i) + h(Σ A_i x_i). From (x, λ) and s = 0,

    x⁺ = prox_{αg}( x - α (∇f(x) + 𝐀ᵀλ) )
    v  = λ - 𝐂λ - s + β 𝐀( x⁺ + θ (x⁺ - x) )
    s⁺ = s + γ 𝐁²v
    λ⁺ = prox_{(β/n) h*}( 𝐃v )                                         agent by agent

with 𝐀 = diag(A_i) and network matrices with null(𝐁²) = span(1), 𝐂1 = 0, 𝐃1 = 1: for any such
choice the fixed points are exactly the KKT points. θ = 0 takes the new x, θ = 1 extrapolates it.
Assumptions: f_i strongly convex and smooth, h with a computable prox. Reported rates: linear
if h is smooth, or if g = 0 and A has full row rank (Li & Su, arXiv 2205.11119).

Reconstructed from the family of primal-dual consensus methods; the matrices of NPGA-I and NPGA-II
are assumptions. Step sizes are a derived rule: θ = 0: α = 1/L_f, β = μ_f/σ̄², γ = 1.
The compiled loop is :mod:`dual2.methods.gossip.npga_kernel`.
"""

from typing import NamedTuple

import numpy as np

from dual2.engine.local import DENSE_A, SIMPLE_F
from dual2.engine.pack import Packed
from dual2.methods.gossip.mixing import Matrices
from dual2.methods.gossip.npga_kernel import (
    CL,
    LAM,
    SLOTS,
    STEP_ROWS,
    Mixing,
    NPGAStep,
    S,
    begin_duals,
    npga_steps,
)
from dual2.methods.gossip.single_loop import SingleLoop
from dual2.methods.parameters import Values
from dual2.runtime import Runtime

Array = np.ndarray


class NPGAState(NamedTuple):
    """x, and per agent λ, s and 𝐂λ."""

    x: Array
    lam: Array
    s: Array
    clam: Array


class NPGA(SingleLoop):
    """The iteration on one block of agents with these 𝐁², 𝐂 and 𝐃; see the module's text."""

    conserved = "s"

    def __init__(self, runtime: Runtime, values: Values, matrices: Matrices) -> None:
        super().__init__(runtime, values)
        self.matrices, self.stride, self.sent = matrices, matrices.rounds, matrices.vectors
        self.calls = dict.fromkeys(("grad_f", "prox_g", "A", "AT"), 1)
        self.calls["prox_h"] = matrices.answers
        packed, n, v = runtime.packed, runtime.problem.n, values
        weights = np.ascontiguousarray(matrices.weights[:, runtime.edges])
        differ = not np.array_equal(matrices.weights[0], matrices.weights[2])
        powers = matrices.powers * [[v.gamma], [1.0], [1.0]]
        self._mixing = Mixing(weights, powers, bool(differ and np.any(matrices.powers[2])))
        folded, clip = fold_local_step(packed, v.alpha), fold_clip(packed, v.beta / n)
        self._rule = NPGAStep(v.alpha, v.beta, v.theta, 1.0 / n, *folded, packed.clip, clip)
        self.Y = np.zeros((SLOTS, runtime.n, runtime.p))
        self.current = NPGAState(np.zeros(runtime.packed.size), self.Y[LAM], self.Y[S], self.Y[CL])

    def begin(self, x: Array, lam: Array) -> None:
        """At the solution s_i = β(A_i x_i - (1/n)Σ_j A_j x_j), so a good x gives a good s."""
        rt, current = self.runtime, self.current
        current.x[:], current.lam[:] = x, lam
        if rt.anywhere(x):
            products = rt.products(current.x)
            current.s[:] = self.values.beta * (products - rt.allreduce_sum(products) / rt.problem.n)
        if rt.anywhere(lam) and self.matrices.first:
            links = rt.links._replace(weights=self._mixing.weights[1])
            rt.run(begin_duals, links, self.Y, *map(float, self._mixing.powers[1]))
            self.rounds = self.vectors = self.matrices.first

    def step(self, steps: int) -> None:
        """Run the compiled loop."""
        rt = self.runtime
        rt.run(
            npga_steps, rt.block, rt.links, self.current.x, self.Y, self._rule, self._mixing, steps
        )

    def explain(self) -> str:
        """What they all are."""
        return "A nested primal-dual gradient method."


# -- folding -------------------------------------------------------------------------------------


def fold_local_step(packed: Packed, alpha: float) -> tuple[Array, Array]:
    """Agents with dense A_i, diagonal quadratic f_i and separable g_i: their step, folded.

    Returns a mark per agent and, per coordinate, the rows of ``step_coordinate``.
    """
    block, fcoef, gtab = packed.block, packed.block.fcoef, packed.block.gtab
    quick, fast = np.zeros(packed.n, np.int64), np.zeros((STEP_ROWS, packed.size))
    for i in range(packed.n):
        blocks = gtab[block.gptr[i] : block.gptr[i + 1]]
        part = slice(block.xptr[i], block.xptr[i + 1])
        separable = len(blocks) == 1 and blocks[0, 0] == 0 and blocks[0, 1] in (0, 4)
        if block.akind[i] != DENSE_A or block.fkind[i] != SIMPLE_F or not separable:
            continue
        quick[i] = 1
        g = block.gpar[blocks[0, 4] : blocks[0, 5]].reshape(7, -1)
        weight = 1.0 / (1.0 + alpha * g[0])
        keep = (1.0 - alpha * fcoef[0, part]) * weight
        step = alpha * weight
        slope = step * (fcoef[1, part] + g[1])
        fast[:, part] = [keep, slope, step, step * g[3], step * g[2], *g[4:7]]
    return quick, fast


def fold_clip(packed: Packed, step: float) -> Array:
    """Factor, shift and bounds of prox_{step·h*} where it is a scaled clip; else unused."""
    if not packed.clip:
        return np.zeros((4, 1))
    h = packed.block.hpar.reshape(7, -1)
    factor = 1.0 / (1.0 + step * h[0])
    return np.ascontiguousarray([factor, step * factor * h[1], h[5], h[6]])
