"""Plants that differ from their models: offsets, and how estimated disturbances remove them."""

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import dual2 as d2
from dual2 import mpc
from dual2.mpc.offset_free import SteadyState

TOL = 1e-9
REACHED = 1e-4
"""What the slowest mode of the closed loops (0.86) leaves of a distance of 1 in 60 steps."""


def room(name: str, decay: float = 0.9, power: float = 0.5, **more) -> mpc.Subsystem:
    """Temperature above the outside and heat of the radiator."""
    given = {"u_min": -2.0, "u_max": 3.0, "x_ref": [1.0, 0.0]} | more
    return mpc.Subsystem(name, A=[[decay, 0.05], [0.0, 0.8]], B=[[0.0], [power]], Q=[1.0, 1e-3],
                         R=0.1, resource=[[1.0]], **given)  # fmt: skip


def loop(steps: int = 60, limit: float = 4.0, formulation: str = "local", **more) -> mpc.Simulation:
    graph = nx.path_graph(2)
    rooms = [room("a"), room("b", u_ref=[0.1])]
    controller = mpc.Controller(rooms, 10, limit, graph, formulation=formulation)
    return controller.simulate([[0.0, 0.0]] * 2, steps, tol=TOL, **more)


def leaky(x, u, w, t):
    """A room that no linear model describes: losses grow with the temperature."""
    return np.array([0.9 * x[0] + 0.05 * x[1] - 0.02 * x[0] ** 2, 0.8 * x[1] + 0.4 * u[0]]) + w


PLANTS = {"a": room("a", 0.93, 0.4), "b": leaky}


def exact(name: str) -> mpc.Subsystem:
    """The same room whose state's second entry has no weight: the first can be met exactly."""
    return mpc.Subsystem(name, A=[[0.9, 0.05], [0.0, 0.8]], B=[[0.0], [0.5]], Q=[1.0, 0.0], R=0.1,
                         resource=[[1.0]], x_ref=[1.0, 0.0])  # fmt: skip


def test_estimates_remove_the_offset_that_a_wrong_model_leaves():
    controller = mpc.Controller([exact("a"), exact("b")], 10, 4.0, nx.path_graph(2))
    start = [[0.0, 0.0]] * 2
    naive = controller.simulate(start, 60, plant=PLANTS, tol=TOL)
    log = controller.simulate(start, 60, plant=PLANTS, offset_free=True, tol=TOL)
    assert all(abs(x[-1, 0] - 1.0) > 0.02 for x in naive.states)
    for s, x, u, d in zip(
        controller.subsystems, log.states, log.inputs, log.estimates, strict=True
    ):
        assert x[-1, 0] == pytest.approx(1.0, abs=REACHED)
        np.testing.assert_allclose(d[-1], x[-1] - s.A @ x[-1] - s.B @ u[-1], atol=1e-3)


def test_a_constant_disturbance_that_no_forecast_has():
    controller = mpc.Controller([exact("a"), exact("b")], 10, 4.0, nx.path_graph(2))
    draught = [[-0.04, 0.0], [0.0, 0.02]]
    log = controller.simulate([[0.0, 0.0]] * 2, 50, disturbance=draught, offset_free=1.0, tol=TOL)
    for x, d, real in zip(log.states, log.estimates, draught, strict=True):
        np.testing.assert_allclose(d[1:], np.tile(real, (49, 1)), atol=1e-12)  # after one step
        assert x[-1, 0] == pytest.approx(1.0, abs=REACHED)


def test_with_a_right_model_a_plant_and_an_estimate_of_zero_change_nothing():
    plain = loop(8)
    same = loop(8, plant=[room("a"), None])
    for a, b in zip(plain.inputs, same.inputs, strict=True):
        np.testing.assert_array_equal(a, b)
    assert all(np.all(d == 0.0) for d in loop(3, offset_free=True).estimates)


def test_both_formulations_reach_the_same_steady_state():
    ends = [loop(plant=PLANTS, offset_free=True, formulation=f) for f in ("local", "paper")]
    for a, b in zip(ends[0].states, ends[1].states, strict=True):
        np.testing.assert_allclose(a[-1], b[-1], atol=1e-4)


def test_limits_still_hold_where_the_target_is_out_of_reach():
    log = loop(30, limit=0.4, plant=PLANTS, offset_free=True)
    assert log.failure is None and np.all(log.usage <= 0.4 + 1e-6) and log.price[-1, 0] > 0


@pytest.mark.parametrize("seed", range(5))
def test_the_steady_state_is_the_nearest(seed):
    draw = np.random.default_rng(seed)
    n, m = 4, 2 if seed % 2 else 3
    A, B = 0.4 * draw.standard_normal((n, n)), draw.standard_normal((n, m))
    A[0], B[0] = np.eye(n)[0], B[0]  # an integrator
    Q = np.diag([1.0, 0.5, 0.0, 0.0]) if seed < 3 else np.eye(n)
    s = mpc.Subsystem("s", A, B, Q, np.diag(1.0 + np.arange(m)), terminal=Q, u_ref=0.3)
    w, ref = draw.standard_normal(n), draw.standard_normal(n)
    x, u = SteadyState(s).of(w, ref)
    np.testing.assert_allclose(x, s.A @ x + s.B @ u + w, atol=1e-9)
    X, U = cp.Variable(n), cp.Variable(m)
    steady = [X == s.A @ X + s.B @ U + w]
    far = cp.quad_form(X - ref, Q)
    best = cp.Problem(cp.Minimize(far), steady).solve(solver="CLARABEL")
    assert (x - ref) @ Q @ (x - ref) == pytest.approx(best, abs=1e-6)
    effort = cp.quad_form(U - s.u_ref, s.R)
    exactly = [s.Q @ (X - x) == 0]
    cp.Problem(cp.Minimize(effort), steady + exactly).solve(solver="CLARABEL")
    np.testing.assert_allclose(u, U.value, atol=1e-5)


def test_arrays_are_functions_of_the_step():
    ramp = np.column_stack([np.linspace(0.0, 1.0, 6), np.zeros(6)])
    wind = 0.05 * np.random.default_rng(0).standard_normal((20, 2))

    def rows(series, t, count):
        return series[np.minimum(np.arange(t, t + count), len(series) - 1)]

    arrays = loop(8, reference=[ramp, ramp], forecast=[wind, 0 * wind], disturbance=[wind] * 2)
    functions = loop(
        8,
        reference=lambda t: [rows(ramp, t, 11)] * 2,
        forecast=lambda t: [rows(wind, t, 10), rows(0 * wind, t, 10)],
        disturbance=lambda t: [rows(wind, t, 10)] * 2,
    )
    for a, b in zip(arrays.states, functions.states, strict=True):
        np.testing.assert_array_equal(a, b)


def test_errors():
    small = mpc.Subsystem("a", [[0.9]], [[0.5]], 1.0, 1.0)
    with pytest.raises(d2.ProblemError, match="'a': its plant has 1 states and 1 inputs"):
        loop(1, plant={"a": small})
    with pytest.raises(d2.ProblemError, match="Unknown subsystem 'c'"):
        loop(1, plant={"c": small})
    with pytest.raises(d2.ProblemError, match="plant has 1 entries for 2 subsystems"):
        loop(1, plant=[small])
    with pytest.raises(d2.ProblemError, match="its plant is float; expected a Subsystem"):
        loop(1, plant={"b": 1.0})
    with pytest.raises(d2.ProblemError, match=r"in step 0 its plant returned .* 2 finite numbers"):
        loop(1, plant={"b": lambda x, u, w, t: x * np.nan})
    with pytest.raises(
        d2.ProblemError, match=r"offset_free = 2\.0; expected True, False or a gain"
    ):
        loop(1, offset_free=2.0)
    with pytest.raises(d2.ProblemError, match=r"'b': its reference has shape \(3, 1\)"):
        loop(1, reference=[np.zeros(2), np.zeros((3, 1))])
    with pytest.raises(d2.ProblemError, match="forecast is float; expected a function of the step"):
        loop(1, forecast=1.0)


def test_a_tidy_frame_has_every_number():
    pytest.importorskip("pandas", reason="frames need pandas")
    log = loop(4)
    frame = log.frame().set_index(["quantity", "subsystem", "entry", "step"])["value"]
    assert len(frame) == 2 * 5 * 2 + 2 * 4 + 3 * 4
    assert frame["state", "b", 1, 4] == log.states[1][4, 1]
    assert frame["input", "a", 0, 2] == log.inputs[0][2, 0]
    assert frame["price", "", 0, 0] == log.price[0, 0]
