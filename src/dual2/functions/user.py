"""The user's own Python functions, and objects of other packages, as functions."""

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from dual2.conic.curvature import View
from dual2.errors import ProblemError
from dual2.functions.arguments import Array, Entries, number, refuse
from dual2.functions.base import TOLERANCE, Function, reciprocal

Oracle = Callable[..., Any]


class Smooth(Function):
    """A smooth convex function given by its gradient.

    Parameters
    ----------
    grad : callable
        ``grad(x)`` for a vector x.
    mu, L : float
        Modulus of strong convexity and Lipschitz constant of the gradient, 0 <= mu <= L.
    value : callable, optional
        ``value(x)``; without it objectives and gaps are not available.
    hessian : callable, optional
        ``hessian(x)``: the matrix of second derivatives, or its diagonal as a vector. With it the
        interior-point method and dual Newton serve the function. Shape and symmetry are checked
        at every call; the first one is also compared with differences of the gradient.

    Examples
    --------
    >>> f = Smooth(lambda x: 3 * x, mu=3.0, L=3.0, value=lambda x: 1.5 * (x @ x))
    >>> f.grad([1.0, 2.0]), f.value([1.0, 2.0])
    (array([3., 6.]), 7.5)
    """

    def __init__(
        self,
        grad: Oracle,
        mu: float,
        L: float,
        value: Oracle | None = None,
        hessian: Oracle | None = None,
    ) -> None:
        self._user_grad = _callable(self, "grad", grad)
        self._user_value = value and _callable(self, "value", value)
        self._user_hessian = hessian and _callable(self, "hessian", hessian)
        self._mu, self._L = _moduli(self, mu, L)
        self._compared = False

    @property
    def mu(self) -> float:
        """As given."""
        return self._mu

    @property
    def L(self) -> float:
        """As given."""
        return self._L

    def _value(self, x: Array) -> Array:
        return _value_of_rows(self, self._user_value, x, "value")

    def _grad(self, x: Array) -> Array:
        return _vector_of_rows(self, "grad", self._user_grad, x)

    @property
    def has_hessian(self) -> bool:
        """Whether ``hessian`` was given."""
        return self._user_hessian is not None

    def _hessian(self, x: Array) -> Array | None:
        if self._user_hessian is None:
            return None
        found = read_hessian(self, self._user_hessian(x.copy()), len(x))
        if not self._compared:
            compare_hessian(self, found, x)
            self._compared = True
        return found

    def _view(self, x: Array) -> View:
        value = math.nan if self._user_value is None else float(self._value(x))
        return View(value, self._grad(x), lambda: cast(Array, self._hessian(x)))

    def _why_no_blocks(self, dim: int) -> str:
        return f"of {self!r} no second derivatives are known; pass hessian= to Smooth"

    def __repr__(self) -> str:
        return f"Smooth({_name(self._user_grad)}, mu={self.mu:g}, L={self.L:g})"


class Proximable(Function):
    """A convex function given by its prox.

    Parameters
    ----------
    prox : callable
        ``prox(v, step)`` = argmin_u step·f(u) + ½|u - v|² for a vector v.
    value : callable, optional
        ``value(x)``; without it objectives and gaps are not available.

    Examples
    --------
    >>> import numpy as np
    >>> g = Proximable(lambda v, step: np.maximum(v, 0.0))
    >>> g.prox([-1.0, 2.0], 1.0)
    array([0., 2.])
    """

    def __init__(self, prox: Oracle, value: Oracle | None = None) -> None:
        self._user_prox = _callable(self, "prox", prox)
        self._user_value = value and _callable(self, "value", value)

    def _value(self, x: Array) -> Array:
        return _value_of_rows(self, self._user_value, x, "value")

    def _prox(self, v: Array, step: Entries) -> Array:
        return _vector_of_rows(self, "prox", lambda row: self._user_prox(row, step), v)

    def _why_no_blocks(self, dim: int) -> str:
        return f"of {self!r} only the prox is known"

    def __repr__(self) -> str:
        return f"Proximable({_name(self._user_prox)})"


class ConjugateSmooth(Function):
    """A function h known only through its smooth conjugate h*.

    h has neither gradient nor prox; methods that use the gradient of h* accept it.

    Parameters
    ----------
    grad : callable
        ``grad(w)``, the gradient of h* at a vector w.
    mu, L : float
        Moduli of h*, 0 <= mu <= L; h itself has 1/L and 1/mu.
    value : callable, optional
        ``value(z)`` = h(z).
    conjugate_value : callable, optional
        ``conjugate_value(w)`` = h*(w).

    Examples
    --------
    >>> h = ConjugateSmooth(lambda w: w + 1.0, mu=1.0, L=1.0)
    >>> h.conjugate.grad([0.0, 2.0])
    array([1., 3.])
    >>> h.proximable, h.conjugate.smooth
    (False, True)
    """

    def __init__(
        self,
        grad: Oracle,
        mu: float,
        L: float,
        value: Oracle | None = None,
        conjugate_value: Oracle | None = None,
    ) -> None:
        self._user_grad = _callable(self, "grad", grad)
        self._user_value = value and _callable(self, "value", value)
        self._user_conjugate = conjugate_value and _callable(
            self, "conjugate_value", conjugate_value
        )
        self._dual_mu, self._dual_L = _moduli(self, mu, L)

    @property
    def mu(self) -> float:
        """1/L of the conjugate."""
        return reciprocal(self._dual_L)

    @property
    def L(self) -> float:
        """1/mu of the conjugate."""
        return reciprocal(self._dual_mu)

    @property
    def conjugate_smooth(self) -> bool:
        """Always."""
        return True

    def _value(self, x: Array) -> Array:
        return _value_of_rows(self, self._user_value, x, "value")

    def _conjugate_value(self, w: Array) -> Array:
        return _value_of_rows(self, self._user_conjugate, w, "conjugate_value")

    def _conjugate_grad(self, w: Array) -> Array:
        return _vector_of_rows(self, "grad", self._user_grad, w)

    def _why_no_blocks(self, dim: int) -> str:
        return f"of {self!r} only the gradient of the conjugate is known"

    def __repr__(self) -> str:
        name, mu, L = _name(self._user_grad), self._dual_mu, self._dual_L
        return f"ConjugateSmooth({name}, mu={mu:g}, L={L:g})"


def as_function(obj: Any) -> Function:
    """The object as a ``Function``: itself, or an adapter around a foreign one.

    Accepted are functions of this package, pyproximal operators (``obj.prox(x, tau)`` and
    ``obj(x)``) and odl functionals (``obj.proximal(tau)(x)`` and ``obj(x)``).

    Parameters
    ----------
    obj : object
        What the user passed.

    Examples
    --------
    >>> from dual2.functions import Zero
    >>> as_function(Zero())
    Zero()
    """
    if isinstance(obj, Function):
        return obj
    if isinstance(obj, type):
        raise ProblemError(
            f"The class {obj.__name__} was given; expected an object of it. Write "
            f"{obj.__name__}(...) with its arguments."
        )
    value = obj if callable(obj) else None
    proximal, prox = getattr(obj, "proximal", None), getattr(obj, "prox", None)
    if callable(proximal):
        return Proximable(_OdlProx(proximal), value)
    if callable(prox):
        return Proximable(prox, value and _PyproximalValue(value, prox))
    raise ProblemError(
        f"{type(obj).__name__} is not a function that can be minimised. Expected a dual2 "
        "function, or an object with prox(x, tau) (pyproximal) or proximal(tau) (odl); wrap your "
        "own Python functions in Smooth(grad, mu, L) or Proximable(prox)."
    )


class _OdlProx:
    """prox(v, step) from odl's proximal(step)(v)."""

    def __init__(self, proximal: Oracle) -> None:
        self.proximal = proximal

    def __call__(self, v: Array, step: float) -> Array:
        return np.asarray(self.proximal(step)(v))


class _PyproximalValue:
    """f(x) from a pyproximal object; its sets tell, exactly, whether x is inside."""

    def __init__(self, value: Oracle, prox: Oracle) -> None:
        self.value, self.prox = value, prox

    def __call__(self, x: Array) -> Any:
        found = self.value(x)
        if not isinstance(found, bool | np.bool_):
            return found
        away = 0.0 if found else np.linalg.norm(x - self.prox(x, 1.0))
        return 0.0 if away <= TOLERANCE * max(1.0, float(np.linalg.norm(x))) else np.inf


def read_hessian(owner: Function, given: Any, dim: int) -> Array:
    """What a user's function returned as Hessian, checked: a symmetric matrix or a diagonal."""
    written = given.toarray() if hasattr(given, "toarray") else given
    found = np.asarray(_real_and_finite(owner, written), dtype=np.float64)
    if found.shape not in ((dim,), (dim, dim)):
        raise ProblemError(
            f"{owner!r}: hessian returned shape {found.shape} for an argument of shape ({dim},); "
            f"expected a matrix ({dim}, {dim}), or its diagonal ({dim},)."
        )
    if found.ndim == 2:
        off = np.abs(found - found.T)
        if off.max() > 1e-8 * np.abs(found).max():
            i, j = np.unravel_index(int(off.argmax()), found.shape)
            raise ProblemError(
                f"{owner!r}: hessian returned a matrix that is not symmetric: [{i}, {j}] is "
                f"{found[i, j]:g} and [{j}, {i}] is {found[j, i]:g}. Return (H + H.T)/2."
            )
    return found


def _real_and_finite(owner: Function, given: Any) -> Array:
    """Finite real numbers, or an error that names the Hessian."""
    found = np.asarray(given)
    if found.dtype.kind not in "biuf" or not np.isfinite(found).all():
        raise ProblemError(
            f"{owner!r}: hessian returned {found.dtype} numbers that are not all real and finite; "
            "expected a symmetric matrix, or its diagonal."
        )
    return found


def compare_hessian(owner: Function, found: Array, x: Array) -> None:
    """Refuse a Hessian that disagrees with differences of the gradient along one direction.

    The allowance covers kinks of the gradient far away and rounding of the differences; a wrong
    factor or sign does not pass.
    """
    way = np.cos(np.arange(1.0, len(x) + 1.0))
    step = 1e-5 * max(1.0, float(np.linalg.norm(x))) / float(np.linalg.norm(way))
    ahead, behind = owner._grad(x + step * way), owner._grad(x - step * way)
    expected = (ahead - behind) / (2.0 * step)
    along = found * way if found.ndim == 1 else found @ way
    size = max(float(np.abs(along).max()), float(np.abs(expected).max()))
    noise = 1e-15 * max(float(np.abs(ahead).max()), float(np.abs(behind).max())) / step
    off = np.abs(along - expected)
    if off.max() > 1e-2 * size + 1e2 * noise:
        j = int(off.argmax())
        raise ProblemError(
            f"{owner!r}: hessian and grad disagree: along one direction entry {j} of the Hessian "
            f"times it is {along[j]:g}, differences of grad give {expected[j]:g}. Repair one of "
            "the two functions."
        )


def _callable(owner: Function, name: str, value: Any) -> Oracle:
    if not callable(value):
        raise ProblemError(
            f"{type(owner).__name__}: {name} is {type(value).__name__}; expected a Python function."
        )
    return value


def _moduli(owner: Function, mu: Any, L: Any) -> tuple[float, float]:
    low = number(owner, "mu", mu, least=0.0)
    high = number(owner, "L", L, finite=False)
    refuse(owner, "L", high, lambda v: v < low, f"at least mu = {low:g}")
    return low, high


def _name(oracle: Oracle) -> str:
    return getattr(oracle, "__qualname__", type(oracle).__name__)


def _value_of_rows(owner: Function, oracle: Oracle | None, x: Array, name: str) -> Array:
    if oracle is None:
        owner._lack(f"no values: {name}= was not given", f"pass {name}=... to use them")
    if x.ndim == 1:
        return np.asarray(_number(owner, name, oracle(x.copy())))
    return np.array([_number(owner, name, oracle(row.copy())) for row in x])


def _number(owner: Function, name: str, value: Any) -> float:
    """What a user's function returned as its value: a number, or an array of one."""
    try:
        if np.iscomplexobj(value):
            raise TypeError("it is complex")
        return float(value if np.ndim(value) == 0 else np.asarray(value).item())
    except (TypeError, ValueError) as error:
        raise ProblemError(
            f"{owner!r}: {name} returned {type(value).__name__}; expected one number ({error})."
        ) from error


def _vector_of_rows(owner: Function, name: str, oracle: Oracle, x: Array) -> Array:
    if x.ndim == 2:
        rows = [_vector_of_rows(owner, name, oracle, row) for row in x]
        return np.array(rows).reshape(x.shape)
    answer = np.asarray(oracle(x.copy()))
    if answer.dtype.kind not in "biuf":
        raise ProblemError(
            f"{owner!r}: {name} returned numbers of the type {answer.dtype}; expected real ones."
        )
    out = answer.astype(np.float64, copy=False)
    if out.shape != x.shape:
        raise ProblemError(
            f"{owner!r}: {name} returned shape {out.shape} for an argument of shape {x.shape}; "
            "expected the same shape."
        )
    return out
