"""Which subproblem solver runs: by name with a check that it can, or by predicted cost."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dual2.errors import CapabilityError, unknown_name
from dual2.runtime import Stacked
from dual2.subsolvers import IDAPG, Exact, PrimalDual, Salim, Subsolver
from dual2.theory import Constants, Facts, admissible_subsolvers, select_subsolver

Maker = Callable[[Stacked, Facts, Constants], Subsolver]
"""Makes a solver: a subclass of :class:`Subsolver`, or a partial application of one."""

SUBSOLVERS = ("iDAPG", "PDPG", "LPD", "APDG", "Salim", "ABPD-PGS", "exact")
"""Subproblem solvers by name."""

LOCAL_ONLY = ("Salim", "exact")
"""Those that solve local problems only: ρ = 0."""


@dataclass(frozen=True)
class Choice:
    """A solver's name and the sentence that says why it was taken; what makes it, if given."""

    name: str
    reason: str
    maker: Maker | None = None


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


def wanted_rho(name: str | Maker, rho: Any) -> Any:
    """ρ = 0 where the solver works on local problems only and nothing else was asked for."""
    return 0.0 if name in LOCAL_ONLY and rho == "auto" else rho


def wanted_mapping(name: str | Maker, mapping: str) -> str:
    """APDG takes h* by its gradient; the others as it comes."""
    return "smooth" if name == "APDG" and mapping == "auto" else mapping


def choose_subsolver(
    name: str | Maker, runtime: Stacked, facts: Facts, constants: Constants, cost: Any, mapping: str
) -> Choice:
    """The solver asked for, if it is admissible; for ``"auto"`` the one of least predicted cost.

    Raises
    ------
    CapabilityError
        If the solver cannot solve this subproblem; the message names those that can.
    """
    if callable(name):
        return Choice(_title(name), "given", name)
    if name == "auto":
        closed = runtime.problem.first(runtime.block.easy == 0) is None
        rounds = runtime.network.rounds
        found, why = select_subsolver(constants, facts, cost, rounds, closed)
        return Choice(found, why)
    verdicts = admissible_subsolvers(facts, constants.rho, mapping)
    able = [n for n, v in verdicts.items() if v.accepted]
    if name == "exact":
        if constants.rho > 0:
            raise CapabilityError(
                f"The subsolver 'exact' solves local problems, which needs rho = 0; found "
                f"rho = {constants.rho:g}. Admissible here: {', '.join(able)}."
            )
        return Choice(name, "asked for")
    if not verdicts[name].accepted:
        raise CapabilityError(
            f"The subsolver {name} cannot solve this subproblem: it {verdicts[name].reason}. "
            f"Admissible here: {', '.join(able)}."
        )
    return Choice(name, f"asked for; {verdicts[name].reason}")


def _title(maker: Maker) -> str:
    """What a given solver is called: its ``name``, else that of its class or function."""
    made = getattr(maker, "func", maker)
    return str(getattr(made, "name", None) or getattr(made, "__name__", type(made).__name__))


def make_subsolver(
    choice: Choice, runtime: Stacked, facts: Facts, constants: Constants, slack: float,
    restart: bool,
) -> Subsolver:  # fmt: skip
    """The solver itself."""
    name = choice.name
    if choice.maker is not None:
        made = choice.maker(runtime, facts, constants)
        if not isinstance(made, Subsolver):
            raise CapabilityError(
                f"subsolver = {name} made a {type(made).__name__}; expected a Subsolver."
            )
        return made
    if name == "iDAPG":
        return IDAPG(runtime, facts, constants, slack, restart)
    if name in LOCAL_ONLY:
        return {"Salim": Salim, "exact": Exact}[name](runtime, facts, constants)
    return PrimalDual(name, runtime, facts, constants)
