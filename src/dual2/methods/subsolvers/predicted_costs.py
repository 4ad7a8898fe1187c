"""The predicted cost of iD2A with each subproblem solver, and the choice that follows from it.

Theorem 3 (complexity): √κ_F outer iterations, each a saddle point problem whose cost is a row of
the saddle table under the paper's two mapping tables (:mod:`.records` has the solvers).
"""

import math
from dataclasses import dataclass

from dual2.errors import CapabilityError
from dual2.methods.subsolvers.records import SUBSOLVERS
from dual2.theory import Constants, Facts
from dual2.theory.saddle_table import saddle_numbers

MARGIN = 2.0
"""Another solver replaces iDAPG if its predicted cost is this much lower: less is within what
O(·) hides."""


@dataclass(frozen=True)
class Costs:
    """What things cost, in any common unit.

    A call to 𝒜 is a ∇f_i and a prox of g_i, one to ℬ two products and a prox or gradient of h*.

    Examples
    --------
    >>> Costs(communication=100.0, grad_f=5.0, matvec=1.0).total(10.0, 20.0, 30.0)
    1160.0
    """

    communication: float = 1.0  # one round: a p-vector to every neighbour
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

    def total(self, rounds: float, oracle_a: float, oracle_b: float) -> float:
        """communication·rounds + price(𝒜)·𝒜 + price(ℬ)·ℬ; what is free may be infinite."""
        both = 2.0 * self.matvec + self.prox_h
        prices = (self.communication, self.grad_f + self.prox_g, both)
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


@dataclass(frozen=True)
class Prediction:
    """Predicted cost of one subsolver; infinite where the tables give no linear rate.

    Constants and hidden logarithms are taken as 1.
    """

    subsolver: str
    rounds: float
    oracle_a: float
    oracle_b: float
    case: str  # group of the saddle table used, or empty


def predict(
    constants: Constants,
    facts: Facts,
    subsolver: str,
    eps: float = 1e-8,
    exchanges: int = 1,
    closed_form: bool = False,
) -> Prediction:
    """Predicted cost of iD2A with one subsolver until |x - x*|² ≤ ε.

    With Δ_𝒜 and Δ_ℬ the complexities of the saddle table without their logarithm,

        𝒜 = √κ_F Δ_𝒜 log(1/ε),   ℬ = √κ_F Δ_ℬ log(1/ε),
        rounds = K (√κ_F log(1/ε) if ρ = 0, else √κ_F (1 + Δ_ℬ) log(1/ε)).

    Parameters
    ----------
    constants, facts
        Of the problem, the network (or its Chebyshev polynomial) and ρ.
    subsolver : str
        Name in the saddle table.
    eps : float
        Accuracy.
    exchanges : int
        K, rounds per product with the gossip matrix.
    closed_form : bool
        Whether f_i + g_i + <c, ·> is minimised in closed form (separable functions): iDAPG then
        calls 𝒜 once per call to ℬ.

    Examples
    --------
    >>> import numpy as np, dual2 as d2
    >>> from dual2.theory import analyse, gather_facts
    >>> agents = [d2.Agent(np.eye(2), d2.Quadratic([1.0, 100.0])) for _ in range(2)]
    >>> problem = d2.Problem(agents, d2.SquaredLoss(np.ones(2)))
    >>> constants = analyse(problem, d2.Network([(0, 1)]))
    >>> for name in ("iDAPG", "LPD"):
    ...     found = predict(constants, gather_facts(problem), name)
    ...     print(name, round(found.rounds), round(found.oracle_a), round(found.oracle_b))
    iDAPG 67 446 45
    LPD 248 225 225
    """
    best = Prediction(subsolver, math.inf, math.inf, math.inf, "")
    scale = math.sqrt(constants.kappa_F) * math.log(1.0 / eps)
    if not math.isfinite(scale):
        return best
    record = SUBSOLVERS[subsolver]
    instance = saddle_numbers(constants, facts, record.mapping)
    for bound in record.bounds:
        if bound.case == "concave" or bound.objection(instance):
            continue
        a, b = (scale * calls for calls in bound.evaluate(instance, 1.0 / math.e))
        a = b if closed_form and record.by_dual else a
        rounds = exchanges * (scale + (b if constants.rho > 0 else 0.0))
        if (a, b) < (best.oracle_a, best.oracle_b):
            best = Prediction(subsolver, rounds, a, b, bound.case)
    return best


def select_subsolver(
    constants: Constants,
    facts: Facts,
    cost: Costs | str = "communication",
    exchanges: int = 1,
    closed_form: bool = False,
) -> tuple[str, str]:
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
        :func:`predict`.

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
    covered = [record for record in SUBSOLVERS.values() if record.bounds and record.covered]
    able = [r.name for r in covered if r.needs(facts, constants.rho, "auto").accepted]
    more = {"exchanges": exchanges, "closed_form": closed_form}
    found = {name: predict(constants, facts, name, **more) for name in able}
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
