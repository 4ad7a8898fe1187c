"""The problem in the known directions where it has no curvature of its own: linear programs.

Without curvature the augmented Lagrangian of :mod:`.subspace_problem` may be linear where no row is
at a kink. A proximal term (ρ/2)|c - c̄|² is added and c̄ moved with every multiplier step: the
proximal method of multipliers (Rockafellar, 1976), which converges for every ρ, and ends after
finitely many steps where everything is piecewise linear.
"""

import numpy as np

from dual2.functions import Function
from dual2.functions.derivatives import prox_jacobian
from dual2.methods.subspace.subspace_ipm import find_kinks, solve_piecewise_linear
from dual2.methods.subspace.subspace_problem import (
    Gram,
    SubspaceProblem,
    SubspaceSolution,
    multiplier_step,
    solve_subspace,
)

Array = np.ndarray
MAX_STEPS, SCALE_UP, SCALE_DOWN, SCALE_FINE = 60, 3.0, 0.5, 0.1
"""Most multiplier steps; by how much σ and 1/ρ grow from one to the next, fall where the rows'
residual has grown, and fall where it is small enough and only rounding, which σ enlarges, is left
of the gradient."""
MIN_SCALE, MAX_SCALE = 1e3, 1e8
"""How far σ and 1/ρ must grow before a step counts, and may grow."""
EMPTY_ROW_RTOL = 1e-14
"""Residual, relative to the widest that a row has been, of one that is empty but for rounding."""
MAX_TOL, INNER_TOL = 1e-9, 0.0
"""Accuracy at least, and of every step, which ends at rounding: agents without curvature feel the
whole multiplier, and nothing beside it that an error could be small against."""


def solve_with_fallbacks(
    h: Function,
    problem: SubspaceProblem,
    gram: Gram,
    c: Array,
    lam: Array,
    sigma: float,
    tol: float,
) -> SubspaceSolution:
    """As :func:`.subspace_problem.solve_subspace`; where that fails, by proximal terms.

    Equations that few directions cannot meet are no failure: their multiplier leads to further
    ones.
    """
    if gram.is_smooth(h, len(problem.base)) or not len(c):
        return solve_subspace(h, problem, gram, c, lam, sigma, tol)
    kinks = find_kinks(h, len(problem.base))
    exact = None if kinks is None else solve_piecewise_linear(problem, kinks, c, gram)
    if exact is not None:
        return exact
    if not np.trace(problem.H) > 0:
        return solve_without_curvature(h, problem, gram, (c, lam), tol)
    solution = solve_subspace(h, problem, gram, c, lam, sigma, tol)
    form = h.form
    equations = form is not None and bool(np.any(np.equal(form.lower, form.upper)))
    if solution.rows <= tol or equations:
        return solution
    gram.reset()
    other = solve_without_curvature(h, problem, gram, (c, lam), tol)
    return other if other.rows < solution.rows else solution


def solve_without_curvature(
    h: Function, problem: SubspaceProblem, gram: Gram, start: tuple[Array, Array], tol: float
) -> SubspaceSolution:
    """Minimise ½cᵀHc + bᵀc + h(s̄ + c·S) from (c, λ); ``tol`` bounds rows and gradient."""
    (c, lam), tol = start, min(tol, MAX_TOL)
    t = scale_of(h, problem.base + c @ problem.S)
    weight, scale = float(np.sum(problem.S**2)) / max(len(c), 1) / t, 1.0
    solution = best = SubspaceSolution(c, lam, problem.base, problem.base, 0.0, np.inf)
    unit, least, fine, max_row_scale, off = (
        np.eye(len(c)),
        np.inf,
        False,
        np.zeros_like(lam),
        np.inf,
    )
    for _ in range(MAX_STEPS):
        old, prox_weight, previous_off = solution, weight / scale, off
        regularised = problem._replace(
            H=problem.H + prox_weight * unit, b=problem.b - prox_weight * old.c
        )
        solution = multiplier_step(h, regularised, gram, old._replace(sigma=scale / t), INNER_TOL)
        gram.reset()
        max_row_scale = np.maximum(
            max_row_scale, np.maximum(np.abs(solution.s), np.abs(solution.y))
        )
        off = relative_residual(solution, max_row_scale)
        solution = solution._replace(rows=0.0) if off <= EMPTY_ROW_RTOL else solution
        remainder = imbalance(problem, solution)
        good = scale >= MIN_SCALE and solution.rows <= tol and remainder <= 0.01 * tol
        if fine and not (good and remainder <= 0.5 * least):
            break
        if good or solution.rows <= best.rows:
            best, least = solution, remainder
        fine = fine or good
        faster = solution.rows <= max(old.rows, tol) or off <= 0.5 * previous_off
        change = SCALE_FINE if fine else SCALE_UP if faster else SCALE_DOWN
        scale = min(max(scale * change, 1.0), MAX_SCALE)
    return best._replace(sigma=0.0, lam=balanced(h, problem, best, t))


def balanced(h: Function, problem: SubspaceProblem, point: SubspaceSolution, t: float) -> Array:
    """λ with what rounding left of Hc + b + Sλ taken by the rows at kinks, where λ is free."""
    step = np.full(len(point.lam), t)
    jac = prox_jacobian(h, point.y + t * point.lam, step)
    assert jac is not None, "the plan has asked for it"
    free, lam = np.flatnonzero(jac == 0.0), point.lam.copy()
    for _ in range(2 if len(free) else 0):
        remainder = problem.H @ point.c + problem.b + problem.S @ lam
        lam[free] -= np.linalg.lstsq(problem.S[:, free], remainder, rcond=None)[0]
    return lam


def imbalance(problem: SubspaceProblem, point: SubspaceSolution) -> float:
    """|Hc + b + Sλ| beside the terms that it is made of."""
    gradient, dual_products = problem.H @ point.c + problem.b, problem.S @ point.lam
    made = np.abs(problem.S) @ np.abs(point.lam)
    terms = max(float(np.linalg.norm(gradient)), float(np.linalg.norm(made)))
    return float(np.linalg.norm(gradient + dual_products)) / terms if terms > 0 else 0.0


def relative_residual(point: SubspaceSolution, max_row_scale: Array) -> float:
    """The largest |s_j - y_j| relative to the widest that the row has been."""
    off = np.abs(point.s - point.y)
    return float(
        np.divide(off, max_row_scale, out=np.zeros_like(off), where=max_row_scale > 0).max(
            initial=0.0
        )
    )


def scale_of(h: Function, s: Array) -> float:
    """|s|/|λ| for typical s and λ, a power of eight: how far kinks of h are, and how steep it is.

    Examples
    --------
    >>> from dual2.functions import AbsoluteLoss
    >>> scale_of(AbsoluteLoss([3.0, 4.0]), np.zeros(2))
    8.0
    """
    step, distance = 1.0, np.zeros_like(s)
    for _ in range(60):
        y = h.prox(s, np.full(len(s), step))
        distance, multiplier = y - s, (s - y) / step
        length = float(np.linalg.norm(multiplier))
        if not length > 0:
            return 1.0
        new = h.prox(s, np.full(len(s), 8.0 * step))
        if float(np.linalg.norm(new - s)) <= 2.0 * float(np.linalg.norm(distance)):
            return float(np.linalg.norm(distance)) / length
        step *= 8.0
    return 1.0
