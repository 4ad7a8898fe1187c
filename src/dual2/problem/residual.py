"""The KKT residual: what ``tol`` bounds, coordinate by coordinate and row by row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dual2.errors import CapabilityError
from dual2.problem.ingredients import (
    EPS,
    ROUNDING,
    coupling_response,
    finite,
    group_least,
    group_norm,
    quotients,
    ratios_of,
    separates,
    size_of,
)
from dual2.problem.scales import (
    CANCELLATION,
    FLOOR,
    TINY,
    CouplingRows,
    Scales,
    forces_of,
    justified,
    scales_of,
    with_threshold_prices,
)

if TYPE_CHECKING:
    from dual2.functions import Function
    from dual2.problem.groups import Group, PointEvaluation
    from dual2.problem.problem import Problem

Vector = NDArray[np.float64]
PRODUCT, GAP = 10.0, 100.0
"""How much more than tol of the objective λᵀ(s − y), and all that λ leaves to gain, may be. They
add up over rows and coordinates, each of which may be off by tol."""


@dataclass(frozen=True, eq=False)
class KKT:
    r"""Relative residual of the optimality conditions at (x, λ), s = Σ_i A_i x_i.

    Each coordinate and each row is judged relative to its own terms, so that no unit, no other
    agent's size and no large number elsewhere hides a violation. Coordinates that g_i does not
    separate, and rows that h does not separate (a norm, a ball, a simplex), are judged together in
    the Euclidean norm. Write |A| for the matrix of absolute values, d_j = (Σ_i |A_i,j|²)^(1/2) for
    the length of row j, e_k = max_j |A_jk|/d_j for that of column k in balanced rows, c_k for the
    curvature of f_i along coordinate k (μ_i where it is not known) and F = ∇f_i(x_i) + A_iᵀλ.

    - *Stationarity* of coordinate k: |x − prox_{τg}(x − τF)|_k/τ_k relative to
      φ_k = max(|∇f_i|_k, |A_iᵀλ|_k, c_k|x_k|, min((|A_i|ᵀ|λ|)_k, 10³·e_k·Λ)), where Λ is the
      largest of the first three divided by e_k: the largest price that a force justifies. The
      fourth allows forces to cancel (a line without cost has λ₁ = λ₂ at its ends and no other
      force), but λ = 10¹⁵ that nothing justifies excuses nothing. τ_k = |x_k|/φ_k; a coordinate
      at 0 has the size 1e-12·z_k instead, see below, and a block the size z of its step.
    - *Coupling* of row j: |s_j − y_j| relative to max(|s_j|, |y_j|, min(l_j, d_j·R)), with
      y = prox_{t·h}(s + tλ), l = Σ_i |A_i||x_i| the load and t_j = l_j/max(|λ_j|, π_j): a price
      that is nothing compared with π_j = min_k φ_k/|A_jk| is as good as 0 for every coordinate. R
      is the largest of 10³·max(|s_k|, |y_k|)/d_k and of e_k times the size of x_k that data
      justify: |x_k| where the domain of g_i does not allow to double it, else
      10³·max(|∇f_i(x)|, |A_iᵀλ|, |∇f_i(0)|)_k/c_k if that is smaller and c_k > 0, and 0 if c_k = 0.
      Sums that vanish by cancellation (x₁ = x₂ as x₁ − x₂ = 0) have no other size than their load,
      but x = 10¹⁵ that cancels excuses nothing.
    - *Objective*: |λᵀ(s − y)| relative to 10 times, and together with Σ_i (L_i(x_i) − L_i(v_i)),
      L_i = f_i + g_i + λᵀA_i, relative to 100 times the magnitudes of the objective's terms
      Σ_i (|f_i| + |g_i| + Σ_k max(|∇f_i|, |A_iᵀλ|, c|x|)_k |x_k|) + |h(y)|. The v_i are reached by
      long steps, prox_{τg}(x − τF) with τ = z_k/|F_k|, at most 1/L_i of f_i, where
      z_k = max(|x_k|, min_j r_j/|A_jk|), r_j the size of row j: by so much the objective can fall
      at this price. It is a part of the duality gap that is finite for every f and g.

    Λ also counts prices that h justifies: up to the size of its slopes, or |λ_j| where the domain
    of h* does not allow to double it. Rows and prices below 1e-12 of the largest (in balanced
    rows) count as 0, and forces below 1e-12 of the prices that make them up. For an h without
    prox, y is ∇h*(λ).

    Attributes
    ----------
    stationarity, coupling, objective : float
        The largest ratio of a coordinate and of a row, and that of the objective (0 where the
        residual is 0, infinite where only the scale is).
    agent, coordinate, row : int
        Where the first two are attained.
    s, y : ndarray, shape (p,)
        Σ_i A_i x_i, and the nearest response of h.
    """

    stationarity: float
    agent: int
    coordinate: int
    coupling: float
    row: int
    objective: float
    s: Vector
    y: Vector

    @property
    def kkt(self) -> float:
        """The largest of the three ratios; CONVERGED means that ``tol`` bounds it."""
        return max(self.stationarity, self.coupling, self.objective)


class RowResidual(NamedTuple):
    """How well the rows are met."""

    ratio: float
    row: int
    y: Vector
    sizes: Vector
    """r_j."""


def kkt(
    problem: Problem, x: list[Vector], lam: Vector, atol: float | Vector, rows: float | Vector
) -> KKT:
    """Evaluate the :class:`KKT` residual less ``atol``, ``rows`` in the rows' units."""
    count, p = len(problem.agents), problem.p
    odd = not finite(lam, *x)
    asked = [] if odd else [(group, group.ask(x, lam)) for group in problem.groups]
    parts = np.zeros((count, 3 * p + 1))
    parts[:, -1] = odd
    for group, at_point in asked:
        own = (
            at_point.products,
            at_point.sizes,
            np.broadcast_to(group.A.norms**2, at_point.products.shape),
        )
        parts[group.at, :-1] = np.hstack(own)
    *sums, odds = problem.total(parts)
    if odds or not finite(np.array(sums)):
        nowhere = np.full(p, np.nan)
        return KKT(np.inf, 0, 0, np.inf, 0, np.inf, nowhere, nowhere)
    s, load, squares = np.split(np.array(sums), 3)
    known = CouplingRows(s, load, np.where(squares > 0, np.sqrt(squares), 1.0))
    known = justified(problem, asked, lam, known)
    forced = [(group, at_point, forces_of(group, at_point, known)) for group, at_point in asked]
    known = with_threshold_prices(problem, forced, known)
    coupled = judge_coupling(problem.h, lam, known, rows)
    floors = np.broadcast_to(atol, count)
    found = np.zeros((count, 4))
    for group, at_point, force in forced:
        scales = scales_of(group, at_point, force, known, coupled.sizes)
        found[group.at, :2] = judge_coordinates(group, at_point, scales, floors[group.at])
        found[group.at, 2] = left_to_gain(group, at_point, scales)
        found[group.at, 3] = at_point.magnitude
    worst, floor = problem.largest(np.column_stack([found[:, 0], -floors]))
    agent = problem.first(found[:, 0] >= worst) or 0 if worst > 0 else 0
    coordinate = problem.largest(np.where(problem.owned == agent, found[:, 1], 0.0)[:, None])[0]
    gain, magnitude = problem.total(found[:, 2:])
    size = float(magnitude) + size_of(problem.h, coupled.y)
    product = abs(float(lam @ (s - coupled.y)))
    objective = judge_objective(product, float(gain), size, -float(floor))
    return KKT(
        float(worst), agent, int(coordinate), coupled.ratio, coupled.row, objective, s, coupled.y
    )


# -- the three residuals ----------------------------------------------------------------------


def judge_coordinates(
    group: Group, at_point: PointEvaluation, scales: Scales, atol: Vector
) -> Vector:
    """(agents, 2): the worst ratio of each, and its coordinate."""
    # without any force as long a step as numbers allow shows whether g has one
    tau = np.where(scales.force > 0, quotients(scales.size, scales.force), scales.size / TINY)
    moved = at_point.X - group.g.prox(at_point.X - tau * (at_point.gradient + at_point.ATy), tau)
    residual = np.where(np.isfinite(moved), np.abs(moved) / tau, np.inf)
    residual = group.blocks.norms(residual)
    left = np.where(residual > scales.floor, residual - atol[:, None], 0.0)
    ratios = np.pad(ratios_of(left, scales.force), ((0, 0), (0, 1)))  # an agent may have none
    worst = ratios.argmax(axis=1)
    return np.column_stack([ratios.max(axis=1), worst])


def left_to_gain(group: Group, at_point: PointEvaluation, scales: Scales) -> Vector:
    """L_i(x_i) − L_i(z_i) of each agent; 0 where a function came without its value."""
    force, L = at_point.gradient + at_point.ATy, group.f.L
    longest = np.divide(1.0, L, out=np.full_like(L, np.inf), where=(L > 0) & (L < np.inf))[:, None]
    tau = np.minimum(quotients(scales.reach, group.blocks.norms(np.abs(force))), longest)
    z = group.g.prox(at_point.X - tau * force, tau)
    with np.errstate(invalid="ignore", over="ignore"):
        terms = [(at_point.ATy * (at_point.X - z)).sum(axis=1)]
        for part in (group.f, group.g):
            terms += [values_of(part, at_point.X), -values_of(part, z)]
        gain, noise = sum(terms), ROUNDING * EPS * sum(map(np.abs, terms))
    return np.where(np.isfinite(gain) & (gain > noise), gain, 0.0)


def values_of(functions: Any, X: Vector) -> Vector:
    """The values of each row, NaN where a user's function came without."""
    try:
        return functions.values(X)
    except CapabilityError:
        return np.full(len(X), np.nan)


def judge_coupling(
    h: Function, lam: Vector, rows: CouplingRows, atol: float | Vector
) -> RowResidual:
    """The worst ratio of a row, see :class:`KKT`."""
    s, p = rows.s, len(lam)
    if p == 0:
        return RowResidual(0.0, 0, s, s)
    labels = None if separates(h, p) else h.groups(p)
    units = group_norm(rows.units, labels)
    load, price = group_norm(rows.load, labels), group_norm(lam, labels)
    least = FLOOR * (rows.price or 1.0) / units
    load_or_more = np.where(load > 0, load, units * (float(np.max(load / units)) or 1.0))
    threshold = np.maximum(price, group_least(np.broadcast_to(rows.threshold, p), labels))
    step = quotients(load_or_more, np.maximum(threshold, least))
    y = coupling_response(h, s, np.where(price > least, lam, 0.0), step)
    residual = group_norm(s - y, labels)
    size = np.maximum(group_norm(s, labels), group_norm(y, labels))
    length = max(CANCELLATION * float(np.max(size / units)), rows.length)
    size = np.maximum(size, np.minimum(load, units * length))
    floor = FLOOR * units * max(length / CANCELLATION, rows.length)
    floor = np.maximum(floor, np.where(load > 0, 0.0, FLOOR * step * price))  # s + tλ was rounded
    ratios = ratios_of(np.where(residual > floor, residual - atol, 0.0), size)
    row = int(np.argmax(ratios))
    return RowResidual(float(ratios[row]), row, y, size)


def judge_objective(product: float, gain: float, size: float, atol: float = 0.0) -> float:
    """Ratio of what is left to gain; an objective of sets alone has no size to be judged by."""
    if size <= 0:
        return np.inf if gain > atol else 0.0
    return max(product - atol, (product + gain - atol) * PRODUCT / GAP, 0.0) / (PRODUCT * size)
