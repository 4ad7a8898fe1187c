"""Cases, constants and ρ*: the paper's numbers, and the bounds checked on explicit Hessians."""

import math

import networkx as nx
import numpy as np
import pytest
from scipy.linalg import block_diag, sqrtm
from scipy.sparse.linalg import aslinearoperator

import dual2 as d2
from dual2.paper.problems.elastic_net_regression import experiment1
from dual2.theory import constants_for, find_case, gather_facts, momentum, optimal_rho
from dual2.theory.constants import condition

EXPERIMENT = experiment1()
FACTS = gather_facts(EXPERIMENT.problem)


def test_experiment_one():
    network, fast = EXPERIMENT.network, EXPERIMENT.network.chebyshev()
    assert FACTS.kappa_pd == pytest.approx(98602.8, abs=0.05)
    assert FACTS.kappa_f == 1.0
    assert optimal_rho(FACTS, network.lambda_max) == pytest.approx(768788.85, abs=0.01)
    assert optimal_rho(FACTS, fast.lambda_max) == pytest.approx(195373.94, abs=0.01)
    for where in (network, fast):
        rho = optimal_rho(FACTS, where.lambda_max)
        bounds = where.lambda_max, where.lambda_min, rho
        tight, paper = (constants_for(FACTS, *bounds, kind) for kind in ("tight", "paper"))
        assert where.kappa < tight.kappa_F < where.kappa + 1
        assert paper.kappa_F == pytest.approx(2 * where.kappa, rel=1e-12)
        assert paper.L_F == pytest.approx(1 / rho, rel=1e-12)
        assert tight.case.name == paper.case.name == "1"
        assert tight.rho_star == pytest.approx(rho)


# -- cases ----------------------------------------------------------------------------------
RNG = np.random.default_rng(0)
WIDE = [RNG.standard_normal((3, 5)) for _ in range(3)]
TALL = [RNG.standard_normal((3, 1)) for _ in range(3)]
POINT, ATMOST, LOSS = d2.IndicatorPoint(np.ones(3)), d2.IndicatorAtMost(np.ones(3)), d2.SquaredLoss
STRONG = d2.NonnegativeSquaredLoss(np.ones(3))


def case(blocks, h, g=None, rho=1.0, full_row_rank=None):
    g = d2.Zero() if g is None else g
    agents = [d2.Agent(A, d2.SquaredNorm(2.0), g) for A in blocks]
    return find_case(gather_facts(d2.Problem(agents, h)), rho, full_row_rank)


@pytest.mark.parametrize(
    "arguments, name, reason",
    [
        ((TALL, LOSS(np.ones(3), 0.5), d2.L1Norm(1.0)), "1", "2-strongly convex and 2-smooth"),
        ((WIDE, STRONG), "2", "full row rank, h* is smooth"),
        ((WIDE, POINT), "2", "full row rank, h* is linear"),
        ((WIDE, POINT, None, 0.0), "2.1", "full row rank, h* is linear"),
        ((TALL, POINT, None, 1.0, True), "3", "[A_1 … A_n] has full row rank"),
        ((TALL, POINT, None, 1.0, None), "general", "some A_i lacks full row rank"),
        ((TALL, POINT, None, 1.0, False), "general", "some A_i lacks full row rank"),
        ((TALL, POINT, d2.L1Norm(1.0), 1.0, True), "general", "some g_i ≠ 0"),
        ((WIDE, ATMOST), "general", "h* is not smooth"),
        ((TALL, d2.HuberLoss(np.ones(3), 1.0)), "general", "h* is not smooth"),
        (([aslinearoperator(A) for A in WIDE], POINT), "general", "its rank is unknown"),
    ],
)
def test_cases_and_their_reasons(arguments, name, reason):
    found = case(*arguments)
    assert found.name == name
    assert reason in found.reason


def test_facts_of_losses():
    """Poisson has no strongly convex conjugate; Huber and logistic have a nonsmooth one."""
    expected = {
        d2.PoissonLoss(np.ones(3)): (0.0, math.inf),
        d2.HuberLoss(np.ones(3), 0.5, 4.0): (0.25, math.inf),
        d2.HuberNormLoss(np.ones(3), 0.5, 4.0): (0.25, math.inf),
        d2.LogisticLoss([1.0, -1.0, 1.0], 2.0): (2.0, math.inf),
        d2.SquaredLoss(np.ones(3), 4.0): (0.25, 0.25),
        POINT: (0.0, 0.0),
        ATMOST: (0.0, math.inf),
    }
    for h, (mu, L) in expected.items():
        facts = gather_facts(d2.Problem([d2.Agent(A, d2.SquaredNorm(1.0)) for A in TALL], h))
        assert (facts.mu_h, facts.L_h) == (pytest.approx(mu), pytest.approx(L))
        assert facts.h_linear == (h is POINT)


def test_row_rank_needs_smooth_agents():
    def facts(g):
        agents = [d2.Agent(A, d2.SquaredNorm(float(k + 1)), g) for k, A in enumerate(WIDE)]
        return gather_facts(d2.Problem(agents, POINT))

    expected = min(np.linalg.eigvalsh(A @ A.T)[0] / (k + 1) for k, A in enumerate(WIDE))
    assert facts(d2.Zero()).row_rank == pytest.approx(expected)
    assert facts(d2.L1Norm(1.0)).row_rank == 0
    sigma = [np.linalg.norm(A, 2) ** 2 for A in WIDE]
    assert facts(d2.Zero()).coupling == pytest.approx(max(s / (k + 1) for k, s in enumerate(sigma)))


# -- tight constants on explicit Hessians -----------------------------------------------------
def quadratic_problem(seed, rank):
    """Agents with random quadratics; H and F_ρ then have constant Hessians."""
    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(2, 6)), int(rng.integers(1, 4))
    agents, blocks = [], []
    for _ in range(n):
        d = p + 2 if rank else int(rng.integers(1, 4))
        M = rng.standard_normal((d, d))
        P = M @ M.T + 0.1 * np.eye(d)
        A = rng.standard_normal((p, d))
        agents.append(d2.Agent(A, d2.Quadratic(P)))
        blocks.append(A @ np.linalg.solve(P, A.T))
    scale = float(rng.uniform(0.1, 3))
    h = d2.IndicatorPoint(np.ones(p)) if rank else d2.SquaredLoss(np.ones(p), scale)
    dual = block_diag(*blocks) + (0.0 if rank else np.eye(n * p) / (n * scale))
    network = d2.Network(nx.gnp_random_graph(n, 0.9, seed=1) if n > 3 else nx.path_graph(n))
    return d2.Problem(agents, h), network, dual


@pytest.mark.parametrize("rank", [False, True], ids=["case 1", "case 2"])
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("fast", [False, True])
def test_tight_constants_bound_the_hessian(seed, rank, fast):
    """∇²F_ρ = √𝐂(∇²H₀ + ρ𝐂)⁻¹√𝐂 on Range(√𝐂) lies between μ_F and L_F; ∇²H between μ_H, L_H."""
    problem, network, dual = quadratic_problem(seed, rank)
    where = network.chebyshev() if fast else network
    C = np.array([where.mix(row) for row in np.eye(where.n)])
    big = np.kron(C, np.eye(problem.p))
    root = np.real(np.asarray(sqrtm(big + 1e-15 * np.eye(len(big)))))
    facts = gather_facts(problem)
    star = optimal_rho(facts, where.lambda_max)
    for rho in (0.0, 0.1 * star, star, 10 * star):
        hessian = dual + rho * big
        values = np.linalg.eigvalsh(root @ np.linalg.solve(hessian, root))
        inside = values[problem.p :]
        curvature = np.linalg.eigvalsh(hessian)
        kappas = []
        for kind in ("tight", "paper"):
            c = constants_for(facts, where.lambda_max, where.lambda_min, rho, kind)
            assert inside[0] >= c.mu_F * (1 - 1e-7)
            assert inside[-1] <= c.L_F * (1 + 1e-7)
            assert curvature[0] >= c.mu_H * (1 - 1e-9)
            assert curvature[-1] <= c.L_H * (1 + 1e-9)
            kappas.append(c.kappa_F)
        assert kappas[0] <= kappas[1] * (1 + 1e-12)


@pytest.mark.parametrize("rho", [0.0, 1.0, 50.0])
def test_tight_constants_are_attained(rho):
    """With A_i = I, f_i = |·|²/2 and h = |·|²/2: L' = μ' = 1 + 1/n, so bounds are attained."""
    network = d2.Network(nx.path_graph(4))
    agents = [d2.Agent(np.eye(2), d2.SquaredNorm(1.0)) for _ in range(4)]
    facts = gather_facts(d2.Problem(agents, d2.SquaredLoss(np.zeros(2))))
    c = constants_for(facts, network.lambda_max, network.lambda_min, rho)
    values = np.linalg.eigvalsh(network.matrix.toarray())[1:]
    exact = values / (1.25 + rho * values)
    assert c.L_F == pytest.approx(exact.max(), rel=1e-12)
    assert c.mu_F == pytest.approx(exact.min(), rel=1e-12)


def test_printed_constants():
    network = EXPERIMENT.network
    rho, n = 1000.0, 8
    c = constants_for(FACTS, network.lambda_max, network.lambda_min, rho, "paper")
    L_H = FACTS.sigma2.max() / 90 + rho * network.lambda_max + 20 / n
    assert c.L_H == pytest.approx(L_H, rel=1e-12)
    assert c.mu_H == pytest.approx(20 / n)
    assert c.mu_F == pytest.approx(network.lambda_min / L_H, rel=1e-12)
    assert c.L_F == pytest.approx(1 / max(rho, 20 / n / network.lambda_max), rel=1e-12)
    zero = constants_for(FACTS, network.lambda_max, network.lambda_min, 0.0, "paper")
    assert zero.L_F == pytest.approx(network.lambda_max / (20 / n), rel=1e-12)


def test_momentum():
    assert momentum(9.0) == pytest.approx(0.5)
    assert momentum(1.0) == 0.0
    assert momentum(1e13) is momentum(math.inf) is None
    assert condition(4.0, 0.0, "prox") == math.inf
    assert condition(4.0, 2.0, "prox") == 3.0
    assert condition(4.0, 2.0, "smooth") == 2.0


def test_zero_rho_names_the_missing_condition():
    agents = [d2.Agent(A, d2.SquaredNorm(1.0), d2.L1Norm(1.0)) for A in WIDE]
    with pytest.raises(d2.CapabilityError, match=r"rho = 0 needs.*some g_i ≠ 0.*rho='auto'"):
        constants_for(gather_facts(d2.Problem(agents, POINT)), 1.0, 0.1, 0.0)


@pytest.mark.parametrize("wish", [{"rho": -1.0}, {"rho": math.nan}, {"rho": math.inf}])
def test_rho_must_be_a_number(wish):
    with pytest.raises(d2.CapabilityError, match="rho"):
        constants_for(FACTS, 1.0, 0.1, **wish)


def test_mappings_that_do_not_exist():
    def facts(h):
        return gather_facts(d2.Problem([d2.Agent(A, d2.SquaredNorm(1.0)) for A in TALL], h))

    with pytest.raises(d2.CapabilityError, match=r"'smooth'.*no smooth conjugate"):
        constants_for(facts(ATMOST), 1.0, 0.1, 1.0, mapping="smooth")
    only = d2.ConjugateSmooth(lambda w: w, 1.0, 1.0)
    with pytest.raises(d2.CapabilityError, match=r"'prox'.*no prox"):
        constants_for(facts(only), 1.0, 0.1, 1.0, mapping="prox")
    assert constants_for(facts(only), 1.0, 0.1, 1.0).mapping == "smooth"
    with pytest.raises(d2.CapabilityError, match="'wrong'"):
        constants_for(facts(POINT), 1.0, 0.1, 1.0, mapping="wrong")
    with pytest.raises(d2.CapabilityError, match="constants='loose'"):
        constants_for(facts(POINT), 1.0, 0.1, 1.0, "loose")
