"""The claims of the paper: those of the experiment sections are judged by stored runs alone.

These are data, ``claims.toml``. Costs are those from which on the gap stays below the target
(accelerated methods oscillate); the target is the smallest of 1e-8, 1e-6, 1e-4, 1e-2 at which the
runs decide. A run that was cut counts as costing more than it had spent.
"""

import math
from collections.abc import Iterator
from dataclasses import replace

from dual2.bench.store import Store, StoredRun
from dual2.paper.captions import ABOUT, Constant, read_toml
from dual2.paper.planned_runs import LITERAL
from dual2.paper.theory_claims import theory_claims
from dual2.paper.verdicts import NOT_REPRODUCED, REPRODUCED, UNDECIDED, Claim, Order, judge

_FILE = read_toml("claims.toml")


def _orders(part: str, group: str) -> tuple[Order, ...]:
    """Orders of a part of the file; a variant is judged by those of its experiment."""
    found = []
    for entry in _FILE[part].get(group, ()):
        names = {side: tuple(map(_label, entry[side])) for side in ("lower", "higher")}
        axes = {"axes": tuple(entry["axes"])} if "axes" in entry else {}
        found.append(Order(**entry | names | axes))
    return tuple(found)


def _label(name: str) -> str:
    return _FILE["runs"].get(name, name)


ORDERS = {group: _orders("orders", group.partition("-")[0]) for group in ABOUT}
"""Claims that compare costs, by the group of runs that they are judged by."""

AIMS = {group: _orders("aims", group) for group in _FILE["aims"]}
"""Not claims of the paper but our own aims, judged alike."""

SPARSE = "With the inner test at every tenth iteration"
"""How the runs with ``accuracy="paper"`` differ most from the printed text."""

PRINTED_GROUPS = ("exp1", "exp2", "exp3")
"""With all of these the claims of the theory sections are listed as well."""

OPEN: dict[str, dict[str, str]] = _FILE["open"]
"""Claims that these runs cannot decide, and why."""


def claims(store: Store) -> list[Claim]:
    """Every claim about the groups that a store holds, then those about the theory.

    ``store``: of ``dual2 reproduce``.
    """
    present = set(store.groups())
    found: list[Claim] = []
    for group in ABOUT:
        if group in present:
            runs = {run.case.label: run for run in store.runs(group)}
            found += _group_claims(group, runs)
    return found + (theory_claims() if set(PRINTED_GROUPS) <= present else [])


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
        yield from _both_modes(order, group, where, runs, not variant)
    for text, reason in OPEN.get(group, {}).items():
        yield Claim(text, where, "", UNDECIDED, reason, group)
    for order in AIMS.get(group, ()):
        yield replace(judge(order, group, "Our own aim, not in the paper", runs), printed=False)


def _both_modes(
    order: Order, group: str, where: str, runs: dict[str, StoredRun], printed: bool
) -> Iterator[Claim]:
    """The verdict, in literal mode if it was run; the other one as well if it differs."""
    sparse = replace(judge(order, group, where, runs), printed=printed)
    twin = replace(order, lower=_twins(order.lower, runs), higher=_twins(order.higher, runs))
    if twin == order:
        yield sparse
        return
    literal = judge(twin, group, f"{where}, literal mode", runs)
    same = literal.verdict == sparse.verdict
    more = f" {SPARSE}: the same verdict." if same else ""
    yield replace(literal, printed=printed, reason=literal.reason + more, sparse=sparse.verdict)
    if not same:
        yield replace(sparse, where=f"{where}. {SPARSE}", printed=False)


def _twins(names: tuple[str, ...], runs: dict[str, StoredRun]) -> tuple[str, ...]:
    """The runs in literal mode, where there are any."""
    return tuple(name + LITERAL if name + LITERAL in runs else name for name in names)


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
