"""Newton's method without strong convexity: vertices, rows that stay empty, rays with rounding."""

import networkx as nx
import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse.linalg import aslinearoperator

import dual2 as d2

INF = np.inf


def program(agents, h):
    """A linear program from (A, slope, lower, upper) of every agent."""
    parts = [
        d2.Agent(A, d2.Quadratic(np.zeros(len(c)), c), d2.IndicatorBox(low, up))
        for A, c, low, up in agents
    ]
    return d2.Problem(parts, h)


def solve(problem):
    graph = nx.path_graph(problem.n) if problem.n > 1 else nx.empty_graph(1)
    return d2.solve(problem, d2.Network(graph), method="Newton", record=False)


def flow_costs(seed):
    """Edges, costs and capacities of a network in which one unit goes from node 0 to node 4."""
    graph = nx.gnp_random_graph(8, 0.5, seed=seed, directed=True)
    graph.add_edges_from((i, (i + 1) % 8) for i in range(8))
    B = -nx.incidence_matrix(graph, oriented=True).toarray()
    rng = np.random.default_rng(seed)
    return B, rng.integers(1, 5, B.shape[1]).astype(float), rng.uniform(1.0, 3.0, B.shape[1])


@pytest.mark.parametrize("seed", range(3, 9))
def test_rows_through_which_nothing_flows_hold_nobody_back(seed):
    """Most nodes and capacities are idle: their rows have no scale by which springs could fade."""
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


def test_rows_that_have_only_begun_to_fill_do_not_keep_springs_strong():
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
    assert result.x[0].tolist() == [0.0, 0.0, 0.0]
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
