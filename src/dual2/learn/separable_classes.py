"""Whether a model has finite coefficients: classes that can be separated have none."""

import numpy as np

from dual2.functions import Function
from dual2.functions.hessians import hessian

Array = np.ndarray

FLAT, DRIFT = 1e-5, 0.1
"""Second derivative of a row's loss, relative to the largest, that suggests a score on its way to
infinity, and the move of a score that shows it."""
TINY, RANK = 1e-30, 1e-13
"""Least second derivative that is divided by; singular values, relative to the largest, that are
rounding."""


def is_endless(h: Function, scores: Array, penalties: Array) -> bool:
    """Whether the objective falls from w to 2w: the coefficients have no finite limit.

    ``scores``, ``penalties``: Σ_i X_i w_i, and the sum of :meth:`PartyColumns.penalties` over all.

    Examples
    --------
    >>> from dual2.functions import LogisticLoss
    >>> is_endless(LogisticLoss([1.0, -1.0]), np.array([30.0, -30.0]), np.zeros(2))
    True
    """
    square, size = penalties
    with np.errstate(over="ignore"):
        return bool(h.value(2.0 * scores) + 1.5 * square + size < h.value(scores))


def has_flat_rows(h: Function, scores: Array) -> bool:
    """Whether a smooth loss hardly bends along some rows, as it does on the way to infinity.

    Examples
    --------
    >>> from dual2.functions import PoissonLoss
    >>> h = PoissonLoss([0.0, 2.0])
    >>> has_flat_rows(h, np.array([-20.0, 0.7])), has_flat_rows(h, np.array([-1.0, 0.7]))
    (True, False)
    """
    if not h.smooth or (bends := hessian(h, scores)) is None:
        return False
    own = np.asarray(bends, dtype=float)
    size = own if own.ndim == 1 else np.einsum("jkk->j", own)
    return bool(np.any(size < FLAT * size.max(initial=0.0)))


def drifts(h: Function, S: Array, scores: Array) -> bool:
    """Whether a Newton step along the columns of S still moves some score.

    At a solution it moves none; on the way to infinity it moves a score by about one, however
    small the gradient is.

    Examples
    --------
    >>> from dual2.functions import PoissonLoss
    >>> h, scores = PoissonLoss([0.0, 2.0]), np.array([-18.0, np.log(2.0)])
    >>> drifts(h, np.eye(2), scores), drifts(h, np.ones((2, 1)), np.zeros(2))
    (True, False)
    """
    bends, slopes = np.asarray(hessian(h, scores), dtype=float), h.grad(scores)
    if bends.ndim == 1:
        root = np.sqrt(bends)[:, None]
        left, right = root * S, -slopes[:, None] / np.maximum(root, TINY)
    else:
        values, vectors = np.linalg.eigh(bends)
        values = np.maximum(values, 0.0)
        half = np.einsum("jkm,jm,jlm->jkl", vectors, np.sqrt(values), vectors)
        inverse = np.where(values > TINY, 1.0 / np.sqrt(np.maximum(values, TINY)), 0.0)
        turned = np.einsum(
            "jkm,jm,jlm,jl->jk", vectors, inverse, vectors, slopes.reshape(len(S), -1)
        )
        left = np.einsum("jkl,jc->jkcl", half, S).reshape(turned.size, -1)
        right = -turned.reshape(-1, 1)
    step = np.linalg.lstsq(left, right, rcond=RANK)[0]
    width = bends.shape[-1] if bends.ndim > 1 else 1
    moved = S @ step.reshape(S.shape[1], width)
    return bool(np.abs(moved).max(initial=0.0) > DRIFT)
