"""Newton's equations of one group at a point: residuals, factors, right-hand sides, directions.

With K of :mod:`.local_system`, a direction is K⁻¹(ρ − Aᵀλ₁) − Δτ·K⁻¹(r − Aᵀλ₂), where ρ depends on
what is taken off the residuals and on the complementarity's target. Near a solution the column r of
τ is written around the iterate, since both parts would cancel there.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from dual2.conic.block import (
    EPS,
    SIGNS,
    Block,
    Direction,
    Point,
    dot,
    dot2,
)
from dual2.conic.cones import RowScaling
from dual2.conic.local_system import LocalMatrix, LocalSystem, factorise

Array = np.ndarray
ROUNDING = 4.0 * EPS
"""Residuals of slacks below this part of their terms are rounding of v."""


@dataclass(frozen=True)
class Outer:
    """What everybody knows at an iterate: λ, τ, the proximal weight.

    ``near`` says that the column of τ is written around the iterate; without ``embedded`` τ is 1.
    """

    dual: Array
    tau: float
    rho: float
    near: bool
    embedded: bool = True


@dataclass(frozen=True)
class Rhs:
    """A right-hand side: what is taken off the residuals, a complementarity target, K⁻¹ρ."""

    eta: float
    c: Array
    c_rows: Array
    M: Array

    def plus(self, factor: float, other: "Rhs") -> "Rhs":
        """The sum with a multiple of another."""
        return Rhs(
            self.eta + factor * other.eta,
            self.c + factor * other.c,
            self.c_rows + factor * other.c_rows,
            self.M + factor * other.M,
        )


@dataclass
class Linearisation:
    """Newton's equations of a block at a point.

    Attributes
    ----------
    theta : ndarray, shape (2, m, n)
        z/s of the bounds.
    rd, rs, rt : ndarray
        Residuals of stationarity, of the bounds' slacks, of the private rows.
    Hv : ndarray
        Gradient of the objective's curved part.
    weights, Mu : ndarray
        Row of the embedding's last equation; K⁻¹ of the column of τ.
    first : ndarray
        What both contribute to the divisor of Δτ.
    affine, target, centre : Rhs
        Right-hand sides of the predictor; of the corrector without σ; per unit of σ.
    fields : dict of str to ndarray
        What goes into the first exchange, set by :mod:`.report`.
    """

    block: Block
    point: Point
    outer: Outer
    rows: RowScaling | None
    theta: Array
    system: LocalSystem
    Hv: Array
    rd: Array
    rs: Array
    rt: Array
    weights: Array = field(init=False)
    Mu: Array = field(init=False)
    first: Array = field(init=False)
    affine: Rhs = field(init=False)
    target: Rhs = field(init=False)
    centre: Rhs = field(init=False)
    fields: dict[str, Array] = field(init=False)
    _u: Array = field(init=False)

    def __post_init__(self) -> None:
        if self.outer.embedded:
            self.weights, column, first = self._column_of_tau()
            self.Mu = self.system.solve(column)
            self.first = first + dot(self.weights, self.Mu)
        self.affine = self._rhs(1.0, *self._affine_target())

    # -- the column of τ --------------------------------------------------------------------------
    def _column_of_tau(self) -> tuple[Array, Array, Array]:
        """Row and column of τ, and what belongs to its diagonal."""
        block, point, tau = self.block, self.point, self.outer.tau
        rows = [] if block.rows is None else [block.rows.rhs[None]]
        if self.outer.near:
            pull = fold(self.theta * self.rs)
            weights, column = [self.rd - pull], [self.rd + pull - 2.0 * fold(point.z)]
            weights += [-self.rt for _ in rows]
            column += [self.rt - 2.0 * point.t for _ in rows]
            first = dot2(self.theta, (point.s - self.rs) ** 2) + dot(point.t, point.y)
        else:
            pull = fold(self.theta * block.g)
            weights, column = [2.0 * self.Hv + tau * (block.q + pull)], [tau * (block.q - pull)]
            weights += [tau * d for d in rows]
            column += [-tau * d for d in rows]
            first = dot(point.v, self.Hv) + tau**2 * dot2(self.theta, block.g**2)
        return np.hstack(weights), np.hstack(column), first

    def divisor(self, dual: Array) -> Array:
        """Each agent's part of the divisor of Δτ, squares only; fixes the column of τ."""
        block, point, outer, n = self.block, self.point, self.outer, self.block.n
        self._u = self.Mu - self._solve_adjoint(dual)
        u = self._u[:, :n]
        w = u if outer.near else u + point.v
        slack = SIGNS * u + (point.s - self.rs if outer.near else block.g * outer.tau)
        total = self.system.rho * dot(u, u) + dot(w, block.curve(w))
        total = total + dot2(self.theta, slack**2)
        if self.rows is not None:
            y = self._u[0, n:] - point.y[0] * outer.near
            y = np.where(self.rows.rows.equation, 0.0, y)
            total = total + y @ self.rows.inverse_times(y)
        return total

    # -- right-hand sides -------------------------------------------------------------------------
    def _affine_target(self) -> tuple[Array, Array]:
        """−s∘z, of bounds and of rows."""
        c_rows = np.zeros_like(self.point.t)
        if self.rows is not None:
            c_rows = -self.rows.complementarity()[None]
        return np.where(self.block.bounded, -self.point.s * self.point.z, 0.0), c_rows

    def correct(self, step: Direction, mu: float, second: float = 1.0) -> None:
        """Set the corrector's right-hand sides for a predictor ``step``.

        ``second`` is the part of the second-order term Δs∘Δz that is used.
        """
        unit, unit_rows = self.block.bounded.astype(float), np.zeros_like(step.t)
        c, c_rows = self.affine.c - second * step.s * step.z, self.affine.c_rows
        if self.rows is not None:
            c_rows = c_rows - second * self.rows.second_order(step.t[0], step.y[0])[None]
            unit_rows = self.rows.centring()[None]
        self.target = self._rhs(1.0, c, c_rows)
        self.centre = self._rhs(-1.0, mu * unit, mu * unit_rows)

    def _rhs(self, eta: float, c: Array, c_rows: Array) -> Rhs:
        """K⁻¹ρ for residuals times 1 − η and a complementarity target."""
        top = [-eta * self.rd - fold(self._pushed(eta, c))]
        if self.rows is not None:
            top.append(-eta * self.rt - self.rows.target_slack(c_rows[0])[None])
        return Rhs(eta, c, c_rows, self.system.solve(np.hstack(top)))

    def _pushed(self, eta: float, c: Array) -> Array:
        """c/s + ηΘr_s of the bounds."""
        return c / self.point.s + eta * self.theta * self.rs

    def scalar(self, rhs: Rhs) -> Array:
        """Each agent's part of the numerator of Δτ."""
        pushed, point = self._pushed(rhs.eta, rhs.c), self.point
        total = dot(self.weights, rhs.M)
        if not self.outer.near:
            return total + self.outer.tau * dot2(self.block.g, pushed)
        total = total + rhs.c[0].sum(axis=1) + rhs.c[1].sum(axis=1) - dot2(self.rs, pushed)
        total = total + rhs.eta * dot2(point.s, point.z)
        if self.rows is not None:
            total = total + self.rows.target_sum(rhs.c_rows[0])
            total = total + rhs.eta * dot(point.t, point.y)
        return total

    # -- directions -------------------------------------------------------------------------------
    def direction(self, rhs: Rhs, dual: Array, ratio: float) -> Direction:
        """The direction for λ₁ = ``dual`` and Δτ/τ = ``ratio``.

        The part along the iterate is exact near the end, so that nothing cancels in Δs.
        """
        block, point, outer, n = self.block, self.point, self.outer, self.block.n
        w = rhs.M - self._solve_adjoint(dual)
        if outer.embedded:
            w = w - ratio * self._u
        along = ratio * outer.near
        dv, dy = w[:, :n] + along * point.v, w[:, n:] + along * point.y
        ahead = point.s - self.rs if outer.near else block.g * outer.tau
        ds = -rhs.eta * self.rs - SIGNS * w[:, :n] + ratio * ahead
        ds = np.where(block.bounded, ds, 0.0)
        dz = np.where(block.bounded, (rhs.c - point.z * ds) / point.s, 0.0)
        dt = np.zeros_like(dy)
        if self.rows is not None:
            rows = self.rows.rows
            ahead = point.t - self.rt if outer.near else rows.rhs[None] * outer.tau
            dt = -rhs.eta * self.rt - (rows.B @ w[0, :n])[None] + ratio * ahead
            active = self.rows.plain & (point.t < point.y)  # there the row's difference cancels
            dual = np.where(active, point.y, 1.0)
            dt = np.where(active, (rhs.c_rows - point.t * dy) / dual, dt)
            dt = np.where(rows.equation, 0.0, dt)
        return Direction(dv, ds, dz, dt, dy)

    def _solve_adjoint(self, dual: Array) -> Array:
        """K⁻¹ Aᵀ λ."""
        pull, size = self.block.A.adjoint(dual), self.point.t.shape[1]
        if size:
            pull = np.hstack([pull, np.zeros((1, size))])
        return self.system.solve(pull)


class LocalResiduals(NamedTuple):
    """Residuals of a block at a point, and the curvature there."""

    H: Any
    Hv: Array
    rd: Array
    rs: Array
    rt: Array

    @property
    def squares(self) -> Array:
        """Sum of squares of each agent."""
        return dot(self.rd, self.rd) + dot2(self.rs, self.rs) + dot(self.rt, self.rt)


def local_residuals(block: Block, point: Point, outer: Outer) -> LocalResiduals:
    """Of stationarity, of the bounds' slacks, of the private rows."""
    v, s, tau = point.v, point.s, outer.tau
    H, gradient = block.expanded(v)
    Hv = block.curve(v) + gradient
    rd = Hv + block.q * tau + block.A.adjoint(outer.dual) + fold(point.z)
    rt = np.zeros_like(point.t)
    if block.rows is not None:
        rows = block.rows
        rd = rd + (rows.B.T @ point.y[0])[None]
        Bv = rows.B @ v[0]
        terms = np.abs(Bv) + np.abs(point.t[0]) + np.abs(rows.rhs) * tau
        rt = _above_rounding(Bv + point.t[0] - rows.rhs * tau, terms)[None]
    Gv = SIGNS * v
    rs = np.where(block.bounded, Gv + s - block.g * tau, 0.0)
    rs = _above_rounding(rs, np.abs(Gv) + s + np.abs(block.g) * tau)
    return LocalResiduals(H, Hv, rd, rs, rt)


def linearise(block: Block, point: Point, outer: Outer) -> Linearisation:
    """Residuals and factors of a block at a point."""
    H, *residuals = local_residuals(block, point, outer)
    theta = np.where(block.bounded, point.z / point.s, 0.0)
    scaling = None
    if block.rows is not None:
        scaling = RowScaling(block.rows, point.t[0], point.y[0])
    matrix = LocalMatrix(H, scaling, block.coupled)
    system = factorise(matrix, theta.sum(axis=0), outer.rho, block.systems)
    return Linearisation(block, point, outer, scaling, theta, system, *residuals)


def fold(z: Array) -> Array:
    """Gᵀz."""
    return z[1] - z[0]


def _above_rounding(residual: Array, terms: Array) -> Array:
    """The residual, 0 where it is rounding of its terms."""
    return np.where(np.abs(residual) > ROUNDING * terms, residual, 0.0)
