"""The table of functions: each row inherits every check of ``dual2.testing``."""

import numpy as np
import pytest

import dual2.functions as fn
import howto

Y = np.array([1.0, -2.0, 0.5])
LABELS = np.array([1.0, -1.0, 1.0])
WEIGHTS = np.array([0.5, 2.0, 1.3])
TALL = np.array([[1.0, 0.2, -0.4], [0.3, -1.1, 0.8], [0.0, 0.5, 1.3], [-0.7, 0.1, 0.9]])
WIDE = np.array([[0.9, -0.3, 0.4], [0.2, 1.2, -0.6]])
DENSE = TALL.T @ TALL
INF = np.inf

SEPARABLE = {
    "zero": fn.Zero(),
    "squared norm": fn.SquaredNorm(2.0),
    "squared norm, centre": fn.SquaredNorm(3.0, Y),
    "squared norm, weight 0": fn.SquaredNorm(0.0),
    "quadratic, diagonal": fn.Quadratic(np.array([1.0, 2.0, 0.0]), Y),
    "l1": fn.L1Norm(1.5),
    "tariff of the guide": howto.load("howto_function.md").Tariff(np.array([2.0, 1.0, 3.0]), 1.0),
    "l1, weights": fn.L1Norm(np.array([1.0, 0.0, 2.0])),
    "elastic net": fn.ElasticNet(1.0, 0.5),
    "elastic net, weights": fn.ElasticNet(np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0])),
    "box": fn.IndicatorBox(0.0, 1.0),
    "box, mixed": fn.IndicatorBox(np.array([-INF, 0.0, 1.0]), np.array([1.0, INF, 1.0])),
    "box, everything": fn.IndicatorBox(-INF, INF),
    "nonnegative": fn.IndicatorNonnegative(),
    "point": fn.IndicatorPoint(Y),
    "at most": fn.IndicatorAtMost(Y),
    "squared loss": fn.SquaredLoss(Y, 0.5),
    "nonnegative squared loss": fn.NonnegativeSquaredLoss(Y, 2.0),
    "absolute loss": fn.AbsoluteLoss(Y, 0.3),
    "quantile loss": fn.QuantileLoss(Y, 0.9, 2.0),
    "hinge loss": fn.HingeLoss(LABELS, 2.0),
    "squared loss, weights": fn.SquaredLoss(Y, WEIGHTS),
    "quantile loss, weights": fn.QuantileLoss(Y, 0.3, WEIGHTS),
    "hinge loss, weights": fn.HingeLoss(LABELS, WEIGHTS),
    "kink between bounds": fn.PiecewiseQuadratic(
        slope_left=-1.0, slope_right=1.0, lower=-1.0, upper=np.array([1.0, 2.0, 3.0])
    ),
    "everything at once": fn.PiecewiseQuadratic(1.0, 0.5, 0.2, 0.1, -1.0, 2.0, 0.3, -1.0, 2.0),
}
COUPLED = {
    "l2": fn.L2Norm(1.5),
    "l2, weight 0": fn.L2Norm(0.0),
    "simplex": fn.IndicatorSimplex(),
    "simplex, total": fn.IndicatorSimplex(2.5),
    "simplex, total 0": fn.IndicatorSimplex(0.0),
    "ball": fn.IndicatorBall(1.5),
    "ball, centre": fn.IndicatorBall(2.0, Y),
    "ball, radius 0": fn.IndicatorBall(0.0, Y),
    "halfspace": fn.IndicatorHalfspace(Y, 0.5),
    "halfspace, everything": fn.IndicatorHalfspace(np.zeros(3), 0.5),
    "halfspace, one number": fn.IndicatorHalfspace(1.0, -1.0),
    "affine": fn.IndicatorAffine(WIDE, np.array([1.0, 2.0])),
    "affine, dependent": fn.IndicatorAffine(np.array([[1.0] * 3, [2.0] * 3]), np.array([1.0, 2.0])),
    "polyhedron": fn.IndicatorPolyhedron(TALL, -1.0, np.array([1.0, 0.5, INF, 0.7])),
    "polyhedron, bounds and an equation": fn.IndicatorPolyhedron(
        np.vstack([np.eye(3), np.ones(3), [0.0, 1.0, -1.0]]),
        np.array([0.0, -INF, -1.0, 1.0, -0.3]),
        np.array([1.0, 0.6, INF, 1.0, 0.3]),
    ),
    "polyhedron, everything": fn.IndicatorPolyhedron(np.zeros((1, 3)), -1.0, 1.0),
    "huber": fn.HuberLoss(Y, 0.7, 2.0),
    "huber of the norm": fn.HuberNormLoss(Y, 0.7, 2.0),
    "huber of the norm, wide": fn.HuberNormLoss(0.3, 3.0, 0.6),
    "logistic loss": fn.LogisticLoss(LABELS, 0.7),
    "huber, weights": fn.HuberLoss(Y, 0.7, WEIGHTS),
    "squared hinge": fn.SquaredHingeLoss(LABELS, 0.6),
    "squared hinge, weights": fn.SquaredHingeLoss(LABELS, WEIGHTS),
    "logistic loss, weights": fn.LogisticLoss(LABELS, WEIGHTS),
    "poisson loss, weights": fn.PoissonLoss(np.array([0.0, 1.0, 4.0]), WEIGHTS),
    "poisson loss": fn.PoissonLoss(np.array([0.0, 1.0, 4.0]), 0.5),
    "softmax loss": fn.SoftmaxLoss([1], 3, 0.7),
    "quadratic": fn.Quadratic(DENSE, Y),
    "quadratic, singular": fn.Quadratic(np.outer(Y, Y)),
    "least squares": fn.LeastSquares(TALL, 1.0),
    "least squares, wide": fn.LeastSquares(WIDE, np.array([1.0, -1.0])),
    "least squares, ridge": fn.LeastSquares(WIDE, 1.0, ridge=0.5),
    "stacked": fn.Stacked([fn.IndicatorPoint(1.0), fn.L2Norm(1.0)], [1, 2]),
    "stacked losses": fn.Stacked([fn.LogisticLoss(1.0), fn.HuberLoss(Y[:2], 1.0)], [1, 2]),
    "stacked quadratics": fn.Stacked([fn.Quadratic(DENSE[:2, :2]), fn.SquaredNorm(1.0)], [2, 1]),
    "stacked separable": fn.Stacked([fn.L1Norm(1.0), fn.SquaredNorm(1.0)], [2, 1]),
}
LARGEST = {
    "max": fn.Max(),
    "max, weight": fn.Max(1.7),
    "max, weight 0": fn.Max(0.0),
    "sum of the largest": fn.SumLargest(2, 0.8),
    "sum of the largest, a share": fn.SumLargest(1.5),
    "capped simplex": fn.IndicatorCappedSimplex(1.2, 0.7),
    "capped simplex, total 0": fn.IndicatorCappedSimplex(0.0, 0.7),
    "capped simplex, full": fn.IndicatorCappedSimplex(2.1, 0.7),
    "l-infinity": fn.LInfNorm(1.3),
    "l1 ball": fn.IndicatorL1Ball(1.5),
    "l1 ball, radius 0": fn.IndicatorL1Ball(0.0),
    "second-order cone": fn.IndicatorSecondOrderCone(),
}
BARRIERS = {
    "negative log": fn.NegativeLog(0.8),
    "negative log, weights": fn.NegativeLog(WEIGHTS),
    "entropy": fn.Entropy(),
    "entropy, weights": fn.Entropy(np.array([1.0, 0.3, 2.0]), WEIGHTS),
    "piecewise linear": fn.PiecewiseLinear([-1.0, 0.5, 2.0], [-2.0, -0.5, 1.0, 3.0], 0.7),
    "piecewise linear, ends": fn.PiecewiseLinear([-1.0, 0.5, 2.0], [-INF, -0.5, 1.0, INF]),
    "piecewise linear, one end": fn.PiecewiseLinear([-1.0, 0.5], [-INF, 0.0, 1.5], -1.0),
}
SLOW = {
    "logistic regression": fn.LogisticRegression(TALL, np.array([1.0, -1.0, 1.0, -1.0])),
    "logistic regression, ridge": fn.LogisticRegression(TALL, 1.0, ridge=0.3),
}
CASES = SEPARABLE | COUPLED | LARGEST | BARRIERS | SLOW


@pytest.fixture
def cases():
    """The whole table, by name."""
    return CASES


@pytest.fixture(params=CASES)
def name(request):
    """The name of each row in turn."""
    return request.param


@pytest.fixture
def case(name):
    """Each row in turn."""
    return CASES[name]
