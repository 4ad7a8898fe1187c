"""The method's row in the table: what it needs, its parameters, what it says about itself."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from dual2.errors import CapabilityError
from dual2.functions import Function, PiecewiseQuadratic
from dual2.functions.derivatives import jacobian_axes
from dual2.functions.hessians import hessian, is_quadratic
from dual2.methods.dual_newton.newton_loop import DualNewton
from dual2.methods.exact_sums import plan_exact_sum_method
from dual2.methods.method import Algorithm, Method, Plan
from dual2.methods.panoc import Panoc
from dual2.methods.parameters import Parameter, Settings, Values, number
from dual2.methods.strong_convexity import lack_strong_convexity
from dual2.methods.subspace.active_set import ActiveSetSubspace
from dual2.methods.subspace.full_subspace import FullSubspace, fits
from dual2.methods.subspace.smooth import Primal
from dual2.network import AnyNetwork
from dual2.problem import Agent, Problem
from dual2.problem.groups import Forms
from dual2.runtime import Runtime
from dual2.theory.conditions import Condition, Needs

SUMMARY = "Newton's method over exact sums along a spanning tree, dual or primal"
REVEALS = "sums over subtrees of A_i x_i(λ), of values and of A_i J_i A_iᵀ; primal: of A_i z_i"


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
    known = agent.f.form is not None or hessian(agent.f, np.zeros(agent.dim)) is not None
    return "" if known else f"f must have a second derivative; {_name(agent.f)} has none"


def curved_g(agent: Agent) -> str:
    """Whether the prox of g has a generalised derivative."""
    known = jacobian_axes(agent.g, agent.dim)
    return "" if known else f"the prox of g must have a derivative; {_name(agent.g)} has none"


def curved_h(h: Function) -> str:
    """Whether h has a prox, and that a generalised derivative."""
    if not h.proximable:
        return f"h must have a prox; {h!r} has none"
    known = jacobian_axes(h, 1 if h.dim is None else h.dim)
    return "" if known else f"the prox of h must have a derivative; {_name(h)} has none"


def valued_f(agent: Agent) -> str:
    """Whether f has a gradient, a finite L and values.

    Examples
    --------
    >>> import dual2 as d2
    >>> valued_f(d2.Agent([[1.0]], d2.Smooth(lambda x: x, mu=1.0, L=1.0)))
    'f must have values; Smooth(...) came without'
    """
    if not agent.f.smooth or not math.isfinite(agent.f.L):
        return f"f must be smooth with a finite L; found {agent.f!r}"
    return _valued("f", agent.f, agent.dim)


def valued_g(agent: Agent) -> str:
    """Whether g has a prox and values."""
    if not agent.g.proximable:
        return f"g must have a prox; {_name(agent.g)} has none"
    return _valued("g", agent.g, agent.dim)


def valued_h(h: Function) -> str:
    """Whether h has a prox and values."""
    if not h.proximable:
        return f"h must have a prox; {_name(h)} has none"
    return _valued("h", h, h.dim or 1)


def _valued(what: str, function: Function, dim: int) -> str:
    try:
        (function.form or function)._value(np.zeros(dim))
    except CapabilityError:
        return f"{what} must have values; {_name(function)} came without"
    return ""


def quadratic_f(agent: Agent) -> str:
    """Whether f is quadratic."""
    if is_quadratic(agent.f):
        return ""
    return f"f must be quadratic; found {_name(agent.f)}"


def piecewise_g(agent: Agent) -> str:
    """Whether g is piecewise quadratic coordinate by coordinate: l1, boxes, elastic nets."""
    if agent.g.form is not None:
        return ""
    return f"g must split by coordinate; {_name(agent.g)} does not"


def smooth_g(agent: Agent) -> bool:
    """Whether g has neither kinks nor bounds."""
    return agent.g.form is not None and agent.g.form.smooth


def separable_h(h: Function) -> str:
    """Whether h splits by coordinate, its prox having a derivative, or is smooth and in blocks."""
    axes = jacobian_axes(h, h.dim or 1) if h.proximable else 0
    able = h.separable if axes == 1 else axes == 3 and h.smooth
    return "" if able else f"h must split by coordinate; {_name(h)} does not"


def _name(function: Function) -> str:
    return f"{type(function).__name__}(...)"


def all_curved_f(problem: Problem) -> bool:
    """Whether :func:`curved_f` finds nothing lacking, as far as all agents at once show it."""
    split = all(isinstance(group.f, Forms) for group in problem.groups)
    return split and bool(np.all(problem.sizes.L < np.inf))


def all_split_g(problem: Problem) -> bool:
    """Whether every g splits by coordinate, so that :func:`curved_g` finds nothing lacking."""
    return all(isinstance(group.g, Forms) for group in problem.groups)


NEEDS = Needs(
    Condition("convex, twice differentiable", curved_f, all_curved_f),
    Condition("prox with a derivative", curved_g, all_split_g),
    Condition("prox with a derivative", curved_h),
)
PRIMAL_NEEDS = Needs(
    Condition("quadratic", quadratic_f),
    Condition("piecewise quadratic by coordinate", piecewise_g),
    Condition("separable or smooth in blocks, prox with a derivative", separable_h),
)
"""What the primal mode asks beside."""
PANOC_SUMMARY = "L-BFGS on the dual, over exact sums of vectors along a spanning tree"
PANOC_NEEDS = Needs(
    Condition("convex, smooth, with a finite L and values", valued_f),
    Condition("prox-friendly, with values", valued_g),
    Condition("prox-friendly, with values", valued_h),
)
MAX_SUMS = Parameter(
    "max_sums",
    "far above what is ever needed",
    1000,
    number("a whole number > 0", lambda value: value >= 1 and value == int(value)),
)


MODES = ("auto", "dual", "primal")
CHEAP_ROWS, DUAL_ROWS, MAX_DUAL_ROWS = 100, 500, 2000
"""Coupling rows up to which matrices cost little, up to which the dual mode is the rule, and up to
which it is possible elsewhere."""


def one_of_modes(name: str, value: object) -> object:
    """A known mode, or an error."""
    if value not in MODES:
        raise CapabilityError(f"{name} = {value!r} found; expected one of {', '.join(MODES)}.")
    return value


MODE = Parameter("mode", "by the number of coupling rows and the functions", "auto", one_of_modes)


def prefers_primal(problem: Problem) -> str:
    """Why the primal mode is better where it can, empty if it is not.

    With many rows the matrices of the dual mode are large; where rows have demands to meet they are
    worth it for longer, since the primal mode needs many sums there or stalls. A loss with kinks
    and more rows than variables has many multipliers whose rows are at no kink: unless it is curved
    between them, the Jacobian of the dual vanishes there.
    Where f_i is flat and g_i has kinks or bounds, corners are what the primal mode would go through
    one by one, and the interior-point method does better; likewise where f_i is flat in some
    directions only, beside which the others' curvature has no size to begin with.

    Examples
    --------
    >>> import dual2 as d2
    >>> agents = [d2.Agent(np.ones((120, 12)), d2.SquaredNorm(1.0))]
    >>> prefers_primal(d2.Problem(agents, d2.HingeLoss(np.ones(120))))
    'h has kinks, and p = 120 is above the 12 variables'
    >>> prefers_primal(d2.Problem(agents, d2.IndicatorPoint(np.ones(120))))
    ''
    """
    p, form = problem.p, problem.h.form
    demands = form is not None and _demands(form)
    if p > (MAX_DUAL_ROWS if demands else DUAL_ROWS):
        return f"p = {p} is above {MAX_DUAL_ROWS if demands else DUAL_ROWS}"
    if form is None or form.smooth or demands:
        return ""
    curved = bool(np.all(np.greater(form.curvature, 0.0)))
    if p <= problem.n or (curved and p <= CHEAP_ROWS):  # p variables at least; or nothing to gain
        return ""
    known = problem.total([[agent.dim, _partly_flat(agent)] for agent in problem.agents])
    variables, cornered = (round(float(value)) for value in known)
    if cornered or p <= variables:
        return ""
    return f"h has kinks, and p = {p} is above the {variables} variables"


def _demands(form: PiecewiseQuadratic) -> bool:
    """Whether some row has bounds and nothing else: a demand that has to be met."""
    bounded = np.isfinite(form.lower) | np.isfinite(form.upper)
    return bool(np.any(bounded & np.equal(form.curvature, 0.0)))


def _partly_flat(agent: Agent) -> bool:
    """Whether f_i + g_i has neither curvature everywhere nor none at all."""
    form = agent.g.form
    plain = form is not None and form.smooth and not agent.f.L > 0
    return not (agent.f.mu > 0 or plain)


def choose_mode(problem: Problem, wanted: str) -> tuple[str, str]:
    """The mode, and why.

    Dual for up to 500 coupling rows, 2000 if they have demands to meet. Beyond, or for a loss with
    kinks and few variables, primal where the functions allow it; else dual while its p × p matrices
    are still of some use.

    Examples
    --------
    >>> import dual2 as d2
    >>> agents = [d2.Agent(np.ones((600, 1)), d2.SquaredNorm(1.0))]
    >>> choose_mode(d2.Problem(agents, d2.SquaredLoss(np.ones(600))), "auto")[0]
    'primal'
    """
    why_primal = "" if wanted == "dual" else prefers_primal(problem)
    if wanted == "dual" or (wanted == "auto" and not why_primal):
        most = DUAL_ROWS if problem.p <= DUAL_ROWS else MAX_DUAL_ROWS
        return "dual", "given" if wanted == "dual" else f"p = {problem.p} is at most {most}"
    lack = PRIMAL_NEEDS.lack(problem)
    if not lack:
        return "primal", "given" if wanted == "primal" else why_primal
    if wanted == "primal":
        raise CapabilityError(
            f"Newton cannot solve this problem in its primal mode: {lack}. Leave mode out, or use "
            "mode='dual'."
        )
    if problem.p <= MAX_DUAL_ROWS:
        return "dual", f"the primal mode cannot: {lack}"
    raise CapabilityError(
        f"Newton sums matrices of {problem.p} × {problem.p} numbers in its dual mode, and its "
        f"primal mode cannot solve this problem: {lack}. Use L-BFGS, or insist with mode='dual'."
    )


def lack_of_mode(problem: Problem, parameters: Mapping[str, Any]) -> str:
    """What the mode that would be taken asks of all agents: strong convexity, if it is dual.

    Examples
    --------
    >>> import dual2 as d2
    >>> problem = d2.Problem([d2.Agent([[1.0]], d2.SquaredNorm(0.0))], d2.SquaredLoss([1.0]))
    >>> lack_of_mode(problem, {})
    'agent 0: f + g must be strongly convex; found modulus 0 for f = SquaredNorm(weight=0), ...'
    >>> lack_of_mode(problem, {"mode": "primal"})
    ''
    """
    try:
        mode = choose_mode(problem, str(parameters.get("mode", "auto")))[0]
    except CapabilityError as error:
        return str(error).removesuffix(".")
    return lack_strong_convexity(problem) if mode == "dual" else ""


def plan_newton(problem: Problem, network: AnyNetwork, settings: Settings) -> Plan:
    """The algorithm, ready to start."""
    values = Values((MAX_SUMS, MODE), problem, network, settings)
    mode, why = choose_mode(problem, values.mode)
    runtime = Runtime(problem, network)
    algorithm = _algorithm(mode, runtime, int(values.max_sums))
    sources = values.table() | {"mode": (mode, why)}
    summary = f"Mode {mode} ({why}). {MODE_NOTES[mode]}"
    return plan_exact_sum_method(algorithm, runtime, settings, sources, SUMMARY, summary)


def _algorithm(mode: str, runtime: Runtime, most: int) -> Algorithm:
    """That of a mode: with kinks and bounds somewhere, the primal one follows faces."""
    if mode == "dual":
        return DualNewton(runtime, most)
    problem = runtime.problem
    known = problem.total([[agent.dim, not smooth_g(agent)] for agent in problem.agents])
    variables, kinked = (round(float(value)) for value in known)
    if not kinked:
        return Primal(runtime, most)
    return (
        FullSubspace(runtime, most, variables)
        if fits(variables, problem.p)
        else ActiveSetSubspace(runtime, most)
    )


MODE_NOTES = {
    "dual": "Every f_i + g_i is strongly convex; there is no step size.",
    "primal": "Each sum brings the product of one more direction; the problem in all known ones is "
    "solved by everybody alone.",
}


PANOC_NOTE = (
    "Agents with a strongly convex f_i + g_i need no parameter; to the others a proximal term is "
    "added, moved and weakened until it no longer matters."
)


def plan_panoc(problem: Problem, network: AnyNetwork, settings: Settings) -> Plan:
    """L-BFGS, ready to start."""
    values = Values((MAX_SUMS,), problem, network, settings)
    runtime = Runtime(problem, network)
    algorithm = Panoc(runtime, int(values.max_sums))
    return plan_exact_sum_method(
        algorithm, runtime, settings, values.table(), PANOC_SUMMARY, PANOC_NOTE
    )


NEWTON = Method(
    "Newton",
    plan_newton,
    SUMMARY,
    NEEDS,
    rounds="2·height",
    vectors="40+10p",
    declared=(MAX_SUMS, MODE),
    reveals=REVEALS,
    scale_free=True,
    further_lack=lack_of_mode,
)
LBFGS = Method(
    "L-BFGS",
    plan_panoc,
    PANOC_SUMMARY,
    PANOC_NEEDS,
    rounds="2·height",
    vectors="24",
    declared=(MAX_SUMS,),
    reveals="sums over subtrees of A_i x_i(λ) and of values",
)
