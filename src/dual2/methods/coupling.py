"""What the methods for equations ask of f and h, and the scales that their rules start from."""

import math
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from dual2.functions import Function
from dual2.functions.separable import separable_form
from dual2.problem import Problem

Array = np.ndarray
_FLATTEST = 0.01
"""Curvature, relative to L_f, that the rules count on where f_i has less."""
UNIT = "√(μL)/σ̄²(A), μ = max(μ_f, L_f/100): derived; tune() for better"
"""The source of :attr:`Scales.unit` in words."""
PACE = (
    "(1 - λ₂(W))·√(μL)/a², a² = mean of |row of A_i|², μ = max(μ_f, L_f/100): derived; "
    "tune() for better"
)
"""The source of Tracking-ADMM's penalty in words, see :func:`mean_row2` for a²."""


class ProblemScales(NamedTuple):
    """Units of a problem: L = max L_i, μ = max(min μ_i, L/100), σ̄² = max σ̄²(A_i).

    1 replaces what is zero.
    """

    L: float
    mu: float
    sigma2: float

    @property
    def unit(self) -> float:
        """√(μL)/σ̄²: the unit of penalties on the coupling."""
        return math.sqrt(self.mu * self.L) / self.sigma2


def scales(problem: Problem) -> ProblemScales:
    """The scales that every rule of these methods starts from.

    Examples
    --------
    >>> import dual2 as d2
    >>> agents = [d2.Agent([[2.0]], d2.SquaredNorm(w)) for w in (1.0, 4.0)]
    >>> found = scales(d2.Problem(agents, d2.IndicatorPoint([1.0])))
    >>> found, found.unit
    (ProblemScales(L=4.0, mu=1.0, sigma2=4.0), 0.5)
    """
    rows = [(a.f.L, -a.f.mu, s) for a, s in zip(problem.agents, problem.sigma.max2, strict=True)]
    L, flat, sigma2 = (float(value) for value in problem.largest(rows))
    L = L or 1.0
    return ProblemScales(L, max(-flat, _FLATTEST * L), sigma2 or 1.0)


def mean_row2(problem: Problem) -> float:
    """a² = Σ_i |A_i|_F²/(np), the mean squared length of a row (1 if all A_i are zero).

    Where A_i is an operator, min(p, d_i) σ̄²(A_i) takes the place of |A_i|_F².

    Examples
    --------
    >>> import dual2 as d2
    >>> agents = [d2.Agent([[1.0, 2.0], [0.0, 0.0]], d2.SquaredNorm(1.0))] * 2
    >>> mean_row2(d2.Problem(agents, d2.IndicatorPoint([1.0, 0.0])))
    2.5
    """
    squares = [
        min(agent.A.shape) * top if isinstance(agent.A, LinearOperator) else _square(agent.A)
        for agent, top in zip(problem.agents, problem.sigma.max2, strict=True)
    ]
    total = float(problem.total(np.array(squares)[:, None])[0])
    return total / (problem.n * problem.p) or 1.0


def _square(A: Any) -> float:
    """|A|_F² of an array or a sparse matrix."""
    entries = A.data if sp.issparse(A) else A
    return float(np.sum(np.square(entries)))


def coupling_cone(h: Function, p: int) -> tuple[Array, Array, Array]:
    """b and the bounds of λ for a coupling of equations and inequalities, row by row.

    z = b leaves λ free, z ≤ b asks for λ ≥ 0, z ≥ b for λ ≤ 0, no condition for λ = 0.

    Examples
    --------
    >>> import dual2 as d2
    >>> h = d2.Stacked([d2.IndicatorPoint(1.0), d2.IndicatorAtMost(2.0)], [1, 1])
    >>> [part.tolist() for part in coupling_cone(h, 2)]
    [[1.0, 2.0], [-inf, 0.0], [inf, inf]]
    """
    form = separable_form(h, p)
    if form is None:
        return h.conjugate.grad(np.zeros(p)), np.full(p, -np.inf), np.full(p, np.inf)
    lower, upper = np.broadcast_to(form.lower, (p,)), np.broadcast_to(form.upper, (p,))
    b = np.where(np.isfinite(upper), upper, np.where(np.isfinite(lower), lower, 0.0))
    return b, np.where(np.isfinite(lower), -np.inf, 0.0), np.where(np.isfinite(upper), np.inf, 0.0)
