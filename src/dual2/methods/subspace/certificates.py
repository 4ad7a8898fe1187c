"""Proofs of the primal modes that no point meets what h demands, or that none is the best.

Where the rows stay away from the domain of h, the least distance of the known directions to it is
attained at some s, and the way u = s - y to the nearest point y of the domain separates the two
sets if all directions are known (Farkas). Every agent tells how far it reaches along -A_iᵀu; the
proof is that of :mod:`.dual_newton.termination`. Where the objective falls without bound, the
solution in the known directions runs away; every agent says how fast its own part falls along it.
"""

import numpy as np

from dual2.functions import Function
from dual2.functions.domains import rate_along, to_barrier, to_recession
from dual2.functions.hessians import View
from dual2.methods.dual_newton.termination import proves_infeasible
from dual2.methods.local.closed_form import CONE_RTOL
from dual2.methods.message import (
    BARRIER_DISTANCE,
    DIRECTION_SCALARS,
    OUTSIDE_BARRIER,
    SUPPORT,
    SUPPORT_MAGNITUDE,
)
from dual2.methods.subspace.cholesky import factorise
from dual2.methods.subspace.recession import (
    MIN_DESCENT_RTOL,
    linear_part,
    proves_unbounded,
    recession_message,
)
from dual2.methods.subspace.subspace_problem import Gram, SubspaceProblem, minimise
from dual2.problem import Agent
from dual2.runtime import Runtime

Array = np.ndarray
FLAT_RTOL = 1e-12
"""Curvature of the known directions, relative to the largest, that counts as none."""


def find_descent(
    h: Function, problem: SubspaceProblem, c: Array, squares: Array | None = None
) -> Array | None:
    """A part u of c along which ½cᵀHc + bᵀc + h(s̄ + c·S) seems to fall without bound, or None.

    It is the part without curvature. At a solution bᵀu + h∞(u·S) >= 0 for all such u, h∞ the rate
    at which h grows. ``squares`` are the squared lengths of the products, in any units of the rows.

    Examples
    --------
    >>> from dual2.functions import HingeLoss
    >>> problem = SubspaceProblem(np.zeros((1, 1)), np.array([3.0]), np.ones((1, 2)), np.zeros(2))
    >>> find_descent(HingeLoss([1.0, 1.0]), problem, np.array([-9.0]))
    array([-1.])
    >>> find_descent(HingeLoss([1.0, 1.0], 2.0), problem, np.array([-9.0])) is None
    True
    """
    size = float(np.abs(c).max(initial=0.0))
    if not 0 < size < np.inf:
        return None
    bent = np.maximum(np.diag(problem.H), 0.0)
    long = np.einsum("kj,kj->k", problem.S, problem.S) if squares is None else squares
    share = bent.sum() / long.sum() if bent.any() and long.any() else 1.0
    found = (_descent_part(h, problem, c / size, unit) for unit in (bent, bent + share * long))
    return next((u for u in found if u is not None), None)


def _descent_part(h: Function, problem: SubspaceProblem, c: Array, squares: Array) -> Array | None:
    """The same, with directions as long as the roots of ``squares``."""
    unit = np.sqrt(np.where(squares > 0, squares, 1.0))
    H = problem.H / unit / unit[:, None]
    floor = FLAT_RTOL * float(np.trace(H)) * np.eye(len(H))  # not below what counts as none
    if factorise(H - floor) is not None:
        return None
    values, vectors = np.linalg.eigh(H)
    null_space = vectors[:, values <= FLAT_RTOL * max(float(values[-1]), 0.0)]
    u = (null_space @ (null_space.T @ (unit * c))) / unit
    length = float(np.linalg.norm(u))
    if not length > 0:
        return None
    u, s = u / length, problem.along(u / length)
    along = float(np.linalg.norm(s))
    rate = float(problem.b @ u)
    rate += along * rate_along(h, to_recession(h, s / along)) if along > 0 else 0.0
    return u if rate < -MIN_DESCENT_RTOL * float(np.abs(problem.b) @ np.abs(u)) else None


def prove_unbounded(runtime: Runtime, h: Function, direction: Array, lam: Array) -> Array | None:
    """The part of ``direction`` that proves the objective unbounded below, or None."""
    found = zip(runtime.problem.agents, runtime.problem.split(direction), strict=True)
    parts = [linear_part(agent, own)[0] for agent, own in found]
    pairs = zip(runtime.problem.agents, parts, strict=True)
    total = runtime.allreduce_sum(
        np.array([recession_message(agent, part) for agent, part in pairs])
    )
    proven = proves_unbounded(h, total, float(np.linalg.norm(lam)))
    return np.concatenate(parts) if proven else None


def prove_infeasible(
    runtime: Runtime, h: Function, problem: SubspaceProblem, point: tuple[Array, Array, Array]
) -> Array | None:
    """A direction that proves that nothing is feasible, or None; ``point`` is (x, c, λ).

    The agents agree on four numbers for each of two candidates: the least way from the known
    directions to the domain of h, and the multiplier, which grows where nothing is feasible.
    """
    x, c, lam = point
    form = h.form
    if form is None or not any(np.any(np.isfinite(b)) for b in (form.lower, form.upper)):
        return None
    found = [_unit_separator(h, v) for v in (distance_direction(h, problem, c), lam)]
    candidates = np.array([u for u in found if u is not None])
    if not len(candidates):
        return None
    y = np.clip(problem.base + c @ problem.S, form.lower, form.upper)
    parts = zip(runtime.problem.agents, runtime.problem.split(x), strict=True)
    rows = [[support_message(agent, own, u, y) for u in candidates] for agent, own in parts]
    total = runtime.allreduce_sum(np.array(rows).reshape(runtime.n, -1)).reshape(
        -1, DIRECTION_SCALARS
    )
    for u, numbers in zip(candidates, total, strict=True):
        if proves_infeasible(h, u, numbers, y):
            return u
    return None


def distance_direction(h: Function, problem: SubspaceProblem, c: Array) -> Array:
    """s - y for the s = s̄ + c·S nearest to the domain of h, y its nearest point there.

    Examples
    --------
    >>> from dual2.functions import IndicatorBox
    >>> h = IndicatorBox([1.0, 1.0], np.inf)
    >>> S = np.array([[1.0, -1.0]])
    >>> problem = SubspaceProblem(np.zeros((1, 1)), np.zeros(1), S, np.zeros(2))
    >>> distance_direction(h, problem, np.ones(1)).tolist()
    [-1.0, -1.0]
    """
    assert h.form is not None, "asked for before"
    lower, upper = (np.broadcast_to(b, problem.base.shape) for b in (h.form.lower, h.form.upper))

    def evaluate(s: Array) -> View:
        direction = s - np.clip(s, lower, upper)
        outside = (s < lower) | (s > upper)
        return View(0.5 * float(direction @ direction), direction, lambda: outside.astype(float))

    plain = problem._replace(H=np.zeros_like(problem.H), b=np.zeros_like(problem.b))
    return minimise(plain, evaluate, Gram(), c, 0.0).lam


def _unit_separator(h: Function, direction: Array) -> Array | None:
    """The direction of length one if the domain of h is bounded in it."""
    size = float(np.linalg.norm(direction))
    if not 0 < size < np.inf:
        return None
    u = to_barrier(h, direction / size)
    off = float(np.abs(direction / size - u).max())
    length = float(np.linalg.norm(u))
    return u / length if off <= CONE_RTOL and length > 0 else None


def support_message(agent: Agent, x: Array, u: Array, y: Array) -> Array:
    """The numbers of a direction, see :mod:`.message`, of an agent whose g splits by coordinate."""
    form, out = agent.g.form, np.zeros(DIRECTION_SCALARS)
    assert form is not None, "the plan has asked for it"
    w, norms = -agent.adjoint(u), agent.row_norms
    far = np.where(w > 0, form.upper, form.lower)
    held = np.isfinite(far)
    terms = w[held] * far[held]
    missed = float(np.linalg.norm(w[~held]))
    ratios = np.abs(y)[norms > 0] / norms[norms > 0]
    extent = max(float(np.linalg.norm(x)), float(ratios.max(initial=0.0)))
    out[SUPPORT], out[SUPPORT_MAGNITUDE] = float(terms.sum()), float(np.abs(terms).sum())
    out[BARRIER_DISTANCE] = missed * extent
    out[OUTSIDE_BARRIER] = float(missed > CONE_RTOL * float(norms @ np.abs(u)))
    return out
