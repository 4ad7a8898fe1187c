"""One agent's own pieces, gathered into its f and g; what fits neither is handed back."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from dual2.errors import ProblemError
from dual2.functions import (
    Entropy,
    Function,
    IndicatorAffine,
    IndicatorAtMost,
    IndicatorBall,
    IndicatorBox,
    IndicatorHalfspace,
    IndicatorL1Ball,
    IndicatorPoint,
    IndicatorSimplex,
    L2Norm,
    LInfNorm,
    NegativeLog,
    Quadratic,
    Stacked,
    Zero,
)
from dual2.functions.piecewise import PiecewiseQuadratic
from dual2.functions.separable import separable_form
from dual2.recognise.affine import AffineMap
from dual2.recognise.pieces import Piece

Array = np.ndarray


class Own:
    """Variables of one agent in one vector x, and what the model says of them alone.

    Quadratic pieces add to f(x) = ½xᵀPx + qᵀx. Bounds and one kink per coordinate, and one
    set or norm per variable, make up g. Everything else is returned by :meth:`finish` to become
    rows of the coupling that only this agent enters.

    ``name``: what the agent is called, for messages; ``variables``: its cvxpy variables.
    """

    def __init__(self, name: str, variables: list[Any]) -> None:
        self.name, self.variables = name, variables
        sizes = [variable.size for variable in variables]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        self.slices = {
            v.id: slice(int(a), int(b))
            for v, a, b in zip(variables, starts[:-1], starts[1:], strict=True)
        }
        self.dim = int(starts[-1])
        self.P, self.q = np.zeros((self.dim, self.dim)), np.zeros(self.dim)
        self.lower, self.upper = np.full(self.dim, -np.inf), np.full(self.dim, np.inf)
        self.left, self.right, self.kink = (np.zeros(self.dim) for _ in range(3))
        self.blocks: list[Piece] = []
        self.rest: list[Piece] = []

    def matrix(self, map: AffineMap) -> Any:
        """The map on the whole of x, sparse."""
        parts = [map.matrices.get(v.id, sp.csr_array((map.size, v.size))) for v in self.variables]
        return sp.csr_array(sp.hstack(parts, format="csr"))

    # -- taking pieces in ----------------------------------------------------------------------
    def add_linear(self, slopes: dict[int, Array]) -> None:
        """Add slopes·x, by variable."""
        for key, slope in slopes.items():
            if key in self.slices:
                self.q[self.slices[key]] += slope

    def bound(self, key: int, lower: Any, upper: Any) -> None:
        """Bounds that a variable carries itself."""
        own = self.slices[key]
        self.lower[own] = np.maximum(self.lower[own], lower)
        self.upper[own] = np.minimum(self.upper[own], upper)

    def add(self, piece: Piece) -> None:
        """Take a piece that this agent's variables enter alone."""
        form: Any = separable_form(piece.shifted, piece.map.size)
        M = self.matrix(piece.map)
        if form is not None and form.smooth:
            scaled = form.curvature[:, None] * M.toarray()
            self.P += M.T @ scaled
            self.q += M.T @ (form.slope - form.curvature * form.center)
        elif form is not None and np.all(np.diff(M.indptr) == 1) and self._fits(form, M):
            self._take(form, M)
        else:
            self.blocks.append(piece)

    def _fits(self, form: Any, M: Any) -> bool:
        """Whether every kink of the piece can join those already there."""
        kinked = form.slope_left != form.slope_right
        columns, at = M.indices[kinked], (form.kink / M.data)[kinked]
        taken = self.left[columns] != self.right[columns]
        same = self.kink[columns] == at
        return bool(np.all(~taken | same) and np.unique(columns).size == columns.size)

    def _take(self, form: Any, M: Any) -> None:
        """Rows a·x_k: kinks and bounds on x_k."""
        for j, (k, a) in enumerate(zip(M.indices, M.data, strict=True)):
            self.P[k, k] += form.curvature[j] * a * a
            self.q[k] += (form.slope[j] - form.curvature[j] * form.center[j]) * a
            ends = sorted((form.lower[j] / a, form.upper[j] / a))
            self.lower[k], self.upper[k] = max(self.lower[k], ends[0]), min(self.upper[k], ends[1])
            if form.slope_left[j] != form.slope_right[j]:
                slopes = sorted((form.slope_left[j] * a, form.slope_right[j] * a))
                self.left[k] += slopes[0]
                self.right[k] += slopes[1]
                self.kink[k] = form.kink[j] / a

    # -- giving the agent's functions out --------------------------------------------------------
    def f(self) -> Function:
        """½xᵀPx + qᵀx."""
        diagonal = np.diag(self.P)
        return Quadratic(diagonal if np.array_equal(self.P, np.diag(diagonal)) else self.P, self.q)

    def g(self) -> Function:
        """Bounds, kinks and sets; fills ``rest`` with the pieces that found no place."""
        self._check_bounds()
        if self.blocks and self._free(slice(None)) and all(map(_is_affine, self.blocks)):
            return self._equations(self.blocks, slice(None))
        chosen = {key: self._block(key, own) for key, own in self.slices.items()}
        self.rest = [p for p in self.blocks if not any(p in c[1] for c in chosen.values())]
        if all(function is None for function, _ in chosen.values()):
            return self._separable(slice(None))
        parts = [chosen[key][0] or self._separable(own) for key, own in self.slices.items()]
        sizes = [own.stop - own.start for own in self.slices.values()]
        return parts[0] if len(parts) == 1 else Stacked(parts, sizes)

    def _check_bounds(self) -> None:
        bad = np.flatnonzero(self.lower > self.upper)
        if bad.size:
            k = int(bad[0])
            whose, own = next((v, s) for v in self.variables if k < (s := self.slices[v.id]).stop)
            entry = f"entry {k - own.start} of {whose.name()}" if whose.size > 1 else whose.name()
            raise ProblemError(
                f"Agent {self.name}: {entry} must be at least {self.lower[k]:g} and at most "
                f"{self.upper[k]:g}; no value is both."
            )

    def _free(self, own: slice) -> bool:
        bounded = np.isfinite(self.lower[own]) | np.isfinite(self.upper[own])
        return not np.any(bounded | (self.left[own] != self.right[own]))

    def _separable(self, own: slice) -> Function:
        if self._free(own):
            return Zero()
        lower, upper = self.lower[own], self.upper[own]
        left, right = self.left[own], self.right[own]
        if np.array_equal(left, right):
            return IndicatorBox(lower, upper)
        return PiecewiseQuadratic(
            slope_left=left, slope_right=right, kink=self.kink[own], lower=lower, upper=upper
        )

    def _equations(self, pieces: list[Piece], own: slice) -> Function:
        M = np.vstack([self.matrix(piece.map).toarray()[:, own] for piece in pieces])
        return IndicatorAffine(M, np.concatenate([-piece.map.offset for piece in pieces]))

    def _block(self, key: int, own: slice) -> tuple[Function | None, list[Piece]]:
        """A set or norm that takes the place of bounds and kinks on one variable."""
        mine = [piece for piece in self.blocks if set(piece.map.matrices) == {key}]
        if not mine:
            return None, []
        if self._free(own):
            equations = [piece for piece in mine if _is_affine(piece)]
            if equations:
                return self._equations(equations, own), equations
        if self._nonnegative(own):
            simplex = _simplex(mine, key)
            if simplex:
                return simplex[0], [simplex[1]]
        for piece in mine:
            single = _single(piece, key)
            if single is not None and (self._free(own) or self._implied(piece, key, own)):
                return single, [piece]
        return None, []

    def _implied(self, piece: Piece, key: int, own: slice) -> bool:
        """Whether a logarithm or entropy keeps its argument within the variable's bounds."""
        M, c = piece.map.matrices[key], piece.map.offset
        bent = np.any(self.left[own] != self.right[own]) or np.isfinite(self.upper[own]).any()
        barrier = isinstance(piece.function, NegativeLog | Entropy)
        return barrier and not bent and bool(np.all(self.lower[own] <= -c / M.diagonal()))

    def _nonnegative(self, own: slice) -> bool:
        kinks = np.any(self.left[own] != self.right[own])
        return bool(
            np.all(self.lower[own] == 0) and np.all(np.isposinf(self.upper[own])) and not kinks
        )


def _is_affine(piece: Piece) -> bool:
    return isinstance(piece.function, IndicatorPoint)


def _single(piece: Piece, key: int) -> Function | None:
    """A halfspace, or a function of positive multiples of the entries of the whole variable."""
    M, c = piece.map.matrices[key], piece.map.offset
    if isinstance(piece.function, IndicatorAtMost) and M.shape[0] == 1:
        return IndicatorHalfspace(M.toarray()[0], float(-c[0]))
    scale = M.diagonal()
    if M.shape[0] != M.shape[1] or np.any(scale == 0) or M.nnz != M.shape[0]:
        return None
    even = isinstance(piece.function, L2Norm | IndicatorBall | LInfNorm | IndicatorL1Ball)
    if np.any(scale < 0) and not (even and np.all(scale < 0)):
        return None
    if isinstance(piece.function, IndicatorBall) and np.any(piece.function.center):
        return None
    found = piece.function.rescaled(1.0 / np.abs(scale))
    return found.shift(-c / scale) if found is not None and np.any(c) else found


def _simplex(pieces: list[Piece], key: int) -> tuple[Function, Piece] | None:
    """{x ≥ 0, Σx = total} from one equation with equal coefficients."""
    for piece in pieces:
        row = piece.map.matrices[key].toarray()
        if _is_affine(piece) and row.shape[0] == 1 and np.all(row == row[0, 0]):
            return IndicatorSimplex(float(-piece.map.offset[0] / row[0, 0])), piece
    return None
