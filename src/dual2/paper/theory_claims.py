"""Claims of the paper's theory sections, judged by its own formulas on many problems.

Nothing is run here. Constants are those of ``constants="paper"`` on random problems whose agents
all differ; complexities are the printed ones, every hidden constant and logarithm taken as 1.
"""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

import networkx as nx
import numpy as np

from dual2.functions import (
    AbsoluteLoss,
    HuberLoss,
    IndicatorAtMost,
    IndicatorBox,
    IndicatorNonnegative,
    IndicatorPoint,
    L1Norm,
    LogisticLoss,
    Quadratic,
    SquaredLoss,
    Zero,
)
from dual2.network import Network
from dual2.paper.verdicts import NOT_REPRODUCED, REPRODUCED, Claim
from dual2.problem import Agent, Problem
from dual2.theory import analyse, chebyshev_bound, gather_facts
from dual2.theory.complexity_table import BOUNDS, Bound
from dual2.theory.condition_numbers import condition_numbers
from dual2.theory.conditions import accepts, is_point
from dual2.theory.saddle_table import saddle_complexities, saddle_numbers

GROUP = "theory"
WHERE = "Theory"
SAMPLES = 6
"""Random problems of each case."""

GRID = (1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6)
"""Values of each condition number where formulas are compared."""

COLUMNS = {"rounds": "communication", "oracle_a": "∇f and prox_g", "oracle_b": "A, Aᵀ and h*"}
ROUNDING = 1e-9
"""Relative difference that counts as none."""


@dataclass(frozen=True, eq=False)
class CaseProblem:
    """A problem of one of the three cases, on a network."""

    case: str
    problem: Problem
    network: Network


@cache
def samples() -> tuple[CaseProblem, ...]:
    """Problems of Cases 1, 2 and 3; σ̄(A_i), μ_i and L_i differ between agents.

    Case 1: h = |z - 1|², d_i ≤ p; Case 2: d_i > p; Case 3: d_i < p, all together of rank p.
    """
    return tuple(_sample(case, seed) for case in ("1", "2", "3") for seed in range(SAMPLES))


def _sample(case: str, seed: int) -> CaseProblem:
    rng = np.random.default_rng([seed, int(case), 71])
    n, p = int(rng.integers(4, 8)), int(rng.integers(2, 4))
    agents = []
    for _ in range(n):
        d = p + 1 if case == "2" else p - 1
        A = 10.0 ** rng.uniform(-0.5, 0.5) * rng.standard_normal((p, d))
        agents.append(Agent(A, Quadratic(10.0 ** rng.uniform(-1.0, 1.0, d))))
    h = SquaredLoss(np.ones(p), scale=2.0) if case == "1" else IndicatorPoint(np.ones(p))
    graphs = nx.path_graph(n), nx.cycle_graph(n), nx.star_graph(n - 1)
    return CaseProblem(case, Problem(agents, h), Network(graphs[seed % len(graphs)]))


def theory_claims() -> list[Claim]:
    """Every claim of the theory sections that formulas can decide.

    Examples
    --------
    >>> found = theory_claims()
    >>> found[0].text, found[0].verdict
    ('With ρ = ρ*, κ_F = 2κ_C for iD2A.', 'reproduced')
    """
    found = [_twice_kappa(), _at_most_eight(), _at_most_four(), _convex_in_rho()]
    found += _minimum_at_rho()
    found += [_lower(case) for case in ("1", "2", "3")]
    return [*found, _best_in_most_cases(), *_rules(), _widest_h()]


def _claim(text: str, holds: bool, measured: str, reason: str) -> Claim:
    return Claim(text, WHERE, measured, REPRODUCED if holds else NOT_REPRODUCED, reason, GROUP)


# -- the choice of ρ ------------------------------------------------------------------------------
def _twice_kappa() -> Claim:
    ratios = []
    for one in samples():
        found = analyse(one.problem, one.network, constants="paper")
        ratios.append(found.kappa_F / (2.0 * one.network.kappa))
    off = max(abs(ratio - 1.0) for ratio in ratios)
    measured = f"largest deviation of κ_F/(2κ_C) from 1: {off:.1g}, {len(ratios)} problems"
    reason = "Lemma 11 (κ_F) with ρ*λ̄ = max σ̄²(A_i)/μ_i + L_h*/n, in all three cases."
    return _claim("With ρ = ρ*, κ_F = 2κ_C for iD2A.", off <= ROUNDING, measured, reason)


def _at_most_eight() -> Claim:
    found = []
    for one in samples():
        fast = one.network.chebyshev()
        kappa = analyse(one.problem, fast, constants="paper").kappa_F
        found.append((kappa, abs(kappa / (2.0 * fast.kappa) - 1.0)))
    largest, off = (max(values) for values in zip(*found, strict=True))
    measured = f"largest κ_F = {largest:.3g}, largest deviation from 2κ(P_K(C)): {off:.1g}"
    holds = off <= ROUNDING and largest <= 8.0 * (1.0 + ROUNDING)
    text = "With ρ = ρ*, κ_F = 2κ(P_K(C)) ≤ 8 for MiD2A."
    return _claim(text, holds, measured, "The same with P_K(C) in the place of C.")


def _at_most_four() -> Claim:
    values = np.geomspace(1.0, 1e6, 4000)
    edges = [np.nextafter(k * k, 0.0) for k in range(2, 100)]  # ⌊√κ⌋ is about to grow
    bound = max(chebyshev_bound(float(kappa)) for kappa in [*values, *edges])
    graphs = [nx.path_graph(n) for n in (3, 8, 20, 50)] + [nx.cycle_graph(n) for n in (5, 12, 30)]
    actual = max(Network(graph).chebyshev().kappa for graph in graphs)
    measured = f"bound at most {bound:.6g} for κ_C up to 1e6; {actual:.3g} on {len(graphs)} graphs"
    reason = "The bound ((1 + c)/(1 - c))², c = ((√κ_C - 1)/(√κ_C + 1))^K, comes near 4 at κ_C = 4."
    holds = max(bound, actual) <= 4.0 * (1.0 + ROUNDING)
    return _claim("κ(P_K(C)) ≤ 4 for K = ⌊√κ_C⌋.", holds, measured, reason)


def inner_complexities(one: CaseProblem, factor: float) -> dict[str, float]:
    """√κ_F·Δ of each subsolver that can, Δ its calls to 𝒜, with ρ = ``factor``·ρ*.

    Examples
    --------
    >>> sorted(inner_complexities(samples()[0], 1.0))
    ['ABPD-PGS', 'LPD', 'iDAPG']
    """
    facts = gather_facts(one.problem)
    star = analyse(one.problem, one.network, constants="paper").rho_star
    found = analyse(one.problem, one.network, factor * star, constants="paper")
    outer = math.sqrt(found.kappa_F)
    numbers = saddle_numbers(found, facts)
    if one.case == "3":  # μ_H is λ_min(𝐀𝐀ᵀ + ρL_f𝐂)/L_f
        numbers = replace(numbers, lambda_P=found.mu_H * facts.L_f)
    rows = saddle_complexities(numbers)
    costs: dict[str, float] = {}
    for row in rows:
        if row.applies and row.case not in ("concave", "dual") and row.algorithm != "lower bound":
            known = costs.get(row.algorithm, math.inf)
            costs[row.algorithm] = min(known, outer * row.oracle_a)
    return costs


def _convex_in_rho() -> Claim:
    """(a + x)/√x, the inner iterations over x = ρλ̄, turns concave at x = 3a."""
    factors, solver = np.linspace(0.5, 12.0, 24), "iDAPG"
    bent = 0
    for one in samples():
        costs = np.array([inner_complexities(one, factor)[solver] for factor in factors])
        bent += bool(np.any(np.diff(costs, 2) < -ROUNDING * costs[1:-1]))
    measured = f"iDAPG, ρ from ρ*/2 to 12ρ*: not convex on {bent} of {len(samples())} problems"
    reason = "The product of √κ_F and √κ_φ is (a + ρλ̄)/√(ρλ̄): least at ρ*, concave beyond 3ρ*."
    text = "The inner complexity of iD2A is a convex function of ρ on (0, ∞)."
    return _claim(text, not bent, measured, reason)


def _minimum_at_rho() -> Iterator[Claim]:
    """How far above the least over a grid of ρ the cost at ρ* is, by subsolver."""
    factors = np.geomspace(1.0 / 64.0, 64.0, 31)
    worst: dict[str, float] = {}
    for one in samples():
        at_star = inner_complexities(one, 1.0)
        at_star.pop("ABPD-PGS", None)  # which Remark 9 does not count among the qualified
        least = [inner_complexities(one, float(factor)) for factor in factors]
        for name, cost in at_star.items():
            ratio = cost / min(costs[name] for costs in least)
            worst[name] = max(ratio, worst.get(name, 1.0))
    told = ", ".join(f"{name} {ratio:.3g}×" for name, ratio in sorted(worst.items()))
    measured, most = f"calls at ρ* over the least of a grid: {told}", max(worst.values())
    text = (
        "The inner complexity attains its minimum at ρ = ρ* with every qualified subproblem solver."
    )
    reason = (
        "The printed complexities are maxima of terms, and have σ̄²(𝐀)/μ_f where ρ* has "
        "max σ̄²(A_i)/μ_i."
    )
    yield _claim(text, most <= 1.0 + ROUNDING, measured, reason)
    text = "ρ = ρ* is an approximately optimal choice."
    yield _claim(text, most <= 2.0, measured, "Approximately is read as at most twice the least.")


# -- the tables of complexities -------------------------------------------------------------------
def _grid(case: str) -> Iterator[dict[str, float]]:
    """Condition numbers of the formulas: a grid, in Case 3 those of problems."""
    if case == "3":
        for one in samples():
            if one.case == "3":
                yield condition_numbers(one.problem, one.network).symbols | {"ε": 1e-8}
        return
    names = ("κ_f", "κ_C", "κ_pd" if case == "1" else "κ_A")
    for values in product(GRID, repeat=3):
        yield dict(zip(names, values, strict=True)) | {"ε": 1e-8}


def _rows(case: str, method: str = "") -> list[Bound]:
    """Rows of a case whose h* enters by its prox, with ρ* if they have a ρ."""
    found = [bound for bound in BOUNDS if bound.case == case and bound.assumption != "③"]
    return [row for row in found if row.rho != "0" and method in ("", row.method)]


def _lower(case: str) -> Claim:
    """MiD2A-iDAPG with ρ* beside the existing algorithms of its case, over the grid."""
    own = next(row for row in _rows(case, "MiD2A") if row.subsolver == "iDAPG")
    rivals = [row for row in _rows(case) if not row.subsolver]
    told, worst = [], 1.0
    for rival, column in product(rivals, COLUMNS):
        known = [point for point in _grid(case) if _concerns(rival, point)]
        ratios = [getattr(own, column)(at) / getattr(rival, column)(at) for at in known]
        worst = max(worst, *ratios)
        twice = sum(ratio <= 0.5 for ratio in ratios) / len(ratios)
        higher = sum(ratio > 1.0 + ROUNDING for ratio in ratios) / len(ratios)
        shares = f"{twice:.1%} half or less, {higher:.1%} more"
        told.append(f"{rival.name}, {COLUMNS[column]}: {shares}")
    holds = worst <= 1.0 + ROUNDING
    reason = "Never more than an existing algorithm."
    if not holds:
        reason = f"Up to {worst:.3g} times an existing algorithm. {_WHY_NOT.get(case, '')}".strip()
    text = f"MiD2A-iDAPG with ρ > 0 has lower complexities than existing algorithms in Case {case}."
    return _claim(text, holds, "; ".join(told), reason)


_WHY_NOT = {
    "2": "With A_i = I, (80) of Nedić et al. needs √(κ_f κ_C) gradients, MiD2A-iDAPG κ_f: more "
    "where κ_f > κ_C. It is lower than DCDA everywhere."
}


def _concerns(row: Bound, point: dict[str, float]) -> bool:
    """Whether a row speaks of such a problem: that of Nedić et al. has A_i = I."""
    return row.method != "Nedić" or point["κ_A"] == 1.0


def _best_in_most_cases() -> Claim:
    """How often iDAPG is the cheapest subsolver of MiD2A, for each cost of each case."""
    told, shares = [], []
    for case, column in product(("1", "2", "3"), COLUMNS):
        rows = [row for row in _rows(case, "MiD2A") if row.subsolver]
        own = next(row for row in rows if row.subsolver == "iDAPG")
        best = [
            getattr(own, column)(at)
            <= (1.0 + ROUNDING) * min(getattr(row, column)(at) for row in rows)
            for at in _grid(case)
        ]
        shares.append(sum(best) / len(best))
        told.append(f"Case {case}, {COLUMNS[column]}: {shares[-1]:.0%}")
    most = sum(share > 0.5 for share in shares)
    reason = f"Best at more than half of the points for {most} of {len(shares)} costs."
    text = "iDAPG is approximately the best subproblem solver in most cases."
    return _claim(text, most > len(shares) / 2, "; ".join(told), reason)


def _rules() -> Iterator[Claim]:
    """The rules for choosing a subsolver, against the same table."""
    rules = {
        "Case 1: LPD where ∇f and prox_g are what costs, iDAPG otherwise.": ("1", "LPD"),
        "Case 2: APDG where ∇f and prox_g cost and κ_f ≥ κ_A, iDAPG otherwise.": ("2", "APDG"),
    }
    for text, (case, rival) in rules.items():
        rows = {row.subsolver: row for row in _rows(case, "MiD2A") if row.subsolver}
        wrong: dict[str, float] = {}
        points = list(_grid(case))
        for at, column in product(points, COLUMNS):
            fits = column == "oracle_a" and (case == "1" or at["κ_f"] >= at["κ_A"])
            asked, other = (rival, "iDAPG") if fits else ("iDAPG", rival)
            ratio = getattr(rows[asked], column)(at) / getattr(rows[other], column)(at)
            if ratio > 1.0 + ROUNDING:
                wrong[COLUMNS[column]] = max(ratio, wrong.get(COLUMNS[column], 1.0))
        measured = "; ".join(f"{name}: up to {r:.3g}× the other" for name, r in wrong.items())
        reason = "The table gives the same choice." if not wrong else _RULE_WHY
        yield _claim(text, not wrong, measured or f"{len(points)} points of a grid", reason)


_RULE_WHY = (
    "APDG needs max(√(κ_f κ_A), κ_A) calls, iDAPG κ_f √κ_A: APDG is cheaper from κ_f = √κ_A on."
)


# -- Table I --------------------------------------------------------------------------------------
def condition_samples() -> tuple[Problem, ...]:
    """Two agents with each f, g and h of a list: strongly convex or flat, seven h, four g."""
    one = np.ones(2)
    curved, flat = Quadratic(np.array([1.0, 2.0])), Quadratic(np.array([1.0, 0.0]))
    gs = Zero(), L1Norm(0.1), IndicatorBox(-1.0, 1.0), IndicatorNonnegative()
    hs = (
        IndicatorPoint(one),
        IndicatorAtMost(one),
        SquaredLoss(one),
        HuberLoss(one, 0.5),
        AbsoluteLoss(one),
        LogisticLoss(one),
        IndicatorBox(-one, one),
    )
    A = np.array([[1.0, 0.5], [0.0, 1.0]])
    return tuple(
        Problem([Agent(A, f, g), Agent(A.T, f, g)], h)
        for f, g, h in product((curved, flat), gs, hs)
    )


def _widest_h() -> Claim:
    """Which algorithms the conditions of Table I admit, on :func:`condition_samples`."""
    problems = condition_samples()
    own, beyond, missed = Counter[str](), Counter[str](), Counter[str]()
    for problem in problems:
        admitted = {name for name, verdict in accepts(problem).items() if verdict.accepted}
        own.update(admitted)
        beyond.update(admitted if not is_point(problem.h) else ())
        missed.update(admitted if "iD2A" not in admitted else ())
    told = ", ".join(f"{name} {own[name]}" for name in accepts(problems[0]))
    measured = f"of {len(problems)} combinations of f, g and h admitted: {told}"
    holds = set(beyond) == {"iD2A", "MiD2A"} and own["iD2A"] == own["MiD2A"] > 0
    refused = ", ".join(sorted(missed)) or "none"
    reason = (
        "Without a point for h only iD2A and MiD2A are admitted. Admitted where iD2A is not, as f "
        f"is not strongly convex: {refused}. The tables of complexities admit DCPA and NPGA for "
        "any h with a prox as well, in Cases 1 and 3."
    )
    text = "Table I: iD2A and MiD2A converge for every h, where existing algorithms need a point."
    return _claim(text, holds, measured, reason)
