"""Nesterov–Todd scaling of second-order cones, and of private inequality rows.

Scaling of one cone: W z = W⁻¹ s = λ, with W² = η²(2wwᵀ − J), J = diag(1, −1, …, −1); see Nesterov
and Todd (*SIAM J. Optim.* 1998). Rows stay in the local linear system with −W² on its diagonal:
eliminated, they would square its condition number.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dual2.conic.standard_form import ConicRows

Array = np.ndarray
EPS, TINY = float(np.finfo(np.float64).eps), 1e-300
LONGEST_STEP = 1e9
"""Stands for a step without a limit."""


def determinant(x: Array) -> float:
    """x_0² − |x_1…|², without cancellation near the boundary."""
    r = float(np.linalg.norm(x[1:]))
    return float((x[0] - r) * (x[0] + r))


def inner_determinant(x: Array) -> float:
    """That of a point inside, at least what rounding of x leaves: never 0 beside a large x_0."""
    return max(determinant(x), (EPS * float(x[0])) ** 2, TINY)


def jordan_product(a: Array, b: Array) -> Array:
    """(aᵀb, a_0 b_1… + b_0 a_1…)."""
    return np.concatenate([[a @ b], a[0] * b[1:] + b[0] * a[1:]])


class ConeScaling:
    """W of one second-order cone at (s, z).

    Examples
    --------
    >>> s, z = np.array([2.0, 1.0]), np.array([1.0, 0.0])
    >>> scaling = ConeScaling(s, z)
    >>> bool(np.allclose(scaling.times(z), scaling.inverse(s)))
    True
    """

    def __init__(self, s: Array, z: Array) -> None:
        ds, dz = (np.sqrt(inner_determinant(x)) for x in (s, z))
        sn, zn = s / ds, z / dz
        gamma = np.sqrt(max(0.5 * (1.0 + sn @ zn), 1.0))  # less is rounding: sn @ zn >= 1
        w = sn + zn
        w[1:] = sn[1:] - zn[1:]
        self.w, self.eta = w / (2.0 * gamma), float(np.sqrt(ds / dz))
        self.point = self.times(z)

    def _apply(self, x: Array, sign: float) -> Array:
        w0, w1 = self.w[0], sign * self.w[1:]
        p = w1 @ x[1:]
        return np.concatenate([[w0 * x[0] + p], x[1:] + w1 * (x[0] + p / (1.0 + w0))])

    def times(self, x: Array) -> Array:
        """W x."""
        return self.eta * self._apply(x, 1.0)

    def inverse(self, x: Array) -> Array:
        """W⁻¹ x."""
        return self._apply(x, -1.0) / self.eta

    def square(self) -> Array:
        """W²."""
        J = -np.eye(len(self.w))
        J[0, 0] = 1.0
        return self.eta**2 * (2.0 * np.outer(self.w, self.w) - J)

    def divide(self, c: Array) -> Array:
        """The u with λ∘u = c."""
        point = self.point
        first = (point[0] * c[0] - point[1:] @ c[1:]) / inner_determinant(point)
        return np.concatenate([[first], (c[1:] - first * point[1:]) / point[0]])


def cone_step(x: Array, dx: Array) -> float:
    """The largest a for which x + a·dx is in the second-order cone."""
    a, c = determinant(dx), determinant(x)
    b = float(x[0] * dx[0] - x[1:] @ dx[1:])
    gap, step = b * b - a * c, LONGEST_STEP
    if a < 0 or (b < 0 and gap >= 0):
        root = np.sqrt(max(gap, 0.0))
        if root - b > 0:
            step = c / (root - b)
        step = step if step > 0 else LONGEST_STEP
    if dx[0] < 0:
        step = min(step, -x[0] / dx[0])
    return float(step)


def ratio_step(x: Array, dx: Array) -> float:
    """The largest a for which x + a·dx ≥ 0."""
    falling = dx < 0
    return float((-x[falling] / dx[falling]).min()) if falling.any() else LONGEST_STEP


@dataclass(frozen=True)
class RowScaling:
    """The scaling of all private rows at slacks t and multipliers y."""

    rows: ConicRows
    t: Array
    y: Array

    @cached_property
    def plain(self) -> Array:
        """Which rows are inequalities outside cones."""
        return plain_rows(self.rows)

    @cached_property
    def cones(self) -> tuple[ConeScaling, ...]:
        """The scaling of each cone."""
        return tuple(ConeScaling(self.t[k], self.y[k]) for k in self.rows.cones)

    def inverse_entries(self) -> Array:
        """Θ⁻¹ at ``rows.scaling_places``: t/y for inequalities, W² for cones, 0 for equations."""
        diagonal = np.zeros(len(self.t))
        diagonal[self.plain] = self.t[self.plain] / self.y[self.plain]
        diagonal = diagonal[self.rows.outside_cones]
        squares = [cone.square().ravel() for cone in self.cones]
        return np.concatenate([diagonal, *squares]) if squares else diagonal

    def inverse_times(self, y: Array) -> Array:
        """Θ⁻¹ y."""
        out = np.zeros(len(y))
        out[self.plain] = self.t[self.plain] / self.y[self.plain] * y[self.plain]
        for place, cone in zip(self.rows.cones, self.cones, strict=True):
            out[place] = cone.times(cone.times(y[place]))
        return out

    def centring(self) -> Array:
        """The e of the complementarity equations: 1 per inequality, (1, 0, …) per cone."""
        e = np.zeros(len(self.t))
        e[self.plain] = 1.0
        for place in self.rows.cones:
            e[place.start] = 1.0
        return e

    def complementarity(self) -> Array:
        """t∘y in scaled coordinates."""
        c = self.t * self.y
        for place, cone in zip(self.rows.cones, self.cones, strict=True):
            c[place] = jordan_product(cone.point, cone.point)
        return np.where(self.rows.equation, 0.0, c)

    def second_order(self, dt: Array, dy: Array) -> Array:
        """Δt∘Δy in scaled coordinates."""
        c = dt * dy
        for place, cone in zip(self.rows.cones, self.cones, strict=True):
            c[place] = jordan_product(cone.inverse(dt[place]), cone.times(dy[place]))
        return np.where(self.rows.equation, 0.0, c)

    def target_slack(self, c: Array) -> Array:
        """Θ⁻¹p, where p is what the target c of the complementarity adds to Δy."""
        out = np.zeros(len(c))
        out[self.plain] = c[self.plain] / self.y[self.plain]
        for place, cone in zip(self.rows.cones, self.cones, strict=True):
            out[place] = cone.times(cone.divide(c[place]))
        return out

    def target_sum(self, c: Array) -> float:
        """tᵀp."""
        return float(c[self.plain].sum() + sum(c[k.start] for k in self.rows.cones))


def plain_rows(rows: ConicRows) -> Array:
    """Which rows are inequalities."""
    plain = ~rows.equation
    for place in rows.cones:
        plain[place] = False
    return plain


def longest_in_cones(rows: ConicRows, t: Array, y: Array, dt: Array, dy: Array) -> float:
    """The longest step that keeps slacks t and multipliers y in their cones."""
    plain = plain_rows(rows)
    steps = [ratio_step(t[plain], dt[plain]), ratio_step(y[plain], dy[plain])]
    for place in rows.cones:
        steps += [cone_step(t[place], dt[place]), cone_step(y[place], dy[place])]
    return min(steps)


def central_start(rows: ConicRows) -> Array:
    """Slack and multiplier to begin with: 1, or the axis of a cone; 0 for equations."""
    start = np.where(rows.equation, 0.0, 1.0)
    for place in rows.cones:
        start[place] = 0.0
        start[place.start] = 1.0
    return start
