"""Agents in groups: what is computed for many agents at once, one row each.

Agents go together if they have as many variables, functions of the same kind and matrices of the
same kind. So a definition is written once, for rows, and costs little Python however many the
agents are. Functions that split by coordinate become one function with a row of parameters for each
agent, any others are called one by one; a matrix that several agents share is kept once. Nothing
that an agent is told depends on who is beside it: its numbers have the same bits in any group.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from dual2.functions import Function, LeastSquares, PiecewiseQuadratic, Quadratic, Stacked
from dual2.functions.calculus import Affined
from dual2.problem.ingredients import group_least, group_norm, size_of
from dual2.problem.matrices import Dense, Shared, Sigma, Sparse, squared_singular_values

if TYPE_CHECKING:
    from dual2.problem.agent import Agent

Array = NDArray[np.float64]
Key = tuple[int, Hashable, bool, bool]
LARGE = 20_000
"""Entries of a matrix from which its agent is a group of its own, unless others share it."""
SOME = 100_000
"""Numbers in an array of a group, which stay in the cache; more agents make several groups."""
MATRICES = 2_000_000
"""Numbers in the dense matrices of a group."""


# -- functions -------------------------------------------------------------------------------


class Forms:
    """Functions that split by coordinate, one for each row.

    Their ``values`` and ``gradients`` at the rows X and their ``prox`` with steps (rows, 1) are
    those of the one ``form`` that they make together.

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
        self.values, self.gradients, self.prox = self.form._value, self.form._grad, self.form._prox

    def magnitudes(self, X: Array) -> Array:
        """|f| of each row; 0 outside the domain."""
        values = np.abs(self.values(X))
        return np.where(np.isfinite(values), values, 0.0)

    @cached_property
    def mu(self) -> Array:
        """Moduli of strong convexity."""
        form = self.form
        own = np.where(np.equal(form.lower, form.upper), np.inf, form.curvature)
        return np.array(self._spread(own).min(axis=1))

    @cached_property
    def L(self) -> Array:
        """Lipschitz constants of the gradients; inf with kinks or bounds."""
        form = self.form
        rough = np.not_equal(form.slope_left, form.slope_right)
        rough = rough | np.isfinite(form.lower) | np.isfinite(form.upper)
        top = self._spread(np.asarray(form.curvature)).max(axis=1)
        return np.where(np.broadcast_to(rough, self.shape).any(axis=1), np.inf, top)

    def _spread(self, values: Array) -> Array:
        """One row for each function; of no coordinates one number, 1 where none is known."""
        rows, d = self.shape
        if d == 0 and values.shape[-1:] == (0,):
            return np.ones((rows, 1))
        return np.broadcast_to(values, (rows, max(d, 1)))


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
        """The prox at each row; steps (rows, 1), or (rows, d), the same within each block."""
        parts = zip(self.functions, V, steps, strict=True)
        return np.array([f.prox(v, self._step(f, step)) for f, v, step in parts])

    @staticmethod
    def _step(f: Function, step: Array) -> Any:
        several = len(step) > 1 and f.groups(len(step)).any()
        return step if several else float(step[0]) if len(step) else 1.0

    @cached_property
    def mu(self) -> Array:
        """Moduli of strong convexity."""
        return np.array([f.mu for f in self.functions], dtype=np.float64)

    @cached_property
    def L(self) -> Array:
        """Lipschitz constants of the gradients."""
        return np.array([f.L for f in self.functions], dtype=np.float64)


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


# -- groups ----------------------------------------------------------------------------------


class PointEvaluation(NamedTuple):
    """What the agents of a group say at x and λ, one row or one number each."""

    X: Array
    gradient: Array
    """∇f_i(x_i)."""
    ATy: Array
    """A_iᵀλ, in a single row where all A_i are the same."""
    products: Array
    """A_i x_i."""
    sizes: Array
    """|A_i||x_i|."""
    abs_ATy: Array
    """|A_i|ᵀ|λ|."""
    force: Array
    """max(|∇f_i|, |A_iᵀλ|, c|x_i|), c the curvature of f_i along each coordinate."""
    magnitude: Array
    """|f_i| + |g_i| + force·|x_i|, as far as there are values."""


class Sizes(NamedTuple):
    """Constants of the agents of a process, one row or one number each."""

    mu: Array
    """Modulus of strong convexity of f_i."""
    L: Array
    """Lipschitz constant of its gradient."""
    rows: Array
    """(agents, p): lengths of the rows of A_i."""
    sigma: Sigma
    """Squared extreme singular values of A_i."""


@dataclass(frozen=True, eq=False)
class Group:
    """Agents that are alike.

    Attributes
    ----------
    at : ndarray of int64
        Their places among the agents of this process, ascending.
    dim : int
        d, of each.
    f, g : Forms or Each
        Their functions, row by row.
    A : Shared, Dense or Sparse
        Their matrices.
    """

    at: NDArray[np.int64]
    dim: int
    f: Forms | Each
    g: Forms | Each
    A: Shared | Dense | Sparse

    def take(self, x: Sequence[Array]) -> Array:
        """The parts of its agents, one row each."""
        return np.array([x[i] for i in self.at.tolist()])

    def ask(self, x: Sequence[Array], lam: Array) -> PointEvaluation:
        """All that the definitions of optimality ask of the agents, but their prox."""
        X = self.take(x)
        own, other = self.f.magnitudes(X), self.g.magnitudes(X)
        gradient, ATy = self.f.gradients(X), np.broadcast_to(self.A.adjoint(lam), X.shape)
        force = np.maximum(np.maximum(np.abs(gradient), np.abs(ATy)), self.curvature * np.abs(X))
        magnitude = (force * np.abs(X)).sum(axis=1) + own + other
        products = self.A.apply(X)
        sizes = self.A.sizes(X, products)
        abs_ATy = np.broadcast_to(self.A.adjoint_sizes(lam, ATy), X.shape)
        return PointEvaluation(X, gradient, ATy, products, sizes, abs_ATy, force, magnitude)

    @cached_property
    def curvature(self) -> Array:
        """(agents, d): the curvature of f_i along each coordinate, μ_i where it is not known."""
        shape = len(self.at), self.dim
        if isinstance(self.f, Forms):
            return np.broadcast_to(self.f.form.curvature, shape)
        return np.array([curvature_along(f, self.dim) for f in self.f.functions]).reshape(shape)

    @cached_property
    def blocks(self) -> Blocks:
        """Which coordinates the g_i do not separate."""
        if isinstance(self.g, Forms):
            return Blocks(None)
        return Blocks(np.array([g.groups(self.dim) for g in self.g.functions]))

    @property
    def plain(self) -> bool:
        """Whether f and g split by coordinate and A is a matrix."""
        return self.A.known and isinstance(self.f, Forms) and isinstance(self.g, Forms)


class Blocks:
    """Coordinates that are judged together; ``labels`` (agents, d) number them, None: each alone.

    Examples
    --------
    >>> Blocks(np.array([[0, 1, 1]])).norms(np.array([[2.0, 3.0, 4.0]])).tolist()
    [[2.0, 5.0, 5.0]]
    """

    def __init__(self, labels: NDArray[np.int64] | None) -> None:
        count = 0 if labels is None or not labels.size else labels.shape[1]
        self.separate = count == 0 or bool(np.all(labels == np.arange(count)))
        self._labels = labels

    def norms(self, V: Array) -> Array:
        """The Euclidean length of each coordinate's block."""
        if self.separate or self._labels is None:
            return np.abs(V)
        return np.array([group_norm(v, own) for v, own in zip(V, self._labels, strict=True)])

    def least(self, steps: Array) -> Array:
        """The smallest of the steps of each block."""
        if self.separate or self._labels is None:
            return steps
        return np.array(
            [group_least(row, own) for row, own in zip(steps, self._labels, strict=True)]
        )


def curvature_along(f: Function, d: int) -> Array:
    """The second derivative of f along each of d coordinates; μ where it is not known.

    Examples
    --------
    >>> from dual2.functions import LeastSquares
    >>> curvature_along(LeastSquares([[3.0, 1.0], [4.0, 0.0]], [0.0, 0.0], 1.0), 2).tolist()
    [26.0, 2.0]
    """
    if f.form is not None:
        return np.array(np.broadcast_to(f.form.curvature, (d,)))
    match f:
        case Quadratic():
            return np.diag(f.P) if f.P.ndim == 2 else np.broadcast_to(f.P, (d,))
        case LeastSquares():
            return np.einsum("ij,ij->j", f.M, f.M) + f.ridge
        case Affined():
            return f.scale * curvature_along(f.function, d) + f.curvature
        case Stacked():
            return np.concatenate([curvature_along(part, size) for part, size in f.parts])
    return np.full(d, f.mu)


def find_groups(agents: Sequence[Agent]) -> list[Group]:
    """All agents in groups.

    Examples
    --------
    >>> import dual2 as d2
    >>> agents = [d2.Agent([[1.0]], d2.SquaredNorm(w)) for w in (1.0, 2.0, 3.0)]
    >>> [group.at.tolist() for group in find_groups(agents)]
    [[0, 1, 2]]
    """
    shared = Counter(id(agent.A) for agent in agents)
    found: dict[Key, list[int]] = defaultdict(list)
    for i, agent in enumerate(agents):
        kind = _matrix_kind(agent.A, shared[id(agent.A)])
        found[agent.A.shape[1], kind, agent.f.form is None, agent.g.form is None].append(i)
    groups, p = [], agents[0].A.shape[0]
    for (d, kind, *_), members in found.items():
        most = min(SOME // max(d, p), MATRICES // max(d * p, 1) if kind == "dense" else SOME) + 1
        groups += [_group(agents, part, kind) for part in _cut(members, most)]
    return groups


def measure(groups: Sequence[Group], agents: Sequence[Agent], p: int) -> Sizes:
    """The constants of the agents, which are in these groups."""
    n, matrices = len(agents), [agent.A for agent in agents]
    mu, L, rows = np.empty(n), np.empty(n), np.empty((n, p))
    for group in groups:
        mu[group.at], L[group.at], rows[group.at] = group.f.mu, group.f.L, group.A.norms
    return Sizes(mu, L, rows, squared_singular_values(matrices))


def _matrix_kind(A: Any, owners: int) -> Hashable:
    """``dense``, ``sparse``, or a number of its own."""
    if owners > 1 or isinstance(A, LinearOperator):
        return id(A)
    entries = A.nnz if sp.issparse(A) else A.size
    return id(A) if entries > LARGE else "sparse" if sp.issparse(A) else "dense"


def _cut(members: list[int], most: int) -> Iterator[list[int]]:
    return (members[first : first + most] for first in range(0, len(members), most))


def _group(agents: Sequence[Agent], members: list[int], kind: Hashable) -> Group:
    own = [agents[i] for i in members]
    d, places = own[0].A.shape[1], np.array(members, dtype=np.int64)
    f, g = _together([agent.f for agent in own], d), _together([agent.g for agent in own], d)
    if len(own) == 1 or kind not in ("dense", "sparse"):
        return Group(places, d, f, g, Shared(own[0]))
    return Group(places, d, f, g, (Dense if kind == "dense" else Sparse)([a.A for a in own]))


def _together(functions: Sequence[Function], d: int) -> Forms | Each:
    forms = [f.form for f in functions if f.form is not None]
    return Forms(forms, d) if len(forms) == len(functions) else Each(functions)
