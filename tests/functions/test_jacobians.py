"""Derivatives of compiled proxes against differences of the proxes themselves."""

import numpy as np
import pytest

from dual2 import functions as fn
from dual2.testing import compiled_prox
from dual2.testing.functions import compiled_jacobian
from rounding import EPS

D = 4
BASES = {
    "zero": fn.Zero(),
    "box": fn.IndicatorBox(-0.4, [0.3, 0.7, np.inf, 1.0]),
    "l1": fn.L1Norm([0.2, 0.5, 0.0, 1.0]),
    "elastic net": fn.ElasticNet(0.3, 0.8),
    "huber": fn.HuberLoss(0.1, 0.6, 1.7),
    "huber of the norm": fn.HuberNormLoss(0.1, 0.6, 1.7),
    "l2": fn.L2Norm(0.7),
    "simplex": fn.IndicatorSimplex(1.3),
    "ball": fn.IndicatorBall(0.9, [0.1, 0.0, -0.3, 0.2]),
    "halfspace": fn.IndicatorHalfspace([1.0, -2.0, 0.5, 0.0], 0.2),
    "affine": fn.IndicatorAffine([[1.0, 1.0, 0.0, 2.0], [0.0, 1.0, -1.0, 1.0]], [0.5, 0.1]),
    "logistic": fn.LogisticLoss([1.0, -1.0, 1.0, 1.0], 2.0),
    "poisson": fn.PoissonLoss([0.0, 2.0, 1.0, 3.0], 0.6),
    "negative log": fn.NegativeLog([0.5, 1.0, 2.0, 0.8]),
    "entropy": fn.Entropy([1.0, 0.5, 2.0, 1.0], 0.6),
}
FORMS = {
    "itself": lambda f: f,
    "conjugate": lambda f: f.conjugate,
    "moved": lambda f: (1.5 * f).shift([0.3, -0.1, 0.2, 0.0]).tilt(0.2).plus_quadratic(0.7),
    "moved conjugate": lambda f: (1.5 * f).shift(0.2).tilt([0.1, 0.0, 0.2, -0.3]).conjugate,
}


# A moved Huber loss with curvature has no compiled prox.
CASES = [(b, f) for b in BASES for f in FORMS if "huber" not in b or not f.startswith("moved")]


@pytest.mark.parametrize("base, form", CASES)
def test_derivatives_match_differences(base, form):
    f, rng, compared = FORMS[form](BASES[base]), np.random.default_rng(5), 0
    for step in (0.1, 1.0, 3.0):
        for size in (0.5, 1.0, 3.0):
            v, h = size * rng.standard_normal(D), 1e-6
            found = compiled_jacobian(f, v, step)
            ahead, behind = (
                np.array([compiled_prox(f, v + s * e, step) for e in np.eye(D)]).T for s in (h, -h)
            )
            middle = compiled_prox(f, v, step)[:, None]
            if np.abs(ahead + behind - 2 * middle).max() > 1e-9:
                continue  # a kink lies between
            np.testing.assert_allclose(found, (ahead - behind) / (2 * h), rtol=0, atol=2e-8)
            np.testing.assert_allclose(found, found.T, rtol=0, atol=8 * D * EPS)
            assert np.linalg.eigvalsh(found)[[0, -1]] == pytest.approx([0.5, 0.5], abs=0.5 + 1e-12)
            compared += 1
    assert compared >= 7


def test_kinks_get_a_derivative_of_one_side():
    at_kink = compiled_jacobian(fn.L1Norm(1.0), np.array([1.0, -1.0, 0.0, 2.0]), 1.0)
    np.testing.assert_array_equal(at_kink, np.diag([0.0, 0.0, 0.0, 1.0]))
    np.testing.assert_array_equal(
        compiled_jacobian(fn.L2Norm(2.0), np.zeros(D), 1.0), np.zeros((D, D))
    )
    np.testing.assert_array_equal(
        compiled_jacobian(fn.IndicatorBall(2.0), np.zeros(D), 1.0), np.eye(D)
    )
    np.testing.assert_array_equal(compiled_jacobian(fn.L2Norm(0.0), np.zeros(D), 1.0), np.eye(D))
    np.testing.assert_array_equal(
        compiled_jacobian(fn.IndicatorBall(0.0), np.zeros(D), 1.0), np.zeros((D, D))
    )
