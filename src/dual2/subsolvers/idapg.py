"""iDAPG: the inexact dual accelerated proximal gradient method for iD2A's subproblem.

    min_x max_λ  f(x) + g(x) + λᵀ𝐀x - ( h*(λ) + (ρ/2)λᵀ𝐂λ + λᵀz )

is solved by accelerated proximal gradient steps on its dual H(λ) + λᵀz, whose gradient needs one
local minimisation per agent and one exchange with the neighbours [Li & Li 2025]. The compiled
loop and its formulas are in :mod:`dual2.subsolvers.idapg_kernel`.
"""

import time
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from dual2.runtime import Stacked
from dual2.subsolvers.idapg_kernel import CLIP_H, PROX_H_MODE, SMOOTH_H, idapg_steps
from dual2.theory import Constants, Facts, momentum
from dual2.theory.constants import condition

Array = np.ndarray
_LOCAL_STEPS = 20_000


@dataclass
class IDAPGState:
    """Everything iDAPG carries from one iteration to the next.

    Attributes
    ----------
    x : ndarray
        Flat primal variables.
    lam, clam : ndarray, shape (2, n, p)
        λ and λ_prev (which is which: ``now``), and 𝐂 times them.
    v, cv : ndarray, shape (n, p)
        Last extrapolated point and 𝐂 times it.
    moved : ndarray
        |v_i - λ_i⁺|/t per row, which sets the accuracy of the local minimisations.
    since, finished : ndarray of int
        Per row: iterations since the last restart, whether the local solve is done.
    calls : ndarray of int, shape (2, n)
        Per row: local gradients and iterations so far.
    now : int
        Which half of ``lam`` is current.
    """

    x: Array
    lam: Array
    clam: Array
    v: Array
    cv: Array
    moved: Array
    since: Array
    finished: Array
    calls: Array
    now: int = 0

    @classmethod
    def at(cls, x: Array, lam: Array, clam: Array) -> "IDAPGState":
        """Start from x, λ and 𝐂λ."""
        n = lam.shape[0]
        pair, cpair = np.stack([lam, lam]), np.stack([clam, clam])
        count = lambda *shape: np.zeros(shape, dtype=np.int64)  # noqa: E731
        return cls(
            x.copy(), pair, cpair, lam.copy(), clam.copy(),
            moved=np.full(n, np.inf), since=count(n), finished=count(n), calls=count(2, n),
        )  # fmt: skip

    @property
    def iterations(self) -> int:
        """Iterations in all; with ρ = 0 the largest number over the agents."""
        return int(self.calls[1].max())

    def as_dict(self) -> dict[str, Any]:
        """Fields by name, for saving."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


class IDAPG:
    """The subproblem solver on one block of agents.

    Parameters
    ----------
    runtime : Stacked
        The rows and their exchange.
    facts, constants
        Of the problem at the ρ in use; they give step size and momentum.
    slack : float
        δ of the local accuracy rule: A_i(x_i - x_i*) at most δ times the last dual movement/t.
    restart : bool
        Use k/(k+3) with adaptive restart even where μ_φ is known.
    """

    name = "iDAPG"

    def __init__(
        self, runtime: Stacked, facts: Facts, constants: Constants,
        slack: float = 0.3, restart: bool = False,
    ) -> None:  # fmt: skip
        self.runtime, self.constants = runtime, constants
        self.slack = float(slack)
        self.local = constants.rho == 0 and runtime.n > 1
        n = runtime.n
        smooth = constants.mapping == "smooth"
        if self.local:
            own = facts.sigma2 / facts.mu
            bound = own + (facts.L_h / n if smooth else 0.0)
            strong = facts.mu_h / n + (np.nan_to_num(facts.rank2) / facts.L) * facts.g_is_zero
            bound = np.where(bound > 0, bound, 1.0)
            kappas = [
                condition(b, m, constants.mapping) for b, m in zip(bound, strong, strict=True)
            ]
            self.step = 1.0 / bound
            self.beta = np.array([momentum(k) for k in kappas])
        else:
            self.step = np.full(n, 1.0 / constants.L_phi)
            self.beta = np.full(n, constants.inner_momentum)
        if restart:
            self.beta[:] = -1.0
        self.restarts = bool(np.any(self.beta < 0))
        packed = runtime.packed
        self._mode = SMOOTH_H if smooth else CLIP_H if packed.clip else PROX_H_MODE
        self._blocks = packed.smooth_h if smooth else packed.prox_h
        self.floor = 0.0
        self._seconds = 1e-6

    def start(self, x: Array, lam: Array) -> None:
        """Begin from x (flat) and λ (n, p); costs one exchange. Compiles the loop if need be."""
        self.state = IDAPGState.at(x, lam, self.runtime.mix(lam))
        self._run(np.zeros_like(lam), 0, np.zeros(1), local=self.local)

    def begin(self) -> None:
        """Begin a new subproblem from where the last one ended."""
        self.state.since[:] = 0
        self.state.finished[:] = 0

    @property
    def lam(self) -> Array:
        """λ, shape (n, p)."""
        return self.state.lam[self.state.now]

    @property
    def clam(self) -> Array:
        """𝐂λ, shape (n, p)."""
        return self.state.clam[self.state.now]

    def advance(self, z: Array, steps: int, seconds: float = 0.1) -> int:
        """At most ``steps`` iterations and about ``seconds``; returns how many were made."""
        affordable = max(1, int(seconds / self._seconds))
        steps = min(steps, affordable)
        begun = time.perf_counter()
        self._run(z, steps, np.zeros(1), local=False)
        self._learn(time.perf_counter() - begun, steps)
        s = self.state
        s.now = (s.now + steps) % 2
        return steps

    def advance_local(self, z: Array, stop: Array, steps: int = _LOCAL_STEPS) -> bool:
        """ρ = 0: every agent iterates alone until its residual is ≤ ``stop``; True when all are."""
        self._run(z, steps, stop, local=True)
        return bool(self.state.finished.all())

    def _learn(self, seconds: float, steps: int) -> None:
        if steps >= 10:
            self._seconds = max(seconds / steps, 1e-8)

    def _run(self, z: Array, steps: int, stop: Array, *, local: bool) -> None:
        rt, s, c = self.runtime, self.state, self.constants
        rt.team.run(
            idapg_steps, *rt.packed.local, *self._blocks, *rt.packed.doorway,
            *rt.neighbours, rt.recurrence, rt.buffers,
            s.x, s.lam, s.clam, s.v, s.cv, z, s.moved, s.since, s.calls, s.finished,
            s.now, steps, self.step, self.beta, float(c.rho), 1.0 / rt.problem.n,
            self._mode, self.slack, self.floor, local, stop,
        )  # fmt: skip
        rt.packed.door.check()

    # -- residuals of the subproblem, per row ------------------------------------------------
    def dual_residual(self) -> Array:
        """Rows of (v-λ)/t + ∇g₁(λ) - ∇g₁(v), an element of ∂_λ of the saddle function at (x, λ).

        g₁ is what enters by its gradient: (ρ/2)λᵀ𝐂λ, and h*/n with the smooth mapping.
        """
        s = self.state
        rows = (s.v - self.lam) / self.step[:, None]
        if self.constants.rho > 0:
            rows -= self.constants.rho * (s.cv - self.clam)
        if self.constants.mapping == "smooth":
            grad, n = self.runtime.problem.h.conjugate.grad, self.runtime.problem.n
            rows -= (grad(s.v) - grad(self.lam)) / n
        return rows

    def primal_residual(self) -> Array:
        """Flat vector A_iᵀ(λ_i - v_i): what is left of ∂_x at (x, λ) when x is exact for v."""
        return self.runtime.adjoints(self.lam - self.state.v)

    def uphill(self) -> Array:
        """Rows of <v-λ, λ-λ_prev>: a positive sum says that the momentum points uphill."""
        s = self.state
        return np.einsum("ij,ij->i", s.v - self.lam, self.lam - s.lam[1 - s.now])
