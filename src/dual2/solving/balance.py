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

from dual2.errors import CapabilityError
from dual2.functions import Function, Stacked
from dual2.problem import Agent, Problem

Array = np.ndarray
SPREAD = 10.0
"""Rows whose lengths differ by at most this factor are left as they are."""
CURVATURES = 1e4
"""Variables of agents whose L_i differ by at most this factor are left as they are."""


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


def balanced(problem: Problem, scale: str = "auto", free: bool = False) -> Balance:
    """Balance the rows of a problem's coupling, see :mod:`dual2.solving.balance`.

    Rows that h does not separate (a norm, a ball, a simplex) get one factor together; rows of an h
    that cannot be written in other units (logistic and Poisson losses, users' functions) get none.
    Nothing is done for a method that is ``free`` of units itself.

    Examples
    --------
    >>> import dual2 as d2
    >>> agents = [d2.Agent([[1.0], [1e-6]], d2.SquaredNorm(1.0)) for _ in range(2)]
    >>> found = balanced(d2.Problem(agents, d2.IndicatorAtMost([1.0, 1e-6])))
    >>> [row.tolist() for row in found.problem.agents[0].A]
    [[0.0009765625], [0.001024]]
    >>> found.units.tolist()
    [0.0009765625, 1024.0]
    """
    if scale not in ("auto", "none"):
        raise CapabilityError(f"scale = {scale!r} found; expected 'auto' or 'none'.")
    if scale == "none" or free:
        one = np.ones(1)
        return Balance(problem, np.ones(problem.p), np.broadcast_to(one, sum(problem.dims)))
    lengths = np.sqrt(problem.total(problem.sizes.rows**2))
    L = problem.sizes.L
    logs = np.log2(np.where((L > 0) & (L < np.inf), L, np.nan))
    ends = problem.largest(np.where(np.isnan(logs), -np.inf, [logs, -logs]).T)
    units, h, rows = np.ones(problem.p), problem.h, ""
    factors, agents, columns = np.ones(len(L)), list(problem.agents), ""
    known = lengths[lengths > 0]
    if known.size and SPREAD < known.max() / known.min() < np.inf:
        units, h, rows = _balanced_rows(problem, lengths)
    if np.log2(CURVATURES) < ends.sum() < np.inf:
        factors, agents, columns = _balanced_agents(problem, logs, ends)
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
    """Factors e_i of the agents' variables, the agents in those units, and what to say.

    ``logs`` are those of the L_i, NaN where there is none, ``ends`` the largest of them and of
    their negatives over all agents.
    """
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
