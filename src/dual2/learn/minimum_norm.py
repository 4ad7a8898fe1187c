"""The answer of minimum norm, where dependent columns leave many with the same predictions.

Without a penalty the predictions z = Σ_i X_i w_i are unique, the coefficients are not if Xv = 0 for
some v ≠ 0. Among them is one of minimum norm, as ``numpy.linalg.lstsq`` and scikit-learn's
``LinearRegression`` return it (the intercept does not count). No party has X. With random matrices
Z_i of each party, and Ω that everybody knows, one sum Σ_i ΩX_i Z_i of as many columns as there are
coefficients shows which combinations C vanish: party i knows its part N_i = Z_i C of a basis of
{v : Xv = 0}. Two further sums of NᵀN and Nᵀw take out the part of w along N.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import qr, solve_triangular

from dual2.functions import Function
from dual2.learn.design import Design
from dual2.learn.separable_classes import drifts, has_flat_rows
from dual2.learn.training import DEPENDENT, PartyColumns, TrainingState, predictions
from dual2.network import Network

Array = np.ndarray
Total = Callable[[Sequence[Array]], Array]
"""Sums the numbers of the parties that are here, and of all others."""

MINIMUM_NORM = (
    "Without a penalty the coefficients are not unique: those of minimum norm are returned. Drop "
    "the column, or penalise a little, for unique ones."
)
"""What to do about dependent columns."""
MAX_COLUMNS = 2000
"""Coefficients of all parties above which dependence between parties is not looked for."""
_CONSTANT = 1e-14
"""Length of a column less its mean, relative to its own, that is rounding."""
_OVERSAMPLED = 20
"""Rows of the sketch beyond the number of coefficients."""
_ROW_SEED = 20_011
"""Seed of Ω, which is public."""
_CHUNK = 2048
"""Rows of a table that are multiplied by Ω at a time."""
_DENSE, _NAMED = 20_000_000, 5
"""Numbers of a table up to which its dependent columns are named, and how many of them."""
_COEFFICIENT = 1e-8
"""Share of the largest coefficient below which a column does not enter a combination."""


@dataclass(frozen=True)
class Dependence:
    """A column that others of the same party determine: their positions, none if it is constant."""

    column: int
    others: tuple[int, ...]


@dataclass(frozen=True)
class Shortened:
    """Coefficients of minimum norm of the parties that are here, and what they took."""

    w: list[Array]
    dimension: int  # of the space of coefficients that predict nothing
    floats: int  # numbers in the sums, for one party
    sums: int


def dependent_columns(X: Array, ones: bool = False) -> list[Dependence]:
    """Columns that others determine, by a QR decomposition with pivoting.

    ``ones``: whether an intercept stands beside them, so that a constant column is dependent.

    Examples
    --------
    >>> X = np.array([[1.0, 0.0, 2.0, 1.0], [0.0, 1.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0]])
    >>> [(found.column, found.others) for found in dependent_columns(X)]
    [(0, (2,))]
    >>> [(found.column, found.others) for found in dependent_columns(X, ones=True)][-1]
    (3, ())
    """
    size = np.sqrt(np.einsum("ij,ij->j", X, X))
    if ones:  # a column whose deviations are rounding of its mean is constant
        X, whole = X - X.mean(axis=0), size
        size = np.sqrt(np.einsum("ij,ij->j", X, X))
        size = np.where(size > _CONSTANT * whole, size, 0.0)
    scaled = np.where(size > 0, X, 0.0) / np.where(size > 0, size, 1.0)
    R, order = qr(scaled, mode="r", pivoting=True, check_finite=False)
    diagonal = np.abs(np.diag(R))
    rank = int(np.sum(diagonal > DEPENDENT * diagonal.max(initial=1.0)))
    if rank == X.shape[1]:
        return []
    weights = solve_triangular(R[:rank, :rank], R[:rank, rank:], check_finite=False)
    found = []
    for column, weight in zip(order[rank:], weights.T, strict=True):
        used = np.abs(weight) > _COEFFICIENT * max(float(np.abs(weight).max(initial=0.0)), 1.0)
        others = order[:rank][used] if size[column] > 0 else []
        found.append(Dependence(int(column), tuple(sorted(int(k) for k in others))))
    return sorted(found, key=lambda one: one.column)


def shorten(
    blocks: Sequence[PartyColumns],
    w: Sequence[Array],
    total: Total,
    columns: int,
    outputs: int,
    free: Sequence[int],
) -> Shortened:
    """Coefficients of minimum norm with the predictions of ``w``.

    ``blocks`` and ``w`` are those of the parties that are here; ``columns`` counts those of all
    parties, ``free`` the last columns of each block that are an intercept and do not count.
    """
    tables = [_table(block, outputs) for block in blocks]
    roots = [block.lengths[::outputs] for block in blocks]
    draws = [_draw(X, root, columns) for X, root in zip(tables, roots, strict=True)]
    rows = min(tables[0].shape[0], columns + _OVERSAMPLED)
    sketch = total([_sketched(X, Z, rows) for X, Z in zip(tables, draws, strict=True)])
    C = _vanishing(sketch.reshape(rows, columns))
    k, floats, sums = C.shape[1], rows * columns, 1
    if not k:
        return Shortened(list(w), 0, floats, sums)
    bases = [Z @ C for Z in draws]
    own = [v.reshape(-1, outputs) for v in w]
    for _ in range(2):  # the second time takes out what rounding has left
        parts = []
        for N, v, last in zip(bases, own, free, strict=True):
            counted = N[: len(N) - last]
            parts.append(np.hstack([counted.T @ counted, counted.T @ v[: len(N) - last]]).ravel())
        found = total(parts).reshape(k, k + outputs)
        step = np.linalg.lstsq(found[:, :k], found[:, k:], rcond=None)[0]
        own = [v - N @ step for N, v in zip(bases, own, strict=True)]
        floats, sums = floats + found.size, sums + 1
    return Shortened([v.ravel() for v in own], k, floats, sums)


def _table(block: PartyColumns, outputs: int) -> sp.csr_array | Array:
    """A party's columns, one for each coefficient of one output."""
    if outputs == 1:
        return block.X
    return sp.csr_array(block.X)[::outputs, ::outputs]


def _draw(X: sp.csr_array | Array, root: Array, columns: int) -> Array:
    """Z_i, which follows from what the party alone knows; its rows are in units of the columns."""
    numbers = np.ascontiguousarray(X.data if sp.issparse(X) else X)
    digest = hashlib.blake2b(numbers.tobytes(), digest_size=16).digest()
    rng = np.random.default_rng(int.from_bytes(digest, "big"))
    return rng.standard_normal((X.shape[1], columns)) / root[:, None]


def products(blocks: Sequence[PartyColumns], total: Total, columns: int, outputs: int) -> Array:
    """Σ_i X_i Z_i: as many combinations of all columns as there are, (samples, columns)."""
    tables = [_table(block, outputs) for block in blocks]
    roots = [block.lengths[::outputs] for block in blocks]
    parts = [
        np.asarray(X @ _draw(X, root, columns)).ravel()
        for X, root in zip(tables, roots, strict=True)
    ]
    return total(parts).reshape(-1, columns)


def _sketched(X: sp.csr_array | Array, Z: Array, rows: int) -> Array:
    """ΩXZ; Ω is the identity where there are no more rows than it has."""
    count = X.shape[0]
    if rows == count:
        return np.asarray(X @ Z).ravel()
    rng, found = np.random.default_rng(_ROW_SEED), np.zeros((rows, X.shape[1]))
    for first in range(0, count, _CHUNK):
        part = X[first : first + _CHUNK]
        omega = rng.standard_normal((part.shape[0], rows))
        found += (part.T @ omega).T
    return (found @ Z).ravel()


def _vanishing(S: Array) -> Array:
    """An orthonormal basis of {c : Sc = 0}."""
    _, values, rows = np.linalg.svd(S, full_matrices=True)
    rank = int(np.sum(values > DEPENDENT * values.max(initial=0.0)))
    return np.ascontiguousarray(rows[rank:].T)


def with_minimum_norm(
    model: TrainingState, design: Design, h: Function, network: Network
) -> TrainingState:
    """A model trained here for all parties, its coefficients of minimum norm, the sums counted.

    It has not converged if some scores are on their way to infinity; ``h`` is the loss.
    """
    columns = sum(block.X.shape[1] for block in design.blocks) // design.outputs
    if columns > MAX_COLUMNS:
        return model
    free = [0] * len(design.blocks)
    free[-1] = int(design.penalty.column is not None)

    def total(parts: Sequence[Array]) -> Array:
        return np.sum(parts, axis=0)

    found = shorten(design.blocks, model.w, total, columns, design.outputs, free)
    sums, floats, converged = found.sums, found.floats, model.converged
    scores = predictions(design.blocks, found.w)
    if converged and has_flat_rows(h, scores):
        S = products(design.blocks, total, columns, design.outputs)
        sums, floats, converged = sums + 1, floats + S.size, not drifts(h, S, scores)
    counts = dict(model.counts)
    counts["sums"] += sums
    counts["rounds"] += 2 * network.tree.height * sums
    counts["floats"] += 2 * (network.n - 1) * floats
    left = model.remaining if converged == model.converged else 1.0
    model = replace(model, w=found.w, counts=counts, dependent=found.dimension)
    return replace(model, converged=converged, remaining=left)


def dependence_of(design: Design, names: Sequence[str]) -> list[str]:
    """For each party with dependent columns a sentence about them; each looks at its own only."""
    said = []
    for i, (block, group) in enumerate(zip(design.blocks, design.groups, strict=True)):
        X: Any = _table(block, design.outputs)[:, : len(group)]
        if X.shape[1] > MAX_COLUMNS or X.shape[0] * X.shape[1] > _DENSE:
            continue
        dense = X.toarray() if sp.issparse(X) else X
        found = dependent_columns(dense, design.penalty.intercept in ("free", "centred"))
        if found:
            said.append(f"Party {i}: {describe(found, [names[int(k)] for k in group])}")
    return said


def describe(found: Sequence[Dependence], names: Sequence[str]) -> str:
    """Dependent columns in words.

    Examples
    --------
    >>> describe([Dependence(1, ()), Dependence(2, (0,))], ["age", "unit", "years"])
    "column 'unit' is constant; column 'years' is a combination of 'age'"
    """
    parts = []
    for one in found[:_NAMED]:
        others = [repr(names[k]) for k in one.others]
        listed = ", ".join(others[:_NAMED]) + (", …" if len(others) > _NAMED else "")
        what = f"a combination of {listed}" if others else "constant"
        parts.append(f"column {names[one.column]!r} is {what}")
    more = len(found) - _NAMED
    return "; ".join(parts) + (f"; and {more} more" if more > 0 else "")
