"""Rows in balance: one power of two per row of the coupling, invisible in the answer.

Multiplying row j of every A_i by D_j > 0 and giving h its argument in the old units,

    h(Σ A_i x_i) = h'(Σ (D A_i) x_i),   h' = h∘D⁻¹,   λ = Dλ',

leaves x alone and changes the units of s and λ only. With D_j ∝ (Σ_i |A_i,j|²)^(-1/2) no row is
longer than another, and every constant, step size and prediction is that of the balanced problem.
One sum of p squared lengths is all that leaves an agent. Powers of two make the change exact.

Variables are put in balance too where the L_i differ by many decades: x_i = e_i x_i' with a power
of two that makes the curvatures L_i e_i² about equal. That is the agent's own affair; what is
agreed is the largest and the smallest L_i.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, aslinearoperator

from dual2.functions import Function, Stacked
from dual2.problem import Agent, Problem

Array = np.ndarray


@dataclass(frozen=True)
class Balance:
    """A problem with balanced rows, and the way back.

    Attributes
    ----------
    problem : Problem
        What is solved: the problem itself where nothing had to be done.
    units : ndarray, shape (p,)
        D: the price of the problem is ``units`` times the price of what is solved.
    lengths : ndarray
        The flat x of the problem is ``lengths`` times that of what is solved.
    said : str
        What was done, for the answer's explanation; empty if nothing was.
    """

    problem: Any
    units: Array
    lengths: Array
    said: str = ""


def balanced(
    problem: Problem, lengths: Array | None, curvatures: tuple[Array, Array] | None
) -> Balance:
    """A problem with its rows in balance, its variables, or both.

    Rows that h does not separate (a norm, a ball, a simplex) get one factor together; rows of an h
    that cannot be written in other units (logistic and Poisson losses, users' functions) get none.

    Parameters
    ----------
    problem : Problem
        Or a share of one.
    lengths : ndarray or None
        (Σ_i |A_i,j|²)^(1/2) of the rows, where these differ much.
    curvatures : pair of ndarray or None
        Where the L_i differ much: their logarithms, NaN where there is none, and the largest of
        these and of their negatives over all agents.

    Examples
    --------
    >>> import dual2 as d2
    >>> agents = [d2.Agent([[1.0], [1e-6]], d2.SquaredNorm(1.0)) for _ in range(2)]
    >>> problem = d2.Problem(agents, d2.IndicatorAtMost([1.0, 1e-6]))
    >>> found = balanced(problem, np.sqrt([2.0, 2e-12]), None)
    >>> [row.tolist() for row in found.problem.agents[0].A]
    [[0.0009765625], [0.001024]]
    >>> found.units.tolist()
    [0.0009765625, 1024.0]
    """
    units, h, rows = np.ones(problem.p), problem.h, ""
    factors, agents, columns = np.ones(len(problem.agents)), list(problem.agents), ""
    if lengths is not None:
        units, h, rows = _balanced_rows(problem, lengths)
    if curvatures is not None:
        factors, agents, columns = _balanced_agents(problem, *curvatures)
    if rows or columns:
        agents = [Agent(_scaled(a.A, units), a.f, a.g) for a in agents] if rows else agents
        problem = problem.with_agents(agents, h)
    said = " and ".join(filter(None, (rows, columns)))
    return Balance(problem, units, np.repeat(factors, problem.dims), said)


def _balanced_rows(problem: Problem, lengths: Array) -> tuple[Array, Function, str]:
    """Factors of the rows, h in those units, and what to say."""
    units, h = _units(problem.h, lengths)
    if np.all(units == units[0]):
        return np.ones(problem.p), problem.h, ""
    known = lengths[lengths > 0]
    said = (
        "the rows of the coupling, which differ in length by a factor of "
        f"{known.max() / known.min():.0e}, were multiplied by powers of two from "
        f"{units.min():.3g} to {units.max():.3g}"
    )
    return units, h, said


def _balanced_agents(problem: Problem, logs: Array, ends: Array) -> tuple[Array, list[Agent], str]:
    """Factors e_i of the agents' variables, the agents in those units, and what to say."""
    most, least = ends
    factors, agents = np.ones(len(logs)), list(problem.agents)
    for i, agent in enumerate(problem.agents):
        factor = 1.0 if np.isnan(logs[i]) else 2.0 ** round(((most - least) / 2 - logs[i]) / 2)
        old = np.full(agent.dim, 1.0 / factor)
        f, g = agent.f.rescaled(old), agent.g.rescaled(old)
        if f is not None and g is not None:
            factors[i], agents[i] = factor, Agent(factor * agent.A, f, g)
    said = (
        "the variables of agents, whose curvatures differ by a factor of "
        f"{2 ** (most + least):.0e}, were written in units that are powers of two"
    )
    return factors, agents, said


def _units(h: Function, lengths: Array) -> tuple[Array, Function]:
    """Powers of two that h allows, and h in those units."""
    p = len(lengths)
    parts = list(zip(h.functions, h.sizes, strict=True)) if isinstance(h, Stacked) else [(h, p)]
    logs = np.zeros(p)
    logs[lengths > 0] = np.log2(lengths[lengths > 0])
    ends = np.cumsum([0, *(size for _, size in parts)])
    fixed = np.concatenate([np.full(d, f.rescaled(np.full(d, 2.0)) is None) for f, d in parts])
    seen = lengths > 0
    rest = seen & fixed if np.any(seen & fixed) else seen
    middle = float(logs[rest].mean())
    units, functions = np.ones(p), []
    for (function, size), first in zip(parts, ends[:-1], strict=True):
        own = slice(first, first + size)
        found = _own_units(function, middle - logs[own], seen[own])
        functions.append(function.rescaled(found) or function)
        units[own] = found if function.rescaled(found) is not None else 1.0
    return units, Stacked(functions, h.sizes) if isinstance(h, Stacked) else functions[0]


def _own_units(function: Function, logs: Array, seen: Array) -> Array:
    """Row by row where the function allows that, else one for each of its groups, or for all."""
    groups = function.groups(len(logs))
    counts = np.maximum(np.bincount(groups, seen), 1.0)
    mean = (np.bincount(groups, np.where(seen, logs, 0.0)) / counts)[groups]
    units = 2.0 ** np.round(mean)
    if function.rescaled(units) is None:
        units = np.full(len(logs), 2.0 ** np.round(logs[seen].mean() if seen.any() else 0.0))
    return units


def _scaled(A: Any, units: Array) -> Any:
    """diag(units)·A of A's own kind."""
    if sp.issparse(A):
        return sp.csc_array(sp.diags_array(units) @ A)
    if isinstance(A, LinearOperator):
        return aslinearoperator(sp.diags_array(units)) @ A
    return units[:, None] * A
