"""Polyhedra: the projection meets its optimality conditions, empty sets are named."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

import dual2 as d2
import dual2.functions as fn
from dual2.errors import ProblemError
from dual2.functions.derivatives import prox_jacobian
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


# -- sparse rows -------------------------------------------------------------------------------

ROWS = np.array([[1.0, 0, 0, 0], [0, -2.0, 0, 0], [1.0, 1, 0, -1], [0, 3.0, -1, 0], [0, 0, 0, 0]])


def test_a_sparse_matrix_gives_the_same_set_and_stays_sparse():
    ends = np.array([0.0, -4, -1, 0.5, -1]), np.array([2.0, 0, 1, 0.5, INF])
    dense, sparse = (
        fn.IndicatorPolyhedron(ROWS, *ends),
        fn.IndicatorPolyhedron(sp.csr_array(ROWS), *ends),
    )
    assert sp.issparse(sparse.M) and all(sp.issparse(r.on_x) for r in sparse.blocks(4).rows)
    v = 3.0 * np.random.default_rng(0).standard_normal((5, 4))
    x = dense.prox(v, 1.0)
    np.testing.assert_array_equal(sparse.prox(v, 1.0), x)
    np.testing.assert_array_equal(sparse.value(x), dense.value(x))
    np.testing.assert_array_equal(sparse.value(v), dense.value(v))
    assert sparse.value(v[0]) == np.inf and sparse.value(x[0]) == 0.0
    np.testing.assert_allclose(prox_jacobian(sparse, v[0], 1.0), prox_jacobian(dense, v[0], 1.0))
    units = np.array([1.0, 2, 3, 4])
    np.testing.assert_allclose(
        sparse.rescaled(units).prox(v, 1.0), dense.rescaled(units).prox(v, 1.0)
    )
    assert sparse.domain_support(v[0]) == pytest.approx(dense.domain_support(v[0]))


def test_a_large_sparse_set_is_not_written_out():
    d = 4_000
    steps = sp.diags_array([-np.ones(d - 1), np.ones(d - 1)], offsets=[0, 1], shape=(d - 1, d))
    total = sp.csr_array(np.ones((1, d)))
    g = fn.IndicatorPolyhedron(sp.vstack([steps, total]), -1.0, np.append(np.ones(d - 1), 5.0))
    b = g.blocks(d)
    assert sum(rows.on_x.nnz for rows in b.rows) == 2 * (2 * (d - 1) + d)
    assert g.value(np.zeros(d)) == 0.0 and g.value(np.arange(d) % 3 * 1.0) == np.inf


def test_a_large_empty_sparse_set_names_its_rows():
    d = 1200
    M = sp.vstack([-sp.eye_array(d), sp.csr_array(np.ones((2, d)))])
    upper = np.append(np.zeros(d), [4.0, INF])
    with pytest.raises(EmptySet, match="contradict") as error:
        fn.IndicatorPolyhedron(M, np.append(np.full(d, -INF), [-INF, 5.0]), upper)
    named = dict(zip(error.value.rows, error.value.sides, strict=True))
    assert named == {d: "upper", d + 1: "lower"}
    upper[d] = -1.0  # no sum of numbers >= 0 is so low
    with pytest.raises(EmptySet, match="contradict") as error:
        fn.IndicatorPolyhedron(M[: d + 1], -INF, upper[: d + 1])
    assert set(error.value.rows) == set(range(d + 1)) and set(error.value.sides) == {"upper"}


def test_a_sparse_matrix_that_is_not_finite_is_refused():
    with pytest.raises(ProblemError, match="inf"):
        fn.IndicatorPolyhedron(sp.csr_array(np.array([[INF, 1.0]])), 0.0, 1.0)
