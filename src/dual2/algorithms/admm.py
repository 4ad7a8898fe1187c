"""Methods with exact local solves: Tracking-ADMM, NECPD, DC-ADMM, IDC-ADMM and DPMM.

All solve min Σ f_i(x_i) + g_i(x_i) subject to Σ A_i x_i = b with convex smooth f_i; b_i = b/n is
the share of agent i, W = I - σC the mixing matrix, L the graph Laplacian, N_i the neighbours of i
and d_i their number. λ_i is agent i's copy of the price.

Tracking-ADMM (Falsone, Notarnicola, Notarstefano, Prandini, Automatica 2020), tracker d_i:

    ℓ = Wλ,  δ = Wd                                                 two vectors in one round
    x_i⁺ = argmin f_i + g_i + <ℓ_i, A_i x> + (c/2)|A_i x - A_i x_i + δ_i|²
    d⁺ = δ + 𝐀x⁺ - 𝐀x,   λ⁺ = ℓ + c d⁺

NECPD (Su, Wang, Sun), reconstructed: a proximal method on the dual consensus problem that
has the published parameters and range, 0 < η ≤ ρ:

    z = Wλ - s
    x_i⁺ = argmin f_i + g_i + (1/2ρ)|z_i + ρ(A_i x - b_i)|² + (1/2τ)|x - x_i|²
    λ⁺ = z + ρ(𝐀x⁺ - b),   s⁺ = s + (η/ρ)(I - W)λ⁺

DC-ADMM and IDC-ADMM (Chang, Hong, Wang, TSP 2015), reconstructed:

    p = p + cLλ,   r_i = Σ_{j ∈ N_i}(λ_i + λ_j) - (p_i + b_i)/c
    x_i⁺ = argmin f_i + g_i + (c/4d_i)|A_i x/c + r_i|²                            (DC-ADMM)
    x_i⁺ = prox_{g_i/β_i}(x_i - [∇f_i(x_i) + A_iᵀ(A_i x_i/c + r_i)/2d_i]/β_i)    (IDC-ADMM)
    λ_i⁺ = (r_i + A_i x_i⁺/c)/2d_i

DPMM (Gong, Zhang 2023), with a projection on the dual cone for inequalities:

    x̂_i = argmin f_i + g_i + (1/2γ)|y_i - γΛ_i + γ(A_i x - b_i)|² + (1/2α)|x - x_i|²
    λ = y - γΛ + γ(𝐀x̂ - b)  [projected],   x⁺ = x + θ(x̂ - x)
    Λ⁺ = Λ + β𝐂λ,   y⁺ = λ + γ(Λ - Λ⁺)

The trackers' offset e_i = d_i - (A_i x_i - b_i), s, p and Λ start with sum zero and move by
products with 𝐂 in edge-difference form only, so their sums stay at rounding level.
"""

import time
from typing import Any

import numpy as np

from dual2.algorithms.admm_kernel import (
    AUX,
    AX,
    CAUX,
    CMSG,
    DC,
    DPMM,
    GAMMA,
    IDC,
    MSG,
    NECPD,
    SIGMA,
    SLOTS,
    SUM,
    TRACKING,
    Data,
    admm_steps,
)
from dual2.algorithms.local_argmin import newton_rows
from dual2.engine.gossip import mix
from dual2.runtime import Stacked

Array = np.ndarray
KINDS = {"Tracking-ADMM": TRACKING, "NECPD": NECPD, "DC-ADMM": DC, "IDC-ADMM": IDC, "DPMM": DPMM}
"""The methods by name."""


class ADMM:
    """One of the methods on one block of agents; see the module's text for the iterations.

    Parameters
    ----------
    runtime : Stacked
        The rows, their exchange and agreement.
    data : Data
        The method and its parameters.
    """

    def __init__(self, runtime: Stacked, data: Data) -> None:
        self.runtime = runtime
        self.data = data._replace(ways=newton_rows(runtime))
        self.stride = runtime.network.rounds
        self._per_round = 2 if data.kind == TRACKING else 1
        self._links = links = runtime.links
        if data.kind in (DC, IDC):
            self._links = links._replace(weights=np.ones_like(links.weights))
        self._seconds = 1e-5

    # -- start, save, restore ----------------------------------------------------------------
    def start(self, x: Array, lam: Array) -> None:
        """Begin from x (flat) and λ (n, p).

        At the solution A_i x_i - b_i - (1/n)Σ_j(A_j x_j - b_j) is, up to sign and scale, what each
        method accumulates; a start other than zero sets it so and costs one exchange.
        """
        rt, kind, scalars = self.runtime, self.data.kind, self.data.scalars
        self.x_flat, self.Y = x.copy(), np.zeros((SLOTS, rt.n, rt.p))
        self.calls, self.k, self.extra = np.zeros(rt.n, np.int64), 0, 0
        Y = self.Y
        Y[MSG] = lam
        warm = rt.anywhere(x)
        if warm:
            Y[AX] = rt.products(x)
            excess = Y[AX] - self.data.share
            scale = {TRACKING: -1.0, NECPD: scalars[GAMMA]}.get(kind, 1.0)
            Y[SUM] = scale * (excess - rt.agree_sum(excess) / rt.problem.n)
        if kind == DPMM:
            Y[AUX] = lam
        elif warm or rt.anywhere(lam):
            self.extra = self.stride
            self._exchange(MSG, CMSG)
        if kind == TRACKING:
            Y[AUX] = Y[SUM] + Y[AX] - self.data.share
            if self.extra:
                self._exchange(AUX, CAUX)
                Y[SUM] -= scalars[SIGMA] * Y[CAUX]
        self._steps(0)

    def _exchange(self, source: int, target: int) -> None:
        self.runtime.run(mix, self._links, self.Y, source, self.Y, target)

    def state(self) -> dict[str, Any]:
        """Everything needed to continue bit for bit."""
        counters = np.array([self.k, self.extra])
        rows = {"admm_rows": self.Y.copy(), "admm_sum": self.Y[SUM].copy()}
        return rows | {"admm_x": self.x.copy(), "admm_k": counters, "admm_calls": self.calls.copy()}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a saved :meth:`state`."""
        self.Y, self.x_flat = np.array(state["admm_rows"]), np.array(state["admm_x"])
        self.k, self.extra = (int(v) for v in state["admm_k"])
        self.calls = np.array(state["admm_calls"])
        self._steps(0)

    # -- what others read ---------------------------------------------------------------------
    @property
    def x(self) -> Array:
        """Flat primal iterate."""
        return self.x_flat

    @property
    def duals(self) -> Array:
        """λ, one row per agent."""
        return self.Y[MSG]

    @property
    def rounds(self) -> int:
        """Exchanges of p-vectors with the neighbours so far."""
        return self.k * self.stride + self.extra

    @property
    def vectors(self) -> int:
        """p-vectors sent to each neighbour so far: two per round for Tracking-ADMM."""
        return self._per_round * self.rounds

    def oracle_calls(self) -> dict[str, int]:
        """Calls so far, inner ones included: the maximum over agents for local work."""
        inner = int(self.calls.max())
        products = self.k if self.data.kind == IDC else inner + self.k
        calls = {"grad_f": inner, "prox_g": inner, "A": products, "AT": inner}
        projections = self.k if self.data.kind == DPMM else 0
        return calls | {"prox_h": projections, "iterations": self.k, "outer": self.k}

    # -- the loop -----------------------------------------------------------------------------
    def advance(self, rounds: int, seconds: float) -> None:
        """Continue until ``rounds`` exchanges or for about ``seconds``, whatever comes first."""
        end = time.perf_counter() + seconds
        while self.rounds < rounds:
            begun = time.perf_counter()
            if begun >= end:
                return
            most = max(1, int((end - begun) / self._seconds))
            steps = min(max(1, (rounds - self.rounds) // self.stride), most)
            self._steps(steps)
            self._seconds = max((time.perf_counter() - begun) / steps, 1e-8)

    def _steps(self, steps: int) -> None:
        rt, before = self.runtime, np.empty_like(self.x_flat)
        rt.run(
            admm_steps, rt.block, self._links, self.data, self.x_flat, before, self.Y,
            self.calls, steps,
        )  # fmt: skip
        self.k += steps
