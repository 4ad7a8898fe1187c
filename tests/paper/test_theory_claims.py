"""Claims of the theory sections: what is reproduced, what is not, and that a verdict can turn."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import dual2 as d2
from dual2.paper import theory_claims as module
from dual2.paper.theory_claims import inner_complexities, samples, theory_claims
from dual2.paper.verdicts import NOT_REPRODUCED, REPRODUCED
from dual2.theory import accepts, analyse, conditions

TABLE = conditions.TABLE


@pytest.fixture(scope="module")
def verdicts():
    return {claim.text: claim.verdict for claim in theory_claims()}


def test_every_claim_has_its_verdict(verdicts):
    assert Counter(verdicts.values()) == {REPRODUCED: 9, NOT_REPRODUCED: 4}
    wrong = [text for text, verdict in verdicts.items() if verdict == NOT_REPRODUCED]
    words = ("convex function of ρ", "attains its minimum", "Case 2", "Case 2: APDG")
    assert all(word in text for word, text in zip(words, wrong, strict=True))


def test_the_counterexample_of_case_2_by_hand():
    """A_i = I, κ_f = 10⁴, κ_C = 100: √(κ_f κ_C) = 10³ gradients, MiD2A-iDAPG 10⁴."""
    point = {"κ_f": 1e4, "κ_C": 100.0, "κ_A": 1.0, "ε": math.exp(-1)}
    rows = {row.name: row for row in module._rows("2")}
    assert rows["Nedić"].oracle_a(point) == pytest.approx(1e3)
    assert rows["MiD2A-iDAPG"].oracle_a(point) == pytest.approx(1e4)


def test_the_rule_of_case_2_misses_where_apdg_is_cheaper_below_kappa_A():
    """κ_f = 10³ < κ_A = 10⁴: max(√(κ_f κ_A), κ_A) = 10⁴, but κ_f √κ_A = 10⁵."""
    rows = {row.subsolver: row for row in module._rows("2", "MiD2A")}
    point = {"κ_f": 1e3, "κ_C": 1.0, "κ_A": 1e4, "ε": math.exp(-1)}
    assert rows["APDG"].oracle_a(point) == pytest.approx(1e4)
    assert rows["iDAPG"].oracle_a(point) == pytest.approx(1e5)


def test_inner_iterations_of_case_1_are_least_at_rho_star_and_concave_far_beyond():
    """With equal agents they are (1 + t)/√t for t = ρ/ρ*, up to the small part of h* in it."""
    one = samples()[0]
    costs = [inner_complexities(one, t)["iDAPG"] for t in (20.0, 21.0, 22.0)]
    assert costs[0] + costs[2] < 2 * costs[1]


def test_other_constants_turn_the_verdict(monkeypatch):
    monkeypatch.setattr(module, "analyse", lambda *args, constants: analyse(*args))
    assert module._twice_kappa().verdict == NOT_REPRODUCED


def test_a_lower_degree_turns_the_verdict(monkeypatch):
    monkeypatch.setattr(module, "chebyshev_bound", lambda kappa: math.sqrt(kappa))
    assert module._at_most_four().verdict == NOT_REPRODUCED


def test_samples_are_of_their_case():
    for one in samples():
        assert analyse(one.problem, one.network, constants="paper").case.name == one.case
        mus = [agent.f.mu for agent in one.problem.agents]
        assert len(set(np.round(mus, 12))) == one.problem.n


def test_table_1_admits_other_h_for_the_papers_methods_only(monkeypatch):
    assert module._widest_h().verdict == REPRODUCED
    wider = replace(TABLE[-2], point=False)  # as if NPGA's row allowed every h
    monkeypatch.setattr(conditions, "TABLE", (*TABLE[:-2], wider, TABLE[-1]))
    assert module._widest_h().verdict == NOT_REPRODUCED


@pytest.mark.parametrize("method", ["iD2A", "MiD2A"])
def test_what_table_1_admits_is_solved(method):
    """Every combination that the printed conditions admit, by the printed rules."""
    network = d2.Network([(0, 1)])
    admitted = [p for p in module.condition_samples() if accepts(p)[method].accepted]
    assert len(admitted) == 28
    for problem in admitted:
        result = d2.solve(
            problem, network, method=method, constants="paper", accuracy="paper", tol=1e-6,
            max_rounds=100_000,
        )  # fmt: skip
        assert result.status == d2.Status.CONVERGED, (problem.agents[0].g, problem.h)
