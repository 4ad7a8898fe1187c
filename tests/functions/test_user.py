"""The user's own functions and the objects of other packages."""

import numpy as np
import pytest

import dual2 as d2
import dual2.functions as fn
from dual2.errors import CapabilityError, ProblemError
from dual2.testing import check_function


def test_smooth():
    f = fn.Smooth(np.tanh, 0.0, 1.0, value=lambda x: np.log(np.cosh(x)).sum())
    check_function(f, 3)
    check_function((2 * f).shift(1.0).plus_quadratic(0.5), 3)
    assert f.smooth
    assert not f.proximable


def test_proximable():
    norm = fn.L1Norm(2.0)
    check_function(fn.Proximable(norm.prox, norm.value), 3)
    check_function(3 * fn.Proximable(norm.prox).shift(1.0), 3)


def test_conjugate_smooth():
    exact = fn.SquaredLoss([1.0, 2.0], 4.0)
    dual = exact.conjugate
    h = fn.ConjugateSmooth(dual.grad, dual.mu, dual.L, exact.value, dual.value)
    assert (h.mu, h.L) == (4.0, 4.0)
    assert h.conjugate.smooth
    assert not h.proximable
    assert h.value([1.0, 3.0]) == 2.0
    np.testing.assert_array_equal(h.conjugate.grad([4.0, 8.0]), [2.0, 4.0])
    check_function(h, 2)


def test_a_function_that_is_useless_as_h_can_be_told():
    f = fn.Smooth(np.tanh, 0.0, 1.0)
    assert not f.proximable
    assert not f.conjugate.smooth
    assert not f.conjugate.proximable


def test_wrong_shapes_are_named():
    with pytest.raises(ProblemError, match=r"grad returned shape \(\) for an argument of shape"):
        fn.Smooth(np.sum, 0.0, 1.0).grad([1.0, 2.0])
    with pytest.raises(ProblemError, match=r"prox returned shape \(1,\)"):
        fn.Proximable(lambda v, step: v[:1]).prox([1.0, 2.0], 1.0)


def test_values_are_numbers_or_arrays_of_one():
    assert fn.Smooth(np.copy, 1.0, 1.0, value=lambda x: [x @ x / 2]).value([2.0]) == 2.0
    with pytest.raises(ProblemError, match="value returned NoneType; expected one number"):
        fn.Smooth(np.copy, 1.0, 1.0, value=lambda x: None).value([1.0, 2.0])
    with pytest.raises(ProblemError, match="value returned ndarray; expected one number"):
        fn.Proximable(np.maximum, value=np.abs).value([[1.0, 2.0]])


def test_a_function_that_writes_to_its_argument_does_no_harm():
    def prox(v, step):
        v *= 0.0
        return v

    x = np.ones(2)
    fn.Proximable(prox).prox(x, 1.0)
    np.testing.assert_array_equal(x, 1.0)


def test_pyproximal_objects():
    import pyproximal

    g = fn.as_function(pyproximal.L1(sigma=2.0))
    x = np.array([3.0, -0.5, 1.0])
    np.testing.assert_allclose(g.prox(x, 0.5), fn.L1Norm(2.0).prox(x, 0.5))
    assert g.value(x) == pytest.approx(9.0)


def test_pyproximal_sets_are_indicators():
    import pyproximal

    box = fn.as_function(pyproximal.Box(-1.0, 1.0))
    assert box.value([0.5, -1.0]) == 0.0
    assert box.value([0.5, 1.0 + 1e-12]) == 0.0, "rounding, as for our own sets"
    assert box.value([0.5, 1.1]) == np.inf
    ball = fn.as_function(pyproximal.EuclideanBall(np.zeros(3), 1.0))
    for v in np.random.default_rng(0).standard_normal((20, 3)):
        assert ball.value(ball.prox(3 * v, 1.0)) == 0.0


class OdlLike:
    """What odl functionals look like: proximal(step) is an operator."""

    def proximal(self, step):
        return lambda x: [max(entry - step, 0.0) for entry in x]

    def __call__(self, x):
        return float(np.sum(x))


def test_odl_objects():
    g = fn.as_function(OdlLike())
    np.testing.assert_allclose(g.prox([[3.0, 0.5], [1.0, 2.0]], 1.0), [[2.0, 0.0], [0.0, 1.0]])
    assert g.value([1.0, 2.0]) == 3.0
    assert isinstance(fn.Stacked([OdlLike()], [2]).functions[0], fn.Proximable)


class TestTheChecksCanFail:
    """Each wrong function is caught, and the message says by what."""

    def test_wrong_prox(self):
        wrong = fn.Proximable(lambda v, step: v / (1 + step) + 0.01, fn.SquaredNorm(1.0).value)
        with pytest.raises(AssertionError, match="is not the minimiser"):
            check_function(wrong, 2)

    def test_prox_that_ignores_the_step(self):
        wrong = fn.Proximable(lambda v, step: fn.L1Norm(1.0).prox(v, 1.0), fn.L1Norm(1.0).value)
        with pytest.raises(AssertionError, match="is not the minimiser"):
            check_function(wrong, 2)

    def test_expansive_prox(self):
        with pytest.raises(AssertionError, match="firmly nonexpansive"):
            check_function(fn.Proximable(lambda v, step: 1.1 * v), 2)

    def test_wrong_gradient(self):
        wrong = fn.Smooth(lambda x: 2.01 * x, 2.0, 2.02, lambda x: x @ x)
        with pytest.raises(AssertionError, match="differences"):
            check_function(wrong, 2)

    def test_wrong_moduli(self):
        with pytest.raises(AssertionError, match="Lipschitz"):
            check_function(fn.Smooth(lambda x: 2 * x, 0.0, 1.9, lambda x: x @ x), 2)
        with pytest.raises(AssertionError, match="strongly convex"):
            check_function(fn.Smooth(lambda x: 2 * x, 2.1, 3.0, lambda x: x @ x), 2)

    def test_wrong_conjugate(self):
        dual = fn.SquaredLoss(1.0).conjugate
        wrong = fn.ConjugateSmooth(
            dual.grad, 1.0, 1.0, fn.SquaredLoss(1.0).value, lambda w: dual.value(w) + 0.01
        )
        with pytest.raises(AssertionError, match=r"f\(x\) \+ f\*\(w\)"):
            check_function(wrong, 2)


def test_values_are_needed_only_where_used():
    check_function(fn.Proximable(fn.L2Norm(1.0).prox), 2)
    with pytest.raises(CapabilityError):
        fn.Proximable(fn.L2Norm(1.0).prox).value([1.0, 2.0])


def test_newton_serves_a_users_function_with_a_hessian():
    def user(center: float) -> d2.Smooth:
        return d2.Smooth(
            lambda x: np.tanh(x - center) + x,
            mu=1.0,
            L=2.0,
            value=lambda x: np.log(np.cosh(x - center)).sum() + 0.5 * x @ x,
            hessian=lambda x: 1.0 / np.cosh(x - center) ** 2 + 1.0,
        )

    A = np.random.default_rng(0).standard_normal((3, 2, 3))
    agents = [d2.Agent(A[i], user(float(i)), d2.L1Norm(0.3)) for i in range(3)]
    problem = d2.Problem(agents, d2.IndicatorPoint([1.0, -1.0]))
    result = d2.solve(problem, d2.Network([(0, 1), (1, 2)]), method="Newton")
    assert result.status == "CONVERGED" and result.counts.sums <= 8
