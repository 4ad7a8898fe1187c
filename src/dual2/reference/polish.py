r"""Newton steps on the optimality conditions.

With u_i = x_i − (∇f_i(x_i) + A_iᵀλ)/L_i and s = Σ_i A_i x_i, a solution is a zero of

    F(x, λ) = (x_i − prox_{g_i/L_i}(u_i) for every i,   s − prox_{t·h}(s + tλ)).

F is piecewise smooth; its Jacobian follows by the chain rule from those of ∇f_i, prox_{g_i/L_i}
and prox_{t·h}, each taken by central differences on rows of points. Steps are least-squares
solutions (prices need not be unique) and are kept only if F, measured in units of the problem,
falls.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dual2.problem import Problem
from dual2.problem.ingredients import norm, quotient, step_constant
from dual2.problem.matrices import as_dense

Vector = NDArray[np.float64]

ATOL = 1e-14
"""Absolute part of the KKT test: a coupling or a price that vanishes has no relative size."""

GOAL = 1e-14
"""Size of F at which nothing is left to polish."""

MAX_STEPS = 40

COUPLING_FACTORS = (1.0, 0.1, 10.0, 0.01, 100.0)
"""Multiples of t that are tried in turn when a step fails: each guesses kinks differently."""

STEP_LENGTHS = (1.0, 0.5, 0.25, 0.1, 0.03, 0.01)


@dataclass(frozen=True, eq=False)
class OptimalityMap:
    """F with its step sizes and units, fixed where the polish begins."""

    problem: Problem
    L: Vector  # 1/step of each agent
    # step of the coupling: size of the agents' contributions A_i x_i over that of the price, the
    # latter at least a thousandth of max_i |∇f_i(x_i)| / max_i |A_i|
    t: float
    force: float  # unit of the stationarity part
    size: float  # unit of the coupling part

    @classmethod
    def at(cls, problem: Problem, x: list[Vector], lam: Vector) -> OptimalityMap:
        """The map with the units of the point (x, λ)."""
        L, forces, sizes = [], [], []
        for agent, part in zip(problem.agents, x, strict=True):
            gradient, pull = agent.f.grad(part), agent.adjoint(lam)
            L.append(step_constant(agent, part, gradient, pull))
            forces.append(max(norm(gradient), norm(pull)))
            sizes.append(norm(agent.apply(part)))
        force, size = max(forces) or 1.0, norm(np.array(sizes)) or 1.0
        price = max(norm(lam), 1e-3 * quotient(force, float(np.sqrt(problem.sigma.max2.max()))))
        return cls(problem, np.array(L), size / price, force, size)

    def response(self, x: list[Vector], lam: Vector) -> tuple[list[Vector], Vector]:
        """Prox images of every x_i, and the price after the coupling's prox.

        At a solution both return what they were given; otherwise they lie exactly on bounds and
        kinks (a slack constraint gets the price 0).
        """
        images = [
            agent.g.prox(part - (agent.f.grad(part) + agent.adjoint(lam)) / L, 1.0 / L)
            for agent, part, L in zip(self.problem.agents, x, self.L, strict=True)
        ]
        v = self.problem.coupling(x) + self.t * lam
        return images, (v - self.problem.h.prox(v, self.t)) / self.t

    def length(self, x: list[Vector], lam: Vector) -> float:
        """Size of F in units of the problem."""
        images, price = self.response(x, lam)
        moves = [L * norm(a - b) for L, a, b in zip(self.L, x, images, strict=True)]
        return max(max(moves) / self.force, self.t * norm(price - lam) / self.size)


def polished(problem: Problem, x: list[Vector], lam: Vector) -> tuple[list[Vector], Vector]:
    """Best point found from (x, λ) by Newton steps; never worse than where it began."""
    F = OptimalityMap.at(problem, x, lam)
    start, best = (x, lam), F.length(x, lam)
    for _ in range(MAX_STEPS):
        found = search(F, x, lam, best)
        if found is None:
            break
        x, lam, best = found
        if best <= GOAL:
            break
    images, price = F.response(x, lam)
    candidates = [start, (x, lam), (x, price), (images, lam), (images, price)]
    return min(candidates, key=lambda point: problem.kkt(*point, ATOL).kkt)


def search(
    F: OptimalityMap, x: list[Vector], lam: Vector, best: float
) -> tuple[list[Vector], Vector, float] | None:
    """One Newton step, shortened until F falls; None if it never does, whatever the factor."""
    for factor in COUPLING_FACTORS:
        change, price = newton_direction(F, x, lam, factor * F.t)
        for length in STEP_LENGTHS:
            new = [part + length * d for part, d in zip(x, change, strict=True)]
            new_lam = lam + length * price
            residual = F.length(new, new_lam)
            if residual < best:
                return new, new_lam, residual
    return None


def newton_direction(
    F: OptimalityMap, x: list[Vector], lam: Vector, t: float
) -> tuple[list[Vector], Vector]:
    """Least-squares solution of F' (dx, dλ) = −F; λ enters as tλ, which has the units of s."""
    problem, offsets = F.problem, F.problem.offsets
    size = int(offsets[-1])
    s = problem.coupling(x)
    v = s + t * lam
    slope = difference_jacobian(lambda rows: problem.h.prox(rows, t), v)
    J = np.zeros((size + problem.p, size + problem.p))
    residual = np.empty(size + problem.p)
    residual[size:] = s - problem.h.prox(v, t)
    J[size:, size:] = -slope
    for i, (agent, part) in enumerate(zip(problem.agents, x, strict=True)):
        block, L, A = slice(offsets[i], offsets[i + 1]), F.L[i], as_dense(agent.A)
        u = part - (agent.f.grad(part) + A.T @ lam) / L
        bend = difference_jacobian(lambda rows, g=agent.g, L=L: g.prox(rows, 1.0 / L), u)
        hessian = difference_jacobian(agent.f.grad, part)
        unit = np.eye(agent.dim)
        residual[block] = part - agent.g.prox(u, 1.0 / L)
        J[block, block] = unit - bend @ (unit - hessian / L)
        J[block, size:] = bend @ A.T / (L * t)
        J[size:, block] = A - slope @ A
    solution = np.asarray(np.linalg.lstsq(J, -residual, rcond=1e-12)[0], dtype=np.float64)
    return problem.split(solution[:size]), solution[size:] / t


def difference_jacobian(function: Callable[[Vector], Vector], point: Vector) -> Vector:
    """Central differences, every coordinate in one call on rows."""
    step = 1e-6 * max(1.0, float(np.abs(point).max()))
    shifts = step * np.eye(len(point))
    return (function(point + shifts) - function(point - shifts)).T / (2.0 * step)
