"""iD2A and MiD2A: accelerated gradient descent on the dual of the dual.

Problem: min Σ f_i(x_i) + g_i(x_i) + h(Σ A_i x_i). The dual in consensus form, min φ(λ) + h*(λ)
subject to √𝐂λ = 0, has the augmented dual F_ρ(y) = H*(-√𝐂y), which is smooth. Nesterov's method
on F_ρ, in the variables w = √𝐂y, z = √𝐂v, is

    (x⁺, λ⁺) ≈ saddle point of f + g + λᵀ𝐀x - (h*(λ) + (ρ/2)λᵀ𝐂λ + λᵀz)      (subsolver)
    w⁺ = z + 𝐂λ⁺/L_F
    z⁺ = w⁺ + β(w⁺ - w)

MiD2A is the same text over a Chebyshev network P_K(C). Assumptions: Slater's condition, f_i
μ_i-strongly convex and L_i-smooth, C symmetric positive semidefinite with null space span(1).
Guarantees: Theorem 1 (convergence, general convex: O(1/k²)) and Theorem 2 (linear convergence:
√κ_F) of Li & Lau, "Accelerated decentralized constraint-coupled optimization: a dual² approach",
2025.
"""

import time
from typing import Any

import numpy as np

from dual2.methods.outer import Iterate, Options
from dual2.methods.second_dual import ORACLES
from dual2.methods.subsolvers import Subsolver
from dual2.runtime import Runtime
from dual2.theory import Constants, Facts

Array = np.ndarray


class ID2A:
    """iD2A on one block of agents; see the module's text for the iteration."""

    def __init__(
        self, runtime: Runtime, facts: Facts, constants: Constants, options: Options,
        subsolver: Subsolver,
    ) -> None:  # fmt: skip
        self.runtime, self.constants, self.subsolver = runtime, constants, subsolver
        self.oracle = ORACLES[subsolver.works](runtime, facts, constants, options, subsolver)
        self.nesterov = self.oracle.nesterov
        self.rounds = 0
        self.stride = runtime.network.rounds

    # -- start, save, restore ----------------------------------------------------------------
    def start(self, x: Array, lam: Array) -> None:
        """Begin from x (flat) and λ (n, p), both zero if nothing better is known.

        At the solution z_i = A_i x_i - (1/n)Σ_j A_j x_j, so a good x gives a good z.
        """
        rt = self.runtime
        z = np.zeros((rt.n, rt.p))
        if rt.anywhere(x):
            products = rt.products(x)
            z = products - rt.total(products) / rt.problem.n
        self.at = self.nesterov.init(z)
        self.rounds = self.oracle.init(x, lam, z)

    def state(self) -> dict[str, Any]:
        """Everything needed to continue bit for bit."""
        parts = {"outer": vars(self.at), "oracle": self.oracle.state()}
        parts["inner"] = self.subsolver.as_dict()
        named = {f"{part}_{k}": v for part, own in parts.items() for k, v in own.items()}
        return named | {"rounds": self.rounds}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a saved :meth:`state`."""
        part = lambda mark: {  # noqa: E731
            k.removeprefix(mark): _native(v) for k, v in state.items() if k.startswith(mark)
        }
        self.rounds, self.at = int(state["rounds"]), Iterate(**part("outer_"))
        self.subsolver.restore(part("inner_"))
        self.oracle.restore(part("oracle_"))
        self.oracle.aim(self.at.k)

    # -- what others read ---------------------------------------------------------------------
    @property
    def x(self) -> Array:
        """Flat primal iterate."""
        return self.subsolver.x

    @property
    def duals(self) -> Array:
        """λ, one row per agent."""
        return self.subsolver.lam

    @property
    def vectors(self) -> int:
        """p-vectors sent to each neighbour so far: one per round."""
        return self.rounds

    def oracle_calls(self) -> dict[str, int]:
        """Calls so far: the maximum over agents for local work, iterations for the rest."""
        return self.subsolver.oracle_calls() | {"outer": self.at.k}

    # -- the loop --------------------------------------------------------------------------------
    def advance(self, rounds: int, seconds: float) -> None:
        """Continue until ``rounds`` exchanges or for about ``seconds``, whatever comes first."""
        end = time.perf_counter() + seconds
        while self.rounds < rounds and time.perf_counter() < end:
            left = max(end - time.perf_counter(), 1e-3)
            self.rounds += self.oracle.advance(self.at, rounds - self.rounds, left)
            answer = self.oracle.measure(self.at)
            if answer is not None:
                self.at = self.nesterov.step(self.at, answer.mixed, answer.ascent)
                self.oracle.next(self.at)


def _native(value: Any) -> Any:
    """Saved scalars come back as 0-d arrays; make them Python numbers again."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return value.item()
    return value.copy() if isinstance(value, np.ndarray) else value
