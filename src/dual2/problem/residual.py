"""The KKT residual: what ``tol`` bounds, agent by agent and row by row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dual2.errors import CapabilityError
from dual2.functions.base import Indicator

if TYPE_CHECKING:
    from dual2.functions import Function
    from dual2.problem.agent import Agent
    from dual2.problem.groups import Answers, Group
    from dual2.problem.problem import Problem

Vector = NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)

ROUNDING = 16.0
"""A residual of at most this times ε times the magnitude of its own terms is rounding."""

KNOWN = 1e-5
"""Rounding of L|x| may be at most this part of the forces, else it hides them."""

PRODUCT = 10.0
"""How much more than tol of the objective the products of prices and violations may be."""


@dataclass(frozen=True, eq=False)
class KKT:
    r"""Relative residual of the optimality conditions at (x, λ), s = Σ_i A_i x_i.

    Every agent and every row is judged beside its own terms, so that no unit and no neighbour's
    size hides a violation:

    - stationarity of agent i: L_i|x_i − prox_{g_i/L_i}(x_i − (∇f_i(x_i) + A_iᵀλ)/L_i)| relative to
      φ_i = max(|∇f_i(x_i)|, |A_iᵀλ|, μ_i|x_i|);
    - coupling of row j: |s_j − y_j| relative to max(l_j, |y_j|) with the load l = Σ_i |A_i||x_i|,
      entry by entry, and y = prox_{t·h}(s + tλ), t_j = l_j/π_j (1 where either is 0);
    - products: |λᵀ(s − y)| relative to ten times the sum of the magnitudes of the objective's
      terms. Without it, problems that have no multiplier seem solved.

    π_j = max(|λ_j|, Σ_i |A_i,j| φ_i / Σ_i |A_i,j|²) is the size of a price of row j that the agents
    feel: a price far below it is none. Rows that h does not separate (a norm, a ball, a simplex)
    are one block, judged in the Euclidean norm with one t. For an h without prox, y is ∇h*(λ). L_i
    is the smoothness constant of f_i; where it is 0 or infinite, φ_i/|x_i| takes its place (1 where
    either is 0), which has the same units. A residual at the rounding level of its own terms counts
    as 0. Where ε·L_i|x_i| itself is beyond 1e-5 of all forces u_i, at x_i and at 0, x_i being that
    far away, or where no force acts on x_i at all, the residual with u_i/|x_i| instead of L_i must
    be small as well: −log x falls without end, ever more gently.

    Attributes
    ----------
    stationarity, coupling, product : float
        The largest ratio of an agent and of a row, and that of the products (0 where the residual
        is 0, infinite where only the scale is).
    agent, row : int
        Where the first two are attained.
    s, y : ndarray, shape (p,)
        Σ_i A_i x_i, and the nearest response of h.
    """

    stationarity: float
    agent: int
    coupling: float
    row: int
    product: float
    s: Vector
    y: Vector

    @property
    def kkt(self) -> float:
        """The largest of the three ratios; CONVERGED means that ``tol`` bounds it."""
        return max(self.stationarity, self.coupling, self.product)


class Local(NamedTuple):
    """What agents know by themselves, a number or one for each agent."""

    residual: Any
    """L_i|x_i − prox_{g_i/L_i}(…)|."""
    gradient: Any
    """|∇f_i(x_i)|."""
    pull: Any
    """|A_iᵀλ|."""
    size: Any
    """|x_i|."""
    L: Any
    """L_i or its substitute."""


class RowSums(NamedTuple):
    """Sums over the agents, p numbers each, from which everybody judges the rows."""

    s: Vector
    """Σ A_i x_i."""
    load: Vector
    """Σ |A_i||x_i|."""
    felt: Vector
    """Σ |A_i,j| φ_i."""
    weight: Vector
    """Σ |A_i,j|²."""


def kkt(
    problem: Problem, x: list[Vector], lam: Vector, atol: float | Vector, rows: float | Vector
) -> KKT:
    """Evaluate the :class:`KKT` residual less ``atol``, ``rows`` in the rows' units."""
    p, count, odd = problem.p, len(problem.agents), not finite(lam, np.concatenate(x))
    ratios, parts = np.full(count, np.inf), np.zeros((count, 4 * p + 1))
    floors = np.broadcast_to(atol, count)
    for group in problem.groups if not odd else ():
        at, norms, told = group.at, group.A.norms, group.ask(x, lam)
        local = local_terms(group, told)
        pulls = (norms * np.abs(lam)).sum(axis=1)
        ratios[at], forces = judge_agents(local, group.f.mu, pulls, floors[at])
        far = longer_steps(group, told, local, np.maximum(forces, pulls), forces == 0)
        if far is not local:
            again = judge_agents(far, group.f.mu, pulls, floors[at])[0]
            ratios[at] = np.maximum(ratios[at], again)
        own = told.products, told.sizes, norms * forces[:, None], norms**2
        for k, part in enumerate(own):
            parts[at, k * p : (k + 1) * p] = part
        parts[at, -1] = told.magnitude
    ends = np.column_stack([np.full(count, odd), ratios, -floors])
    somewhere, worst, floor = problem.largest(ends)
    if somewhere:
        nowhere = np.full(problem.p, np.nan)
        return KKT(np.inf, 0, np.inf, 0, np.inf, nowhere, nowhere)
    number = problem.first(ratios >= worst) if worst > 0 else 0
    total = problem.total(parts)
    sums = RowSums(*np.split(total[:-1], 4))
    coupling, row, y = judge_rows(problem.h, lam, sums, rows)
    product = judge_product(problem.h, lam, sums, y, float(total[-1]), -float(floor))
    return KKT(float(worst), number or 0, coupling, row, product, sums.s, y)


def local_terms(group: Group, told: Answers) -> Local:
    """What the agents know."""
    X, gradient, pull = told[:3]
    L = step_constants(group, X, gradient, pull)
    moved = X - group.g.prox(X - (gradient + pull) / L[:, None], 1.0 / L[:, None])
    residual = np.where(np.isfinite(moved).all(axis=1), L * norms_of(moved), np.inf)
    return Local(residual, norms_of(gradient), norms_of(pull), norms_of(X), L)


def judge_agents(
    local: Local, mu: Any, pulls: Any, atol: float | Vector, rounding: float = ROUNDING
) -> tuple[Any, Any]:
    """Ratios and φ_i of :class:`KKT`; ``pulls`` is Σ_j |A_i,j||λ_j|, of which A_iᵀλ is made."""
    force = np.maximum(np.maximum(local.gradient, local.pull), mu * local.size)
    own = local.L * local.size + local.gradient + pulls
    left = np.where(local.residual > rounding * EPS * own, local.residual - atol, 0.0)
    return ratios_of(left, force), force


def longer_steps(
    group: Group, told: Answers, local: Local, usual: Vector, forceless: Vector
) -> Local:
    """The same with L_i = u_i/|x_i| where the rounding of L_i|x_i| would hide ``usual`` forces u_i.

    Those at 0, L_i|prox_{g_i/L_i}(−∇f_i(0)/L_i)|, count as usual too: where they cancel, what is
    left of the forces may be nothing but rounding. Where agents are ``forceless``, that of g_i
    alone is left, which no rounding of theirs may hide.
    """
    X, level = told.X, ROUNDING * EPS * local.L * local.size
    if not np.any(forceless | (level > KNOWN * usual)):
        return local
    steps = 1.0 / local.L[:, None]
    first = group.g.prox(-group.f.gradients(np.zeros_like(X)) / local.L[:, None], steps)
    usual = np.maximum(usual, local.L * norms_of(first))
    hidden = (forceless | (level > KNOWN * usual)) & (usual > 0)
    L = np.where(hidden, quotients(usual, local.size), local.L)
    force = told.gradient + told.pull
    with np.errstate(over="ignore", invalid="ignore"):
        moved = L * norms_of(X - group.g.prox(X - force / L[:, None], 1.0 / L[:, None]))
    seen = hidden & np.isfinite(moved)
    return local._replace(
        residual=np.where(seen, moved, local.residual), L=np.where(seen, L, local.L)
    )


def judge_rows(
    h: Function, lam: Vector, sums: RowSums, atol: float | Vector, rounding: float = ROUNDING
) -> tuple[float, int, Vector]:
    """Ratio of the worst row, that row, and y; see :class:`KKT`."""
    s, load = sums.s, sums.load
    if not finite(*sums):
        return np.inf, 0, s
    groups = None if separates(h, len(s)) else h.groups(len(s))
    load = group_norm(load, groups)
    price = np.divide(sums.felt, sums.weight, out=np.zeros_like(lam), where=sums.weight > 0)
    price = np.maximum(group_norm(lam, groups), group_norm(price, groups))
    t = quotients(load, price)
    y = coupling_response(h, s, lam, t)
    residual, size = group_norm(s - y, groups), group_norm(y, groups)
    own = load + size + t * group_norm(lam, groups)
    left = np.where(residual > rounding * EPS * own, residual - atol, 0.0)
    ratios = ratios_of(left, np.maximum(load, size))
    row = int(np.argmax(ratios))
    return float(ratios[row]), row, y


def judge_product(
    h: Function, lam: Vector, sums: RowSums, y: Vector, magnitude: float, atol: float = 0.0
) -> float:
    """Ratio of the products; an objective without any size (of sets alone) asks for nothing."""
    if not finite(*sums, y):
        return np.inf
    product = abs(float(lam @ (sums.s - y)))
    own = float(np.abs(lam) @ (sums.load + np.abs(y)))
    left = product - atol if product > ROUNDING * EPS * own else 0.0
    allowed = PRODUCT * (magnitude + size_of(h, y))
    return max(left, 0.0) / allowed if allowed > 0 else 0.0


def size_of(function: Function, x: Vector) -> float:
    """|f(x)|; 0 outside the domain and where a user's function came without its value."""
    if isinstance(function, Indicator):
        return 0.0
    try:
        value = abs(float((function.form or function)._value(x)))
    except CapabilityError:
        return 0.0
    return value if np.isfinite(value) else 0.0


def separates(h: Function, p: int) -> bool:
    """Whether every row is judged by itself."""
    return h.form is not None or p == 0 or int(h.groups(p)[-1]) == p - 1


def group_norm(v: Vector, groups: NDArray[np.int64] | None) -> Vector:
    """For each coordinate the Euclidean length of its group; with None each is one.

    Examples
    --------
    >>> group_norm(np.array([-2.0, 3.0, 4.0]), np.array([0, 1, 1])).tolist()
    [2.0, 5.0, 5.0]
    """
    if groups is None or (len(v) and groups[-1] == len(v) - 1):  # all separate
        return np.abs(v)
    largest = np.zeros(int(groups.max(initial=0)) + 1)
    np.maximum.at(largest, groups, np.abs(v))
    unit = np.where(largest > 0, largest, 1.0)
    return (unit * np.sqrt(np.bincount(groups, (v / unit[groups]) ** 2)))[groups]


def coupling_response(h: Function, s: Vector, lam: Vector, t: float | Vector) -> Vector:
    """prox_{t·h}(s + tλ), which equals s iff λ ∈ ∂h(s); ∇h*(λ) if h has no prox."""
    if h.form is not None:
        return h.form._prox(s + t * lam, t)
    return h.prox(s + t * lam, t) if h.proximable else h.conjugate_grad(lam)


def step_constants(group: Group, X: Vector, gradient: Vector, pull: Vector) -> Vector:
    """L_i, or their substitutes where they are 0 or infinite (see :class:`KKT`)."""
    L = group.f.L
    known = (L > 0) & (L < np.inf)
    if known.all():
        return L
    return np.where(
        known, L, quotients(np.maximum(norms_of(gradient), norms_of(pull)), norms_of(X))
    )


def step_constant(agent: Agent, x: Vector, gradient: Vector, pull: Vector) -> float:
    """As :func:`step_constants`, of one agent."""
    L = float(agent.f.L)
    return L if 0 < L < np.inf else quotient(max(norm(gradient), norm(pull)), norm(x))


def coupling_step(s: Vector, lam: Vector) -> float:
    """t = |s|/|λ|, 1 where either is 0."""
    return quotient(norm(s), norm(lam))


def quotients(top: Vector, bottom: Vector) -> Vector:
    """top/bottom entry by entry, 1 where that is not a positive number."""
    top, bottom = np.broadcast_arrays(top, bottom)
    value = np.divide(top, bottom, out=np.ones(top.shape), where=bottom > 0)
    return np.where((value > 0) & (value < np.inf), value, 1.0)


def quotient(top: float, bottom: float) -> float:
    """top/bottom, 1 where that is not a positive number (either is 0, or it overflows)."""
    value = top / bottom if bottom > 0 else 0.0
    return value if 0 < value < np.inf else 1.0


def ratios_of(residual: Any, scale: Any) -> Any:
    """residual/scale; 0 where the residual is not positive, infinite where only the scale is 0."""
    unknown = np.where(np.greater(residual, 0.0), np.inf, 0.0)
    return np.divide(np.maximum(residual, 0.0), scale, out=unknown, where=np.greater(scale, 0.0))


def norm(v: Vector) -> float:
    """Euclidean length."""
    return float(np.linalg.norm(v))


def norms_of(rows: Vector) -> Vector:
    """Euclidean length of each row."""
    return np.linalg.norm(rows, axis=1)


def finite(*arrays: Vector) -> bool:
    """Whether every entry is finite."""
    return all(bool(np.isfinite(array).all()) for array in arrays)
