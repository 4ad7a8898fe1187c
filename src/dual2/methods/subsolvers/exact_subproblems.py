"""Exact: local subproblems to machine precision, for ρ = 0.

Needs quadratic f_i, separable g_i, and an h that is smooth entry by entry (squared, Huber, logistic
and Poisson losses). The Newton method is in :mod:`dual2.methods.local.penalty_newton`; whole
outer iterations run compiled.
"""

from typing import NamedTuple

import numpy as np

from dual2.compiled import compiled
from dual2.engine.gossip_kernel import mix
from dual2.engine.local import DENSE_A, DENSE_F, copy
from dual2.engine.pack import is_separable
from dual2.engine.packed_args import borrowed, keep
from dual2.engine.threads import own_rows
from dual2.errors import CapabilityError
from dual2.functions.lowering import KernelKind, prox_blocks
from dual2.methods.local.penalty_newton import (
    LOGISTIC_H,
    POISSON_H,
    QUADRATIC_H,
    SLOPE,
    Task,
    new_scratch,
    solve_local,
)
from dual2.methods.subsolvers.subsolver import LOCAL_STEPS, NO_MOMENTUM, Subsolver
from dual2.problem import Problem
from dual2.runtime import Runtime
from dual2.theory import Constants, Facts

Array = np.ndarray


class ExactState(NamedTuple):
    """Flat x, λ, 𝐂λ; (2, n): gradients and unsettled solves so far."""

    x: Array
    lam: Array
    mixed: Array
    calls: Array


class OuterIterates(NamedTuple):
    """Outer iterates w and z, their step and momentum."""

    w: Array
    z: Array
    ascent: Array
    """<λ_i, w⁺_i - w_i> of the last iteration."""
    step: float
    beta: float
    """Negative: k/(k+3), k from ``since`` on."""
    since: int


@compiled
def exact_steps(block, links, state, outer, task, steps, member):
    """``steps`` outer iterations of iD2A with ρ = 0 and exact local solutions; 0."""
    block, links, state, outer, task, member = borrowed((block, links, state, outer, task, member))
    lam, mixed, w, z = state.lam, state.mixed, outer.w, outer.z
    n, p = z.shape
    first, last = own_rows(member, n)
    own_scratch = new_scratch(block)
    scratch = borrowed(own_scratch)
    for k in range(outer.since, outer.since + steps):
        for i in range(first, last):
            tried, settled = solve_local(block, i, task, scratch)
            state.calls[0, i] += tried
            state.calls[1, i] += 0 if settled else 1
            copy(scratch.rows[SLOPE], lam[i], p)
        mix(links, lam, mixed, member)
        b = outer.beta if outer.beta >= 0.0 else k / (k + 3.0)
        for i in range(first, last):
            total = 0.0
            for j in range(p):
                new = z[i, j] + outer.step * mixed[i, j]
                total += lam[i, j] * (new - w[i, j])
                z[i, j] = new + b * (new - w[i, j])
                w[i, j] = new
            outer.ascent[i] = total
    return keep(own_scratch)


class Exact(Subsolver):
    """Each agent solves its part of the subproblem exactly.

    Parameters
    ----------
    runtime, facts, constants
        As for every subsolver; ρ must be 0.
    """

    name = "exact"
    layout = ExactState
    exact = True

    def __init__(self, runtime: Runtime, facts: Facts, constants: Constants) -> None:
        super().__init__(runtime, facts, constants)
        self._kind, self._par = _smooth_coupling(runtime.problem)
        _require_quadratic(runtime)
        self.dual_step = facts.mu / np.maximum(facts.sigma2, 1e-300)

    def start(self, x: Array, lam: Array) -> None:
        """Begin from x (flat) and λ (n, p); costs one exchange. Compiles what is needed."""
        calls = np.zeros((2, self.runtime.n), np.int64)
        self.state = ExactState(x.copy(), lam.copy(), self.runtime.mix(lam), calls)
        self.iterate(np.zeros_like(lam), np.zeros_like(lam), 0, 0.0, 0.0, 0)

    def begin(self, ahead: float = 0.0) -> None:
        """Nothing is carried over but x."""

    def oracle_calls(self) -> dict[str, int]:
        """One of each oracle per Newton step, the maximum over agents."""
        steps = int(self.state.calls[0].max())
        return dict.fromkeys(("grad_f", "prox_g", "A", "AT", "prox_h", "iterations"), steps)

    def iterate(
        self, w: Array, z: Array, steps: int, step: float, beta: float | None, since: int
    ) -> Array:
        """``steps`` outer iterations in place; returns <λ_i, w⁺_i - w_i> of the last one.

        β = None is k/(k+3), which the compiled loop knows as a negative number.
        """
        rt, ascent = self.runtime, np.zeros(self.runtime.n)
        code = NO_MOMENTUM if beta is None else beta
        x, share = self.state.x, 1.0 / rt.problem.n
        outer = OuterIterates(w, z, ascent, step, code, since)
        task = Task(x, z, x, 0.0, self._kind, self._par, 1.0 / share)
        rt.run(exact_steps, rt.block, rt.links, self.state, outer, task, steps)
        return ascent

    def advance(self, z: Array, steps: int) -> None:
        """That many iterations with an exchange each."""
        """One solve is all it takes: z is left as it is."""
        self.iterate(z.copy(), z.copy(), 1, 0.0, 0.0, 0)

    def advance_local(self, z: Array, stop: Array, steps: int = LOCAL_STEPS) -> bool:
        """Solve every local problem; always done."""
        self.advance(z, 1)
        return True

    def residuals(self, z: Array, with_primal: bool = True) -> tuple[Array, Array]:
        """Zero: the solutions are exact to rounding."""
        return np.zeros(self.runtime.n), np.zeros(self.runtime.n)

    def local_size(self) -> Array:
        """Zero."""
        return np.zeros(self.runtime.n)


def _smooth_coupling(problem: Problem) -> tuple[int, Array]:
    """Kind and parameters of h as the Newton method reads them."""
    dual = prox_blocks(problem.h.conjugate, problem.p)
    if is_separable(dual) and dual[0].flags == 4 and np.all(dual[0].params[: problem.p] > 0):
        return QUADRATIC_H, dual[0].params
    own = prox_blocks(problem.h, problem.p)
    kinds = {KernelKind.LOGISTIC: LOGISTIC_H, KernelKind.POISSON: POISSON_H}
    if len(own) == 1 and own[0].flags == 0 and own[0].kind in kinds:
        return kinds[KernelKind(own[0].kind)], own[0].params
    raise CapabilityError(
        f"The subsolver 'exact' needs an h that is smooth entry by entry (SquaredLoss, HuberLoss, "
        f"LogisticLoss, PoissonLoss); found {problem.h!r}. Use subsolver='iDAPG'."
    )


def _require_quadratic(runtime: Runtime) -> None:
    akind, fkind = runtime.block.akind, runtime.block.fkind
    lacks = []
    for i, agent in enumerate(runtime.problem.agents):
        fits = akind[i] == DENSE_A and fkind[i] in (0, DENSE_F)
        fits = fits and is_separable(prox_blocks(agent.g, agent.dim))
        lacks.append("" if fits else f"f = {agent.f!r}, g = {agent.g!r}")
    lack = runtime.problem.first_lack(lacks, "its own process says what it has")
    if lack:
        raise CapabilityError(
            "The subsolver 'exact' needs dense A_i, quadratic f_i and separable g_i; "
            f"{lack}. Use subsolver='iDAPG'."
        )
