"""The proximal point method for agents without strong convexity (Rockafellar, 1976).

An agent whose f_i + g_i is not strongly convex gets a term (r_i/2)|x_i - x̄_i|². When the problem
with these terms is solved well enough, the centres move, x̄_i = x_i, and r_i falls. The method
converges for every bounded sequence of r_i > 0; smaller ones make it faster and each problem
harder. Solutions may be inexact by a fixed part of the move (Solodov & Svaiter, 1999).
"""

from dataclasses import dataclass

import numpy as np

from dual2.functions import Function, IndicatorBall, IndicatorSimplex
from dual2.problem import Agent
from dual2.runtime import Runtime

Array = np.ndarray
INNER_RTOL = 3e-3
"""What may be left of a problem relative to the move of the centres. L-BFGS needs less than the
0.1 of theory: with that, the centres of linear programs wander."""
MAX_INNER_STEPS = 25
"""Most steps between two moves. With more, a badly conditioned problem is solved too exactly."""
WEIGHT_DECREASE, WEIGHT_INCREASE = 4.0, 3.0
"""Factors by which the r_i fall after a problem that was solved, and rise after one that was not:
about the square root of ten each way, so that a wrong first guess costs few moves."""
MIN_WEIGHT_RATIO = 1e-5
"""Least r_i relative to the first one. Below it, the rounding of λ moves the rows by more than
1e-11 of their size, and the linear rate no longer matters."""
MAX_UNSOLVED_MOVES = 5
"""Moves in a row after problems on which nothing improved: then the run ends."""


@dataclass(frozen=True)
class ProximalState:
    """Where the outer method stands; the same in every process but the agents' own numbers."""

    weight: Array  # (n,): r_i of the agents here, private
    center: Array  # (D,): x̄, private
    min_weight: Array  # (n,): below which no r_i falls
    moves: int = 0
    unsolved: int = 0  # problems in a row on which nothing improved


def start_proximal_state(runtime: Runtime, weak: Array, x: Array, warm: bool) -> ProximalState:
    """The first centres and weights; ``weak`` agents have no strong convexity.

    Centres begin at the nearest point of g unless the start is ``warm``.
    """
    center, weight, xptr = x.copy(), np.zeros(runtime.n), runtime.block.xptr
    for i in np.flatnonzero(weak).tolist():
        own = slice(xptr[i], xptr[i + 1])
        agent = runtime.problem.agents[i]
        if not warm:
            center[own] = agent.g.prox(center[own], 1.0)
        weight[i] = initial_weight(agent, center[own])
    return ProximalState(weight, center, MIN_WEIGHT_RATIO * weight)


def initial_weight(agent: Agent, x: Array) -> float:
    """r = max(|∇f|/w, 1e-3 L): a term as strong as the force ∇f at the size w of the variables.

    Units of x and of the objective cancel where ∇f and w are known.

    Examples
    --------
    >>> import dual2 as d2
    >>> f, box = d2.Quadratic(np.zeros(2), [3.0, 4.0]), d2.IndicatorBox(0.0, [6.0, 8.0])
    >>> initial_weight(d2.Agent(np.eye(2), f, box), np.zeros(2))
    0.5
    """
    force, L = float(np.linalg.norm(agent.f.grad(x))), float(agent.f.L)
    size = domain_size(agent.g, agent.dim) or float(np.linalg.norm(x))
    size = size or (force / L if L > 0 else 0.0) or 1.0
    return max(force / size, 1e-3 * L) or 1.0


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


def next_proximal_state(
    state: ProximalState, x: Array, solved: bool, improved: bool
) -> ProximalState:
    """Centres at x; weaker terms after a problem that was ``solved``, else stronger ones.

    Examples
    --------
    >>> state = ProximalState(np.array([8.0]), np.zeros(1), np.array([1.0]))
    >>> next_proximal_state(state, np.ones(1), solved=True, improved=True).weight.tolist()
    [2.0]
    """
    weight = state.weight / WEIGHT_DECREASE if solved else state.weight * WEIGHT_INCREASE
    unsolved = 0 if improved else state.unsolved + 1
    weight = np.maximum(weight, state.min_weight)
    return ProximalState(weight, x.copy(), state.min_weight, state.moves + 1, unsolved)
