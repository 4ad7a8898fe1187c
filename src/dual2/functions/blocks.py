"""What a function is to an interior-point method: a quadratic program with cones.

A function has block form if

    f(x) = min_u  ½xᵀHx + qᵀx + costᵀu + π(x) + φ(x) + constant
           subject to  rows:  M_x x + M_u u + s = rhs,  s in a cone,

where π is a separable piecewise quadratic function (:class:`Pieces`) and φ is smooth
(:class:`SmoothTerm`). The variables u are the function's own. Nothing here does linear algebra: the
interior-point method joins the block forms of f_i and g_i, scales them and factorises.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dual2.functions.arguments import Array


class Cone(Enum):
    """The set in which the slack s of some rows lies."""

    ZERO = "zero"
    """{0}: the rows are equations."""
    NONNEGATIVE = "nonnegative"
    """s >= 0: the rows are inequalities M x <= rhs."""
    SECOND_ORDER = "second_order"
    """|(s_1, …, s_{m-1})| <= s_0: all rows together are one cone."""


@dataclass(frozen=True)
class Rows:
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


class Factored(NamedTuple):
    """H = MᵀM + diag(diagonal), kept in factors where M has fewer rows than columns.

    M is an array or a sparse array, the diagonal a vector of length d.
    """

    M: Any
    diagonal: Array


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
        x[at] ↦ :class:`Expansion`, for points inside the domain.
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


@dataclass(frozen=True)
class Blocks:
    """The block form of a function of d variables.

    Attributes
    ----------
    dim : int
        d.
    pieces : Pieces or None
        π(x); None is 0.
    H : ndarray (d,) or (d, d), sparse array, Factored or None
        Curvature; a vector is a diagonal.
    q : ndarray, shape (d,), or None
        Linear term in x.
    cost : ndarray, shape (extra,)
        Linear term in the extra variables u.
    rows : tuple of Rows
        Constraints on x and u.
    smooth : tuple of SmoothTerm
        φ(x), summed. No two of them take the same coordinate.
    constant : float
        What is added to the value.
    """

    dim: int
    pieces: Pieces | None = None
    H: Any = None
    q: Array | None = None
    cost: Array = field(default_factory=lambda: np.zeros(0))
    rows: tuple[Rows, ...] = ()
    smooth: tuple[SmoothTerm, ...] = ()
    constant: float = 0.0

    @property
    def extra(self) -> int:
        """Number of the function's own variables u."""
        return len(self.cost)
