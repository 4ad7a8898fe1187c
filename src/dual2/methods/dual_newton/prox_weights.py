"""Proximal terms for agents without strong convexity: how strong they begin, how they fade.

The outer loop is the proximal point method on the primal variables of these agents, which is the
proximal method of multipliers seen from the dual (Rockafellar, 1976): it converges from anywhere
for every r_i > 0 and the faster the smaller r_i; inexact inner solutions do no harm if their
errors are small beside the step.
"""

from typing import NamedTuple

import numpy as np

from dual2.functions import Function, IndicatorBall, IndicatorSimplex
from dual2.functions.domains import inside_value
from dual2.methods.dual_newton.agents import Agents, ProximalTerms
from dual2.methods.dual_newton.envelope import EPS
from dual2.methods.message import COUNT_NOT_STRONGLY_CONVEX, COUNT_SIZES, SUM_COSTS, SUM_SIZES
from dual2.problem.ingredients import group_norm

Array = np.ndarray
WEIGHT_DIVISORS = ((2, 10.0), (5, 4.0), (24, 2.0), (10**9, 0.3))
"""By how much the r_i are divided after so many Newton steps at most."""
MAX_INNER_STEPS = 25
"""Most Newton steps between two moves of the prox centers."""
MIN_WEIGHT_RTOL = 1e-12
"""Least r_i relative to L_i."""
MAX_RETREATS = 6
_SMALL_PART = 0.1
"""Part of M up to which an agent's own does not matter."""
_STEP_FACTOR = 1e-3
"""Steps of h's prox, relative to the usual, between which a demand stays the same up to as much."""
_PROPORTIONAL_GROWTH, _MAX_STEPS = 10.0, 12
"""Growth of what h asks for, with such a step more, that is in proportion to it; most of them."""
_NOISE_ULPS, _ENTRY_RTOL = 64.0, 1e-11
"""Units in the last place of the force, and share of x_i's size, up to which x_j is rounding."""


def domain_size(g: Function, d: int) -> float:
    """How large the domain of g is in the coordinates in which it is bounded; 0 if in none.

    Examples
    --------
    >>> from dual2.functions import IndicatorBox
    >>> domain_size(IndicatorBox(0.0, [3.0, 4.0]), 2)
    5.0
    """
    if g.form is not None:
        width = np.broadcast_to(np.subtract(g.form.upper, g.form.lower), (d,))
        return float(np.linalg.norm(width[np.isfinite(width)]))
    if isinstance(g, IndicatorBall):
        return g.radius
    return g.total if isinstance(g, IndicatorSimplex) else 0.0


class AgentScales(NamedTuple):
    """What the agents without strong convexity know.

    |∇f_i|, the size of x_i (0 if unknown), and the largest entry of x_i that has been an answer.
    """

    gradient_norm: Array
    size: Array
    max_entry: Array


def collect_setup(agents: Agents, not_strongly_convex: Array, x: Array) -> AgentScales:
    """Sizes of forces and variables; what the agents tell of them is left in ``agents.setup``."""
    xptr = agents.runtime.block.xptr
    gradient_norm, size = np.zeros(len(not_strongly_convex)), np.zeros(len(not_strongly_convex))
    agents.setup = {}
    for i in np.flatnonzero(not_strongly_convex).tolist():
        agent, own = agents.problem.agents[i], x[xptr[i] : xptr[i + 1]]
        gradient_norm[i] = np.linalg.norm(agent.f.grad(own))
        size[i] = domain_size(agent.g, agent.dim) or float(np.linalg.norm(own))
        stats = {
            SUM_SIZES: size[i],
            COUNT_SIZES: float(size[i] > 0),
            SUM_COSTS: gradient_norm[i] * size[i],
            COUNT_NOT_STRONGLY_CONVEX: 1.0,
        }
        numbers = [stats[key] for key in sorted(stats)]
        ones = np.ones(agent.dim)
        agents.setup[i] = np.append(agent.sizes(ones, agent.apply(ones)), numbers)
    return AgentScales(gradient_norm, size, np.zeros(len(not_strongly_convex)))


def max_abs_entries(x: Array, xptr: Array) -> Array:
    """max_j |x_ij| of every agent."""
    return np.maximum.reduceat(np.abs(x), xptr[:-1]) if len(x) else np.zeros(len(xptr) - 1)


def adjoint_scales(agents: Agents, not_strongly_convex: Array, lam: Array) -> Array:
    """Σ_j |A_i,j||λ_j| of the agents without strong convexity, of which A_iᵀλ is made; else 0."""
    adjoints = np.zeros(len(not_strongly_convex))
    for i in np.flatnonzero(not_strongly_convex).tolist():
        adjoints[i] = agents.problem.agents[i].row_norms @ np.abs(lam)
    return adjoints


def initial_weights(
    agents: Agents, sizes: AgentScales, not_strongly_convex: Array, total: Array
) -> Array:
    """r_i from the sizes of the variables and of the forces on them, and the sums of a setup sum.

    r_i = max(o_i/w_i², 1e-3 L_i), w_i the size of x_i and o_i = |∇f_i|w_i that of its cost, so that
    all units cancel. For an agent without any cost r_i is the curvature with which h falls over the
    size that it asks for.
    """
    p, own, h = agents.p, agents.problem.agents, agents.problem.h
    columns, known, count = total[:p], total[p + SUM_SIZES], total[p + COUNT_SIZES]
    target = typical_target(h, columns)
    both = (columns > 0) & (target != 0)
    demanded_ratio = float(np.median(np.abs(target[both]) / columns[both])) if both.any() else 0.0
    mean, usual = (known / count, total[p + SUM_COSTS] / count) if count else (0.0, 0.0)
    r = np.zeros(len(not_strongly_convex))
    for i in np.flatnonzero(not_strongly_convex):
        L, gradient_norm = float(own[i].f.L), sizes.gradient_norm[i]
        demanded_size = np.sqrt(own[i].dim) * demanded_ratio
        w = sizes.size[i] or demanded_size or (gradient_norm / L if L > 0 else 0.0) or mean
        w = w or 1.0
        r[i] = max(max(gradient_norm * w, 1e-2 * usual) / w**2, 1e-3 * L)
        if not r[i]:
            r[i] = (_fall(h, target) / demanded_size**2 if demanded_size else 0.0) or 1.0
    return r


def _fall(h: Function, target: Array) -> float:
    """How much lower h is at the ``target`` than at 0; 0 if that is unknown, or nothing."""
    fall = inside_value(h, np.zeros_like(target)) - inside_value(h, target)
    return fall if 0 < fall < np.inf else 0.0


def typical_target(h: Function, columns: Array) -> Array:
    """prox_h(0) with steps in the square of the rows' units, alike within the blocks of h.

    Where h demands something of some rows, which is the same whatever the step, only these count:
    a wish of other rows says less about the size of x. Where nothing is demanded, steps grow while
    what is wished grows with them: the objective has units of its own.

    Examples
    --------
    >>> from dual2.functions import AbsoluteLoss
    >>> losses = [AbsoluteLoss([3.0], scale) for scale in (1e-9, 1.0, 1e9)]
    >>> [typical_target(loss, np.ones(1)).round(9).tolist() for loss in losses]
    [[1.0], [1.0], [3.0]]
    """
    log, groups = np.log(np.where(columns > 0, columns, 1.0)), h.groups(len(columns))
    steps = np.exp(2.0 * np.bincount(groups, log) / np.maximum(np.bincount(groups), 1))[groups]
    origin = np.zeros(len(columns))
    least, found, most = (
        h.prox(origin, factor * steps) for factor in (_STEP_FACTOR, 1.0, 1.0 / _STEP_FACTOR)
    )
    demanded = (found != 0) & (np.abs(most - least) <= _STEP_FACTOR * np.abs(found))
    if demanded.any():
        return np.where(demanded, found, 0.0)
    for _ in range(_MAX_STEPS):
        grows = group_norm(most, groups) > _PROPORTIONAL_GROWTH * group_norm(found, groups)
        if not grows.any():
            break
        steps = np.where(grows, steps / _STEP_FACTOR, steps)
        found, most = np.where(grows, most, found), h.prox(origin, steps / _STEP_FACTOR)
    return found


def next_center(sizes: AgentScales, prox: ProximalTerms, adjoints: Array, xptr: Array) -> Array:
    """The agents' answers, with 0 for entries that are nothing but rounding.

    That is some units in the last place of the forces on x_i (|∇f_i| and the ``adjoints`` of
    multipliers), over r_i, and next to nothing beside the agent's largest answer. Where all of an
    agent's x is that small, its rows have no scale by which they could be judged, unless they are
    exactly 0. The proximal point method allows it, as any small error.

    Examples
    --------
    >>> known = AgentScales(gradient_norm=np.ones(1), size=np.ones(1), max_entry=np.ones(1))
    >>> prox = ProximalTerms(np.array([0.01]), np.array([0.0, 0.0]), np.array([1e-12, 3e-12]))
    >>> next_center(known, prox, np.zeros(1), np.array([0, 2])).tolist()
    [0.0, 3e-12]
    """
    r, force_scales = prox.weight, sizes.gradient_norm + adjoints
    own = np.divide(_NOISE_ULPS * EPS * force_scales, r, out=np.zeros(len(r)), where=r > 0)
    noise = np.repeat(np.minimum(own, _ENTRY_RTOL * sizes.max_entry), np.diff(xptr))
    return np.where(np.abs(prox.x) <= noise, 0.0, prox.x)


def abs_bound_product(M: Array, lam: Array) -> Array:
    """|M|λ for λ >= 0; where only the diagonal is known, by |M_jk|² <= M_jj M_kk.

    Examples
    --------
    >>> abs_bound_product(np.array([4.0, 1.0, 5.0]), np.array([1.0, 1.0])).tolist()
    [6.0, 3.0]
    """
    if M.ndim == 2:
        return np.abs(M) @ lam
    roots = np.sqrt(M[:-1])
    return roots * float(roots @ lam)


def default_divisor(steps: int) -> float:
    """By how much the r_i are divided unless rounding forbids it."""
    return next(factor for most, factor in WEIGHT_DIVISORS if steps <= most)


def reduce_weights(
    agents: Agents, not_strongly_convex: Array, r: Array, M: Array, divisor: float, usual: float
) -> Array:
    """r_i/grow, and less, r_i/usual at the least, while an agent's part of M is below a tenth.

    Where rounding forbids to weaken all proximal terms, those that are far stronger than the others
    (the first guess of the size of x_i was too small) may still catch up: max_j |A_i,j|²/(r_i M_jj)
    bounds an agent's part.
    """
    new = r / divisor
    if divisor >= usual:
        return new
    diagonal = np.diag(M) if M.ndim == 2 else M[:-1]
    for i in np.flatnonzero(not_strongly_convex).tolist():
        square = agents.problem.agents[i].row_norms ** 2
        headroom = np.divide(
            _SMALL_PART * diagonal * r[i],
            square,
            out=np.full_like(square, np.inf),
            where=square > 0,
        )
        new[i] = r[i] / max(min(usual, float(headroom.min())), divisor)
    return new


def weight_divisor(steps: int, M: Array, lam: Array, scale: Array, tol: float) -> float:
    """By how much the r_i are divided after an inner solution in so many steps.

    One unit in the last place of λ must not move a row by a tenth of the tolerance; a row in which
    nothing has been seen yet has no ``scale`` to say so.

    Examples
    --------
    >>> weight_divisor(2, np.eye(2), np.ones(2), np.array([1.0, 0.0]), 1e-8)
    10.0
    """
    divisor = default_divisor(steps)
    noise = EPS * abs_bound_product(M, np.abs(lam))
    max_entry = (noise > 0) & (scale > 0)
    limits = np.divide(0.1 * tol * scale, noise, out=np.full_like(noise, np.inf), where=max_entry)
    return float(max(min(divisor, limits.min(initial=np.inf)), min(divisor, 1.0 / 3.0)))


def min_weight_for_rounding(
    agents: Agents, not_strongly_convex: Array, x: Array, scale: Array, tol: float
) -> Array:
    """The r_i below which the rounding of an agent's own forces moves a row by a tenth of ``tol``.

    P_i x_i + q_i is known up to εL_i|x_i|, also where P_i has no curvature, in which directions the
    answer is off by up to εL_i|x_i|/r_i and row j by |A_i,j| times that. Where f_i splits by
    coordinate there is nothing to round in those without curvature.
    """
    least, xptr = np.zeros(len(not_strongly_convex)), agents.runtime.block.xptr
    for i in np.flatnonzero(not_strongly_convex).tolist():
        agent = agents.problem.agents[i]
        if agent.f.form is None:
            noise = EPS * float(agent.f.L * np.linalg.norm(x[xptr[i] : xptr[i + 1]]))
            rows = np.divide(agent.row_norms, scale, out=np.zeros_like(scale), where=scale > 0)
            least[i] = noise * float(rows.max(initial=0.0)) / (0.1 * tol)
    return least


def row_scales(max_row_scale: Array, M: Array, prox_distance: float) -> Array:
    """What rows are compared with: what they were made of, or how far they may still move.

    With Σ r_i|x_i - x̄_i|² = ``prox_distance``, row j moves by at most √(M_jj·moved): rows that
    have only begun to fill need not be known to all digits, which would keep them from filling.

    Examples
    --------
    >>> row_scales(np.array([1e-9, 2.0]), np.diag([4.0, 1.0]), 0.25).tolist()
    [1.0, 2.0]
    """
    diagonal = np.diag(M) if M.ndim == 2 else M[:-1]
    return np.maximum(max_row_scale, np.sqrt(diagonal * prox_distance))
