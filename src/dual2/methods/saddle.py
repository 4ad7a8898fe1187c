"""Saddle problems by themselves: min_x max_y f₁(x) + f₂(x) + yᵀBx - g₁(y) - g₂(y).

The solvers are those of iD2A's subproblem, run on one agent: f₁ strongly convex and smooth, g₁
convex and smooth, f₂ and g₂ with a prox.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import networkx as nx
import numpy as np

from dual2.errors import CapabilityError, ProblemError, unknown_name
from dual2.functions import Function, Zero
from dual2.methods.subsolvers import SUBSOLVERS, RowConstants, Subsolver
from dual2.network import Network
from dual2.problem import Agent, Problem
from dual2.runtime import Runtime
from dual2.theory import Constants, Facts, PaperCase, gather_facts
from dual2.theory.conditions import require_strong_convexity

METHODS = tuple(name for name, record in SUBSOLVERS.items() if record.bounds)
"""Solvers by name."""


@dataclass(frozen=True)
class SaddleResult:
    """Answer of :func:`solve`.

    Attributes
    ----------
    x, y : ndarray
        The point.
    converged : bool
        Whether the residual met the tolerance (or the distance to the reference did).
    iterations : int
        Iterations made.
    residual : float
        D_y + (σ̄(B)/μ_x)·D_x at the end, by proximal gradient mappings.
    counts : dict
        Calls to each oracle.
    """

    x: np.ndarray
    y: np.ndarray
    converged: bool
    iterations: int
    residual: float
    counts: dict[str, int]


def solve(
    f1: Function,
    f2: Function | None,
    B: Any,
    g1: Function | None,
    g2: Function | None,
    *,
    method: str = "iDAPG",
    tol: float = 1e-10,
    max_iterations: int = 1_000_000,
    start: tuple[Any, Any] | None = None,
    reference: tuple[Any, Any] | None = None,
    sigma_min: float | None = None,
    mu_phi: float | None = None,
    square: bool = False,
    every: int = 10,
    slack: float = 0.3,
    restart: bool = True,
) -> SaddleResult:
    """Solve min_x max_y f₁(x) + f₂(x) + yᵀBx - g₁(y) - g₂(y).

    Parameters
    ----------
    f1, g1 : Function
        Smooth; f₁ strongly convex. g₁ may be None (zero).
    f2, g2 : Function or None
        With a prox; None is zero.
    B : array, shape (d_y, d_x)
        Coupling; dense, sparse or LinearOperator.
    method : str
        iDAPG, PDPG, LPD, APDG (f₂ = g₂ = 0), Salim (also g₁ linear), ABPD-PGS.
    tol : float
        The residual must fall to ``tol`` times its value at the start, or, with ``reference``,
        |(x,y) - (x*,y*)| to ``tol`` times its value at the start.
    start, reference : (x, y), optional
        Starting point (default zero) and known solution.
    sigma_min : float, optional
        Smallest nonzero singular value of a rank-deficient B; with linear g₁ and f₂ = g₂ = 0 it
        gives iDAPG, APDG and Salim their linear rate.
    mu_phi : float, optional
        Strong convexity of the dual function g₁ + (f₁+f₂)*(-Bᵀ·) where more is known than follows
        from μ_y and σ_min(B); sets the momentum of iDAPG, which otherwise restarts.
    square : bool
        APDG's parameter set for square nonsingular B.
    every : int
        Iterations between two tests.
    slack : float
        δ of iDAPG's local accuracy rule.
    restart : bool
        Where no strong concavity is known, restart iDAPG when its momentum points uphill, LPD and
        ABPD-PGS when their residual has fallen to a third; False runs them as published.

    Examples
    --------
    >>> import numpy as np, dual2 as d2
    >>> B = np.array([[1.0, 2.0]])
    >>> answer = solve(d2.SquaredNorm(1.0), None, B, d2.SquaredNorm(1.0, -1.0), None, method="LPD")
    >>> answer.converged, answer.x.round(6).tolist(), answer.y.round(6).tolist()
    (True, [0.166667, 0.333333], [-0.166667])
    """
    f2, g1, g2 = f2 or Zero(), g1 or Zero(), g2 or Zero()
    name = _find(method)
    problem = Problem([Agent(B, f1, f2)], g2.conjugate)
    require_strong_convexity(problem, name)
    runtime = Runtime(problem, Network(nx.empty_graph(1)), smooth=g1)
    facts = gather_facts(problem)
    solver = _solver(name, runtime, facts, g1, g2, sigma_min, mu_phi, square, slack)
    x, y = _start(problem, start)
    solver.start(x, y[None])
    z = np.zeros((1, problem.p))
    goal = None if reference is None else _flat(reference)
    measure = lambda: (  # noqa: E731
        _residual(problem.agents[0], g1, g2, solver) if goal is None else _distance(solver, goal)
    )
    first = current = measure()
    done = 0
    while current > tol * first and done < max_iterations:
        steps = min(every, max_iterations - done)
        solver.advance(z, steps)
        done += steps
        if restart and solver.restarts:
            solver.residuals(z, with_primal=False)
            if solver.uphill()[0] > 0:
                solver.restart()
        current = measure()
    residual = _residual(problem.agents[0], g1, g2, solver)
    x, y, counts = solver.x.copy(), solver.lam[0].copy(), solver.oracle_calls()
    return SaddleResult(x, y, current <= tol * first, done, residual, counts)


def _find(method: str) -> str:
    for name in METHODS:
        if name.lower() == str(method).lower():
            return name
    raise CapabilityError(unknown_name("saddle solver", str(method), METHODS))


def _solver(
    name: str,
    runtime: Runtime,
    facts: Facts,
    g1: Function,
    g2: Function,
    sigma_min: float | None,
    mu_phi: float | None,
    square: bool,
    slack: float,
) -> Subsolver:
    """The solver with the constants of this saddle problem."""
    plain = isinstance(g2, Zero) and facts.g_is_zero
    if name in ("APDG", "Salim") and not plain:
        raise CapabilityError(f"{name} needs f₂ = g₂ = 0. Use iDAPG, PDPG, LPD or ABPD-PGS.")
    if name == "Salim" and g1.L > 0:
        raise CapabilityError("Salim needs a linear g₁. Use iDAPG, APDG, PDPG, LPD or ABPD-PGS.")
    strong, bend = g1.mu + min(g2.mu, 1e300), facts.sigma2[0] / facts.mu[0]
    full, linear = bool(facts.rank2[0] > 0), plain and g1.L == 0
    if name == "APDG" and not (strong > 0 or full or linear):
        raise CapabilityError(
            "APDG needs a strongly convex or linear g₁, or B of full row rank. Use iDAPG or PDPG."
        )
    small2 = float(np.nan_to_num(facts.rank2[0])) if sigma_min is None else sigma_min**2
    facts = replace(facts, rank2=np.array([small2]), mu_h=0.0, L_h=0.0)
    ranked = small2 / facts.L[0] if facts.g_is_zero and (full or linear) else 0.0
    constants = Constants(
        case=PaperCase("saddle", ""),
        rho=0.0,
        rho_star=0.0,
        kind="tight",
        mapping="smooth" if isinstance(g2, Zero) else "both",
        L_F=0.0,
        mu_F=0.0,
        L_phi=g1.L + bend,
        mu_phi=strong + ranked if mu_phi is None else mu_phi,
        L_H=math.inf,
        mu_H=strong,
        sources={},
    )
    make = SUBSOLVERS[name].make
    if name == "iDAPG":
        return make(runtime, facts, constants, slack=slack)
    if name == "Salim":
        return make(runtime, facts, constants)
    row = lambda value: np.array([float(value)])  # noqa: E731
    saddle = RowConstants(
        L_x=facts.L,
        mu_x=facts.mu,
        L_y=row(g1.L + min(g2.mu, 1e300)),
        mu_y=row(strong),
        mu_gradient=row(g1.mu),
        sigma=np.sqrt(facts.sigma2),
        sigma_min=row(math.sqrt(small2)),
    )
    return make(runtime, facts, constants, saddle=saddle, square=square)


def _start(problem: Problem, start: tuple[Any, Any] | None) -> tuple[np.ndarray, np.ndarray]:
    if start is None:
        return np.zeros(problem.dims[0]), np.zeros(problem.p)
    x, y = (np.array(part, dtype=float) for part in start)
    if x.shape != (problem.dims[0],) or y.shape != (problem.p,):
        raise ProblemError(
            f"start has shapes {x.shape}, {y.shape}; expected ({problem.dims[0]},), ({problem.p},)."
        )
    return x, y


def _flat(point: tuple[Any, Any]) -> np.ndarray:
    return np.concatenate([np.asarray(part, dtype=float).ravel() for part in point])


def _distance(solver: Subsolver, goal: np.ndarray) -> float:
    return float(np.linalg.norm(_flat((solver.x, solver.lam)) - goal))


def _residual(agent: Agent, g1: Function, g2: Function, solver: Subsolver) -> float:
    """D_y + (σ̄(B)/μ_x)·D_x, the norms of the proximal gradient mappings."""
    x, y, f = solver.x, solver.lam[0], agent.f
    sigma2 = solver.facts.sigma2[0]
    t, s = 1.0 / f.L, 1.0 / max(g1.L + sigma2 / f.mu, 1e-300)
    move_x = x - agent.g.prox(x - t * (f.grad(x) + agent.adjoint(y)), t)
    move_y = y - g2.prox(y - s * (g1.grad(y) - agent.apply(x)), s)
    D_x, D_y = np.linalg.norm(move_x) / t, np.linalg.norm(move_y) / s
    return float(D_y + math.sqrt(sigma2) / f.mu * D_x)
