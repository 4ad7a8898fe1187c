"""Agents of every kind that the engine distinguishes, for tests."""

import networkx as nx
import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator

import dual2 as d2

P = 12


def matrix(seed: int, d: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((P, d))


def thin(seed: int, d: int) -> np.ndarray:
    """Few enough nonzeros to stay sparse in the engine."""
    A = np.zeros((P, d))
    A[np.random.default_rng(seed).integers(P, size=d), np.arange(d)] = 1.5
    return A


def spd(seed: int, d: int) -> np.ndarray:
    M = np.random.default_rng(seed).standard_normal((d, d))
    return M @ M.T + np.eye(d)


def smooth_user(seed: int, d: int) -> d2.Function:
    """A user's version of Quadratic(spd)."""
    P = spd(seed, d)
    values = np.linalg.eigvalsh(P)
    return d2.Smooth(
        lambda x: P @ x + 1.0, values[0], values[-1], lambda x: x @ P @ x / 2 + x.sum()
    )


def soft(v, t):
    return np.sign(v) * np.maximum(np.abs(v) - 0.3 * t, 0.0)


AGENTS = {
    "separable": d2.Agent(matrix(0, 3), d2.SquaredNorm(2.0, 0.5), d2.L1Norm([0.1, 0.2, 0.0])),
    "box": d2.Agent(matrix(1, 2), d2.Quadratic([1.0, 3.0], 1.0), d2.IndicatorBox(-0.1, [0.2, 9.0])),
    "zero": d2.Agent(np.zeros((P, 2)), d2.SquaredNorm(1.0, 1.0), d2.ElasticNet(0.1, 0.5)),
    "dense": d2.Agent(matrix(2, 4), d2.Quadratic(spd(2, 4), 1.0), d2.L2Norm(0.3)),
    "least squares": d2.Agent(
        matrix(3, 3), d2.LeastSquares(matrix(4, 3), np.ones(P), ridge=0.1), d2.IndicatorSimplex(1.0)
    ),
    "logistic": d2.Agent(
        matrix(5, 3),
        d2.LogisticRegression(matrix(6, 3), np.sign(matrix(7, 1)[:, 0]), ridge=0.7),
        d2.IndicatorBall(0.5, 0.2),
    ),
    "moved logistic": d2.Agent(
        matrix(8, 2),
        (2.0 * d2.LogisticRegression(matrix(9, 2), np.ones(P)))
        .shift([1.0, -1.0])
        .tilt(0.3)
        .plus_quadratic(0.5),
        d2.IndicatorHalfspace([1.0, 2.0], 0.3),
    ),
    "sparse": d2.Agent(sp.csc_array(thin(1, 5)), d2.SquaredNorm(3.0, -1.0), d2.L1Norm(0.3)),
    "sparse dense f": d2.Agent(
        sp.csr_array(thin(2, 3)), d2.Quadratic(spd(3, 3)), d2.IndicatorAffine(np.ones((1, 3)), 1.0)
    ),
    "stacked": d2.Agent(
        matrix(10, 5),
        d2.Stacked([d2.SquaredNorm(1.0), d2.Quadratic(spd(4, 3))], [2, 3]),
        d2.Stacked([d2.L2Norm(0.2), d2.IndicatorSimplex(2.0)], [2, 3]),
    ),
    "operator": d2.Agent(aslinearoperator(matrix(11, 2)), d2.SquaredNorm(1.0), d2.L1Norm(0.2)),
    "user f": d2.Agent(matrix(12, 3), smooth_user(5, 3), d2.IndicatorNonnegative()),
    "user g": d2.Agent(
        matrix(13, 2), d2.SquaredNorm(1.5), d2.Proximable(soft, lambda x: 0.3 * np.abs(x).sum())
    ),
}
"""The last three leave the compiled loop for Python."""

COMPILED = [name for name in AGENTS if name not in ("operator", "user f", "user g")]


def problem(h: d2.Function | None = None, names: list[str] | None = None) -> d2.Problem:
    h = d2.SquaredLoss(np.linspace(-1, 1, P), 0.5) if h is None else h
    return d2.Problem([AGENTS[name] for name in names or AGENTS], h)


def network(n: int) -> d2.Network:
    """A tree with a few more edges."""
    graph = nx.random_labeled_tree(n, seed=3)
    graph.add_edges_from((i, j) for i, j in [(0, n - 1), (1, n // 2)] if i != j)
    return d2.Network(graph)
