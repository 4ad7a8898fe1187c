"""The methods by name, which of them can solve a problem, and the error if one cannot."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dual2.errors import CapabilityError, near_names, unknown_name
from dual2.functions import Function
from dual2.methods.allreduce.cocoa import COCOA, COLA
from dual2.methods.allreduce.fista import FISTA
from dual2.methods.allreduce.sharing import SHARING_METHODS
from dual2.methods.allreduce.vector_free import VECTOR_FREE
from dual2.methods.gossip.admm import ADMM_METHODS
from dual2.methods.gossip.apapc import APAPC_METHODS
from dual2.methods.gossip.id2a import plan_id2a
from dual2.methods.gossip.idea import IDEA_METHODS
from dual2.methods.gossip.nedic import NEDIC
from dual2.methods.gossip.npga_methods import NPGA_METHODS
from dual2.methods.interior_point import INTERIOR_POINT
from dual2.methods.method import Method
from dual2.methods.newton import LBFGS, NEWTON
from dual2.methods.parameters import SOLVE_ARGUMENTS, Parameter
from dual2.problem import Problem
from dual2.theory.conditions import DUAL_H, PROX_G, STRONG_F, Needs

_NEEDS = Needs(STRONG_F, PROX_G, DUAL_H)
_DECLARED = (
    Parameter("rho", "ρ* = L'/λ_max (theorem)"),
    Parameter("subsolver", "least predicted cost (theory)"),
    Parameter("accuracy", "relative (measured)"),
    Parameter("constants", "tight (theory)"),
    *(
        Parameter(name, "defaults")
        for name in ("cost", "eta", "c", "delta", "slack", "mapping", "restart", "check")
    ),
)
_POLYNOMIAL = (Parameter("degree", "K = ⌊√κ_C⌋ (theorem)"), Parameter("spectrum", "exact"))
_ID2A = Method(
    "iD2A", plan_id2a, "inexact dual² accelerated gradient method", _NEEDS, declared=_DECLARED
)
_MID2A = replace(
    _ID2A,
    name="MiD2A",
    summary="iD2A over a Chebyshev polynomial of the network",
    rounds="K",
    vectors="K",
    declared=_DECLARED + _POLYNOMIAL,
)
_ALL = [
    _ID2A,
    _MID2A,
    *NPGA_METHODS,
    *APAPC_METHODS,
    NEDIC,
    *ADMM_METHODS,
    *IDEA_METHODS,
    COLA,
    COCOA,
    *SHARING_METHODS,
    FISTA,
    VECTOR_FREE,
    NEWTON,
    INTERIOR_POINT,
    LBFGS,
]
METHODS = {method.name: method for method in _ALL}
"""Every method, by its name; aliases lead to the same row."""
AUTO = "auto"
"""What ``solve`` takes for the name of a method: its own choice, see ``dual2.solving.choice``."""


def find_method(name: str | Method) -> Method:
    """Look a method up, ignoring case; an instance is itself.

    Examples
    --------
    >>> find_method("mid2a").name, find_method("DCPA").name
    ('MiD2A', 'NPGA-P2D2')
    """
    if isinstance(name, Method):
        return name
    if not isinstance(name, str):
        raise CapabilityError(f"method = {name!r} found; expected a name or a Method.")
    if name.lower() == AUTO:
        raise CapabilityError(
            "method = 'auto' found where one must be named: only solve chooses, for a problem and "
            "a network. 'dual2 methods' lists the names."
        )
    names = {alias: method for method in _ALL for alias in (method.name, *method.aliases)}
    for known, method in names.items():
        if known.lower() == name.lower():
            return method
    raise CapabilityError(unknown_name("method", name, names))


def able_methods(problem: Problem) -> list[str]:
    """Names of the methods that can solve a problem as it is.

    Examples
    --------
    >>> import dual2 as d2
    >>> agents = [d2.Agent([[1.0]], d2.SquaredNorm(1.0), d2.L1Norm(1.0))] * 2
    >>> names = able_methods(d2.Problem(agents, d2.SquaredLoss([1.0])))
    >>> "NPGA-ED" in names, "DCDA" in names
    (True, False)
    """
    return [method.name for method in _ALL if not method.lack(problem)]


def require(method: Method, problem: Problem) -> None:
    """Refuse a problem outside the method's class: what fails, and which methods would work.

    Raises
    ------
    CapabilityError
        If the problem lacks something that the method needs.
    """
    lack = method.lack(problem)
    if not lack:
        return
    if steep := problem.first_lack([_steep(agent.f) for agent in problem.agents], "f has L = inf"):
        raise CapabilityError(f"No method here can solve this problem: {steep}.")
    able = able_methods(problem)
    advice = f"These methods can: {', '.join(able)}." if able else "No method here can, as it is."
    raise CapabilityError(f"{method.name} cannot solve this problem: {lack}. {advice}")


def untaken_options(options: Sequence[str], able: Sequence[Method]) -> CapabilityError:
    """The error for options that none of the ``able`` methods takes: who does, or what was meant.

    Examples
    --------
    >>> print(untaken_options(["stepp"], [METHODS["L-BFGS"]]))
    Unknown option 'stepp'. Did you mean 'step' (of Nedic)? Known without a method's name: options
    of one of L-BFGS (max_sums); to solve: method, ... lists those of other methods.
    """
    takers: dict[str, list[str]] = defaultdict(list)
    for method in _ALL:
        for name in method.options:
            takers[name].append(method.name)
    owners = dict.fromkeys(SOLVE_ARGUMENTS, "solve itself")
    owners |= {name: _few(methods) for name, methods in takers.items()}
    strange = next((name for name in options if name not in owners), None)
    if strange is None:
        why = "; ".join(f"{name} is an option of {owners[name]}" for name in options) + "."
    else:
        near = " or ".join(f"{k!r} (of {owners[k]})" for k in near_names(strange, owners, 3))
        why = f"Unknown option {strange!r}." + (f" Did you mean {near}?" if near else "")
    known = ", ".join(f"{method.name} ({', '.join(method.options)})" for method in able)
    return CapabilityError(
        f"{why} Known without a method's name: options of one of {known}; to solve: "
        f"{', '.join(SOLVE_ARGUMENTS)}. 'dual2 methods NAME' lists those of other methods."
    )


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - 5} others" if len(names) > 6 else ""
    return ", ".join(names[:5] if more else names) + more


def _steep(f: Function) -> str:
    """What to do with an f whose gradient has no Lipschitz constant, which no method takes."""
    if f.L < np.inf:
        return ""
    advice = "Give it as g, beside f = Zero()" if f.proximable else "Pass a finite L"
    return f"the gradient of f must have a Lipschitz constant; {f!r} has L = inf. {advice}"
