"""The default without strong convexity: vertices, rows that stay empty, rays with rounding."""

from itertools import combinations

import networkx as nx
import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse.linalg import aslinearoperator

import dual2 as d2

INF = np.inf
PATH = d2.Network(nx.path_graph(5))


def default(problem, network=PATH, **options):
    return d2.solve(problem, network, record=False, progress=False, **options)


def program(agents, h):
    """A linear program from (A, slope, lower, upper) of every agent."""
    parts = [
        d2.Agent(A, d2.Quadratic(np.zeros(len(c)), c), d2.IndicatorBox(low, up))
        for A, c, low, up in agents
    ]
    return d2.Problem(parts, h)


def solve(problem):
    graph = nx.path_graph(problem.n) if problem.n > 1 else nx.empty_graph(1)
    return d2.solve(problem, d2.Network(graph), method="auto", record=False)


def flow_costs(seed):
    """Edges, costs and capacities of a network in which one unit goes from node 0 to node 4."""
    graph = nx.gnp_random_graph(8, 0.5, seed=seed, directed=True)
    graph.add_edges_from((i, (i + 1) % 8) for i in range(8))
    B = -nx.incidence_matrix(graph, oriented=True).toarray()
    rng = np.random.default_rng(seed)
    return B, rng.integers(1, 5, B.shape[1]).astype(float), rng.uniform(1.0, 3.0, B.shape[1])


@pytest.mark.parametrize("seed", range(3, 9))
def test_rows_through_which_nothing_flows_hold_nobody_back(seed):
    """Most nodes and capacities are idle: their rows have no scale by which it could be judged."""
    B, costs, most = flow_costs(seed)
    demand = np.zeros(8)
    demand[[0, 4]] = 1.0, -1.0
    count = len(costs)
    rows, half = np.vstack([B, np.eye(count)]), count // 2
    pieces = [slice(0, half), slice(half, count)]
    agents = [(rows[:, own], costs[own], np.zeros(count)[own], INF) for own in pieces]
    h = d2.Stacked([d2.IndicatorPoint(demand), d2.IndicatorAtMost(most)], [8, count])
    result = solve(program(agents, h))
    best = linprog(costs, A_eq=B, b_eq=demand, bounds=[(0, up) for up in most])
    assert result.status == "CONVERGED"
    assert result.objective == pytest.approx(best.fun, rel=1e-9)


def test_rows_whose_size_is_far_from_the_first_guess():
    """A norm of all residuals, norms of rows: the first guess of the size of x is far too small."""
    Y = np.random.default_rng(25).standard_normal((4, 5))
    U = d2.Agent(np.vstack([np.eye(20), np.eye(20)]), d2.Quadratic(np.zeros(20)))
    V = d2.Agent(
        np.vstack([np.eye(20), np.zeros((20, 20))]), d2.Quadratic(np.zeros(20)), d2.L1Norm(0.2)
    )
    norms = d2.Stacked([d2.L2Norm(0.4)] * 4, [5] * 4)
    h = d2.Stacked([d2.L2Norm(1.0).shift(Y.ravel()), norms], [20, 20])
    result = solve(d2.Problem([U, V], h))
    assert result.status == "CONVERGED" and result.objective < 3.0


def test_an_agent_whose_answer_is_nothing():
    """Its free variable is rounding in the end, and so would be the row that it has to itself."""
    first = [[1, 1, 0], [0, 1, 1], [-1, -1, 1], [-1, -1, 0], [1, 1, 0]]
    first += [[-1, 1, 0], [1, 0, 1], [0, -1, 0], [0, 0, 1], [0, -1, 0]]
    second = [[-1, 0, -1, -1], [-1, 1, -1, -1], [0, 0, 0, 1], [0, 1, 0, 0], [-1, 1, 1, 1]]
    second += [[-1, -1, -1, 0], [1, 0, 1, 1], [0, -1, -1, -1], [1, 0, 0, -1], [0, -1, 0, 0]]
    agents = [
        (first, [-2.0, -2.0, 2.0], [0.0, 0.0, -INF], [INF, INF, 2.0]),
        (second, [-2.0, -1.0, 0.0, 1.0], [-INF, 0.0, -INF, 0.0], [2.0, INF, 1.0, INF]),
    ]
    demand = np.array(second) @ [2.0, 0.0, -1.0, 0.0]
    result = solve(program(agents, d2.IndicatorPoint(demand)))
    assert result.status == "CONVERGED"
    assert result.x[0] == pytest.approx([0.0, 0.0, 0.0], abs=1e-14)
    assert result.x[1] == pytest.approx([2.0, 0.0, -1.0, 0.0], abs=1e-9)


@pytest.mark.parametrize("digits", [3, 4])
def test_a_row_that_is_empty_in_the_end(digits):
    """One entry of the answer is at a kink of h, and the only one in its row."""
    y = np.round([-1.2409928, -0.2742174, 0.9642387], digits)
    plane = d2.IndicatorAffine(
        np.round([[-1.0970391, -0.6442047, -1.9608286]], digits), np.round([2.0145979], digits)
    )
    loss = d2.HuberLoss(y, 0.5, np.round(0.9309278, digits))
    agent = d2.Agent([[1.0, 0.0, 0.0]], loss, plane)
    result = solve(d2.Problem([agent], d2.L1Norm(np.round(1.2711147, digits))))
    assert result.status == "CONVERGED" and result.x[0][0] == pytest.approx(0.0, abs=1e-12)


RAYS = {
    "one agent": (
        [
            (
                [[0, 0, -1, -1], [0, 1, 1, 0], [-1, 0, 0, 0]],
                [2.0, -1.0, 0.0, -2.0],
                [0.0, 0.0, 0.0, -INF],
                INF,
            )
        ],
        d2.IndicatorBox([-1.0, 1.0, -2.0], INF),
    ),
    "two agents": (
        [
            ([[0], [-1], [-1]], [0.0], -INF, [2.0]),
            (
                [[0, -1, 1, 0], [-1, 1, -1, -1], [-1, 0, 0, -1]],
                [-1.0, 1.0, 0.0, -1.0],
                [0.0, -INF, 0.0, 0.0],
                [INF, INF, INF, 0.0],
            ),
        ],
        d2.IndicatorPoint([0.0, -2.0, -2.0]),
    ),
}


@pytest.mark.parametrize("name", RAYS)
def test_a_ray_is_not_hidden_by_the_rounding_of_variables_at_rest(name):
    agents, h = RAYS[name]
    problem = program(agents, h)
    result = solve(problem)
    assert result.status == "UNBOUNDED"
    ray = [np.array(part) for part in result.certificate.ray or []]
    s = sum(np.array(A) @ d for (A, *_), d in zip(agents, ray, strict=True))
    assert sum(np.dot(c, d) for (_, c, *_), d in zip(agents, ray, strict=True)) < 0
    assert np.all(s >= -1e-9) if name == "one agent" else np.allclose(s, 0.0, atol=1e-9)


def test_a_ray_whose_rows_cancel_within_an_operator():
    """Nobody knows the entries of A: what is left of A d is rounding beside those that cancel."""
    A, c = np.array([[-1.251, -1.0463, 1.3941]]), np.array([0.45, -0.64, 0.2])
    agent = d2.Agent(aslinearoperator(A), d2.Quadratic(np.zeros(3), c))
    other = d2.Agent([[0.66]], d2.SquaredNorm(1.0, 1.0))
    result = solve(d2.Problem([agent, other], d2.IndicatorPoint([1.0])))
    assert result.status == "UNBOUNDED"
    d = np.array((result.certificate.ray or [])[0])
    assert c @ d < 0 and abs(A @ d)[0] <= 1e-9 * (abs(A) @ abs(d))[0]


def test_what_meets_the_tolerance_has_not_stalled():
    """The price is not unique, the method rests between two: the answer is right all the same."""
    first = [[0, 1, 0], [1, 0, 0], [1, 0, 0], [0, 0, -1], [-1, 1, 1]]
    first += [[1, 1, 1], [1, 0, 0], [0, -1, 1], [0, 1, -1], [1, 1, 0]]
    second = [[1, 0, 0], [0, 0, -1], [0, -1, 1], [1, -1, -1], [0, 0, 1]]
    second += [[0, 1, 1], [1, 1, -1], [0, 1, 0], [-1, -1, 1], [-1, 0, -1]]
    third = [[1], [-1], [1], [1], [0], [-1], [-1], [1], [1], [-1]]
    agents = [
        (first, [2.0, -1.0, 0.0], 0.0, INF),
        (second, [0.0, 2.0, -2.0], [0.0, -INF, -INF], [INF, INF, 2.0]),
        (third, [-2.0], 0.0, [2.0]),
    ]
    demand = np.array([3.0, 0.0, 1.0, 3.0, -2.0, -1.0, 2.0, 3.0, -1.0, -1.0])
    result = solve(program(agents, d2.IndicatorPoint(demand)))
    assert result.objective == pytest.approx(2.0, rel=1e-9)
    assert (result.status == "CONVERGED") == (result.certificate.kkt <= 1e-8)
    assert result.status == "CONVERGED"


def linear(seed, inequality, n=5, p=3, d=4):
    """A linear program with boxes, and its data."""
    rng = np.random.default_rng([seed, 55])
    A, q = rng.standard_normal((n, p, d)), rng.standard_normal((n, d))
    b = np.einsum("npd,nd->p", A, rng.uniform(0, 1, (n, d)))
    h = d2.IndicatorAtMost(b) if inequality else d2.IndicatorPoint(b)
    box = d2.IndicatorBox(0.0, 1.0)
    agents = [d2.Agent(a, d2.Quadratic(np.zeros(d), c), box) for a, c in zip(A, q, strict=True)]
    return d2.Problem(agents, h), np.hstack(A), q.ravel(), b


@pytest.mark.parametrize("seed", range(6))
def test_linear_programs(seed):
    problem, A, q, b = linear(seed, seed % 2)
    rows = {"A_ub": A, "b_ub": b} if seed % 2 else {"A_eq": A, "b_eq": b}
    best = linprog(q, **rows, bounds=(0, 1)).fun
    result = default(problem)
    assert result.status == "CONVERGED" and result.certificate.kkt <= 1e-8
    assert q @ np.concatenate(result.x) == pytest.approx(best, rel=1e-8)
    assert result.counts.sums <= 60


def test_plain_lasso_is_not_strongly_convex():
    rng = np.random.default_rng(2)
    X, y = rng.standard_normal((6, 20)), rng.standard_normal(6)
    blocks = np.split(X, 5, axis=1)
    agents = [d2.Agent(A, d2.SquaredNorm(0.0), d2.L1Norm(0.3)) for A in blocks]
    result = default(d2.Problem(agents, d2.SquaredLoss(y)))
    assert result.status == "CONVERGED"
    x, slope = np.concatenate(result.x), X.T @ (result.y - y)
    np.testing.assert_allclose(
        x, np.sign(x - slope) * np.maximum(np.abs(x - slope) - 0.3, 0), atol=1e-7
    )


def smallest_radius(points):
    """Of all circles through two or three of the points those that hold all; the smallest."""
    circles = [(a + b) / 2 for a, b in combinations(points, 2)]
    for a, b, c in combinations(points, 3):
        sides = np.array([b - a, c - a])
        circles.append(a + np.linalg.solve(2 * sides, (sides**2).sum(axis=1)))
    return min(np.linalg.norm(points - middle, axis=1).max() for middle in circles)


def test_an_agent_that_feels_nothing_in_the_end():
    """The centre of the smallest circle around points costs nothing, and all pulls on it cancel."""
    points = np.random.default_rng(1).standard_normal((6, 2))
    one, two = np.eye(3)[:, :1], np.eye(3)[:, 1:]
    cone = [d2.IndicatorSecondOrderCone().shift([0.0, *point]) for point in points]
    agents = [
        d2.Agent(np.tile(one, (6, 1)), d2.Quadratic([0.0], [1.0])),
        d2.Agent(np.tile(two, (6, 1)), d2.SquaredNorm(0.0)),
    ]
    problem = d2.Problem(agents, d2.Stacked(cone, [3] * 6))
    result = default(problem, d2.Network([(0, 1)]))
    assert result.status == "CONVERGED" and result.certificate.kkt <= 1e-8
    assert result.x[0][0] == pytest.approx(smallest_radius(points), rel=1e-8)


def test_unbounded_with_a_proof():
    """Two agents can trade without limit, at a gain."""
    free = d2.IndicatorNonnegative()
    costs = [[1.0, 2.0], [-3.0, 1.0], [1.0, 1.0], [2.0, 0.5], [1.0, 1.0]]
    agents = [d2.Agent([[1.0, -1.0]], d2.Quadratic(np.zeros(2), q), free) for q in costs]
    problem = d2.Problem(agents, d2.IndicatorPoint([1.0]))
    result = default(problem)
    assert result.status == "UNBOUNDED"
    ray = [np.array(part) for part in result.certificate.ray]
    assert all((part >= 0).all() for part in ray)
    size = sum(np.abs(part).sum() for part in ray)
    assert abs(problem.coupling(ray)[0]) <= 1e-8 * size
    assert sum(np.dot(q, part) for q, part in zip(costs, ray, strict=True)) < -0.01 * size


def test_a_run_that_was_cut_continues_bit_for_bit():
    problem, *_ = linear(1, True)
    whole, part = default(problem), None
    for cut in range(4, 4 * whole.counts.sums + 4, 12):
        part = default(problem, start=part, max_rounds=cut)
    part = default(problem, start=part)
    assert part.status == "CONVERGED" and part.counts == whole.counts
    assert all((a == b).all() for a, b in zip(part.x, whole.x, strict=True))
