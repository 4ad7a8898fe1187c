"""Agents in groups: the same numbers as one by one."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator

import dual2 as d2
from dual2.engine.pack import pack
from dual2.engine.sparsity import sparsified
from dual2.problem import groups

P = 4


def mixed(rng: np.random.Generator) -> d2.Problem:
    """Agents of every kind: matrices dense, sparse, shared and operators; functions with forms,
    without, and of Python."""
    shared = sp.csc_array(sp.eye_array(P))
    agents = []
    for k in range(4):
        curve = d2.Quadratic(rng.uniform(1, 2, P), rng.standard_normal(P))
        agents += [
            d2.Agent(shared, curve, d2.IndicatorBox(-1.0, rng.uniform(0.5, 1, P))),
            d2.Agent(rng.standard_normal((P, 3)), d2.SquaredNorm(1.0 + k), d2.L1Norm(0.1)),
            d2.Agent(sp.random_array((P, 3), density=0.4, rng=rng), d2.SquaredNorm(2.0), d2.Zero()),
            d2.Agent(rng.standard_normal((P, 2)), d2.SquaredNorm(1.0), d2.IndicatorBall(1.0 + k)),
            d2.Agent(
                aslinearoperator(rng.standard_normal((P, 2))),
                d2.LeastSquares(rng.standard_normal((5, 2)), np.ones(5)),
                d2.Zero(),
            ),
            d2.Agent(rng.standard_normal((P, 2)), d2.Smooth(lambda x: 2.0 * x, 2.0, 2.0)),
        ]
    return d2.Problem(agents, d2.SquaredLoss(np.ones(P)))


def alone(problem: d2.Problem) -> d2.Problem:
    """The same with every agent a group of its own."""
    other = d2.Problem(problem.agents, problem.h)
    parts = [groups.find_groups([agent])[0] for agent in problem.agents]
    other.groups = [
        groups.Group(np.array([i]), part.dim, part.f, part.g, part.A)
        for i, part in enumerate(parts)
    ]
    return other


@pytest.mark.parametrize("some", [groups.SOME, 1])
def test_a_group_gives_what_its_agents_give(some, monkeypatch):
    monkeypatch.setattr(groups, "SOME", some)
    rng = np.random.default_rng(0)
    problem = mixed(rng)
    single = alone(problem)
    assert len(problem.groups) < len(single.groups) or some == 1
    x = [rng.standard_normal(d) for d in problem.dims]
    lam = rng.standard_normal(P)
    found, wanted = problem.kkt(x, lam), single.kkt(x, lam)
    assert found.agent == wanted.agent and found.row == wanted.row
    np.testing.assert_array_equal(found.s, wanted.s)
    for name in ("stationarity", "coupling", "objective"):
        assert getattr(found, name) == getattr(wanted, name)
    assert problem.gap(x, lam) == single.gap(x, lam)
    bounds = [p.x_error_bound(x, lam) for p in (problem, single)]
    assert bounds[0].value == pytest.approx(bounds[1].value, rel=1e-8)
    for own, other in zip(problem.sizes, single.sizes, strict=True):
        np.testing.assert_array_equal(own, other)


def test_packed_arrays_do_not_depend_on_the_groups():
    problem = mixed(np.random.default_rng(1))
    together, single = pack(problem).block, pack(alone(problem)).block
    for name in ("xptr", "akind", "coef", "fcoef", "fptr", "fpool", "gptr", "gtab", "gpar", "mu"):
        np.testing.assert_array_equal(getattr(together, name), getattr(single, name), name)


def test_a_shared_matrix_is_stored_once_and_few_entries_are_read_as_sparse():
    shared, dense = sp.csc_array(sp.eye_array(8)), np.eye(8)
    agents = [d2.Agent(A, d2.SquaredNorm(1.0)) for A in (shared, shared, shared, dense)]
    block = pack(d2.Problem(agents, d2.Zero())).block
    assert len(block.sval) == 8
    read = sparsified(block)
    assert read.akind.tolist() == [1, 1, 1, 1]
    for i, agent in enumerate(agents):
        for j in range(8):
            first, last = read.place[8 * i + j]
            column = np.zeros(8)
            column[read.sidx[first:last]] = read.sval[first:last]
            np.testing.assert_array_equal(column, np.asarray(agent.A @ np.eye(8))[:, j])
