"""The parties' columns as they enter training: centred, scaled, with their penalties."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from dual2.learn.training import PartyColumns, column_squares

Array = np.ndarray


_CONSTANT = 1e-14
"""Spread of a column, relative to its mean, that is rounding."""


@dataclass(frozen=True)
class Penalty:
    """Weights of ½w² and |w| for every coefficient, and what becomes of the intercept.

    ``intercept`` is None (there is none), ``"centred"`` (columns and target are centred: exact
    for a squared loss), ``"free"`` (a column of ones, no penalty) or the number in a column that
    is penalised like the others.
    """

    ridge: float
    l1: float = 0.0
    intercept: str | float | None = None

    @property
    def column(self) -> float | None:
        """The number in the column of the intercept, if it has one."""
        if self.intercept in (None, "centred"):
            return None
        return self.intercept if isinstance(self.intercept, float) else 1.0


@dataclass(frozen=True)
class Design:
    """The parties' columns as they enter training.

    With several ``outputs``, K margins for each sample, party i has X_i ⊗ I_K: the K coefficients
    of its first column come first, and the K margins of the first sample.
    """

    groups: list[Array]
    blocks: list[PartyColumns]
    means: Array
    scales: Array
    spread: float
    penalty: Penalty
    outputs: int = 1

    @property
    def rows(self) -> int:
        """Samples times outputs."""
        return int(self.blocks[0].X.shape[0])

    @property
    def size(self) -> int:
        """Numbers in the parties' columns that are stored."""
        stored = sum(b.X.nnz if sp.issparse(b.X) else b.X.size for b in self.blocks)
        return int(stored) // self.outputs

    def coefficients(self, w: Sequence[Array]) -> tuple[Array, Any]:
        """Coefficients in the order and the units of X, and the intercept.

        One row of coefficients and one intercept for each output if there are several.
        """
        parts = [own.reshape(-1, self.outputs) for own in w]
        constant = np.zeros(self.outputs)
        if self.penalty.column is not None:
            constant = parts[-1][-1] * self.penalty.column
            parts[-1] = parts[-1][:-1]
        coef = np.empty((len(self.means), self.outputs))
        coef[np.concatenate(self.groups)] = np.concatenate(parts)
        coef /= self.scales[:, None]
        constant = constant - self.means @ coef
        if self.outputs == 1:
            return coef[:, 0], float(constant[0])
        return np.ascontiguousarray(coef.T), constant


def make_design(
    X: Any, groups: list[Array], weight: Array, penalty: Penalty, standardize: bool, outputs: int
) -> Design:
    """What each party does with its own columns: centre, scale, attach penalties.

    Sparse columns stay as they are but for their scale; their intercept is a column of ones.

    Examples
    --------
    >>> X, ones = np.array([[1.0, 2.0], [3.0, 2.0]]), np.ones(2)
    >>> groups, penalty = [np.array([0]), np.array([1])], Penalty(1.0, 0.0, "centred")
    >>> design = make_design(X, groups, ones, penalty, True, 1)
    >>> [block.X.tolist() for block in design.blocks], design.means.tolist()
    ([[[-1.0], [1.0]], [[0.0], [0.0]]], [2.0, 2.0])
    """
    sparse = sp.issparse(X)
    X = X if sparse else np.ascontiguousarray(X)  # the same sums for every order in memory
    if sparse and penalty.intercept == "centred":
        penalty = replace(penalty, intercept="free")
    zero, one = np.zeros(X.shape[1]), np.ones(X.shape[1])
    free = penalty.intercept in ("centred", "free")
    middle = np.asarray(weight @ X).ravel() / weight.sum() if free else zero
    means, spread, scales = zero if sparse else middle, zero.copy(), one.copy()
    blocks = []
    for i, group in enumerate(groups):
        own = scaled_columns(X[:, _place(group)], one[group], means[group])
        spread[group] = _spreads(own, weight, middle[group] - means[group])
        if not sparse and free:  # what centring leaves of a constant column is rounding
            constant = spread[group] <= _CONSTANT * np.abs(middle[group])
            own[:, constant], spread[group[constant]] = 0.0, 0.0
        if standardize:
            scales[group] = np.where(spread[group] > 0, spread[group], 1.0)
            own = scaled_columns(own, scales[group], zero[group])
        last = penalty if i == len(groups) - 1 else replace(penalty, intercept=None)
        blocks.append(_block(own, last, outputs))
    return Design(groups, blocks, means, scales, float((spread / scales).max()), penalty, outputs)


def _place(group: Array) -> Array | slice:
    """Columns that follow each other as a slice, which is read without a copy."""
    together = len(group) > 0 and bool(np.all(np.diff(group) == 1))
    return slice(int(group[0]), int(group[-1]) + 1) if together else group


def scaled_columns(X: Any, scales: Array, means: Array) -> Any:
    """(X - means)/scales, a copy; of a sparse X, which has no means, X/scales."""
    plain = bool(np.all(scales == 1.0))
    if sp.issparse(X):
        return sp.csr_array(X if plain else X @ sp.diags_array(1.0 / scales))
    centred = np.subtract(X, means, order="C")
    return centred if plain else np.divide(centred, scales, out=centred)


def _spreads(X: Any, weight: Array, means: Array) -> Array:
    """The weighted standard deviation of each column about its mean."""
    squares = column_squares(X, weight) / weight.sum() - means**2
    return np.sqrt(np.maximum(squares, 0.0))


def _block(X: Any, penalty: Penalty, outputs: int) -> PartyColumns:
    """One party's columns with their penalties, the column of the intercept last."""
    rows, count = X.shape
    ridge, l1 = np.full(count, penalty.ridge), np.full(count, penalty.l1)
    if penalty.column is not None:
        own = np.full((rows, 1), penalty.column)
        X = sp.hstack([X, sp.csr_array(own)], "csr") if sp.issparse(X) else np.hstack([X, own])
        ridge = np.append(ridge, 0.0 if penalty.intercept == "free" else penalty.ridge)
        l1 = np.append(l1, 0.0)
    if outputs > 1:
        X = sp.kron(sp.csr_array(X), sp.eye_array(outputs), "csr")
        ridge, l1 = np.repeat(ridge, outputs), np.repeat(l1, outputs)
    return PartyColumns(X, ridge, l1)
