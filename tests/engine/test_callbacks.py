"""User functions called back: same answers as built-ins, exceptions unchanged."""

import networkx as nx
import numpy as np
import pytest
from scipy.sparse.linalg import LinearOperator, aslinearoperator

import dual2 as d2
from dual2.compiled import compiled
from dual2.engine.callbacks import (
    GRAD_F,
    PROX_G,
    Callbacks,
    address_of,
    call_python,
    call_step,
)

RNG = np.random.default_rng(11)
A = [RNG.standard_normal((4, 3)) for _ in range(3)]
Q = RNG.standard_normal((3, 3))
Q = Q @ Q.T + np.eye(3)
EIGENVALUES = np.linalg.eigvalsh(Q)
TARGET = np.array([1.0, -1.0, 0.5, 2.0])
NETWORK = d2.Network(nx.path_graph(3))


def built_in(f=None, g=None, h=None, wrap=lambda M: M):
    f = d2.Quadratic(Q, 1.0) if f is None else f
    g = d2.L1Norm(0.3) if g is None else g
    h = d2.SquaredLoss(TARGET, 0.5) if h is None else h
    return d2.Problem([d2.Agent(wrap(M), f, g) for M in A], h)


USER = {
    "Smooth": {
        "f": d2.Smooth(
            lambda x: Q @ x + 1.0,
            EIGENVALUES[0],
            EIGENVALUES[-1],
            value=lambda x: x @ Q @ x / 2 + x.sum(),
        )
    },
    "Proximable g": {
        "g": d2.Proximable(
            lambda v, t: np.sign(v) * np.maximum(np.abs(v) - 0.3 * t, 0),
            lambda x: 0.3 * np.abs(x).sum(),
        )
    },
    "LinearOperator": {"wrap": aslinearoperator},
    "Proximable h": {
        "h": d2.Proximable(
            lambda v, t: (v + 0.5 * t * TARGET) / (1 + 0.5 * t),
            lambda z: 0.25 * (z - TARGET) @ (z - TARGET),
        )
    },
    "ConjugateSmooth": {
        "h": d2.ConjugateSmooth(
            lambda w: 2 * w + TARGET,
            2.0,
            2.0,
            value=lambda z: 0.25 * (z - TARGET) @ (z - TARGET),
            conjugate_value=lambda w: w @ w + TARGET @ w,
        )
    },
}


@pytest.mark.parametrize("name", USER)
@pytest.mark.parametrize("method", ["iD2A", "MiD2A"])
def test_user_functions_give_the_answers_of_built_ins(name, method):
    own = d2.solve(built_in(), NETWORK, tol=1e-11)
    user = d2.solve(built_in(**USER[name]), NETWORK, tol=1e-11, method=method)
    assert user.status == "CONVERGED"
    np.testing.assert_allclose(np.concatenate(user.x), np.concatenate(own.x), atol=1e-9)
    np.testing.assert_allclose(user.dual, own.dual, atol=1e-9)
    assert user.objective == pytest.approx(own.objective, rel=1e-9)


@pytest.mark.parametrize("name", ["Smooth", "Proximable g", "LinearOperator"])
def test_user_functions_make_the_same_iterates(name):
    """Round by round, not only in the end; the theory's constants are the same."""
    point = d2.IndicatorPoint([0.1, 0.2, -0.1, 0.3])
    own, user = (
        d2.solve(built_in(h=point, **wishes), NETWORK, method="iD2A", tol=1e-15, max_rounds=60)
        for wishes in ({}, USER[name])
    )
    np.testing.assert_allclose(user.duals, own.duals, rtol=0, atol=1e-9)


def without_values():
    return {
        "f": built_in(f=d2.Smooth(lambda x: Q @ x + 1.0, EIGENVALUES[0], EIGENVALUES[-1])),
        "g": built_in(g=d2.Proximable(lambda v, t: np.maximum(v, 0.0))),
        "h": built_in(h=d2.Proximable(lambda v, t: (v + t * TARGET) / (1 + t))),
        "h*": built_in(h=d2.ConjugateSmooth(lambda w: 2 * w + TARGET, 2.0, 2.0)),
    }


@pytest.mark.parametrize("name", ["f", "g", "h", "h*"])
def test_values_are_optional(name):
    result = d2.solve(without_values()[name], NETWORK)
    assert result.status == "CONVERGED"
    assert result.certificate.kkt <= 1e-8
    assert np.isnan(result.objective)
    assert "KKT residual" in result.explain()


class OwnError(Exception):
    pass


def raising(after, make):
    """A function that works ``after`` times and then raises."""
    calls = 0

    def function(*args):
        nonlocal calls
        calls += 1
        if calls > after:
            raise OwnError(f"call {calls}")
        return make(*args)

    return function


def failing(what, after):
    if what == "grad f":
        return built_in(f=d2.Smooth(raising(after, lambda x: 2 * x), 2.0, 2.0, lambda x: x @ x))
    if what == "prox g":
        return built_in(g=d2.Proximable(raising(after, lambda v, t: v), lambda x: 0.0))
    if what == "prox h":
        prox = raising(after, lambda v, t: v / (1 + t))
        return built_in(h=d2.Proximable(prox, lambda z: z @ z / 2))
    if what == "grad h*":
        return built_in(h=d2.ConjugateSmooth(raising(after, lambda w: w), 1.0, 1.0))
    matrix = A[0]
    return built_in(
        wrap=lambda M: LinearOperator(
            matrix.shape,
            dtype=float,
            matvec=raising(after if what == "A" else 10**9, lambda x: matrix @ x),
            rmatvec=raising(after if what == "AT" else 10**9, lambda v: matrix.T @ v),
        )
    )


@pytest.mark.parametrize("what", ["grad f", "prox g", "prox h", "grad h*", "A", "AT"])
@pytest.mark.parametrize("after", [80, 153])
def test_a_users_exception_surfaces_unchanged(what, after):
    with pytest.raises(OwnError, match=rf"^call {after + 1}$"):
        d2.solve(failing(what, after), NETWORK, method="iD2A", tol=1e-14, max_rounds=10_000)
    assert d2.solve(built_in(), NETWORK).status == "CONVERGED"


def test_a_wrong_shape_is_named():
    wrong = d2.Smooth(lambda x: np.ones(len(x) + 1), 1.0, 1.0)
    with pytest.raises(d2.ProblemError, match="returned shape"):
        d2.solve(built_in(f=wrong), NETWORK)


def test_callbacks_keep_an_exception_until_asked():
    callbacks = Callbacks()
    calls = []
    callbacks.add(GRAD_F, 2, lambda: calls.append(2))
    callbacks.add(PROX_G, 0, lambda: 1 / 0)
    assert call_python(callbacks.address, GRAD_F, 2) == 0 and calls == [2]
    callbacks.check()
    assert call_python(callbacks.address, PROX_G, 0) == 1
    with pytest.raises(ZeroDivisionError):
        callbacks.check()
    callbacks.check()
    assert call_python(callbacks.address, GRAD_F, 7) == 1
    with pytest.raises(KeyError):
        callbacks.check()


@compiled
def count_above(rows, level):
    """How many entries exceed a level."""
    found = 0
    for k in range(rows.shape[1]):
        found += rows[0, k] > level
    return found


@compiled
def count_by_address(where, rows, level):
    """The same by a kernel that this one is not compiled with."""
    return call_step(where, rows, level)


@pytest.mark.parametrize("level, count", [(0.5, 2), (1.5, 1), (9.0, 0)])
def test_a_kernel_calls_another_by_its_address(level, count):
    rows = np.array([[0.0, 1.0, 2.0]])
    where = address_of(count_above, rows, level)
    assert count_by_address(where, rows, level) == count == count_above(rows, level)
