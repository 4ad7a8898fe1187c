"""Directions of one problem serve another with the same matrices: only their lengths travel."""

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from scipy.sparse.linalg import aslinearoperator

import dual2 as d2
from dual2.errors import ProblemError
from dual2.methods.subspace.cholesky import independent
from dual2.reference import solve_reference

ROWS, COLUMNS = 120, 12
STAR = d2.Network(nx.star_graph(3))


def primal(problem, **options):
    options = {"method": "Newton", "mode": "primal", "record": False, "progress": False} | options
    return d2.solve(problem, STAR, **options)


def data(seed):
    rng = np.random.default_rng([seed, 9])
    X = rng.standard_normal((ROWS, COLUMNS)) * np.geomspace(1.0, 10.0, COLUMNS)
    score = X @ rng.standard_normal(COLUMNS) / 10.0
    return X, score + 0.5 * rng.standard_normal(ROWS)


def problem_of(X, h, ridge=0.5, g=None, wrap=lambda A: A):
    blocks = np.array_split(X, 4, axis=1)
    return d2.Problem([d2.Agent(wrap(A), d2.SquaredNorm(ridge), g or d2.Zero()) for A in blocks], h)


def nothing(problem):
    return [np.zeros(d) for d in problem.dims], np.zeros(problem.p)


def agrees(problem, result):
    assert result.status == "CONVERGED" and result.certificate.kkt <= 1e-8
    x, best = np.concatenate(result.x), np.concatenate(solve_reference(problem, polish=False).x)
    np.testing.assert_allclose(x, best, atol=1e-5 * np.abs(best).max())


OTHERS = {
    "logistic": lambda y: d2.LogisticLoss(-np.sign(y)),
    "hinge": lambda y: d2.HingeLoss(np.sign(y)),
    "absolute": d2.AbsoluteLoss,
    "squared": d2.SquaredLoss,
}


@pytest.mark.parametrize("ridge", [0.5, 50.0])
@pytest.mark.parametrize("loss", OTHERS)
def test_another_loss_and_another_ridge(loss, ridge):
    X, y = data(1)
    first = primal(problem_of(X, d2.LogisticLoss(np.sign(y))))
    problem = problem_of(X, OTHERS[loss](y), ridge)
    cold, warm = primal(problem), primal(problem, start=(*nothing(problem), first))
    agrees(problem, warm)
    assert warm.counts.sums == 2 < cold.counts.sums
    assert warm.counts.floats < 0.4 * cold.counts.floats


def test_few_directions_are_a_beginning(monkeypatch):
    """An earlier run that had found few of them: the others are asked for."""
    monkeypatch.setattr("dual2.methods.subspace.smooth.CHEAP_NUMBERS", 0)
    X, y = data(2)
    first = primal(problem_of(X, d2.LogisticLoss(np.sign(y))), max_rounds=10)
    assert 0 < len(first.state["c"]) < COLUMNS
    problem = problem_of(X, d2.AbsoluteLoss(y))
    warm = primal(problem, start=(*nothing(problem), first))
    agrees(problem, warm)
    assert warm.counts.sums < primal(problem).counts.sums


def test_a_point_beside():
    """Coefficients begin at the point that is given with it."""
    X, y = data(3)
    problem = problem_of(X, d2.LogisticLoss(np.sign(y)))
    first = primal(problem)
    near = problem_of(X, d2.LogisticLoss(np.sign(y)), ridge=0.51)
    again = primal(near, start=(first.x, first.dual, first))
    agrees(near, again)
    cold = primal(near, start=(*nothing(near), first))
    assert again.counts.prox_h < cold.counts.prox_h


@pytest.mark.parametrize("kind", ["other matrices", "faces", "operators", "another method"])
def test_what_is_of_no_use_is_left(kind):
    X, y = data(4)
    h, wrap = d2.LogisticLoss(np.sign(y)), aslinearoperator if kind == "operators" else np.asarray
    earlier = problem_of(
        X + (kind == "other matrices"), h, g=d2.L1Norm(0.1) if kind == "faces" else None, wrap=wrap
    )
    first = d2.solve(earlier, STAR, max_rounds=50) if kind == "another method" else primal(earlier)
    problem = problem_of(X, h, ridge=0.7, wrap=wrap)
    cold, warm = primal(problem), primal(problem, start=(*nothing(problem), first))
    agrees(problem_of(X, h, ridge=0.7), warm)
    assert warm.counts.sums == cold.counts.sums
    np.testing.assert_array_equal(np.concatenate(warm.x), np.concatenate(cold.x))


def test_directions_that_no_longer_differ_are_forgotten():
    X, y = data(5)
    problem = problem_of(X, d2.LogisticLoss(np.sign(y)))
    first = primal(problem)
    state = dict(first.state)
    state["directions"] = np.vstack([state["directions"][:-1], state["directions"][:1]])
    state["products"] = np.vstack([state["products"][:-1], state["products"][:1]])
    other = problem_of(X, d2.AbsoluteLoss(y))
    warm = primal(other, start=(*nothing(other), replace(first, state=state)))
    agrees(other, warm)
    assert warm.counts.A == primal(other).counts.A  # all products once more


def test_a_state_with_nan_is_not_used():
    X, y = data(6)
    problem = problem_of(X, d2.LogisticLoss(np.sign(y)))
    first = primal(problem)
    state = dict(first.state)
    state["products"] = np.full_like(state["products"], np.nan)
    warm = primal(problem, start=(*nothing(problem), replace(first, state=state)))
    agrees(problem, warm)


def test_a_run_that_was_cut_continues_bit_for_bit():
    X, y = data(7)
    first = primal(problem_of(X, d2.LogisticLoss(np.sign(y))))
    problem = problem_of(X, d2.HuberLoss(y, 0.3))
    start = (*nothing(problem), first)
    whole, part = primal(problem, start=start), primal(problem, start=start, max_rounds=2)
    assert part.status in ("MAX_ROUNDS", "CONVERGED")  # the answer may be good already
    again = primal(problem, start=part)
    np.testing.assert_array_equal(np.concatenate(whole.x), np.concatenate(again.x))
    assert whole.counts.sums == again.counts.sums


def test_saved_states_stay_as_they_were():
    """A state has the products themselves: a run that goes on must not write over them."""
    X, y = data(8)
    problem = problem_of(X, d2.LogisticLoss(np.sign(y)))
    part = primal(problem, max_rounds=4)
    before = {name: np.array(value) for name, value in part.state.items()}
    primal(problem, start=part)
    for name, value in before.items():
        np.testing.assert_array_equal(part.state[name], value)


def test_what_is_no_result_is_refused():
    X, y = data(9)
    problem = problem_of(X, d2.SquaredLoss(y))
    with pytest.raises(ProblemError, match="in the third place"):
        primal(problem, start=(*nothing(problem), {}))


def test_new_directions_are_orthonormal():
    """L⁻¹(z - TQ) for known orthonormal rows Q, dependent ones among the z left out."""
    rng = np.random.default_rng(10)
    Q = np.linalg.qr(rng.standard_normal((9, 3)))[0].T
    z = rng.standard_normal((5, 9))
    z[2] = 3.0 * z[0] - z[1] + Q[1]
    T = z @ Q.T
    kept, factor = independent(z @ z.T, T)
    assert kept.tolist() == [0, 1, 3, 4]
    new = np.linalg.solve(factor, z[kept] - T[kept] @ Q)
    np.testing.assert_allclose(new @ new.T, np.eye(4), atol=1e-12)
    np.testing.assert_allclose(new @ Q.T, 0.0, atol=1e-12)
