"""The practical formulation: dynamics and limits stay inside each agent.

The states are eliminated, x = Φx_0 + Γu + Ww. In v = Lᵀu, with LLᵀ the Hessian of the
cost in u, f_i = ½|v|² + <q, v> has curvature one in every direction, and the limits are a
polyhedron: the prox of g_i solves the agent's own control problem exactly. Only the shared
resources couple.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import block_diag, solve_triangular

from dual2.applications.mpc.subsystem import Subsystem
from dual2.errors import ProblemError
from dual2.functions import IndicatorPolyhedron, PiecewiseQuadratic, Zero
from dual2.functions.arguments import Array
from dual2.functions.polyhedron import EmptySet
from dual2.problem import Agent


class Infeasible(ProblemError):
    """No plan meets the limits.

    Attributes
    ----------
    subsystem : str or None
        Whose limits contradict each other; None for the shared ones.
    limits : list of (str, int)
        Names of the limits, ``"x_max[2]"`` or ``"resource[0]"``, with their step in the horizon.
    """

    def __init__(self, subsystem: str | None, limits: list[tuple[str, int]]) -> None:
        self.subsystem, self.limits = subsystem, limits
        shown = ", ".join(f"{name} at step {k}" for name, k in limits[:6])
        shown += ", …" if len(limits) > 6 else ""
        if subsystem is None:
            text = (
                f"No plan meets the shared limits: {shown} cannot hold within the subsystems' own "
                "limits. Raise the limit, or make it soft with price_cap."
            )
        else:
            verb = "contradict each other" if len(limits) > 1 else "cannot be met"
            text = (
                f"Subsystem {subsystem!r} has no plan from its present state: {shown} {verb}. "
                "Widen these limits, or make those of the state soft."
            )
        super().__init__(text)


GROWTH = 1e12
"""Condition number of the Hessian from which predictions are too inaccurate to use."""


class Limits(NamedTuple):
    """lower ≤ Mv + drift[follows] ≤ upper; ``names`` are (kind, step, entry)."""

    M: Array
    names: list[tuple[str, int, int]]
    lower: Array
    upper: Array
    follows: Any


@dataclass(frozen=True, eq=False)
class Condensed:
    """A subsystem over a horizon, as a function of its inputs (and excesses) alone."""

    system: Subsystem  # the subsystem
    horizon: int  # number K of steps

    @cached_property
    def effects(self) -> tuple[Array, Array, Array]:
        """Φ, Γ, W: effects of x_0, of the inputs and of the disturbances on x_1 … x_K."""
        s, K = self.system, self.horizon
        powers = [np.eye(s.n_x)]
        for _ in range(K):
            powers.append(s.A @ powers[-1])
        zero = np.zeros((s.n_x, s.n_x))
        W = np.block([[powers[k - j] if j <= k else zero for j in range(K)] for k in range(K)])
        return np.vstack(powers[1:]), W @ np.kron(np.eye(K), s.B), W

    @cached_property
    def weights(self) -> tuple[Array, Array]:
        """Block diagonal costs of x_1 … x_K and of u_0 … u_{K-1}."""
        s, K = self.system, self.horizon
        return block_diag(*[s.Q] * (K - 1), s.terminal), np.kron(np.eye(K), s.R)

    @cached_property
    def inverse(self) -> Array:
        """L⁻ᵀ, so that u = L⁻ᵀv; refuses horizons whose predictions grow too large."""
        _, G, _ = self.effects
        Q, R = self.weights
        H = 2.0 * (G.T @ Q @ G + R)
        values = np.linalg.eigvalsh(H)
        if not values[0] > values[-1] / GROWTH:
            raise ProblemError(
                f"{self.system!s}: over {self.horizon} steps its predictions grow too large to be "
                f"computed (spectral radius {self.system.radius:.3g}, condition number above "
                f"{GROWTH:.0e}). Shorten the horizon or control a "
                "stabilised system."
            )
        L = np.linalg.cholesky(H)
        return solve_triangular(L, np.eye(len(H)), lower=True).T

    @cached_property
    def softened(self) -> Any:
        """Positions among x_1 … x_K of the states that may exceed their limits."""
        s = self.system
        limited = np.isfinite(s.x_min) | np.isfinite(s.x_max)
        return np.flatnonzero(np.tile(limited, self.horizon)) if s.soft else np.zeros(0, int)

    @cached_property
    def scale(self) -> float:
        """Excesses are s = s'/scale, so that s' too has curvature one."""
        return float(np.sqrt(2.0 * self.system.soft[0])) if self.system.soft else 1.0

    @cached_property
    def limits(self) -> "Limits":
        """Limits of inputs, states and excesses in the scaled variables."""
        s, soft = self.system, bool(self.softened.size)
        u_at, u_names = self._places("u", s.u_min, s.u_max)
        x_at, x_names = self._places("x", s.x_min, s.x_max)
        ends = [np.tile(end, self.horizon) for end in (s.u_min, s.u_max, s.x_min, s.x_max)]
        u_low, u_high, x_low, x_high = ends[0][u_at], ends[1][u_at], ends[2][x_at], ends[3][x_at]
        u_rows, x_rows = self.inverse[u_at], self.effects[1][x_at] @ self.inverse
        none = np.full(len(u_at), -1)
        if not soft:
            low, high = np.append(u_low, x_low), np.append(u_high, x_high)
            rows, names = np.vstack([u_rows, x_rows]), u_names + x_names
            return Limits(rows, names, low, high, np.append(none, x_at))
        eye, free = np.eye(len(x_at)) / self.scale, np.full(len(x_at), np.inf)
        blank = np.zeros((len(u_at), len(x_at)))
        M = np.block([[u_rows, blank], [x_rows, -eye], [x_rows, eye], [0.0 * x_rows, eye]])
        return Limits(
            M,
            u_names + 2 * x_names + x_names,
            np.concatenate([u_low, -free, x_low, 0.0 * x_at]),
            np.concatenate([u_high, x_high, free, free]),
            np.concatenate([none, x_at, x_at, np.full(len(x_at), -1)]),
        )

    def _places(self, kind: str, low: Array, high: Array) -> tuple[Any, list[tuple[str, int, int]]]:
        """Positions of the limited entries over the horizon, and (kind, step, entry) of each."""
        K, size, first = self.horizon, len(low), int(kind == "x")
        limited = np.flatnonzero(np.isfinite(low) | np.isfinite(high))
        at = np.array([k * size + j for k in range(K) for j in limited], dtype=int)
        return at, [(kind, k + first, int(j)) for k in range(K) for j in limited]

    def agent(self, start: Array, disturbance: Array) -> Agent:
        """The agent at a measured state, with the disturbances of the horizon (K, n_x)."""
        s, K = self.system, self.horizon
        free = self.drift(start, disturbance)
        Q, R = self.weights
        _, G, _ = self.effects
        away, rest = free - np.tile(s.x_ref, K), np.tile(s.u_ref, K)
        slope = self.inverse.T @ (2.0 * (G.T @ (Q @ away) - R @ rest))
        constant = away @ Q @ away + rest @ R @ rest
        constant += (start - s.x_ref) @ s.Q @ (start - s.x_ref)
        if self.softened.size:
            tail = np.full(len(self.softened), s.soft[1] / self.scale) if s.soft else np.zeros(0)
            slope = np.concatenate([slope, tail])
        f = PiecewiseQuadratic(curvature=1.0, slope=slope, offset=constant / len(slope))
        blank = np.zeros((K * len(s.resource), len(self.softened)))
        use = np.hstack([np.kron(np.eye(K), s.resource) @ self.inverse, blank])
        return Agent(use, f, self._limits(free))

    def _limits(self, free: Array) -> IndicatorPolyhedron | Zero:
        limits = self.limits
        if not len(limits.M):
            return Zero()
        moved = np.where(limits.follows >= 0, free[limits.follows], 0.0)
        try:
            return IndicatorPolyhedron(limits.M, limits.lower - moved, limits.upper - moved)
        except EmptySet as error:
            raise self._infeasible(error, limits.names) from error

    def _infeasible(self, error: EmptySet, names: list[tuple[str, int, int]]) -> Infeasible:
        limits = []
        for row, side in zip(error.rows, error.sides, strict=True):
            name, k, j = names[row]
            ends = ("min", "max") if side == "both" else ("min",) if side == "lower" else ("max",)
            limits += [(f"{name}_{end}[{j}]", k) for end in ends]
        return Infeasible(self.system.name, limits)

    def drift(self, start: Array, disturbance: Array) -> Array:
        """x_1 … x_K without inputs, as one vector."""
        Phi, _, W = self.effects
        return Phi @ start + W @ disturbance.ravel()

    def inputs(self, x: Array) -> Array:
        """The inputs (K, n_u) behind an agent's variables."""
        d = self.horizon * self.system.n_u
        return (self.inverse @ x[:d]).reshape(self.horizon, self.system.n_u)

    def variables(self, inputs: Array, start: Array, disturbance: Array) -> Array:
        """The agent's variables for given inputs: the inverse of :meth:`inputs`."""
        s = self.system
        v: Array = np.linalg.solve(self.inverse, inputs.ravel()).astype(float)
        if not self.softened.size:
            return v
        states = self.drift(start, disturbance) + self.effects[1] @ inputs.ravel()
        high, low = np.tile(s.x_max, self.horizon), np.tile(s.x_min, self.horizon)
        excess = np.maximum(np.maximum(states - high, low - states), 0.0)[self.softened]
        return np.concatenate([v, self.scale * excess])
