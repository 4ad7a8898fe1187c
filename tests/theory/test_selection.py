"""Which subsolver may be used, and which is chosen at which costs."""

import math

import networkx as nx
import numpy as np
import pytest

import dual2 as d2
from dual2.errors import CapabilityError
from dual2.methods.subsolvers import (
    SUBSOLVERS,
    Costs,
    admissible_subsolvers,
    predict,
    select_subsolver,
)
from dual2.theory import analyse, gather_facts
from dual2.theory.saddle_table import saddle_numbers

N, P = 4, 3
RNG = np.random.default_rng(2)
NETWORK = d2.Network(nx.path_graph(N))
WIDE = [np.linalg.qr(RNG.standard_normal((5, P)))[0].T for _ in range(N)]
TALL = [RNG.standard_normal((P, 2)) for _ in range(N)]
POINT, SQUARE = d2.IndicatorPoint(np.ones(P)), d2.SquaredLoss(np.ones(P), 100.0)
CAPPED = d2.IndicatorAtMost(np.ones(P))
GRADIENTS = Costs(communication=0.0, grad_f=1000.0, matvec=1.0)
PRODUCTS = Costs(communication=0.0, grad_f=1.0, matvec=1000.0)


def problem(matrices, h, g=None, kappa=1e4):
    """f with condition number ``kappa``; the rows of WIDE are orthonormal, so κ_A = 1."""
    agents = [
        d2.Agent(A, d2.Quadratic(np.geomspace(1.0, kappa, A.shape[1])), g or d2.Zero())
        for A in matrices
    ]
    return d2.Problem(agents, h)


def chosen(where, cost, rho="auto"):
    return select_subsolver(analyse(where, NETWORK, rho), gather_facts(where), cost)


# -- who may ---------------------------------------------------------------------------------


def admissible(where, rho=1.0, mapping="auto"):
    verdicts = admissible_subsolvers(gather_facts(where), rho, mapping)
    assert [*verdicts, "exact"] == list(SUBSOLVERS)
    assert all(verdict.reason for verdict in verdicts.values())
    return {name for name, verdict in verdicts.items() if verdict.accepted}


ALWAYS = {"iDAPG", "PDPG", "LPD", "ABPD-PGS"}


@pytest.mark.parametrize(
    "where, rho, names",
    [
        (problem(WIDE, SQUARE), 1.0, ALWAYS | {"APDG"}),
        (problem(TALL, SQUARE), 1.0, ALWAYS | {"APDG"}),
        (problem(WIDE, SQUARE, d2.L1Norm(1.0)), 1.0, ALWAYS),
        (problem(WIDE, POINT), 0.0, ALWAYS | {"APDG", "Salim"}),
        (problem(WIDE, POINT), 1.0, ALWAYS | {"APDG"}),
        (problem(TALL, POINT), 1.0, ALWAYS),
        (problem(WIDE, CAPPED), 1.0, ALWAYS),
        (problem(WIDE, d2.HuberLoss(np.ones(P), 1.0)), 1.0, ALWAYS),
        (problem(TALL[:1], POINT), 0.0, ALWAYS | {"APDG", "Salim"}),
    ],
)
def test_admissible(where, rho, names):
    assert admissible(where, rho) == names


def test_prox_mapping_excludes_what_needs_the_gradient():
    assert admissible(problem(WIDE, SQUARE), mapping="prox") == ALWAYS
    assert "APDG" in admissible(problem(WIDE, POINT), mapping="prox")


def test_reasons():
    verdicts = admissible_subsolvers(gather_facts(problem(TALL, POINT)), 1.0)
    assert "full row rank" in verdicts["APDG"].reason
    assert "rho = 0" in verdicts["Salim"].reason
    assert "sublinear" in verdicts["LPD"].reason
    assert "Remark 9" in verdicts["ABPD-PGS"].reason
    assert "no linear rate" in verdicts["iDAPG"].reason


# -- who does --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "where, cost, name",
    [
        (problem(TALL, SQUARE, d2.L1Norm(1.0)), "communication", "iDAPG"),
        (problem(TALL, SQUARE, d2.L1Norm(1.0)), GRADIENTS, "LPD"),
        (problem(TALL, SQUARE, d2.L1Norm(1.0)), PRODUCTS, "iDAPG"),
        (problem(TALL, SQUARE, d2.L1Norm(1.0), kappa=1.0), GRADIENTS, "iDAPG"),
        (problem(WIDE, POINT), "communication", "iDAPG"),
        (problem(WIDE, POINT), GRADIENTS, "APDG"),
        (problem(WIDE, POINT), PRODUCTS, "iDAPG"),
        (problem(TALL, POINT), GRADIENTS, "iDAPG"),
        (problem(WIDE, CAPPED), GRADIENTS, "iDAPG"),
    ],
)
def test_the_rules_of_the_paper(where, cost, name):
    found, sentence = chosen(where, cost)
    assert found == name
    assert sentence


def test_ill_conditioned_coupling_speaks_against_apdg():
    skew = [np.diag([1.0, 1.0, 1e-3]) @ A for A in WIDE]
    assert chosen(problem(skew, POINT, kappa=4.0), GRADIENTS)[0] == "iDAPG"


def test_local_subproblems_with_a_linear_conjugate():
    where = problem(WIDE, POINT)
    assert chosen(where, GRADIENTS, rho=0.0)[0] == "Salim"
    assert chosen(where, "communication", rho=0.0)[0] == "iDAPG"


def test_the_sentence_has_the_numbers():
    name, sentence = chosen(problem(TALL, SQUARE, d2.L1Norm(1.0)), GRADIENTS)
    assert name == "LPD"
    assert "predicted cost" in sentence
    assert "of iDAPG" in sentence
    _, sentence = chosen(problem(TALL, POINT), GRADIENTS)
    assert "no solver has a known linear rate" in sentence


def test_the_choice_is_the_cheapest_up_to_the_margin():
    where = problem(TALL, SQUARE, d2.L1Norm(1.0))
    constants, facts = analyse(where, NETWORK), gather_facts(where)
    for grad_f in np.geomspace(1e-3, 1e3, 13):
        costs = Costs(1.0, grad_f=float(grad_f), matvec=1.0)
        total = {}
        for name in ("iDAPG", "LPD"):
            p = predict(constants, facts, name)
            total[name] = p.rounds + grad_f * p.oracle_a + 2.0 * p.oracle_b
        name, _ = select_subsolver(constants, facts, costs)
        assert (name == "LPD") == (2 * total["LPD"] <= total["iDAPG"])


def test_closed_form_inner_problem_speaks_for_idapg():
    where = problem(TALL, SQUARE, d2.L1Norm(1.0))
    constants, facts = analyse(where, NETWORK), gather_facts(where)
    assert select_subsolver(constants, facts, GRADIENTS)[0] == "LPD"
    assert select_subsolver(constants, facts, GRADIENTS, closed_form=True)[0] == "iDAPG"
    found = predict(constants, facts, "iDAPG", closed_form=True)
    assert found.oracle_a == found.oracle_b


# -- predictions -----------------------------------------------------------------------------


def test_mapping_of_the_subproblem():
    where = problem(WIDE, SQUARE)
    facts = gather_facts(where)
    constants = analyse(where, NETWORK)
    augmented = constants.rho * NETWORK.lambda_max
    prox, smooth = (saddle_numbers(constants, facts, kind) for kind in ("prox", "smooth"))
    assert prox.L_y == pytest.approx(augmented + facts.mu_h / N)
    assert smooth.L_y == pytest.approx(augmented + facts.L_h / N)
    assert (prox.g2_zero, smooth.g2_zero) == (False, True)
    assert prox.mu_y == smooth.mu_y == facts.mu_h / N
    assert (prox.s, prox.S) == pytest.approx((1.0, 1.0))
    assert not prox.linear
    point = problem(WIDE, POINT)
    local = saddle_numbers(analyse(point, NETWORK, 0.0), gather_facts(point))
    assert local.linear
    assert local.L_y == 0.0


def test_rounds_of_a_prediction():
    where = problem(WIDE, SQUARE)
    facts = gather_facts(where)
    for rho, extra in ((0.0, 0.0), ("auto", 1.0)):
        constants = analyse(where, NETWORK, rho)
        outer = math.sqrt(constants.kappa_F) * math.log(1e6)
        one, three = (predict(constants, facts, "LPD", 1e-6, k) for k in (1, 3))
        assert one.rounds == pytest.approx(outer + extra * one.oracle_b)
        assert three.rounds == pytest.approx(3 * one.rounds)
        assert three.oracle_a == one.oracle_a


def test_no_prediction_without_a_rate():
    where = problem(WIDE, CAPPED)
    assert predict(analyse(where, NETWORK), gather_facts(where), "iDAPG").rounds == math.inf


# -- costs -----------------------------------------------------------------------------------


def test_costs():
    costs = Costs(2.0, grad_f=3.0, matvec=5.0, prox_g=7.0, prox_h=11.0)
    assert costs.total(1.0, 10.0, 100.0) == 2.0 + 10.0 * 10.0 + 21.0 * 100.0
    assert Costs().total(4.0, math.inf, math.inf) == 4.0


@pytest.mark.parametrize("bad", [{"grad_f": -1.0}, {"matvec": math.inf}, {"communication": 0.0}])
def test_bad_costs(bad):
    with pytest.raises(CapabilityError):
        Costs(**bad)


def test_unknown_bottleneck():
    with pytest.raises(CapabilityError, match="communication or computation"):
        chosen(problem(WIDE, SQUARE), "money")
