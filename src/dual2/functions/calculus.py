"""The two operations that turn one function into another: an affine change, and conjugation.

What survives: ``Affined`` keeps smoothness and proximability, its mu and L are
scale·mu + curvature and scale·L + curvature; ``Conjugate`` turns mu into 1/L and L into 1/mu.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dual2.conic.blocks import BlockForm
from dual2.errors import ProblemError
from dual2.functions.arguments import Array, Entries, Groups, common_dim, entries, number
from dual2.functions.base import Function, one_unit, reciprocal, support_of_all


def read_affine(
    function: Function, scale: Any, center: Any, slope: Any, curvature: Any
) -> tuple[float, Entries, Entries, float]:
    """The arguments of ``Function.affine`` as numbers and vectors, checked."""
    owner = f"affine change of {type(function).__name__}"
    read = (
        number(owner, "scale", scale, above=0.0),
        entries(owner, "center", center),
        entries(owner, "slope", slope),
        number(owner, "curvature", curvature, least=0.0),
    )
    dim = common_dim(owner, center=read[1], slope=read[2])
    if None not in (dim, function.dim) and dim != function.dim:
        raise ProblemError(
            f"{owner}: a vector of length {dim} was given; the function has dimension "
            f"{function.dim}."
        )
    return read


@dataclass(frozen=True, eq=False, repr=False)
class Affined(Function):
    """F(x) = c·f(x - a) + <b, x> + (q/2)|x|² + k: what scaling, shifting, tilting lead to.

    Its prox is that of f: with κ = 1 + t·q,

        prox_{tF}(v) = a + prox_{(tc/κ) f}((v - t·b)/κ - a),

    and for q = 0 its conjugate is F*(w) = c·f*((w - b)/c) + <w - b, a> - k. Applied twice it
    collapses into one.

    Parameters
    ----------
    function : Function
        The function f.
    scale, center, slope, curvature : float, vector, vector, float
        c > 0, a, b and q >= 0.
    constant : float or vector
        Constant per coordinate; k is its sum.

    Examples
    --------
    >>> from dual2.functions import L2Norm
    >>> f = 2 * L2Norm(1.0).shift([1.0, 0.0])
    >>> f.value([4.0, 4.0])
    10.0
    >>> f.prox([4.0, 4.0], 0.5)
    array([3.4, 3.2])
    """

    function: Function
    scale: float = 1.0
    center: Entries = 0.0
    slope: Entries = 0.0
    curvature: float = 0.0
    constant: Entries = 0.0

    @property
    def dim(self) -> int | None:
        """The dimension of f, or the length of a vector among a and b."""
        return self._dim

    @cached_property
    def _dim(self) -> int | None:
        own = common_dim(self, center=self.center, slope=self.slope, constant=self.constant)
        return own if self.function.dim is None else self.function.dim

    @property
    def separable(self) -> bool:
        """Whether f is."""
        return self.function.separable

    def groups(self, dim: int) -> Groups:
        """Those of f."""
        return self.function.groups(dim)

    def rescaled(self, units: Array) -> Function | None:
        """The same change of f in those units; with q > 0 for one unit only."""
        inner, unit = self.function.rescaled(units), one_unit(units)
        if self.form is not None or inner is None or (self.curvature and unit is None):
            return super().rescaled(units)
        curvature = self.curvature / unit**2 if unit else 0.0
        center, slope = self.center * units, self.slope / units
        return Affined(inner, self.scale, center, slope, curvature, self.constant)

    @property
    def mu(self) -> float:
        """c·mu_f + q."""
        return self.scale * self.function.mu + self.curvature

    @property
    def L(self) -> float:
        """c·L_f + q."""
        return self.scale * self.function.L + self.curvature

    @property
    def smooth(self) -> bool:
        """As f."""
        return self.function.smooth

    @property
    def proximable(self) -> bool:
        """As f."""
        return self.function.proximable

    @property
    def conjugate_smooth(self) -> bool:
        """As f; with q > 0 a prox of f suffices."""
        return self.proximable if self.curvature > 0 else self.function.conjugate_smooth

    def _value(self, x: Array) -> Array:
        rest = (self.slope + 0.5 * self.curvature * x) * x + self.constant
        return self.scale * self.function._value(x - self.center) + rest.sum(axis=-1)

    def _grad(self, x: Array) -> Array:
        inner = self.function._grad(x - self.center)
        return self.scale * inner + self.slope + self.curvature * x

    @property
    def has_hessian(self) -> bool:
        """As f."""
        return self.function.has_hessian

    def _hessian(self, x: Array) -> Array | None:
        inner = self.function._hessian(x - self.center)
        if inner is None or inner.ndim == 1:
            return None if inner is None else self.scale * inner + self.curvature
        return self.scale * inner + self.curvature * np.eye(inner.shape[-1])

    def _prox(self, v: Array, step: Entries) -> Array:
        kappa = 1.0 + step * self.curvature
        inner = (v - step * self.slope) / kappa - self.center
        return self.center + self.function._prox(inner, step * self.scale / kappa)

    def _conjugate_value(self, w: Array) -> Array:
        if self.curvature > 0:
            x = self._conjugate_grad(w)
            return (w * x).sum(axis=-1) - self._value(x)
        rest = (w - self.slope) * self.center - self.constant
        inner = self.function._conjugate_value((w - self.slope) / self.scale)
        return self.scale * inner + rest.sum(axis=-1)

    def _conjugate_grad(self, w: Array) -> Array:
        if self.curvature > 0:
            inner = (w - self.slope) / self.curvature - self.center
            return self.center + self.function._prox(inner, self.scale / self.curvature)
        return self.center + self.function._conjugate_grad((w - self.slope) / self.scale)

    def _conjugate_prox(self, v: Array, step: Entries) -> Array:
        sigma = step + self.curvature
        rest = v - self.slope - sigma * self.center
        inner = self.scale * self.function._conjugate_prox(rest / self.scale, sigma / self.scale)
        if self.curvature == 0:
            return inner + self.slope
        return inner + self.slope + self.curvature * ((rest - inner) / sigma + self.center)

    def _domain_support(self, u: Array) -> Array:
        return self.function._domain_support(u) + (u * self.center).sum(axis=-1)

    def _recession(self, u: Array) -> Array:
        if self.curvature > 0:
            return support_of_all(u)
        return self.scale * self.function._recession(u) + (u * self.slope).sum(axis=-1)

    def _blocks(self, dim: int) -> BlockForm | None:
        inner = self.function.blocks(dim)
        if inner is None:
            return None
        constant = float(np.broadcast_to(self.constant, (dim,)).sum())
        moved = inner.scaled(self.scale).shifted(self.center)
        return moved.plus(self.slope, self.curvature, constant)

    def _why_no_blocks(self, dim: int) -> str:
        return self.function._why_no_blocks(dim)

    def _conjugate_blocks(self, dim: int) -> BlockForm | None:
        """F*(w) = c·f*((w - b)/c) + <w - b, a> - k; with q > 0 there is no closed form."""
        inner = self.function.conjugate.blocks(dim)
        if inner is None or self.curvature > 0:
            return None
        a, b = (np.broadcast_to(entry, (dim,)) for entry in (self.center, self.slope))
        constant = -float(np.broadcast_to(self.constant, (dim,)).sum() + a @ b)
        return inner.stretched(self.scale).shifted(b).plus(slope=a, constant=constant)

    def _affine(self, scale: float, center: Entries, slope: Entries, curvature: float) -> Function:
        return Affined(
            self.function,
            scale * self.scale,
            self.center + center,
            scale * (self.slope - self.curvature * center) + slope,
            scale * self.curvature + curvature,
            scale * (self.constant - (self.slope - 0.5 * self.curvature * center) * center),
        )


@dataclass(frozen=True, eq=False, repr=False)
class Conjugate(Function):
    """f*(w) = sup_x <w, x> - f(x), by the closed forms that f itself provides.

    The prox follows from f by Moreau's identity, prox_{s f*}(v) = v - s·prox_{f/s}(v/s), or more
    accurately where f knows how. The conjugate of the conjugate is f itself, the same object.

    Parameters
    ----------
    function : Function
        The function f.

    Examples
    --------
    >>> from dual2.functions import IndicatorSimplex
    >>> largest = IndicatorSimplex().conjugate  # the largest entry
    >>> largest.value([1.0, 3.0, 2.0])
    3.0
    >>> largest.conjugate
    IndicatorSimplex()
    """

    function: Function

    @property
    def dim(self) -> int | None:
        """As f."""
        return self.function.dim

    @property
    def separable(self) -> bool:
        """Whether f is."""
        return self.function.separable

    def groups(self, dim: int) -> Groups:
        """Those of f."""
        return self.function.groups(dim)

    @property
    def mu(self) -> float:
        """1/L_f."""
        return reciprocal(self.function.L)

    @property
    def L(self) -> float:
        """1/mu_f."""
        return reciprocal(self.function.mu)

    @property
    def smooth(self) -> bool:
        """Whether f offers the gradient of its conjugate."""
        return self.function.conjugate_smooth

    @property
    def proximable(self) -> bool:
        """As f, by Moreau's identity."""
        return self.function.proximable

    @property
    def conjugate_smooth(self) -> bool:
        """Whether f is smooth."""
        return self.function.smooth

    @property
    def conjugate(self) -> Function:
        """The function f itself."""
        return self.function

    def _value(self, x: Array) -> Array:
        return self.function._conjugate_value(x)

    def _grad(self, x: Array) -> Array:
        return self.function._conjugate_grad(x)

    def _prox(self, v: Array, step: Entries) -> Array:
        return self.function._conjugate_prox(v, step)

    def _conjugate_value(self, w: Array) -> Array:
        return self.function._value(w)

    def _conjugate_grad(self, w: Array) -> Array:
        return self.function._grad(w)

    def _conjugate_prox(self, v: Array, step: Entries) -> Array:
        return self.function._prox(v, step)

    def _domain_support(self, u: Array) -> Array:
        return self.function._recession(u)

    def _recession(self, u: Array) -> Array:
        return self.function._domain_support(u)

    def _blocks(self, dim: int) -> BlockForm | None:
        return self.function._conjugate_blocks(dim)

    def _why_no_blocks(self, dim: int) -> str:
        return f"the conjugate of {self.function!r} has no closed form"
