"""Second derivatives, values on the domain, cones: against differences and against each other."""

import numpy as np
import pytest

from dual2 import functions as fn
from dual2.functions.derivatives import prox_jacobian
from dual2.functions.domains import inside_value, rate_along, to_barrier, to_recession
from dual2.functions.hessians import dense, hessian, least_curvature
from dual2.functions.lowering import KernelKind, prox_blocks
from dual2.functions.values import value_at_prox

H = 1e-6


def differences(function, at):
    """Central differences, or None if a kink lies between."""
    ahead, behind = (np.array([function(at + s * e) for e in np.eye(len(at))]).T for s in (H, -H))
    if np.abs(ahead + behind - 2 * function(at)[:, None]).max() > 1e-9:
        return None
    return (ahead - behind) / (2 * H)


@pytest.mark.parametrize("change", ["itself", "conjugate", "moved"])
def test_jacobians_of_proxes_match_differences(case, change):
    f = {"itself": case, "conjugate": case.conjugate}.get(change, (1.5 * case).shift(0.2).tilt(0.3))
    rng, compared = np.random.default_rng(3), 0
    for size in (0.3, 1.0, 2.0, 3.0):
        v = size * rng.standard_normal(3)
        found, expected = prox_jacobian(f, v, 0.7), differences(lambda u: f.prox(u, 0.7), v)
        assert found is not None
        if expected is None:
            continue
        compared += 1
        np.testing.assert_allclose(dense(found), expected, rtol=0, atol=3e-8)
        assert np.linalg.eigvalsh(dense(found))[[0, -1]] == pytest.approx(
            [0.5, 0.5], abs=0.5 + 1e-9
        )
    assert compared >= 2


def test_jacobians_with_one_step_per_group():
    parts = [fn.L1Norm(0.4), fn.IndicatorBall(0.5), fn.LogisticLoss([1.0, -1.0])]
    f, steps = fn.Stacked(parts, [2, 2, 2]), np.array([0.5, 2.0, 3.0, 3.0, 0.1, 4.0])
    v = np.array([1.0, -0.3, 0.6, 0.8, 0.2, -0.7])
    expected = differences(lambda u: f.prox(u, steps), v)
    np.testing.assert_allclose(dense(prox_jacobian(f, v, steps)), expected, rtol=0, atol=1e-8)
    moved = np.array([fn.L1Norm(0.4).prox(v[:2], t) for t in (0.5, 2.0)])
    np.testing.assert_array_equal(f.prox(v, steps)[:2], np.diag(moved))


def test_a_users_function_has_none():
    assert prox_jacobian(fn.Proximable(lambda v, step: v), np.zeros(2), 1.0) is None
    assert hessian(fn.Smooth(lambda x: x, mu=1.0, L=1.0), np.zeros(2)) is None
    mixed = fn.Stacked([fn.Zero(), fn.Proximable(lambda v, step: v)], [1, 1])
    assert prox_jacobian(mixed, np.zeros(2), 1.0) is None


def test_hessians_match_differences_and_exceed_the_least_curvature(case):
    if not case.smooth:
        return
    for f in (case, (1.5 * case).shift(0.2).plus_quadratic(0.4)):
        x = np.array([0.31, -0.62, 0.17])
        found, expected = hessian(f, x), differences(f.grad, x)
        assert found is not None and expected is not None
        np.testing.assert_allclose(dense(found), expected, rtol=1e-7, atol=1e-7)
        least = dense(least_curvature(f, 3))
        assert np.linalg.eigvalsh(dense(found) - least)[0] >= -1e-12 * (1 + np.abs(least).max())


@pytest.mark.parametrize("change", ["itself", "conjugate", "moved"])
def test_compiled_values_at_proxes_are_the_values(case, change):
    """Up to the constants that compiled functions leave out."""
    f = {"itself": case, "conjugate": case.conjugate}.get(change, (1.5 * case).shift(0.2).tilt(0.3))
    rng, work, offsets = np.random.default_rng(4), np.zeros(64), []
    blocks = prox_blocks(f, 3)
    if any(block.kind == KernelKind.CALLBACK for block in blocks):
        return
    for _ in range(5):
        v = rng.standard_normal(3)
        z, total, at = f.prox(v, 0.7), 0.0, 0
        for b in blocks:
            own = slice(at, at + b.size)
            at += b.size
            total += value_at_prox(int(b.kind), b.flags, 0.7, v[own], z[own], b.params, work)
        offsets.append(inside_value(f, z) - total)
    assert np.ptp(offsets) <= 1e-12 * (1 + np.abs(offsets).max())


def test_cones_are_those_of_the_domains(case):
    """What is left in a cone is bounded, or goes on; the nearest point is idempotent."""
    rng = np.random.default_rng(6)
    for _ in range(4):
        u = rng.standard_normal(3)
        barrier, recession = to_barrier(case, u), to_recession(case, u)
        assert np.isfinite(case.domain_support(barrier))
        assert np.isfinite(rate_along(case, recession))
        if isinstance(case, fn.PoissonLoss):
            continue
        far = inside_value(case, x := case.prox(u, 1.0) + 1e6 * recession)
        slope = (inside_value(case, x + 1e6 * recession) - far) / 1e6
        assert slope == pytest.approx(rate_along(case, recession), rel=1e-3, abs=1e-3)
        np.testing.assert_allclose(to_barrier(case, barrier), barrier, atol=1e-12)
        np.testing.assert_allclose(to_recession(case, recession), recession, atol=1e-12)
        assert (u - barrier) @ barrier >= -1e-9 or not barrier.any()
