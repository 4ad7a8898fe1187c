"""Projection onto a polyhedron with many sparse rows, by the interior-point method of one block."""

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from dual2.conic.block import Block, limits_of
from dual2.conic.minimise import equilibrated_block, minimise_block
from dual2.conic.standard_form import ConicRows, StandardForm

Array = np.ndarray
ROUNDING = 1e-14
"""Part of the largest entry of a point by which it may miss a bound or row of length one."""


@dataclass(frozen=True)
class SparseProjection:
    """Projections onto {lower ≤ x ≤ upper, B x = rhs or B x ≤ rhs}.

    Attributes
    ----------
    rows : ConicRows
        Equations and inequalities.
    lower, upper : ndarray, shape (d,)
        Bounds, possibly infinite.
    block : Block
        Minimise ½|u|² over the same set, equilibrated; only its right-hand sides change.
    row_units : ndarray
        By which its rows are multiplied.
    lengths : ndarray
        Of the rows.
    """

    rows: ConicRows
    lower: Array
    upper: Array
    block: Block
    row_units: Array
    lengths: Array

    @staticmethod
    def of(rows: ConicRows, lower: Array, upper: Array) -> "SparseProjection":
        """That of a set.

        Examples
        --------
        >>> B = sp.csr_array(np.array([[1.0, 1.0]]))
        >>> rows = ConicRows(B, np.array([2.0]), np.array([True]))
        >>> onto = SparseProjection.of(rows, np.full(2, -np.inf), np.array([0.5, np.inf]))
        >>> onto.project(np.array([3.0, 3.0])).round(12).tolist()
        [0.5, 1.5]
        """
        d, none = len(lower), np.zeros(len(lower))
        ones = ConicRows(rows.B, np.ones(len(rows.rhs)), rows.equation)
        eye = sp.csr_array(sp.eye_array(d))
        form = StandardForm(np.ones(d), none, lower, upper, ones, none, eye)
        block, lengths = equilibrated_block(form), np.sqrt(rows.B.multiply(rows.B).sum(axis=1))
        units = np.zeros(0) if block.rows is None else block.rows.rhs
        return SparseProjection(rows, lower, upper, block, units, np.where(lengths > 0, lengths, 1))

    def project(self, v: Array) -> Array | None:
        """The nearest point of the set; None if the iterations do not come near it.

        The step u = x − v is found in units in which v misses the set by 1.
        """
        low, high, left = self.lower - v, self.upper - v, self.rows.rhs - self.rows.B @ v
        missed = np.where(self.rows.equation, np.abs(left), np.maximum(-left, 0.0)) / self.lengths
        size = max(part.max(initial=0.0) for part in (low, -high, missed))
        if size <= ROUNDING * np.abs(v).max(initial=0.0):
            return np.clip(v, self.lower, self.upper)
        g, bounded = limits_of(low[None] / size, high[None] / size)
        rows = self.block.rows
        if rows is not None:
            rows = replace(rows, rhs=left / size * self.row_units)
        block = replace(self.block, g=g / self.block.columns, bounded=bounded, rows=rows)
        u = minimise_block(block)
        return None if u is None else np.clip(v + size * u, self.lower, self.upper)
