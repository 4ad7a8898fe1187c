"""iDAPG: the inexact dual accelerated proximal gradient method for iD2A's subproblem.

    min_x max_λ  f(x) + g(x) + λᵀ𝐀x - ( h*(λ) + (ρ/2)λᵀ𝐂λ + λᵀz )

is solved by accelerated proximal gradient steps on its dual H(λ) + λᵀz, whose gradient needs one
local minimisation per agent and one exchange with the neighbours [Li & Li 2025]. The compiled
loop and its formulas are in :mod:`dual2.methods.subsolvers.idapg_kernel`.
"""

from typing import Any

import numpy as np

from dual2.engine.callbacks import address_of
from dual2.engine.gossip_kernel import mix_rows
from dual2.methods.subsolvers.idapg_kernel import (
    BLOCK_H,
    BOTH_H,
    CLIP_H,
    SMOOTH_H,
    IDAPGRule,
    IDAPGState,
    argmin_by_gradients,
    dual_by_blocks,
    idapg_steps,
)
from dual2.methods.subsolvers.subsolver import (
    LOCAL_STEPS,
    NO_MOMENTUM,
    PRINTED_MOMENTUM,
    Array,
    Subsolver,
)
from dual2.runtime import Runtime
from dual2.theory import Constants, Facts, momentum
from dual2.theory.constants import condition


def _addresses(runtime: Runtime, mode: int) -> tuple[int, int, int]:
    """Of the kernels that the loop calls but is not compiled with; 0: not needed."""
    row, rows, team = np.zeros(1), np.zeros((1, 1)), runtime.team
    local, dual, block = 0, 0, team.packed(runtime.block)
    if not runtime.block.easy.all():
        args = block, 0, row, row, row, 0.0, row, rows, row
        local = address_of(argmin_by_gradients, *args)
    if mode != CLIP_H:
        dual = address_of(dual_by_blocks, block, 0.0, mode, row, row, row, row, row)
    links = team.packed(runtime.links)
    return local, dual, address_of(mix_rows, links, rows, rows, team.member)


class IDAPG(Subsolver):
    """The subproblem solver on one block of agents.

    With the tight constants the step of agent i is 1/(σ̄²(A_i)/μ_i + ρm_i [+ L_{h*}/n]), where
    𝐂 ≤ diag(m): H is smooth in that diagonal metric, and an agent with little curvature need not
    wait for the one with most. With the paper's it is 1/L_φ for all.

    Parameters
    ----------
    runtime, facts, constants
        As for every subsolver; the constants give step size and momentum.
    slack : float
        δ of the local accuracy rule: A_i(x_i - x_i*) at most δ times the last dual movement/t.
    restart : bool
        Use k/(k+3) with adaptive restart even where μ_φ is known.
    printed : bool
        Where no momentum is known, use k/(k+3) exactly as printed, without restarts.
    """

    name, layout, memory = "iDAPG", IDAPGState, ("current", "extra")
    current: int
    """Which half of ``lam`` is λ."""
    extra: int
    """Products with Aᵀ for residuals."""

    def __init__(
        self,
        runtime: Runtime,
        facts: Facts,
        constants: Constants,
        slack: float = 0.3,
        restart: bool = False,
        printed: bool = False,
    ) -> None:
        super().__init__(runtime, facts, constants)
        self.slack = float(slack)
        n = facts.n
        smooth = constants.mapping in ("smooth", "both")
        bound, strong = np.full(runtime.n, constants.L_phi), np.full(runtime.n, constants.mu_phi)
        own = constants.alone or (constants.rho > 0 and constants.kind == "tight")
        if own:
            bound = facts.sigma2 / facts.mu + (facts.L_h / n if smooth else 0.0)
            bound += constants.rho * runtime.network.spectral.majorant[runtime.problem.owned]
            bound = np.where(bound > 0, bound, 1.0)
        self.dual_step = 1.0 / bound
        if constants.alone:
            strong = facts.mu_h / n + (np.nan_to_num(facts.rank2) / facts.L) * facts.g_is_zero
        elif own and constants.mu_phi > 0:
            bound = np.full(runtime.n, runtime.allreduce_max(bound[:, None])[0])
        kappas = [condition(b, m, constants.mapping) for b, m in zip(bound, strong, strict=True)]
        betas = [None if restart else momentum(k) for k in kappas]
        unknown = PRINTED_MOMENTUM if printed else NO_MOMENTUM
        self.beta = np.array([unknown if b is None else b for b in betas])
        slowest, least = float(self.beta.max()), float(self.beta.min())
        if constants.alone:
            slowest, least = runtime.allreduce_max(self.beta[:, None] * [1.0, -1.0]) * [1.0, -1.0]
        self.restarts = bool(least < 0)
        if self.restarts or not constants.alone:
            self.momentum = None if self.restarts else float(self.beta[0])
        self.cap = 200_000 if self.restarts else int(100 / (1.0 - slowest)) + 1000
        packed = runtime.packed
        modes = {"smooth": SMOOTH_H, "both": BOTH_H, "prox": CLIP_H if packed.clip else BLOCK_H}
        mode, rho = modes[constants.mapping], float(constants.rho)
        numbers = rho, 1.0 / runtime.problem.n, mode, self.slack, self.floor
        self._rule = IDAPGRule(self.dual_step, self.beta, *numbers, *_addresses(runtime, mode))

    # -- state ----------------------------------------------------------------------------------
    @property
    def lam(self) -> Array:
        """λ, shape (n, p)."""
        return self.state.lam[self.current]

    @property
    def mixed(self) -> Array:
        """𝐂λ, shape (n, p)."""
        return self.state.mixed[self.current]

    def start(self, x: Array, lam: Array) -> None:
        """Begin from x (flat) and λ (n, p); costs one exchange. Compiles what is needed."""
        n, mixed, self.current, self.extra = len(lam), self.runtime.mix(lam), 0, 0
        count = lambda *shape: np.zeros(shape, dtype=np.int64)  # noqa: E731
        rows = (row.copy() for row in (lam, mixed, lam, mixed))
        counts = {"since": count(n), "finished": count(n), "calls": count(2, n)}
        twice, both = np.stack([lam, lam]), np.stack([mixed, mixed])
        self.state = IDAPGState(x.copy(), twice, both, *rows, moved=np.full(n, np.inf), **counts)
        self._run(np.zeros_like(lam), 0, np.zeros(1), local=self.constants.alone)

    def begin(self, ahead: float = 0.0) -> None:
        """Begin a new subproblem at λ + ``ahead``·(λ - λ at the end of the one before)."""
        s = self.state
        for current, end in ((self.lam, s.end), (self.mixed, s.mixed_end)):
            way = current - end
            end[:] = current
            current += ahead * way
        s.since[:] = 0
        s.finished[:] = 0

    def restart(self) -> None:
        """Forget the momentum."""
        self.state.since[:] = 0

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a saved state."""
        super().restore(state)
        self.current, self.extra = int(state["current"]) % 2, int(state["extra"])

    def oracle_calls(self) -> dict[str, int]:
        """Calls so far: the maximum over agents for local work, iterations for the rest."""
        local, steps = (int(self.state.calls[k].max()) for k in (0, 1))
        rest = dict.fromkeys(("A", "prox_h", "iterations"), steps)
        return {"grad_f": local, "prox_g": local, "AT": steps + self.extra} | rest

    # -- iterations -------------------------------------------------------------------------------
    def advance(self, z: Array, steps: int) -> None:
        """That many iterations with an exchange each."""
        self._run(z, steps, np.zeros(1), local=False)
        self.current = (self.current + steps) % 2

    def advance_local(self, z: Array, stop: Array, steps: int = LOCAL_STEPS) -> bool:
        """ρ = 0: agents iterate alone until their residual is ≤ ``stop``; True when all are."""
        self._run(z, steps, stop, local=True)
        return bool(self.state.finished.all())

    def _run(self, z: Array, steps: int, stop: Array, *, local: bool) -> None:
        rt, rule = self.runtime, self._rule
        if rule.floor != self.floor:
            self._rule = rule = rule._replace(floor=self.floor)
        rt.run(
            idapg_steps, rt.block, rt.links, self.state, z, rule, self.current, steps, stop, local
        )

    # -- how accurate ---------------------------------------------------------------------------
    def residuals(self, z: Array, with_primal: bool = True) -> tuple[Array, Array]:
        """Per agent |A_iᵀ(λ-v)| and |r|, r = (v-λ)/t + ∇g₁(λ) - ∇g₁(v) ∈ ∂_λ at (x, λ).

        x is exact for v up to the local accuracy, so A_iᵀ(λ-v) is what is left of ∂_x at (x, λ).
        g₁ is what enters by its gradient: (ρ/2)λᵀ𝐂λ, and h*/n with the smooth mapping.
        """
        s = self.state
        rows = (s.v - self.lam) / self.dual_step[:, None]
        if self.constants.rho > 0:
            rows -= self.constants.rho * (s.mixed_v - self.mixed)
        if self.constants.mapping != "prox":
            grad = self.runtime.packed.smooth.grad
            rows -= (grad(s.v) - grad(self.lam)) / self.runtime.problem.n
        primal = np.zeros(len(rows))
        if with_primal:
            ATy = self.runtime.adjoints(self.lam - s.v)
            primal = np.sqrt(np.add.reduceat(ATy**2, self.runtime.block.xptr[:-1]))
            self.extra += 1
        return primal, np.linalg.norm(rows, axis=1)

    def uphill(self) -> Array:
        """Per agent <v-λ, λ-λ_prev>/t: a positive sum says that the momentum points uphill."""
        s = self.state
        slope = (s.v - self.lam) / self.dual_step[:, None]
        return np.einsum("ij,ij->i", slope, self.lam - s.lam[1 - self.current])

    def local_size(self) -> Array:
        """Per agent |v-λ|/t of the last iteration."""
        return self.state.moved
