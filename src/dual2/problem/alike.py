"""Functions and matrices of many agents, evaluated together: one row each.

Functions that split by coordinate become one function with a row of parameters for each agent, any
others are called one by one; a matrix that several agents share is kept once. Nothing that an agent
is told depends on who is beside it: its numbers have the same bits in any group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from dual2.errors import CapabilityError
from dual2.functions import Function, PiecewiseQuadratic
from dual2.functions.base import Indicator

if TYPE_CHECKING:
    from dual2.problem.agent import Agent

Array = NDArray[np.float64]


# -- functions -------------------------------------------------------------------------------


class Forms:
    """Functions that split by coordinate, one for each row.

    Parameters
    ----------
    forms : sequence of PiecewiseQuadratic
        Of the agents.
    d : int
        How many coordinates they take.

    Examples
    --------
    >>> from dual2.functions import L1Norm
    >>> two = Forms([L1Norm(1.0).form, L1Norm([0.0, 3.0]).form], 2)
    >>> two.values(np.ones((2, 2))).tolist()
    [2.0, 3.0]
    """

    def __init__(self, forms: Sequence[PiecewiseQuadratic], d: int) -> None:
        names = [field.name for field in fields(PiecewiseQuadratic)]
        columns = {name: rows_of([getattr(form, name) for form in forms], d) for name in names}
        self.form, self.shape = PiecewiseQuadratic(**columns), (len(forms), d)

    def values(self, X: Array) -> Array:
        """The value of each row."""
        return self.form._value(X)

    def magnitudes(self, X: Array) -> Array:
        """|f| of each row; 0 outside the domain."""
        values = np.abs(self.values(X))
        return np.where(np.isfinite(values), values, 0.0)

    def gradients(self, X: Array) -> Array:
        """The gradient at each row."""
        return self.form._grad(X)

    def prox(self, V: Array, steps: Array) -> Array:
        """The prox at each row, with its own step."""
        return self.form._prox(V, steps[:, None])

    @cached_property
    def mu(self) -> Array:
        """Moduli of strong convexity."""
        form = self.form
        own = np.where(np.equal(form.lower, form.upper), np.inf, form.curvature)
        return np.array(np.broadcast_to(own, self.shape).min(axis=1))

    @cached_property
    def L(self) -> Array:
        """Lipschitz constants of the gradients; inf with kinks or bounds."""
        form = self.form
        rough = np.not_equal(form.slope_left, form.slope_right)
        rough = rough | np.isfinite(form.lower) | np.isfinite(form.upper)
        top = np.broadcast_to(form.curvature, self.shape).max(axis=1)
        return np.where(np.broadcast_to(rough, self.shape).any(axis=1), np.inf, top)


class Each:
    """Functions of any kind, called one by one."""

    def __init__(self, functions: Sequence[Function]) -> None:
        self.functions = functions

    def values(self, X: Array) -> Array:
        """The value of each row."""
        return np.array([float(f.value(x)) for f, x in zip(self.functions, X, strict=True)])

    def magnitudes(self, X: Array) -> Array:
        """|f| of each row; 0 outside the domain and where a user's function came without value."""
        return np.array([size_of(f, x) for f, x in zip(self.functions, X, strict=True)])

    def gradients(self, X: Array) -> Array:
        """The gradient at each row."""
        return np.array([f.grad(x) for f, x in zip(self.functions, X, strict=True)])

    def prox(self, V: Array, steps: Array) -> Array:
        """The prox at each row, with its own step."""
        parts = zip(self.functions, V, steps.tolist(), strict=True)
        return np.array([f.prox(v, step) for f, v, step in parts])

    @cached_property
    def mu(self) -> Array:
        """Moduli of strong convexity."""
        return np.array([f.mu for f in self.functions], dtype=np.float64)

    @cached_property
    def L(self) -> Array:
        """Lipschitz constants of the gradients."""
        return np.array([f.L for f in self.functions], dtype=np.float64)


def size_of(function: Function, x: Array) -> float:
    """|f(x)|; 0 outside the domain and where a user's function came without its value."""
    if isinstance(function, Indicator):
        return 0.0
    try:
        value = abs(float(function.value(x)))
    except CapabilityError:
        return 0.0
    return value if np.isfinite(value) else 0.0


def rows_of(values: Sequence[Any], d: int) -> Any:
    """Numbers and vectors of length d, one for each row; a single number where all are the same.

    Examples
    --------
    >>> rows_of([1.0, 1.0], 2), rows_of([1.0, 2.0], 2).tolist()
    (1.0, [[1.0], [2.0]])
    >>> rows_of([1.0, np.array([2.0, 3.0])], 2).tolist()
    [[1.0, 1.0], [2.0, 3.0]]
    """
    single = [type(value) is float for value in values]
    if all(single):
        column = np.array(values)[:, None]
        return float(column[0, 0]) if np.all(column == column[0, 0]) else column
    if not any(single):
        return np.array(values)
    return np.array([np.full(d, v) if own else v for v, own in zip(values, single, strict=True)])


# -- matrices --------------------------------------------------------------------------------


class Shared:
    """One matrix or operator of all agents of a group."""

    def __init__(self, agent: Agent) -> None:
        self.agent, self.known = agent, not isinstance(agent.A, LinearOperator)

    def apply(self, X: Array) -> Array:
        """A x for each row."""
        if sp.issparse(self.agent.A):
            return np.asarray((self.agent.A @ X.T).T)
        return np.array([self.agent.apply(x) for x in X])

    def sizes(self, X: Array, products: Array) -> Array:
        """|A||x| for each row; of an operator |A x|."""
        if sp.issparse(self.agent.A):
            return np.asarray((abs(self.agent.A) @ np.abs(X).T).T)
        return np.array([self.agent.sizes(x, v) for x, v in zip(X, products, strict=True)])

    def adjoint(self, v: Array) -> Array:
        """Aᵀ v, the same for all rows."""
        return self.agent.adjoint(v)[None]

    @cached_property
    def norms(self) -> Array:
        """Lengths of the rows of A, the same for all agents."""
        return self.agent.row_norms[None]

    def gram(self, weights: Array) -> Array:
        """Σ weights_i A_i A_iᵀ."""
        square = self.agent.A @ self.agent.A.T
        return float(weights.sum()) * (square.toarray() if sp.issparse(square) else square)


class Dense:
    """Arrays of one shape, multiplied one by one: the bits of a product are the agent's own."""

    known = True

    def __init__(self, matrices: Sequence[Array]) -> None:
        self.matrices = matrices

    def apply(self, X: Array) -> Array:
        """A_i x_i."""
        return np.array([A @ x for A, x in zip(self.matrices, X, strict=True)])

    def sizes(self, X: Array, products: Array) -> Array:
        """|A_i||x_i|."""
        return np.array([abs(A) @ np.abs(x) for A, x in zip(self.matrices, X, strict=True)])

    def adjoint(self, v: Array) -> Array:
        """A_iᵀ v."""
        return np.array([A.T @ v for A in self.matrices])

    @cached_property
    def norms(self) -> Array:
        """Lengths of the rows of each A_i."""
        return np.array([np.sqrt((A**2).sum(axis=1)) for A in self.matrices])

    def gram(self, weights: Array) -> Array:
        """Σ weights_i A_i A_iᵀ."""
        wide = np.hstack([np.sqrt(w) * A for w, A in zip(weights, self.matrices, strict=True)])
        return wide @ wide.T


class Sparse:
    """Sparse matrices of one shape, entry by entry."""

    known = True

    def __init__(self, matrices: Sequence[Any]) -> None:
        self.shape = (len(matrices), *matrices[0].shape)
        wide = sp.csc_array(sp.hstack(list(matrices), format="csc"))
        self.wide, self.place = wide, self._places(wide)

    def _places(self, wide: sp.csc_array) -> NDArray[np.int64]:
        """Where each entry goes in the flat (k, p) products."""
        _, p, d = self.shape
        owner = np.repeat(np.arange(wide.shape[1]) // d, np.diff(wide.indptr))
        return owner * p + wide.indices

    def _scattered(self, entries: Array, X: Array) -> Array:
        k, p, _ = self.shape
        spread = np.repeat(X.ravel(), np.diff(self.wide.indptr))
        total = np.bincount(self.place, entries * spread, k * p).astype(np.float64)
        return total.reshape(k, p)

    def apply(self, X: Array) -> Array:
        """A_i x_i."""
        return self._scattered(self.wide.data, X)

    def sizes(self, X: Array, products: Array) -> Array:
        """|A_i||x_i|."""
        return self._scattered(np.abs(self.wide.data), np.abs(X))

    def adjoint(self, v: Array) -> Array:
        """A_iᵀ v."""
        return np.asarray(self.wide.T @ v).reshape(self.shape[0], -1)

    @cached_property
    def norms(self) -> Array:
        """Lengths of the rows of each A_i."""
        k, _, d = self.shape
        return np.sqrt(self._scattered(self.wide.data**2, np.ones((k, d))))

    def gram(self, weights: Array) -> Array:
        """Σ weights_i A_i A_iᵀ."""
        return (self.wide * np.repeat(weights, self.shape[2])) @ self.wide.T.toarray()
