"""The problem in the known directions where it has no curvature of its own: linear programs.

Without curvature the augmented Lagrangian of :mod:`.reduced` may be linear where no row is at a
kink. A proximal term (ρ/2)|c - c̄|² is added and c̄ moved with every multiplier step: the proximal
method of multipliers (Rockafellar, 1976), which converges for every ρ, and ends after finitely
many steps where everything is piecewise linear.
"""

import numpy as np

from dual2.functions import Function
from dual2.functions.derivatives import prox_jacobian
from dual2.methods.newton.reduced import (
    Answer,
    Gram,
    Reduced,
    multiplier_step,
    solve_reduced,
)
from dual2.methods.newton.reduced_kinks import kinks_of, solve_kinks

Array = np.ndarray
STEPS, FASTER, SLOWER, FINER = 60, 3.0, 0.5, 0.1
"""Most multiplier steps; by how much σ and 1/ρ grow from one to the next, fall where the rows'
residual has grown, and fall where it is small enough and only rounding, which σ enlarges, is left
of the gradient."""
FIRM, SPAN = 1e3, 1e8
"""How far σ and 1/ρ must grow before a step counts, and may grow."""
EMPTY = 1e-14
"""Residual, relative to the widest that a row has been, of one that is empty but for rounding."""
CLOSE, INNER = 1e-9, 0.0
"""Accuracy at least, and of every step, which ends at rounding: agents without curvature feel the
whole price, and nothing beside it that an error could be small against."""


def solve_known(
    h: Function, problem: Reduced, gram: Gram, c: Array, lam: Array, sigma: float, tol: float
) -> Answer:
    """As :func:`.reduced.solve_reduced`; where that fails, by springs.

    Equations that few directions cannot meet are no failure: their price leads to further ones.
    """
    if gram.is_smooth(h, len(problem.base)) or not len(c):
        return solve_reduced(h, problem, gram, c, lam, sigma, tol)
    kinks = kinks_of(h, len(problem.base))
    exact = None if kinks is None else solve_kinks(problem, kinks, c, gram)
    if exact is not None:
        return exact
    if not np.trace(problem.H) > 0:
        return solve_flat(h, problem, gram, (c, lam), tol)
    found = solve_reduced(h, problem, gram, c, lam, sigma, tol)
    form = h.form
    equations = form is not None and bool(np.any(np.equal(form.lower, form.upper)))
    if found.rows <= tol or equations:
        return found
    gram.forget()
    other = solve_flat(h, problem, gram, (c, lam), tol)
    return other if other.rows < found.rows else found


def solve_flat(
    h: Function, problem: Reduced, gram: Gram, start: tuple[Array, Array], tol: float
) -> Answer:
    """Minimise ½cᵀHc + bᵀc + h(s̄ + c·S) from (c, λ); ``tol`` bounds rows and gradient."""
    (c, lam), tol = start, min(tol, CLOSE)
    t = scale_of(h, problem.base + c @ problem.S)
    weight, pace = float(np.sum(problem.S**2)) / max(len(c), 1) / t, 1.0
    found = best = Answer(c, lam, problem.base, problem.base, 0.0, np.inf)
    unit, least, fine, widest, off = np.eye(len(c)), np.inf, False, np.zeros_like(lam), np.inf
    for _ in range(STEPS):
        old, spring, before = found, weight / pace, off
        held = problem._replace(H=problem.H + spring * unit, b=problem.b - spring * old.c)
        found = multiplier_step(h, held, gram, old._replace(sigma=pace / t), INNER)
        gram.forget()
        widest = np.maximum(widest, np.maximum(np.abs(found.s), np.abs(found.y)))
        off = off_beside(found, widest)
        found = found._replace(rows=0.0) if off <= EMPTY else found
        left = imbalance(problem, found)
        good = pace >= FIRM and found.rows <= tol and left <= 0.01 * tol
        if fine and not (good and left <= 0.5 * least):
            break
        if good or found.rows <= best.rows:
            best, least = found, left
        fine = fine or good
        faster = found.rows <= max(old.rows, tol) or off <= 0.5 * before
        change = FINER if fine else FASTER if faster else SLOWER
        pace = min(max(pace * change, 1.0), SPAN)
    return best._replace(sigma=0.0, lam=balanced(h, problem, best, t))


def balanced(h: Function, problem: Reduced, at: Answer, t: float) -> Array:
    """λ with what rounding left of Hc + b + Sλ taken by the rows at kinks, where λ is free."""
    step = np.full(len(at.lam), t)
    jac = prox_jacobian(h, at.y + t * at.lam, step)
    assert jac is not None, "the plan has asked for it"
    free, lam = np.flatnonzero(jac == 0.0), at.lam.copy()
    for _ in range(2 if len(free) else 0):
        left = problem.H @ at.c + problem.b + problem.S @ lam
        lam[free] -= np.linalg.lstsq(problem.S[:, free], left, rcond=None)[0]
    return lam


def imbalance(problem: Reduced, at: Answer) -> float:
    """|Hc + b + Sλ| beside the terms that it is made of."""
    own, felt = problem.H @ at.c + problem.b, problem.S @ at.lam
    made = np.abs(problem.S) @ np.abs(at.lam)
    terms = max(float(np.linalg.norm(own)), float(np.linalg.norm(made)))
    return float(np.linalg.norm(own + felt)) / terms if terms > 0 else 0.0


def off_beside(at: Answer, widest: Array) -> float:
    """The largest |s_j - y_j| relative to the widest that the row has been."""
    off = np.abs(at.s - at.y)
    return float(np.divide(off, widest, out=np.zeros_like(off), where=widest > 0).max(initial=0.0))


def scale_of(h: Function, s: Array) -> float:
    """|s|/|λ| for typical s and λ, a power of eight: how far kinks of h are, and how steep it is.

    Examples
    --------
    >>> from dual2.functions import AbsoluteLoss
    >>> scale_of(AbsoluteLoss([3.0, 4.0]), np.zeros(2))
    8.0
    """
    step, far = 1.0, np.zeros_like(s)
    for _ in range(60):
        y = h.prox(s, np.full(len(s), step))
        far, price = y - s, (s - y) / step
        length = float(np.linalg.norm(price))
        if not length > 0:
            return 1.0
        new = h.prox(s, np.full(len(s), 8.0 * step))
        if float(np.linalg.norm(new - s)) <= 2.0 * float(np.linalg.norm(far)):
            return float(np.linalg.norm(far)) / length
        step *= 8.0
    return 1.0
