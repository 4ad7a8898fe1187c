"""Logistic and Poisson proxes against 50 digits; steps from 1e-12 to 1e12, arguments to 1e6."""

import mpmath as mp
import numpy as np
import pytest

import dual2.functions as fn
from dual2.functions.kernels import wright_omega
from dual2.testing import compiled_prox
from rounding import EPS

pytestmark = pytest.mark.numerics

STEPS = 10.0 ** np.arange(-12, 13, 4)
ARGUMENTS = np.array([0.0, 1e-9, -0.3, 0.69999, -0.7, 0.7001, -2.0, 35.0, -800.0, 1e6, -1e6])
SCALE = 0.7
LABELS = np.resize([1.0, -1.0], len(ARGUMENTS))
COUNTS = np.resize([0.0, 1.0, 3.0, 50.0, 1e4], len(ARGUMENTS))


def logistic_slope(z, label):
    return -mp.mpf(SCALE) * label / (1 + mp.exp(label * z))


def poisson_slope(z, count):
    return mp.mpf(SCALE) * (mp.exp(z) - count)


LOSSES = {
    "logistic": (fn.LogisticLoss(LABELS, SCALE), logistic_slope, LABELS),
    "poisson": (fn.PoissonLoss(COUNTS, SCALE), poisson_slope, COUNTS),
}


def root(function, bound):
    """Root of an increasing function in [-bound, bound], by bisection."""
    low, high = -bound, bound
    for _ in range(260):
        middle = (low + high) / 2
        if function(middle) > 0:
            high = middle
        else:
            low = middle
    return (low + high) / 2


def exact_proxes(slope, datum, v, step):
    """prox_{step·h}(v) and prox_{step·h*}(v)."""
    v, step = mp.mpf(float(v)), mp.mpf(float(step))
    datum = mp.mpf(float(datum))
    reach = abs(v) + (1 + abs(datum)) * max(1, step) + 10
    primal = root(lambda z: step * slope(min(z, 10**4), datum) + z - v, reach)
    reach = (abs(v) + 1 + abs(datum)) / min(step, 1) + 10
    z = root(lambda z: slope(min(z, 10**4), datum) + step * z - v, reach)
    return primal, v - step * z


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("name", LOSSES)
def test_prox_and_prox_of_the_conjugate(name, step):
    loss, slope, data = LOSSES[name]
    with mp.workdps(50):
        exact = [exact_proxes(slope, d, v, step) for d, v in zip(data, ARGUMENTS, strict=True)]
        for function, which in ((loss, 0), (loss.conjugate, 1)):
            for found in (
                function.prox(ARGUMENTS, step),
                compiled_prox(function, ARGUMENTS, float(step)),
            ):
                for value, pair, v in zip(found, exact, ARGUMENTS, strict=True):
                    error = abs(mp.mpf(float(value)) - pair[which])
                    assert error <= 1e-12 * max(1, abs(v)), (v, float(value), float(pair[which]))


@pytest.mark.parametrize("name", LOSSES)
def test_affine_changes_keep_the_accuracy(name):
    loss, slope, data = LOSSES[name]
    changed = (2.0 * loss).shift(0.5).tilt(-0.25).plus_quadratic(0.125)
    conjugate = changed.conjugate
    with mp.workdps(50):
        for step in (1e-8, 1.0, 1e8):
            found = (
                conjugate.prox(ARGUMENTS, step),
                compiled_prox(conjugate, ARGUMENTS, step),
            )
            for j, v in enumerate(ARGUMENTS):

                def residual(z, j=j, v=v, step=step):
                    inner = slope(min(z - 0.5, 10**4), mp.mpf(float(data[j])))
                    return 2 * inner - 0.25 + z / 8 + step * z - v

                z = root(residual, (abs(v) + 10 + abs(data[j]) * 2) * 10 / min(step, 1) + 10)
                exact = v - step * z
                for value in found:
                    error = abs(mp.mpf(float(value[j])) - exact)
                    assert error <= 1e-12 * max(1, abs(v), step), (v, step)


@pytest.mark.parametrize("y", [-700.0, -41.0, -39.9, -2.0, -1.0, 0.0, 0.999, 1.0, 3.0, 50.0, 1e18])
def test_wright_omega(y):
    with mp.workdps(50):
        low, high = mp.mpf(-800), mp.mpf(50)  # log of the root
        for _ in range(250):
            middle = (low + high) / 2
            low, high = (low, middle) if mp.exp(middle) + middle > y else (middle, high)
        exact = mp.exp(low)
        assert abs(wright_omega(y) - exact) <= 4e-16 * exact * max(1, abs(y) / (1 + exact))


def test_separable_conjugates_do_not_cancel_at_long_steps():
    f = fn.ElasticNet(1.0, 1.0).shift(3.0)
    v = np.array([-2.0, 0.1, 5.0])
    # z = 3 - t with t -> 3 as the step grows: the prox tends to f'(0) = -1 - 3.
    for step in (1e9, 1e12):
        for found in (f.conjugate.prox(v, step), compiled_prox(f.conjugate, v, step)):
            np.testing.assert_allclose(found, -4.0 + (v + 4.0) / (step + 1.0), rtol=64 * EPS)
