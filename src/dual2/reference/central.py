"""Centralised reference solutions: an interior-point method, then a Newton polish.

Needs the extra ``reference`` (cvxpy with CLARABEL). Interior-point methods stop some digits short
and say little about it, so the answer is polished by Newton steps on the optimality conditions and
comes with its own KKT residual: check that before comparing anything with it.
"""

import contextlib
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from dual2.errors import CapabilityError
from dual2.problem import Problem
from dual2.reference.cvxpy_atoms import atom
from dual2.reference.polish import ATOL, polished

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Reference:
    """A centralised solution.

    Attributes
    ----------
    x : list of ndarray
        One array per agent.
    dual : ndarray, shape (p,)
        The price λ of the coupling.
    kkt : float
        Smallest ``tol`` that the KKT residual of (x, dual) meets beside atol = 1e-14; about 1e-14
        if the polish succeeded.
    """

    x: list[Vector]
    dual: Vector
    kkt: float


def solve_reference(problem: Problem, polish: bool = True) -> Reference:
    """Solve the problem centrally, all private data in one place.

    Parameters
    ----------
    problem : Problem
        Functions of dual2 with their calculus; matrices known (no linear operators).
    polish : bool
        Whether Newton steps on the optimality conditions follow the interior-point method.

    Examples
    --------
    >>> import dual2 as d2
    >>> problem = d2.Problem([d2.Agent([[2.0]], d2.SquaredNorm(1.0))], d2.IndicatorPoint([6.0]))
    >>> reference = solve_reference(problem)
    >>> reference.x[0].round(9).tolist(), reference.kkt < 1e-11
    ([3.0], True)
    """
    x, dual = interior_point(problem)
    if polish:
        x, dual = polished(problem, x, dual)
    return Reference(x, dual, problem.kkt(x, dual, ATOL).kkt)


def interior_point(problem: Problem) -> tuple[list[Vector], Vector]:
    """Solution and price by CLARABEL."""
    import cvxpy as cp

    variables = [cp.Variable(d) for d in problem.dims]
    y = cp.Variable(problem.p)
    cost, constraints = atom(problem.h, y, problem.p)
    total: Any = 0
    for i, (agent, x) in enumerate(zip(problem.agents, variables, strict=True)):
        if isinstance(agent.A, LinearOperator):
            raise CapabilityError(f"Agent {i}: A is a linear operator; a reference needs a matrix.")
        for function in (agent.f, agent.g):
            part, limits = atom(function, x, agent.dim)
            cost, constraints = cost + part, constraints + limits
        total = total + agent.A @ x
    coupling = total == y
    model = cp.Problem(cp.Minimize(cost), [coupling, *constraints])
    solve_conic(model)
    if model.status not in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE):
        raise ArithmeticError(f"CLARABEL ended with status {model.status!r}: no reference.")
    dual: Any = coupling.dual_value
    return [np.array(x.value, dtype=np.float64) for x in variables], np.array(dual, dtype=float)


def solve_conic(model: Any) -> None:
    """Run CLARABEL; where it breaks down, again with shorter steps or without its scaling."""
    import cvxpy as cp

    attempts: list[dict[str, Any]] = [
        {"tol_gap_abs": 1e-12, "tol_gap_rel": 1e-12, "tol_feas": 1e-12},
        {"max_step_fraction": 0.9},
        {"equilibrate_enable": False},
    ]
    for options in attempts:
        with warnings.catch_warnings(), contextlib.suppress(cp.SolverError):
            # the accuracy is judged by the KKT residual
            warnings.filterwarnings("ignore", message="Solution may be inaccurate")
            model.solve(solver=cp.CLARABEL, ignore_dpp=True, **options)
            return
    raise ArithmeticError("CLARABEL failed on this problem: no reference.")
