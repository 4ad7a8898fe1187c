"""The method's row in the table: what it needs, its parameters, what it says about itself."""

import math

import numpy as np

from dual2.functions import Function
from dual2.functions.derivatives import hessian, prox_jacobian
from dual2.methods.method import Method, Plan
from dual2.methods.newton.algorithm import Newton
from dual2.methods.parameters import Parameter, Settings, Sources, Values, number
from dual2.network import AnyNetwork
from dual2.problem import Agent, Problem
from dual2.runtime import Runtime
from dual2.theory.conditions import Condition, Needs

SUMMARY = "Newton's method on the dual, over exact sums along a spanning tree"
REVEALS = "sums over subtrees of A_i x_i(λ), of values and of A_i J_i A_iᵀ"


def curved_f(agent: Agent) -> str:
    """Whether f has a second derivative and a finite L.

    Examples
    --------
    >>> import dual2 as d2
    >>> curved_f(d2.Agent([[1.0]], d2.Smooth(lambda x: x, mu=1.0, L=1.0)))
    'f must have a second derivative; Smooth(...) has none'
    """
    if not math.isfinite(agent.f.L):
        return f"f must have a finite L; found {agent.f!r}"
    known = hessian(agent.f, np.zeros(agent.dim)) is not None
    return "" if known else f"f must have a second derivative; {_name(agent.f)} has none"


def curved_g(agent: Agent) -> str:
    """Whether the prox of g has a generalised derivative."""
    known = prox_jacobian(agent.g, np.zeros(agent.dim), 1.0) is not None
    return "" if known else f"the prox of g must have a derivative; {_name(agent.g)} has none"


def curved_h(h: Function) -> str:
    """Whether h has a prox, and that a generalised derivative."""
    if not h.proximable:
        return f"h must have a prox; {h!r} has none"
    size = 1 if h.dim is None else h.dim
    known = prox_jacobian(h, np.zeros(size), 1.0) is not None
    return "" if known else f"the prox of h must have a derivative; {_name(h)} has none"


def _name(function: Function) -> str:
    return f"{type(function).__name__}(...)"


NEEDS = Needs(
    Condition("convex, twice differentiable", curved_f),
    Condition("prox with a derivative", curved_g),
    Condition("prox with a derivative", curved_h),
)
MAX_SUMS = Parameter(
    "max_sums",
    "far above what is ever needed",
    1000,
    number("a whole number > 0", lambda value: value >= 1 and value == int(value)),
)


def plan_newton(problem: Problem, network: AnyNetwork, settings: Settings) -> Plan:
    """The algorithm, ready to start."""
    values = Values((MAX_SUMS,), problem, network, settings)
    runtime = Runtime(problem, network)
    algorithm = Newton(runtime, int(values.max_sums))
    parameters: Sources = {"method": (settings.method, "given")} | values.table()
    parameters |= {
        "rounds_per_iteration": (algorithm.stride, "2·height of the spanning tree for each sum"),
    }
    lines = (
        f"{settings.method}: {SUMMARY}.",
        "Agents with a strongly convex f_i + g_i need no parameter; to the others a proximal term "
        "is added, moved and weakened until it no longer matters.",
        f"A sum takes {2 * algorithm.height} rounds along the spanning tree.",
    )
    return Plan(algorithm, runtime, parameters, "\n".join(lines))


NEWTON = Method(
    "Newton",
    plan_newton,
    SUMMARY,
    NEEDS,
    rounds="2·height",
    vectors="40+10p",
    declared=(MAX_SUMS,),
    reveals=REVEALS,
    scale_free=True,
)
