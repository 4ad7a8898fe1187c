"""Every block form is its function: value, domain and prox, solved by CLARABEL."""

import numpy as np
import pytest
import scipy.sparse as sp

import dual2.functions as fn
from block_programs import at_point, outside, prox_at
from dual2.conic.blocks import BlockForm, Factored, Pieces
from dual2.conic.curvature import dense
from dual2.errors import ProblemError

Y = np.array([1.0, -2.0, 0.5])
CHANGES = {
    "plain": lambda f: f,
    "conjugate": lambda f: f.conjugate,
    "conjugate, changed": lambda f: (1.5 * f.shift(0.3 * Y)).tilt([0.3, -0.2, 0.1]).conjugate,
    "changed": lambda f: (1.5 * f.shift(0.3 * Y)).tilt([0.3, -0.2, 0.1]).plus_quadratic(0.7),
}


@pytest.fixture(params=CHANGES)
def function(case, request):
    """Each function of the table, plain and after calculus; with a closed form."""
    if isinstance(case, fn.LogisticRegression) and "conjugate" in request.param:
        case = fn.LogisticLoss(Y / np.abs(Y))
    return CHANGES[request.param](case)


def test_value_and_domain(function):
    b = function.blocks(3)
    rng = np.random.default_rng(5)
    inside = [function.prox(v, 0.8) for v in 2.0 * rng.standard_normal((2, 3))]
    for x in [*inside, *(1.5 * rng.standard_normal((2, 3)))]:
        expected = function.value(x)
        if np.isfinite(expected):
            assert at_point(b, x) == pytest.approx(expected, rel=1e-7, abs=1e-7)
        else:
            assert at_point(b, x) == np.inf


def test_prox(function):
    b = function.blocks(3)
    for v in 2.0 * np.random.default_rng(6).standard_normal((2, 3)):
        expected = function.prox(v, 0.7)
        assert not outside(b, expected)
        np.testing.assert_allclose(prox_at(b, v, 0.7, expected), expected, rtol=1e-5, atol=2e-6)


def test_pieces_are_ordered_and_touch(function):
    pieces = function.blocks(3).pieces or Pieces.free(3)
    assert np.all(np.diff(pieces.coordinate) >= 0)
    assert np.all((pieces.lower <= 0) & (pieces.upper >= 0) & (pieces.lower < pieces.upper))
    same = np.diff(pieces.coordinate) == 0
    ends = pieces.slope + pieces.curvature * np.where(np.isfinite(pieces.upper), pieces.upper, 0.0)
    assert np.all(ends[:-1][same] <= pieces.slope[1:][same] + 1e-12)
    assert np.all(((pieces.upper[:-1] == 0) | (pieces.lower[1:] == 0))[same])


def test_smooth_terms_agree_with_differences(function):
    h = 1e-6
    for term in function.blocks(3).smooth:
        d = term.at.stop - term.at.start
        x = (np.zeros(d) if term.start is None else term.start) + 0.1 * np.arange(d)
        value, gradient, hessian = term.expand(x)
        near = [(term.expand(x + h * e), term.expand(x - h * e)) for e in np.eye(d)]
        slopes = [(up.value - down.value) / (2 * h) for up, down in near]
        bends = [(up.gradient - down.gradient) / (2 * h) for up, down in near]
        np.testing.assert_allclose(gradient, slopes, atol=1e-6 * (1 + abs(value)))
        np.testing.assert_allclose(dense(hessian), bends, atol=1e-6)


def test_hundred_thousand_coordinates_without_a_loop():
    d = 100_000
    upper = np.arange(d, dtype=float)
    f = fn.PiecewiseQuadratic(1.0, slope_left=-1.0, slope_right=1.0, upper=upper)
    pieces = f.blocks(d).pieces
    assert len(pieces.slope) == 2 * d - 1  # the first has no room beyond its kink
    assert len(fn.HuberLoss(upper, 1.0).blocks(d).pieces.slope) == 3 * d


def test_wide_least_squares_stays_in_factors():
    M = np.ones((2, 5))
    H = fn.LeastSquares(M, 1.0, ridge=0.5).blocks(5).H
    assert isinstance(H, Factored) and H.M.shape == (2, 5) and np.all(H.diagonal == 0.5)
    stack = fn.Stacked([fn.LeastSquares(M, 1.0), fn.SquaredNorm(2.0)], [5, 1]).blocks(6)
    assert isinstance(stack.H, Factored) and stack.H.diagonal.tolist() == [0.0] * 5 + [2.0]


def test_large_quadratics_with_few_entries_are_sparse():
    P = np.diag(np.full(60, 2.0)) + np.diag(np.ones(59), 1) + np.diag(np.ones(59), -1)
    H = fn.Quadratic(P).blocks(60).H
    assert sp.issparse(H) and np.array_equal(H.toarray(), P)
    moved = fn.Quadratic(P).plus_quadratic(1.0).shift(1.0).blocks(60)
    assert sp.issparse(moved.H) and np.array_equal(moved.H.toarray(), P + np.eye(60))
    f = fn.Quadratic(P).plus_quadratic(1.0).shift(1.0)
    x = np.linspace(-1.0, 2.0, 60)
    value = 0.5 * x @ (moved.H @ x) + moved.q @ x + moved.constant
    assert value == pytest.approx(f.value(x))
    both = fn.Stacked([fn.Quadratic(P), fn.LeastSquares(np.ones((1, 2)), 0.0)], [60, 2]).blocks(62)
    assert np.array_equal(both.H.toarray()[60:, 60:], np.ones((2, 2)))


def test_length_is_checked():
    with pytest.raises(ProblemError, match="length"):
        fn.IndicatorPoint(Y).blocks(2)


def test_a_stack_keeps_parts_without_pieces_free():
    both = BlockForm.stacked([BlockForm(1, pieces=Pieces.from_table(np.ones(1), [])), BlockForm(1)])
    assert both.pieces.start.tolist() == [1.0, 0.0] and both.pieces.coordinate.tolist() == [1]


# -- users' functions --------------------------------------------------------------------------


def cosh(hessian, **more):
    """A user's Σ log cosh(x)."""
    return fn.Smooth(np.tanh, mu=0.0, L=1.0, hessian=hessian, **more)


@pytest.mark.parametrize("form", [np.diag, lambda diagonal: diagonal], ids=["matrix", "diagonal"])
def test_users_function_with_a_hessian(form):
    f = cosh(lambda x: form(1.0 / np.cosh(x) ** 2), value=lambda x: np.log(np.cosh(x)).sum())
    (term,) = f.shift(Y).blocks(3).smooth
    x = np.array([0.3, -1.0, 2.0])
    value, gradient, hessian = term.expand(x)
    assert value == pytest.approx(np.log(np.cosh(x - Y)).sum())
    np.testing.assert_allclose(gradient, np.tanh(x - Y))
    np.testing.assert_allclose(dense(hessian), np.diag(1.0 / np.cosh(x - Y) ** 2))


def test_users_function_without_values_says_so_by_nan():
    (term,) = cosh(lambda x: 1.0 / np.cosh(x) ** 2).blocks(3).smooth
    assert np.isnan(term.expand(np.zeros(3)).value)


@pytest.mark.parametrize(
    ("hessian", "words"),
    [
        (lambda x: np.ones(2), r"shape \(2,\)"),
        (lambda x: np.triu(np.ones((3, 3))), "not symmetric"),
        (lambda x: 2.0 / np.cosh(x) ** 2, "hessian and grad disagree"),
        (lambda x: x + np.nan, "not all real and finite"),
        (lambda x: x + 1j, "not all real and finite"),
    ],
)
def test_wrong_hessians_are_refused(hessian, words):
    with pytest.raises(ProblemError, match=words):
        cosh(hessian).blocks(3).smooth[0].expand(0.5 * Y)


PROX = fn.Proximable(lambda v, step: v)
SMOOTH = fn.Smooth(np.tanh, 0.0, 1.0)


@pytest.mark.parametrize(
    ("f", "reason"),
    [
        (SMOOTH, "pass hessian="),
        (SMOOTH.tilt(1.0), "pass hessian="),
        (PROX, "only the prox"),
        (fn.Stacked([fn.Zero(), PROX], [1, 2]), "only the prox"),
        (fn.ConjugateSmooth(np.tanh, 0.0, 1.0), "only the gradient of the conjugate"),
        (fn.LogisticRegression(np.eye(3), 1.0).conjugate, "no closed form"),
        (fn.L2Norm(1.0).plus_quadratic(1.0).conjugate, "no closed form"),
    ],
)
def test_what_has_no_block_form_says_why(f, reason):
    assert f.blocks(3) is None
    assert reason in f.why_no_blocks(3)


def test_what_has_a_block_form_gives_no_reason(case):
    assert case.why_no_blocks(3) is None
