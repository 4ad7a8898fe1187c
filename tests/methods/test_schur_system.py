"""Sparse L D Lᵀ, the pattern of the Schur complement, and its solution against dense algebra."""

import numpy as np
import pytest
import scipy.sparse as sp

from dual2.conic.couplings import DenseCoupling, SparseCoupling
from dual2.conic.schur_pattern import SchurPattern, triangle_counts
from dual2.conic.sparse_ldl import Elimination
from dual2.methods.interior_point.schur import SchurFactors


def quasi_definite(seed, n=40, m=25):
    """[D, Bᵀ; B, −C] with diagonals over eight decades."""
    rng = np.random.default_rng(seed)
    B = sp.random_array((m, n), density=0.1, rng=rng, format="csr")
    D, C = (sp.diags_array(10.0 ** rng.uniform(-4, 4, k)) for k in (n, m))
    K = sp.csr_array(sp.block_array([[D, B.T], [B, -C]]))
    K.sort_indices()
    return K, np.repeat([1.0, -1.0], [n, m])


@pytest.mark.parametrize("seed", range(5))
def test_one_and_many_right_hand_sides_are_solved_alike(seed):
    K, signs = quasi_definite(seed)
    factors = Elimination.of(K, signs).factorise(K.data)
    rhs = np.random.default_rng(seed).standard_normal((K.shape[0], 7))
    X = factors.solve(rhs)
    assert factors.replaced == 0
    assert X == pytest.approx(np.linalg.solve(K.toarray(), rhs), rel=1e-7, abs=1e-9)
    for k in range(7):
        assert factors.solve(rhs[:, k].copy()) == pytest.approx(X[:, k], rel=1e-12, abs=1e-14)


def test_the_order_of_elimination_serves_other_numbers_of_the_same_pattern():
    K, signs = quasi_definite(1)
    elimination = Elimination.of(K, signs)
    other = K.copy()
    diagonal = np.repeat(np.arange(K.shape[0]), np.diff(K.indptr)) == K.indices
    other.data[diagonal] *= 3.0
    x = elimination.factorise(other.data).solve(np.ones(len(signs)))
    assert other @ x == pytest.approx(np.ones(len(signs)), rel=1e-8)


def test_minimum_degree_keeps_an_arrow_free_of_fill():
    n = 50
    arrow = sp.lil_array((n, n))
    arrow[0, :] = arrow[:, 0] = 1.0
    arrow.setdiag(np.full(n, 100.0))
    K = sp.csr_array(arrow)
    K.sort_indices()
    assert Elimination.of(K, np.ones(n)).starts[-1] == n - 1


def test_a_pivot_that_is_rounding_is_replaced_and_counted():
    K = sp.csr_array(np.array([[1.0, 1.0], [1.0, 1.0]]))
    assert Elimination.of(K, np.ones(2)).factorise(K.data).replaced == 1


@pytest.mark.parametrize("count", [1, 3])
def test_gram_matrices_of_sparse_and_dense_columns_agree(count):
    rng = np.random.default_rng(count)
    values = rng.standard_normal((count, 30, 8)) * (rng.random((count, 30, 8)) < 0.15)
    columns = sp.csr_array(values.transpose(0, 2, 1).reshape(count * 8, 30))
    pattern = SchurPattern.of_counts(30, triangle_counts(columns))
    dense, sparse = DenseCoupling(values, pattern), SparseCoupling(columns, count, pattern)
    weights, v, dual = rng.random((count, 8)), rng.random((count, 8)), rng.random(30)
    for at in (np.arange(count), np.array([count - 1])):
        assert sparse.gram(weights, at) == pytest.approx(dense.gram(weights, at))
    full = np.einsum("mik,mk,mjk->mij", values, weights, values)
    for k in range(count):
        assert pattern.dense(sparse.gram(weights, np.array([k]))[0]) == pytest.approx(full[k])
    assert sparse.apply(v) == pytest.approx(dense.apply(v))
    assert sparse.adjoint(dual) == pytest.approx(dense.adjoint(dual))
    assert sparse.load(-v) == pytest.approx(dense.load(-v))
    assert sparse.largest_in_rows() == pytest.approx(dense.largest_in_rows())
    assert sparse.largest_in_columns() == pytest.approx(dense.largest_in_columns())
    rows = rng.random(30)
    scaled = sparse.scaled(rows, v)
    assert scaled.apply(v) == pytest.approx(dense.scaled(rows, v).apply(v))


def test_full_columns_are_multiplied_out_instead_of_listed():
    rng = np.random.default_rng(0)
    values = rng.standard_normal((2, 700, 6))
    pattern = SchurPattern.full(700)
    columns = sp.csr_array(values.transpose(0, 2, 1).reshape(12, 700))
    weights = rng.random((2, 6))
    sparse = SparseCoupling(columns, 2, pattern).gram(weights, np.array([1]))
    assert sparse == pytest.approx(DenseCoupling(values, pattern).gram(weights, np.array([1])))


@pytest.mark.parametrize("p, density", [(12, 1.0), (300, 0.004)])
def test_the_replicated_system_is_solved_by_its_pattern(p, density):
    rng = np.random.default_rng(p)
    A = sp.csr_array(sp.random_array((2 * p, p), density=density, rng=rng))
    pattern = SchurPattern.of_counts(p, triangle_counts(A))
    S = (A.T @ A).toarray() + np.eye(p)
    solve = SchurFactors(pattern).solver(S[pattern.rows, pattern.columns])
    r = rng.standard_normal(p)
    assert S @ solve(r) == pytest.approx(r, abs=1e-12)


def test_a_singular_system_is_solved_where_it_can_be():
    S = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 4.0]])
    pattern = SchurPattern.full(3)
    solve = SchurFactors(pattern).solver(S[pattern.rows, pattern.columns])
    assert S @ solve(np.array([2.0, 2.0, 8.0])) == pytest.approx([2.0, 2.0, 8.0])


def test_a_system_with_numbers_that_are_not_finite_has_no_factors():
    assert SchurFactors(SchurPattern.full(1)).solver(np.array([np.inf])) is None
