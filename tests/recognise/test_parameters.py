"""A cvxpy model whose parameters change, whose runs end early, or that ends at an apex."""

import cvxpy as cp
import numpy as np
import pytest

import dual2 as d2
from dual2.errors import ProblemError
from dual2.recognise import model_reader

PAIR = d2.Network([(0, 1)])


@pytest.fixture
def model():
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y", nonneg=True)
    demand, weight = cp.Parameter(value=3.0, name="demand"), cp.Parameter(nonneg=True, value=1.0)
    meet, own = x + cp.sum(y) == demand, y <= weight + 17
    cost = x**2 + weight * cp.sum_squares(y) + cp.norm1(y - 1)
    limits = [meet, own, x >= -5, cp.norm(y) <= 10]
    return cp.Problem(cp.Minimize(cost), limits), (x, y), (demand, weight)


def check(problem, result, model):
    """The model has cvxpy's own answer at the present parameters."""
    value = problem.assign(result)
    found = [np.copy(v.value) for v in sorted(model.variables(), key=lambda v: v.id)]
    dual, status = float(model.constraints[0].dual_value), model.status
    assert model.constraints[1].dual_value is None and status == "optimal"
    truth = model.solve(solver="CLARABEL")
    assert value == pytest.approx(truth, abs=1e-6)
    for own, variable in zip(found, sorted(model.variables(), key=lambda v: v.id), strict=True):
        np.testing.assert_allclose(own, variable.value, atol=1e-5)
    assert dual == pytest.approx(float(model.constraints[0].dual_value), abs=1e-4)


@pytest.mark.parametrize("warm", [False, True])
def test_parameters_are_read_at_every_solve(model, warm):
    model, variables, (demand, weight) = model
    problem, result = d2.from_cvxpy(model, variables), None
    for demand.value, weight.value in [(3.0, 1.0), (7.0, 1.0), (9.0, 0.2), (3.0, 1.0)]:
        old, result = result, d2.solve(problem, PAIR, start=result if warm else None)
        assert result.status == "CONVERGED"
        check(problem, result, model)
        if old is not None:
            with pytest.raises(ProblemError, match=r"parameters .*demand.* have other values"):
                problem.assign(old)


def test_a_result_is_not_assigned_to_a_model_that_has_changed(model):
    model, variables, (demand, _) = model
    problem = d2.from_cvxpy(model, variables)
    result = d2.solve(problem, PAIR)
    demand.value = 4.0
    with pytest.raises(ProblemError, match="Solve again, then assign"):
        problem.assign(result)


def test_only_what_depends_on_parameters_is_read_again(model, monkeypatch):
    model, variables, (demand, _) = model
    problem = d2.from_cvxpy(model, variables)
    read = []
    limit = model_reader.Reading._limit
    monkeypatch.setattr(
        model_reader.Reading,
        "_limit",
        lambda self, c, text: (read.append(c.id), limit(self, c, text)),
    )
    problem.refresh()
    assert read == []
    demand.value = 5.0
    problem.refresh()
    assert read == [constraint.id for constraint in model.constraints[:2]]


@pytest.mark.parametrize("limit", [{"max_rounds": 1}, {"time_limit": 1e-9}])
def test_a_run_that_ended_early_leaves_no_values(model, limit):
    model, (x, y), _ = model
    problem = d2.from_cvxpy(model, [x, y])
    result = d2.solve(problem, PAIR, **limit)
    with pytest.warns(UserWarning, match=r"NOT SOLVED .* == demand is off by .*accept=") as told:
        assert np.isnan(problem.assign(result))
    assert len(told) == 1 and model.status == "user_limit"
    assert model.value is x.value is y.value is model.constraints[0].dual_value is None
    problem.assign(result, accept="unsolved")
    assert x.value is not None and model.status == "user_limit"


def test_quad_over_lin_at_its_apex_is_zero():
    x, t = cp.Variable(name="x"), cp.Variable(name="t", nonneg=True)
    model = cp.Problem(cp.Minimize(cp.quad_over_lin(x, t) + t + cp.abs(x) + 2), [x + t == 0])
    problem = d2.from_cvxpy(model, [x, t])
    value = problem.assign(d2.solve(problem, PAIR))
    assert value == model.value == pytest.approx(2.0, abs=1e-6) and model.status == "optimal"
