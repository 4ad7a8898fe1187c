"""Whether f_i + g_i is strongly convex, agent by agent, from the functions alone."""

import numpy as np

from dual2.functions import Function, LeastSquares, Quadratic
from dual2.functions.hessians import least_curvature
from dual2.problem import Agent, Problem
from dual2.problem.groups import Forms, Group

Array = np.ndarray
STRONG_CONVEXITY_RTOL = 1e-10
"""Least modulus relative to the largest curvature. Below it, rounding of x(λ) = ∇ψ(λ), of which the
modulus is the condition number, reaches the tolerance of the certificate."""


def moduli(problem: Problem) -> tuple[Array, Array]:
    """Of every agent here the modulus of strong convexity of f + g, and the largest curvature.

    Coordinates that are fixed count as infinitely curved.

    Examples
    --------
    >>> import dual2 as d2
    >>> flat, curved = d2.Quadratic([1.0, 0.0]), d2.ElasticNet(1.0, 0.5)
    >>> agents = [d2.Agent(np.eye(2), flat), d2.Agent(np.eye(2), flat, curved)]
    >>> [part.tolist() for part in moduli(d2.Problem(agents, d2.Zero()))]
    [[0.0, 0.5], [1.0, 1.5]]
    """
    least, largest = np.empty((2, len(problem.agents)))
    for group in problem.groups:
        f, g = group.f, group.g
        if isinstance(f, Forms) and isinstance(g, Forms):
            least[group.at], largest[group.at] = _of_forms(group, f, g)
        else:
            for i in group.at.tolist():
                least[i], largest[i] = _of_agent(problem.agents[i])
    return least, largest


def is_weak(least: Array, largest: Array) -> Array:
    """Which of these :func:`moduli` are too small for strong convexity to be of use."""
    return ~(least > STRONG_CONVEXITY_RTOL * largest)


def lack_strong_convexity(problem: Problem) -> str:
    """What the first agent lacks whose f + g is not strongly convex; empty if there is none."""
    weak = is_weak(*moduli(problem)).tolist()
    agents = zip(problem.agents, weak, strict=True)
    lacks = [describe_weak_agent(agent) if found else "" for agent, found in agents]
    return problem.first_lack(lacks, "f + g must be strongly convex; its own process says more")


def describe_weak_agent(agent: Agent) -> str:
    """A sentence on an agent whose f + g is not strongly convex.

    Examples
    --------
    >>> import dual2 as d2
    >>> describe_weak_agent(d2.Agent([[1.0]], d2.SquaredNorm(0.0), d2.L1Norm(1.0)))
    'f + g must be strongly convex; found modulus 0 for f = SquaredNorm(weight=0), g = ...'
    """
    least = _of_agent(agent)[0]
    return (
        f"f + g must be strongly convex; found modulus {least:.3g} for f = {agent.f!r}, "
        f"g = {agent.g!r}"
    )


def _of_forms(group: Group, f: Forms, g: Forms) -> tuple[Array, Array]:
    """The same for agents whose functions split by coordinate, all at once."""
    shape = len(group.at), group.dim
    if not group.dim:  # no variable, so nothing that could be flat
        return np.ones(shape[0]), np.ones(shape[0])
    fixed = np.equal(g.form.lower, g.form.upper) | np.equal(f.form.lower, f.form.upper)
    curvature = np.broadcast_to(np.add(f.form.curvature, g.form.curvature), shape)
    fixed = np.broadcast_to(fixed, shape)
    least = np.where(fixed, np.inf, curvature).min(axis=1)
    return least, np.where(fixed, 0.0, curvature).max(axis=1)


def _of_agent(agent: Agent) -> tuple[float, float]:
    """The same for one agent, whatever its functions are."""
    d, g_modulus = agent.dim, float(agent.g.mu)
    sum_of_moduli = float(agent.f.mu) + g_modulus
    curvature = _along_coordinates(agent.f, d) + _along_coordinates(agent.g, d)
    least = max(sum_of_moduli, float(curvature.min(initial=np.inf)))
    return least, max(float(agent.f.L), g_modulus if np.isfinite(g_modulus) else 0.0)


def _along_coordinates(function: Function, d: int) -> Array:
    """A diagonal below every second derivative; the modulus where the Hessian is a matrix."""
    if function.form is None and isinstance(function, Quadratic | LeastSquares):
        return np.full(d, float(function.mu))
    found = least_curvature(function, d)
    return found if found.ndim == 1 else np.full(d, float(function.mu))
