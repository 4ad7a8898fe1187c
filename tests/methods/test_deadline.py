"""A limit of time ends a run within a sum, and nothing of that sum remains."""

import itertools
import time

import numpy as np
import pytest
import scipy.sparse.linalg

import dual2 as d2

NETWORK = d2.Network([(i, i + 1) for i in range(23)])


def problem(kind):
    """24 agents of a kind that is solved agent by agent."""
    rng, agents = np.random.default_rng(0), []
    for _ in range(24):
        A, target = rng.standard_normal((3, 4)), rng.standard_normal(4)
        g = d2.IndicatorPolyhedron(rng.standard_normal((3, 4)), -np.ones(3), np.ones(3))
        root = rng.standard_normal((4, 4))
        f = {
            "polyhedron": d2.SquaredNorm(1.0).tilt(-target),
            "semismooth": d2.Quadratic(np.eye(4) + root @ root.T, target),
            "operator": d2.SquaredNorm(1.0).tilt(-target),
        }[kind]
        A = scipy.sparse.linalg.aslinearoperator(A) if kind == "operator" else A
        agents.append(d2.Agent(A, f, d2.L1Norm(0.1) if kind == "semismooth" else g))
    return d2.Problem(agents, d2.IndicatorPoint(3 * rng.standard_normal(3)))


@pytest.mark.parametrize(
    ("kind", "method", "looks_each"),
    [
        ("polyhedron", d2.METHODS["Newton"](mode="dual"), 12),
        ("semismooth", d2.METHODS["Newton"](mode="dual"), 12),
        ("operator", d2.METHODS["Newton"](mode="dual"), 12),
        ("polyhedron", "interior-point", 90),  # an iteration looks twice at each agent
    ],
)
def test_a_run_ends_within_a_sum_and_continues_bit_for_bit(kind, method, looks_each, monkeypatch):
    own = problem(kind)
    options = {"method": method, "record": False, "progress": False}
    whole = d2.solve(own, NETWORK, **options)
    assert whole.status == "CONVERGED"
    looks = itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: 1e-3 * next(looks))
    result, within = None, 0
    for _ in range(400):
        before = next(looks)
        limit = (result.seconds if result else 0.0) + 1e-3 * (looks_each + 4 * (within % 7))
        result = d2.solve(own, NETWORK, start=result, time_limit=limit, **options)
        within += 1
        assert next(looks) - before < 60 + looks_each
        if result.status != "TIME_LIMIT":
            break
    assert within > 2 and result.status == "CONVERGED"
    assert result.counts == whole.counts
    for ours, other in zip(result.x, whole.x, strict=True):
        assert np.array_equal(ours, other)


def test_the_clock_is_looked_at_between_agents(monkeypatch):
    """With all time there is, the same sums of 24 agents look at it more often."""
    options = {"method": "Newton", "record": False, "progress": False, "max_rounds": 92}
    found = []
    for limit in (None, 1e9):
        looks = itertools.count()
        monkeypatch.setattr(time, "perf_counter", lambda looks=looks: 1e-9 * next(looks))
        d2.solve(problem("polyhedron"), NETWORK, time_limit=limit, **options)
        found.append(next(looks))
    assert found[1] > found[0]
