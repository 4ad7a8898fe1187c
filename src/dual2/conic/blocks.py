"""What a function is to an interior-point method: a quadratic program with cones.

A function has block form if

    f(x) = min_u  ½xᵀHx + qᵀx + costᵀu + π(x) + φ(x) + constant
           subject to  rows:  M_x x + M_u u + s = rhs,  s in a cone,

where π is a separable piecewise quadratic function (:class:`Pieces`) and φ is smooth
(:class:`SmoothTerm`). The variables u are the function's own. Nothing here does linear algebra: the
interior-point method joins the block forms of f_i and g_i, scales them and factorises.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dual2.conic.curvature import (
    Curvature,
    Factored,
    View,
    add_diagonal,
    multiply,
    scale_curvature,
    stack_curvatures,
)

Array = NDArray[np.float64]

__all__ = ["BlockForm", "Cone", "ConeConstraint", "Expansion", "Factored", "Pieces", "SmoothTerm"]


class Cone(Enum):
    """The set in which the slack s of some rows lies."""

    ZERO = "zero"
    """{0}: the rows are equations."""
    NONNEGATIVE = "nonnegative"
    """s >= 0: the rows are inequalities M x <= rhs."""
    SECOND_ORDER = "second_order"
    """|(s_1, …, s_{m-1})| <= s_0: all rows together are one cone."""


@dataclass(frozen=True)
class ConeConstraint:
    """Constraints M_x x + M_u u + s = rhs with s in a cone.

    Attributes
    ----------
    cone : Cone
        Where s lies. Rows of kind SECOND_ORDER are one cone together.
    on_x : csr_array, shape (m, d)
        M_x.
    on_extra : csr_array, shape (m, extra)
        M_u.
    rhs : ndarray, shape (m,)
        The right-hand side.
    """

    cone: Cone
    on_x: sp.csr_array
    on_extra: sp.csr_array
    rhs: Array

    @staticmethod
    def of(cone: Cone, on_x: Any, rhs: Any, on_extra: Any = None) -> "ConeConstraint":
        """The rows from arrays or sparse arrays; without ``on_extra`` they act on x alone."""
        M = sp.csr_array(on_x, dtype=np.float64)
        m = M.shape[0]
        extra = sp.csr_array((m, 0)) if on_extra is None else sp.csr_array(on_extra, dtype=float)
        return ConeConstraint(
            cone, M, extra, np.broadcast_to(np.asarray(rhs, dtype=np.float64), (m,))
        )

    def shifted(self, center: Array) -> "ConeConstraint":
        """The constraints on x - center."""
        return replace(self, rhs=self.rhs + self.on_x @ center)

    def placed(self, first: int, dim: int, first_extra: int, extra: int) -> "ConeConstraint":
        """The same on x[first:] and u[first_extra:] of longer vectors."""
        on_x = _placed(self.on_x, first, dim)
        return ConeConstraint(self.cone, on_x, _placed(self.on_extra, first_extra, extra), self.rhs)


@dataclass(frozen=True)
class Pieces:
    """A separable piecewise quadratic function, written as bounded pieces.

    x_j = start_j + Σ v_k over the pieces k of coordinate j, with lower_k <= v_k <= upper_k and
    lower_k <= 0 <= upper_k; a piece costs ½·curvature_k·v_k² + slope_k·v_k. Slopes increase from
    piece to piece, so that pieces fill in order and the minimum over v is the function. Of
    neighbouring pieces, the left one ends at 0 (upper = 0) or the right one begins there
    (lower = 0). A coordinate without pieces is fixed at its start; a free one has one piece
    without bounds, slope and curvature.

    Attributes
    ----------
    start : ndarray, shape (d,)
        Where all pieces of a coordinate are 0.
    coordinate : ndarray of int64, shape (m,)
        To which coordinate each piece belongs, ascending; pieces of one coordinate from left to
        right.
    lower, upper, curvature, slope : ndarray, shape (m,)
        Of each piece.
    """

    start: Array
    coordinate: np.ndarray[Any, np.dtype[np.int64]]
    lower: Array
    upper: Array
    curvature: Array
    slope: Array

    @staticmethod
    def from_table(start: Array, columns: Sequence[tuple[Any, Any, Any, Any]]) -> "Pieces":
        """Pieces from left to right as (lower, upper, curvature, slope), for all coordinates each.

        Every entry is a number or a vector (d,). No piece is made where lower = upper.

        Examples
        --------
        >>> hinge = Pieces.from_table(np.ones(2), [(-np.inf, 0, 0, -1), (0, np.inf, 0, 0)])
        >>> hinge.coordinate.tolist(), hinge.slope.tolist()
        ([0, 0, 1, 1], [-1.0, 0.0, -1.0, 0.0])
        """
        shape = len(start), len(columns)
        table = np.empty((4, *shape))
        for k, column in enumerate(columns):
            for row, entry in enumerate(column):
                table[row, :, k] = entry
        present = table[0] < table[1]
        return Pieces(start, np.nonzero(present)[0], *table[:, present])

    @staticmethod
    def free(dim: int) -> "Pieces":
        """The zero function."""
        return Pieces.from_table(np.zeros(dim), [(-np.inf, np.inf, 0.0, 0.0)])

    @staticmethod
    def stacked(parts: "Sequence[Pieces]") -> "Pieces":
        """The sum of functions of consecutive parts of x."""
        first = np.cumsum([0, *(len(part.start) for part in parts)])
        moved = [part.coordinate + at for part, at in zip(parts, first[:-1], strict=True)]
        joined = {
            field.name: np.concatenate([getattr(part, field.name) for part in parts])
            for field in fields(Pieces)
        }
        return Pieces(**joined | {"coordinate": np.concatenate(moved)})

    def scaled(self, scale: float) -> "Pieces":
        """scale times the function."""
        return replace(self, curvature=scale * self.curvature, slope=scale * self.slope)

    def stretched(self, scale: float) -> "Pieces":
        """scale times the function of x/scale."""
        start, lower, upper = (scale * end for end in (self.start, self.lower, self.upper))
        curvature = self.curvature / scale
        return replace(self, start=start, lower=lower, upper=upper, curvature=curvature)

    def shifted(self, center: Array) -> "Pieces":
        """The function of x - center."""
        return replace(self, start=self.start + center)


class Expansion(NamedTuple):
    """Value, gradient and Hessian of a smooth term at a point.

    The Hessian is a vector (diagonal), an array (m, k, k) of equal blocks, or a matrix (d, d).
    """

    value: float
    gradient: Array
    hessian: Array


@dataclass(frozen=True)
class SmoothTerm:
    """A smooth convex term φ(x[at]) that enters by Newton's expansion.

    Attributes
    ----------
    expand : callable
        x[at] ↦ :class:`Expansion`, for points inside the domain. The value is nan if a user's
        function came without values.
    at : slice
        The coordinates that φ takes, consecutive ones.
    lower, upper : ndarray or None
        The domain is lower < x[at] < upper (infinite: no bound); None where there is no bound.
    start : ndarray or None
        A point inside the domain, of the length of x[at]; None is 0.
    """

    expand: Callable[[Array], Expansion]
    at: slice
    lower: Array | None = None
    upper: Array | None = None
    start: Array | None = None

    def scaled(self, scale: float) -> "SmoothTerm":
        """scale times the term."""

        def expand(x: Array) -> Expansion:
            value, gradient, hessian = self.expand(x)
            return Expansion(scale * value, scale * gradient, scale * hessian)

        return replace(self, expand=expand)

    def shifted(self, center: Array) -> "SmoothTerm":
        """The term of x - center."""
        center = center[self.at]

        def expand(x: Array) -> Expansion:
            return self.expand(x - center)

        lower, upper = (end if end is None else end + center for end in (self.lower, self.upper))
        start = center if self.start is None else self.start + center
        return SmoothTerm(expand, self.at, lower, upper, start)

    def stretched(self, scale: float) -> "SmoothTerm":
        """scale·φ(x/scale)."""

        def expand(x: Array) -> Expansion:
            value, gradient, hessian = self.expand(x / scale)
            return Expansion(scale * value, gradient, hessian / scale)

        ends = self.lower, self.upper, self.start
        return SmoothTerm(expand, self.at, *(None if end is None else scale * end for end in ends))

    def placed(self, first: int) -> "SmoothTerm":
        """The same term of x[first:]."""
        return replace(self, at=slice(self.at.start + first, self.at.stop + first))


def smooth_term(view: Callable[[Array], View], dim: int, **domain: Array) -> SmoothTerm:
    """The term on x[:dim] from its ``view``; ``domain`` names lower, upper and start."""

    def expand(x: Array) -> Expansion:
        value, gradient, bend = view(x)
        return Expansion(value, gradient, bend())

    return SmoothTerm(expand, slice(0, dim), **domain)


@dataclass(frozen=True)
class BlockForm:
    """The block form of a function of d variables.

    Attributes
    ----------
    dim : int
        d.
    pieces : Pieces or None
        π(x); None is 0.
    H : ndarray (d,) or (d, d), sparse array, Factored or None
        Curvature, see :mod:`dual2.conic.curvature`; a vector is a diagonal.
    q : ndarray, shape (d,), or None
        Linear term in x.
    cost : ndarray, shape (extra,)
        Linear term in the extra variables u.
    rows : tuple of ConeConstraint
        Constraints on x and u.
    smooth : tuple of SmoothTerm
        φ(x), summed. No two of them take the same coordinate.
    constant : float
        What is added to the value.
    """

    dim: int
    pieces: Pieces | None = None
    H: Curvature = None
    q: Array | None = None
    cost: Array = field(default_factory=lambda: np.zeros(0))
    rows: tuple[ConeConstraint, ...] = ()
    smooth: tuple[SmoothTerm, ...] = ()
    constant: float = 0.0

    @property
    def extra(self) -> int:
        """Number of the function's own variables u."""
        return len(self.cost)

    def scaled(self, scale: float) -> "BlockForm":
        """scale·f for a positive factor.

        Examples
        --------
        >>> BlockForm(2, H=np.ones(2)).scaled(3.0).H.tolist()
        [3.0, 3.0]
        """
        return replace(
            self,
            pieces=self.pieces and self.pieces.scaled(scale),
            H=scale_curvature(self.H, scale),
            q=None if self.q is None else scale * self.q,
            cost=scale * self.cost,
            smooth=tuple(term.scaled(scale) for term in self.smooth),
            constant=scale * self.constant,
        )

    def shifted(self, center: Any) -> "BlockForm":
        """f(x - center).

        Examples
        --------
        >>> shifted = BlockForm(1, H=np.ones(1)).shifted(2.0)
        >>> shifted.q.tolist(), shifted.constant
        ([-2.0], 2.0)
        """
        a = np.broadcast_to(np.asarray(center, dtype=np.float64), (self.dim,))
        Ha = multiply(self.H, a)
        q = self.q if self.H is None else self.q_or_zero - Ha
        return replace(
            self,
            pieces=self.pieces and self.pieces.shifted(a),
            q=q,
            rows=tuple(rows.shifted(a) for rows in self.rows),
            smooth=tuple(term.shifted(a) for term in self.smooth),
            constant=self.constant + 0.5 * float(a @ Ha) - float(self.q_or_zero @ a),
        )

    def stretched(self, scale: float) -> "BlockForm":
        """scale·f(x/scale), the conjugate of scale·f*.

        Examples
        --------
        >>> BlockForm(1, H=np.ones(1)).stretched(2.0).H.tolist()
        [0.5]
        """
        return replace(
            self,
            pieces=self.pieces and self.pieces.stretched(scale),
            H=scale_curvature(self.H, 1.0 / scale),
            rows=tuple(replace(rows, rhs=scale * rows.rhs) for rows in self.rows),
            smooth=tuple(term.stretched(scale) for term in self.smooth),
            constant=scale * self.constant,
        )

    def plus(self, slope: Any = 0.0, curvature: float = 0.0, constant: float = 0.0) -> "BlockForm":
        """f + <slope, x> + (curvature/2)|x|² + constant.

        Examples
        --------
        >>> BlockForm(2).plus(slope=1.0).q.tolist()
        [1.0, 1.0]
        """
        H = add_diagonal(self.H, np.full(self.dim, curvature)) if curvature else self.H
        q = self.q_or_zero + slope if np.any(slope) else self.q
        return replace(self, H=H, q=q, constant=self.constant + constant)

    @property
    def q_or_zero(self) -> Array:
        """q as a vector."""
        return np.zeros(self.dim) if self.q is None else self.q

    @staticmethod
    def stacked(parts: "Sequence[BlockForm]") -> "BlockForm":
        """The sum of functions of consecutive parts of x.

        Examples
        --------
        >>> BlockForm.stacked([BlockForm(1, q=np.ones(1)), BlockForm(2)]).q.tolist()
        [1.0, 0.0, 0.0]
        """
        first = np.cumsum([0, *(part.dim for part in parts)])
        own = np.cumsum([0, *(part.extra for part in parts)])
        dim, extra = int(first[-1]), int(own[-1])
        rows, smooth = [], []
        for part, at, u in zip(parts, first[:-1].tolist(), own[:-1].tolist(), strict=True):
            rows += [one.placed(at, dim, u, extra) for one in part.rows]
            smooth += [term.placed(at) for term in part.smooth]
        pieces = [Pieces.free(part.dim) if part.pieces is None else part.pieces for part in parts]
        some_pieces = any(part.pieces is not None for part in parts)
        some_linear = any(part.q is not None for part in parts)
        return BlockForm(
            dim,
            pieces=Pieces.stacked(pieces) if some_pieces else None,
            H=stack_curvatures([part.H for part in parts], [part.dim for part in parts]),
            q=np.concatenate([part.q_or_zero for part in parts]) if some_linear else None,
            cost=np.concatenate([part.cost for part in parts]),
            rows=tuple(rows),
            smooth=tuple(smooth),
            constant=sum(part.constant for part in parts),
        )


def _placed(M: sp.csr_array, first: int, columns: int) -> sp.csr_array:
    """M in columns first, first + 1, … of a matrix with that many columns."""
    return sp.csr_array((M.data, M.indices + first, M.indptr), shape=(M.shape[0], columns))
