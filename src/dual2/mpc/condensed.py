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

from dual2.errors import ProblemError
from dual2.functions import IndicatorPolyhedron, PiecewiseQuadratic, Zero
from dual2.functions.arguments import Array
from dual2.functions.polyhedron import EmptySet
from dual2.mpc.plan_inputs import Target, read_target
from dual2.mpc.subsystem import Subsystem
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
class LimitedRows:
    """What has limits over the horizon: effect·u plus what comes without inputs."""

    kind: str
    first: int  # its first step
    effect: Array
    low: Array
    high: Array
    soft: bool = False

    @cached_property
    def at(self) -> Any:
        """Positions of the limited entries over the horizon."""
        return np.flatnonzero(np.tile(self._limited, len(self.effect) // max(len(self.low), 1)))

    @property
    def _limited(self) -> Any:
        return np.isfinite(self.low) | np.isfinite(self.high)

    def names(self, steps: int) -> list[tuple[str, int, int]]:
        """(kind, step, entry) of each of them."""
        return [
            (self.kind, k + self.first, int(j))
            for k in range(steps)
            for j in np.flatnonzero(self._limited)
        ]


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
    def rows(self) -> list[LimitedRows]:
        """Everything that has limits: inputs, their changes, states, outputs, over the horizon."""
        s, K = self.system, self.horizon
        _, G, _ = self.effects
        eye = np.eye(K * s.n_u)
        return [
            LimitedRows("u", 0, eye, s.u_min, s.u_max),
            LimitedRows("u_rate", 0, eye - np.eye(K * s.n_u, k=-s.n_u), -s.u_rate, s.u_rate),
            LimitedRows("x", 1, G, s.x_min, s.x_max, bool(s.soft)),
            LimitedRows("y", 1, np.kron(np.eye(K), s.C) @ G, s.y_min, s.y_max, bool(s.soft)),
        ]

    @cached_property
    def excesses(self) -> int:
        """Limits that may be exceeded, each with a variable for by how much."""
        return sum(len(rows.at) for rows in self.rows if rows.soft)

    @cached_property
    def scale(self) -> float:
        """Excesses are s = s'/scale, so that s' has curvature one where it has any."""
        square = self.system.soft[0] if self.system.soft else 0.0
        return float(np.sqrt(2.0 * square)) if square > 0 else 1.0

    @cached_property
    def limits(self) -> "Limits":
        """Limits of everything in the scaled variables; ``follows`` counts all rows' drifts."""
        d, count, used, first = self.horizon * self.system.n_u, self.excesses, 0, 0
        parts: list[Limits] = []
        for rows in self.rows:
            at, K = rows.at, self.horizon
            M = np.hstack([rows.effect[at] @ self.inverse, np.zeros((len(at), count))])
            low, high = (np.tile(end, K)[at] for end in (rows.low, rows.high))
            follows, names = at + first, rows.names(K)
            if rows.soft:
                slack = np.eye(count)[used : used + len(at)] / self.scale
                more = np.hstack([np.zeros((len(at), d)), slack])
                none, free = np.full(len(at), -1), np.full(len(at), np.inf)
                parts.append(Limits(M - more, names, -free, high, follows))
                parts.append(Limits(M + more, names, low, free, follows))
                parts.append(Limits(more, names, np.zeros(len(at)), free, none))
                used += len(at)
            else:
                parts.append(Limits(M, names, low, high, follows))
            first += len(rows.effect)
        columns = zip(*((p.M, p.lower, p.upper, p.follows) for p in parts), strict=True)
        M, lower, upper, follows = (np.concatenate(column) for column in columns)
        return Limits(M, [name for part in parts for name in part.names], lower, upper, follows)

    def agent(
        self,
        start: Array,
        disturbance: Array,
        previous: Array | None = None,
        target: Target | None = None,
    ) -> Agent:
        """The agent at a measured state, with the disturbances of the horizon (K, n_x).

        ``previous`` is the input of the step before, from which its rate is limited; ``target``
        is where states and inputs should be, now and after each step.
        """
        s, K = self.system, self.horizon
        free = self.drift(start, disturbance)
        Q, R = self.weights
        _, G, _ = self.effects
        wanted, rest = read_target(s, K, target)
        away = free - wanted[1:].ravel()
        slope = self.inverse.T @ (2.0 * (G.T @ (Q @ away) - R @ rest))
        constant = away @ Q @ away + rest @ R @ rest
        constant += (start - wanted[0]) @ s.Q @ (start - wanted[0])
        square, linear = s.soft or (0.0, 0.0)
        tail = np.full(self.excesses, linear / self.scale)
        bends = np.append(np.ones(len(slope)), np.full(len(tail), float(square > 0)))
        slope = np.append(slope, tail)
        f = PiecewiseQuadratic(curvature=bends, slope=slope, offset=constant / len(slope))
        blank = np.zeros((K * len(s.resource), self.excesses))
        use = np.hstack([np.kron(np.eye(K), s.resource) @ self.inverse, blank])
        return Agent(use, f, self._limits(free, previous))

    def _limits(self, free: Array, previous: Array | None) -> IndicatorPolyhedron | Zero:
        limits, drifts = self.limits, self._drifts(free, previous)
        moved = np.where(limits.follows >= 0, drifts[limits.follows], 0.0)
        lower, upper = limits.lower - moved, limits.upper - moved
        known = np.isfinite(lower) | np.isfinite(upper)
        if not known.any():
            return Zero()
        names = [name for name, kept in zip(limits.names, known, strict=True) if kept]
        try:
            return IndicatorPolyhedron(limits.M[known], lower[known], upper[known])
        except EmptySet as error:
            raise self._infeasible(error, names) from error

    def _drifts(self, free: Array, previous: Array | None) -> Array:
        """What the rows are without inputs; the first change of inputs is free if none is known."""
        s, K = self.system, self.horizon
        inputs = np.zeros(K * s.n_u)
        changes = inputs.copy()
        changes[: s.n_u] = np.nan if previous is None else -previous
        return np.concatenate([inputs, changes, free, np.kron(np.eye(K), s.C) @ free])

    def _infeasible(self, error: EmptySet, names: list[tuple[str, int, int]]) -> Infeasible:
        limits = []
        for row, side in zip(error.rows, error.sides, strict=True):
            name, k, j = names[row]
            ends = ("min", "max") if side == "both" else ("min",) if side == "lower" else ("max",)
            rate = name == "u_rate"
            limits += [(f"{name}[{j}]" if rate else f"{name}_{end}[{j}]", k) for end in ends]
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
        v: Array = np.linalg.solve(self.inverse, inputs.ravel()).astype(float)
        drifts, first = self._drifts(self.drift(start, disturbance), None), 0
        for rows in self.rows:
            own = slice(first, first + len(rows.effect))
            first = own.stop
            if rows.soft:
                value = (drifts[own] + rows.effect @ inputs.ravel())[rows.at]
                low, high = (np.tile(end, self.horizon)[rows.at] for end in (rows.low, rows.high))
                excess = np.maximum(np.maximum(value - high, low - value), 0.0)
                v = np.append(v, self.scale * excess)
        return v
