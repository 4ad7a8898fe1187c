"""Newton over exact sums of p-vectors: many coupling rows, quadratic f."""

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog, minimize
from scipy.sparse.linalg import aslinearoperator

import dual2 as d2
from dual2.reference import solve_reference
from rounding import EPS

STAR = d2.Network(nx.star_graph(3))
ROWS = 120
SIGNS = np.tile([1.0, -1.0], 60)


def primal(problem, network=STAR, **options):
    options = {"method": "Newton", "mode": "primal", "record": False, "progress": False} | options
    return d2.solve(problem, network, **options)


def data(seed, p=ROWS, columns=12):
    """A table whose columns have different lengths, and labels that it explains in part."""
    rng = np.random.default_rng([seed, 7])
    X = rng.standard_normal((p, columns)) * np.geomspace(1.0, 10.0, columns)
    score = X @ rng.standard_normal(columns) / 10.0
    return X, np.sign(score + rng.standard_normal(p)), score + 0.3 * rng.standard_normal(p)


def table(X, h, f=None, g=None, wrap=lambda A: A, parties=4):
    blocks = np.array_split(X, parties, axis=1)
    f, g = f or d2.SquaredNorm(0.5), g or d2.Zero()
    return d2.Problem([d2.Agent(wrap(A), f, g) for A in blocks], h)


def losses(labels, y):
    return {
        "logistic": d2.LogisticLoss(labels),
        "hinge": d2.HingeLoss(labels),
        "squared": d2.SquaredLoss(y),
        "huber": d2.HuberLoss(y, 0.3),
        "absolute": d2.AbsoluteLoss(y),
        "quantile": d2.QuantileLoss(y, 0.7),
    }


LOSSES = list(losses(np.ones(1), np.ones(1)))


def agrees(problem, result):
    """An answer is that of an interior point method."""
    assert result.status == "CONVERGED" and result.certificate.kkt <= 1e-8
    x, best = np.concatenate(result.x), np.concatenate(solve_reference(problem, polish=False).x)
    np.testing.assert_allclose(x, best, atol=1e-5 * np.abs(best).max())


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_against_a_reference(loss):
    X, labels, y = data(1)
    problem = table(X, losses(labels, y)[loss])
    result = primal(problem)
    agrees(problem, result)
    assert result.counts.sums <= X.shape[1] + 2  # D + 1, and one that brings the consent


@pytest.mark.parametrize("cheap", [0, 20_000])
def test_only_vectors_travel(cheap, monkeypatch):
    """One direction in a sum where many are dear; all at once where they are not."""
    monkeypatch.setattr("dual2.methods.subspace.smooth.CHEAP_NUMBERS", cheap)
    X, labels, _ = data(2)
    result = primal(table(X, d2.LogisticLoss(labels)))
    c, links, columns = result.counts, 2 * 3, X.shape[1]
    assert c.rounds == 2 * c.sums and c.latency == c.rounds + c.agree_rounds
    assert c.sums == 3 if cheap else c.sums > 5
    vectors = columns + 2 if cheap else c.sums
    assert c.floats <= links * ((vectors + 4) * ROWS + 3 * columns**2 + 20 * c.sums)


def test_flat_costs_need_nothing_else():
    """No ridge at all: the loss alone bounds the solution."""
    X, labels, _ = data(3)
    result = primal(table(X, d2.LogisticLoss(labels), f=d2.SquaredNorm(0.0)))
    assert result.status == "CONVERGED"
    best = minimize(lambda w: np.logaddexp(0, -labels * (X @ w)).sum(), np.zeros(12), tol=1e-12)
    assert result.objective == pytest.approx(best.fun, rel=1e-9)


def test_coupled_costs_tilts_and_ragged_sizes():
    rng = np.random.default_rng(4)
    X, labels, _ = data(4)
    fs = [d2.LeastSquares(rng.standard_normal((6, d)), 1.0, ridge=0.1) for d in (1, 5, 6)]
    blocks = np.split(X, [1, 6], axis=1)
    agents = [
        d2.Agent(A, f.tilt(0.3), d2.SquaredNorm(0.2, 1.0)) for A, f in zip(blocks, fs, strict=True)
    ]
    problem, network = d2.Problem(agents, d2.HingeLoss(labels)), d2.Network(nx.path_graph(3))
    agrees(problem, primal(problem, network))


@pytest.mark.parametrize("wrap", [sp.csr_array, aslinearoperator], ids=["sparse", "operator"])
def test_storage_makes_no_difference(wrap):
    X, labels, _ = data(5)
    X = X * (np.random.default_rng(5).random(X.shape) < 0.2)
    one = primal(table(X, d2.LogisticLoss(labels)))
    two = primal(table(X, d2.LogisticLoss(labels), wrap=wrap))
    assert one.status == two.status == "CONVERGED"
    np.testing.assert_allclose(np.concatenate(one.x), np.concatenate(two.x), atol=1e-8)


def test_one_agent_and_one_row():
    one = d2.Network(nx.empty_graph(1))
    problem = d2.Problem([d2.Agent([[2.0]], d2.SquaredNorm(1.0))], d2.IndicatorPoint([3.0]))
    result = primal(problem, one)
    assert result.status == "CONVERGED" and result.x[0] == pytest.approx([1.5])


# -- kinks and bounds ----------------------------------------------------------------------------

KINKS = [
    d2.L1Norm(2.0),
    d2.IndicatorBox(-0.1, 0.05),
    d2.IndicatorNonnegative(),
    d2.ElasticNet(2.0, 1.0),
    d2.IndicatorBox([0.0, -1.0, 0.1], [np.inf, 1.0, 0.1]),
]


@pytest.mark.parametrize("loss", ["logistic", "hinge", "quantile"])
@pytest.mark.parametrize("g", KINKS, ids=repr)
def test_kinks_and_bounds_against_a_reference(g, loss):
    X, labels, y = data(16)
    problem = table(X, losses(labels, y)[loss], g=g)
    result = primal(problem, max_sums=200)
    agrees(problem, result)
    assert result.counts.sums <= 6 * X.shape[1]


@pytest.fixture
def in_pieces(monkeypatch):
    """As with too many variables for all products in one sum."""
    monkeypatch.setattr("dual2.methods.subspace.full_subspace.MAX_VARIABLES", 0)


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
@pytest.mark.parametrize("g", KINKS[::2], ids=repr)
def test_kinks_and_bounds_where_directions_come_one_by_one(g, loss, in_pieces):
    X, labels, y = data(16)
    problem = table(X, losses(labels, y)[loss], g=g)
    result = primal(problem, max_sums=200)
    agrees(problem, result)
    assert result.counts.sums <= 6 * X.shape[1]


def test_no_sum_after_the_first_has_the_length_of_the_rows():
    """All directions at once, then squares of the number of variables."""
    X, labels, _ = data(16)
    result = primal(table(X, d2.LogisticLoss(labels), g=d2.L1Norm(2.0)))
    assert result.status == "CONVERGED" and result.counts.sums <= 8
    columns, c = X.shape[1], result.counts
    first = columns * ROWS + 4 * ROWS  # and the certificate
    assert c.floats <= 2 * 3 * (first + c.sums * (columns + 3) ** 2 + columns**2)


def test_plain_lasso():
    """No curvature in f at all, columns that nearly depend on each other."""
    X, _, y = data(17)
    X[:, 6:] = X[:, :6] + 0.05 * X[:, 6:]
    problem = table(X, d2.SquaredLoss(y), f=d2.SquaredNorm(0.0), g=d2.L1Norm(1.0))
    result = primal(problem)
    assert result.status == "CONVERGED"
    x, slope = np.concatenate(result.x), X.T @ (result.y - y)
    held = np.sign(x - slope) * np.maximum(np.abs(x - slope) - 1.0, 0)
    np.testing.assert_allclose(x, held, atol=1e-6 * np.abs(X.T @ y).max())


def test_one_agent_with_a_kink_is_enough():
    X, labels, _ = data(18)
    plain = table(X, d2.LogisticLoss(labels))
    agents = list(plain.agents)
    agents[2] = d2.Agent(agents[2].A, agents[2].f, d2.L1Norm(3.0))
    problem = d2.Problem(agents, plain.h)
    agrees(problem, primal(problem))


def test_products_travel_again_only_when_a_face_changes(in_pieces):
    X, labels, _ = data(19)
    wide = primal(table(X, d2.LogisticLoss(labels), g=d2.IndicatorBox(-1e6, 1e6)))
    links, most = 2 * 3, 3 * ROWS + X.shape[1] ** 2 + 20
    assert wide.status == "CONVERGED"
    assert wide.counts.floats <= links * (wide.counts.sums + 1) * most + links * 14 * ROWS


# -- continuing, limits --------------------------------------------------------------------------


@pytest.mark.parametrize("g", [d2.Zero(), d2.L1Norm(2.0)], ids=repr)
@pytest.mark.parametrize("loss", ["logistic", "hinge"])
@pytest.mark.parametrize("most", [0, 300])
def test_a_run_that_was_cut_continues_bit_for_bit(loss, g, most, monkeypatch):
    monkeypatch.setattr("dual2.methods.subspace.smooth.CHEAP_NUMBERS", 0)
    monkeypatch.setattr("dual2.methods.subspace.full_subspace.MAX_VARIABLES", most)
    X, labels, y = data(6)
    problem = table(X, losses(labels, y)[loss], g=g)
    whole, part = primal(problem), None
    for cut in range(2, 2 * whole.counts.sums, 4):
        part = primal(problem, start=part, max_rounds=cut)
    part = primal(problem, start=part)
    assert part.status == "CONVERGED" and part.counts == whole.counts
    assert all((a == b).all() for a, b in zip(part.x, whole.x, strict=True))


def test_a_state_that_does_not_fit_is_refused():
    X, labels, _ = data(6)
    problem = table(X, d2.LogisticLoss(labels))
    part = primal(problem, max_rounds=8)
    part.state["c"] = part.state["c"][:-1]
    with pytest.raises(d2.ProblemError, match="cannot be continued"):
        primal(problem, start=part)


def test_a_warm_start_needs_few_sums():
    X, labels, _ = data(7)
    problem = table(X, d2.LogisticLoss(labels))
    first = primal(problem)
    again = primal(problem, start=(first.x, first.dual))
    assert again.status == "CONVERGED" and again.counts.sums <= 3


def test_old_directions_are_merged(monkeypatch):
    X, labels, _ = data(8)
    problem = table(X, d2.LogisticLoss(labels))
    whole = primal(problem)
    monkeypatch.setattr("dual2.methods.subspace.subspace_method.MAX_DIRECTIONS", 8)
    monkeypatch.setattr("dual2.methods.subspace.subspace_method.MIN_DIRECTIONS", 8)
    few = primal(problem)
    assert few.status == "CONVERGED" and few.counts.sums >= whole.counts.sums
    assert len(few.state["c"]) <= 8 < len(whole.state["c"])
    np.testing.assert_allclose(np.concatenate(few.x), np.concatenate(whole.x), atol=1e-7)


def test_no_minimum_is_no_convergence():
    """Labels that a plane separates, no ridge: the loss falls towards zero for ever."""
    X, *_ = data(9)
    labels = np.sign(X @ np.ones(12))
    result = primal(table(X, d2.LogisticLoss(labels), f=d2.SquaredNorm(0.0)), max_sums=40)
    assert result.status != "CONVERGED"


def test_impossible_equations_are_no_convergence():
    X, _, y = data(10)
    result = primal(table(X, d2.IndicatorPoint(y)), max_sums=40)
    assert result.status != "CONVERGED"


# -- the choice of the mode ----------------------------------------------------------------------


def test_the_mode_follows_the_rows():
    X, labels, _ = data(11, p=600)
    many = primal(table(X, d2.LogisticLoss(labels)), mode="auto")
    assert many.parameters["mode"][0] == "primal" and "Mode primal" in many.explain()
    few = primal(table(X[:40], d2.LogisticLoss(labels[:40])), mode="auto")
    assert few.parameters["mode"][0] == "dual"


def test_costs_that_are_flat_in_some_directions_are_not_for_the_primal_mode():
    X, _, y = data(5, p=60)
    f = d2.Quadratic([1.0, 0.0, 0.0], [0.007, -0.012, 0.004])
    problem = table(X, d2.AbsoluteLoss(y), f=f)
    with pytest.raises(d2.CapabilityError, match=r"f \+ g must be strongly convex"):
        primal(problem, mode="auto")
    network = d2.Network(nx.path_graph(problem.n))
    result = d2.solve(problem, network, record=False, progress=False)
    assert result.status == "CONVERGED" and result.parameters["method"][0] == "interior-point"


def test_what_the_primal_mode_cannot_do_is_refused_by_name():
    X, labels, _ = data(12)
    f = d2.LogisticRegression(np.eye(3), 1.0, ridge=1.0)
    with pytest.raises(d2.CapabilityError, match="agent 0: f must be quadratic; found Logistic"):
        primal(table(X, d2.LogisticLoss(labels), f=f))
    with pytest.raises(d2.CapabilityError, match="agent 0: g must split by coordinate; L2Norm"):
        primal(table(X, d2.LogisticLoss(labels), g=d2.L2Norm(1.0)))
    with pytest.raises(d2.CapabilityError, match="h must split by coordinate; L2Norm"):
        primal(table(X, d2.L2Norm(1.0)))
    with pytest.raises(d2.CapabilityError, match="mode = 'prime' found; expected one of auto"):
        primal(table(X, d2.LogisticLoss(labels)), mode="prime")


def test_neither_mode_is_an_error_that_says_what_to_do():
    X, labels, _ = data(13, p=2100, columns=4)
    f = d2.LogisticRegression([[1.0]], 1.0, ridge=1.0)
    with pytest.raises(d2.CapabilityError, match=r"2100 × 2100 .* Use L-BFGS"):
        primal(table(X, d2.LogisticLoss(labels), f=f), mode="auto")


# -- the problem in known directions -------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
def test_the_reduced_problem_is_solved(loss):
    """Dependent directions and a base included: λ ∈ ∂h(s), and no direction improves."""
    from dual2.methods.subspace.subspace_problem import Gram, SubspaceProblem, solve_subspace

    X, labels, y = data(14)
    h, S = losses(labels, y)[loss], np.vstack([X.T, X.T[:2]])
    half = np.random.default_rng(14).standard_normal((len(S), len(S)))
    base = 0.1 * np.ones(ROWS)
    problem = SubspaceProblem(half @ half.T, np.ones(len(S)), S, base)
    found = solve_subspace(h, problem, Gram(), np.zeros(len(S)), np.zeros(ROWS), 0.0, 1e-10)
    s = base + found.c @ S
    t = np.full(ROWS, np.linalg.norm(s) / np.linalg.norm(found.lam))
    near = 1e-8 * np.abs(s).max()
    np.testing.assert_allclose(h.prox(s + t * found.lam, t), s, atol=near)
    parts = problem.H @ found.c + problem.b, S @ found.lam
    np.testing.assert_allclose(parts[0], -parts[1], atol=1e-7 * np.abs(parts[1]).max())


def test_a_gram_matrix_is_kept_and_extended():
    from dual2.methods.subspace.subspace_problem import Gram

    rng = np.random.default_rng(15)
    S, W, gram = rng.standard_normal((6, 50)), rng.random(50), Gram()
    gram.of(S[:4], W)
    found, right = gram.of(S, W * (1.0 + 1e-3)), (S * W) @ S.T
    np.testing.assert_allclose(found, right, atol=1e3 * EPS * np.abs(right).max())
    exact, near = gram.of(S, W * 1.5), 1e3 * EPS * np.abs(right).max()
    np.testing.assert_allclose(exact, 1.5 * right, atol=near)


@pytest.mark.parametrize("h", [d2.HingeLoss(SIGNS), d2.AbsoluteLoss(SIGNS)], ids=["hinge", "l1"])
def test_losses_with_kinks_and_more_rows_than_variables(h):
    """The dual mode has no derivative at most prices there; auto takes the primal one."""
    rng = np.random.default_rng(5)
    agents = [d2.Agent(rng.standard_normal((120, 4)), d2.SquaredNorm(0.3)) for _ in range(3)]
    problem, network = d2.Problem(agents, h), d2.Network([(0, 1), (1, 2)])
    result = d2.solve(problem, network)
    assert result.status == "CONVERGED" and result.parameters["mode"][0] == "primal"
    best = np.concatenate(solve_reference(problem).x)
    np.testing.assert_allclose(np.concatenate(result.x), best, atol=1e-6)


@pytest.mark.parametrize("kind", ["quantile", "absolute", "hinge"])
def test_losses_with_kinks_and_no_penalty_at_all(kind):
    rng = np.random.default_rng([7, len(kind)])
    A = [rng.standard_normal((60, d)) for d in (3, 1, 2)]
    X, y = np.hstack(A), rng.standard_normal(60)
    h = {
        "quantile": d2.QuantileLoss(y, 0.7),
        "absolute": d2.AbsoluteLoss(y),
        "hinge": d2.HingeLoss(np.sign(y)),
    }[kind]
    problem = d2.Problem([d2.Agent(a, d2.Zero()) for a in A], h)
    result = d2.solve(problem, d2.Network(nx.path_graph(3)), method="Newton", record=False)
    assert result.status == "CONVERGED" and result.parameters["mode"][0] == "primal"
    assert result.counts.sums <= X.shape[1] + 3
    # min <a, u> + <b, v>, u - v = ±(y - Xw) or 1 - diag(y)Xw, u, v >= 0
    signs, right, ends = {
        "quantile": (1.0, y, (0.7, 0.3)),
        "absolute": (1.0, y, (1.0, 1.0)),
        "hinge": (np.sign(y)[:, None], np.ones(60), (1.0, 0.0)),
    }[kind]
    cost = np.concatenate([np.zeros(6), np.full(60, ends[0]), np.full(60, ends[1])])
    sides = np.hstack([signs * X, np.eye(60), -np.eye(60)])
    free = [(None, None)] * 6 + [(0, None)] * 120
    best = linprog(cost, A_eq=sides, b_eq=right, bounds=free).fun
    assert result.objective == pytest.approx(best, rel=1e-8)


def test_many_columns_take_half_as_many_sums():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((600, 40)) @ rng.standard_normal((40, 40))
    X /= X.std(axis=0)
    labels = np.sign(X @ rng.standard_normal(40) / 40 + rng.standard_normal(600))
    agents = [d2.Agent(part, d2.SquaredNorm(1e-3)) for part in np.split(X, 4, axis=1)]
    problem = d2.Problem(agents, d2.LogisticLoss(labels))
    result = d2.solve(problem, d2.Network(nx.star_graph(3)), method="Newton", record=False)
    assert result.status == "CONVERGED" and result.parameters["mode"][0] == "primal"
    assert result.counts.sums <= 28  # 10 with one direction, 10 with two, then four each


@pytest.mark.parametrize("kind", ["half-spaces", "box", "equations", "equations with l1"])
def test_what_cannot_be_met_is_proved(kind):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((ROWS // 2, 6))
    A, y = np.split(np.vstack([X, -X]), 3, axis=1), rng.standard_normal(ROWS)
    g, h = d2.Zero(), d2.IndicatorPoint(y)
    if kind == "half-spaces":
        h = d2.PiecewiseQuadratic(curvature=1.0, center=y, lower=1.0)
    elif kind == "box":
        A, g = [np.abs(a) for a in A], d2.IndicatorBox(0.0, 1.0)
        h = d2.IndicatorBox(np.full(ROWS, 100.0), np.inf)
    elif kind == "equations with l1":
        g = d2.L1Norm(1.0)
    problem = d2.Problem([d2.Agent(a, d2.SquaredNorm(1.0), g) for a in A], h)
    result = primal(problem, d2.Network(nx.path_graph(3)), max_sums=100)
    assert result.status == "INFEASIBLE"
    assert problem.separates(np.array(result.certificate.separator)) < 0


def test_bounds_on_predictions():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((200, 6)), rng.standard_normal(200) + 0.3
    X[:, -1] = 1.0
    y += 0.5 * X @ rng.standard_normal(6)
    agents = [d2.Agent(part, d2.SquaredNorm(0.1)) for part in np.split(X, 3, axis=1)]
    problem = d2.Problem(agents, d2.NonnegativeSquaredLoss(y, 0.1))
    result = primal(problem, d2.Network(nx.path_graph(3)), mode="auto")
    assert result.status == "CONVERGED" and result.parameters["mode"][0] == "primal"
    assert result.counts.sums <= 12
    assert result.y.min() >= -1e-8 and (result.y < 1e-7).any()
    best = solve_reference(problem)
    np.testing.assert_allclose(np.concatenate(result.x), np.concatenate(best.x), atol=1e-6)


STEEP = np.array([0.7, -1.2, 0.4])
FALLS = {
    "hinge": lambda labels, y: d2.HingeLoss(labels),
    "logistic": lambda labels, y: d2.LogisticLoss(labels),
    "absolute": lambda labels, y: d2.AbsoluteLoss(y),
    "huber": lambda labels, y: d2.HuberLoss(y, 0.3),
}


@pytest.mark.parametrize("loss", FALLS)
@pytest.mark.parametrize("g", [d2.Zero(), d2.L1Norm(0.1), d2.IndicatorNonnegative()], ids=repr)
def test_an_objective_that_falls_for_ever(loss, g):
    """Costs steeper than the loss, the first of each agent's coordinates with curvature."""
    X, labels, y = data(5, p=60)
    f = d2.Quadratic(np.array([1.0, 0.0, 0.0]), 1e4 * STEEP)
    problem = table(X, FALLS[loss](labels, y), f=f, g=g)
    result = primal(problem, max_sums=40)
    assert result.status == "UNBOUNDED"
    ray = [np.array(part) for part in result.certificate.ray]
    size = max(np.abs(part).max() for part in ray)
    steps = 10.0 ** np.arange(3, 6)
    points = [[t / size * part for part in ray] for t in steps]
    values = [problem.objective(x, problem.coupling(x)) for x in points]
    assert np.all(np.isfinite(values)) and np.all(np.diff(values) / np.diff(steps) < -1.0)
