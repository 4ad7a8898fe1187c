"""Negative logarithm and entropy: separable, with domains that their own growth keeps from zero.

Both need the root z of σ·z + κ·f'(z) = r. With σ = 1, κ = t·scale it is the prox of f; with σ = s,
κ = scale it gives the prox of f* as κ·f'(z), without the cancellation of v - s·z.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import wrightomega, xlogy

from dual2.conic.blocks import BlockForm, smooth_term
from dual2.conic.curvature import View
from dual2.functions.arguments import Array, Entries, Positive
from dual2.functions.base import TOLERANCE, Function, support_of_all
from dual2.functions.calculus import Affined


class Barrier(Function):
    """A separable function of positive numbers.

    Subclasses give ``root(σ, κ, r)``: the root z of σ·z + κ·f'(z) = r for scale 1, and κ·f'(z).
    """

    scale: Entries
    splits: ClassVar = True

    @abstractmethod
    def root(self, sigma: Entries, kappa: Entries, r: Array) -> tuple[Array, Array]:
        """The root z of sigma·z + kappa·f'(z) = r, f with scale 1, and kappa·f'(z)."""

    def _prox(self, v: Array, step: Entries) -> Array:
        return self.root(1.0, step * self.scale, v)[0]

    def _conjugate_prox(self, v: Array, step: Entries) -> Array:
        return self.root(step, self.scale, v)[1]

    @abstractmethod
    def _view(self, x: Array) -> View:
        """For x > 0."""

    def _blocks(self, dim: int) -> BlockForm:
        term = smooth_term(self._view, dim, lower=np.zeros(dim), start=np.ones(dim))
        return BlockForm(dim, smooth=(term,))

    def _domain_support(self, u: Array) -> Array:
        return np.where(u.max(axis=-1) > TOLERANCE, np.inf, 0.0)


@dataclass(frozen=True, eq=False, repr=False)
class NegativeLog(Barrier):
    """f(x) = -Σ_j scale_j·log(x_j) for x > 0, else inf.

    prox_{tf}(v) = (v + sqrt(v² + 4·t·scale))/2; f*(w) = -Σ_j scale_j·(1 + log(-w_j/scale_j)) for
    w < 0, else inf.

    Parameters
    ----------
    scale : float or vector, default 1
        Positive factor.

    Examples
    --------
    >>> NegativeLog().prox([0.0, 1.5], 1.0)
    array([1., 2.])
    """

    scale: Positive = 1.0

    def rescaled(self, units: Array) -> Function:
        """-Σ scale·log(u/units): the same and a constant."""
        return Affined(self, constant=self.scale * np.log(units))

    def root(self, sigma: Entries, kappa: Entries, r: Array) -> tuple[Array, Array]:
        """Of σ·z - κ/z = r; of the two expressions the one without cancellation."""
        size = np.abs(r) + np.sqrt(r * r + 4.0 * sigma * kappa)
        z = np.where(r >= 0, 0.5 * size / sigma, 2.0 * kappa / size)
        return z, -kappa / z

    def _view(self, x: Array) -> View:
        slope = -self.scale / x
        return View(float(self._value(x)), slope, lambda: -slope / x)

    def _conjugate_blocks(self, dim: int) -> BlockForm:
        def view(w: Array) -> View:
            slope = -self.scale / w
            return View(float(self._conjugate_value(w)), slope, lambda: -slope / w)

        start = np.broadcast_to(-np.asarray(self.scale), (dim,))
        term = smooth_term(view, dim, upper=np.zeros(dim), start=start)
        return BlockForm(dim, smooth=(term,))

    def _value(self, x: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            values = np.where(x > 0, -self.scale * np.log(x), np.inf)
        return values.sum(axis=-1)

    def _conjugate_value(self, w: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            values = np.where(w < 0, -self.scale * (1.0 + np.log(-w / self.scale)), np.inf)
        return values.sum(axis=-1)

    def _recession(self, u: Array) -> Array:
        return np.where(u.min(axis=-1) < -TOLERANCE, np.inf, 0.0)


@dataclass(frozen=True, eq=False, repr=False)
class Entropy(Barrier):
    """f(x) = Σ_j scale_j·x_j·log(x_j/reference_j) for x >= 0, else inf; 0·log(0) = 0.

    prox_{tf}(v) = κ·ω(v/κ - 1 - log(κ/reference)) with κ = t·scale and Wright's omega function;
    f*(w) = Σ_j scale_j·reference_j·exp(w_j/scale_j - 1). Entries down to -1e-9 count as 0.

    Parameters
    ----------
    reference : float or vector, default 1
        Positive.
    scale : float or vector, default 1
        Positive factor.

    Examples
    --------
    >>> Entropy().prox([2.0], 1.0)
    array([1.])
    >>> Entropy().conjugate.value([1.0, 1.0])
    2.0
    """

    reference: Positive = 1.0
    scale: Positive = 1.0

    def rescaled(self, units: Array) -> Function:
        """Σ (scale/units)·u·log(u/(units·reference))."""
        return Entropy(self.reference * units, self.scale / units)

    def root(self, sigma: Entries, kappa: Entries, r: Array) -> tuple[Array, Array]:
        """Of σ·z + κ·(log(z/reference) + 1) = r with z = κ·ω/σ, ω + log(ω) = r/κ - 1 - level."""
        level = np.log(kappa / sigma / self.reference)
        omega = wrightomega(r / kappa - 1.0 - level)
        large = omega > 1.0
        slope = np.where(
            large, np.log(np.where(large, omega, 1.0)) + level + 1.0, r / kappa - omega
        )
        return kappa / sigma * omega, kappa * slope

    def _view(self, x: Array) -> View:
        level = np.log(x / self.reference)
        value = float((self.scale * x * level).sum())
        return View(value, self.scale * (level + 1.0), lambda: self.scale / x)

    def _conjugate_blocks(self, dim: int) -> BlockForm:
        def view(w: Array) -> View:
            slope = self.reference * np.exp(w / self.scale - 1.0)
            return View(float((self.scale * slope).sum()), slope, lambda: slope / self.scale)

        return BlockForm(dim, smooth=(smooth_term(view, dim),))

    def _value(self, x: Array) -> Array:
        inside = np.maximum(x, 0.0)
        values = self.scale * xlogy(inside, inside / self.reference)
        return np.where(x < -TOLERANCE, np.inf, values).sum(axis=-1)

    def _conjugate_value(self, w: Array) -> Array:
        with np.errstate(over="ignore"):
            values = self.scale * self.reference * np.exp(w / self.scale - 1.0)
        return values.sum(axis=-1)

    def _recession(self, u: Array) -> Array:
        return support_of_all(u)
