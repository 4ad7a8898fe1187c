"""Chains: the dynamic programme gives the projection of the active set method, and its face."""

import numpy as np
import pytest

import dual2 as d2
from dual2.functions.chain import ROWS, project_chain
from dual2.functions.projection import SOLVED, ScaledPolyhedron, project

INF = np.inf


def random_chain(rng, T):
    """Bounds around a path that changes slowly: never empty, with equations and infinite ends."""
    path = np.cumsum(rng.standard_normal(T))
    wide = lambda: np.where(rng.random(T) < 0.2, INF, rng.random(T) * rng.integers(0, 3, T))  # noqa: E731
    steps = np.diff(path, prepend=path[0])
    return np.array([path - wide(), path + wide(), wide() - steps, wide() + steps])


def solve(u, w, chain):
    x, weights = np.empty(len(u)), np.empty(len(u))
    project_chain(u, w, chain, x, weights, np.empty((ROWS, 2 * len(u) + 2)))
    return x, weights


def general(u, w, chain):
    """The same by the active set method, in the units √w·x; and the directions of its face."""
    T, root = len(u), np.sqrt(w)
    M = (np.eye(T)[1:] - np.eye(T)[:-1]) / root
    size = np.linalg.norm(M, axis=1)
    s = ScaledPolyhedron(
        np.ascontiguousarray(M / size[:, None]),
        -chain[2, 1:] / size,
        chain[3, 1:] / size,
        root * chain[0],
        root * chain[1],
    )
    out, basis = np.empty(T), np.empty((T, T))
    status, count = project(root * u, out, s, np.empty(2 * T - 1), basis)
    assert status == SOLVED
    return out / root, basis[:count] / root


@pytest.mark.parametrize("seed", range(60))
def test_projection_and_its_derivative(seed):
    rng = np.random.default_rng(seed)
    T = int(rng.integers(2, 30))
    chain, w = random_chain(rng, T), np.exp(rng.standard_normal(T) * (seed % 3))
    u = 3.0 * rng.standard_normal(T) + chain[[0, 1]].clip(-9, 9).mean(axis=0)
    x, weights = solve(u, w, chain)
    expected, basis = general(u, w, chain)
    size = max(1.0, np.abs(u).max())
    np.testing.assert_allclose(x, expected, atol=1e-11 * size)
    small = 1e-7 * rng.standard_normal(T)
    moved = (solve(u + small, w, chain)[0] - solve(u - small, w, chain)[0]) / 2
    ends = np.flatnonzero(weights > 0)
    J = np.zeros((T, T))
    for end in ends:
        first = end
        while first > 0 and weights[first - 1] < 0:
            first -= 1
        J[first : end + 1, first : end + 1] = weights[end]
    np.testing.assert_allclose(J @ (w * small), moved, atol=1e-13 * size)
    np.testing.assert_allclose(basis.T @ basis, J, atol=1e-9)


def test_chains_are_recognised():
    rows = np.array([[1.0, 0, 0], [0, -2.0, 2.0], [-1.0, 1.0, 0], [0, 1.0, -1.0]])
    g = d2.IndicatorPolyhedron(rows, [0, -1, -3, -2], [5, 4, 3, 0.25])
    expected = [[0, -INF, -INF], [5, INF, INF], [INF, 3, 0.25], [INF, 3, 2]]
    np.testing.assert_array_equal(g.chain, expected)
    assert d2.IndicatorPolyhedron([[1.0, 1.0]], 0, 1).chain is None
    assert d2.IndicatorPolyhedron([[1.0, 0.0, -1.0]], 0, 1).chain is None
    assert d2.IndicatorPolyhedron(np.eye(2), 0, 1).chain is None


def test_a_long_chain_moves_as_one():
    T = 2000
    chain = np.array([np.full(T, -INF), np.full(T, INF), np.zeros(T), np.zeros(T)])
    u = np.random.default_rng(0).standard_normal(T)
    x, weights = solve(u, np.ones(T), chain)
    np.testing.assert_allclose(x, u.mean(), atol=1e-13)
    assert weights[-1] == pytest.approx(1 / T) and (weights[:-1] < 0).all()
