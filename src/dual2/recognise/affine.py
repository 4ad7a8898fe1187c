"""Affine cvxpy expressions as matrices, and sums of cvxpy atoms as lists of terms."""

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
        """Some rows, by a mask; variables that do not enter them are left out."""
        maps = {key: sp.csr_array(own[kept]) for key, own in self.matrices.items()}
        return AffineMap({key: own for key, own in maps.items() if own.nnz}, self.offset[kept])

    def after(self, matrix: Array) -> AffineMap:
        """``matrix`` z instead of z."""
        maps = {key: sp.csr_array(matrix @ own) for key, own in self.matrices.items()}
        return AffineMap(maps, matrix @ self.offset)


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
    value = np.asarray(_dense(expression.value), dtype=np.float64)
    return AffineMap(matrices, value.ravel(order="F"))


def _dense(value: Any) -> Any:
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


@dataclass(frozen=True)
class Term:
    """Σ_j weight_j · atom_j, the weights in the atom's shape."""

    weight: Array
    atom: Any


def terms(expression: Any, weight: Array | None = None) -> Iterator[Term]:
    """Take a weighted sum of atoms apart: sums, signs, factors and divisors that are constant.

    Affine parts come out whole, everything else atom by atom; max(a, b) as b + max(a - b, 0).
    """
    w = np.ones(expression.shape) if weight is None else weight
    kind, args = type(expression).__name__, expression.args
    if expression.is_affine():
        yield Term(w, expression)
    elif kind == "AddExpression":
        for part in args:
            yield from terms(part, _shrunk(w, part.shape))
    elif kind == "NegExpression":
        yield from terms(args[0], -w)
    elif kind == "Sum" and expression.axis is None:
        yield from terms(args[0], np.broadcast_to(w, args[0].shape))
    elif kind == "Promote":
        yield from terms(args[0], _shrunk(w, args[0].shape))
    elif kind == "DivExpression" and args[1].is_constant():
        yield from terms(args[0], _shrunk(w / _dense(args[1].value), args[0].shape))
    elif kind == "multiply" and any(part.is_constant() for part in args):
        factor, part = args if args[0].is_constant() else args[::-1]
        yield from terms(part, _shrunk(w * _dense(factor.value), part.shape))
    elif kind == "MulExpression" and args[0].is_constant():
        left = np.atleast_2d(_dense(args[0].value))
        pulled = left.T @ np.reshape(w, (left.shape[0], -1))
        yield from terms(args[1], np.reshape(pulled, args[1].shape))
    elif kind in ("maximum", "minimum") and _are_affine(args):
        yield from terms(args[1], _shrunk(w, args[1].shape))
        yield Term(w, type(expression)(args[0] - args[1], 0.0))
    else:
        yield Term(w, expression)


def _are_affine(args: list[Any]) -> bool:
    """Whether there are two affine expressions, neither of them constant."""
    return len(args) == 2 and all(part.is_affine() and not part.is_constant() for part in args)


def _shrunk(weight: Array, shape: tuple[int, ...]) -> Array:
    """Weights of a part that was broadcast to the shape of ``weight``."""
    if np.shape(weight) == shape:
        return np.asarray(weight)
    return np.full(shape, np.sum(weight)) if shape == () else np.reshape(weight, shape)
