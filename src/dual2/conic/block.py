"""The part of one agent, or of a group of alike ones: all that only they know.

Arrays have a row per agent of the group. Bounds are rows ±v_j + s = g·τ with s, z ≥ 0, kept for
both sides, (2, m, n), with s = 1 and z = 0 where there is no bound. Private rows, which only groups
of one agent have, are B v + t = d·τ with multipliers y.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from dual2.conic.blocks import SmoothTerm
from dual2.conic.cones import (
    LONGEST_STEP,
    central_start,
    longest_in_cones,
)
from dual2.conic.couplings import Coupling
from dual2.conic.local_system import (
    SystemCache,
    coupled_variables,
)
from dual2.conic.schur_pattern import SchurPattern
from dual2.conic.standard_form import ConicRows, StandardForm

Array = np.ndarray
EPS = float(np.finfo(np.float64).eps)
SIGNS = np.array([-1.0, 1.0])[:, None, None]
"""Of lower and upper bounds."""
SCALES = 1e-5, 1e5
"""Within which columns and rows are scaled."""


@dataclass(frozen=True)
class Point:
    """Iterates of a group: variables, slacks and multipliers of bounds, and of private rows."""

    v: Array
    s: Array
    z: Array
    t: Array
    y: Array


@dataclass(frozen=True)
class Direction(Point):
    """By how much they change, for a step of length 1."""


def dump_points(label: str, points: Sequence[Point]) -> dict[str, Array]:
    """Points of several blocks as flat arrays, to be saved."""
    names = (part.name for part in fields(Point))
    return {
        f"{label}_{k}": np.concatenate([np.ravel(getattr(p, k)) for p in points]) for k in names
    }


def load_points(
    label: str, arrays: dict[str, Any], like: Sequence[Point], kind: type[Point] = Point
) -> list[Any]:
    """The points that were saved, of the shapes of others."""
    parts: list[dict[str, Array]] = [{} for _ in like]
    for name in (part.name for part in fields(Point)):
        flat, at = np.asarray(arrays[f"{label}_{name}"]), 0
        for own, point in zip(parts, like, strict=True):
            shape = getattr(point, name)
            own[name] = flat[at : at + shape.size].reshape(shape.shape).copy()
            at += shape.size
    return [kind(**own) for own in parts]


@dataclass(frozen=True)
class Block:
    """Data of a group in scaled units.

    Attributes
    ----------
    places : ndarray of int
        Where its agents stand in this process; of the public block, of h, none.
    A : DenseCoupling or SparseCoupling
        Their columns.
    H : ndarray (m, n), or (1, n, n) or sparse (n, n) of one agent
        Curvature.
    q : ndarray, shape (m, n)
        Linear cost.
    g : ndarray, shape (2, m, n)
        −lower and upper, 0 where there is none.
    bounded : ndarray of bool, shape (2, m, n)
        Where there is one.
    rows : ConicRows or None
        Private rows.
    columns : ndarray, shape (m, n)
        Units of the variables: v·columns is in the user's.
    expansion : csr_array
        From all v of the group, in the user's units, to all their x − ``offset``.
    offset : ndarray
        x at v = 0, of all agents one after the other.
    smooth : tuple of SmoothTerm
        Of one agent, in its x.
    cost_scale : float
        By which the objective is multiplied.
    begin : ndarray or None
        Inside the domains of smooth terms, in the user's units; NaN elsewhere.
    systems : SystemCache
        What stays the same in the local linear system.
    """

    places: Array
    A: Coupling
    H: Any
    q: Array
    g: Array
    bounded: Array
    rows: ConicRows | None
    columns: Array
    expansion: sp.csr_array
    offset: Array
    smooth: tuple[SmoothTerm, ...] = ()
    cost_scale: float = 1.0
    begin: Array | None = None
    systems: SystemCache = field(default_factory=SystemCache, repr=False)

    @cached_property
    def coupled(self) -> Array:
        """Variables that curvature or private rows tie to others; of groups of one agent."""
        if self.rows is None and not sp.issparse(self.H) and self.H.ndim == 2 and not self.smooth:
            return np.zeros(0, np.int64)
        return coupled_variables(self.H, self.rows, len(self.smooth) > 0)

    def cliques(self) -> sp.csr_array:
        """Rows of the coupling that are tied by its variables; one clique per row."""
        by_variable = self.A.by_variable()
        if not len(self.coupled):
            return by_variable
        members = sp.csr_array((np.ones(self.n), (self._components(), np.arange(self.n))))
        return sp.csr_array(members @ abs(by_variable))

    def _components(self) -> Array:
        """Which variables of one agent are tied to one another, directly or not."""
        if self.smooth:
            return np.zeros(self.n, np.int64)
        if sp.issparse(self.H):
            ties: Any = sp.csr_array(self.H)
        else:
            ties = sp.csr_array(self.H[0] if self.H.ndim == 3 else (self.n, self.n))
        if self.rows is not None:
            ties = sp.block_array([[ties, self.rows.B.T], [self.rows.B, None]])
        return connected_components(ties, directed=False)[1][: self.n]

    # -- scaling --------------------------------------------------------------------------------
    def equilibrated(self, row_factors: Array) -> "Block":
        """One round: rows by agreed factors, columns and private rows by their own sizes."""
        A, rows = self.A.scaled(row_factors, np.ones_like(self.q)), self.rows
        if rows is not None:
            factors = _row_factors(rows)
            rows = replace(
                rows, B=sp.csr_array(sp.diags_array(factors) @ rows.B), rhs=rows.rhs * factors
            )
        size = np.maximum(A.largest_in_columns(), self._largest_curvature())
        if rows is not None:
            size = np.maximum(size, _column_sizes(rows.B)[None])
        c = np.clip(self.columns * inverse_root(size), *SCALES) / self.columns
        A = A.scaled(np.ones(len(row_factors)), c)
        if rows is not None:
            rows = replace(rows, B=sp.csr_array(rows.B @ sp.diags_array(c[0])))
        return replace(
            self,
            A=A,
            rows=rows,
            H=self._times_columns(c),
            q=self.q * c,
            g=self.g / c,
            columns=self.columns * c,
        )

    def _largest_curvature(self) -> Array:
        """Largest entry of H in each column."""
        if sp.issparse(self.H):
            return _column_sizes(self.H)[None]
        return np.abs(self.H) if self.H.ndim == 2 else np.abs(self.H).max(axis=1, initial=0.0)

    def _times_columns(self, c: Array) -> Any:
        if sp.issparse(self.H):
            D = sp.diags_array(c[0])
            return sp.csr_array(D @ self.H @ D)
        return self.H * c**2 if self.H.ndim == 2 else self.H * c[:, :, None] * c[:, None, :]

    def extreme_costs(self) -> tuple[float, float]:
        """The least and the largest of all entries of q and H that are not 0; 0 if all are."""
        data = self.H.data if sp.issparse(self.H) else self.H
        sizes = np.abs(np.concatenate([np.ravel(self.q), np.ravel(data)]))
        sizes = sizes[sizes > 0]
        return (float(sizes.min()), float(sizes.max())) if sizes.size else (0.0, 0.0)

    def final(self, scale: float, pattern: SchurPattern) -> "Block":
        """The objective multiplied by a number; S has these entries."""
        A, H, q = self.A.on(pattern), self.H * scale, self.q * scale
        return replace(self, A=A, H=H, q=q, cost_scale=scale)

    # -- small algebra --------------------------------------------------------------------------
    @property
    def counts(self) -> Array:
        """Bounds, inequalities and cones of each agent: pairs in the complementarity."""
        bounds = self.bounded.sum(axis=(0, 2)).astype(float)
        if self.rows is None:
            return bounds
        inside = sum(k.stop - k.start for k in self.rows.cones)
        plain = np.count_nonzero(~self.rows.equation) - inside
        return bounds + plain + len(self.rows.cones)

    def curve(self, v: Array) -> Array:
        """H v."""
        return self._curve(self.H, v)

    def _curve(self, H: Any, v: Array) -> Array:
        if sp.issparse(H):
            return (H @ v[0])[None]
        return H * v if H.ndim == 2 else np.matmul(H, v[:, :, None])[:, :, 0]

    def product(self, v: Array) -> Array:
        """A v of a vector over variables and rows."""
        return self.A.apply(v[:, : self.q.shape[1]])

    def expanded(self, v: Array) -> tuple[Any, Any]:
        """Curvature with that of the smooth terms at v (τ = 1), and the gradient of these."""
        H, gradient = self.H, 0.0
        if not self.smooth:
            return H, gradient
        x = self.x(v)
        to_x = sp.csr_array(self.expansion @ sp.diags_array(self.columns[0]))
        for term in self.smooth:
            found, own = term.expand(x[term.at]), sp.csr_array(to_x[term.at])
            gradient = gradient + self.cost_scale * (own.T @ found.gradient)[None]
            H = _plus_curvature(H, self.cost_scale, found.hessian, own)
        return H, gradient

    def absolute_curve(self, v: Array) -> Array:
        """|H||v|."""
        return self._curve(abs(self.H), np.abs(v))

    @property
    def n(self) -> int:
        """Variables of each agent."""
        return self.q.shape[1]

    def x(self, v: Array) -> Array:
        """All x of the group, one after the other, in the user's units."""
        return self.offset + self.expansion @ (v * self.columns).ravel()

    # -- start ----------------------------------------------------------------------------------
    def start(self) -> Point:
        """v = 0, or inside the domains of smooth terms; slacks and multipliers 1."""
        v, ones = np.zeros_like(self.q), self.bounded.astype(float)
        s = np.ones_like(ones)
        if self.begin is not None:
            needed = np.isfinite(self.begin)
            v = np.where(needed, self.begin, 0.0) / self.columns
            room = self.g - SIGNS * v  # exact slacks never let v leave an open domain
            s = np.where(self.bounded & needed & (room > 0), room, 1.0)
        t = np.zeros((len(v), 0)) if self.rows is None else central_start(self.rows)[None]
        return Point(v, s, ones, t, t.copy())

    def move(self, point: Point, step: Direction, length: float) -> Point:
        """The point after a step."""
        names = ("v", "s", "z", "t", "y")
        return Point(*(getattr(point, k) + length * getattr(step, k) for k in names))

    def longest(self, point: Point, step: Direction) -> Array:
        """Of each agent the longest step that keeps it inside its cones."""
        length = np.full(len(self.q), LONGEST_STEP)
        for x, dx in ((point.s, step.s), (point.z, step.z)):
            falling = dx < 0
            ratios = np.divide(x, -dx, out=np.full(x.shape, LONGEST_STEP), where=falling)
            length = np.minimum(length, ratios.min(axis=(0, 2), initial=LONGEST_STEP))
        if self.rows is not None:
            rows = longest_in_cones(self.rows, point.t[0], point.y[0], step.t[0], step.y[0])
            length = np.minimum(length, rows)
        return length


# -- from a standard form -----------------------------------------------------------------------
def single_block(places: Array, A: Coupling, form: StandardForm) -> Block:
    """The block of one standard form, in the user's units."""
    H = form.H
    if not sp.issparse(H):
        H = H[None]
    g, bounded = limits_of(form.lower[None], form.upper[None])
    rows = form.rows if len(form.rows.rhs) else None
    begin = None if form.start is None else form.start[None]
    return Block(
        places=places,
        A=A,
        H=H,
        q=form.q[None],
        g=g,
        bounded=bounded,
        rows=rows,
        columns=np.ones((1, form.n)),
        expansion=form.P,
        offset=form.offset,
        smooth=form.smooth,
        begin=begin,
    )


def limits_of(lower: Array, upper: Array) -> tuple[Array, Array]:
    """−lower and upper, 0 where there is none, and where there is one."""
    both = np.array([-lower, upper])
    bounded = np.isfinite(both)
    return np.where(bounded, both, 0.0), bounded


# -- helpers -----------------------------------------------------------------------------------
def dot(a: Array, b: Array) -> Array:
    """Inner products of rows; the bits of one do not depend on how many there are."""
    return np.multiply(a, b).sum(axis=1)


def dot2(a: Array, b: Array) -> Array:
    """The same for both sides of bounds."""
    return dot(a[0], b[0]) + dot(a[1], b[1])


def _fold(z: Array) -> Array:
    """Gᵀz."""
    return z[1] - z[0]


def inverse_root(size: Array) -> Array:
    """1/√size, 1 where it is 0."""
    return 1.0 / np.sqrt(np.where(size > 0, size, 1.0))


def _column_sizes(matrix: sp.csr_array) -> Array:
    sizes = np.zeros(matrix.shape[1])
    np.maximum.at(sizes, matrix.indices, np.abs(matrix.data))
    return sizes


def _row_factors(rows: ConicRows) -> Array:
    """Of private rows by their own sizes; one for all rows of a cone."""
    sizes = np.zeros(len(rows.rhs))
    np.maximum.at(
        sizes, np.repeat(np.arange(len(sizes)), np.diff(rows.B.indptr)), np.abs(rows.B.data)
    )
    for place in rows.cones:
        sizes[place] = sizes[place].max(initial=0.0)
    return inverse_root(sizes)


def _plus_curvature(H: Any, scale: float, hessian: Array, expansion: sp.csr_array) -> Any:
    """H plus the curvature of a smooth term."""
    if hessian.ndim == 3:
        inner: Any = sp.block_diag(list(hessian))
    else:
        inner = sp.diags_array(hessian) if hessian.ndim == 1 else hessian
    added = sp.csr_array(scale * (expansion.T @ inner @ expansion))
    if sp.issparse(H):
        return sp.csr_array(H + added)
    dense = added.toarray()
    if H.ndim == 3:
        return H + dense[None]
    if np.count_nonzero(dense - np.diag(dense.diagonal())) == 0:
        return H + dense.diagonal()[None]
    return (np.diag(H[0]) + dense)[None]
