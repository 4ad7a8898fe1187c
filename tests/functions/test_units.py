"""Functions in other units, and proxes with a step for every coordinate."""

import numpy as np
import pytest

from rounding import EPS

UNITS = {"one": np.full(3, 4.0), "each": np.array([0.5, 64.0, 2.0])}


@pytest.mark.parametrize("which", UNITS)
def test_rescaled_is_the_function_of_old_units(case, which):
    """f'(u) = f(u/d), and where there are proxes those of f' are d·prox_{t/d²}(v/d)."""
    units = UNITS[which]
    found = case.rescaled(units)
    if found is None:
        assert case.form is None, "whatever is piecewise quadratic can be written in any units"
        return
    rng = np.random.default_rng(8)
    for _ in range(10):
        v, step = 3 * rng.standard_normal(3), float(rng.uniform(0.1, 3.0))
        if case.separable or np.all(units == units[0]):
            steps = step / units**2
            old = units * case.prox(v / units, steps if case.separable else float(steps[0]))
            few = 64 * EPS * (np.abs(v).max() + np.abs(old).max() + 1)
            np.testing.assert_allclose(found.prox(v, step), old, rtol=0, atol=few * units.max())
        x = found.prox(v, step)
        assert found.value(x) == pytest.approx(case.value(x / units), rel=1e-12, abs=1e-12)


def test_steps_of_groups(case):
    """A step per coordinate means a prox group by group; unequal steps within one are refused."""
    groups, rng = case.groups(3), np.random.default_rng(9)
    steps = rng.uniform(0.5, 2.0, 3)[groups]
    v = rng.standard_normal(3)
    together = case.prox(v, steps)
    for step in np.unique(steps):
        own = steps == step
        np.testing.assert_allclose(together[own], case.prox(v, float(step))[own], rtol=1e-12)
    if len(np.unique(groups)) < 3:
        from dual2.errors import ProblemError

        with pytest.raises(ProblemError, match="equal within the groups"):
            case.prox(v, np.array([0.5, 1.0, 2.0]))
