"""The user's own Python functions, and objects of other packages, as functions."""

from collections.abc import Callable
from typing import Any

import numpy as np

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

    Examples
    --------
    >>> f = Smooth(lambda x: 3 * x, mu=3.0, L=3.0, value=lambda x: 1.5 * (x @ x))
    >>> f.grad([1.0, 2.0]), f.value([1.0, 2.0])
    (array([3., 6.]), 7.5)
    """

    def __init__(self, grad: Oracle, mu: float, L: float, value: Oracle | None = None) -> None:
        self._user_grad = _callable(self, "grad", grad)
        self._user_value = value and _callable(self, "value", value)
        self._mu, self._L = _moduli(self, mu, L)

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
        return float(value if np.ndim(value) == 0 else np.asarray(value).item())
    except (TypeError, ValueError) as error:
        raise ProblemError(
            f"{owner!r}: {name} returned {type(value).__name__}; expected one number ({error})."
        ) from error


def _vector_of_rows(owner: Function, name: str, oracle: Oracle, x: Array) -> Array:
    if x.ndim == 2:
        rows = [_vector_of_rows(owner, name, oracle, row) for row in x]
        return np.array(rows).reshape(x.shape)
    out = np.asarray(oracle(x.copy()), dtype=np.float64)
    if out.shape != x.shape:
        raise ProblemError(
            f"{owner!r}: {name} returned shape {out.shape} for an argument of shape {x.shape}; "
            "expected the same shape."
        )
    return out
