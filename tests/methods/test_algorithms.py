"""iD2A and MiD2A: everything that ``check_algorithm`` asks, and what only they promise."""

import math

import networkx as nx
import numpy as np
import pytest

import dual2 as d2
from dual2.methods import find_method
from dual2.methods.gossip.accuracy import Relative
from dual2.methods.gossip.id2a import ID2A, Settings, plan_id2a
from dual2.methods.gossip.second_dual import Nesterov
from dual2.testing import PAIRS, check_algorithm, known_problem
from rounding import kkt_rounding

LABELS = [f"{type(g).__name__}-{type(h).__name__}" for g, h in PAIRS]


@pytest.mark.parametrize("pair", PAIRS, ids=LABELS)
def test_known_problems_are_solved_by_what_they_say(pair):
    problem, x, price = known_problem(*pair)
    assert problem.kkt(x, price).kkt <= kkt_rounding(problem, x, price)
    assert np.abs(price).max() > 1e-3, "the coupling is active"


# -- the check itself can fail -----------------------------------------------------------------
def wrong_step(self, at, mixed, ascent):
    """An outer loop whose z drifts off Range(𝐂)."""
    new = RIGHT(self, at, mixed, ascent)
    new.z += 1e-7 * (1 + np.abs(new.z))
    return new


def forgetful(self, state):
    """A restore that forgets the momentum."""
    RESTORE(self, state)
    self.subsolver.state.since[:] = 0


def partial_agents(self, rounds, seconds):
    """An algorithm that treats agent 0 differently."""
    ADVANCE(self, rounds, seconds)
    self.subsolver.lam[0] *= 1 + 1e-6


RIGHT, RESTORE, ADVANCE = Nesterov.step, ID2A.restore, ID2A.advance


@pytest.mark.parametrize(
    "part, method, broken, message",
    [
        (Nesterov, "step", wrong_step, "differ|Σ|converge"),
        (ID2A, "restore", forgetful, "cut and continued"),
        (ID2A, "advance", partial_agents, "permuted|differ|converge"),
    ],
)
def test_a_broken_algorithm_is_caught(part, method, broken, message, monkeypatch):
    monkeypatch.setattr(part, method, broken)
    short = lambda *a, **k: d2.solve(*a, **{"max_rounds": 5000} | k)  # noqa: E731
    monkeypatch.setattr("dual2.testing.algorithms.solve", short)
    with pytest.raises(AssertionError, match=message):
        check_algorithm("iD2A", PAIRS[1:2])


# -- the theorem's rate ------------------------------------------------------------------------
def outer_errors(problem, network, x, settings, count):
    """|x^k - x*| at the end of each of ``count`` outer iterations."""
    algorithm = plan_id2a(problem, network, settings).algorithm
    algorithm.start(np.zeros(x.size), np.zeros((problem.n, problem.p)))
    errors, done = [], 0
    while len(errors) < count:
        before = algorithm.x.copy()
        algorithm.advance(algorithm.rounds + 1, 60.0)
        if algorithm.at.k > done:
            done = algorithm.at.k
            errors.append(float(np.linalg.norm(before - x)))
    return np.array(errors), algorithm.subsolver.constants


@pytest.mark.parametrize("rho", ["auto", 0])
@pytest.mark.parametrize("method", ["iD2A", "MiD2A"])
@pytest.mark.parametrize("constants", ["tight", "paper"])
def test_outer_rate_obeys_the_theorem(method, rho, constants):
    """Case 1 with accurate subproblems: |x^k - x*|² falls at least like (1 - 1/√κ_F)^k."""
    problem, best, _ = known_problem(d2.L1Norm(0.3), d2.SquaredLoss(0.0, 0.5))
    network = d2.Network(nx.path_graph(problem.n))
    x = np.concatenate(best)
    settings = Settings(method, rho=rho, constants=constants, parameters={"eta": 1e-3})
    errors, c = outer_errors(problem, network, x, settings, 60)
    used = np.flatnonzero(errors > 1e-9 * errors[0])
    window = used[len(used) // 4 :]
    assert c.case.name == "1" and len(window) >= 8
    slope = np.polyfit(window, np.log(errors[window]), 1)[0]
    assert slope <= 0.5 * math.log(1 - 1 / math.sqrt(c.kappa_F)) * 0.98


def test_accuracy_of_the_subproblems_decides_the_outer_path():
    """With exact subproblems the outer loop is Nesterov's method on F_ρ: w⁺ = z + 𝐂λ/L_F.

    It leaves out the momentum of a step that points uphill.
    """
    problem, _, _ = known_problem(d2.Zero(), d2.SquaredLoss(0.0, 0.5))
    network = d2.Network(nx.path_graph(problem.n))
    algorithm = plan_id2a(problem, network, Settings(parameters={"eta": 1e-9})).algorithm
    algorithm.start(np.zeros(20), np.zeros((5, 3)))
    c, w, z = algorithm.subsolver.constants, np.zeros((5, 3)), np.zeros((5, 3))
    uphill = []
    for k in range(1, 9):
        while algorithm.at.k < k:
            algorithm.advance(algorithm.rounds + 1, 60.0)
        lam = algorithm.subsolver.state.end
        new = z + network.mix(lam) / c.L_F
        uphill.append(bool(k > 1 and np.sum(lam * (new - w)) < 0))
        w, z = new, new + (0.0 if uphill[-1] else c.outer_momentum) * (new - w)
        np.testing.assert_allclose(algorithm.at.w, w, rtol=0, atol=1e-12 * np.abs(w).max())
        np.testing.assert_allclose(algorithm.at.z, z, rtol=0, atol=1e-12 * np.abs(z).max())
    assert any(uphill) and not all(uphill[1:])


# -- names ---------------------------------------------------------------------------------------
def test_names_ignore_case():
    assert find_method("MID2A").name == "MiD2A"
    with pytest.raises(d2.CapabilityError, match="must be named"):
        find_method("auto")


def test_mid2a_is_id2a_over_a_chebyshev_network():
    problem, _, _ = known_problem(*PAIRS[4])
    network = d2.Network(nx.path_graph(5))
    one = d2.solve(problem, network, method="MiD2A", degree=3, max_rounds=300, tol=1e-15)
    two = d2.solve(problem, network.chebyshev(3), method="iD2A", max_rounds=300, tol=1e-15)
    np.testing.assert_array_equal(one.duals, two.duals)
    assert one.counts == two.counts
    assert one.counts.rounds == 3 * one.counts.iterations


@pytest.mark.parametrize("seed", [52, 55, 57])
def test_one_agent_solves_its_only_subproblem_to_the_end(seed):
    """No outer step will ever ask for more accuracy of the local solves."""
    rng = np.random.default_rng(seed)
    f = d2.LeastSquares(rng.standard_normal((5, 3)), rng.standard_normal(5), ridge=0.2)
    b = np.minimum(0.0, 0.1 * rng.standard_normal(3))
    h = d2.IndicatorBox([-np.inf, b[1], -np.inf], b)
    problem = d2.Problem([d2.Agent(np.eye(3), f, d2.ElasticNet(0.2, 0.4))], h)
    alone = d2.Network(nx.empty_graph(1))
    assert d2.solve(problem, alone, tol=1e-9, max_rounds=2000).status == "CONVERGED"


def test_equal_prices_do_not_end_the_tolerance_of_subproblems():
    """An outer step between equal λ has length 0: the next subproblem must be more accurate."""
    problem, _, _ = known_problem(d2.IndicatorBox(-1.0, 1.0), d2.IndicatorAtMost(np.ones(3)))
    network = d2.Network(nx.cycle_graph(problem.n))
    algorithm = plan_id2a(problem, network, Settings("iD2A", "auto", "auto")).algorithm
    assert isinstance(algorithm, ID2A)
    size = sum(problem.dims)
    algorithm.start(np.zeros(size), np.zeros((problem.n, problem.p)))
    algorithm.advance(20, 10.0)
    rule = algorithm.oracle.rule
    before = rule.target(1)
    rule.moved(0.0, algorithm.at.since, algorithm.at.beta)
    assert rule.target(2) == 0.25 * before > 0


def test_the_next_test_of_a_subproblem_is_where_its_residual_should_meet_the_target():
    """From 10 to 4 in 6 iterations: 4 to 1 should take 6·log 4/log 2.5 = 9.08 more."""
    problem, _, _ = known_problem(d2.Zero(), d2.SquaredLoss(0.0, 0.5))
    network = d2.Network(nx.path_graph(problem.n))
    pauses = {}
    for accuracy in ("relative", "paper"):
        algorithm = plan_id2a(problem, network, Settings(accuracy=accuracy)).algorithm
        algorithm.start(np.zeros(20), np.zeros((5, 3)))
        oracle = algorithm.oracle
        oracle.inner, oracle.tested, oracle.residual = 12, 6, 10.0
        oracle.rule.observe(1.0 / oracle.options.eta)
        pauses[accuracy] = [oracle.pause(0, left) for left in (2.0, 4.0, 9.0, 11.0)]
    assert pauses["relative"] == [4, 9, 10, 10] and pauses["paper"] == [10] * 4


def test_subproblems_are_solved_better_where_outer_steps_no_longer_shrink():
    """The target follows |𝐂λ| down, never up, and falls after 2/(1-β) steps without a new least."""
    nesterov, rule, targets = Nesterov(0.5, 0.8, restarts=True), Relative(0.1, 0.5), []
    patience, at = math.ceil(2 / (1 - 0.8)), nesterov.init(np.zeros((2, 1)))
    rule.observe(100.0)
    for consensus in (4.0, 2.0, *[3.0] * patience, 1.0, 0.25):
        at = nesterov.step(at, np.zeros((2, 1)), 0.0)
        rule.moved(consensus, at.since, at.beta)
        targets.append(rule.target(at.k) / (0.1 * 0.5))
    expected = [4.0, 2.0, *[2.0] * (patience - 1), 0.5, 0.5, 0.25]
    np.testing.assert_allclose(targets, expected)
