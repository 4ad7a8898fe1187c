"""Methods with exact local solves: what they claim, what they count, and their local solver."""

import math

import networkx as nx
import numpy as np
import pytest
from scipy.sparse import csc_array

import dual2 as d2
from dual2.methods import find_method
from dual2.methods.gossip.admm import ADMM, ADMM_METHODS
from dual2.methods.parameters import Settings
from dual2.reference import solve_reference
from dual2.testing import known_problem
from path_family import distance, path_network, path_problem
from rounding import EPS

KINDS = [method.name for method in ADMM_METHODS]


# -- the path family ---------------------------------------------------------------------------
# Iterations to a relative error of 1e-8 reported for problems of this family.
REPORTED = [
    ("Tracking-ADMM", "zero", True, {"c": 0.03}, 2470),
    ("Tracking-ADMM", "l1", True, {"c": 0.03}, 1795),
    ("Tracking-ADMM", "box", True, {"c": 0.03}, 2405),
    ("Tracking-ADMM", "box", False, {"c": 0.03}, 4050),
    ("NECPD", "zero", True, {"rho": 0.2, "tau": 10.0}, 375),
    ("NECPD", "zero", True, {"rho": 0.2, "eta": 0.1, "tau": 10.0}, 525),
    ("NECPD", "box", True, {"rho": 0.2, "tau": 10.0}, 490),
    ("NECPD", "box", False, {"rho": 0.5, "tau": 10.0}, 2945),
    ("DC-ADMM", "zero", True, {"c": 1.0}, 255),
    ("DC-ADMM", "box", False, {"c": 5.0}, 775),
    ("IDC-ADMM", "zero", True, {"c": 1.0}, 375),
    ("IDC-ADMM", "l1", True, {"c": 1.0}, 365),
    ("IDC-ADMM", "box", True, {"c": 1.0}, 265),
    ("DPMM", "zero", True, {"alpha": 5.0, "gamma": 0.3}, 330),
    ("DPMM", "l1", True, {"alpha": 5.0, "gamma": 0.3}, 395),
    ("DPMM", "box", False, {"alpha": 5.0, "gamma": 0.3}, 1030),
]


@pytest.mark.parametrize("name, g, strong, parameters, reported", REPORTED)
def test_counts_are_of_the_reported_order(name, g, strong, parameters, reported):
    problem = path_problem(g, strong)
    best = solve_reference(problem)
    assert best.kkt <= 1e-11
    flat = np.concatenate(best.x)
    near = lambda info: np.linalg.norm(info["x"] - flat) <= 1e-8 * np.linalg.norm(flat)  # noqa: E731
    result = d2.solve(
        problem,
        path_network(),
        method=name,
        tol=1e-14,
        max_rounds=20_000,
        record=False,
        callback=near,
        **parameters,
    )
    assert distance(result.x, best.x) <= 1e-7, "the best by its residual, seen shortly before"
    assert reported / 4 <= result.counts.iterations <= 4 * reported


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("g, strong", [("zero", True), ("l1", True), ("box", False)])
def test_default_parameters_solve_the_family(name, g, strong):
    problem = path_problem(g, strong)
    result = d2.solve(problem, path_network(), method=name, tol=1e-10, max_rounds=20_000)
    assert result.status == "CONVERGED"
    assert distance(result.x, solve_reference(problem).x) <= 1e-8
    assert all(source for _, source in result.parameters.values())


@pytest.mark.parametrize("wrap", [np.asarray, csc_array])
def test_the_penalty_of_tracking_admm_waits_for_the_tracker(wrap):
    """c = (1 - λ₂(W))√(μL)/a²; on this family the best of those reported is 0.03."""
    agents = [d2.Agent(wrap(a.A), a.f, a.g) for a in path_problem().agents]
    problem, network = d2.Problem(agents, path_problem().h), path_network()
    found = d2.solve(problem, network, method="Tracking-ADMM", max_rounds=1).parameters
    W = np.eye(8) - found["mixing"][0] * network.matrix.toarray()
    curvature = math.sqrt(min(a.f.mu for a in agents) * max(a.f.L for a in agents))
    rows = np.vstack([a.A for a in path_problem().agents])
    c = (1 - np.linalg.eigvalsh(W)[-2]) * curvature / np.mean(np.sum(rows**2, axis=1))
    assert found["c"][0] == pytest.approx(c, rel=1e-9)
    assert 0.02 <= c <= 0.045


@pytest.mark.parametrize("name", KINDS)
def test_messages_and_inner_work_are_counted(name):
    result = d2.solve(path_problem("box"), path_network(), method=name, tol=1e-14, max_rounds=200)
    counts = result.counts
    vectors = 2 if name == "Tracking-ADMM" else 1
    assert counts.iterations == counts.rounds == 200
    assert counts.vectors == vectors * 200
    assert result.parameters["vectors_per_iteration"][0] == vectors
    assert int(find_method(name).vectors) == vectors
    tests = counts.AT - (200 if name == "IDC-ADMM" else int(result.state["tried"].max()))
    assert 0 < tests < 100
    assert counts.grad_f == counts.prox_g == counts.AT
    products = 200 if name == "IDC-ADMM" else counts.AT - tests + 200
    assert products <= counts.A <= products + tests, "a local test forms no A_i x_i"
    if name != "IDC-ADMM":
        assert 2 * 200 <= counts.grad_f - tests <= 4 * 200, "about one Newton step per solve"


def test_the_sum_stays_zero_for_a_long_time():
    for name in KINDS:
        plan = find_method(name).plan(path_problem("box"), path_network(), Settings(name))
        plan.algorithm.start(np.zeros(24), np.zeros((8, 5)))
        plan.algorithm.advance(8_000, 3600.0)
        rows = plan.algorithm.current.total
        assert np.abs(rows.sum(axis=0)).max() <= 1e-10 * np.abs(rows).max()


# -- other classes of problems -----------------------------------------------------------------
def test_linear_costs_on_boxes():
    """A transport problem: f has no curvature at all, the boxes make it solvable."""
    rng, agents, b = np.random.default_rng(5), [], np.zeros(2)
    for _ in range(5):
        A = rng.standard_normal((2, 4))
        b += A @ rng.uniform(0.2, 0.8, 4)
        f = d2.Quadratic(np.zeros(4), rng.standard_normal(4))
        agents.append(d2.Agent(A, f, d2.IndicatorBox(0.0, 1.0)))
    problem = d2.Problem(agents, d2.IndicatorPoint(b))
    best = solve_reference(problem)
    network = d2.Network(nx.cycle_graph(5))
    for name in ("Tracking-ADMM", "NECPD", "DC-ADMM", "DPMM"):
        result = d2.solve(problem, network, method=name, tol=1e-9, max_rounds=50_000)
        assert result.status == "CONVERGED", name
        assert distance(result.x, best.x) <= 1e-6


@pytest.mark.parametrize("name", KINDS)
def test_users_functions_sparse_matrices_and_operators(name):
    import scipy.sparse as sp
    from scipy.sparse.linalg import aslinearoperator

    rng, wrap = np.random.default_rng(1), (np.asarray, sp.csc_array, aslinearoperator)
    blocks = [rng.standard_normal((2, 3)) for _ in range(3)]
    cosh = d2.Smooth(lambda x: np.tanh(x) + x, mu=1.0, L=2.0)
    b = d2.IndicatorPoint([1.0, -2.0])
    agents = [d2.Agent(make(A), cosh) for A, make in zip(blocks, wrap, strict=True)]
    result = d2.solve(d2.Problem(agents, b), d2.Network([(0, 1), (1, 2)]), method=name, tol=1e-10)
    assert result.status == "CONVERGED"
    x, A = np.concatenate(result.x), np.hstack(blocks)
    np.testing.assert_allclose(A @ x, [1.0, -2.0], atol=1e-9)
    np.testing.assert_allclose(np.tanh(x) + x + A.T @ result.dual, 0.0, atol=1e-8)


def test_an_error_of_a_users_function_surfaces():
    def broken(x):
        raise RuntimeError("no gradient today")

    functions = (d2.Smooth(broken, mu=1.0, L=1.0), d2.SquaredNorm(1.0))
    agents = [d2.Agent([[1.0]], f) for f in functions]
    for name in KINDS:
        plan = find_method(name).plan(
            d2.Problem(agents, d2.IndicatorPoint([1.0])), d2.Network([(0, 1)]), Settings(name)
        )
        plan.algorithm.start(np.zeros(2), np.zeros((2, 1)))
        with pytest.raises(RuntimeError, match="no gradient today"):
            plan.algorithm.advance(1, 1.0)


@pytest.mark.parametrize("name", KINDS)
def test_one_agent_alone(name):
    problem = d2.Problem([d2.Agent([[1.0, 2.0]], d2.SquaredNorm(1.0))], d2.IndicatorPoint([5.0]))
    result = d2.solve(problem, d2.Network(nx.empty_graph(1)), method=name, tol=1e-10)
    np.testing.assert_allclose(result.x[0], [1.0, 2.0], atol=1e-8)


@pytest.mark.parametrize("name", ["Tracking-ADMM", "NECPD", "DPMM"])
def test_chebyshev_networks_pay_their_rounds(name):
    problem, network = path_problem("box"), path_network().chebyshev()
    result = d2.solve(problem, network, method=name, tol=1e-9)
    assert result.status == "CONVERGED"
    assert result.counts.rounds == network.rounds * result.counts.iterations
    assert distance(result.x, solve_reference(problem).x) <= 1e-7


# -- the local solver --------------------------------------------------------------------------
def local_residual(algorithm: ADMM, agent: d2.Agent, i: int, x: np.ndarray, before: np.ndarray):
    """|x - prox_{tg}(x - t∇)|/t of the local problem that agent i just solved."""
    p = algorithm.runtime.p
    row, target = algorithm.data.penalties[i], algorithm.data.target[i]
    slope = (agent.apply(x) - target) / row[:p]
    slope = np.clip(slope, row[5 * p : 6 * p], row[6 * p :])
    q = algorithm.data.scalars.proximal
    gradient = agent.f.grad(x) + agent.adjoint(slope) + q * (x - before)
    t = 1.0 / (agent.f.L + agent.sigma_max2 / row[0] + q)
    size = np.linalg.norm(agent.f.grad(x)) + np.linalg.norm(agent.adjoint(slope))
    size += agent.f.L * np.linalg.norm(x)
    return np.linalg.norm(x - agent.g.prox(x - t * gradient, t)) / t / size


# Relative to its forces, a local problem with 12 rows and 3 columns is solved to the rounding of
# its gradient; 8 is the factor at which the Newton steps of the kernel end.
SOLVED = 8 * (12 + 3) * EPS
FUNCTIONS = {
    "dense": d2.Quadratic(np.diag([1.0, 2.0, 0.0]) + 0.5),
    "diagonal": d2.SquaredNorm(2.0, center=0.3),
    "flat": d2.Quadratic(np.diag([4.0, 0.0, 0.0]), [0.0, 1.0, -1.0]),
    "logistic": d2.LogisticRegression(np.eye(3), np.array([1.0, -1.0, 1.0]), ridge=0.1),
}
SETS = {
    "zero": d2.Zero(),
    "box": d2.IndicatorBox(-0.2, 0.4),
    "l1": d2.L1Norm(0.3),
    "ball": d2.IndicatorBall(0.5),
    "l2": d2.L2Norm(0.4),
    "simplex": d2.IndicatorSimplex(0.7),
    "halfspace": d2.IndicatorHalfspace([1.0, -2.0, 0.5], -0.3),
    "affine": d2.IndicatorAffine([[1.0, 1.0, -1.0]], [0.2]),
    "blocks": d2.Stacked([d2.L1Norm(0.3), d2.IndicatorBall(0.2, 0.1)], [1, 2]),
}


def thin(rng):
    """Entries few enough for the engine to keep the matrix sparse: one in seven."""
    return csc_array((rng.standard_normal(3) + 2.0, ([0, 5, 11], [0, 1, 2])), shape=(12, 3))


@pytest.mark.parametrize("g", SETS)
@pytest.mark.parametrize("f", FUNCTIONS)
@pytest.mark.parametrize("name", ["Tracking-ADMM", "DC-ADMM", "DPMM"])
def test_local_problems_are_solved_exactly(name, f, g):
    """Ten iterations, inequalities where the method takes them; flat f with enough rows of A."""
    rng = np.random.default_rng(7)
    blocks = [rng.standard_normal((12, 3)), rng.standard_normal((12, 3)), thin(rng)]
    agents = [d2.Agent(A, FUNCTIONS[f], SETS[g]) for A in blocks]
    h = (
        d2.IndicatorAtMost(np.full(12, -0.1))
        if name == "DPMM"
        else d2.IndicatorPoint(np.full(12, 0.2))
    )
    problem, network = d2.Problem(agents, h), d2.Network([(0, 1), (1, 2)])
    algorithm = find_method(name).plan(problem, network, Settings(name)).algorithm
    algorithm.start(np.zeros(9), np.zeros((3, 12)))
    for k in range(10):
        before = algorithm.x.copy()
        algorithm.advance(k + 1, 60.0)
        for i, agent in enumerate(agents):
            part = slice(3 * i, 3 * i + 3)
            residual = local_residual(algorithm, agent, i, algorithm.x[part], before[part])
            assert residual <= SOLVED, (k, i, residual)
    assert algorithm.current.tried.max() <= 10 * 10, "a few Newton steps per solve"


def test_updates_are_the_printed_ones():
    """Two iterations of each method, formula by formula, with the local solutions it found."""
    problem, network = path_problem("box"), path_network()
    b, L, n = problem.h.b / 8, nx.laplacian_matrix(nx.path_graph(8)).toarray(), 8
    degree = L.diagonal()[:, None]
    start, rng = solve_reference(problem).x, np.random.default_rng(0)
    lam = rng.standard_normal((n, 5))
    for name in KINDS:
        plan = find_method(name).plan(problem, network, Settings(name))
        algorithm, values = plan.algorithm, {k: v[0] for k, v in plan.parameters.items()}
        algorithm.start(np.concatenate(start) + 0.1, lam.copy())
        W = np.eye(n) - values.get("mixing", 0.0) * network.matrix.toarray()
        price, aux, total = lam, algorithm.current.aux.copy(), algorithm.current.total.copy()
        ax = algorithm.runtime.products(algorithm.x)
        for k in (2, 3):
            algorithm.advance(k if name != "DPMM" else k - 1, 60.0)
            new = algorithm.runtime.products(algorithm.x)
            if name == "Tracking-ADMM":
                mixed, tracked = W @ price, W @ aux
                aux = tracked + new - ax
                price = mixed + values["c"] * aux
            elif name == "NECPD":
                z = W @ price - total
                price = z + values["rho"] * (new - b)
                total = total + values["eta"] / values["rho"] * (price - W @ price)
            elif name == "DPMM":
                price = aux - values["gamma"] * total + values["gamma"] * (new - b)
                old, total = total, total + values["beta"] * network.mix(price)
                aux = price + values["gamma"] * (old - total)
            else:
                c = values["c"]
                total = total + c * L @ price
                r = 2 * degree * price - L @ price - (total + b) / c
                price = (r + new / c) / (2 * degree)
            ax = new
            np.testing.assert_allclose(algorithm.duals, price, rtol=0, atol=1e-12, err_msg=name)


# -- refusals ----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "name, wish, message",
    [
        ("Tracking-ADMM", {"c": 0.0}, "c = 0.0 found; expected a finite number > 0"),
        ("Tracking-ADMM", {"rho": 1.0}, "rho = 1.0 found"),
        ("NECPD", {"rho": -1.0}, "rho = -1.0 found"),
        ("DC-ADMM", {"eta": 1.0}, "Unknown parameter of DC-ADMM 'eta'"),
        ("DPMM", {"theta": 2.0}, "0 < theta < 2"),
        ("IDC-ADMM", {"subsolver": "LPD"}, "subsolver = 'LPD'"),
        ("NECPD", {"accuracy": "paper"}, "accuracy = 'paper'"),
    ],
)
def test_bad_parameters_are_refused(name, wish, message):
    with pytest.raises(d2.CapabilityError, match=message):
        d2.solve(path_problem(), path_network(), method=name, **wish)


def test_the_graph_itself_is_needed_by_consensus_admm():
    with pytest.raises(d2.CapabilityError, match=r"chebyshev.*base"):
        d2.solve(path_problem(), path_network().chebyshev(), method="DC-ADMM")


def test_infinite_smoothness_is_refused():
    agents = [d2.Agent([[1.0]], d2.Smooth(lambda x: x**3, mu=0.0, L=math.inf))]
    with pytest.raises(d2.CapabilityError, match="finite L"):
        d2.solve(
            d2.Problem(agents, d2.IndicatorPoint([1.0])),
            d2.Network(nx.empty_graph(1)),
            method="DPMM",
        )


def test_explanations_say_whether_the_published_conditions_hold():
    inside = d2.solve(path_problem("box"), path_network(), method="Tracking-ADMM", max_rounds=10)
    outside = d2.solve(path_problem("l1"), path_network(), method="Tracking-ADMM", max_rounds=10)
    assert "published conditions hold" in inside.explain()
    assert "Outside the published conditions" in outside.explain()


def test_warm_start_costs_one_exchange():
    problem, x, price = known_problem(d2.L1Norm(0.3), d2.IndicatorPoint(0.0))
    network = d2.Network(nx.path_graph(5))
    for name in KINDS:
        plan = find_method(name).plan(problem, network, Settings(name))
        plan.algorithm.start(np.concatenate(x), np.tile(price, (5, 1)))
        assert plan.algorithm.rounds == (0 if name == "DPMM" else 1)
