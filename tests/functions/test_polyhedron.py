"""Polyhedra: the projection meets its optimality conditions, empty sets are named."""

import numpy as np
import pytest
from scipy.optimize import linprog

import dual2 as d2
from dual2.functions.polyhedron import EmptySet
from dual2.functions.projection import SOLVED, project

INF = np.inf


def random_set(rng: np.random.Generator) -> tuple[d2.IndicatorPolyhedron, np.ndarray]:
    """Rows of several scales around a known point, some bounds, some equations, some repeated."""
    d, m = int(rng.integers(1, 9)), int(rng.integers(1, 16))
    M = rng.standard_normal((m, d)) * rng.choice([0.1, 1.0, 10.0], (m, 1))
    M[rng.random((m, d)) < 0.4] = 0.0
    M[m // 2] = M[0]
    inside = rng.standard_normal(d)
    below, above = (
        np.where(rng.random(m) < 0.3, INF, rng.random(m) * rng.integers(0, 2, m)) for _ in range(2)
    )
    lower, upper = M @ inside - below, M @ inside + above
    lower[m // 2], upper[m // 2] = lower[0], upper[0]
    return d2.IndicatorPolyhedron(M, lower, upper), inside


@pytest.mark.parametrize("seed", range(60))
def test_projection_meets_the_optimality_conditions(seed):
    rng = np.random.default_rng(seed)
    g, inside = random_set(rng)
    v = inside + rng.choice([0.1, 1.0, 30.0]) * rng.standard_normal(len(inside))
    s, x = g.scaled, np.empty_like(v)
    y = np.empty(len(s.M) + len(v))
    assert project(v, x, s, y, np.empty((0, 0)))[0] == SOLVED
    rows = np.vstack([s.M, np.eye(len(v))])
    lower, upper = np.append(s.lower, s.box_lower), np.append(s.upper, s.box_upper)
    value, size = rows @ x, max(1.0, np.abs(v).max())
    assert np.all(value >= lower - 1e-11 * size) and np.all(value <= upper + 1e-11 * size)
    np.testing.assert_allclose(rows.T @ y, v - x, atol=1e-11 * size)
    assert np.all(np.abs(value - upper)[y > 1e-9] <= 1e-11 * size)
    assert np.all(np.abs(value - lower)[y < -1e-9] <= 1e-11 * size)


def test_the_clipped_point_is_returned_where_it_meets_the_other_rows():
    g = d2.IndicatorPolyhedron(np.vstack([np.eye(3), np.ones(3)]), 0.0, [1.0, 1.0, 1.0, 2.0])
    assert g.prox([5.0, -1.0, 0.25], 1.0).tolist() == [1.0, 0.0, 0.25]


@pytest.mark.parametrize("seed", range(5))
def test_support_is_the_linear_program(seed):
    rng = np.random.default_rng(seed)
    M = np.vstack([np.eye(4), rng.standard_normal((3, 4))])
    upper = np.append(np.ones(4), [0.5, INF, 1.0])
    g, u = d2.IndicatorPolyhedron(M, -1.0, upper), rng.standard_normal(4)
    A, b = np.vstack([M[upper < INF], -M]), np.append(upper[upper < INF], np.ones(7))
    best = -linprog(-u, A_ub=A, b_ub=b, bounds=(None, None)).fun
    assert g.domain_support(u) == pytest.approx(best, rel=1e-8)
    assert d2.IndicatorPolyhedron(M[:1], -1.0, 1.0).domain_support(u) == INF


@pytest.mark.parametrize(
    ("M", "lower", "upper", "rows"),
    [
        ([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [0.0, 0.0, -2.0], [1.0, 1.0, -0.5], {0, 1, 2}),
        ([[1.0, 2.0], [2.0, 4.0]], [3.0, -INF], [INF, 5.0], {0, 1}),
        ([[1.0], [-1.0]], [2.0, 0.0], [INF, INF], {0, 1}),
        ([[1.0, 1.0], [1.0, -1.0], [1.0, 0.0]], [1.0, 1.0, 5.0], [1.0, 1.0, 6.0], {0, 1, 2}),
        ([[0.0, 0.0], [1.0, 0.0]], [1.0, 0.0], [2.0, 1.0], {0}),
        ([[1.0, 0.0]], [2.0], [1.0], {0}),
    ],
)
def test_empty_sets_name_the_rows(M, lower, upper, rows):
    with pytest.raises(EmptySet, match="contradict") as caught:
        d2.IndicatorPolyhedron(M, lower, upper)
    assert set(caught.value.rows) == rows


def test_bounds_must_fit_the_rows():
    with pytest.raises(d2.ProblemError, match="lower has length 2 and M has 1 rows"):
        d2.IndicatorPolyhedron([[1.0]], [0.0, 0.0], 1.0)
