"""Functions as tagged arrays: what the compiled loops read instead of calling Python.

``prox_blocks`` gives the prox of a function as a list of blocks that ``kernels.prox_block``
understands, ``smooth_form`` the gradient of a smooth function as matrices and vectors. What has
no such form is a CALLBACK block, or None: the loop calls the function itself.
"""

from dataclasses import dataclass
from enum import IntEnum
from functools import singledispatch

import numpy as np
from scipy.linalg import block_diag

from dual2.functions import kernels
from dual2.functions.arguments import Array
from dual2.functions.barriers import Entropy, NegativeLog
from dual2.functions.base import Function
from dual2.functions.calculus import Affined, Conjugate
from dual2.functions.glm import LogisticLoss, PoissonLoss
from dual2.functions.largest import Max
from dual2.functions.logistic_regression import LogisticRegression
from dual2.functions.norms_and_sets import (
    IndicatorAffine,
    IndicatorBall,
    IndicatorHalfspace,
    IndicatorSimplex,
    L2Norm,
)
from dual2.functions.piecewise import PiecewiseQuadratic
from dual2.functions.quadratic import LeastSquares, Quadratic
from dual2.functions.smooth_losses import HuberNormLoss, SmoothLoss
from dual2.functions.stacked import Stacked


class KernelKind(IntEnum):
    """Which branch of ``kernels.prox_block`` a block takes."""

    SEPARABLE = kernels.SEPARABLE
    L2 = kernels.L2
    SIMPLEX = kernels.SIMPLEX
    BALL = kernels.BALL
    HALFSPACE = kernels.HALFSPACE
    AFFINE = kernels.AFFINE
    LOGISTIC = kernels.LOGISTIC
    POISSON = kernels.POISSON
    LOG = kernels.LOG
    ENTROPY = kernels.ENTROPY
    CALLBACK = kernels.CALLBACK


PARAMETERS = 7
"""Parameters of each coordinate of a SEPARABLE block."""


@dataclass(frozen=True, eq=False)
class ProxBlock:
    """The prox of one block of coordinates.

    Attributes
    ----------
    kind : int
        A ``KernelKind``.
    flags : int
        Sum of 1 (of the conjugate), 2 (parameters start with c, q, a, b of an affine change),
        4 (SEPARABLE without kinks).
    size : int
        Number of coordinates.
    params : array
        SEPARABLE: curvature, linear, slope_left, slope_right, kink, lower, upper, each of length
        size. L2: weight. SIMPLEX: total. BALL: radius, center. HALFSPACE: b, |a|², a. AFFINE for
        {Qx = c} with m orthonormal rows: m, c, Q by rows. LOGISTIC: labels, scale. POISSON:
        counts, scale. LOG: ones, scale. ENTROPY: reference, scale.
    function : Function
        The block's function, for CALLBACK.
    """

    kind: int
    flags: int
    size: int
    params: Array
    function: Function


@dataclass(frozen=True, eq=False)
class SmoothForm:
    """½Σ diagonal·x² + ½xᵀdense x + <linear, x> + Σ_j weight_j·log(1 + exp(-(Mx + offset)_j)).

    ``constant`` is added; ``dense`` and ``M`` are None if absent.
    """

    diagonal: Array
    linear: Array
    dense: Array | None
    M: Array | None
    offset: Array
    weight: Array
    constant: float


def prox_blocks(f: Function, dim: int) -> list[ProxBlock]:
    """The prox of f on R^dim as blocks of consecutive coordinates.

    Examples
    --------
    >>> from dual2.functions import HuberLoss, IndicatorBox
    >>> [(b.kind.name, b.flags, b.size) for b in prox_blocks(IndicatorBox(0.0, 1.0), 3)]
    [('SEPARABLE', 4, 3)]
    >>> [(b.kind.name, b.flags, b.size) for b in prox_blocks(HuberLoss(0.0, 1.0), 3)]
    [('SEPARABLE', 5, 3)]
    """
    if isinstance(f, Stacked) and f.form is None:
        return [block for part, size in f.parts for block in prox_blocks(part, size)]
    return [_block(f, dim)]


def _block(f: Function, dim: int) -> ProxBlock:
    form, flags = f.form, 0
    if form is None:
        form, flags = _dual_form(f), kernels.CONJUGATED
    if form is not None:
        flags |= 0 if form.kinked else kernels.KINKLESS
        return ProxBlock(KernelKind.SEPARABLE, flags, dim, form.parameters(dim), f)
    inner, flags = f, 0
    if isinstance(f, Conjugate | HuberNormLoss | Max):
        inner, flags = f.conjugate, kernels.CONJUGATED
    head = np.zeros(0)
    if isinstance(inner, Affined):
        flags |= kernels.AFFINED
        vectors = (np.broadcast_to(part, (dim,)) for part in (inner.center, inner.slope))
        head = np.concatenate([[inner.scale, inner.curvature], *vectors])
        inner = inner.function
    kind, params = _params(inner, dim)
    if kind == KernelKind.CALLBACK:
        return ProxBlock(kind, 0, dim, np.zeros(0), f)
    return ProxBlock(kind, flags, dim, np.concatenate([head, params]), f)


def _dual_form(f: Function) -> PiecewiseQuadratic | None:
    """The separable S with f = S*, if there is one."""
    if isinstance(f, SmoothLoss):
        return f.conjugate
    if isinstance(f, Conjugate):
        return f.function.form
    if isinstance(f, Affined) and f.curvature == 0:
        inner = _dual_form(f.function)
        return inner and inner.stretched(f.scale)._affine(1.0, f.slope, f.center, 0.0)
    return None


@singledispatch
def _params(f: Function, dim: int) -> tuple[KernelKind, Array]:
    return KernelKind.CALLBACK, np.zeros(0)


@_params.register
def _(f: L2Norm, dim: int) -> tuple[KernelKind, Array]:
    return KernelKind.L2, np.array([f.weight])


@_params.register
def _(f: IndicatorSimplex, dim: int) -> tuple[KernelKind, Array]:
    return KernelKind.SIMPLEX, np.array([f.total])


@_params.register
def _(f: IndicatorBall, dim: int) -> tuple[KernelKind, Array]:
    return KernelKind.BALL, np.concatenate([[f.radius], np.broadcast_to(f.center, (dim,))])


@_params.register
def _(f: IndicatorHalfspace, dim: int) -> tuple[KernelKind, Array]:
    a = np.broadcast_to(f.a, (dim,))
    return KernelKind.HALFSPACE, np.concatenate([[f.b, a @ a], a])


@_params.register
def _(f: IndicatorAffine, dim: int) -> tuple[KernelKind, Array]:
    Q, c = f.basis
    return KernelKind.AFFINE, np.concatenate([[len(c)], c, Q.ravel()])


@_params.register
def _(f: LogisticLoss, dim: int) -> tuple[KernelKind, Array]:
    return KernelKind.LOGISTIC, np.concatenate(
        [np.broadcast_to(v, (dim,)) for v in (f.labels, f.scale)]
    )


@_params.register
def _(f: PoissonLoss, dim: int) -> tuple[KernelKind, Array]:
    return KernelKind.POISSON, np.concatenate(
        [np.broadcast_to(v, (dim,)) for v in (f.counts, f.scale)]
    )


@_params.register
def _(f: NegativeLog, dim: int) -> tuple[KernelKind, Array]:
    return KernelKind.LOG, np.concatenate([np.ones(dim), np.broadcast_to(f.scale, (dim,))])


@_params.register
def _(f: Entropy, dim: int) -> tuple[KernelKind, Array]:
    parts = (f.reference, f.scale)
    return KernelKind.ENTROPY, np.concatenate([np.broadcast_to(v, (dim,)) for v in parts])


def smooth_form(f: Function, dim: int) -> SmoothForm | None:
    """The smooth function f on R^dim as matrices and vectors; None if it has no such form.

    Examples
    --------
    >>> from dual2.functions import SquaredNorm
    >>> form = smooth_form(SquaredNorm(2.0, center=1.0), 3)
    >>> form.diagonal, form.linear
    (array([2., 2., 2.]), array([-2., -2., -2.]))
    """
    if f.form is None:
        return _smooth(f, dim)
    if not f.smooth:
        return None
    form = f.form.broadcast(dim)
    zero = np.zeros(dim)
    return _quadratic_form(np.array(form.curvature), form.linear + zero, f.value(zero))


def _quadratic_form(
    diagonal: Array, linear: Array, constant: float, dense: Array | None = None
) -> SmoothForm:
    return SmoothForm(diagonal, linear, dense, None, np.zeros(0), np.zeros(0), constant)


@singledispatch
def _smooth(f: Function, dim: int) -> SmoothForm | None:
    return None


@_smooth.register
def _(f: Quadratic, dim: int) -> SmoothForm | None:
    linear = np.array(np.broadcast_to(f.q, (dim,)))
    return _quadratic_form(np.zeros(dim), linear, 0.0, np.array(f.P))


@_smooth.register
def _(f: LeastSquares, dim: int) -> SmoothForm | None:
    b = np.broadcast_to(f.b, (len(f.M),))
    return _quadratic_form(np.full(dim, f.ridge), -f.M.T @ b, 0.5 * float(b @ b), f.M.T @ f.M)


@_smooth.register
def _(f: LogisticRegression, dim: int) -> SmoothForm | None:
    M = np.ascontiguousarray(np.reshape(f.labels, (-1, 1)) * f.M)
    zeros, ones = np.zeros(len(M)), np.ones(len(M))
    return SmoothForm(np.full(dim, f.ridge), np.zeros(dim), None, M, zeros, ones, 0.0)


@_smooth.register
def _(f: Affined, dim: int) -> SmoothForm | None:
    inner = smooth_form(f.function, dim)
    if inner is None:
        return None
    c, q = f.scale, f.curvature
    a, b, k = (np.broadcast_to(part, (dim,)) for part in (f.center, f.slope, f.constant))
    bend = inner.diagonal * a + (0.0 if inner.dense is None else inner.dense @ a)
    return SmoothForm(
        diagonal=c * inner.diagonal + q,
        linear=c * (inner.linear - bend) + b,
        dense=None if inner.dense is None else c * inner.dense,
        M=inner.M,
        offset=inner.offset if inner.M is None else inner.offset - inner.M @ a,
        weight=c * inner.weight,
        constant=float(c * (inner.constant + a @ (0.5 * bend - inner.linear)) + k.sum()),
    )


@_smooth.register
def _(f: Stacked, dim: int) -> SmoothForm | None:
    parts = [smooth_form(part, size) for part, size in f.parts]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    sized = list(zip(known, f.sizes, strict=True))
    dense = [np.zeros((d, d)) if part.dense is None else part.dense for part, d in sized]
    M = [np.zeros((0, d)) if part.M is None else part.M for part, d in sized]
    return SmoothForm(
        diagonal=np.concatenate([part.diagonal for part in known]),
        linear=np.concatenate([part.linear for part in known]),
        dense=block_diag(*dense) if any(part.dense is not None for part in known) else None,
        M=block_diag(*M) if any(part.M is not None for part in known) else None,
        offset=np.concatenate([part.offset for part in known]),
        weight=np.concatenate([part.weight for part in known]),
        constant=sum(part.constant for part in known),
    )
