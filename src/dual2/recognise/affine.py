"""Affine cvxpy expressions as matrices."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

Array = np.ndarray


@dataclass(frozen=True)
class AffineMap:
    """z = Σ_v M_v x_v + offset, x_v the entries of variable v column by column."""

    # M_v (sparse, m rows) by the variable's id; variables that do not matter are left out
    matrices: dict[int, Any]
    offset: Array  # value at zero

    @property
    def size(self) -> int:
        """Number m of rows."""
        return self.offset.size

    def __neg__(self) -> AffineMap:
        return AffineMap({key: -matrix for key, matrix in self.matrices.items()}, -self.offset)

    def rows(self, kept: Array) -> AffineMap:
        """Some rows, by a mask or their numbers; variables that do not enter are left out."""
        maps = {key: sp.csr_array(own[kept]) for key, own in self.matrices.items()}
        return AffineMap({key: own for key, own in maps.items() if own.nnz}, self.offset[kept])

    def after(self, matrix: Any) -> AffineMap:
        """``matrix`` z instead of z."""
        maps = {key: sp.csr_array(matrix @ own) for key, own in self.matrices.items()}
        return AffineMap(maps, matrix @ self.offset)


def stacked_maps(maps: list[AffineMap]) -> AffineMap:
    """The rows of several maps, one after the other."""
    keys = {key: own.shape[1] for one in maps for key, own in one.matrices.items()}
    blocks = {
        key: sp.vstack([one.matrices.get(key, sp.csr_array((one.size, width))) for one in maps])
        for key, width in keys.items()
    }
    matrices = {key: sp.csr_array(block) for key, block in blocks.items()}
    return AffineMap(matrices, np.concatenate([one.offset for one in maps]))


def affine_map(expression: Any) -> AffineMap:
    """Read an affine cvxpy expression; its variables must hold values, see :func:`zeroed`."""
    gradient = expression.grad
    matrices = {}
    for variable, slope in gradient.items():
        matrix = sp.csr_array(np.reshape(slope, (1, 1)) if np.isscalar(slope) else slope).T
        matrix = sp.csr_array(matrix)
        matrix.eliminate_zeros()
        if matrix.nnz:
            matrices[variable.id] = matrix
    value = np.asarray(dense(expression.value), dtype=np.float64)
    return AffineMap(matrices, value.ravel(order="F"))


def dense(value: Any) -> Any:
    """A sparse matrix written out."""
    return value.toarray() if sp.issparse(value) else value


@contextmanager
def zeroed(variables: list[Any]) -> Iterator[None]:
    """Within ``with zeroed(variables)`` all variables are zero; afterwards as before."""
    values = [variable.value for variable in variables]
    try:
        for variable in variables:
            variable.save_value(np.zeros(variable.shape))
        yield
    finally:
        for variable, value in zip(variables, values, strict=True):
            variable.save_value(value)
