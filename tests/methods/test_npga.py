"""The NPGA family: solutions, identities with other methods, messages, conservation, matrices."""

import networkx as nx
import numpy as np
import pytest

import dual2 as d2
from dual2.methods import NPGA, Settings, find_method
from dual2.methods.gossip.npga_methods import NPGA_METHODS
from dual2.paper.problems.elastic_net_regression import experiment1
from dual2.testing import PAIRS, known_problem
from rounding import EPS

FAMILY = [m.name for m in NPGA_METHODS if m.name not in ("NPGA", "DCDA", "iD2GT")]
LABELS = [f"{type(g).__name__}-{type(h).__name__}" for g, h in PAIRS]


def make(name, problem, network, **parameters):
    found = find_method(name)
    plan = found.plan(problem, network, Settings(found.name, parameters=parameters))
    assert isinstance(plan.algorithm, NPGA)
    return plan.algorithm


def run(algorithm, iterations, x=None, lam=None):
    rt = algorithm.runtime
    start = np.zeros(rt.packed.size) if x is None else x
    algorithm.start(start, np.zeros((rt.n, rt.p)) if lam is None else lam)
    algorithm.advance(algorithm.rounds + iterations * algorithm.stride, 3600.0)
    return algorithm


def path_problem(h, g=None, seed=3, n=8, p=6, d=3):
    """Eight agents on a path, κ_f = 10, dense quadratics."""
    rng, agents = np.random.default_rng(seed), []
    for _ in range(n):
        basis = np.linalg.qr(rng.standard_normal((d, d)))[0]
        P = basis @ np.diag([1.0, 10.0, *rng.uniform(1, 10, d - 2)]) @ basis.T
        f = d2.Quadratic((P + P.T) / 2, rng.standard_normal(d))
        agents.append(d2.Agent(rng.standard_normal((p, d)), f, g or d2.Zero()))
    return d2.Problem(agents, h(rng.standard_normal(p))), d2.Network(nx.path_graph(n))


# -- solutions ---------------------------------------------------------------------------------
@pytest.mark.parametrize("theta", [0, 1])
@pytest.mark.parametrize("name", FAMILY)
@pytest.mark.parametrize("pair", PAIRS, ids=LABELS)
def test_every_class_is_solved_with_and_without_extrapolation(name, pair, theta):
    problem, best, _ = known_problem(*pair)
    network = d2.Network(nx.path_graph(problem.n))
    result = d2.solve(problem, network, method=name, theta=theta, tol=1e-10, record=False)
    assert result.status == "CONVERGED"
    np.testing.assert_allclose(np.concatenate(result.x), np.concatenate(best), rtol=0, atol=1e-8)


def test_sparse_operators_and_users_functions_take_the_same_path():
    """Rows that are not folded, and those that leave compiled code, give the same iterates."""
    from scipy.sparse import csr_array
    from scipy.sparse.linalg import aslinearoperator

    rng = np.random.default_rng(0)
    A = [np.where(rng.random((9, 6)) < 0.1, rng.standard_normal((9, 6)), 0.0) for _ in range(4)]
    for matrix in A:
        matrix[0, 0] = 1.0
    y, network = rng.standard_normal(9), d2.Network(nx.cycle_graph(4))
    kinds = {
        "folded": lambda M: d2.Agent(M, d2.SquaredNorm(2.0), d2.L1Norm(0.1)),
        "sparse": lambda M: d2.Agent(csr_array(M), d2.SquaredNorm(2.0), d2.L1Norm(0.1)),
        "operator": lambda M: d2.Agent(aslinearoperator(M), d2.SquaredNorm(2.0), d2.L1Norm(0.1)),
        "user": lambda M: d2.Agent(
            M,
            d2.Smooth(lambda x: 2.0 * x, 2.0, 2.0),
            d2.Proximable(lambda v, t: v - np.clip(v, -0.1 * t, 0.1 * t)),
        ),
    }
    found = {}
    for label, agent in kinds.items():
        problem = d2.Problem([agent(M) for M in A], d2.HuberLoss(y, 0.3))
        found[label] = run(make("NPGA-EXTRA", problem, network, alpha=0.4, beta=0.3), 40, ramp(24))
    # Forty steps that expand nothing, each off by the rounding of products with 9 and 6 terms.
    few = 40 * (9 + 6) * EPS * np.abs(found["folded"].duals).max()
    for label in ("sparse", "operator", "user"):
        np.testing.assert_allclose(found[label].duals, found["folded"].duals, rtol=0, atol=few)


def ramp(size):
    return np.linspace(-1, 1, size)


# -- identities ------------------------------------------------------------------------------------
def data(problem):
    """∇f, 𝐀 and 𝐀ᵀ in plain NumPy, and b/n."""
    A, n = [agent.A for agent in problem.agents], problem.n
    cut = np.cumsum(problem.dims)[:-1]
    parts = lambda x: np.split(x, cut)  # noqa: E731
    grad = lambda x: np.concatenate([a.f.grad(v) for a, v in zip(problem.agents, parts(x))])  # noqa: B905, E731
    apply = lambda x: np.array([M @ v for M, v in zip(A, parts(x))])  # noqa: B905, E731
    adjoint = lambda rows: np.concatenate([M.T @ r for M, r in zip(A, rows)])  # noqa: B905, E731
    prox = lambda v, t: np.concatenate([a.g.prox(w, t) for a, w in zip(problem.agents, parts(v))])  # noqa: B905, E731
    share = problem.h.conjugate.grad(np.zeros(problem.p)) / n
    return grad, apply, adjoint, prox, share


def dcda(problem, W, alpha, beta, iterations):
    """Dual coupled diffusion by its own listing: y⁺ = W φ⁺, φ⁺ = ψ⁺ + y - ψ."""
    grad, apply, adjoint, prox, share = data(problem)
    x, y = np.zeros(sum(problem.dims)), np.zeros((problem.n, problem.p))
    psi = y
    for _ in range(iterations):
        x = prox(x - alpha * (grad(x) + adjoint(y)), alpha)
        new = y + beta * (apply(x) - share)
        phi, psi = new + y - psi, new
        y = W @ phi
    return x, y


def tracking(problem, W, alpha, beta, iterations):
    """Dual gradient tracking by its own listing."""
    grad, apply, adjoint, _, share = data(problem)
    x, lam = np.zeros(sum(problem.dims)), np.zeros((problem.n, problem.p))
    y = apply(x) - share
    for _ in range(iterations):
        lam = W @ lam + beta * y
        new = x - alpha * (grad(x) + adjoint(lam))
        y = W @ y + apply(new - x)
        x = new
    return x, W @ lam + beta * y


@pytest.mark.parametrize("g", [d2.Zero(), d2.L1Norm(0.2)])
def test_dcda_is_exact_diffusion(g):
    problem, network = path_problem(d2.IndicatorPoint, g)
    algorithm = run(make("DCDA", problem, network), 300)
    steps = algorithm.values
    x, y = dcda(problem, network.W.toarray(), steps.alpha, steps.beta, 300)
    np.testing.assert_allclose(algorithm.x, x, rtol=0, atol=1e-10)
    np.testing.assert_allclose(algorithm.duals, y, rtol=0, atol=1e-10)
    other = run(make("NPGA-ED", problem, network, mixing_scale=4.0), 300)
    np.testing.assert_allclose(other.duals, y, rtol=0, atol=1e-10)


def test_dual_gradient_tracking_is_diging():
    problem, network = path_problem(d2.IndicatorPoint)
    algorithm = make("iD2GT", problem, network)
    steps, share = algorithm.values, data(problem)[-1]
    lam = np.tile(-steps.beta * share, (problem.n, 1))
    run(algorithm, 300, lam=lam)
    x, y = tracking(problem, network.W.toarray(), steps.alpha, steps.beta, 300)
    np.testing.assert_allclose(algorithm.x, x, rtol=0, atol=1e-10)
    np.testing.assert_allclose(algorithm.duals, y, rtol=0, atol=1e-10)
    other = run(make("NPGA-DIGing", problem, network, beta=steps.beta), 300, lam=lam)
    np.testing.assert_allclose(other.duals, y, rtol=0, atol=1e-10)


def test_p2d2_is_exact_diffusion_of_the_doubled_network():
    problem, network = path_problem(d2.SquaredLoss, d2.L1Norm(0.1))
    one = run(make("NPGA-P2D2", problem, network), 300)
    two = run(make("NPGA-ED", problem, network, mixing_scale=4.0), 300)
    np.testing.assert_allclose(one.duals, two.duals, rtol=0, atol=1e-10)


def test_nids_with_one_half_is_exact_diffusion():
    problem, network = path_problem(d2.SquaredLoss, d2.L1Norm(0.1))
    one, two = (run(make(name, problem, network), 300) for name in ("NPGA-NIDS", "NPGA-ED"))
    np.testing.assert_array_equal(one.duals, two.duals)


@pytest.mark.parametrize("name", ["NPGA-I", "DCPA", "dcpa"])
def test_aliases_are_the_same_method(name):
    assert find_method(name) is find_method("NPGA-P2D2")
    assert (
        "NPGA-I, DCPA" in find_method(name).remark and "reconstructed" in find_method(name).remark
    )


@pytest.mark.parametrize("name", FAMILY)
def test_iterates_follow_the_formulas(name):
    """Against the four lines of the method with dense matrices in NumPy."""
    problem, network = path_problem(d2.SquaredLoss)
    algorithm = make(name, problem, network, theta=1, gamma=1.5)
    steps, n = algorithm.values, problem.n
    W, eye = network.W.toarray(), np.eye(n)
    M = eye - W
    L = 12 * network.matrix.toarray()
    cL = L / 8
    B2, C, D = {
        "NPGA-EXTRA": (M / 2, M / 2, eye),
        "NPGA-ED": (M / 2, 0 * M, (eye + W) / 2),
        "NPGA-NIDS": (M / 2, 0 * M, eye - M / 2),
        "NPGA-DLM": (cL, cL, eye),
        "NPGA-DIGing": (M @ M, eye - W @ W, eye),
        "NPGA-ATC": (M @ M, M, W),
        "NPGA-AugDGM": (M @ M, 0 * M, W @ W),
        "NPGA-P2D2": (M, 0 * M, W),
        "NPGA-II": (M, M, W),
    }[name]
    grad, apply, adjoint, _, _ = data(problem)
    rng = np.random.default_rng(0)
    x, lam = np.zeros(24), rng.standard_normal((n, 6))
    run(algorithm, 50, x, lam)
    s = np.zeros_like(lam)
    for _ in range(50):
        new = x - steps.alpha * (grad(x) + adjoint(lam))
        v = lam - C @ lam - s + steps.beta * apply(2 * new - x)
        s = s + 1.5 * B2 @ v
        lam, x = problem.h.conjugate.prox(D @ v, steps.beta / n), new
    np.testing.assert_allclose(algorithm.x, x, rtol=0, atol=1e-11)
    np.testing.assert_allclose(algorithm.duals, lam, rtol=0, atol=1e-11)


# -- messages, conservation --------------------------------------------------------------------
def test_neighbours_recompute_what_is_not_sent():
    problem, network = path_problem(d2.SquaredLoss)
    for name, each in (("NPGA-ED", 1), ("NPGA-EXTRA", 3), ("NPGA-ATC", 3), ("NPGA-II", 1)):
        calls = run(make(name, problem, network), 10).oracle_calls()
        assert (calls["prox_h"], calls["grad_f"]) == (10 * each, 10)


def test_a_chebyshev_network_costs_its_rounds():
    problem, network = path_problem(d2.SquaredLoss)
    polynomial = network.chebyshev(3)
    result = d2.solve(problem, polynomial, method="NPGA-P2D2", tol=1e-10)
    assert result.status == "CONVERGED"
    assert result.counts.rounds == 3 * result.counts.iterations
    other = make("NPGA-EXTRA", problem, polynomial)
    assert other.stride == 6, "λ of a neighbour does not give its polynomial"


@pytest.mark.parametrize("name", ["NPGA-ED", "NPGA-EXTRA", "NPGA-ATC"])
def test_conservation_on_experiment_1(name):
    """After 10⁵ iterations Σs is still zero to rounding."""
    problem, network, _ = experiment1()
    algorithm = run(make(name, problem, network), 100_000)
    s = algorithm.state()["s"]
    assert algorithm.iterations == 100_000
    assert np.abs(s.sum(axis=0)).max() <= 1e-10 * np.abs(s).max()


def test_one_agent():
    problem, _, _ = known_problem(*PAIRS[1])
    alone = d2.Problem(problem.agents[:1], problem.h)
    for name in ("NPGA-EXTRA", "NPGA-ATC"):
        assert d2.solve(alone, d2.Network(nx.path_graph(1)), method=name).status == "CONVERGED"


# -- counts of the same order as an independent implementation ------------------------------------
@pytest.mark.parametrize(
    "name, h, g, published",
    [
        ("NPGA-EXTRA", d2.SquaredLoss, d2.L1Norm(0.1), 780),
        ("NPGA-ED", d2.IndicatorPoint, d2.Zero(), 1170),
        ("NPGA-P2D2", d2.NonnegativeSquaredLoss, d2.Zero(), 755),
        ("NPGA-II", d2.IndicatorPoint, d2.Zero(), 645),
        ("NPGA-DIGing", d2.SquaredLoss, d2.L1Norm(0.1), 3545),
        ("NPGA-AugDGM", d2.IndicatorPoint, d2.L1Norm(0.1), 2985),
        ("DCDA", d2.IndicatorPoint, d2.Zero(), 785),
        ("iD2GT", d2.IndicatorPoint, d2.Zero(), 6475),
    ],
)
def test_iterations_are_of_the_published_order(name, h, g, published):
    problem, network = path_problem(h, g)
    best = d2.solve(problem, network, tol=1e-12, atol=1e-14, record=False).x
    result = d2.solve(problem, network, method=name, tol=1e-11, reference=best)
    met = result.trace["gap"] <= 1e-8
    assert published / 3 <= result.trace["iterations"][np.argmax(met)] <= 3 * published


# -- matrices of the user's own --------------------------------------------------------------------
def own_matrices(network):
    W = network.W.toarray()
    eye = np.eye(network.n)
    return W, eye, eye - W


def test_polynomials_are_recognised():
    problem, network = path_problem(d2.SquaredLoss)
    W, _, M = own_matrices(network)
    given = run(make("NPGA", problem, network, B2=M @ M, C=M, D=W), 100)
    named = run(make("NPGA-ATC", problem, network), 100)
    assert given.stride == named.stride == 2
    np.testing.assert_allclose(given.duals, named.duals, rtol=0, atol=1e-12)


def test_matrices_with_the_sparsity_of_the_graph():
    """Metropolis weights for 𝐃, the Laplacian for 𝐁²: no polynomials of one another."""
    problem, best, _ = known_problem(*PAIRS[1])
    graph = nx.lollipop_graph(3, 2)
    network, other = d2.Network(graph), d2.Network(graph, "metropolis")
    B2, D = 2 * network.matrix.toarray(), np.eye(5) - 2 * other.matrix.toarray()
    result = d2.solve(problem, network, method="NPGA", B2=B2, D=D, tol=1e-10)
    assert result.status == "CONVERGED" and result.counts.vectors == result.counts.iterations
    np.testing.assert_allclose(np.concatenate(result.x), np.concatenate(best), rtol=0, atol=1e-8)


@pytest.mark.parametrize(
    "matrices, message",
    [
        ({}, "needs its network matrices"),
        ({"B2": np.eye(8)}, "Row 0 of B2 sums to 1; expected 0"),
        ({"B2": np.zeros((3, 3))}, r"shape \(3, 3\); expected \(8, 8\)"),
        ({"B2": np.eye(8) - np.ones((8, 8)) / 8}, r"entry \(.*\) .*does not belong to an edge"),
        ({"B2": np.triu(np.ones((8, 8)))}, "not symmetric"),
        ({"B2": np.zeros((8, 8))}, "do not agree"),
    ],
)
def test_wrong_matrices_are_refused(matrices, message):
    problem, network = path_problem(d2.SquaredLoss)
    with pytest.raises(d2.CapabilityError, match=message):
        d2.solve(problem, network, method="NPGA", **matrices)


@pytest.mark.parametrize(
    "parameters, message",
    [
        ({"alpha": -1.0}, "alpha = -1.0 found"),
        ({"theta": 0.5}, "theta = 0.5 found; expected 0 or 1"),
        ({"gama": 1.0}, "Did you mean 'gamma'"),
        ({"gamma": 50.0}, "do not agree"),
        ({"rho": 1.0}, "no subproblem"),
        ({"subsolver": "LPD"}, "no subproblem"),
    ],
)
def test_wrong_parameters_are_refused(parameters, message):
    problem, network = path_problem(d2.SquaredLoss)
    with pytest.raises(d2.CapabilityError, match=message):
        d2.solve(problem, network, method="NPGA-ED", **parameters)


def test_w_is_kept_positive_semidefinite():
    """A gossip matrix with large eigenvalues is scaled down before W = I - s·C is formed."""
    problem, best, _ = known_problem(*PAIRS[1])
    network = d2.Network(7.0 * nx.laplacian_matrix(nx.path_graph(5)).toarray())
    result = d2.solve(problem, network, method="NPGA-AugDGM", tol=1e-10)
    assert result.status == "CONVERGED"
    assert result.parameters["mixing_scale"][0] == pytest.approx(1 / network.lambda_max)
    np.testing.assert_allclose(np.concatenate(result.x), np.concatenate(best), rtol=0, atol=1e-8)
