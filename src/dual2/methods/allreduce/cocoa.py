"""CoLA and CoCoA+: exact local solves against a quadratic bound of a smooth h.

The problem is min Σ f_i(x_i) + g_i(x_i) + h(Σ A_i x_i), ∇h with the Lipschitz constant L_h. From
x = 0 and v_i = 0, agent by agent,

    v_i ← Σ_j W_ij v_j                                                          CoLA: one round
    v_i ← Σ_j A_j x_j                                                           CoCoA+: one sum
    Δ_i = argmin_d  <∇h(v_i), A_i d> + (σ'L_h/2)|A_i d|² + f_i(x_i + d) + g_i(x_i + d)
    x_i ← x_i + γΔ_i,      v_i ← v_i + γn A_iΔ_i

with γ = 1 and σ' = γn, the safe choice of both papers ("adding"), and the local problem solved to
rounding: the best that their accuracy Θ can be. W is Metropolis' matrix of the graph, W_ij =
1/(1 + max(d_i, d_j)), as in CoLA's experiments. On a complete graph W = 11ᵀ/n, so that every v_i is
the exact sum: CoLA is CoCoA+ there. The multiplier of agent i is ∇h(v_i).

CoLA: He, Bian & Jaggi, *NeurIPS* 2018 (arXiv 1808.04883), Algorithm 1. CoCoA+: Ma, Smith, Jaggi,
Jordan, Richtárik & Takáč, *ICML* 2015.
"""

from typing import NamedTuple

import numpy as np

from dual2.engine.gossip_kernel import mix_rows
from dual2.errors import CapabilityError
from dual2.methods.allreduce.sum_loop import SumLoop, sum_loop_method
from dual2.methods.gossip.single_loop import SingleLoop, single_loop_method
from dual2.methods.local.prox_steps import LocalSteps
from dual2.methods.parameters import Parameter, Values, number
from dual2.network import AnyNetwork, ChebyshevNetwork
from dual2.runtime import Runtime
from dual2.theory.conditions import LIPSCHITZ_F, LIPSCHITZ_H, PROX_G, Needs

Array = np.ndarray


class CoCoAState(NamedTuple):
    """x, and rows: v, A_i x_i, and ∇h at the mixed v; inner work."""

    x: Array
    v: Array
    ax: Array
    lam: Array
    tried: Array


class CoLA(SingleLoop):
    """The iteration by gossip on one block of agents; see the module's text."""

    layout = CoCoAState

    def __init__(self, runtime: Runtime, values: Values) -> None:
        super().__init__(runtime, values)
        if isinstance(runtime.network, ChebyshevNetwork):
            raise CapabilityError(
                "CoLA mixes by Metropolis' matrix of the graph itself: give it the network that "
                "chebyshev() was called on (its attribute base)."
            )
        self.local, self._weight = LocalSteps(runtime, self.current.tried), penalty(values)
        self.local.penalise(self._weight)
        weights = metropolis(runtime.network)[runtime.edges]
        self.links = runtime.links._replace(weights=np.ascontiguousarray(weights))
        self._mixed, self._answer = np.zeros((2, runtime.n, runtime.p))

    def begin(self, x: Array, lam: Array) -> None:
        """From x with v_i = n A_i x_i, whose mean is the sum; λ is not used.

        Where x is not 0, v_i is the exact sum instead, which costs one.
        """
        rt, current = self.runtime, self.current
        current.x[:] = x
        if rt.anywhere(x):
            current.ax[:] = rt.products(current.x)
            current.v[:] = rt.allreduce_sum(current.ax)
        current.lam[:] = rt.problem.h.grad(current.v)

    def step(self, steps: int) -> None:
        """Mix, answer, move."""
        rt, current, h = self.runtime, self.current, self.runtime.problem.h
        gamma, n = self.values.gamma, rt.problem.n
        for _ in range(steps):
            rt.run(mix_rows, self.links, current.v, self._mixed)
            current.v[:] -= self._mixed
            current.lam[:] = h.grad(current.v)
            before = current.x.copy()
            self.local.argmin(current.x, current.ax - current.lam / self._weight, self._answer)
            move = gamma * (self._answer - current.ax)
            current.x[:] = before + gamma * (current.x - before)
            current.ax[:] += move
            current.v[:] += n * move

    def oracle_calls(self) -> dict[str, int]:
        """Calls so far, inner ones included: the maximum over agents for local work."""
        k, calls = self.iterations, super().oracle_calls()
        inner = calls["grad_f"]
        return calls | {"A": inner + k, "AT": inner, "prox_h": k, "outer": k}

    def explain(self) -> str:
        """What decides the speed."""
        return f"γ = {self.values.gamma:g}, σ' = {self.values.sigma:g}; local problems exactly."


class CoCoA(SumLoop):
    """The iteration over exact sums; see the module's text."""

    kept = ("ax",)

    def _prepare(self) -> None:
        self.weight = penalty(self.values)
        self.local.penalise(self.weight)

    def _place(self, products: Array) -> None:
        self.ax = products.copy()

    def _offer(self) -> Array:
        gamma, answer, ax = self.values.gamma, self.x.copy(), np.empty_like(self.ax)
        self.local.argmin(answer, self.ax - self.current.lam / self.weight, ax)
        self.next = self.x + gamma * (answer - self.x)
        self.offered = self.ax + gamma * (ax - self.ax)
        return self.offered

    def _unpack(self, total: Array) -> None:
        self.ax = self.offered
        self._step_to(total)


def metropolis(network: AnyNetwork) -> Array:
    """1/(1 + max(d_i, d_j)) of every link, in the order of ``network.neighbours``.

    Examples
    --------
    >>> from dual2.network import Network
    >>> metropolis(Network([(0, 1), (1, 2)])).tolist()
    [0.3333333333333333, 0.3333333333333333, 0.3333333333333333, 0.3333333333333333]
    """
    pointers, others, _ = network.neighbours
    degrees = np.diff(pointers)
    own = np.repeat(degrees, degrees)
    return 1.0 / (1.0 + np.maximum(own, degrees[others]))


def penalty(values: Values) -> float:
    """σ'L_h; where h is linear any weight is a bound, and 1 is taken for L_h."""
    return values.sigma * (float(values.problem.h.L) or 1.0)


_DECLARED = (
    Parameter(
        "gamma",
        "1: adding (He, Bian & Jaggi, 2018; Ma et al., 2015)",
        1.0,
        number("0 < {name} ≤ 1", lambda gamma: 0 < gamma <= 1),
    ),
    Parameter("sigma", "γn, safe for any data (both papers)", lambda v: v.gamma * v.problem.n),
)
_NEEDS = Needs(LIPSCHITZ_F, PROX_G, LIPSCHITZ_H)
COLA = single_loop_method(
    "CoLA",
    CoLA,
    "communication-efficient decentralised linear learning, exact local solves",
    _NEEDS,
    _DECLARED,
    reveals="estimates v_i of the sum of all A_i x_i",
)
COCOA = sum_loop_method(
    "CoCoA+",
    CoCoA,
    "exact local solves against a quadratic bound of h, over exact sums",
    _NEEDS,
    _DECLARED,
)
