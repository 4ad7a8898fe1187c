"""Convex piecewise linear functions with any number of kinks."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dual2.conic.blocks import BlockForm, Pieces
from dual2.errors import ProblemError
from dual2.functions.arguments import Array, Entries, entries, number, store
from dual2.functions.base import TOLERANCE, Function


@dataclass(frozen=True, eq=False, repr=False)
class PiecewiseLinear(Function):
    """f(x) = Σ_j φ(x_j), φ convex with slope s_0 below the kink k_1, s_1 between k_1 and k_2, ...

    φ(k_1) = offset. An end slope of -inf or inf ends the domain at the first or last kink. The prox
    is a staircase: v - t·s_i on a piece, k_i where k_i + t·s_{i-1} <= v <= k_i + t·s_i. The
    conjugate is one again: kinks and slopes change places.

    Parameters
    ----------
    kinks : vector (K,)
        Where the slope changes, sorted, at least one.
    slopes : vector (K + 1,)
        Sorted; only the first may be -inf, only the last inf, and at least one is finite.
    offset : float, default 0
        Value at the first kink.

    Examples
    --------
    >>> cost = PiecewiseLinear([0.0, 1.0], [-np.inf, 1.0, 3.0])
    >>> cost.value([2.0])
    4.0
    >>> cost.prox([-1.0, 1.5, 3.0, 5.0], 1.0)
    array([0. , 0.5, 1. , 2. ])
    """

    kinks: Array
    slopes: Array
    offset: float = 0.0
    splits: ClassVar = True
    powers: ClassVar = {"kinks": 1, "slopes": -1}

    def __post_init__(self) -> None:
        kinks = np.atleast_1d(entries(self, "kinks", self.kinks))
        slopes = np.atleast_1d(entries(self, "slopes", self.slopes, finite=False))
        if not len(kinks) or len(slopes) != len(kinks) + 1 or not np.isfinite(slopes).any():
            raise ProblemError(
                f"PiecewiseLinear: {len(kinks)} kinks and {len(slopes)} slopes, "
                f"{int(np.isfinite(slopes).sum())} of them finite; expected at least one kink, one "
                "slope more than kinks, and one of them finite (a point is IndicatorPoint)."
            )
        for name, given in (("kinks", kinks), ("slopes", slopes)):
            fall = np.flatnonzero(given[1:] < given[:-1])
            if fall.size:
                j = int(fall[0])
                raise ProblemError(
                    f"PiecewiseLinear: {name}[{j + 1}] = {given[j + 1]:g} is below {name}[{j}] = "
                    f"{given[j]:g}; expected sorted {name} (with falling slopes it is not convex)."
                )
        if not np.isfinite(slopes[1:-1]).all() or slopes[0] == np.inf or slopes[-1] == -np.inf:
            raise ProblemError(
                f"PiecewiseLinear: slopes are {slopes}; expected finite ones except -inf as the "
                "first and inf as the last."
            )
        store(self, kinks=kinks, slopes=slopes, offset=number(self, "offset", self.offset))

    @property
    def dim(self) -> None:
        """Any length."""
        return None

    @cached_property
    def _dual(self) -> "PiecewiseLinear":
        finite = self.slopes[np.isfinite(self.slopes)]
        first = [-np.inf] if np.isfinite(self.slopes[0]) else []
        last = [np.inf] if np.isfinite(self.slopes[-1]) else []
        offset = float(finite[0] * self.kinks[0] - self.offset)
        return PiecewiseLinear(finite, np.concatenate([first, self.kinks, last]), offset)

    @property
    def conjugate(self) -> "PiecewiseLinear":
        """Kinks at the slopes, slopes from the kinks."""
        return self._dual

    def place(self, v: Array, step: Entries) -> NDArray[np.int64]:
        """Where the prox of v lies: 2i on the piece with slope s_i, 2i - 1 at the kink k_i."""
        t = np.broadcast_to(step, v.shape[-1:])[:, None]
        low, high = (self.kinks + t * part for part in (self.slopes[:-1], self.slopes[1:]))
        edges = np.stack([low, high], axis=-1).reshape(len(t), -1)
        return (v[..., None] > edges).sum(axis=-1)

    def _value(self, x: Array) -> Array:
        piece = (x[..., None] > self.kinks).sum(axis=-1)
        kink = np.maximum(piece - 1, 0)
        heights = np.cumsum(np.append(self.offset, self.slopes[1:-1] * np.diff(self.kinks)))
        ended = np.isinf(self.slopes[piece])
        away = x - self.kinks[kink]
        rise = np.where(ended, 0.0, self.slopes[piece])
        outside = ended & (np.abs(away) > TOLERANCE * np.maximum(1.0, np.abs(self.kinks[kink])))
        return np.where(outside, np.inf, heights[kink] + rise * away).sum(axis=-1)

    def _prox(self, v: Array, step: Entries) -> Array:
        place = self.place(v, step)
        finite = np.where(np.isfinite(self.slopes), self.slopes, 0.0)
        kinks = self.kinks[np.maximum(place - 1, 0) // 2]
        return np.where(place % 2, kinks, v - step * finite[place // 2])

    def _blocks(self, dim: int) -> BlockForm:
        first, *inner, last = self.slopes.tolist()
        widths = np.diff(self.kinks).tolist()
        columns = [(-np.inf, 0.0, 0.0, first)] if np.isfinite(first) else []
        columns += [(0.0, w, 0.0, slope) for w, slope in zip(widths, inner, strict=True)]
        columns += [(0.0, np.inf, 0.0, last)] if np.isfinite(last) else []
        pieces = Pieces.from_table(np.full(dim, self.kinks[0]), columns)
        return BlockForm(dim, pieces=pieces, constant=dim * self.offset)

    def _conjugate_value(self, w: Array) -> Array:
        return self._dual._value(w)

    def _conjugate_prox(self, v: Array, step: Entries) -> Array:
        return self._dual._prox(v, step)

    def _domain_support(self, u: Array) -> Array:
        return self._dual._recession(u)

    def _recession(self, u: Array) -> Array:
        end = np.where(u > 0, self.slopes[-1], self.slopes[0])
        moved = np.abs(u) > TOLERANCE
        return np.where(moved, end * np.where(moved, u, 1.0), 0.0).sum(axis=-1)
