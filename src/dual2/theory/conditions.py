"""What algorithms need of f, g, h and A: Table I as the paper prints it, and what the methods ask.

Conditions stand in words, with tests that say what is lacking.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dual2.errors import CapabilityError
from dual2.functions import (
    Affined,
    Conjugate,
    Function,
    IndicatorAffine,
    IndicatorBall,
    IndicatorCappedSimplex,
    IndicatorHalfspace,
    IndicatorL1Ball,
    IndicatorSecondOrderCone,
    IndicatorSimplex,
    LeastSquares,
    LogisticLoss,
    PoissonLoss,
    Proximable,
    Stacked,
    Zero,
)
from dual2.problem import Agent, Problem

_BOUNDED = (IndicatorBall, IndicatorCappedSimplex, IndicatorL1Ball, IndicatorSimplex)
_SETS = (IndicatorAffine, IndicatorHalfspace, IndicatorSecondOrderCone, *_BOUNDED)

AgentTest = Callable[[Agent], str]


class Acceptance(NamedTuple):
    """Whether something is accepted, and the sentence that says why."""

    accepted: bool
    reason: str


@dataclass(frozen=True)
class Conditions:
    """One row of Table I."""

    methods: tuple[str, ...]  # the algorithms that share the row
    # f, g, h: the conditions, in words
    f: str
    g: str
    h: str
    # test_f, test_g: what an agent's f or g lacks; empty if nothing
    test_f: AgentTest
    test_g: AgentTest
    point: bool = True  # whether h must be the indicator of a point
    equal: bool = False  # whether all x_i must have one dimension


def accepts(problem: Problem) -> dict[str, Acceptance]:
    """Which algorithms of Table I are proved to converge on a problem, and why not.

    The printed conditions only: a reduction (slack variables, lifting) may still bring the
    problem into the class of a method that is refused here.

    Examples
    --------
    >>> import numpy as np, dual2 as d2
    >>> agents = [d2.Agent(np.eye(2), d2.SquaredNorm(1.0), d2.IndicatorNonnegative())]
    >>> verdicts = accepts(d2.Problem(agents, d2.IndicatorPoint(np.ones(2))))
    >>> [name for name, verdict in verdicts.items() if verdict.accepted]
    ['IDC-ADMM', 'Proj-IDEA', 'DCDA', 'NPGA', 'iD2A', 'MiD2A']
    >>> verdicts["NECPD"].reason
    'agent 0: g must be the indicator of a compact set; IndicatorNonnegative() is unbounded'
    """
    return {name: _judge(row, problem) for row in TABLE for name in row.methods}


def verdict_on(method: str, problem: Problem) -> Acceptance | None:
    """The verdict of :func:`accepts` on one method; None if it is not in Table I."""
    rows = [row for row in TABLE if method in row.methods]
    return _judge(rows[0], problem) if rows else None


def _judge(row: Conditions, problem: Problem) -> Acceptance:
    if row.point and not is_point(problem.h):
        return Acceptance(False, f"h must be the indicator of a point; found {problem.h!r}")
    if row.equal:
        most, least = problem.largest([(d, -d) for d in problem.dims])
        if most + least > 0:
            what = f"found {-least:g} to {most:g}"
            return Acceptance(False, f"all x_i must have one dimension; {what}")
    words = f"f: {row.f}; g: {row.g}"
    lacks = [row.test_f(agent) or row.test_g(agent) for agent in problem.agents]
    lack = problem.first_lack(lacks, f"wanted are {words}")
    return Acceptance(False, lack) if lack else Acceptance(True, f"{words}; h: {row.h}")


# -- h --------------------------------------------------------------------------------------


def is_point(h: Function) -> bool:
    """Whether h is the indicator of one point, that is, h* is linear."""
    conjugate = h.conjugate
    return conjugate.smooth and conjugate.L == 0


# -- f --------------------------------------------------------------------------------------


def strong(agent: Agent) -> str:
    """SC, SM."""
    f = agent.f
    if not f.mu > 0:
        return f"f must be strongly convex; {f!r} has mu = {f.mu:g}"
    return "" if math.isfinite(f.L) else f"f must be smooth; {f!r} has L = inf"


def require_strong_convexity(problem: Problem, method: str) -> None:
    """Refuse problems with an f_i that is not strongly convex and smooth, naming the agents."""
    weak = [i for i, a in zip(problem.owned, problem.agents, strict=True) if not a.f.mu > 0]
    if weak:
        first = next(a for a in problem.agents if not a.f.mu > 0)
        names = ", ".join(map(str, weak[:8])) + (", …" if len(weak) > 8 else "")
        raise CapabilityError(
            f"{method} needs every f_i strongly convex (mu > 0); found mu = {first.f.mu:g} for "
            f"agent {names}: f = {first.f!r}. Move curvature from g into f where there is some; "
            "method='auto' takes the problem as it is."
        )
    for number, agent in zip(problem.owned, problem.agents, strict=True):
        if not np.isfinite(agent.f.L):
            raise CapabilityError(
                f"{method} needs every f_i smooth (finite L); agent {number} has "
                f"f = {agent.f!r}. Put the nonsmooth part into g."
            )


def _strong_of_linear(agent: Agent) -> str:
    """C1A: f(x) = f'(Ex), f' strongly convex and smooth.

    E = I serves a strongly convex f, E = M a least squares term; the number of rows of E is taken
    as free.
    """
    if not strong(agent) or isinstance(agent.f, LeastSquares):
        return ""
    return f"f must be a strongly convex and smooth function of Ex; {agent.f!r} is not known to be"


def differentiable(agent: Agent) -> str:
    """C2 and C3: convex on R^d; differentiable with a locally Lipschitz gradient."""
    return "" if agent.f.smooth else f"f must be differentiable; {agent.f!r} is not"


# -- g --------------------------------------------------------------------------------------


def _any(agent: Agent) -> str:
    """CPC: every function here is closed, proper and convex."""
    return ""


def _subdifferentiable(agent: Agent) -> str:
    """C1B: closed proper convex with a subgradient everywhere on its domain."""
    for part in _parts(agent.g):
        if isinstance(part, Proximable):
            return f"g needs a subgradient on its whole domain; unknown for {part!r}"
        if isinstance(part, Conjugate) and isinstance(part.function, LogisticLoss | PoissonLoss):
            return f"g needs a subgradient on its whole domain; {part!r} has none on its boundary"
    return ""


def closed_set(agent: Agent) -> str:
    """Indicator of a closed convex set, R^d included."""
    if is_indicator(agent.g):
        return ""
    return f"g must be the indicator of a closed convex set; found {agent.g!r}"


def compact_set(agent: Agent) -> str:
    """Indicator of a compact set."""
    if not is_indicator(agent.g):
        return f"g must be the indicator of a compact set; found {agent.g!r}"
    if not is_bounded(agent.g):
        return f"g must be the indicator of a compact set; {agent.g!r} is unbounded"
    return ""


def _parts(g: Function) -> list[Function]:
    """The functions that g is made of, without scaling, shift and stacking."""
    if isinstance(g, Stacked):
        return [part for f in g.functions for part in _parts(f)]
    if isinstance(g, Affined):
        return _parts(g.function)
    return [g]


def is_indicator(g: Function) -> bool:
    """Whether g takes the values 0 and inf only (up to a constant).

    Examples
    --------
    >>> import dual2 as d2
    >>> is_indicator(d2.IndicatorBall(1.0).shift([1.0])), is_indicator(d2.L1Norm(1.0))
    (True, False)
    """
    if isinstance(g, Stacked):
        return all(is_indicator(part) for part in g.functions)
    form = g.form
    if form is not None:
        return not any(map(np.any, (form.curvature, form.slope, form.slope_left, form.slope_right)))
    if isinstance(g, Affined):
        return g.curvature == 0 and not np.any(g.slope) and is_indicator(g.function)
    return isinstance(g, _SETS)


def is_bounded(g: Function) -> bool:
    """Whether the domain of an indicator is bounded."""
    if isinstance(g, Stacked):
        return all(is_bounded(part) for part in g.functions)
    if g.form is not None:
        return bool(np.isfinite(g.form.lower).all() and np.isfinite(g.form.upper).all())
    if isinstance(g, Affined):
        return is_bounded(g.function)
    if isinstance(g, IndicatorAffine):
        return len(g.basis[0]) == g.dim
    return isinstance(g, _BOUNDED)


TABLE = (
    Conditions(
        ("IDC-ADMM",), "strongly convex and smooth after a linear map, all d_i equal",
        "closed proper convex, with subgradients on its domain", "indicator of a point",
        _strong_of_linear, _subdifferentiable, equal=True,
    ),
    Conditions(
        ("Tracking-ADMM", "NECPD"), "convex on R^d", "indicator of a compact set",
        "indicator of a point", differentiable, compact_set,
    ),
    Conditions(
        ("Proj-IDEA",), "convex with a locally Lipschitz gradient",
        "indicator of a closed convex set", "indicator of a point", differentiable, closed_set,
    ),
    Conditions(
        ("DCDA", "NPGA"), "strongly convex and smooth", "closed proper convex",
        "indicator of a point", strong, _any,
    ),
    Conditions(
        ("iD2A", "MiD2A"), "strongly convex and smooth", "closed proper convex",
        "closed proper convex", strong, _any, point=False,
    ),
)  # fmt: skip
"""Table I. NECPD's rate O(1/k) counts its outer iterations; the others converge asymptotically."""


class Condition(NamedTuple):
    """A condition in words, and a test: from an agent, or from h, to what it lacks.

    ``met`` looks at the whole problem at once; it may say no where nothing is lacking.
    """

    words: str
    lack: Callable[[Any], str] = lambda part: ""
    met: Callable[[Problem], bool] = lambda problem: False

    def __str__(self) -> str:
        return self.words


def zero_g(agent: Agent) -> str:
    """Whether g = 0.

    Examples
    --------
    >>> import dual2 as d2
    >>> zero_g(d2.Agent([[1.0]], d2.SquaredNorm(1.0), d2.L1Norm(2.0)))
    'g must be zero; found L1Norm(weight=2)'
    """
    return "" if isinstance(agent.g, Zero) else f"g must be zero; found {agent.g!r}"


def identity_A(agent: Agent) -> str:
    """Whether A is known to be the identity."""
    A = agent.A
    rows, columns = A.shape
    if rows != columns:
        return f"A must be the identity; its shape is {rows} × {columns}"
    if sp.issparse(A):
        same = (sp.csr_array(A) != sp.eye_array(rows, format="csr")).nnz == 0
    else:
        same = isinstance(A, np.ndarray) and np.array_equal(A, np.eye(rows))
    return "" if same else "A must be the identity, as an array or sparse matrix"


def lipschitz_f(agent: Agent) -> str:
    """Whether ∇f_i has a known Lipschitz constant."""
    known = agent.f.smooth and math.isfinite(agent.f.L)
    return "" if known else f"f must be smooth with a finite L; found {agent.f!r}"


def lipschitz_h(h: Function) -> str:
    """Whether ∇h has a known Lipschitz constant.

    Examples
    --------
    >>> import dual2 as d2
    >>> lipschitz_h(d2.HingeLoss([1.0])), lipschitz_h(d2.SquaredLoss([1.0]))
    ('h must be smooth with a finite L; found HingeLoss(labels=[1.0])', '')
    """
    known = h.smooth and math.isfinite(h.L)
    return "" if known else f"h must be smooth with a finite L; found {h!r}"


def point_h(h: Function) -> str:
    """Whether h is the indicator of a point."""
    return "" if is_point(h) else f"h must be the indicator of a point; found {h!r}"


def prox_h(h: Function) -> str:
    """Whether the prox of h* can be computed."""
    able = h.proximable or h.conjugate.proximable
    return "" if able else f"h must have a prox; {h!r} has none"


def dual_h(h: Function) -> str:
    """Whether h* has a prox or a gradient."""
    able = not prox_h(h) or h.conjugate.smooth
    return "" if able else f"h must have a prox or a smooth conjugate; {h!r} has neither"


def cone_h(h: Function) -> str:
    """Whether each coupling row is an equation or an inequality with one side.

    Examples
    --------
    >>> import dual2 as d2
    >>> cone_h(d2.IndicatorAtMost(1.0)), cone_h(d2.IndicatorBox(0.0, 1.0))
    ('', 'each row of h must be z = b, z ≤ b or z ≥ b; found IndicatorBox(lower=0, upper=1)')
    """
    form = h.form
    if is_point(h):
        return ""
    if form is not None and is_indicator(h):
        two = np.isfinite(form.lower) & np.isfinite(form.upper)
        if not np.any(two & (np.asarray(form.lower) != form.upper)):
            return ""
    return f"each row of h must be z = b, z ≤ b or z ≥ b; found {h!r}"


def has_dual(problem: Problem) -> bool:
    """Whether :func:`dual_h` finds nothing lacking."""
    return problem.dual_term.proximable or problem.dual_term.smooth


def all_strong(problem: Problem) -> bool:
    """Whether :func:`strong` finds nothing lacking, of all agents at once."""
    return bool(np.all((problem.sizes.mu > 0) & (problem.sizes.L < np.inf)))


STRONG_F = Condition("strongly convex, smooth", strong, all_strong)
LIPSCHITZ_F = Condition("convex, L known", lipschitz_f)
PROX_G = Condition("prox-friendly", met=lambda problem: True)
ZERO_G = Condition("zero", zero_g)
SET_G = Condition("indicator of a closed set", closed_set)
LIPSCHITZ_H = Condition("smooth, L known", lipschitz_h)
SMOOTH_H = Condition("smooth", lambda h: "" if h.smooth else f"h must be smooth; found {h!r}")
POINT_H = Condition("a point", point_h)
PROX_H = Condition("prox-friendly", prox_h, lambda problem: problem.dual_term.proximable)
DUAL_H = Condition("with prox or smooth conjugate", dual_h, has_dual)
CONE_H = Condition("z = b, z ≤ b or z ≥ b in each row", cone_h)
ANY_A = Condition("", met=lambda problem: True)
IDENTITY_A = Condition("identity", identity_A)


@dataclass(frozen=True)
class Needs:
    """What a method asks of f, g, A (agent by agent) and h; an empty condition is none."""

    f: Condition
    g: Condition
    h: Condition
    A: Condition = ANY_A

    def lack(self, problem: Problem) -> str:
        """The first thing that the problem lacks, empty if nothing."""
        lack = "" if self.h.met(problem) else self.h.lack(problem.h)
        if lack:
            return lack
        own = {"f": self.f, "g": self.g, "A": self.A}
        doubtful = [condition for condition in own.values() if not condition.met(problem)]
        lacks = [
            next(filter(None, (condition.lack(agent) for condition in doubtful)), "")
            for agent in problem.agents
        ]
        wanted = ", ".join(f"{k}: {condition}" for k, condition in own.items() if condition.words)
        return problem.first_lack(lacks, f"wanted are {wanted}; its own process says more")
