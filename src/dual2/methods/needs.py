"""What methods ask of a problem: conditions in words, with tests that say what is lacking."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dual2.functions import Function, Zero
from dual2.problem import Agent, Problem
from dual2.theory import conditions
from dual2.theory.conditions import is_indicator, is_point


class Condition(NamedTuple):
    """A condition in words, and a test: from an agent, or from h, to what it lacks."""

    words: str
    lack: Callable[[Any], str] = lambda part: ""

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


STRONG_F = Condition("strongly convex, smooth", conditions.strong)
LIPSCHITZ_F = Condition("convex, L known", lipschitz_f)
PROX_G = Condition("prox-friendly")
ZERO_G = Condition("zero", zero_g)
SET_G = Condition("indicator of a closed set", conditions.closed_set)
POINT_H = Condition("a point", point_h)
PROX_H = Condition("prox-friendly", prox_h)
DUAL_H = Condition("with prox or smooth conjugate", dual_h)
CONE_H = Condition("z = b, z ≤ b or z ≥ b in each row", cone_h)
ANY_A = Condition("")
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
        lack = self.h.lack(problem.h)
        if lack:
            return lack
        own = {"f": self.f, "g": self.g, "A": self.A}
        wanted = ", ".join(f"{k}: {condition}" for k, condition in own.items() if condition.words)
        first = lambda agent: next(filter(None, (c.lack(agent) for c in own.values())), "")  # noqa: E731
        lacks = [first(agent) for agent in problem.agents]
        return problem.first_lack(lacks, f"wanted are {wanted}; its own process says more")
