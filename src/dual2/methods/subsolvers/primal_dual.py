"""PDPG, LPD, ABPD-PGS and APDG as subsolvers: one class, one loop, four formulas."""

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from dual2.methods.subsolvers.abpd import abpd_steps
from dual2.methods.subsolvers.apdg import RANK, SQUARE, apdg_parameters, apdg_steps
from dual2.methods.subsolvers.loop import DROP, TEST_EVERY
from dual2.methods.subsolvers.lpd import lpd_steps
from dual2.methods.subsolvers.pdpg import pdpg_steps
from dual2.methods.subsolvers.saddle_state import (
    SCALARS,
    X_ROWS,
    Y_ROWS,
    LoopCall,
    SaddleRule,
    SaddleState,
)
from dual2.methods.subsolvers.subsolver import (
    LOCAL_STEPS,
    Array,
    RowConstants,
    Subsolver,
    row_constants,
    smallest_singular,
)
from dual2.runtime import Runtime
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

    layout = SaddleState
    kernel: ClassVar[Callable[..., int]]
    """The compiled loop."""
    averages = False
    """Whether it averages where μ_y = 0, and is then restarted as its residual falls."""

    def __init__(
        self,
        runtime: Runtime,
        facts: Facts,
        constants: Constants,
        saddle: RowConstants | None = None,
        square: bool = False,
    ) -> None:
        super().__init__(runtime, facts, constants)
        self.saddle = saddle or row_constants(facts, constants, runtime.network.lambda_max)
        self._square, c = square, self.saddle
        self.dual_step = 1.0 / (c.L_y + c.sigma**2 / c.mu_x)
        self.weight = c.sigma / c.mu_x
        self.restarts = self.averages and bool(np.any(c.mu_y == 0))
        by_grad, by_prox = (constants.mapping in (way, "both") for way in ("smooth", "prox"))
        bounds = (c.L_x, c.mu_x, self._smoothness(), c.mu_y, c.mu_gradient, c.sigma)
        rows = (np.array(bound, dtype=float) for bound in (*bounds, self.dual_step, self.weight))
        share = 1.0 / runtime.problem.n
        self._rule = SaddleRule(float(constants.rho), share, by_grad, by_prox, self.restarts, *rows)

    def _smoothness(self) -> Array:
        """L_y of each row."""
        return self.saddle.L_y

    def _scalars(self) -> Array:
        """The solver's own numbers for each row."""
        return np.zeros((self.runtime.n, SCALARS))

    # -- state ----------------------------------------------------------------------------------
    def start(self, x: Array, lam: Array) -> None:
        """Begin from x (flat) and λ (n, p); costs one exchange. Compiles what is needed."""
        n, p = lam.shape
        count = lambda *shape: np.zeros(shape, np.int64)  # noqa: E731
        point = (x.copy(), lam.copy(), self.runtime.mix(lam), np.zeros(x.size), np.zeros((n, p)))
        own = (np.zeros((X_ROWS, x.size)), np.zeros((Y_ROWS, n, p)), self._scalars())
        counts = {"since": count(n), "calls": count(3, n), "finished": count(n)}
        self.state = SaddleState(*point, *own, np.zeros(n), residual=np.zeros((n, 4)), **counts)
        self.begin()
        self._run(np.zeros((n, p)), 0, np.zeros(n), alone=False)
        self.state.calls[:] = 0

    def begin(self, ahead: float = 0.0) -> None:
        """Begin a new subproblem from the last output: one product with A and one with Aᵀ."""
        s = self.state
        s.since[:], s.finished[:], s.mark[:] = 0, 0, 0.0
        s.ATy[:], s.Ax[:] = self.runtime.adjoints(s.lam), self.runtime.products(s.x)
        s.calls[2] += 1

    def oracle_calls(self) -> dict[str, int]:
        """Calls so far: per iteration one of each oracle, and one of each per residual."""
        local, iterations, extra = (int(most) for most in self.state.calls.max(axis=1))
        both = local + extra + (iterations if self._square else 0)
        calls = dict.fromkeys(("grad_f", "prox_g", "prox_h"), local)
        return calls | {"A": both, "AT": both, "iterations": iterations}

    # -- iterations -------------------------------------------------------------------------------
    def advance(self, z: Array, steps: int) -> None:
        """That many iterations with an exchange each."""
        self._run(z, steps, np.zeros(self.runtime.n), alone=False)

    def advance_local(self, z: Array, stop: Array, steps: int = LOCAL_STEPS) -> bool:
        """ρ = 0: agents iterate alone until their residual is ≤ ``stop``; True when all are."""
        self._run(z, max(steps, TEST_EVERY), stop, alone=True)
        return bool(self.state.finished.all())

    def _run(self, z: Array, steps: int, stop: Array, *, alone: bool) -> None:
        rt, ask = self.runtime, LoopCall(z, steps, stop, alone)
        rt.run(type(self).kernel, rt.block, rt.links, self.state, self._rule, ask)

    # -- how accurate ---------------------------------------------------------------------------
    def residuals(self, z: Array, with_primal: bool = True) -> tuple[Array, Array]:
        """Per agent, sizes of ∂_x and of ∂_λ, measured by the proximal gradient mappings."""
        self._run(z, 0, np.zeros(self.runtime.n), alone=False)
        primal, dual = self.state.residual[:, :2].T.copy()
        return primal, dual

    def uphill(self) -> Array:
        """A positive sum says that the squared residual has fallen enough to start afresh."""
        if not self.restarts:
            return np.zeros(self.runtime.n)
        current, mark = self.local_size(), self.state.mark
        mark[mark == 0] = current[mark == 0]
        return (DROP * mark) ** 2 - current**2


class PDPG(PrimalDual):
    """The primal-dual proximal gradient method, :mod:`dual2.methods.subsolvers.pdpg`."""

    name, kernel = "PDPG", pdpg_steps

    def _smoothness(self) -> Array:
        """With h* in the prox its strong convexity is not part of what enters by the gradient."""
        c = self.saddle
        return c.L_y - (c.mu_y - c.mu_gradient)


class LPD(PrimalDual):
    """The lifted primal-dual method, :mod:`dual2.methods.subsolvers.lpd`."""

    name, kernel, averages = "LPD", lpd_steps, True


class ABPD(PrimalDual):
    """ABPD-PGS, :mod:`dual2.methods.subsolvers.abpd`."""

    name, kernel, averages = "ABPD-PGS", abpd_steps, True


class APDG(PrimalDual):
    """The accelerated primal-dual gradient method, :mod:`dual2.methods.subsolvers.apdg`."""

    name, kernel = "APDG", apdg_steps

    def _scalars(self) -> Array:
        """Its eight parameters per agent; without μ_y > 0 they need σ⁺_min(A_i)."""
        S, c = super()._scalars(), self.saddle
        for i, agent in enumerate(self.runtime.problem.agents):
            kind = SQUARE if self._square else 0.0 if c.mu_y[i] > 0 else RANK
            small = c.sigma_min[i]
            if kind != 0 and not small > 0:
                small = smallest_singular(agent.A)
            S[i] = apdg_parameters(
                c.L_x[i], c.mu_x[i], c.L_y[i], c.mu_y[i], c.sigma[i], small, kind
            )
        return S
