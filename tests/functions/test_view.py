"""Value, gradient and second derivatives in one look, beside the functions' own."""

import numpy as np
import pytest

import dual2 as d2
from dual2.functions import SoftmaxLoss
from dual2.functions.derivatives import jacobian_axes, prox_jacobian
from dual2.functions.hessians import hessian, view

SIGNS = np.tile([1.0, -1.0], 5)
FUNCTIONS = {
    "logistic": d2.LogisticLoss(SIGNS, np.linspace(0.5, 2.0, 10)),
    "squared": d2.SquaredLoss(np.arange(10.0), 3.0).form.broadcast(10),
    "tilted": d2.SquaredLoss(np.arange(10.0), 3.0).tilt(0.7).form,
    "softmax": SoftmaxLoss([0, 1, 1, 0, 1], 2, np.linspace(0.5, 2.0, 5)),
    "three classes": SoftmaxLoss([2, 0], 3),
    "huber": d2.HuberLoss(np.arange(10.0), 0.5),
    "squared hinge": d2.SquaredHingeLoss(SIGNS),
    "poisson": d2.PoissonLoss(np.arange(10.0)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_same_as_one_by_one(name):
    f = FUNCTIONS[name]
    x = 2.0 * np.random.default_rng(0).standard_normal(6 if name == "three classes" else 10)
    found, step = view(f, x), 1e-6 * np.eye(len(x))
    assert found.value == pytest.approx(float(f.value(x)), rel=1e-13)
    np.testing.assert_allclose(found.gradient, f.grad(x), rtol=1e-12, atol=1e-15)
    slopes = np.array([f.grad(x + d) - f.grad(x - d) for d in step]) / 2e-6
    bend = found.bend()
    if bend.ndim == 3:
        size = bend.shape[1]
        slopes = np.einsum("jkjm->jkm", slopes.reshape(len(bend), size, len(bend), size))
    else:
        slopes = np.diag(slopes)
    np.testing.assert_allclose(bend, slopes, atol=1e-8 * max(1.0, np.abs(slopes).max()))
    np.testing.assert_array_equal(np.asarray(hessian(f, x)), found.bend())


def test_margins_far_away():
    """No digits are lost where log(1 + exp(-m)) is tiny, nothing overflows where it is large."""
    m = np.array([-800.0, -40.0, -1e-9, 0.0, 1e-9, 20.0, 40.0, 700.0])
    for k, value in enumerate(m):
        found = view(d2.LogisticLoss(np.ones(1)), m[k : k + 1])
        assert found.value == pytest.approx(np.logaddexp(0.0, -value), rel=4e-16, abs=0.0)
        right = np.exp(-np.logaddexp(0.0, value))
        assert -found.gradient[0] == pytest.approx(right, rel=1e-13, abs=0.0)
        both = right * np.exp(-np.logaddexp(0.0, -value))
        assert found.bend()[0] == pytest.approx(both, rel=1e-13, abs=0.0)


def test_a_sure_class_keeps_its_curvature():
    """p(1 - p) with p = 1 but for 1e-40 is what the other classes leave, not rounding."""
    found = view(SoftmaxLoss([0], 2), np.array([92.0, 0.0]))
    assert found.bend()[0, 0, 0] == pytest.approx(np.exp(-92.0), rel=1e-12)
    assert found.gradient[0] == pytest.approx(-np.exp(-92.0), rel=1e-12)


@pytest.mark.parametrize("step", [1e-4, 1.0, 1e2, 1e5])
def test_the_prox_of_softmax_ends_at_rounding(step, monkeypatch):
    """Few evaluations whatever the step, and u + t∇h(u) = v to the rounding of its terms."""
    calls, own = [], SoftmaxLoss._root.__globals__["wrightomega"]
    monkeypatch.setitem(
        SoftmaxLoss._root.__globals__, "wrightomega", lambda x: calls.append(1) or own(x)
    )
    h, v = SoftmaxLoss([0, 1, 2, 1], 3), np.random.default_rng(1).standard_normal(12)
    u = h.prox(v, step)
    size = max(1.0, float(np.abs(v).max()))
    np.testing.assert_allclose(u + step * h.grad(u), v, atol=1e-14 * size * (1.0 + step))
    assert len(calls) <= 12


@pytest.mark.parametrize(
    "f",
    [
        d2.L1Norm(1.0),
        d2.LogisticLoss(SIGNS),
        d2.HuberLoss(np.arange(10.0), 0.5),
        d2.L2Norm(1.0),
        SoftmaxLoss([0, 1, 1, 0, 1], 2),
        d2.Proximable(lambda v, t: v),
    ],
    ids=lambda f: type(f).__name__,
)
def test_axes_without_the_derivative_itself(f):
    found = prox_jacobian(f, np.zeros(10), 1.0)
    assert jacobian_axes(f, 10) == (0 if found is None else found.ndim)


def test_the_jacobian_of_a_polyhedron_counts_as_dense_without_being_formed(monkeypatch):
    """It takes the singular values of all rows that hold: seconds for thousands of them."""
    f = d2.IndicatorPolyhedron(np.eye(10)[:3], -np.ones(3), np.full(3, -0.5))
    found = prox_jacobian(f, np.zeros(10), 1.0)
    monkeypatch.setattr(np.linalg, "svd", None)
    assert found is not None and jacobian_axes(f, 10) == found.ndim == 2
