"""The multinomial loss of several samples: blocks, steps that differ, extreme margins, refusals."""

import numpy as np
import pytest

from dual2.errors import ProblemError
from dual2.functions import SoftmaxLoss
from dual2.functions.derivatives import prox_jacobian
from dual2.functions.hessians import dense, hessian
from dual2.testing import check_function

RNG = np.random.default_rng(3)
LABELS, SCALE = np.array([2, 0, 3, 1]), np.array([0.5, 1.0, 3.0, 0.2])
LOSS = SoftmaxLoss(LABELS, 4, SCALE)


def test_contract_with_several_samples():
    check_function(SoftmaxLoss([0, 2, 1], 3, [0.5, 1.0, 2.0]), dim=9)


@pytest.mark.parametrize("size", [1e-3, 1.0, 30.0, 1e4])
@pytest.mark.parametrize("length", [1e-4, 1.0, 1e5])
def test_prox_is_where_its_gradient_says(size, length):
    v = size * RNG.standard_normal(16)
    steps = np.repeat(length * np.array([0.3, 1.0, 2.0, 5.0]), 4)
    u = LOSS.prox(v, steps)
    left = u - v + steps * LOSS.grad(u)
    # u carries an error of a few ulp, which the gradient multiplies by 1 + step·L
    scale = np.finfo(float).eps * (np.abs(u) + np.abs(v) + steps) * (1.0 + steps * LOSS.L)
    assert np.all(np.abs(left) <= 64 * scale.max())


def test_blocks_are_the_derivatives():
    x, d = RNG.standard_normal(16), RNG.standard_normal(16)
    curve, width = dense(hessian(LOSS, x)), 1e-6
    slope = (LOSS.grad(x + width * d) - LOSS.grad(x - width * d)) / (2 * width)
    assert np.allclose(curve @ d, slope, atol=1e-8)
    steps = np.repeat([0.3, 1.0, 2.0, 5.0], 4)
    moved = LOSS.prox(x + width * d, steps) - LOSS.prox(x - width * d, steps)
    assert np.allclose(dense(prox_jacobian(LOSS, x, steps)) @ d, moved / (2 * width), atol=1e-8)
    scaled = (2.0 * LOSS).tilt(d)
    assert np.allclose(dense(hessian(scaled, x)), 2.0 * curve)
    moved = scaled.prox(x + width * d, steps) - scaled.prox(x - width * d, steps)
    assert np.allclose(dense(prox_jacobian(scaled, x, steps)) @ d, moved / (2 * width), atol=1e-8)


def test_refusals():
    for arguments, text in (
        (([0, 3], 3), r"labels\[1\] is 3 and there are 3 classes"),
        (([0, 0.5], 3), r"labels\[1\] is 0.5; expected a number that is whole"),
        (([0, 1], 1), "classes is 1; expected a number at least 2"),
        (([0, 1], 2.5), "classes is 2.5; expected a number that is whole"),
        (([0, 1], 2, [1.0, 1.0, 1.0]), "labels has 2, scale has 3"),
    ):
        with pytest.raises(ProblemError, match=text):
            SoftmaxLoss(*arguments)
