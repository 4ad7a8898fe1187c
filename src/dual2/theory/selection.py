"""Which subproblem solver: who may solve it, and who does so at the least predicted cost."""

import math
from dataclasses import dataclass

from dual2.errors import CapabilityError
from dual2.theory.conditions import Acceptance
from dual2.theory.constants import Constants
from dual2.theory.facts import Facts
from dual2.theory.prediction import Prediction, predict

SUBSOLVERS = ("iDAPG", "PDPG", "LPD", "APDG", "Salim", "ABPD-PGS")
"""The solvers of the saddle table."""

MARGIN = 2.0
"""Another solver replaces iDAPG if its predicted cost is this much lower: less is within what
O(·) hides. In runs to 1e-10 LPD needs 1.2 and APDG 1.7 times the ℬ calls of iDAPG."""


@dataclass(frozen=True)
class Costs:
    """What things cost, in any common unit.

    Attributes
    ----------
    communication : float
        One round: a p-vector to every neighbour.
    grad_f, prox_g : float
        One ∇f_i and one prox of g_i; together one call to 𝒜.
    matvec, prox_h : float
        One product with A_i or A_iᵀ (a call to ℬ makes two) and one prox or gradient of h*.

    Examples
    --------
    >>> Costs(communication=100.0, grad_f=5.0, matvec=1.0).total(10.0, 20.0, 30.0)
    1160.0
    """

    communication: float = 1.0
    grad_f: float = 0.0
    matvec: float = 0.0
    prox_g: float = 0.0
    prox_h: float = 0.0

    def __post_init__(self) -> None:
        prices = vars(self)
        if not all(0 <= value < math.inf for value in prices.values()):
            raise CapabilityError(f"{self} found; every cost must be a finite number ≥ 0.")
        if not any(prices.values()):
            raise CapabilityError("Every cost is 0; give at least one that is positive.")

    @property
    def oracle_a(self) -> float:
        """Price of one call to 𝒜."""
        return self.grad_f + self.prox_g

    @property
    def oracle_b(self) -> float:
        """Price of one call to ℬ."""
        return 2.0 * self.matvec + self.prox_h

    def total(self, rounds: float, oracle_a: float, oracle_b: float) -> float:
        """communication·rounds + price(𝒜)·𝒜 + price(ℬ)·ℬ; what is free may be infinite."""
        prices = (self.communication, self.oracle_a, self.oracle_b)
        counts = (rounds, oracle_a, oracle_b)
        return sum(p * c for p, c in zip(prices, counts, strict=True) if p > 0)


BOTTLENECKS = {
    "communication": Costs(communication=1.0),
    "computation": Costs(communication=0.0, grad_f=1.0, matvec=1.0),
}
"""Costs by the name of the bottleneck."""


def read_costs(cost: Costs | str) -> Costs:
    """Costs, or those of ``"communication"`` or ``"computation"``."""
    if isinstance(cost, Costs):
        return cost
    if isinstance(cost, str) and cost in BOTTLENECKS:
        return BOTTLENECKS[cost]
    raise CapabilityError(
        f"cost = {cost!r} found; expected Costs(…) or {' or '.join(BOTTLENECKS)}."
    )


def admissible_subsolvers(
    facts: Facts, rho: float = 0.0, mapping: str = "auto"
) -> dict[str, Acceptance]:
    """Which solvers can solve the subproblem, each with a sentence.

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
    ABPD-PGS  True  linear rate: h* is strongly convex; Theorem iD2A_complexity_convex does not ...
    """
    strong = facts.mu_h > 0
    rank = facts.row_rank > 0
    only = "h* is not strongly convex: sublinear rate"
    dual = "h* is strongly convex" if strong else "g_i = 0 and every A_i has full row rank"
    linear = f"linear rate: {dual}"
    unknown = "no linear rate is known here: convex momentum with restarts"
    pdpg = strong or (rank and (facts.h_linear or mapping == "prox" or facts.h_prox))
    third = "Theorem iD2A_complexity_convex does not cover it (Remark 0137)"
    return {
        "iDAPG": Acceptance(True, linear if strong or rank else unknown),
        "PDPG": Acceptance(True, linear if pdpg else "no linear rate is known here"),
        "LPD": Acceptance(True, linear if strong else only),
        "APDG": _apdg(facts, rho, mapping),
        "Salim": _salim(facts, rho),
        "ABPD-PGS": Acceptance(True, f"{linear if strong else only}; {third}"),
    }


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


def _salim(facts: Facts, rho: float) -> Acceptance:
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


def predictions(
    constants: Constants, facts: Facts, eps: float = 1e-8, exchanges: int = 1,
    closed_form: bool = False,
) -> dict[str, Prediction]:  # fmt: skip
    """Predicted cost of every admissible solver that Theorem iD2A_complexity_convex covers."""
    verdicts = admissible_subsolvers(facts, constants.rho)
    names = [name for name in SUBSOLVERS if verdicts[name].accepted and name != "ABPD-PGS"]
    return {n: predict(constants, facts, n, eps, exchanges, closed_form) for n in names}


def select_subsolver(
    constants: Constants, facts: Facts, cost: Costs | str = "communication", exchanges: int = 1,
    closed_form: bool = False,
) -> tuple[str, str]:  # fmt: skip
    """The solver with the least predicted cost, and the sentence that says why.

    The paper's rule is: in Case 1 LPD, in Case 2 APDG (if κ_f ≥ κ_𝐀), where computation is the
    bottleneck and 𝒜 much dearer than ℬ; iDAPG otherwise. Here the costs are stated and the
    predictions compared: iDAPG gives way only to a solver that costs at most half as much,
    because O(·) hides smaller differences. Without a known linear rate (Case 3, whose constant
    nobody may know in a network, and the general case) it is iDAPG.

    Parameters
    ----------
    constants, facts
        Of the problem, the network and ρ.
    cost : Costs or {"communication", "computation"}
        What a round, a gradient, a product cost.
    exchanges : int
        Rounds per product with the gossip matrix.
    closed_form : bool
        Whether iDAPG's inner problem has a closed form, see
        :func:`~dual2.theory.prediction.predict`.

    Examples
    --------
    >>> import numpy as np, dual2 as d2
    >>> from dual2.theory import analyse, gather_facts
    >>> f, g = d2.Quadratic([1.0, 100.0]), d2.L1Norm(0.1)
    >>> agents = [d2.Agent(np.eye(2), f, g) for _ in range(2)]
    >>> problem = d2.Problem(agents, d2.SquaredLoss(np.ones(2), scale=100.0))
    >>> constants, facts = analyse(problem, d2.Network([(0, 1)])), gather_facts(problem)
    >>> select_subsolver(constants, facts)[0]
    'iDAPG'
    >>> name, why = select_subsolver(constants, facts, Costs(0.0, grad_f=100.0, matvec=1.0))
    >>> print(name + ":", why)
    LPD: predicted cost 3.77e+04 against 3.7e+05 of iDAPG (rounds 395, 𝒜 369, ℬ 369 against ...
    """
    prices = read_costs(cost)
    found = predictions(constants, facts, exchanges=exchanges, closed_form=closed_form)
    totals = {n: prices.total(p.rounds, p.oracle_a, p.oracle_b) for n, p in found.items()}
    base = totals["iDAPG"]
    best = min(totals, key=lambda name: totals[name])
    if not math.isfinite(base) and not math.isfinite(totals[best]):
        return "iDAPG", (
            f"no solver has a known linear rate here ({constants.case.reason}); iDAPG with "
            "restarts is the choice in every such case"
        )
    if totals[best] * MARGIN <= base:
        return best, (
            f"predicted cost {totals[best]:.3g} against {base:.3g} of iDAPG "
            f"({_numbers(found[best])} against {_numbers(found['iDAPG'])}, constants taken as 1)"
        )
    others = [f"{n} {t:.3g}" for n, t in totals.items() if n != "iDAPG" and math.isfinite(t)]
    rest = f"; others: {', '.join(others)}" if others else ""
    return "iDAPG", (
        f"predicted cost {base:.3g} ({_numbers(found['iDAPG'])}, constants taken as 1){rest}; "
        f"none is {MARGIN:g} times cheaper"
    )


def _numbers(p: Prediction) -> str:
    return f"rounds {p.rounds:.3g}, 𝒜 {p.oracle_a:.3g}, ℬ {p.oracle_b:.3g}"
