"""The claims of the paper's experiment sections, judged by stored runs alone.

Readings: *significantly* and *much* mean at least twice, *slightly* at most twice. Costs are those
from which on the gap stays below the target (accelerated methods oscillate); the target is the
smallest of 1e-8, 1e-6, 1e-4, 1e-2 at which the runs decide. A run that was cut counts as costing
more than it had spent.
"""

import math
from collections.abc import Iterator
from dataclasses import replace

from dual2.experiments.captions import ABOUT, Constant
from dual2.experiments.store import Store, StoredRun
from dual2.experiments.verdicts import (
    NOT_REPRODUCED,
    REPRODUCED,
    UNDECIDED,
    Claim,
    Order,
    judge,
)

__all__ = ["ORDERS", "Claim", "claims"]

SIGNIFICANTLY = 2.0
SLIGHTLY = 2.0
COMPUTATION = ("local", "coupling")

ID2A, MID2A = "iD2A-iDAPG, ρ = ρ*", "MiD2A-iDAPG, ρ = ρ*"
LOCAL = "iD2A-iDAPG, ρ = 0"
PDPG, LPD = "iD2A-PDPG, ρ = ρ*", "iD2A-LPD, ρ = ρ*"
TRACKING, NECPD = "Tracking-ADMM, tuned", "NECPD, tuned"
OURS = "iD2A, our defaults"
NPGA1 = ("DCPA", "NPGA-EXTRA", "NPGA-ED")
NPGA2 = ("DCPA", "NPGA-EXTRA", "NPGA-ATC", "NPGA-II")

_CHEBYSHEV = (
    Order(
        "MiD2A needs less computation than iD2A, and is preferable where communication is cheap.",
        (MID2A,), (ID2A,), COMPUTATION,
    ),
    Order("MiD2A needs more communication than iD2A.", (ID2A,), (MID2A,), ("rounds",)),
)  # fmt: skip
_REGRESSION = (
    Order(
        "With iDAPG, iD2A and MiD2A cost significantly less than DCPA and NPGA in every metric.",
        (ID2A, MID2A), NPGA2, factor=SIGNIFICANTLY,
    ),
    *_CHEBYSHEV,
    Order(
        "With PDPG in the place of iDAPG, iD2A becomes significantly slower.",
        (ID2A,), (PDPG,), factor=SIGNIFICANTLY,
    ),
    Order("With PDPG, iD2A is even slower than NPGA-EXTRA.", ("NPGA-EXTRA",), (PDPG,)),
)  # fmt: skip
_EXACT = (
    "The local problems of Tracking-ADMM and NECPD are solved by an exact routine here, which "
    "takes far fewer calls than the paper's inner loop of APG down to 1e-10."
)
_ALLOCATION = (
    Order(
        "iD2A and MiD2A need significantly fewer calls to ∇f and prox_g than Tracking-ADMM and "
        "NECPD.", (ID2A, MID2A), (TRACKING, NECPD), ("local",), SIGNIFICANTLY, note=_EXACT,
    ),
    Order(
        "iD2A and MiD2A need significantly fewer calls to A, Aᵀ and prox_h* than Tracking-ADMM "
        "and NECPD.", (ID2A, MID2A), (TRACKING, NECPD), ("coupling",), SIGNIFICANTLY, note=_EXACT,
    ),
    Order(
        "Tracking-ADMM needs slightly less communication than MiD2A.",
        (TRACKING,), (MID2A,), ("rounds",), at_most=SLIGHTLY,
    ),
    Order(
        "iD2A needs the least communication of all.",
        (ID2A,), (MID2A, TRACKING, NECPD), ("rounds",),
    ),
    Order(
        "The subproblem solver is crucial for the performance of iD2A.",
        (ID2A, PDPG, LPD), (ID2A, PDPG, LPD), factor=SIGNIFICANTLY, one_is_enough=True,
    ),
    Order(
        "iDAPG is the better solver where communication, A and prox_h* are what costs.",
        (ID2A,), (PDPG, LPD), ("coupling", "rounds"),
    ),
    Order(
        "PDPG or LPD is the better solver where ∇f and prox_g are what costs.",
        (PDPG, LPD), (ID2A,), ("local",), one_is_enough=True,
    ),
)  # fmt: skip

ORDERS: dict[str, tuple[Order, ...]] = {
    "exp1": (
        Order(
            "With ρ > 0, iD2A and MiD2A cost significantly less than DCPA and NPGA in all metrics.",
            (ID2A, MID2A), NPGA1, factor=SIGNIFICANTLY,
        ),
        *_CHEBYSHEV,
        Order(
            "With ρ = 0, iD2A needs much more computation than with ρ > 0.",
            (ID2A,), (LOCAL,), COMPUTATION, SIGNIFICANTLY,
        ),
        Order(
            "With ρ = 0, iD2A converges fast in communication, which makes it preferable where "
            "that dominates.", (LOCAL,), (ID2A,), ("rounds",),
        ),
    ),
    "exp2": _REGRESSION, "exp2-active": _REGRESSION,
    "exp3": _ALLOCATION, "exp3-active": _ALLOCATION,
}  # fmt: skip
"""Claims that compare costs, by the group of runs that they are judged by."""

AIMS = {
    "exp1": tuple(
        Order(
            f"iD2A with our defaults needs a hundredth of the rounds of the best of DCPA and NPGA "
            f"({'to a gap' if measure == 'gap' else 'to a KKT residual'}).",
            (OURS,), NPGA1, ("rounds",), 100.0, measure=measure,
            note="x converges long before the price does, in which the baselines are slowest."
            if measure == "gap" else "",
        )
        for measure in ("gap", "kkt")
    ),
}  # fmt: skip
"""Not claims of the paper but our own aims, judged alike."""

OPEN = {
    "exp2": {
        "In theory iDAPG costs less than PDPG here.": "The paper's table of complexities has no "
        "row for iD2A with PDPG; the measured order is that of the two claims before.",
    },
    "exp3": {
        "A warm start significantly reduces the iterations of APG within Tracking-ADMM and NECPD.":
        "Their local problems are solved by an exact routine here, without APG.",
    },
}  # fmt: skip
"""Claims that these runs cannot decide, and why."""


def claims(store: Store) -> list[Claim]:
    """Every claim about the groups that a store holds, in the paper's order.

    Parameters
    ----------
    store : Store
        Of ``dual2 reproduce``.
    """
    present = set(store.groups())
    found: list[Claim] = []
    for group in ABOUT:
        if group in present:
            runs = {run.case.label: run for run in store.runs(group)}
            found += _group_claims(group, runs)
    return found


def _group_claims(group: str, runs: dict[str, StoredRun]) -> Iterator[Claim]:
    title, _, variant = ABOUT[group].title.partition(":")[0].partition(", ")
    facts = next((run.facts for run in runs.values() if run.facts), {})
    where = f"{title}, text"
    if variant:
        where = f"{title}, {variant} variant (not in the paper)"
    else:
        numbers = [constant for constant in ABOUT[group].constants if constant.name[0] == "κ"]
        for constant in numbers:
            yield _constant(constant, group, f"{title}, caption", facts)
    if group == "exp1":
        yield _conjugate("h* is strongly convex and smooth.", True, group, where, facts)
    if group == "exp2":
        yield _conjugate("h* is p-smooth but not strongly convex.", False, group, where, facts)
        yield _full_rank(group, where, facts)
    for order in ORDERS[group]:
        yield replace(judge(order, group, where, runs), printed=not variant)
    for text, reason in OPEN.get(group, {}).items():
        yield Claim(text, where, "", UNDECIDED, reason, group)
    for order in AIMS.get(group, ()):
        yield replace(judge(order, group, "Our own aim, not in the paper", runs), printed=False)


def _constant(constant: Constant, group: str, where: str, facts: dict) -> Claim:
    """A number of a caption: it must be ours, rounded, and not because we chose it to be.

    Where we have a lower bound only, this must not exceed it.
    """
    text = f"{constant.name} = {constant.paper:g}"
    value = facts.get(constant.fact)
    if not isinstance(value, int | float):
        return Claim(text, where, "", UNDECIDED, f"The runs do not tell {constant.fact}.", group)
    if constant.fact.endswith("_at_least"):
        wrong = value > constant.paper
        measured = f"{constant.name} ≥ {value:.3g}"
        verdict = NOT_REPRODUCED if wrong else UNDECIDED
        return Claim(text, where, measured, verdict, constant.remark, group)
    met = math.isfinite(value) and round(value) == constant.paper
    verdict = NOT_REPRODUCED if not met else UNDECIDED if constant.chosen else REPRODUCED
    measured = f"{constant.name} = {value:.8g}"
    reason = constant.remark or ("The same number." if met else "Another number.")
    return Claim(text, where, measured, verdict, reason, group)


def _conjugate(text: str, strongly: bool, group: str, where: str, facts: dict) -> Claim:
    """What the constants of h* are: p-smooth in both experiments, strongly convex or not."""
    mu, L, p = (facts.get(name) for name in ("mu_h*", "L_h*", "p"))
    if mu is None or L is None or p is None:
        return Claim(text, where, "", UNDECIDED, "The runs do not tell the constants.", group)
    holds = math.isclose(L, p) and (mu > 0) is strongly
    reason = "h is a parabola, so that h* is one, too."
    if not strongly:
        reason = "The printed value 0 for w_i < -y_i/p would make h* jump: it is -y_i²/(2p) there."
    verdict = REPRODUCED if holds else NOT_REPRODUCED
    return Claim(text, where, f"L_{{h*}} = {L:g}, μ_{{h*}} = {mu:g}", verdict, reason, group)


def _full_rank(group: str, where: str, facts: dict) -> Claim:
    text = "The feature matrix X has full row rank."
    rank, rows = facts.get("rank_A"), facts.get("p")
    if rank is None or rows is None:
        return Claim(text, where, "", UNDECIDED, "The runs do not tell the rank.", group)
    verdict = REPRODUCED if rank == rows else NOT_REPRODUCED
    measured = f"rank {rank} of {rows}, σ̄²/σ̲² = {facts.get('kappa_A_joint', math.nan):.3g}"
    reason = (
        "Only just: squared, the smallest singular value is below the rounding of the largest, so "
        "that the eigenvalues of AAᵀ do not show it in double precision."
    )
    return Claim(text, where, measured, verdict, reason, group)
