"""The problem: agents with private data, coupled through one public function."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.linalg import LinearOperator

from dual2.errors import ProblemError, counted
from dual2.functions import Function, as_function
from dual2.problem import error_bounds, residual
from dual2.problem.agent import Agent
from dual2.problem.dual_term import find_dual_term
from dual2.problem.error_bounds import ErrorBound
from dual2.problem.groups import Group, Sizes, find_groups, measure
from dual2.problem.matrices import Sigma
from dual2.problem.residual import KKT

Vector = NDArray[np.float64]

ADJOINT_TOLERANCE = 1e-6
"""How far ⟨Ax, v⟩ and ⟨x, Aᵀv⟩ of a user's operator may differ, relative to the lengths."""


class Problem:
    r"""Minimise Σ_i f_i(x_i) + g_i(x_i) + h(Σ_i A_i x_i) over x_1, …, x_n.

    f_i, g_i and A_i belong to agent i, h is public. Its dual is
    minimise Σ_i (f_i + g_i)*(−A_iᵀλ) + h*(λ), λ ∈ Rᵖ the price of the coupling.

    Parameters
    ----------
    agents : iterable of Agent
        At least one; the numbers d_i of variables may differ, the coupling length p may not.
    h : Function
        Convex, with a proximal mapping or with a conjugate that has a gradient.

    Attributes
    ----------
    agents : tuple of Agent
    h : Function
    n, p : int
        Number of agents, length of the coupling.
    owned : ndarray of int64
        Numbers of the ``agents``: 0 … n-1, or fewer in a :class:`dual2.runtime.LocalProblem`.
    dims : tuple of int
        d_1, …, d_n.
    dual_term : DualTerm
        The conjugate of h, and what is known of it.

    Examples
    --------
    Two agents share a load of 3 at cost x² and x²/2:

    >>> import dual2 as d2
    >>> problem = d2.Problem(
    ...     [d2.Agent([[1.0]], d2.SquaredNorm(2.0)), d2.Agent([[1.0]], d2.SquaredNorm(1.0))],
    ...     h=d2.IndicatorPoint([3.0]),
    ... )
    >>> problem.objective([[1.0], [2.0]]), problem.kkt([[1.0], [2.0]], [-2.0]).kkt
    (3.0, 0.0)
    """

    def __init__(self, agents: Iterable[Agent], h: Function | Any) -> None:
        if not isinstance(agents, Iterable):
            raise ProblemError(
                f"The agents are given as {type(agents).__name__}; expected a list of "
                "dual2.Agent(A, f, g), also for a single one."
            )
        members = tuple(agents)
        self._take(members, np.arange(len(members)), len(members), as_function(h))

    def _take(
        self, agents: tuple[Agent, ...], owned: NDArray[np.int64], n: int, h: Function
    ) -> None:
        """Check and keep the agents with the numbers ``owned`` of n."""
        if not agents:
            raise ProblemError("The problem has no agents: expected at least one.")
        self.agents, self.owned, self.n, self.h = agents, owned, n, h
        seen: set[int] = set()
        for i, agent in zip(owned.tolist(), agents, strict=True):
            check_agent(i, agent, seen)
        self.p = agents[0].p if h.dim is None else h.dim
        self.dims: tuple[int, ...] = tuple(agent.dim for agent in agents)
        self._check_coupling()
        self.dual_term = find_dual_term(h, self.p)

    def _take_over(self, other: Problem) -> None:
        """What is known of the same agents in another problem needs no second look."""
        self.dims, self.sizes = other.dims, other.sizes
        self.groups, self.sigma = other.groups, other.sizes.sigma

    def refresh(self) -> None:
        """Called by every solve: a problem that was read from elsewhere reads it again."""

    def __repr__(self) -> str:
        sizes = f"{counted(self.n, 'agent')}, {counted(sum(self.dims), 'variable')}"
        return f"Problem({sizes}, p={self.p}, h={self.h!r})"

    def _check_coupling(self) -> None:
        source = f"agent {self.owned[0]}" if self.h.dim is None else f"h = {self.h!r}"
        for i, agent in zip(self.owned, self.agents, strict=True):
            if agent.p != self.p:
                raise ProblemError(
                    f"Agent {i}: A has {counted(agent.p, 'row')}, but {source} has coupling "
                    f"length {self.p}. Every A needs {counted(self.p, 'row')}."
                )
        if not (self.h.proximable or self.h.conjugate_smooth):
            raise ProblemError(
                f"h = {self.h!r} has neither a proximal mapping nor a conjugate with a gradient. "
                "Give it a prox (Proximable) or make it strongly convex (plus_quadratic)."
            )

    def with_agents(self, agents: Iterable[Agent], h: Function | Any) -> Problem:
        """Another problem with as many agents, in the same place."""
        return Problem(agents, h)

    # -- over all agents --------------------------------------------------------------------

    @property
    def complete(self) -> bool:
        """Whether all agents are in this process."""
        return len(self.agents) == self.n

    def total(self, rows: ArrayLike) -> Vector:
        """Sum over all agents, column by column; one row per agent here."""
        return np.asarray(rows, dtype=np.float64).sum(axis=0)

    def largest(self, rows: ArrayLike) -> Vector:
        """Maximum over all agents, column by column; one row per agent here."""
        return np.asarray(rows, dtype=np.float64).max(axis=0)

    def first(self, marks: Sequence[bool] | NDArray[np.bool_]) -> int | None:
        """Smallest number of an agent that is marked, None if none is."""
        numbers = np.where(marks, -self.owned.astype(np.float64), -np.inf)
        found = -self.largest(numbers[:, None])[0]
        return int(found) if np.isfinite(found) else None

    def first_lack(self, lacks: Sequence[str], otherwise: str) -> str:
        """What the first agent that lacks something lacks; ``otherwise`` if it is not here.

        Examples
        --------
        >>> import dual2 as d2
        >>> problem = d2.Problem([d2.Agent([[1.0]], d2.SquaredNorm(1.0))] * 2, d2.Zero())
        >>> problem.first_lack(["", "no prox"], "")
        'agent 1: no prox'
        """
        number = self.first([bool(lack) for lack in lacks])
        if number is None:
            return ""
        own = dict(zip(self.owned.tolist(), lacks, strict=True))
        return f"agent {number}: {own.get(number, otherwise)}"

    def anywhere(self, holds: bool) -> bool:
        """Whether something holds in some process."""
        return bool(self.largest(np.full((len(self.agents), 1), float(holds)))[0] > 0)

    # -- data in bulk -----------------------------------------------------------------------

    @cached_property
    def sigma(self) -> Sigma:
        """Squared extreme singular values of all A_i: ``max2`` and ``min2``, each (n,)."""
        return self.sizes.sigma

    @cached_property
    def groups(self) -> list[Group]:
        """The agents of this process, those that are alike together."""
        return find_groups(self.agents)

    @cached_property
    def sizes(self) -> Sizes:
        """Constants of the agents of this process: ``mu``, ``L``, ``rows`` and ``sigma``."""
        return measure(self.groups, self.agents, self.p)

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Where each agent's variables start in one flat vector; n + 1 entries."""
        return np.concatenate([[0], np.cumsum(self.dims)]).astype(np.int64)

    def split(self, x: ArrayLike) -> list[Vector]:
        """Cut one flat vector of all variables into the agents' parts."""
        x = np.asarray(x, dtype=np.float64)
        if x.shape != (sum(self.dims),):
            raise ProblemError(f"The vector has shape {x.shape}, expected ({sum(self.dims)},).")
        return np.split(x, self.offsets[1:-1])

    def point(self, x: Sequence[ArrayLike]) -> list[Vector]:
        """x as a list of n float arrays, checked against the agents' dimensions."""
        if len(x) != len(self.agents):
            raise ProblemError(
                f"The point has {len(x)} parts, expected one for each of {len(self.agents)} agents."
            )
        parts = [np.asarray(part, dtype=np.float64) for part in x]
        for i, part, d in zip(self.owned, parts, self.dims, strict=True):
            if part.shape != (d,):
                raise ProblemError(f"Agent {i}: x has shape {part.shape}, expected ({d},).")
        return parts

    def price(self, lam: ArrayLike) -> Vector:
        """λ as a float array, checked to have length p."""
        price = np.asarray(lam, dtype=np.float64)
        if price.shape != (self.p,):
            raise ProblemError(f"The dual vector has shape {price.shape}, expected ({self.p},).")
        return price

    # -- how good is a point ----------------------------------------------------------------

    def coupling(self, x: Sequence[ArrayLike]) -> Vector:
        """s = Σ_i A_i x_i."""
        parts = zip(self.agents, self.point(x), strict=True)
        return self.total([agent.apply(part) for agent, part in parts])

    def objective(self, x: Sequence[ArrayLike], y: ArrayLike | None = None) -> float:
        """Σ_i f_i(x_i) + g_i(x_i) + h(y), y = Σ_i A_i x_i unless given; inf outside the domain."""
        parts = self.point(x)
        at = self.coupling(parts) if y is None else y
        return float(self.total(self.values(parts))[0] + self.h.value(at))

    def values(self, x: list[Vector]) -> Vector:
        """(agents, 1): f_i(x_i) + g_i(x_i)."""
        values = np.empty((len(self.agents), 1))
        for group in self.groups:
            X = group.take(x)
            values[group.at, 0] = group.f.values(X) + group.g.values(X)
        return values

    def kkt(
        self,
        x: Sequence[ArrayLike],
        lam: ArrayLike,
        atol: float | Vector = 0.0,
        rows: float | Vector | None = None,
    ) -> KKT:
        """Relative residual of the optimality conditions, see :class:`KKT`.

        ``atol`` is taken off the residuals, ``rows`` (unless given the same) off those of the rows;
        both may be vectors, one for each agent and each row.
        """
        row_atol = atol if rows is None else rows
        return residual.kkt(self, self.point(x), self.price(lam), atol, row_atol)

    def gap(self, x: Sequence[ArrayLike], lam: ArrayLike) -> float:
        """Upper bound on the duality gap near (x, λ), see :func:`error_bounds.gap`."""
        return error_bounds.gap(self, self.point(x), self.price(lam))

    def x_error_bound(self, x: Sequence[ArrayLike], lam: ArrayLike) -> ErrorBound:
        """Bound on |x − x*|, or why there is none, see :func:`error_bounds.x_error_bound`."""
        return error_bounds.x_error_bound(self, self.point(x), self.price(lam))

    def separates(self, u: ArrayLike) -> float:
        """Support value of the coupling in direction u; negative proves infeasibility.

        See :func:`error_bounds.separates`.
        """
        return error_bounds.separates(self, self.price(u))


def check_agent(i: int, agent: Any, seen: set[int]) -> None:
    """Check one agent's data; messages name it by its number. Matrices ``seen`` are known."""
    if not isinstance(agent, Agent):
        raise ProblemError(
            f"Agent {i} is of type {type(agent).__name__}: expected dual2.Agent(A, f, g)."
        )
    if id(agent.A) not in seen:
        (check_operator if isinstance(agent.A, LinearOperator) else check_finite)(i, agent.A)
        seen.add(id(agent.A))
    if not agent.f.smooth:
        raise ProblemError(
            f"Agent {i}: f = {agent.f!r} has no gradient. Give it as g, beside the smooth part of "
            "the cost as f, or Zero() if there is none."
        )
    if not agent.g.proximable:
        raise ProblemError(
            f"Agent {i}: g = {agent.g!r} has no proximal mapping. Give it as f if it is smooth, "
            "or wrap its prox in Proximable(prox)."
        )
    for name, function in (("f", agent.f), ("g", agent.g)):
        if function.dim is not None and function.dim != agent.dim:
            raise ProblemError(
                f"Agent {i}: A has {agent.dim} columns, but {name} = {function!r} takes vectors "
                f"of length {function.dim}."
            )


def check_finite(i: int, A: Any) -> None:
    """Raise an error that names the first entry of A that is nan or infinite."""
    entries = A.data if sp.issparse(A) else A
    if np.isfinite(entries).all():
        return
    row, column = np.argwhere(~np.isfinite(A.toarray() if sp.issparse(A) else A))[0]
    value = A[row, column]
    raise ProblemError(f"Agent {i}: A[{row}, {column}] is {value}. Every entry must be finite.")


def check_operator(i: int, A: LinearOperator) -> None:
    """Raise an error unless A and Aᵀ can be applied, give numbers, and ⟨Ax, v⟩ = ⟨x, Aᵀv⟩."""
    rng = np.random.default_rng(0)
    x, v = (rng.standard_normal(size) for size in A.shape[::-1])
    try:
        forth, back = A.matvec(x), A.rmatvec(v)
    except (NotImplementedError, ValueError) as error:
        raise ProblemError(
            f"Agent {i}: the operator A cannot be applied ({error}). It needs matvec: (d,) to (p,) "
            "and rmatvec: (p,) to (d,), the product with the transpose."
        ) from error
    if not (np.isfinite(forth).all() and np.isfinite(back).all()):
        raise ProblemError(f"Agent {i}: the operator A gives values that are not finite.")
    size = np.linalg.norm(forth) * np.linalg.norm(v) + np.linalg.norm(back) * np.linalg.norm(x)
    if abs(forth @ v - x @ back) > ADJOINT_TOLERANCE * size:
        raise ProblemError(
            f"Agent {i}: rmatvec of the operator A is not the product with its transpose: "
            f"⟨Ax, v⟩ = {forth @ v:.6g}, but ⟨x, Aᵀv⟩ = {x @ back:.6g}."
        )
