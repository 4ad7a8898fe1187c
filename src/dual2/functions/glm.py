"""Logistic and Poisson losses: separable, with proxes that are roots found by Newton's method.

Both need the root z of σ·z + κ·h'(z) = r. With σ = 1, κ = t it is the prox of h; with σ = s,
κ = 1 it gives the prox of h* as h'(z), without the cancellation of v - s·z.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import expit, wrightomega, xlogy

from dual2.conic.blocks import BlockForm, smooth_term
from dual2.conic.curvature import View
from dual2.functions.arguments import Array, Entries, Labels, Nonnegative, Positive
from dual2.functions.base import TOLERANCE, Function


@dataclass(frozen=True, eq=False, repr=False)
class LogisticLoss(Function):
    """h(z) = scale·Σ_j log(1 + exp(-y_j·z_j)) for labels y_j = ±1.

    h*(w) = scale·Σ_j p_j·log(p_j) + (1 - p_j)·log(1 - p_j) with p = -y·w/scale in [0, 1], else
    inf. The prox solves z - t·scale·y/(1 + exp(y·z)) = v by Newton's method to full accuracy.

    Parameters
    ----------
    labels : float or vector
        Entries -1 or 1.
    scale : float or vector, default 1
        Positive factor.

    Examples
    --------
    >>> h = LogisticLoss([1.0, -1.0])
    >>> h.value([0.0, 0.0])
    1.3862943611198906
    >>> h.conjugate.prox([0.0, 0.0], 1.0)
    array([-0.40105814,  0.40105814])
    """

    labels: Labels
    scale: Positive = 1.0
    splits: ClassVar = True

    @property
    def L(self) -> float:
        """scale/4, the largest if they differ."""
        return 0.25 * float(np.max(self.scale))

    def _value(self, x: Array) -> Array:
        return (self.scale * np.logaddexp(0.0, -self.labels * x)).sum(axis=-1)

    def _grad(self, x: Array) -> Array:
        return -self.scale * self.labels * expit(-self.labels * x)

    def _hessian(self, x: Array) -> Array:
        return self._view(x).bend()

    def _view(self, x: Array) -> View:
        margin = self.labels * x
        e = np.exp(-np.abs(margin))  # with m = |margin|: log(1 + exp(-m)), 1/(1 + exp(m))
        u = 1.0 + e
        rest = np.log(u) + (e - (u - 1.0)) / u  # the second term is what rounding took from u
        value = float((self.scale * (rest - np.minimum(margin, 0.0))).sum())
        slope = np.where(margin > 0, e, 1.0) / u
        gradient = -self.scale * self.labels * slope
        return View(value, gradient, lambda: self.scale * (e / (u * u)))

    def _prox(self, v: Array, step: Entries) -> Array:
        margin, _ = logistic_root(1.0, step * self.scale, self.labels * v)
        return self.labels * margin

    def _conjugate_prox(self, v: Array, step: Entries) -> Array:
        _, probability = logistic_root(step, self.scale, self.labels * v)
        return -self.labels * self.scale * probability

    def _conjugate_value(self, w: Array) -> Array:
        p = -self.labels * w / self.scale
        slack = TOLERANCE * np.maximum(1.0, 1.0 / self.scale)
        outside = (p < -slack) | (p > 1.0 + slack)
        p = np.clip(p, 0.0, 1.0)
        entropy = xlogy(p, p) + xlogy(1 - p, 1 - p)
        return np.where(outside, np.inf, self.scale * entropy).sum(axis=-1)

    def _conjugate_grad(self, w: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            p = -self.labels * w / self.scale
            return self.labels * (np.log1p(-p) - np.log(p))

    def _conjugate_blocks(self, dim: int) -> BlockForm:
        def view(w: Array) -> View:
            p = -self.labels * w / self.scale
            value = float(self._conjugate_value(w))
            return View(value, self._conjugate_grad(w), lambda: 1.0 / (self.scale * p * (1.0 - p)))

        end = np.broadcast_to(-self.labels * np.asarray(self.scale), (dim,))
        lower, upper = np.minimum(end, 0.0), np.maximum(end, 0.0)
        term = smooth_term(view, dim, lower=lower, upper=upper, start=0.5 * end)
        return BlockForm(dim, smooth=(term,))

    def _recession(self, u: Array) -> Array:
        return (self.scale * np.maximum(-self.labels * u, 0.0)).sum(axis=-1)


@dataclass(frozen=True, eq=False, repr=False)
class PoissonLoss(Function):
    """h(z) = scale·Σ_j exp(z_j) - k_j·z_j for counts k_j >= 0 and log-rates z.

    With s = w/scale + k: h*(w) = scale·Σ_j s_j·log(s_j) - s_j for s >= 0, else inf. The prox is
    an expression in the Wright omega function. exp is not L-smooth: L = inf although the
    gradient exists.

    Parameters
    ----------
    counts : float or vector
        Entries at least 0.
    scale : float or vector, default 1
        Positive factor.

    Examples
    --------
    >>> PoissonLoss([1.0, 2.0]).grad([0.0, 0.0])
    array([ 0., -1.])
    >>> PoissonLoss(0.0).prox([1.0], 1.0)
    array([0.])
    """

    counts: Nonnegative
    scale: Positive = 1.0
    splits: ClassVar = True

    def _value(self, x: Array) -> Array:
        with np.errstate(over="ignore"):
            return (self.scale * (np.exp(x) - self.counts * x)).sum(axis=-1)

    def _grad(self, x: Array) -> Array:
        with np.errstate(over="ignore"):
            return self.scale * (np.exp(x) - self.counts)

    def _hessian(self, x: Array) -> Array:
        return self.scale * np.exp(x)

    def _prox(self, v: Array, step: Entries) -> Array:
        return poisson_root(1.0, step * self.scale, self.counts, v)[0]

    def _conjugate_prox(self, v: Array, step: Entries) -> Array:
        return poisson_root(step, self.scale, self.counts, v)[1]

    def _conjugate_value(self, w: Array) -> Array:
        s = w / self.scale + self.counts
        slack = TOLERANCE * np.maximum(1.0, self.counts)
        outside = s < -slack
        s = np.maximum(s, 0.0)
        return np.where(outside, np.inf, self.scale * (xlogy(s, s) - s)).sum(axis=-1)

    def _conjugate_grad(self, w: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log(w / self.scale + self.counts)

    def _conjugate_blocks(self, dim: int) -> BlockForm:
        def view(w: Array) -> View:
            mass = w + self.scale * self.counts
            value = float(self._conjugate_value(w))
            return View(value, self._conjugate_grad(w), lambda: 1.0 / mass)

        scale = np.broadcast_to(np.asarray(self.scale), (dim,))
        lower = -scale * self.counts
        return BlockForm(dim, smooth=(smooth_term(view, dim, lower=lower, start=lower + scale),))

    def _recession(self, u: Array) -> Array:
        growth = np.where(u > TOLERANCE, np.inf, -self.counts * np.minimum(u, 0.0))
        return (self.scale * growth).sum(axis=-1)


def logistic_root(sigma: Entries, kappa: Entries, rho: Array) -> tuple[Array, Array]:
    """Roots m of sigma·m - kappa/(1 + exp(m)) = rho, and the probabilities 1/(1 + exp(m)).

    Taken nonnegative by the symmetry m -> -m. A start that is at most 1 away follows from
    1/(1 + exp(m)) ~ exp(-m); steps of fourth order lead to the root (three, with the last).
    """
    mirrored = rho < -0.5 * kappa
    rho = np.where(mirrored, -rho - kappa, rho)
    ratio = rho / sigma
    slack = np.log(kappa / sigma)
    rough = np.where(slack - ratio > 1.0, slack - np.log(np.maximum(slack - ratio, 1.0)), 0.0)
    m = np.maximum(np.maximum(ratio, 0.0), rough)
    for _ in range(8):
        e = np.exp(-m)
        p = e / (1.0 + e)
        bend = p / (1.0 + e)
        slope = sigma + kappa * bend
        move = (rho + kappa * p - sigma * m) / slope
        share = kappa * bend / slope
        turn = -move * share * (1.0 - 2.0 * p)
        third = move**2 * share * (1.0 - 6.0 * bend) / 6.0
        m = np.maximum(m + move * (1.0 + 0.5 * turn) / (1.0 + turn + third), 0.0)
        if np.all(np.abs(move) <= 1e-9 + 4e-16 * m):
            break
    return np.where(mirrored, -m, m), np.where(mirrored, expit(m), expit(-m))


def poisson_root(sigma: Entries, kappa: Entries, counts: Entries, r: Array) -> tuple[Array, Array]:
    """Roots z of sigma·z + kappa·(exp(z) - counts) = r, and kappa·(exp(z) - counts).

    ω = kappa·exp(z)/sigma solves ω + log(ω) = (r + kappa·counts)/sigma + log(kappa/sigma).
    Where ω is large z = log(sigma·ω/kappa) and the slope is r - sigma·z; where it is small
    z = (r + kappa·counts)/sigma - ω and the slope is sigma·ω - kappa·counts.
    """
    base = (r + kappa * counts) / sigma
    ratio = np.log(kappa / sigma)
    omega = wrightomega(base + ratio)
    large = omega > 1.0
    z = np.where(large, np.log(np.where(large, omega, 1.0)) - ratio, base - omega)
    return z, np.where(large, r - sigma * z, sigma * omega - kappa * counts)
