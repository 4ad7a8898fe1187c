"""From block forms of functions to the standard form of one agent.

The block forms of f and g share x. The first separable piecewise quadratic among them is
substituted, x = offset + P w; what is left becomes bounds, cost and rows in w.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dual2.conic.blocks import BlockForm, Cone, ConeConstraint, Factored, Pieces, SmoothTerm

Array = np.ndarray


@dataclass(frozen=True)
class ConicRows:
    """Rows B w + s = rhs with s in a product of cones.

    ``equation`` marks rows with s = 0, ``cones`` are the places of second-order cones; all other
    rows have s ≥ 0.
    """

    B: sp.csr_array
    rhs: Array
    equation: Array
    cones: tuple[slice, ...] = ()

    @cached_property
    def outside_cones(self) -> Array:
        """Places of equations and inequalities."""
        inside = np.zeros(len(self.rhs), bool)
        for place in self.cones:
            inside[place] = True
        return np.flatnonzero(~inside)

    @cached_property
    def scaling_places(self) -> tuple[Array, Array]:
        """Rows and columns of what scales the slacks: a diagonal, then a block for each cone."""
        every, plain = np.arange(len(self.rhs)), self.outside_cones
        blocks = [np.meshgrid(every[k], every[k], indexing="ij") for k in self.cones]
        r, c = ([plain, *(block[i].ravel() for block in blocks)] for i in (0, 1))
        return np.concatenate(r), np.concatenate(c)


@dataclass(frozen=True)
class StandardForm:
    """Minimise ½wᵀHw + qᵀw + Σ φ(x) over lower ≤ w ≤ upper and ``rows``; x = offset + P w.

    Attributes
    ----------
    H : ndarray (n,) or (n, n), or sparse array
        Curvature; a vector is a diagonal.
    q, lower, upper : ndarray, shape (n,)
        Linear cost and bounds.
    rows : ConicRows
        Private constraints.
    offset : ndarray, shape (d,)
        x at w = 0.
    P : csr_array, shape (d, n)
        Which w make up x.
    smooth : tuple of SmoothTerm
        Terms φ of x.
    start : ndarray, shape (n,)
        Inside the domains of smooth terms; NaN for variables that these leave free.
    """

    H: Any
    q: Array
    lower: Array
    upper: Array
    rows: ConicRows
    offset: Array
    P: sp.csr_array
    smooth: tuple[SmoothTerm, ...] = ()
    start: Array | None = None

    @property
    def n(self) -> int:
        """Number of variables."""
        return len(self.q)


def standard_form(parts: Sequence[BlockForm]) -> StandardForm:
    """The standard form of a sum of functions of the same x.

    Examples
    --------
    >>> from dual2.functions import IndicatorBox, SquaredNorm
    >>> form = standard_form([SquaredNorm(2.0).blocks(1), IndicatorBox(0.0, 3.0).blocks(1)])
    >>> form.H.tolist(), form.lower.tolist(), form.upper.tolist()
    ([2.0], [0.0], [3.0])
    """
    d = parts[0].dim
    pieces = [_only_moving(part.pieces) for part in parts if part.pieces is not None]
    kinked = [one for one in pieces if not _quadratic(one, d)]
    quadratics = [_without_pieces(one) for one in pieces if _quadratic(one, d)]
    quadratics += [(part.H, part.q) for part in parts]
    first = kinked[0] if kinked else _free(d)
    H, q = _substitute(first, quadratics)
    extras = [_Extra(q, H, first.lower, first.upper, ())]
    extras += [_own_variables(part) for part in parts]
    extras += [_as_extra(one, d) for one in kinked[1:]]
    starts = np.cumsum([0] + [len(extra.cost) for extra in extras])
    P = sp.csr_array(
        (np.ones(len(q)), (first.coordinate, np.arange(len(q)))), shape=(d, int(starts[-1]))
    )
    lower = np.concatenate([extra.lower for extra in extras])
    upper = np.concatenate([extra.upper for extra in extras])
    placed = [
        (rows, int(at)) for extra, at in zip(extras, starts, strict=False) for rows in extra.rows
    ]
    rows, lower, upper = _merge(placed, P, first.start, lower, upper)
    form = StandardForm(
        H=_join([extra.curvature for extra in extras]),
        q=np.concatenate([extra.cost for extra in extras]),
        lower=lower,
        upper=upper,
        rows=rows,
        offset=first.start,
        P=P,
        smooth=tuple(term for part in parts for term in part.smooth),
    )
    return _inside(form) if form.smooth else form


class _Extra(NamedTuple):
    """Variables with their cost, curvature and bounds, and rows that are written with them."""

    cost: Array
    curvature: Any
    lower: Array
    upper: Array
    rows: tuple[ConeConstraint, ...]


# -- pieces ------------------------------------------------------------------------------------
def _only_moving(pieces: Pieces) -> Pieces:
    """Without pieces that cannot move."""
    keep = pieces.lower < pieces.upper
    if keep.all():
        return pieces
    parts = (
        getattr(pieces, name)[keep]
        for name in ("coordinate", "lower", "upper", "curvature", "slope")
    )
    return Pieces(pieces.start, *parts)


def _free(d: int) -> Pieces:
    """0 on the whole space."""
    none = np.zeros(d)
    return Pieces(none, np.arange(d), none - np.inf, none + np.inf, none, none)


def _quadratic(pieces: Pieces, d: int) -> bool:
    """Whether there is one piece per coordinate, without bounds."""
    bounded = np.isfinite(pieces.lower).any() or np.isfinite(pieces.upper).any()
    return len(pieces.slope) == d and not bounded and bool(np.all(np.diff(pieces.coordinate) == 1))


def _without_pieces(pieces: Pieces) -> tuple[Array, Array]:
    """Curvature and slope in x of a separable quadratic."""
    return pieces.curvature, pieces.slope - pieces.curvature * pieces.start


def _begins(pieces: Pieces) -> Array:
    """The x at which each piece begins to fill."""
    right = np.where(pieces.upper > 0, pieces.upper, 0.0)
    left = np.where(pieces.lower < 0, pieces.lower, 0.0)
    home = (pieces.lower < 0) & (pieces.upper > 0)
    begins = pieces.start[pieces.coordinate]
    if len(begins) == len(pieces.start):
        return begins
    before, after = (
        _sum_before(right, pieces.coordinate),
        _sum_before(left[::-1], pieces.coordinate[::-1])[::-1],
    )
    shift = np.where(home, 0.0, np.where(pieces.upper > 0, before, after))
    return begins + shift


def _sum_before(values: Array, groups: Array) -> Array:
    """Of each entry the sum of the earlier ones of its group; infinite ones have no successor."""
    total = np.cumsum(np.where(np.isfinite(values), values, 0.0))
    first = np.concatenate([[True], groups[1:] != groups[:-1]])
    start = np.maximum.accumulate(np.where(first, np.arange(len(groups)), 0))
    before = np.concatenate([[0.0], total[:-1]])
    return before - before[start]


def _substitute(pieces: Pieces, quadratics: Sequence[tuple[Any, Any]]) -> tuple[Any, Array]:
    """Curvature and linear cost in the pieces: theirs and those of quadratics in x."""
    H, q = pieces.curvature.astype(float), pieces.slope.astype(float)
    at = pieces.coordinate
    for curvature, slope in quadratics:
        if slope is not None:
            q = q + np.asarray(slope)[at]
        if curvature is None:
            continue
        if isinstance(curvature, np.ndarray) and curvature.ndim == 1:
            q = q + curvature[at] * _begins(pieces)
            H = _plus(H, curvature[at])
            continue
        full = _dense(curvature)
        q = q + (full @ pieces.start)[at]
        H = _plus(H, full[at][:, at])
    return H, q


def _dense(H: Any) -> Any:
    """A matrix of what is kept in factors."""
    if isinstance(H, Factored):
        M = H.M.toarray() if sp.issparse(H.M) else np.asarray(H.M)
        return M.T @ M + np.diag(np.broadcast_to(H.diagonal, M.shape[1]))
    return sp.csr_array(H) if sp.issparse(H) else H


def _plus(H: Any, other: Any) -> Any:
    """The sum of two curvatures, each a diagonal or a matrix."""
    if H.ndim == 1 and other.ndim == 1:
        return H + other
    if H.ndim == 1:
        H, other = other, H
    if other.ndim == 2:
        return H + other
    if sp.issparse(H):
        return sp.csr_array(H + sp.diags_array(other))
    total = H.copy()
    total[np.diag_indices(len(other))] += other
    return total


def _join(parts: Sequence[Any]) -> Any:
    """Block diagonal curvature; a vector where all are."""
    if all(part.ndim == 1 for part in parts):
        return np.concatenate(parts)
    parts = [part for part in parts if part.shape[0]]
    if len(parts) == 1:
        return parts[0]
    return sp.csr_array(sp.block_diag([sp.diags_array(h) if h.ndim == 1 else h for h in parts]))


def _own_variables(part: BlockForm) -> _Extra:
    """The variables u of a block form."""
    zeros = np.zeros(part.extra)
    return _Extra(
        np.asarray(part.cost, dtype=float), zeros, zeros - np.inf, zeros + np.inf, part.rows
    )


def _as_extra(pieces: Pieces, d: int) -> _Extra:
    """Pieces as variables of their own, with the rows x − Σ v = start."""
    m = len(pieces.slope)
    fold = sp.csr_array((-np.ones(m), (pieces.coordinate, np.arange(m))), shape=(d, m))
    rows = ConeConstraint(Cone.ZERO, sp.csr_array(sp.eye_array(d)), fold, pieces.start)
    return _Extra(pieces.slope, pieces.curvature, pieces.lower, pieces.upper, (rows,))


# -- rows --------------------------------------------------------------------------------------
def _merge(
    placed: Sequence[tuple[ConeConstraint, int]],
    P: sp.csr_array,
    offset: Array,
    lower: Array,
    upper: Array,
) -> tuple[ConicRows, Array, Array]:
    """All rows in w; inequalities with a single entry become bounds."""
    matrices: list[sp.csr_array] = []
    rhs: list[Array] = []
    equation: list[Array] = []
    cones: list[slice] = []
    n, at = P.shape[1], 0
    for rows, first in placed:
        right = np.asarray(rows.rhs, dtype=float) - rows.on_x @ offset
        own = sp.csr_array(rows.on_extra)
        own = sp.csr_array((own.data, own.indices + first, own.indptr), shape=(len(right), n))
        B = sp.csr_array(rows.on_x @ P + own)
        B.eliminate_zeros()
        if rows.cone is Cone.NONNEGATIVE:
            B, right, lower, upper = _bounds(B, right, lower, upper)
        if rows.cone is Cone.SECOND_ORDER:
            cones.append(slice(at, at + len(right)))
        at += len(right)
        matrices.append(B)
        rhs.append(right)
        equation.append(np.full(len(right), rows.cone is Cone.ZERO))
    if not matrices:
        return ConicRows(sp.csr_array((0, n)), np.zeros(0), np.zeros(0, bool)), lower, upper
    B = sp.csr_array(sp.vstack(matrices))
    return ConicRows(B, np.concatenate(rhs), np.concatenate(equation), tuple(cones)), lower, upper


def _bounds(B: Any, rhs: Array, lower: Array, upper: Array) -> tuple[Any, Array, Array, Array]:
    """Rows a·w_j ≤ rhs as bounds; the rows that are left."""
    single = np.diff(B.indptr) == 1
    lower, upper = lower.copy(), upper.copy()
    at = B.indptr[:-1][single]
    a, j = B.data[at], B.indices[at]
    ends = rhs[single] / a
    np.minimum.at(upper, j[a > 0], ends[a > 0])
    np.maximum.at(lower, j[a < 0], ends[a < 0])
    keep = ~single & ((np.diff(B.indptr) > 0) | (rhs < 0))
    return B[np.flatnonzero(keep)], rhs[keep], lower, upper


# -- smooth terms --------------------------------------------------------------------------------
def _inside(form: StandardForm) -> StandardForm:
    """With the bounds that smooth terms need, begun inside their domain."""
    d = len(form.offset)
    lower, upper, start = np.full(d, -np.inf), np.full(d, np.inf), np.full(d, np.nan)
    for term in form.smooth:
        if term.lower is None and term.upper is None:
            continue
        low = -np.inf if term.lower is None else term.lower
        high = np.inf if term.upper is None else term.upper
        lower[term.at], upper[term.at] = (
            np.maximum(lower[term.at], low),
            np.minimum(upper[term.at], high),
        )
        begin = np.broadcast_to(0.0 if term.start is None else term.start, lower[term.at].shape)
        limited = np.isfinite(np.broadcast_to(low, begin.shape))
        limited = limited | np.isfinite(np.broadcast_to(high, begin.shape))
        start[term.at] = np.where(limited, begin, start[term.at])
    needed = np.isfinite(start)
    if not needed.any():
        return form
    if not (np.diff(form.P.indptr) == 1)[needed].all():
        return _with_copies(form, lower, upper, start)
    low, high, begin = form.lower.copy(), form.upper.copy(), np.full(form.n, np.nan)
    j = np.flatnonzero(needed)
    at = form.P.indices[form.P.indptr[:-1][j]]
    low[at] = np.maximum(low[at], lower[j] - form.offset[j])
    high[at] = np.minimum(high[at], upper[j] - form.offset[j])
    begin[at] = start[j] - form.offset[j]
    return replace(form, lower=low, upper=high, start=begin)


def _with_copies(form: StandardForm, lower: Array, upper: Array, start: Array) -> StandardForm:
    """With x itself as further variables, for bounds that no single w can have."""
    d, n = len(form.offset), form.n
    eye = sp.csr_array(sp.eye_array(d))
    link = sp.csr_array(sp.hstack([-form.P, eye]))
    wide = sp.csr_array(sp.hstack([form.rows.B, sp.csr_array((form.rows.B.shape[0], d))]))
    rows = ConicRows(
        sp.csr_array(sp.vstack([wide, link])),
        np.concatenate([form.rows.rhs, form.offset]),
        np.concatenate([form.rows.equation, np.ones(d, bool)]),
        form.rows.cones,
    )
    zeros = np.zeros(d)
    return replace(
        form,
        H=_join([form.H, zeros]),
        q=np.concatenate([form.q, zeros]),
        lower=np.concatenate([form.lower, lower]),
        upper=np.concatenate([form.upper, upper]),
        rows=rows,
        offset=zeros,
        P=sp.csr_array(sp.hstack([sp.csr_array((d, n)), eye])),
        start=np.concatenate([np.full(n, np.nan), start]),
    )
