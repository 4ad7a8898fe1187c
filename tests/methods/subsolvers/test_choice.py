"""Which subsolver runs: by name, by predicted cost, or not at all."""

from functools import partial

import networkx as nx
import numpy as np
import pytest

import dual2 as d2
from dual2.errors import CapabilityError
from dual2.methods.subsolvers import IDAPG, find_subsolver, select_subsolver
from dual2.theory import analyse, gather_facts

N, P = 4, 3
NETWORK = d2.Network(nx.path_graph(N))
RNG = np.random.default_rng(2)
WIDE = [np.linalg.qr(RNG.standard_normal((5, P)))[0].T for _ in range(N)]
TALL = [RNG.standard_normal((P, 2)) for _ in range(N)]
POINT, SQUARE = d2.IndicatorPoint(np.ones(P)), d2.SquaredLoss(np.ones(P), 100.0)
CAPPED = d2.IndicatorAtMost(np.ones(P))


def problem(matrices, h, g=None, kappa=100.0):
    """Dense f of the given condition number: the local problem of iDAPG has no closed form."""
    agents = []
    for A in matrices:
        d = A.shape[1]
        Q = np.linalg.qr(RNG.standard_normal((d, d)))[0]
        curvature = (Q * np.geomspace(1.0, kappa, d)) @ Q.T
        agents.append(
            d2.Agent(A, d2.Quadratic((curvature + curvature.T) / 2, np.ones(d)), g or d2.Zero())
        )
    return d2.Problem(agents, h)


ALWAYS = {"iDAPG", "PDPG", "LPD", "ABPD-PGS"}


@pytest.mark.parametrize(
    "where, rho, subsolver, reason",
    [
        (problem(TALL, SQUARE, d2.L1Norm(1.0)), "auto", "APDG", "needs g_i = 0"),
        (problem(TALL, SQUARE, d2.L1Norm(1.0)), 0, "Salim", "needs g_i = 0"),
        (problem(WIDE, SQUARE), 0, "Salim", "needs a linear h"),
        (problem(WIDE, POINT), 1.0, "Salim", "needs rho = 0"),
        (problem(TALL, POINT), "auto", "APDG", "full row rank"),
    ],
)
def test_inadmissible_pairs_name_the_admissible(where, rho, subsolver, reason):
    with pytest.raises(CapabilityError, match=f"{subsolver} cannot solve .*{reason}") as caught:
        d2.solve(where, NETWORK, subsolver=subsolver, rho=rho)
    named = set(str(caught.value).split("Admissible here: ")[1].rstrip(".").split(", "))
    assert ALWAYS <= named <= ALWAYS | {"APDG"}
    for able in named:
        d2.solve(where, NETWORK, subsolver=able, rho=rho, max_rounds=5, tol=1e-15)


def test_apdg_needs_a_smooth_conjugate():
    with pytest.raises(CapabilityError, match="smooth"):
        d2.solve(problem(WIDE, CAPPED), NETWORK, subsolver="APDG")
    with pytest.raises(CapabilityError, match="enters by its gradient"):
        d2.solve(problem(WIDE, SQUARE), NETWORK, subsolver="APDG", mapping="prox")


def test_names():
    assert find_subsolver("abpd-pgs") == "ABPD-PGS"
    assert find_subsolver("AUTO") == "auto"
    with pytest.raises(CapabilityError, match="iDAPG, PDPG, LPD, APDG, Salim, ABPD-PGS, exact"):
        find_subsolver("Newton")
    with pytest.raises(CapabilityError, match="expected a name"):
        d2.solve(problem(TALL, SQUARE), NETWORK, subsolver=7)  # pyright: ignore


class Mine(IDAPG):
    name = "mine"


def test_a_solver_of_ones_own():
    where = problem(TALL, SQUARE, d2.L1Norm(1.0))
    known = d2.solve(where, NETWORK, subsolver="iDAPG", slack=0.5)
    for solver in (Mine, partial(Mine, slack=0.5)):
        result = d2.solve(where, NETWORK, subsolver=solver)
        assert result.status == "CONVERGED" and result.parameters["subsolver"] == ("mine", "given")
        assert "iD2A with mine" in result.explain()
    np.testing.assert_array_equal(result.duals, known.duals)
    assert d2.solve(where, NETWORK, subsolver=IDAPG).parameters["subsolver"][0] == "iDAPG"
    with pytest.raises(CapabilityError, match="made a list; expected a Subsolver"):
        d2.solve(where, NETWORK, subsolver=lambda *given: list(given))


def test_local_solvers_imply_rho_zero():
    result = d2.solve(problem(WIDE, POINT), NETWORK, subsolver="salim", tol=1e-6)
    assert result.status == "CONVERGED"
    assert result.parameters["rho"] == (0.0, "the subsolver needs 0")


def test_apdg_takes_h_by_its_gradient():
    result = d2.solve(problem(WIDE, SQUARE), NETWORK, subsolver="APDG", tol=1e-6)
    assert result.status == "CONVERGED" and result.parameters["mapping"][0] == "smooth"


# -- auto ---------------------------------------------------------------------------------------
DEAR_GRADIENTS = d2.Costs(communication=0.0, grad_f=1000.0, matvec=1.0)


@pytest.mark.parametrize(
    "where, cost, expected",
    [
        (problem(TALL, SQUARE, d2.L1Norm(1.0), 1e4), "communication", "iDAPG"),
        (problem(TALL, SQUARE, d2.L1Norm(1.0), 1e4), DEAR_GRADIENTS, "LPD"),
        (problem(WIDE, POINT, kappa=1e4), DEAR_GRADIENTS, "APDG"),
        (problem(WIDE, CAPPED), DEAR_GRADIENTS, "iDAPG"),
        (problem(TALL, POINT), "computation", "iDAPG"),
    ],
)
def test_auto_follows_the_prices(where, cost, expected):
    result = d2.solve(where, NETWORK, cost=cost, max_rounds=20, tol=1e-15)
    name, reason = result.parameters["subsolver"]
    assert name == expected
    if not isinstance(where.h, d2.IndicatorPoint):
        found = select_subsolver(analyse(where, NETWORK), gather_facts(where), cost)
        assert (name, reason) == found
    text = result.explain()
    assert f"iD2A with {expected}" in text and f"Subproblem solver {expected}: {reason}" in text


def test_auto_is_idapg_by_default():
    for where in (problem(TALL, SQUARE), problem(WIDE, POINT), problem(TALL, CAPPED, d2.L1Norm(1))):
        result = d2.solve(where, NETWORK, method="iD2A", max_rounds=20, tol=1e-15)
        assert result.parameters["subsolver"][0] == "iDAPG"


def test_the_chosen_solver_spends_less_of_what_is_dear():
    """Case 1 with κ_f = 10⁴: LPD needs several times fewer gradients than iDAPG."""
    where = problem(TALL, SQUARE, d2.L1Norm(0.1), 1e4)
    chosen = d2.solve(where, NETWORK, cost=DEAR_GRADIENTS, tol=1e-6)
    plain = d2.solve(where, NETWORK, subsolver="iDAPG", tol=1e-6)
    assert chosen.parameters["subsolver"][0] == "LPD"
    assert chosen.status == plain.status == "CONVERGED"
    assert 2 * chosen.counts.grad_f <= plain.counts.grad_f


def test_reasons_of_named_solvers():
    result = d2.solve(problem(TALL, SQUARE), NETWORK, subsolver="LPD", max_rounds=10, tol=1e-15)
    assert result.parameters["subsolver"] == (
        "LPD",
        "asked for; linear rate: h* is strongly convex",
    )
    assert "Subproblem solver LPD: asked for" in result.explain()


@pytest.mark.parametrize("cost", ["money", 3.0, None])
def test_costs_must_be_costs(cost):
    with pytest.raises(CapabilityError, match=r"expected Costs\(…\) or communication or comput"):
        d2.solve(problem(TALL, SQUARE), NETWORK, cost=cost)
