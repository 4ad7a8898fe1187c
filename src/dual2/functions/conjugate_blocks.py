"""Block forms of conjugates: of separable piecewise quadratic functions, and of polyhedra."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from dual2.conic.blocks import BlockForm, Cone, ConeConstraint, Pieces
from dual2.functions.arguments import Array


def conjugate_of_pieces(b: BlockForm) -> BlockForm:
    """f*(w) for an f that consists of pieces alone.

    The slope of f as a function of x is a staircase, that of f* its mirror image: a piece with
    curvature c > 0 and width d becomes one with curvature 1/c and width c·d; a jump of the slope at
    x, also one to ±inf at a bound, becomes a straight piece with slope x; a straight piece becomes
    a kink. The pieces of f* are 0 where w is the slope of the first piece of f at its origin.

    Examples
    --------
    >>> from dual2.functions import ElasticNet
    >>> dual = conjugate_of_pieces(ElasticNet(1.0, 0.5).blocks(1)).pieces
    >>> dual.lower.tolist(), dual.curvature.tolist()
    ([-inf, 0.0, 0.0], [2.0, 0.0, 2.0])
    """
    p = Pieces.free(b.dim) if b.pieces is None else b.pieces
    first, origin = np.diff(p.coordinate, prepend=-1) != 0, _origins(p)
    start = np.zeros(b.dim)
    start[p.coordinate[first]] = p.slope[first]
    low, curvature, slope = p.lower[~first], p.curvature[~first], p.slope[~first]
    at_origin = (0.5 * curvature * low + slope) * low
    constant = float(p.slope[first] @ origin[first] - at_origin.sum()) - b.constant
    columns = np.hstack([_fixed(p), _rays(p, first, origin), _bends(p, first, origin), _jumps(p)])
    coordinate, order, *table = columns[:, columns[2] < columns[3]]
    sort = np.lexsort((order, coordinate))
    pieces = Pieces(start, coordinate[sort].astype(np.int64), *(row[sort] for row in table))
    return BlockForm(b.dim, pieces, constant=constant)


def support_of_rows(rows: Sequence[ConeConstraint], dim: int) -> BlockForm:
    """sup {<w, x> : rows} = min <rhs, y> over w = Σ Mᵀy, y >= 0 for inequalities, free otherwise.

    The rows act on x alone and are no second-order cones.

    Examples
    --------
    >>> b = support_of_rows([ConeConstraint.of(Cone.NONNEGATIVE, [[1.0, 2.0]], 3.0)], 2)
    >>> b.cost.tolist(), b.rows[0].on_extra.toarray().tolist()
    ([3.0], [[-1.0], [-2.0]])
    """
    M = sp.vstack([sp.csr_array((0, dim)), *(part.on_x for part in rows)], format="csr")
    cost = np.concatenate([np.zeros(0), *(part.rhs for part in rows)])
    free = [np.full(len(part.rhs), part.cone is Cone.ZERO) for part in rows]
    signed = sp.eye_array(len(cost), format="csr")[~np.concatenate([np.zeros(0, bool), *free])]
    combined = ConeConstraint.of(Cone.ZERO, sp.eye_array(dim), 0.0, -M.T)
    nothing = sp.csr_array((signed.shape[0], dim))
    positive = ConeConstraint.of(Cone.NONNEGATIVE, nothing, 0.0, -signed)
    return BlockForm(dim, cost=cost, rows=(combined, positive) if signed.shape[0] else (combined,))


def _origins(p: Pieces) -> Array:
    """x where a piece is 0, those on its left are full and those on its right empty."""
    upper, lower = (np.where(np.isfinite(end), end, 0.0) for end in (p.upper, p.lower))
    first = np.searchsorted(p.coordinate, p.coordinate, side="left")
    last = np.searchsorted(p.coordinate, p.coordinate, side="right")
    full, empty = np.cumsum(np.append(0.0, upper)), np.cumsum(np.append(0.0, lower))
    before = full[:-1] - full[first]
    return p.start[p.coordinate] + before + empty[last] - empty[1:]


# Tables: rows coordinate, order, lower, upper, curvature, slope; one column for each piece.


def _table(*rows: np.ndarray[Any, Any]) -> Array:
    return np.array(rows, dtype=np.float64)


def _fixed(p: Pieces) -> Array:
    """A straight line where f is finite at one point only."""
    at = np.setdiff1d(np.arange(len(p.start)), p.coordinate)
    zero, far = np.zeros(len(at)), np.full(len(at), np.inf)
    return _table(at, zero, -far, far, zero, p.start[at])


def _rays(p: Pieces, first: Array, origin: Array) -> Array:
    """Slopes from -inf on, at the lower bound of f."""
    at = np.flatnonzero(first & np.isfinite(p.lower))
    zero = np.zeros(len(at))
    order = np.full(len(at), -1.0)
    return _table(p.coordinate[at], order, zero - np.inf, zero, zero, origin[at] + p.lower[at])


def _bends(p: Pieces, first: Array, origin: Array) -> Array:
    """The pieces with curvature."""
    at = np.flatnonzero(p.curvature > 0)
    c, begin = p.curvature[at], np.where(first, 0.0, p.lower)[at]
    lower, upper = c * (p.lower[at] - begin), c * (p.upper[at] - begin)
    return _table(p.coordinate[at], 2.0 * at, lower, upper, 1.0 / c, origin[at] + begin)


def _jumps(p: Pieces) -> Array:
    """What the slope of f jumps by at the right end of each piece."""
    at = np.flatnonzero(np.isfinite(p.upper))
    after = np.minimum(at + 1, len(p.slope) - 1)
    inside = (after > at) & (p.coordinate[after] == p.coordinate[at])
    begin = np.where(inside, p.lower[after], 0.0)
    next_slope = p.slope[after] + p.curvature[after] * begin
    own_slope = p.slope[at] + p.curvature[at] * p.upper[at]
    width = np.where(inside, next_slope - own_slope, np.inf)
    zero = np.zeros(len(at))
    end = _origins(p)[at] + p.upper[at]
    return _table(p.coordinate[at], 2.0 * at + 1.0, zero, width, zero, end)
