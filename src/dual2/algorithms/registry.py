"""The methods by name, and how each is made ready for a problem."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from dual2.algorithms.plan import Plan, plan_id2a
from dual2.errors import CapabilityError, unknown_name


class Algorithm(Protocol):
    """What the driver asks of an algorithm."""

    @property
    def x(self) -> np.ndarray:
        """Flat primal iterate."""
        ...

    @property
    def duals(self) -> np.ndarray:
        """λ, one row per agent."""
        ...

    @property
    def rounds(self) -> int:
        """Exchanges of p-vectors so far."""
        ...

    def start(self, x: np.ndarray, lam: np.ndarray) -> None:
        """Begin from x (flat) and λ (n, p), and compile what will be needed."""
        ...

    def advance(self, rounds: int, seconds: float) -> None:
        """Continue until ``rounds`` exchanges or for about ``seconds``."""
        ...

    def oracle_calls(self) -> dict[str, int]:
        """Calls so far, by the names of :class:`dual2.Counts`."""
        ...

    def state(self) -> dict[str, Any]:
        """Everything needed to continue bit for bit."""
        ...

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a saved :meth:`state`."""
        ...


@dataclass(frozen=True)
class Method:
    """One row of the table of methods.

    Attributes
    ----------
    name : str
        The paper's name.
    plan : callable
        ``plan(problem, network, settings) -> Plan``.
    summary : str
        One sentence.
    requires : str
        Conditions on f, g and h.
    parameters : dict
        What the caller chose; theory chooses the rest.
    """

    name: str
    plan: Callable[..., Plan]
    summary: str
    requires: str
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, **parameters: Any) -> "Method":
        """The same method with parameters of the caller's choice."""
        return replace(self, parameters=parameters)


_REQUIRES = "f_i strongly convex and smooth; g_i prox-friendly; h with prox or smooth conjugate"
_ALL = [
    Method("iD2A", plan_id2a, "inexact dual² accelerated gradient method", _REQUIRES),
    Method("MiD2A", plan_id2a, "iD2A over a Chebyshev polynomial of the network", _REQUIRES),
]
METHODS = {method.name: method for method in _ALL}
"""Every method, by its name."""


def find_method(name: str | Method) -> Method:
    """Look a method up, ignoring case; ``"auto"`` is iD2A, an instance is itself.

    Examples
    --------
    >>> find_method("mid2a").name
    'MiD2A'
    """
    if isinstance(name, Method):
        return name
    if not isinstance(name, str):
        raise CapabilityError(f"method = {name!r} found; expected a name or a Method.")
    if name.lower() == "auto":
        return METHODS["iD2A"]
    for known, method in METHODS.items():
        if known.lower() == name.lower():
            return method
    raise CapabilityError(unknown_name("method", name, METHODS))
