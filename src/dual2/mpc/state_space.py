"""The paper's formulation: states are variables, dynamics are rows of the coupling.

y_i = (x_0, …, x_K, u_0, …, u_{K-1}); g_i holds the measured state and K copies of the boxes of
states and inputs; A_i = [P_i; G_i] with Σ_i P_i y_i = (the disturbances) and Σ_i G_i y_i ≤ r, see
Li & Lau, "Accelerated decentralized constraint-coupled optimization: a dual² approach", 2025,
appendix on applications. Every agent's dynamics then travel with the prices.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from scipy.linalg import block_diag

from dual2.errors import CapabilityError
from dual2.functions import IndicatorBox, Quadratic
from dual2.functions.arguments import Array
from dual2.mpc.condensed import Condensed
from dual2.mpc.plan_inputs import Target, read_target
from dual2.mpc.subsystem import Subsystem
from dual2.problem import Agent


@dataclass(frozen=True, eq=False)
class StateSpace:
    """A subsystem over a horizon with its states as variables."""

    system: Subsystem  # the subsystem; Q and the terminal cost must be positive definite
    horizon: int  # number K of steps
    # before, after: rows of the dynamics of the subsystems before and after this one
    before: int
    after: int

    def __post_init__(self) -> None:
        for name in ("Q", "terminal"):
            values = np.linalg.eigvalsh(getattr(self.system, name))
            if values[0] <= 1e-12 * values[-1]:
                raise CapabilityError(
                    f"{self.system!s}: {name} is singular, but states are variables in the "
                    "formulation 'paper' and need a cost each. Use formulation='local'."
                )
        s = self.system
        kinds = {
            "soft limits of the state": s.soft is not None,
            "limits of the inputs' rates": np.isfinite(s.u_rate).any(),
            "limits of outputs": np.isfinite(np.append(s.y_min, s.y_max)).any(),
        }
        for kind in (kind for kind, given in kinds.items() if given):
            raise CapabilityError(f"{s!s}: {kind} need formulation='local'.")

    def agent(
        self,
        start: Array,
        disturbance: Array,
        previous: Array | None = None,
        target: Target | None = None,
    ) -> Agent:
        """The agent at a measured state; the disturbances enter the coupling's right-hand side."""
        s, K = self.system, self.horizon
        self._condensed.agent(start, disturbance)  # raises Infeasible, with the limits' names
        W = 2.0 * block_diag(*[s.Q] * K, s.terminal, *[s.R] * K)
        f = Quadratic(W, -W @ np.concatenate([one.ravel() for one in read_target(s, K, target)]))
        lower, upper = (
            np.concatenate([start, np.tile(x, K), np.tile(u, K)])
            for x, u in ((s.x_min, s.u_min), (s.x_max, s.u_max))
        )
        return Agent(self.rows(), f, IndicatorBox(lower, upper))

    @cached_property
    def _condensed(self) -> Condensed:
        """The other formulation, which knows whether there is a plan."""
        return Condensed(self.system, self.horizon)

    def rows(self) -> sp.csc_array:
        """[P_i; G_i]: dynamics among the zeros of the others, then the use of the resources."""
        s, K = self.system, self.horizon
        states, steps = K * s.n_x, sp.eye_array(K)
        now = sp.hstack([sp.kron(steps, s.A), sp.csc_array((states, s.n_x))])
        after = sp.hstack([sp.csc_array((states, s.n_x)), sp.eye_array(states)])
        dynamics = sp.hstack([after - now, -sp.kron(steps, s.B)])
        use = sp.hstack(
            [sp.csc_array((K * len(s.resource), states + s.n_x)), sp.kron(steps, s.resource)]
        )
        d = dynamics.shape[1]
        others = [sp.csc_array((count, d)) for count in (self.before, self.after)]
        return sp.csc_array(sp.vstack([others[0], dynamics, others[1], use]))

    def inputs(self, x: Array) -> Array:
        """The inputs (K, n_u) behind an agent's variables."""
        s = self.system
        return x[(self.horizon + 1) * s.n_x :].reshape(self.horizon, s.n_u)

    def variables(self, inputs: Array, start: Array, disturbance: Array) -> Array:
        """The agent's variables for given inputs: states follow the dynamics."""
        states = self.system.path(start, inputs, disturbance)
        return np.concatenate([states.ravel(), inputs.ravel()])
