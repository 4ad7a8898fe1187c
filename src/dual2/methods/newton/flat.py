"""Proximal terms for agents without strong convexity: how strong they begin, how they fade.

The outer loop is the proximal point method on the primal variables of these agents, which is the
proximal method of multipliers seen from the dual (Rockafellar, 1976): it converges from anywhere
for every r_i > 0 and the faster the smaller r_i; inexact inner solutions do no harm if their errors
are small beside the step.
"""

from typing import NamedTuple

import numpy as np

from dual2.functions import Function, IndicatorBall, IndicatorSimplex
from dual2.functions.domains import inside_value
from dual2.methods.newton.agents import Agents, Springs
from dual2.methods.newton.coupling import EPS
from dual2.methods.newton.message import COSTS, FLAT, KNOWN, WIDTHS
from dual2.problem.residual import group_norm

Array = np.ndarray
GROWTH = ((2, 10.0), (5, 4.0), (24, 2.0), (10**9, 0.3))
"""By how much the r_i are divided after so many Newton steps at most."""
STEPS = 25
"""Most Newton steps between two moves of the anchors."""
LEAST = 1e-12
"""Least r_i relative to L_i."""
RETREATS = 6
_SMALL = 0.1
"""Part of M up to which an agent's own does not matter."""
_STIFF = 1e-3
"""Steps of h's prox, relative to the usual, between which a demand stays the same up to as much."""
_GROWS, _LADDER = 10.0, 12
"""Growth of what h wishes, with such a step more, that is in proportion to it; most of them."""
_NOISE, _NOTHING = 64.0, 1e-11
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


class Sizes(NamedTuple):
    """What the agents without strong convexity know.

    |∇f_i|, the size of x_i (0 if unknown), and the largest entry of x_i that has been an answer.
    """

    force: Array
    size: Array
    seen: Array


def take_survey(agents: Agents, flat: Array, x: Array) -> Sizes:
    """Sizes of forces and variables; what the agents tell of them is left in ``agents.survey``."""
    xptr = agents.runtime.block.xptr
    force, size = np.zeros(len(flat)), np.zeros(len(flat))
    agents.survey = {}
    for i in np.flatnonzero(flat).tolist():
        agent, own = agents.problem.agents[i], x[xptr[i] : xptr[i + 1]]
        force[i] = np.linalg.norm(agent.f.grad(own))
        size[i] = domain_size(agent.g, agent.dim) or float(np.linalg.norm(own))
        told = {WIDTHS: size[i], KNOWN: float(size[i] > 0), COSTS: force[i] * size[i], FLAT: 1.0}
        numbers = [told[key] for key in sorted(told)]
        ones = np.ones(agent.dim)
        agents.survey[i] = np.append(agent.sizes(ones, agent.apply(ones)), numbers)
    return Sizes(force, size, np.zeros(len(flat)))


def largest_entries(x: Array, xptr: Array) -> Array:
    """max_j |x_ij| of every agent."""
    return np.maximum.reduceat(np.abs(x), xptr[:-1]) if len(x) else np.zeros(len(xptr) - 1)


def pulls_of(agents: Agents, flat: Array, lam: Array) -> Array:
    """Σ_j |A_i,j||λ_j| of the agents without strong convexity, of which A_iᵀλ is made; else 0."""
    pulls = np.zeros(len(flat))
    for i in np.flatnonzero(flat).tolist():
        pulls[i] = agents.problem.agents[i].row_norms @ np.abs(lam)
    return pulls


def first_weights(agents: Agents, sizes: Sizes, flat: Array, total: Array) -> Array:
    """r_i from the sizes of the variables and of the forces on them, and the sums of a survey.

    r_i = max(o_i/w_i², 1e-3 L_i), w_i the size of x_i and o_i = |∇f_i|w_i that of its cost, so that
    all units cancel. For an agent without any cost r_i is the curvature with which h falls over the
    size that it wishes.
    """
    p, own, h = agents.p, agents.problem.agents, agents.problem.h
    columns, known, count = total[:p], total[p + WIDTHS], total[p + KNOWN]
    target = target_of(h, columns)
    both = (columns > 0) & (target != 0)
    share = float(np.median(np.abs(target[both]) / columns[both])) if both.any() else 0.0
    mean, usual = (known / count, total[p + COSTS] / count) if count else (0.0, 0.0)
    r = np.zeros(len(flat))
    for i in np.flatnonzero(flat):
        L, force = float(own[i].f.L), sizes.force[i]
        wished = np.sqrt(own[i].dim) * share
        w = sizes.size[i] or wished or (force / L if L > 0 else 0.0) or mean
        w = w or 1.0
        r[i] = max(max(force * w, 1e-2 * usual) / w**2, 1e-3 * L)
        if not r[i]:
            r[i] = (_fall(h, target) / wished**2 if wished else 0.0) or 1.0
    return r


def _fall(h: Function, target: Array) -> float:
    """How much lower h is at the ``target`` than at 0; 0 if that is unknown, or nothing."""
    fall = inside_value(h, np.zeros_like(target)) - inside_value(h, target)
    return fall if 0 < fall < np.inf else 0.0


def target_of(h: Function, columns: Array) -> Array:
    """prox_h(0) with steps in the square of the rows' units, alike within the blocks of h.

    Where h demands something of some rows, which is the same whatever the step, only these count:
    a wish of other rows says less about the size of x. Where nothing is demanded, steps grow while
    what is wished grows with them: the objective has units of its own.

    Examples
    --------
    >>> from dual2.functions import AbsoluteLoss
    >>> losses = [AbsoluteLoss([3.0], scale) for scale in (1e-9, 1.0, 1e9)]
    >>> [target_of(loss, np.ones(1)).round(9).tolist() for loss in losses]
    [[1.0], [1.0], [3.0]]
    """
    log, groups = np.log(np.where(columns > 0, columns, 1.0)), h.groups(len(columns))
    steps = np.exp(2.0 * np.bincount(groups, log) / np.maximum(np.bincount(groups), 1))[groups]
    origin = np.zeros(len(columns))
    least, found, most = (h.prox(origin, factor * steps) for factor in (_STIFF, 1.0, 1.0 / _STIFF))
    demanded = (found != 0) & (np.abs(most - least) <= _STIFF * np.abs(found))
    if demanded.any():
        return np.where(demanded, found, 0.0)
    for _ in range(_LADDER):
        grows = group_norm(most, groups) > _GROWS * group_norm(found, groups)
        if not grows.any():
            break
        steps = np.where(grows, steps / _STIFF, steps)
        found, most = np.where(grows, most, found), h.prox(origin, steps / _STIFF)
    return found


def next_anchor(sizes: Sizes, springs: Springs, pulls: Array, xptr: Array) -> Array:
    """The agents' answers, with 0 for entries that are nothing but rounding.

    That is some units in the last place of the forces on x_i (|∇f_i| and the ``pulls`` of prices),
    over r_i, and next to nothing beside the agent's largest answer. Where all of an agent's x is
    that small, its rows have no scale by which they could be judged, unless they are exactly 0. The
    proximal point method allows it, as any small error.

    Examples
    --------
    >>> known = Sizes(force=np.ones(1), size=np.ones(1), seen=np.ones(1))
    >>> springs = Springs(np.array([0.01]), np.array([0.0, 0.0]), np.array([1e-12, 3e-12]))
    >>> next_anchor(known, springs, np.zeros(1), np.array([0, 2])).tolist()
    [0.0, 3e-12]
    """
    r, forces = springs.r, sizes.force + pulls
    own = np.divide(_NOISE * EPS * forces, r, out=np.zeros(len(r)), where=r > 0)
    noise = np.repeat(np.minimum(own, _NOTHING * sizes.seen), np.diff(xptr))
    return np.where(np.abs(springs.x) <= noise, 0.0, springs.x)


def reach_of(M: Array, lam: Array) -> Array:
    """|M|λ for λ >= 0; where only the diagonal is known, by |M_jk|² <= M_jj M_kk.

    Examples
    --------
    >>> reach_of(np.array([4.0, 1.0, 5.0]), np.array([1.0, 1.0])).tolist()
    [6.0, 3.0]
    """
    if M.ndim == 2:
        return np.abs(M) @ lam
    roots = np.sqrt(M[:-1])
    return roots * float(roots @ lam)


def usual_growth(steps: int) -> float:
    """By how much the r_i are divided unless rounding forbids it."""
    return next(factor for most, factor in GROWTH if steps <= most)


def weakened(agents: Agents, flat: Array, r: Array, M: Array, grow: float, usual: float) -> Array:
    """r_i/grow, and less, r_i/usual at the least, while an agent's part of M is below a tenth.

    Where rounding forbids to weaken all proximal terms, those that are far stronger than the others
    (the first guess of the size of x_i was too small) may still catch up: max_j |A_i,j|²/(r_i M_jj)
    bounds an agent's part.
    """
    new = r / grow
    if grow >= usual:
        return new
    diagonal = np.diag(M) if M.ndim == 2 else M[:-1]
    for i in np.flatnonzero(flat).tolist():
        square = agents.problem.agents[i].row_norms ** 2
        room = np.divide(
            _SMALL * diagonal * r[i], square, out=np.full_like(square, np.inf), where=square > 0
        )
        new[i] = r[i] / max(min(usual, float(room.min())), grow)
    return new


def growth(steps: int, M: Array, lam: Array, scale: Array, tol: float) -> float:
    """By how much the r_i are divided after an inner solution in so many steps.

    One unit in the last place of λ must not move a row by a tenth of the tolerance; a row in which
    nothing has been seen yet has no ``scale`` to say so.

    Examples
    --------
    >>> growth(2, np.eye(2), np.ones(2), np.array([1.0, 0.0]), 1e-8)
    10.0
    """
    grow = usual_growth(steps)
    noise = EPS * reach_of(M, np.abs(lam))
    seen = (noise > 0) & (scale > 0)
    limits = np.divide(0.1 * tol * scale, noise, out=np.full_like(noise, np.inf), where=seen)
    return float(max(min(grow, limits.min(initial=np.inf)), min(grow, 1.0 / 3.0)))


def heard(agents: Agents, flat: Array, x: Array, scale: Array, tol: float) -> Array:
    """The r_i below which the rounding of an agent's own forces moves a row by a tenth of ``tol``.

    P_i x_i + q_i is known up to εL_i|x_i|, also where P_i has no curvature, in which directions the
    answer is off by up to εL_i|x_i|/r_i and row j by |A_i,j| times that. Where f_i splits by
    coordinate there is nothing to round in those without curvature.
    """
    least, xptr = np.zeros(len(flat)), agents.runtime.block.xptr
    for i in np.flatnonzero(flat).tolist():
        agent = agents.problem.agents[i]
        if agent.f.form is None:
            noise = EPS * float(agent.f.L * np.linalg.norm(x[xptr[i] : xptr[i + 1]]))
            rows = np.divide(agent.row_norms, scale, out=np.zeros_like(scale), where=scale > 0)
            least[i] = noise * float(rows.max(initial=0.0)) / (0.1 * tol)
    return least


def row_scales(widest: Array, M: Array, moved: float) -> Array:
    """What rows are compared with: what they were made of, or how far they may still move.

    With Σ r_i|x_i - x̄_i|² = ``moved``, row j moves by at most √(M_jj·moved): rows that have only
    begun to fill need not be known to all digits, which would keep them from filling.

    Examples
    --------
    >>> row_scales(np.array([1e-9, 2.0]), np.diag([4.0, 1.0]), 0.25).tolist()
    [1.0, 2.0]
    """
    diagonal = np.diag(M) if M.ndim == 2 else M[:-1]
    return np.maximum(widest, np.sqrt(diagonal * moved))
