"""The forward-backward envelope of the dual and its Newton steps, alike in every process.

With S = Σ A_i x_i(λ) and a diagonal Γ = γD² below the inverse of the dual function's curvature, a
proximal gradient step from λ is z = Γ(v - y), y = prox_{h/Γ}(v), v = S + λ/Γ: then z ∈ ∂h(y). Its
residual r = D⁻¹(λ - z) is computed as γD(y - S), without cancellation, and the forward-backward
envelope ψ(λ) + h*(z) - <S, z - λ> + |r|²/(2γ) with h*(z) = <z, y> - h(y) decreases to the optimal
value: it is what steps are judged by (Themelis, Stella & Patrinos, 2018).
"""

from typing import Any, NamedTuple

import numpy as np

from dual2.functions import Function
from dual2.functions.derivatives import prox_jacobian
from dual2.functions.domains import inside_values
from dual2.functions.hessians import dense
from dual2.methods.message import MAGNITUDE, OBJECTIVE, VALUE

Array = np.ndarray
EPS = float(np.finfo(float).eps)
STEP_SAFETY = 0.95
"""γ times the largest curvature of the scaled dual function."""
NEWTON_REGULARISATION = 1e-13
"""Regularisation of the full Newton step."""
REGULARISATIONS = (1e-11, 1e-9, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
DAMPING_FACTORS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Regularisations of further trials: fixed ones, and multiples of the last one that was needed."""
DUPLICATE_RTOL = 1e-2
"""Steps that differ by less than this part of their length are tried once."""
STEP_LENGTHS = (1.0, 0.5, 0.25, 0.1, 0.03, 2.5, 6.0, 16.0)
"""Step lengths tried along the full Newton step."""
ENOUGH_DECREASE, FULL_DECREASE = 0.5, 0.99
"""Parts of the envelope's fall that are enough, and as good as the whole, see
:func:`choose_trial`."""
MAX_CANDIDATES = 3
"""Further multipliers, made row by row of the last ones, see :func:`coordinate_candidates`."""
MAX_TRIALS = len(STEP_LENGTHS) + len(REGULARISATIONS) + len(DAMPING_FACTORS) + MAX_CANDIDATES + 1
"""Multipliers in one sum at most."""


class Scaling(NamedTuple):
    """Row scales D, step γ, and steps 1/Γ of the prox of h, one per row."""

    D: Array
    gamma: float
    steps: Array


class FBEPoint(NamedTuple):
    """A multiplier with what the sum told about it, and what follows.

    Of several multipliers every field has one row, or one number, for each.
    """

    lam: Array
    S: Array
    abs_products: Array
    scalars: Array
    v: Array
    y: Array
    z: Array
    r: Array
    envelope: Any
    magnitude: Any
    objective: Any

    @property
    def residual(self) -> Any:
        """|r|."""
        return np.sqrt((self.r * self.r).sum(axis=-1))

    def select(self, k: int) -> "FBEPoint":
        """The point of one of several multipliers."""
        return FBEPoint(*(part[k] for part in self))


class Trials(NamedTuple):
    """Multipliers to try, and the regularisation (or step length) behind each."""

    multipliers: Array
    deltas: Array


def equilibrate(M: Array, h: Function) -> Scaling:
    """D_j = M_jj^-½, equal within the blocks of h, and γ = 0.95/λ_max(DMD).

    M bounds the curvature of the dual function, so that Γ⁻¹ is above it: no line search for γ.
    Units of rows cancel. Rows of zeros take the largest M_jj. Of a vector M only the diagonal is
    known, and as its last entry a bound of λ_max(M); then that, or the trace of DMD, bounds λ_max.

    Examples
    --------
    >>> from dual2.functions import IndicatorPoint
    >>> equilibrate(np.diag([4.0, 1.0]), IndicatorPoint([0.0, 0.0])).D.tolist()
    [0.5, 1.0]
    >>> equilibrate(np.array([4.0, 1.0, 4.5]), IndicatorPoint([0.0, 0.0])).gamma
    0.475
    """
    diagonal = np.diag(M).copy() if M.ndim == 2 else M[:-1]
    p = len(diagonal)
    largest = float(diagonal.max(initial=0.0)) or 1.0
    log = -0.5 * np.log(np.where(diagonal > 0, diagonal, largest))
    groups = h.groups(p)
    count = np.bincount(groups)
    D = np.exp(np.bincount(groups, log) / np.maximum(count, 1))[groups]
    if M.ndim == 2:
        top = float(np.linalg.eigvalsh(D[:, None] * M * D)[-1])
    else:
        top = min(float(D**2 @ diagonal), float(np.max(D**2) * M[-1]))
    gamma = STEP_SAFETY / top if top > 0 else STEP_SAFETY
    return Scaling(D, gamma, 1.0 / (gamma * D**2))


def abs_bound_product(M: Array, lam: Array) -> Array:
    """|M|λ for λ >= 0; where only the diagonal is known, by |M_jk|² <= M_jj M_kk.

    Examples
    --------
    >>> abs_bound_product(np.array([4.0, 1.0, 5.0]), np.array([1.0, 1.0])).tolist()
    [6.0, 3.0]
    """
    if M.ndim == 2:
        return np.abs(M) @ lam
    roots = np.sqrt(M[:-1])
    return roots * float(roots @ lam)


def evaluate_fbe(
    h: Function, scaling: Scaling, lam: Array, S: Array, abs_products: Array, scalars: Array
) -> FBEPoint:
    """Residual and envelope at a multiplier."""
    return evaluate_fbe_batch(
        h, scaling, lam[None], S[None], abs_products[None], scalars[None]
    ).select(0)


def evaluate_fbe_batch(
    h: Function, scaling: Scaling, lam: Array, S: Array, abs_products: Array, scalars: Array
) -> FBEPoint:
    """Residual and envelope at several multipliers, one row each."""
    D, gamma, steps = scaling
    v = S + lam * steps
    y = h.prox(v, steps) if h.form is None else h.form._prox(v, steps)
    z = (v - y) / steps
    r = gamma * D * (y - S)
    value, product = inside_values(h, y), (z * y).sum(axis=-1)
    slope, square = (S * (z - lam)).sum(axis=-1), 0.5 * (r * r).sum(axis=-1) / gamma
    envelope = -scalars[:, VALUE] + product - value - slope + square
    magnitude = scalars[:, MAGNITUDE] + np.abs(product) + np.abs(value) + np.abs(slope) + square
    objective = scalars[:, OBJECTIVE] + np.abs(value)
    return FBEPoint(lam, S, abs_products, scalars, v, y, z, r, envelope, magnitude, objective)


def propose_trials(
    h: Function, scaling: Scaling, point: FBEPoint, total: Array, damping: float, candidates: Array
) -> Trials:
    """All trials of one sum: full, shortened and regularised Newton steps, ``candidates`` and z.

    With G = D(Σ A_i J_i A_iᵀ)D and P = I - Jac prox_{h/Γ}(v), the step d solves
    (I - P + γP(G + δI))d = -r for each δ, a Levenberg-Marquardt path whose every point is tried.
    """
    D, gamma, steps = scaling
    jac = prox_jacobian(h, point.v, steps)
    assert jac is not None, "the plan has asked for it"
    G = D[:, None] * total * D
    damped = [damping * factor for factor in DAMPING_FACTORS] if damping > 0 else []
    deltas = np.array([NEWTON_REGULARISATION, *REGULARISATIONS, *damped])
    if jac.ndim == 1:
        P = np.diag(1.0 - jac)
        base = np.diag(jac) + gamma * ((1.0 - jac)[:, None] * G)
    else:
        jac = dense(jac)
        P = np.eye(len(D)) - jac
        base = jac + gamma * (P @ G)
    with np.errstate(over="ignore", invalid="ignore"):
        d = _solve(base[None] + gamma * deltas[:, None, None] * P, -point.r)
    lengths = np.array(STEP_LENGTHS)
    short = np.outer(lengths, d[0]) - np.outer(1.0 - lengths, point.r)
    multipliers = np.vstack([point.lam + D * short, point.lam + D * d[1:], candidates, point.z])
    deltas = np.concatenate(
        [NEWTON_REGULARISATION / lengths, deltas[1:], np.zeros(len(candidates) + 1)]
    )
    multipliers[~np.isfinite(multipliers).all(axis=1)] = point.z
    kept = distinct(multipliers / D, point.lam / D)
    return Trials(multipliers[kept], deltas[kept])


def distinct(points: Array, origin: Array) -> Array:
    """Places of points that differ from all before them, beside their distance from the origin.

    The last one is always among them.

    Examples
    --------
    >>> distinct(np.array([[1.0], [1.001], [2.0], [1.0]]), np.array([0.0])).tolist()
    [0, 2, 3]
    """
    steps = points - origin
    with np.errstate(over="ignore", invalid="ignore"):
        products = steps @ steps.T
        squares = np.diag(products)
        distances2 = squares[:, None] + squares - 2.0 * products
        close = (distances2 <= DUPLICATE_RTOL**2 * squares).tolist()
    kept, last = [0], len(steps) - 1
    for k in range(1, last):
        if not any(close[j][k] for j in kept):
            kept.append(k)
    return np.array([*kept, last])


def _solve(matrices: Array, right: Array) -> Array:
    try:
        return np.linalg.solve(matrices, np.broadcast_to(right[:, None], (*matrices.shape[:2], 1)))[
            ..., 0
        ]
    except np.linalg.LinAlgError:
        return np.array([np.linalg.lstsq(m, right, rcond=None)[0] for m in matrices])


def choose_trial(
    old: FBEPoint, new: FBEPoint, best_residual: float, gamma: float, rounding_gain: Array
) -> int:
    """Which of the new points is taken; -1 if none improves anything.

    Rows that depend on one another leave directions in which every A_iᵀλ vanishes, and in which
    Newton steps of any length cost nothing. Where the rounding of a multiplier moves rows too far,
    ``rounding_gain`` above 1, others are taken if the envelope falls half as much for them; of
    those for which it falls most, the one of least rounding.
    """
    chosen = _by_descent(old, new, best_residual, gamma)
    fall = old.envelope - np.where(np.isfinite(new.envelope), new.envelope, np.inf)
    if chosen < 0 or rounding_gain[chosen] <= 1.0 or fall[chosen] <= _rounding_slack(old):
        return chosen
    most = float(np.where(rounding_gain <= 1.0, fall, -np.inf).max())
    if most < ENOUGH_DECREASE * fall[chosen]:
        return chosen
    return int(np.argmin(np.where(fall >= FULL_DECREASE * most, rounding_gain, np.inf)))


def _rounding_slack(old: FBEPoint) -> float:
    """What rounding makes of an envelope."""
    return 8.0 * EPS * max(old.magnitude, 1e-300)


def _by_descent(old: FBEPoint, new: FBEPoint, best_residual: float, gamma: float) -> int:
    slack = _rounding_slack(old)
    residuals, envelopes = new.residual, np.where(np.isfinite(new.envelope), new.envelope, np.inf)
    required = 1e-4 * (1.0 - STEP_SAFETY) / (4.0 * gamma) * old.residual**2
    halved = residuals[0] <= 0.5 * old.residual
    if halved and envelopes[0] <= old.envelope - required + slack:
        return 0
    ceiling = old.envelope + 1e-10 * new.magnitude[0]
    if residuals[0] <= 0.5 * best_residual and envelopes[0] <= ceiling:
        return 0
    lowest = int(np.argmin(envelopes))
    if envelopes[lowest] < old.envelope - slack:
        return lowest
    close = np.where(envelopes <= old.envelope + slack, residuals, np.inf)
    smallest = int(np.argmin(close))
    return smallest if close[smallest] < old.residual else -1


# -- row by row -----------------------------------------------------------------------------


def coordinate_candidates(
    h: Function, scaling: Scaling, points: FBEPoint, G: Array, diagonals: Array | None
) -> Array | None:
    """Multipliers that answer each row by itself, from all trials of a sum.

    A trial is taken or not as a whole, though it may be right for some rows and wrong for others.
    Where rows hardly influence each other (one balance in each period, say), the dual function is
    next to a sum of functions of one multiplier each, and the residual of a row grows with its own
    multiplier. So the trials bracket the multiplier of each row, and a Newton step from either end,
    or from where the residual is smallest, is a further trial: judged like all others, it can do no
    harm.

    ``G`` is that of the trial which was taken, ``diagonals`` are the diagonals of all, if known.
    None where rows do influence each other, or h couples them.
    """
    if diagonals is None or h.form is None or not is_diagonally_dominant(scaling, G):
        return None
    return coordinate_newton_steps(h, scaling, points, diagonals)


def is_diagonally_dominant(scaling: Scaling, G: Array) -> bool:
    """Whether rows hardly influence each other: no row of DGD is made of more than its diagonal.

    Examples
    --------
    >>> plain = Scaling(np.ones(2), 1.0, np.ones(2))
    >>> is_diagonally_dominant(plain, np.array([[2.0, 1.0], [1.0, 1.0]]))
    True
    >>> is_diagonally_dominant(plain, np.array([[2.0, 3.0], [3.0, 5.0]]))
    False
    """
    scaled = np.abs(scaling.D[:, None] * G * scaling.D)
    return bool((scaled.sum(axis=1) <= 2.0 * scaled.diagonal()).all())


def coordinate_newton_steps(
    h: Function, scaling: Scaling, points: FBEPoint, diagonals: Array
) -> Array:
    """(MAX_CANDIDATES, p): Newton steps row by row; ``diagonals`` are those of the trials' G.

    With the slope J + γ(1 - J)D²G_jj of a row's residual r_j, J the derivative of the prox of h,
    which splits by coordinate: λ_j - D_j r_j/slope, or the middle of the bracket if that is not in
    it.

    Examples
    --------
    Two rows with S(λ) = -λ, of which 3 and 5 are demanded; multipliers -2 and -6 have been tried:

    >>> from dual2.functions import IndicatorPoint
    >>> h, plain = IndicatorPoint([3.0, 5.0]), Scaling(np.ones(2), 0.9, np.ones(2) / 0.9)
    >>> lam = np.array([[-2.0, -2.0], [-6.0, -6.0]])
    >>> points = evaluate_fbe_batch(h, plain, lam, -lam, np.abs(lam), np.zeros((2, 7)))
    >>> coordinate_newton_steps(h, plain, points, np.ones((2, 2))).round(9).tolist()
    [[-3.0, -5.0], [-3.0, -5.0], [-3.0, -5.0]]
    """
    lam, r, row = points.lam, points.r, np.arange(points.lam.shape[1])
    finite = np.isfinite(points.v).all(axis=1, keepdims=True)
    above, below = (
        np.where(finite & (r >= 0), lam, np.inf),
        np.where(finite & (r <= 0), lam, -np.inf),
    )
    upper, lower = above.min(axis=0), below.max(axis=0)
    nearest = np.where(finite, np.abs(r), np.inf).argmin(axis=0)
    between = np.isfinite(upper) & np.isfinite(lower) & (lower <= upper)
    ends = below.argmax(axis=0), above.argmin(axis=0)
    point = np.array([*(np.where(between, end, nearest) for end in ends), nearest]), row
    jac = prox_jacobian(h, points.v[point], scaling.steps)
    assert jac is not None, "h splits by coordinate"
    slope = jac + scaling.gamma * (1.0 - jac) * (
        scaling.D**2 * diagonals[point] + NEWTON_REGULARISATION
    )
    steps = lam[point] - scaling.D * r[point] / slope
    lost = between & ~((lower <= steps) & (steps <= upper))
    lower, upper = np.where(between, lower, 0.0), np.where(between, upper, 0.0)
    return np.where(lost, lower + 0.5 * (upper - lower), steps)
