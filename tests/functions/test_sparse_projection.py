"""Projections by the method of one block, beside the active-set method and normal cones."""

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp

import dual2 as d2
from dual2.conic.sparse_system import RefinedSolver
from dual2.conic.standard_form import ConicRows
from dual2.functions.polyhedron import IndicatorPolyhedron


def random_set(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of a non-empty set: some equations, some one-sided, some scaled by a thousand."""
    draw = np.random.default_rng(seed)
    m, d = int(draw.integers(2, 9)), int(draw.integers(2, 9))
    M = draw.standard_normal((m, d)) * (draw.random((m, d)) < 0.6) * 10.0 ** draw.uniform(-3, 3)
    inside = M @ draw.standard_normal(d)
    lower = np.where(draw.random(m) < 0.6, inside - draw.uniform(0, 1, m), -np.inf)
    upper = np.where(draw.random(m) < 0.6, inside + draw.uniform(0, 1, m), np.inf)
    equal = draw.random(m) < 0.2
    return M, np.where(equal, inside, lower), np.where(equal, inside, upper)


@pytest.mark.parametrize("seed", range(40))
def test_sparse_and_dense_projections_agree(seed):
    M, lower, upper = random_set(seed)
    plain = IndicatorPolyhedron(M, lower, upper)
    v = 3.0 * np.random.default_rng(seed).standard_normal(M.shape[1])
    found = IndicatorPolyhedron(sp.csr_array(M), lower, upper)._sparse.project(v)
    assert found is not None
    assert found == pytest.approx(plain.prox(v, 1.0), rel=1e-9, abs=1e-9 * np.abs(v).max())


def test_a_large_projection_meets_the_optimality_conditions():
    """Ramps and a balance over 300 periods, too many for the dense method."""
    d = 300
    steps = sp.eye_array(d, k=1, format="csr")[:-1] - sp.eye_array(d, format="csr")[:-1]
    M = sp.vstack([sp.eye_array(d), steps, np.ones((1, d))], format="csr")
    lower = np.concatenate([np.zeros(d), np.full(d - 1, -0.1), [90.0]])
    upper = np.concatenate([np.ones(d), np.full(d - 1, 0.1), [90.0]])
    v = np.random.default_rng(0).uniform(-2, 3, d)
    x = d2.IndicatorPolyhedron(M, lower, upper).prox(v, 1.0)
    y = M @ x
    assert (y >= lower - 1e-9).all() and (y <= upper + 1e-9).all()
    outward = sp.vstack([M[np.abs(y - upper) < 1e-7], -M[np.abs(y - lower) < 1e-7]])
    _, left = scipy.optimize.nnls(outward.toarray().T, v - x)  # v − x is in the normal cone at x
    assert left <= 1e-6


def test_a_point_of_the_set_is_its_own_projection():
    M = sp.csr_array(np.array([[1.0, 1.0]]))
    onto = IndicatorPolyhedron(M, np.array([-1.0]), np.array([1.0]))._sparse
    inside = np.array([0.25, 0.5])
    assert (onto.project(inside) == inside).all()


def test_static_pivots_that_lose_the_answer_give_way_to_row_exchanges():
    """The preconditioner is that of another matrix: refinement cannot repair it."""
    K = sp.csr_array(np.array([[1e-12, 1.0], [1.0, 0.0]]))
    solver, b = RefinedSolver(K, lambda b: b / 7.0), np.array([1.0, 2.0])
    assert K @ solver(b) == pytest.approx(b, abs=1e-12)


def test_a_singular_matrix_leaves_the_best_that_refinement_found():
    K = sp.csr_array(np.array([[1.0, 1.0], [1.0, 1.0]]))
    found = RefinedSolver(K, lambda b: b / 2.0)(np.array([2.0, 2.0]))
    assert K @ found == pytest.approx([2.0, 2.0])


def test_rows_of_a_sparse_set_are_bounds_where_they_have_one_entry():
    M = sp.csr_array(np.array([[2.0, 0.0], [1.0, 1.0]]))
    onto = IndicatorPolyhedron(M, np.array([-2.0, 0.0]), np.array([4.0, 0.0]))._sparse
    assert isinstance(onto.rows, ConicRows)
    assert (onto.lower.tolist(), onto.upper.tolist()) == ([-1.0, -np.inf], [2.0, np.inf])
    assert onto.rows.B.shape == (1, 2) and onto.rows.equation.tolist() == [True]
