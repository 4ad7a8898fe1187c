"""Every function of the table, plain and after calculus, passes every check."""

import numpy as np
import pytest

import dual2.functions as fn
from dual2.testing import check_function

pytestmark = pytest.mark.numerics

Y = np.array([1.0, -2.0, 0.5])
LABELS = np.array([1.0, -1.0, 1.0])
CHANGES = {
    "plain": lambda f: f,
    "scaled, shifted, tilted": lambda f: (2 * f).shift(Y).tilt([0.3, -0.2, 0.1]),
    "with a quadratic": lambda f: (0.5 * f.shift(Y)).tilt(0.1).plus_quadratic(0.7),
}


@pytest.mark.parametrize("change", CHANGES)
def test_function(case, change):
    newton = isinstance(case, fn.LogisticRegression)
    check_function(CHANGES[change](case), dim=3, points=4 if newton else 10)


SCALARS = {
    "l1": fn.L1Norm(0.8),
    "elastic net": fn.ElasticNet(0.8, 0.3),
    "box": fn.IndicatorBox(-1.0, 2.0),
    "huber": fn.HuberLoss(0.4, 1.2),
    "huber of the norm": fn.HuberNormLoss(0.4, 1.2, 0.7),
    "quantile": fn.QuantileLoss(0.4, 0.2),
    "hinge": fn.HingeLoss(-1.0),
    "logistic": fn.LogisticLoss(-1.0, 3.0),
    "poisson": fn.PoissonLoss(2.0),
    "l2": fn.L2Norm(0.7),
    "simplex": fn.IndicatorSimplex(3.0),
    "ball": fn.IndicatorBall(0.5, 1.0),
}


@pytest.mark.parametrize("f", SCALARS.values(), ids=SCALARS)
def test_against_a_grid_in_one_dimension(f):
    check_function(f, dim=1, points=12)


def test_conjugate_of_the_conjugate(case):
    f = case
    twice = f.conjugate.conjugate
    x = np.random.default_rng(3).standard_normal((8, 3))
    if f.proximable:
        np.testing.assert_allclose(twice.prox(x, 0.7), f.prox(x, 0.7), atol=1e-12)
        x = f.prox(x, 1.0)
    np.testing.assert_allclose(twice.value(x), f.value(x), atol=1e-8)
    assert twice.mu == pytest.approx(f.mu, rel=1e-12)


def test_conjugation_is_undone_not_repeated(cases):
    for f in (cases["simplex"], cases["huber"].shift(1.0), cases["elastic net"]):
        assert f.conjugate.conjugate is f


def test_closed_conjugates_stay_in_the_family(cases):
    closed = ("zero", "squared norm, centre", "l1", "box", "box, mixed", "nonnegative", "point")
    losses = ("at most", "squared loss", "absolute loss", "quantile loss", "hinge loss", "huber")
    for name in closed + losses:
        assert isinstance(cases[name].conjugate, fn.PiecewiseQuadratic)


def test_conjugates_of_the_losses_by_hand():
    w = np.array([0.2, -0.3, 0.1])
    assert fn.HuberLoss(Y, 0.7, 2.0).conjugate.value(w) == pytest.approx(w @ w / 4 + w @ Y)
    assert fn.HuberLoss(Y, 0.1, 2.0).conjugate.value(w) == np.inf
    assert fn.IndicatorPoint(Y).conjugate.value(w) == pytest.approx(Y @ w)
    assert fn.IndicatorAtMost(Y).conjugate.value(np.abs(w)) == pytest.approx(Y @ np.abs(w))
    assert fn.IndicatorAtMost(Y).conjugate.value(w) == np.inf
    assert fn.HingeLoss(LABELS).conjugate.value([-0.2, 0.3, -0.1]) == pytest.approx(-0.6)
    assert fn.HingeLoss(LABELS).conjugate.value([0.2, 0.3, -0.1]) == np.inf
    below = np.full(3, -100.0)  # the printed formula has 0 here; the supremum is at z = 0
    value = fn.NonnegativeSquaredLoss(Y, 2.0).conjugate.value(below)
    assert value == pytest.approx(-(Y @ Y))


def test_huber_prox_where_another_package_errs():
    np.testing.assert_allclose(fn.HuberLoss(0.0, 2.0, 0.5).prox([3.0], 2.0), [1.5])


def test_moduli_by_hand():
    assert (fn.SquaredNorm(2.0).mu, fn.SquaredNorm(2.0).L) == (2.0, 2.0)
    assert (fn.IndicatorPoint(1.0).mu, fn.IndicatorPoint(1.0).conjugate.L) == (np.inf, 0.0)
    assert (fn.LogisticLoss(1.0, 2.0).L, fn.LogisticLoss(1.0, 2.0).conjugate.mu) == (0.5, 2.0)
    assert (fn.PoissonLoss(1.0).L, fn.PoissonLoss(1.0).conjugate.mu) == (np.inf, 0.0)
    assert (fn.HuberLoss(0.0, 1.0, 3.0).L, fn.HuberLoss(0.0, 1.0, 3.0).conjugate.L) == (3, np.inf)
    assert fn.NonnegativeSquaredLoss(0.0, 4.0).conjugate.L == 0.25
    assert (3 * fn.SquaredNorm(2.0)).plus_quadratic(1.0).mu == 7.0
    assert fn.LeastSquares([[3.0, 0.0]], 1.0).mu == 0.0
    assert fn.LeastSquares([[3.0, 0.0]], 1.0, ridge=2.0).L == pytest.approx(11.0)


def test_values_near_a_large_target_keep_their_digits():
    y = np.array([1e8, -1e8])
    assert fn.SquaredLoss(y).value(y + 1e-3) == pytest.approx(1e-6, rel=1e-4)
    assert (2 * fn.SquaredLoss(y)).shift(1.0).value(y + 1.0) == 0.0


def test_domain_support_by_hand():
    u = np.array([1.0, -1.0, 0.0])
    assert fn.IndicatorBox([0.0, -2.0, -np.inf], [3.0, 5.0, np.inf]).domain_support(u) == 5.0
    assert fn.IndicatorNonnegative().domain_support(-np.abs(u)) == 0.0
    assert fn.IndicatorNonnegative().domain_support(u) == np.inf
    assert fn.L1Norm(1.0).domain_support(u) == np.inf
    assert fn.L1Norm(1.0).conjugate.domain_support(u) == 2.0
    assert fn.IndicatorSimplex(2.0).domain_support(u) == 2.0
    assert fn.IndicatorHalfspace(u, 3.0).domain_support(2 * u) == pytest.approx(6.0)
    assert fn.IndicatorHalfspace(u, 3.0).domain_support(-u) == np.inf
    assert fn.LogisticLoss(1.0, 2.0).conjugate.domain_support(u) == 2.0
    assert fn.Zero().domain_support(0 * u) == 0.0


def test_calculus_means_what_it_says(case):
    b, x = np.array([0.3, -0.2, 0.1]), np.random.default_rng(4).standard_normal((6, 3))
    x = case.prox(x, 1.0) if case.proximable else x

    def quadratic(u):
        return 0.35 * np.square(u).sum(axis=-1)

    np.testing.assert_allclose((np.float64(2.0) * case).value(x), 2 * case.value(x), atol=1e-12)
    np.testing.assert_allclose(case.shift(Y).value(x + Y), case.value(x), atol=1e-12)
    np.testing.assert_allclose(case.tilt(b).value(x), case.value(x) + x @ b, atol=1e-12)
    bent = case.plus_quadratic(0.7)
    np.testing.assert_allclose(bent.value(x), case.value(x) + quadratic(x), atol=1e-12)
    nested = (3 * bent.tilt(b)).shift(Y).plus_quadratic(0.7)
    expected = 3 * (case.value(x) + quadratic(x) + x @ b) + quadratic(x + Y)
    np.testing.assert_allclose(nested.value(x + Y), expected, atol=1e-10)
