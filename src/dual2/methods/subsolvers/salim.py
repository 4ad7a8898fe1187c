"""Salim: Algorithm 1 of Salim, Condat, Kovalev & Richtárik for affinely constrained problems.

With ρ = 0, all g_i = 0 and h the indicator of a point b, the subproblem of agent i is
min f_i(x) subject to A_i x = b/n + z_i. The loop and its formulas are in
:mod:`dual2.methods.subsolvers.salim_kernel`. Rate: O(√κ_f) gradients, O(√(κ_f κ_A)) products
[Salim, Condat, Kovalev & Richtárik 2022].
"""

import numpy as np

from dual2.methods.subsolvers.base import LOCAL_STEPS, Array, Subsolver, smallest_singular
from dual2.methods.subsolvers.salim_kernel import State, salim_steps
from dual2.runtime import Runtime
from dual2.theory import Constants, Facts


class Salim(Subsolver):
    """Solves each agent's affinely constrained problem alone.

    Parameters
    ----------
    runtime, facts, constants
        As for every subsolver; ρ must be 0, h* linear and all g_i zero.
    """

    name = "Salim"
    layout = State

    def __init__(self, runtime: Runtime, facts: Facts, constants: Constants) -> None:
        super().__init__(runtime, facts, constants)
        slope = runtime.packed.smooth.grad(np.zeros(runtime.p))
        self._share = slope / runtime.problem.n
        self._small2 = np.nan_to_num(facts.rank2)
        for i in np.flatnonzero(self._small2 == 0):
            self._small2[i] = smallest_singular(runtime.problem.agents[i].A) ** 2
        self.weight = np.sqrt(facts.sigma2) / facts.mu
        self.dual_step = facts.mu / facts.sigma2

    def start(self, x: Array, lam: Array) -> None:
        """Begin from x (flat) and λ (n, p); costs one exchange. Compiles what is needed."""
        n = self.runtime.n
        self.state = State(
            x.copy(), x.copy(), np.zeros(x.size), lam.copy(), self.runtime.mix(lam),
            np.zeros((3, n), np.int64), np.zeros(n, np.int64), np.zeros((n, 2)),
        )  # fmt: skip
        self.begin()
        self._run(np.zeros_like(lam), np.zeros(n), 0)

    def begin(self, ahead: float = 0.0) -> None:
        """Begin a new subproblem from the last output."""
        s = self.state
        s.x_now[:], s.pull[:], s.finished[:] = s.x, self.runtime.adjoints(s.lam), 0
        s.calls[1] += 1

    def oracle_calls(self) -> dict[str, int]:
        """Calls so far: N products with A and Aᵀ per iteration."""
        gradients, products, iterations = (int(most) for most in self.state.calls.max(axis=1))
        return {
            "grad_f": gradients, "prox_g": 0, "A": products, "AT": products, "prox_h": 0,
            "iterations": iterations,
        }  # fmt: skip

    def _steps(self, z: Array, steps: int) -> None:
        """Iterations without a stopping test, for a single agent."""
        self._run(z, np.full(self.runtime.n, -1.0), steps)

    def advance_local(self, z: Array, stop: Array, steps: int = LOCAL_STEPS) -> bool:
        """Agents iterate alone until their residual is ≤ ``stop``; True when all are."""
        self._run(z, stop, max(steps, 10))
        return bool(self.state.finished.all())

    def _run(self, z: Array, stop: Array, steps: int) -> None:
        right = self._share + z
        self.runtime.call(salim_steps, self.state, right, self._small2, steps, stop, self.weight)

    def residuals(self, z: Array, with_primal: bool = True) -> tuple[Array, Array]:
        """Per agent |∇f(x) + Aᵀλ| and |Ax - c| at the last test."""
        primal, dual = self.state.residual.T.copy()
        return primal, dual
