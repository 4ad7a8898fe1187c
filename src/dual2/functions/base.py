"""What a convex function can do: the contract shared by every f, g and h.

A function is stateless. It takes one vector of length d or several as rows (k, d). Subclasses
write the hooks ``_value``, ``_grad``, ``_prox``, … for arrays whose last axis is the vector, or
``_form`` alone if they are separable piecewise quadratics; the public methods here check shapes
and steps once, for all of them.
"""

from dataclasses import fields, is_dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, cast

import numpy as np
from numpy.typing import ArrayLike

from dual2.conic.curvature import View
from dual2.errors import CapabilityError, ProblemError
from dual2.functions.arguments import (
    Array,
    Entries,
    Groups,
    common_dim,
    describe,
    read_fields,
    read_points,
    read_steps,
)

if TYPE_CHECKING:
    from dual2.conic.blocks import BlockForm
    from dual2.functions.piecewise import PiecewiseQuadratic

TOLERANCE = 1e-9
"""Indicators are 0 up to this distance from the set, relative to max(1, size of the bound)."""


class Function:
    """A closed proper convex function on R^d with values in (-inf, inf].

    Attributes
    ----------
    dim : int or None
        The length d that the data demand; None if any length will do.
    mu, L : float
        Modulus of strong convexity and Lipschitz constant of the gradient; 0 and inf are legal.
    smooth, proximable : bool
        Whether ``grad`` and ``prox`` can be called.
    conjugate_smooth : bool
        Whether the conjugate has a gradient everywhere (then ``conjugate_grad`` gives it).
    form : PiecewiseQuadratic or None
        The function as a separable piecewise quadratic, if it is one.
    """

    splits: ClassVar[bool] = False
    """Whether f(x) = Σ_j f_j(x_j) without being a piecewise quadratic."""
    powers: ClassVar[dict[str, int]] = {}
    """Where a unit common to all coordinates enters: by which power each of these fields grows."""

    __array_ufunc__ = None  # so that numpy.float64(2) * f reaches __rmul__

    def __post_init__(self) -> None:
        read_fields(self)

    @property
    def dim(self) -> int | None:
        """The length that the data demand; None if any. Unless overridden that of the fields."""
        return self._length if self.form is None else self.form.dim

    @cached_property
    def _length(self) -> int | None:
        if not is_dataclass(self):
            return None
        return common_dim(self, **{field.name: getattr(self, field.name) for field in fields(self)})

    @property
    def mu(self) -> float:
        """Modulus of strong convexity."""
        return 0.0 if self.form is None else self.form.mu

    @property
    def L(self) -> float:
        """Lipschitz constant of the gradient; inf if there is none."""
        return np.inf if self.form is None else self.form.L

    @property
    def smooth(self) -> bool:
        """Whether the gradient exists everywhere and can be computed."""
        return type(self)._grad is not Function._grad if self.form is None else self.form.smooth

    @property
    def has_hessian(self) -> bool:
        """Whether the Hessian, perhaps a generalised one, can be computed everywhere."""
        own = type(self)._hessian is not Function._hessian
        return own if self.form is None else self.form.smooth

    @property
    def proximable(self) -> bool:
        """Whether the prox can be computed."""
        return self.form is not None or type(self)._prox is not Function._prox

    @property
    def conjugate_smooth(self) -> bool:
        """Whether the gradient of the conjugate exists everywhere and can be computed."""
        if self.form is not None:
            return self.form.conjugate_smooth
        return self.mu > 0 and type(self)._conjugate_grad is not Function._conjugate_grad

    @property
    def separable(self) -> bool:
        """Whether f(x) = Σ_j f_j(x_j)."""
        return self.splits or self.form is not None

    def groups(self, dim: int) -> Groups:
        """A number for each coordinate, the same for those that f does not separate.

        Examples
        --------
        >>> from dual2.functions import IndicatorBall, L1Norm, Stacked
        >>> Stacked([L1Norm(1.0), IndicatorBall(1.0)], [2, 3]).groups(5).tolist()
        [0, 1, 2, 2, 2]
        """
        return np.arange(dim, dtype=np.int64) * self.separable

    def rescaled(self, units: Array) -> "Function | None":
        """The function u ↦ f(u/units), one unit > 0 per coordinate; None if it is not at hand.

        Examples
        --------
        >>> from dual2.functions import IndicatorAtMost
        >>> IndicatorAtMost([1.0, 3.0]).rescaled(np.array([2.0, 0.5])).form.upper.tolist()
        [2.0, 1.5]
        """
        if self.form is not None:
            return self.form.rescaled(units)
        unit, own = one_unit(units), cast(Any, self)
        if unit is None or not self.powers:
            return None
        grown = {name: _grown(getattr(self, name), unit, k) for name, k in self.powers.items()}
        return replace(own, **grown)

    @cached_property
    def form(self) -> "PiecewiseQuadratic | None":
        """The function as a separable piecewise quadratic, if it is one."""
        return self._form()

    # -- oracles ------------------------------------------------------------------------------

    def value(self, x: ArrayLike) -> Any:
        """f(x): a float for a vector, one number per row for rows; inf outside the domain."""
        return _reduced(self._value(self._points(x)))

    def grad(self, x: ArrayLike) -> Array:
        """Gradient of f at x, of the same shape as x."""
        return self._grad(self._points(x))

    def prox(self, v: ArrayLike, step: Any) -> Array:
        """argmin_u step·f(u) + ½|u - v|².

        With one step per coordinate (the same within each of the ``groups``) it is the minimiser of
        Σ_groups step·f_group(u) + ½|u - v|².
        """
        points = self._points(v)
        return self._prox(points, read_steps(self, step, points.shape[-1]))

    def conjugate_value(self, w: ArrayLike) -> Any:
        """f*(w) = sup_x <w, x> - f(x)."""
        return _reduced(self._conjugate_value(self._points(w)))

    def conjugate_grad(self, w: ArrayLike) -> Array:
        """Gradient of f* at w: the x that attains the supremum, where it is unique."""
        return self._conjugate_grad(self._points(w))

    def domain_support(self, u: ArrayLike) -> Any:
        """sup {<u, x> : f(x) < inf}: how far the domain extends in direction u."""
        return _reduced(self._domain_support(self._points(u)))

    def recession(self, u: ArrayLike) -> Any:
        """lim_t f(x + t·u)/t, which is the ``domain_support`` of the conjugate."""
        return _reduced(self._recession(self._points(u)))

    # -- for interior-point methods -----------------------------------------------------------

    def blocks(self, dim: int) -> "BlockForm | None":
        """The block form on R^dim, see :mod:`dual2.conic.blocks`; None if there is none.

        Examples
        --------
        >>> from dual2.functions import L1Norm
        >>> L1Norm(2.0).blocks(1).pieces.slope.tolist()
        [-2.0, 2.0]
        """
        if self.dim not in (None, dim):
            raise ProblemError(
                f"{type(self).__name__}: a block form of length {dim} was asked for; its data "
                f"have length {self.dim}."
            )
        return self._blocks(dim)

    def why_no_blocks(self, dim: int) -> str | None:
        """Why ``blocks(dim)`` is None, in the user's words; None if it is not.

        Examples
        --------
        >>> from dual2.functions import Proximable
        >>> Proximable(abs).why_no_blocks(1)
        'of Proximable(abs) only the prox is known'
        """
        return self._why_no_blocks(dim) if self.blocks(dim) is None else None

    # -- calculus -----------------------------------------------------------------------------

    @property
    def conjugate(self) -> "Function":
        """The convex conjugate f*(w) = sup_x <w, x> - f(x), a function again."""
        from dual2.functions.calculus import Conjugate

        closed = None if self.form is None else self.form.closed_conjugate()
        return Conjugate(self) if closed is None else closed

    def __mul__(self, scale: float) -> "Function":
        return self.affine(scale=scale)

    __rmul__ = __mul__

    def shift(self, center: ArrayLike) -> "Function":
        """f(· - center)."""
        return self.affine(center=center)

    def tilt(self, slope: ArrayLike) -> "Function":
        """f + <slope, ·>."""
        return self.affine(slope=slope)

    def plus_quadratic(self, weight: float) -> "Function":
        """f + (weight/2)|·|²."""
        return self.affine(curvature=weight)

    def affine(
        self,
        scale: Any = 1.0,
        center: Any = 0.0,
        slope: Any = 0.0,
        curvature: Any = 0.0,
    ) -> "Function":
        """scale·f(x - center) + <slope, x> + (curvature/2)|x|², the step of every calculus rule.

        Parameters
        ----------
        scale : float
            Positive factor.
        center, slope : float or vector
            Shift of the argument and linear term.
        curvature : float
            Nonnegative weight of the added quadratic.
        """
        from dual2.functions.calculus import read_affine

        return self._affine(*read_affine(self, scale, center, slope, curvature))

    # -- hooks --------------------------------------------------------------------------------

    def _form(self) -> "PiecewiseQuadratic | None":
        return None

    def _blocks(self, dim: int) -> "BlockForm | None":
        """Of the form, else a smooth term if there is a Hessian."""
        from dual2.conic.blocks import BlockForm, smooth_term

        if self.form is not None:
            return self.form._blocks(dim)
        return BlockForm(dim, smooth=(smooth_term(self._view, dim),)) if self.has_hessian else None

    def _conjugate_blocks(self, dim: int) -> "BlockForm | None":
        from dual2.functions.conjugate_blocks import conjugate_of_pieces

        return None if self.form is None else conjugate_of_pieces(self.form.pieces(dim))

    def _why_no_blocks(self, dim: int) -> str:
        return f"{self!r} has no block form; write _hessian or _blocks in its class"

    def _hessian(self, x: Array) -> Array | None:
        if self.form is None or not self.form.smooth:
            return None
        return np.broadcast_to(self.form.curvature, x.shape)

    def _view(self, x: Array) -> View:
        """Value, gradient and Hessian at one point; overridden where they share terms."""
        return View(float(self._value(x)), self._grad(x), lambda: cast(Array, self._hessian(x)))

    def _needed(self, what: str, advice: str) -> "PiecewiseQuadratic":
        """The form, which answers where a hook is not written."""
        return self._lack(what, advice) if self.form is None else self.form

    def _value(self, x: Array) -> Array:
        return self._needed("no value", "write _value or _form")._value(x)

    def _grad(self, x: Array) -> Array:
        form = self._needed("no gradient", "use it where only its prox is needed (as g or h)")
        if not form.smooth:
            self._lack("no gradient: it has kinks or bounds", "use its prox (as g or h)")
        return form._grad(x)

    def _prox(self, v: Array, step: Entries) -> Array:
        form = self._needed("no prox", "use it where only its gradient is needed (as f)")
        return form._prox(v, step)

    def _conjugate_value(self, w: Array) -> Array:
        advice = "a duality gap cannot be formed with it"
        return self._needed("no closed-form conjugate", advice)._conjugate_value(w)

    def _conjugate_grad(self, w: Array) -> Array:
        advice = "add a quadratic (plus_quadratic) or use prox"
        return self._needed("no gradient of its conjugate", advice)._conjugate_grad(w)

    def _conjugate_prox(self, v: Array, step: Entries) -> Array:
        """Moreau: prox_{s f*}(v) = v - s·prox_{f/s}(v/s), unless the form knows better."""
        if self.form is not None:
            return self.form._conjugate_prox(v, step)
        return v - step * self._prox(v / step, 1.0 / step)

    def _domain_support(self, u: Array) -> Array:
        return support_of_all(u) if self.form is None else self.form._domain_support(u)

    def _recession(self, u: Array) -> Array:
        return support_of_all(u) if self.form is None else self.form._recession(u)

    def _affine(
        self, scale: float, center: Entries, slope: Entries, curvature: float
    ) -> "Function":
        from dual2.functions.calculus import Affined

        if self.form is not None:
            return self.form._affine(scale, center, slope, curvature)
        return Affined(self, scale, center, slope, curvature)

    def _lack(self, what: str, advice: str) -> NoReturn:
        raise CapabilityError(f"{self!r} has {what}; {advice}.")

    def _points(self, x: ArrayLike) -> Array:
        return read_points(self, x)

    def __repr__(self) -> str:
        return describe(self)


class Indicator(Function):
    """0 on a set and inf elsewhere: the conjugate is the set's support function."""

    def _conjugate_value(self, w: Array) -> Array:
        return self._domain_support(w)


class Support(Function):
    """σ(x) = sup {<w, x> : w in a set}; the conjugate is the set's indicator.

    Subclasses have a ``weight``, by which the set grows, and give the set as ``conjugate``.
    """

    weight: float
    powers: ClassVar = {"weight": -1}

    def _value(self, x: Array) -> Array:
        return self.conjugate._domain_support(x)

    def _prox(self, v: Array, step: Entries) -> Array:
        return self.conjugate._conjugate_prox(v, step)

    def _conjugate_value(self, w: Array) -> Array:
        return self.conjugate._value(w)

    def _conjugate_prox(self, v: Array, step: Entries) -> Array:
        return self.conjugate._prox(v, step)

    def _recession(self, u: Array) -> Array:
        return self._value(u)


def support_of_all(u: Array) -> Array:
    """Support function of the whole space: 0 at u = 0 (up to the tolerance), else inf."""
    return np.where(np.linalg.norm(u, axis=-1) <= TOLERANCE, 0.0, np.inf)


def reciprocal(constant: float) -> float:
    """1/constant with 1/0 = inf and 1/inf = 0: mu and L of a conjugate."""
    return np.inf if constant == 0 else 1.0 / constant


def one_unit(units: Array) -> float | None:
    """The unit of all coordinates if it is the same."""
    return float(units[0]) if np.all(units == units[0]) else None


def _grown(value: Entries, unit: float, power: int) -> Entries:
    return value * unit**power if power > 0 else value / unit**-power


def _reduced(values: Array) -> Any:
    return float(values) if np.ndim(values) == 0 else values
