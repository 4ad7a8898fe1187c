"""The problem in a few known directions, which every process solves alone and alike.

With the products s_k = Σ_i A_i q_ki of some directions every process knows, for any coefficients c,

    φ(c) = ½cᵀHc + bᵀc + h(s̄ + Σ_k c_k s_k),

so that its minimiser costs no message. A smooth h is minimised by Newton's method. For others an
augmented Lagrangian, y = prox_{h/σ}(s + λ/σ), λ⁺ = λ + σ(s - y), turns h into a function with a
semismooth gradient λ⁺ and the generalised second derivative σ(1 - Jac prox); few multiplier steps
suffice because σ grows (Rockafellar, 1976). What is expensive is the Gram matrix Σ_j W_j S_j S_jᵀ
of second derivatives, p·K² multiply-adds: it is kept as long as the weights W hardly change. Where
h couples a few rows at a time, as the multinomial loss does, W is an array of blocks.
"""

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from dual2.functions import Function
from dual2.functions.derivatives import prox_jacobian
from dual2.functions.domains import inside_value
from dual2.functions.hessians import View, hessian, view
from dual2.methods.subspace.cholesky import NULL_RTOL, inverse
from dual2.problem.ingredients import coupling_step

Array = np.ndarray
EPS = float(np.finfo(float).eps)
ROUNDING = 64.0 * EPS
SIGMA_GROWTH, MAX_MULTIPLIER_STEPS = 5.0, 40
"""Growth of σ from one multiplier step to the next, and most of these steps."""
_SLOW_DECREASE, _MAX_SLOW_STEPS = 0.5, 4
"""So many multiplier steps that leave more than this share of the rows' residual are enough: the
known directions cannot meet what h demands."""
_MAX_NEWTON_STEPS, _MAX_HALVINGS = 60, 30
_STALE_RTOL = 0.02
"""Relative change of the weights up to which an old Gram matrix serves as a second derivative."""
_CACHE_NUMBERS, _MIN_COLUMNS = 100_000, 512
"""Numbers that are multiplied at a time, and columns at least."""
_SPARSE_SHARE = 0.5
"""Share of rows with a weight below which only these are multiplied."""


Piece = Callable[[Array], View]
"""A smooth function of s: its value, its gradient, and what its second derivatives are."""


class SubspaceProblem(NamedTuple):
    """H and b of the quadratic part, products of the directions as rows of S, and s̄.

    With a ``mix`` the products are mix·S, which are never formed.
    """

    H: Array
    b: Array
    S: Array
    base: Array
    mix: Array | None = None

    def along(self, c: Array) -> Array:
        """Σ_k c_k s_k."""
        return (c if self.mix is None else c @ self.mix) @ self.S

    def dual_products(self, lam: Array) -> Array:
        """<s_k, λ> for every k."""
        total = self.S @ lam
        return total if self.mix is None else self.mix @ total


class SubspaceSolution(NamedTuple):
    """Coefficients, multiplier, s and the nearest y with λ ∈ ∂h(y), the last σ.

    ``rows`` is the largest |s_j - y_j| relative to max(|s_j|, |y_j|), less what is rounding;
    ``weights`` are the second derivatives of a smooth h at s.
    """

    c: Array
    lam: Array
    s: Array
    y: Array
    sigma: float
    rows: float
    weights: Array | None = None


class Gram:
    """Σ_j W_j S_j S_jᵀ for the rows of S, kept while W and the rows stay about the same.

    Examples
    --------
    >>> gram = Gram()
    >>> gram.of(np.array([[1.0, 2.0]]), np.array([1.0, 0.5])).tolist()
    [[3.0]]
    >>> gram.of(np.array([[1.0, 2.0], [1.0, 0.0]]), np.array([1.0, 0.5])).tolist()
    [[3.0, 1.0], [1.0, 1.0]]
    """

    evaluations = 0
    """How often h has been evaluated for its sake."""

    _smooth: bool | None = None

    def __init__(self, weights: Array | None = None, matrix: Array | None = None) -> None:
        self.reset()
        if weights is not None and matrix is not None:
            self.weights, self.matrix = weights.copy(), matrix.copy()

    def count_evaluations(self, number: int = 1) -> None:
        """So many more of h."""
        self.evaluations += number

    def is_smooth(self, h: Function, p: int) -> bool:
        """As :func:`is_smooth`, asked once in a run."""
        if self._smooth is None:
            self._smooth = is_smooth(h, p)
        return self._smooth

    def reset(self) -> None:
        """The rows are others now."""
        self.weights, self.matrix = np.zeros(0), np.zeros((0, 0))

    def of(self, S: Array, W: Array, exact: bool = False) -> Array:
        """The matrix for these weights, or for nearly the same ones unless ``exact``."""
        known = len(self.matrix) > 0
        if not known or weights_changed(W, self.weights, 0.0 if exact else _STALE_RTOL):
            self.weights, self.matrix = W.copy(), weighted_square(S, W)
        elif len(self.matrix) < len(S):
            self._extend(S)
        return self.matrix

    def _extend(self, S: Array) -> None:
        """Rows have come at the end."""
        old, count = len(self.matrix), len(S)
        matrix = np.empty((count, count))
        matrix[:old, :old] = self.matrix
        matrix[old:] = weighted_products(S[old:], self.weights, S)
        matrix[:, old:] = matrix[old:].T
        self.matrix = matrix


def weights_changed(W: Array, old: Array, rtol: float) -> bool:
    """Whether weights differ from the old ones by more than a share of their sum."""
    return W.shape != old.shape or float(np.abs(W - old).sum()) > rtol * float(np.abs(W).sum())


def weigh(S: Array, W: Array) -> Array:
    """S diag(W), or S times the blocks W on the diagonal.

    Examples
    --------
    >>> weigh(np.array([[1.0, 2.0]]), np.array([[[1.0, 1.0], [1.0, 3.0]]])).tolist()
    [[3.0, 7.0]]
    """
    if W.ndim == 1:
        return S * W
    columns = S.reshape(len(S), *W.shape[:2]).transpose(1, 2, 0)
    return np.matmul(W, columns).transpose(2, 0, 1).reshape(S.shape)


def weighted_square(S: Array, W: Array) -> Array:
    """S diag(W) Sᵀ, from the columns with a weight alone where they are few.

    Examples
    --------
    >>> weighted_square(np.array([[1.0, 2.0]]), np.array([0.0, 3.0])).tolist()
    [[12.0]]
    """
    if W.ndim == 3:
        return weigh(S, W) @ S.T
    used = np.flatnonzero(W)
    if len(used) < _SPARSE_SHARE * len(W):
        part = S[:, used] * np.sqrt(W[used])
        return part @ part.T
    total, root = np.zeros((len(S), len(S))), np.sqrt(W)
    for some in _column_chunks(len(S), len(W)):
        part = S[:, some] * root[some]
        total += part @ part.T
    return total


def weighted_products(left: Array, W: Array, right: Array) -> Array:
    """left diag(W) rightᵀ.

    Examples
    --------
    >>> weighted_products(np.ones((1, 2)), np.array([2.0, 3.0]), np.array([[1.0, 1.0]])).tolist()
    [[5.0]]
    """
    if W.ndim == 3:
        return weigh(left, W) @ right.T
    total = np.zeros((len(left), len(right)))
    for some in _column_chunks(len(left) + len(right), len(W)):
        total += (left[:, some] * W[some]) @ right[:, some].T
    return total


def _column_chunks(rows: int, columns: int) -> Iterator[slice]:
    """Columns some at a time: so many as stay in the cache."""
    some = max(_MIN_COLUMNS, _CACHE_NUMBERS // max(rows, 1))
    return (slice(first, first + some) for first in range(0, columns, some))


# -- Newton's method in the coefficients -----------------------------------------------------


class _Evaluation(NamedTuple):
    """A point of the minimisation."""

    c: Array
    s: Array
    value: float
    lam: Array
    curvature_of: Callable[[], Array]


def _evaluate(problem: SubspaceProblem, piece: Piece, c: Array, s: Array) -> _Evaluation:
    value, lam, curvature_of = piece(s)
    quadratic = 0.5 * float(c @ problem.H @ c) + float(problem.b @ c)
    return _Evaluation(c, s, quadratic + value, lam, cache(curvature_of))


def minimise(
    problem: SubspaceProblem, piece: Piece, gram: Gram, c: Array, tol: float
) -> _Evaluation:
    """Minimise ½cᵀHc + bᵀc + piece(s̄ + c·S) until the gradient is ``tol`` of its two terms.

    Both are measured by the inverse of the second derivative, so that units cancel. A whole
    step that stays where the second derivatives are the same solves the problem but for rounding:
    from then on steps are taken as long as each leaves a quarter of the gradient at most.
    """
    point = _evaluate(problem, piece, c, problem.base + problem.along(c))
    gram.count_evaluations()
    exact, previous, solved = False, np.inf, np.zeros(0)
    for _ in range(_MAX_NEWTON_STEPS):
        quadratic, dual_products = problem.H @ point.c + problem.b, problem.dual_products(point.lam)
        weights = point.curvature_of()
        square = gram.of(problem.S, weights, exact)
        mix = problem.mix
        second = problem.H + (square if mix is None else mix @ square @ mix.T)
        if not np.isfinite(second).all():  # a direction beyond all numbers: whoever asked goes back
            break
        terms = np.column_stack([quadratic + dual_products, quadratic, dual_products])
        solved_for = inverse(second)(terms)
        decrement, *sizes = np.einsum("kj,kj->j", terms, solved_for).tolist()
        d, scale = -solved_for[:, 0], max(sizes)
        if not decrement > (max(tol, EPS) ** 2) * scale or (
            decrement > 0.5 * previous and decrement < NULL_RTOL**2
        ):
            break
        if decrement > previous / 16.0 and np.array_equal(weights, solved):
            break
        exact, previous = decrement > 1e-2 * previous, decrement
        new = _search(problem, piece, gram, point, d, decrement)
        if new is None:
            break
        symmetric = np.array_equal(new.c, point.c + d) and np.array_equal(weights, gram.weights)
        solved = weights if symmetric else solved[:0]
        point = new
    return point


def _search(
    problem: SubspaceProblem,
    piece: Piece,
    gram: Gram,
    point: _Evaluation,
    d: Array,
    decrement: float,
) -> _Evaluation | None:
    """The first point of a backtracking line search with enough descent."""
    along, t = problem.along(d), 1.0
    slack = 8.0 * EPS * abs(point.value)
    for _ in range(_MAX_HALVINGS):
        new = _evaluate(problem, piece, point.c + t * d, point.s + t * along)
        gram.count_evaluations()
        if new.value <= point.value - 1e-4 * t * decrement + slack:
            return new
        t *= 0.5
    return None


# -- any h -----------------------------------------------------------------------------------


def is_smooth(h: Function, p: int) -> bool:
    """Whether h enters by its own gradient and second derivative.

    Examples
    --------
    >>> from dual2.functions import HingeLoss, LogisticLoss
    >>> is_smooth(LogisticLoss([1.0, -1.0]), 2), is_smooth(HingeLoss([1.0, -1.0]), 2)
    (True, False)
    """
    return h.smooth and hessian(h, np.zeros(p)) is not None


def curvature(h: Function, s: Array, lam: Array) -> Array:
    """Second derivatives of h at s, or of its envelope with t = |s|/|λ| where it has kinks."""
    known = hessian(h, s) if h.smooth else None
    if known is not None:
        return np.asarray(known, dtype=float)
    t = coupling_step(s, lam)
    return (1.0 - _jacobian(h, s + t * lam, t)) / t


def solve_subspace(
    h: Function,
    problem: SubspaceProblem,
    gram: Gram,
    c: Array,
    lam: Array,
    sigma: float,
    tol: float,
) -> SubspaceSolution:
    """Minimise φ from c, λ and σ (0 if none is known); ``tol`` bounds rows and gradient."""
    if gram.is_smooth(h, len(problem.base)):
        point = minimise(problem, partial(view, h), gram, c, 0.1 * tol)
        return SubspaceSolution(
            point.c, point.lam, point.s, point.s, sigma, 0.0, point.curvature_of()
        )
    sigma, best, idle = sigma or first_sigma(problem, lam), np.inf, 0
    total = SubspaceSolution(c, lam, problem.base, problem.base, sigma, np.inf)
    for _ in range(MAX_MULTIPLIER_STEPS):
        total = multiplier_step(h, problem, gram, total, tol)
        idle = idle + 1 if total.rows > _SLOW_DECREASE * best else 0
        best = min(best, total.rows)
        if total.rows <= tol:
            return total
        if idle >= _MAX_SLOW_STEPS:
            break
        total = total._replace(sigma=SIGMA_GROWTH * total.sigma)
    return total._replace(sigma=0.0)


def multiplier_step(
    h: Function, problem: SubspaceProblem, gram: Gram, old: SubspaceSolution, tol: float
) -> SubspaceSolution:
    """Minimise the augmented Lagrangian; its gradient with respect to s is the new λ."""
    point = minimise(problem, _envelope(h, old.lam, old.sigma), gram, old.c, 0.1 * tol)
    y = point.s + (old.lam - point.lam) / old.sigma
    return SubspaceSolution(
        point.c, point.lam, point.s, y, old.sigma, row_ratio(problem, point.c, point.s, y)
    )


def _envelope(h: Function, lam: Array, sigma: float) -> Piece:
    """The augmented Lagrangian's part of h, as a function of s."""

    def evaluate(s: Array) -> View:
        v = s + lam / sigma
        y = h.prox(v, 1.0 / sigma)
        new = sigma * (v - y)
        value = inside_value(h, y) + 0.5 * float(new @ new) / sigma
        return View(value, new, lambda: sigma * (1.0 - _jacobian(h, v, 1.0 / sigma)))

    return evaluate


def _jacobian(h: Function, v: Array, step: float) -> Array:
    jac = prox_jacobian(h, v, np.full(len(v), step))
    assert jac is not None and jac.ndim == 1, "the plan has asked for it"
    return jac


def first_sigma(problem: SubspaceProblem, lam: Array) -> float:
    """σ such that the penalty is beside the quadratic part, 1 where nothing is known.

    Examples
    --------
    >>> problem = SubspaceProblem(np.eye(1), np.zeros(1), np.array([[2.0]]), np.zeros(1))
    >>> first_sigma(problem, np.zeros(1))
    2.5
    """
    curvature_of, size = float(np.trace(problem.H)), float(np.sum(problem.S**2))
    if curvature_of > 0 and size > 0:
        return 10.0 * len(problem.b) * curvature_of / size
    s, length = float(np.linalg.norm(problem.base)), float(np.linalg.norm(lam))
    return length / s if length > 0 and s > 0 else 1.0


def row_ratio(problem: SubspaceProblem, c: Array, s: Array, y: Array) -> float:
    """The largest |s_j - y_j| relative to max(|s_j|, |y_j|); rounding of the sum is none."""
    off, scale = np.abs(s - y), np.maximum(np.abs(s), np.abs(y))
    made = np.abs(c) @ np.abs(problem.S) + np.abs(problem.base)
    decrement = np.where(off <= ROUNDING * made, 0.0, off)
    ratios = np.divide(decrement, scale, out=np.where(decrement > 0, np.inf, 0.0), where=scale > 0)
    return float(ratios.max(initial=0.0))
