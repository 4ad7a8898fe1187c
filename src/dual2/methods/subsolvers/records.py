"""The subproblem solvers, one record each: what it needs, how h* enters, its bounds, its class.

From its bounds follow the predicted cost of iD2A with it, and the choice
(:mod:`.predicted_costs`). The complexity table lists chosen combinations; the records are how its
rows are made.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from dual2.errors import CapabilityError, unknown_name
from dual2.methods.subsolvers.exact_subproblems import Exact
from dual2.methods.subsolvers.idapg import IDAPG
from dual2.methods.subsolvers.primal_dual import ABPD, APDG, LPD, PDPG
from dual2.methods.subsolvers.salim import Salim
from dual2.methods.subsolvers.subsolver import Subsolver
from dual2.theory import Facts
from dual2.theory.conditions import Acceptance
from dual2.theory.saddle_table import SADDLE_BOUNDS, SaddleBound

Maker = Callable[..., Subsolver]
"""Makes a solver from runtime, facts and constants: a subclass of :class:`Subsolver`, or a partial
application of one."""
_ONLY = "h* is not strongly convex: sublinear rate"
_UNCOVERED = "Theorem 3 (complexity) does not cover it (Remark 9)"


def maker_name(maker: Maker) -> str:
    """What a given solver is called: its ``name``, else that of its class or function."""
    made = getattr(maker, "func", maker)
    return str(getattr(made, "name", None) or getattr(made, "__name__", type(made).__name__))


@dataclass(frozen=True)
class Record:
    """All that is known of one subproblem solver."""

    make: Maker  # its class
    needs: Callable[[Facts, float, str], Acceptance]  # whether facts, ρ and mapping fit, and why
    mapping: str | None = None  # how h* must enter, if not as it comes
    local: bool = False  # whether it solves local problems only: ρ = 0
    covered: bool = True  # whether Theorem 3 (complexity) predicts its cost
    by_dual: bool = False  # whether a dual iteration minimises over x, if simple in closed form

    @property
    def name(self) -> str:
        """The paper's name."""
        return maker_name(self.make)

    @cached_property
    def bounds(self) -> list[SaddleBound]:
        """Its rows of the table of saddle point solvers."""
        return [bound for bound in SADDLE_BOUNDS if bound.algorithm == self.name]


def _linear(facts: Facts) -> str:
    dual = "h* is strongly convex" if facts.mu_h > 0 else "g_i = 0 and every A_i has full row rank"
    return f"linear rate: {dual}"


def _idapg(facts: Facts, rho: float, mapping: str) -> Acceptance:
    if facts.mu_h > 0 or facts.row_rank > 0:
        return Acceptance(True, _linear(facts))
    return Acceptance(True, "no linear rate follows from what agents know by themselves")


def _pdpg(facts: Facts, rho: float, mapping: str) -> Acceptance:
    by_prox = facts.h_linear or mapping == "prox" or facts.h_prox
    if facts.mu_h > 0 or (facts.row_rank > 0 and by_prox):
        return Acceptance(True, _linear(facts))
    return Acceptance(True, "no linear rate follows from what agents know by themselves")


def _lpd(facts: Facts, rho: float, mapping: str) -> Acceptance:
    return Acceptance(True, _linear(facts) if facts.mu_h > 0 else _ONLY)


def _abpd(facts: Facts, rho: float, mapping: str) -> Acceptance:
    return Acceptance(True, f"{_lpd(facts, rho, mapping).reason}; {_UNCOVERED}")


def _apdg(facts: Facts, rho: float, mapping: str) -> Acceptance:
    if not facts.g_is_zero:
        return Acceptance(False, "needs g_i = 0 for every agent")
    smooth = facts.h_smooth and math.isfinite(facts.L_h)
    if not smooth or (mapping == "prox" and not facts.h_linear):
        return Acceptance(False, "needs a smooth h* that enters by its gradient (g_2 = 0)")
    if facts.mu_h > 0:
        return Acceptance(True, "linear rate: h* is strongly convex")
    if facts.row_rank > 0:
        return Acceptance(True, "linear rate: every A_i has full row rank")
    if facts.n == 1 and facts.h_linear and rho == 0:
        return Acceptance(True, "linear rate: h* is linear and there is one agent")
    return Acceptance(False, "needs a strongly convex h*, or full row rank of every A_i")


def _salim(facts: Facts, rho: float, mapping: str) -> Acceptance:
    if not facts.g_is_zero:
        return Acceptance(False, "needs g_i = 0 for every agent")
    if not facts.h_linear:
        return Acceptance(False, "needs a linear h* (h the indicator of a point)")
    if rho != 0:
        return Acceptance(
            False, f"needs rho = 0; rho = {rho:g} makes the subproblem nonlinear in λ"
        )
    if facts.row_rank > 0 or facts.n == 1:
        return Acceptance(True, "linear rate: the subproblem is an equality constrained one")
    return Acceptance(
        False, "needs full row rank of every A_i, so that each local problem is solvable"
    )


def _exact(facts: Facts, rho: float, mapping: str) -> Acceptance:
    if rho > 0:
        return Acceptance(False, f"solves local problems, which needs rho = 0; found rho = {rho:g}")
    return Acceptance(True, "")


_ALL = (
    Record(IDAPG, _idapg, by_dual=True),
    Record(PDPG, _pdpg),
    Record(LPD, _lpd),
    Record(APDG, _apdg, mapping="smooth"),
    Record(Salim, _salim, local=True),
    Record(ABPD, _abpd, covered=False),
    Record(Exact, _exact, local=True),
)
SUBSOLVERS = {record.name: record for record in _ALL}
"""Every record by its name."""


def find_subsolver(name: str | Maker) -> str | Maker:
    """Look a subsolver up, ignoring case; ``"auto"`` and what makes a solver stay as they are.

    Examples
    --------
    >>> find_subsolver("idapg")
    'iDAPG'
    """
    if callable(name):
        own = getattr(name, "name", None)
        return own if own in SUBSOLVERS else name
    if not isinstance(name, str):
        raise CapabilityError(
            f"subsolver = {name!r} found; expected a name or a subclass of Subsolver."
        )
    for known in ("auto", *SUBSOLVERS):
        if known.lower() == name.lower():
            return known
    raise CapabilityError(unknown_name("subsolver", name, SUBSOLVERS))


def admissible_subsolvers(
    facts: Facts, rho: float = 0.0, mapping: str = "auto"
) -> dict[str, Acceptance]:
    """Which solvers of the saddle table can solve the subproblem, each with a sentence.

    Parameters
    ----------
    facts : Facts
        The problem's scalars.
    rho : float
        The augmentation.
    mapping : {"auto", "prox", "smooth"}
        How h* enters; ``"prox"`` excludes what needs its gradient.

    Examples
    --------
    >>> import numpy as np, dual2 as d2
    >>> from dual2.theory import gather_facts
    >>> agents = [d2.Agent(np.eye(2), d2.SquaredNorm(1.0), d2.L1Norm(0.1)) for _ in range(2)]
    >>> facts = gather_facts(d2.Problem(agents, d2.SquaredLoss(np.ones(2))))
    >>> for name, (accepted, reason) in admissible_subsolvers(facts).items():
    ...     print(f"{name:<9} {accepted!s:<5} {reason}")
    iDAPG     True  linear rate: h* is strongly convex
    PDPG      True  linear rate: h* is strongly convex
    LPD       True  linear rate: h* is strongly convex
    APDG      False needs g_i = 0 for every agent
    Salim     False needs g_i = 0 for every agent
    ABPD-PGS  True  linear rate: h* is strongly convex; Theorem 3 (complexity) does not ...
    """
    return {r.name: r.needs(facts, rho, mapping) for r in _ALL if r.bounds}


def require_subsolver(name: str, facts: Facts, rho: float, mapping: str) -> str:
    """Refuse a solver that cannot solve the subproblem; else why it can, empty if that is plain.

    Raises
    ------
    CapabilityError
        What is missing, and which solvers would do.
    """
    verdict = SUBSOLVERS[name].needs(facts, rho, mapping)
    if not verdict.accepted:
        able = [n for n, v in admissible_subsolvers(facts, rho, mapping).items() if v.accepted]
        raise CapabilityError(
            f"The subsolver {name} cannot solve this subproblem: it {verdict.reason}. "
            f"Admissible here: {', '.join(able)}."
        )
    return verdict.reason
