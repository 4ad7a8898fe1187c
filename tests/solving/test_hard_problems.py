"""Problems built around their solution: the solution is one, and a wrong answer is seen as such."""

import numpy as np
import pytest

from hard_problems import CLASSES
from planted import errors


def draw(name, seed):
    return CLASSES[name](np.random.default_rng([seed, 7919, *name.encode()]))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "name", [name for name in CLASSES if not name.startswith(("infeasible", "unbounded"))]
)
def test_planted_points_are_solutions(name, seed):
    """The slopes were chosen for it; what is left is rounding, relative to the largest term."""
    planted = draw(name, seed)
    assert not errors(planted, planted.x).false
    if planted.price is not None:
        assert planted.problem.kkt(planted.x, planted.price).stationarity <= 1e-9


@pytest.mark.parametrize("name", ["benign", "rows over 6 decades", "agents' units over 6 decades"])
def test_wrong_answers_are_recognised(name):
    """By an agent moved by a tenth, in its own units."""
    planted = draw(name, 1)
    moved = [x + 0.1 * (np.abs(x) + np.abs(x).max()) for x in planted.x]
    assert errors(planted, moved).false


def test_infeasible_problems_are_infeasible():
    for seed in range(5):
        problem = draw("infeasible by 10-1e-6", seed).problem
        most = sum(agent.A @ agent.g.upper for agent in problem.agents)
        assert np.any(most < problem.h.lower)


def test_unbounded_problems_are_unbounded():
    """Along the ray of the construction rows stay as they are and the cost falls for ever."""
    for seed in range(5):
        planted = draw("unbounded", seed)
        ray = planted.notes["ray"]
        assert not planted.problem.coupling(ray).any()
        assert all((part >= 0).all() for part in ray)
        assert sum(a.f.value(d) for a, d in zip(planted.problem.agents, ray, strict=True)) < 0
