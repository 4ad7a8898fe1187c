"""Every block form is its function: value, domain and prox, solved by CLARABEL."""

import numpy as np
import pytest

import dual2.functions as fn
from block_programs import at_point, outside, prox_at
from dual2.errors import ProblemError
from dual2.functions.blocks import Blocks, Factored, Pieces

Y = np.array([1.0, -2.0, 0.5])
CHANGES = {
    "plain": lambda f: f,
    "changed": lambda f: (1.5 * f.shift(0.3 * Y)).tilt([0.3, -0.2, 0.1]).plus_quadratic(0.7),
}


@pytest.fixture(params=CHANGES)
def function(case, request):
    """Each function of the table, plain and after calculus."""
    return CHANGES[request.param](case)


def test_value_and_domain(function):
    b = function.blocks(3)
    if b is None:
        return
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
    if b is None:
        return
    for v in 2.0 * np.random.default_rng(6).standard_normal((2, 3)):
        expected = function.prox(v, 0.7)
        assert not outside(b, expected)
        np.testing.assert_allclose(prox_at(b, v, 0.7, expected), expected, rtol=1e-5, atol=2e-6)


def test_pieces_are_ordered_and_touch(function):
    b = function.blocks(3)
    if b is None or b.pieces is None:
        return
    pieces = b.pieces
    assert np.all(np.diff(pieces.coordinate) >= 0)
    assert np.all((pieces.lower <= 0) & (pieces.upper >= 0) & (pieces.lower < pieces.upper))
    same = np.diff(pieces.coordinate) == 0
    ends = pieces.slope + pieces.curvature * np.where(np.isfinite(pieces.upper), pieces.upper, 0.0)
    assert np.all(ends[:-1][same] <= pieces.slope[1:][same] + 1e-12)
    assert np.all(((pieces.upper[:-1] == 0) | (pieces.lower[1:] == 0))[same])


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


def test_length_is_checked():
    with pytest.raises(ProblemError, match="length"):
        fn.IndicatorPoint(Y).blocks(2)


def test_a_stack_keeps_parts_without_pieces_free():
    both = Blocks.stacked([Blocks(1, pieces=Pieces.from_table(np.ones(1), [])), Blocks(1)])
    assert both.pieces.start.tolist() == [1.0, 0.0] and both.pieces.coordinate.tolist() == [1]
