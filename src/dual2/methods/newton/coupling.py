"""What everybody computes alike from the totals: the price's residual, the envelope, the steps.

With S = Σ A_i x_i(λ) and a diagonal Γ = γD² below the inverse of the dual function's curvature, a
proximal gradient step from λ is z = Γ(v - y), y = prox_{h/Γ}(v), v = S + λ/Γ: then z ∈ ∂h(y). Its
residual r = D⁻¹(λ - z) is computed as γD(y - S), without cancellation, and the forward-backward
envelope ψ(λ) + h*(z) - <S, z - λ> + |r|²/(2γ) with h*(z) = <z, y> - h(y) decreases to the optimal
value: it is what steps are judged by (Themelis, Stella & Patrinos, 2018).
"""

from typing import NamedTuple

import numpy as np

from dual2.functions import Function
from dual2.functions.derivatives import dense, prox_jacobian
from dual2.functions.domains import inside_value
from dual2.methods.newton.message import MAGNITUDE, OBJECTIVE, VALUE

Array = np.ndarray
EPS = float(np.finfo(float).eps)
DECREASE = 0.95
"""γ times the largest curvature of the scaled dual function."""
FIRST = 1e-13
"""Regularisation of the full Newton step."""
REGULAR = (1e-11, 1e-9, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
AROUND = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Regularisations of further trials: fixed ones, and multiples of the last one that was needed."""
LENGTHS = (1.0, 0.5, 0.25, 0.1, 0.03, 2.5, 6.0, 16.0)
"""Step lengths tried along the full Newton step."""


class Scaling(NamedTuple):
    """Row scales D, step γ, and steps 1/Γ of the prox of h, one per row."""

    D: Array
    gamma: float
    steps: Array


class Point(NamedTuple):
    """A price with what the sum told about it, and what follows."""

    lam: Array
    S: Array
    load: Array
    numbers: Array
    v: Array
    y: Array
    z: Array
    r: Array
    envelope: float
    magnitude: float
    objective: float

    @property
    def residual(self) -> float:
        """|r|."""
        return float(np.linalg.norm(self.r))


class Trials(NamedTuple):
    """Prices to try, and the regularisation (or step length) behind each."""

    prices: Array
    deltas: Array
    full: Array


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
    gamma = DECREASE / top if top > 0 else DECREASE
    return Scaling(D, gamma, 1.0 / (gamma * D**2))


def look(h: Function, scaling: Scaling, lam: Array, S: Array, load: Array, numbers: Array) -> Point:
    """Residual and envelope at a price."""
    D, gamma, steps = scaling
    v = S + lam * steps
    y = h.prox(v, steps)
    z = (v - y) / steps
    r = gamma * D * (y - S)
    value, product = inside_value(h, y), float(z @ y)
    slope, square = float(S @ (z - lam)), 0.5 * float(r @ r) / gamma
    envelope = -float(numbers[VALUE]) + product - value - slope + square
    magnitude = float(numbers[MAGNITUDE]) + abs(product) + abs(value) + abs(slope) + square
    objective = float(numbers[OBJECTIVE]) + abs(value)
    return Point(lam, S, load, numbers, v, y, z, r, envelope, magnitude, objective)


def propose(h: Function, scaling: Scaling, at: Point, total: Array, around: float) -> Trials:
    """All prices of one sum: full and shortened Newton steps, regularised ones, and z.

    With G = D(Σ A_i J_i A_iᵀ)D and P = I - Jac prox_{h/Γ}(v), the step d solves
    (I - P + γP(G + δI))d = -r for each δ, a Levenberg-Marquardt path whose every point is tried.
    """
    D, gamma, steps = scaling
    jac = prox_jacobian(h, at.v, steps)
    assert jac is not None, "the plan has asked for it"
    P, unit = np.eye(len(D)) - dense(jac), np.eye(len(D))
    G = D[:, None] * total * D
    more = [around * factor for factor in AROUND] if around > 0 else []
    deltas = np.array([FIRST, *REGULAR, *more])
    base = unit - P + gamma * (P @ G)
    with np.errstate(over="ignore", invalid="ignore"):
        d = _solve(base[None] + gamma * deltas[:, None, None] * P, -at.r)
    lengths = np.array(LENGTHS)
    short = np.outer(lengths, d[0]) - np.outer(1.0 - lengths, at.r)
    prices = np.vstack([at.lam + D * short, at.lam + D * d[1:], at.z])
    deltas = np.concatenate([FIRST / lengths, deltas[1:], [0.0]])
    kept = np.isfinite(prices).all(axis=1)
    prices[~kept] = at.z
    full = np.zeros(len(prices), dtype=bool)
    full[0] = True
    return Trials(prices, deltas, full)


def _solve(matrices: Array, right: Array) -> Array:
    try:
        return np.linalg.solve(matrices, np.broadcast_to(right[:, None], (*matrices.shape[:2], 1)))[
            ..., 0
        ]
    except np.linalg.LinAlgError:
        return np.array([np.linalg.lstsq(m, right, rcond=None)[0] for m in matrices])


def choose(old: Point, new: list[Point], best: float, gamma: float) -> int:
    """Which trial is taken; -1 if none improves anything."""
    slack = 8.0 * EPS * max(old.magnitude, 1e-300)
    first = new[0]
    ahead = 1e-4 * (1.0 - DECREASE) / (4.0 * gamma) * old.residual**2
    halved = first.residual <= 0.5 * old.residual
    if halved and first.envelope <= old.envelope - ahead + slack:
        return 0
    if first.residual <= 0.5 * best and first.envelope <= old.envelope + 1e-10 * first.magnitude:
        return 0
    envelopes = np.array([p.envelope if np.isfinite(p.envelope) else np.inf for p in new])
    lowest = int(np.argmin(envelopes))
    if envelopes[lowest] < old.envelope - slack:
        return lowest
    residuals = [
        p.residual if e <= old.envelope + slack else np.inf
        for p, e in zip(new, envelopes, strict=True)
    ]
    smallest = int(np.argmin(residuals))
    return smallest if residuals[smallest] < old.residual else -1
