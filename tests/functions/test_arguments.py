"""Bad input is refused when the function is made, in words."""

import numpy as np
import pytest

import dual2.functions as fn
from dual2.errors import CapabilityError, ProblemError

NAN, INF = np.nan, np.inf
REFUSED = [
    (lambda: fn.SquaredNorm(NAN), r"SquaredNorm: weight is nan; expected a finite number"),
    (lambda: fn.SquaredNorm(1.0, [0.0, INF]), r"center\[1\] is inf"),
    (lambda: fn.SquaredNorm(-1.0), r"weight is -1; expected a number at least 0"),
    (lambda: fn.SquaredNorm([1.0, 2.0]), r"weight has shape \(2,\); expected one number"),
    (lambda: fn.SquaredNorm("heavy"), r"weight is str and cannot be read as real numbers"),
    (lambda: fn.L1Norm([1.0, -2.0]), r"L1Norm: weight\[1\] is -2"),
    (lambda: fn.L1Norm([[1.0]]), r"expected a number or a vector"),
    (lambda: fn.L2Norm(-1.0), r"L2Norm: weight is -1"),
    (lambda: fn.ElasticNet(1.0, -0.1), r"ElasticNet: l2 is -0.1"),
    (lambda: fn.ElasticNet([1.0, 2.0], [1.0, 2.0, 3.0]), r"l1 has 2, l2 has 3"),
    (lambda: fn.IndicatorBox([0.0, 2.0], [1.0, 1.0]), r"empty at index 1: lower 2 > upper 1"),
    (lambda: fn.IndicatorBox([0.0, 2.0], 1.0), r"empty at index 1: lower 2 > upper 1"),
    (lambda: fn.IndicatorBox([0.0, NAN], 1.0), r"lower\[1\] is nan"),
    (lambda: fn.IndicatorBox(INF, INF), r"the box is empty"),
    (lambda: fn.IndicatorBox(-INF, -INF), r"the box is empty"),
    (lambda: fn.IndicatorPoint([0.0, NAN]), r"IndicatorPoint: b\[1\] is nan"),
    (lambda: fn.IndicatorAtMost(INF), r"IndicatorAtMost: b is inf"),
    (lambda: fn.IndicatorSimplex(-1.0), r"total is -1; expected a number at least 0"),
    (lambda: fn.IndicatorBall(-1.0), r"radius is -1"),
    (lambda: fn.IndicatorHalfspace([0.0, 0.0], -1.0), r"the set is empty: a = 0 and b = -1"),
    (lambda: fn.IndicatorAffine([[1.0, 1.0], [2.0, 2.0]], [1.0, 3.0]), r"has no solution"),
    (lambda: fn.IndicatorAffine([[1.0, 1.0]], [1.0, 3.0]), r"b has length 2 and M has 1 rows"),
    (lambda: fn.IndicatorAffine([[1.0, NAN]], [1.0]), r"M\[0, 1\] is nan"),
    (lambda: fn.SquaredLoss([1.0, NAN]), r"SquaredLoss: y\[1\] is nan"),
    (lambda: fn.SquaredLoss(1.0, scale=0.0), r"scale is 0; expected a number greater than 0"),
    (lambda: fn.HuberLoss(1.0, delta=0.0), r"delta is 0; expected a number greater than 0"),
    (lambda: fn.QuantileLoss(1.0, 1.0), r"quantile is 1; expected a number between 0 and 1"),
    (lambda: fn.LogisticLoss([1.0, 0.0]), r"labels\[1\] is 0; expected a number equal to -1 or 1"),
    (lambda: fn.HingeLoss([1.0, 2.0]), r"HingeLoss: labels\[1\] is 2"),
    (lambda: fn.PoissonLoss([1.0, -2.0]), r"PoissonLoss: counts\[1\] is -2"),
    (lambda: fn.Quadratic([[1.0, 2.0], [0.0, 1.0]]), r"not symmetric: P\[0, 1\] = 2"),
    (lambda: fn.Quadratic([[1.0, 2.0], [2.0, 1.0]]), r"smallest eigenvalue is -1\."),
    (lambda: fn.Quadratic([1.0, -2.0]), r"P\[1\] is -2"),
    (lambda: fn.Quadratic([[1.0, 2.0]]), r"P has shape \(1, 2\); expected a square matrix"),
    (lambda: fn.Quadratic([1.0, 2.0], [1.0]), r"P has 2, q has 1"),
    (lambda: fn.LeastSquares([[1.0]], [1.0], ridge=-1.0), r"ridge is -1"),
    (lambda: fn.LeastSquares([[1.0]], [1.0, 2.0]), r"b has length 2 and M has 1 rows"),
    (lambda: fn.LogisticRegression([[1.0]], [0.0]), r"labels\[0\] is 0"),
    (lambda: fn.LogisticRegression([1.0], [1.0]), r"M has shape \(1,\); expected a matrix"),
    (lambda: fn.Max(-1.0), r"Max: weight is -1"),
    (lambda: fn.SumLargest(0.0), r"count is 0; expected a number greater than 0"),
    (lambda: fn.SumLargest(3).value([1.0, 2.0]), r"length 2 .* have no sum of 3. Lower the total"),
    (lambda: fn.IndicatorCappedSimplex(3.0, 1.0).prox([1.0], 1.0), r"have no sum of 3"),
    (lambda: fn.NegativeLog([1.0, 0.0]), r"NegativeLog: scale\[1\] is 0"),
    (lambda: fn.Entropy(-1.0), r"Entropy: reference is -1"),
    (lambda: fn.PiecewiseLinear([], [1.0]), r"0 kinks and 1 slopes"),
    (lambda: fn.PiecewiseLinear([0.0], [-INF, INF]), r"0 of them finite"),
    (lambda: fn.PiecewiseLinear([0.0], [2.0, 1.0]), r"slopes\[1\] = 1 is below slopes\[0\] = 2"),
    (lambda: fn.PiecewiseLinear([1.0, 0.0], [0.0, 1.0, 2.0]), r"kinks\[1\] = 0 is below"),
    (lambda: fn.PiecewiseLinear([0.0, 1.0], [-INF, -INF, 0.0]), r"expected finite ones except"),
    (lambda: fn.Stacked([fn.Zero()], [1, 2]), r"1 function and 2 sizes"),
    (lambda: fn.Stacked([fn.IndicatorPoint([1.0, 2.0])], [3]), r"block 0, .*has size 3"),
    (lambda: fn.Stacked([fn.Zero()], [0]), r"expected a whole positive size"),
    (lambda: fn.Stacked([fn.Zero()], [1.5]), r"has size 1.5; expected a whole"),
    (lambda: 0 * fn.L1Norm(1.0), r"scale is 0; expected a number greater than 0"),
    (lambda: -2 * fn.L2Norm(1.0), r"scale is -2"),
    (lambda: fn.L1Norm([1.0, 2.0]).shift([1.0, 2.0, 3.0]), r"length 3.*dimension 2"),
    (lambda: fn.L2Norm(1.0).tilt([NAN]), r"slope\[0\] is nan"),
    (lambda: fn.L1Norm(1.0).plus_quadratic(-1.0), r"curvature is -1"),
    (lambda: fn.Smooth(3.0, 1.0, 1.0), r"Smooth: grad is float; expected a Python function"),
    (lambda: fn.Smooth(np.sin, 2.0, 1.0), r"L is 1; expected a number at least mu = 2"),
    (lambda: fn.Smooth(np.sin, NAN, 1.0), r"mu is nan"),
    (lambda: fn.Smooth(np.sin, "weak", 1.0), r"mu is str and cannot be read"),
    (lambda: fn.Smooth(np.sin, 1.0, None), r"L is NoneType and cannot be read"),
    (lambda: fn.ConjugateSmooth(np.sin, -1.0, 1.0), r"mu is -1"),
    (lambda: fn.Proximable(None), r"prox is NoneType"),
    (lambda: fn.as_function(np.ones(3)), r"ndarray is not a function"),
    (lambda: fn.as_function(fn.Zero), r"The class Zero was given; expected an object"),
    (lambda: fn.Zero().value("x"), r"Zero: the argument cannot be read as real numbers"),
    (lambda: fn.Zero().prox([[1.0], [1.0, 2.0]], 1.0), r"argument cannot be read"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_refused(make, message):
    with pytest.raises(ProblemError, match=message):
        make()


@pytest.mark.parametrize(
    "make",
    [
        lambda: fn.IndicatorBox(1.0, 1.0),
        lambda: fn.IndicatorBox(-INF, INF),
        lambda: fn.IndicatorSimplex(0.0),
        lambda: fn.SquaredNorm(0.0),
        lambda: fn.IndicatorHalfspace(0.0, 0.0),
        lambda: fn.Quadratic([[1.0, 1.0], [1.0, 1.0]]),
    ],
)
def test_edges_that_are_legal(make):
    assert make().prox([2.0, 2.0], 1.0).shape == (2,)


@pytest.mark.parametrize("step", [0.0, -1.0, NAN, INF])
def test_a_step_is_positive_and_finite(step):
    with pytest.raises(ProblemError, match="step"):
        fn.L1Norm(1.0).prox([1.0], step)


def test_shapes_of_points():
    with pytest.raises(ProblemError, match=r"length 3; its data have length 2"):
        fn.SquaredLoss([1.0, 2.0]).value([1.0, 2.0, 3.0])
    with pytest.raises(ProblemError, match=r"expected a vector"):
        fn.L1Norm(1.0).value(1.0)


def test_missing_oracles_say_so():
    with pytest.raises(CapabilityError, match=r"L1Norm\(weight=1\) has no gradient"):
        fn.L1Norm(1.0).grad([1.0])
    with pytest.raises(CapabilityError, match="no prox"):
        fn.Smooth(np.sin, 0.0, 1.0).prox([1.0], 1.0)
    with pytest.raises(CapabilityError, match="value= was not given"):
        fn.Smooth(np.sin, 0.0, 1.0).value([1.0])
    with pytest.raises(CapabilityError, match="not strongly convex"):
        fn.L1Norm(1.0).conjugate_grad([1.0])
    with pytest.raises(CapabilityError, match="ridge"):
        fn.LogisticRegression([[1.0]], [1.0]).conjugate_grad([0.1])


def test_data_are_copied_and_read_only():
    y = np.ones(3)
    loss = fn.SquaredLoss(y)
    y[0] = 7.0
    assert loss.value(np.ones(3)) == 0.0
    with pytest.raises(ValueError, match="read-only"):
        loss.y[0] = 7.0  # pyright: ignore[reportIndexIssue]


def test_repr_is_short():
    assert repr(fn.L1Norm(1.0)) == "L1Norm(weight=1)"
    assert repr(fn.SquaredLoss(np.ones(50), 2.0)) == "SquaredLoss(y=<array (50,)>, scale=2)"
    assert repr(fn.SquaredNorm(2.0)) == "SquaredNorm(weight=2)"
