"""The interior-point method as a row of the table of methods."""

from dual2.functions import Function
from dual2.methods.exact_sums import plan_exact_sum_method
from dual2.methods.interior_point.algorithm import InteriorPoint
from dual2.methods.interior_point.assembly import has_blocks
from dual2.methods.method import Method, Plan
from dual2.methods.parameters import Parameter, Settings, Values, number
from dual2.network import AnyNetwork
from dual2.problem import Agent, Problem
from dual2.problem.groups import Forms
from dual2.runtime import Runtime
from dual2.theory.conditions import Condition, Needs

MAX_ITERATIONS = Parameter(
    "max_iterations",
    "far above what is ever needed",
    200,
    number("a whole number > 0", lambda value: value >= 1 and value == int(value)),
)
SUMMARY = "homogeneous interior-point method, over exact sums along a spanning tree"
REVEALS = (
    "sums over subtrees of A_i K_i⁻¹ A_iᵀ (K_i the curvature of agent i and of its bounds), of "
    "A_i x_i, |A_i||x_i| and of numbers; how many agents allow which step length"
)
SAYS = (
    "Two exchanges per iteration, a third where no step length of the grid suits all agents. The "
    "run begins from the same interior point whatever the start."
)


def block_f(agent: Agent) -> str:
    """Whether f has a block form."""
    return _lack("f", agent.f, agent.dim)


def block_g(agent: Agent) -> str:
    """Whether g has one."""
    return _lack("g", agent.g, agent.dim)


def block_h(h: Function) -> str:
    """Whether h has one."""
    return _lack("h", h, h.dim or 1)


def all_split_f(problem: Problem) -> bool:
    """Whether every f splits by coordinate, so that :func:`block_f` finds nothing lacking."""
    return all(isinstance(group.f, Forms) for group in problem.groups)


def all_split_g(problem: Problem) -> bool:
    """Whether every g does."""
    return all(isinstance(group.g, Forms) for group in problem.groups)


def _lack(what: str, function: Function, dim: int) -> str:
    if has_blocks(function, dim):
        return ""
    return f"{what} must have a block form; {type(function).__name__}(...) has none"


NEEDS = Needs(
    Condition("a function with a block form", block_f, all_split_f),
    Condition("a function with a block form", block_g, all_split_g),
    Condition("a function with a block form", block_h),
)


def plan_interior_point(problem: Problem, network: AnyNetwork, settings: Settings) -> Plan:
    """The algorithm, ready to start."""
    values = Values((MAX_ITERATIONS,), problem, network, settings)
    runtime = Runtime(problem, network)
    algorithm = InteriorPoint(runtime, int(values.max_iterations))
    return plan_exact_sum_method(algorithm, runtime, settings, values.table(), SUMMARY, SAYS)


INTERIOR_POINT = Method(
    "interior-point",
    plan_interior_point,
    SUMMARY,
    NEEDS,
    rounds="2·height",
    vectors="p/2+20",
    declared=(MAX_ITERATIONS,),
    reveals=REVEALS,
    scale_free=True,
)
