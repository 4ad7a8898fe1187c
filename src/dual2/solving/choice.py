"""What ``method="auto"`` is: of the methods that can solve a problem, the one least waited for.

One sum tells everybody what the choice depends on (:class:`Size`). Each row of ``CANDIDATES`` says
whether its method can, and about how many rounds it will take with how many numbers in a message;
a message of ``WORTH`` numbers takes as long again as the round itself. The predictions are orders
of magnitude: sums as measured (``benchmarks/random_problems.py``), gossip by the lower bound
height·√κ·ln(1/tol) of every such method (Scaman et al., *ICML* 2017) times what is usual.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from dual2.errors import counted
from dual2.functions.derivatives import hessian, jacobian_axes
from dual2.functions.lowering import KernelKind, prox_blocks
from dual2.methods.interior_point.plan import block_f, block_g, block_h
from dual2.methods.message import Layout, triangle_size
from dual2.methods.method import Method
from dual2.methods.newton import MAX_DUAL_ROWS, PANOC_NEEDS, PRIMAL_NEEDS, prefers_primal
from dual2.methods.parameters import Settings
from dual2.methods.registry import METHODS, untaken_options
from dual2.methods.strong_convexity import is_weak, moduli
from dual2.network import AnyNetwork
from dual2.problem import Agent
from dual2.runtime import LocalProblem

Array = np.ndarray
WORTH = 20_000.0
"""Numbers in a message that take as long as the round itself: 160 kB, at 40 ms and 4 MB/s or at
0.2 ms and 800 MB/s."""
_SUMS = 8.0
"""Sums of Newton's method."""
_PATIENCE = 5.0
"""Part of the predicted rounds after which Newton's method gives way: the prediction is of ordinary
scales, and with columns over three decades it takes hundreds of sums where others need 40."""
_TRIALS, _MANY = 20, 100_000
"""Prices in a sum; numbers of Jacobians in a message up to which each price comes with its own."""
_INTERIOR_SUMS = 45.0
"""Sums of the interior-point method, whatever the problem."""
_LBFGS_SUMS, _LBFGS_TRIALS, _LBFGS_TOL = 80.0, 12, 1e-8
"""Sums of L-BFGS to a residual of ``_LBFGS_TOL``, and prices in each."""
_GOSSIP, _COUPLING = 10.0, 5.0
"""Rounds of iD2A over the lower bound; least √κ in it, since the coupling has a condition number,
too, which nobody knows before. On 15 random problems with κ_f from 1 to 300 the rounds were 16 to
230 times height·ln(1/tol), 49 in the median, whatever κ_f."""
_PRIMAL_SUMS = 40.0
"""Sums of its primal mode, unless there are fewer variables."""
_LOCAL = 2e9
"""Most Σ d_i³ over the agents that solve systems of their own size, unless nothing else can."""
_PYTHON = 1e4
"""How much slower local solutions are without a compiled prox."""


@dataclass(frozen=True)
class Size:
    """What the choice depends on; the same in every process.

    ``underived`` is how many agents have a function without derivatives, ``flat`` how many an f
    that is not strongly convex, ``weak`` how many an f + g that is not, ``condition`` the root mean
    square of the others' L_i/μ_i;
    ``local`` is Σ d_i³ over the agents that have systems of their own size to solve, or 100·p·d_i
    where the A_i of such an agent must be written out; ``closed`` says that the prox of h has no
    derivative, ``primal`` that Newton takes its primal mode; ``unvalued``
    is how many functions came without values, ``formless`` how many have no block form.
    """

    n: int
    p: int
    height: int
    tol: float
    underived: int
    flat: int
    variables: int
    local: float
    condition: float
    closed: bool = False
    primal: bool = False
    unvalued: int = 0
    formless: int = 0
    weak: int = 0


class Forecast(NamedTuple):
    """Rounds that one will wait for, and numbers in each message."""

    rounds: float
    numbers: float

    @property
    def cost(self) -> float:
        """In rounds of short messages."""
        return self.rounds * (1.0 + self.numbers / WORTH)


class Candidate(NamedTuple):
    """A row of the table: what speaks against the method (empty: nothing), and what it costs.

    ``complete`` says that the method needs no more than the first of these asks for, and so that
    it may go on if another one stalls. One that does not ``lead`` a problem waits for that.
    """

    method: str
    against: Callable[[Size], str]
    predict: Callable[[Size], Forecast]
    complete: bool = False
    lead: Callable[[Size], bool] = lambda size: True


class MethodChoice(NamedTuple):
    """A method, why it is this one, and whether the problem is known to be in its class.

    ``others`` are the methods that go on, one after the other, where this one stalls, or where it
    has taken ``patience`` rounds; 0 is no such limit.
    """

    method: Method
    reason: str = ""
    able: bool = False
    others: tuple[Method, ...] = ()
    patience: int = 0


# -- the table ---------------------------------------------------------------------------------
def _against_newton(size: Size) -> str:
    if size.underived:
        return f"{counted(size.underived, 'agent')} of {size.n} with a function without derivatives"
    if size.closed:
        return "the prox of h has no derivative"
    if size.primal:
        return ""
    if size.p > MAX_DUAL_ROWS:
        return f"{size.p} rows, more than {MAX_DUAL_ROWS}"
    if size.weak:
        return f"{counted(size.weak, 'agent')} without strong convexity of f + g"
    if size.local > _LOCAL and not size.flat:
        return f"local systems of {size.local:.0e} multiply-adds, more than {_LOCAL:.0e}"
    return ""


def _predict_newton(size: Size) -> Forecast:
    if size.primal:
        sums = min(size.variables + 1.0, _PRIMAL_SUMS)
        return Forecast(2.0 * size.height * sums, size.p + sums)
    jacobians = _TRIALS if _TRIALS * triangle_size(size.p) <= _MANY else 1
    numbers = Layout(size.p, _TRIALS, jacobians).width
    return Forecast(2.0 * size.height * _SUMS, numbers)


def _against_interior(size: Size) -> str:
    if size.formless:
        return f"{counted(size.formless, 'function')} without block form"
    if size.p > MAX_DUAL_ROWS:
        return f"{size.p} rows, more than {MAX_DUAL_ROWS}"
    return ""


def _predict_interior(size: Size) -> Forecast:
    return Forecast(2.0 * size.height * _INTERIOR_SUMS, triangle_size(size.p) + 5.0 * size.p)


def _against_lbfgs(size: Size) -> str:
    if not (size.underived or size.closed or size.weak):
        return "for functions without derivatives or strong convexity"
    return f"{counted(size.unvalued, 'function')} without values" if size.unvalued else ""


def _predict_lbfgs(size: Size) -> Forecast:
    # In proportion to the digits, as iD2A's: both are first-order methods of the dual.
    sums = _LBFGS_SUMS * _log_accuracy(size.tol) / _log_accuracy(_LBFGS_TOL)
    return Forecast(2.0 * size.height * sums, _LBFGS_TRIALS * (size.p + 1.0))


def _against_gossip(size: Size) -> str:
    return f"{counted(size.flat, 'agent')} without strong convexity" if size.flat else ""


def _predict_gossip(size: Size) -> Forecast:
    steps = max(math.sqrt(size.condition), _COUPLING) * _log_accuracy(size.tol)
    return Forecast(_GOSSIP * max(size.height, 1) * steps, size.p)


def _log_accuracy(tol: float) -> float:
    """ln(1/tol), kept positive and finite."""
    return math.log(1.0 / min(max(tol, 1e-16), 0.5))


def _interior_leads(size: Size) -> bool:
    """Whether the interior-point method is tried first: some agent is not strongly convex.

    Tables with many rows stay with Newton's primal mode, which sends vectors only.
    """
    return size.weak > 0 and not size.primal and not _against_interior(size)


def _newton_leads(size: Size) -> bool:
    return not _interior_leads(size)


CANDIDATES = (
    Candidate("Newton", _against_newton, _predict_newton, complete=True, lead=_newton_leads),
    Candidate("iD2A", _against_gossip, _predict_gossip),
    Candidate("L-BFGS", _against_lbfgs, _predict_lbfgs, complete=True, lead=_newton_leads),
    Candidate(
        "interior-point", _against_interior, _predict_interior, complete=True, lead=_interior_leads
    ),
)
"""A further method that auto may choose is one more row here."""
_LAST = "iD2A"
"""What is tried, by a reduction if need be, where the table has none; its errors say what lacks."""


# -- the choice --------------------------------------------------------------------------------
def choose(
    share: LocalProblem, network: AnyNetwork, settings: Settings, tol: float, state: Any = None
) -> MethodChoice:
    """The method that ``share`` is solved by where none is named.

    A state that is continued was made by one method, and that goes on. Settings and parameters
    that one of the candidates declares and those before it do not decide for it.

    Examples
    --------
    >>> import dual2 as d2
    >>> from dual2.runtime import local_problem
    >>> agents, network = [d2.Agent([[1.0]], d2.SquaredNorm(1.0))] * 2, d2.Network([(0, 1)])
    >>> share = local_problem(d2.Problem(agents, d2.IndicatorPoint([1.0])), network)
    >>> found = choose(share, network, Settings(), 1e-8)
    >>> found.method.name, found.able
    ('Newton', True)
    >>> choose(share, network, Settings(rho=0.0), 1e-8).reason
    'iD2A, which knows rho'
    """
    if isinstance(state, Mapping) and (begun := method_of_mark(str(state.get("mark", "")))):
        return MethodChoice(METHODS[begun], f"{begun}, with which the run that is continued began")
    if wishes := _wishes(settings):
        return _by_wishes(wishes)
    return _by_cost(measure(share, network, tol))


def method_of_mark(mark: str) -> str:
    """Name of the method in the mark of a stored state; empty if there is none.

    Examples
    --------
    >>> method_of_mark("Newton 1f6c"), method_of_mark("")
    ('Newton', '')
    """
    name = mark.partition(" ")[0]
    return name if name in METHODS else ""


def _wishes(settings: Settings) -> list[str]:
    """Names of what was said about a method that was not named."""
    plain, names = Settings(), ("subsolver", "rho", "constants", "accuracy")
    said = [name for name in names if getattr(settings, name) != getattr(plain, name)]
    return [*said, *(settings.parameters or {})]


def _by_wishes(wishes: list[str]) -> MethodChoice:
    for method in (METHODS[row.method] for row in CANDIDATES):
        if set(wishes) <= set(method.options):
            return MethodChoice(method, f"{method.name}, which knows {', '.join(wishes)}")
    raise untaken_options(wishes, [METHODS[row.method] for row in CANDIDATES])


def measure(share: LocalProblem, network: AnyNetwork, tol: float) -> Size:
    """One sum over the agents of what the choice depends on."""
    weak = is_weak(*moduli(share))[:, None]
    found = share.total(np.hstack([_numbers_of_all(share), weak]))
    underived, flat, variables = (round(float(value)) for value in found[:3])
    others = max(share.n - flat, 1)
    condition = max(math.sqrt(float(found[4]) / others), 1.0)
    height = network.tree.height
    closed, local = bool(METHODS["Newton"].needs.h.lack(share.h)), float(found[3])
    primal = not found[5] and not PRIMAL_NEEDS.h.lack(share.h)
    primal = primal and bool(prefers_primal(share))
    sizes = (share.n, share.p, height, tol, underived, flat, variables, local, condition)
    unvalued = round(float(found[6])) + bool(PANOC_NEEDS.h.lack(share.h))
    formless = round(float(found[7])) + bool(block_h(share.h))
    return Size(*sizes, closed, primal, unvalued, formless, round(float(found[8])))


def _numbers_of_all(share: LocalProblem) -> Array:
    """(agents, 8): those of :func:`_numbers`."""
    rows = np.zeros((len(share.agents), 8))
    for group in share.groups:
        if group.plain:
            L, mu = group.f.L, group.f.mu
            ratio = np.divide(L, mu, out=np.zeros_like(L), where=mu > 0)
            rows[group.at, 1], rows[group.at, 2] = ~(mu > 0), group.dim
            rows[group.at, 4] = np.minimum(ratio, 1e8) ** 2
        else:
            rows[group.at] = [_numbers(share.agents[i]) for i in group.at.tolist()]
    return rows


def _numbers(agent: Agent) -> list[float]:
    """No derivatives, flat, d, local work, (L/μ)², not for the primal mode, without values.

    The last one is how many functions have no block form.
    """
    d, L, mu = agent.dim, agent.f.L, agent.f.mu
    known, coupled = math.isfinite(L) and agent.f.form is not None, False
    if not (known and agent.g.form is not None):
        curve = hessian(agent.f, np.zeros(d)) if math.isfinite(L) else None
        axes = jacobian_axes(agent.g, d)
        known = curve is not None and axes > 0
        coupled = curve is not None and known and max(curve.ndim, axes) > 1
    dense = isinstance(agent.A, LinearOperator) or (coupled and sp.issparse(agent.A))
    slow = coupled and any(b.kind == KernelKind.CALLBACK for b in prox_blocks(agent.g, d))
    local = max((_PYTHON if slow else 1.0) * float(d) ** 3 * coupled, 100.0 * agent.p * d * dense)
    flat = not mu > 0
    ratio = 0.0 if flat else min(L / mu, 1e8)
    unfit = bool(PRIMAL_NEEDS.f.lack(agent) or PRIMAL_NEEDS.g.lack(agent))
    silent = bool(PANOC_NEEDS.f.lack(agent)) + bool(PANOC_NEEDS.g.lack(agent))
    formless = bool(block_f(agent)) + bool(block_g(agent))
    marks = float(unfit), float(silent), float(formless)
    return [float(not known), float(flat), float(d), local, ratio**2, *marks]


def _by_cost(size: Size) -> MethodChoice:
    """The candidate of least cost."""
    leading = [row for row in CANDIDATES if row.lead(size)]
    against = {row.method: row.against(size) for row in leading}
    able = [row for row in leading if not against[row.method]]
    refused = "; ".join(f"not {name}: {why}" for name, why in against.items() if why)
    if not able:
        return MethodChoice(METHODS[_LAST], f"{_LAST}, as far as it can ({refused})")
    best = min(able, key=lambda row: row.predict(size).cost)
    forecasts = ", ".join(_told(row.method, row.predict(size)) for row in able)
    variables, rows = counted(size.variables, "variable"), counted(size.p, "row")
    numbers = (
        f"{counted(size.n, 'agent')}, {rows}, {variables}, tree of height {size.height}, "
        f"{size.flat} without strong convexity"
    )
    reason = f"{best.method}, for the shortest wait: {numbers}; predicted {forecasts}"
    reason = f"{reason}; {refused}" if refused else reason
    later = [row for row in CANDIDATES if row.complete and row is not best]
    later = sorted(
        (row for row in later if not row.against(size)), key=lambda r: r.predict(size).cost
    )
    patience = 0
    if best.method == "Newton" and not size.primal and later:
        patience = round(_PATIENCE * best.predict(size).rounds)
        reason = f"{reason}; {later[0].method} is next after {patience} rounds"
    others = tuple(METHODS[row.method] for row in later)
    return MethodChoice(METHODS[best.method], reason, best.complete, others, patience)


def _told(name: str, forecast: Forecast) -> str:
    return f"{name} about {forecast.rounds:.0f} rounds of {forecast.numbers:.0f} numbers"
