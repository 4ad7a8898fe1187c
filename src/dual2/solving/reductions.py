"""Reductions: problems outside a method's class made into problems inside it, and back.

Methods for Σ A_i x_i = b solve more than that if one agent, the last, takes a block y of p more
variables. The price λ stays what it was, x is what is left without y:

- slack: Σ A_i x_i ∈ [l, u] row by row becomes Σ A_i x_i + y = b with y ∈ [b - u, b - l], where b
  is u (l where u is infinite);
- lifting: h(Σ A_i x_i) becomes Σ A_i x_i - y = 0 with h(y) beside f_n or g_n.

Each reduction says whether it accepts a problem, applies itself, and inverts the answer. The
share b_i = b/n of each agent is the methods' own affair.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from dual2.functions import Function, IndicatorBox, IndicatorPoint, Stacked, Zero
from dual2.functions.separable import separable_form
from dual2.problem import Agent, Problem
from dual2.theory.conditions import is_indicator, is_point

Array = np.ndarray
_ROOM = 100.0
"""A slack's bound is at least this multiple of |b|."""


class Reduction(ABC):
    """One way to give the last agent a block y so that h becomes the indicator of a point."""

    name: str

    @abstractmethod
    def accepts(self, problem: Problem) -> bool:
        """Whether the reduction applies."""

    @abstractmethod
    def apply(self, problem: Problem) -> Problem:
        """The problem with y."""

    @abstractmethod
    def lift(self, problem: Problem, z: Array) -> Array:
        """y that belongs to the coupling value z."""

    @abstractmethod
    def explain(self, problem: Problem) -> str:
        """What was done, for the answer's explanation."""

    def invert(self, problem: Problem, x: Array) -> Array:
        """The flat x of the original problem from that of the one with y."""
        return x[: sum(problem.dims)]


@dataclass(frozen=True)
class Slack(Reduction):
    """Inequalities become equations with a slack variable.

    An infinite end of the slack's interval is replaced by what the agents' sets allow, or by
    100|b| if that is more, where the sets are bounded: methods for compact sets want that.

    Examples
    --------
    >>> import dual2 as d2
    >>> box = d2.IndicatorBox(0.0, 1.0)
    >>> agents = [d2.Agent([[1.0]], d2.SquaredNorm(1.0), box) for _ in range(2)]
    >>> lifted = Slack().apply(d2.Problem(agents, d2.IndicatorAtMost([0.5])))
    >>> lifted.h, lifted.agents[1].A.tolist()
    (IndicatorPoint(b=[0.5]), [[1.0, 1.0]])
    >>> lifted.agents[1].g.functions[1].upper.tolist()
    [50.0]
    """

    name = "slack"

    def accepts(self, problem: Problem) -> bool:
        """Whether h is the indicator of an interval in each row, and not of a point."""
        h = problem.h
        return h.form is not None and is_indicator(h) and not is_point(h)

    def apply(self, problem: Problem) -> Problem:
        """Σ A_i x_i + y = b."""
        b, lower, upper = self._interval(problem)
        return _extended(problem, 1.0, Zero(), IndicatorBox(lower, upper), b)

    def lift(self, problem: Problem, z: Array) -> Array:
        """y = b - z."""
        return self._interval(problem)[0] - z

    def explain(self, problem: Problem) -> str:
        """The bounds, and where they come from."""
        _, lower, upper = self._interval(problem)
        ends = np.concatenate([lower, upper])
        bounded = (
            "bounded by what the agents' sets allow (at least 100|b|)"
            if np.all(np.isfinite(ends))
            else "unbounded where the agents' sets are"
        )
        return (
            f"the inequality coupling became Σ A_i x_i + y = b with a slack y of {problem.p} "
            f"variables at agent {problem.n - 1}, {bounded}"
        )

    def _interval(self, problem: Problem) -> tuple[Array, Array, Array]:
        """b and the interval of y."""
        p = problem.p
        form = separable_form(problem.h, p)
        assert form is not None
        low, high = (np.broadcast_to(end, (p,)) for end in (form.lower, form.upper))
        b = np.where(np.isfinite(high), high, np.where(np.isfinite(low), low, 0.0))
        most = np.maximum(b + _reach(problem, -1.0), _ROOM * np.abs(b))
        least = np.minimum(b - _reach(problem, 1.0), -_ROOM * np.abs(b))
        lower = np.where(np.isfinite(high), b - np.where(np.isfinite(high), high, 0.0), least)
        upper = np.where(np.isfinite(low), b - np.where(np.isfinite(low), low, 0.0), most)
        return b, lower, upper


@dataclass(frozen=True)
class Lifting(Reduction):
    """h moves to the last agent, as a function of the new block.

    Attributes
    ----------
    smooth : bool
        Whether h joins f_n (by its gradient) or g_n (by its prox).

    Examples
    --------
    >>> import dual2 as d2
    >>> agents = [d2.Agent([[1.0]], d2.SquaredNorm(1.0)) for _ in range(2)]
    >>> lifted = Lifting(smooth=True).apply(d2.Problem(agents, d2.SquaredLoss([3.0])))
    >>> lifted.agents[1].A.tolist(), lifted.agents[1].f.functions[1]
    ([[1.0, -1.0]], SquaredLoss(y=[3.0]))
    """

    smooth: bool
    name = "lifting"

    def accepts(self, problem: Problem) -> bool:
        """Whether h has what is asked for: a Lipschitz gradient, or a prox."""
        h = problem.h
        if is_point(h):
            return False
        return h.smooth and math.isfinite(h.L) if self.smooth else h.proximable

    def apply(self, problem: Problem) -> Problem:
        """Σ A_i x_i - y = 0."""
        f, g = (problem.h, Zero()) if self.smooth else (Zero(), problem.h)
        return _extended(problem, -1.0, f, g, np.zeros(problem.p))

    def lift(self, problem: Problem, z: Array) -> Array:
        """y = z."""
        return z

    def explain(self, problem: Problem) -> str:
        """Where h went."""
        place = "f" if self.smooth else "g"
        return (
            f"h = {problem.h!r} moved into {place} of agent {problem.n - 1} as a function of "
            f"{problem.p} new variables y, and the coupling became Σ A_i x_i - y = 0"
        )


def _extended(problem: Problem, sign: float, f: Function, g: Function, b: Array) -> Problem:
    """The last agent with a block y: A = [A_n, sign·I], f_n + f(y), g_n + g(y), h = {b}."""
    if not keeps(problem):
        return problem.with_agents(problem.agents, IndicatorPoint(b))
    *others, last = problem.agents
    sizes = [last.dim, problem.p]
    none = isinstance(last.g, Zero) and isinstance(g, Zero)
    both = Zero() if none else Stacked([last.g, g], sizes)
    keeper = Agent(_beside(last.A, sign), Stacked([last.f, f], sizes), both)
    return problem.with_agents([*others, keeper], IndicatorPoint(b))


def keeps(problem: Problem) -> bool:
    """Whether the last agent, which takes the new block, is in this process."""
    return int(problem.owned[-1]) == problem.n - 1


def _beside(A: Any, sign: float) -> Any:
    """[A, sign·I] of A's own kind."""
    p, d = A.shape
    if sp.issparse(A):
        return sp.hstack([A, sign * sp.eye_array(p)], format="csc")
    if isinstance(A, LinearOperator):
        return LinearOperator(
            (p, d + p),
            matvec=lambda v: A.matvec(v[:d]) + sign * v[d:],
            rmatvec=lambda v: np.concatenate([A.rmatvec(v), sign * v]),
            dtype=np.float64,
        )
    return np.hstack([A, sign * np.eye(p)])


def _reach(problem: Problem, sign: float) -> Array:
    """Per row of the coupling, the supremum of sign·Σ A_i x_i over the agents' sets."""
    supports = []
    for agent in problem.agents:
        rows = agent.A.toarray() if sp.issparse(agent.A) else agent.A
        unknown = isinstance(rows, LinearOperator)
        unlimited = np.full(problem.p, np.inf)
        supports.append(unlimited if unknown else agent.g.domain_support(sign * rows))
    return problem.total(supports)


def reductions_of(problem: Problem) -> list[Reduction]:
    """The reductions that accept a problem, the ones that keep it simplest first.

    Examples
    --------
    >>> import dual2 as d2
    >>> problem = d2.Problem([d2.Agent([[1.0]], d2.SquaredNorm(1.0))], d2.IndicatorAtMost([1.0]))
    >>> [reduction.name for reduction in reductions_of(problem)]
    ['slack', 'lifting']
    """
    plain = problem.h.form is not None
    order = (Slack(), Lifting(smooth=plain), Lifting(smooth=not plain))
    return [reduction for reduction in order if reduction.accepts(problem)]
