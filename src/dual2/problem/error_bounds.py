"""What a pair (x, λ) proves: duality gap, bound on the error, infeasibility.

Sums and maxima over the agents are agreed where these live in several processes; only the matrix
Σ A_i A_iᵀ/L_i is then left out, which would reveal the A_i.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dual2.errors import CapabilityError
from dual2.problem.ingredients import (
    coupling_response,
    coupling_step,
    finite,
    norm,
    norms_of,
    step_constants,
)

if TYPE_CHECKING:
    from dual2.functions import Function
    from dual2.problem.problem import Problem

Vector = NDArray[np.float64]

RIGID = 1e100
"""Stands for an infinite modulus of strong convexity (a point that cannot move)."""

EPS = float(np.finfo(np.float64).eps)

CERTAIN = 1e-10
"""Part of its terms' magnitudes below which the sum of a separation proves nothing."""

GRAM_LIMIT = 2000
"""Coupling length up to which the p × p matrix Σ A_i A_iᵀ/L_i is formed."""


@dataclass(frozen=True)
class ErrorBound:
    """A bound on |x − x*|, or None; and a sentence that says where it comes from or why not."""

    value: float | None
    reason: str


@dataclass(frozen=True, eq=False)
class ProximalStep:
    r"""One proximal gradient step of every agent at the price λ.

    x̂_i = prox_{g_i/L_i}(x_i − (∇f_i(x_i) + A_iᵀλ)/L_i) and
    r_i = L_i(x_i − x̂_i) + ∇f_i(x̂_i) − ∇f_i(x_i), an element of the subdifferential of
    f_i + g_i + ⟨A_iᵀλ, ·⟩ at x̂_i; ŝ = Σ_i A_i x̂_i. ``noise`` bounds the rounding errors of |r_i|;
    ``r`` has the rows of one group of agents after the other.
    """

    r: list[Vector]
    noise: Vector
    s: Vector
    moved: float


class OwnSteps(NamedTuple):
    """A :class:`ProximalStep` before sums are agreed on; rows are |x_i − x̂_i|² and A_i x̂_i."""

    r: list[Vector]
    noise: Vector
    rows: Vector


@dataclass(frozen=True, eq=False)
class DualPoint:
    """A price λ, the norms |r_i| that belong to it, and (if known) some y ∈ ∂h*(λ).

    ``bracket`` is h(ŝ) + h*(λ) − ⟨λ, ŝ⟩ of :func:`fenchel_young`. Over all agents, ``gap`` is
    Σ_i |r_i|²/(2μ_i), infinite if some r_i beyond rounding level has μ_i = 0, and ``residual`` is
    |r|.
    """

    lam: Vector
    residuals: Vector
    y: Vector | None
    bracket: float
    gap: float = np.inf
    residual: float = np.inf


@dataclass(frozen=True, eq=False)
class Evidence:
    """What the bounds are made of; agreed in one maximum and two sums.

    ``mu`` is the smallest μ_i, ``most`` the largest of the numbers that came with the question,
    ``sigma2`` is Σ_i |A_i|², ``value`` Σ_i f_i(x_i) + g_i(x_i) if that was asked for (NaN where a
    user's function came without its value). There is no ``step`` where x or λ are not finite.
    """

    mu: float
    most: Vector
    value: float | None = None
    step: ProximalStep | None = None
    points: tuple[DualPoint, ...] = ()
    sigma2: float = 0.0


def gap(problem: Problem, x: list[Vector], lam: Vector) -> float:
    r"""Upper bound on the duality gap P(x̂) − D(λ) after one proximal step, see `ProximalStep`.

    f_i + g_i is μ_i-strongly convex, so that r_i bounds how far x̂_i is from the best response to λ:

        P(x̂) − D(λ) ≤ [h(ŝ) + h*(λ) − ⟨λ, ŝ⟩] + Σ_i |r_i|²/(2μ_i),

    plus 8ε(|h(ŝ)| + |h*(λ)| + |⟨λ, ŝ⟩|) for rounding. It is infinite if ŝ ∉ dom h, λ ∉ dom h*
    or r_i ≠ 0 with μ_i = 0. The same is tried with prices λ + (ŝ − y)/t, y = prox_{th}(ŝ + tλ),
    which are in dom h* by construction, and the smallest value is returned. Domains are meant up
    to the tolerance of the indicators; a bracket made negative by that counts with its modulus.
    """
    return _gap(gather_evidence(problem, x, lam))


def _gap(known: Evidence) -> float:
    return min((point.bracket + point.gap for point in known.points), default=np.inf)


def x_error_bound(problem: Problem, x: list[Vector], lam: Vector) -> ErrorBound:
    r"""Smallest available bound on |x − x*|, all agents together, or the reason for none.

    With x̂, ŝ and r of `ProximalStep`, |x − x*| ≤ |x − x̂| + |x̂ − x*|, and |x̂ − x*| =: e is
    bounded in two ways. Let f_i + g_i be μ_i-strongly convex, μ = min_i μ_i > 0, and (x*, λ*) a
    saddle point.

    *Primal*. Strong convexity once at x* (where −A_iᵀλ* is a subgradient) and once at x̂ (where
    r_i − A_iᵀλ is one) add up to μe² ≤ |r|e + ⟨λ* − λ, ŝ − s*⟩, and convexity of h at s* together
    with h(s*) ≥ ⟨λ, s*⟩ − h*(λ) to ⟨λ* − λ, ŝ − s*⟩ ≤ G := h(ŝ) + h*(λ) − ⟨λ, ŝ⟩. Hence

        e ≤ |r|/(2μ) + √(|r|²/(4μ²) + G/μ),

    which for equal μ_i is never more than √(2·gap/μ).

    *Saddle point*. If the dual function is μ_φ-strongly convex, Lemma 12 of the paper for the
    centralised saddle point problem gives, for y ∈ ∂h*(λ) and σ the norm of [A_1 … A_n],

        e ≤ σ/(μ μ_φ)·|ŝ − y| + (1/μ + σ²/(μ²μ_φ))·|r|.

    Here μ_φ = μ_h* + λ_min(Σ_i A_i A_iᵀ/L_i) over the agents with L_i-smooth f_i + g_i (g_i = 0,
    for instance) and a matrix A_i that is known.
    """
    return _error_bound(problem, gather_evidence(problem, x, lam))


def _error_bound(problem: Problem, known: Evidence) -> ErrorBound:
    mu, step = known.mu, known.step
    if mu <= 0:
        flat = problem.first(strong_convexity(problem) <= 0)
        return ErrorBound(
            None,
            f"f + g of agent {flat} is not strongly convex, so that x* need not be unique.",
        )
    if step is None:
        return ErrorBound(None, "The point has entries that are not finite.")
    bounds = [
        (primal_bound(known.points, mu), "strong convexity of the objective"),
        (saddle_bound(problem, known, step), "strong convexity of the dual"),
    ]
    value, source = min(bounds)
    if np.isfinite(value):
        return ErrorBound(step.moved + value, f"The bound follows from {source}.")
    return ErrorBound(
        None,
        "The coupling Σ A_i x_i lies outside the domain of h, or the price outside that of its "
        "conjugate, and the dual function is not known to be strongly convex (h is not smooth "
        "and the agents with smooth f + g do not span all rows of the coupling).",
    )


def certify(
    problem: Problem, x: list[Vector], lam: Vector, numbers: Vector
) -> tuple[float, ErrorBound, Evidence]:
    """The gap, the error bound, and what they were made of.

    The largest of ``numbers``, one row of each agent, and Σ_i f_i(x_i) + g_i(x_i) are agreed on the
    way: between distant machines every agreement costs a journey.
    """
    known = gather_evidence(problem, x, lam, numbers, valued=True)
    return _gap(known), _error_bound(problem, known), known


def separates(problem: Problem, u: Vector) -> float:
    r"""Sup over the domains of ⟨u, y − Σ_i A_i x_i⟩, |u| = 1; negative proves infeasibility.

    Every x with x_i ∈ dom g_i has ⟨u, Σ_i A_i x_i⟩ ≥ −Σ_i σ_i(−A_iᵀu) and every y ∈ dom h has
    ⟨u, y⟩ ≤ σ_h(u), where σ_i and σ_h are the support functions of dom g_i and dom h. If

        Σ_i σ_i(−A_iᵀu) + σ_h(u) < 0,

    the hyperplane with normal u strictly separates the two sets, no x can satisfy the coupling,
    and the problem is infeasible (Farkas' lemma is the polyhedral case, where such a u exists for
    every infeasible problem). u is scaled to unit length; A_iᵀu at rounding level counts as zero,
    and so does a sum below 1e-10 of the magnitudes of its terms: a demand that equals the capacity
    exactly can be met.
    """
    length = norm(u)
    if not (np.isfinite(length) and length > 0):
        return np.inf
    u = u / length
    supports = []
    for agent, size in zip(problem.agents, np.sqrt(problem.sigma.max2), strict=True):
        minus_ATu = -agent.adjoint(u)
        minus_ATu[np.abs(minus_ATu) <= 8 * EPS * size] = 0.0
        supports.append([float(agent.g.domain_support(minus_ATu))])
    rows = [[value, abs(value)] for (value,) in supports]
    own, (total, sizes) = float(problem.h.domain_support(u)), problem.total(rows)
    value = float(own + total)
    return value if not value < 0 or value < -CERTAIN * (abs(own) + sizes) else 0.0


# -- ingredients ----------------------------------------------------------------------------


def gather_evidence(
    problem: Problem,
    x: list[Vector],
    lam: Vector,
    numbers: Vector | None = None,
    valued: bool = False,
) -> Evidence:
    """Agree on all that :func:`gap` and :func:`x_error_bound` need."""
    strong, count = strong_convexity(problem), len(problem.agents)
    known = finite(lam, np.concatenate(x))
    own = own_steps(problem, x, lam) if known else None
    values = _values(problem, x) if valued and known else np.zeros((count, 2))
    numbers = np.zeros((count, 0)) if numbers is None else numbers
    odd = np.full(count, not known)
    somewhere, lowest, *rest = problem.largest(np.column_stack([odd, -strong, numbers]))
    mu, most = -float(lowest), np.array(rest)
    if somewhere or own is None:
        return Evidence(mu, most)
    moved, *s = problem.total(own.rows)
    step = ProximalStep(own.r, own.noise, np.array(s), float(np.sqrt(moved)))
    points = dual_points(problem, step, lam)
    columns = [response_gaps(point, strong, step.noise) for point in points]
    columns += [point.residuals**2 for point in points]
    spread = mu > 0 and dual_strong_convexity(problem) > 0
    columns.append(problem.sizes.sigma.max2 if spread else np.zeros(count))
    columns += [values] if valued else []
    total = problem.total(np.column_stack(columns))
    gaps, squares = total[: 2 * len(points)].reshape(2, len(points))
    sigma2, *rest = total[2 * len(points) :].tolist()
    value = None if not rest else rest[0] if rest[1] == 0 else np.nan
    agreed = zip(points, gaps.tolist(), np.sqrt(squares).tolist(), strict=True)
    found = tuple(replace(point, gap=gap, residual=size) for point, gap, size in agreed)
    return Evidence(mu, most, value, step, found, sigma2)


def _values(problem: Problem, x: list[Vector]) -> Vector:
    """(agents, 2): f_i(x_i) + g_i(x_i), and 1 where a user's function came without its value."""
    try:
        return np.pad(problem.values(x), ((0, 0), (0, 1)))
    except CapabilityError:
        return np.tile([0.0, 1.0], (len(problem.agents), 1))


def own_steps(problem: Problem, x: list[Vector], lam: Vector) -> OwnSteps:
    """Take the step of :class:`ProximalStep` for every agent of this process."""
    residuals, noise = [], np.empty(len(problem.agents))
    rows = np.empty((len(problem.agents), problem.p + 1))
    for group in problem.groups:
        X = group.take(x)
        gradient, ATy = group.f.gradients(X), group.A.adjoint(lam)
        L = step_constants(group, X, gradient, ATy)
        new = group.g.prox(X - (gradient + ATy) / L[:, None], 1.0 / L[:, None])
        residuals.append(L[:, None] * (X - new) + group.f.gradients(new) - gradient)
        forces = 2 * norms_of(gradient) + norms_of(ATy)
        noise[group.at] = 4 * EPS * (L * (norms_of(X) + norms_of(new)) + forces)
        rows[group.at, 0], rows[group.at, 1:] = norms_of(X - new) ** 2, group.A.apply(new)
    return OwnSteps(residuals, noise, rows)


def dual_points(problem: Problem, step: ProximalStep, lam: Vector) -> list[DualPoint]:
    """The price itself and its images λ + (ŝ − y)/t under the coupling's prox, for a few t."""
    s, h = step.s, problem.h.form or problem.h
    value = _number(h._value, s)
    first = _lengths(problem, step, None) + step.noise
    points = [DualPoint(lam, first, None, fenchel_young(h, s, lam, value))]
    base = coupling_step(s, lam)
    for t in (0.01 * base, base, 100.0 * base):
        y = coupling_response(problem.h, s, lam, t)
        change = (s - y) / t if problem.dual_term.prox_of_h else None
        price, residuals = lam if change is None else lam + change, _lengths(problem, step, change)
        bracket = fenchel_young(h, s, price, value)
        points.append(DualPoint(price, residuals + step.noise, y, bracket))
    return points


def _lengths(problem: Problem, step: ProximalStep, change: Vector | None) -> Vector:
    """|r_i| once the price has changed."""
    found = np.empty(len(problem.agents))
    for group, r in zip(problem.groups, step.r, strict=True):
        found[group.at] = norms_of(r if change is None else r + group.A.adjoint(change))
    return found


def fenchel_young(h: Function, s: Vector, lam: Vector, value: float) -> float:
    """|h(s) + h*(λ) − ⟨λ, s⟩| plus its rounding allowance; infinite where h has no values.

    ``value`` is h(s).
    """
    terms = value, _number(h._conjugate_value, lam), -float(lam @ s)
    if not np.isfinite(terms).all():
        return np.inf
    return abs(sum(terms)) + 8 * EPS * sum(map(abs, terms))


def _number(function: Callable[[Vector], Any], x: Vector) -> float:
    """A value of h or of its conjugate; infinite where a user gave none."""
    try:
        return float(function(x))
    except CapabilityError:
        return np.inf


def response_gaps(point: DualPoint, mu: Vector, noise: Vector) -> Vector:
    """|r_i|²/(2μ_i), infinite if r_i is beyond rounding level and μ_i = 0."""
    flat = np.where(point.residuals > 2.0 * noise, np.inf, 0.0)
    return np.where(mu > 0, point.residuals**2 / (2.0 * np.where(mu > 0, mu, 1.0)), flat)


def primal_bound(points: tuple[DualPoint, ...], mu: float) -> float:
    """The *primal* bound of :func:`x_error_bound` on |x̂ − x*|."""
    bounds = []
    for point in points:
        half = point.residual / (2.0 * mu)
        bounds.append(half + np.sqrt(half**2 + point.bracket / mu))
    return float(min(bounds))


def saddle_bound(problem: Problem, known: Evidence, step: ProximalStep) -> float:
    """The *saddle point* bound of :func:`x_error_bound` on |x̂ − x*|."""
    mu, sigma2, mu_phi = known.mu, known.sigma2, dual_strong_convexity(problem)
    if mu_phi <= 0:
        return np.inf
    bounds = [
        np.sqrt(sigma2) / (mu * mu_phi) * norm(step.s - point.y)
        + (1.0 / mu + sigma2 / (mu**2 * mu_phi)) * point.residual
        for point in known.points
        if point.y is not None
    ]
    return float(min(bounds))


def dual_strong_convexity(problem: Problem) -> float:
    """μ_φ = μ_h* + λ_min(Σ A_i A_iᵀ/L_i), the sum over agents with L_i-smooth f_i + g_i."""
    conjugate = 1.0 / max(problem.dual_term.L_of_h, 1.0 / RIGID)
    if problem.p > GRAM_LIMIT or not problem.complete:
        return conjugate
    curvatures = [group.f.L + group.g.L for group in problem.groups]
    smooth = [
        (L > 0) & (L < np.inf) & group.A.known
        for L, group in zip(curvatures, problem.groups, strict=True)
    ]
    columns = [g.dim * int(own.sum()) for g, own in zip(problem.groups, smooth, strict=True)]
    if sum(columns) < problem.p:  # the matrix is singular
        return conjugate
    gram = np.zeros((problem.p, problem.p))
    for group, L, own in zip(problem.groups, curvatures, smooth, strict=True):
        if own.any():
            gram += group.A.gram(np.divide(1.0, L, out=np.zeros_like(L), where=own))
    values = np.linalg.eigvalsh(gram)
    own = values[0] if values[0] > problem.p * EPS * values[-1] * 100 else 0.0
    return float(conjugate + own)


def strong_convexity(problem: Problem) -> Vector:
    """μ_i of f_i + g_i for every agent (infinite where x_i is fixed, cut off at ``RIGID``)."""
    found = np.empty(len(problem.agents))
    for group in problem.groups:
        found[group.at] = np.minimum(group.f.mu + group.g.mu, RIGID)
    return found
