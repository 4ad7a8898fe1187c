"""PDPG, LPD, ABPD-PGS and APDG as subsolvers: one class, one compiled loop, four formulas."""

import numpy as np

from dual2.runtime import Runtime
from dual2.subsolvers import loop
from dual2.subsolvers.apdg import RANK, SQUARE, apdg_parameters
from dual2.subsolvers.base import (
    LOCAL_STEPS,
    Array,
    RowConstants,
    Subsolver,
    row_constants,
    smallest_singular,
)
from dual2.subsolvers.slots import *
from dual2.theory import Constants, Facts


class PrimalDual(Subsolver):
    """A single-loop primal-dual solver; formulas in the file of its name.

    Parameters
    ----------
    runtime, facts, constants
        As for every subsolver.
    saddle : RowConstants, optional
        Instead of those that follow from facts and constants.
    square : bool
        APDG: use the parameter set for square nonsingular A.
    """

    kept = ("X", "Y", "S", "since", "calls", "finished", "residual")
    formula: int
    """Which formulas the compiled loop runs."""
    averages = False
    """Whether it averages where μ_y = 0, and is then restarted as its residual falls."""

    def __init__(
        self, runtime: Runtime, facts: Facts, constants: Constants,
        saddle: RowConstants | None = None, square: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(runtime, facts, constants)
        self.saddle = saddle or row_constants(facts, constants, runtime.network.lambda_max)
        self._code, self._square = self.formula, square
        self._by_grad = constants.mapping in ("smooth", "both")
        self._by_prox = constants.mapping in ("prox", "both")
        c = self.saddle
        self.dual_step = 1.0 / (c.L_y + c.sigma**2 / c.mu_x)
        self.weight = c.sigma / c.mu_x
        self.restarts = self.averages and bool(np.any(c.mu_y == 0))

    # -- state ----------------------------------------------------------------------------------
    @property
    def x(self) -> Array:
        """Flat primal output."""
        return self.X[XO]

    @property
    def lam(self) -> Array:
        """λ, shape (n, p)."""
        return self.Y[YO]

    @property
    def mixed(self) -> Array:
        """𝐂λ, shape (n, p)."""
        return self.Y[CO]

    def start(self, x: Array, lam: Array) -> None:
        """Begin from x (flat) and λ (n, p); costs one exchange. Compiles what is needed."""
        n, p = lam.shape
        self.X, self.Y = np.zeros((X_SLOTS, x.size)), np.zeros((Y_SLOTS, n, p))
        self.S = self._scalars()
        self.since, self.finished = np.zeros(n, np.int64), np.zeros(n, np.int64)
        self.calls, self.residual = np.zeros((4, n), np.int64), np.zeros((n, 4))
        self.X[XO], self.Y[YO], self.Y[CO] = x, lam, self.runtime.mix(lam)
        self.begin()
        self._run(np.zeros((n, p)), 0, np.zeros(n), local=False)
        self.calls[:] = 0

    def begin(self, ahead: float = 0.0) -> None:
        """Begin a new subproblem from the last output: one product with A and one with Aᵀ."""
        self.since[:] = 0
        self.finished[:] = 0
        if self.restarts:
            self.S[:, S8] = 0.0
        self.X[AY] = self.runtime.adjoints(self.lam)
        self.Y[AX] = self.runtime.products(self.x)
        self.calls[2:] += 1

    def settle(self) -> None:
        """After local solves: 𝐂λ by one exchange."""
        self.Y[CO] = self.runtime.mix(np.ascontiguousarray(self.lam))

    def oracle_calls(self) -> dict[str, int]:
        """Calls so far: per iteration one of each oracle, and one of each per residual."""
        local, iterations, extra = (int(self.calls[k].max()) for k in (0, 1, 2))
        both = local + extra + (iterations if self._square else 0)
        return {
            "grad_f": local, "prox_g": local, "A": both, "AT": both, "prox_h": local,
            "iterations": iterations,
        }  # fmt: skip

    def _scalars(self) -> Array:
        c, n = self.saddle, self.runtime.n
        S = np.zeros((n, S_SLOTS))
        S[:, LX], S[:, MX], S[:, MY], S[:, MG], S[:, SM] = (
            c.L_x, c.mu_x, c.mu_y, c.mu_gradient, c.sigma,
        )  # fmt: skip
        S[:, LY] = c.L_y
        return S

    # -- iterations -------------------------------------------------------------------------------
    def _steps(self, z: Array, steps: int) -> None:
        self._run(z, steps, np.zeros(self.runtime.n), local=False)

    def advance_local(self, z: Array, stop: Array, steps: int = LOCAL_STEPS) -> bool:
        """ρ = 0: agents iterate alone until their residual is ≤ ``stop``; True when all are."""
        self._run(z, max(steps, loop.TEST_EVERY), stop, local=True)
        return bool(self.finished.all())

    def _run(self, z: Array, steps: int, stop: Array, *, local: bool) -> None:
        rt = self.runtime
        arrays = {name: getattr(self, name) for name in loop.State._fields[:-1]}
        state = loop.State(**arrays, z=z)
        rule = loop.Rule(
            self._code, float(self.constants.rho), 1.0 / rt.problem.n, self._by_grad,
            self._by_prox, self._square, self.restarts, self.dual_step, self.weight,
        )  # fmt: skip
        rt.run(loop.saddle_steps, rt.block, rt.links, state, rule, steps, stop, local)

    # -- how accurate ---------------------------------------------------------------------------
    def residuals(self, z: Array, with_primal: bool = True) -> tuple[Array, Array]:
        """Per agent, sizes of ∂_x and of ∂_λ, measured by the proximal gradient mappings."""
        self._run(z, 0, np.zeros(self.runtime.n), local=False)
        return self.residual[:, 0].copy(), self.residual[:, 1].copy()

    def uphill(self) -> Array:
        """A positive sum says that the squared residual has fallen enough to start afresh."""
        if not self.restarts:
            return np.zeros(self.runtime.n)
        now, mark = self.local_size(), self.S[:, S8]
        mark[mark == 0] = now[mark == 0]
        return (loop.DROP * mark) ** 2 - now**2


class PDPG(PrimalDual):
    """The primal-dual proximal gradient method, :mod:`dual2.subsolvers.pdpg`."""

    name, formula = "PDPG", loop.PDPG

    def _scalars(self) -> Array:
        """With h* in the prox its strong convexity is not part of what enters by the gradient."""
        S, c = super()._scalars(), self.saddle
        S[:, LY] = c.L_y - (c.mu_y - c.mu_gradient)
        return S


class LPD(PrimalDual):
    """The lifted primal-dual method, :mod:`dual2.subsolvers.lpd`."""

    name, formula, averages = "LPD", loop.LPD, True


class ABPD(PrimalDual):
    """ABPD-PGS, :mod:`dual2.subsolvers.abpd`."""

    name, formula, averages = "ABPD-PGS", loop.ABPD, True


class APDG(PrimalDual):
    """The accelerated primal-dual gradient method, :mod:`dual2.subsolvers.apdg`."""

    name, formula = "APDG", loop.APDG

    def _scalars(self) -> Array:
        """Its eight parameters per agent; without μ_y > 0 they need σ⁺_min(A_i)."""
        S, c = super()._scalars(), self.saddle
        for i, agent in enumerate(self.runtime.problem.agents):
            kind = SQUARE if self._square else 0.0 if c.mu_y[i] > 0 else RANK
            small = c.sigma_min[i]
            if kind != 0 and not small > 0:
                small = smallest_singular(agent.A)
            S[i, S1 : S8 + 1] = apdg_parameters(
                c.L_x[i], c.mu_x[i], c.L_y[i], c.mu_y[i], c.sigma[i], small, kind
            )
        return S
